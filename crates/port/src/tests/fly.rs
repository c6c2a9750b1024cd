//! Flies a small driver with a table on the real kernel: arguments, results, and the findings for
//! a driver that breaks rules.
#![expect(unsafe_code, reason = "acts as a driver in C")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "a driver in C has no safety comments")]

use crate::TableDriver;
use abi::display::*;
use abi::miniport::{
    DRIVER_INITIALIZATION_DATA, DXGK_START_INFO, DXGKCB_QUEUE_DPC, DXGKRNL_INTERFACE,
};
use abi::status::{STATUS_INVALID_HANDLE, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID, UNTYPED_FN};
use flight::{DeterministicHost, Event, EventKind, HardwareModel, InterruptLine, Log, Passive};
use kernel::miniport::{CallList, CreateContextArgs, DriverError, PrivateData};
use kernel::{
    AdapterId, CreateAllocationRequest, DestroyAllocationRequest, DestroyTarget, DriverSetup,
    Handle, Kernel, Packet, ProcessExit,
};
use nt::{ExAllocatePool2, ExFreePoolWithTag, POOL_FLAG_NON_PAGED, Pool};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What the driver does wrong, if anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    /// It calls `DxgkCbNotifyInterrupt` at passive level.
    EarlyInterrupt,
    /// It sets a reserved flag.
    ReservedFlag,
    /// It calls a missing callback.
    Absent,
    /// Its synchronised routine panics.
    PanicInRoutine,
    /// It panics in `DxgkDdiCreateDevice`.
    PanicInCreate,
    /// It does not free its device.
    Leak,
    /// It uses an invalid handle.
    WrongHandle,
    /// It queues its DPC in `DxgkDdiUnload`.
    LateCall,
    /// It calls `DxgkCbExcludeAdapterAccess`.
    Excludes,
    /// It calls `DxgkCbGetHandleData`.
    OldHandleData,
    /// It is a driver of WDDM 1.3, and calls `DxgkCbGetHandleData`.
    FirstModel,
}

/// The hardware, and the switches of the test.
#[derive(Default)]
struct Hardware {
    fault: Fault,
    busy: AtomicBool,
    fence: AtomicU32,
    synchronised: AtomicU32,
}

impl HardwareModel for Hardware {
    fn idle(&self) -> bool {
        !self.busy.load(SeqCst)
    }
    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        self.busy.store(false, SeqCst);
        line.raise(at);
    }
}

/// The driver's adapter, in pool.
struct Kite {
    hardware: *const Hardware,
    interface: DXGKRNL_INTERFACE,
}

/// Any other object of the driver, with its parent.
struct Tail {
    kite: *mut Kite,
}

const TAG: u32 = u32::from_le_bytes(*b"Kite");

fn alloc<T>(value: T) -> *mut T {
    let block = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, size_of::<T>(), TAG) };
    let block: *mut T = block.cast();
    unsafe { block.write(value) };
    block
}

fn free(block: PVOID) {
    unsafe { ExFreePoolWithTag(block, TAG) };
}

fn kite<'a>(context: PVOID) -> &'a Kite {
    unsafe { &*context.cast::<Kite>() }
}

fn kite_of<'a>(tail: PVOID) -> &'a Kite {
    let tail = unsafe { &*tail.cast::<Tail>() };
    unsafe { &*tail.kite }
}

impl Kite {
    fn hardware(&self) -> &Hardware {
        unsafe { &*self.hardware }
    }
    fn tail(&self) -> HANDLE {
        alloc(Tail { kite: ptr::from_ref(self).cast_mut() }).cast()
    }
    fn interrupt(&self, fence: u32) {
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO;
        data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
        data.set_dma_completed(DmaCompleted {
            SubmissionFenceId: fence,
            NodeOrdinal: 0,
            EngineOrdinal: 0,
        });
        let call = self.interface.DxgkCbNotifyInterrupt.unwrap();
        unsafe { call(self.interface.DeviceHandle, &raw const data) };
    }
}

/// The interface of a driver that calls late.
static LATE: Mutex<Option<(DXGKCB_QUEUE_DPC, usize)>> = Mutex::new(None);

fn exclude(it: &DXGKRNL_INTERFACE, answer: NTSTATUS) {
    let call = it.DxgkCbExcludeAdapterAccess.unwrap();
    assert_eq!(unsafe { call(it.DeviceHandle, 0, None, ptr::null_mut()) }, answer);
}
unsafe extern "win64-unwind" fn unload() {
    if let Some((call, handle)) = LATE.lock().unwrap().take() {
        assert_eq!(unsafe { call(ptr::without_provenance_mut(handle)) }, 0);
    }
}
unsafe extern "win64-unwind" fn add(device: PDEVICE_OBJECT, context: *mut PVOID) -> NTSTATUS {
    let kite = Kite { hardware: device.cast(), interface: DXGKRNL_INTERFACE::ZERO };
    unsafe { context.write(alloc(kite).cast()) };
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn start(
    context: PVOID,
    info: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    unsafe { sources.write(0) };
    unsafe { children.write(0) };
    let given = unsafe { *interface };
    let expected = match kite(context).hardware().fault {
        Fault::FirstModel => (0x4002, 0x108),
        _ => (0x5023, 0x138),
    };
    assert_eq!((given.Version, given.Size), expected);
    assert_eq!(unsafe { (*info).AdapterLuid.LowPart }, 1 << 12);
    unsafe { (*context.cast::<Kite>()).interface = given };
    if kite(context).hardware().fault == Fault::Excludes {
        exclude(&given, STATUS_NOT_SUPPORTED);
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn query(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    let args = unsafe { *args };
    if args.Type != DXGKQAITYPE_DRIVERCAPS {
        return STATUS_NOT_SUPPORTED;
    }
    let first_model = kite(adapter).hardware().fault == Fault::FirstModel;
    assert_eq!(args.OutputDataSize, if first_model { 0x228 } else { 0x240 });
    unsafe { args.pOutputData.cast::<u32>().wrapping_add(76 / 4).write(2) };
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn stop(_: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn remove(context: PVOID) -> NTSTATUS {
    free(context);
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn count(context: PVOID) -> BOOLEAN {
    let hardware = kite(context).hardware();
    hardware.synchronised.fetch_add(1, SeqCst);
    assert!(hardware.fault != Fault::PanicInRoutine, "the routine panics");
    1
}
unsafe extern "win64-unwind" fn create_device(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    let kite = kite(adapter);
    let it = &kite.interface;
    match kite.hardware().fault {
        Fault::EarlyInterrupt => kite.interrupt(7),
        Fault::Absent => {
            let call: UNTYPED_FN = it.DxgkCbEvalAcpiMethod.unwrap();
            assert_eq!(unsafe { call() }, STATUS_NOT_SUPPORTED);
        }
        Fault::PanicInCreate => panic!("the driver panics"),
        Fault::Excludes => {
            exclude(it, STATUS_NOT_SUPPORTED);
        }
        Fault::LateCall => {
            let call = it.DxgkCbQueueDpc.unwrap();
            *LATE.lock().unwrap() = Some((call, it.DeviceHandle.addr()));
        }
        Fault::WrongHandle => {
            assert_eq!(unsafe { it.DxgkCbQueueDpc.unwrap()(ptr::null_mut()) }, 0);
        }
        _ => {}
    }
    let mut value = 0;
    let call = it.DxgkCbSynchronizeExecution.unwrap();
    let status = unsafe { call(it.DeviceHandle, Some(count), adapter, 0, &raw mut value) };
    assert_eq!((status, value), (STATUS_SUCCESS, 1));
    unsafe { (*args).hDevice = kite.tail() };
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn destroy(tail: HANDLE) -> NTSTATUS {
    if kite_of(tail).hardware().fault != Fault::Leak {
        free(tail);
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn create_context(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    let args = unsafe { &mut *args };
    assert_eq!((args.NodeOrdinal, args.EngineAffinity, args.PrivateDriverDataSize), (0, 1, 3));
    assert_eq!(unsafe { args.pPrivateDriverData.cast::<[u8; 3]>().read() }, *b"ctx");
    args.hContext = kite_of(device).tail();
    args.ContextInfo.DmaBufferPrivateDataSize = 16;
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn create(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    let (kite, args) = (kite(adapter), unsafe { &mut *args });
    for at in 0..args.NumAllocations as usize {
        let info = unsafe { &mut *args.pAllocationInfo.wrapping_add(at) };
        if info.PrivateDriverDataSize > 0 {
            let first = info.pPrivateDriverData.cast::<u8>();
            if unsafe { first.read() } == b'!' {
                return STATUS_NO_MEMORY;
            }
            unsafe { first.write(b'A') };
        }
        (info.Size, info.Alignment, info.PitchAlignedSize) = (8192, 64, 0);
        info.hAllocation = kite.tail();
        if kite.hardware().fault == Fault::ReservedFlag {
            info.FlagsWddm2.Value = 1 | 1 << 11;
        }
    }
    if args.Flags.has(DXGK_CREATEALLOCATIONFLAGS::Resource) && args.hResource.is_null() {
        args.hResource = kite.tail();
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn destroy_allocation(
    _: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    let args = unsafe { &*args };
    for at in 0..args.NumAllocations as usize {
        free(unsafe { args.pAllocationList.wrapping_add(at).read() });
    }
    if args.Flags.has(DXGK_DESTROYALLOCATIONFLAGS::DestroyResource) {
        free(args.hResource);
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn open(
    device: HANDLE,
    args: *const DXGKARG_OPENALLOCATION,
) -> NTSTATUS {
    let (kite, args) = (kite_of(device), unsafe { &*args });
    assert!(args.Flags.has(DXGK_OPENALLOCATIONFLAGS::Create));
    for at in 0..args.NumAllocations as usize {
        let info = unsafe { &mut *args.pOpenAllocation.wrapping_add(at) };
        let request = DXGKARGCB_GETHANDLEDATA {
            hObject: info.hAllocation,
            Type: DXGK_HANDLE_ALLOCATION,
            ..DXGKARGCB_GETHANDLEDATA::ZERO
        };
        if kite.hardware().fault == Fault::OldHandleData {
            let get = kite.interface.DxgkCbGetHandleData.unwrap();
            if unsafe { get(&raw const request) }.is_null() {
                return STATUS_INVALID_HANDLE;
            }
        }
        if kite.hardware().fault == Fault::FirstModel {
            let get = kite.interface.DxgkCbGetHandleData.unwrap();
            let data = unsafe { get(&raw const request) };
            assert!(ptr::eq(kite_of(data), kite), "the driver handle came back");
            assert!(kite.interface.DxgkCbAcquireHandleData.is_none());
            info.hDeviceSpecificAllocation = kite.tail();
            continue;
        }
        let acquire = kite.interface.DxgkCbAcquireHandleData.unwrap();
        let mut release = ptr::null_mut();
        let data = unsafe { acquire(&raw const request, &raw mut release) };
        assert!(!data.is_null() && !release.is_null());
        assert!(ptr::eq(kite_of(data), kite), "the driver handle came back");
        let let_go = kite.interface.DxgkCbReleaseHandleData.unwrap();
        let held =
            DXGKARGCB_RELEASEHANDLEDATA { ReleaseHandle: release, Type: DXGK_HANDLE_ALLOCATION };
        unsafe { let_go(held) };
        info.hDeviceSpecificAllocation = kite.tail();
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn close(_: HANDLE, args: *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS {
    let args = unsafe { &*args };
    for at in 0..args.NumAllocations as usize {
        free(unsafe { args.pOpenHandleList.wrapping_add(at).read() });
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn standard(
    _: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    let args = unsafe { &mut *args };
    let surface = unsafe { *args.gdi() };
    assert_eq!((surface.Width, surface.Height), (4096, 1));
    if args.pAllocationPrivateDriverData.is_null() {
        (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize) = (12, 5);
    } else {
        assert_eq!(
            (args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize),
            (12, 5)
        );
        unsafe { args.pAllocationPrivateDriverData.cast::<u8>().write_bytes(b's', 12) };
    }
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn submit(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    let (hardware, args) = (kite(adapter).hardware(), unsafe { &*args });
    assert_eq!((args.DmaBufferVirtualAddress, args.DmaBufferSize), (0x1_0000, 16));
    hardware.fence.store(args.SubmissionFenceId, SeqCst);
    hardware.busy.store(true, SeqCst);
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn interrupt(context: PVOID, _: u32) -> BOOLEAN {
    let kite = kite(context);
    kite.interrupt(kite.hardware().fence.load(SeqCst));
    unsafe { kite.interface.DxgkCbQueueDpc.unwrap()(kite.interface.DeviceHandle) }
}
unsafe extern "win64-unwind" fn dpc(context: PVOID) {
    let (it, adapter) = (kite(context).interface, context);
    let mut value = 0;
    let call = it.DxgkCbSynchronizeExecution.unwrap();
    let status = unsafe { call(it.DeviceHandle, Some(count), adapter, 0, &raw mut value) };
    assert_eq!((status, value), (STATUS_SUCCESS, 1));
    unsafe { it.DxgkCbNotifyDpc.unwrap()(it.DeviceHandle) };
}

fn table() -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA {
        Version: DXGKDDI_INTERFACE_VERSION_WDDM2_0,
        DxgkDdiAddDevice: Some(add),
        DxgkDdiStartDevice: Some(start),
        DxgkDdiStopDevice: Some(stop),
        DxgkDdiRemoveDevice: Some(remove),
        DxgkDdiInterruptRoutine: Some(interrupt),
        DxgkDdiDpcRoutine: Some(dpc),
        DxgkDdiQueryAdapterInfo: Some(query),
        DxgkDdiCreateDevice: Some(create_device),
        DxgkDdiDestroyDevice: Some(destroy),
        DxgkDdiCreateAllocation: Some(create),
        DxgkDdiDestroyAllocation: Some(destroy_allocation),
        DxgkDdiGetStandardAllocationDriverData: Some(standard),
        DxgkDdiOpenAllocation: Some(open),
        DxgkDdiCloseAllocation: Some(close),
        DxgkDdiCreateContext: Some(create_context),
        DxgkDdiDestroyContext: Some(destroy),
        DxgkDdiSubmitCommandVirtual: Some(submit),
        ..DRIVER_INITIALIZATION_DATA::ZERO
    }
}

/// Flies the driver; `body` gets a kernel with the adapter started.
fn fly(fault: Fault, body: impl FnOnce(&Kernel, &mut Passive, AdapterId)) -> Vec<Event> {
    let log = Arc::new(Log::new());
    let hardware = Arc::new(Hardware { fault, ..Hardware::default() });
    DeterministicHost::fly(1, &log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        let pool = Pool::new(log.clone());
        let physical_device = Arc::as_ptr(&hardware).expose_provenance();
        let mut table = table();
        if fault == Fault::FirstModel {
            table.Version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
        }
        if fault == Fault::LateCall {
            table.DxgkDdiUnload = Some(unload);
        }
        let miniport = unsafe { TableDriver::new(table, physical_device, pool.clone()) }.unwrap();
        let plugged = DriverSetup { miniport, hardware: hardware.clone(), pool };
        let adapter = kernel.add_adapter(at, plugged).unwrap();
        body(&kernel, at, adapter);
        kernel.remove_adapter(at, adapter);
        assert_eq!(kernel.live_objects().count(), 0, "{:#?}", kernel.live_objects());
    })
    .unwrap();
    let events = log.take();
    if std::env::var_os("SHOW").is_some() {
        for it in &events {
            println!("{it}");
        }
    }
    events
}

fn settle(kernel: &Kernel, at: &mut Passive, adapter: AdapterId) {
    while kernel.run_hardware_turn(at, adapter) || kernel.run_pending_work(at) {}
}

/// The private data of allocations.
fn private_data(all: &[&[u8]]) -> CallList<PrivateData> {
    all.iter().map(|bytes| PrivateData::from(*bytes)).collect()
}

/// Creates a device, two allocations of a resource, a standard allocation and a packet, and
/// destroys them.
fn life(kernel: &Kernel, at: &mut Passive, adapter: AdapterId) {
    let process = kernel.open_process();
    let name = kernel.open_adapter(process, adapter).unwrap();
    let device = kernel.create_device(at, process, name).unwrap();
    let args = CreateContextArgs { node: 0, engine: 1, system: false, private: b"ctx".to_vec() };
    let context = kernel.create_context(at, process, device, &args).unwrap();
    let allocations = private_data(&[b"one", b"another one"]);
    let request = CreateAllocationRequest {
        device,
        new_resource: true,
        allocations,
        ..CreateAllocationRequest::default()
    };
    let made = kernel.create_allocations(at, process, request).unwrap();
    assert_eq!(made.privates, private_data(&[b"Ane", b"Another one"]));
    let request = CreateAllocationRequest {
        device,
        new_resource: true,
        standard: Some(4096),
        allocations: private_data(&[b""]),
        ..CreateAllocationRequest::default()
    };
    kernel.create_allocations(at, process, request).unwrap();
    let packet = Packet {
        commands: 0x1_0000,
        length: 16,
        private: vec![1, 2, 3].into(),
        ..Packet::default()
    };
    kernel.submit(at, process, context, packet).unwrap();
    settle(kernel, at, adapter);
    let target = DestroyTarget::Resource(made.resource.unwrap());
    let request =
        DestroyAllocationRequest { device, target, assume_not_in_use: false, synchronous: false };
    kernel.destroy(at, process, &request).unwrap();
    settle(kernel, at, adapter);
    kernel.destroy_context(at, process, context).unwrap();
    kernel.destroy_device(at, process, device).unwrap();
    kernel.close_adapter(at, process, name).unwrap();
    kernel.end_process(at, process, ProcessExit::Orderly);
}

fn broken(events: &[Event]) -> Vec<String> {
    let message = |it: &Event| match &it.kind {
        EventKind::RuleBroken { rule, message, .. } => Some(format!("{}: {message}", rule.name())),
        EventKind::EntryMissing { name } => Some(format!("absent: {name}")),
        EventKind::PoolBadFree { .. }
        | EventKind::PoolCorrupted { .. }
        | EventKind::PoolLeaked { .. } => Some(it.kind.name().to_owned()),
        EventKind::DdiReturn { name, result: answer, .. } if answer != "ok" => {
            Some(format!("{name}: {answer}"))
        }
        _ => None,
    };
    events.iter().filter_map(message).collect()
}

#[test]
fn a_good_driver_flies_and_nothing_is_said() {
    let events = fly(Fault::None, life);
    assert_eq!(broken(&events), [] as [&str; 0]);
    let has = |name: &str| events.iter().any(|event| event.kind.name() == name);
    for name in ["fence.passed", "allocation.destroyed", "resource.destroyed", "context.destroyed"]
    {
        assert!(has(name), "{name}");
    }
    let called = |event: &&Event| matches!(&event.kind, EventKind::Callback { name } if name == "DxgkCbSynchronizeExecution");
    assert_eq!(events.iter().filter(called).count(), 2, "from passive and from dispatch");
}

#[test]
fn a_flight_repeats() {
    let lines =
        |events: Vec<Event>| -> Vec<String> { events.iter().map(ToString::to_string).collect() };
    assert_eq!(lines(fly(Fault::None, life)), lines(fly(Fault::None, life)));
}

#[test]
fn an_interrupt_at_passive_is_named_and_not_believed() {
    let message = "KMD-ISR-005: DxgkCbNotifyInterrupt was called at passive, but needs device";
    let events = fly(Fault::EarlyInterrupt, life);
    assert_eq!(broken(&events), [message]);
    let reported =
        events.iter().filter(|event| matches!(event.kind, EventKind::FenceReported { .. }));
    assert_eq!(reported.count(), 1);
}

#[test]
fn a_reserved_flag_is_named_for_each_allocation() {
    let message = |at| {
        format!(
            "KMD-ALLOC-008: allocation {at} has FlagsWddm2 0x00000801, but 0x00000800 is reserved"
        )
    };
    assert_eq!(broken(&fly(Fault::ReservedFlag, life)), [message(0), message(1), message(0)]);
}

#[test]
fn what_nothing_serves_is_named() {
    assert_eq!(broken(&fly(Fault::Absent, life)), ["absent: DxgkCbEvalAcpiMethod"]);
    let message = "CB-IRQL-002: DeviceHandle of DxgkCbQueueDpc is NULL, not the DeviceHandle of \
                DXGKRNL_INTERFACE";
    assert_eq!(broken(&fly(Fault::WrongHandle, life)), [message]);
}

#[test]
fn a_callback_after_the_end_is_named() {
    let message = "CB-IRQL-002: DxgkCbQueueDpc was called for an adapter that is not started";
    let events = fly(Fault::LateCall, |kernel, at, adapter| {
        let process = kernel.open_process();
        let name = kernel.open_adapter(process, adapter).unwrap();
        let device = kernel.create_device(at, process, name).unwrap();
        kernel.destroy_device(at, process, device).unwrap();
        kernel.close_adapter(at, process, name).unwrap();
        kernel.end_process(at, process, ProcessExit::Orderly);
    });
    assert_eq!(broken(&events), [message]);
}

#[test]
fn an_adapter_is_not_excluded() {
    let absent = "absent: DxgkCbExcludeAdapterAccess";
    let expected = [absent, absent];
    assert_eq!(broken(&fly(Fault::Excludes, life)), expected);
}

#[test]
fn a_leak_is_named() {
    let message = broken(&fly(Fault::Leak, life));
    assert_eq!(message, ["pool.leaked", "pool.leaked"], "the device and the context");
}

#[test]
fn a_panic_is_the_drivers_and_leaves_nothing_behind() {
    for fault in [Fault::PanicInCreate, Fault::PanicInRoutine] {
        let events = fly(fault, |kernel, at, adapter| {
            let process = kernel.open_process();
            let name = kernel.open_adapter(process, adapter).unwrap();
            assert!(kernel.create_device(at, process, name).is_err());
            let outside = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, 8, TAG) };
            assert!(outside.is_null(), "no driver is running any more");
            kernel.close_adapter(at, process, name).unwrap();
            kernel.end_process(at, process, ProcessExit::Orderly);
        });
        assert_eq!(broken(&events), ["DxgkDdiCreateDevice: crashed"], "{fault:?}");
    }
}

#[test]
fn the_old_way_to_handle_data_is_a_dead_end() {
    let events = fly(Fault::OldHandleData, |kernel, at, adapter| {
        let process = kernel.open_process();
        let name = kernel.open_adapter(process, adapter).unwrap();
        let device = kernel.create_device(at, process, name).unwrap();
        let request = CreateAllocationRequest {
            device,
            allocations: private_data(&[&[1]]),
            ..CreateAllocationRequest::default()
        };
        assert!(kernel.create_allocations(at, process, request).is_err());
        kernel.destroy_device(at, process, device).unwrap();
        kernel.close_adapter(at, process, name).unwrap();
        kernel.end_process(at, process, ProcessExit::Orderly);
    });
    assert_eq!(broken(&events), ["DxgkDdiOpenAllocation: no-handle"]);
}

#[test]
fn the_first_driver_model_gets_its_handle_data() {
    let events = fly(Fault::FirstModel, |kernel, at, adapter| {
        let process = kernel.open_process();
        let name = kernel.open_adapter(process, adapter).unwrap();
        let device = kernel.create_device(at, process, name).unwrap();
        let request = CreateAllocationRequest {
            device,
            allocations: private_data(&[&[1]]),
            ..CreateAllocationRequest::default()
        };
        kernel.create_allocations(at, process, request).unwrap();
        kernel.destroy_device(at, process, device).unwrap();
        kernel.close_adapter(at, process, name).unwrap();
        kernel.end_process(at, process, ProcessExit::Orderly);
    });
    assert_eq!(broken(&events), [] as [&str; 0]);
}

#[test]
fn a_refused_create_leaves_nothing() {
    let events = fly(Fault::None, |kernel, at, adapter| {
        let process = kernel.open_process();
        let name = kernel.open_adapter(process, adapter).unwrap();
        let device = kernel.create_device(at, process, name).unwrap();
        let request = CreateAllocationRequest {
            device,
            allocations: private_data(&[b"!"]),
            ..CreateAllocationRequest::default()
        };
        assert!(kernel.create_allocations(at, process, request).is_err());
        let _: Handle = device;
        kernel.destroy_device(at, process, device).unwrap();
        kernel.close_adapter(at, process, name).unwrap();
        kernel.end_process(at, process, ProcessExit::Orderly);
    });
    assert_eq!(broken(&events), ["DxgkDdiCreateAllocation: no-memory"]);
}

/// Succeeds, and declines the device.
unsafe extern "win64-unwind" fn decline(_: PDEVICE_OBJECT, context: *mut PVOID) -> NTSTATUS {
    unsafe { context.write(ptr::null_mut()) };
    STATUS_SUCCESS
}

#[test]
fn a_driver_that_gives_no_context_is_asked_nothing_more() {
    let log = Arc::new(Log::new());
    DeterministicHost::fly(1, &log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        let (table, pool) = (table(), Pool::new(log.clone()));
        let table = DRIVER_INITIALIZATION_DATA { DxgkDdiAddDevice: Some(decline), ..table };
        let miniport = unsafe { TableDriver::new(table, 1, pool.clone()) }.unwrap();
        let machine = Arc::new(Hardware::default());
        let why =
            kernel.add_adapter(at, DriverSetup { miniport, hardware: machine, pool }).unwrap_err();
        assert_eq!((why.entry, why.why), ("DxgkDdiAddDevice", DriverError::Declined));
        assert_eq!(kernel.live_objects().count(), 0);
    })
    .unwrap();
    let call = |event: Event| match event.kind {
        EventKind::DdiCall { name, .. } => Some(name.into_owned()),
        _ => None,
    };
    let called: Vec<String> = log.take().into_iter().filter_map(call).collect();
    assert_eq!(called, ["DxgkDdiAddDevice", "DxgkDdiUnload"]);
}
