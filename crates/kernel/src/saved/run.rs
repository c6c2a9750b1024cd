//! Context allocations of contexts that run: there when a packet goes to the hardware, and kept
//! there; brought up to date, and found.

use crate::context::Context;
use crate::kernel::Kernel;
use crate::memory::place::Plan;
use crate::memory::{Extent, Move, Place, Spotted, Step};
use crate::miniport::{Answer, Refusal};
use crate::operation::PAGE;
use crate::saved::Saved;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, RuleId, What, Who};

impl Kernel {
    pub(crate) fn update_context_memory(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        name: usize,
        private: &[u8],
    ) -> Answer<()> {
        let place = "DxgkCbUpdateContextAllocation";
        let extent = {
            let world = &mut *self.world.hold();
            let number = self.judge_name(world, adapter, name, place)?;
            let own = flight::InCall::current().is_some_and(|it| it.scheduler);
            let broken = own.then(|| {
                "it was called inside a call of the GPU scheduler's class, and waits for paging \
                 work that needs the same class: it would never end"
                    .to_owned()
            });
            self.log.judge(RuleId::CB_CTXALLOC_017, Who::Driver, adapter.subject(), place, broken);
            if own {
                return Err(Refusal::Busy);
            }
            let extent = world.saved[number].extent;
            world.hold_extent(extent, true);
            let given = crate::create::digest(private);
            self.log.emit(number.subject(), What::SavedUpdating { given });
            let mut plan = Plan::default();
            if self.plan_in(world, extent, &mut plan).is_err() {
                self.unplan(world, &mut plan);
                world.hold_extent(extent, false);
                self.start_paging(world, adapter, plan, None);
                return Err(Refusal::NoMemory);
            }
            if let Some(at) = world.spotted(extent) {
                plan.come.push(Step::new(extent, Move::Update(private.into()), at));
            }
            self.start_paging(world, adapter, plan, None);
            extent
        };
        let about = adapter;
        let over = |it: &World| it.extents.get(extent).is_none_or(|it| it.pending == 0);
        let what = |_: &World| "the update of a context allocation".to_owned();
        // Who is inside a call does not hold up the reset of what it waits for.
        let ends = |it: &World| over(it) || it.is_to_be_reset(adapter);
        let ended = self.wait_until(at, about.subject(), what, ends);
        let world = &mut *self.world.hold();
        let done = ended && over(world);
        if let Some(it) = world.extents.get(extent).filter(|_| done) {
            self.log.emit(it.owner.subject(), What::SavedUpdated {});
        }
        world.hold_extent(extent, false);
        if done { Ok(()) } else { Err(Refusal::Busy) }
    }

    pub(crate) fn map_context_memory(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        name: usize,
        first_page: u64,
        pages: u64,
    ) -> Option<u64> {
        let place = "DxgkCbMapContextAllocation";
        let world = self.world.hold();
        let number = self.judge_name(&world, adapter, name, place).ok()?;
        let it = world.extents.get(world.saved.get(number)?.extent)?;
        let end = first_page.checked_add(pages);
        let broken = (pages == 0 || end.is_none_or(|end| end > it.bytes / PAGE)).then(|| {
            format!(
                "pages {first_page} to {} of {}, which has {}",
                first_page.saturating_add(pages),
                it.owner.subject(),
                it.bytes / PAGE
            )
        });
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_015, Who::Driver, adapter.subject(), place, broken);
        let address = world.memory(adapter)?.1.address(it)?;
        (!refused).then_some(address + first_page * PAGE)
    }
}

impl World {
    /// What a context saves into may be moved, if the context is current nowhere any more.
    pub(crate) fn rest_context(&mut self, adapter: Id<Adapter>, context: Id<Context>) {
        let holds = self.contexts.get(context).is_some_and(|it| !it.holding.is_empty());
        if holds && !self.is_current(adapter, context) {
            let held = self.contexts.get_mut(context).map(|it| std::mem::take(&mut it.holding));
            self.let_go(held.unwrap_or_default());
        }
    }

    /// A context is gone. While it is current on a node, that holds for it what it held.
    pub(crate) fn leave_context(&mut self, adapter: Id<Adapter>, context: Id<Context>) {
        let held = self.contexts.get_mut(context).map(|it| std::mem::take(&mut it.holding));
        let held = held.unwrap_or_default();
        let nodes = self.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        let mut saving = nodes.filter(|it| it.may_save(|other, _| other == context));
        match saving.next() {
            Some(node) => node.holding.extend(held.into_iter().map(|it| (context, it))),
            None => self.let_go(held),
        }
    }

    /// Nobody holds these any more for a context.
    pub(crate) fn let_go(&mut self, held: impl IntoIterator<Item = Id<Saved>>) {
        for number in held {
            if let Some(extent) = self.saved.get(number).map(|it| it.extent) {
                self.hold_extent(extent, false);
            }
        }
    }

    /// Whether all that a context saves into is there, and stays.
    pub(crate) fn is_ready(&self, context: Id<Context>) -> bool {
        if self.saved.is_empty() {
            return true;
        }
        let held = self.contexts.get(context).map(|it| it.holding.as_slice()).unwrap_or_default();
        let there = |it: &Extent| it.segment().is_some() && it.pending == 0;
        self.saved_for(context).iter().all(|(number, extent)| {
            held.contains(number) && self.extents.get(*extent).is_some_and(there)
        })
    }

    /// Whether a context's engine saves into something that is not held for it.
    pub(crate) fn has_more(&self, context: Id<Context>) -> bool {
        let held = self.contexts.get(context).map(|it| it.holding.as_slice()).unwrap_or_default();
        self.saved_for(context).iter().any(|(number, _)| !held.contains(number))
    }

    /// What a context's engine saves into: its own, and its device's.
    pub(crate) fn saved_for(&self, context: Id<Context>) -> Vec<(Id<Saved>, Id<Extent>)> {
        if self.saved.is_empty() {
            return Vec::new();
        }
        let Some(device) = self.contexts.get(context).map(|it| it.device) else {
            return Vec::new();
        };
        let own = self.contexts.get(context).map(|it| it.saved.as_slice()).unwrap_or_default();
        let shared = self.devices.get(device).map(|it| it.saved.as_slice()).unwrap_or_default();
        let extent = |it: &Id<Saved>| Some((*it, self.saved.get(*it)?.extent));
        own.iter().chain(shared).filter_map(extent).collect()
    }

    fn spotted(&self, extent: Id<Extent>) -> Option<Spotted> {
        match &self.extents.get(extent)?.place {
            Place::In { segment, spot } => {
                Some(Spotted { segment: *segment, offset: spot.start() })
            }
            _ => None,
        }
    }
}
