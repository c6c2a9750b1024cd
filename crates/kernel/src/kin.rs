//! What a driver asks about a client's handle besides its own data, by the names of the process
//! the running call is for: its kin, and where it is.

use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Place;
use crate::miniport::{Answer, Refusal};
use crate::view::{Stage, View};
use crate::world::World;
use flight::{Call, Hex, InCall, Kind, Passive, RuleId, Subject, Who};

const PARENT: &str = "DxgkCbGetHandleParent.hAllocation";
const CAPTURE: &str = "DxgkCbGetCaptureAddress.hAllocation";

impl Kernel {
    /// The name of the resource that an allocation belongs to, if it belongs to one.
    pub(crate) fn parent_of(
        &self,
        _at: &mut Passive,
        adapter: Subject,
        handle: Handle,
    ) -> Option<Handle> {
        let world = self.world.hold();
        let named = world.named_here(handle);
        let broken = match named {
            Some(it) if it.kind == Kind::View => None,
            Some(it) => Some(format!("{} names {it} and no allocation", Hex(handle.0))),
            None => Some(format!("{} names nothing here", Hex(handle.0))),
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_HANDLE_008, Who::Driver, adapter, PARENT, broken);
        let view = named.filter(|_| !refused)?;
        let part_of = world.views.get(view.number)?.part_of?;
        Some(world.resource_views.get(part_of)?.handle)
    }

    /// The name of a member of a resource, counted from zero in the order they were made.
    pub(crate) fn child_of(&self, _at: &mut Passive, handle: Handle, index: u32) -> Option<Handle> {
        let world = self.world.hold();
        let resource = world.named_here(handle).filter(|it| it.kind == Kind::ResourceView)?.number;
        world.member(resource, index as usize)
    }
}

impl Kernel {
    /// Where an allocation is that video is captured into: its segment, from one on, and its
    /// address there.
    pub(crate) fn capture_address(
        &self,
        _at: &mut Passive,
        adapter: Subject,
        handle: Handle,
    ) -> Answer<(u32, u64)> {
        let world = self.world.hold();
        let view = world.named_here(handle).filter(|it| it.kind == Kind::View);
        let it = view.and_then(|it| world.views.get(it.number));
        let it = it.and_then(|it| world.allocations.get(it.allocation));
        let broken = match it {
            Some(it) if it.capture => None,
            Some(_) => Some(format!("{} was not created with Capture", Hex(handle.0))),
            None => Some(format!("{} names no allocation here", Hex(handle.0))),
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_MEM_010, Who::Driver, adapter, CAPTURE, broken);
        let extent = it.filter(|_| !refused).ok_or(Refusal::Invalid)?.extent;
        // WINDOWS: nobody says what is answered where it is in no segment.
        let extent = extent.and_then(|it| world.extents.get(it)).ok_or(Refusal::Unsupported)?;
        let Place::In { segment, .. } = extent.place else { return Err(Refusal::Unsupported) };
        let (_, memory) = world.memory(adapter.number).ok_or(Refusal::Unsupported)?;
        let address = memory.address(extent).ok_or(Refusal::Unsupported)?;
        Ok((u32::try_from(segment + 1).map_err(|_| Refusal::Unsupported)?, address))
    }
}

impl World {
    /// What a name means in the process the running call is for.
    fn named_here(&self, handle: Handle) -> Option<Subject> {
        let Call { process, .. } = InCall::current()?;
        let found = self.processes.get(process?)?.names.find_for_driver(handle)?;
        Some(self.as_view(found))
    }

    /// The name of a member, also of one that the running call is building.
    fn member(&self, resource: u32, index: usize) -> Option<Handle> {
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
