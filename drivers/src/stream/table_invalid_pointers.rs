//! A source that calls every `Ks*` function with invalid pointers, in every call.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::table::{self, Device, own};
use super::table_allocator;
use crate::block::find;
use abi::ks::{
    KSALLOCATOR_DISPATCH, KSALLOCATOR_FRAMING, KSATTRIBUTE_LIST, KSDATAFORMAT, KSDATARANGE,
    KSDEVICE, KSDEVICE_DISPATCH, KSFILTER, KSFILTER_DISPATCH, KSMULTIPLE_ITEM, KSPIN,
    KSPIN_DISPATCH, KSSTATE, KSSTREAM_HEADER,
};
use abi::{NTSTATUS, PIRP, PVOID};
use port::ks::{
    _KsEdit, FUNCTIONS, KsAcquireControl, KsAcquireDevice, KsAddItemToObjectBag,
    KsAllocateObjectBag, KsCompletePendingRequest, KsCopyObjectBagItems,
    KsCreateDefaultAllocatorEx, KsCreateFilterFactory, KsDeviceRegisterAdapterObject,
    KsFilterAcquireProcessingMutex, KsFilterAttemptProcessing, KsFilterCreatePinFactory,
    KsFilterFactorySetDeviceClassesState, KsFilterGetChildPinCount, KsFilterGetFirstChildPin,
    KsFilterReleaseProcessingMutex, KsFreeObjectBag, KsGetDevice, KsGetFilterFromIrp,
    KsGetFirstChild, KsGetNextSibling, KsGetParent, KsGetPinFromIrp, KsInitializeDriver,
    KsPinAcquireProcessingMutex, KsPinAttemptProcessing, KsPinGetAndGate,
    KsPinGetFirstCloneStreamPointer, KsPinGetLeadingEdgeStreamPointer, KsPinGetParentFilter,
    KsPinGetReferenceClockInterface, KsPinGetTrailingEdgeStreamPointer,
    KsPinRegisterFrameReturnCallback, KsPinReleaseProcessingMutex, KsPinSubmitFrame,
    KsReleaseControl, KsReleaseDevice, KsRemoveItemFromObjectBag, KsStreamPointerAdvance,
    KsStreamPointerAdvanceOffsets, KsStreamPointerAdvanceOffsetsAndUnlock,
    KsStreamPointerCancelTimeout, KsStreamPointerClone, KsStreamPointerDelete,
    KsStreamPointerGetIrp, KsStreamPointerGetMdl, KsStreamPointerGetNextClone, KsStreamPointerLock,
    KsStreamPointerScheduleTimeout, KsStreamPointerSetStatusCode, KsStreamPointerUnlock,
};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

/// Calls every function with one pointer.
fn all(it: PVOID) {
    let mut pointer = ptr::null_mut();
    let mut clock = ptr::null_mut();
    let mut number = 0;
    let mut place = ptr::null_mut();
    let mut header = KSSTREAM_HEADER::ZERO;
    // SAFETY: The functions validate their arguments, and the outputs can be written.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason covers all calls")]
    unsafe {
        KsInitializeDriver(it, ptr::null_mut(), ptr::null());
        KsCreateFilterFactory(
            it,
            ptr::null(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
            None,
            None,
            ptr::null_mut(),
        );
        KsFilterCreatePinFactory(it.cast(), ptr::null(), &raw mut number);
        KsFilterFactorySetDeviceClassesState(it.cast(), 1);
        KsDeviceRegisterAdapterObject(it.cast(), ptr::null_mut(), 0, 0);
        KsAddItemToObjectBag(it, it, None);
        KsRemoveItemFromObjectBag(it, it, 1);
        _KsEdit(it, ptr::null_mut(), 8, 8, 0);
        _KsEdit(it, &raw mut place, 8, 8, 0);
        KsAllocateObjectBag(it.cast(), &raw mut place);
        KsAllocateObjectBag(it.cast(), ptr::null_mut());
        KsFreeObjectBag(it);
        KsCopyObjectBagItems(it, it);
        KsAcquireDevice(it.cast());
        KsReleaseDevice(it.cast());
        KsAcquireControl(it);
        KsReleaseControl(it);
        KsFilterAcquireProcessingMutex(it.cast());
        KsFilterReleaseProcessingMutex(it.cast());
        KsPinAcquireProcessingMutex(it.cast());
        KsPinReleaseProcessingMutex(it.cast());
        KsGetDevice(it);
        KsGetParent(it);
        KsPinGetParentFilter(it.cast());
        KsGetFirstChild(it);
        KsGetNextSibling(it);
        KsFilterGetFirstChildPin(it.cast(), 0);
        KsFilterGetChildPinCount(it.cast(), 7);
        KsGetPinFromIrp(it);
        KsGetFilterFromIrp(it);
        KsCompletePendingRequest(it);
        KsCreateDefaultAllocatorEx(it, it, None, None, None, None);
        KsPinGetReferenceClockInterface(it.cast(), &raw mut clock);
        KsPinGetReferenceClockInterface(it.cast(), ptr::null_mut());
        table::release(clock);
        KsPinAttemptProcessing(it.cast(), 0);
        KsFilterAttemptProcessing(it.cast(), 1);
        KsPinGetAndGate(it.cast());
        KsPinRegisterFrameReturnCallback(it.cast(), None);
        KsPinSubmitFrame(it.cast(), it, 0, ptr::null_mut(), it);
        KsPinSubmitFrame(it.cast(), ptr::null_mut(), 4, &raw mut header, it);
        KsPinGetLeadingEdgeStreamPointer(it.cast(), 7);
        KsPinGetTrailingEdgeStreamPointer(it.cast(), 1);
        KsPinGetFirstCloneStreamPointer(it.cast());
        KsStreamPointerGetNextClone(it.cast());
        KsStreamPointerLock(it.cast());
        KsStreamPointerUnlock(it.cast(), 0);
        KsStreamPointerAdvance(it.cast());
        KsStreamPointerAdvanceOffsets(it.cast(), u32::MAX, u32::MAX, 0);
        KsStreamPointerAdvanceOffsetsAndUnlock(it.cast(), 1, 1, 1);
        KsStreamPointerClone(it.cast(), None, u32::MAX, &raw mut pointer);
        KsStreamPointerClone(it.cast(), None, 0, ptr::null_mut());
        KsStreamPointerSetStatusCode(it.cast(), 0);
        KsStreamPointerGetIrp(it.cast(), ptr::null_mut(), ptr::null_mut());
        KsStreamPointerGetMdl(it.cast());
        KsStreamPointerScheduleTimeout(it.cast(), None, u64::MAX);
        KsStreamPointerCancelTimeout(it.cast());
        KsStreamPointerDelete(it.cast());
    }
    for trap in FUNCTIONS
        .iter()
        .filter(|ks_export| matches!(ks_export.support, flight::Support::Missing(_)))
        .take(9)
    {
        // SAFETY: An import that only traps reads no argument.
        let call: unsafe extern "win64-unwind" fn() -> NTSTATUS =
            unsafe { std::mem::transmute(trap.address) };
        // SAFETY: As above.
        unsafe { call() };
    }
}

/// NULL, a non-canonical address, unallocated memory, a function, and an object of another kind.
fn attack_with(mine: PVOID, before: PVOID) {
    let mut local = [0_u64; 32];
    let function: *const () = add_device as *const ();
    let some = [
        ptr::null_mut(),
        ptr::without_provenance_mut(1),
        ptr::without_provenance_mut(usize::MAX),
        ptr::without_provenance_mut(0xdddd_dddd_dddd_dddd),
        local.as_mut_ptr().cast(),
        function.cast_mut().cast(),
        mine.wrapping_byte_add(8),
        before,
    ];
    some.into_iter().for_each(all);
}

/// Returns the last pin, from the device's context.
fn last(context: PVOID) -> PVOID {
    // SAFETY: The context is this driver's.
    let device = unsafe { find::<Device>(context) };
    device.map_or(ptr::null_mut(), |device| device.last.load(SeqCst).cast())
}

unsafe extern "win64-unwind" fn add_device(device: *mut KSDEVICE) -> NTSTATUS {
    attack_with(device.cast(), ptr::null_mut());
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::add_device(device) }
}

unsafe extern "win64-unwind" fn post_start_device(device: *mut KSDEVICE) -> NTSTATUS {
    attack_with(device.cast(), ptr::null_mut());
    abi::status::STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn remove_device(device: *mut KSDEVICE, irp: PIRP) {
    // SAFETY: The structure is valid.
    let context = unsafe { (*device).Context };
    attack_with(device.cast(), last(context));
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::remove_device(device, irp) };
}

unsafe extern "win64-unwind" fn create_filter(filter: *mut KSFILTER, irp: PIRP) -> NTSTATUS {
    // SAFETY: The structure is valid.
    let context = unsafe { (*filter).Context };
    attack_with(filter.cast(), last(context));
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::create_filter(filter, irp) }
}

unsafe extern "win64-unwind" fn close_filter(filter: *mut KSFILTER, irp: PIRP) -> NTSTATUS {
    // SAFETY: The structure is valid.
    let context = unsafe { (*filter).Context };
    attack_with(filter.cast(), last(context));
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::close_filter(filter, irp) }
}

unsafe extern "win64-unwind" fn create_pin(pin: *mut KSPIN, irp: PIRP) -> NTSTATUS {
    attack_with(pin.cast(), irp.wrapping_byte_add(8));
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::create_pin(pin, irp) }
}

unsafe extern "win64-unwind" fn close_pin(pin: *mut KSPIN, irp: PIRP) -> NTSTATUS {
    // SAFETY: The pin is open.
    let before = unsafe { own(pin) }.map_or(ptr::null_mut(), |pin| pin.allocator.load(SeqCst));
    attack_with(pin.cast(), before);
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::close_pin(pin, irp) }
}

unsafe extern "win64-unwind" fn process_pin(pin: *mut KSPIN) -> NTSTATUS {
    attack_with(pin.cast(), ptr::null_mut());
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::process_with(pin, Some(timed_out)) }
}

unsafe extern "win64-unwind" fn timed_out(clone: *mut abi::ks::KSSTREAM_POINTER) {
    attack_with(clone.cast(), ptr::null_mut());
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::timed_out(clone) };
    // The allocator was deleted.
    attack_with(clone.cast(), clone.cast());
}

unsafe extern "win64-unwind" fn set_format(
    pin: *mut KSPIN,
    first_instance: *mut KSDATAFORMAT,
    attributes: *mut KSMULTIPLE_ITEM,
    range: *const KSDATARANGE,
    list: *const KSATTRIBUTE_LIST,
) -> NTSTATUS {
    attack_with(pin.cast(), first_instance.cast());
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::set_format(pin, first_instance, attributes, range, list) }
}

unsafe extern "win64-unwind" fn set_state(pin: *mut KSPIN, to: KSSTATE, from: KSSTATE) -> NTSTATUS {
    attack_with(pin.cast(), ptr::null_mut());
    // SAFETY: The caller upholds this function's contract.
    unsafe { table::set_state(pin, to, from) }
}

unsafe extern "win64-unwind" fn initialize(
    pin: *mut KSPIN,
    framing: *mut KSALLOCATOR_FRAMING,
    context: *mut PVOID,
) -> NTSTATUS {
    attack_with(pin.cast(), framing.cast());
    // SAFETY: The caller upholds this function's contract.
    unsafe { table_allocator::initialize(pin, framing, context) }
}

unsafe extern "win64-unwind" fn allocate(context: PVOID) -> PVOID {
    attack_with(context, context);
    // SAFETY: The caller upholds this function's contract.
    unsafe { table_allocator::allocate(context) }
}

unsafe extern "win64-unwind" fn free_frame(context: PVOID, frame: PVOID) {
    attack_with(frame, context);
    // SAFETY: The caller upholds this function's contract.
    unsafe { table_allocator::free_frame(context, frame) };
}

unsafe extern "win64-unwind" fn delete(context: PVOID) {
    attack_with(context, context);
    // SAFETY: The caller upholds this function's contract.
    unsafe { table_allocator::delete(context) };
    attack_with(context, context);
}

pub(crate) const INVALID_POINTERS: table::Shape = table::Shape {
    device: KSDEVICE_DISPATCH {
        Add: Some(add_device),
        PostStart: Some(post_start_device),
        Remove: Some(remove_device),
        ..table::DEVICE
    },
    filter: KSFILTER_DISPATCH {
        Create: Some(create_filter),
        Close: Some(close_filter),
        ..table::FILTER
    },
    pin: KSPIN_DISPATCH {
        Create: Some(create_pin),
        Close: Some(close_pin),
        Process: Some(process_pin),
        SetDataFormat: Some(set_format),
        SetDeviceState: Some(set_state),
        ..table::PIN
    },
    allocator: Some(KSALLOCATOR_DISPATCH {
        InitializeAllocator: Some(initialize),
        DeleteAllocator: Some(delete),
        Allocate: Some(allocate),
        Free: Some(free_frame),
    }),
    ..table::GOOD
};
