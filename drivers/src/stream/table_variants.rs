//! Variants of the table source: one uses the whole interface, one is filter-centric, and one
//! injects its own frames.
#![expect(unsafe_code, reason = "drivers written against the C interface")]

use super::pattern::{BYTES, INTERVAL, picture};
use super::table::{self, DEVICE, FILTER, GOOD, PIN, Shape, framing, in_turn, own, static_tables};
use abi::ks::{
    KSDEVICE, KSDEVICE_DISPATCH, KSFILTER, KSFILTER_DISPATCH, KSPIN, KSPIN_DISPATCH,
    KSPIN_FLAG_DISTINCT_TRAILING_EDGE, KSPROCESSPIN, KSPROCESSPIN_INDEXENTRY, KSSTATE,
    KSSTATE_ACQUIRE, KSSTATE_PAUSE, KSSTATE_RUN, KSSTATE_STOP, KSSTREAM_HEADER,
    KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY, KSSTREAM_HEADER_OPTIONSF_DURATIONVALID,
    KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM, KSSTREAM_HEADER_OPTIONSF_TIMEVALID,
    KSSTREAM_POINTER_STATE_LOCKED, KSSTREAM_POINTER_STATE_UNLOCKED, KSTIME,
};
use abi::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST, STATUS_PENDING, STATUS_SUCCESS,
    STATUS_UNSUCCESSFUL,
};
use abi::{MDL, NTSTATUS, PIRP, PVOID, nt_success};
use nt::{ExAllocatePool2, ExFreePool, POOL_FLAG_NON_PAGED};
use port::ks::{
    KsAcquireDevice, KsAddItemToObjectBag, KsAllocateObjectBag, KsCompletePendingRequest,
    KsCopyObjectBagItems, KsCreateDefaultAllocatorEx, KsCreateFilterFactory,
    KsFilterCreatePinFactory, KsFilterFactorySetDeviceClassesState, KsFilterGetChildPinCount,
    KsFilterGetFirstChildPin, KsFreeObjectBag, KsGetDevice, KsGetFilterFromIrp, KsGetFirstChild,
    KsGetNextSibling, KsGetParent, KsGetPinFromIrp, KsPinGetAndGate,
    KsPinGetLeadingEdgeStreamPointer, KsPinGetParentFilter, KsPinGetTrailingEdgeStreamPointer,
    KsPinRegisterFrameReturnCallback, KsPinSubmitFrame, KsReleaseDevice, KsRemoveItemFromObjectBag,
    KsStreamPointerAdvance, KsStreamPointerAdvanceOffsets, KsStreamPointerAdvanceOffsetsAndUnlock,
    KsStreamPointerGetIrp, KsStreamPointerGetMdl, KsStreamPointerGetNextClone,
    KsStreamPointerSetStatusCode,
};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

const TAG: u32 = u32::from_le_bytes(*b"WtSh");

/// Uses the whole interface.
pub(crate) const FULL_API: Shape = Shape {
    device: KSDEVICE_DISPATCH { PostStart: Some(walks_hierarchy), ..DEVICE },
    filter: KSFILTER_DISPATCH { Create: Some(creates_pending), ..FILTER },
    pin: KSPIN_DISPATCH {
        Create: Some(creates_pin),
        Process: Some(processes),
        SetDeviceState: Some(turns_gate),
        ..PIN
    },
    flags: KSPIN_FLAG_DISTINCT_TRAILING_EDGE,
    ..GOOD
};

fn must(is: bool) -> NTSTATUS {
    if is { STATUS_SUCCESS } else { STATUS_UNSUCCESSFUL }
}

/// Frees an item of an object bag.
unsafe extern "win64-unwind" fn frees(item: PVOID) {
    // SAFETY: The pointer is pool memory, no longer in a bag.
    unsafe { ExFreePool(item) };
}

fn memory() -> PVOID {
    // SAFETY: The function has no requirements.
    unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, 32, TAG) }
}

/// Enumerates the filters, creates another factory, and adds items to object bags.
unsafe extern "win64-unwind" fn walks_hierarchy(device: *mut KSDEVICE) -> NTSTATUS {
    // SAFETY: The device has not been removed.
    let KSDEVICE { Bag: bag, FunctionalDeviceObject: object, .. } = unsafe { device.read() };
    let (mut own, mut created) = (ptr::null_mut(), ptr::null_mut());
    let items = [memory(), memory(), memory()];
    if items.iter().any(|c_void| c_void.is_null()) {
        for item in items.into_iter().filter(|c_void| !c_void.is_null()) {
            // SAFETY: The object is unpublished.
            unsafe { ExFreePool(item) };
        }
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    // SAFETY: The arguments are valid, and the outputs can be written.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason covers all calls")]
    let right = unsafe {
        KsAcquireDevice(device);
        let factory = KsGetFirstChild(device.cast());
        let none = KsGetFirstChild(factory).is_null();
        let parent = KsGetParent(factory) == device.cast() && KsGetDevice(factory) == device;
        let descriptor = (*static_tables!(GOOD)).FilterDescriptors.read();
        let null: PVOID = ptr::null_mut();
        let status = KsCreateFilterFactory(
            object,
            descriptor,
            null.cast(),
            null,
            0,
            None,
            None,
            &raw mut created,
        );
        let second = is_among(factory, created.cast()).is_some();
        let classes = KsFilterFactorySetDeviceClassesState(created, 1);
        let bagged = KsAddItemToObjectBag(bag, items[0], None) == STATUS_SUCCESS
            && KsAddItemToObjectBag(bag, items[1], Some(frees)) == STATUS_SUCCESS
            && KsAllocateObjectBag(device, &raw mut own) == STATUS_SUCCESS
            && KsAddItemToObjectBag(own, items[2], Some(frees)) == STATUS_SUCCESS
            && KsCopyObjectBagItems(own, bag) == STATUS_SUCCESS;
        let counts = bagged
            && KsRemoveItemFromObjectBag(own, items[0], 0) == 2
            && KsRemoveItemFromObjectBag(own, items[0], 0) == 0;
        if !own.is_null() {
            KsFreeObjectBag(own);
        }
        let last = counts && KsRemoveItemFromObjectBag(bag, items[0], 1) == 1;
        KsReleaseDevice(device);
        nt_success(status)
            && nt_success(classes)
            && none
            && parent
            && second
            && bagged
            && counts
            && last
    };
    must(right)
}

/// Returns `STATUS_PENDING` from a filter's create, and completes the request at once.
unsafe extern "win64-unwind" fn creates_pending(filter: *mut KSFILTER, irp: PIRP) -> NTSTATUS {
    // SAFETY: The arguments are valid.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason covers all calls")]
    let right = unsafe {
        let found = KsGetFilterFromIrp(irp) == filter && KsGetPinFromIrp(irp).is_null();
        let mut number = 0;
        let descriptor = (*(*static_tables!(GOOD)).FilterDescriptors.read()).PinDescriptors;
        let status = KsFilterCreatePinFactory(filter, descriptor, &raw mut number);
        found && nt_success(status) && number == 1 && KsFilterGetChildPinCount(filter, 0) == 0
    };
    if !right {
        return STATUS_UNSUCCESSFUL;
    }
    // SAFETY: The request is pending from here on.
    unsafe { KsCompletePendingRequest(irp) };
    STATUS_PENDING
}

/// Queries the objects around a pin.
unsafe extern "win64-unwind" fn creates_pin(pin: *mut KSPIN, irp: PIRP) -> NTSTATUS {
    // SAFETY: The arguments are valid.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason covers all calls")]
    let right = unsafe {
        let filter = KsPinGetParentFilter(pin);
        KsGetPinFromIrp(irp) == pin
            && KsGetFilterFromIrp(irp) == filter
            && KsGetParent(pin.cast()) == filter.cast()
            && is_among(KsFilterGetFirstChildPin(filter, 0).cast(), pin.cast())
                == Some(KsFilterGetChildPinCount(filter, 0))
            && !KsGetFirstChild(filter.cast()).is_null()
            && !KsPinGetAndGate(pin).is_null()
            && KsCreateDefaultAllocatorEx(irp, ptr::null_mut(), None, None, None, None)
                == STATUS_INVALID_DEVICE_REQUEST
    };
    if !right {
        return STATUS_UNSUCCESSFUL;
    }
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::create_pin(pin, irp) }
}

/// Returns the length of a list, if the other object is in the list.
///
/// # Safety
///
/// The first object is valid.
unsafe fn is_among(first: PVOID, frame_limit: PVOID) -> Option<u32> {
    let (mut at, mut count, mut found) = (first, 0, false);
    while !at.is_null() {
        found |= at == frame_limit;
        count += 1;
        // SAFETY: The pointer is valid.
        at = unsafe { KsGetNextSibling(at) };
    }
    found.then_some(count)
}

/// Closes its gate when there is nothing to process.
unsafe extern "win64-unwind" fn turns_gate(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    // SAFETY: The pin is open.
    let gate = unsafe { KsPinGetAndGate(pin) };
    let change = match (from, to) {
        (KSSTATE_STOP, KSSTATE_ACQUIRE) | (KSSTATE_RUN, KSSTATE_PAUSE) => -1,
        (KSSTATE_PAUSE, KSSTATE_RUN) | (KSSTATE_ACQUIRE, KSSTATE_STOP) => 1,
        _ => 0,
    };
    // SAFETY: A gate is only changed in place.
    unsafe { (*gate).Count += change };
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::set_state(pin, to, from) }
}

/// Fills frames synchronously and moves its trailing edge.
unsafe extern "win64-unwind" fn processes(pin: *mut KSPIN) -> NTSTATUS {
    let (mut first, mut last) = (0, 0);
    // SAFETY: The arguments are valid, and the outputs can be written.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason covers all calls")]
    unsafe {
        let seen = KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_UNLOCKED);
        if seen.is_null() || !(*seen).StreamHeader.is_null() {
            return must(seen.is_null());
        }
        loop {
            let edge = KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED);
            if edge.is_null() {
                break;
            }
            let irp = KsStreamPointerGetIrp(edge, &raw mut first, &raw mut last);
            let list: *mut MDL = KsStreamPointerGetMdl(edge);
            let header = (*edge).StreamHeader;
            let right = KsGetPinFromIrp(irp) == pin
                && first == 1
                && last == 1
                && (*list).ByteCount == (*header).FrameExtent
                && (*list).MappedSystemVa == (*header).Data
                && KsStreamPointerSetStatusCode(edge, STATUS_SUCCESS) == STATUS_SUCCESS
                && KsStreamPointerGetNextClone(edge).is_null();
            if !right {
                return STATUS_UNSUCCESSFUL;
            }
            table::fill_in_turn(edge);
            let (half, extent) = ((*header).FrameExtent / 2, (*header).FrameExtent);
            KsStreamPointerAdvanceOffsets(edge, 0, half, 0);
            let left = (*(*edge).Offset).Remaining == extent - half;
            KsStreamPointerAdvanceOffsetsAndUnlock(edge, 0, extent - half, 0);
            if !left {
                return STATUS_UNSUCCESSFUL;
            }
        }
        let trailing = KsPinGetTrailingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED);
        while !trailing.is_null() && nt_success(KsStreamPointerAdvance(trailing)) {}
    }
    STATUS_SUCCESS
}

/// The filter-centric source.
pub(crate) const FILTER_CENTRIC: Shape = Shape {
    filter: KSFILTER_DISPATCH { Process: Some(processes_filter), ..FILTER },
    pin: KSPIN_DISPATCH { Process: None, ..PIN },
    ..GOOD
};

unsafe extern "win64-unwind" fn processes_filter(
    _filter: *mut KSFILTER,
    index: *mut KSPROCESSPIN_INDEXENTRY,
) -> NTSTATUS {
    // SAFETY: The process pin index has a row for each pin descriptor.
    let line = unsafe { index.read() };
    for at in 0..line.Count as usize {
        // SAFETY: The array has this length.
        let pin: *mut KSPROCESSPIN = unsafe { line.Pins.wrapping_add(at).read() };
        // SAFETY: A row points to pins.
        let edge = unsafe { (*pin).StreamPointer };
        // SAFETY: The leading edge is valid and locked.
        unsafe { table::fill_in_turn(edge) };
        // SAFETY: As above.
        let there = unsafe { (*pin).BytesAvailable };
        // SAFETY: As above.
        unsafe { (*pin).BytesUsed = there.min(BYTES) };
    }
    STATUS_SUCCESS
}

/// The source with its own frames.
pub(crate) const FRAME_INJECTION: Shape = Shape {
    pin: KSPIN_DISPATCH {
        Create: Some(creates_injecting),
        Process: None,
        SetDeviceState: Some(injects),
        ..PIN
    },
    allocator: None,
    framing: framing(0),
    ..GOOD
};

unsafe extern "win64-unwind" fn creates_injecting(pin: *mut KSPIN, irp: PIRP) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { table::create_pin(pin, irp) };
    // SAFETY: The pin is open and stopped.
    unsafe { KsPinRegisterFrameReturnCallback(pin, Some(returned)) };
    status
}

/// Injects the first frame when it begins to run; each returned frame is injected again.
unsafe extern "win64-unwind" fn injects(pin: *mut KSPIN, to: KSSTATE, from: KSSTATE) -> NTSTATUS {
    // SAFETY: The caller upholds this function's contract.
    let status = unsafe { table::set_state(pin, to, from) };
    if (to, from) == (KSSTATE_RUN, KSSTATE_PAUSE) {
        // SAFETY: The function has no requirements.
        let frame = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, BYTES as usize, TAG) };
        if frame.is_null() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        // SAFETY: The pin is open, and the frame is the driver's.
        unsafe { send(pin, frame) };
    }
    status
}

/// Fills a frame and injects it, or frees it.
///
/// # Safety
///
/// The pin is open, and the frame is the driver's.
unsafe fn send(pin: *mut KSPIN, frame: PVOID) {
    // SAFETY: The pin is open.
    let Some(own) = (unsafe { own(pin) }) else { return };
    let number = own.pictures.fetch_add(1, SeqCst);
    let bytes = picture(number);
    // SAFETY: The frame has this length.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), frame.cast::<u8>(), bytes.len()) };
    let last = own.frame_limit.load(SeqCst) == number + 1;
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    let mut header = KSSTREAM_HEADER {
        PresentationTime: KSTIME { Time: in_turn(number), Numerator: 1, Denominator: 1 },
        Duration: i64::try_from(INTERVAL).unwrap_or(0),
        FrameExtent: BYTES,
        DataUsed: BYTES,
        Data: frame,
        OptionsFlags: KSSTREAM_HEADER_OPTIONSF_TIMEVALID
            | KSSTREAM_HEADER_OPTIONSF_DURATIONVALID
            | flag(number == 0, KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY)
            | flag(last, KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM),
        ..KSSTREAM_HEADER::ZERO
    };
    // SAFETY: The pin is open, and the header is valid for the call.
    let status = unsafe { KsPinSubmitFrame(pin, frame, BYTES, &raw mut header, frame) };
    if !nt_success(status) {
        // SAFETY: No other component uses it.
        unsafe { ExFreePool(frame) };
    }
}

unsafe extern "win64-unwind" fn returned(
    pin: *mut KSPIN,
    data: PVOID,
    _size: u32,
    _list: *mut MDL,
    context: PVOID,
    _status: NTSTATUS,
) {
    // SAFETY: The pin is open.
    let runs = unsafe { (*pin).ClientState } == KSSTATE_RUN;
    if runs && data == context {
        // SAFETY: The frame is the driver's again.
        unsafe { send(pin, data) };
    } else {
        // SAFETY: As above.
        unsafe { ExFreePool(data) };
    }
}
