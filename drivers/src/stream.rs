//! Streaming minidrivers for tests: capture sources of a test pattern, good ones and bad ones.
//!
//! They are safe Rust on the trait of the crate `stream`; those called `table-...` are tables, as
//! drivers in C have them. A bad one is a good one with a flaw: a function that runs at the beginning of
//! each of its calls, another descriptor, or an entry or two changed.

mod bad_allocator;
mod bad_calls;
mod bad_frames;
mod bad_shapes;
mod capture;
mod inner;
mod listed;
pub mod pattern;
mod shapes;
mod table;
mod table_allocator;
mod table_bad;
mod table_careful;
mod table_hostile;
mod table_listed;
mod table_mapped;
mod table_shapes;
mod video;

pub use capture::Capture;
pub use listed::{ListedStream, Make, STREAMS, find as find_stream};
pub use video::VideoMemory;
