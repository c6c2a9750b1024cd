//! A capture source of a test pattern as a table, which keeps every rule.
//!
//! It is written as a driver in C would be, against `ks.h`: its contexts are pool blocks, and
//! there is no state besides. Its hardware fills one frame after the other, each an interval after
//! the one before: the driver clones the leading edge, goes on, and deletes the clone when the
//! frame is full.
//!
//! # Safety
//!
//! The entries of the tables are called as Microsoft's pages say: a structure is there and the
//! driver's for the call, a context is one that this driver gave and was not told to end.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use super::pattern::{BYTES, INTERVAL, picture};
use super::table_allocator::ALLOCATOR;
use crate::block::{Kind, find, free, take};
use abi::ks::{
    IKsReferenceClock, KS_COMPRESSION, KS_FRAMING_ITEM, KS_FRAMING_RANGE,
    KS_FRAMING_RANGE_WEIGHTED, KSALLOCATOR_DISPATCH, KSALLOCATOR_FLAG_CAN_ALLOCATE,
    KSALLOCATOR_FRAMING_EX, KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY, KSATTRIBUTE_LIST, KSDATAFORMAT,
    KSDATAFORMAT_TYPE_VIDEO, KSDATARANGE, KSDEVICE, KSDEVICE_DESCRIPTOR,
    KSDEVICE_DESCRIPTOR_VERSION, KSDEVICE_DISPATCH, KSFILTER, KSFILTER_DESCRIPTOR,
    KSFILTER_DESCRIPTOR_VERSION, KSFILTER_DISPATCH, KSMEMORY_TYPE_KERNEL_NONPAGED, KSMULTIPLE_ITEM,
    KSPIN, KSPIN_COMMUNICATION_SOURCE, KSPIN_DATAFLOW_OUT, KSPIN_DESCRIPTOR, KSPIN_DESCRIPTOR_EX,
    KSPIN_DISPATCH, KSSTATE, KSSTATE_ACQUIRE, KSSTATE_STOP, KSSTREAM_HEADER,
    KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY, KSSTREAM_HEADER_OPTIONSF_DURATIONVALID,
    KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM, KSSTREAM_HEADER_OPTIONSF_TIMEVALID, KSSTREAM_POINTER,
    KSSTREAM_POINTER_STATE_LOCKED, KSTIME, MEDIASUBTYPE_RGB32, PFNKSSTREAMPOINTER,
};
use abi::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_NO_MATCH, STATUS_SUCCESS,
};
use abi::{NTSTATUS, PDRIVER_OBJECT, PIRP, PVOID, UNICODE_STRING, nt_success};
use port::ks::{
    _KsEdit, KsAddItemToObjectBag, KsGetDevice, KsInitializeDriver,
    KsPinGetFirstCloneStreamPointer, KsPinGetLeadingEdgeStreamPointer,
    KsPinGetReferenceClockInterface, KsStreamPointerAdvance, KsStreamPointerClone,
    KsStreamPointerDelete, KsStreamPointerLock, KsStreamPointerScheduleTimeout,
    KsStreamPointerUnlock,
};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};

const TAG: u32 = u32::from_le_bytes(*b"WtKs");

/// A device (`KSDEVICE.Context`).
#[repr(C)]
#[derive(Default)]
pub(crate) struct Device {
    /// The pin that was closed last: a good driver does not look at it.
    pub(crate) last: AtomicPtr<KSPIN>,
}

impl Kind for Device {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kdev");
}

/// A pin (`KSPIN.Context`).
#[repr(C)]
#[derive(Default)]
pub(crate) struct Pin {
    /// How many pictures were begun, and how many the format asks for: zero is no end.
    pub(crate) pictures: AtomicU64,
    pub(crate) wanted: AtomicU64,
    /// How many frames the hardware has.
    pub(crate) flying: AtomicU32,
    clock: AtomicPtr<IKsReferenceClock>,
    /// The context of its allocator: a good driver does not look at it.
    pub(crate) allocator: AtomicPtr<std::ffi::c_void>,
}

impl Kind for Pin {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kpin");
}

pub(crate) const DEVICE: KSDEVICE_DISPATCH = KSDEVICE_DISPATCH {
    Add: Some(add_device),
    Start: Some(start_device),
    PostStart: Some(post_start_device),
    QueryStop: Some(query_device),
    Stop: Some(stop_device),
    QueryRemove: Some(query_device),
    Remove: Some(remove_device),
    SurpriseRemoval: Some(stop_device),
    ..KSDEVICE_DISPATCH::ZERO
};

pub(crate) const FILTER: KSFILTER_DISPATCH = KSFILTER_DISPATCH {
    Create: Some(create_filter),
    Close: Some(close_filter),
    ..KSFILTER_DISPATCH::ZERO
};

/// Without an allocator.
pub(crate) const PIN: KSPIN_DISPATCH = KSPIN_DISPATCH {
    Create: Some(create_pin),
    Close: Some(close_pin),
    Process: Some(process_pin),
    Reset: Some(reset_pin),
    SetDataFormat: Some(set_format),
    SetDeviceState: Some(set_state),
    Connect: Some(connect_pin),
    Disconnect: Some(disconnect_pin),
    ..KSPIN_DISPATCH::ZERO
};

/// Frames of the system's memory.
pub(crate) const fn framing(flags: u32) -> KSALLOCATOR_FRAMING_EX {
    let sizes = KS_FRAMING_RANGE { MinFrameSize: BYTES, MaxFrameSize: BYTES, Stepping: 0 };
    let item = KS_FRAMING_ITEM {
        MemoryType: KSMEMORY_TYPE_KERNEL_NONPAGED,
        Flags: KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY | flags,
        Frames: 3,
        FileAlignment: 15,
        FramingRange: KS_FRAMING_RANGE_WEIGHTED {
            Range: sizes,
            InPlaceWeight: 0,
            NotInPlaceWeight: 0,
        },
        ..KS_FRAMING_ITEM::ZERO
    };
    let even = KS_COMPRESSION { RatioNumerator: 1, RatioDenominator: 1, RatioConstantMargin: 0 };
    KSALLOCATOR_FRAMING_EX {
        CountItems: 1,
        OutputCompression: even,
        FramingItem: [item],
        ..KSALLOCATOR_FRAMING_EX::ZERO
    }
}

/// Frames that the driver can allocate.
pub(crate) const OWN: KSALLOCATOR_FRAMING_EX = framing(KSALLOCATOR_FLAG_CAN_ALLOCATE);

const RANGE: KSDATARANGE =
    KSDATARANGE { FormatSize: 64, MajorFormat: KSDATAFORMAT_TYPE_VIDEO, ..KSDATARANGE::ZERO };
const RANGES: [*const KSDATARANGE; 1] = [&RANGE];

/// A kind of pins that data comes out of.
pub(crate) const fn pin(
    dispatch: *const KSPIN_DISPATCH,
    framing: *const KSALLOCATOR_FRAMING_EX,
    flags: u32,
) -> KSPIN_DESCRIPTOR_EX {
    KSPIN_DESCRIPTOR_EX {
        Dispatch: dispatch,
        PinDescriptor: KSPIN_DESCRIPTOR {
            DataRangesCount: 1,
            DataRanges: RANGES.as_ptr(),
            DataFlow: KSPIN_DATAFLOW_OUT,
            Communication: KSPIN_COMMUNICATION_SOURCE,
            ..KSPIN_DESCRIPTOR::ZERO
        },
        Flags: flags,
        InstancesPossible: 2,
        AllocatorFraming: framing,
        ..KSPIN_DESCRIPTOR_EX::ZERO
    }
}

/// A filter with one kind of pins.
#[expect(clippy::cast_possible_truncation, reason = "a structure of Windows's is small")]
pub(crate) const fn filter(
    dispatch: *const KSFILTER_DISPATCH,
    pins: *const KSPIN_DESCRIPTOR_EX,
) -> KSFILTER_DESCRIPTOR {
    KSFILTER_DESCRIPTOR {
        Dispatch: dispatch,
        Version: KSFILTER_DESCRIPTOR_VERSION,
        PinDescriptorsCount: 1,
        PinDescriptorSize: size_of::<KSPIN_DESCRIPTOR_EX>() as u32,
        PinDescriptors: pins,
        ..KSFILTER_DESCRIPTOR::ZERO
    }
}

/// What a driver has.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) device: KSDEVICE_DISPATCH,
    pub(crate) filter: KSFILTER_DISPATCH,
    pub(crate) pin: KSPIN_DISPATCH,
    pub(crate) allocator: Option<KSALLOCATOR_DISPATCH>,
    pub(crate) framing: KSALLOCATOR_FRAMING_EX,
    pub(crate) flags: u32,
}

/// The good one, with an allocator of its own.
pub(crate) const GOOD: Shape = Shape {
    device: DEVICE,
    filter: FILTER,
    pin: PIN,
    allocator: Some(ALLOCATOR),
    framing: OWN,
    flags: 0,
};

/// The good one, with the default allocator.
pub(crate) const DEFAULT: Shape = Shape { allocator: None, framing: framing(0), ..GOOD };

/// The descriptor of a device with one filter.
pub(crate) const fn device(
    dispatch: *const KSDEVICE_DISPATCH,
    filters: *const *const KSFILTER_DESCRIPTOR,
) -> KSDEVICE_DESCRIPTOR {
    KSDEVICE_DESCRIPTOR {
        Dispatch: dispatch,
        FilterDescriptorsCount: 1,
        FilterDescriptors: filters,
        Version: KSDEVICE_DESCRIPTOR_VERSION,
        ..KSDEVICE_DESCRIPTOR::ZERO
    }
}

/// Lays a shape out as tables that stay.
macro_rules! laid {
    ($shape:expr) => {{
        use abi::ks as k;
        use $crate::stream::table as t;
        const LAID_SHAPE: t::Shape = $shape;
        const LAID_ALLOCATOR: k::KSALLOCATOR_DISPATCH = match LAID_SHAPE.allocator {
            Some(it) => it,
            None => k::KSALLOCATOR_DISPATCH::ZERO,
        };
        const LAID_CALLS: k::KSPIN_DISPATCH = k::KSPIN_DISPATCH {
            Allocator: if LAID_SHAPE.allocator.is_some() {
                &LAID_ALLOCATOR
            } else {
                std::ptr::null()
            },
            ..LAID_SHAPE.pin
        };
        const LAID_FRAMING: k::KSALLOCATOR_FRAMING_EX = LAID_SHAPE.framing;
        const LAID_PIN: k::KSPIN_DESCRIPTOR_EX =
            t::pin(&LAID_CALLS, &LAID_FRAMING, LAID_SHAPE.flags);
        const LAID_FILTER_CALLS: k::KSFILTER_DISPATCH = LAID_SHAPE.filter;
        const LAID_FILTER: k::KSFILTER_DESCRIPTOR = t::filter(&LAID_FILTER_CALLS, &LAID_PIN);
        const LAID_FILTERS: [*const k::KSFILTER_DESCRIPTOR; 1] = [&LAID_FILTER];
        const LAID_DEVICE_CALLS: k::KSDEVICE_DISPATCH = LAID_SHAPE.device;
        const LAID_DEVICE: k::KSDEVICE_DESCRIPTOR =
            t::device(&LAID_DEVICE_CALLS, LAID_FILTERS.as_ptr());
        let laid: *const k::KSDEVICE_DESCRIPTOR = &LAID_DEVICE;
        laid
    }};
}
pub(crate) use laid;

/// The entry of the good driver, as a loader calls it.
pub(crate) unsafe extern "win64-unwind" fn driver_entry(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
) -> NTSTATUS {
    // SAFETY: The descriptor stays.
    unsafe { KsInitializeDriver(driver, path, laid!(GOOD)) }
}

pub(crate) unsafe extern "win64-unwind" fn add_device(device: *mut KSDEVICE) -> NTSTATUS {
    let context = take(Device::default());
    // SAFETY: The structure is there, and its context is the driver's.
    unsafe { (*device).Context = context };
    if context.is_null() { STATUS_INSUFFICIENT_RESOURCES } else { STATUS_SUCCESS }
}

unsafe extern "win64-unwind" fn start_device(
    _device: *mut KSDEVICE,
    _irp: PIRP,
    _translated: PVOID,
    _raw: PVOID,
) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn post_start_device(_device: *mut KSDEVICE) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn query_device(_device: *mut KSDEVICE, _irp: PIRP) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn stop_device(_device: *mut KSDEVICE, _irp: PIRP) {}

pub(crate) unsafe extern "win64-unwind" fn remove_device(device: *mut KSDEVICE, _irp: PIRP) {
    // SAFETY: The structure is there.
    let context = unsafe { (*device).Context };
    // SAFETY: This is the last call about it.
    unsafe { free(context) };
}

/// A filter has the context of its device.
pub(crate) unsafe extern "win64-unwind" fn create_filter(
    filter: *mut KSFILTER,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The structure is there.
    let context = unsafe { (*filter).Context };
    // SAFETY: The context is the device's, which lives.
    let device = unsafe { find::<Device>(context) };
    if device.is_some() { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

pub(crate) unsafe extern "win64-unwind" fn close_filter(
    _filter: *mut KSFILTER,
    _irp: PIRP,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// The driver's own of a pin.
///
/// # Safety
///
/// The pin is there.
pub(crate) unsafe fn own<'a>(pin: *mut KSPIN) -> Option<&'a Pin> {
    // SAFETY: The caller promises the same.
    let context = unsafe { (*pin).Context };
    // SAFETY: The context is the pin's block, which lives as long as the pin.
    unsafe { find::<Pin>(context) }
}

/// The context of a pin is in its bag: who closes the pin frees it.
pub(crate) unsafe extern "win64-unwind" fn create_pin(pin: *mut KSPIN, _irp: PIRP) -> NTSTATUS {
    let context = take(Pin::default());
    if context.is_null() {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    // SAFETY: The structure is there.
    let bag = unsafe { (*pin).Bag };
    // SAFETY: It is pool memory, and needs no routine.
    let status = unsafe { KsAddItemToObjectBag(bag, context, None) };
    if !nt_success(status) {
        // SAFETY: Nobody has it.
        unsafe { free(context) };
        return status;
    }
    // SAFETY: The context is the driver's.
    unsafe { (*pin).Context = context };
    // SAFETY: The pin is there.
    unsafe { count_pictures(pin) };
    STATUS_SUCCESS
}

/// Reads how many pictures the format asks for: they follow it.
///
/// # Safety
///
/// The pin is there, with its context.
unsafe fn count_pictures(pin: *mut KSPIN) {
    // SAFETY: The caller promises the same.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format.
    let size = unsafe { (*format).FormatSize } as usize;
    let block = format.wrapping_add(1).cast::<u32>();
    let more = size >= size_of::<KSDATAFORMAT>() + size_of::<u32>();
    // SAFETY: So many bytes are there.
    let wanted = if more { unsafe { block.read_unaligned() } } else { 0 };
    // SAFETY: The caller promises the same.
    if let Some(own) = unsafe { own(pin) } {
        own.wanted.store(wanted.into(), SeqCst);
    }
}

pub(crate) unsafe extern "win64-unwind" fn close_pin(pin: *mut KSPIN, _irp: PIRP) -> NTSTATUS {
    // SAFETY: The structure is known to who gave it.
    let device = unsafe { KsGetDevice(pin.cast()) };
    if let Some(device) = (!device.is_null()).then_some(device) {
        // SAFETY: It is there.
        let context = unsafe { (*device).Context };
        // SAFETY: The context is the device's, which lives.
        if let Some(it) = unsafe { find::<Device>(context) } {
            it.last.store(pin, SeqCst);
        }
    }
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn connect_pin(_pin: *mut KSPIN) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn disconnect_pin(_pin: *mut KSPIN) {}

/// Takes pictures of four bytes for a pixel; for larger ones its frames grow, too.
pub(crate) unsafe extern "win64-unwind" fn set_format(
    pin: *mut KSPIN,
    _old: *mut KSDATAFORMAT,
    _attributes: *mut KSMULTIPLE_ITEM,
    _range: *const KSDATARANGE,
    _list: *const KSATTRIBUTE_LIST,
) -> NTSTATUS {
    // SAFETY: The pin is there.
    let format = unsafe { (*pin).ConnectionFormat };
    // SAFETY: A pin has a format.
    let format = unsafe { format.read() };
    if format.SubFormat != MEDIASUBTYPE_RGB32 {
        return STATUS_NO_MATCH;
    }
    if format.SampleSize <= BYTES {
        return STATUS_SUCCESS;
    }
    // SAFETY: The pin is there.
    unsafe { grow(pin, format.SampleSize) }
}

/// Makes the frames of one pin larger, on a copy of its descriptor (`KsEdit`).
///
/// # Safety
///
/// The pin is there.
#[expect(clippy::cast_possible_truncation, reason = "structures of Windows's are small")]
pub(crate) unsafe fn grow(pin: *mut KSPIN, bytes: u32) -> NTSTATUS {
    // SAFETY: The caller promises the same.
    let bag = unsafe { (*pin).Bag };
    let size = size_of::<KSPIN_DESCRIPTOR_EX>() as u32;
    // SAFETY: It is a place for a pointer, and the descriptor has so many bytes.
    let place = unsafe { &raw mut (*pin).Descriptor };
    // SAFETY: As above.
    let status = unsafe { _KsEdit(bag, place.cast(), size, size, TAG) };
    if !nt_success(status) {
        return status;
    }
    // SAFETY: The copy is the driver's.
    let descriptor = unsafe { (*pin).Descriptor }.cast_mut();
    let size = size_of::<KSALLOCATOR_FRAMING_EX>() as u32;
    // SAFETY: As above.
    let place = unsafe { &raw mut (*descriptor).AllocatorFraming };
    // SAFETY: As above.
    let status = unsafe { _KsEdit(bag, place.cast(), size, size, TAG) };
    if !nt_success(status) {
        return status;
    }
    // SAFETY: The copy is the driver's.
    let framing = unsafe { (*descriptor).AllocatorFraming }.cast_mut();
    // SAFETY: As above.
    let item = unsafe { &raw mut (*framing).FramingItem[0] };
    // SAFETY: As above.
    unsafe { (*item).FramingRange.Range.MaxFrameSize = bytes };
    STATUS_SUCCESS
}

/// Has a clock while it is not stopped, and nothing in flight when it is.
pub(crate) unsafe extern "win64-unwind" fn set_state(
    pin: *mut KSPIN,
    to: KSSTATE,
    from: KSSTATE,
) -> NTSTATUS {
    // SAFETY: The pin is there.
    let Some(own) = (unsafe { own(pin) }) else { return STATUS_INVALID_PARAMETER };
    if to == KSSTATE_ACQUIRE && from == KSSTATE_STOP {
        let mut clock = ptr::null_mut();
        // SAFETY: It is a place for a pointer.
        if nt_success(unsafe { KsPinGetReferenceClockInterface(pin, &raw mut clock) }) {
            own.clock.store(clock, SeqCst);
        }
    }
    if to == KSSTATE_STOP {
        // SAFETY: The pin is there.
        unsafe { delete_clones(pin) };
        // SAFETY: As above.
        unsafe { release_clock(pin) };
    }
    STATUS_SUCCESS
}

/// # Safety
///
/// The pin is there.
pub(crate) unsafe fn release_clock(pin: *mut KSPIN) {
    // SAFETY: The caller promises the same.
    let Some(own) = (unsafe { own(pin) }) else { return };
    let clock = own.clock.swap(ptr::null_mut(), SeqCst);
    // SAFETY: It was given, and not released.
    unsafe { release(clock) };
}

/// # Safety
///
/// It is NULL, or a clock that was given and not released.
pub(crate) unsafe fn release(clock: *mut IKsReferenceClock) {
    if clock.is_null() {
        return;
    }
    // SAFETY: The caller promises the same.
    let table = unsafe { (*clock).lpVtbl };
    // SAFETY: A clock has its table.
    if let Some(call) = unsafe { (*table).Release } {
        // SAFETY: As above.
        unsafe { call(clock) };
    }
}

/// What time it is, by the pin's clock.
fn now(own: &Pin) -> i64 {
    let clock = own.clock.load(SeqCst);
    if clock.is_null() {
        return 0;
    }
    // SAFETY: It was given, and is released when the pin stops: nothing is filled after that.
    let table = unsafe { (*clock).lpVtbl };
    // SAFETY: A clock has its table.
    let call = unsafe { (*table).GetTime };
    // SAFETY: As above.
    call.map_or(0, |call| unsafe { call(clock) })
}

/// # Safety
///
/// The pin is there.
pub(crate) unsafe fn delete_clones(pin: *mut KSPIN) {
    loop {
        // SAFETY: The caller promises the same.
        let clone = unsafe { KsPinGetFirstCloneStreamPointer(pin) };
        if clone.is_null() {
            break;
        }
        // SAFETY: It is there.
        unsafe { KsStreamPointerDelete(clone) };
    }
    // SAFETY: The caller promises the same.
    if let Some(own) = unsafe { own(pin) } {
        own.flying.store(0, SeqCst);
    }
}

pub(crate) unsafe extern "win64-unwind" fn reset_pin(pin: *mut KSPIN) {
    // SAFETY: The pin is there.
    unsafe { delete_clones(pin) };
}

/// Gives every frame in the queue to the hardware.
pub(crate) unsafe extern "win64-unwind" fn process_pin(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is there.
    unsafe { process_with(pin, Some(timed_out)) }
}

/// The same, with another routine when a frame is full.
///
/// # Safety
///
/// The pin is there, and the routine takes a clone of its leading edge.
pub(crate) unsafe fn process_with(pin: *mut KSPIN, full: Option<PFNKSSTREAMPOINTER>) -> NTSTATUS {
    // SAFETY: The caller promises the same.
    unsafe { process_how(pin, full, Some(cancelled), false) }
}

/// The same, with another routine when a frame is cancelled, and with clones that are locked while
/// they wait or not.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn process_how(
    pin: *mut KSPIN,
    full: Option<PFNKSSTREAMPOINTER>,
    cancel: Option<PFNKSSTREAMPOINTER>,
    unlocks: bool,
) -> NTSTATUS {
    // SAFETY: The pin is there.
    let Some(own) = (unsafe { own(pin) }) else { return STATUS_INVALID_PARAMETER };
    loop {
        // SAFETY: As above.
        let edge = unsafe { KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED) };
        if edge.is_null() {
            return STATUS_SUCCESS;
        }
        let mut clone = ptr::null_mut();
        // SAFETY: The edge is there, and the other is a place for a pointer.
        let status = unsafe { KsStreamPointerClone(edge, cancel, 0, &raw mut clone) };
        if !nt_success(status) {
            return status;
        }
        let before = u64::from(own.flying.fetch_add(1, SeqCst)) + 1;
        // SAFETY: The clone is there.
        unsafe { KsStreamPointerScheduleTimeout(clone, full, before * INTERVAL) };
        if unlocks {
            // SAFETY: As above.
            unsafe { KsStreamPointerUnlock(clone, 0) };
        }
        // SAFETY: The edge is there.
        if !nt_success(unsafe { KsStreamPointerAdvance(edge) }) {
            return STATUS_SUCCESS; // That was the last one: it is not locked any more.
        }
    }
}

/// Gives frames to the hardware that can be cancelled there.
pub(crate) unsafe extern "win64-unwind" fn process_unlocking(pin: *mut KSPIN) -> NTSTATUS {
    // SAFETY: The pin is there.
    unsafe { process_how(pin, Some(locked_then), Some(cancelled_in_flight), true) }
}

/// The frame of a clone is full, if it was not cancelled.
pub(crate) unsafe extern "win64-unwind" fn locked_then(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone is there.
    if nt_success(unsafe { KsStreamPointerLock(clone) }) {
        // SAFETY: It is locked now.
        unsafe { fill(clone) };
    }
    // SAFETY: The clone is there.
    unsafe { KsStreamPointerDelete(clone) };
}

/// The hardware has one less.
unsafe extern "win64-unwind" fn cancelled_in_flight(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone is there.
    let pin = unsafe { (*clone).Pin };
    // SAFETY: A pointer has its pin.
    if let Some(own) = unsafe { own(pin) } {
        own.flying.fetch_update(SeqCst, SeqCst, |it| it.checked_sub(1)).ok();
    }
    // SAFETY: The clone is there.
    unsafe { cancelled(clone) };
}

/// The frame of a clone is cancelled.
pub(crate) unsafe extern "win64-unwind" fn cancelled(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone is there.
    unsafe { KsStreamPointerDelete(clone) };
}

/// The frame of a clone is full.
pub(crate) unsafe extern "win64-unwind" fn timed_out(clone: *mut KSSTREAM_POINTER) {
    // SAFETY: The clone is there.
    unsafe { fill(clone) };
    // SAFETY: As above.
    unsafe { KsStreamPointerDelete(clone) };
}

/// Plays the hardware, and says what it did.
///
/// # Safety
///
/// The pointer is there, and locked.
pub(crate) unsafe fn fill(at: *mut KSSTREAM_POINTER) {
    // SAFETY: The caller promises the same.
    unsafe { fill_at(at, |own, _| now(own)) };
}

/// The same at once: each picture is an interval later than the one before, whatever time it is.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn fill_in_turn(at: *mut KSSTREAM_POINTER) {
    // SAFETY: The caller promises the same.
    unsafe { fill_at(at, |_, number| in_turn(number)) };
}

/// When a picture is shown that took no time to make.
pub(crate) fn in_turn(number: u64) -> i64 {
    i64::try_from(number.saturating_add(1).saturating_mul(INTERVAL)).unwrap_or(i64::MAX)
}

/// # Safety
///
/// As above.
unsafe fn fill_at(at: *mut KSSTREAM_POINTER, time: impl FnOnce(&Pin, u64) -> i64) {
    // SAFETY: The caller promises the same.
    let pin = unsafe { (*at).Pin };
    // SAFETY: A pointer has its pin.
    let Some(own) = (unsafe { own(pin) }) else { return };
    // SAFETY: The caller promises the same.
    let header = unsafe { (*at).StreamHeader };
    if header.is_null() {
        return;
    }
    own.flying.fetch_update(SeqCst, SeqCst, |it| it.checked_sub(1)).ok();
    let number = own.pictures.fetch_add(1, SeqCst);
    // SAFETY: A frame has its header.
    let said = unsafe { header.read() };
    let bytes = picture(number);
    let used = said.FrameExtent.min(BYTES);
    let data = said.Data.cast::<u8>();
    // SAFETY: The frame has so many bytes, and nobody else has it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data, used as usize) };
    let last = own.wanted.load(SeqCst) == number + 1;
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    let header_now = KSSTREAM_HEADER {
        PresentationTime: KSTIME { Time: time(own, number), Numerator: 1, Denominator: 1 },
        Duration: i64::try_from(INTERVAL).unwrap_or(0),
        DataUsed: used,
        OptionsFlags: KSSTREAM_HEADER_OPTIONSF_TIMEVALID
            | KSSTREAM_HEADER_OPTIONSF_DURATIONVALID
            | flag(number == 0, KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY)
            | flag(last, KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM),
        ..said
    };
    // SAFETY: A frame has its header.
    unsafe { header.write(header_now) };
}
