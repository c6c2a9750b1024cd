//! The door for streaming minidrivers (`AVStream`) with tables: [`stream::Minidriver`] over a
//! `KSDEVICE_DESCRIPTOR`, and the `Ks*` functions on the way back.
//!
//! A minidriver and the class driver share structures (`KSPIN`, `KSSTREAM_POINTER`, ...). They are
//! memory of this door's (`place`), filled before the driver runs and looked at after; the class
//! driver itself never reads them. A pointer that comes back is looked up in one table
//! (`object`) and not followed before it is known.
//!
//! # Invariants
//!
//! 1. No lock of the door's is held while the driver or a service runs.
//! 2. An address names one thing for as long as its memory is kept: what has ended rests, filled
//!    with a pattern, so that a late use is seen and hurts nobody.

mod bag_calls;
mod clock;
mod descriptor;
mod device_calls;
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
