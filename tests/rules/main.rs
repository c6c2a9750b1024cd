//! Rules: each is broken by the driver or the trace made for it, and by no other.

mod blame;
mod drivers;
mod examples;
mod kernel;
mod legal;
mod legal_streams;
mod streams;
mod user_mode;
