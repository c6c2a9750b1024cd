//! Processes: who owns names.

use crate::handle::{BadHandle, Handle, Names};
use crate::kernel::Kernel;
use crate::refused::{Argument, Refused};
use crate::wait::Waiters;
use crate::world::World;
use flight::{Hex, Kind, Passive, Subject, What};

/// A client process.
pub struct Process {
    pub(crate) names: Names,
    /// It gets no new name, and ends when what it has is gone.
    pub(crate) ended: bool,
    /// Devices of it that a driver is making now.
    pub(crate) making: u32,
    /// Rung when a device of it is made or gone.
    pub(crate) drained: Waiters,
}

/// A process, for the door that speaks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId(pub(crate) u32);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By itself: what it left alive is its fault.
    Orderly,
    /// It was killed, and could not tidy up.
    Killed,
}

impl ProcessId {
    /// The process, for events.
    pub fn subject(self) -> Subject {
        Kind::Process.nr(self.0)
    }
}

impl Kernel {
    /// A process begins.
    pub fn open_process(&self) -> ProcessId {
        let mut world = self.world.hold();
        let (names, drained) = (Names::local(), Waiters::default());
        let number = world.processes.add(Process { names, ended: false, making: 0, drained });
        self.log.emit(Kind::Process.nr(number), What::ProcessOpened {});
        ProcessId(number)
    }

    /// A process ends, with everything in it: devices with all they have, then adapters.
    pub fn end_process(&self, at: &mut Passive, process: ProcessId, manner: Manner) {
        let left: Vec<(Handle, Subject)> = {
            let mut world = self.world.hold();
            let Some(it) = world.processes.get_mut(process.0) else { return };
            if std::mem::replace(&mut it.ended, true) {
                return;
            }
            let left: Vec<_> = it.names.iter().collect();
            if manner == Manner::Orderly {
                for (_, what) in &left {
                    self.log.emit(process.subject(), What::ProcessLeft { what: *what });
                }
            }
            left
        };
        for (handle, subject) in &left {
            if subject.kind == Kind::Device {
                // One that another thread is destroying is waited for below.
                let _ = self.destroy_device(at, process, *handle);
            }
        }
        self.wait_for_process(at, process);
        for (handle, subject) in left {
            if subject.kind == Kind::Adapter {
                let _ = self.close_adapter(process, handle);
            }
        }
        let mut world = self.world.hold();
        world.processes.remove(process.0);
        self.log.emit(process.subject(), What::ProcessEnded {});
    }

    /// Waits until nothing of a process is being made and no device of it is left.
    fn wait_for_process(&self, at: &mut Passive, process: ProcessId) {
        let look = |world: &mut World| {
            let left = world.devices.iter().any(|(_, it)| it.process == process.0);
            match world.processes.get_mut(process.0) {
                Some(it) if left || it.making > 0 => {
                    Err(it.drained.ticket(format!("the devices of {}", process.subject())))
                }
                _ => Ok(()),
            }
        };
        let give_up = || self.lose_devices(|it| it.process == process.0);
        self.wait(at, process.subject(), look, give_up);
    }

    /// Reserves the next name of a process, and says so.
    pub(crate) fn reserve(
        &self,
        world: &mut World,
        process: u32,
    ) -> Result<crate::handle::Reserved, Refused> {
        let gone = Refused::Removed(Kind::Process.nr(process));
        let it = world.processes.get_mut(process).filter(|it| !it.ended).ok_or(gone)?;
        let reserved = it.names.reserve()?;
        let handle = Hex(reserved.handle().0);
        self.log.emit(Kind::Process.nr(process), What::NameReserved { handle });
        Ok(reserved)
    }

    /// Gives reserved names back, the last one first.
    pub(crate) fn take_back(
        &self,
        world: &mut World,
        process: u32,
        reserved: Vec<crate::handle::Reserved>,
    ) {
        let Some(process_names) = world.processes.get_mut(process) else { return };
        for name in reserved.into_iter().rev() {
            let handle = Hex(name.handle().0);
            process_names.names.take_back(name);
            self.log.emit(Kind::Process.nr(process), What::NameReturned { handle });
        }
    }

    /// Publishes a reserved name.
    pub(crate) fn publish(
        &self,
        world: &mut World,
        process: u32,
        reserved: crate::handle::Reserved,
        to: Subject,
    ) {
        let Some(it) = world.processes.get_mut(process) else { return };
        let handle = Hex(it.names.publish(reserved, to).0);
        self.log.emit(Kind::Process.nr(process), What::NameGiven { handle, to });
    }

    /// Ends a name that is known to be live.
    pub(crate) fn unname(&self, world: &mut World, process: u32, handle: Handle) {
        let Some(it) = world.processes.get_mut(process) else { return };
        if let Ok(of) = it.names.close(handle) {
            let handle = Hex(handle.0);
            self.log.emit(Kind::Process.nr(process), What::NameClosed { handle, of });
        }
    }
}

impl World {
    /// What a client's handle names, which must be of this kind.
    pub(crate) fn resolve(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
        kind: Kind,
    ) -> Result<u32, Refused> {
        let found = match self.processes.get(process.0) {
            Some(it) => it.names.find(handle),
            None => Err(BadHandle::Unknown),
        };
        match found {
            Ok(subject) if subject.kind == kind => Ok(subject.number),
            Ok(other) => {
                Err(Refused::Handle { argument, handle, why: BadHandle::WrongKind(other) })
            }
            Err(why) => Err(Refused::Handle { argument, handle, why }),
        }
    }
}
