//! Keyed mutexes: ordered access to objects that processes share.
//!
//! # Invariants (2 and 3 are checked by [`KernelState::validate_keyed_mutexes`])
//!
//! 1. A mutex is free for one key, owned through one handle, or abandoned. An abandoned mutex stays
//!    abandoned. A release sets the next key, and the fence value for the next owner.
//! 2. A mutex lives while a process has a handle to it or an NT object keeps it. The owning handle is
//!    one of these handles.
//! 3. A global handle does not keep the mutex alive. It is closed with the last local handle.
//!
//! WINDOWS: all of them are observed.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::{Kernel, WaitOutcome};
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, HandleError};
use crate::state::KernelState;
use flight::{EventKind, Hex, LiveObject, Passive, Subject};

/// A keyed mutex.
#[derive(Debug)]
pub(crate) struct KeyedMutex {
    state: KeyedMutexState,
    /// The local handles of all processes.
    handles: Vec<KeyedMutexHandle>,
    global: Option<Handle>,
    /// Whether NT handles can be created for it.
    pub(super) nt_shared: bool,
    /// Number of NT objects that keep it alive.
    pub(super) nt_holds: u32,
    /// The client runtime's private data, as last set.
    runtime: Vec<u8>,
}

/// A local handle and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyedMutexHandle {
    process: Id<Process>,
    handle: Handle,
}

/// Whether the mutex is free, owned or abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyedMutexState {
    /// Free for a caller that acquires `key`, which receives `fence`.
    Free { key: u64, fence: u64 },
    /// Owned through this handle.
    Owned(KeyedMutexHandle),
    /// Abandoned: it cannot be acquired any more.
    Abandoned,
}

/// A request to create a keyed mutex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateKeyedMutexRequest {
    /// The initial key.
    pub key: u64,
    /// The client runtime's private data.
    pub runtime: Vec<u8>,
    /// Shared by NT handle: no global handle is created.
    pub nt: bool,
}

/// What a client receives for a new keyed mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateKeyedMutexResponse {
    /// The local handle.
    pub handle: Handle,
    /// The global handle.
    pub global: Option<Handle>,
}

/// The result of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireKeyedMutexResponse {
    /// The caller owns it.
    Owned {
        /// The fence value of the last release.
        fence: u64,
        /// The client runtime's private data, if the caller's buffer had room for it.
        runtime: Vec<u8>,
    },
    /// The key was not released in time.
    TimedOut,
    /// The owner closed its handle without a release.
    Abandoned,
}

/// A release of a keyed mutex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseKeyedMutexRequest {
    /// The next key.
    pub key: u64,
    /// The fence value for the next owner.
    pub fence: u64,
    /// New private data of the client runtime, if it changes.
    pub runtime: Option<Vec<u8>>,
}

impl KeyedMutexHandle {
    /// The process and the handle, for events.
    fn event_fields(self) -> (Subject, Hex) {
        (self.process.subject(), Hex(self.handle.0))
    }
}

impl Kernel {
    /// Creates a keyed mutex (`D3DKMTCreateKeyedMutex2`).
    pub fn create_keyed_mutex(
        &self,
        process: ProcessId,
        request: CreateKeyedMutexRequest,
    ) -> Result<CreateKeyedMutexResponse, KernelError> {
        let state = &mut *self.state.lock();
        let local = self.reserve_handle(state, process.0)?;
        let shared = if request.nt { Ok(None) } else { state.global_handles.reserve().map(Some) };
        let shared = match shared {
            Ok(it) => it,
            Err(why) => {
                self.cancel_handle(state, process.0, local);
                return Err(why.into());
            }
        };
        let number = state.sync.keyed_mutexes.reserve();
        let subject = number.subject();
        let name = KeyedMutexHandle { process: process.0, handle: local.handle() };
        let global = shared
            .map(|reserved_handle| state.global_handles.publish(reserved_handle, number.into()));
        let CreateKeyedMutexRequest { key, runtime, nt } = request;
        let (owner, handle) = name.event_fields();
        self.log.emit(subject, || EventKind::KeyedMutexCreated {
            process: owner,
            handle,
            global: Hex(global.unwrap_or_default().0),
            sharing: if nt { "nt" } else { "global" }.into(),
            key,
            runtime: runtime.len() as u64,
        });
        let free = KeyedMutexState::Free { key, fence: 0 };
        let handles = vec![name];
        let mutex =
            KeyedMutex { state: free, handles, global, nt_shared: nt, nt_holds: 0, runtime };
        state.sync.keyed_mutexes.fill(number, mutex);
        self.publish_handle(state, process.0, local, number.into());
        if let Some(it) = global {
            self.log.emit(owner, || EventKind::HandleShared { handle: Hex(it.0), of: subject });
        }
        Ok(CreateKeyedMutexResponse { handle: name.handle, global })
    }

    /// Opens a handle to a keyed mutex for a process (`D3DKMTOpenKeyedMutex2`). `room` is the size
    /// of the caller's buffer for the runtime's data, or zero if there is none.
    pub fn open_keyed_mutex(
        &self,
        process: ProcessId,
        global: Handle,
        capacity: usize,
    ) -> Result<(Subject, Handle), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.find_shared_keyed_mutex(global)?;
        self.open_found_keyed_mutex(state, process, number, capacity)
    }

    /// Opens a handle to a keyed mutex that was found.
    pub(super) fn open_found_keyed_mutex(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        number: Id<KeyedMutex>,
        capacity: usize,
    ) -> Result<(Subject, Handle), KernelError> {
        let subject = number.subject();
        if let Err(why) = state.check_runtime_buffer(number, capacity) {
            self.log.emit(subject, || EventKind::KeyedMutexOpenFailed {
                process: process.subject(),
                capacity: capacity as u64,
            });
            return Err(why);
        }
        let local = self.reserve_handle(state, process.0)?;
        let name = KeyedMutexHandle { process: process.0, handle: local.handle() };
        state.sync.keyed_mutexes[number].handles.push(name);
        self.publish_handle(state, process.0, local, number.into());
        let (process, handle) = name.event_fields();
        self.log.emit(subject, || EventKind::KeyedMutexOpened {
            process,
            handle,
            capacity: capacity as u64,
        });
        Ok((subject, name.handle))
    }

    /// Closes a handle of a keyed mutex (`D3DKMTDestroyKeyedMutex`).
    pub fn destroy_keyed_mutex(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<KeyedMutex>(process, Argument::KeyedMutex, handle)?;
        self.close_handle(state, process.0, handle);
        self.close_keyed_mutex(state, number, process.0, handle);
        Ok(())
    }

    /// Handles a closed handle. The mutex is abandoned if it was owned through this handle, and
    /// destroyed if this was its last handle.
    pub(crate) fn close_keyed_mutex(
        &self,
        state: &mut KernelState,
        number: Id<KeyedMutex>,
        process: Id<Process>,
        handle: Handle,
    ) {
        let it = &mut state.sync.keyed_mutexes[number];
        let (subject, name) = (number.subject(), KeyedMutexHandle { process, handle });
        let (process, handle) = name.event_fields();
        it.handles.retain(|keyed_mutex_handle| *keyed_mutex_handle != name);
        if it.state == KeyedMutexState::Owned(name) {
            it.state = KeyedMutexState::Abandoned;
            self.log.emit(subject, || EventKind::KeyedMutexAbandoned { process, handle });
        }
        self.log.emit(subject, || EventKind::KeyedMutexClosed { process, handle });
        self.end_unused_keyed_mutex(state, number);
        self.wake_all(state);
    }

    /// Destroys a mutex without handles that no NT object keeps.
    pub(super) fn end_unused_keyed_mutex(&self, state: &mut KernelState, number: Id<KeyedMutex>) {
        let it = &state.sync.keyed_mutexes[number];
        if !it.handles.is_empty() || it.nt_holds > 0 {
            return;
        }
        let it = state.sync.keyed_mutexes.remove(number);
        if let Some(global) = it.global {
            let _ = state.global_handles.close(global); // The mutex owned this live handle.
        }
        self.log.emit(number.subject(), || EventKind::KeyedMutexDestroyed {});
    }

    /// Waits until a keyed mutex is free for a key, and acquires it (`D3DKMTAcquireKeyedMutex2`).
    /// `timeout` is in units of 100 ns; `room` is the size of the buffer for the runtime's data.
    ///
    /// WINDOWS: our reading, where nothing is observed. An acquire through the owning handle waits
    /// like one through any other handle: another thread may release the mutex.
    pub fn acquire_keyed_mutex(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
        key: u64,
        timeout: Option<u64>,
        capacity: usize,
    ) -> Result<(Subject, AcquireKeyedMutexResponse), KernelError> {
        let number = self.state.lock().resolve_handle::<KeyedMutex>(
            process,
            Argument::KeyedMutex,
            handle,
        )?;
        let (about, name) = (number.subject(), KeyedMutexHandle { process: process.0, handle });
        let deadline = timeout.map(|value| self.host.now().saturating_add(value));
        let what = |_: &KernelState| format!("key {key} of {about}");
        let act = |state: &mut KernelState| {
            self.try_acquire_keyed_mutex(state, process, name, key, capacity)
        };
        let ended = match self.try_until(at, about, deadline, what, act) {
            WaitOutcome::Done(ended) => ended?,
            WaitOutcome::Stuck => return Err(KernelError::Stuck),
            WaitOutcome::TimedOut => {
                let state = &mut *self.state.lock();
                let late = self.try_acquire_keyed_mutex(state, process, name, key, capacity);
                late.unwrap_or_else(|| {
                    self.log_keyed_mutex_not_acquired(about, name, key, "timed-out");
                    Ok(AcquireKeyedMutexResponse::TimedOut)
                })?
            }
        };
        Ok((about, ended))
    }

    /// Tries to acquire a keyed mutex. Returns the result, or `None` if the caller must wait.
    fn try_acquire_keyed_mutex(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        name: KeyedMutexHandle,
        key: u64,
        capacity: usize,
    ) -> Option<Result<AcquireKeyedMutexResponse, KernelError>> {
        // The thread may have been parked: the handle may have been closed meanwhile.
        let number =
            match state.resolve_handle::<KeyedMutex>(process, Argument::KeyedMutex, name.handle) {
                Ok(it) => it,
                Err(why) => return Some(Err(why)),
            };
        let subject = number.subject();
        let fence = match state.sync.keyed_mutexes.get(number)?.state {
            KeyedMutexState::Free { key: for_key, fence } if for_key == key => fence,
            KeyedMutexState::Free { .. } | KeyedMutexState::Owned(_) => return None,
            KeyedMutexState::Abandoned => {
                self.log_keyed_mutex_not_acquired(subject, name, key, "abandoned");
                return Some(Ok(AcquireKeyedMutexResponse::Abandoned));
            }
        };
        if let Err(why) = state.check_runtime_buffer(number, capacity) {
            return Some(Err(why));
        }
        let it = state.sync.keyed_mutexes.get_mut(number)?;
        it.state = KeyedMutexState::Owned(name);
        let runtime = if capacity == 0 { Vec::new() } else { it.runtime.clone() };
        let (process, handle) = name.event_fields();
        self.log.emit(subject, || EventKind::KeyedMutexAcquired { process, handle, key, fence });
        Some(Ok(AcquireKeyedMutexResponse::Owned { fence, runtime }))
    }

    fn log_keyed_mutex_not_acquired(
        &self,
        subject: Subject,
        name: KeyedMutexHandle,
        key: u64,
        how: &'static str,
    ) {
        let (process, handle) = name.event_fields();
        self.log.emit(subject, || EventKind::KeyedMutexNotAcquired {
            process,
            handle,
            key,
            result: how.into(),
        });
    }

    /// Releases a keyed mutex to the next key (`D3DKMTReleaseKeyedMutex2`).
    ///
    /// WINDOWS: our reading. That only the owner can release it is observed; the status for other
    /// callers is not.
    pub fn release_keyed_mutex(
        &self,
        process: ProcessId,
        handle: Handle,
        release: ReleaseKeyedMutexRequest,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<KeyedMutex>(process, Argument::KeyedMutex, handle)?;
        let (subject, name) = (number.subject(), KeyedMutexHandle { process: process.0, handle });
        let it = state
            .sync
            .keyed_mutexes
            .get_mut(number)
            .filter(|keyed_mutex| keyed_mutex.state == KeyedMutexState::Owned(name));
        let it = it.ok_or(KernelError::NotOwner(subject))?;
        let ReleaseKeyedMutexRequest { key, fence, runtime } = release;
        it.state = KeyedMutexState::Free { key, fence };
        it.runtime = runtime.unwrap_or_else(|| std::mem::take(&mut it.runtime));
        let runtime = it.runtime.len() as u64;
        let (process, handle) = name.event_fields();
        self.log.emit(subject, || EventKind::KeyedMutexReleased {
            process,
            handle,
            key,
            fence,
            runtime,
        });
        self.wake_all(state);
        Ok(())
    }
}

impl KernelState {
    /// Resolves the global handle of a keyed mutex.
    fn find_shared_keyed_mutex(&self, global: Handle) -> Result<Id<KeyedMutex>, KernelError> {
        let error =
            |why| KernelError::Handle { argument: Argument::SharedKeyedMutex, handle: global, why };
        match self.global_handles.lookup(global).map_err(error)? {
            ObjectId::KeyedMutex(keyed) => Ok(keyed),
            other => Err(error(HandleError::WrongKind(other.subject()))),
        }
    }

    /// Checks that the caller's buffer, if it passed one, has room for the runtime's data.
    pub(super) fn check_runtime_buffer(
        &self,
        number: Id<KeyedMutex>,
        capacity: usize,
    ) -> Result<(), KernelError> {
        let there =
            self.sync.keyed_mutexes.get(number).map_or(0, |keyed_mutex| keyed_mutex.runtime.len());
        let short = capacity != 0 && capacity < there;
        let error =
            KernelError::BufferTooSmall { of: number.subject(), size: capacity, required: there };
        if short { Err(error) } else { Ok(()) }
    }

    /// Checks the invariants of all keyed mutexes.
    pub(crate) fn validate_keyed_mutexes(&self) -> Result<(), String> {
        for (number, it) in self.sync.keyed_mutexes.iter() {
            let subject = number.subject();
            let handles = |keyed_mutex_handle: &KeyedMutexHandle| {
                let handles =
                    self.processes.get(keyed_mutex_handle.process).map(|process| &process.handles);
                handles.is_some_and(|handles| {
                    handles.lookup(keyed_mutex_handle.handle) == Ok(number.into())
                })
            };
            let kept = !it.handles.is_empty() || it.nt_holds > 0;
            if !kept || !it.handles.iter().all(handles) {
                return Err(format!("{subject} is alive with the handles {:?}", it.handles));
            }
            if let KeyedMutexState::Owned(name) = it.state
                && !it.handles.contains(&name)
            {
                return Err(format!("{subject} is owned through {name:?}, which is closed"));
            }
            if it
                .global
                .is_some_and(|handle| self.global_handles.lookup(handle) != Ok(number.into()))
            {
                return Err(format!("{subject} has the global handle of another object"));
            }
        }
        Ok(())
    }

    /// Lists keyed mutexes among the live objects. They belong to no process: each process has
    /// handles to them.
    pub(crate) fn list_keyed_mutexes(&self, all: &mut Vec<LiveObject>) {
        let named = |keyed_mutex_handle: KeyedMutexHandle| {
            format!("{:#x} of {}", keyed_mutex_handle.handle.0, keyed_mutex_handle.process)
        };
        for (number, it) in self.sync.keyed_mutexes.iter() {
            let mut why: Vec<String> = it
                .handles
                .iter()
                .map(|keyed_mutex_handle| format!("handle {}", named(*keyed_mutex_handle)))
                .collect();
            why.extend(it.global.map(|handle| format!("shared as {:#x}", handle.0)));
            if it.nt_holds > 0 {
                why.push(format!("kept by {} NT objects", it.nt_holds));
            }
            why.push(match it.state {
                KeyedMutexState::Free { key, .. } => format!("free for key {key}"),
                KeyedMutexState::Owned(name) => format!("owned through {}", named(name)),
                KeyedMutexState::Abandoned => "abandoned".to_owned(),
            });
            why.push(format!("{} bytes of the runtime's data", it.runtime.len()));
            all.push(LiveObject { subject: number.subject(), owner: None, reasons: why });
        }
    }
}
