//! Processes: who owns names.

use crate::handle::HasHandle;
use crate::handle::ObjectId;
use crate::handle::{BadHandle, Handle, Names, Reservations, Reserved};
use crate::kernel::Kernel;
use crate::memory::budget::Group;
use crate::memory::queue::Queue;
use crate::refused::{Argument, Refused};
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{Hex, Passive, Subject, What};

/// A client process.
pub struct Process {
    pub(crate) names: Names,
    /// It gets no new name, and is over when what it has is gone.
    pub(crate) ended: bool,
    /// Devices of it that a driver is making now.
    pub(crate) making: u32,
    /// What it asked to be kept for it, of an adapter's group.
    pub(crate) reserved: Vec<(Id<Adapter>, Group, u64)>,
    /// What its devices' lists come to, in an adapter's group.
    pub(crate) charged: Vec<(Id<Adapter>, Group, u64)>,
}

/// A process, for the door that speaks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId(pub(crate) Id<Process>);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By itself: what it left alive is its fault.
    Orderly,
    /// It was killed, and could not tidy up.
    Killed,
}

impl Process {
    fn new() -> Self {
        let (reserved, charged) = (Vec::new(), Vec::new());
        Self { names: Names::local(), ended: false, making: 0, reserved, charged }
    }

    /// How many bytes of a group its devices list.
    pub(crate) fn listed(&self, adapter: Id<Adapter>, group: Group) -> u64 {
        let mine = |it: &&(Id<Adapter>, Group, u64)| (it.0, it.1) == (adapter, group);
        self.charged.iter().find(mine).map_or(0, |it| it.2)
    }
}

impl ProcessId {
    /// The process, for events.
    pub fn subject(self) -> Subject {
        self.0.subject()
    }
}

impl Kernel {
    /// A process begins.
    pub fn open_process(&self) -> ProcessId {
        let mut world = self.world.hold();
        let number = world.processes.insert(Process::new());
        self.log.emit(number.subject(), What::ProcessOpened {});
        ProcessId(number)
    }

    /// A process ends, with everything in it: devices with all they have, then adapters.
    pub fn end_process(&self, at: &mut Passive, process: ProcessId, manner: Manner) {
        {
            let mut world = self.world.hold();
            let Some(it) = world.processes.get_mut(process.0) else { return };
            if std::mem::replace(&mut it.ended, true) {
                return;
            }
            if manner == Manner::Orderly {
                for (_, object) in it.names.iter() {
                    self.log.emit(process.subject(), What::ProcessLeft { what: object.subject() });
                }
            }
            self.end_events(&mut world, process.0);
        }
        // From here on nobody gets in: calls that are inside leave, and find no way back.
        self.end_devices(at, process.subject(), Some(process.0), |_| true);
        let about = process.subject();
        let over = |it: &World| it.processes.get(process.0).is_none_or(|it| it.making == 0);
        self.wait_until(at, about, |_| format!("what is being made for {about}"), over);
        let adapters = {
            let mut world = self.world.hold();
            self.close_names(&mut world, process.0);
            world.adapters.iter().map(|it| it.0).collect::<Vec<Id<Adapter>>>()
        };
        for adapter in adapters {
            self.settle_space(at, process.0, adapter);
        }
        let mut world = self.world.hold();
        world.processes.take(process.0);
        self.log.emit(process.subject(), What::ProcessEnded {});
        self.wake(&mut world);
    }

    /// Closes what names an ended process still has: of adapters, husks and keyed mutexes.
    fn close_names(&self, world: &mut World, process: Id<Process>) {
        let names = world.processes.get(process).map(|it| it.names.iter().collect::<Vec<_>>());
        for (handle, object) in names.unwrap_or_default() {
            self.unname(world, process, handle);
            match object {
                ObjectId::Adapter(adapter) => world.close_adapter(adapter),
                ObjectId::Device(device) => self.forget_device(world, device),
                ObjectId::Sync(sync) => self.close_sync(world, process, sync),
                ObjectId::Keyed(keyed) => self.close_keyed(world, keyed, process, handle),
                _ => (),
            }
        }
    }

    /// Reserves the next name of a process, and says so.
    pub(crate) fn reserve(
        &self,
        world: &mut World,
        process: Id<Process>,
    ) -> Result<Reserved, Refused> {
        let it = world.processes.get_mut(process).filter(|it| !it.ended);
        let reserved = it.ok_or(Refused::NamesFull)?.names.reserve()?;
        let handle = Hex(reserved.handle().0);
        self.log.emit(process.subject(), What::NameReserved { handle });
        Ok(reserved)
    }

    /// Reserves so many names, or none.
    pub(crate) fn reserve_some(
        &self,
        world: &mut World,
        process: Id<Process>,
        count: usize,
    ) -> Result<Reservations, Refused> {
        let mut names = Reservations::with_capacity(count);
        for _ in 0..count {
            match self.reserve(world, process) {
                Ok(name) => names.push(name),
                Err(why) => {
                    self.take_back(world, process, names);
                    return Err(why);
                }
            }
        }
        Ok(names)
    }

    /// Gives reserved names back, the last one first.
    pub(crate) fn take_back(
        &self,
        world: &mut World,
        process: Id<Process>,
        reserved: Reservations,
    ) {
        let process_names = &mut world.processes[process];
        for name in reserved.into_iter().rev() {
            let handle = Hex(name.handle().0);
            process_names.names.take_back(name);
            self.log.emit(process.subject(), What::NameReturned { handle });
        }
    }

    /// Publishes a reserved name.
    pub(crate) fn publish(
        &self,
        world: &mut World,
        process: Id<Process>,
        reserved: Reserved,
        to: ObjectId,
    ) {
        let it = &mut world.processes[process];
        let handle = Hex(it.names.publish(reserved, to).0);
        self.log.emit(process.subject(), What::NameGiven { handle, to: to.subject() });
    }

    /// Ends a name that is known to be live.
    pub(crate) fn unname(&self, world: &mut World, process: Id<Process>, handle: Handle) {
        let it = &mut world.processes[process];
        if let Ok(of) = it.names.close(handle) {
            let handle = Hex(handle.0);
            self.log.emit(process.subject(), What::NameClosed { handle, of: of.subject() });
        }
    }
}

impl World {
    /// The object that a client's handle names, which must be of this type.
    pub(crate) fn resolve<T: HasHandle>(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<T>, Refused> {
        let found = self.found(process, argument, handle)?;
        let why = BadHandle::WrongKind(found.subject());
        T::named_by(found).ok_or(Refused::Handle { argument, handle, why })
    }

    /// The view that a client's handle names: the handle must be of its newest instance.
    pub(crate) fn resolve_view(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<View>, Refused> {
        let found = self.found(process, argument, handle)?;
        self.newest_view(found).map_err(|why| Refused::Handle { argument, handle, why })
    }

    /// The paging queue whose fence a client's handle names.
    pub(crate) fn resolve_queue_fence(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<Queue>, Refused> {
        match self.found(process, argument, handle)? {
            ObjectId::QueueFence(queue) => Ok(queue),
            found => {
                let why = BadHandle::WrongKind(found.subject());
                Err(Refused::Handle { argument, handle, why })
            }
        }
    }

    /// What a client's handle names, of whatever kind.
    pub(crate) fn found(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<ObjectId, Refused> {
        let found = match self.processes.get(process.0) {
            Some(it) if !it.ended => it.names.find(handle),
            _ => Err(BadHandle::ProcessEnded),
        };
        found.map_err(|why| Refused::Handle { argument, handle, why })
    }
}
