//! The streaming kernel, flown with test-pattern sources.
#![expect(clippy::disallowed_types, reason = "a driver has its own locks")]

mod capture;
mod ends;
mod legal;
mod lifecycle;
mod misuse;
mod own_rules;
mod random;
mod shapes;
mod source;
