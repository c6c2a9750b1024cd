//! A driver with memory, flown through the table door: what it is asked, what it is told, and
//! how what it does wrong is named.
#![expect(unsafe_code, reason = "plays a driver written against the C interface")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "a driver in C proves nothing either")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "memory/build.rs"]
mod build;
#[path = "memory/callbacks.rs"]
mod callbacks;
#[path = "memory/driver.rs"]
mod driver;
#[path = "memory/query.rs"]
mod query;
