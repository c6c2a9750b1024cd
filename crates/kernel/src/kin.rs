//! Kin: which resource an allocation belongs to, and what belongs to a resource, by the names
//! of the process the running call is for.

use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::view::{Stage, View};
use crate::world::World;
use flight::{Call, Hex, InCall, Kind, Passive, RuleId, Subject, Who};

const PARENT: &str = "DxgkCbGetHandleParent.hAllocation";

impl Kernel {
    /// The name of the resource that an allocation belongs to, if it belongs to one.
    pub(crate) fn parent_of(
        &self,
        _at: &mut Passive,
        adapter: Subject,
        handle: Handle,
    ) -> Option<Handle> {
        let world = self.world.hold();
        let named = InCall::current().and_then(|Call { process, .. }| {
            world.processes.get(process?)?.names.find_for_driver(handle)
        });
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
        let Call { process, .. } = InCall::current()?;
        let named = world.processes.get(process?)?.names.find_for_driver(handle)?;
        let resource = Some(named).filter(|it| it.kind == Kind::ResourceView)?.number;
        world.member(resource, index as usize)
    }
}

impl World {
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
