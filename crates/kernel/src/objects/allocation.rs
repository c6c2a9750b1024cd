//! Allocations: pieces of memory that a driver described. The adapter owns them, not the device
//! that created them, because a shared resource can outlive its device.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::{DriverAllocation, PrivateData};
use crate::lifetime::process::Process;
use crate::memory::Extent;
use crate::memory::instances::Instances;
use crate::objects::resource::Resource;
use crate::objects::view::View;
use smallvec::SmallVec;

/// A number of allocations, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCount {
    /// How many.
    pub count: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl AllocationCount {
    /// Counts an allocation.
    #[inline]
    pub(crate) fn count_one(&mut self, bytes: u64) {
        self.count = self.count.wrapping_add(1);
        // A driver may give an allocation any size.
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// A piece of memory (`hAllocation` of the DDI).
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Allocation {
    pub(crate) adapter: Id<Adapter>,
    /// The process that created it, which may have ended; `None` for the system.
    pub(crate) creator: Option<Id<Process>>,
    /// The resource it belongs to.
    pub(crate) resource: Option<Id<Resource>>,
    /// The driver handle, until the destroy call consumes it.
    pub(crate) driver_handle: Option<DriverAllocation>,
    /// The size in bytes that its driver returned.
    pub(crate) size: u64,
    /// It is a primary, as its client requested.
    pub(crate) primary: bool,
    /// Video is captured into it.
    pub(crate) capture: bool,
    /// Its memory, on an adapter that has memory: that of its newest instance.
    pub(crate) extent: Option<Id<Extent>>,
    /// Its instances, once a lock has renamed it.
    pub(crate) renames: Option<Box<Instances>>,
    /// Its private data, as the driver left it.
    pub(crate) private: PrivateData,
    /// The open views, which keep it alive.
    pub(crate) views: SmallVec<[Id<View>; 2]>,
    /// It is being created or destroyed, so it may have no view.
    pub(crate) in_transition: bool,
    /// Its memory and paging work are released.
    pub(crate) decommitted: bool,
}

impl Allocation {
    /// Whether it has memory, of any instance.
    #[inline]
    pub(crate) fn has_memory(&self) -> bool {
        self.extent.is_some() || self.renames.is_some()
    }
}
