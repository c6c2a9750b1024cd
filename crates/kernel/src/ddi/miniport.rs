//! The arguments and results of a display miniport driver's calls, in Rust types.
//!
//! A Rust driver implements the calls in safe code; `port` implements them for a driver with a C
//! table. Private data is bytes. Driver handles are [`DriverHandle`]s: borrowed for a call, or
//! moved into the call that destroys the object.

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
use smallvec::{Array, SmallVec};

/// What one call is about: nearly always one object, and one needs no heap.
pub type CallList<T> = SmallVec<[T; 1]>;

/// Collects a short list, mostly of one element, with fewer instructions than
/// `Iterator::collect`, which prepares for many.
#[inline]
pub fn collect_few<A: Array>(items: impl IntoIterator<Item = A::Item>) -> SmallVec<A> {
    let mut list = SmallVec::new();
    for item in items {
        list.push(item);
    }
    list
}

/// Driver handles that a call consumes, in order. Handles that the driver does not take are gone
/// all the same.
pub struct Drain<'a, T>(std::slice::IterMut<'a, Option<T>>);

impl<'a, T> Drain<'a, T> {
    /// The handles in a list, all of which must still be there: a driver that passes a call on to
    /// another driver makes one.
    pub fn new(handles: &'a mut [Option<T>]) -> Self {
        Self(handles.iter_mut())
    }
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.0.next().and_then(Option::take)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Drain<'_, T> {}

/// Private driver data. Short data needs no heap.
pub type PrivateData = SmallVec<[u8; 32]>;

/// An interrupt that a driver enables or disables (`DXGK_INTERRUPT_TYPE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Vertical sync (`DXGK_INTERRUPT_CRTC_VSYNC`).
    Vsync,
    /// Packet completion (`DXGK_INTERRUPT_DMA_COMPLETED`). It cannot be disabled.
    Completed,
}

/// The driver model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// WDDM 1.x: packets list the allocations they use; one thread per process at a time.
    One,
    /// WDDM 2.x: addresses are virtual.
    Two,
}

/// A version of WDDM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WddmVersion {
    /// The number in front of the point.
    pub major: u32,
    /// The number behind the point.
    pub minor: u32,
}

impl Generation {
    /// The newest version of the model that is flown.
    pub(crate) fn newest_version(self) -> WddmVersion {
        let (major, minor) = match self {
            Generation::One => (1, 3),
            Generation::Two => (3, 1),
        };
        WddmVersion { major, minor }
    }
}

/// The kind of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// It renders, and may display.
    #[default]
    Full,
    /// It renders and has no display output (`ComputeOnly`).
    ComputeOnly,
    /// It displays and does not render (`KMDDOD_INITIALIZATION_DATA`).
    DisplayOnly,
}

/// The features of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Number of nodes that execute packets, each with one engine.
    pub nodes: u32,
    /// The adapter's memory. Without it, the driver places allocations itself.
    pub memory: Option<MemoryFeatures>,
    /// The GPU's address translation. Without it, addresses are physical.
    pub mmu: Option<MmuFeatures>,
    /// Scheduling features of the driver.
    pub scheduling: SchedulingFeatures,
}

/// Scheduling features of a driver (`DXGK_VIDSCHCAPS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct SchedulingFeatures {
    /// Packets can be preempted (`PreemptionAware`).
    pub preempts: bool,
    /// The driver frees the data of packets that never reach the hardware (`CancelCommandAware`).
    pub cancellation: bool,
    /// One engine can be reset without the others (`SupportPerEngineTDR`).
    pub engine_reset: bool,
    /// The GPU writes 32-bit fences (`No64BitAtomics`).
    pub fences_32_bit: bool,
}

/// A client's request for a new context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateContextArgs {
    /// The node.
    pub node: u32,
    /// The engine of the node, as a bit.
    pub engine: u32,
    /// It is the system context: paging commands run in its address space (`SystemContext`).
    pub system: bool,
    /// The client's private data.
    pub private: Vec<u8>,
}

/// A standard allocation: the kernel describes it, the driver provides the private data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandardAllocationArgs {
    /// Size of the surface in bytes.
    pub bytes: u64,
    /// `None`: the driver only returns the sizes of the private data in the fields below. `Some`:
    /// the driver fills in the data.
    pub private: Option<StandardPrivateData>,
    /// The size of the allocation's private data.
    pub allocation_size: u32,
    /// The size of the resource's private data.
    pub resource_size: u32,
}

/// A driver's private data of a standard allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardPrivateData {
    /// The allocation's private data.
    pub allocation: Vec<u8>,
    /// The resource's private data.
    pub resource: Vec<u8>,
}

/// Arguments of a create call (`DXGKARG_CREATEALLOCATION`).
pub struct CreateAllocationArgs<'a> {
    /// The allocations, in the client's order. The driver fills each.
    pub allocations: CallList<NewAllocation<'a>>,
    /// The resource they belong to, if any.
    pub resource: Option<OwningResource<'a>>,
    /// The resource's private data; the driver may edit it.
    pub private: &'a mut [u8],
}

/// One allocation to create. What the driver returns for it is written in place, because a
/// description is large.
pub struct NewAllocation<'a> {
    /// Its private data. The driver may edit it.
    pub private: &'a mut [u8],
    /// Whether it is a primary, to be shown on a display. WINDOWS: a driver knows this only from
    /// its private data; the kernel knows it from the client.
    pub primary: bool,
    /// Its driver handle, once the driver has created it.
    pub(crate) driver_handle: Option<DriverAllocation>,
    /// The driver's description of it.
    pub info: AllocationInfo,
}

impl<'a> NewAllocation<'a> {
    #[inline]
    pub(crate) fn new(private: &'a mut [u8], primary: bool) -> Self {
        Self { private, primary, driver_handle: None, info: AllocationInfo::default() }
    }

    /// Sets the driver handle and the description.
    #[inline]
    pub fn fill(&mut self, driver_handle: usize, info: AllocationInfo) {
        self.info = info;
        self.set_driver_handle(driver_handle);
    }

    /// Sets the driver handle of an allocation that is described already. Without one, the
    /// allocation is not created.
    #[inline]
    pub fn set_driver_handle(&mut self, driver_handle: usize) {
        self.driver_handle = Some(HandleSlot::new().fill(driver_handle));
    }
}

/// The resource that new allocations belong to.
pub enum OwningResource<'a> {
    /// A new resource: its driver handle goes here.
    New(HandleSlot<'a, Resource>),
    /// An existing resource: its driver handle, with a slot to replace it.
    Existing(&'a DriverResource, HandleSlot<'a, Resource>),
}

/// A driver's description of an allocation (`DXGK_ALLOCATIONINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationInfo {
    /// Size in bytes.
    pub size: u64,
    /// Alignment of its memory; zero means a page.
    pub alignment: u64,
    /// Size in bytes in a segment that aligns pitches; zero means the same size.
    pub pitch_aligned_size: u64,
    /// Placement requirements, for an adapter with memory.
    pub requirements: PlacementRequirements,
}

/// The description of a primary (`DXGKARG_DESCRIBEALLOCATION`). A member is `None` if a driver with a
/// function table has not set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurfaceInfo {
    /// Pixels per row.
    pub width: Option<u32>,
    /// Number of rows.
    pub height: Option<u32>,
    /// The pixel format: a number that the kernel only passes on, zero if unknown.
    pub format: Option<i32>,
}

/// Arguments of a destroy call: allocations of one resource, or one standalone allocation
/// (`DXGKARG_DESTROYALLOCATION`).
pub struct DestroyAllocationArgs<'a> {
    /// The allocations. Their driver handles are consumed by the call.
    pub allocations: Drain<'a, DriverAllocation>,
    /// What happens to their resource, if they belong to one.
    pub resource: Option<ResourceDisposition<'a>>,
}

/// What happens to a resource when allocations of it are destroyed.
pub enum ResourceDisposition<'a> {
    /// The resource stays: its driver handle, with a slot to replace it.
    Keep(&'a DriverResource, HandleSlot<'a, Resource>),
    /// The resource is destroyed with its last allocations. There is no slot, so the driver cannot
    /// return a new handle.
    Destroy(DriverResource),
}

/// Arguments of an open call for a device (`DXGKARG_OPENALLOCATION`).
pub struct OpenAllocationArgs<'a> {
    /// The device.
    pub device: &'a DriverDevice,
    /// Each allocation, in order. The driver fills each.
    pub views: CallList<NewView<'a>>,
    /// Whether this is part of the create call.
    pub create: bool,
    /// Whether the device may only read: it is opened through an NT handle without write access.
    pub read_only: bool,
    /// The resource's private data.
    pub private: &'a [u8],
}

/// One view to open.
pub struct NewView<'a> {
    /// The client's handle. The driver may use it in callbacks at once.
    pub handle: Handle,
    /// The allocation's private data. Edits take effect only in a create call.
    pub private: &'a mut [u8],
    /// Its driver handle, once the driver has opened it.
    pub(crate) driver_handle: Option<DriverView>,
}

impl<'a> NewView<'a> {
    #[inline]
    pub(crate) fn new(handle: Handle, private: &'a mut [u8]) -> Self {
        Self { handle, private, driver_handle: None }
    }

    /// Sets the driver handle. Without this, it is NULL.
    #[inline]
    pub fn fill(&mut self, driver_handle: usize) {
        self.driver_handle = Some(HandleSlot::new().fill(driver_handle));
    }
}

/// Arguments of an escape call (`DXGKARG_ESCAPE`). The driver replies in the private data.
pub struct EscapeArgs<'a> {
    /// The device, if the client passed one.
    pub device: Option<&'a DriverDevice>,
    /// The context, if the client passed one.
    pub context: Option<&'a DriverContext>,
    /// Whether the driver has exclusive use of the idle adapter and may touch its hardware
    /// (`HardwareAccess`).
    pub hardware: bool,
    /// The client's flags: a number that the kernel only passes on.
    pub flags: u32,
    /// The data. The driver may edit it, but not change its length.
    pub private: &'a mut Vec<u8>,
}

/// A packet to submit to the hardware.
#[derive(Clone, Copy)]
pub struct SubmitCommandVirtualArgs<'a> {
    /// The context it belongs to.
    pub context: &'a DriverContext,
    /// The node it goes to.
    pub node: u32,
    /// Its fence on that node.
    pub fence: Fence,
    /// GPU virtual address of the commands.
    pub commands: u64,
    /// Length of the commands in bytes.
    pub length: u32,
    /// The client's private data.
    pub private: &'a [u8],
}

/// A packet that will never be submitted to the hardware.
#[derive(Clone, Copy)]
pub struct CancelCommandArgs<'a> {
    /// The context it belongs to.
    pub context: &'a DriverContext,
    /// GPU virtual address of the commands.
    pub commands: u64,
    /// Length of the commands in bytes.
    pub length: u32,
    /// The client's private data.
    pub private: &'a [u8],
}

/// Why debug information is collected (`DXGKARG_COLLECTDBGINFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectReason {
    /// The GPU makes no progress and will be reset.
    Recovery,
    /// The GPU makes no progress and the system stops.
    RecoveryFailed,
    /// The system stops for another reason.
    Crash,
}

/// The driver handle of an allocation (`hAllocation`).
pub type DriverAllocation = DriverHandle<Allocation>;
/// The driver handle of a resource (`hResource`).
pub type DriverResource = DriverHandle<Resource>;
/// The driver handle of a device (`hDevice`).
pub type DriverDevice = DriverHandle<Device>;
/// The driver handle of a context (`hContext`).
pub type DriverContext = DriverHandle<Context>;
/// The driver handle of a view (`hDeviceSpecificAllocation`).
pub type DriverView = DriverHandle<View>;

/// The driver handle of a process (`hKmdProcess`).
pub type DriverProcess = DriverHandle<AddressSpace>;
