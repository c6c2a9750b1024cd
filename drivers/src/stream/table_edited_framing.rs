//! The table source in the style of public samples: it requests larger frames when a pin is
//! created, keeps a gate closed unless it runs, unlocks its leading edge while its hardware has the
//! frame, and has all frames in one block.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::pattern::BYTES;
use super::table::{self, GOOD, OWN_FRAMING, PIN, Shape, own};
use crate::block::{Kind, free, pointer, take};
use abi::ks::{
    KSALLOCATOR_DISPATCH, KSALLOCATOR_FRAMING, KSALLOCATOR_FRAMING_EX, KSATTRIBUTE_LIST,
    KSDATAFORMAT, KSDATARANGE, KSMULTIPLE_ITEM, KSPIN, KSPIN_DISPATCH, KSSTATE, KSSTATE_PAUSE,
    KSSTATE_RUN, KSSTREAM_POINTER_STATE_LOCKED, MEDIASUBTYPE_RGB32,
};
use abi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_MATCH, STATUS_SUCCESS};
use abi::{NTSTATUS, PIRP, PVOID, nt_success};
use nt::{ExAllocatePool2, ExFreePoolWithTag, POOL_FLAG_NON_PAGED};
use port::ks::{
    KsPinGetAndGate, KsPinGetLeadingEdgeStreamPointer, KsStreamPointerAdvance,
    KsStreamPointerClone, KsStreamPointerDelete, KsStreamPointerLock, KsStreamPointerUnlock,
};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

const TAG: u32 = u32::from_le_bytes(*b"WtSl");
/// The number of frames in the block.
const MOST: u32 = 3;

/// The framing before a format is known: frames of half the size.
const SMALL: KSALLOCATOR_FRAMING_EX = {
    let mut it = OWN_FRAMING;
    it.FramingItem[0].FramingRange.Range.MinFrameSize = BYTES / 2;
    it.FramingItem[0].FramingRange.Range.MaxFrameSize = BYTES / 2;
    it
};

/// The dispatch tables of this source.
pub(crate) const EDITED_FRAMING: Shape = Shape {
    pin: KSPIN_DISPATCH {
        Create: Some(create_pin),
        Process: Some(process_pin),
        SetDataFormat: Some(set_format),
        SetDeviceState: Some(set_state),
        ..PIN
    },
    allocator: Some(KSALLOCATOR_DISPATCH {
        InitializeAllocator: Some(initialize),
        DeleteAllocator: Some(delete),
        Allocate: Some(allocate),
        Free: Some(free_frame),
    }),
    framing: SMALL,
    ..GOOD
};

/// The frame size is known only now. The gate gets an input that is off.
unsafe extern "win64-unwind" fn create_pin(pin: *mut KSPIN, irp: PIRP) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { table::create_pin(pin, irp) };
    if !nt_success(status) {
        return status;
    }
    // SAFETY: The pin is open.
    unsafe { turn_gate(pin, -1) };
    // SAFETY: As above.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format.
    let bytes = unsafe { (*format).SampleSize };
    // SAFETY: The pin is open.
    unsafe { table::grow(pin, bytes.max(BYTES)) }
}

/// # Safety
///
/// The pin is open.
unsafe fn turn_gate(pin: *mut KSPIN, change: i32) {
    // SAFETY: The caller upholds this function's contract.
    let gate = unsafe { KsPinGetAndGate(pin) };
    if !gate.is_null() {
        // SAFETY: A gate is only changed in place.
        unsafe { (*gate).Count += change };
    }
}

/// In the first call there is no pin yet, and the function only checks the format.
unsafe extern "win64-unwind" fn set_format(
    pin: *mut KSPIN,
    first_instance: *mut KSDATAFORMAT,
    attributes: *mut KSMULTIPLE_ITEM,
    range: *const KSDATARANGE,
    list: *const KSATTRIBUTE_LIST,
) -> NTSTATUS {
    if first_instance.is_null() {
        // SAFETY: The pin is open.
        let format = unsafe { (*pin).ConnectionFormat };
        // SAFETY: A pin has a format.
        let sub = unsafe { (*format).SubFormat };
        return if sub == MEDIASUBTYPE_RGB32 { STATUS_SUCCESS } else { STATUS_NO_MATCH };
    }
    // SAFETY: The pin is open.
    if let Some(own) = unsafe { own(pin) } {
        // SAFETY: The pointer is this pin's allocator, deleted or not.
        unsafe { count(own.allocator.load(SeqCst)) };
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::set_format(pin, first_instance, attributes, range, list) }
}

/// The gate is open while the pin runs, and stays unchanged when it stops.
unsafe extern "win64-unwind" fn set_state(pin: *mut KSPIN, to: KSSTATE, from: KSSTATE) -> NTSTATUS {
    match (from, to) {
        // SAFETY: The pin is open.
        (KSSTATE_PAUSE, KSSTATE_RUN) => unsafe { turn_gate(pin, 1) },
        // SAFETY: As above.
        (KSSTATE_RUN, KSSTATE_PAUSE) => unsafe { turn_gate(pin, -1) },
        _ => (),
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::set_state(pin, to, from) }
}

/// The hardware fills a frame through a clone, while the leading edge is not locked.
unsafe extern "win64-unwind" fn process_pin(pin: *mut KSPIN) -> NTSTATUS {
    loop {
        // SAFETY: The pin is open.
        let edge = unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
        if edge.is_null() {
            return STATUS_SUCCESS;
        }
        let mut clone = ptr::null_mut();
        // SAFETY: The leading edge is valid, and the second argument can be written.
        let status = unsafe { KsStreamPointerClone(edge, None, 0, &raw mut clone) };
        // SAFETY: The leading edge is valid and locked.
        unsafe { KsStreamPointerUnlock(edge, 0) };
        if !nt_success(status) {
            return status;
        }
        // SAFETY: The clone has not been deleted and is locked.
        unsafe { table::fill_in_turn(clone) };
        // SAFETY: The leading edge is valid. If it was cancelled, it is not locked.
        let locked = nt_success(unsafe { KsStreamPointerLock(edge) });
        // SAFETY: The clone has not been deleted.
        unsafe { KsStreamPointerDelete(clone) };
        // SAFETY: The leading edge is valid.
        if locked && !nt_success(unsafe { KsStreamPointerAdvance(edge) }) {
            return STATUS_SUCCESS;
        }
    }
}

/// An allocator: one block, with counters behind its frames.
#[repr(C)]
struct Slab {
    block: PVOID,
    bytes: u32,
    /// A bit for each frame in use.
    out: u32,
}

impl Kind for Slab {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"ksla");
}

impl Slab {
    fn place(&self, frame: u32) -> PVOID {
        self.block.wrapping_byte_add(self.bytes as usize * frame as usize)
    }
}

/// Returns the counters behind the frames.
///
/// # Safety
///
/// The context is NULL or that of a slab, live or freed.
unsafe fn count(context: PVOID) {
    // SAFETY: The caller upholds this function's contract.
    let Some(it) = (unsafe { pointer::<Slab>(context) }) else { return };
    // SAFETY: As above.
    let place = unsafe { (*it).place(MOST) }.cast::<u64>();
    // SAFETY: The block has this many additional bytes.
    unsafe { *place += 1 };
}

unsafe extern "win64-unwind" fn initialize(
    pin: *mut KSPIN,
    framing: *mut KSALLOCATOR_FRAMING,
    context: *mut PVOID,
) -> NTSTATUS {
    // SAFETY: The kernel passes a valid structure.
    let bytes = unsafe { (*framing).FrameSize }.next_multiple_of(16);
    let all = bytes as usize * MOST as usize + size_of::<u64>();
    // SAFETY: The function has no requirements.
    let block = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, all, TAG) };
    if block.is_null() {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    let created = take(Slab { block, bytes, out: 0 });
    if created.is_null() {
        // SAFETY: No other component uses it.
        unsafe { ExFreePoolWithTag(block, TAG) };
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    // SAFETY: The pin is open.
    if let Some(own) = unsafe { own(pin) } {
        own.allocator.store(created, SeqCst);
    }
    // SAFETY: The argument points at a writable pointer.
    unsafe { context.write(created) };
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn allocate(context: PVOID) -> PVOID {
    // SAFETY: The context is this allocator's, which has not been deleted.
    let Some(it) = (unsafe { pointer::<Slab>(context) }) else { return ptr::null_mut() };
    // SAFETY: As above, and no other call runs.
    let it = unsafe { &mut *it };
    let Some(frame) = (0..MOST).find(|frame| it.out & 1 << frame == 0) else {
        return ptr::null_mut();
    };
    it.out |= 1 << frame;
    it.place(frame)
}

unsafe extern "win64-unwind" fn free_frame(context: PVOID, frame: PVOID) {
    // SAFETY: The context is this allocator's, which has not been deleted.
    let Some(it) = (unsafe { pointer::<Slab>(context) }) else { return };
    // SAFETY: As above, and no other call runs.
    let it = unsafe { &mut *it };
    if let Some(frame) = (0..MOST).find(|number| it.place(*number) == frame) {
        it.out &= !(1 << frame);
    }
}

unsafe extern "win64-unwind" fn delete(context: PVOID) {
    // SAFETY: The context is this allocator's, which has not been deleted.
    if let Some(it) = unsafe { pointer::<Slab>(context) } {
        // SAFETY: As above.
        let block = unsafe { (*it).block };
        // SAFETY: No frame is in use any more.
        unsafe { ExFreePoolWithTag(block, TAG) };
    }
    // SAFETY: No later call uses the block.
    unsafe { free(context) };
}
