//! Lifetimes of objects: create, open, share, destroy, and every way to interrupt that.

mod callbacks;
mod corpus;
mod destroy;
mod destroy_memory;
mod destroy_waits;
mod escapes;
mod hostile;
mod inject;
mod lifecycles;
mod power;
mod query;
mod racing;
mod seeds;
mod sharing;
mod start_stop;
mod stress;
mod windows_observations;
