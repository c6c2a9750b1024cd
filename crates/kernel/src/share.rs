//! Sharing: resources that other devices and processes open by a global name.
//!
//! # Invariants
//!
//! 1. A shared resource is sealed: its members are what they were when it was created.
//! 2. An opener has a view of the resource and of every member, opened in one call. The
//!    resource lives while any device has a view, and each ends its own, in any order.
//! 3. A global name holds nothing: it ends with the last local one.

use crate::allocation::Allocation;
use crate::build::{Built, still_there};
use crate::create::{CreateOrder, Making};
use crate::device::Inside;
use crate::gate::{Class, Key, Mode};
use crate::handle::ObjectId;
use crate::handle::{BadHandle, Handle, Reservations};
use crate::kernel::Kernel;
use crate::lock::Held;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::resource::Resource;
use crate::store::Id;
use crate::store::IdList;
use crate::world::World;
use flight::{Passive, RuleId, Subject, Who};

/// What an opener has to know (`D3DKMTQueryResourceInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareInfo {
    /// The resource, for events.
    pub resource: Subject,
    /// How many bytes of the runtime's private data it has.
    pub runtime: usize,
    /// How many bytes of the driver's private data the resource has.
    pub private: usize,
    /// How many bytes of the driver's private data its members have together.
    pub total: usize,
    /// How many members it has.
    pub members: usize,
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The opener's name of the resource.
    pub resource: Handle,
    /// The opener's names of the members, in the order they were created.
    pub allocations: Vec<Handle>,
    /// The runtime's private data, as it was given at creation.
    pub runtime: Vec<u8>,
    /// The resource's private data for the driver, if a client gave it; what a driver supplied
    /// for a standard allocation is not told.
    pub private: Vec<u8>,
    /// Each member's private data for the driver.
    pub privates: Vec<Vec<u8>>,
}

impl Kernel {
    /// What a shared resource has, for a device of its adapter.
    pub fn share_info(
        &self,
        process: ProcessId,
        device: Handle,
        global: Handle,
    ) -> Result<ShareInfo, Refused> {
        let inside = self.enter_device(process, device)?;
        let world = self.world.hold();
        let (number, it) = world.shared(&inside, global)?;
        let members = it.members.iter().filter_map(|it| world.allocations.get(*it));
        Ok(ShareInfo {
            resource: number.subject(),
            runtime: it.runtime.len(),
            private: it.private.len(),
            total: members.map(|it| it.private.len()).sum(),
            members: it.members.len(),
        })
    }

    /// Opens a shared resource for a device (`D3DKMTOpenResource`).
    pub fn open_resource(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        global: Handle,
    ) -> Result<Opened, Refused> {
        let inside = self.enter_device(process, device)?;
        let (resource, members) = {
            let world = self.world.hold();
            let (resource, it) = world.shared(&inside, global)?;
            (resource, it.members.len())
        };
        let mut names = {
            let mut world = self.world.hold();
            self.reserve_some(&mut world, process.0, members + 1)?
        };
        let opens = Some((global, resource));
        let making = Making { process: process.0, inside: &inside, joins: None, opens };
        let opened = self.open_under_pass(at, &making, resource, &mut names);
        if opened.is_err() {
            self.take_back(&mut self.world.hold(), process.0, names);
        }
        opened
    }

    /// The part that calls the driver. On failure everything but the names is undone.
    fn open_under_pass(
        &self,
        at: &mut Passive,
        making: &Making<'_>,
        resource: Id<Resource>,
        names: &mut Reservations,
    ) -> Result<Opened, Refused> {
        let inside = making.inside;
        let generation = inside.driver.generation;
        let mut keys = Class::Zero.keys(inside.adapter, generation, making.process);
        keys.push((Key::Resource(resource), Mode::Alone));
        let pass = self.enter(at, keys)?;
        let (mut built, mut order, (runtime, private)) = {
            let world = &mut *self.world.hold();
            // Who parked looks again.
            still_there(world, making)?;
            let gone = Refused::ResourceEnded(resource.subject());
            let it = world.resources.get(resource).ok_or(gone)?;
            let allocations: IdList<Allocation> = it.members.iter().copied().collect();
            let private =
                |it: &Id<Allocation>| world.allocations.get(*it).map(|it| it.private.clone());
            let order = CreateOrder {
                allocations: allocations.iter().filter_map(private).collect(),
                private: it.private.clone(),
                ..CreateOrder::default()
            };
            let runtime = it.runtime.clone();
            let told = if it.standard { Vec::new() } else { it.private.clone() };
            let place = Some(self.build_view(world, inside, resource));
            (Built { place, allocations, ..Built::default() }, order, (runtime, told))
        };
        self.world.hold().promise_views(making, &mut built, names);
        let before = order.allocations.clone();
        let opened = self.open(at, &pass, making, &mut order, &built);
        self.judge_edits(&built, &before, &order.allocations);
        order.allocations = before;
        let finish =
            |mut world: Held<'_, World>| self.finish(&mut world, making, &built, &mut order, names);
        match opened.and_then(finish) {
            Ok(made) => Ok(Opened {
                resource: made.resource.unwrap_or_default(),
                allocations: made.allocations,
                runtime,
                private,
                privates: made.privates,
            }),
            Err(why) => {
                self.undo(at, making, &pass, built);
                Err(why)
            }
        }
    }

    /// A plain open may read private data, not write it.
    fn judge_edits(&self, built: &Built, before: &[Vec<u8>], after: &[Vec<u8>]) {
        for ((view, before), after) in built.views.iter().zip(before).zip(after) {
            let about = view.subject();
            let broken = (before != after).then(|| {
                format!(
                    "the private data of {about} was changed by a plain open: only a create may"
                )
            });
            let place = "DxgkDdiOpenAllocation.pPrivateDriverData";
            self.log.judge(RuleId::KMD_OPEN_002, Who::Driver, about, place, broken);
        }
    }
}

impl World {
    /// The shared resource a global name means, if it is on the device's adapter.
    fn shared(
        &self,
        inside: &Inside<'_>,
        global: Handle,
    ) -> Result<(Id<Resource>, &Resource), Refused> {
        let refused = |why| Refused::Handle { argument: Argument::Share, handle: global, why };
        let found = self.shares.find(global).map_err(refused)?;
        let ObjectId::Resource(resource) = found else {
            return Err(refused(BadHandle::WrongKind(found.subject())));
        };
        let it = &self.resources[resource];
        if it.adapter != inside.adapter {
            return Err(Refused::OtherAdapter(resource.subject()));
        }
        Ok((resource, it))
    }
}
