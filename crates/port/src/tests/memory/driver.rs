//! The driver of these tests: it records its arguments, and runs the test's closures.

use crate::TableDriver;
use abi::display::*;
use abi::miniport::{DRIVER_INITIALIZATION_DATA, DXGK_START_INFO, DXGKRNL_INTERFACE};
use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
use flight::{
    DeterministicHost, Event, EventKind, HardwareModel, InterruptLine, Log, Passive, Ram,
};
use kernel::{AdapterId, DriverSetup, Kernel, StartError};
use nt::Pool;
use std::ptr;
use std::sync::{Arc, Mutex};

pub(crate) type Query = fn(&mut DXGK_QUERYSEGMENTOUT4) -> NTSTATUS;
pub(crate) type OldQuery = fn(i32, &mut DXGK_QUERYSEGMENTOUT3) -> NTSTATUS;
pub(crate) type Build = fn(&mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS;
pub(crate) type Call = fn(&DXGKRNL_INTERFACE, HANDLE);

/// What the driver does. Its hardware does nothing.
pub(crate) struct Board {
    /// Changes the caps.
    pub(crate) caps: fn(&mut DXGK_DRIVERCAPS),
    /// Handles the segment queries.
    pub(crate) query: Query,
    /// Handles the segment queries of the first driver model.
    pub(crate) old_query: OldQuery,
    /// Its `MiscCaps`, if the version has them.
    pub(crate) misc_caps: u32,
    /// How many bytes it writes behind its capabilities.
    pub(crate) caps_overrun: usize,
    /// The types and output sizes of its queries, without that of segments at 2.0.
    pub(crate) queries: Mutex<Vec<(i32, u32)>>,
    /// Builds paging buffers.
    pub(crate) build: Mutex<Build>,
    /// Runs in `DxgkDdiCreateDevice`, with the interface and the driver handle of the adapter.
    pub(crate) in_device: Call,
    /// What was submitted.
    pub(crate) submitted: Mutex<Vec<DXGKARG_SUBMITCOMMAND>>,
    /// The interface that it got on start.
    pub(crate) interface: Mutex<DXGKRNL_INTERFACE>,
}

// The structures in it have pointers; a test has one thread.
unsafe impl Send for Board {}
unsafe impl Sync for Board {}

impl Default for Board {
    fn default() -> Self {
        Self {
            caps: |_| (),
            query: super::query::two_segments,
            old_query: |_, _| STATUS_NOT_SUPPORTED,
            misc_caps: 0,
            caps_overrun: 0,
            queries: Mutex::default(),
            build: Mutex::new(|_| STATUS_SUCCESS),
            in_device: |_, _| (),
            submitted: Mutex::default(),
            interface: Mutex::new(DXGKRNL_INTERFACE::ZERO),
        }
    }
}

impl HardwareModel for Board {
    fn idle(&self) -> bool {
        true
    }
    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        line.raise(at);
    }
    fn ram(&self) -> Option<Arc<dyn Ram>> {
        nt::Ram::new(1 << 20).ok().map(|ram| ram as Arc<dyn Ram>)
    }
}

fn board<'a>(adapter: PVOID) -> &'a Board {
    unsafe { &*adapter.cast::<Board>() }
}

unsafe extern "win64-unwind" fn add(device: PDEVICE_OBJECT, context: *mut PVOID) -> NTSTATUS {
    unsafe { context.write(device) };
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn start(
    context: PVOID,
    _: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    unsafe { sources.write(0) };
    unsafe { children.write(0) };
    *board(context).interface.lock().unwrap() = unsafe { *interface };
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn one(_: PVOID) -> NTSTATUS {
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn query(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    let args = unsafe { *args };
    match args.Type {
        DXGKQAITYPE_DRIVERCAPS => {
            let length = args.OutputDataSize as usize;
            let mut caps = DXGK_DRIVERCAPS::ZERO;
            caps.GpuEngineTopology.NbAsymetricProcessingNodes = 2;
            caps.MemoryManagementCaps.PagingNode = 1;
            caps.ApertureSegmentCommitLimit = 1 << 20;
            (board(adapter).caps)(&mut caps);
            let written = length.min(size_of_val(&caps)) + board(adapter).caps_overrun;
            let from = (&raw const caps).cast::<u8>();
            unsafe { ptr::copy_nonoverlapping(from, args.pOutputData.cast(), written) };
            if length > size_of_val(&caps) {
                let misc = args.pOutputData.wrapping_byte_add(size_of_val(&caps)).cast::<u32>();
                unsafe { misc.write_unaligned(board(adapter).misc_caps) };
            }
            board(adapter).queries.lock().unwrap().push((args.Type, args.OutputDataSize));
            STATUS_SUCCESS
        }
        DXGKQAITYPE_QUERYSEGMENT3 | DXGKQAITYPE_QUERYSEGMENT => {
            assert_eq!(args.InputDataSize, 24);
            board(adapter).queries.lock().unwrap().push((args.Type, args.OutputDataSize));
            (board(adapter).old_query)(args.Type, unsafe { &mut *args.pOutputData.cast() })
        }
        DXGKQAITYPE_QUERYSEGMENT4 => {
            assert_eq!(args.OutputDataSize as usize, size_of::<DXGK_QUERYSEGMENTOUT4>());
            assert_eq!((args.InputDataSize, unsafe { *args.pInputData.cast::<u32>() }), (4, 0));
            (board(adapter).query)(unsafe { &mut *args.pOutputData.cast() })
        }
        _ => STATUS_NOT_SUPPORTED,
    }
}
unsafe extern "win64-unwind" fn device(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEDEVICE,
) -> NTSTATUS {
    let interface = *board(adapter).interface.lock().unwrap();
    (board(adapter).in_device)(&interface, adapter);
    unsafe { (*args).hDevice = adapter };
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn create(_: HANDLE, _: *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS {
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn destroy(
    _: HANDLE,
    _: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn open(_: HANDLE, _: *const DXGKARG_OPENALLOCATION) -> NTSTATUS {
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn close(_: HANDLE, _: *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS {
    STATUS_SUCCESS
}
unsafe extern "win64-unwind" fn build(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    let build = *board(adapter).build.lock().unwrap();
    build(unsafe { &mut *args })
}
unsafe extern "win64-unwind" fn submit(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMAND,
) -> NTSTATUS {
    board(adapter).submitted.lock().unwrap().push(unsafe { *args });
    STATUS_SUCCESS
}
pub(crate) fn table() -> DRIVER_INITIALIZATION_DATA {
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
        DxgkDdiBuildPagingBuffer: Some(build),
        DxgkDdiSubmitCommand: Some(submit),
        ..DRIVER_INITIALIZATION_DATA::ZERO
    }
}

/// The driver, called by a test without the kernel.
pub(crate) struct FlightResult<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) driver: Arc<TableDriver>,
    pub(crate) board: Arc<Board>,
    pub(crate) adapter: Result<AdapterId, StartError>,
}

/// Starts the driver, and runs `body`. Returns the findings.
pub(crate) fn fly(
    board: Board,
    table: &DRIVER_INITIALIZATION_DATA,
    body: impl FnOnce(&FlightResult<'_>, &mut Passive),
) -> Vec<String> {
    let log = Arc::new(Log::new());
    let board = Arc::new(board);
    DeterministicHost::fly(1, &log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        let pool = Pool::new(log.clone());
        let physical_device = Arc::as_ptr(&board).expose_provenance();
        let driver = unsafe { TableDriver::new(*table, physical_device, pool.clone()) }.unwrap();
        let plugged = DriverSetup { miniport: driver.clone(), hardware: board.clone(), pool };
        let adapter = kernel.add_adapter(at, plugged);
        let id = adapter.clone().ok();
        let (kernel, board) = (&*kernel, board.clone());
        body(&FlightResult { kernel, driver, board, adapter }, at);
        if let Some(id) = id {
            kernel.remove_adapter(at, id);
        }
    })
    .unwrap();
    log.take().iter().filter_map(message_of).collect()
}

fn message_of(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::RuleBroken { rule, message, .. } => Some(format!("{}: {message}", rule.name())),
        EventKind::EntryMissing { name } => Some(format!("absent: {name}")),
        _ => None,
    }
}

/// A driver handle.
pub(crate) fn handle(it: usize) -> HANDLE {
    ptr::without_provenance_mut(it)
}
