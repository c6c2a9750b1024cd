//! Synchronization calls of clients: CPU waits and signals take effect at once, GPU waits and
//! signals are queued to contexts.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, HandleError};
use crate::state::KernelState;
use crate::sync::waits::{GpuWait, GpuWaitResult, SyncPoint, SyncPoints, Waiter};
use crate::sync::{SyncObject, SyncValue};
use flight::{EventKind, Hex, Passive, WaitResult, WaitToken};
use smallvec::SmallVec;

/// The largest allowed distance of a 32-bit value from the current one.
const MAX_FENCE_DISTANCE: u64 = (u32::MAX / 2) as u64;

/// Signals of contexts (`D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRequest<'a> {
    /// The contexts that must all reach the signal.
    pub contexts: &'a [Handle],
    /// The objects, each with its value.
    pub list: &'a [(Handle, u64)],
    /// An event to set as well.
    pub event: Option<u32>,
}

/// A CPU wait of a client (`D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRequest<'a> {
    /// The device.
    pub device: Handle,
    /// The fences, each with its value.
    pub list: &'a [(Handle, u64)],
    /// One fence is enough (`WaitAny`).
    pub any: bool,
    /// Set this event instead of blocking the call.
    pub event: Option<u32>,
}

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncUse {
    Signal { rewinds: bool },
    Wait,
}

impl Kernel {
    /// Whether these objects are fences with a value each, or objects that share one value (the two
    /// forms of `D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU`).
    pub fn are_fences(&self, process: ProcessId, list: &[Handle]) -> bool {
        let state = self.state.lock();
        let handles = state.processes.get(process.0).map(|process| &process.handles);
        list.iter().all(|handle| match handles.map(|handle_table| handle_table.lookup(*handle)) {
            Some(Ok(ObjectId::QueueFence(_))) => true,
            Some(Ok(ObjectId::SyncObject(sync))) => {
                matches!(state.sync.objects[sync].state, SyncValue::Monitored { .. })
            }
            _ => false,
        })
    }

    /// Signals monitored fences at once (`D3DKMTSignalSynchronizationObjectFromCpu`).
    pub fn signal_from_cpu(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[(Handle, u64)],
        rewinds: bool,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let device = state.resolve_handle::<Device>(process, Argument::Device, device)?;
        let points = self.resolve_sync_points(
            state,
            process,
            device,
            list,
            SyncUse::Signal { rewinds },
            true,
        )?;
        for (point, value) in points.list {
            let SyncPoint::Object(number) = point else { continue };
            if let Some(it) = state.sync.objects.get_mut(number) {
                it.state = SyncValue::Monitored { value };
            }
            self.sync_changed(state, number, "cpu");
        }
        self.resume_satisfied(state);
        Ok(())
    }

    /// Waits until fences have their values, or sets an event when they do
    /// (`D3DKMTWaitForSynchronizationObjectFromCpu`).
    pub fn wait_from_cpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &WaitRequest<'_>,
    ) -> Result<(), KernelError> {
        let number = {
            let state = &mut *self.state.lock();
            let device =
                state.resolve_handle::<Device>(process, Argument::Device, request.device)?;
            let points = self.resolve_sync_points(
                state,
                process,
                device,
                request.list,
                SyncUse::Wait,
                true,
            )?;
            let waiter = match request.event {
                Some(event) => {
                    let event = state.event(process.0, event)?;
                    state.retain_event(event);
                    Waiter::Event(event)
                }
                None => Waiter::Thread,
            };
            state.retain_points(&points);
            let satisfied = state.is_satisfied(&points, request.any);
            let (process, any) = (process.0, request.any);
            let handles = request.list.iter().map(|pair| pair.0).collect();
            let it = GpuWait { waiter, device, process, points, handles, any, result: None };
            let number = self.begin_gpu_wait(state, it);
            if satisfied {
                self.end_gpu_wait(state, number, GpuWaitResult::Satisfied);
            }
            number
        };
        if request.event.is_some() { Ok(()) } else { self.block_thread(at, number) }
    }

    /// Waits until a paging queue's fence has a value. The queue may belong to any device.
    pub fn wait_queue(
        &self,
        at: &mut Passive,
        process: ProcessId,
        fence: Handle,
        value: u64,
    ) -> Result<(), KernelError> {
        let device = {
            let state = self.state.lock();
            let queue = state.resolve_queue_fence(process, Argument::Fence, fence)?;
            let device = state.device_of_queue(queue);
            state.devices.get(device).map(|device| device.handle).unwrap_or_default()
        };
        let request = WaitRequest { device, list: &[(fence, value)], any: false, event: None };
        self.wait_from_cpu(at, process, &request)
    }

    /// Blocks a client's thread until a wait ends.
    fn block_thread(&self, at: &mut Passive, number: Id<GpuWait>) -> Result<(), KernelError> {
        loop {
            let (token, about) = {
                let state = &mut *self.state.lock();
                // The wait is removed if its device or its process was destroyed.
                let Some(it) = state.sync.gpu_waits.get(number) else {
                    return Err(KernelError::Stuck);
                };
                let removed = KernelError::Removed(it.device.subject());
                if let Some(over) = it.result {
                    state.sync.gpu_waits.take(number);
                    return if over == GpuWaitResult::Satisfied { Ok(()) } else { Err(removed) };
                }
                let about =
                    it.points.list.first().map_or(number.subject(), |pair| pair.0.subject());
                let token = WaitToken::for_external_threads(state.describe_missing(&it.points));
                state.waiters.push(token.clone());
                (token, about)
            };
            if let WaitResult::Stuck(_) | WaitResult::HostEnded = self.park(at, about, &token) {
                let state = &mut *self.state.lock();
                self.end_gpu_wait(state, number, GpuWaitResult::Cancelled);
                state.sync.gpu_waits.take(number);
                return Err(KernelError::Stuck);
            }
        }
    }

    /// Resolves the client's handles and values, and checks that each object allows the use. `cpu`
    /// restricts the objects to those that the CPU can use.
    pub(crate) fn resolve_sync_points(
        &self,
        state: &KernelState,
        process: ProcessId,
        device: Id<Device>,
        list: &[(Handle, u64)],
        how: SyncUse,
        cpu: bool,
    ) -> Result<SyncPoints, KernelError> {
        let mut points = SmallVec::new();
        for (handle, value) in list {
            points.push((
                self.resolve_sync_point(state, process, device, (*handle, *value), how, cpu)?,
                *value,
            ));
        }
        Ok(SyncPoints { list: points, broadcast: None })
    }

    pub(super) fn resolve_sync_point(
        &self,
        state: &KernelState,
        process: ProcessId,
        device: Id<Device>,
        (handle, value): (Handle, u64),
        how: SyncUse,
        cpu: bool,
    ) -> Result<SyncPoint, KernelError> {
        let argument = Argument::Fence;
        let number = match state.find_handle(process, argument, handle)? {
            ObjectId::SyncObject(number) => number,
            // Only paging work signals the fence of a paging queue.
            ObjectId::QueueFence(queue) if how == SyncUse::Wait => {
                return Ok(SyncPoint::Queue(queue));
            }
            find_handle => {
                let why = HandleError::WrongKind(find_handle.subject());
                return Err(KernelError::Handle { argument, handle, why });
            }
        };
        let unknown = KernelError::Handle { argument, handle, why: HandleError::Unknown };
        let it = state.sync.objects.get(number).ok_or(unknown)?;
        self.judge_shown_value(state, number);
        let subject = number.subject();
        if cpu && !matches!(it.state, SyncValue::Monitored { .. }) {
            return Err(KernelError::NotMonitored(subject));
        }
        // WINDOWS: the flags belong to the local object that was created with them; an object that
        // is opened without them may be used (documented).
        let (no_signal, no_wait) = it.restrictions(process.0, handle);
        let (what, denied) = match how {
            SyncUse::Signal { .. } => ("signal", no_signal),
            SyncUse::Wait => ("wait", no_wait),
        };
        let result = if denied { "denied" } else { "taken" };
        let device = device.subject();
        self.log.emit(subject, || EventKind::SyncRequested {
            device,
            handle: Hex(handle.0),
            operation: what.into(),
            result: result.into(),
        });
        if denied {
            return Err(KernelError::AccessDenied(subject));
        }
        it.allows(value, how).map_err(|current| match current {
            ValueError::Decreases(current) => {
                KernelError::FenceDecreases { sync: subject, value, current }
            }
            ValueError::TooFar(current) => {
                KernelError::FenceTooFar { sync: subject, value, current }
            }
        })?;
        Ok(SyncPoint::Object(number))
    }
}

/// Why a value is not allowed, with the current value.
enum ValueError {
    Decreases(u64),
    TooFar(u64),
}

impl SyncObject {
    /// Checks whether a value can be signaled or waited for.
    fn allows(&self, asked: u64, how: SyncUse) -> Result<(), ValueError> {
        let SyncValue::Monitored { value } = self.state else { return Ok(()) };
        if self.is_32_bit && asked.abs_diff(value) > MAX_FENCE_DISTANCE {
            return Err(ValueError::TooFar(value));
        }
        // WINDOWS: a lower value is rejected (observed); that the current value is accepted is our
        // decision.
        match how {
            SyncUse::Signal { rewinds: false } if asked < value => {
                Err(ValueError::Decreases(value))
            }
            SyncUse::Signal { .. } | SyncUse::Wait => Ok(()),
        }
    }
}

impl KernelState {
    /// The devices of contexts. Fails if a device is lost.
    pub(crate) fn devices_named(
        &self,
        process: ProcessId,
        contexts: &[Handle],
    ) -> Result<Vec<Id<Device>>, KernelError> {
        let device = |handle: &Handle| {
            let number = self.resolve_handle::<Context>(process, Argument::Context, *handle)?;
            let device = self.contexts[number].device;
            self.check_working(device).map(|()| device)
        };
        contexts.iter().map(device).collect()
    }
}
