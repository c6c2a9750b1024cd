//! Processing, gates and injection under their Windows names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::read;
use crate::ks::driver_memory::DriverMemory;
use crate::ks::export_entry::{MaxIrql, export, filter, pin, pin_to_process};
use crate::ks::frame::parse_header;
use crate::ks::status::status_from_result;
use abi::ks::{KSFILTER, KSGATE, KSPIN, KSSTREAM_HEADER, PFNKSPINFRAMERETURN};
use abi::status::STATUS_INVALID_PARAMETER;
use abi::{BOOLEAN, NTSTATUS, PVOID};
use std::ptr;

/// Has a pin processed, if it can be. It is always a job: nothing is processed inside this call.
///
/// # Safety
///
/// None of its own: the pin is looked up, and not followed.
pub unsafe extern "win64-unwind" fn KsPinAttemptProcessing(of: *mut KSPIN, _later: BOOLEAN) {
    const NAME: &str = "KsPinAttemptProcessing";
    export(NAME, MaxIrql::Dispatch, pin_to_process(of, NAME), (), |door, pin| {
        door.compare_gates(); // It may have opened one, in a routine that nobody here has called.
        // What it breaks is named there.
        let _ = door.services().attempt_processing(pin);
    });
}

/// Has a filter processed, if it can be. As above.
///
/// # Safety
///
/// As of [`KsPinAttemptProcessing`].
pub unsafe extern "win64-unwind" fn KsFilterAttemptProcessing(of: *mut KSFILTER, _later: BOOLEAN) {
    const NAME: &str = "KsFilterAttemptProcessing";
    export(NAME, MaxIrql::Dispatch, filter(of, NAME), (), |door, filter| {
        let _ = door.services().attempt_filter_processing(filter);
    });
}

/// The gate of a pin, which is changed in place: what it says is looked at when the driver
/// returns, and when it has the pin processed.
///
/// # Safety
///
/// As of [`KsPinAttemptProcessing`].
pub unsafe extern "win64-unwind" fn KsPinGetAndGate(of: *mut KSPIN) -> *mut KSGATE {
    const NAME: &str = "KsPinGetAndGate";
    export(NAME, MaxIrql::Unjudged, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let mut inner = door.inner();
        let Some(it) = inner.pins.get_mut(&pin) else { return ptr::null_mut() };
        let open = || (DriverMemory::from_value(KSGATE { Count: 1, ..KSGATE::ZERO }), 0);
        it.gate.get_or_insert_with(open).0.pointer()
    })
}

/// Has the frames of a pin come from its driver.
///
/// # Safety
///
/// The routine takes what its page says.
pub unsafe extern "win64-unwind" fn KsPinRegisterFrameReturnCallback(
    of: *mut KSPIN,
    call: Option<PFNKSPINFRAMERETURN>,
) {
    const NAME: &str = "KsPinRegisterFrameReturnCallback";
    export(NAME, MaxIrql::Passive, pin(of, NAME), (), |door, pin| {
        if door.services().inject_frames(pin).is_ok()
            && let Some(it) = door.inner().pins.get_mut(&pin)
        {
            it.frame_return = call;
        }
    });
}

/// Sends a frame on that comes from the driver.
///
/// # Safety
///
/// `header` is NULL or points to a header; the frame has as many bytes as `size` says.
pub unsafe extern "win64-unwind" fn KsPinSubmitFrame(
    of: *mut KSPIN,
    data: PVOID,
    size: u32,
    header: *mut KSSTREAM_HEADER,
    context: PVOID,
) -> NTSTATUS {
    const NAME: &str = "KsPinSubmitFrame";
    // SAFETY: The caller promises the same.
    let header = unsafe { read(header.cast_const()) };
    export(NAME, MaxIrql::Dispatch, pin(of, NAME), STATUS_INVALID_PARAMETER, |door, pin| {
        let Some(header) = header else { return STATUS_INVALID_PARAMETER };
        let (frame, driver_handle) = (data.expose_provenance(), context.expose_provenance());
        // It may come back before the service has answered.
        door.inner().injected.push((frame, size, driver_handle));
        let answer =
            door.services().submit_frame(pin, (frame, size), parse_header(&header), driver_handle);
        if answer.is_err() {
            let mut inner = door.inner();
            let last = inner.injected.iter().rposition(|it| *it == (frame, size, driver_handle));
            last.map(|index| inner.injected.remove(index));
        }
        status_from_result(answer)
    })
}
