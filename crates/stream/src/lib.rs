//! The streaming kernel: devices, filters, pins, allocators and frames (`AVStream`). It has never
//! heard of Windows.
//!
//! It is called; it does not run: no thread, clock or global state is in here. Clients call
//! [`Stream`], minidrivers are reached through one funnel ([`funnel`]) and call back through
//! [`Services`], and everything that happens leaves as an event.
//!
//! # Locks
//!
//! There is one, around the world (`lock.rs`). It is held for bookkeeping only: never across a
//! call of a driver, and never while somebody waits. The three mutexes that drivers know
//! (`mutex.rs`) are state of the world, with an order: device, control, processing. A thread
//! parks for one, holding no lock.
#![forbid(unsafe_code)]

mod allocator;
mod bag;
mod cancel;
mod census;
pub mod describe;
mod device;
mod filter;
mod frame;
pub mod framing;
pub mod funnel;
pub mod graph;
mod inject;
mod lock;
pub mod memory;
pub mod minidriver;
mod mutex;
mod pending;
mod pin;
mod pointer;
mod power;
mod process;
mod refused;
pub mod services;
mod state;
mod stream;
pub mod words;
mod world;

pub use bag::BagOf;
pub use describe::{
    BadDescriptor, DeviceDescriptor, FilterDescriptor, Flow, Format, PinDescriptor, PinFlag,
};
pub use device::Plugged;
pub use flight::{Census, Live};
pub use frame::Taken;
pub use framing::{ExtendedFraming, Framing, FramingForm, FramingItem, SimpleFraming, Span, Wish};
pub use funnel::Entry;
pub use graph::Graph;
pub use memory::{FrameMemory, MemoryKind, SystemMemory};
pub use minidriver::{FilterView, Minidriver, PinView, ProcessPin};
pub use mutex::Mutex;
pub use pointer::{PointerKind, PointerView};
pub use power::WakeOrder;
pub use refused::Refused;
pub use services::Services;
pub use stream::Stream;
pub use words::{
    AllocatorId, Answer, BagId, Blank, DeviceId, DriverAllocator, DriverDevice, DriverFilter,
    DriverFrame, DriverPin, FilterId, FrameId, Header, ObjectId, PinId, PointerId, Refusal, State,
    Token,
};
