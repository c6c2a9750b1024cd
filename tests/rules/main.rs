//! Rules: each is broken by the driver or the trace made for it, and by no other.

mod drivers;
mod kernel;
mod legal_streams;
mod streams;
mod user_mode;
