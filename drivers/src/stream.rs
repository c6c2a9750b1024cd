//! Streaming minidrivers for tests: capture sources of a test pattern, good ones and bad ones.
//!
//! They are safe Rust on the trait of the crate `stream`; those called `table-...` are tables, as
//! drivers in C have them. A bad one is a good one with a flaw: a function that runs at the beginning of
//! each of its calls, another descriptor, or an entry or two changed.

mod bad_allocator;
mod bad_calls;
mod bad_descriptors;
mod bad_frames;
mod capture;
mod capture_state;
mod capture_variants;
pub mod pattern;
mod registry;
mod table;
mod table_allocator;
mod table_bad;
mod table_edited_framing;
mod table_invalid_pointers;
mod table_registry;
mod table_scatter_gather;
mod table_variants;
mod video;

pub use capture::Capture;
pub use registry::{ListedStream, Make, STREAMS, find as find_stream};
pub use video::VideoMemory;
