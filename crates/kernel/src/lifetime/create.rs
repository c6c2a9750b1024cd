//! Creating allocations: standalone, with a new resource, or in an existing resource.
//!
//! Handles are reserved first and published last, all at once. A failure undoes the earlier steps
//! in reverse order: opened views are closed, created allocations are destroyed, and the reserved
//! handles are released.

use crate::base::digest::digest;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::miniport::{
    AllocationInfo, CallList, CreateAllocationArgs, DriverAllocation, DriverError, DriverResource,
    HandleSlot, NewAllocation, OwningResource, PrivateData, StandardAllocationArgs,
    StandardPrivateData, collect_few,
};
use crate::ddi::operation::PAGE;
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::open::{PublishedHandles, check_still_valid};
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::lifetime::share::SharedOpen;
use crate::lock::StateGuard;
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::{Handle, ReservedHandles};
use crate::objects::resource::Resource;
use crate::objects::resource::ResourceView;
use crate::state::KernelState;
use flight::{Component, EventKind, ExistingMemory, Hex, Log, Passive, RuleId};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Maximum size in bytes of a driver's private data for a standard allocation.
const MAX_PRIVATE_SIZE: u32 = 1 << 24;

/// A client's request to create allocations (`D3DKMT_CREATEALLOCATION`).
#[derive(Clone, Debug, Default)]
pub struct CreateAllocationRequest {
    /// The device.
    pub device: Handle,
    /// An existing resource that gets the new allocations.
    pub resource: Option<Handle>,
    /// Whether to create a resource.
    pub new_resource: bool,
    /// Whether other devices may open the new resource.
    pub sharing: Sharing,
    /// The client runtime's private data, stored unchanged.
    pub runtime: Vec<u8>,
    /// The new resource's private data for the driver.
    pub private: Vec<u8>,
    /// Each allocation's private data for the driver.
    pub allocations: CallList<PrivateData>,
    /// Indices of the primaries in the list.
    pub primaries: Vec<usize>,
    /// The size in bytes of one standard allocation, whose private data the driver supplies.
    pub standard: Option<u64>,
    /// The client's memory that the standard allocation uses.
    pub existing: Option<Arc<dyn ExistingMemory>>,
    /// Other adapters may open the new resource, too.
    pub cross_adapter: bool,
}

/// Whether and how other devices may open a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Not shared.
    #[default]
    None,
    /// Through a global handle.
    Global,
    /// Through NT handles only.
    Nt,
}

impl Sharing {
    /// The name of the value in events.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::None => "none",
            Sharing::Global => "global",
            Sharing::Nt => "nt",
        }
    }
}

/// The created objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAllocationResponse {
    /// The handle of the new or given resource.
    pub resource: Option<Handle>,
    /// The global handle of the new resource.
    pub global: Option<Handle>,
    /// The handles of the allocations, in order.
    pub allocations: CallList<Handle>,
    /// The resource's private data as the driver returned it.
    pub private: Vec<u8>,
    /// Each allocation's private data as the driver returned it.
    pub privates: CallList<PrivateData>,
}

/// The resource that new allocations belong to.
#[derive(Clone, Copy)]
pub(crate) struct ResourceTarget {
    pub(crate) resource: Id<Resource>,
    pub(crate) view: Id<ResourceView>,
    pub(crate) created: bool,
}

/// What a driver has created: each allocation's driver handle and description, and the resource's
/// driver handle, if the resource is new or its handle changed.
pub(crate) struct CreatedAllocations {
    pub(crate) allocations: CallList<(DriverAllocation, AllocationInfo)>,
    pub(crate) resource: Option<DriverResource>,
}

/// Digests of private data, one per allocation; none if the log is disabled.
pub(crate) type Digests = SmallVec<[Hex; 4]>;

/// A create or open call in progress.
pub(crate) struct CreateScope<'a> {
    pub(crate) process: Id<Process>,
    pub(crate) device: &'a EnteredDevice,
    /// The existing resource, if there is one.
    pub(crate) joins: Option<ResourceTarget>,
    /// The shared resource that is opened. Such a call creates no allocations.
    pub(crate) shared: Option<SharedOpen>,
}

impl Kernel {
    /// Creates allocations (`D3DKMTCreateAllocation`, `D3DKMTCreateAllocation2`).
    ///
    /// Fails if a handle or flag of the request is invalid, the device does not work, or the driver
    /// fails. A failed call leaves no objects and no handles.
    pub fn create_allocations(
        &self,
        at: &mut Passive,
        process: ProcessId,
        mut request: CreateAllocationRequest,
    ) -> Result<CreateAllocationResponse, KernelError> {
        let guard; // Declared before the state guard, so that it is dropped after the guard.
        let mut state = self.state.lock();
        let device = state.working_device(process, request.device)?;
        if request.allocations.is_empty() {
            return Err(KernelError::NothingToCreate);
        }
        let find = |handle| {
            state.find_owning_resource(process, device, handle, request.standard.is_some())
        };
        let joins = request.resource.map(find).transpose()?;
        guard = self.acquire_rundown(&mut state, device)?;
        // The handle of a new resource comes first.
        let count =
            request.allocations.len() + usize::from(request.new_resource && joins.is_none());
        let mut handles = self.reserve_handles(&mut state, process.0, count)?;
        let creating = CreateScope { process: process.0, device: &guard, joins, shared: None };
        match self.create_with_permit(at, state, &creating, &mut request, &mut handles) {
            Ok((made, mut state)) => {
                guard.release(&mut state);
                Ok(made)
            }
            Err(why) => {
                self.cancel_handles(&mut self.state.lock(), process.0, handles);
                Err(why)
            }
        }
    }

    /// Calls the driver, and returns with the state locked. On failure everything except the
    /// reserved handles is undone.
    fn create_with_permit<'k>(
        &'k self,
        at: &mut Passive,
        state: StateGuard<'k, KernelState>,
        creating: &CreateScope<'_>,
        request: &mut CreateAllocationRequest,
        handles: &mut ReservedHandles,
    ) -> Result<(CreateAllocationResponse, StateGuard<'k, KernelState>), KernelError> {
        let CreateScope { process, device: guard, joins, .. } = *creating;
        let driver = &guard.driver;
        let mut keys = ThreadingLevel::Zero.keys(guard.adapter, driver.generation, process);
        if let Some(target) = joins {
            keys = keys.with_resource(target.resource);
        }
        let (permit, state) = self.acquire_permit_locked(at, state, keys)?;
        // Check again after the wait.
        check_still_valid(&state, creating)?;
        drop(state);
        let mut given = self.digests(&request.allocations);
        if let Some(bytes) = request.standard {
            standard_private(at, driver, &permit, process, bytes, request)?;
            given = self.digests(&request.allocations);
        }
        let described = self.call_create_allocation(at, &permit, creating, request);
        if request.standard.is_some() {
            let why = described.as_ref().err().filter(|error| is_data_error(error));
            let broken = why.map(|error| {
                format!(
                    "the driver rejected its own private data in DxgkDdiCreateAllocation: {error}"
                )
            });
            judge_standard(driver, RuleId::KMD_STD_004, broken);
        }
        let (created, seen) = described?;
        let impossible = created.allocations.iter().any(|(_, info)| info.is_impossible());
        let infos: CallList<AllocationInfo> =
            collect_few(created.allocations.iter().map(|pair| pair.1));
        let mut state = self.state.lock();
        let mut objects =
            self.create_objects(&mut state, creating, request, created, (&given, &seen));
        let mut bad_segment_set = false;
        for (number, info) in objects.allocations.iter().zip(&infos) {
            let adapter = creating.device.adapter;
            bad_segment_set |= !self.check_requirements(&state, adapter, *number, info);
        }
        if objects.allocations.len() != request.allocations.len() || impossible || bad_segment_set {
            drop(state);
            self.undo_create(at, creating, &permit, objects);
            return Err(KernelError::BadAllocationInfo);
        }
        if request.cross_adapter {
            // WINDOWS: a cross-adapter resource is in an aperture or in system memory (documented).
            objects.allocations.iter().for_each(|number| state.keep_in_apertures(*number));
        }
        // A standard allocation comes alone.
        if let (Some(existing), [number]) = (&request.existing, &objects.allocations[..])
            && let Err(why) = state.use_existing_memory(*number, existing)
        {
            drop(state);
            self.undo_create(at, creating, &permit, objects);
            return Err(why);
        }
        state.bind_view_handles(creating, &mut objects, handles);
        drop(state);
        let private = (&request.private[..], &mut request.allocations[..]);
        let opened = self.open_allocations(at, &permit, creating, private, &objects, handles);
        let described = opened.map(|state| {
            if !request.primaries.is_empty() {
                drop(state);
                self.describe_primaries(at, &permit, creating, request, &objects);
                return self.state.lock();
            }
            state
        });
        let finished = described.and_then(|mut state| {
            let privates = &request.allocations[..];
            let sharing = (request.sharing, request.runtime.len());
            let published =
                self.publish_objects(&mut state, creating, &objects, privates, sharing, handles)?;
            Ok((published, state))
        });
        match finished {
            Ok((published, mut state)) => {
                permit.release(&mut state);
                let PublishedHandles { resource, global, allocations } = published;
                let private = std::mem::take(&mut request.private);
                let privates = std::mem::take(&mut request.allocations);
                let made =
                    CreateAllocationResponse { resource, global, allocations, private, privates };
                Ok((made, state))
            }
            Err(why) => {
                self.undo_create(at, creating, &permit, objects);
                Err(why)
            }
        }
    }

    /// Calls `DxgkDdiCreateAllocation`. Returns also the digests of the private data that was
    /// passed.
    fn call_create_allocation(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        request: &mut CreateAllocationRequest,
    ) -> Result<(CreatedAllocations, Digests), KernelError> {
        let seen = self.digests(&request.allocations);
        let known = creating
            .joins
            .and_then(|resource_target| self.take_resource_handle(resource_target.resource));
        let resource = match &known {
            Some(driver_handle) => Some(OwningResource::Existing(driver_handle, HandleSlot::new())),
            None => request.new_resource.then(|| OwningResource::New(HandleSlot::new())),
        };
        let primaries = &request.primaries;
        let private = request.allocations.iter_mut().map(|private| &mut private[..]);
        let allocations = private.enumerate().map(|(place, private)| {
            let primary = primaries.contains(&place);
            NewAllocation::new(private, primary)
        });
        let mut args = CreateAllocationArgs {
            allocations: collect_few(allocations),
            resource,
            private: &mut request.private,
        };
        let driver = &creating.device.driver;
        let lent = creating
            .joins
            .zip(known.as_ref())
            .map(|(target, driver_handle)| (target.resource, driver_handle.as_raw()));
        let log_arguments = |log: &Log| {
            if let Some((resource, driver_handle)) = lent {
                log.emit(resource.subject(), || EventKind::DdiResource {
                    driver_handle: log.pointer_subject(driver_handle),
                    destroy: false,
                    no_allocations: false,
                });
            }
        };
        let details =
            CallDetails { process: Some(creating.process), log_arguments: &log_arguments };
        let mut resource = driver.create_allocations(at, permit, details, &mut args);
        // The driver may have created fewer, the first ones.
        let created = |new: &mut NewAllocation<'_>| Some((new.driver_handle.take()?, new.info));
        let allocations = collect_few(args.allocations.iter_mut().map_while(created));
        drop(args);
        if let (Some(place), Some(driver_handle)) = (creating.joins, known) {
            let changed = resource.as_mut().ok().and_then(Option::take);
            let old = driver_handle.as_raw();
            let mut state = self.state.lock();
            self.set_resource_handle(
                &mut state,
                place.resource,
                old,
                changed.unwrap_or(driver_handle),
            );
        }
        Ok((CreatedAllocations { allocations, resource: resource? }, seen))
    }

    /// Digests of private data for events; none if the log is disabled.
    fn digests(&self, private: &[PrivateData]) -> Digests {
        if !self.log.is_enabled() {
            return Digests::new();
        }
        private.iter().map(|bytes| digest(bytes)).collect()
    }

    /// Takes a resource's driver handle out, to lend it. The caller holds the resource's permit
    /// key.
    fn take_resource_handle(&self, resource: Id<Resource>) -> Option<DriverResource> {
        self.state
            .lock()
            .resources
            .get_mut(resource)
            .and_then(|resource| resource.driver_handle.take())
    }
}

impl KernelState {
    /// Resolves the handle of a resource that accepts more allocations on this device.
    fn find_owning_resource(
        &self,
        process: ProcessId,
        device: Id<Device>,
        handle: Handle,
        standard: bool,
    ) -> Result<ResourceTarget, KernelError> {
        let argument = Argument::Resource;
        let number = self.resolve_handle::<ResourceView>(process, argument, handle)?;
        let removed = || KernelError::Removed(number.subject());
        let view = self.resource_views.get(number).ok_or_else(removed)?;
        if view.device != device {
            let owner = view.device.subject();
            return Err(KernelError::OtherDevice { argument, handle, owner });
        }
        let resource = view.resource.subject();
        if self.resources.get(view.resource).ok_or_else(removed)?.shared {
            return Err(KernelError::SharedResourceSealed(resource));
        }
        if standard {
            return Err(KernelError::StandardInResource(resource));
        }
        Ok(ResourceTarget { resource: view.resource, view: number, created: false })
    }
}

impl AllocationInfo {
    /// Whether a size is zero or overflows when it is rounded up to pages, or the alignment is not
    /// a power of two.
    pub(crate) fn is_impossible(&self) -> bool {
        let overflows = |bytes: u64| bytes.checked_next_multiple_of(PAGE).is_none();
        self.size == 0
            || overflows(self.size)
            || overflows(self.pitch_aligned_size)
            || !(self.alignment == 0 || self.alignment.is_power_of_two())
    }
}

/// Calls `DxgkDdiGetStandardAllocationDriverData` twice: for the sizes, then for the private data.
fn standard_private(
    at: &mut Passive,
    driver: &Driver,
    permit: &DdiPermit<'_>,
    process: Id<Process>,
    bytes: u64,
    request: &mut CreateAllocationRequest,
) -> Result<(), KernelError> {
    let mut standard =
        StandardAllocationArgs { bytes, private: None, allocation_size: 0, resource_size: 0 };
    driver.get_standard_allocation_driver_data(at, permit, process, &mut standard)?;
    let sizes = [standard.allocation_size, standard.resource_size];
    let broken = (sizes == [0, 0])
        .then(|| "the driver returned size zero for both kinds of private data".to_owned());
    judge_standard(driver, RuleId::KMD_STD_003, broken);
    if standard.allocation_size.max(standard.resource_size) > MAX_PRIVATE_SIZE {
        return Err(KernelError::BadAllocationInfo);
    }
    standard.private = Some(StandardPrivateData {
        allocation: vec![0; standard.allocation_size as usize],
        resource: vec![0; standard.resource_size as usize],
    });
    driver.get_standard_allocation_driver_data(at, permit, process, &mut standard)?;
    let private = standard.private.unwrap_or_default();
    let again = [standard.allocation_size, standard.resource_size];
    let given = [&private.allocation, &private.resource].map(Vec::len);
    let agree = sizes == again && sizes.map(|number| number as usize) == given;
    let broken = (!agree).then(|| {
        format!(
            "the driver returned sizes {} and {}, then {} and {}, and {} and {} bytes of data",
            sizes[0], sizes[1], again[0], again[1], given[0], given[1]
        )
    });
    judge_standard(driver, RuleId::KMD_STD_004, broken);
    request.allocations = smallvec![private.allocation.into()];
    request.private = private.resource;
    Ok(())
}

/// Whether a driver rejected the contents of the private data.
fn is_data_error(why: &KernelError) -> bool {
    matches!(why, KernelError::Driver(DriverError::Invalid | DriverError::Mismatch))
}

/// Judges an entry rule on a standard allocation. The adapter is the subject, because the
/// allocation has no object yet.
fn judge_standard(driver: &Driver, rule: RuleId, broken: Option<String>) {
    let place = "DxgkDdiGetStandardAllocationDriverData";
    driver.log.judge(rule, Component::Driver, driver.adapter.subject(), place, broken);
}
