//! The functions of a minidriver, and the routines that it registers.
//!
//! Windows documents few of their IRQLs; the caller of each chooses one.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    KSALLOCATOR_FRAMING, KSATTRIBUTE_LIST, KSDATAFORMAT, KSDATARANGE, KSDEVICE, KSFILTER,
    KSFILTERFACTORY, KSHANDSHAKE, KSIDENTIFIER, KSMULTIPLE_ITEM, KSP_PIN, KSPIN,
    KSPROCESSPIN_INDEXENTRY, KSRESOLUTION, KSSTATE, KSSTREAM_POINTER, SYSTEM_POWER_STATE,
};
use crate::miniport::{DEVICE_POWER_STATE, POWER_ACTION};
use crate::{BOOL, BOOLEAN, LARGE_INTEGER, MDL, NTSTATUS, PFILE_OBJECT, PIRP, PVOID};

pub type PFNKSDEVICECREATE = unsafe extern "win64-unwind" fn(Device: *mut KSDEVICE) -> NTSTATUS;

pub type PFNKSDEVICEPNPSTART = unsafe extern "win64-unwind" fn(
    Device: *mut KSDEVICE,
    Irp: PIRP,
    TranslatedResourceList: PVOID,
    UntranslatedResourceList: PVOID,
) -> NTSTATUS;

pub type PFNKSDEVICE = unsafe extern "win64-unwind" fn(Device: *mut KSDEVICE) -> NTSTATUS;

pub type PFNKSDEVICEIRP =
    unsafe extern "win64-unwind" fn(Device: *mut KSDEVICE, Irp: PIRP) -> NTSTATUS;

pub type PFNKSDEVICEIRPVOID = unsafe extern "win64-unwind" fn(Device: *mut KSDEVICE, Irp: PIRP);

pub type PFNKSDEVICEQUERYCAPABILITIES = unsafe extern "win64-unwind" fn(
    Device: *mut KSDEVICE,
    Irp: PIRP,
    Capabilities: PVOID,
) -> NTSTATUS;

pub type PFNKSDEVICEQUERYPOWER = unsafe extern "win64-unwind" fn(
    Device: *mut KSDEVICE,
    Irp: PIRP,
    DeviceTo: DEVICE_POWER_STATE,
    DeviceFrom: DEVICE_POWER_STATE,
    SystemTo: SYSTEM_POWER_STATE,
    SystemFrom: SYSTEM_POWER_STATE,
    Action: POWER_ACTION,
) -> NTSTATUS;

pub type PFNKSDEVICESETPOWER = unsafe extern "win64-unwind" fn(
    Device: *mut KSDEVICE,
    Irp: PIRP,
    To: DEVICE_POWER_STATE,
    From: DEVICE_POWER_STATE,
);

pub type PFNKSFILTERFACTORYVOID =
    unsafe extern "win64-unwind" fn(FilterFactory: *mut KSFILTERFACTORY) -> NTSTATUS;

pub type PFNKSFILTERFACTORYPOWER =
    unsafe extern "win64-unwind" fn(FilterFactory: *mut KSFILTERFACTORY, State: DEVICE_POWER_STATE);

pub type PFNKSFILTERIRP =
    unsafe extern "win64-unwind" fn(Filter: *mut KSFILTER, Irp: PIRP) -> NTSTATUS;

pub type PFNKSFILTERPROCESS = unsafe extern "win64-unwind" fn(
    Filter: *mut KSFILTER,
    ProcessPinsIndex: *mut KSPROCESSPIN_INDEXENTRY,
) -> NTSTATUS;

/// The result is ignored.
pub type PFNKSFILTERVOID = unsafe extern "win64-unwind" fn(Filter: *mut KSFILTER) -> NTSTATUS;

pub type PFNKSFILTERPOWER =
    unsafe extern "win64-unwind" fn(Filter: *mut KSFILTER, State: DEVICE_POWER_STATE);

pub type PFNKSPINIRP = unsafe extern "win64-unwind" fn(Pin: *mut KSPIN, Irp: PIRP) -> NTSTATUS;

pub type PFNKSPIN = unsafe extern "win64-unwind" fn(Pin: *mut KSPIN) -> NTSTATUS;

pub type PFNKSPINVOID = unsafe extern "win64-unwind" fn(Pin: *mut KSPIN);

pub type PFNKSPINSETDATAFORMAT = unsafe extern "win64-unwind" fn(
    Pin: *mut KSPIN,
    OldFormat: *mut KSDATAFORMAT,
    OldAttributeList: *mut KSMULTIPLE_ITEM,
    DataRange: *const KSDATARANGE,
    AttributeRange: *const KSATTRIBUTE_LIST,
) -> NTSTATUS;

pub type PFNKSPINSETDEVICESTATE = unsafe extern "win64-unwind" fn(
    Pin: *mut KSPIN,
    ToState: KSSTATE,
    FromState: KSSTATE,
) -> NTSTATUS;

pub type PFNKSPINPOWER =
    unsafe extern "win64-unwind" fn(Pin: *mut KSPIN, State: DEVICE_POWER_STATE);

pub type PFNKSPINHANDSHAKE = unsafe extern "win64-unwind" fn(
    Pin: *mut KSPIN,
    In: *mut KSHANDSHAKE,
    Out: *mut KSHANDSHAKE,
) -> NTSTATUS;

pub type PFNKSPINFRAMERETURN = unsafe extern "win64-unwind" fn(
    Pin: *mut KSPIN,
    Data: PVOID,
    Size: u32,
    Mdl: *mut MDL,
    Context: PVOID,
    Status: NTSTATUS,
);

pub type PFNKSPINIRPCOMPLETION = unsafe extern "win64-unwind" fn(Pin: *mut KSPIN, Irp: PIRP);

pub type PFNKSPINSETTIMER = unsafe extern "win64-unwind" fn(
    Pin: *mut KSPIN,
    Timer: PVOID,
    DueTime: LARGE_INTEGER,
    Dpc: PVOID,
) -> BOOLEAN;

pub type PFNKSPINCANCELTIMER =
    unsafe extern "win64-unwind" fn(Pin: *mut KSPIN, Timer: PVOID) -> BOOLEAN;

pub type PFNKSPINCORRELATEDTIME =
    unsafe extern "win64-unwind" fn(Pin: *mut KSPIN, SystemTime: *mut i64) -> i64;

pub type PFNKSPINRESOLUTION =
    unsafe extern "win64-unwind" fn(Pin: *mut KSPIN, Resolution: *mut KSRESOLUTION);

/// Of a pin (`AVStrMiniInitializeAllocator`).
pub type PFNKSPININITIALIZEALLOCATOR = unsafe extern "win64-unwind" fn(
    Pin: *mut KSPIN,
    AllocatorFraming: *mut KSALLOCATOR_FRAMING,
    Context: *mut PVOID,
) -> NTSTATUS;

/// Of `KsCreateDefaultAllocatorEx`: the context, or null.
pub type PFNKSINITIALIZEALLOCATOR = unsafe extern "win64-unwind" fn(
    InitialContext: PVOID,
    AllocatorFraming: *mut KSALLOCATOR_FRAMING,
    Context: *mut PVOID,
) -> PVOID;

/// Deletes an allocator (`AVStrMiniDeleteAllocator`).
pub type PFNKSDELETEALLOCATOR = unsafe extern "win64-unwind" fn(Context: PVOID);

/// Allocates a frame (`AVStrMiniAllocateFrame`), or returns null.
pub type PFNKSDEFAULTALLOCATE = unsafe extern "win64-unwind" fn(Context: PVOID) -> PVOID;

/// Frees a frame (`AVStrMiniFreeFrame`).
pub type PFNKSDEFAULTFREE = unsafe extern "win64-unwind" fn(Context: PVOID, Buffer: PVOID);

pub type PFNALLOCATOR_ALLOCATEFRAME =
    unsafe extern "win64-unwind" fn(FileObject: PFILE_OBJECT, Frame: *mut PVOID) -> NTSTATUS;

pub type PFNALLOCATOR_FREEFRAME =
    unsafe extern "win64-unwind" fn(FileObject: PFILE_OBJECT, Frame: PVOID);

/// A clone is cancelled, or its timeout has expired.
pub type PFNKSSTREAMPOINTER = unsafe extern "win64-unwind" fn(StreamPointer: *mut KSSTREAM_POINTER);

pub type PFNKSINTERSECTHANDLER = unsafe extern "win64-unwind" fn(
    Irp: PIRP,
    Pin: *mut KSP_PIN,
    DataRange: *mut KSDATARANGE,
    Data: PVOID,
) -> NTSTATUS;

pub type PFNKSINTERSECTHANDLEREX = unsafe extern "win64-unwind" fn(
    Context: PVOID,
    Irp: PIRP,
    Pin: *mut KSP_PIN,
    DataRange: *mut KSDATARANGE,
    MatchingDataRange: *mut KSDATARANGE,
    DataBufferSize: u32,
    Data: PVOID,
    DataSize: *mut u32,
) -> NTSTATUS;

pub type PFNKSHANDLER =
    unsafe extern "win64-unwind" fn(Irp: PIRP, Request: *mut KSIDENTIFIER, Data: PVOID) -> NTSTATUS;

pub type PFNKSFASTHANDLER = unsafe extern "win64-unwind" fn(
    FileObject: PFILE_OBJECT,
    Request: *mut KSIDENTIFIER,
    RequestLength: u32,
    Data: PVOID,
    DataLength: u32,
    IoStatus: PVOID,
) -> BOOLEAN;

pub type PFNKSADDEVENT =
    unsafe extern "win64-unwind" fn(Irp: PIRP, EventData: PVOID, EventEntry: PVOID) -> NTSTATUS;

pub type PFNKSREMOVEEVENT =
    unsafe extern "win64-unwind" fn(FileObject: PFILE_OBJECT, EventEntry: PVOID);

pub type PFNKSGENERATEEVENTCALLBACK =
    unsafe extern "win64-unwind" fn(Context: PVOID, EventEntry: PVOID) -> BOOLEAN;

pub type PFNKSALLOCATOR =
    unsafe extern "win64-unwind" fn(Irp: PIRP, BufferSize: u32, InputOperation: BOOL) -> NTSTATUS;

/// Frees an item of a bag.
pub type PFNKSFREE = unsafe extern "win64-unwind" fn(Data: PVOID);
