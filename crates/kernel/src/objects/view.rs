//! Views: allocations as devices have opened them. A client's allocation handle refers to a view.

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
    /// A newer instance of its allocation has another handle.
    pub(crate) superseded: bool,
    pub(crate) stage: ViewStage,
    /// The driver handle, until the close call consumes it.
    pub(crate) driver_handle: Option<DriverView>,
    /// The residency count of its client.
    pub(crate) resident: u32,
    /// Its client once requested residency.
    pub(crate) was_resident: bool,
    /// Its client has reported, since it was listed, that the GPU has not written to it.
    pub(crate) not_written: bool,
    /// The segment group that its bytes are charged to in its process, while it is listed.
    pub(crate) charged_group: Option<SegmentGroup>,
    /// Number of locks of its client.
    pub(crate) locks: u32,
    /// The retirement that closes it.
    pub(crate) retirement: Option<Id<Retirement>>,
    /// Its place in its device's list of views without a resource.
    pub(crate) standalone_index: Option<u32>,
}

/// The stage of a view. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewStage {
    /// The driver may use it already, a client not yet.
    Unpublished,
    /// Its handle is published.
    Live,
    /// Its handle is closed: no new use can start.
    Retiring,
    /// The work that its device queued before has completed, or is disregarded.
    Idle,
}
