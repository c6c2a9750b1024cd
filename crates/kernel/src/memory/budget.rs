//! Budgets: how much memory a process should use, and what it is told when it uses more.

use crate::device::Device;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, RuleId, What, Who};
use std::sync::Arc;

/// A part of an adapter's memory that is budgeted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Memory of the adapter's own.
    Local,
    /// Apertures, into the system's memory.
    NonLocal,
}

/// What a process has of a group (`D3DKMT_QUERYVIDEOMEMORYINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// How many bytes it should use at most.
    pub budget: u64,
    /// How many its devices' lists come to.
    pub usage: u64,
    /// How many it asked to be kept for it.
    pub reserved: u64,
    /// How many it may ask for.
    pub reservable: u64,
}

/// Somebody who wants to know when memory is short (`D3DKMTRegisterTrimNotification`).
pub trait Trimmed: Send + Sync {
    /// So many bytes should go (`TrimToBudget`).
    fn trim(&self, bytes: u64);
}

/// A client that is told.
pub(crate) struct Trimmer {
    pub(crate) process: Id<Process>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) device: Id<Device>,
    pub(crate) told: Arc<dyn Trimmed>,
}

impl Kernel {
    /// What a process has of a group (`D3DKMTQueryVideoMemoryInfo`).
    pub fn budget(
        &self,
        process: ProcessId,
        adapter: Handle,
        group: Group,
    ) -> Result<Budget, Refused> {
        let world = self.world.hold();
        let number = world.resolve::<Adapter>(process, Argument::Adapter, adapter)?;
        let it = world.budget(process.0, number, group);
        let told = What::BudgetTold {
            adapter: number.subject(),
            local: group == Group::Local,
            budget: it.budget,
            usage: it.usage,
            reserved: it.reserved,
            reservable: it.reservable,
        };
        self.log.emit(process.0.subject(), told);
        Ok(it)
    }

    /// Sets bytes of a group aside for a process (`D3DKMTChangeVideoMemoryReservation`).
    pub fn reserve_memory(
        &self,
        process: ProcessId,
        adapter: Handle,
        group: Group,
        bytes: u64,
    ) -> Result<(), Refused> {
        let mut world = self.world.hold();
        let number = world.resolve::<Adapter>(process, Argument::Adapter, adapter)?;
        if bytes > world.budget(process.0, number, group).reservable {
            return Err(Refused::NoRoom { trim: bytes });
        }
        if let Some(it) = world.processes.get_mut(process.0) {
            it.reserved.retain(|(adapter, of, _)| (*adapter, *of) != (number, group));
            it.reserved.push((number, group, bytes));
        }
        Ok(())
    }

    /// Has somebody told when memory is short: answers the registration's number.
    pub fn register_trim(
        &self,
        process: ProcessId,
        device: Handle,
        told: Arc<dyn Trimmed>,
    ) -> Result<u32, Refused> {
        let mut world = self.world.hold();
        let number = world.device_of(process, device)?;
        let adapter = world.devices[number].adapter;
        let trimmer = Trimmer { process: process.0, adapter, device: number, told };
        Ok(world.trimmers.insert(trimmer).serial())
    }

    /// Ends a registration. Answers whether there was one.
    ///
    /// It waits for a notification under way, unless it is called from inside that.
    pub fn unregister_trim(&self, at: &mut Passive, process: ProcessId, number: u32) -> bool {
        let number = {
            let mut world = self.world.hold();
            let found = world.trimmers.find_serial(number);
            let mine = |trimmer: &Id<Trimmer>| world.trimmers[*trimmer].process == process.0;
            let Some(trimmer) = found.filter(mine) else { return false };
            world.trimmers.remove(trimmer);
            trimmer
        };
        let me = flight::current_thread();
        let told = (number, me);
        let over = |it: &World| it.telling.is_none_or(|it| it.0 != number || it == told);
        let what = |_: &World| "a trim notification under way".to_owned();
        self.wait_until(at, process.subject(), what, over);
        true
    }

    /// A device ends: nobody is told for it any more.
    pub(crate) fn end_trims(&self, device: Id<Device>) {
        let world = &mut *self.world.hold();
        let mine = |(number, it): (Id<Trimmer>, &Trimmer)| (it.device == device).then_some(number);
        let left: Vec<Id<Trimmer>> = world.trimmers.iter().filter_map(mine).collect();
        let about = device.subject();
        let broken = (!left.is_empty()).then(|| {
            format!("{about} is gone, and {} trim callbacks of it are registered", left.len())
        });
        let place = "D3DKMTRegisterTrimNotification";
        self.log.judge(RuleId::RESID_TRIM_001, Who::Client, about, place, broken);
        for number in left {
            world.trimmers.take(number);
        }
    }

    /// Memory is short: whoever uses more than its budget will be told.
    pub(crate) fn trim_others(&self, world: &mut World, adapter: Id<Adapter>) {
        let numbers: Vec<Id<Trimmer>> = world.trimmers.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let it = world.trimmers.get(number).filter(|it| it.adapter == adapter);
            let over = it.is_some_and(|it| world.overshoot(it.process, adapter) > 0);
            if over && !world.trims.contains(&number) {
                world.trims.push(number);
            }
        }
        if !world.trims.is_empty() {
            self.ring(&self.bell);
        }
    }

    /// Tells one client that memory is short. Answers whether there was one to tell.
    pub(crate) fn try_trim(&self) -> bool {
        let (told, device, bytes) = {
            let world = &mut *self.world.hold();
            let Some(number) = world.trims.pop() else { return false };
            // It may have been unregistered meanwhile.
            let Some(it) = world.trimmers.get(number) else { return true };
            let (told, process, adapter) = (it.told.clone(), it.process, it.adapter);
            let device = it.device.subject();
            // Another one may have trimmed for the same process meanwhile.
            if world.overshoot(process, adapter) == 0 {
                return true;
            }
            let bytes = self.tell_trim(world, process, adapter, "notification", 0);
            self.log.emit(device, What::TrimAsked { flags: "to-budget".into(), bytes });
            world.telling = Some((number, flight::current_thread()));
            (told, device, bytes)
        };
        told.trim(bytes);
        let world = &mut *self.world.hold();
        world.telling = None;
        self.log.emit(device, What::TrimEnded { bytes });
        self.wake(world);
        true
    }

    /// Says how many bytes a process is told to let go of, and answers that.
    pub(crate) fn tell_trim(
        &self,
        world: &World,
        process: Id<Process>,
        adapter: Id<Adapter>,
        by: &'static str,
        missing: u64,
    ) -> u64 {
        let bytes = world.overshoot(process, adapter).max(missing);
        let own = world.budget(process, adapter, Group::Local);
        let shared = world.budget(process, adapter, Group::NonLocal);
        let told = What::TrimTold {
            adapter: adapter.subject(),
            by: by.into(),
            usage: own.usage,
            budget: own.budget,
            shared_usage: shared.usage,
            shared_budget: shared.budget,
            missing,
            bytes,
        };
        self.log.emit(process.subject(), told);
        bytes
    }
}

impl World {
    /// How many bytes a process uses beyond its budget.
    fn overshoot(&self, process: Id<Process>, adapter: Id<Adapter>) -> u64 {
        let over = |group| {
            let it = self.budget(process, adapter, group);
            it.usage.saturating_sub(it.budget)
        };
        over(Group::Local) + over(Group::NonLocal)
    }

    pub(crate) fn device_of(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<Id<Device>, Refused> {
        self.resolve::<Device>(process, Argument::Device, handle)
    }

    /// WINDOWS: a budget is a share of what applications may use; how large a share is our
    /// decision: seven eighths, divided among the processes that have a device.
    fn budget(&self, process: Id<Process>, adapter: Id<Adapter>, group: Group) -> Budget {
        let Some((_, memory)) = self.memory(adapter) else { return Budget::default() };
        let targets = memory.segments.iter().any(|it| it.shape.flags.application_target);
        let counts = |it: &&crate::memory::Segment| {
            let of = if it.shape.flags.aperture { Group::NonLocal } else { Group::Local };
            of == group && (it.shape.flags.application_target || !targets)
        };
        let total: u64 =
            memory.segments.iter().filter(counts).map(|it| it.shape.commit_limit).sum();
        let mut users: Vec<Option<Id<Process>>> = self
            .devices
            .iter()
            .filter(|(_, it)| it.adapter == adapter)
            .map(|(_, it)| it.process)
            .collect();
        users.sort_unstable();
        users.dedup();
        let total = if memory.pressure.is_some() { total / 2 } else { total };
        let budget = total / 8 * 7 / u64::try_from(users.len().max(1)).unwrap_or(1);
        let process = self.processes.get(process);
        let mine = |it: &&(Id<Adapter>, Group, u64)| (it.0, it.1) == (adapter, group);
        let reserved = process.and_then(|it| it.reserved.iter().find(mine)).map_or(0, |it| it.2);
        let usage = process.map_or(0, |it| it.listed(adapter, group));
        Budget { budget, usage, reserved, reservable: budget / 2 }
    }
}
