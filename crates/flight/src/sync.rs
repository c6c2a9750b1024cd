//! The threads and locks of the hosts: the standard library's.
//!
//! With `--cfg shuttle` they are shuttle's, which then decides at each of them which thread runs
//! next. So the threaded host, and the kernel's one lock, run in random orders. The log's lock, and
//! those of drivers and pools, stay the standard library's: no thread switch happens while one is
//! held, so under shuttle no thread waits for them.

/// The threaded host yields before one in this many driver calls; under shuttle before all.
pub(crate) const YIELD_INTERVAL: u32 = if cfg!(shuttle) { 1 } else { 8 };

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{JoinHandle, yield_now},
    thread_local,
};

/// Starts a thread. The error says why the machine has none.
#[cfg(not(shuttle))]
pub(crate) fn spawn(body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(body)
}

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{JoinHandle, yield_now},
    thread_local,
};

/// Starts a thread.
#[cfg(shuttle)]
pub(crate) fn spawn(body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    Ok(shuttle::thread::spawn(body))
}
