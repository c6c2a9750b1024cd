//! The locks that a thread of the driver holds, and the entry rules on acquiring them.
//!
//! A finding about the order of two locks has the frames of both threads: those of this thread are
//! added where the event is written, those of the other one were recorded when it acquired them.

use crate::image::{self, ImportCall, ThreadFrames};
use crate::pool::Pool;
use crate::processor;
use crate::waits::current_call;
use flight::{Component, ExecutionContext, Log, RuleId};
use std::ops::Range;

/// The kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Spin,
    /// A fast mutex, a guarded mutex or a `KMUTEX`.
    Mutex,
    /// An `ERESOURCE`.
    Resource,
}

impl LockKind {
    fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin lock",
            Self::Mutex => "mutex",
            Self::Resource => "resource",
        }
    }

    /// Whether a thread that waits for the lock keeps the processor.
    pub(crate) fn is_spin_lock(self) -> bool {
        self == Self::Spin
    }
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) address: usize,
    pub(crate) kind: LockKind,
    /// Whether other threads can hold it at the same time.
    pub(crate) shared: bool,
    /// The return address of the call that acquired it. Zero if it is not known.
    pub(crate) caller: u64,
}

impl HeldLock {
    /// A lock that the import that runs now acquires.
    pub(crate) fn new(kind: LockKind, address: usize) -> Self {
        Self { address, kind, shared: false, caller: image::last_caller() }
    }

    /// The same lock, which other threads can hold at the same time.
    pub(crate) fn shared(self, shared: bool) -> Self {
        Self { shared, ..self }
    }
}

/// Entry rule: a thread does not wait for a lock that it holds. `own` is the kind of the lock, and
/// where the thread acquired it.
pub(crate) fn judge_own_lock(log: &Log, import: &'static str, own: Option<(&str, u64)>) {
    let broken = own.map(|(lock, caller)| {
        let acquired = acquired(caller);
        format!(
            "{import} was called for a {lock} that the thread already holds{acquired}: the thread \
             waits for itself"
        )
    });
    log.judge(RuleId::WT_LOCK_001, Component::Driver, current_call(), import, broken);
}

/// Entry rule: two locks are always acquired in the same order.
pub(crate) fn judge_lock_order(log: &Log, import: &'static str, held: &[HeldLock], new: HeldLock) {
    let pool = if held.is_empty() { None } else { ExecutionContext::attached::<Pool>() };
    let inverted = pool.and_then(|pool| {
        // Another thread can release a resource for this one.
        let thread = crate::ps::current_thread();
        let is_held = |lock: &&HeldLock| {
            lock.kind != LockKind::Resource || crate::ex_resource::is_held(lock.address, thread)
        };
        let held: Vec<HeldLock> = held.iter().filter(is_held).copied().collect();
        pool.lock_order().acquire(&held, new, this_thread)
    });
    let broken = inverted.as_ref().map(|(earlier, held)| {
        let other = if held.kind == new.kind {
            "another one".to_owned()
        } else {
            format!("a {}", held.kind.name())
        };
        let (first, second) = (image::place(earlier.first), image::place(earlier.second));
        let thread = earlier.thread.thread;
        let places = match (first.as_str(), second.as_str()) {
            ("", "") => String::new(),
            _ => format!(
                " (by t{thread}: the one that is requested now{first}, then the other{second})"
            ),
        };
        let waiting = if new.kind.is_spin_lock() { "processors" } else { "threads" };
        format!(
            "{import} was called{} for a {} while the thread holds {other}{}, but the two were also \
             acquired in the opposite order{places}: two {waiting} can wait for each other for ever",
            image::place(new.caller),
            new.kind.name(),
            acquired(held.caller),
        )
    });
    let other = inverted.map(|(earlier, _)| earlier.thread);
    image::with_other_thread(other, || {
        log.judge(RuleId::WT_LOCK_002, Component::Driver, current_call(), import, broken);
    });
}

/// Entry rule: a thread that holds a spin lock does not wait. Returns whether it holds one.
pub(crate) fn judge_wait(import: &'static str) -> bool {
    let Some((_, log)) = processor::current(import) else { return false };
    let held = processor::held_locks(import);
    let held = held.iter().rfind(|lock| lock.kind.is_spin_lock());
    let broken = held.map(|held| {
        format!("{import} waits while the thread holds a spin lock{}", acquired(held.caller))
    });
    log.judge(RuleId::WT_LOCK_003, Component::Driver, current_call(), import, broken);
    held.is_some()
}

/// Forgets the order of the locks in this memory: other locks may be there from now on.
pub(crate) fn forget_locks(memory: &Range<usize>) {
    if let Some(pool) = ExecutionContext::attached::<Pool>() {
        pool.lock_order().forget(memory);
    }
}

/// Where a lock was acquired, in parentheses; empty if that is not known.
pub(crate) fn acquired(caller: u64) -> String {
    let place = image::place(caller);
    if place.is_empty() { place } else { format!(" (acquired{place})") }
}

/// The frames of this thread.
fn this_thread() -> ThreadFrames {
    let thread = ExecutionContext::current().thread();
    let frames = ImportCall::current().map(|call| call.frames).unwrap_or_default();
    ThreadFrames { thread, frames }
}
