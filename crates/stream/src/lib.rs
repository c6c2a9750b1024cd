//! The streaming kernel (`AVStream`): devices, filters, pins, allocators and frames. It knows no
//! Windows type.
//!
//! The kernel is called and never runs by itself: it has no thread, clock or global state. Clients
//! call [`Stream`]; minidrivers are called in one place (`driver_calls.rs`) and call back through
//! [`Services`]. Every state change is logged as an event.
//!
//! # Invariants
//!
//! 1. One lock guards the state of the kernel (`flight::Lock`). It is held for bookkeeping only: never
//!    across a call of a driver, and never while a thread waits.
//! 2. The three mutexes that drivers know (`mutex.rs`) are state under that lock, and have an
//!    order: device, control, processing. A thread that waits for one parks and holds no lock.
//! 3. An internal id without an object is an internal error. An id that a client or a driver passes
//!    may be stale, and is refused.
#![forbid(unsafe_code)]

mod allocator;
mod bag;
mod cancel;
mod descriptor;
mod device;
mod driver_calls;
mod error;
mod filter;
mod frame;
mod framing;
mod graph;
mod inject;
mod jobs;
mod live_objects;
mod memory;
mod minidriver;
mod mutex;
mod pending;
mod pin;
mod pin_state;
mod pointer;
mod pointer_rules;
mod power;
mod process;
mod services;
mod stream;
mod stream_state;
mod types;
mod work_hint;

#[cfg(test)]
mod tests;

// The kernel, and what clients do with it.
pub use device::DriverSetup;
pub use error::StreamError;
pub use flight::{LiveObject, LiveObjects};
pub use frame::ClientFrame;
pub use framing::FramingRequest;
pub use graph::{Graph, ReceivedFrame};
pub use power::PowerUpOrder;
pub use stream::{Stream, StreamOwner};

// The ids of objects, and the state of pins and frames.
pub use types::{
    AllocatorId, BagId, DeviceId, FilterId, FrameId, Header, ObjectId, PinId, PinState, PointerId,
};

// What a minidriver implements, and the table of its entry points.
pub use driver_calls::{Entry, KsRow, LegalResults, TABLE};
pub use minidriver::{FilterView, Minidriver, PinView, ProcessPin};
pub use types::{
    DriverAllocator, DriverDevice, DriverError, DriverFilter, DriverFrame, DriverHandle, DriverPin,
    DriverResult, HandleSlot,
};

// What a minidriver describes.
pub use descriptor::{
    DescriptorError, DeviceDescriptor, FilterDescriptor, Flow, Format, PinDescriptor, PinFlag,
};
pub use framing::{ExtendedFraming, Framing, FramingForm, FramingItem, SimpleFraming, SizeRange};

// The services that a minidriver calls, and their argument types.
pub use bag::BagOwner;
pub use mutex::KsMutex;
pub use pointer::{PointerKind, PointerView};
pub use services::Services;

// The memory of frames.
pub use memory::{FrameMemory, MemoryKind, SystemMemory};
