//! Renamed allocations: instances of an allocation that a client fills in turn (WDDM 1.x).
//!
//! A client that locks an allocation and does not need its content (`Discard`) does not wait for
//! the packets that use it: it gets another instance, with its own handle. The driver is not
//! called. It knows one allocation, which is paged in at several locations.
//!
//! # Invariants
//!
//! 1. One instance is the newest. Its extent is the allocation's, and its handle is the view's. An
//!    older instance can only be unlocked and listed by packets.
//! 2. An instance that a client may fill is used by no current or future packet: either a newer
//!    instance has been listed since, so that no packet may list this one again, or its client
//!    promises that none of its commands refer to it (`NoExistingReference`).
//! 3. All instances are destroyed with their allocation.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::{Id, IdList};
use crate::ddi::miniport::Generation;
use crate::ddi::miniport::collect_few;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::memory::cpu::LockRequest;
use crate::objects::allocation::Allocation;
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, HandleError};
use crate::objects::view::View;
use crate::schedule::render::RenderRequest;
use crate::state::KernelState;
use flight::{Call, CallGuard, EventKind, Passive, Subject, invariant};

/// The maximum number of instances of an allocation, if its driver sets no limit.
///
/// WINDOWS: as many as are useful, and fewer where memory is short (documented); the number is our
/// decision.
const MAX_INSTANCES: u32 = 64;

/// The instances of an allocation.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "it is the list of them")]
pub(crate) struct Instances {
    instances: Vec<Instance>,
    /// The index of the newest.
    newest: usize,
    /// How many times an instance became the newest.
    rename_count: u64,
    /// The turn of the newest instance that a packet has listed.
    listed_at: u64,
}

/// An instance of an allocation.
struct Instance {
    /// Its id; the allocation itself has none.
    number: Option<Id<InstanceRecord>>,
    extent: Id<Extent>,
    /// Its handle, once a client received it.
    handle: Option<Handle>,
    /// The turn at which it became the newest; zero: never.
    renamed_at: u64,
    /// A lock is about to map it.
    claimed: bool,
}

/// An instance other than the allocation itself: it has an id, and handles can refer to it.
pub(crate) struct InstanceRecord {
    pub(crate) allocation: Id<Allocation>,
}

/// The views that a packet lists, each with the extent of its instance.
type ListedInstances = Vec<(Id<View>, Id<Extent>)>;

/// The result of a lock's search for an instance.
enum InstanceChoice {
    /// This instance, claimed for the caller.
    Found(Id<Extent>),
    /// One of these is free when packets complete.
    WaitFor(Vec<Id<Extent>>),
    /// None is available before the client submits its commands.
    MustSubmitFirst,
}

impl Kernel {
    /// Finds an instance that a client may fill, and claims it. An instance that was never filled
    /// is used only if there may be more (`grows`). Waits for packets only if there may not.
    ///
    /// WINDOWS: whether it waits or fails then is up to the memory manager (documented). It fails
    /// if waiting would not help: the client must submit its commands first.
    pub(crate) fn acquire_instance(
        &self,
        at: &mut Passive,
        process: ProcessId,
        guard: &EnteredDevice,
        view: Id<View>,
        (request, grows): (&LockRequest, bool),
    ) -> Result<Id<Extent>, KernelError> {
        let about = view.subject();
        loop {
            let behind = {
                let state = &mut *self.state.lock();
                state.views_of(process, guard.device, &[request.view])?;
                match self.choose_instance(state, view, request.no_existing_reference, grows) {
                    InstanceChoice::Found(extent) => {
                        self.log.emit(state.lock_subject(view, extent), || {
                            EventKind::LockRequested {
                                do_not_wait: false,
                                do_not_evict: request.do_not_evict,
                            }
                        });
                        return Ok(extent);
                    }
                    InstanceChoice::MustSubmitFirst => return Err(KernelError::InUse(about)),
                    InstanceChoice::WaitFor(extents) => extents,
                }
            };
            let free = |state: &KernelState| {
                behind.iter().any(|extent| {
                    state
                        .memory
                        .extents
                        .get(*extent)
                        .is_none_or(|extent| extent.packet_references == 0)
                })
            };
            let what = |_: &KernelState| format!("packets that use instances of {about}");
            if !self.wait_inside_for_work(at, about, guard.device, what, free) {
                return Err(KernelError::Stuck);
            }
        }
    }

    fn choose_instance(
        &self,
        state: &mut KernelState,
        view: Id<View>,
        no_existing_reference: bool,
        grows: bool,
    ) -> InstanceChoice {
        // The view may have been closed while this thread waited.
        let Some(number) = state.views.get(view).map(|view| view.allocation) else {
            return InstanceChoice::MustSubmitFirst;
        };
        let handle = state.views.get(view).map(|view| view.handle);
        let it = &mut state.allocations[number];
        // An allocation of an adapter without memory has no extent.
        let Some(extent) = it.extent else { return InstanceChoice::MustSubmitFirst };
        let renames = it.renames.get_or_insert_with(|| Box::new(Instances::first(extent, handle)));
        let extents = &state.memory.extents;
        let quiet = |instance: &Instance| {
            let unlocked =
                |extent: &Extent| extent.lock.is_none() && extent.offer.is_none() && !extent.ending;
            !instance.claimed
                && (grows || instance.renamed_at > 0)
                && extents.get(instance.extent).is_some_and(unlocked)
        };
        let listed = renames.listed_at;
        let may_discard = |instance: &Instance| {
            no_existing_reference || instance.renamed_at == 0 || instance.renamed_at < listed
        };
        let used = |instance: &Instance| {
            extents.get(instance.extent).is_some_and(|extent| extent.packet_references > 0)
        };
        let may = |pair: &(usize, &Instance)| quiet(pair.1) && may_discard(pair.1) && !used(pair.1);
        let newest = renames.newest;
        let free = renames.instances.iter().enumerate().filter(may);
        // The current instance, if it may be used; else the one that was handed out the longest
        // time ago.
        let free =
            free.min_by_key(|(place, it)| (*place != newest, it.renamed_at)).map(|pair| pair.0);
        if let Some(place) = free {
            let it = &mut renames.instances[place];
            it.claimed = true;
            return InstanceChoice::Found(it.extent);
        }
        let limit = extents.get(extent).map_or(0, |extent| extent.requirements.instances);
        let limit = if limit == 0 { MAX_INSTANCES } else { limit };
        if grows && renames.instances.len() < limit as usize {
            return self.create_instance(state, number, view, extent);
        }
        let waits =
            |instance: &&Instance| quiet(instance) && may_discard(instance) && used(instance);
        let behind: Vec<Id<Extent>> =
            renames.instances.iter().filter(waits).map(|instance| instance.extent).collect();
        if behind.is_empty() {
            InstanceChoice::MustSubmitFirst
        } else {
            InstanceChoice::WaitFor(behind)
        }
    }

    /// Creates an instance like the newest, without a location and without a handle.
    fn create_instance(
        &self,
        state: &mut KernelState,
        number: Id<Allocation>,
        view: Id<View>,
        like: Id<Extent>,
    ) -> InstanceChoice {
        let of = &state.memory.extents[like];
        let (adapter, driver_handle, bytes) = (of.adapter, of.driver_handle, of.bytes);
        let (alignment, requirements, priority) = (of.alignment, of.requirements, of.priority);
        let instance = state.memory.instances.insert(InstanceRecord { allocation: number });
        let owner = Owner::Instance(instance);
        let extent = Extent::new(adapter, owner, driver_handle, bytes, alignment, requirements);
        let extent = state.memory.extents.insert(Extent { priority, ..extent });
        let it = &mut state.allocations[number];
        let renames = it.renames.get_or_insert_default();
        renames.instances.push(Instance {
            number: Some(instance),
            extent,
            handle: None,
            renamed_at: 0,
            claimed: true,
        });
        self.log.emit(owner.subject(), || EventKind::InstanceCreated {
            of: number.subject(),
            view: view.subject(),
            driver_handle: self.log.pointer_subject(driver_handle),
            count: u32::try_from(renames.instances.len()).unwrap_or(u32::MAX),
        });
        self.log_requirements(state, extent);
        InstanceChoice::Found(extent)
    }

    /// Makes a claimed instance the newest and gives it a handle. Returns the handle.
    pub(crate) fn select_instance(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        view: Id<View>,
        extent: Id<Extent>,
        no_existing_reference: bool,
    ) -> Result<Handle, KernelError> {
        let removed = KernelError::Removed(view.subject());
        let number = state.views.get(view).map(|view| view.allocation).ok_or(removed.clone())?;
        let it = state.allocations.get(number).ok_or(removed.clone())?;
        let renames = it.renames.as_ref().ok_or(removed.clone())?;
        let place = renames.index_of(extent).ok_or(removed.clone())?;
        let it = renames.instances.get(place).ok_or(removed.clone())?;
        let (instance, mut handle, same) = (it.number, it.handle, place == renames.newest);
        if let (None, Some(instance)) = (handle, instance) {
            let name = self.reserve_handle(state, process.0)?;
            handle = Some(name.handle());
            self.publish_handle(state, process.0, name, ObjectId::Instance(instance));
        }
        let it = &mut state.allocations[number];
        let before = it.extent.replace(extent);
        let renames = invariant(it.renames.as_mut(), "the instance was just found");
        let turn = if same { renames.rename_count } else { renames.rename_count + 1 };
        (renames.newest, renames.rename_count) = (place, turn);
        let it = &mut renames.instances[place];
        (it.handle, it.renamed_at) = (handle, turn);
        if no_existing_reference {
            renames.listed_at = turn; // The client promised to list no older instance.
        }
        state.views[view].superseded = instance.is_some();
        if !same {
            let owner = number.subject();
            let to = instance.map_or(owner, Id::subject);
            self.log.emit(view.subject(), || EventKind::LockRenamed { to, turn });
            // Properties of an allocation apply to its newest instance.
            let priority = before
                .and_then(|extent| state.memory.extents.get(extent))
                .map(|extent| extent.priority);
            if let (Some(priority), Some(it)) = (priority, state.memory.extents.get_mut(extent)) {
                it.priority = priority;
            }
            if let Some(before) = before {
                state.rank(before);
            }
        }
        handle.ok_or(removed)
    }

    /// Ends the claim of an instance. Returns whether the instance was never filled.
    pub(crate) fn release_instance(&self, view: Id<View>, extent: Id<Extent>) -> bool {
        let state = &mut *self.state.lock();
        // Another thread may have destroyed the view meanwhile, and its instances with it.
        let Some(view) = state.views.get(view) else { return false };
        let allocation = state.allocations.get_mut(view.allocation);
        let renames = allocation.and_then(|allocation| allocation.renames.as_mut());
        let it = renames.and_then(|instances| {
            instances.instances.iter_mut().find(|instance| instance.extent == extent)
        });
        it.is_some_and(|instance| {
            instance.claimed = false;
            instance.renamed_at == 0
        })
    }

    /// Closes the handles of instances when their view is closed.
    #[inline]
    pub(crate) fn close_instance_handles(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        view: Id<View>,
    ) {
        let allocation =
            state.views.get(view).and_then(|view| state.allocations.get(view.allocation));
        // Mostly it was never renamed.
        let Some(renames) = allocation.and_then(|allocation| allocation.renames.as_ref()) else {
            return;
        };
        let named = |instance: &Instance| instance.handle.filter(|_| instance.number.is_some());
        let handles: Vec<Handle> = renames.instances.iter().filter_map(named).collect();
        for handle in handles {
            self.close_handle(state, process, handle);
        }
    }

    /// Counts packets that list these extents, when they are queued and when they complete.
    pub(crate) fn count_packet_references(
        &self,
        state: &mut KernelState,
        extents: &[Id<Extent>],
        page_in: bool,
    ) {
        let mut free = false;
        for extent in extents {
            // An extent may be destroyed before a packet that lists it.
            let Some(it) = state.memory.extents.get_mut(*extent) else { continue };
            it.packet_references = if page_in {
                it.packet_references + 1
            } else {
                it.packet_references.saturating_sub(1)
            };
            let (over, owner) = (it.packet_references == 0, it.owner);
            // A lock may wait for it.
            free |= over && !state.waiters.is_empty() && state.instances_of_owner(owner).is_some();
        }
        if free {
            self.wake_all(state);
        }
    }
}

impl Instances {
    /// The first instance: the allocation itself.
    fn first(extent: Id<Extent>, handle: Option<Handle>) -> Self {
        let first = Instance { number: None, extent, handle, renamed_at: 1, claimed: false };
        Self { instances: vec![first], newest: 0, rename_count: 1, listed_at: 0 }
    }

    fn index_of(&self, extent: Id<Extent>) -> Option<usize> {
        self.instances.iter().position(|instance| instance.extent == extent)
    }

    fn index_of_number(&self, number: Option<Id<InstanceRecord>>) -> Option<usize> {
        self.instances.iter().position(|instance| instance.number == number)
    }
}

impl Allocation {
    /// All its extents: the newest instance's and those of older instances.
    pub(crate) fn extents(&self) -> IdList<Extent> {
        if self.renames.is_none() {
            return collect_few(self.extent);
        }
        let all = self
            .renames
            .iter()
            .flat_map(|instances| instances.instances.iter().map(|instance| instance.extent));
        let others = all.filter(|extent| Some(*extent) != self.extent);
        self.extent.into_iter().chain(others).collect()
    }

    /// Takes all its extents.
    pub(crate) fn take_extents(&mut self) -> IdList<Extent> {
        let all = self.extents();
        (self.extent, self.renames) = (None, None);
        all
    }
}

impl KernelState {
    /// Whether a discarding lock of a view's allocation renames it.
    ///
    /// WINDOWS: pinned allocations, primaries and shared allocations are not renamed (documented).
    /// From WDDM 2 on nothing is renamed (documented): the drivers do it themselves.
    pub(crate) fn may_rename(&self, view: Id<View>) -> bool {
        let it = &self.views[view];
        let it = &self.allocations[it.allocation];
        let extent = it.extent.and_then(|extent| self.memory.extents.get(extent));
        let pinned = extent
            .is_none_or(|extent| extent.requirements.flags.pinned || extent.existing.is_some());
        let shared = it
            .resource
            .and_then(|resource| self.resources.get(resource))
            .is_some_and(|resource| resource.shared);
        let on = self.adapters.get(it.adapter);
        let first = on.is_some_and(|adapter| adapter.driver.generation == Generation::One);
        first && !pinned && !it.primary && !shared && self.mmu(it.adapter).is_none()
    }

    /// The allocation that owns an extent, directly or through an instance.
    pub(crate) fn allocation_of(&self, owner: Owner) -> Option<Id<Allocation>> {
        match owner {
            Owner::Allocation(allocation) => Some(allocation),
            Owner::Instance(instance) => Some(self.memory.instances.get(instance)?.allocation),
            Owner::ContextAllocation(_) | Owner::Table(_) => None,
        }
    }

    fn instances_of_owner(&self, owner: Owner) -> Option<&Instances> {
        self.allocations.get(self.allocation_of(owner)?)?.renames.as_deref()
    }

    /// The view of a handle's object, and the index of its instance: `None` if there are no others.
    fn find_instance(&self, named: ObjectId) -> Option<(Id<View>, Option<usize>)> {
        let (instance, allocation) = match named {
            ObjectId::View(view) => (None, self.views.get(view)?.allocation),
            ObjectId::Instance(instance) => {
                (Some(instance), self.memory.instances.get(instance)?.allocation)
            }
            _ => return None,
        };
        let it = self.allocations.get(allocation)?;
        let place = it.renames.as_ref().and_then(|instances| instances.index_of_number(instance));
        // A renamed allocation is not shared, so it has one view.
        let view = match named {
            ObjectId::View(view) => view,
            _ => it.views.first().copied()?,
        };
        Some((view, place))
    }

    /// Resolves a handle in the process of the current call.
    pub(crate) fn find_object(&self, handle: Handle) -> Option<ObjectId> {
        let Call { process, .. } = CallGuard::current()?;
        let process = self.processes.find_serial(process?)?;
        let found = self.processes[process].handles.lookup_for_driver(handle)?;
        Some(self.as_view(found))
    }

    /// The object as the driver knows it: an instance is the view to the driver.
    pub(crate) fn as_view(&self, named: ObjectId) -> ObjectId {
        match self.find_instance(named) {
            Some((view, _)) => ObjectId::View(view),
            None => named,
        }
    }

    /// The client's handle of a view: that of its newest instance.
    pub(crate) fn newest_handle(&self, view: Id<View>) -> Option<Handle> {
        let renames = self.instances_of_view(view);
        let newest =
            renames.and_then(|instances| instances.instances.get(instances.newest)?.handle);
        newest.or_else(|| self.views.get(view).map(|view| view.handle))
    }

    /// The view of a client's handle, if it is the handle of the newest instance.
    #[inline]
    pub(crate) fn newest_view(&self, named: ObjectId) -> Result<Id<View>, HandleError> {
        let superseded = || Err(HandleError::Superseded(self.as_view(named).subject()));
        match named {
            ObjectId::View(view) if self.views[view].superseded => superseded(),
            ObjectId::View(view) => Ok(view),
            ObjectId::Instance(_) => {
                let (view, place) = self.find_instance(named).ok_or(HandleError::Unknown)?;
                let newest = self.instances_of_view(view).map(|instances| instances.newest);
                if newest == place { Ok(view) } else { superseded() }
            }
            _ => Err(HandleError::WrongKind(named.subject())),
        }
    }

    /// The views of a packet's list, each with its instance. Fails if an instance may not be
    /// listed.
    ///
    /// WINDOWS: once a newer instance is referenced, an older one may not be referenced any more,
    /// neither by a later packet nor later in the patch locations of one packet (documented).
    pub(crate) fn listed_instances(
        &self,
        process: ProcessId,
        device: Id<Device>,
        request: &RenderRequest,
    ) -> Result<ListedInstances, KernelError> {
        let mut all = Vec::with_capacity(request.list.len());
        let mut rename_count = Vec::with_capacity(request.list.len());
        for (place, (handle, _)) in request.list.iter().enumerate() {
            let argument = Argument::Allocation(place);
            let (view, extent) = self.instance_of(process, device, argument, *handle)?;
            let renames = self.instances_of_view(view);
            let of =
                renames.and_then(|instances| instances.instances.get(instances.index_of(extent)?));
            let turn = of.map_or(0, |instance| instance.renamed_at);
            if renames.is_some_and(|instances| turn < instances.listed_at) {
                return Err(KernelError::InstanceSuperseded {
                    handle: *handle,
                    view: view.subject(),
                });
            }
            all.push((view, extent));
            rename_count.push(turn);
        }
        let mut behind: Vec<(Id<View>, u64)> = Vec::new();
        for it in &request.patches {
            let place = it.allocation_index as usize;
            // The client may name an entry that its list does not have.
            let (Some((view, _)), Some(turn)) = (all.get(place), rename_count.get(place)) else {
                continue;
            };
            match behind.iter_mut().find(|pair| pair.0 == *view) {
                Some((_, last)) if turn < last => {
                    let handle = request.list.get(place).map(|pair| pair.0).unwrap_or_default();
                    return Err(KernelError::InstanceSuperseded { handle, view: view.subject() });
                }
                Some((_, last)) => *last = *turn,
                None => behind.push((*view, *turn)),
            }
        }
        Ok(all)
    }

    /// Records the instances of accepted packets: older instances may not be listed any more.
    pub(crate) fn record_listed(&mut self, uses: impl Iterator<Item = (Id<View>, Id<Extent>)>) {
        for (view, extent) in uses {
            let number = self.views[view].allocation;
            // An allocation that was never renamed has one instance.
            let Some(it) = self.allocations[number].renames.as_mut() else { continue };
            let place = it.index_of(extent);
            let turn = place
                .and_then(|place| it.instances.get(place))
                .map_or(0, |instance| instance.renamed_at);
            it.listed_at = it.listed_at.max(turn);
        }
    }

    /// A view of a device, with the extent of the instance of a client's handle, which may be an
    /// older one.
    pub(crate) fn instance_of(
        &self,
        process: ProcessId,
        device: Id<Device>,
        argument: Argument,
        handle: Handle,
    ) -> Result<(Id<View>, Id<Extent>), KernelError> {
        let named = self.find_handle(process, argument, handle)?;
        let wrong =
            KernelError::Handle { argument, handle, why: HandleError::WrongKind(named.subject()) };
        let (view, place) = self.find_instance(named).ok_or(wrong)?;
        let owner = self.views[view].device;
        if owner != device {
            let owner = owner.subject();
            return Err(KernelError::OtherDevice { argument, handle, owner });
        }
        let of = place.and_then(|place| self.instances_of_view(view)?.instances.get(place));
        let extent = of.map(|instance| instance.extent).or_else(|| self.extent_of(view));
        Ok((view, extent.ok_or(KernelError::NoVideoMemory)?))
    }

    fn instances_of_view(&self, view: Id<View>) -> Option<&Instances> {
        self.allocations.get(self.views.get(view)?.allocation)?.renames.as_deref()
    }

    /// The subject of lock events: the view, or an instance that is not the first.
    pub(crate) fn lock_subject(&self, view: Id<View>, extent: Id<Extent>) -> Subject {
        match self.memory.extents[extent].owner {
            Owner::Instance(instance) => instance.subject(),
            _ => view.subject(),
        }
    }

    /// The extents of all locked instances of a view.
    pub(crate) fn locked_extents(&self, view: Id<View>) -> Vec<Id<Extent>> {
        let allocation =
            self.views.get(view).and_then(|view| self.allocations.get(view.allocation));
        let locked = |it: &Id<Extent>| {
            self.memory.extents.get(*it).is_some_and(|extent| extent.lock.is_some())
        };
        allocation
            .map(|allocation| allocation.extents().into_iter().filter(locked).collect())
            .unwrap_or_default()
    }

    /// Checks that an allocation's extent is that of its newest instance.
    pub(crate) fn validate_instances(
        &self,
        number: Id<Allocation>,
        it: &Allocation,
    ) -> Result<(), String> {
        // An allocation that was never renamed has one instance.
        let Some(renames) = &it.renames else { return Ok(()) };
        let newest = renames.instances.get(renames.newest);
        if newest.map(|instance| instance.extent) != it.extent {
            return Err(format!("{number} is not its newest instance"));
        }
        let there = |instance: &Instance| {
            let named = instance.number.is_none_or(|it| {
                self.memory
                    .instances
                    .get(it)
                    .is_some_and(|instance_record| instance_record.allocation == number)
            });
            named && self.memory.extents.get(instance.extent).is_some()
        };
        if renames.instances.iter().all(there) && renames.listed_at <= renames.rename_count {
            return Ok(());
        }
        Err(format!("an instance of {number} is destroyed, or was listed before its turn"))
    }

    /// The view that a client's handle names: the handle must be of its newest instance.
    #[inline]
    pub(crate) fn resolve_view(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<View>, KernelError> {
        let found = self.find_handle(process, argument, handle)?;
        self.newest_view(found).map_err(|why| KernelError::Handle { argument, handle, why })
    }
}
