//! Flies a driver with memory through its table: queries, arguments, and the findings for a driver
//! that breaks rules.
#![expect(unsafe_code, reason = "acts as a driver in C")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "a driver in C has no safety comments")]

mod build;
mod callbacks;
mod driver;
mod query;
