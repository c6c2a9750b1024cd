//! Keyed mutexes: whose turn it is with what processes share.
//!
//! # Invariants (2 and 3 are checked by [`KernelState::validate_keyed_mutexes`])
//!
//! 1. A mutex is free for one key, or owned through one name, or abandoned; an abandoned one
//!    stays so. Who releases it says the next key, and a fence value for whoever gets it then.
//! 2. It lives while a process has a name of it. The name it is owned through is one of those.
//! 3. Its global name holds nothing: it ends with the last local one.
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
use smallvec::smallvec;

/// A keyed mutex.
#[derive(Debug)]
pub(crate) struct KeyedMutex {
    state: KeyedMutexState,
    /// The names that processes have of it.
    handles: Vec<KeyedMutexHandle>,
    global: Option<Handle>,
    /// The client runtime's private data, kept as it was given last.
    runtime: Vec<u8>,
}

/// A name, by whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyedMutexHandle {
    process: Id<Process>,
    handle: Handle,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyedMutexState {
    /// Of whoever asks for this key, and gets this fence value.
    Free { key: u64, fence: u64 },
    /// Of whoever acquired it through this name.
    Owned(KeyedMutexHandle),
    /// Nobody's, for good.
    Abandoned,
}

/// A keyed mutex to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateKeyedMutexRequest {
    /// The key it is free for at first.
    pub key: u64,
    /// The client runtime's private data.
    pub runtime: Vec<u8>,
    /// It gets no global name: it is for NT handles.
    pub nt: bool,
}

/// What a client gets for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateKeyedMutexResponse {
    /// Its name.
    pub handle: Handle,
    /// Its global name.
    pub global: Option<Handle>,
}

/// How an acquire ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireKeyedMutexResponse {
    /// The caller owns it.
    Owned {
        /// The fence value of the last release.
        fence: u64,
        /// The client runtime's private data, if there was room for it.
        runtime: Vec<u8>,
    },
    /// The key did not come in time.
    TimedOut,
    /// Its owner went without a release.
    Abandoned,
}

/// What a release says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseKeyedMutexRequest {
    /// The next key.
    pub key: u64,
    /// The fence value for whoever asks for it.
    pub fence: u64,
    /// The client runtime's private data from now on, if that changes.
    pub runtime: Option<Vec<u8>>,
}

impl KeyedMutexHandle {
    /// Both parts, for events.
    fn event_fields(self) -> (Subject, Hex) {
        (self.process.subject(), Hex(self.handle.0))
    }
}

impl Kernel {
    /// Makes a keyed mutex (`D3DKMTCreateKeyedMutex2`).
    pub fn create_keyed_mutex(
        &self,
        process: ProcessId,
        request: CreateKeyedMutexRequest,
    ) -> Result<CreateKeyedMutexResponse, KernelError> {
        let world = &mut *self.state.lock();
        let local = self.reserve_handle(world, process.0)?;
        let shared = if request.nt { Ok(None) } else { world.global_handles.reserve().map(Some) };
        let shared = match shared {
            Ok(it) => it,
            Err(why) => {
                self.cancel_handles(world, process.0, smallvec![local]);
                return Err(why.into());
            }
        };
        let number = world.keyed_mutexes.reserve();
        let subject = number.subject();
        let name = KeyedMutexHandle { process: process.0, handle: local.handle() };
        let global = shared
            .map(|reserved_handle| world.global_handles.publish(reserved_handle, number.into()));
        let CreateKeyedMutexRequest { key, runtime, nt } = request;
        let (owner, handle) = name.event_fields();
        self.log.emit(
            subject,
            EventKind::KeyedMutexCreated {
                process: owner,
                handle,
                global: Hex(global.unwrap_or_default().0),
                sharing: if nt { "nt" } else { "global" }.into(),
                key,
                runtime: runtime.len() as u64,
            },
        );
        let state = KeyedMutexState::Free { key, fence: 0 };
        world
            .keyed_mutexes
            .fill(number, KeyedMutex { state, handles: vec![name], global, runtime });
        self.publish_handle(world, process.0, local, number.into());
        if let Some(it) = global {
            self.log.emit(owner, EventKind::HandleShared { handle: Hex(it.0), of: subject });
        }
        Ok(CreateKeyedMutexResponse { handle: name.handle, global })
    }

    /// Gives a process a name of a keyed mutex (`D3DKMTOpenKeyedMutex2`). `room` is how big a
    /// buffer for the runtime's data it has, zero for none.
    pub fn open_keyed_mutex(
        &self,
        process: ProcessId,
        global: Handle,
        capacity: usize,
    ) -> Result<(Subject, Handle), KernelError> {
        let world = &mut *self.state.lock();
        let number = world.find_shared_keyed_mutex(global)?;
        let subject = number.subject();
        if let Err(why) = world.check_runtime_buffer(number, capacity) {
            let unopened = EventKind::KeyedMutexOpenFailed {
                process: process.subject(),
                capacity: capacity as u64,
            };
            self.log.emit(subject, unopened);
            return Err(why);
        }
        let local = self.reserve_handle(world, process.0)?;
        let name = KeyedMutexHandle { process: process.0, handle: local.handle() };
        world.keyed_mutexes[number].handles.push(name);
        self.publish_handle(world, process.0, local, number.into());
        let (process, handle) = name.event_fields();
        self.log.emit(
            subject,
            EventKind::KeyedMutexOpened { process, handle, capacity: capacity as u64 },
        );
        Ok((subject, name.handle))
    }

    /// Ends a name of a keyed mutex (`D3DKMTDestroyKeyedMutex`).
    pub fn destroy_keyed_mutex(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let world = &mut *self.state.lock();
        let number = world.resolve_handle::<KeyedMutex>(process, Argument::KeyedMutex, handle)?;
        self.close_handle(world, process.0, handle);
        self.close_keyed_mutex(world, number, process.0, handle);
        Ok(())
    }

    /// A name was closed. The mutex is abandoned if it was owned through it, and gone if it was
    /// the last.
    pub(crate) fn close_keyed_mutex(
        &self,
        world: &mut KernelState,
        number: Id<KeyedMutex>,
        process: Id<Process>,
        handle: Handle,
    ) {
        let it = &mut world.keyed_mutexes[number];
        let (subject, name) = (number.subject(), KeyedMutexHandle { process, handle });
        let (process, handle) = name.event_fields();
        it.handles.retain(|keyed_mutex_handle| *keyed_mutex_handle != name);
        if it.state == KeyedMutexState::Owned(name) {
            it.state = KeyedMutexState::Abandoned;
            self.log.emit(subject, EventKind::KeyedMutexAbandoned { process, handle });
        }
        let last = it.handles.is_empty();
        self.log.emit(subject, EventKind::KeyedMutexClosed { process, handle });
        if last && let Some(it) = world.keyed_mutexes.take(number) {
            if let Some(global) = it.global {
                let _ = world.global_handles.close(global); // It was live: it was this one's.
            }
            self.log.emit(subject, EventKind::KeyedMutexDestroyed {});
        }
        self.wake_all(world);
    }

    /// Waits until a keyed mutex is free for a key, and takes it (`D3DKMTAcquireKeyedMutex2`).
    /// `timeout` is in steps of 100 ns, and `room` how big a buffer for the runtime's data is.
    ///
    /// WINDOWS: our reading, where none is observed. Through the name that owns it, an acquire
    /// waits as through any other: another thread may release it.
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
        let act = |world: &mut KernelState| {
            self.try_acquire_keyed_mutex(world, process, name, key, capacity)
        };
        let ended = match self.try_until(at, about, deadline, what, act) {
            WaitOutcome::Done(ended) => ended?,
            WaitOutcome::Stuck => return Err(KernelError::Stuck),
            WaitOutcome::TimedOut => {
                let world = &mut *self.state.lock();
                let late = self.try_acquire_keyed_mutex(world, process, name, key, capacity);
                late.unwrap_or_else(|| {
                    self.log_keyed_mutex_not_acquired(about, name, key, "timed-out");
                    Ok(AcquireKeyedMutexResponse::TimedOut)
                })?
            }
        };
        Ok((about, ended))
    }

    /// Takes a keyed mutex, or says why that is over; `None` if it may come yet.
    fn try_acquire_keyed_mutex(
        &self,
        world: &mut KernelState,
        process: ProcessId,
        name: KeyedMutexHandle,
        key: u64,
        capacity: usize,
    ) -> Option<Result<AcquireKeyedMutexResponse, KernelError>> {
        // Who parked looks again: the name may have been closed.
        let number =
            match world.resolve_handle::<KeyedMutex>(process, Argument::KeyedMutex, name.handle) {
                Ok(it) => it,
                Err(why) => return Some(Err(why)),
            };
        let subject = number.subject();
        let fence = match world.keyed_mutexes.get(number)?.state {
            KeyedMutexState::Free { key: for_key, fence } if for_key == key => fence,
            KeyedMutexState::Free { .. } | KeyedMutexState::Owned(_) => return None,
            KeyedMutexState::Abandoned => {
                self.log_keyed_mutex_not_acquired(subject, name, key, "abandoned");
                return Some(Ok(AcquireKeyedMutexResponse::Abandoned));
            }
        };
        if let Err(why) = world.check_runtime_buffer(number, capacity) {
            return Some(Err(why));
        }
        let it = world.keyed_mutexes.get_mut(number)?;
        it.state = KeyedMutexState::Owned(name);
        let runtime = if capacity == 0 { Vec::new() } else { it.runtime.clone() };
        let (process, handle) = name.event_fields();
        self.log.emit(subject, EventKind::KeyedMutexAcquired { process, handle, key, fence });
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
        self.log.emit(
            subject,
            EventKind::KeyedMutexNotAcquired { process, handle, key, result: how.into() },
        );
    }

    /// Releases a keyed mutex to the next key (`D3DKMTReleaseKeyedMutex2`).
    ///
    /// WINDOWS: our reading. That only its owner can is observed, what another is told is not.
    pub fn release_keyed_mutex(
        &self,
        process: ProcessId,
        handle: Handle,
        release: ReleaseKeyedMutexRequest,
    ) -> Result<(), KernelError> {
        let world = &mut *self.state.lock();
        let number = world.resolve_handle::<KeyedMutex>(process, Argument::KeyedMutex, handle)?;
        let (subject, name) = (number.subject(), KeyedMutexHandle { process: process.0, handle });
        let it = world
            .keyed_mutexes
            .get_mut(number)
            .filter(|keyed_mutex| keyed_mutex.state == KeyedMutexState::Owned(name));
        let it = it.ok_or(KernelError::NotOwner(subject))?;
        let ReleaseKeyedMutexRequest { key, fence, runtime } = release;
        it.state = KeyedMutexState::Free { key, fence };
        it.runtime = runtime.unwrap_or_else(|| std::mem::take(&mut it.runtime));
        let runtime = it.runtime.len() as u64;
        let (process, handle) = name.event_fields();
        self.log
            .emit(subject, EventKind::KeyedMutexReleased { process, handle, key, fence, runtime });
        self.wake_all(world);
        Ok(())
    }
}

impl KernelState {
    /// The keyed mutex a global name means.
    fn find_shared_keyed_mutex(&self, global: Handle) -> Result<Id<KeyedMutex>, KernelError> {
        let error =
            |why| KernelError::Handle { argument: Argument::SharedKeyedMutex, handle: global, why };
        match self.global_handles.lookup(global).map_err(error)? {
            ObjectId::KeyedMutex(keyed) => Ok(keyed),
            other => Err(error(HandleError::WrongKind(other.subject()))),
        }
    }

    /// Whether a buffer, if there is one, has room for the runtime's data.
    fn check_runtime_buffer(
        &self,
        number: Id<KeyedMutex>,
        capacity: usize,
    ) -> Result<(), KernelError> {
        let there =
            self.keyed_mutexes.get(number).map_or(0, |keyed_mutex| keyed_mutex.runtime.len());
        let short = capacity != 0 && capacity < there;
        let error =
            KernelError::BufferTooSmall { of: number.subject(), size: capacity, required: there };
        if short { Err(error) } else { Ok(()) }
    }

    /// Checks the invariants of all keyed mutexes.
    pub(crate) fn validate_keyed_mutexes(&self) -> Result<(), String> {
        for (number, it) in self.keyed_mutexes.iter() {
            let subject = number.subject();
            let handles = |keyed_mutex_handle: &KeyedMutexHandle| {
                let handles =
                    self.processes.get(keyed_mutex_handle.process).map(|process| &process.handles);
                handles.is_some_and(|handles| {
                    handles.lookup(keyed_mutex_handle.handle) == Ok(number.into())
                })
            };
            if it.handles.is_empty() || !it.handles.iter().all(handles) {
                return Err(format!("{subject} lives with names {:?}", it.handles));
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
                return Err(format!("{subject} has a global name that is another's"));
            }
        }
        Ok(())
    }

    /// Lists keyed mutexes for a census. They are nobody's: each process has names of them.
    pub(crate) fn list_keyed_mutexes(&self, all: &mut Vec<LiveObject>) {
        let named = |keyed_mutex_handle: KeyedMutexHandle| {
            format!("{:#x} of {}", keyed_mutex_handle.handle.0, keyed_mutex_handle.process)
        };
        for (number, it) in self.keyed_mutexes.iter() {
            let mut why: Vec<String> = it
                .handles
                .iter()
                .map(|keyed_mutex_handle| format!("named {}", named(*keyed_mutex_handle)))
                .collect();
            why.extend(it.global.map(|handle| format!("shared as {:#x}", handle.0)));
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
