//! The door to a display miniport driver that filled in a table.
//!
//! What the trait asks is done in the module of its subject: `start`, `query`, `context`,
//! `allocation`, `standard`, `paging`, `render`, `recover`, `escape`.
#![expect(unsafe_code, reason = "a table of functions is a promise, not a claim")]

use crate::door::Door;
use crate::hardware::Hardware;
use crate::table::{self, BadTable};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use flight::{DeviceLevel, Dispatch, Fence, InCall, Kind, Passive, RuleId, What, Who};
use kernel::context::Context;
use kernel::device::Device;
use kernel::listed::{BufferSizes, ListedSubmission, Patching, Rendering};
use kernel::miniport::{
    Answer, Births, Blank, Born, Cancelled, CollectReason, ContextOrder, Doomed, DriverAllocation,
    DriverContext, DriverDevice, DriverProcess, DriverResource, DriverView, Escape, Features,
    Interrupt, Miniport, Opening, Refusal, Standard, Submission, Surface,
};
use kernel::mmu::{ProcessOrder, Root, RootSize, WindowMap};
use kernel::operation::{Building, PagingSubmission};
use kernel::power::PowerOrder;
use kernel::services::Services;
use kernel::space::Space;
use nt::Pool;
use nt::processor::{self, Left};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Drain;

/// A driver that filled in a table, with its adapter.
///
/// # Invariants
///
/// 1. Whoever filled in `table` vouches for its functions: each takes what the DDI of its slot
///    says, and its code stays mapped while this value lives.
/// 2. The driver gave `Adapter::context` for `physical_device`, and has not been told to
///    remove it.
pub struct TableDriver {
    pub(crate) table: DRIVER_INITIALIZATION_DATA,
    pub(crate) physical_device: usize,
    pub(crate) hardware: Hardware,
    pool: Arc<Pool>,
    adapter: Mutex<Option<Adapter>>,
    /// The way back of an adapter that the driver was told to forget.
    left: Mutex<Option<Arc<Door>>>,
}

/// An adapter that the driver has met.
#[derive(Clone)]
pub(crate) struct Adapter {
    /// The way back.
    pub(crate) door: Arc<Door>,
    /// The driver's word for it (`MiniportDeviceContext`, `hAdapter`).
    pub(crate) context: usize,
    /// Where its segments begin in the GPU's addresses, from number one on.
    pub(crate) bases: Arc<[u64]>,
    /// How many bytes its page tables have, by level.
    pub(crate) tables: Arc<[u32]>,
}

impl Adapter {
    /// Says which word for it a call carries.
    pub(crate) fn say(&self) {
        let services = self.door.services();
        let word = services.log().word(self.context);
        services.log().emit(services.adapter(), What::DdiAdapter { word });
    }
}

impl TableDriver {
    /// A driver for one adapter: `physical_device` is the number it knows it by
    /// (`PhysicalDeviceObject`), `pool` the memory it takes and frees.
    ///
    /// # Safety
    ///
    /// The functions of the table are called from here on, with pointers: each takes what the
    /// DDI of its slot says, and its code stays mapped while this value lives.
    pub unsafe fn new(
        table: DRIVER_INITIALIZATION_DATA,
        physical_device: usize,
        pool: Arc<Pool>,
    ) -> Result<Arc<Self>, BadTable> {
        // SAFETY: The caller promises the same.
        unsafe { Self::with_hardware(table, physical_device, pool, Hardware::default()) }
    }

    /// As [`TableDriver::new`], for an adapter whose bus shows this hardware.
    ///
    /// # Safety
    ///
    /// As of [`TableDriver::new`].
    pub unsafe fn with_hardware(
        table: DRIVER_INITIALIZATION_DATA,
        physical_device: usize,
        pool: Arc<Pool>,
        hardware: Hardware,
    ) -> Result<Arc<Self>, BadTable> {
        table::check(&table)?;
        let (adapter, left) = Default::default();
        Ok(Arc::new(Self { table, physical_device, hardware, pool, adapter, left }))
    }

    /// The adapter, for a call about it. Before the driver has met it there is none.
    pub(crate) fn adapter(&self) -> Answer<Adapter> {
        self.met().clone().ok_or(Refusal::Invalid)
    }

    /// The adapter, for a call that carries the driver's word for it, which is said.
    pub(crate) fn told(&self) -> Answer<Adapter> {
        let adapter = self.adapter()?;
        adapter.say();
        Ok(adapter)
    }

    /// The place for the adapter. It is never held while the driver runs.
    pub(crate) fn met(&self) -> MutexGuard<'_, Option<Adapter>> {
        self.adapter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place for the way back of an adapter that is gone.
    pub(crate) fn left(&self) -> MutexGuard<'_, Option<Arc<Door>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs code of the driver: its callbacks find the door, its imports the pool.
    pub(crate) fn inside<R>(&self, door: &Arc<Door>, body: impl FnOnce() -> R) -> R {
        let services = door.services();
        let body = || door.run(|| self.pool.inside(body));
        let (answer, left) = processor::inside(services.host(), services.log(), body);
        judge_left(services, &left);
        answer
    }

    /// Runs code of the driver that is about no adapter.
    pub(crate) fn inside_pool<R>(&self, body: impl FnOnce() -> R) -> R {
        self.pool.inside(body)
    }
}

/// Entry rule: a driver leaves a call at the level it came in at, without a spin lock.
fn judge_left(services: &Services, left: &Left) {
    let Left { entered, level, locks } = *left;
    let broken = (entered != level || locks > 0).then(|| {
        format!(
            "the driver was entered at {entered} and left at {level}, with {locks} spin locks: it \
             leaves as it came, with none"
        )
    });
    let (rule, place) = (RuleId::KMD_LEVEL_008, "return from a DDI");
    let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
    services.log().judge(rule, Who::Driver, call, place, broken);
}

impl fmt::Debug for TableDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableDriver").field("version", &self.table.Version).finish_non_exhaustive()
    }
}

impl Miniport for TableDriver {
    fn offers(&self) -> Vec<&'static str> {
        self.table.filled().collect()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.add(services)
    }

    fn start_device(&self, _at: &mut Passive) -> Answer<()> {
        self.start()
    }

    fn query_adapter(&self, _at: &mut Passive) -> Answer<Features> {
        self.query()
    }

    fn tell_user_mode(&self, _at: &mut Passive, data: &mut [u8]) -> Answer<()> {
        self.ask_privately(data)
    }

    fn stop_device(&self, _at: &mut Passive) -> Answer<()> {
        self.stop()
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        self.remove()
    }

    fn unload(&self, _at: &mut Passive) -> Answer<()> {
        self.leave();
        Ok(())
    }

    fn set_power(&self, _at: &mut Passive, order: PowerOrder) -> Answer<()> {
        self.change_power(order)
    }

    fn pulled_out(&self, _at: &mut Passive) -> Answer<()> {
        self.pull()
    }

    fn stop_and_release(&self, _at: &mut Passive, target: u32) -> Answer<()> {
        self.release(target)
    }

    fn reset_device(&self, _at: &mut DeviceLevel) -> Answer<()> {
        self.reset()
    }

    fn create_device(&self, _at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        self.new_device(word)
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.end_device(&device)
    }

    fn create_context(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, u32)> {
        self.new_context(device, order, word)
    }

    fn destroy_context(&self, _at: &mut Passive, context: DriverContext) -> Answer<()> {
        self.end_context(&context)
    }

    fn create_process(
        &self,
        _at: &mut Passive,
        order: ProcessOrder,
        word: Blank<'_, Space>,
    ) -> Answer<DriverProcess> {
        self.new_process(order, word)
    }

    fn destroy_process(&self, _at: &mut Passive, process: DriverProcess) -> Answer<()> {
        self.end_process(&process)
    }

    fn root_size(&self, _at: &mut Passive, entries: u32) -> Answer<RootSize> {
        self.size_root(entries)
    }

    fn set_root(&self, _at: &mut Passive, context: &DriverContext, root: Root) -> Answer<()> {
        self.give_root(context, root)
    }

    fn map_window(&self, _at: &mut Passive, map: WindowMap<'_>) -> Answer<()> {
        self.map_pages(&map)
    }

    fn unmap_window(&self, _at: &mut Passive, segment: u32, window: &[u64]) -> Answer<()> {
        self.unmap_pages(segment, window)
    }

    fn standard_data(&self, _at: &mut Passive, standard: &mut Standard) -> Answer<()> {
        self.describe_standard(standard)
    }

    fn create_allocations(&self, _at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        self.new_allocations(births)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.end_allocations(doomed)
    }

    fn describe_allocation(
        &self,
        _at: &mut Passive,
        allocation: &DriverAllocation,
    ) -> Answer<Surface> {
        self.describe_one(allocation)
    }

    fn open_allocations(&self, _at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        self.new_views(opening)
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.end_views(device, views)
    }

    fn escape(&self, _at: &mut Passive, mut escape: Escape<'_>) -> Answer<()> {
        self.answer_escape(&mut escape)
    }

    fn submit(&self, _at: &mut Dispatch, packet: &Submission<'_>) -> Answer<()> {
        self.give(packet)
    }

    fn create_listed_context(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, BufferSizes)> {
        self.new_listed_context(device, order, word)
    }

    fn render(&self, _at: &mut Passive, rendering: &mut Rendering<'_>) -> Answer<()> {
        self.translate(rendering)
    }

    fn patch(&self, _at: &mut Passive, patching: &mut Patching<'_>) -> Answer<()> {
        self.write_addresses(patching)
    }

    fn submit_listed(&self, _at: &mut Dispatch, packet: &ListedSubmission<'_>) -> Answer<()> {
        self.give_listed(packet)
    }

    fn build_paging(&self, _at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        self.build(building)
    }

    fn submit_paging(&self, _at: &mut Dispatch, packet: &PagingSubmission<'_>) -> Answer<()> {
        self.give_paging(packet)
    }

    fn preempt(&self, _at: &mut Dispatch, node: u32, preemption: Fence) -> Answer<()> {
        self.take_back(node, preemption)
    }

    fn current_fence(&self, _at: &mut Passive, node: u32) -> Answer<Fence> {
        self.ask_fence(node)
    }

    fn cancel(&self, _at: &mut Passive, packet: &Cancelled<'_>) -> Answer<()> {
        self.forget_packet(packet)
    }

    fn engine_answers(&self, _at: &mut Passive, node: u32) -> Answer<bool> {
        self.ask_engine(node)
    }

    fn dependent_nodes(&self, _at: &mut Passive, node: u32) -> Answer<u64> {
        self.ask_group(node)
    }

    fn reset_engine(&self, _at: &mut Passive, node: u32) -> Answer<Fence> {
        self.reset_one(node)
    }

    fn reset(&self, _at: &mut Passive) -> Answer<()> {
        self.reset_all()
    }

    fn restart(&self, _at: &mut Passive) -> Answer<()> {
        self.start_again()
    }

    fn collect(&self, _at: &mut Passive, reason: CollectReason, into: &mut [u8]) -> Answer<usize> {
        self.write_down(reason, into)
    }

    fn interrupt(&self, _at: &mut DeviceLevel) -> Answer<bool> {
        self.ask_interrupt()
    }

    fn dpc(&self, _at: &mut Dispatch) -> Answer<()> {
        self.run_dpc()
    }

    fn control_interrupt(&self, _at: &mut Passive, of: Interrupt, on: bool) -> Answer<()> {
        self.switch_interrupt(of, on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::{
        DXGKARG_CLOSEALLOCATION, DXGKARG_CREATEALLOCATION, DXGKARG_CREATEDEVICE,
        DXGKARG_DESTROYALLOCATION, DXGKARG_OPENALLOCATION, DXGKARG_QUERYADAPTERINFO,
        DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WIN8,
    };
    use abi::miniport::{DXGK_START_INFO, DXGKRNL_INTERFACE};
    use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
    use abi::{HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
    use flight::{Log, Stepped};

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

    /// What every driver has, and nothing else.
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

    fn driver(table: &DRIVER_INITIALIZATION_DATA) -> Result<Arc<TableDriver>, BadTable> {
        // SAFETY: The functions above are what their slots say.
        unsafe { TableDriver::new(*table, 1, Pool::new(Arc::new(Log::new()))) }
    }

    fn fly<R>(body: impl FnOnce(&Stepped, &mut Passive) -> R) -> R {
        Stepped::fly(1, &Arc::new(Log::new()), |host, at| body(host, at)).unwrap()
    }

    #[test]
    fn a_driver_offers_what_it_filled_in() {
        let few = driver(&table()).unwrap();
        let more = DRIVER_INITIALIZATION_DATA { DxgkDdiUnload: Some(unload), ..table() };
        let more = driver(&more).unwrap();
        assert_eq!((few.offers().len(), more.offers().len()), (11, 12));
        assert!(!few.offers().contains(&"DxgkDdiUnload"));
        assert!(more.offers().contains(&"DxgkDdiUnload"));
    }

    #[test]
    fn the_kernel_and_the_table_call_the_entries_alike() {
        for name in kernel::ddi::NAMES {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(name), "{name}");
        }
    }

    #[test]
    fn a_bad_table_is_not_taken() {
        let old = DRIVER_INITIALIZATION_DATA { Version: DXGKDDI_INTERFACE_VERSION_WIN8, ..table() };
        assert_eq!(driver(&old).err(), Some(BadTable::Version(0x300E)));
        let cut = DRIVER_INITIALIZATION_DATA {
            DxgkDdiStopDevice: None,
            DxgkDdiCloseAllocation: None,
            ..table()
        };
        let missing = vec!["DxgkDdiStopDevice", "DxgkDdiCloseAllocation"];
        assert_eq!(driver(&cut).err(), Some(BadTable::Missing(missing)));
    }

    #[test]
    fn what_is_not_there_is_absent_and_unload_need_not_be() {
        let driver = driver(&table()).unwrap();
        fly(|host, at| {
            assert_eq!(driver.unload(at), Ok(()));
            at.raised(host, |at| assert_eq!(driver.dpc(at), Err(Refusal::Absent)));
            at.raised(host, |at| assert_eq!(driver.interrupt(at), Err(Refusal::Absent)));
            let mut standard =
                Standard { bytes: 1, private: None, allocation_size: 0, resource_size: 0 };
            assert_eq!(driver.standard_data(at, &mut standard), Err(Refusal::Absent));
        });
    }

    #[test]
    fn before_the_driver_has_met_the_adapter_nothing_is_asked_of_it() {
        let driver = driver(&table()).unwrap();
        fly(|_, at| {
            assert_eq!(driver.start_device(at), Err(Refusal::Invalid));
            assert_eq!(driver.query_adapter(at), Err(Refusal::Invalid));
            assert_eq!(driver.remove_device(at), Err(Refusal::Invalid));
        });
    }

    #[test]
    fn a_panic_of_the_driver_passes_through() {
        let table = DRIVER_INITIALIZATION_DATA { DxgkDdiUnload: Some(unload), ..table() };
        let driver = driver(&table).unwrap();
        let said = fly(|_, at| {
            let unload = std::panic::AssertUnwindSafe(|| driver.unload(at));
            std::panic::catch_unwind(unload).unwrap_err()
        });
        assert_eq!(said.downcast_ref(), Some(&"unload"));
    }
}
