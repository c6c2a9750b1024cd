//! Streaming minidrivers for tests: capture sources of a test pattern, good ones and bad ones.
//!
//! Those of [`TABLES`] are tables, as drivers in C have them. A bad one is a good one with an
//! entry or two changed.

pub mod pattern;
mod table;
mod table_allocator;
mod table_bad;
mod table_hostile;
mod table_listed;

pub use table_listed::{ListedTable, TABLES, find_table};
