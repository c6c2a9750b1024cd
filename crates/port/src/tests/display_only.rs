//! A display-only driver: it starts, takes over the display, and stops.
#![expect(unsafe_code, reason = "acts as a driver in C")]
#![expect(clippy::undocumented_unsafe_blocks, reason = "a driver in C has no safety comments")]

use crate::{DriverKind, Hardware, TableDriver, TableError};
use abi::display::*;
use abi::miniport::*;
use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{BOOLEAN, HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID};
use flight::{DeterministicHost, EventKind, HardwareModel, InterruptLine, Log, Passive, Ram};
use kernel::miniport::Miniport;
use kernel::{AdapterId, DriverSetup, Kernel, StartError};
use nt::Pool;
use std::ptr;
use std::sync::{Arc, Mutex};

/// What the driver was called with, and how it answers.
#[derive(Default)]
struct Screen {
    calls: Mutex<Vec<&'static str>>,
    display: Mutex<Option<DXGK_DISPLAY_INFORMATION>>,
    /// Its capabilities lack smooth rotation.
    no_rotation: bool,
    /// It describes one child more than it counts.
    extra_child: bool,
    /// It stops in `DxgkDdiStopDeviceAndReleasePostDisplayOwnership`.
    releases: bool,
}

impl HardwareModel for Screen {
    fn idle(&self) -> bool {
        true
    }
    fn step(&self, _: &mut Passive, _: &dyn InterruptLine) {}
}

fn screen<'a>(context: PVOID) -> &'a Screen {
    unsafe { &*context.cast::<Screen>() }
}

fn call(context: PVOID, name: &'static str) -> NTSTATUS {
    screen(context).calls.lock().unwrap().push(name);
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn add(device: PDEVICE_OBJECT, context: *mut PVOID) -> NTSTATUS {
    unsafe { context.write(device) };
    call(device, "add")
}
unsafe extern "win64-unwind" fn start(
    context: PVOID,
    _: *mut DXGK_START_INFO,
    interface: *mut DXGKRNL_INTERFACE,
    sources: *mut u32,
    children: *mut u32,
) -> NTSTATUS {
    let interface = unsafe { *interface };
    assert_eq!((interface.Version, interface.Size), (0x300E, 0x100));
    let mut display = DXGK_DISPLAY_INFORMATION::ZERO;
    let acquire = interface.DxgkCbAcquirePostDisplayOwnership.unwrap();
    assert_eq!(unsafe { acquire(interface.DeviceHandle, &raw mut display) }, STATUS_SUCCESS);
    *screen(context).display.lock().unwrap() = Some(display);
    unsafe { sources.write(1) };
    unsafe { children.write(1) };
    call(context, "start")
}
unsafe extern "win64-unwind" fn stop(context: PVOID) -> NTSTATUS {
    call(context, "stop")
}
unsafe extern "win64-unwind" fn remove(context: PVOID) -> NTSTATUS {
    call(context, "remove")
}
unsafe extern "win64-unwind" fn release(
    context: PVOID,
    _: u32,
    display: *mut DXGK_DISPLAY_INFORMATION,
) -> NTSTATUS {
    if !screen(context).releases {
        return STATUS_NOT_SUPPORTED;
    }
    unsafe { display.write(screen(context).display.lock().unwrap().unwrap()) };
    call(context, "release")
}
unsafe extern "win64-unwind" fn unload() {}
unsafe extern "win64-unwind" fn relations(
    context: PVOID,
    list: *mut DXGK_CHILD_DESCRIPTOR,
    size: u32,
) -> NTSTATUS {
    assert_eq!(size, 2 * 28);
    for at in 0..=usize::from(screen(context).extra_child) {
        let child = DXGK_CHILD_DESCRIPTOR {
            ChildDeviceType: TypeVideoOutput,
            ChildUid: 7 + u32::try_from(at).unwrap(),
            ..DXGK_CHILD_DESCRIPTOR::ZERO
        };
        unsafe { list.wrapping_add(at).write_unaligned(child) };
    }
    call(context, "relations")
}
unsafe extern "win64-unwind" fn status(
    context: PVOID,
    status: *mut DXGK_CHILD_STATUS,
    non_destructive: BOOLEAN,
) -> NTSTATUS {
    let it = unsafe { &mut *status };
    assert_eq!((it.Type, it.ChildUid, non_destructive), (StatusConnection, 7, 1));
    it.Data[0] = 1;
    call(context, "status")
}
unsafe extern "win64-unwind" fn query(
    context: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    let args = unsafe { *args };
    assert_eq!((args.Type, args.OutputDataSize), (DXGKQAITYPE_DRIVERCAPS, 0x220));
    let mut caps = DXGK_DRIVERCAPS {
        WDDMVersion: DXGKDDI_WDDMv1_2,
        SupportNonVGA: 1,
        SupportSmoothRotation: 1,
        ..DXGK_DRIVERCAPS::ZERO
    };
    if screen(context).no_rotation {
        caps.SupportSmoothRotation = 0;
    }
    unsafe { ptr::copy_nonoverlapping((&raw const caps).cast(), args.pOutputData, 0x220) };
    call(context, "caps")
}
unsafe extern "win64-unwind" fn power(context: PVOID, _: u32, _: i32, _: i32) -> NTSTATUS {
    call(context, "power")
}
unsafe extern "win64-unwind" fn refused() -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

fn table() -> KMDDOD_INITIALIZATION_DATA {
    KMDDOD_INITIALIZATION_DATA {
        Version: DXGKDDI_INTERFACE_VERSION_WIN8,
        DxgkDdiAddDevice: Some(add),
        DxgkDdiStartDevice: Some(start),
        DxgkDdiStopDevice: Some(stop),
        DxgkDdiRemoveDevice: Some(remove),
        DxgkDdiDispatchIoRequest: Some(refused),
        DxgkDdiQueryChildRelations: Some(relations),
        DxgkDdiQueryChildStatus: Some(status),
        DxgkDdiQueryDeviceDescriptor: Some(refused),
        DxgkDdiSetPowerState: Some(power),
        DxgkDdiUnload: Some(unload),
        DxgkDdiQueryAdapterInfo: Some(query),
        DxgkDdiIsSupportedVidPn: Some(refused),
        DxgkDdiEnumVidPnCofuncModality: Some(refused),
        DxgkDdiSetVidPnSourceVisibility: Some(refused),
        DxgkDdiCommitVidPn: Some(refused),
        DxgkDdiPresentDisplayOnly: Some(refused),
        DxgkDdiStopDeviceAndReleasePostDisplayOwnership: Some(release),
        ..KMDDOD_INITIALIZATION_DATA::ZERO
    }
}

/// Starts and removes the driver. Returns its calls, the findings, and the result of the start.
fn fly(
    screen: Screen,
    table: &KMDDOD_INITIALIZATION_DATA,
) -> (Arc<Screen>, Vec<String>, Result<AdapterId, StartError>) {
    let log = Arc::new(Log::new());
    let screen = Arc::new(screen);
    let started = DeterministicHost::fly(1, &log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        let pool = Pool::new(log.clone());
        let device = Arc::as_ptr(&screen).expose_provenance();
        let ram: Arc<dyn Ram> = nt::Ram::new(8 << 20).unwrap();
        let hardware = Hardware { ram: Some(ram), ..Hardware::default() };
        let at_table = ptr::from_ref(table).cast();
        let driver = unsafe {
            TableDriver::display_only_from_memory(at_table, device, pool.clone(), hardware)
        };
        let driver = driver.unwrap();
        assert_eq!(driver.kind(), DriverKind::DisplayOnly);
        assert!(driver.entry_points().contains(&"DxgkDdiPresentDisplayOnly"));
        let setup = DriverSetup { miniport: driver, hardware: screen.clone(), pool };
        let started = kernel.add_adapter(at, setup);
        if let Ok(adapter) = &started {
            kernel.remove_adapter(at, *adapter);
        }
        started
    })
    .unwrap();
    let message = |kind: &EventKind| match kind {
        EventKind::RuleBroken { rule, message, .. } => Some(format!("{}: {message}", rule.name())),
        EventKind::EntryMissing { name } => Some(format!("absent: {name}")),
        _ => None,
    };
    let messages = log.take().iter().filter_map(|event| message(&event.kind)).collect();
    (screen, messages, started)
}

#[test]
fn it_starts_takes_over_the_display_and_stops() {
    let (screen, messages, started) = fly(Screen::default(), &table());
    assert!(started.is_ok(), "{started:?}");
    assert_eq!(messages, [] as [&str; 0]);
    let calls = screen.calls.lock().unwrap();
    assert_eq!(*calls, ["add", "start", "relations", "caps", "status", "stop", "remove"]);
    let display = screen.display.lock().unwrap().unwrap();
    assert_eq!((display.Width, display.Height, display.Pitch), (1024, 768, 4096));
    assert!(display.PhysicAddress > 0);
}

#[test]
fn a_display_that_is_handed_over_is_the_whole_stop() {
    let (screen, messages, _) = fly(Screen { releases: true, ..Screen::default() }, &table());
    assert_eq!(messages, [] as [&str; 0]);
    let calls = screen.calls.lock().unwrap();
    assert_eq!(calls[5..], ["release", "remove"]);
}

#[test]
fn missing_capabilities_refuse_the_start() {
    let (screen, messages, started) =
        fly(Screen { no_rotation: true, ..Screen::default() }, &table());
    assert_eq!(started.unwrap_err().entry, "DxgkDdiQueryAdapterInfo");
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with("GATE-CAPS-002: the capabilities of a display-only driver"));
    assert!(!screen.calls.lock().unwrap().contains(&"status"));
}

#[test]
fn a_child_more_than_was_counted_is_named() {
    let (_, messages, _) = fly(Screen { extra_child: true, ..Screen::default() }, &table());
    let text = "KMD-PNP-004: NumberOfChildren was 1, but DxgkDdiQueryChildRelations described 2";
    assert_eq!(messages, [text]);
}

#[test]
fn half_of_vsync_control_is_named() {
    let half = KMDDOD_INITIALIZATION_DATA { DxgkDdiGetScanLine: Some(refused), ..table() };
    let (_, messages, started) = fly(Screen::default(), &half);
    assert!(started.is_err());
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with("GATE-TABLE-006: the driver has DxgkDdiGetScanLine and no"));
}

#[test]
fn a_table_without_what_every_display_only_driver_has_is_not_taken() {
    let cut = KMDDOD_INITIALIZATION_DATA { DxgkDdiDispatchIoRequest: None, ..table() };
    let pool = Pool::new(Arc::new(Log::new()));
    let refused = unsafe { TableDriver::display_only(&cut, 1, pool, Hardware::default()) };
    let missing = TableError::Missing(vec!["DxgkDdiDispatchIoRequest"]);
    assert_eq!(refused.err(), Some(missing));
}
