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
use crate::handle::ObjectId;
use crate::hold::Hold;
use crate::keyed::Keyed;
use crate::memory::budget::Trimmer;
use crate::memory::offer::Offering;
use crate::memory::pressure::Pressure;
use crate::memory::queue::Queue;
use crate::memory::{Extent, Paging};
use crate::process::Process;
use crate::renamed::InstanceRecord;
use crate::render::Listed;
use crate::resource::{Resource, ResourceView};
use crate::retire::Retirement;
use crate::saved::Saved;
use crate::space::Space;
use crate::space::queued::Finishing;
use crate::space::update::Judged;
use crate::start::Adapter;
use crate::store::{Id, IdList, Slab};
use crate::sync::Synced;
use crate::view::{Stage, View};
use flight::Ticket;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Everything that is alive.
pub(crate) struct World {
    pub(crate) processes: Slab<Process>,
    pub(crate) adapters: Slab<Adapter>,
    pub(crate) devices: Slab<Device>,
    pub(crate) contexts: Slab<Context>,
    pub(crate) resources: Slab<Resource>,
    pub(crate) resource_views: Slab<ResourceView>,
    pub(crate) allocations: Slab<Allocation>,
    pub(crate) views: Slab<View>,
    /// Instances of allocations.
    pub(crate) instances: Slab<InstanceRecord>,
    pub(crate) retirements: Slab<Retirement>,
    /// The global names of shared resources and keyed mutexes.
    pub(crate) shares: Names,
    /// The kernel's own names, which drivers use in callbacks.
    pub(crate) kernel_names: Names,
    pub(crate) extents: Slab<Extent>,
    pub(crate) pagings: Slab<Paging>,
    pub(crate) queues: Slab<Queue>,
    pub(crate) saved: Slab<Saved>,
    /// Packets with lists that are not over.
    pub(crate) listed: Slab<Listed>,
    pub(crate) spaces: Slab<Space>,
    /// Which of them a process has on an adapter.
    pub(crate) spaces_of: BTreeMap<(Id<Process>, Id<Adapter>), IdList<Space>>,
    /// Which devices a process has.
    pub(crate) devices_of: BTreeMap<Id<Process>, IdList<Device>>,
    pub(crate) keyed: Slab<Keyed>,
    /// Updates of addresses that wait for a fence.
    pub(crate) updates: Slab<Judged>,
    /// Updates whose entries are being written.
    pub(crate) updating: Vec<Finishing>,
    /// Context allocations that were freed and still have memory.
    pub(crate) freed: Vec<Id<Saved>>,
    /// Offers that wait for work before them.
    pub(crate) offers: Vec<Offering>,
    /// What is made hard for drivers, if anything.
    pub(crate) pressure: Option<Pressure>,
    pub(crate) trimmers: Slab<Trimmer>,
    /// Who is to be told that memory is short.
    pub(crate) trims: Vec<Id<Trimmer>>,
    /// Who is being told, and on which thread.
    pub(crate) telling: Option<(Id<Trimmer>, u32)>,
    pub(crate) sync: Synced,
    pub(crate) gate: Gate,
    /// Whoever waits for something of a device, a context or an adapter to end or to leave: all
    /// look again when anything does.
    pub(crate) waiting: Vec<Ticket>,
    /// Retirements that are idle and wait for their pass.
    pub(crate) jobs: VecDeque<Id<Retirement>>,
    /// Contexts that have a packet first in line.
    pub(crate) runnable: Vec<Id<Context>>,
    /// Packets that will never be sent, which drivers are to be told of.
    pub(crate) cancelled: VecDeque<(Id<Context>, crate::dispatch::Load)>,
    /// Nodes that do not move, and what is to be done about it.
    pub(crate) late: VecDeque<crate::recover::Late>,
    /// Somebody is to be preempted whose pass could not be had.
    pub(crate) held_back: bool,
    /// Contexts that go on now, one after the other.
    pub(crate) advancing: Vec<Id<Context>>,
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
            processes: Slab::default(),
            adapters: Slab::default(),
            devices: Slab::default(),
            contexts: Slab::default(),
            resources: Slab::default(),
            resource_views: Slab::default(),
            allocations: Slab::default(),
            views: Slab::default(),
            instances: Slab::default(),
            retirements: Slab::default(),
            shares: Names::global(),
            kernel_names: Names::kernel(),
            extents: Slab::default(),
            pagings: Slab::default(),
            queues: Slab::default(),
            saved: Slab::default(),
            listed: Slab::default(),
            spaces: Slab::default(),
            spaces_of: BTreeMap::new(),
            devices_of: BTreeMap::new(),
            keyed: Slab::default(),
            freed: Vec::new(),
            offers: Vec::new(),
            pressure: None,
            trimmers: Slab::default(),
            trims: Vec::new(),
            telling: None,
            sync: Synced::default(),
            gate: Gate::default(),
            waiting: Vec::new(),
            jobs: VecDeque::new(),
            runnable: Vec::new(),
            advancing: Vec::new(),
            held_back: false,
            updates: Slab::default(),
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
            for (handle, object) in process.names.iter() {
                if !self.is_alive(object) {
                    return Err(format!("{number} names {} ({handle:?}): gone", object.subject()));
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
                return Err(format!("{number} is no member of its resource"));
            }
            self.validate_instances(number, allocation)?;
            if allocation.views.is_empty() && !allocation.between {
                return Err(format!("{number} lives without a view"));
            }
        }
        self.validate_keyed()?;
        for (number, retirement) in self.retirements.iter() {
            if retirement.views.iter().any(|it| self.views.get(*it).is_none()) {
                return Err(format!("{number} ends a view that is gone"));
            }
        }
        self.validate_spaces()
    }

    fn validate_view(&self, number: Id<View>, view: &View) -> Result<(), String> {
        let listed =
            self.allocations.get(view.allocation).is_some_and(|it| it.views.contains(&number));
        let device = self.devices.get(view.device);
        if !listed || device.is_none() {
            return Err(format!("{number} is not listed where it belongs"));
        }
        if (view.stage == Stage::Live) == view.retirement.is_some() && view.stage != Stage::Building
        {
            return Err(format!("{number} is {:?} with {:?}", view.stage, view.retirement));
        }
        let names = device.and_then(|it| self.processes.get(it.process?)).map(|it| &it.names);
        let named = names.is_some_and(|it| it.find(view.handle) == Ok(number.into()));
        if (view.stage == Stage::Live) != named {
            return Err(format!("{number} is {:?}, named: {named}", view.stage));
        }
        Ok(())
    }

    fn is_alive(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::Adapter(id) => self.adapters.contains(id),
            ObjectId::Device(id) => self.devices.contains(id),
            ObjectId::Context(id) => self.contexts.contains(id),
            ObjectId::ResourceView(id) => self.resource_views.contains(id),
            ObjectId::View(id) => self.views.contains(id),
            ObjectId::Instance(id) => self.instances.contains(id),
            ObjectId::Queue(id) | ObjectId::QueueFence(id) => self.queues.contains(id),
            ObjectId::Sync(id) => self.sync.objects.contains(id),
            ObjectId::Keyed(id) => self.keyed.contains(id),
            // No process has handles of these.
            ObjectId::Resource(_) | ObjectId::Saved(_) | ObjectId::Space(_) => false,
        }
    }
}
