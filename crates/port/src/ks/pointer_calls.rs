//! Stream pointers under their Windows names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::gate::write;
use crate::ks::door::Door;
use crate::ks::gate::{Ceiling, called, pin, pointer};
use crate::ks::object::{self, Object};
use crate::ks::status::status;
use abi::ks::{
    KSPIN, KSSTREAM_POINTER, KSSTREAM_POINTER_STATE, KSSTREAM_POINTER_STATE_LOCKED,
    PFNKSSTREAMPOINTER,
};
use abi::status::{STATUS_DEVICE_NOT_READY, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, MDL, NTSTATUS, PIRP};
use std::ptr;
use std::sync::Arc;
use stream::{Answer, PointerId, Refusal};

/// All of them may be called at dispatch level.
const CEILING: Ceiling = Ceiling::Dispatch;
const BAD: NTSTATUS = STATUS_INVALID_PARAMETER;
/// More is a driver's arithmetic gone wrong.
const MOST_CONTEXT: u32 = 1 << 20;

fn is_locked(door: &Door, it: PointerId) -> bool {
    door.services().look(it).is_ok_and(|it| it.locked)
}

/// Does something with a pointer, after what was written through it is known; shows it after.
fn moved<R>(door: &Arc<Door>, it: PointerId, body: impl FnOnce() -> R) -> R {
    door.take_header(it);
    let answer = body();
    // One that is gone is not looked at again.
    if door.inner().pointers.contains_key(&it) {
        door.show_again(it);
    }
    answer
}

/// The leading edge, or NULL.
///
/// # Safety
///
/// None of its own: the pin is looked up, and not followed.
pub unsafe extern "win64-unwind" fn KsPinGetLeadingEdgeStreamPointer(
    of: *mut KSPIN,
    state: KSSTREAM_POINTER_STATE,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsPinGetLeadingEdgeStreamPointer";
    called(NAME, CEILING, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let lock = state == KSSTREAM_POINTER_STATE_LOCKED;
        let edge = door.services().leading_edge(pin, lock);
        edge.map_or(ptr::null_mut(), |it| door.show_pointer(it, 0, None))
    })
}

/// The trailing edge, or NULL.
///
/// # Safety
///
/// As of [`KsPinGetLeadingEdgeStreamPointer`].
pub unsafe extern "win64-unwind" fn KsPinGetTrailingEdgeStreamPointer(
    of: *mut KSPIN,
    state: KSSTREAM_POINTER_STATE,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsPinGetTrailingEdgeStreamPointer";
    called(NAME, CEILING, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let lock = state == KSSTREAM_POINTER_STATE_LOCKED;
        let edge = door.services().trailing_edge(pin, lock);
        edge.map_or(ptr::null_mut(), |it| door.show_pointer(it, 0, None))
    })
}

/// The first clone of a pin, or NULL.
///
/// # Safety
///
/// As of [`KsPinGetLeadingEdgeStreamPointer`].
pub unsafe extern "win64-unwind" fn KsPinGetFirstCloneStreamPointer(
    of: *mut KSPIN,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsPinGetFirstCloneStreamPointer";
    called(NAME, CEILING, pin(of, NAME), ptr::null_mut(), |door, pin| {
        let first = door.services().clones(pin).unwrap_or_default().first().copied();
        first.map_or(ptr::null_mut(), |it| door.show_pointer(it, 0, None))
    })
}

/// The clone after a clone, or NULL.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerGetNextClone(
    of: *mut KSSTREAM_POINTER,
) -> *mut KSSTREAM_POINTER {
    const NAME: &str = "KsStreamPointerGetNextClone";
    called(NAME, CEILING, pointer(of, NAME), ptr::null_mut(), |door, it| {
        let Ok(view) = door.services().look(it) else { return ptr::null_mut() };
        let all = door.services().clones(view.pin).unwrap_or_default();
        let next = all.iter().skip_while(|other| **other != it).nth(1);
        next.map_or(ptr::null_mut(), |it| door.show_pointer(*it, 0, None))
    })
}

/// Locks a pointer: its frame stays.
///
/// # Safety
///
/// None of its own: the pointer is looked up, and not followed before that.
pub unsafe extern "win64-unwind" fn KsStreamPointerLock(of: *mut KSSTREAM_POINTER) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerLock";
    called(NAME, CEILING, pointer(of, NAME), BAD, |door, it| {
        status(moved(door, it, || door.services().lock(it)))
    })
}

/// Unlocks it, and goes on to the next frame if it ejects this one.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerUnlock(
    of: *mut KSSTREAM_POINTER,
    eject: BOOLEAN,
) {
    const NAME: &str = "KsStreamPointerUnlock";
    called(NAME, CEILING, pointer(of, NAME), (), |door, it| {
        // What it breaks is named there, and there is nobody to answer.
        let _ = moved(door, it, || door.services().unlock(it, eject != 0));
    });
}

/// Goes on to the next frame.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerAdvance(of: *mut KSSTREAM_POINTER) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerAdvance";
    called(NAME, CEILING, pointer(of, NAME), BAD, |door, it| {
        let locked = is_locked(door, it);
        match moved(door, it, || door.services().advance(it)) {
            // WINDOWS: one that is not locked always goes on (documented).
            Err(Refusal::NotReady) if !locked => STATUS_SUCCESS,
            answer => status(answer),
        }
    })
}

fn offsets(
    door: &Arc<Door>,
    it: PointerId,
    (used_in, used_out): (u32, u32),
    eject: bool,
) -> Answer<()> {
    let view = door.services().look(it)?;
    let out = door.inner().pins.get(&view.pin).is_none_or(super::pin::Pin::is_out);
    let used = door.used_bytes(&view, if out { used_out } else { used_in });
    moved(door, it, || door.services().advance_offsets(it, used, eject))
}

/// Goes on within a frame, and to the next one at its end.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerAdvanceOffsets(
    of: *mut KSSTREAM_POINTER,
    used_in: u32,
    used_out: u32,
    eject: BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerAdvanceOffsets";
    called(NAME, CEILING, pointer(of, NAME), BAD, |door, it| {
        match offsets(door, it, (used_in, used_out), eject != 0) {
            // WINDOWS: what could not be locked again is said (documented).
            Ok(()) if !is_locked(door, it) => STATUS_DEVICE_NOT_READY,
            answer => status(answer),
        }
    })
}

/// The same, and unlocks it.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerAdvanceOffsetsAndUnlock(
    of: *mut KSSTREAM_POINTER,
    used_in: u32,
    used_out: u32,
    eject: BOOLEAN,
) {
    const NAME: &str = "KsStreamPointerAdvanceOffsetsAndUnlock";
    called(NAME, CEILING, pointer(of, NAME), (), |door, it| {
        if offsets(door, it, (used_in, used_out), eject != 0).is_ok() && is_locked(door, it) {
            // It is locked, so it can be unlocked.
            let _ = moved(door, it, || door.services().unlock(it, false));
        }
    });
}

/// Makes a pointer to the same frame, with room for the driver behind it.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`]; `made` is NULL or a place for a pointer, and the routine takes
/// one.
pub unsafe extern "win64-unwind" fn KsStreamPointerClone(
    of: *mut KSSTREAM_POINTER,
    cancel: Option<PFNKSSTREAMPOINTER>,
    context: u32,
    made: *mut *mut KSSTREAM_POINTER,
) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerClone";
    let found = pointer(of, NAME).filter(|_| !made.is_null());
    let clone = called(NAME, CEILING, found, Err(Refusal::Invalid), |door, it| {
        if context > MOST_CONTEXT {
            return Err(Refusal::NoMemory);
        }
        let clone = door.services().clone_pointer(it, cancel.is_some())?;
        Ok(door.show_pointer(clone, context, cancel))
    });
    if let Ok(clone) = clone {
        // SAFETY: The caller promises the same.
        unsafe { write(made, clone) };
    }
    status(clone.map(|_| ()))
}

/// Deletes a clone. Its frame is done with its last one.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerDelete(of: *mut KSSTREAM_POINTER) {
    const NAME: &str = "KsStreamPointerDelete";
    called(NAME, CEILING, pointer(of, NAME), (), |door, it| {
        door.take_header(it);
        if door.services().delete_pointer(it).is_ok() {
            door.inner().end_pointer(it);
        }
    });
}

/// Says how the request of a frame ends. Nothing comes of it.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerSetStatusCode(
    of: *mut KSSTREAM_POINTER,
    _status: NTSTATUS,
) -> NTSTATUS {
    const NAME: &str = "KsStreamPointerSetStatusCode";
    called(NAME, CEILING, pointer(of, NAME), BAD, |door, it| {
        let view = door.services().look(it);
        status(view.and_then(|it| it.frame.map(|_| ()).ok_or(Refusal::NotReady)))
    })
}

/// The request of a frame, or NULL. It has one frame.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`]; the others are NULL or places for a byte.
pub unsafe extern "win64-unwind" fn KsStreamPointerGetIrp(
    of: *mut KSSTREAM_POINTER,
    first: *mut BOOLEAN,
    last: *mut BOOLEAN,
) -> PIRP {
    const NAME: &str = "KsStreamPointerGetIrp";
    let irp = called(NAME, CEILING, pointer(of, NAME), ptr::null_mut(), |door, it| {
        let Some(view) = door.services().memory_of(it).and_then(|_| door.services().look(it).ok())
        else {
            return ptr::null_mut();
        };
        let Some(frame) = view.frame else { return ptr::null_mut() };
        if let Some(irp) = door.inner().requests.get(&frame.into()) {
            return irp.pointer();
        }
        let irp = door.begin_request(frame.into());
        // A request of a frame is one of its pin.
        object::enter(irp.addr(), door.me(), Object::Irp(Some(view.pin.into())));
        irp
    });
    let there = BOOLEAN::from(!irp.is_null());
    // SAFETY: The caller promises the same.
    unsafe { write(first, there) };
    // SAFETY: As above.
    unsafe { write(last, there) };
    irp
}

/// A list of the memory of a frame, for the hardware, or NULL. It has no page numbers.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerGetMdl(of: *mut KSSTREAM_POINTER) -> *mut MDL {
    const NAME: &str = "KsStreamPointerGetMdl";
    called(NAME, CEILING, pointer(of, NAME), ptr::null_mut(), |door, it| {
        let there = door.services().memory_of(it).is_some();
        if there { door.mdl(it) } else { ptr::null_mut() }
    })
}

/// Has a routine called when so much time is over, in place of the one before.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`]; the routine takes the pointer.
pub unsafe extern "win64-unwind" fn KsStreamPointerScheduleTimeout(
    of: *mut KSSTREAM_POINTER,
    call: Option<PFNKSSTREAMPOINTER>,
    interval: u64,
) {
    const NAME: &str = "KsStreamPointerScheduleTimeout";
    called(NAME, CEILING, pointer(of, NAME), (), |door, it| {
        if call.is_none() {
            return;
        }
        // Before it is scheduled: it may be due at once, on another thread.
        if let Some(it) = door.inner().pointers.get_mut(&it) {
            it.timeout = call;
        }
        // What it breaks is named there.
        let _ = door.services().schedule(it, interval);
    });
}

/// Not any more.
///
/// # Safety
///
/// As of [`KsStreamPointerLock`].
pub unsafe extern "win64-unwind" fn KsStreamPointerCancelTimeout(of: *mut KSSTREAM_POINTER) {
    const NAME: &str = "KsStreamPointerCancelTimeout";
    called(NAME, CEILING, pointer(of, NAME), (), |door, it| {
        if door.services().cancel_schedule(it).is_ok()
            && let Some(it) = door.inner().pointers.get_mut(&it)
        {
            it.timeout = None;
        }
    });
}
