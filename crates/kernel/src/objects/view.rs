//! Views: allocations as devices have opened them. What a client's handle names is a view.

use crate::base::id_list::Id;
use crate::ddi::miniport::DriverView;
use crate::lifetime::device::Device;
use crate::lifetime::retire::Retirement;
use crate::memory::budget::SegmentGroup;
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::Handle;
use crate::objects::resource::ResourceView;

/// A device's view of an allocation (`hDeviceSpecificAllocation`, and the client's handle).
pub struct View {
    pub(crate) allocation: Id<Allocation>,
    pub(crate) device: Id<Device>,
    /// The device's view of the resource it belongs to.
    pub(crate) part_of: Option<Id<ResourceView>>,
    pub(crate) handle: Handle,
    /// A newer instance of its allocation has another name.
    pub(crate) superseded: bool,
    pub(crate) stage: ViewStage,
    /// The driver's word; taken out by the call that closes it.
    pub(crate) driver_handle: Option<DriverView>,
    /// How often its client asked for it to be resident.
    pub(crate) resident: u32,
    /// It once did.
    pub(crate) was_resident: bool,
    /// Since it is on the list, its client said that the GPU has not written to it.
    pub(crate) not_written: bool,
    /// The part of the memory that its bytes count for in its process, while it is listed.
    pub(crate) charged_group: Option<SegmentGroup>,
    /// How often its client has locked it.
    pub(crate) locks: u32,
    /// What ends it.
    pub(crate) retirement: Option<Id<Retirement>>,
}

/// Where a view is in its life. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewStage {
    /// The driver may use it already, a client not yet.
    Unpublished,
    /// It has its name.
    Live,
    /// Its name is closed: no new use can start.
    Retiring,
    /// Everything its device had queued before has passed, or is disregarded.
    Idle,
}
