//! Streaming minidrivers for tests: capture sources of a test pattern, good ones and bad ones.
//!
//! They are safe Rust on the trait of the crate `stream`. A bad one is a good one with a flaw: a
//! function that runs at the beginning of each of its calls, or another descriptor.

mod bad_allocator;
mod bad_calls;
mod bad_frames;
mod bad_shapes;
mod capture;
mod inner;
mod listed;
pub mod pattern;
mod shapes;
mod video;

pub use capture::Capture;
pub use listed::{ListedStream, STREAMS, find as find_stream};
pub use video::VideoMemory;
