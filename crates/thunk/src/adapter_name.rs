//! Adapters, opened by a name: of a display, of a device, or of a device context.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::adapter::luid;
use crate::claims::{read, read_mut, write};
use crate::refusal::{OfMember, invalid, invalid_with, refused_with};
use crate::session::Session;
use crate::status::status;
use crate::wide_text::{Width, width_of};
use abi::kmt::{
    D3DKMT_OPENADAPTERFROMDEVICENAME, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME,
    D3DKMT_OPENADAPTERFROMHDC,
};
use abi::status::STATUS_UNSUCCESSFUL;
use abi::{D3DKMT_HANDLE, LUID, NTSTATUS, WCHAR};
use flight::{Passive, RuleId};
use kernel::AdapterId;
use kernel::miniport::DriverKind;
use std::ffi::c_void;

/// The name of the only display.
const DISPLAY: &str = r"\\.\DISPLAY1";

/// `D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME` with characters of four bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct WideDisplayName {
    DeviceName: [u32; 32],
    hAdapter: D3DKMT_HANDLE,
    AdapterLuid: LUID,
    VidPnSourceId: u32,
}

/// Opens the adapter of a display.
///
/// WINDOWS: the name of an attached display opens with a fresh handle and the adapter's LUID;
/// NULL, an empty name and the name of a display that is not attached are unsuccessful (observed:
/// ADAPTER-OPEN-001). Any other name is taken for a display that is not attached (our reading).
/// That the one attached display is that of the first adapter which has displays, at source 0, is
/// our decision.
pub(crate) unsafe fn open_adapter_from_gdi_display_name(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME,
) -> Result<(), NTSTATUS> {
    let argument = "D3DKMTOpenAdapterFromGdiDisplayName.DeviceName";
    let judge = |broken: Option<&str>| {
        session.judge(RuleId::ADAPTER_OPEN_001, argument, broken.map(str::to_owned));
    };
    if args.is_null() {
        judge(Some("there is no argument structure"));
        return Err(STATUS_UNSUCCESSFUL);
    }
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    // A display that is not attached is no mistake: a client cannot know that.
    judge((arguments.DeviceName[0] == 0).then_some("the name of the display is empty"));
    let name: Vec<u8> = arguments.DeviceName.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    match width_of(&name) {
        Width::Two => {
            let (handle, adapter) = open_display(session, &Width::Two.decode(&name))?;
            arguments.hAdapter = handle;
            (arguments.AdapterLuid, arguments.VidPnSourceId) = (luid(adapter), 0);
            // SAFETY: The caller's contract.
            unsafe { write(args, arguments) }
        }
        Width::Four => {
            let wide = args.cast::<WideDisplayName>();
            // SAFETY: The caller's contract: a caller with such characters has this structure.
            let mut arguments = unsafe { read_mut(wide) }?;
            let name: Vec<u8> =
                arguments.DeviceName.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let (handle, adapter) = open_display(session, &Width::Four.decode(&name))?;
            arguments.hAdapter = handle;
            (arguments.AdapterLuid, arguments.VidPnSourceId) = (luid(adapter), 0);
            // SAFETY: The caller's contract, as above.
            unsafe { write(wide, arguments) }
        }
    }
}

fn open_display(session: &Session, name: &str) -> Result<(D3DKMT_HANDLE, AdapterId), NTSTATUS> {
    let adapters = session.kernel.adapter_infos();
    let first = adapters.iter().find(|info| info.kind != DriverKind::ComputeOnly);
    let adapter = first.filter(|_| name == DISPLAY);
    let other = || format!("DeviceName {name} is not that of the only display, {DISPLAY}");
    let adapter = adapter.ok_or_else(|| refused_with(STATUS_UNSUCCESSFUL, other))?.adapter;
    let handle = session.kernel.open_adapter(session.process, adapter);
    Ok((handle.map_err(|error| status(&error))?.0, adapter))
}

/// What the path of an adapter begins with: a device that the bus of roots enumerates. The number
/// of the adapter in the list of all adapters follows, in four digits.
const PATH: &str = r"\\?\ROOT#DISPLAY#";

/// What follows: the interface class `GUID_DISPLAY_DEVICE_ARRIVAL`.
const ARRIVAL: &str = "#{1CA05180-A699-450A-9A0C-DE4FBE3DDD89}";

/// The interface class `GUID_DEVINTERFACE_DISPLAY_ADAPTER`.
const DISPLAY_ADAPTER: &str = "#{5B45201D-F2F2-4F3B-85BB-30FF1F953599}";

/// Opens the adapter of a device.
///
/// WINDOWS: a path of the interface class `GUID_DISPLAY_DEVICE_ARRIVAL` opens, with the LUID of its
/// device, and one of `GUID_DEVINTERFACE_DISPLAY_ADAPTER` is an invalid parameter (observed:
/// ADAPTER-OPEN-003). What the path of a device is, is our decision: there is no `SetupDi`.
pub(crate) unsafe fn open_adapter_from_device_name(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENADAPTERFROMDEVICENAME,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    // SAFETY: The caller's contract: the name ends with a zero.
    let name = unsafe { read_name(arguments.pDeviceName) }?.to_ascii_uppercase();
    let broken = name.ends_with(DISPLAY_ADAPTER).then(|| {
        "the path is one of GUID_DEVINTERFACE_DISPLAY_ADAPTER, and only paths of \
         GUID_DISPLAY_DEVICE_ARRIVAL open"
            .to_owned()
    });
    session.judge(RuleId::ADAPTER_OPEN_003, "D3DKMTOpenAdapterFromDeviceName.pDeviceName", broken);
    let number = name.strip_prefix(PATH).and_then(|rest| rest.strip_suffix(ARRIVAL));
    let number = number.filter(|digits| digits.len() == 4 && !digits.starts_with('+'));
    let number: Option<usize> = number.and_then(|digits| digits.parse().ok());
    let adapters = session.kernel.adapter_infos();
    let adapter = number.and_then(|number| adapters.get(number));
    let adapter = adapter.ok_or_else(|| invalid("pDeviceName is not the path of an adapter"))?;
    let handle = session.kernel.open_adapter(session.process, adapter.adapter);
    arguments.hAdapter = handle.map_err(|error| status(&error))?.0;
    arguments.AdapterLuid = luid(adapter.adapter);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The longest name that is read.
const MAX_NAME: usize = 1024;

/// Reads a name up to its zero. The second code unit tells the width of its characters.
///
/// # Safety
///
/// `from` is NULL or a name that ends with a zero, unless the session is guarded.
unsafe fn read_name(from: *const WCHAR) -> Result<String, NTSTATUS> {
    let mut units: Vec<u32> = Vec::new();
    // SAFETY: The caller's contract: a name has at least its end.
    let first = unsafe { read(from) }.of_member("pDeviceName")?;
    // SAFETY: The caller's contract: the first character is not the end.
    let wide = first != 0 && unsafe { read(from.wrapping_add(1)) }.of_member("pDeviceName")? == 0;
    while units.len() < MAX_NAME {
        let unit = if wide {
            // SAFETY: The caller's contract: the end was not reached.
            unsafe { read(from.cast::<c_void>().cast::<u32>().wrapping_add(units.len())) }
                .of_member("pDeviceName")?
        } else {
            // SAFETY: The caller's contract: the end was not reached.
            unsafe { read(from.wrapping_add(units.len())) }.of_member("pDeviceName")?.into()
        };
        if unit == 0 {
            let character = |unit: &u32| char::from_u32(*unit).unwrap_or('\u{fffd}');
            return Ok(units.iter().map(character).collect());
        }
        units.push(unit);
    }
    Err(invalid_with(|| format!("pDeviceName does not end within {MAX_NAME} characters")))
}

/// Opens the adapter of a device context, which cannot exist here.
///
/// WINDOWS: zero is an invalid parameter (observed: ADAPTER-OPEN-002); so is every other number,
/// because none is a device context. NULL faults in the caller (observed); here it is an invalid
/// parameter. Only these two are breaches: another number may be a device context on Windows.
pub(crate) unsafe fn open_adapter_from_hdc(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_OPENADAPTERFROMHDC,
) -> Result<(), NTSTATUS> {
    let broken = if args.is_null() {
        Some("there is no argument structure: the call faults on Windows")
    } else {
        // SAFETY: The caller's contract.
        let arguments = unsafe { read_mut(args) }?;
        arguments.hDc.is_null().then_some("hDc is NULL")
    };
    let status = invalid("hDc is not a device context, and none exists here");
    let argument = "D3DKMTOpenAdapterFromHdc.hDc";
    session.judge(RuleId::ADAPTER_OPEN_002, argument, broken.map(str::to_owned));
    Err(status)
}
