//! Waits and signals in the queues of contexts, and the table of pending waits.

use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::memory::address::AddressSpace;
use crate::memory::address::queued_update::FenceValue;
use crate::memory::address::update::CheckedUpdate;
use crate::memory::queue::PagingQueue;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use crate::sync::cpu::SyncUse;
use crate::sync::event::Event;
use crate::sync::{SyncObject, SyncValue};
use flight::{EventKind, Subject, Text};
use smallvec::SmallVec;

/// The objects that a context waits for or signals, each with a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncPoints {
    pub(crate) list: SmallVec<[(SyncPoint, u64); 2]>,
    /// Set if the signal takes effect only when several contexts have reached it.
    pub(crate) broadcast: Option<Id<Broadcast>>,
}

/// An object with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncPoint {
    /// A synchronization object.
    Object(Id<SyncObject>),
    /// A paging queue, represented by its fence.
    Queue(Id<PagingQueue>),
}

/// A signal of several contexts.
pub(crate) struct Broadcast {
    /// Number of contexts that have not reached it. `None`: the signal will never take effect.
    remaining: Option<u32>,
    /// Number of queued items that belong to it.
    items: u32,
}

/// A pending wait.
pub(crate) struct GpuWait {
    pub(super) waiter: Waiter,
    /// The device of the wait.
    pub(crate) device: Id<Device>,
    pub(crate) process: Id<Process>,
    pub(super) points: SyncPoints,
    /// The handles that a client's thread passed; none for a context or an address update.
    pub(super) handles: Vec<Handle>,
    /// One object is enough.
    pub(super) any: bool,
    /// The result, until the waiting thread reads it.
    pub(super) result: Option<GpuWaitResult>,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A context whose queue starts with this wait.
    Context(Id<Context>),
    /// A client's thread.
    Thread,
    /// No thread waits: an event is set.
    Event(Id<Event>),
    /// An address update of this space.
    Update { update: Id<CheckedUpdate>, space: Id<AddressSpace> },
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GpuWaitResult {
    Satisfied,
    Cancelled,
}

impl SyncPoint {
    pub(crate) fn subject(self) -> Subject {
        match self {
            SyncPoint::Object(number) => number.subject(),
            SyncPoint::Queue(number) => number.subject(),
        }
    }
}

impl SyncPoints {
    pub(crate) fn contains(&self, point: SyncPoint) -> bool {
        self.list.iter().any(|pair| pair.0 == point)
    }

    /// The number of objects.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    fn objects(&self) -> impl Iterator<Item = (Id<SyncObject>, u64)> + '_ {
        self.list.iter().filter_map(|(point, value)| match point {
            SyncPoint::Object(number) => Some((*number, *value)),
            SyncPoint::Queue(_) => None,
        })
    }
}

impl Kernel {
    /// Tries to pass a wait at the front of a context's queue: acquires all its objects or none. If
    /// it returns false, the wait is recorded for the context, and [`Kernel::advance`] is called
    /// for the context when the objects may have become available.
    pub(crate) fn try_satisfy(
        &self,
        state: &mut KernelState,
        context: Id<Context>,
        wait: &SyncPoints,
    ) -> bool {
        let noted = state.gpu_wait_of(context);
        let number = noted.unwrap_or_else(|| {
            let device = state.contexts[context].device;
            let process = state.devices[device].owner();
            let waiter = Waiter::Context(context);
            let points = wait.clone();
            self.begin_gpu_wait(
                state,
                GpuWait {
                    waiter,
                    device,
                    process,
                    points,
                    handles: Vec::new(),
                    any: false,
                    result: None,
                },
            )
        });
        // An object that is destroyed and that nothing signals any more releases the context.
        let orphaned = state.orphaned_points(wait);
        if !state.unmet_points(wait).iter().all(|point| orphaned.contains(point)) {
            return false;
        }
        for point in orphaned {
            self.log.emit(number.subject(), || EventKind::GpuWaitReleased { of: point.subject() });
        }
        self.acquire_points(state, number, context, wait);
        state.sync.gpu_waits.take(number);
        self.log.emit(number.subject(), || EventKind::GpuWaitSatisfied {});
        self.release_points(state, wait);
        true
    }

    /// Performs a signal that a context has reached: raises values and wakes waiters. The signal
    /// has already left the context's queue. `advance` is called for each context that may
    /// continue, by this call or by the thread that is already continuing contexts.
    pub(crate) fn signal_points(
        &self,
        state: &mut KernelState,
        context: Id<Context>,
        signal: &SyncPoints,
    ) {
        if self.reach_broadcast(state, context, signal) {
            let component = if signal.broadcast.is_some() { "broadcast" } else { "context" };
            for (number, value) in signal.objects() {
                self.signal_one(state, number, value, component);
            }
        }
        self.release_points(state, signal);
        self.resume_satisfied(state);
    }

    /// Releases the references of a queued wait or signal that will never be reached because its
    /// device is lost.
    pub(crate) fn cancel_points(
        &self,
        state: &mut KernelState,
        context: Option<Id<Context>>,
        points: &SyncPoints,
    ) {
        if points.broadcast.is_none()
            && let Some(number) = context.and_then(|context| state.gpu_wait_of(context))
        {
            state.sync.gpu_waits.take(number);
            self.log.emit(number.subject(), || EventKind::GpuWaitCancelled {});
        }
        if let Some(it) = points.broadcast.and_then(|it| state.sync.broadcasts.get_mut(it)) {
            it.remaining = None;
        }
        state.leave_broadcast(points);
        self.release_points(state, points);
    }

    /// Returns whether a signal takes effect now that this context has reached it.
    fn reach_broadcast(
        &self,
        state: &mut KernelState,
        context: Id<Context>,
        signal: &SyncPoints,
    ) -> bool {
        let Some(broadcast) = signal.broadcast else { return true };
        let it = &mut state.sync.broadcasts[broadcast];
        it.remaining = it.remaining.map(|number| number.saturating_sub(1));
        let remaining = it.remaining;
        let (broadcast, context) = (broadcast.serial(), context.subject());
        for (point, _) in &signal.list {
            if let Some(remaining) = remaining {
                self.log.emit(point.subject(), || EventKind::SyncReached {
                    broadcast,
                    context,
                    remaining,
                });
            }
        }
        state.leave_broadcast(signal);
        remaining == Some(0)
    }

    /// Signals one object.
    fn signal_one(
        &self,
        state: &mut KernelState,
        number: Id<SyncObject>,
        target: u64,
        component: &'static str,
    ) {
        let it = &mut state.sync.objects[number];
        match &mut it.state {
            SyncValue::Mutex { held } => *held = None,
            // WINDOWS: a signal above the limit is not documented; here it is lost.
            SyncValue::Semaphore { count, limit } if *limit == 0 || *count < *limit => {
                *count = count.saturating_add(1);
            }
            SyncValue::Semaphore { .. } => (),
            // WINDOWS: the GPU writes any value; only a CPU signal can be rejected (our reading).
            SyncValue::Fence { value } | SyncValue::Monitored { value } => *value = target,
            SyncValue::Notification { event } => {
                let event = *event;
                self.set_event(state, event, Some(number.subject()));
                return;
            }
        }
        self.sync_changed(state, number, component);
    }

    /// Releases the waits of threads and events for an object that is destroyed for them: the
    /// object counts as satisfied.
    pub(crate) fn release_cpu_waits(
        &self,
        state: &mut KernelState,
        point: SyncPoint,
        which: impl Fn(&GpuWait) -> bool,
    ) {
        let waits = |wait: &GpuWait| {
            let cpu = matches!(wait.waiter, Waiter::Thread | Waiter::Event(_));
            cpu && wait.result.is_none() && wait.points.contains(point) && which(wait)
        };
        let all = state.sync.gpu_waits.iter().filter(|pair| waits(pair.1));
        for number in all.map(|pair| pair.0).collect::<Vec<Id<GpuWait>>>() {
            self.log.emit(number.subject(), || EventKind::GpuWaitReleased { of: point.subject() });
            let it = &mut state.sync.gpu_waits[number];
            let list = it.points.list.iter().filter(|pair| pair.0 == point).copied().collect();
            let released = SyncPoints { list, broadcast: None };
            it.points.list.retain(|pair| pair.0 != point);
            let (any, rest) = (it.any, it.points.clone());
            if any || state.is_satisfied(&rest, false) {
                self.end_gpu_wait(state, number, GpuWaitResult::Satisfied);
            }
            self.release_points(state, &released);
        }
        self.wake_all(state);
    }

    /// Rechecks the waits for a changed object and ends those that are satisfied.
    pub(crate) fn recheck_waits(&self, state: &mut KernelState, point: SyncPoint) {
        if state.sync.gpu_waits.is_empty() {
            return;
        }
        let waits = |pair: &(Id<GpuWait>, &GpuWait)| {
            pair.1.result.is_none() && pair.1.points.contains(point)
        };
        let all: Vec<Id<GpuWait>> =
            state.sync.gpu_waits.iter().filter(waits).map(|pair| pair.0).collect();
        for number in all {
            // The end of another wait may have removed this one.
            let Some(it) = state.sync.gpu_waits.get(number) else { continue };
            if let Waiter::Context(context) = it.waiter {
                if !state.sync.satisfied.contains(&context) {
                    state.sync.satisfied.push_back(context);
                }
            } else if state.is_satisfied(&it.points, it.any) {
                self.end_gpu_wait(state, number, GpuWaitResult::Satisfied);
            }
        }
        self.wake_all(state);
    }

    /// Continues the contexts and address updates whose waits are satisfied. They may signal other
    /// objects; the contexts woken by that also continue here, not in a nested call.
    pub(crate) fn resume_satisfied(&self, state: &mut KernelState) {
        if std::mem::replace(&mut state.sync.waking, true) {
            return;
        }
        loop {
            if let Some(context) = state.sync.satisfied.pop_front() {
                self.context_may_advance(state, context);
            } else if let Some(update) = state.sync.due.pop_front() {
                self.update_is_due(state, update);
            } else {
                break;
            }
        }
        state.sync.waking = false;
    }

    /// Records a wait and logs it.
    pub(super) fn begin_gpu_wait(&self, state: &mut KernelState, it: GpuWait) -> Id<GpuWait> {
        let (waiter, form) = match it.waiter {
            Waiter::Context(context) => (context.subject(), "context"),
            Waiter::Thread => (it.process.subject(), "thread"),
            Waiter::Event(event) => (event.subject(), "event"),
            Waiter::Update { space, .. } => (space.subject(), "update"),
        };
        let (any, points) = (it.any, it.points.clone());
        let number = state.sync.gpu_waits.insert(it);
        let subject = number.subject();
        let form: Text = form.into();
        self.log.emit(subject, || EventKind::GpuWaitStarted {
            waiter,
            waiter_kind: form,
            any,
            count: points.count(),
        });
        for (point, value) in points.list {
            self.log.emit(subject, || EventKind::GpuWaitObject { of: point.subject(), value });
        }
        number
    }

    /// Ends the wait of a thread or an event.
    pub(super) fn end_gpu_wait(
        &self,
        state: &mut KernelState,
        number: Id<GpuWait>,
        over: GpuWaitResult,
    ) {
        // The end of another wait may have removed this one.
        let Some(it) = state.sync.gpu_waits.get_mut(number) else { return };
        if it.result.is_some() {
            return;
        }
        it.result = Some(over);
        let (waiter, points, subject) = (it.waiter, it.points.clone(), number.subject());
        if let Waiter::Event(event) = waiter {
            state.sync.gpu_waits.take(number);
            if over == GpuWaitResult::Satisfied {
                self.set_event(state, event, Some(subject));
            }
            state.release_event(event);
        }
        if let Waiter::Update { .. } = waiter {
            state.sync.gpu_waits.take(number);
        }
        let message = match over {
            GpuWaitResult::Satisfied => EventKind::GpuWaitSatisfied {},
            GpuWaitResult::Cancelled => EventKind::GpuWaitCancelled {},
        };
        self.log.emit(subject, || message);
        self.release_points(state, &points);
        match (waiter, over) {
            (Waiter::Update { update, .. }, GpuWaitResult::Satisfied) => {
                state.sync.due.push_back(update);
            }
            (Waiter::Update { update, .. }, GpuWaitResult::Cancelled) => {
                self.update_is_cancelled(state, update);
            }
            _ => (),
        }
    }

    /// Ends the waits of threads and events whose owner is destroyed.
    pub(crate) fn cancel_gpu_waits(
        &self,
        state: &mut KernelState,
        cause: impl Fn(&GpuWait) -> bool,
    ) {
        let context = |gpu_wait: &GpuWait| matches!(gpu_wait.waiter, Waiter::Context(_));
        let all = state.sync.gpu_waits.iter().filter(|(_, it)| cause(it) && !context(it));
        let all: Vec<Id<GpuWait>> = all.map(|pair| pair.0).collect();
        for number in all {
            self.end_gpu_wait(state, number, GpuWaitResult::Cancelled);
        }
        self.wake_all(state);
    }

    /// Acquires the mutexes and semaphore counts of a wait.
    fn acquire_points(
        &self,
        state: &mut KernelState,
        number: Id<GpuWait>,
        context: Id<Context>,
        wait: &SyncPoints,
    ) {
        for (object, _) in wait.objects() {
            let it = &mut state.sync.objects[object];
            match &mut it.state {
                SyncValue::Mutex { held } => *held = Some(super::MutexOwner::Context(context)),
                SyncValue::Semaphore { count, .. } => *count = count.saturating_sub(1),
                SyncValue::Fence { .. }
                | SyncValue::Monitored { .. }
                | SyncValue::Notification { .. } => continue,
            }
            let remaining = it.state.value();
            let component = number.subject();
            self.log
                .emit(object.subject(), || EventKind::SyncAcquired { by: component, remaining });
        }
    }

    /// Resolves the fence that an address update waits for and signals.
    pub(crate) fn find_update_fence(
        &self,
        state: &KernelState,
        process: ProcessId,
        device: Id<Device>,
        (handle, value): (Handle, u64),
    ) -> Result<Id<SyncObject>, KernelError> {
        let next = (handle, value.saturating_add(1));
        self.resolve_sync_point(
            state,
            process,
            device,
            next,
            SyncUse::Signal { rewinds: true },
            true,
        )?;
        match self.resolve_sync_point(
            state,
            process,
            device,
            (handle, value),
            SyncUse::Wait,
            true,
        )? {
            SyncPoint::Object(number) => Ok(number),
            // Excluded by the check above.
            SyncPoint::Queue(number) => Err(KernelError::NotMonitored(number.subject())),
        }
    }

    /// Starts an address update's wait for its fence.
    pub(crate) fn begin_update_wait(
        &self,
        state: &mut KernelState,
        (update, space): (Id<CheckedUpdate>, Id<AddressSpace>),
        (process, device): (Id<Process>, Id<Device>),
        fence: FenceValue,
    ) {
        let points = points_of(fence);
        state.retain_points(&points);
        let waiter = Waiter::Update { update, space };
        self.begin_gpu_wait(
            state,
            GpuWait {
                waiter,
                device,
                process,
                points,
                handles: Vec::new(),
                any: false,
                result: None,
            },
        );
    }

    /// Signals the fence of a completed address update.
    pub(crate) fn signal_update(&self, state: &mut KernelState, fence: FenceValue) {
        let target = fence.value.saturating_add(1);
        // A reset may have set the fence to its maximum meanwhile.
        let higher =
            state.sync.objects.get(fence.object).is_some_and(
                |sync_object| matches!(sync_object.state, SyncValue::Monitored { value } if value > target),
            );
        if !higher {
            self.signal_one(state, fence.object, target, "update");
        }
    }

    /// Releases an address update's reference to its fence.
    pub(crate) fn release_fence(&self, state: &mut KernelState, fence: FenceValue) {
        self.release_points(state, &points_of(fence));
    }

    /// Releases references to objects.
    pub(super) fn release_points(&self, state: &mut KernelState, points: &SyncPoints) {
        for (number, _) in points.objects() {
            state.sync.objects[number].uses -= 1;
            self.end_unused_sync(state, number);
            // The last queued signal of a closed object may have been dropped.
            if state.is_orphaned(SyncPoint::Object(number)) {
                self.recheck_waits(state, SyncPoint::Object(number));
            }
        }
    }
}

fn points_of(fence: FenceValue) -> SyncPoints {
    let list = SmallVec::from_slice(&[(SyncPoint::Object(fence.object), fence.value)]);
    SyncPoints { list, broadcast: None }
}

impl KernelState {
    /// Adds an address update's reference to its fence. It is released when the update has
    /// signaled.
    pub(crate) fn retain_fence(&mut self, fence: FenceValue) {
        self.retain_points(&points_of(fence));
    }

    /// Returns whether an address update can be applied.
    pub(crate) fn is_fence_reached(&self, fence: FenceValue) -> bool {
        self.is_satisfied(&points_of(fence), false)
    }

    /// Adds references to objects.
    pub(crate) fn retain_points(&mut self, points: &SyncPoints) {
        for (number, _) in points.objects() {
            self.sync.objects[number].uses += 1;
        }
    }

    /// Starts a broadcast signal of `contexts` contexts, each with one queued item.
    pub(crate) fn begin_broadcast(&mut self, contexts: u32) -> Id<Broadcast> {
        self.sync.broadcasts.insert(Broadcast { remaining: Some(contexts), items: contexts })
    }

    /// Removes an item of a broadcast. The last item removes the broadcast.
    fn leave_broadcast(&mut self, points: &SyncPoints) {
        let Some(number) = points.broadcast else { return };
        let it = &mut self.sync.broadcasts[number];
        it.items = it.items.saturating_sub(1);
        if it.items == 0 {
            self.sync.broadcasts.take(number);
        }
    }

    /// The recorded wait of a context.
    fn gpu_wait_of(&self, context: Id<Context>) -> Option<Id<GpuWait>> {
        if self.sync.gpu_waits.is_empty() {
            return None;
        }
        let waiter = Waiter::Context(context);
        self.sync.gpu_waits.iter().find(|(_, it)| it.waiter == waiter).map(|pair| pair.0)
    }

    /// Returns whether a wait is satisfied now.
    pub(super) fn is_satisfied(&self, points: &SyncPoints, any: bool) -> bool {
        let met = |(point, value): &(SyncPoint, u64)| match point {
            SyncPoint::Queue(number) => {
                self.signalled_value(*number).is_none_or(|signalled| signalled >= *value)
            }
            SyncPoint::Object(number) => {
                let often = points.list.iter().filter(|pair| pair.0 == *point).count();
                let reached = |object: &SyncObject| object.is_reached(*value, often);
                self.sync.objects.get(*number).is_none_or(reached)
            }
        };
        if any { points.list.iter().any(met) } else { points.list.iter().all(met) }
    }

    /// Whether an object has no handle, and no queued work signals it.
    fn is_orphaned(&self, point: SyncPoint) -> bool {
        match point {
            SyncPoint::Object(number) => {
                let closed =
                    self.sync.objects.get(number).is_some_and(|object| object.handles == 0);
                closed && !self.has_queued_signal(point)
            }
            SyncPoint::Queue(number) => self.signalled_value(number).is_none(),
        }
    }

    /// The objects of a wait that have not reached their value and are destroyed.
    fn orphaned_points(&self, points: &SyncPoints) -> Vec<SyncPoint> {
        let orphaned = |(point, value): &&(SyncPoint, u64)| {
            let reached = match point {
                SyncPoint::Object(number) => self
                    .sync
                    .objects
                    .get(*number)
                    .is_some_and(|object| object.is_reached(*value, 1)),
                SyncPoint::Queue(_) => false,
            };
            !reached && self.is_orphaned(*point)
        };
        points.list.iter().filter(orphaned).map(|pair| pair.0).collect()
    }

    /// Describes what a wait is missing.
    pub(crate) fn describe_missing(&self, points: &SyncPoints) -> String {
        let one = |(point, value): &(SyncPoint, u64)| match point {
            SyncPoint::Queue(number) => {
                let done = self.signalled_value(*number).unwrap_or(0);
                format!("{}, which has signalled {done}, to signal {value}", point.subject())
            }
            SyncPoint::Object(number) => {
                let stands = self.describe_sync(*number);
                match self.sync.objects.get(*number).map(|sync_object| sync_object.state) {
                    Some(SyncValue::Fence { .. } | SyncValue::Monitored { .. }) => {
                        format!("{stands}, to have {value}")
                    }
                    _ => stands,
                }
            }
        };
        let unmet = |pair: &&(SyncPoint, u64)| !self.is_point_satisfied(pair);
        let all: Vec<String> = points.list.iter().filter(unmet).map(one).collect();
        all.join(" and for ")
    }

    /// The objects of a wait that do not satisfy it now.
    pub(crate) fn unmet_points(&self, points: &SyncPoints) -> Vec<SyncPoint> {
        let unmet = |pair: &&(SyncPoint, u64)| !self.is_point_satisfied(pair);
        points.list.iter().filter(unmet).map(|pair| pair.0).collect()
    }

    fn is_point_satisfied(&self, pair: &(SyncPoint, u64)) -> bool {
        let alone = SyncPoints { list: SmallVec::from_slice(&[*pair]), broadcast: None };
        self.is_satisfied(&alone, false)
    }
}

impl SyncObject {
    /// Returns whether `often` waits for this object can pass at once.
    fn is_reached(&self, target: u64, often: usize) -> bool {
        match self.state {
            SyncValue::Mutex { held } => held.is_none(),
            SyncValue::Semaphore { count, .. } => count as usize >= often,
            SyncValue::Fence { value } | SyncValue::Monitored { value } => value >= target,
            // WINDOWS: a notification can be signaled but not waited for; a wait for one never ends
            // (our reading).
            SyncValue::Notification { .. } => false,
        }
    }
}
