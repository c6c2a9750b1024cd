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
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

use crate::adapter::power::PowerStatus;
use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::Generation;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lock::StateGuard;
use crate::objects::resource::Resource;
use crate::state::KernelState;
use flight::{EventKind, Passive, Subject, WaitResult, WaitToken};
use std::fmt;

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

/// The keys of one permit: its adapter, held shared or, at levels two and three, exclusively; and
/// what only one thread may use at a time.
#[derive(Clone, Copy)]
pub(crate) struct PermitKeys {
    adapter: Id<Adapter>,
    /// Level one also has the key of the adapter's scheduler.
    class: ThreadingLevel,
    /// The process whose threads exclude each other, if they do.
    process: Option<ProcessKey>,
    /// The resource whose driver handle is used and changed.
    resource: Option<Id<Resource>>,
}

/// The process of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessKey {
    System,
    Client(Id<Process>),
}

/// The held keys and the threads that wait for keys. The lists are short: a few keys per thread.
#[derive(Debug, Default)]
pub(crate) struct PermitTable {
    /// Adapters with a permit, and places of adapters that had one.
    adapters: Vec<HeldAdapter>,
    processes: Vec<ProcessKey>,
    resources: Vec<Id<Resource>>,
    /// Adapters whose power is changing. Only the power change and the work it needs get permits.
    closed_adapters: Vec<Id<Adapter>>,
    waiting: Vec<WaitToken>,
}

/// How an adapter's keys are held.
#[derive(Debug)]
struct HeldAdapter {
    adapter: Id<Adapter>,
    /// The number of permits of the adapter: zero if the place is free.
    permits: u32,
    /// Whether one permit has the adapter exclusively.
    exclusive: bool,
    /// Whether the scheduler's key is held.
    scheduler: bool,
}

/// The right to call a driver under some keys. Dropping it locks the state to release the keys.
pub(crate) struct DdiPermit<'k> {
    /// `None` after the permit was released.
    kernel: Option<&'k Kernel>,
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
        let excludes_threads = generation == Generation::One && !self.is_exclusive();
        PermitKeys {
            adapter,
            class: self,
            process: excludes_threads
                .then(|| process.into().map_or(ProcessKey::System, ProcessKey::Client)),
            resource: None,
        }
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
    /// The same keys, and that of a resource.
    pub(crate) fn with_resource(self, resource: Id<Resource>) -> Self {
        Self { resource: Some(resource), ..self }
    }
}

/// The keys, for wait descriptions: `adapter 1 (shared) and process 2 (exclusive)`.
impl fmt::Display for PermitKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adapter = self.adapter.serial();
        let mode = if self.class.is_exclusive() { "exclusive" } else { "shared" };
        write!(f, "adapter {adapter} ({mode})")?;
        if self.class == ThreadingLevel::OneScheduler {
            write!(f, " and the scheduler of adapter {adapter} (exclusive)")?;
        }
        match self.process {
            Some(ProcessKey::Client(process)) => {
                write!(f, " and process {} (exclusive)", process.serial())?;
            }
            Some(ProcessKey::System) => f.write_str(" and the system process (exclusive)")?,
            None => (),
        }
        if let Some(resource) = self.resource {
            write!(f, " and resource {} (exclusive)", resource.serial())?;
        }
        Ok(())
    }
}

impl PermitTable {
    /// Acquires all keys, or none.
    #[inline(always)]
    pub(crate) fn acquire(&mut self, keys: &PermitKeys) -> bool {
        let closed = !self.closed_adapters.is_empty() && self.is_closed(keys.adapter);
        !closed && self.acquire_nested(keys)
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
    #[inline(always)]
    fn acquire_nested(&mut self, keys: &PermitKeys) -> bool {
        if keys.process.is_some_and(|process| self.processes.contains(&process))
            || keys.resource.is_some_and(|resource| self.resources.contains(&resource))
        {
            return false;
        }
        let scheduler = keys.class == ThreadingLevel::OneScheduler;
        let exclusive = keys.class.is_exclusive();
        match self.adapters.iter_mut().find(|held| held.adapter == keys.adapter) {
            Some(held) if held.permits == 0 => {
                *held = HeldAdapter { adapter: keys.adapter, permits: 1, exclusive, scheduler };
            }
            Some(held) => {
                if held.exclusive || exclusive || (held.scheduler && scheduler) {
                    return false;
                }
                held.permits += 1;
                held.scheduler |= scheduler;
            }
            None => self.add_adapter(HeldAdapter {
                adapter: keys.adapter,
                permits: 1,
                exclusive,
                scheduler,
            }),
        }
        if let Some(process) = keys.process {
            self.processes.push(process);
        }
        if let Some(resource) = keys.resource {
            self.resources.push(resource);
        }
        true
    }

    /// Adds an adapter, in a free place if there is one.
    #[cold]
    fn add_adapter(&mut self, added: HeldAdapter) {
        match self.adapters.iter_mut().find(|held| held.permits == 0) {
            Some(free) => *free = added,
            None => self.adapters.push(added),
        }
    }

    /// Releases keys.
    #[inline]
    fn release(&mut self, keys: &PermitKeys) {
        if let Some(process) = keys.process {
            remove_first(&mut self.processes, |held| *held == process);
        }
        if let Some(resource) = keys.resource {
            remove_first(&mut self.resources, |held| *held == resource);
        }
        if let Some(held) = self.adapters.iter_mut().find(|held| held.adapter == keys.adapter) {
            held.scheduler &= keys.class != ThreadingLevel::OneScheduler;
            held.permits -= 1;
        }
    }
}

/// Removes the first element with this property from a list whose order does not matter.
fn remove_first<T>(list: &mut Vec<T>, is_it: impl FnMut(&T) -> bool) {
    if let Some(place) = list.iter().position(is_it) {
        list.swap_remove(place);
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
    #[inline(always)]
    pub(crate) fn acquire_permit_locked<'k>(
        &'k self,
        at: &mut Passive,
        mut state: StateGuard<'k, KernelState>,
        keys: PermitKeys,
    ) -> Result<(DdiPermit<'k>, StateGuard<'k, KernelState>), WaitStuck> {
        match self.try_acquire_permit(&mut state, keys) {
            Some(permit) => Ok((permit, state)),
            None => self.wait_for_permit(at, state, keys),
        }
    }

    #[cold]
    fn wait_for_permit<'k>(
        &'k self,
        at: &mut Passive,
        mut state: StateGuard<'k, KernelState>,
        keys: PermitKeys,
    ) -> Result<(DdiPermit<'k>, StateGuard<'k, KernelState>), WaitStuck> {
        while !state.permits.acquire(&keys) {
            let token = WaitToken::new(format!("a permit for {keys}"));
            state.permits.waiting.push(token.clone());
            drop(state);
            if let WaitResult::Stuck(_) = self.park(at, Subject::RUN, &token) {
                return Err(WaitStuck);
            }
            state = self.state.lock();
        }
        Ok((DdiPermit::of_acquired(self, keys), state))
    }

    /// Returns a permit if it is available now. The permit must be released or outlive the guard.
    #[inline(always)]
    pub(crate) fn try_acquire_permit(
        &self,
        state: &mut KernelState,
        keys: PermitKeys,
    ) -> Option<DdiPermit<'_>> {
        let taken = state.permits.acquire(&keys);
        taken.then(|| DdiPermit::of_acquired(self, keys)) // A dropped permit releases its keys.
    }

    /// Returns a nested permit, even if its adapter is closed.
    pub(crate) fn try_acquire_nested_permit(
        &self,
        state: &mut KernelState,
        keys: PermitKeys,
    ) -> Option<DdiPermit<'_>> {
        let taken = state.permits.acquire_nested(&keys);
        taken.then(|| DdiPermit::of_acquired(self, keys)) // As above.
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
                if state.permits.acquire_nested(keys) {
                    drop(state);
                    return Ok(DdiPermit::of_acquired(self, *keys));
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

    /// Waits without a timeout, with a [work token](Kernel::work_token): a wait that goes on although
    /// it is stuck counts as woken, so that it begins again with another token.
    pub(crate) fn park_for_work(
        &self,
        at: &mut Passive,
        about: Subject,
        device: Id<Device>,
        token: &WaitToken,
    ) -> WaitResult {
        let goes_on = |state: &KernelState| self.waits_for_clients(state, device);
        self.park_unless(at, about, token, None, goes_on)
    }

    /// Waits, at most until the deadline.
    pub(crate) fn park_until(
        &self,
        at: &mut Passive,
        about: Subject,
        token: &WaitToken,
        deadline: Option<u64>,
    ) -> WaitResult {
        self.park_unless(at, about, token, deadline, |_| false)
    }

    /// The only place where the kernel waits. Logs the start and the end of the wait.
    fn park_unless(
        &self,
        at: &mut Passive,
        about: Subject,
        token: &WaitToken,
        deadline: Option<u64>,
        goes_on: impl Fn(&KernelState) -> bool,
    ) -> WaitResult {
        self.log.emit(about, || EventKind::WaitParked { why: token.why().to_owned().into() });
        let mut satisfied = self.host.park(at, token, deadline);
        if matches!(satisfied, WaitResult::Stuck(_)) && goes_on(&self.state.lock()) {
            satisfied = WaitResult::Woken;
        }
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

impl<'k> DdiPermit<'k> {
    /// The permit of keys that the caller has acquired.
    #[inline(always)]
    pub(crate) fn of_acquired(kernel: &'k Kernel, keys: PermitKeys) -> Self {
        Self { kernel: Some(kernel), keys }
    }
}

impl DdiPermit<'_> {
    /// The threading level it was acquired for.
    pub(crate) fn class(&self) -> ThreadingLevel {
        self.keys.class
    }

    /// Whether it is held for this adapter and not yet released.
    pub(crate) fn is_for(&self, adapter: Id<Adapter>) -> bool {
        self.keys.adapter == adapter && self.kernel.is_some()
    }

    /// Releases the keys while the caller has the state locked.
    #[inline(always)]
    pub(crate) fn release(mut self, state: &mut KernelState) {
        if let Some(kernel) = self.kernel.take() {
            kernel.release_keys(state, &self.keys);
        }
        std::mem::forget(self); // It has nothing left to release.
    }
}

impl Kernel {
    #[inline(always)]
    fn release_keys(&self, state: &mut KernelState, keys: &PermitKeys) {
        state.permits.release(keys);
        // Mostly no thread waits.
        if !state.permits.waiting.is_empty() {
            for token in std::mem::take(&mut state.permits.waiting) {
                self.wake_one(&token);
            }
        }
        if state.has_work() {
            self.wake_one(&self.work_available);
        }
    }
}

impl Drop for DdiPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(kernel) = self.kernel {
            kernel.release_keys(&mut kernel.state.lock(), &self.keys);
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
        let ([adapter], [process], [first, second]) = (ids(), ids(), ids());
        let level = |level: ThreadingLevel| level.keys(adapter, Generation::Two, None);
        let one = level(ThreadingLevel::Zero).with_resource(first);
        let two = level(ThreadingLevel::Zero).with_resource(second);
        let both = ThreadingLevel::Zero.keys(adapter, Generation::One, process);
        let both = both.with_resource(second);
        assert!(gate.acquire(&one) && gate.acquire(&two));
        assert!(!gate.acquire(&one), "a resource is held exclusively");
        assert!(!gate.acquire(&both), "its resource is held");
        gate.release(&two);
        assert!(gate.acquire(&both), "the process's key was not acquired before");
        assert!(!gate.acquire(&both.with_resource(ids::<_, 3>()[2])), "its process is held");
        gate.release(&both);
        let scheduler = level(ThreadingLevel::OneScheduler);
        assert!(gate.acquire(&scheduler), "the adapter is shared");
        assert!(!gate.acquire(&scheduler), "there is one scheduler");
        let exclusive = level(ThreadingLevel::Three);
        assert!(!gate.acquire(&exclusive), "level three is exclusive");
        gate.release(&one);
        assert!(!gate.acquire(&exclusive), "the scheduler has the adapter still");
        gate.release(&scheduler);
        assert!(gate.acquire(&exclusive));
        assert!(!gate.acquire(&two), "the adapter is held exclusively");
        gate.release(&exclusive);
        assert!(gate.acquire(&scheduler) && gate.acquire(&two));
    }
}
