//! The state of the two threads: expected resources, and what the threads share.

use abi::D3DKMT_HANDLE;
use harness::{Picture, Watch};
use runtime::{Resource, Surface};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A result with a description of the failure.
pub(super) type TestResult<T> = Result<T, String>;

pub(super) fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value of a call that has to succeed.
pub(super) fn expect_ok<T>(call: &str, answer: Result<T, impl Debug>) -> TestResult<T> {
    answer.map_err(|why| format!("{call} returned {why:x?}"))
}

/// The origin of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    System,
    Shared,
    /// The other thread created it.
    Opened,
}

/// The expected state of a resource.
pub(super) struct TestResource {
    pub(super) resource: Resource,
    pub(super) kind: Kind,
    pub(super) pictures: Vec<Picture>,
    /// The offer to the other thread; from then on the resource is only destroyed here.
    pub(super) offer: Option<Arc<Offer>>,
}

/// An offered shared resource.
pub(super) struct Offer {
    pub(super) global: D3DKMT_HANDLE,
    pub(super) surfaces: Vec<Surface>,
    pub(super) bytes: Mutex<Vec<Vec<Option<u8>>>>,
    pub(super) state: AtomicUsize,
}

pub(super) const OFFERED: usize = 0;
pub(super) const CLAIMED: usize = 1;
pub(super) const OPENED: usize = 2;
pub(super) const RETURNED: usize = 3;
pub(super) const WITHDRAWN: usize = 4;

impl Offer {
    pub(super) fn moves(&self, from: usize, to: usize) -> bool {
        self.state.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }
}

/// The number of actions of both threads.
#[derive(Default, Debug)]
pub(super) struct Counts {
    pub(super) created: AtomicUsize,
    pub(super) opened: AtomicUsize,
    pub(super) compares: AtomicUsize,
    pub(super) busy: AtomicUsize,
    pub(super) devices: AtomicUsize,
}

/// The common state of the two threads.
pub(super) struct SharedState {
    pub(super) offered: [Mutex<Vec<Arc<Offer>>>; 2],
    pub(super) watch: Watch,
    pub(super) counts: Counts,
}
