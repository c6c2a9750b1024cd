//! Reads a driver's descriptors once, and converts them to the class driver's types.
//!
//! A descriptor that cannot be read is rejected here, with a message; the class driver rejects a
//! readable one that is invalid, by its rules.
#![expect(unsafe_code, reason = "follows the pointers of a driver's tables")]

use crate::callback_entry::read;
use abi::GUID;
use abi::ks::{
    KS_FRAMING_ITEM, KSALLOCATOR_DISPATCH, KSALLOCATOR_FLAG_CAN_ALLOCATE, KSALLOCATOR_FRAMING_EX,
    KSDATAFORMAT, KSDEVICE_DESCRIPTOR, KSDEVICE_DISPATCH, KSFILTER_DESCRIPTOR, KSFILTER_DISPATCH,
    KSFILTER_FLAG_DISPATCH_LEVEL_PROCESSING, KSMEMORY_TYPE_DONT_CARE,
    KSMEMORY_TYPE_KERNEL_NONPAGED, KSMEMORY_TYPE_KERNEL_PAGED, KSMEMORY_TYPE_SYSTEM,
    KSMEMORY_TYPE_USER, KSPIN_COMMUNICATION, KSPIN_DATAFLOW_IN, KSPIN_DATAFLOW_OUT,
    KSPIN_DESCRIPTOR_EX, KSPIN_DISPATCH, KSPIN_FLAG_ASYNCHRONOUS_PROCESSING,
    KSPIN_FLAG_CRITICAL_PROCESSING, KSPIN_FLAG_DISPATCH_LEVEL_PROCESSING,
    KSPIN_FLAG_DISTINCT_TRAILING_EDGE, KSPIN_FLAG_DO_NOT_INITIATE_PROCESSING,
    KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT, KSPIN_FLAG_ENFORCE_FIFO,
    KSPIN_FLAG_FRAMES_NOT_REQUIRED_FOR_PROCESSING, KSPIN_FLAG_GENERATE_MAPPINGS,
    KSPIN_FLAG_HYPERCRITICAL_PROCESSING, KSPIN_FLAG_INITIATE_PROCESSING_ON_EVERY_ARRIVAL,
    KSPIN_FLAG_PROCESS_IF_ANY_IN_RUN_STATE, KSPIN_FLAG_PROCESS_IN_RUN_STATE_ONLY,
    KSPIN_FLAG_SOME_FRAMES_REQUIRED_FOR_PROCESSING, KSPIN_FLAG_USE_STANDARD_TRANSPORT,
    PFNKSDEFAULTALLOCATE, PFNKSDEFAULTFREE, PFNKSDELETEALLOCATOR, PFNKSFILTERIRP,
    PFNKSFILTERPROCESS, PFNKSFILTERVOID, PFNKSPIN, PFNKSPININITIALIZEALLOCATOR, PFNKSPINIRP,
    PFNKSPINSETDATAFORMAT, PFNKSPINSETDEVICESTATE, PFNKSPINVOID,
};
use std::ptr;
use std::sync::Arc;
use stream::{
    DescriptorError, DeviceDescriptor, Entry, ExtendedFraming, FilterDescriptor, Flow, Format,
    FramingForm, FramingItem, MemoryKind, PinDescriptor, PinFlag, SizeRange,
};

/// The maximum length of a list that is plausible.
const MAX_ITEMS: u32 = 1024;
/// The maximum size of a format.
const MAX_FORMAT_SIZE: u32 = 1 << 16;
const HEAD: u32 = 64;
const _: () = assert!(size_of::<KSDATAFORMAT>() == HEAD as usize);

type DescriptorResult<T> = Result<T, DescriptorError>;

/// The driver's table for its device.
pub(crate) struct DeviceTable {
    /// The address of its descriptor.
    pub(crate) address: usize,
    pub(crate) dispatch: KSDEVICE_DISPATCH,
    pub(crate) filters: Vec<Arc<FilterTable>>,
}

/// The driver's table for a filter.
#[derive(Clone)]
pub(crate) struct FilterTable {
    pub(crate) address: usize,
    pub(crate) create: Option<PFNKSFILTERIRP>,
    pub(crate) close: Option<PFNKSFILTERIRP>,
    pub(crate) process: Option<PFNKSFILTERPROCESS>,
    pub(crate) reset: Option<PFNKSFILTERVOID>,
    pub(crate) dispatch_level: bool,
    pub(crate) pins: Vec<Arc<PinTable>>,
}

/// The driver's table for a pin.
pub(crate) struct PinTable {
    pub(crate) address: usize,
    pub(crate) create: Option<PFNKSPINIRP>,
    pub(crate) close: Option<PFNKSPINIRP>,
    pub(crate) process: Option<PFNKSPIN>,
    pub(crate) reset: Option<PFNKSPINVOID>,
    pub(crate) set_format: Option<PFNKSPINSETDATAFORMAT>,
    pub(crate) set_state: Option<PFNKSPINSETDEVICESTATE>,
    pub(crate) connect: Option<PFNKSPIN>,
    pub(crate) disconnect: Option<PFNKSPINVOID>,
    pub(crate) allocator: Option<AllocatorTable>,
    pub(crate) communication: KSPIN_COMMUNICATION,
    /// The addresses of its data ranges, and their contents.
    pub(crate) ranges: Vec<(usize, Format)>,
    pub(crate) descriptor: PinDescriptor,
}

/// The driver's table for an allocator (`KSALLOCATOR_DISPATCH`).
#[derive(Clone, Copy)]
pub(crate) struct AllocatorTable {
    pub(crate) initialize: Option<PFNKSPININITIALIZEALLOCATOR>,
    pub(crate) delete: Option<PFNKSDELETEALLOCATOR>,
    pub(crate) allocate: Option<PFNKSDEFAULTALLOCATE>,
    pub(crate) free: Option<PFNKSDEFAULTFREE>,
}

fn descriptor_error<T>(why: impl Into<String>) -> DescriptorResult<T> {
    Err(DescriptorError(why.into()))
}

/// Checks a list of a table: its count and its address.
fn read_counted_list(count: u32, is_null: bool, what: &str) -> DescriptorResult<()> {
    if count > MAX_ITEMS {
        return descriptor_error(format!(
            "a table has a count of {count} {what}: at most {MAX_ITEMS} are read"
        ));
    }
    if count > 0 && is_null {
        return descriptor_error(format!(
            "a table has a count of {count} {what}, and their pointer is NULL"
        ));
    }
    Ok(())
}

impl DeviceTable {
    /// Reads everything that a descriptor refers to.
    ///
    /// # Safety
    ///
    /// Every pointer is NULL or points to as many objects of its type as the count beside it says.
    pub(crate) unsafe fn read(descriptor: *const KSDEVICE_DESCRIPTOR) -> DescriptorResult<Self> {
        // SAFETY: The caller guarantees the same.
        let Some(it) = (unsafe { read(descriptor) }) else {
            return descriptor_error("the device descriptor is NULL");
        };
        // SAFETY: As above.
        let dispatch = unsafe { read(it.Dispatch) }.unwrap_or(KSDEVICE_DISPATCH::ZERO);
        let count = it.FilterDescriptorsCount;
        read_counted_list(count, it.FilterDescriptors.is_null(), "filter descriptors")?;
        let mut filters = Vec::new();
        for at in 0..count as usize {
            // SAFETY: As above.
            let filter = unsafe { read(it.FilterDescriptors.wrapping_add(at)) };
            // SAFETY: As above.
            filters.push(Arc::new(unsafe { FilterTable::read(filter.unwrap_or(ptr::null())) }?));
        }
        Ok(Self { address: descriptor.addr(), dispatch, filters })
    }

    /// Converts to the class driver's descriptor.
    pub(crate) fn describe(&self) -> DeviceDescriptor {
        let it = &self.dispatch;
        let dispatch = implemented_entries(&[
            (it.Add.is_some(), Entry::DeviceAdd),
            (it.Start.is_some(), Entry::DeviceStart),
            (it.PostStart.is_some(), Entry::DevicePostStart),
            (it.QueryStop.is_some(), Entry::DeviceQueryStop),
            (it.Stop.is_some(), Entry::DeviceStop),
            (it.QueryRemove.is_some(), Entry::DeviceQueryRemove),
            (it.SurpriseRemoval.is_some(), Entry::DeviceSurpriseRemoval),
            (it.Remove.is_some(), Entry::DeviceRemove),
            (it.SetPower.is_some(), Entry::DeviceSetPower),
        ]);
        DeviceDescriptor {
            dispatch,
            filters: self.filters.iter().map(|filter_table| filter_table.describe()).collect(),
        }
    }
}

fn implemented_entries(entries: &[(bool, Entry)]) -> Vec<Entry> {
    entries.iter().filter(|pair| pair.0).map(|pair| pair.1).collect()
}

impl FilterTable {
    /// Reads a filter descriptor.
    ///
    /// # Safety
    ///
    /// As for [`DeviceTable::read`].
    pub(crate) unsafe fn read(descriptor: *const KSFILTER_DESCRIPTOR) -> DescriptorResult<Self> {
        // SAFETY: The caller guarantees the same.
        let Some(it) = (unsafe { read(descriptor) }) else {
            return descriptor_error("a filter descriptor is NULL");
        };
        // SAFETY: As above.
        let dispatch = unsafe { read(it.Dispatch) }.unwrap_or(KSFILTER_DISPATCH::ZERO);
        read_counted_list(it.PinDescriptorsCount, it.PinDescriptors.is_null(), "pin descriptors")?;
        let size = it.PinDescriptorSize as usize;
        let least = size_of::<KSPIN_DESCRIPTOR_EX>();
        if it.PinDescriptorsCount > 0 && size < least {
            return descriptor_error(format!(
                "a filter's PinDescriptorSize is {size}: it is {least} at \
                 least"
            ));
        }
        let mut pins = Vec::new();
        for at in 0..it.PinDescriptorsCount as usize {
            let pin = it.PinDescriptors.wrapping_byte_add(at * size);
            // SAFETY: As above.
            pins.push(Arc::new(unsafe { PinTable::read(pin) }?));
        }
        Ok(Self {
            address: descriptor.addr(),
            create: dispatch.Create,
            close: dispatch.Close,
            process: dispatch.Process,
            reset: dispatch.Reset,
            dispatch_level: it.Flags & KSFILTER_FLAG_DISPATCH_LEVEL_PROCESSING != 0,
            pins,
        })
    }

    /// Converts to the class driver's descriptor.
    pub(crate) fn describe(&self) -> FilterDescriptor {
        let dispatch = implemented_entries(&[
            (self.create.is_some(), Entry::FilterCreate),
            (self.close.is_some(), Entry::FilterClose),
            (self.process.is_some(), Entry::FilterProcess),
            (self.reset.is_some(), Entry::FilterReset),
        ]);
        let pins = self.pins.iter().map(|pin_table| pin_table.descriptor.clone()).collect();
        FilterDescriptor { dispatch, dispatch_level: self.dispatch_level, pins }
    }
}

impl PinTable {
    /// Reads a pin descriptor.
    ///
    /// # Safety
    ///
    /// As for [`DeviceTable::read`].
    pub(crate) unsafe fn read(descriptor: *const KSPIN_DESCRIPTOR_EX) -> DescriptorResult<Self> {
        // SAFETY: The caller guarantees the same.
        let Some(it) = (unsafe { read(descriptor) }) else {
            return descriptor_error("a pin descriptor is NULL");
        };
        // SAFETY: As above.
        let calls = unsafe { read(it.Dispatch) }.unwrap_or(KSPIN_DISPATCH::ZERO);
        // SAFETY: As above.
        let allocator = unsafe { read(calls.Allocator) }.map(AllocatorTable::new);
        let flow = match it.PinDescriptor.DataFlow {
            KSPIN_DATAFLOW_IN => Flow::In,
            KSPIN_DATAFLOW_OUT => Flow::Out,
            other => {
                return descriptor_error(format!(
                    "the data flow of a pin is {other}: it is 1 or 2"
                ));
            }
        };
        let count = it.PinDescriptor.DataRangesCount;
        read_counted_list(count, it.PinDescriptor.DataRanges.is_null(), "data ranges")?;
        let mut ranges = Vec::new();
        for at in 0..count as usize {
            // SAFETY: As above.
            let range = unsafe { read(it.PinDescriptor.DataRanges.wrapping_add(at)) };
            let range = range.unwrap_or(ptr::null());
            // SAFETY: As above.
            ranges.push((range.addr(), unsafe { format(range) }?));
        }
        // SAFETY: As above.
        let framing = unsafe { framing(it.AllocatorFraming) }?;
        let plain = PinDescriptor {
            dispatch: implemented_entries(&[
                (calls.Create.is_some(), Entry::PinCreate),
                (calls.Close.is_some(), Entry::PinClose),
                (calls.Process.is_some(), Entry::PinProcess),
                (calls.Reset.is_some(), Entry::PinReset),
                (calls.SetDataFormat.is_some(), Entry::PinSetDataFormat),
                (calls.SetDeviceState.is_some(), Entry::PinSetDeviceState),
                (calls.Connect.is_some(), Entry::PinConnect),
                (calls.Disconnect.is_some(), Entry::PinDisconnect),
            ]),
            allocator: allocator.map(AllocatorTable::entries),
            flow,
            formats: ranges.iter().map(|pair| pair.1.clone()).collect(),
            framing,
            flags: FLAGS.iter().filter(|(bit, _)| it.Flags & bit != 0).map(|pair| pair.1).collect(),
            instances_possible: it.InstancesPossible,
            instances_necessary: it.InstancesNecessary,
        };
        Ok(Self {
            address: descriptor.addr(),
            create: calls.Create,
            close: calls.Close,
            process: calls.Process,
            reset: calls.Reset,
            set_format: calls.SetDataFormat,
            set_state: calls.SetDeviceState,
            connect: calls.Connect,
            disconnect: calls.Disconnect,
            allocator,
            communication: it.PinDescriptor.Communication,
            ranges,
            descriptor: plain,
        })
    }
}

impl AllocatorTable {
    fn new(it: KSALLOCATOR_DISPATCH) -> Self {
        Self {
            initialize: it.InitializeAllocator,
            delete: it.DeleteAllocator,
            allocate: it.Allocate,
            free: it.Free,
        }
    }

    fn entries(self) -> Vec<Entry> {
        implemented_entries(&[
            (self.initialize.is_some(), Entry::InitializeAllocator),
            (self.allocate.is_some(), Entry::Allocate),
            (self.free.is_some(), Entry::FreeFrame),
            (self.delete.is_some(), Entry::DeleteAllocator),
        ])
    }
}

const FLAGS: [(u32, PinFlag); 15] = [
    (KSPIN_FLAG_DISPATCH_LEVEL_PROCESSING, PinFlag::DispatchLevelProcessing),
    (KSPIN_FLAG_CRITICAL_PROCESSING, PinFlag::CriticalProcessing),
    (KSPIN_FLAG_HYPERCRITICAL_PROCESSING, PinFlag::HypercriticalProcessing),
    (KSPIN_FLAG_ASYNCHRONOUS_PROCESSING, PinFlag::AsynchronousProcessing),
    (KSPIN_FLAG_DO_NOT_INITIATE_PROCESSING, PinFlag::DoNotInitiateProcessing),
    (KSPIN_FLAG_INITIATE_PROCESSING_ON_EVERY_ARRIVAL, PinFlag::InitiateProcessingOnEveryArrival),
    (KSPIN_FLAG_FRAMES_NOT_REQUIRED_FOR_PROCESSING, PinFlag::FramesNotRequiredForProcessing),
    (KSPIN_FLAG_SOME_FRAMES_REQUIRED_FOR_PROCESSING, PinFlag::SomeFramesRequiredForProcessing),
    (KSPIN_FLAG_ENFORCE_FIFO, PinFlag::EnforceFifo),
    (KSPIN_FLAG_GENERATE_MAPPINGS, PinFlag::GenerateMappings),
    (KSPIN_FLAG_DISTINCT_TRAILING_EDGE, PinFlag::DistinctTrailingEdge),
    (KSPIN_FLAG_PROCESS_IN_RUN_STATE_ONLY, PinFlag::ProcessInRunStateOnly),
    (KSPIN_FLAG_PROCESS_IF_ANY_IN_RUN_STATE, PinFlag::ProcessIfAnyInRunState),
    (KSPIN_FLAG_USE_STANDARD_TRANSPORT, PinFlag::UseStandardTransport),
    (KSPIN_FLAG_DO_NOT_USE_STANDARD_TRANSPORT, PinFlag::DoNotUseStandardTransport),
];

/// Converts a GUID to a number, in the order in which it is written.
pub(crate) fn guid_to_u128(it: GUID) -> u128 {
    u128::from(it.Data1) << 96
        | u128::from(it.Data2) << 80
        | u128::from(it.Data3) << 64
        | u128::from(u64::from_be_bytes(it.Data4))
}

/// Converts a number to a GUID.
#[expect(clippy::cast_possible_truncation, reason = "splits the number into groups")]
fn guid_from_u128(number: u128) -> GUID {
    GUID {
        Data1: (number >> 96) as u32,
        Data2: (number >> 80) as u16,
        Data3: (number >> 64) as u16,
        Data4: (number as u64).to_be_bytes(),
    }
}

/// Reads a format.
///
/// # Safety
///
/// `at` is NULL, or points to a format of as many bytes as its size says.
unsafe fn format(at: *const KSDATAFORMAT) -> DescriptorResult<Format> {
    // SAFETY: The caller guarantees the same.
    let Some(it) = (unsafe { read(at) }) else { return descriptor_error("a data range is NULL") };
    if !(HEAD..=MAX_FORMAT_SIZE).contains(&it.FormatSize) {
        return descriptor_error(format!(
            "the FormatSize of a data range is {}: it is {HEAD} to {MAX_FORMAT_SIZE}",
            it.FormatSize
        ));
    }
    let block = at.wrapping_add(1).cast::<u8>();
    // SAFETY: As above; the pointer is not NULL, so the fallback zero is never used.
    let byte = |at: u32| unsafe { read(block.wrapping_add(at as usize)) }.unwrap_or(0);
    Ok(Format {
        major: guid_to_u128(it.MajorFormat),
        sub_format: guid_to_u128(it.SubFormat),
        specifier: guid_to_u128(it.Specifier),
        sample_size: it.SampleSize,
        block: (0..it.FormatSize - HEAD).map(byte).collect(),
    })
}

/// A format, as the bytes that a driver reads.
pub(crate) fn format_bytes(format: &Format) -> Vec<u8> {
    let (major, sub, specifier) = (
        guid_from_u128(format.major),
        guid_from_u128(format.sub_format),
        guid_from_u128(format.specifier),
    );
    let size = HEAD.saturating_add(u32::try_from(format.block.len()).unwrap_or(0));
    let mut all = Vec::new();
    for driver_handle in [size, 0, format.sample_size, 0] {
        all.extend(driver_handle.to_le_bytes());
    }
    for it in [major, sub, specifier] {
        all.extend(it.Data1.to_le_bytes());
        all.extend(it.Data2.to_le_bytes());
        all.extend(it.Data3.to_le_bytes());
        all.extend(it.Data4);
    }
    all.extend(&format.block);
    all
}

/// Reads a pin's allocator framing.
///
/// # Safety
///
/// `at` is NULL, or points to a framing with as many items as its count says.
pub(crate) unsafe fn framing(
    at: *const KSALLOCATOR_FRAMING_EX,
) -> DescriptorResult<Option<FramingForm>> {
    // SAFETY: The caller guarantees the same.
    let Some(it) = (unsafe { read(at) }) else { return Ok(None) };
    read_counted_list(it.CountItems, false, "items of framing")?;
    let first = at.wrapping_byte_add(std::mem::offset_of!(KSALLOCATOR_FRAMING_EX, FramingItem));
    let first = first.cast::<KS_FRAMING_ITEM>();
    let mut items = Vec::new();
    for at in 0..it.CountItems as usize {
        // SAFETY: As above.
        items.extend(unsafe { read(first.wrapping_add(at)) }.map(framing_item));
    }
    Ok(Some(FramingForm::Extended(ExtendedFraming {
        count: it.CountItems,
        pin_flags: it.PinFlags,
        pin_weight: it.PinWeight,
        items,
    })))
}

fn framing_item(it: KS_FRAMING_ITEM) -> FramingItem {
    let sizes = it.FramingRange.Range;
    FramingItem {
        kind: memory_kind(it.MemoryType),
        can_allocate: it.Flags & KSALLOCATOR_FLAG_CAN_ALLOCATE != 0,
        frames: it.Frames,
        alignment: it.FileAlignment,
        physical: SizeRange {
            min: it.PhysicalRange.MinFrameSize,
            max: it.PhysicalRange.MaxFrameSize,
        },
        framing: SizeRange { min: sizes.MinFrameSize, max: sizes.MaxFrameSize },
    }
}

fn memory_kind(memory: GUID) -> MemoryKind {
    match memory {
        KSMEMORY_TYPE_DONT_CARE | KSMEMORY_TYPE_SYSTEM => MemoryKind::Any,
        KSMEMORY_TYPE_KERNEL_NONPAGED => MemoryKind::NonPaged,
        KSMEMORY_TYPE_KERNEL_PAGED => MemoryKind::Paged,
        KSMEMORY_TYPE_USER => MemoryKind::User,
        _ => MemoryKind::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::ks::{KSDATAFORMAT_TYPE_VIDEO, KSFILTER_DESCRIPTOR as Filter};

    fn refused(descriptor: &KSDEVICE_DESCRIPTOR) -> String {
        // SAFETY: Its pointers are NULL or valid.
        let read = unsafe { DeviceTable::read(ptr::from_ref(descriptor)) };
        read.err().expect("it is refused").0
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_words() {
        // SAFETY: NULL is allowed.
        assert!(unsafe { DeviceTable::read(ptr::null()) }.is_err());
        let mut device =
            KSDEVICE_DESCRIPTOR { FilterDescriptorsCount: 2, ..KSDEVICE_DESCRIPTOR::ZERO };
        assert!(refused(&device).contains("2 filter descriptors, and their pointer is NULL"));
        device.FilterDescriptorsCount = u32::MAX;
        assert!(refused(&device).contains("at most 1024"));
        let pins = [KSPIN_DESCRIPTOR_EX::ZERO];
        let mut filter = Filter { PinDescriptorsCount: 1, ..Filter::ZERO };
        filter.PinDescriptors = pins.as_ptr();
        let list = [ptr::from_ref(&filter)];
        device.FilterDescriptorsCount = 1;
        device.FilterDescriptors = list.as_ptr();
        assert!(refused(&device).contains("PinDescriptorSize is 0"));
        let list: [*const Filter; 1] = [ptr::null()];
        device.FilterDescriptors = list.as_ptr();
        assert_eq!(refused(&device), "a filter descriptor is NULL");
    }

    #[test]
    fn a_format_is_read_back_as_it_was_written() {
        let it = Format {
            major: guid_to_u128(KSDATAFORMAT_TYPE_VIDEO),
            sub_format: 7,
            specifier: 9,
            sample_size: 64,
            block: vec![1, 2, 3],
        };
        let place = crate::ks::driver_memory::DriverMemory::from_bytes(&format_bytes(&it));
        // SAFETY: The memory has as many bytes as the format says.
        assert_eq!(unsafe { format(place.pointer::<KSDATAFORMAT>()) }, Ok(it));
    }
}
