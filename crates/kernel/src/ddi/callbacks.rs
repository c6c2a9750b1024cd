//! What a driver may ask of the kernel: its callbacks, in plain words.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::{DriverError, DriverResult};
use crate::ddi::mmu::ReserveAddressArgs;
use crate::ddi::operation::CreateContextAllocationArgs;
use crate::kernel::Kernel;
use crate::objects::handle_table::Handle;
use flight::{Dispatch, Host, Log, Passive, Pool, Subject};
use std::sync::{Arc, Weak};

/// The callbacks of one adapter.
///
/// Each takes the proof of its level; a door that has no proof takes it from
/// [`flight::At::here`] and refuses what does not fit.
pub struct KernelCallbacks {
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<dyn Pool>,
}

impl KernelCallbacks {
    /// Asks for the DPC (`DxgkCbQueueDpc`), at any level. Answers whether it was not yet queued.
    pub fn queue_dpc(&self) -> bool {
        self.kernel.upgrade().is_some_and(|kernel| kernel.queue_dpc(self.adapter))
    }

    /// Acts on what was reported (`DxgkCbNotifyDpc`).
    pub fn notify_dpc(&self, at: &mut Dispatch) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.complete_fences(at, self.adapter);
        }
    }

    /// The driver's word behind a client's allocation or resource handle
    /// (`DxgkCbAcquireHandleData`), in the process the running call is for: the adapter's word,
    /// or with `of_device` the view's. Also for what this very call is building.
    ///
    /// Until the number that comes with it is given to [`Services::release`], with the same
    /// `kind`, what the data is of does not end.
    pub fn acquire_handle_data(
        &self,
        at: &mut Passive,
        handle: Handle,
        of_device: bool,
        kind: u32,
    ) -> Option<(usize, u32)> {
        self.kernel.upgrade()?.acquire_handle_data(at, self.adapter, handle, of_device, kind)
    }

    /// Lets go of what was acquired (`DxgkCbReleaseHandleData`).
    pub fn release_handle_data(&self, at: &mut Passive, number: usize, kind: u32) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.release_handle_data(at, self.adapter, number, kind);
        }
    }

    /// The same word, acquired and let go of at once: for a driver that keeps it only while
    /// what it is of cannot end, as in the call that opens it.
    pub fn handle_data(&self, at: &mut Passive, handle: Handle, of_device: bool) -> Option<usize> {
        let (driver_handle, number) = self.acquire_handle_data(at, handle, of_device, 0)?;
        self.release_handle_data(at, number as usize, 0);
        Some(driver_handle)
    }

    /// The name of the resource that an allocation belongs to (`DxgkCbGetHandleParent`), in the
    /// process the running call is for.
    pub fn parent_of(&self, at: &mut Passive, allocation: Handle) -> Option<Handle> {
        self.kernel.upgrade()?.parent_of(at, self.adapter, allocation)
    }

    /// The name of a member of a resource (`DxgkCbEnumHandleChildren`), counted from zero; none
    /// behind the last.
    pub fn child_of(&self, at: &mut Passive, resource: Handle, index: u32) -> Option<Handle> {
        self.kernel.upgrade()?.child_of(at, resource, index)
    }

    /// Where an allocation is that video is captured into (`DxgkCbGetCaptureAddress`): its
    /// segment, from one on, and its address there.
    pub fn capture_address(
        &self,
        at: &mut Passive,
        allocation: Handle,
    ) -> DriverResult<(u32, u64)> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.capture_address(at, self.adapter, allocation)
    }

    /// Makes an allocation for a context or a device (`DxgkCbCreateContextAllocation`), and
    /// answers the kernel's name for it.
    pub fn create_context_allocation(
        &self,
        at: &mut Passive,
        args: &CreateContextAllocationArgs,
    ) -> DriverResult<usize> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.create_context_allocation(at, self.adapter, args)
    }

    /// Ends one (`DxgkCbDestroyContextAllocation`): its name is gone when this returns, its
    /// memory when no engine can save into it any more.
    pub fn destroy_context_allocation(&self, at: &mut Passive, name: usize) -> DriverResult<()> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.destroy_context_allocation(at, self.adapter, name)
    }

    /// Has one brought up to date by a paging operation that carries `private`, and waits for
    /// it (`DxgkCbUpdateContextAllocation`).
    pub fn update_context_allocation(
        &self,
        at: &mut Passive,
        name: usize,
        private: &[u8],
    ) -> DriverResult<()> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.update_context_allocation(at, self.adapter, name, private)
    }

    /// Where one is in the GPU's addresses, so many pages from its start on
    /// (`DxgkCbMapContextAllocation`).
    pub fn map_context_allocation(
        &self,
        at: &mut Passive,
        name: usize,
        first_page: u64,
        pages: u64,
    ) -> Option<u64> {
        self.kernel.upgrade()?.map_context_allocation(at, self.adapter, name, first_page, pages)
    }

    /// Keeps addresses of a process for the driver
    /// (`DxgkCbReserveGpuVirtualAddressRange`), while it is told of that process. Answers the
    /// first.
    pub fn reserve_range(&self, at: &mut Passive, args: &ReserveAddressArgs) -> DriverResult<u64> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.reserve_range(at, self.adapter, args)
    }

    /// Says which word the driver gave for its adapter (`MiniportDeviceContext`).
    pub fn set_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.set_driver_handle(driver_handle, self.adapter.subject());
        }
    }

    /// Says that the driver was told to forget its adapter, and has returned.
    pub fn end_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.end_driver_handle(driver_handle, self.adapter.subject(), false);
        }
    }

    /// The driver's memory.
    pub fn pool(&self) -> &Arc<dyn Pool> {
        &self.pool
    }

    /// Who runs this.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Where doors say what they saw.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The adapter's locally unique id (`AdapterLuid`).
    pub fn luid(&self) -> u64 {
        crate::adapter::start::AdapterId(self.adapter).luid()
    }

    /// The adapter, for events.
    pub fn adapter(&self) -> Subject {
        self.adapter.subject()
    }
}
