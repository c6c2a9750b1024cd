//! Synchronisation objects: mutexes, semaphores, fences and notifications.
//!
//! A context waits for them and signals them from its queue (`marks.rs`), a client's CPU does so
//! with monitored fences (`cpu.rs`), and is told through events (`event.rs`).
//!
//! # Invariants
//!
//! 1. An object lives while it has a local name, of any process, or something queued or waiting
//!    needs it. These are two counts, `names` and `uses`.
//! 2. A global name holds nothing: it ends with the last local one.
//! 3. A wait takes everything that it names, or nothing.
//! 4. What the CPU reads as a fence's value is what the kernel knows, from one change of it on.

pub(crate) mod cpu;
pub(crate) mod event;
pub(crate) mod marks;

use crate::context::Context;
use crate::create::Sharing;
use crate::device::Device;
use crate::device::Loss;
use crate::device::Shown;
use crate::handle::Handle;
use crate::handle::ObjectId;
use crate::kernel::Kernel;
use crate::operation::PAGE;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::space::update::Judged;
use crate::start::Adapter;
use crate::store::Id;
use crate::store::Slab;
use crate::world::World;
use event::Event;
use flight::invariant;
use flight::{Hex, RuleId, Run, Subject, What, Who};
pub(crate) use marks::Marks;
use marks::{Await, Broadcast, Mark};
use smallvec::smallvec;
use std::collections::{BTreeSet, VecDeque};

/// What there is of synchronisation.
#[derive(Default)]
pub(crate) struct Synced {
    pub(crate) objects: Slab<Sync>,
    /// Those of them that are mutexes: who ends may hold one.
    mutexes: BTreeSet<Id<Sync>>,
    pub(crate) events: Slab<Event>,
    pub(crate) awaits: Slab<Await>,
    pub(crate) broadcasts: Slab<Broadcast>,
    /// Contexts that may go on, and whether somebody is letting them.
    woken: VecDeque<Id<Context>>,
    waking: bool,
    /// Updates of addresses whose fence has its value.
    due: VecDeque<Id<Judged>>,
}

/// A synchronisation object (`hSyncObject`).
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Sync {
    /// The device it was created for.
    pub(crate) device: Id<Device>,
    adapter: Id<Adapter>,
    /// Whose name came first, which ends with the device. None: no client names it.
    process: Option<Id<Process>>,
    handle: Handle,
    pub(crate) state: State,
    /// How many local names it has, of all processes.
    pub(crate) names: u32,
    pub(crate) global: Option<Handle>,
    /// How many things that are queued or wait need it.
    pub(crate) uses: u32,
    /// Its device may not signal it.
    silent: bool,
    /// Its device may not wait for it.
    deaf: bool,
    /// A reset leaves its value alone.
    stays: bool,
    /// Its value has 32 bits.
    narrow: bool,
    /// Where its value lies, and where the client's CPU sees it.
    shown: Option<(Run, usize)>,
    /// What was last written there.
    written: [u8; 8],
}

/// What an object is, and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Mutex {
        held: Option<MutexOwner>,
    },
    Semaphore {
        count: u32,
        most: u32,
    },
    Fence {
        value: u64,
    },
    Monitored {
        value: u64,
    },
    /// Sets an event.
    Notice {
        event: Id<Event>,
    },
}

/// What has a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutexOwner {
    /// The client that created it.
    Creator,
    Context(Id<Context>),
}

/// What kind of object a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// One context at a time has it (`D3DDDI_SYNCHRONIZATION_MUTEX`).
    Mutex {
        /// Whoever creates it has it.
        held: bool,
    },
    /// As many waits pass as there were signals (`D3DDDI_SEMAPHORE`).
    Semaphore {
        /// How many pass at once.
        count: u32,
        /// No more than this are ever left; zero is no limit.
        most: u32,
    },
    /// A value that contexts raise and wait for (`D3DDDI_FENCE`).
    Fence {
        /// The first one.
        value: u64,
    },
    /// A value that the CPU sees, waits for and raises, too (`D3DDDI_MONITORED_FENCE`).
    Monitored {
        /// The first one.
        value: u64,
    },
    /// Sets an event when a context comes to it (`D3DDDI_CPU_NOTIFICATION`).
    Notice {
        /// The event.
        event: u32,
    },
}

/// What a client asks for (`D3DKMT_CREATESYNCHRONIZATIONOBJECT2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncOrder {
    /// On which device.
    pub device: Handle,
    /// Which kind.
    pub kind: SyncKind,
    /// Who else may have it.
    pub sharing: Sharing,
    /// The device may not signal it (`NoSignal`).
    pub silent: bool,
    /// The device may not wait for it (`NoWait`).
    pub deaf: bool,
    /// A reset leaves its value alone (`NoSignalMaxValueOnTdr`).
    pub stays: bool,
}

/// What a client gets for a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSync {
    /// The object.
    pub handle: Handle,
    /// Its global name, if it has one.
    pub global: Option<Handle>,
    /// Where the CPU sees its value: zero if nowhere.
    pub value: usize,
    /// The object, for events.
    pub object: Subject,
}

impl SyncKind {
    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            SyncKind::Mutex { .. } => "mutex",
            SyncKind::Semaphore { .. } => "semaphore",
            SyncKind::Fence { .. } => "fence",
            SyncKind::Monitored { .. } => "monitored",
            SyncKind::Notice { .. } => "notification",
        }
    }

    /// How a new object stands; `event` is the one that a notification sets.
    fn state(self, event: Option<Id<Event>>) -> State {
        match self {
            SyncKind::Mutex { held } => State::Mutex { held: held.then_some(MutexOwner::Creator) },
            SyncKind::Semaphore { count, most } => State::Semaphore { count, most },
            SyncKind::Fence { value } => State::Fence { value },
            SyncKind::Monitored { value } => State::Monitored { value },
            SyncKind::Notice { .. } => {
                State::Notice { event: invariant(event, "a notification has its event") }
            }
        }
    }
}

impl State {
    /// What an event says it has: a semaphore's count, one for a mutex that is free.
    pub(crate) fn value(self) -> u64 {
        match self {
            State::Mutex { held } => u64::from(held.is_none()),
            State::Semaphore { count, .. } => u64::from(count),
            State::Fence { value } | State::Monitored { value } => value,
            State::Notice { .. } => 0,
        }
    }
}

impl Sync {
    /// The most a fence of it can have.
    fn maximum(&self) -> u64 {
        if self.narrow { u64::from(u32::MAX) } else { u64::MAX }
    }

    /// The bytes that stand for a value.
    fn bytes(&self, value: u64) -> [u8; 8] {
        // WINDOWS: a GPU without atomics of 64 bits writes 32 of them; the others stay zero.
        (value & self.maximum()).to_le_bytes()
    }
}

impl Kernel {
    /// Makes an object (`D3DKMTCreateSynchronizationObject2`).
    pub fn create_sync(&self, process: ProcessId, order: &SyncOrder) -> Result<NewSync, Refused> {
        let inside = self.enter_device(process, order.device)?;
        let world = &mut *self.world.hold();
        let event = match order.kind {
            SyncKind::Notice { event } => Some(world.event(process.0, event)?),
            _ => None,
        };
        let narrow = world.adapters.get(inside.adapter).is_some_and(|it| it.scheduling.narrow);
        let name = self.reserve(world, process.0)?;
        let shown = match order.kind {
            SyncKind::Monitored { .. } => match world.show_value(inside.adapter) {
                Ok(shown) => shown,
                Err(why) => {
                    self.take_back(world, process.0, smallvec![name]);
                    return Err(why);
                }
            },
            _ => None,
        };
        let mut made = Sync {
            device: inside.device,
            adapter: inside.adapter,
            process: Some(process.0),
            handle: name.handle(),
            state: order.kind.state(event),
            names: 1,
            global: None,
            uses: 0,
            silent: order.silent,
            deaf: order.deaf,
            stays: order.stays,
            narrow,
            shown,
            written: [0; 8],
        };
        let global = if order.sharing == Sharing::Global {
            match world.shares.reserve() {
                Ok(global) => Some(global),
                Err(why) => {
                    world.hide_value(&made);
                    self.take_back(world, process.0, smallvec![name]);
                    return Err(why.into());
                }
            }
        } else {
            None
        };
        let number = world.sync.objects.reserve();
        let subject = number.subject();
        made.global = global.map(|global| world.shares.publish(global, number.into()));
        self.log.emit(
            subject,
            What::SyncCreated {
                device: inside.subject(),
                kind: order.kind.name().into(),
                value: made.state.value(),
                sharing: order.sharing.name().into(),
                silent: made.silent,
                deaf: made.deaf,
                stays: made.stays,
            },
        );
        if let State::Notice { event } = made.state {
            world.use_event(event);
            world.count_notice(event, true);
        }
        let answer = NewSync {
            handle: made.handle,
            global: made.global,
            value: made.shown.map_or(0, |it| it.1),
            object: subject,
        };
        if matches!(made.state, State::Mutex { .. }) {
            world.sync.mutexes.insert(number);
        }
        world.sync.objects.fill(number, made);
        self.show(world, number);
        if let Some(global) = answer.global {
            let shared = What::NameShared { handle: Hex(global.0), of: subject };
            self.log.emit(process.subject(), shared);
        }
        self.publish(world, process.0, name, number.into());
        inside.leave(world);
        Ok(answer)
    }

    /// Opens a shared object (`D3DKMTOpenSynchronizationObject`).
    pub fn open_sync(&self, process: ProcessId, global: Handle) -> Result<Handle, Refused> {
        let world = &mut *self.world.hold();
        let refused = |why| Refused::Handle { argument: Argument::SharedSync, handle: global, why };
        let found = world.shares.find(global).map_err(refused)?;
        let ObjectId::Sync(number) = found else {
            return Err(refused(crate::handle::BadHandle::WrongKind(found.subject())));
        };
        let name = self.reserve(world, process.0)?;
        let handle = name.handle();
        world.sync.objects[number].names += 1;
        let opened = What::SyncOpened { process: process.subject(), global: Hex(global.0) };
        self.log.emit(number.subject(), opened);
        self.publish(world, process.0, name, number.into());
        Ok(handle)
    }

    /// Ends a name of an object (`D3DKMTDestroySynchronizationObject`).
    pub fn destroy_sync(&self, process: ProcessId, handle: Handle) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve::<Sync>(process, Argument::Sync, handle)?;
        self.unname(world, process.0, handle);
        self.close_sync(world, process.0, number);
        Ok(())
    }

    /// A name of an object has ended.
    pub(crate) fn close_sync(&self, world: &mut World, process: Id<Process>, number: Id<Sync>) {
        self.look_at_value(world, number);
        let it = &mut world.sync.objects[number];
        it.names -= 1;
        let notice = match it.state {
            State::Notice { event } if it.names == 0 => Some(event),
            _ => None,
        };
        let (process, names) = (process.subject(), it.names);
        let global = if names == 0 { it.global.take() } else { None };
        self.log.emit(number.subject(), What::SyncClosed { process, names });
        if let Some(global) = global {
            let _ = world.shares.close(global); // It was live: it was the object's.
        }
        if let Some(event) = notice {
            world.count_notice(event, false);
        }
        self.end_unused(world, number);
    }

    /// Forgets an object that nothing names and nothing needs.
    pub(crate) fn end_unused(&self, world: &mut World, number: Id<Sync>) {
        if world.sync.objects.get(number).is_none_or(|it| it.names > 0 || it.uses > 0) {
            return;
        }
        let Some(it) = world.sync.objects.take(number) else { return };
        world.sync.mutexes.remove(&number);
        world.hide_value(&it);
        self.log.emit(number.subject(), What::SyncGone {});
        if let State::Notice { event } = it.state {
            world.disuse_event(event);
        }
    }

    /// The objects that were created for a device lose the names they were created with.
    ///
    /// WINDOWS: our decision; the documentation says only that a device ends with what it has.
    pub(crate) fn end_syncs(&self, device: Id<Device>) {
        let world = &mut *self.world.hold();
        if world.sync.objects.is_empty() && world.sync.awaits.is_empty() {
            return;
        }
        self.drop_awaits(world, |it| it.device == device);
        let mine: Vec<(Id<Sync>, Id<Process>, Handle)> = world
            .sync
            .objects
            .iter()
            .filter(|(_, it)| it.device == device)
            .filter_map(|(number, it)| Some((number, it.process?, it.handle)))
            .collect();
        for (number, process, handle) in mine {
            if world.processes[process].names.find(handle) == Ok(number.into()) {
                self.unname(world, process, handle);
                self.close_sync(world, process, number);
            }
        }
        self.wake(world);
    }

    /// A reset has hit a device: what it could have signalled has its maximum, so that nobody
    /// waits for it for ever.
    ///
    /// WINDOWS: documented (`NoSignalMaxValueOnTdr`). That a device could signal the fences that
    /// were created for it, and no others, is our reading.
    pub(crate) fn reset_fences(&self, world: &mut World, device: Id<Device>) {
        let could = |it: &Sync| {
            let fence = matches!(it.state, State::Monitored { .. });
            fence && it.device == device && !it.silent && !it.stays
        };
        let all = world.sync.objects.iter().filter(|(_, it)| could(it));
        let all: Vec<(Id<Sync>, u64)> = all.map(|(number, it)| (number, it.maximum())).collect();
        for (number, value) in all {
            if let Some(it) = world.sync.objects.get_mut(number) {
                it.state = State::Monitored { value };
            }
            self.changed(world, number, "reset");
        }
        self.log.emit(device.subject(), What::FencesReset {});
        self.let_go_on(world);
    }

    /// Plays a reset that hits a device: it works no more, and its fences have their maximum. For
    /// whoever wants to know what a client does then.
    pub fn hit_by_reset(&self, process: ProcessId, device: Handle) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve::<Device>(process, Argument::Device, device)?;
        self.lose(world, number, Loss::Hung);
        Ok(())
    }

    /// A context has ended: what it held is free.
    ///
    /// WINDOWS: our decision. The documentation does not say what becomes of such a mutex.
    pub(crate) fn abandon(&self, world: &mut World, context: Id<Context>) {
        if world.sync.objects.is_empty() {
            return;
        }
        let held = |number: &&Id<Sync>| {
            let it = world.sync.objects.get(**number);
            it.is_some_and(|it| {
                it.state == State::Mutex { held: Some(MutexOwner::Context(context)) }
            })
        };
        let all: Vec<Id<Sync>> = world.sync.mutexes.iter().filter(held).copied().collect();
        for number in all {
            if let Some(it) = world.sync.objects.get_mut(number) {
                it.state = State::Mutex { held: None };
            }
            let context = context.subject();
            self.log.emit(number.subject(), What::SyncAbandoned { context });
            self.changed(world, number, "abandoned");
        }
        self.let_go_on(world);
    }

    /// An object has changed: the CPU sees it, and whoever waited for it looks.
    fn changed(&self, world: &mut World, number: Id<Sync>, by: &'static str) {
        let shown = self.show(world, number);
        let it = &world.sync.objects[number];
        let (value, subject) = (it.state.value(), number.subject());
        self.log.emit(subject, What::SyncSignalled { by: by.into(), value, shown });
        self.look_again_at(world, Mark::Object(number));
    }

    /// Writes a fence's value where the CPU sees it, and answers what it reads there.
    fn show(&self, world: &mut World, number: Id<Sync>) -> Option<u64> {
        self.look_at_value(world, number);
        let it = world.sync.objects.get_mut(number)?;
        let start = it.shown?.0.start;
        let bytes = it.bytes(it.state.value());
        it.written = bytes;
        let adapter = it.adapter;
        let ram = &world.memory(adapter)?.1.ram;
        ram.write(start, &bytes);
        let mut read = [0; 8];
        ram.read(start, &mut read).then_some(u64::from_le_bytes(read))
    }

    /// The CPU may only read a fence's value: nobody but us has changed it.
    fn look_at_value(&self, world: &World, number: Id<Sync>) {
        let it = &world.sync.objects[number];
        let (written, Some((run, _))) = (it.written, it.shown) else { return };
        let Some((_, memory)) = world.memory(it.adapter) else { return };
        let (mut read, subject) = ([0; 8], number.subject());
        memory.ram.read(run.start, &mut read);
        let broken = (read != written).then(|| {
            let [read, written] = [read, written].map(u64::from_le_bytes);
            format!(
                "the memory of {subject} says {read} and was last signalled {written}: the CPU \
                 wrote there, but signals through the call"
            )
        });
        let place = "D3DKMTCreateSynchronizationObject2.FenceValueCPUVirtualAddress";
        self.log.judge(RuleId::SYNC_CREATE_006, Who::Client, subject, place, broken);
    }
}

impl World {
    /// An object that no client names, for a signal that sets an event besides.
    fn nameless_notice(&mut self, device: Id<Device>, event: Id<Event>) -> Id<Sync> {
        self.use_event(event);
        let adapter = self.devices[device].adapter;
        self.sync.objects.insert(Sync {
            device,
            adapter,
            process: None,
            handle: Handle::default(),
            state: State::Notice { event },
            names: 0,
            global: None,
            uses: 0,
            silent: false,
            deaf: false,
            stays: false,
            narrow: false,
            shown: None,
            written: [0; 8],
        })
    }

    /// A page for a fence's value, and a view of it: none where the machine's memory is not ours
    /// to show.
    fn show_value(&self, adapter: Id<Adapter>) -> Result<Option<(Run, usize)>, Refused> {
        let Some((_, memory)) = self.memory(adapter) else { return Ok(None) };
        let full = Refused::NoRoom { trim: 0 };
        let run = memory.ram.take(PAGE).ok_or(full.clone())?;
        if let Some(view) = memory.ram.view(&[run]) {
            Ok(Some((run, view)))
        } else {
            memory.ram.give_back(run);
            Err(full)
        }
    }

    fn hide_value(&mut self, it: &Sync) {
        let ram = self.memory(it.adapter).map(|it| it.1.ram.clone());
        if let (Some((run, view)), Some(ram)) = (it.shown, ram) {
            self.hide(it.device, Shown { ram, run, view });
        }
    }

    /// How an object stands, for people.
    pub(crate) fn stands(&self, number: Id<Sync>) -> String {
        let subject = number.subject();
        match self.sync.objects.get(number).map(|it| it.state) {
            None => format!("{subject}, which is gone"),
            Some(State::Mutex { held: None }) => format!("{subject}, a mutex that is free"),
            Some(State::Mutex { held: Some(MutexOwner::Creator) }) => {
                format!("{subject}, a mutex that is held since it was created")
            }
            Some(State::Mutex { held: Some(MutexOwner::Context(context)) }) => {
                format!("{subject}, a mutex that {} holds", context.subject())
            }
            Some(State::Semaphore { count, .. }) => {
                format!("{subject}, a semaphore that has {count}")
            }
            Some(State::Fence { value } | State::Monitored { value }) => {
                format!("{subject}, which has {value}")
            }
            Some(State::Notice { .. }) => format!("{subject}, a notification"),
        }
    }

    /// Why an object lives.
    pub(crate) fn why_sync(&self, number: Id<Sync>) -> Vec<String> {
        let it = &self.sync.objects[number];
        let mut why = vec![format!("{} local names", it.names)];
        why.extend(it.global.map(|it| format!("shared as {:#x}", it.0)));
        if it.uses > 0 {
            why.push(format!("used by {} queued or waiting", it.uses));
        }
        why.push(self.stands(number));
        why
    }
}
