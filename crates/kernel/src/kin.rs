//! What a driver asks about a client's handle besides its own data, by the names of the process
//! the running call is for: its kin, and where it is.

use crate::handle::{Handle, HasHandle, ObjectId};
use crate::kernel::Kernel;
use crate::memory::Place;
use crate::miniport::{Answer, Refusal};
use crate::resource::ResourceView;
use crate::start::Adapter;
use crate::store::Id;
use crate::view::{Stage, View};
use crate::world::World;
use flight::{Call, Hex, InCall, Passive, RuleId, Who};

const PARENT: &str = "DxgkCbGetHandleParent.hAllocation";
const CAPTURE: &str = "DxgkCbGetCaptureAddress.hAllocation";

impl Kernel {
    /// The name of the resource that an allocation belongs to, if it belongs to one.
    pub(crate) fn parent_of(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        handle: Handle,
    ) -> Option<Handle> {
        let world = self.world.hold();
        let named = world.named_here(handle);
        let broken = match named {
            Some(ObjectId::View(_)) => None,
            Some(it) => Some(format!("{} names {} and no allocation", Hex(handle.0), it.subject())),
            None => Some(format!("{} names nothing here", Hex(handle.0))),
        };
        self.log.judge(RuleId::CB_HANDLE_008, Who::Driver, adapter.subject(), PARENT, broken);
        let Some(ObjectId::View(view)) = named else { return None };
        let part_of = world.views[view].part_of?;
        Some(world.resource_views[part_of].handle)
    }

    /// The name of a member of a resource, counted from zero in the order they were made.
    pub(crate) fn child_of(&self, _at: &mut Passive, handle: Handle, index: u32) -> Option<Handle> {
        let world = self.world.hold();
        let resource = ResourceView::named_by(world.named_here(handle)?)?;
        world.member(resource, index as usize)
    }
}

impl Kernel {
    /// Where an allocation is that video is captured into: its segment, from one on, and its
    /// address there.
    pub(crate) fn capture_address(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        handle: Handle,
    ) -> Answer<(u32, u64)> {
        let world = self.world.hold();
        let view = world.named_here(handle).and_then(View::named_by);
        let it = view.map(|view| &world.allocations[world.views[view].allocation]);
        let broken = match it {
            Some(it) if it.capture => None,
            Some(_) => Some(format!("{} was not created with Capture", Hex(handle.0))),
            None => Some(format!("{} names no allocation here", Hex(handle.0))),
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_MEM_010, Who::Driver, adapter.subject(), CAPTURE, broken);
        let extent = it.filter(|_| !refused).ok_or(Refusal::Invalid)?.extent;
        // WINDOWS: nobody says what is answered where it is in no segment.
        let extent = extent.and_then(|it| world.extents.get(it)).ok_or(Refusal::Unsupported)?;
        let Place::In { segment, .. } = extent.place else { return Err(Refusal::Unsupported) };
        let (_, memory) = world.memory(adapter).ok_or(Refusal::Unsupported)?;
        let address = memory.address(extent).ok_or(Refusal::Unsupported)?;
        Ok((u32::try_from(segment + 1).map_err(|_| Refusal::Unsupported)?, address))
    }
}

impl World {
    /// What a name means in the process the running call is for.
    fn named_here(&self, handle: Handle) -> Option<ObjectId> {
        let Call { process, .. } = InCall::current()?;
        let process = self.processes.find_serial(process?)?;
        let found = self.processes[process].names.find_for_driver(handle)?;
        Some(self.as_view(found))
    }

    /// The name of a member, also of one that the running call is building.
    fn member(&self, resource: Id<ResourceView>, index: usize) -> Option<Handle> {
        let member = |it: &&View| it.stage <= Stage::Live && it.part_of == Some(resource);
        let it = self.resource_views.get(resource)?;
        let done = || it.views.iter().filter_map(|it| self.views.get(*it)).filter(member);
        if let Some(it) = done().nth(index) {
            return Some(it.handle);
        }
        let new = |it: &&View| member(it) && it.stage == Stage::Building;
        let mut new = self.views.iter().map(|it| it.1).filter(new);
        new.nth(index - done().count()).map(|it| it.handle)
    }
}
