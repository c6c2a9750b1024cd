//! Budgets: how much memory a process should use, and the trim notifications if it uses more.

use crate::adapter::start::{Adapter, AdapterId};
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::{Component, EventKind, Passive, RuleId};
use std::sync::Arc;

/// A part of an adapter's memory that has one budget (`D3DKMT_MEMORY_SEGMENT_GROUP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentGroup {
    /// The adapter's own memory.
    Local,
    /// Apertures into system memory.
    NonLocal,
}

/// A process's share of a segment group (`D3DKMT_QUERYVIDEOMEMORYINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Number of bytes it should use at most.
    pub budget: u64,
    /// Number of bytes on its devices' residency lists.
    pub usage: u64,
    /// Number of bytes it has reserved.
    pub reserved: u64,
    /// Number of bytes it may reserve.
    pub reservable: u64,
}

/// A callback for memory shortage (`D3DKMTRegisterTrimNotification`).
pub trait TrimCallback: Send + Sync {
    /// Called to trim `bytes` bytes (`TrimToBudget`).
    fn trim(&self, bytes: u64);
}

/// A registered trim callback.
pub(crate) struct TrimRegistration {
    pub(crate) process: Id<Process>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) device: Id<Device>,
    pub(crate) callback: Arc<dyn TrimCallback>,
}

impl Kernel {
    /// Returns the share of a segment group that a process has (`D3DKMTQueryVideoMemoryInfo`):
    /// `of`, or one that is not a process of this kernel. `process` asks.
    pub fn budget(
        &self,
        process: ProcessId,
        adapter: Handle,
        of: Option<ProcessId>,
        group: SegmentGroup,
    ) -> Result<Budget, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
        let Some(of) = of else { return Ok(state.process_budget(None, number, group)) };
        let it = state.budget(of.0, number, group);
        self.log.emit(of.0.subject(), || EventKind::BudgetQueried {
            adapter: number.subject(),
            local: group == SegmentGroup::Local,
            budget: it.budget,
            usage: it.usage,
            reserved: it.reserved,
            reservable: it.reservable,
        });
        Ok(it)
    }

    /// Returns the share of a segment group that a process has on an adapter: `of`, or one that is
    /// not a process of this kernel. No event is logged.
    pub fn budget_on(
        &self,
        adapter: AdapterId,
        of: Option<ProcessId>,
        group: SegmentGroup,
    ) -> Budget {
        let state = self.state.lock();
        let process = of.and_then(|process| state.processes.get(process.0));
        state.process_budget(process, adapter.0, group)
    }

    /// Reserves bytes of a segment group for the process `of`
    /// (`D3DKMTChangeVideoMemoryReservation`). `process` asks.
    pub fn reserve_memory(
        &self,
        process: ProcessId,
        adapter: Handle,
        of: ProcessId,
        group: SegmentGroup,
        bytes: u64,
    ) -> Result<(), KernelError> {
        let mut state = self.state.lock();
        let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
        if bytes > state.budget(of.0, number, group).reservable {
            return Err(KernelError::NoMemory { trim: bytes });
        }
        // The other process may have ended.
        let Some(it) = state.processes.get_mut(of.0) else {
            return Err(KernelError::NoMemory { trim: bytes });
        };
        it.reserved.retain(|(adapter, of, _)| (*adapter, *of) != (number, group));
        it.reserved.push((number, group, bytes));
        Ok(())
    }

    /// Registers a trim callback and returns the number of the registration.
    pub fn register_trim(
        &self,
        process: ProcessId,
        device: Handle,
        callback: Arc<dyn TrimCallback>,
    ) -> Result<u32, KernelError> {
        let mut state = self.state.lock();
        let number = state.device_of(process, device)?;
        let adapter = state.devices[number].adapter;
        let trimmer = TrimRegistration { process: process.0, adapter, device: number, callback };
        Ok(state.memory.trim_registrations.insert(trimmer).serial())
    }

    /// Removes a registration. Returns whether it existed.
    ///
    /// Waits for a running notification, unless it is called from inside that notification.
    pub fn unregister_trim(&self, at: &mut Passive, process: ProcessId, number: u32) -> bool {
        let number = {
            let mut state = self.state.lock();
            let found = state.memory.trim_registrations.find_serial(number);
            let mine = |trimmer: &Id<TrimRegistration>| {
                state.memory.trim_registrations[*trimmer].process == process.0
            };
            // The client may pass a number that it does not have.
            let Some(trimmer) = found.filter(mine) else { return false };
            state.memory.trim_registrations.remove(trimmer);
            trimmer
        };
        let me = flight::current_thread();
        let callback = (number, me);
        let over = |state: &KernelState| {
            state.memory.trim_in_progress.is_none_or(|pair| pair.0 != number || pair == callback)
        };
        let what = |_: &KernelState| "a trim notification under way".to_owned();
        self.wait_until(at, process.subject(), what, over);
        true
    }

    /// Removes the registrations of a destroyed device.
    pub(crate) fn end_trims(&self, device: Id<Device>) {
        let state = &mut *self.state.lock();
        let mine = |(number, it): (Id<TrimRegistration>, &TrimRegistration)| {
            (it.device == device).then_some(number)
        };
        let remaining: Vec<Id<TrimRegistration>> =
            state.memory.trim_registrations.iter().filter_map(mine).collect();
        let about = device.subject();
        let broken = (!remaining.is_empty()).then(|| {
            format!(
                "{about} is destroyed, but {} of its trim callbacks are still registered",
                remaining.len()
            )
        });
        let place = "D3DKMTRegisterTrimNotification";
        self.log.judge(RuleId::RESID_TRIM_001, Component::Client, about, place, broken);
        for number in remaining {
            state.memory.trim_registrations.take(number);
        }
    }

    /// Schedules notifications for the processes that exceed their budget, because memory is short.
    pub(crate) fn trim_others(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let numbers: Vec<Id<TrimRegistration>> =
            state.memory.trim_registrations.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let it = state
                .memory
                .trim_registrations
                .get(number)
                .filter(|trim_registration| trim_registration.adapter == adapter);
            let over = it.is_some_and(|trim_registration| {
                state.bytes_over_budget(trim_registration.process, adapter) > 0
            });
            if over && !state.memory.pending_trims.contains(&number) {
                state.memory.pending_trims.push(number);
            }
        }
        if !state.memory.pending_trims.is_empty() {
            self.wake_one(&self.work_available);
        }
    }

    /// Notifies one client that memory is short. Returns whether there was one.
    pub(crate) fn try_trim(&self) -> bool {
        let (callback, device, bytes) = {
            let state = &mut *self.state.lock();
            // No client is left to notify.
            let Some(number) = state.memory.pending_trims.pop() else { return false };
            // It may have been unregistered meanwhile.
            let Some(it) = state.memory.trim_registrations.get(number) else { return true };
            let (callback, process, adapter) = (it.callback.clone(), it.process, it.adapter);
            let device = it.device.subject();
            // Another device may have trimmed for the same process meanwhile.
            if state.bytes_over_budget(process, adapter) == 0 {
                return true;
            }
            let bytes = self.trim_bytes(state, process, adapter, "notification", 0);
            self.log.emit(device, || EventKind::TrimNotified { flags: "to-budget".into(), bytes });
            state.memory.trim_in_progress = Some((number, flight::current_thread()));
            (callback, device, bytes)
        };
        callback.trim(bytes);
        let state = &mut *self.state.lock();
        state.memory.trim_in_progress = None;
        self.log.emit(device, || EventKind::TrimReturned { bytes });
        self.wake_all(state);
        true
    }

    /// Logs and returns the number of bytes that a process must trim.
    pub(crate) fn trim_bytes(
        &self,
        state: &KernelState,
        process: Id<Process>,
        adapter: Id<Adapter>,
        component: &'static str,
        missing: u64,
    ) -> u64 {
        let bytes = state.bytes_over_budget(process, adapter).max(missing);
        let own = state.budget(process, adapter, SegmentGroup::Local);
        let shared = state.budget(process, adapter, SegmentGroup::NonLocal);
        self.log.emit(process.subject(), || EventKind::TrimRequired {
            adapter: adapter.subject(),
            by: component.into(),
            usage: own.usage,
            budget: own.budget,
            shared_usage: shared.usage,
            shared_budget: shared.budget,
            missing,
            bytes,
        });
        bytes
    }
}

impl KernelState {
    /// Number of bytes that a process uses beyond its budget.
    fn bytes_over_budget(&self, process: Id<Process>, adapter: Id<Adapter>) -> u64 {
        let over = |group| {
            let it = self.budget(process, adapter, group);
            it.usage.saturating_sub(it.budget)
        };
        over(SegmentGroup::Local) + over(SegmentGroup::NonLocal)
    }

    pub(crate) fn device_of(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Id<Device>, KernelError> {
        self.resolve_handle::<Device>(process, Argument::Device, handle)
    }

    /// WINDOWS: a budget is a share of the memory that applications may use; the share is our
    /// decision: seven eighths, divided among the processes that have a device.
    fn budget(&self, process: Id<Process>, adapter: Id<Adapter>, group: SegmentGroup) -> Budget {
        self.process_budget(self.processes.get(process), adapter, group)
    }

    /// The share of a process, or of one that uses no adapter.
    fn process_budget(
        &self,
        process: Option<&Process>,
        adapter: Id<Adapter>,
        group: SegmentGroup,
    ) -> Budget {
        // The driver may describe no memory.
        let Some(memory) = self.adapter_memory(adapter) else { return Budget::default() };
        let targets = memory.segments.iter().any(|segment| segment.info.flags.application_target);
        let counts = |segment: &&crate::memory::Segment| {
            let of = if segment.info.flags.aperture {
                SegmentGroup::NonLocal
            } else {
                SegmentGroup::Local
            };
            of == group && (segment.info.flags.application_target || !targets)
        };
        let total: u64 =
            memory.segments.iter().filter(counts).map(|segment| segment.info.usable_bytes()).sum();
        let mut users: Vec<Option<Id<Process>>> = self
            .devices
            .iter()
            .filter(|(_, it)| it.adapter == adapter)
            .map(|(_, it)| it.process)
            .collect();
        users.sort_unstable();
        users.dedup();
        let total = if memory.pressure.is_some() { total / 2 } else { total };
        let budget = total / 8 * 7 / u64::try_from(users.len().max(1)).unwrap_or(1);
        let mine =
            |entry: &&(Id<Adapter>, SegmentGroup, u64)| (entry.0, entry.1) == (adapter, group);
        let reserved = process
            .and_then(|process| process.reserved.iter().find(mine))
            .map_or(0, |entry| entry.2);
        let usage = process.map_or(0, |process| process.usage_of(adapter, group));
        Budget { budget, usage, reserved, reservable: budget / 2 }
    }
}
