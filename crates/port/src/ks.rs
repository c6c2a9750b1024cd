//! The door for `AVStream` minidrivers with tables: implements [`stream::Minidriver`] for a
//! `KSDEVICE_DESCRIPTOR`, and the `Ks*` functions that the minidriver imports.
//!
//! A minidriver and the class driver share structures (`KSPIN`, `KSSTREAM_POINTER`, ...). They are
//! memory of this door (`driver_memory`), filled before the driver runs and compared afterwards;
//! the class driver itself never reads them. A pointer that the driver passes is looked up in one
//! table (`object`) and not dereferenced before it is found.
//!
//! # Invariants
//!
//! 1. No lock of the door is held while the driver or a service runs.
//! 2. An address identifies one object for as long as its memory is kept: the memory of a destroyed
//!    object is quarantined and filled with a pattern, so that a late use is detected and harmless.

mod bag_calls;
mod clock;
mod descriptor;
pub(crate) mod device_calls;
mod door;
mod driver;
mod driver_memory;
mod export_entry;
mod exports;
mod frame;
mod freed_frames;
mod hierarchy_calls;
mod mapping;
mod memory;
mod mutex_calls;
mod object;
mod pin;
mod pin_calls;
mod pointer_calls;
mod process_pins;
mod request;
mod status;
mod traps;

pub use bag_calls::{
    _KsEdit, KsAddItemToObjectBag, KsAllocateObjectBag, KsCopyObjectBagItems, KsFreeObjectBag,
    KsRemoveItemFromObjectBag,
};
pub use clock::KsPinGetReferenceClockInterface;
pub use device_calls::{
    KsCreateFilterFactory, KsDeviceRegisterAdapterObject, KsFilterCreatePinFactory,
    KsFilterFactorySetDeviceClassesState, KsInitializeDriver,
};
pub use driver::KsDriver;
pub use exports::{FUNCTIONS, KsExport};
pub use hierarchy_calls::{
    KsFilterGetChildPinCount, KsFilterGetFirstChildPin, KsGetDevice, KsGetFirstChild,
    KsGetNextSibling, KsGetParent, KsPinGetParentFilter,
};
pub use memory::PoolMemory;
pub use mutex_calls::{
    KsAcquireControl, KsAcquireDevice, KsFilterAcquireProcessingMutex,
    KsFilterReleaseProcessingMutex, KsPinAcquireProcessingMutex, KsPinReleaseProcessingMutex,
    KsReleaseControl, KsReleaseDevice,
};
pub use pin_calls::{
    KsFilterAttemptProcessing, KsPinAttemptProcessing, KsPinGetAndGate,
    KsPinRegisterFrameReturnCallback, KsPinSubmitFrame,
};
pub use pointer_calls::{
    KsPinGetFirstCloneStreamPointer, KsPinGetLeadingEdgeStreamPointer,
    KsPinGetTrailingEdgeStreamPointer, KsStreamPointerAdvance, KsStreamPointerAdvanceOffsets,
    KsStreamPointerAdvanceOffsetsAndUnlock, KsStreamPointerCancelTimeout, KsStreamPointerClone,
    KsStreamPointerDelete, KsStreamPointerGetIrp, KsStreamPointerGetMdl,
    KsStreamPointerGetNextClone, KsStreamPointerLock, KsStreamPointerScheduleTimeout,
    KsStreamPointerSetStatusCode, KsStreamPointerUnlock,
};
pub use request::{
    KsCompletePendingRequest, KsCreateDefaultAllocatorEx, KsGetFilterFromIrp, KsGetPinFromIrp,
};
