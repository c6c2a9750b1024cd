//! Resources, which group allocations, and the views of devices on them.

use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::{Id, IdSet};
use crate::ddi::miniport::DriverResource;
use crate::lifetime::device::Device;
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;

/// A group of allocations (`hResource` of the DDI).
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Resource {
    pub(crate) adapter: Id<Adapter>,
    /// The driver handle; taken out while a call borrows it, under the resource's permit key.
    pub(crate) driver_handle: Option<DriverResource>,
    /// The value of the driver handle, for a driver that looks it up while a call borrows it.
    pub(crate) handle_value: usize,
    /// Whether other processes may open it. Then no allocation can be added or destroyed
    /// separately.
    pub(crate) shared: bool,
    pub(crate) global: Option<Handle>,
    /// Whether NT handles can be created for it.
    pub(crate) nt_shared: bool,
    /// Number of NT objects, and of opens by an NT handle, that keep it alive.
    pub(crate) nt_holds: u32,
    /// The driver's private data.
    pub(crate) private: Vec<u8>,
    /// Whether the driver supplied the private data, for a standard allocation.
    pub(crate) standard: bool,
    /// Other adapters may open it, too.
    pub(crate) cross_adapter: bool,
    /// The client runtime's private data, unchanged.
    pub(crate) runtime: Vec<u8>,
    /// The allocations that are not destroyed.
    pub(crate) members: IdSet<Allocation>,
    /// The open views. Without any, and if no NT object keeps it alive, the resource is destroyed
    /// with its last allocation.
    pub(crate) views: IdSet<ResourceView>,
}

impl Resource {
    /// Checks that a device of this adapter can open it.
    ///
    /// WINDOWS: a resource is opened on the adapter it was created on, and a cross-adapter resource
    /// on another one, too (documented). The latter is not implemented.
    pub(crate) fn check_adapter(
        &self,
        number: Id<Resource>,
        adapter: Id<Adapter>,
    ) -> Result<(), KernelError> {
        match (self.adapter == adapter, self.cross_adapter) {
            (true, _) => Ok(()),
            (false, false) => Err(KernelError::OtherAdapter(number.subject())),
            (false, true) => Err(KernelError::CrossAdapterOpen(number.subject())),
        }
    }

    /// Whether no device has a view of it, and no NT handle keeps it alive.
    pub(crate) fn is_unreferenced(&self) -> bool {
        self.views.is_empty() && self.nt_holds == 0
    }
}

/// A device's view of a resource (the client's `hResource`).
pub struct ResourceView {
    pub(crate) resource: Id<Resource>,
    pub(crate) device: Id<Device>,
    pub(crate) handle: Handle,
    /// Whether clients can use its handle: false during creation and destruction.
    pub(crate) published: bool,
    /// The open views of its allocations.
    pub(crate) views: IdSet<View>,
    /// Its place in its device's list, once it was published.
    pub(crate) device_index: Option<usize>,
}
