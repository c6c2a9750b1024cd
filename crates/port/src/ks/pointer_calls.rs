//! Stream pointers, under their Windows names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::write;
use crate::ks::door::Door;
use crate::ks::export_entry::{MaxIrql, export, pin, pointer};
use crate::ks::object::{self, Object};
use crate::ks::status::status_from_result;
use abi::ks::{
    KSPIN, KSSTREAM_POINTER, KSSTREAM_POINTER_STATE, KSSTREAM_POINTER_STATE_LOCKED,
    PFNKSSTREAMPOINTER,
};
use abi::status::{STATUS_DEVICE_NOT_READY, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, MDL, NTSTATUS, PIRP};
use std::ptr;
use std::sync::Arc;
use stream::{DriverError, DriverResult, PointerId};

/// All of these functions may be called at dispatch level.
const MAX_IRQL: MaxIrql = MaxIrql::Dispatch;
const BAD: NTSTATUS = STATUS_INVALID_PARAMETER;
/// The maximum size of a context that is plausible.
const MAX_CONTEXT: u32 = 1 << 20;

fn is_locked(door: &Door, it: PointerId) -> bool {
    door.services().pointer_view(it).is_ok_and(|pointer_view| pointer_view.locked)
}

/// Runs an operation on a pointer, after reading its header; updates the pointer afterwards.
fn move_pointer<R>(door: &Arc<Door>, it: PointerId, body: impl FnOnce() -> R) -> R {
    door.read_header(it);
    let answer = body();
    // A deleted pointer is not updated.
    if door.inner().pointers.contains_key(&it) {
        door.refresh_pointer(it);
    }
    answer
}

/// Returns the leading edge, or NULL.
///
/// # Safety
///
/// No requirements: the pin is looked up, and not dereferenced.
pub unsafe extern "win64-unwind" fn KsPinGetLeadingEdgeStreamPointer(
    of: *mut KSPIN,
    state: KSSTREAM_POINTER_STATE,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsPinGetLeadingEdgeStreamPointer";
    export(NAME, MAX_IRQL, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let lock = state == KSSTREAM_POINTER_STATE_LOCKED;
        let edge = door.services().leading_edge(pin, lock);
        edge.map_or(ptr::null_mut(), |stream_pointer| door.show_pointer(stream_pointer, 0, None))
    })
}

/// Returns the trailing edge, or NULL.
///
/// # Safety
///
/// As for [`KsPinGetLeadingEdgeStreamPointer`].
pub unsafe extern "win64-unwind" fn KsPinGetTrailingEdgeStreamPointer(
    of: *mut KSPIN,
    state: KSSTREAM_POINTER_STATE,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsPinGetTrailingEdgeStreamPointer";
    export(NAME, MAX_IRQL, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let lock = state == KSSTREAM_POINTER_STATE_LOCKED;
        let edge = door.services().trailing_edge(pin, lock);
        edge.map_or(ptr::null_mut(), |stream_pointer| door.show_pointer(stream_pointer, 0, None))
    })
}

/// Returns the first clone of a pin, or NULL.
///
/// # Safety
///
/// As for [`KsPinGetLeadingEdgeStreamPointer`].
pub unsafe extern "win64-unwind" fn KsPinGetFirstCloneStreamPointer(
    of: *mut KSPIN,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsPinGetFirstCloneStreamPointer";
    export(NAME, MAX_IRQL, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let first = door.services().clones(pin).unwrap_or_default().first().copied();
        first.map_or(ptr::null_mut(), |stream_pointer| door.show_pointer(stream_pointer, 0, None))
    })
}

/// Returns the clone after a clone, or NULL.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerGetNextClone(
    of: *mut KSSTREAM_POINTER,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsStreamPointerGetNextClone";
    export(NAME, MAX_IRQL, pointer(of, NAME), ptr::null_mut(), |door, it| {
        let Ok(view) = door.services().pointer_view(it) else { return ptr::null_mut() };
        let all = door.services().clones(view.pin).unwrap_or_default();
        let next = all.iter().skip_while(|other| **other != it).nth(1);
        next.map_or(ptr::null_mut(), |stream_pointer| door.show_pointer(*stream_pointer, 0, None))
    })
}

/// Locks a pointer: its frame stays.
///
/// # Safety
///
/// No requirements: the pointer is looked up, and not dereferenced before that.
pub unsafe extern "win64-unwind" fn KsStreamPointerLock(of: *mut KSSTREAM_POINTER) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerLock";
    export(NAME, MAX_IRQL, pointer(of, NAME), BAD, |door, it| {
        status_from_result(move_pointer(door, it, || door.services().lock(it)))
    })
}

/// Unlocks a pointer, and advances to the next frame if `eject` is set.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerUnlock(
    of: *mut KSSTREAM_POINTER,
    eject: BOOLEAN,
) {
    const NAME: &str = "KsStreamPointerUnlock";
    export(NAME, MAX_IRQL, pointer(of, NAME), (), |door, it| {
        // The service judges the call; the function returns nothing.
        let _ = move_pointer(door, it, || door.services().unlock(it, eject != 0));
    });
}

/// Advances to the next frame.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerAdvance(of: *mut KSSTREAM_POINTER) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerAdvance";
    export(NAME, MAX_IRQL, pointer(of, NAME), BAD, |door, it| {
        let locked = is_locked(door, it);
        match move_pointer(door, it, || door.services().advance(it)) {
            // WINDOWS: an unlocked pointer always advances (documented).
            Err(DriverError::NotReady) if !locked => STATUS_SUCCESS,
            answer => status_from_result(answer),
        }
    })
}

fn offsets(
    door: &Arc<Door>,
    it: PointerId,
    (used_in, used_out): (u32, u32),
    eject: bool,
) -> DriverResult<()> {
    let view = door.services().pointer_view(it)?;
    let out = door.inner().pins.get(&view.pin).is_none_or(super::pin::ShownPin::is_output);
    let used = door.used_bytes(&view, if out { used_out } else { used_in });
    move_pointer(door, it, || door.services().advance_offsets(it, used, eject))
}

/// Advances within a frame, and to the next frame at its end.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerAdvanceOffsets(
    of: *mut KSSTREAM_POINTER,
    used_in: u32,
    used_out: u32,
    eject: BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerAdvanceOffsets";
    export(NAME, MAX_IRQL, pointer(of, NAME), BAD, |door, it| {
        match offsets(door, it, (used_in, used_out), eject != 0) {
            // WINDOWS: a failure to lock again is reported (documented).
            Ok(()) if !is_locked(door, it) => STATUS_DEVICE_NOT_READY,
            answer => status_from_result(answer),
        }
    })
}

/// Advances within a frame, and unlocks the pointer.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerAdvanceOffsetsAndUnlock(
    of: *mut KSSTREAM_POINTER,
    used_in: u32,
    used_out: u32,
    eject: BOOLEAN,
) {
    const NAME: &str = "KsStreamPointerAdvanceOffsetsAndUnlock";
    export(NAME, MAX_IRQL, pointer(of, NAME), (), |door, it| {
        if offsets(door, it, (used_in, used_out), eject != 0).is_ok() && is_locked(door, it) {
            // The pointer is locked, so the unlock succeeds.
            let _ = move_pointer(door, it, || door.services().unlock(it, false));
        }
    });
}

/// Creates a pointer to the same frame, with room for the driver's context behind it.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`]; `made` is NULL or valid for the write of a pointer, and the
/// routine accepts a pointer.
pub unsafe extern "win64-unwind" fn KsStreamPointerClone(
    of: *mut KSSTREAM_POINTER,
    cancel: Option<PFNKSSTREAMPOINTER>,
    context: u32,
    made: *mut *mut KSSTREAM_POINTER,
) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerClone";
    let found = pointer(of, NAME).filter(|_| !made.is_null());
    let clone = export(NAME, MAX_IRQL, found, Err(DriverError::Invalid), |door, it| {
        if context > MAX_CONTEXT {
            return Err(DriverError::NoMemory);
        }
        let clone = door.services().clone_pointer(it, cancel.is_some())?;
        Ok(door.show_pointer(clone, context, cancel))
    });
    if let Ok(clone) = clone {
        // SAFETY: The caller guarantees the same.
        unsafe { write(made, clone) };
    }
    status_from_result(clone.map(|_| ()))
}

/// Deletes a clone. Its frame completes with the last clone.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerDelete(of: *mut KSSTREAM_POINTER) {
    const NAME: &str = "KsStreamPointerDelete";
    export(NAME, MAX_IRQL, pointer(of, NAME), (), |door, it| {
        door.read_header(it);
        if door.services().delete_pointer(it).is_ok() {
            door.inner().remove_pointer(it);
        }
    });
}

/// Sets the status of a frame's request. It has no effect.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerSetStatusCode(
    of: *mut KSSTREAM_POINTER,
    _status: NTSTATUS,
) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerSetStatusCode";
    export(NAME, MAX_IRQL, pointer(of, NAME), BAD, |door, it| {
        let view = door.services().pointer_view(it);
        status_from_result(
            view.and_then(|pointer_view| {
                pointer_view.frame.map(|_| ()).ok_or(DriverError::NotReady)
            }),
        )
    })
}

/// Returns the request of a frame, or NULL. A request has one frame.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`]; the other arguments are NULL or valid for the write of a byte.
pub unsafe extern "win64-unwind" fn KsStreamPointerGetIrp(
    of: *mut KSSTREAM_POINTER,
    first: *mut BOOLEAN,
    last: *mut BOOLEAN,
) -> PIRP {
    const NAME: &str = "KsStreamPointerGetIrp";
    let irp = export(NAME, MAX_IRQL, pointer(of, NAME), ptr::null_mut(), |door, it| {
        let Some(view) =
            door.services().pointer_memory(it).and_then(|_| door.services().pointer_view(it).ok())
        else {
            return ptr::null_mut();
        };
        let Some(frame) = view.frame else { return ptr::null_mut() };
        if let Some(irp) = door.inner().requests.get(&frame.into()) {
            return irp.pointer();
        }
        let irp = door.begin_request(frame.into());
        // A frame's request is a request of its pin.
        object::insert(irp.addr(), door.weak(), Object::Irp(Some(view.pin.into())));
        irp
    });
    let there = BOOLEAN::from(!irp.is_null());
    // SAFETY: The caller guarantees the same.
    unsafe { write(first, there) };
    // SAFETY: As above.
    unsafe { write(last, there) };
    irp
}

/// Returns a memory descriptor list of a frame for the hardware, or NULL. It has no page numbers.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerGetMdl(of: *mut KSSTREAM_POINTER) -> *mut MDL {
    const NAME: &str = "KsStreamPointerGetMdl";
    export(NAME, MAX_IRQL, pointer(of, NAME), ptr::null_mut(), |door, it| {
        let there = door.services().pointer_memory(it).is_some();
        if there { door.mdl(it) } else { ptr::null_mut() }
    })
}

/// Schedules a routine after `interval`, in place of the previous one.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`]; the routine accepts the pointer.
pub unsafe extern "win64-unwind" fn KsStreamPointerScheduleTimeout(
    of: *mut KSSTREAM_POINTER,
    call: Option<PFNKSSTREAMPOINTER>,
    interval: u64,
) {
    const NAME: &str = "KsStreamPointerScheduleTimeout";
    export(NAME, MAX_IRQL, pointer(of, NAME), (), |door, it| {
        if call.is_none() {
            return;
        }
        // Set before the timeout is scheduled: it may be due at once, on another thread.
        if let Some(it) = door.inner().pointers.get_mut(&it) {
            it.timeout = call;
        }
        // The service judges the call.
        let _ = door.services().schedule_timeout(it, interval);
    });
}

/// Cancels the timeout.
///
/// # Safety
///
/// As for [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerCancelTimeout(of: *mut KSSTREAM_POINTER) {
    const NAME: &str = "KsStreamPointerCancelTimeout";
    export(NAME, MAX_IRQL, pointer(of, NAME), (), |door, it| {
        if door.services().cancel_timeout(it).is_ok()
            && let Some(it) = door.inner().pointers.get_mut(&it)
        {
            it.timeout = None;
        }
    });
}
