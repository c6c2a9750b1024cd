//! Handle data: references that a driver acquires to its own data through a client's handle
//! (`DxgkCbAcquireHandleData`).
//!
//! # Invariants
//!
//! 1. While a driver holds a reference to the data of an allocation or a resource, the view through
//!    which it was acquired does not end, and neither does the allocation or resource. The
//!    retirement waits as a job, and is checked again when a reference is released.
//! 2. A reference ends once: released by the driver, or with the device whose view it was acquired
//!    through.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::DriverHandle;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::retire::Retirement;
use crate::objects::handle_table::Handle;
use crate::objects::handle_table::ObjectId;
use crate::objects::resource::ResourceView;
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{Call, CallGuard, Component, EventKind, Hex, Passive, RuleId, Subject, invariant};

/// A reference that a driver has acquired.
pub(crate) struct HandleDataReference {
    adapter: Id<Adapter>,
    /// The owner of the data: an allocation, a resource, or a view.
    of: Subject,
    /// The allocation or resource that the reference keeps alive.
    pub(crate) keeps_alive: Subject,
    /// The device through whose view it was acquired.
    pub(crate) device: Id<Device>,
    /// The handle type that the driver passed.
    kind: u32,
    /// The call in which it was acquired.
    call: u32,
}

const ACQUIRE: &str = "DxgkCbAcquireHandleData.Flags.DeviceSpecific";
const RELEASE: &str = "DxgkCbReleaseHandleData";

impl Kernel {
    /// Resolves a client's handle in the process of the current call. Returns the driver handle,
    /// and the number with which the reference is released.
    pub(crate) fn acquire_handle_data(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        handle: Handle,
        of_device: bool,
        kind: u32,
    ) -> Option<(usize, u32)> {
        let mut state = self.state.lock();
        let call = CallGuard::current()?;
        let (of, keeps, device, driver_handle) =
            self.find_handle_data(&state, &call, adapter, handle, of_device)?;
        let call = call.number;
        state.lifetime.last_handle_data += 1;
        let number = state.lifetime.last_handle_data;
        state.lifetime.handle_data.insert(
            number,
            HandleDataReference { adapter, of, keeps_alive: keeps, device, kind, call },
        );
        state.lifetime.calls.insert(call);
        CallGuard::mark(); // The end of this call is checked for the reference.
        self.log.emit(of, || EventKind::HandleDataAcquired {
            driver_handle: self.log.pointer_subject(driver_handle),
            reference: number,
        });
        Some((driver_handle, number))
    }

    /// The owner of the data behind a client's handle in the process of a call, the object that a
    /// reference keeps alive, the device, and the driver handle.
    fn find_handle_data(
        &self,
        state: &KernelState,
        call: &Call,
        adapter: Id<Adapter>,
        handle: Handle,
        of_device: bool,
    ) -> Option<(Subject, Subject, Id<Device>, usize)> {
        let process = state.processes.find_serial(call.process?)?;
        let object = state.processes[process].handles.lookup_for_driver(handle)?;
        let object = state.as_view(object);
        let stray = of_device && matches!(object, ObjectId::ResourceView(_));
        let broken = stray.then(|| {
            let (handle, subject) = (Hex(handle.0), object.subject());
            format!(
                "DeviceSpecific is set for {handle}, the handle of {subject}, not of an allocation"
            )
        });
        self.log.judge(
            RuleId::CB_HANDLE_002,
            Component::Driver,
            adapter.subject(),
            ACQUIRE,
            broken,
        );
        if stray { None } else { state.data_of(object, of_device) }
    }

    /// Releases the reference with that number.
    pub(crate) fn release_handle_data(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        number: usize,
        kind: u32,
    ) {
        let mut state = self.state.lock();
        let known = u32::try_from(number)
            .ok()
            .and_then(|number| Some((number, state.lifetime.handle_data.get(&number)?)));
        let known = known.filter(|(_, reference)| reference.adapter == adapter);
        let broken = match known {
            None => Some(format!("{number:#x} is released, but no reference has that number")),
            Some((_, it)) if it.kind != kind => Some(format!(
                "the data of {} is released as type {kind}, but was acquired as type {}",
                it.of, it.kind
            )),
            Some(_) => None,
        };
        self.log.judge(
            RuleId::CB_HANDLE_005,
            Component::Driver,
            adapter.subject(),
            RELEASE,
            broken,
        );
        if let Some((number, _)) = known {
            self.end_handle_data(&mut state, number);
        }
    }

    fn end_handle_data(&self, state: &mut KernelState, number: u32) {
        let hold = state.lifetime.handle_data.remove(&number);
        let hold = invariant(hold, "the reference was just found");
        self.log.emit(hold.of, || EventKind::HandleDataReleased { reference: number });
        if !state.lifetime.jobs.is_empty() {
            self.wake_one(&self.work_available);
        }
    }

    /// Ends references that a driver acquired in calls that have returned and did not release,
    /// before an object is destroyed that cannot wait for the release.
    ///
    /// WINDOWS: our decision; an object that waited for the driver would never be destroyed.
    pub(crate) fn end_all_handle_data(&self, of: impl Fn(&HandleDataReference) -> bool) {
        let mut state = self.state.lock();
        let forgotten = |reference: &HandleDataReference| {
            of(reference) && !state.lifetime.calls.contains(&reference.call)
        };
        let numbers: Vec<u32> = state
            .lifetime
            .handle_data
            .iter()
            .filter(|(_, reference)| forgotten(reference))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            let it = state.lifetime.handle_data.get(&number);
            let it = invariant(it, "the references were just listed");
            let broken = format!("the data of {} was acquired and never released", it.of);
            self.log.judge(
                RuleId::CB_HANDLE_005,
                Component::Driver,
                it.adapter.subject(),
                RELEASE,
                Some(broken),
            );
            self.end_handle_data(&mut state, number);
        }
    }

    /// Requeues a retirement as a job if a driver holds a reference to an object that it would end.
    /// Judges whether a running call can still release the reference. Checks and queues under one
    /// lock, so that the releasing thread finds the job.
    #[inline]
    pub(crate) fn defer_retirement(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        retirement: Id<Retirement>,
    ) -> bool {
        // Mostly no driver holds a reference.
        if state.lifetime.handle_data.is_empty() {
            self.log.count_kept(RuleId::CB_HANDLE_007);
            return false;
        }
        let holds = state.handle_data_of(retirement);
        let mut forgotten =
            holds.iter().filter(|reference| !state.lifetime.calls.contains(&reference.call));
        let broken = forgotten.next().map(|reference| {
            format!(
                "{} is to be destroyed, but its driver acquired its data in a call that has \
                 returned, and still holds it: the destroy call waits for the release",
                reference.keeps_alive
            )
        });
        let argument = "DxgkCbAcquireHandleData";
        self.log.judge(
            RuleId::CB_HANDLE_007,
            Component::Driver,
            adapter.subject(),
            argument,
            broken,
        );
        let held = !holds.is_empty();
        if held {
            state.lifetime.jobs.push_back(retirement);
        }
        held
    }
}

impl KernelState {
    /// The owner of the data behind a handle, the object that a reference keeps alive, the device,
    /// and the driver handle.
    fn data_of(
        &self,
        named: ObjectId,
        of_device: bool,
    ) -> Option<(Subject, Subject, Id<Device>, usize)> {
        match named {
            ObjectId::View(number) => {
                let view = &self.views[number];
                let keeps = view.allocation.subject();
                let own = self.allocations[view.allocation]
                    .driver_handle
                    .as_ref()
                    .map(DriverHandle::as_raw);
                let theirs = view.driver_handle.as_ref().map(DriverHandle::as_raw);
                let (of, driver_handle) =
                    if of_device { (number.subject(), theirs) } else { (keeps, own) };
                Some((of, keeps, view.device, driver_handle?))
            }
            ObjectId::ResourceView(number) => {
                let view = &self.resource_views[number];
                let keeps = view.resource.subject();
                let driver_handle = self.resources[view.resource].handle_value;
                Some((keeps, keeps, view.device, driver_handle))
            }
            _ => None,
        }
    }

    /// The references to objects that a retirement would end. A reference acquired through another
    /// device's view keeps that view, and so the allocation or resource, alive, but does not hold
    /// back this retirement.
    #[inline]
    pub(crate) fn handle_data_of(&self, retirement: Id<Retirement>) -> Vec<&HandleDataReference> {
        // Mostly no driver holds a reference.
        if self.lifetime.handle_data.is_empty() {
            return Vec::new();
        }
        // The retirement may have ended.
        let Some(it) = self.lifetime.retirements.get(retirement) else { return Vec::new() };
        let allocation = |view: &Id<View>| Some((self.views.get(*view)?.allocation).subject());
        let resource = |resource_view: Id<ResourceView>| {
            Some((self.resource_views.get(resource_view)?.resource).subject())
        };
        let views = it.views.iter().filter_map(allocation);
        let ends: Vec<Subject> = views.chain(it.resource_view.and_then(resource)).collect();
        let device = it.device;
        let held = |reference: &&HandleDataReference| {
            reference.device == device && ends.contains(&reference.keeps_alive)
        };
        self.lifetime.handle_data.values().filter(held).collect()
    }
}

impl KernelCallbacks {
    /// The driver handle behind a client's allocation or resource handle
    /// (`DxgkCbAcquireHandleData`), in the process that the running call serves: the handle for
    /// the adapter or, with `of_device`, the handle of the view. Also works for an object that the
    /// running call creates.
    ///
    /// The object is not destroyed before the returned number is passed to
    /// [`KernelCallbacks::release_handle_data`] with the same `kind`.
    pub fn acquire_handle_data(
        &self,
        at: &mut Passive,
        handle: Handle,
        of_device: bool,
        kind: u32,
    ) -> Option<(usize, u32)> {
        self.kernel.upgrade()?.acquire_handle_data(at, self.adapter, handle, of_device, kind)
    }

    /// Releases acquired handle data (`DxgkCbReleaseHandleData`).
    pub fn release_handle_data(&self, at: &mut Passive, number: usize, kind: u32) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.release_handle_data(at, self.adapter, number, kind);
        }
    }

    /// The same driver handle, acquired and released at once: for a driver that uses it only while
    /// its object cannot be destroyed, as in the call that opens the object.
    pub fn handle_data(&self, at: &mut Passive, handle: Handle, of_device: bool) -> Option<usize> {
        let kernel = self.kernel.upgrade()?;
        if !kernel.log.is_enabled() {
            // No one sees a reference that ends at once.
            let (state, call) = (kernel.state.lock(), CallGuard::current()?);
            let found = kernel.find_handle_data(&state, &call, self.adapter, handle, of_device)?;
            return Some(found.3);
        }
        let (driver_handle, number) = self.acquire_handle_data(at, handle, of_device, 0)?;
        self.release_handle_data(at, number as usize, 0);
        Some(driver_handle)
    }
}
