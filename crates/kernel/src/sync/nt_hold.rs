//! Synchronization objects and keyed mutexes that NT objects keep alive.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::{Process, ProcessId};
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use crate::sync::keyed_mutex::KeyedMutex;
use crate::sync::waits::SyncPoint;
use crate::sync::{OpenedSync, SyncObject, SyncValue};
use flight::{EventKind, Hex, Subject};

/// A synchronization object that is opened by an NT handle (`D3DKMTOpenSyncObjectFromNtHandle2`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenNtSyncRequest {
    /// The device that the handle is for; `None` for a handle that belongs to the process only.
    pub device: Option<Handle>,
    /// The device may not signal it (`NoSignal`).
    pub no_signal: bool,
    /// The device may not wait for it (`NoWait`).
    pub no_wait: bool,
}

/// What a client receives for a synchronization object that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSyncResponse {
    /// The local handle.
    pub handle: Handle,
    /// The address at which the CPU reads the value; zero if it reads none.
    pub value: usize,
    /// Whether the object is a monitored fence.
    pub is_monitored: bool,
}

impl SyncObject {
    /// Whether the object may not be signaled, and not waited for, through this handle.
    pub(super) fn restrictions(&self, process: Id<Process>, handle: Handle) -> (bool, bool) {
        if self.process == Some(process) && self.handle == handle {
            return (self.no_signal, self.no_wait);
        }
        let own = |opened: &&OpenedSync| (opened.process, opened.handle) == (process, handle);
        let opened = self.opened.iter().find(own);
        opened.map_or((false, false), |opened| (opened.no_signal, opened.no_wait))
    }
}

impl Kernel {
    /// Opens a local handle of a synchronization object that an NT object keeps alive.
    pub(crate) fn open_held_sync(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        number: Id<SyncObject>,
        request: &OpenNtSyncRequest,
    ) -> Result<OpenSyncResponse, KernelError> {
        let find = |handle| state.resolve_handle::<Device>(process, Argument::Device, handle);
        let device = request.device.map(find).transpose()?;
        // WINDOWS: only an object for several adapters can be opened on another one (our reading).
        let other = |device: &Id<Device>| state.devices[*device].adapter;
        if device.as_ref().is_some_and(|it| other(it) != state.sync.objects[number].adapter) {
            return Err(KernelError::OtherAdapter(number.subject()));
        }
        let reserved = self.reserve_handle(state, process.0)?;
        let handle = reserved.handle();
        let it = &mut state.sync.objects[number];
        it.handles += 1;
        if let Some(device) = device {
            let OpenNtSyncRequest { no_signal, no_wait, .. } = *request;
            let opened = OpenedSync { device, process: process.0, handle, no_signal, no_wait };
            it.opened.push(opened);
        }
        if request.no_signal || request.no_wait {
            let (process, OpenNtSyncRequest { no_signal, no_wait, .. }) =
                (process.subject(), *request);
            self.log.emit(number.subject(), || EventKind::SyncRestricted {
                process,
                handle: Hex(handle.0),
                no_signal,
                no_wait,
            });
        }
        let is_monitored = matches!(it.state, SyncValue::Monitored { .. });
        let value = it.value_address();
        self.publish_handle(state, process.0, reserved, number.into());
        Ok(OpenSyncResponse { handle, value, is_monitored })
    }

    /// Opens a local handle of a keyed mutex that an NT object keeps alive.
    pub(crate) fn open_held_keyed_mutex(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        number: Id<KeyedMutex>,
        capacity: usize,
    ) -> Result<Handle, KernelError> {
        self.open_found_keyed_mutex(state, process, number, capacity).map(|(_, handle)| handle)
    }

    /// An NT object does not keep a synchronization object alive any more.
    pub(crate) fn release_held_sync(&self, state: &mut KernelState, number: Id<SyncObject>) {
        let it = &mut state.sync.objects[number];
        it.nt_holds -= 1;
        if it.handles == 0 && it.nt_holds == 0 {
            let notice = match it.state {
                SyncValue::Notification { event } => Some(event),
                _ => None,
            };
            if let Some(event) = notice {
                state.count_notice(event, false);
            }
            // As with the last local handle.
            let point = SyncPoint::Object(number);
            self.release_cpu_waits(state, point, |_| true);
            self.recheck_waits(state, point);
        }
        self.end_unused_sync(state, number);
        self.resume_satisfied(state);
    }

    /// An NT object does not keep a keyed mutex alive any more.
    pub(crate) fn release_held_keyed_mutex(&self, state: &mut KernelState, number: Id<KeyedMutex>) {
        state.sync.keyed_mutexes[number].nt_holds -= 1;
        self.end_unused_keyed_mutex(state, number);
        self.wake_all(state);
    }

    /// Logs that a client opened an object by an NT handle.
    pub(crate) fn log_part_opened(&self, object: Subject, process: ProcessId, of: Subject) {
        let process = process.subject();
        self.log.emit(object, || EventKind::NtPartOpened { process, of });
    }
}

impl KernelState {
    /// Whether NT handles can be created for a synchronization object.
    pub(crate) fn is_sync_nt_shared(&self, number: Id<SyncObject>) -> bool {
        self.sync.objects[number].nt_shared
    }

    /// Whether NT handles can be created for a keyed mutex.
    pub(crate) fn is_keyed_mutex_nt_shared(&self, number: Id<KeyedMutex>) -> bool {
        self.sync.keyed_mutexes[number].nt_shared
    }

    /// An NT object keeps these alive from now on.
    pub(crate) fn hold_sync_objects(
        &mut self,
        sync: Option<Id<SyncObject>>,
        keyed_mutex: Option<Id<KeyedMutex>>,
    ) {
        if let Some(number) = sync {
            self.sync.objects[number].nt_holds += 1;
        }
        if let Some(number) = keyed_mutex {
            self.sync.keyed_mutexes[number].nt_holds += 1;
        }
    }

    /// Checks that the caller's buffer, if it passed one, has room for a keyed mutex's data.
    pub(crate) fn check_keyed_mutex_buffer(
        &self,
        number: Id<KeyedMutex>,
        capacity: usize,
    ) -> Result<(), KernelError> {
        self.check_runtime_buffer(number, capacity)
    }
}
