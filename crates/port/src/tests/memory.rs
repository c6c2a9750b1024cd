//! A driver with memory, flown through the table door: what it is asked, what it is told, and
//! how what it does wrong is named.
#![expect(unsafe_code, reason = "plays a driver written against the C interface")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "a driver in C proves nothing either")]

mod build;
mod callbacks;
mod driver;
mod query;
