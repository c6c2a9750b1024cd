//! Everything that is alive, under one lock.
//!
//! # Invariants (checked by [`World::validate`])
//!
//! 1. A live name leads to a live thing, and a `Live` view or named resource view has one name.
//! 2. The adapter owns allocations and resources; a device owns views; a process owns names.
//! 3. An allocation is a member of its resource, a view is listed at its allocation and device.
//! 4. A view that has a retirement is not `Live`, and a retirement's views are there.

use crate::allocation::Allocation;
use crate::context::Context;
use crate::device::Device;
use crate::gate::Gate;
use crate::handle::Names;
use crate::hold::Hold;
use crate::keyed::Keyed;
use crate::memory::budget::Trimmer;
use crate::memory::offer::Offering;
use crate::memory::pressure::Pressure;
use crate::memory::queue::Queue;
use crate::memory::{Extent, Paging};
use crate::process::Process;
use crate::render::Listed;
use crate::resource::{Resource, ResourceView};
use crate::retire::Retirement;
use crate::saved::Saved;
use crate::space::Space;
use crate::space::queued::Finishing;
use crate::space::update::Judged;
use crate::start::Adapter;
use crate::store::{Few, Store};
use crate::sync::Synced;
use crate::view::{Stage, View};
use flight::{Kind, Subject, Ticket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Everything that is alive.
pub(crate) struct World {
    pub(crate) processes: Store<Process>,
    pub(crate) adapters: Store<Adapter>,
    pub(crate) devices: Store<Device>,
    pub(crate) contexts: Store<Context>,
    pub(crate) resources: Store<Resource>,
    pub(crate) resource_views: Store<ResourceView>,
    pub(crate) allocations: Store<Allocation>,
    pub(crate) views: Store<View>,
    /// Instances of allocations: of which.
    pub(crate) instances: Store<u32>,
    pub(crate) retirements: Store<Retirement>,
    /// The global names of shared resources and keyed mutexes.
    pub(crate) shares: Names,
    /// The kernel's own names, which drivers use in callbacks.
    pub(crate) kernel_names: Names,
    pub(crate) extents: Store<Extent>,
    pub(crate) pagings: Store<Paging>,
    pub(crate) queues: Store<Queue>,
    pub(crate) saved: Store<Saved>,
    /// Packets with lists that are not over.
    pub(crate) listed: Store<Listed>,
    pub(crate) spaces: Store<Space>,
    /// Which of them a process has on an adapter.
    pub(crate) spaces_of: BTreeMap<(u32, u32), Few>,
    /// Which devices a process has.
    pub(crate) devices_of: BTreeSet<(u32, u32)>,
    pub(crate) keyed: Store<Keyed>,
    /// Updates of addresses that wait for a fence.
    pub(crate) updates: Store<Judged>,
    /// Updates whose entries are being written.
    pub(crate) updating: Vec<Finishing>,
    /// Context allocations that were freed and still have memory.
    pub(crate) freed: Vec<u32>,
    /// Offers that wait for work before them.
    pub(crate) offers: Vec<Offering>,
    /// What is made hard for drivers, if anything.
    pub(crate) pressure: Option<Pressure>,
    pub(crate) trimmers: Store<Trimmer>,
    /// Who is to be told that memory is short.
    pub(crate) trims: Vec<u32>,
    /// Who is being told, and on which thread.
    pub(crate) telling: Option<(u32, u32)>,
    pub(crate) sync: Synced,
    pub(crate) gate: Gate,
    /// Whoever waits for something of a device, a context or an adapter to end or to leave: all
    /// look again when anything does.
    pub(crate) waiting: Vec<Ticket>,
    /// Retirements that are idle and wait for their pass.
    pub(crate) jobs: VecDeque<u32>,
    /// Contexts that have a packet first in line.
    pub(crate) runnable: Vec<u32>,
    /// Packets that will never be sent, which drivers are to be told of.
    pub(crate) cancelled: VecDeque<(u32, crate::dispatch::Load)>,
    /// Nodes that do not move, and what is to be done about it.
    pub(crate) late: VecDeque<crate::recover::Late>,
    /// Somebody is to be preempted whose pass could not be had.
    pub(crate) held_back: bool,
    /// Contexts that go on now, one after the other.
    pub(crate) advancing: Vec<u32>,
    /// The running driver calls in which something was acquired.
    pub(crate) calls: BTreeSet<u32>,
    /// What drivers have acquired and not let go of.
    pub(crate) holds: BTreeMap<u32, Hold>,
    pub(crate) last_hold: u32,
    pub(crate) last_node: u32,
    pub(crate) last_segment: u32,
    pub(crate) last_table: u32,
    /// A bug on purpose, in builds for shuttle (`planted.rs`).
    #[cfg(shuttle)]
    pub(crate) reversed: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            processes: Store::default(),
            adapters: Store::default(),
            devices: Store::default(),
            contexts: Store::default(),
            resources: Store::default(),
            resource_views: Store::default(),
            allocations: Store::default(),
            views: Store::default(),
            instances: Store::default(),
            retirements: Store::default(),
            shares: Names::global(),
            kernel_names: Names::kernel(),
            extents: Store::default(),
            pagings: Store::default(),
            queues: Store::default(),
            saved: Store::default(),
            listed: Store::default(),
            spaces: Store::default(),
            spaces_of: BTreeMap::new(),
            devices_of: BTreeSet::new(),
            keyed: Store::default(),
            freed: Vec::new(),
            offers: Vec::new(),
            pressure: None,
            trimmers: Store::default(),
            trims: Vec::new(),
            telling: None,
            sync: Synced::default(),
            gate: Gate::default(),
            waiting: Vec::new(),
            jobs: VecDeque::new(),
            runnable: Vec::new(),
            advancing: Vec::new(),
            held_back: false,
            updates: Store::default(),
            updating: Vec::new(),
            cancelled: VecDeque::new(),
            late: VecDeque::new(),
            calls: BTreeSet::new(),
            holds: BTreeMap::new(),
            last_hold: 0,
            last_node: 0,
            last_segment: 0,
            last_table: 0,
            #[cfg(shuttle)]
            reversed: false,
        }
    }

    /// Checks every invariant; answers the first that does not hold.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (number, process) in self.processes.iter() {
            for (handle, subject) in process.names.iter() {
                if !self.is_alive(subject) {
                    return Err(format!("process {number} names {subject} ({handle:?}): gone"));
                }
            }
        }
        for (number, view) in self.views.iter() {
            self.validate_view(number, view)?;
        }
        for (number, allocation) in self.allocations.iter() {
            let home = allocation.resource.map(|it| self.resources.get(it));
            let member = |it: Option<&Resource>| it.is_some_and(|it| it.members.contains(&number));
            if home.is_some_and(|it| !member(it)) {
                return Err(format!("allocation {number} is no member of its resource"));
            }
            self.validate_instances(number, allocation)?;
            if allocation.views.is_empty() && !allocation.between {
                return Err(format!("allocation {number} lives without a view"));
            }
        }
        self.validate_keyed()?;
        for (number, retirement) in self.retirements.iter() {
            if retirement.views.iter().any(|it| self.views.get(*it).is_none()) {
                return Err(format!("retirement {number} ends a view that is gone"));
            }
        }
        self.validate_spaces()
    }

    fn validate_view(&self, number: u32, view: &View) -> Result<(), String> {
        let listed =
            self.allocations.get(view.allocation).is_some_and(|it| it.views.contains(&number));
        let device = self.devices.get(view.device);
        if !listed || device.is_none() {
            return Err(format!("view {number} is not listed where it belongs"));
        }
        if (view.stage == Stage::Live) == view.retirement.is_some() && view.stage != Stage::Building
        {
            return Err(format!("view {number} is {:?} with {:?}", view.stage, view.retirement));
        }
        let names = device.and_then(|it| self.processes.get(it.process)).map(|it| &it.names);
        let named = names.is_some_and(|it| it.find(view.handle) == Ok(Kind::View.nr(number)));
        if (view.stage == Stage::Live) != named {
            return Err(format!("view {number} is {:?}, named: {named}", view.stage));
        }
        Ok(())
    }

    fn is_alive(&self, subject: Subject) -> bool {
        let number = subject.number;
        match subject.kind {
            Kind::Adapter => self.adapters.get(number).is_some(),
            Kind::Device => self.devices.get(number).is_some(),
            Kind::Context => self.contexts.get(number).is_some(),
            Kind::ResourceView => self.resource_views.get(number).is_some(),
            Kind::View => self.views.get(number).is_some(),
            Kind::Instance => self.instances.get(number).is_some(),
            Kind::Queue | Kind::QueueFence => self.queues.get(number).is_some(),
            Kind::Sync => self.sync.objects.get(number).is_some(),
            Kind::Keyed => self.keyed.get(number).is_some(),
            _ => false,
        }
    }
}
