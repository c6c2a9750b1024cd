//! The door to a display miniport driver that registered a table of functions.
//!
//! The trait's methods are implemented in the module of their subject: `pnp`, `query`, `context`,
//! `allocation`, `standard`, `paging`, `render`, `tdr`, `escape`.
#![expect(unsafe_code, reason = "the functions of a driver's table are trusted")]

use crate::door::Door;
use crate::hardware::Hardware;
use crate::table::{self, TableError};
use crate::version::InterfaceVersion;
use abi::miniport::{DRIVER_INITIALIZATION_DATA, KMDDOD_INITIALIZATION_DATA};
use flight::{DeviceLevel, Dispatch, EventKind, Fence, Passive};
use kernel::address::AddressSpace;
use kernel::callbacks::KernelCallbacks;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CancelCommandArgs, CollectReason, CreateAllocationArgs, CreateContextArgs,
    DestroyAllocationArgs, Drain, DriverAllocation, DriverContext, DriverDevice, DriverError,
    DriverKind, DriverProcess, DriverResource, DriverResult, DriverView, EscapeArgs, Features,
    Generation, HandleSlot, Interrupt, Miniport, OpenAllocationArgs, StandardAllocationArgs,
    SubmitCommandVirtualArgs, SurfaceInfo, WddmVersion,
};
use kernel::mmu::{CreateProcessArgs, MapHostApertureArgs, Root, RootSize};
use kernel::operation::{BuildPagingBufferArgs, SubmitPagingArgs};
use kernel::power::SetPowerArgs;
use kernel::render_args::{BufferSizes, PatchArgs, RenderArgs, SubmitCommandArgs};
use kernel::segment::SegmentSet;
use nt::Pool;
use nt::processor::{self, ExitState};
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A driver that registered a table of functions, with its adapter.
///
/// # Invariants
///
/// 1. The creator of `table` vouches for its functions: each implements the DDI of its slot, and
///    its code stays mapped while this value exists.
/// 2. The driver returned `Adapter::context` for `physical_device`, and `DxgkDdiRemoveDevice` has
///    not been called for it.
pub struct TableDriver {
    /// Without the slots that the version does not have.
    pub(crate) table: DRIVER_INITIALIZATION_DATA,
    pub(crate) version: InterfaceVersion,
    /// It registered the table of a display-only driver. Its `DxgkDdiPresentDisplayOnly` is not in
    /// `table`, and is not called.
    display_only: bool,
    /// Its table is in memory of its own: it is a driver image. It sees its DMA buffers in the
    /// machine's memory.
    pub(crate) from_memory: AtomicBool,
    /// Set by the capabilities.
    pub(crate) compute_only: AtomicBool,
    /// The number of children that the driver reported when it started.
    pub(crate) children: AtomicU32,
    pub(crate) physical_device: usize,
    pub(crate) hardware: Hardware,
    pub(crate) pool: Arc<Pool>,
    adapter: Mutex<Option<Adapter>>,
    /// The door of an adapter that was removed.
    removed_door: Mutex<Option<Arc<Door>>>,
}

/// An adapter that the driver has added.
#[derive(Clone)]
pub(crate) struct Adapter {
    /// The door for its callbacks.
    pub(crate) door: Arc<Door>,
    /// The driver handle of the adapter (`MiniportDeviceContext`, `hAdapter`).
    pub(crate) context: usize,
    /// The base addresses of its segments, from segment 1 on.
    pub(crate) bases: Arc<[u64]>,
    /// Those of its segments that are apertures.
    pub(crate) apertures: SegmentSet,
    /// The size of its page tables in bytes, by level.
    pub(crate) tables: Arc<[u32]>,
}

impl Adapter {
    /// Logs the driver handle that a call passes.
    pub(crate) fn log_handle(&self) {
        let services = self.door.services();
        let handle = services.log().pointer_subject(self.context);
        services.log().emit(services.adapter(), || EventKind::DdiAdapter { driver_handle: handle });
    }
}

impl TableDriver {
    /// The entry points that the driver implements, with the addresses of their functions.
    pub fn entry_addresses(&self) -> Vec<(&'static str, usize)> {
        self.table.addresses().collect()
    }

    /// A driver for one adapter: `physical_device` is the number that identifies it
    /// (`PhysicalDeviceObject`), `pool` the pool that it allocates from.
    ///
    /// # Safety
    ///
    /// The functions of the table are called from here on, with pointers: each implements the DDI
    /// of its slot, and its code stays mapped while this value exists.
    pub unsafe fn new(
        table: DRIVER_INITIALIZATION_DATA,
        physical_device: usize,
        pool: Arc<Pool>,
    ) -> Result<Arc<Self>, TableError> {
        // SAFETY: The caller guarantees the same.
        unsafe { Self::with_hardware(table, physical_device, pool, Hardware::default()) }
    }

    /// As [`TableDriver::new`], for an adapter with this hardware on its bus.
    ///
    /// # Safety
    ///
    /// As for [`TableDriver::new`].
    pub unsafe fn with_hardware(
        table: DRIVER_INITIALIZATION_DATA,
        physical_device: usize,
        pool: Arc<Pool>,
        hardware: Hardware,
    ) -> Result<Arc<Self>, TableError> {
        // The structure may be longer than the version's.
        let table = table.up_to(table.Version);
        let version = table::check(&table)?;
        Ok(Self::accepted(&table, version, false, (physical_device, pool, hardware)))
    }

    /// The driver of a table that was checked.
    fn accepted(
        table: &DRIVER_INITIALIZATION_DATA,
        version: InterfaceVersion,
        display_only: bool,
        (physical_device, pool, hardware): (usize, Arc<Pool>, Hardware),
    ) -> Arc<Self> {
        let (adapter, removed_door, from_memory, compute_only, children) = Default::default();
        Arc::new(Self {
            table: *table,
            version,
            display_only,
            from_memory,
            compute_only,
            children,
            physical_device,
            hardware,
            pool,
            adapter,
            removed_door,
        })
    }

    /// As [`TableDriver::with_hardware`], for a display-only driver.
    ///
    /// # Safety
    ///
    /// As for [`TableDriver::new`].
    pub unsafe fn display_only(
        table: &KMDDOD_INITIALIZATION_DATA,
        physical_device: usize,
        pool: Arc<Pool>,
        hardware: Hardware,
    ) -> Result<Arc<Self>, TableError> {
        let table = table.up_to(table.Version);
        let version = table::check_display_only(&table)?;
        let parts = (physical_device, pool, hardware);
        Ok(Self::accepted(&table.as_full_table(), version, true, parts))
    }

    /// As [`TableDriver::display_only`], with the table in the driver's memory: a
    /// `KMDDOD_INITIALIZATION_DATA` of the length that its `Version` says.
    ///
    /// # Safety
    ///
    /// As for [`TableDriver::from_memory`].
    pub unsafe fn display_only_from_memory(
        table: *const c_void,
        physical_device: usize,
        pool: Arc<Pool>,
        hardware: Hardware,
    ) -> Result<Arc<Self>, TableError> {
        let (zero, length) =
            (KMDDOD_INITIALIZATION_DATA::ZERO, InterfaceVersion::display_only_table_length);
        // SAFETY: The caller guarantees the same.
        let table = unsafe { table::read_table(table, zero, length) }?;
        // SAFETY: The caller guarantees the same.
        unsafe { Self::display_only(&table, physical_device, pool, hardware) }
    }

    /// The kind of driver. A compute-only driver is a full one until its capabilities are queried.
    pub fn kind(&self) -> DriverKind {
        if self.display_only {
            DriverKind::DisplayOnly
        } else if self.compute_only.load(Ordering::SeqCst) {
            DriverKind::ComputeOnly
        } else {
            DriverKind::Full
        }
    }

    /// As [`TableDriver::with_hardware`], with the table in the driver's memory: a
    /// `DRIVER_INITIALIZATION_DATA` of the length that its `Version` says.
    ///
    /// # Safety
    ///
    /// As for [`TableDriver::new`]. `table` is valid for reads of `Version`, and of as many bytes
    /// as a table of that version has.
    pub unsafe fn from_memory(
        table: *const c_void,
        physical_device: usize,
        pool: Arc<Pool>,
        hardware: Hardware,
    ) -> Result<Arc<Self>, TableError> {
        let zero = DRIVER_INITIALIZATION_DATA::ZERO;
        // SAFETY: The caller guarantees the same.
        let table = unsafe { table::read_table(table, zero, InterfaceVersion::table_length) }?;
        // SAFETY: The caller guarantees the same.
        let driver = unsafe { Self::with_hardware(table, physical_device, pool, hardware) }?;
        driver.from_memory.store(true, Ordering::SeqCst);
        Ok(driver)
    }

    /// The interface version that the driver's table declares.
    pub fn version(&self) -> InterfaceVersion {
        self.version
    }

    /// The adapter, for a call about it. Fails before the driver has added it.
    pub(crate) fn adapter(&self) -> DriverResult<Adapter> {
        self.adapter_slot().clone().ok_or(DriverError::Invalid)
    }

    /// The adapter, for a call that passes its driver handle, which is logged.
    pub(crate) fn adapter_with_log(&self) -> DriverResult<Adapter> {
        let adapter = self.adapter()?;
        adapter.log_handle();
        Ok(adapter)
    }

    /// The slot of the adapter. It is never locked while the driver runs.
    pub(crate) fn adapter_slot(&self) -> MutexGuard<'_, Option<Adapter>> {
        self.adapter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot for the door of a removed adapter.
    pub(crate) fn removed_door(&self) -> MutexGuard<'_, Option<Arc<Door>>> {
        self.removed_door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs code of the driver: its callbacks find the door, its imports the pool.
    pub(crate) fn run_driver<R>(&self, door: &Arc<Door>, body: impl FnOnce() -> R) -> R {
        self.run_to_exit(door, body).0
    }

    /// As [`TableDriver::run_driver`]; also returns the processor state at the end.
    pub(crate) fn run_to_exit<R>(
        &self,
        door: &Arc<Door>,
        body: impl FnOnce() -> R,
    ) -> (R, ExitState) {
        let services = door.services();
        let body = || door.run(|| self.pool.run_driver(body));
        let (answer, left) = processor::run_driver(services.host(), services.log(), body);
        processor::judge_exit(services.log(), flight::DDI_RETURN, &left);
        (answer, left)
    }

    /// Runs code of the driver that concerns no adapter.
    pub(crate) fn run_in_pool<R>(&self, body: impl FnOnce() -> R) -> R {
        self.pool.run_driver(body)
    }
}

impl fmt::Debug for TableDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableDriver").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Miniport for TableDriver {
    fn generation(&self) -> Generation {
        self.version.generation()
    }

    fn wddm_version(&self) -> WddmVersion {
        self.version.wddm()
    }

    fn kind(&self) -> DriverKind {
        TableDriver::kind(self)
    }

    fn children(&self) -> u32 {
        self.children.load(Ordering::SeqCst)
    }

    fn entry_points(&self) -> Vec<&'static str> {
        let present = self.display_only.then_some("DxgkDdiPresentDisplayOnly");
        self.table.filled().chain(present).collect()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.call_add_device(services)
    }

    fn start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.call_start_device()
    }

    fn query_adapter_info(&self, _at: &mut Passive) -> DriverResult<Features> {
        self.query_features()
    }

    fn query_umd_private(&self, _at: &mut Passive, data: &mut [u8]) -> DriverResult<()> {
        self.call_query_umd_private(data)
    }

    fn query_child_relations(&self, _at: &mut Passive) -> DriverResult<Vec<u32>> {
        self.call_query_child_relations()
    }

    fn query_child_status(&self, _at: &mut Passive, child: u32) -> DriverResult<bool> {
        self.call_query_child_status(child)
    }

    fn stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.call_stop_device(at)
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.call_remove_device()
    }

    fn unload(&self, _at: &mut Passive) -> DriverResult<()> {
        self.call_unload();
        Ok(())
    }

    fn set_power_state(&self, _at: &mut Passive, power_args: SetPowerArgs) -> DriverResult<()> {
        self.call_set_power_state(power_args)
    }

    fn notify_surprise_removal(&self, _at: &mut Passive) -> DriverResult<()> {
        self.call_notify_surprise_removal()
    }

    fn stop_device_and_release_post_display_ownership(
        &self,
        at: &mut Passive,
        target: u32,
    ) -> DriverResult<()> {
        self.call_stop_and_release_post_display(at, target)
    }

    fn reset_device(&self, _at: &mut DeviceLevel) -> DriverResult<()> {
        self.call_reset_device()
    }

    fn create_device(
        &self,
        _at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        self.call_create_device(slot)
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.call_destroy_device(&device)
    }

    fn create_context(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        context_args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.call_create_context(device, context_args, slot)
    }

    fn destroy_context(&self, _at: &mut Passive, context: DriverContext) -> DriverResult<()> {
        self.call_destroy_context(&context)
    }

    fn create_process(
        &self,
        _at: &mut Passive,
        process_args: CreateProcessArgs,
        slot: HandleSlot<'_, AddressSpace>,
    ) -> DriverResult<DriverProcess> {
        self.call_create_process(process_args, slot)
    }

    fn destroy_process(&self, _at: &mut Passive, process: DriverProcess) -> DriverResult<()> {
        self.call_destroy_process(&process)
    }

    fn get_root_page_table_size(&self, _at: &mut Passive, entries: u32) -> DriverResult<RootSize> {
        self.call_get_root_page_table_size(entries)
    }

    fn set_root_page_table(
        &self,
        _at: &mut Passive,
        context: &DriverContext,
        root: Root,
    ) -> DriverResult<()> {
        self.call_set_root_page_table(context, root)
    }

    fn map_cpu_host_aperture(
        &self,
        _at: &mut Passive,
        map: MapHostApertureArgs<'_>,
    ) -> DriverResult<()> {
        self.call_map_cpu_host_aperture(&map)
    }

    fn unmap_cpu_host_aperture(
        &self,
        _at: &mut Passive,
        segment: u32,
        window: &[u64],
    ) -> DriverResult<()> {
        self.call_unmap_cpu_host_aperture(segment, window)
    }

    fn get_standard_allocation_driver_data(
        &self,
        _at: &mut Passive,
        standard: &mut StandardAllocationArgs,
    ) -> DriverResult<()> {
        self.call_get_standard_allocation(standard)
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.call_create_allocation(args)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.call_destroy_allocation(args)
    }

    fn describe_allocation(
        &self,
        _at: &mut Passive,
        allocation: &DriverAllocation,
    ) -> DriverResult<SurfaceInfo> {
        self.call_describe_allocation(allocation)
    }

    fn open_allocations(
        &self,
        _at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        self.call_open_allocation(args)
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.call_close_allocation(device, views)
    }

    fn escape(&self, _at: &mut Passive, mut escape: EscapeArgs<'_>) -> DriverResult<()> {
        self.call_escape(&mut escape)
    }

    fn submit_command_virtual(
        &self,
        _at: &mut Dispatch,
        packet: &SubmitCommandVirtualArgs<'_>,
    ) -> DriverResult<()> {
        self.call_submit_command_virtual(packet)
    }

    fn create_context_with_lists(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        context_args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        self.call_create_context_with_lists(device, context_args, slot)
    }

    fn render(&self, _at: &mut Passive, rendering: &mut RenderArgs<'_>) -> DriverResult<()> {
        self.call_render(rendering)
    }

    fn patch(&self, _at: &mut Passive, patching: &mut PatchArgs<'_>) -> DriverResult<()> {
        self.call_patch(patching)
    }

    fn submit_command(
        &self,
        _at: &mut Dispatch,
        packet: &SubmitCommandArgs<'_>,
    ) -> DriverResult<()> {
        self.call_submit_command(packet)
    }

    fn build_paging_buffer(
        &self,
        _at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        self.call_build_paging_buffer(args)
    }

    fn submit_paging(&self, _at: &mut Dispatch, packet: &SubmitPagingArgs<'_>) -> DriverResult<()> {
        self.call_submit_paging(packet)
    }

    fn preempt_command(
        &self,
        _at: &mut Dispatch,
        node: u32,
        preemption: Fence,
    ) -> DriverResult<()> {
        self.call_preempt_command(node, preemption)
    }

    fn query_current_fence(&self, _at: &mut Passive, node: u32) -> DriverResult<Fence> {
        self.call_query_current_fence(node)
    }

    fn cancel_command(
        &self,
        _at: &mut Passive,
        packet: &CancelCommandArgs<'_>,
    ) -> DriverResult<()> {
        self.call_cancel_command(packet)
    }

    fn query_engine_status(&self, _at: &mut Passive, node: u32) -> DriverResult<bool> {
        self.call_query_engine_status(node)
    }

    fn query_dependent_engine_group(&self, _at: &mut Passive, node: u32) -> DriverResult<u64> {
        self.call_query_dependent_engine_group(node)
    }

    fn reset_engine(&self, _at: &mut Passive, node: u32) -> DriverResult<Option<Fence>> {
        self.call_reset_engine(node)
    }

    fn reset_from_timeout(&self, _at: &mut Passive) -> DriverResult<()> {
        self.call_reset_from_timeout()
    }

    fn restart_from_timeout(&self, _at: &mut Passive) -> DriverResult<()> {
        self.call_restart_from_timeout()
    }

    fn collect_dbg_info(
        &self,
        _at: &mut Passive,
        reason: CollectReason,
        into: &mut [u8],
    ) -> DriverResult<usize> {
        self.call_collect_dbg_info(reason, into)
    }

    fn interrupt_routine(&self, _at: &mut DeviceLevel) -> DriverResult<bool> {
        self.call_interrupt_routine()
    }

    fn dpc_routine(&self, _at: &mut Dispatch) -> DriverResult<()> {
        self.call_dpc_routine()
    }

    fn control_interrupt(&self, _at: &mut Passive, of: Interrupt, on: bool) -> DriverResult<()> {
        self.call_control_interrupt(of, on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::{
        DXGKARG_CLOSEALLOCATION, DXGKARG_CREATEALLOCATION, DXGKARG_CREATEDEVICE,
        DXGKARG_DESTROYALLOCATION, DXGKARG_OPENALLOCATION, DXGKARG_QUERYADAPTERINFO,
        DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WIN7,
    };
    use abi::miniport::{DXGK_START_INFO, DXGKRNL_INTERFACE};
    use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
    use abi::{HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
    use flight::{DeterministicHost, Log};

    extern "win64-unwind" fn add(_: PDEVICE_OBJECT, _: *mut PVOID) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn start(
        _: PVOID,
        _: *mut DXGK_START_INFO,
        _: *mut DXGKRNL_INTERFACE,
        _: *mut u32,
        _: *mut u32,
    ) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn one(_: HANDLE) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn query(_: HANDLE, _: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
        STATUS_NOT_SUPPORTED
    }
    extern "win64-unwind" fn device(_: HANDLE, _: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn create(_: HANDLE, _: *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn destroy(_: HANDLE, _: *const DXGKARG_DESTROYALLOCATION) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn open(_: HANDLE, _: *const DXGKARG_OPENALLOCATION) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn close(_: HANDLE, _: *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS {
        STATUS_SUCCESS
    }
    extern "win64-unwind" fn unload() {
        std::panic::resume_unwind(Box::new("unload"));
    }

    /// The entries that every driver has, and no others.
    fn table() -> DRIVER_INITIALIZATION_DATA {
        DRIVER_INITIALIZATION_DATA {
            Version: DXGKDDI_INTERFACE_VERSION_WDDM2_0,
            DxgkDdiAddDevice: Some(add),
            DxgkDdiStartDevice: Some(start),
            DxgkDdiStopDevice: Some(one),
            DxgkDdiRemoveDevice: Some(one),
            DxgkDdiQueryAdapterInfo: Some(query),
            DxgkDdiCreateDevice: Some(device),
            DxgkDdiDestroyDevice: Some(one),
            DxgkDdiCreateAllocation: Some(create),
            DxgkDdiDestroyAllocation: Some(destroy),
            DxgkDdiOpenAllocation: Some(open),
            DxgkDdiCloseAllocation: Some(close),
            ..DRIVER_INITIALIZATION_DATA::ZERO
        }
    }

    fn driver(table: &DRIVER_INITIALIZATION_DATA) -> Result<Arc<TableDriver>, TableError> {
        // SAFETY: The functions above implement the DDIs of their slots.
        unsafe { TableDriver::new(*table, 1, Pool::new(Arc::new(Log::new()))) }
    }

    fn fly<R>(body: impl FnOnce(&DeterministicHost, &mut Passive) -> R) -> R {
        DeterministicHost::fly(1, &Arc::new(Log::new()), |host, at| body(host, at)).unwrap()
    }

    #[test]
    fn a_driver_offers_what_it_filled_in() {
        let few = driver(&table()).unwrap();
        let more = DRIVER_INITIALIZATION_DATA { DxgkDdiUnload: Some(unload), ..table() };
        let more = driver(&more).unwrap();
        assert_eq!((few.entry_points().len(), more.entry_points().len()), (11, 12));
        assert!(!few.entry_points().contains(&"DxgkDdiUnload"));
        assert!(more.entry_points().contains(&"DxgkDdiUnload"));
    }

    #[test]
    fn the_kernel_and_the_table_call_the_entries_alike() {
        for name in kernel::ddi::NAMES {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(name), "{name}");
        }
    }

    #[test]
    fn a_bad_table_is_not_taken() {
        let old = DRIVER_INITIALIZATION_DATA { Version: DXGKDDI_INTERFACE_VERSION_WIN7, ..table() };
        assert_eq!(driver(&old).err(), Some(TableError::Version(0x2005)));
        let cut = DRIVER_INITIALIZATION_DATA {
            DxgkDdiStopDevice: None,
            DxgkDdiCloseAllocation: None,
            ..table()
        };
        let missing = vec!["DxgkDdiStopDevice", "DxgkDdiCloseAllocation"];
        assert_eq!(driver(&cut).err(), Some(TableError::Missing(missing)));
    }

    #[test]
    fn every_version_is_taken_with_the_slots_it_has() {
        extern "win64-unwind" fn function() -> NTSTATUS {
            STATUS_SUCCESS
        }
        for (number, length) in DRIVER_INITIALIZATION_DATA::LENGTHS {
            let table = DRIVER_INITIALIZATION_DATA {
                Version: *number,
                DxgkDdiGetNodeMetadata: Some(function),
                DxgkDdiFlushHwQueue: Some(function),
                ..table()
            };
            let driver = driver(&table).unwrap();
            assert_eq!(driver.version().number(), *number);
            let has = |name| driver.entry_points().contains(&name);
            assert_eq!(has("DxgkDdiGetNodeMetadata"), *length > 0x298, "{number:#x}");
            assert_eq!(has("DxgkDdiFlushHwQueue"), *length == 0x560, "{number:#x}");
        }
    }

    #[test]
    fn what_is_not_there_is_absent_and_unload_need_not_be() {
        let driver = driver(&table()).unwrap();
        fly(|_, at| {
            assert_eq!(driver.unload(at), Ok(()));
            at.raised(|at| {
                assert_eq!(driver.dpc_routine(at), Err(DriverError::NoEntryPoint));
            });
            at.raised(|at| {
                assert_eq!(driver.interrupt_routine(at), Err(DriverError::NoEntryPoint));
            });
            let mut standard = StandardAllocationArgs {
                bytes: 1,
                private: None,
                allocation_size: 0,
                resource_size: 0,
            };
            assert_eq!(
                driver.get_standard_allocation_driver_data(at, &mut standard),
                Err(DriverError::NoEntryPoint)
            );
        });
    }

    #[test]
    fn before_the_driver_has_met_the_adapter_nothing_is_asked_of_it() {
        let driver = driver(&table()).unwrap();
        fly(|_, at| {
            assert_eq!(driver.start_device(at), Err(DriverError::Invalid));
            assert_eq!(driver.query_adapter_info(at), Err(DriverError::Invalid));
            assert_eq!(driver.remove_device(at), Err(DriverError::Invalid));
        });
    }

    #[test]
    fn a_panic_of_the_driver_passes_through() {
        let table = DRIVER_INITIALIZATION_DATA { DxgkDdiUnload: Some(unload), ..table() };
        let driver = driver(&table).unwrap();
        let text = fly(|_, at| {
            let unload = std::panic::AssertUnwindSafe(|| driver.unload(at));
            std::panic::catch_unwind(unload).unwrap_err()
        });
        assert_eq!(text.downcast_ref(), Some(&"unload"));
    }
}
