//! Shadows of resources and allocations, and of devices' views of both.

use super::memory::{Memory, MemoryRequirements};
use super::rare::{Rare, Usual};
use super::{Adapter, Call, Device, DriverPointer, Process, Retirement, Serial};
use flight::Subject;

/// Of a resource.
#[derive(Debug)]
pub struct Resource {
    /// The adapter that owns it.
    pub adapter: Serial<Adapter>,
    /// Whether it was created to be opened by a global handle.
    pub global: bool,
    /// Whether it was created for NT handles.
    pub nt: bool,
    /// How many members are not destroyed.
    pub live: u32,
    /// How many of these were passed to the driver, by the last call that passed any.
    pub members_destroyed: u32,
    /// That call.
    pub destroyed_in: Option<Serial<Call>>,
    /// How many devices' views of it are not closed.
    pub views: u32,
    /// The driver's last handle for it.
    pub driver_handle: Option<Serial<DriverPointer>>,
    /// The data for its openers, if it is shared.
    pub data: Option<SharedData>,
}

/// The sizes of a shared resource's data for its openers.
#[derive(Clone, Copy, Debug)]
pub struct SharedData {
    /// Of the runtime's data.
    pub runtime: u64,
    /// Of its members' private data, together.
    pub total: u64,
}

/// Of a device's view of a resource.
#[derive(Debug)]
pub struct ResourceView {
    /// The resource.
    pub resource: Serial<Resource>,
    /// The device it was opened for.
    pub device: Serial<Device>,
}

/// Of an allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The adapter that owns it.
    pub adapter: Serial<Adapter>,
    /// The device that created it.
    pub creator: Serial<Device>,
    /// The process of that device.
    pub creator_process: Option<Serial<Process>>,
    /// Its memory. An allocation of a driver without memory segments has none.
    pub memory: Rare<Memory>,
    /// The resource it is a member of.
    pub resource: Option<Serial<Resource>>,
    /// The driver handle.
    pub driver_handle: Option<Serial<DriverPointer>>,
    /// Whether the driver was called to destroy it, and in which call.
    pub destroyed_in: Option<Option<Serial<Call>>>,
    /// How many views of it are not closed.
    pub views: u32,
    /// How many views of it are not idle.
    pub busy: u32,
    /// How often the driver holds its data.
    pub data_references: u32,
    /// The retirement that closed its last view.
    pub ended_by: Option<Serial<Retirement>>,
}

/// Of an instance of an allocation.
#[derive(Debug)]
pub struct Instance {
    /// The allocation.
    pub allocation: Serial<Allocation>,
    /// The view it was created for.
    pub view: Serial<View>,
    /// The driver handle.
    pub driver_handle: Serial<DriverPointer>,
    /// The driver handle that paging work named last.
    pub built: Option<Serial<DriverPointer>>,
    /// Its memory.
    pub memory: Memory,
}

/// Of a view.
#[derive(Debug)]
pub struct View {
    /// What it is a view of.
    pub allocation: Serial<Allocation>,
    /// The device that has it open.
    pub device: Serial<Device>,
    /// The resource its allocation is a member of.
    pub resource: Option<Serial<Resource>>,
    /// The stage of its end.
    pub stage: ViewStage,
    /// The retirement that ends it.
    pub retirement: Option<Serial<Retirement>>,
    /// The event that requested that retirement; zero if it is not known.
    pub request: u64,
    /// Whether the request assumes that it is not in use.
    pub assumed_idle: bool,
    /// Whether the driver was called to close it.
    pub close_called: bool,
    /// The driver handle.
    pub driver_handle: Option<Serial<DriverPointer>>,
    /// Whether a device of its process created the allocation.
    pub creator: bool,
    /// The driver's requirements for the allocation's memory.
    pub requirements: MemoryRequirements,
    /// How often its client requested residency.
    pub resident: u32,
    /// What its client did with the memory.
    pub memory: Rare<ViewMemory>,
}

/// What a client did with the memory of a view.
#[derive(Debug)]
pub struct ViewMemory {
    /// The event of the last request for a lock.
    pub lock_requested: u64,
    /// Whether its client promised, since it is listed, that the GPU has not written to it.
    pub not_written: bool,
    /// The event of its offer.
    pub offered: u64,
    /// Whether it was reclaimed, to be mapped into an aperture, and not locked since.
    pub reclaimed: bool,
    /// The newest instance of the allocation, if that is not the allocation itself.
    pub instance: Option<Serial<Instance>>,
}

impl ViewMemory {
    const UNUSED: Self = Self {
        lock_requested: 0,
        not_written: false,
        offered: 0,
        reclaimed: false,
        instance: None,
    };
}

impl Usual for ViewMemory {
    const USUAL: &'static Self = &Self::UNUSED;

    fn usual() -> Self {
        Self::UNUSED
    }
}

/// The stage of a view's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewStage {
    /// Its handle is open.
    Live,
    /// Its handle is closed.
    Retiring,
    /// Nothing uses it.
    Idle,
}

impl View {
    /// Whether something may still use it.
    pub(crate) fn is_busy(&self) -> bool {
        self.stage != ViewStage::Idle
    }

    /// Whether it ends, is assumed not to be in use and is not idle.
    pub(crate) fn is_hasty(&self) -> bool {
        self.stage == ViewStage::Retiring && self.assumed_idle
    }

    /// What has its memory: the allocation, or the newest instance of it.
    pub fn newest(&self) -> Subject {
        self.memory.instance.map_or(self.allocation.into(), Subject::from)
    }
}

impl Resource {
    /// How many members are live that `call` does not end.
    pub fn members_outside(&self, call: Option<Serial<Call>>) -> u32 {
        let ended = if self.destroyed_in == call { self.members_destroyed } else { 0 };
        self.live.saturating_sub(ended)
    }
}
