//! A capture source of a test pattern with function tables. It breaks no rule.
//!
//! The driver is written like a driver in C, against `ks.h`: its contexts are pool blocks, and
//! there is no other state. The hardware fills one frame per interval: the driver clones the
//! leading edge, advances it, and deletes the clone when the frame is full. The tables are in this
//! file; their functions are in the folder of this name.
//!
//! # Safety
//!
//! The entries of the tables are called as Microsoft documents them: a structure is valid and
//! exclusive to the driver during the call, and a context was set by this driver and not freed.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

mod device_calls;
mod frames;
mod pin_calls;

pub(crate) use device_calls::{Device, add_device, close_filter, create_filter, remove_device};
pub(crate) use frames::{
    delete_clones, fill, fill_in_turn, in_turn, locked_then, process_how, process_pin,
    process_unlocking, process_with, timed_out,
};
pub(crate) use pin_calls::{
    close_pin, create_pin, grow, own, release, release_clock, set_format, set_state,
};

use super::pattern::BYTES;
use super::table_allocator::ALLOCATOR;
use abi::ks::{
    KS_COMPRESSION, KS_FRAMING_ITEM, KS_FRAMING_RANGE, KS_FRAMING_RANGE_WEIGHTED,
    KSALLOCATOR_DISPATCH, KSALLOCATOR_FLAG_CAN_ALLOCATE, KSALLOCATOR_FRAMING_EX,
    KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY, KSDATAFORMAT_TYPE_VIDEO, KSDATARANGE,
    KSDEVICE_DESCRIPTOR, KSDEVICE_DESCRIPTOR_VERSION, KSDEVICE_DISPATCH, KSFILTER_DESCRIPTOR,
    KSFILTER_DESCRIPTOR_VERSION, KSFILTER_DISPATCH, KSMEMORY_TYPE_KERNEL_NONPAGED,
    KSPIN_COMMUNICATION_SOURCE, KSPIN_DATAFLOW_OUT, KSPIN_DESCRIPTOR, KSPIN_DESCRIPTOR_EX,
    KSPIN_DISPATCH,
};
use abi::{NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};
use device_calls::{post_start_device, query_device, start_device, stop_device};
use frames::reset_pin;
use pin_calls::{connect_pin, disconnect_pin};
use port::ks::KsInitializeDriver;

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

/// A pin without its own allocator.
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

/// Frames in system memory.
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
pub(crate) const OWN_FRAMING: KSALLOCATOR_FRAMING_EX = framing(KSALLOCATOR_FLAG_CAN_ALLOCATE);

const RANGE: KSDATARANGE =
    KSDATARANGE { FormatSize: 64, MajorFormat: KSDATAFORMAT_TYPE_VIDEO, ..KSDATARANGE::ZERO };
const RANGES: [*const KSDATARANGE; 1] = [&RANGE];

/// An output pin.
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

/// A filter with one pin descriptor.
#[expect(clippy::cast_possible_truncation, reason = "Windows structures are small")]
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

/// The parts of a driver.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) device: KSDEVICE_DISPATCH,
    pub(crate) filter: KSFILTER_DISPATCH,
    pub(crate) pin: KSPIN_DISPATCH,
    pub(crate) allocator: Option<KSALLOCATOR_DISPATCH>,
    pub(crate) framing: KSALLOCATOR_FRAMING_EX,
    pub(crate) flags: u32,
}

/// The good driver, with its own allocator.
pub(crate) const GOOD: Shape = Shape {
    device: DEVICE,
    filter: FILTER,
    pin: PIN,
    allocator: Some(ALLOCATOR),
    framing: OWN_FRAMING,
    flags: 0,
};

/// The good driver, with the default allocator.
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

/// Lays out a shape as tables that are never freed.
macro_rules! static_tables {
    ($layout:expr) => {{
        use abi::ks as k;
        use $crate::stream::table as t;
        const LAID_SHAPE: t::Shape = $layout;
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
        let static_tables: *const k::KSDEVICE_DESCRIPTOR = &LAID_DEVICE;
        static_tables
    }};
}
pub(crate) use static_tables;

/// The `DriverEntry` of the good driver.
pub(crate) unsafe extern "win64-unwind" fn driver_entry(
    driver: PDRIVER_OBJECT,
    path: *mut UNICODE_STRING,
) -> NTSTATUS {
    // SAFETY: The descriptor is never freed.
    unsafe { KsInitializeDriver(driver, path, static_tables!(GOOD)) }
}
