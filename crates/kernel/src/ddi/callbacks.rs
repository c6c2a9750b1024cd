//! The callbacks that the kernel offers to a driver, in Rust types.

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
/// Each callback takes the proof of its IRQL. A door without a proof obtains it from
/// [`flight::At::here`] and rejects a call at the wrong IRQL.
pub struct KernelCallbacks {
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<dyn Pool>,
}

impl KernelCallbacks {
    /// Queues the DPC (`DxgkCbQueueDpc`), at any IRQL. Returns false if it was already queued.
    pub fn queue_dpc(&self) -> bool {
        self.kernel.upgrade().is_some_and(|kernel| kernel.queue_dpc(self.adapter))
    }

    /// Processes the reported interrupts (`DxgkCbNotifyDpc`).
    pub fn notify_dpc(&self, at: &mut Dispatch) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.complete_fences(at, self.adapter);
        }
    }

    /// Acquires the driver handle behind a client's allocation or resource handle
    /// (`DxgkCbAcquireHandleData`), in the process of the running call: the adapter-wide handle, or
    /// the view's if `of_device`. Also works for objects that the running call is creating.
    ///
    /// The object is not destroyed until the returned number is passed to
    /// [`Self::release_handle_data`] with the same `kind`.
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

    /// Acquires handle data and releases it at once. For a driver that uses the data only while the
    /// object cannot be destroyed, for example in the call that opens it.
    pub fn handle_data(&self, at: &mut Passive, handle: Handle, of_device: bool) -> Option<usize> {
        let (driver_handle, number) = self.acquire_handle_data(at, handle, of_device, 0)?;
        self.release_handle_data(at, number as usize, 0);
        Some(driver_handle)
    }

    /// The handle of the resource that an allocation belongs to (`DxgkCbGetHandleParent`), in the
    /// process of the running call.
    pub fn parent_of(&self, at: &mut Passive, allocation: Handle) -> Option<Handle> {
        self.kernel.upgrade()?.parent_of(at, self.adapter, allocation)
    }

    /// The handle of a resource's allocation (`DxgkCbEnumHandleChildren`), by zero-based index.
    /// `None` past the last one.
    pub fn child_of(&self, at: &mut Passive, resource: Handle, index: u32) -> Option<Handle> {
        self.kernel.upgrade()?.child_of(at, resource, index)
    }

    /// The location of an allocation that video is captured into (`DxgkCbGetCaptureAddress`): its
    /// one-based segment and its address there.
    pub fn capture_address(
        &self,
        at: &mut Passive,
        allocation: Handle,
    ) -> DriverResult<(u32, u64)> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.capture_address(at, self.adapter, allocation)
    }

    /// Creates an allocation for a context or a device (`DxgkCbCreateContextAllocation`) and
    /// returns the kernel's handle for it.
    pub fn create_context_allocation(
        &self,
        at: &mut Passive,
        args: &CreateContextAllocationArgs,
    ) -> DriverResult<usize> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.create_context_allocation(at, self.adapter, args)
    }

    /// Destroys a context allocation (`DxgkCbDestroyContextAllocation`). Its handle is closed when
    /// the call returns; its memory is freed when no engine can save into it any more.
    pub fn destroy_context_allocation(&self, at: &mut Passive, name: usize) -> DriverResult<()> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.destroy_context_allocation(at, self.adapter, name)
    }

    /// Updates a context allocation by a paging operation that carries `private`, and waits for it
    /// (`DxgkCbUpdateContextAllocation`).
    pub fn update_context_allocation(
        &self,
        at: &mut Passive,
        name: usize,
        private: &[u8],
    ) -> DriverResult<()> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.update_context_allocation(at, self.adapter, name, private)
    }

    /// The GPU address of a context allocation, at a page offset from its start
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

    /// Reserves addresses of a process for the driver (`DxgkCbReserveGpuVirtualAddressRange`)
    /// during the process's create call. Returns the first address.
    pub fn reserve_range(&self, at: &mut Passive, args: &ReserveAddressArgs) -> DriverResult<u64> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.reserve_range(at, self.adapter, args)
    }

    /// Records the driver's handle for its adapter (`MiniportDeviceContext`).
    pub fn set_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.set_driver_handle(driver_handle, self.adapter.subject());
        }
    }

    /// Records that the driver has returned from the call that removed its adapter.
    pub fn end_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.end_driver_handle(driver_handle, self.adapter.subject(), false);
        }
    }

    /// The driver's memory.
    pub fn pool(&self) -> &Arc<dyn Pool> {
        &self.pool
    }

    /// The host that runs the kernel's threads.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log in which doors record what they see.
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
