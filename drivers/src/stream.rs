//! Streaming minidrivers for tests: good and bad capture sources of a test pattern.
//!
//! They are safe Rust on the trait of the crate `stream`; drivers named `table-...` have function
//! tables, as in C. A bad driver is a good driver with a flaw: a function that runs at the
//! beginning of each call, another descriptor, or one or two changed entries.

mod bad_allocator;
mod bad_calls;
mod bad_descriptors;
mod bad_frames;
mod capture;
mod capture_state;
mod capture_variants;
pub mod legal;
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
