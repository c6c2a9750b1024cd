//! Lifetimes of objects: create, open, share, destroy, and every way to interrupt that.

mod asks;
mod callbacks;
mod corpus;
mod destroy_memory;
mod destroy_waits;
mod ends;
mod escapes;
mod hostile;
mod inject;
mod lifecycles;
mod power;
mod seeds;
mod sharing;
mod starts;
mod stress;
mod windows;
