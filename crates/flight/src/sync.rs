//! Where the hosts have their threads and locks from: the standard library.
//!
//! Built with `--cfg shuttle` they come from shuttle, which then decides who runs next at each of
//! them: so the `Free` host, and the kernel's one lock, run in orders that can be drawn. The log's
//! lock, and those of drivers and pools, stay the standard library's: nothing that could switch
//! happens while one is held, so under shuttle nobody ever waits for them.

/// Before one in so many calls of a driver, `Free` gives way to others; shuttle wants them all.
pub(crate) const YIELD_INTERVAL: u32 = if cfg!(shuttle) { 1 } else { 8 };

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{JoinHandle, spawn, yield_now},
    thread_local,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{JoinHandle, spawn, yield_now},
    thread_local,
};
