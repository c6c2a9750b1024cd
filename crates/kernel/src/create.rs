//! Creating allocations: alone, with a new resource, into one that is there.
//!
//! Names are reserved first and published last, all at once. A step that fails is undone in
//! reverse: views that were opened are closed, what was created is destroyed, names go back.

use crate::build::check_still_valid;
use crate::ddi::{Driver, CallDetails};
use crate::device::Device;
use crate::device::RundownGuard;
use crate::gate::{ThreadingLevel, PermitKey, PermitMode, DdiPermit};
use crate::handle::{Handle, ReservedHandles};
use crate::kernel::Kernel;
use crate::lock::StateGuard;
use crate::miniport::{
    NewAllocation, CreateAllocationArgs, HandleSlot, CreatedAllocations, DriverResource, OwningResource, DriverError, AllocationInfo, StandardAllocationArgs, StandardPrivateData,
};
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, KernelError};
use crate::resource::Resource;
use crate::resource::ResourceView;
use crate::store::Id;
use crate::world::KernelState;
use flight::{Hex, Log, Passive, RuleId, EventKind, Component};
use smallvec::SmallVec;

/// No driver has more private data for a standard allocation.
const MAX_PRIVATE_SIZE: u32 = 1 << 24;

/// What a client asks to create (`D3DKMT_CREATEALLOCATION`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateAllocationRequest {
    /// On which device.
    pub device: Handle,
    /// Into this resource.
    pub resource: Option<Handle>,
    /// With a new resource.
    pub new_resource: bool,
    /// Whether others may open the new resource.
    pub sharing: Sharing,
    /// The client runtime's private data, kept as it is.
    pub runtime: Vec<u8>,
    /// The new resource's private data for the driver.
    pub private: Vec<u8>,
    /// Each allocation's private data for the driver.
    pub allocations: Vec<Vec<u8>>,
    /// Which of them are primaries, by their places in the list.
    pub primaries: Vec<usize>,
    /// One standard allocation of so many bytes, whose private data the driver supplies.
    pub standard: Option<u64>,
}

/// Whether others may open a resource, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody else.
    #[default]
    None,
    /// By a global handle.
    Global,
    /// By NT handles only.
    Nt,
}

impl Sharing {
    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::None => "none",
            Sharing::Global => "global",
            Sharing::Nt => "nt",
        }
    }
}

/// What was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAllocationResponse {
    /// The name of the new resource, or of the one they joined.
    pub resource: Option<Handle>,
    /// The global name of the new resource.
    pub global: Option<Handle>,
    /// The names of the allocations, in order.
    pub allocations: Vec<Handle>,
    /// The resource's private data as the driver left it.
    pub private: Vec<u8>,
    /// Each allocation's private data as the driver left it.
    pub privates: Vec<Vec<u8>>,
}

/// The resource that new allocations belong to.
#[derive(Clone, Copy)]
pub(crate) struct ResourceTarget {
    pub(crate) resource: Id<Resource>,
    pub(crate) view: Id<ResourceView>,
    pub(crate) created: bool,
}

/// The digests of private data, one for each allocation.
pub(crate) type Digests = SmallVec<[Hex; 4]>;

/// A create call, while it is under way.
pub(crate) struct CreateScope<'a> {
    pub(crate) process: Id<Process>,
    pub(crate) device: &'a RundownGuard<'a>,
    /// The resource that is there already.
    pub(crate) joins: Option<ResourceTarget>,
    /// The shared resource that is opened, by its global name: nothing is created.
    pub(crate) shared: Option<(Handle, Id<Resource>)>,
}

impl Kernel {
    /// Creates allocations (`D3DKMTCreateAllocation`, `D3DKMTCreateAllocation2`).
    pub fn create_allocations(
        &self,
        at: &mut Passive,
        process: ProcessId,
        mut order: CreateAllocationRequest,
    ) -> Result<CreateAllocationResponse, KernelError> {
        let inside; // Before the world, so that it is dropped after it.
        let mut world = self.state.lock();
        let device = world.working_device(process, order.device)?;
        if order.allocations.is_empty() {
            return Err(KernelError::NothingToCreate);
        }
        let find = |it| world.find_owning_resource(process, device, it, order.standard.is_some());
        let joins = order.resource.map(find).transpose()?;
        inside = self.acquire_rundown(&mut world, device)?;
        // A new resource's name comes first.
        let count = order.allocations.len() + usize::from(order.new_resource && joins.is_none());
        let mut names = self.reserve_handles(&mut world, process.0, count)?;
        let creating = CreateScope { process: process.0, device: &inside, joins, shared: None };
        match self.create_with_permit(at, world, &creating, &mut order, &mut names) {
            Ok((made, mut world)) => {
                inside.release(&mut world);
                Ok(made)
            }
            Err(why) => {
                self.cancel_handles(&mut self.state.lock(), process.0, names);
                Err(why)
            }
        }
    }

    /// The part that calls the driver, and comes back with the world held. On failure everything
    /// but the names is undone.
    fn create_with_permit<'k>(
        &'k self,
        at: &mut Passive,
        world: StateGuard<'k, KernelState>,
        creating: &CreateScope<'_>,
        order: &mut CreateAllocationRequest,
        names: &mut ReservedHandles,
    ) -> Result<(CreateAllocationResponse, StateGuard<'k, KernelState>), KernelError> {
        let CreateScope { process, device: inside, joins, .. } = *creating;
        let driver = &inside.driver;
        let mut keys = ThreadingLevel::Zero.keys(inside.adapter, driver.generation, process);
        keys.extend(joins.map(|it| (PermitKey::Resource(it.resource), PermitMode::Exclusive)));
        let (permit, world) = self.acquire_permit_locked(at, world, keys)?;
        // Who parked looks again.
        check_still_valid(&world, creating)?;
        drop(world);
        let mut given = self.digests(&order.allocations);
        if let Some(bytes) = order.standard {
            standard_private(at, driver, &permit, process, bytes, order)?;
            given = self.digests(&order.allocations);
        }
        let described = self.call_create_allocation(at, &permit, creating, order);
        if order.standard.is_some() {
            let why = described.as_ref().err().filter(|it| is_data_error(it));
            let broken =
                why.map(|it| format!("its private data was refused by its own create: {it:?}"));
            judge_standard(driver, RuleId::KMD_STD_004, broken);
        }
        let (born, seen) = described?;
        let crooked = born.allocations.iter().any(|(_, shape)| shape.is_misaligned());
        let shapes: SmallVec<[AllocationInfo; 1]> = born.allocations.iter().map(|it| it.1).collect();
        let mut world = self.state.lock();
        let mut built = self.create_objects(&mut world, creating, order, born, (&given, &seen));
        let astray = !self.check_requirements(&world, creating.device.adapter, &built, &shapes);
        if built.allocations.len() != order.allocations.len() || crooked || astray {
            drop(world);
            self.undo_create(at, creating, &permit, built);
            return Err(KernelError::BadAllocationInfo);
        }
        world.bind_view_handles(creating, &mut built, names);
        drop(world);
        let opened = self.open_allocations(at, &permit, creating, order, &built);
        let described = opened.map(|world| {
            if !order.primaries.is_empty() {
                drop(world);
                self.describe_primaries(at, &permit, creating, order, &built);
                return self.state.lock();
            }
            world
        });
        let finished = described.and_then(|mut world| {
            let made = self.publish_objects(&mut world, creating, &built, order, names)?;
            Ok((made, world))
        });
        match finished {
            Ok((made, mut world)) => {
                permit.release(&mut world);
                Ok((made, world))
            }
            Err(why) => {
                self.undo_create(at, creating, &permit, built);
                Err(why)
            }
        }
    }

    /// Has the driver describe the allocations. Answers the digests of what it was shown, too.
    fn call_create_allocation(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        order: &mut CreateAllocationRequest,
    ) -> Result<(CreatedAllocations, Digests), KernelError> {
        let seen = self.digests(&order.allocations);
        let lengths = lengths(&order.allocations);
        let known = creating.joins.and_then(|it| self.take_resource_handle(it.resource));
        let resource = match &known {
            Some(word) => Some(OwningResource::Existing(word, HandleSlot::new())),
            None => order.new_resource.then(|| OwningResource::New(HandleSlot::new())),
        };
        let primaries = &order.primaries;
        let birth = |(place, private)| {
            let primary = primaries.contains(&place);
            NewAllocation { private, primary, slot: HandleSlot::new() }
        };
        let births = CreateAllocationArgs {
            allocations: order.allocations.iter_mut().enumerate().map(birth).collect(),
            resource,
            private: &mut order.private,
        };
        let driver = &creating.device.driver;
        let lent = creating.joins.zip(known.as_ref()).map(|(it, word)| (it.resource, word.word()));
        let log_arguments = |log: &Log| {
            if let Some((resource, word)) = lent {
                let carried = EventKind::DdiResource { driver_handle: log.pointer_subject(word), destroy: false, no_allocations: false };
                log.emit(resource.subject(), carried);
            }
        };
        let whom = CallDetails { process: Some(creating.process), log_arguments: &log_arguments };
        let mut born = driver.create_allocations(at, permit, whom, births);
        for (private, length) in order.allocations.iter_mut().zip(lengths) {
            private.resize(length, 0); // A driver edits bytes; it does not change how many.
        }
        if let (Some(place), Some(word)) = (creating.joins, known) {
            let changed = born.as_mut().ok().and_then(|it| it.resource.take());
            let old = word.word();
            let mut world = self.state.lock();
            self.set_resource_handle(&mut world, place.resource, old, changed.unwrap_or(word));
        }
        Ok((born?, seen))
    }

    /// The digests of private data, for events; of none where nobody listens.
    fn digests(&self, private: &[Vec<u8>]) -> Digests {
        let listens = self.log.is_enabled();
        private.iter().map(|it| if listens { digest(it) } else { Hex(0) }).collect()
    }

    /// Takes a resource's word out, to lend it. Its key is held.
    fn take_resource_handle(&self, resource: Id<Resource>) -> Option<DriverResource> {
        self.state.lock().resources.get_mut(resource).and_then(|it| it.driver_handle.take())
    }
}

impl KernelState {
    /// The resource that a client's handle names on its device, open to growth.
    fn find_owning_resource(
        &self,
        process: ProcessId,
        device: Id<Device>,
        handle: Handle,
        standard: bool,
    ) -> Result<ResourceTarget, KernelError> {
        let argument = Argument::Resource;
        let number = self.resolve_handle::<ResourceView>(process, argument, handle)?;
        let zombie = KernelError::Removed(number.subject());
        let view = self.resource_views.get(number).ok_or(zombie.clone())?;
        if view.device != device {
            let owner = view.device.subject();
            return Err(KernelError::OtherDevice { argument, handle, owner });
        }
        let resource = view.resource.subject();
        if self.resources.get(view.resource).ok_or(zombie)?.shared {
            return Err(KernelError::SharedResourceSealed(resource));
        }
        if standard {
            return Err(KernelError::StandardInResource(resource));
        }
        Ok(ResourceTarget { resource: view.resource, view: number, created: false })
    }
}

impl AllocationInfo {
    /// Whether no memory could have it.
    fn is_misaligned(&self) -> bool {
        self.size == 0 || !(self.alignment == 0 || self.alignment.is_power_of_two())
    }
}

/// How long each one's private data is.
pub(crate) fn lengths(private: &[Vec<u8>]) -> SmallVec<[usize; 4]> {
    private.iter().map(Vec::len).collect()
}

/// Has the driver supply the private data of a standard allocation: sizes, then bytes.
fn standard_private(
    at: &mut Passive,
    driver: &Driver,
    permit: &DdiPermit<'_>,
    process: Id<Process>,
    bytes: u64,
    order: &mut CreateAllocationRequest,
) -> Result<(), KernelError> {
    let mut standard = StandardAllocationArgs { bytes, private: None, allocation_size: 0, resource_size: 0 };
    driver.standard_data(at, permit, process, &mut standard)?;
    let sizes = [standard.allocation_size, standard.resource_size];
    let broken = (sizes == [0, 0]).then(|| "it gave both private data no bytes".to_owned());
    judge_standard(driver, RuleId::KMD_STD_003, broken);
    if standard.allocation_size.max(standard.resource_size) > MAX_PRIVATE_SIZE {
        return Err(KernelError::BadAllocationInfo);
    }
    standard.private = Some(StandardPrivateData {
        allocation: vec![0; standard.allocation_size as usize],
        resource: vec![0; standard.resource_size as usize],
    });
    driver.standard_data(at, permit, process, &mut standard)?;
    let private = standard.private.unwrap_or_default();
    let again = [standard.allocation_size, standard.resource_size];
    let given = [&private.allocation, &private.resource].map(Vec::len);
    let agree = sizes == again && sizes.map(|it| it as usize) == given;
    let broken = (!agree).then(|| {
        format!("it asked for {sizes:?} bytes of private data, then gave {given:?} of {again:?}")
    });
    judge_standard(driver, RuleId::KMD_STD_004, broken);
    order.allocations = vec![private.allocation];
    order.private = private.resource;
    Ok(())
}

/// Whether a driver refused private data for what is in it.
fn is_data_error(why: &KernelError) -> bool {
    matches!(why, KernelError::Driver(DriverError::Invalid | DriverError::Mismatch))
}

/// Entry rules on what a driver says of a standard allocation: it has no object yet.
fn judge_standard(driver: &Driver, rule: RuleId, broken: Option<String>) {
    let place = "DxgkDdiGetStandardAllocationDriverData";
    driver.log.judge(rule, Component::Driver, driver.adapter.subject(), place, broken);
}

/// A short digest of private data, for events (FNV-1a).
pub(crate) fn digest(bytes: &[u8]) -> Hex {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Hex(bytes.iter().fold(0x811c_9dc5, step))
}
