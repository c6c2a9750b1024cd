//! Driver callbacks that query a client's handle: its parent, its children, and its capture
//! address.
//!
//! Handles are resolved in the process of the current call.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{DriverError, DriverResult};
use crate::kernel::Kernel;
use crate::memory::Location;
use crate::objects::handle_table::{Handle, HasHandle, ObjectId};
use crate::objects::resource::ResourceView;
use crate::objects::view::{View, ViewStage};
use crate::state::KernelState;
use flight::{Component, Hex, Passive, RuleId};

const PARENT: &str = "DxgkCbGetHandleParent.hAllocation";
const CAPTURE: &str = "DxgkCbGetCaptureAddress.hAllocation";

impl Kernel {
    /// Returns the handle of the resource that an allocation belongs to, if it belongs to one.
    pub(crate) fn parent_of(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        handle: Handle,
    ) -> Option<Handle> {
        let state = self.state.lock();
        let named = state.find_object(handle);
        let broken = match named {
            Some(ObjectId::View(_)) => None,
            Some(it) => Some(format!(
                "{} is the handle of {}, not of an allocation",
                Hex(handle.0),
                it.subject()
            )),
            None => Some(format!("{} is no handle of this process", Hex(handle.0))),
        };
        self.log.judge(RuleId::CB_HANDLE_008, Component::Driver, adapter.subject(), PARENT, broken);
        // The driver may pass any number.
        let Some(ObjectId::View(view)) = named else { return None };
        let part_of = state.views[view].part_of?;
        Some(state.resource_views[part_of].handle)
    }

    /// Returns the handle of a member of a resource, by its index in creation order.
    pub(crate) fn child_of(&self, _at: &mut Passive, handle: Handle, index: u32) -> Option<Handle> {
        let state = self.state.lock();
        let resource = ResourceView::named_by(state.find_object(handle)?)?;
        state.member_handle(resource, index as usize)
    }
}

impl Kernel {
    /// Returns the segment id (from one) and the address of an allocation that captures video.
    /// Fails if the handle is of no capture allocation, or the allocation is in no segment.
    pub(crate) fn capture_address(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        handle: Handle,
    ) -> DriverResult<(u32, u64)> {
        let state = self.state.lock();
        let object = state.find_object(handle);
        let view = object.and_then(View::named_by);
        let it = view.map(|view| &state.allocations[state.views[view].allocation]);
        let broken = match it {
            Some(it) if it.capture => None,
            Some(_) => Some(format!("{} was not created with Capture", Hex(handle.0))),
            None => Some(match object {
                Some(object) => format!(
                    "{} is the handle of {}, not of an allocation",
                    Hex(handle.0),
                    object.subject()
                ),
                None => format!("{} is no allocation handle of this process", Hex(handle.0)),
            }),
        };
        let error = broken.is_some();
        self.log.judge(RuleId::CB_MEM_010, Component::Driver, adapter.subject(), CAPTURE, broken);
        let extent = it.filter(|_| !error).ok_or(DriverError::Invalid)?.extent;
        // WINDOWS: the status for an allocation in no segment is undocumented.
        let extent = extent
            .and_then(|extent| state.memory.extent(extent))
            .ok_or(DriverError::Unsupported)?;
        let Location::Segment { segment, .. } = extent.location else {
            return Err(DriverError::Unsupported);
        };
        let memory = state.adapter_memory(adapter).ok_or(DriverError::Unsupported)?;
        let address = memory.address(extent).ok_or(DriverError::Unsupported)?;
        Ok((u32::try_from(segment + 1).map_err(|_| DriverError::Unsupported)?, address))
    }
}

impl KernelState {
    /// The handle of a member. Includes members that the current call is creating.
    fn member_handle(&self, resource: Id<ResourceView>, index: usize) -> Option<Handle> {
        let member = |view: &&View| view.stage <= ViewStage::Live && view.part_of == Some(resource);
        let it = self.resource_views.get(resource)?;
        let done = || it.views.iter().filter_map(|view| self.views.get(*view)).filter(member);
        if let Some(it) = done().nth(index) {
            return Some(it.handle);
        }
        let new = |view: &&View| member(view) && view.stage == ViewStage::Unpublished;
        let mut new = self.views.iter().map(|pair| pair.1).filter(new);
        new.nth(index - done().count()).map(|view| view.handle)
    }
}

impl KernelCallbacks {
    /// The handle of the resource that an allocation belongs to (`DxgkCbGetHandleParent`), in the
    /// process that the running call serves.
    pub fn parent_of(&self, at: &mut Passive, allocation: Handle) -> Option<Handle> {
        self.kernel.upgrade()?.parent_of(at, self.adapter, allocation)
    }

    /// The handle of an allocation of a resource (`DxgkCbEnumHandleChildren`), by index from zero.
    /// `None` after the last one.
    pub fn child_of(&self, at: &mut Passive, resource: Handle, index: u32) -> Option<Handle> {
        self.kernel.upgrade()?.child_of(at, resource, index)
    }

    /// The location of a capture allocation (`DxgkCbGetCaptureAddress`): its one-based segment
    /// and its address there.
    pub fn capture_address(
        &self,
        at: &mut Passive,
        allocation: Handle,
    ) -> DriverResult<(u32, u64)> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.capture_address(at, self.adapter, allocation)
    }
}
