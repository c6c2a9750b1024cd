//! Keyed mutexes: whose turn it is with what processes share.
//!
//! # Invariants (2 and 3 are checked by [`World::validate_keyed`])
//!
//! 1. A mutex is free for one key, or owned through one name, or abandoned; an abandoned one
//!    stays so. Who releases it says the next key, and a fence value for whoever gets it then.
//! 2. It lives while a process has a name of it. The name it is owned through is one of those.
//! 3. Its global name holds nothing: it ends with the last local one.
//!
//! WINDOWS: all of them are observed.

use crate::handle::ObjectId;
use crate::handle::{BadHandle, Handle};
use crate::kernel::{Kernel, Waited};
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::store::Id;
use crate::world::World;
use flight::{Hex, Live, Passive, Subject, What};
use smallvec::smallvec;

/// A keyed mutex.
#[derive(Debug)]
pub(crate) struct Keyed {
    state: State,
    /// The names that processes have of it.
    names: Vec<Name>,
    global: Option<Handle>,
    /// The client runtime's private data, kept as it was given last.
    runtime: Vec<u8>,
}

/// A name, by whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    process: Id<Process>,
    handle: Handle,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Of whoever asks for this key, and gets this fence value.
    Free { key: u64, fence: u64 },
    /// Of whoever acquired it through this name.
    Owned(Name),
    /// Nobody's, for good.
    Abandoned,
}

/// A keyed mutex to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedOrder {
    /// The key it is free for at first.
    pub key: u64,
    /// The client runtime's private data.
    pub runtime: Vec<u8>,
    /// It gets no global name: it is for NT handles.
    pub nt: bool,
}

/// What a client gets for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewKeyed {
    /// Its name.
    pub handle: Handle,
    /// Its global name.
    pub global: Option<Handle>,
}

/// How an acquire ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
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
pub struct Release {
    /// The next key.
    pub key: u64,
    /// The fence value for whoever asks for it.
    pub fence: u64,
    /// The client runtime's private data from now on, if that changes.
    pub runtime: Option<Vec<u8>>,
}

impl Name {
    /// Both parts, for events.
    fn said(self) -> (Subject, Hex) {
        (self.process.subject(), Hex(self.handle.0))
    }
}

impl Kernel {
    /// Makes a keyed mutex (`D3DKMTCreateKeyedMutex2`).
    pub fn create_keyed(&self, process: ProcessId, order: KeyedOrder) -> Result<NewKeyed, Refused> {
        let world = &mut *self.world.hold();
        let local = self.reserve(world, process.0)?;
        let shared = if order.nt { Ok(None) } else { world.shares.reserve().map(Some) };
        let shared = match shared {
            Ok(it) => it,
            Err(why) => {
                self.take_back(world, process.0, smallvec![local]);
                return Err(why.into());
            }
        };
        let number = world.keyed.reserve();
        let subject = number.subject();
        let name = Name { process: process.0, handle: local.handle() };
        let global = shared.map(|it| world.shares.publish(it, number.into()));
        let KeyedOrder { key, runtime, nt } = order;
        let (owner, handle) = name.said();
        self.log.emit(
            subject,
            What::KeyedCreated {
                process: owner,
                handle,
                global: Hex(global.unwrap_or_default().0),
                sharing: if nt { "nt" } else { "global" }.into(),
                key,
                runtime: runtime.len() as u64,
            },
        );
        let state = State::Free { key, fence: 0 };
        world.keyed.fill(number, Keyed { state, names: vec![name], global, runtime });
        self.publish(world, process.0, local, number.into());
        if let Some(it) = global {
            self.log.emit(owner, What::NameShared { handle: Hex(it.0), of: subject });
        }
        Ok(NewKeyed { handle: name.handle, global })
    }

    /// Gives a process a name of a keyed mutex (`D3DKMTOpenKeyedMutex2`). `room` is how big a
    /// buffer for the runtime's data it has, zero for none.
    pub fn open_keyed(
        &self,
        process: ProcessId,
        global: Handle,
        room: usize,
    ) -> Result<(Subject, Handle), Refused> {
        let world = &mut *self.world.hold();
        let number = world.shared_keyed(global)?;
        let subject = number.subject();
        if let Err(why) = world.room_of(number, room) {
            let unopened = What::KeyedUnopened { process: process.subject(), room: room as u64 };
            self.log.emit(subject, unopened);
            return Err(why);
        }
        let local = self.reserve(world, process.0)?;
        let name = Name { process: process.0, handle: local.handle() };
        world.keyed[number].names.push(name);
        self.publish(world, process.0, local, number.into());
        let (process, handle) = name.said();
        self.log.emit(subject, What::KeyedOpened { process, handle, room: room as u64 });
        Ok((subject, name.handle))
    }

    /// Ends a name of a keyed mutex (`D3DKMTDestroyKeyedMutex`).
    pub fn destroy_keyed(&self, process: ProcessId, handle: Handle) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve::<Keyed>(process, Argument::Keyed, handle)?;
        self.unname(world, process.0, handle);
        self.close_keyed(world, number, process.0, handle);
        Ok(())
    }

    /// A name was closed. The mutex is abandoned if it was owned through it, and gone if it was
    /// the last.
    pub(crate) fn close_keyed(
        &self,
        world: &mut World,
        number: Id<Keyed>,
        process: Id<Process>,
        handle: Handle,
    ) {
        let it = &mut world.keyed[number];
        let (subject, name) = (number.subject(), Name { process, handle });
        let (process, handle) = name.said();
        it.names.retain(|it| *it != name);
        if it.state == State::Owned(name) {
            it.state = State::Abandoned;
            self.log.emit(subject, What::KeyedAbandoned { process, handle });
        }
        let last = it.names.is_empty();
        self.log.emit(subject, What::KeyedClosed { process, handle });
        if last && let Some(it) = world.keyed.take(number) {
            if let Some(global) = it.global {
                let _ = world.shares.close(global); // It was live: it was this one's.
            }
            self.log.emit(subject, What::KeyedGone {});
        }
        self.wake(world);
    }

    /// Waits until a keyed mutex is free for a key, and takes it (`D3DKMTAcquireKeyedMutex2`).
    /// `timeout` is in steps of 100 ns, and `room` how big a buffer for the runtime's data is.
    ///
    /// WINDOWS: our reading, where none is observed. Through the name that owns it, an acquire
    /// waits as through any other: another thread may release it.
    pub fn acquire_keyed(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
        key: u64,
        timeout: Option<u64>,
        room: usize,
    ) -> Result<(Subject, Acquired), Refused> {
        let number = self.world.hold().resolve::<Keyed>(process, Argument::Keyed, handle)?;
        let (about, name) = (number.subject(), Name { process: process.0, handle });
        let deadline = timeout.map(|it| self.host.now().saturating_add(it));
        let what = |_: &World| format!("key {key} of {about}");
        let act = |world: &mut World| self.try_keyed(world, process, name, key, room);
        let ended = match self.act_within(at, about, deadline, what, act) {
            Waited::Done(ended) => ended?,
            Waited::Stuck => return Err(Refused::Stuck),
            Waited::TimedOut => {
                let world = &mut *self.world.hold();
                let late = self.try_keyed(world, process, name, key, room);
                late.unwrap_or_else(|| {
                    self.miss_keyed(about, name, key, "timed-out");
                    Ok(Acquired::TimedOut)
                })?
            }
        };
        Ok((about, ended))
    }

    /// Takes a keyed mutex, or says why that is over; `None` if it may come yet.
    fn try_keyed(
        &self,
        world: &mut World,
        process: ProcessId,
        name: Name,
        key: u64,
        room: usize,
    ) -> Option<Result<Acquired, Refused>> {
        // Who parked looks again: the name may have been closed.
        let number = match world.resolve::<Keyed>(process, Argument::Keyed, name.handle) {
            Ok(it) => it,
            Err(why) => return Some(Err(why)),
        };
        let subject = number.subject();
        let fence = match world.keyed.get(number)?.state {
            State::Free { key: for_key, fence } if for_key == key => fence,
            State::Free { .. } | State::Owned(_) => return None,
            State::Abandoned => {
                self.miss_keyed(subject, name, key, "abandoned");
                return Some(Ok(Acquired::Abandoned));
            }
        };
        if let Err(why) = world.room_of(number, room) {
            return Some(Err(why));
        }
        let it = world.keyed.get_mut(number)?;
        it.state = State::Owned(name);
        let runtime = if room == 0 { Vec::new() } else { it.runtime.clone() };
        let (process, handle) = name.said();
        self.log.emit(subject, What::KeyedAcquired { process, handle, key, fence });
        Some(Ok(Acquired::Owned { fence, runtime }))
    }

    fn miss_keyed(&self, subject: Subject, name: Name, key: u64, how: &'static str) {
        let (process, handle) = name.said();
        self.log.emit(subject, What::KeyedMissed { process, handle, key, how: how.into() });
    }

    /// Releases a keyed mutex to the next key (`D3DKMTReleaseKeyedMutex2`).
    ///
    /// WINDOWS: our reading. That only its owner can is observed, what another is told is not.
    pub fn release_keyed(
        &self,
        process: ProcessId,
        handle: Handle,
        release: Release,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve::<Keyed>(process, Argument::Keyed, handle)?;
        let (subject, name) = (number.subject(), Name { process: process.0, handle });
        let it = world.keyed.get_mut(number).filter(|it| it.state == State::Owned(name));
        let it = it.ok_or(Refused::NotOwner(subject))?;
        let Release { key, fence, runtime } = release;
        it.state = State::Free { key, fence };
        it.runtime = runtime.unwrap_or_else(|| std::mem::take(&mut it.runtime));
        let runtime = it.runtime.len() as u64;
        let (process, handle) = name.said();
        self.log.emit(subject, What::KeyedReleased { process, handle, key, fence, runtime });
        self.wake(world);
        Ok(())
    }
}

impl World {
    /// The keyed mutex a global name means.
    fn shared_keyed(&self, global: Handle) -> Result<Id<Keyed>, Refused> {
        let refused = |why| Refused::Handle { argument: Argument::KeyedShare, handle: global, why };
        match self.shares.find(global).map_err(refused)? {
            ObjectId::Keyed(keyed) => Ok(keyed),
            other => Err(refused(BadHandle::WrongKind(other.subject()))),
        }
    }

    /// Whether a buffer, if there is one, has room for the runtime's data.
    fn room_of(&self, number: Id<Keyed>, room: usize) -> Result<(), Refused> {
        let there = self.keyed.get(number).map_or(0, |it| it.runtime.len());
        let short = room != 0 && room < there;
        let refused = Refused::ShortBuffer { of: number.subject(), room, there };
        if short { Err(refused) } else { Ok(()) }
    }

    /// Checks the invariants of all keyed mutexes.
    pub(crate) fn validate_keyed(&self) -> Result<(), String> {
        for (number, it) in self.keyed.iter() {
            let subject = number.subject();
            let names = |it: &Name| {
                let names = self.processes.get(it.process).map(|it| &it.names);
                names.is_some_and(|names| names.find(it.handle) == Ok(number.into()))
            };
            if it.names.is_empty() || !it.names.iter().all(names) {
                return Err(format!("{subject} lives with names {:?}", it.names));
            }
            if let State::Owned(name) = it.state
                && !it.names.contains(&name)
            {
                return Err(format!("{subject} is owned through {name:?}, which is closed"));
            }
            if it.global.is_some_and(|it| self.shares.find(it) != Ok(number.into())) {
                return Err(format!("{subject} has a global name that is another's"));
            }
        }
        Ok(())
    }

    /// Lists keyed mutexes for a census. They are nobody's: each process has names of them.
    pub(crate) fn list_keyed(&self, all: &mut Vec<Live>) {
        let named = |it: Name| format!("{:#x} of {}", it.handle.0, it.process);
        for (number, it) in self.keyed.iter() {
            let mut why: Vec<String> =
                it.names.iter().map(|it| format!("named {}", named(*it))).collect();
            why.extend(it.global.map(|it| format!("shared as {:#x}", it.0)));
            why.push(match it.state {
                State::Free { key, .. } => format!("free for key {key}"),
                State::Owned(name) => format!("owned through {}", named(name)),
                State::Abandoned => "abandoned".to_owned(),
            });
            why.push(format!("{} bytes of the runtime's data", it.runtime.len()));
            all.push(Live { subject: number.subject(), owner: None, why });
        }
    }
}
