//! Rules: each is broken by the driver or the trace that breaks it, and by nothing else.

mod drivers;
mod kernel;
mod streams;
mod user_mode;
