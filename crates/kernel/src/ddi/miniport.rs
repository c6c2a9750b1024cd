//! What the kernel asks of a display miniport driver, in plain words.
//!
//! A driver in Rust answers in safe code; `port` answers for a driver with a table. Private
//! data is bytes, and the words a driver gives are [`DriverHandle`]s: lent for a call, or moved into
//! the call that ends what they stand for.

pub use crate::ddi::Miniport;

pub use flight::{DriverError, DriverHandle, DriverResult, HandleSlot};

use crate::ddi::mmu::MmuFeatures;
use crate::ddi::segment::{MemoryFeatures, PlacementRequirements};
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::address::AddressSpace;
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::Handle;
use crate::objects::resource::Resource;
use crate::objects::view::View;
use flight::Fence;
use std::vec::Drain;

/// What a driver is told to interrupt for (`DXGK_INTERRUPT_TYPE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The start of a picture (`DXGK_INTERRUPT_CRTC_VSYNC`).
    Vsync,
    /// A packet done (`DXGK_INTERRUPT_DMA_COMPLETED`): this cannot be switched.
    Completed,
}

/// The driver model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// WDDM 1.x: packets name what they use; one thread of a process at a time.
    One,
    /// WDDM 2.x: addresses are virtual.
    Two,
}

/// What an adapter has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// How many nodes take packets, each with one engine.
    pub nodes: u32,
    /// Its memory. Without any, its driver keeps allocations wherever it likes.
    pub memory: Option<MemoryFeatures>,
    /// How its GPU translates addresses; without, addresses are physical.
    pub mmu: Option<MmuFeatures>,
    /// What its driver does besides taking packets.
    pub scheduling: SchedulingFeatures,
}

/// What a driver does besides taking packets (`DXGK_VIDSCHCAPS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SchedulingFeatures {
    /// It takes packets back when asked (`PreemptionAware`).
    pub preempts: bool,
    /// It frees what a packet has that never reached the hardware (`CancelCommandAware`).
    pub cancellation: bool,
    /// It resets one engine and leaves the others alone (`SupportPerEngineTDR`).
    pub engine_reset: bool,
    /// Its GPU writes fences of 32 bits (`No64BitAtomics`).
    pub fences_32_bit: bool,
}

/// What a client asks of a new context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateContextArgs {
    /// Which node.
    pub node: u32,
    /// Which engine of the node, as a bit.
    pub engine: u32,
    /// It is the system's own: paging commands run in its address space (`SystemContext`).
    pub system: bool,
    /// The client's private data.
    pub private: Vec<u8>,
}

/// A standard allocation: described by the kernel, the private data by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandardAllocationArgs {
    /// How many bytes the surface has.
    pub bytes: u64,
    /// `None`: only say how many bytes each private data will have, in these numbers.
    /// `Some`: fill them in.
    pub private: Option<StandardPrivateData>,
    /// The size of the allocation's private data.
    pub allocation_size: u32,
    /// The size of the resource's private data.
    pub resource_size: u32,
}

/// The private data a driver gives a standard allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardPrivateData {
    /// The allocation's.
    pub allocation: Vec<u8>,
    /// The resource's.
    pub resource: Vec<u8>,
}

/// What one call creates.
pub struct CreateAllocationArgs<'a> {
    /// The allocations, in the client's order.
    pub allocations: Vec<NewAllocation<'a>>,
    /// The resource they belong to, if any.
    pub resource: Option<OwningResource<'a>>,
    /// The resource's private data; the driver may edit it.
    pub private: &'a mut Vec<u8>,
}

/// One allocation to describe.
pub struct NewAllocation<'a> {
    /// Its private data; the driver may edit it, not change its length.
    pub private: &'a mut Vec<u8>,
    /// Whether it is to be shown on a display. WINDOWS: a driver knows it from its private data
    /// only; the kernel knows it from the client.
    pub primary: bool,
    /// Where its word goes.
    pub slot: HandleSlot<'a, Allocation>,
}

/// The resource that new allocations belong to.
pub enum OwningResource<'a> {
    /// A new one: its word goes here.
    New(HandleSlot<'a, Resource>),
    /// One the driver knows: its word is lent, with a blank to change it.
    Existing(&'a DriverResource, HandleSlot<'a, Resource>),
}

/// What a driver described.
pub struct CreatedAllocations {
    /// Each allocation: its word and its shape.
    pub allocations: Vec<(DriverAllocation, AllocationInfo)>,
    /// The resource's word: of a new one, or where a known one's changed.
    pub resource: Option<DriverResource>,
}

/// What a driver says of an allocation (`DXGK_ALLOCATIONINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationInfo {
    /// How many bytes it has.
    pub size: u64,
    /// How its memory is aligned; zero is a page.
    pub alignment: u64,
    /// How many bytes it has in a segment that aligns pitches; zero is "the same".
    pub pitch_aligned_size: u64,
    /// Where it should be, on an adapter with memory.
    pub requirements: PlacementRequirements,
}

/// What a primary looks like (`DXGKARG_DESCRIBEALLOCATION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurfaceInfo {
    /// How many pixels a row has.
    pub width: u32,
    /// How many rows.
    pub height: u32,
    /// The format of a pixel: a number the kernel only passes on, zero if it is not known.
    pub format: i32,
}

/// What one call destroys: members of one resource, or an allocation on its own.
pub struct DestroyAllocationArgs<'a> {
    /// The allocations. Their tokens move into the call.
    pub allocations: Drain<'a, DriverAllocation>,
    /// What becomes of their resource, if they have one.
    pub resource: Option<ResourceDisposition<'a>>,
}

/// What becomes of a resource when members of it are destroyed.
pub enum ResourceDisposition<'a> {
    /// It stays: its word is lent, with a blank to change it.
    Keep(&'a DriverResource, HandleSlot<'a, Resource>),
    /// It goes with the last of them. There is no blank, so no word can come back.
    Destroy(DriverResource),
}

/// What one call opens for a device.
pub struct OpenAllocationArgs<'a> {
    /// The device.
    pub device: &'a DriverDevice,
    /// Each allocation, in order.
    pub views: Vec<NewView<'a>>,
    /// Whether this is part of the create call.
    pub create: bool,
    /// The resource's private data.
    pub private: &'a [u8],
}

/// One view to open.
pub struct NewView<'a> {
    /// The client's name for it, which the driver may use in callbacks at once.
    pub handle: Handle,
    /// The allocation's private data; edits count only in a create call.
    pub private: &'a mut Vec<u8>,
    /// Where its word goes.
    pub slot: HandleSlot<'a, View>,
}

/// A client's private data, for the driver to answer.
pub struct EscapeArgs<'a> {
    /// The device it is about, if it is about one.
    pub device: Option<&'a DriverDevice>,
    /// The context it is about, if it is about one.
    pub context: Option<&'a DriverContext>,
    /// Whether the driver has the adapter to itself, idle: it may touch its hardware
    /// (`HardwareAccess`).
    pub hardware: bool,
    /// The client's flags: a number the kernel only passes on.
    pub flags: u32,
    /// The data; the driver may edit it, not change its length.
    pub private: &'a mut Vec<u8>,
}

/// A packet on its way to the hardware.
#[derive(Clone, Copy)]
pub struct SubmitCommandVirtualArgs<'a> {
    /// The context it belongs to.
    pub context: &'a DriverContext,
    /// The node it goes to.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Where the commands are, in the client's GPU addresses.
    pub commands: u64,
    /// How many bytes of them.
    pub length: u32,
    /// The client's private data.
    pub private: &'a [u8],
}

/// A packet that will never go to the hardware.
#[derive(Clone, Copy)]
pub struct CancelCommandArgs<'a> {
    /// The context it belongs to.
    pub context: &'a DriverContext,
    /// Where the commands are, in the client's GPU addresses.
    pub commands: u64,
    /// How many bytes of them.
    pub length: u32,
    /// The client's private data.
    pub private: &'a [u8],
}

/// Why a driver is asked for what it knows (`DXGKARG_COLLECTDBGINFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectReason {
    /// The GPU does not move, and will be reset.
    Recovery,
    /// It does not move, and the system stops.
    RecoveryFailed,
    /// The system stops for another reason.
    Crash,
}

/// The driver's word for an allocation (`hAllocation`).
pub type DriverAllocation = DriverHandle<Allocation>;
/// The driver's word for a resource (`hResource`).
pub type DriverResource = DriverHandle<Resource>;
/// The driver's word for a device (`hDevice`).
pub type DriverDevice = DriverHandle<Device>;
/// The driver's word for a context (`hContext`).
pub type DriverContext = DriverHandle<Context>;
/// The driver's word for a view (`hDeviceSpecificAllocation`).
pub type DriverView = DriverHandle<View>;

/// The driver's word for a process (`hKmdProcess`).
pub type DriverProcess = DriverHandle<AddressSpace>;
