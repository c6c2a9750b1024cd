//! Permits: the right to be inside a driver for a set of keys, acquired together.
//!
//! The threading levels of the DDI are state, not locks: a permit is held across a driver call, a
//! lock never is. A thread that must wait for a permit parks; a job without its permit is not
//! runnable.
//!
//! # Invariants
//!
//! 1. A permit has all its keys. No thread holds one key while it waits for another, so permits
//!    cannot deadlock.
//! 2. A key is held exclusively by one permit, or shared by any number.

use crate::adapter::power::PowerStatus;
use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::Generation;
use crate::kernel::Kernel;
use crate::lifetime::process::Process;
use crate::lock::StateGuard;
use crate::objects::resource::Resource;
use crate::state::KernelState;
use flight::{EventKind, Passive, Subject, WaitResult, WaitToken};
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// What a pass excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PermitKey {
    /// The adapter: shared by all calls, exclusive at levels two and three.
    Adapter(Id<Adapter>),
    /// The scheduler class of an adapter (level one).
    OneScheduler(Id<Adapter>),
    /// The threads of one process; `None` is the system.
    Process(Option<Id<Process>>),
    /// The in/out driver handle of a resource.
    Resource(Id<Resource>),
}

impl fmt::Display for PermitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adapter(id) => write!(f, "adapter {}", id.serial()),
            Self::OneScheduler(id) => write!(f, "the scheduler of adapter {}", id.serial()),
            Self::Process(Some(id)) => write!(f, "process {}", id.serial()),
            Self::Process(None) => f.write_str("the system process"),
            Self::Resource(id) => write!(f, "resource {}", id.serial()),
        }
    }
}

/// How a key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitMode {
    Shared,
    Exclusive,
}

/// The exclusion a DDI runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadingLevel {
    /// Interrupts and their DPCs: permits do not exclude them.
    None,
    /// Level zero: any number of threads, of different processes.
    Zero,
    /// Level one, the GPU scheduler's class: one thread.
    OneScheduler,
    /// Level two: no other thread is inside, and nothing is queued.
    Two,
    /// Level three: no other thread is inside.
    Three,
}

/// The keys of one permit, and the threading level they are for.
#[derive(Clone)]
pub(crate) struct PermitKeys {
    adapter: Id<Adapter>,
    class: ThreadingLevel,
    list: SmallVec<[(PermitKey, PermitMode); 3]>,
}

/// The held keys and the threads that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct PermitTable {
    /// Each held key once, with the number of its holders. The list is short: a few keys per
    /// thread.
    held: Vec<(PermitKey, PermitMode, u32)>,
    /// Adapters whose power is changing. Only the power change and the work it needs get permits.
    closed_adapters: Vec<Id<Adapter>>,
    waiting: Vec<WaitToken>,
}

/// The right to call a driver under some keys. Dropping it locks the state to release the keys; a
/// permit without keys has already been released.
pub(crate) struct DdiPermit<'k> {
    kernel: &'k Kernel,
    keys: PermitKeys,
}

/// The error of a wait for keys that no running thread can release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitStuck;

impl ThreadingLevel {
    /// Whether no other thread that uses the hardware is inside.
    pub(crate) fn is_exclusive(self) -> bool {
        match self {
            ThreadingLevel::None | ThreadingLevel::Zero | ThreadingLevel::OneScheduler => false,
            ThreadingLevel::Two | ThreadingLevel::Three => true,
        }
    }

    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            ThreadingLevel::None => "none",
            ThreadingLevel::Zero => "zero",
            ThreadingLevel::OneScheduler => "scheduler",
            ThreadingLevel::Two => "two",
            ThreadingLevel::Three => "three",
        }
    }

    /// The keys of a call of this threading level for a process (`None`: the system).
    ///
    /// WINDOWS: the pages of levels zero and one promise that two threads of one process are never
    /// inside together. Free-threaded creation and deferred destruction contradict that from WDDM 2
    /// on, so the promise holds for drivers of the first generation only (our decision).
    pub(crate) fn keys(
        self,
        adapter: Id<Adapter>,
        generation: Generation,
        process: impl Into<Option<Id<Process>>>,
    ) -> PermitKeys {
        if self.is_exclusive() {
            let list = smallvec![(PermitKey::Adapter(adapter), PermitMode::Exclusive)];
            return PermitKeys { adapter, class: self, list };
        }
        let mut list = smallvec![(PermitKey::Adapter(adapter), PermitMode::Shared)];
        if self == ThreadingLevel::OneScheduler {
            list.push((PermitKey::OneScheduler(adapter), PermitMode::Exclusive));
        }
        if generation == Generation::One {
            list.push((PermitKey::Process(process.into()), PermitMode::Exclusive));
        }
        PermitKeys { adapter, class: self, list }
    }

    /// Whether a permit of this level excludes everything that a DDI of level `needed` requires.
    ///
    /// A permit of an exclusive level excludes all other threads, so it serves every lower level,
    /// too. The scheduler's permit does not serve level zero: each of the two has its own DDIs.
    pub(crate) fn serves(self, needed: ThreadingLevel) -> bool {
        self == needed
            || self == ThreadingLevel::Three
            || (self == ThreadingLevel::Two && !needed.is_exclusive())
    }
}

impl PermitKeys {
    /// Adds a key.
    pub(crate) fn push(&mut self, key: (PermitKey, PermitMode)) {
        self.list.push(key);
    }
}

/// The keys, for wait descriptions: `adapter 1 (shared) and process 2 (exclusive)`.
impl fmt::Display for PermitKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, mode)) in self.list.iter().enumerate() {
            let mode = match mode {
                PermitMode::Shared => "shared",
                PermitMode::Exclusive => "exclusive",
            };
            write!(f, "{}{key} ({mode})", if index == 0 { "" } else { " and " })?;
        }
        Ok(())
    }
}

impl PermitTable {
    /// Acquires all keys, or none.
    fn acquire(&mut self, keys: &[(PermitKey, PermitMode)]) -> bool {
        let shut = |(key, _): &(PermitKey, PermitMode)| matches!(key, PermitKey::Adapter(it) if self.is_closed(*it));
        (self.closed_adapters.is_empty() || !keys.iter().any(shut)) && self.acquire_nested(keys)
    }

    fn is_closed(&self, adapter: Id<Adapter>) -> bool {
        self.closed_adapters.contains(&adapter)
    }

    /// Stops granting permits for an adapter, except nested ones.
    pub(crate) fn close(&mut self, adapter: Id<Adapter>) {
        self.closed_adapters.push(adapter);
    }

    /// Grants permits for the adapter again. Returns the waiters to wake.
    pub(crate) fn open(&mut self, adapter: Id<Adapter>) -> Vec<WaitToken> {
        self.closed_adapters.retain(|it| *it != adapter);
        std::mem::take(&mut self.waiting)
    }

    /// Acquires all keys, or none, even if the adapter is closed.
    fn acquire_nested(&mut self, keys: &[(PermitKey, PermitMode)]) -> bool {
        let free = |(key, mode): &(PermitKey, PermitMode)| match self
            .held
            .iter()
            .find(|entry| entry.0 == *key)
        {
            None => true,
            Some((_, held, _)) => (*held, *mode) == (PermitMode::Shared, PermitMode::Shared),
        };
        let all = keys.iter().all(free);
        if all {
            for (key, mode) in keys {
                match self.held.iter_mut().find(|entry| entry.0 == *key) {
                    Some((_, _, count)) => *count += 1,
                    None => self.held.push((*key, *mode, 1)),
                }
            }
        }
        all
    }

    /// Releases keys. Returns the waiters to wake.
    fn release(&mut self, keys: &[(PermitKey, PermitMode)]) -> Vec<WaitToken> {
        for (key, _) in keys {
            if let Some(place) = self.held.iter().position(|entry| entry.0 == *key) {
                self.held[place].2 -= 1;
                if self.held[place].2 == 0 {
                    self.held.swap_remove(place);
                }
            }
        }
        std::mem::take(&mut self.waiting)
    }
}

impl Kernel {
    /// Waits for a permit. The caller holds no other permit.
    pub(crate) fn acquire_permit(
        &self,
        at: &mut Passive,
        keys: PermitKeys,
    ) -> Result<DdiPermit<'_>, WaitStuck> {
        let (permit, state) = self.acquire_permit_locked(at, self.state.lock(), keys)?;
        drop(state);
        Ok(permit)
    }

    /// Waits for a permit and returns with the state locked: the same guard, if the call did not
    /// wait. An unreleased permit must outlive the guard (later bindings are dropped first).
    pub(crate) fn acquire_permit_locked<'k>(
        &'k self,
        at: &mut Passive,
        mut state: StateGuard<'k, KernelState>,
        keys: PermitKeys,
    ) -> Result<(DdiPermit<'k>, StateGuard<'k, KernelState>), WaitStuck> {
        while !state.permits.acquire(&keys.list) {
            let token = WaitToken::new(format!("a permit for {keys}"));
            state.permits.waiting.push(token.clone());
            drop(state);
            if let WaitResult::Stuck(_) = self.park(at, Subject::RUN, &token) {
                return Err(WaitStuck);
            }
            state = self.state.lock();
        }
        Ok((DdiPermit { kernel: self, keys }, state))
    }

    /// Returns a permit if it is available now. The permit must be released or outlive the guard.
    pub(crate) fn try_acquire_permit(
        &self,
        state: &mut KernelState,
        keys: PermitKeys,
    ) -> Option<DdiPermit<'_>> {
        let taken = state.permits.acquire(&keys.list);
        taken.then(|| DdiPermit { kernel: self, keys }) // A dropped permit releases its keys.
    }

    /// Returns a nested permit, even if its adapter is closed.
    pub(crate) fn try_acquire_nested_permit(
        &self,
        state: &mut KernelState,
        keys: PermitKeys,
    ) -> Option<DdiPermit<'_>> {
        let taken = state.permits.acquire_nested(&keys.list);
        taken.then(|| DdiPermit { kernel: self, keys }) // As above.
    }

    /// Waits for a nested permit, even if its adapter is closed. The caller holds no other permit.
    pub(crate) fn acquire_nested_permit(
        &self,
        at: &mut Passive,
        keys: &PermitKeys,
    ) -> Result<DdiPermit<'_>, WaitStuck> {
        loop {
            let token = {
                let mut state = self.state.lock();
                // The permit must be released or outlive the guard.
                if state.permits.acquire_nested(&keys.list) {
                    drop(state);
                    return Ok(DdiPermit { kernel: self, keys: keys.clone() });
                }
                let token = WaitToken::new(format!("a permit for {keys}"));
                state.permits.waiting.push(token.clone());
                token
            };
            if let WaitResult::Stuck(_) = self.park(at, Subject::RUN, &token) {
                return Err(WaitStuck);
            }
        }
    }

    /// Waits without a timeout.
    pub(crate) fn park(&self, at: &mut Passive, about: Subject, token: &WaitToken) -> WaitResult {
        self.park_until(at, about, token, None)
    }

    /// The only place where the kernel waits. Logs the start and the end of the wait.
    pub(crate) fn park_until(
        &self,
        at: &mut Passive,
        about: Subject,
        token: &WaitToken,
        deadline: Option<u64>,
    ) -> WaitResult {
        self.log.emit(about, || EventKind::WaitParked { why: token.why().to_owned().into() });
        let satisfied = self.host.park(at, token, deadline);
        match &satisfied {
            WaitResult::Stuck(graph) => {
                let component = self.state.lock().stuck_component(about);
                self.log.emit(about, || EventKind::WaitStuck { component, graph: graph.clone() });
            }
            WaitResult::Woken => {
                self.log.emit(about, || EventKind::WaitEnded { result: "woken".into() });
            }
            WaitResult::TimedOut => {
                self.log.emit(about, || EventKind::WaitEnded { result: "timed-out".into() });
            }
            WaitResult::HostEnded => {
                self.log.emit(about, || EventKind::WaitEnded { result: "over".into() });
            }
        }
        satisfied
    }

    /// A pass for paging work, and for what that takes, if it can be had now: also while the
    /// power of its adapter changes.
    pub(crate) fn try_acquire_work_permit(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        keys: PermitKeys,
    ) -> Option<DdiPermit<'_>> {
        let power = state.adapters.get(adapter).map(|adapter| &adapter.power);
        if matches!(power, Some(PowerStatus::Changing)) {
            self.try_acquire_nested_permit(state, keys)
        } else {
            self.try_acquire_permit(state, keys)
        }
    }
}

impl DdiPermit<'_> {
    /// The threading level it was acquired for.
    pub(crate) fn class(&self) -> ThreadingLevel {
        self.keys.class
    }

    /// Whether it is held for this adapter and not yet released.
    pub(crate) fn is_for(&self, adapter: Id<Adapter>) -> bool {
        self.keys.adapter == adapter && !self.keys.list.is_empty()
    }

    /// Releases the keys while the caller has the state locked.
    pub(crate) fn release(mut self, state: &mut KernelState) {
        self.release_keys(state);
    }

    fn release_keys(&mut self, state: &mut KernelState) {
        for token in state.permits.release(&self.keys.list) {
            self.kernel.wake_one(&token);
        }
        if state.has_work() {
            self.kernel.wake_one(&self.kernel.work_available);
        }
        self.keys.list.clear();
    }
}

impl Drop for DdiPermit<'_> {
    fn drop(&mut self) {
        if !self.keys.list.is_empty() {
            self.release_keys(&mut self.kernel.state.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id_list::ids;

    #[test]
    fn keys_are_taken_together_or_not_at_all() {
        let mut gate = PermitTable::default();
        let ([adapter], [first, second]) = (ids(), ids());
        let one = vec![
            (PermitKey::Adapter(adapter), PermitMode::Shared),
            (PermitKey::Resource(first), PermitMode::Exclusive),
        ];
        let two = vec![
            (PermitKey::Adapter(adapter), PermitMode::Shared),
            (PermitKey::Resource(second), PermitMode::Exclusive),
        ];
        let both = vec![
            (PermitKey::Resource(second), PermitMode::Exclusive),
            (PermitKey::Resource(first), PermitMode::Exclusive),
        ];
        assert!(gate.acquire(&one) && gate.acquire(&two));
        assert!(!gate.acquire(&one), "a resource is held exclusively");
        gate.release(&two);
        assert!(!gate.acquire(&both), "one of the two is held");
        assert!(gate.acquire(&two), "the other key was not acquired");
        assert!(
            !gate.acquire(&[(PermitKey::Adapter(adapter), PermitMode::Exclusive)]),
            "level three is exclusive"
        );
        gate.release(&one);
        gate.release(&two);
        assert!(gate.acquire(&[(PermitKey::Adapter(adapter), PermitMode::Exclusive)]));
    }
}
