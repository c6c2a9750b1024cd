//! Synchronization objects: mutexes, semaphores, fences and CPU notifications.
//!
//! Contexts wait for and signal these objects from their queues (`waits.rs`). The client's CPU
//! waits for and signals monitored fences (`cpu.rs`) and is notified through events (`event.rs`). The
//! fences of a device that was reset pass to their maximum (`reset.rs`).
//!
//! # Invariants
//!
//! 1. An object lives while any process has a local handle to it, while an NT object keeps it, or
//!    while queued or waiting work uses it. Three counters record this: `handles`, `nt_holds` and
//!    `uses`.
//! 2. A global handle keeps no object alive. The global handle is closed with the last local
//!    handle.
//! 3. A wait acquires all the objects it names, or none.
//! 4. The value that the CPU reads from a fence's page equals the kernel's value after every
//!    change.

pub(crate) mod cpu;
pub(crate) mod event;
pub(crate) mod keyed_mutex;
pub(crate) mod nt_hold;
pub(crate) mod reset;
pub(crate) mod state;
pub(crate) mod waits;

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::operation::PAGE;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::create::Sharing;
use crate::lifetime::device::Device;
use crate::lifetime::device::UserMapping;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::objects::handle_table::ObjectId;
use crate::state::KernelState;
use event::Event;
use flight::invariant;
use flight::{Component, EventKind, Hex, LiveObject, RuleId, Subject};
pub(crate) use waits::SyncPoints;
use waits::{GpuWait, SyncPoint};

/// A synchronization object (`hSyncObject`).
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct SyncObject {
    /// The device that created it.
    pub(crate) device: Id<Device>,
    adapter: Id<Adapter>,
    /// The process that has the first handle, which is closed with the device. `None`: no client
    /// has a handle.
    process: Option<Id<Process>>,
    handle: Handle,
    pub(crate) state: SyncValue,
    /// Number of local handles, in all processes.
    pub(crate) handles: u32,
    pub(crate) global: Option<Handle>,
    /// Whether NT handles can be created for it.
    nt_shared: bool,
    /// Number of NT objects that keep it alive.
    nt_holds: u32,
    /// The handles that were opened for a device, by an NT handle.
    opened: Vec<OpenedSync>,
    /// Number of queued or waiting operations that use it.
    pub(crate) uses: u32,
    /// It may not be signaled through the first handle (`NoSignal`).
    no_signal: bool,
    /// It may not be waited for through the first handle (`NoWait`).
    no_wait: bool,
    /// A reset does not change its value (`NoSignalMaxValueOnTdr`).
    no_tdr_signal: bool,
    /// Threads that wait for it are released with the last handle, not with their own
    /// (`UnwaitCpuWaitersOnlyOnDestroy`).
    unwait_on_last_close: bool,
    /// A queued signal of it was dropped with its device.
    signal_dropped: bool,
    /// The value has 32 bits.
    is_32_bit: bool,
    /// The page that holds the value, mapped where the client's CPU reads it.
    cpu_mapping: Option<UserMapping>,
    /// The bytes last written to that page.
    last_shown: [u8; 8],
}

/// A local handle that was opened for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenedSync {
    device: Id<Device>,
    process: Id<Process>,
    handle: Handle,
    /// It may not be signaled through this handle (`NoSignal`).
    no_signal: bool,
    /// It may not be waited for through this handle (`NoWait`).
    no_wait: bool,
}

/// The type and current value of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncValue {
    Mutex {
        held: Option<MutexOwner>,
    },
    Semaphore {
        count: u32,
        limit: u32,
    },
    Fence {
        value: u64,
    },
    Monitored {
        value: u64,
    },
    /// Sets an event when signaled.
    Notification {
        event: Id<Event>,
    },
}

/// The holder of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutexOwner {
    /// The client that created it.
    Creator,
    Context(Id<Context>),
}

/// The type of object that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Held by one context at a time (`D3DDDI_SYNCHRONIZATION_MUTEX`).
    Mutex {
        /// The creator holds it initially.
        held: bool,
    },
    /// Each signal satisfies one wait (`D3DDDI_SEMAPHORE`).
    Semaphore {
        /// Initial count.
        count: u32,
        /// Maximum count; zero means no limit.
        limit: u32,
    },
    /// A value that contexts raise and wait for (`D3DDDI_FENCE`).
    Fence {
        /// Initial value.
        value: u64,
    },
    /// A value that the CPU can also read, wait for and signal (`D3DDDI_MONITORED_FENCE`).
    Monitored {
        /// Initial value.
        value: u64,
    },
    /// Sets an event when a context reaches it (`D3DDDI_CPU_NOTIFICATION`).
    Notification {
        /// The event.
        event: u32,
    },
}

/// A client's request to create an object (`D3DKMT_CREATESYNCHRONIZATIONOBJECT2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct CreateSyncRequest {
    /// The device.
    pub device: Handle,
    /// The type of object.
    pub kind: SyncKind,
    /// Which other processes may open it.
    pub sharing: Sharing,
    /// The device may not signal it (`NoSignal`).
    pub no_signal: bool,
    /// The device may not wait for it (`NoWait`).
    pub no_wait: bool,
    /// A reset does not change its value (`NoSignalMaxValueOnTdr`).
    pub no_tdr_signal: bool,
    /// Threads that wait for it are released with the last handle, not with their own
    /// (`UnwaitCpuWaitersOnlyOnDestroy`).
    pub unwait_on_last_close: bool,
}

/// What a client receives for a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSyncResponse {
    /// The local handle.
    pub handle: Handle,
    /// The global handle, if the object has one.
    pub global: Option<Handle>,
    /// The address at which the CPU reads the value, or zero.
    pub value: usize,
    /// The object, for events.
    pub object: Subject,
}

impl SyncKind {
    /// The type's name in events.
    pub fn name(self) -> &'static str {
        match self {
            SyncKind::Mutex { .. } => "mutex",
            SyncKind::Semaphore { .. } => "semaphore",
            SyncKind::Fence { .. } => "fence",
            SyncKind::Monitored { .. } => "monitored",
            SyncKind::Notification { .. } => "notification",
        }
    }

    /// The initial state of a new object. `event` is the event that a notification sets.
    fn state(self, event: Option<Id<Event>>) -> SyncValue {
        match self {
            SyncKind::Mutex { held } => {
                SyncValue::Mutex { held: held.then_some(MutexOwner::Creator) }
            }
            SyncKind::Semaphore { count, limit } => SyncValue::Semaphore { count, limit },
            SyncKind::Fence { value } => SyncValue::Fence { value },
            SyncKind::Monitored { value } => SyncValue::Monitored { value },
            SyncKind::Notification { .. } => {
                SyncValue::Notification { event: invariant(event, "a notification has its event") }
            }
        }
    }
}

impl SyncValue {
    /// The value that events report: a semaphore's count, or one for a free mutex.
    pub(crate) fn value(self) -> u64 {
        match self {
            SyncValue::Mutex { held } => u64::from(held.is_none()),
            SyncValue::Semaphore { count, .. } => u64::from(count),
            SyncValue::Fence { value } | SyncValue::Monitored { value } => value,
            SyncValue::Notification { .. } => 0,
        }
    }
}

impl SyncObject {
    /// Whether a handle, an NT object or an operation keeps it alive.
    fn is_used(&self) -> bool {
        self.handles > 0 || self.nt_holds > 0 || self.uses > 0
    }

    /// The address at which the CPU reads the value, or zero.
    fn value_address(&self) -> usize {
        self.cpu_mapping.as_ref().map_or(0, |mapping| mapping.view)
    }

    /// The highest value that the fence can have.
    fn maximum(&self) -> u64 {
        if self.is_32_bit { u64::from(u32::MAX) } else { u64::MAX }
    }

    /// The bytes that represent a value.
    fn bytes(&self, value: u64) -> [u8; 8] {
        // WINDOWS: a GPU without 64-bit atomics writes 32 bits; the upper 32 bits stay zero.
        (value & self.maximum()).to_le_bytes()
    }
}

impl Kernel {
    /// Creates an object (`D3DKMTCreateSynchronizationObject2`).
    pub fn create_sync(
        &self,
        process: ProcessId,
        request: &CreateSyncRequest,
    ) -> Result<CreateSyncResponse, KernelError> {
        let guard = self.enter_device(process, request.device)?;
        let state = &mut *self.state.lock();
        let event = match request.kind {
            SyncKind::Notification { event } => Some(state.event(process.0, event)?),
            _ => None,
        };
        let narrow = state
            .adapters
            .get(guard.adapter)
            .is_some_and(|adapter| adapter.scheduling.fences_32_bit);
        let name = self.reserve_handle(state, process.0)?;
        let shown = match request.kind {
            SyncKind::Monitored { .. } => match state.map_value(guard.adapter) {
                Ok(shown) => shown,
                Err(why) => {
                    self.cancel_handle(state, process.0, name);
                    return Err(why);
                }
            },
            _ => None,
        };
        let mut made = SyncObject {
            device: guard.device,
            adapter: guard.adapter,
            process: Some(process.0),
            handle: name.handle(),
            state: request.kind.state(event),
            handles: 1,
            global: None,
            nt_shared: request.sharing == Sharing::Nt,
            nt_holds: 0,
            opened: Vec::new(),
            uses: 0,
            no_signal: request.no_signal,
            no_wait: request.no_wait,
            no_tdr_signal: request.no_tdr_signal,
            unwait_on_last_close: request.unwait_on_last_close,
            signal_dropped: false,
            is_32_bit: narrow,
            cpu_mapping: shown,
            last_shown: [0; 8],
        };
        let global = if request.sharing == Sharing::Global {
            match state.global_handles.reserve() {
                Ok(global) => Some(global),
                Err(why) => {
                    drop(made);
                    self.cancel_handle(state, process.0, name);
                    return Err(why.into());
                }
            }
        } else {
            None
        };
        let number = state.sync.objects.reserve();
        let subject = number.subject();
        made.global = global.map(|global| state.global_handles.publish(global, number.into()));
        self.log.emit(subject, || EventKind::SyncCreated {
            device: guard.subject(),
            kind: request.kind.name().into(),
            value: made.state.value(),
            sharing: request.sharing.name().into(),
            no_signal: made.no_signal,
            no_wait: made.no_wait,
            no_tdr_signal: made.no_tdr_signal,
        });
        if let SyncValue::Notification { event } = made.state {
            state.retain_event(event);
            state.count_notice(event, true);
        }
        let result = CreateSyncResponse {
            handle: made.handle,
            global: made.global,
            value: made.value_address(),
            object: subject,
        };
        if matches!(made.state, SyncValue::Mutex { .. }) {
            state.sync.mutexes.insert(number);
        }
        state.sync.objects.fill(number, made);
        self.show_value(state, number);
        if let Some(global) = result.global {
            self.log.emit(process.subject(), || EventKind::HandleShared {
                handle: Hex(global.0),
                of: subject,
            });
        }
        self.publish_handle(state, process.0, name, number.into());
        guard.release(state);
        Ok(result)
    }

    /// Opens a shared object (`D3DKMTOpenSynchronizationObject`).
    pub fn open_sync(&self, process: ProcessId, global: Handle) -> Result<Handle, KernelError> {
        let state = &mut *self.state.lock();
        let error =
            |why| KernelError::Handle { argument: Argument::SharedSync, handle: global, why };
        let found = state.global_handles.lookup(global).map_err(error)?;
        let ObjectId::SyncObject(number) = found else {
            return Err(error(crate::objects::handle_table::HandleError::WrongKind(
                found.subject(),
            )));
        };
        let name = self.reserve_handle(state, process.0)?;
        let handle = name.handle();
        state.sync.objects[number].handles += 1;
        self.log.emit(number.subject(), || EventKind::SyncOpened {
            process: process.subject(),
            global: Hex(global.0),
        });
        self.publish_handle(state, process.0, name, number.into());
        Ok(handle)
    }

    /// Closes a handle of an object (`D3DKMTDestroySynchronizationObject`).
    pub fn destroy_sync(&self, process: ProcessId, handle: Handle) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<SyncObject>(process, Argument::Sync, handle)?;
        self.close_handle(state, process.0, handle);
        self.close_sync(state, process.0, handle, number);
        self.resume_satisfied(state);
        Ok(())
    }

    /// Handles the end of one local handle of an object.
    pub(crate) fn close_sync(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        handle: Handle,
        number: Id<SyncObject>,
    ) {
        self.judge_shown_value(state, number);
        let it = &mut state.sync.objects[number];
        it.handles -= 1;
        it.opened.retain(|opened| (opened.process, opened.handle) != (process, handle));
        let (handles, late) = (it.handles, it.unwait_on_last_close);
        // An NT object can give new handles of it.
        let last = handles == 0 && it.nt_holds == 0;
        let notice = match it.state {
            SyncValue::Notification { event } if last => Some(event),
            _ => None,
        };
        let global = if handles == 0 { it.global.take() } else { None };
        self.log.emit(number.subject(), || EventKind::SyncClosed {
            process: process.subject(),
            handles,
        });
        if let Some(global) = global {
            let _ = state.global_handles.close(global); // The object owned this live handle.
        }
        if let Some(event) = notice {
            state.count_notice(event, false);
        }
        // WINDOWS: a thread that waits on the CPU is released when its local object is destroyed
        // or, with the flag, when the last one is (documented).
        let local = |wait: &GpuWait| wait.process == process && wait.handles.contains(&handle);
        let point = SyncPoint::Object(number);
        self.release_cpu_waits(state, point, |wait| last || (!late && local(wait)));
        if last {
            // A context's wait is released with the last handle (our decision).
            self.recheck_waits(state, point);
        }
        self.end_unused_sync(state, number);
    }

    /// Destroys an object that has no handle and no user.
    pub(crate) fn end_unused_sync(&self, state: &mut KernelState, number: Id<SyncObject>) {
        if state.sync.objects.get(number).is_none_or(SyncObject::is_used) {
            return;
        }
        let Some(mut it) = state.sync.objects.take(number) else { return };
        state.sync.mutexes.remove(&number);
        if let Some(mapping) = it.cpu_mapping.take() {
            state.unmap_from_user(it.device, mapping);
        }
        self.log.emit(number.subject(), || EventKind::SyncDestroyed {});
        if let SyncValue::Notification { event } = it.state {
            state.release_event(event);
        }
    }

    /// Closes the handles that were created or opened for a device.
    ///
    /// WINDOWS: our decision; the documentation says only that a device is destroyed with its
    /// objects.
    pub(crate) fn end_syncs(&self, device: Id<Device>) {
        let state = &mut *self.state.lock();
        if state.sync.objects.is_empty() && state.sync.gpu_waits.is_empty() {
            return;
        }
        self.cancel_gpu_waits(state, |gpu_wait| gpu_wait.device == device);
        let handles = |it: &SyncObject| {
            let created = it.process.filter(|_| it.device == device);
            let created = created.map(|process| (process, it.handle));
            let opened = it.opened.iter().filter(|opened| opened.device == device);
            let opened = opened.map(|opened| (opened.process, opened.handle));
            created.into_iter().chain(opened).collect::<Vec<_>>()
        };
        let all = state.sync.objects.iter().map(|(number, it)| (number, handles(it)));
        let mine: Vec<(Id<SyncObject>, Id<Process>, Handle)> = all
            .flat_map(|(number, list)| {
                list.into_iter().map(move |(process, it)| (number, process, it))
            })
            .collect();
        for (number, process, handle) in mine {
            if state.processes[process].handles.lookup(handle) == Ok(number.into()) {
                self.close_handle(state, process, handle);
                self.close_sync(state, process, handle, number);
            }
        }
        self.wake_all(state);
    }

    /// Frees the mutexes that a destroyed context held.
    ///
    /// WINDOWS: our decision. The documentation does not say what happens to these mutexes.
    pub(crate) fn abandon_mutexes(&self, state: &mut KernelState, context: Id<Context>) {
        if state.sync.objects.is_empty() {
            return;
        }
        let held = |number: &&Id<SyncObject>| {
            let it = state.sync.objects.get(**number);
            it.is_some_and(|sync_object| {
                sync_object.state == SyncValue::Mutex { held: Some(MutexOwner::Context(context)) }
            })
        };
        let all: Vec<Id<SyncObject>> = state.sync.mutexes.iter().filter(held).copied().collect();
        for number in all {
            if let Some(it) = state.sync.objects.get_mut(number) {
                it.state = SyncValue::Mutex { held: None };
            }
            let context = context.subject();
            self.log.emit(number.subject(), || EventKind::SyncAbandoned { context });
            self.sync_changed(state, number, "abandoned");
        }
        self.resume_satisfied(state);
    }

    /// Handles a changed object: shows the new value to the CPU and checks the waiting contexts and
    /// threads.
    fn sync_changed(
        &self,
        state: &mut KernelState,
        number: Id<SyncObject>,
        component: &'static str,
    ) {
        let shown = self.show_value(state, number);
        let it = &state.sync.objects[number];
        let (value, subject) = (it.state.value(), number.subject());
        self.log.emit(subject, || EventKind::SyncSignalled { by: component.into(), value, shown });
        self.recheck_waits(state, SyncPoint::Object(number));
    }

    /// Writes a fence's value to its CPU-visible page and returns the value read back.
    fn show_value(&self, state: &mut KernelState, number: Id<SyncObject>) -> Option<u64> {
        self.judge_shown_value(state, number);
        let it = state.sync.objects.get_mut(number)?;
        let bytes = it.bytes(it.state.value());
        let UserMapping { ram, run, .. } = it.cpu_mapping.as_ref()?;
        it.last_shown = bytes;
        ram.write(run.start, &bytes);
        let mut read = [0; 8];
        ram.read(run.start, &mut read).then_some(u64::from_le_bytes(read))
    }

    /// Checks that the CPU has not written a fence's value: the mapping is read-only by contract,
    /// so only the kernel changes it.
    fn judge_shown_value(&self, state: &KernelState, number: Id<SyncObject>) {
        let it = &state.sync.objects[number];
        let (written, Some(mapping)) = (it.last_shown, &it.cpu_mapping) else { return };
        let (mut read, subject) = ([0; 8], number.subject());
        mapping.ram.read(mapping.run.start, &mut read);
        let broken = (read != written).then(|| {
            let [read, written] = [read, written].map(u64::from_le_bytes);
            format!(
                "the memory of {subject} has the value {read}, but the last signaled value is \
                 {written}: the CPU wrote to it directly instead of calling \
                 D3DKMTSignalSynchronizationObjectFromCpu"
            )
        });
        let place = "D3DKMTCreateSynchronizationObject2.FenceValueCPUVirtualAddress";
        self.log.judge(RuleId::SYNC_CREATE_006, Component::Client, subject, place, broken);
    }
}

impl KernelState {
    /// Creates an object without a handle, for a signal that also sets an event.
    pub(crate) fn create_notification(
        &mut self,
        device: Id<Device>,
        event: Id<Event>,
    ) -> Id<SyncObject> {
        self.retain_event(event);
        let adapter = self.devices[device].adapter;
        self.sync.objects.insert(SyncObject {
            device,
            adapter,
            process: None,
            handle: Handle::default(),
            state: SyncValue::Notification { event },
            handles: 0,
            global: None,
            nt_shared: false,
            nt_holds: 0,
            opened: Vec::new(),
            uses: 0,
            no_signal: false,
            no_wait: false,
            no_tdr_signal: false,
            unwait_on_last_close: false,
            signal_dropped: false,
            is_32_bit: false,
            cpu_mapping: None,
            last_shown: [0; 8],
        })
    }

    /// Allocates and maps a page for a fence's value. Returns `None` if the kernel cannot map the
    /// machine's memory.
    fn map_value(&self, adapter: Id<Adapter>) -> Result<Option<UserMapping>, KernelError> {
        let Some(memory) = self.adapter_memory(adapter) else { return Ok(None) };
        let full = KernelError::NoMemory { trim: 0 };
        let run = memory.ram.allocate(PAGE).ok_or(full.clone())?;
        if let Some(view) = memory.ram.map(&[run]) {
            Ok(Some(UserMapping { ram: memory.ram.clone(), run, view }))
        } else {
            memory.ram.free(run);
            Err(full)
        }
    }

    /// Describes an object's state for reports.
    pub(crate) fn describe_sync(&self, number: Id<SyncObject>) -> String {
        let subject = number.subject();
        match self.sync.objects.get(number).map(|sync_object| sync_object.state) {
            None => format!("{subject}, which is destroyed"),
            Some(SyncValue::Mutex { held: None }) => format!("{subject}, a mutex that is free"),
            Some(SyncValue::Mutex { held: Some(MutexOwner::Creator) }) => {
                format!("{subject}, a mutex that is held since it was created")
            }
            Some(SyncValue::Mutex { held: Some(MutexOwner::Context(context)) }) => {
                format!("{subject}, a mutex that {} holds", context.subject())
            }
            Some(SyncValue::Semaphore { count, .. }) => {
                format!("{subject}, a semaphore that has {count}")
            }
            Some(SyncValue::Fence { value } | SyncValue::Monitored { value }) => {
                format!("{subject}, which has {value}")
            }
            Some(SyncValue::Notification { .. }) => format!("{subject}, a notification"),
        }
    }

    /// Lists synchronization objects among the live objects.
    pub(crate) fn list_sync_objects(&self, all: &mut Vec<LiveObject>) {
        for (number, object) in self.sync.objects.iter() {
            all.push(LiveObject {
                subject: number.subject(),
                owner: Some(object.device.subject()),
                reasons: self.sync_references(number),
            });
        }
    }

    /// The references that keep an object alive.
    fn sync_references(&self, number: Id<SyncObject>) -> Vec<String> {
        let it = &self.sync.objects[number];
        let mut why = vec![format!("{} local handles", it.handles)];
        why.extend(it.global.map(|handle| format!("shared as {:#x}", handle.0)));
        if it.nt_holds > 0 {
            why.push(format!("kept by {} NT objects", it.nt_holds));
        }
        if it.uses > 0 {
            why.push(format!("used by {} queued or waiting operations", it.uses));
        }
        why.push(self.describe_sync(number));
        why
    }
}
