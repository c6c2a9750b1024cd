//! Allocations: pieces of memory a driver described. The adapter owns them, not the device
//! that created them, because a shared resource can outlive its device.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::ddi::miniport::DriverAllocation;
use crate::lifetime::device::Device;
use crate::memory::Extent;
use crate::memory::instances::Instances;
use crate::objects::resource::Resource;
use crate::objects::view::View;

/// A piece of memory (`hAllocation` of the DDI).
#[expect(clippy::struct_excessive_bools, reason = "separate facts, and none excludes another")]
pub struct Allocation {
    pub(crate) adapter: Id<Adapter>,
    /// The device that created it, which may be gone.
    pub(crate) creator: Id<Device>,
    /// The resource it is a member of.
    pub(crate) resource: Option<Id<Resource>>,
    /// The driver's word; taken out by the call that ends it.
    pub(crate) driver_handle: Option<DriverAllocation>,
    /// How many bytes its driver said it has.
    pub(crate) size: u64,
    /// It is a primary, as its client said.
    pub(crate) primary: bool,
    /// Video is captured into it.
    pub(crate) capture: bool,
    /// Its memory, on an adapter that has some: that of its newest instance.
    pub(crate) extent: Option<Id<Extent>>,
    /// Its instances, once a lock has asked for another.
    pub(crate) renames: Option<Box<Instances>>,
    /// Its private data, as the driver left it.
    pub(crate) private: Vec<u8>,
    /// The views that are not closed, by number: its reasons to live.
    pub(crate) views: IdList<View>,
    /// It is being built or ended, so it may have no view.
    pub(crate) in_transition: bool,
    /// Its memory and paging work are given back.
    pub(crate) decommitted: bool,
}
