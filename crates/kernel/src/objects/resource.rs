//! Resources: allocations that belong together; and devices' views of them.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::DriverResource;
use crate::lifetime::device::Device;
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;
use std::collections::BTreeSet;

/// A group of allocations (`hResource` of the DDI).
pub struct Resource {
    pub(crate) adapter: Id<Adapter>,
    /// The driver's word; taken out while it is lent, under the resource's key.
    pub(crate) driver_handle: Option<DriverResource>,
    /// What the word says, for a driver that looks it up while it is lent.
    pub(crate) handle_value: usize,
    /// Whether others may open it. Then it is closed to growth, and its members are inseparable.
    pub(crate) shared: bool,
    pub(crate) global: Option<Handle>,
    /// The driver's private data.
    pub(crate) private: Vec<u8>,
    /// Whether the driver supplied that: it is of a standard allocation.
    pub(crate) standard: bool,
    /// The client runtime's private data, kept as it was given.
    pub(crate) runtime: Vec<u8>,
    /// The allocations that are not gone.
    pub(crate) members: BTreeSet<Id<Allocation>>,
    /// The views that are not closed. With none left, it ends with its last member.
    pub(crate) views: BTreeSet<Id<ResourceView>>,
}

/// A device's view of a resource (the client's `hResource`).
pub struct ResourceView {
    pub(crate) resource: Id<Resource>,
    pub(crate) device: Id<Device>,
    pub(crate) handle: Handle,
    /// Whether clients can use its name: not yet while it is built, not any more when it ends.
    pub(crate) published: bool,
    /// The views of members that are not closed.
    pub(crate) views: BTreeSet<Id<View>>,
}
