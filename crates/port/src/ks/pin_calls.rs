//! Processing, gates and injection, under their Windows names.
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

/// Schedules the processing of a pin, if it can be processed. It is always a work item: nothing is
/// processed inside this call.
///
/// # Safety
///
/// No requirements: the pin is looked up, and not dereferenced.
pub unsafe extern "win64-unwind" fn KsPinAttemptProcessing(of: *mut KSPIN, _later: BOOLEAN) {
    const NAME: &str = "KsPinAttemptProcessing";
    export(NAME, MaxIrql::Dispatch, pin_to_process(of, NAME), (), |door, pin| {
        door.compare_gates(); // The driver may have opened one in its own routine.
        // The service judges the call.
        let _ = door.services().attempt_processing(pin);
    });
}

/// Schedules the processing of a filter, if it can be processed. As above.
///
/// # Safety
///
/// As for [`KsPinAttemptProcessing`].
pub unsafe extern "win64-unwind" fn KsFilterAttemptProcessing(of: *mut KSFILTER, _later: BOOLEAN) {
    const NAME: &str = "KsFilterAttemptProcessing";
    export(NAME, MaxIrql::Dispatch, filter(of, NAME), (), |door, filter| {
        let _ = door.services().attempt_filter_processing(filter);
    });
}

/// Returns the gate of a pin, which the driver changes in place: it is compared when the driver
/// returns, and when the driver attempts processing.
///
/// # Safety
///
/// As for [`KsPinAttemptProcessing`].
pub unsafe extern "win64-unwind" fn KsPinGetAndGate(of: *mut KSPIN) -> *mut KSGATE {
    const NAME: &str = "KsPinGetAndGate";
    export(NAME, MaxIrql::Unjudged, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let mut inner = door.inner();
        let Some(it) = inner.pins.get_mut(&pin) else { return ptr::null_mut() };
        let open = || (DriverMemory::from_value(KSGATE { Count: 1, ..KSGATE::ZERO }), 0);
        it.gate.get_or_insert_with(open).0.pointer()
    })
}

/// Registers the routine that gets back the frames that the driver injects.
///
/// # Safety
///
/// The routine behaves as documented.
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

/// Submits a frame that the driver injects.
///
/// # Safety
///
/// `header` is NULL or points to a header; the frame has `size` bytes.
pub unsafe extern "win64-unwind" fn KsPinSubmitFrame(
    of: *mut KSPIN,
    data: PVOID,
    size: u32,
    header: *mut KSSTREAM_HEADER,
    context: PVOID,
) -> NTSTATUS {
    const NAME: &str = "KsPinSubmitFrame";
    // SAFETY: The caller guarantees the same.
    let header = unsafe { read(header.cast_const()) };
    export(NAME, MaxIrql::Dispatch, pin(of, NAME), STATUS_INVALID_PARAMETER, |door, pin| {
        let Some(header) = header else { return STATUS_INVALID_PARAMETER };
        let (frame, driver_handle) = (data.expose_provenance(), context.expose_provenance());
        // The frame may be returned before the service returns.
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
