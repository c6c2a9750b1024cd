//! Context allocations of running contexts: kept resident while packets are on the hardware,
//! updated, and looked up.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{DriverError, DriverResult};
use crate::ddi::operation::PAGE;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::place::PagingPlan;
use crate::memory::{Extent, Location, PagingOperation, PagingStep, SegmentLocation};
use crate::state::KernelState;
use flight::Subject;
use flight::{Component, EventKind, Passive, RuleId};

/// The context that a node runs, with its device; `None` if it runs none.
type Running = Option<(Id<Context>, Id<Device>)>;

impl Kernel {
    pub(crate) fn update_context_allocation(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        name: usize,
        private: &[u8],
    ) -> DriverResult<()> {
        let argument = "DxgkCbUpdateContextAllocation";
        let extent = {
            let state = &mut *self.state.lock();
            let number = self.judge_kernel_handle(state, adapter, name, argument)?;
            let own = flight::CallGuard::current().is_some_and(|call| call.scheduler);
            let broken = own.then(|| {
                "it was called inside a call of the GPU scheduler's class, and waits for paging \
                 work that needs the same class: the wait would never end"
                    .to_owned()
            });
            self.log.judge(
                RuleId::CB_CTXALLOC_017,
                Component::Driver,
                adapter.subject(),
                argument,
                broken,
            );
            if own {
                return Err(DriverError::Busy);
            }
            let extent = state.memory.context_allocations[number].extent;
            state.hold_extent(extent, true);
            let given = crate::base::digest::digest(private);
            self.log
                .emit(number.subject(), || EventKind::ContextAllocationUpdating { data: given });
            let mut plan = PagingPlan::default();
            if self.plan_page_in(state, extent, &mut plan).is_err() {
                self.undo_plan(state, &mut plan);
                state.hold_extent(extent, false);
                self.start_paging(state, adapter, plan, None);
                return Err(DriverError::NoMemory);
            }
            if let Some(at) = state.segment_location(extent) {
                plan.page_in.push(PagingStep::new(
                    extent,
                    PagingOperation::Update(private.into()),
                    at,
                ));
            }
            self.start_paging(state, adapter, plan, None);
            extent
        };
        let about = adapter;
        let over = |state: &KernelState| {
            state.memory.extents.get(extent).is_none_or(|extent| extent.pending == 0)
        };
        let what = |_: &KernelState| "the update of a context allocation".to_owned();
        // A thread inside a call does not block the reset of the work that it waits for.
        let ends = |state: &KernelState| over(state) || state.is_reset_pending(adapter);
        let ended = self.wait_until(at, about.subject(), what, ends);
        let state = &mut *self.state.lock();
        let done = ended && over(state);
        // Another thread of the driver may have destroyed it meanwhile.
        let Some(it) = state.memory.extents.get(extent) else { return Err(DriverError::Invalid) };
        if done {
            self.log.emit(it.owner.subject(), || EventKind::ContextAllocationUpdated {});
        }
        state.hold_extent(extent, false);
        if done { Ok(()) } else { Err(DriverError::Busy) }
    }

    pub(crate) fn map_context_allocation(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        name: usize,
        first_page: u64,
        pages: u64,
    ) -> Option<u64> {
        let argument = "DxgkCbMapContextAllocation";
        let state = self.state.lock();
        let number = self.judge_kernel_handle(&state, adapter, name, argument).ok()?;
        let it = state.memory.extents.get(state.memory.context_allocations.get(number)?.extent)?;
        let end = first_page.checked_add(pages);
        let broken = (pages == 0 || end.is_none_or(|end| end > it.bytes / PAGE)).then(|| {
            format!(
                "pages {first_page} to {} of {}, which has {}",
                first_page.saturating_add(pages),
                it.owner.subject(),
                it.bytes / PAGE
            )
        });
        let error = broken.is_some();
        self.log.judge(
            RuleId::CB_CTXALLOC_015,
            Component::Driver,
            adapter.subject(),
            argument,
            broken,
        );
        let address = state.adapter_memory(adapter)?.address(it)?;
        (!error).then_some(address + first_page * PAGE)
    }

    /// A node has another context current: the one before is at rest.
    #[expect(clippy::inline_always, reason = "a step of the path of one packet")]
    #[inline(always)]
    pub(crate) fn switch_context(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        node: Subject,
        to: Option<(Id<Context>, Id<Device>)>,
    ) {
        // The adapter may have stopped meanwhile; then it has no nodes.
        let Some(on) = state.adapters.get_mut(adapter) else { return };
        let Some(it) = on.nodes.iter_mut().find(|it| it.subject() == node) else { return };
        if to.is_none() {
            it.switching = false;
        }
        let before = std::mem::replace(&mut it.current, to);
        if before == to && it.interrupted.is_empty() {
            return;
        }
        let interrupted = std::mem::take(&mut it.interrupted);
        if on.memory.is_some() {
            self.release_switched(state, adapter, node, (before, to), interrupted);
        }
    }

    /// Releases what the contexts before a switch held.
    fn release_switched(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        node: Subject,
        (before, to): (Running, Running),
        interrupted: Vec<(Id<Context>, Id<Device>)>,
    ) {
        let nodes = state.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        // A stopped adapter has no nodes.
        let Some(it) = nodes.into_iter().find(|it| it.subject() == node) else { return };
        let held = std::mem::take(&mut it.held_extents);
        let (still_held, held): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(context, _)| it.may_save(|other, _| other == *context));
        it.held_extents = still_held;
        if before != to {
            let to = to.map(|pair| pair.0.subject());
            self.log.emit(node, || EventKind::NodeSwitched { to });
        }
        state.release_extents(held.into_iter().map(|pair| pair.1));
        for (context, _) in before.into_iter().chain(interrupted) {
            state.release_idle_context(adapter, context);
        }
    }
}

impl KernelState {
    /// Makes a context's allocations evictable, if the context is not current on any node.
    pub(crate) fn release_idle_context(&mut self, adapter: Id<Adapter>, context: Id<Context>) {
        let holds = self.contexts.get(context).is_some_and(Context::holds_extents);
        if holds && !self.is_current(adapter, context) {
            let held = std::mem::take(&mut self.contexts[context].held_extents);
            self.release_extents(held);
        }
    }

    /// Releases the extents of a destroyed context. While the context is current on a node, the
    /// node holds them.
    pub(crate) fn release_context(&mut self, adapter: Id<Adapter>, context: Id<Context>) {
        let held = std::mem::take(&mut self.contexts[context].held_extents);
        let nodes = self.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        let mut saving = nodes.filter(|node| node.may_save(|other, _| other == context));
        match saving.next() {
            Some(node) => node
                .held_extents
                .extend(held.into_iter().map(|context_allocation| (context, context_allocation))),
            None => self.release_extents(held),
        }
    }

    /// Drops a context's holds on these extents.
    pub(crate) fn release_extents(
        &mut self,
        held: impl IntoIterator<Item = Id<ContextAllocation>>,
    ) {
        for number in held {
            if let Some(extent) = self
                .memory
                .context_allocations
                .get(number)
                .map(|context_allocation| context_allocation.extent)
            {
                self.hold_extent(extent, false);
            }
        }
    }

    /// Whether all context allocations of a context are resident and held.
    #[inline]
    pub(crate) fn is_ready(&self, context: Id<Context>) -> bool {
        !self.has_context_allocations() || self.are_allocations_ready(context)
    }

    /// Whether a driver has created a context allocation. Most create none.
    #[inline]
    pub(crate) fn has_context_allocations(&self) -> bool {
        !self.memory.context_allocations.is_empty()
    }

    fn are_allocations_ready(&self, context: Id<Context>) -> bool {
        let held = self
            .contexts
            .get(context)
            .map(|context| context.held_extents.as_slice())
            .unwrap_or_default();
        let there = |extent: &Extent| extent.segment().is_some() && extent.pending == 0;
        self.context_allocations_of(context).iter().all(|(number, extent)| {
            held.contains(number) && self.memory.extents.get(*extent).is_some_and(there)
        })
    }

    /// Whether a context has an allocation that is not held for it.
    pub(crate) fn has_more(&self, context: Id<Context>) -> bool {
        let held = self
            .contexts
            .get(context)
            .map(|context| context.held_extents.as_slice())
            .unwrap_or_default();
        self.context_allocations_of(context).iter().any(|(number, _)| !held.contains(number))
    }

    /// The context allocations of a context: its own and its device's.
    pub(crate) fn context_allocations_of(
        &self,
        context: Id<Context>,
    ) -> Vec<(Id<ContextAllocation>, Id<Extent>)> {
        if self.memory.context_allocations.is_empty() {
            return Vec::new();
        }
        // The context may have ended meanwhile.
        let Some(device) = self.contexts.get(context).map(|context| context.device) else {
            return Vec::new();
        };
        let own = self
            .contexts
            .get(context)
            .map(|context| context.context_allocations.as_slice())
            .unwrap_or_default();
        let shared = self
            .devices
            .get(device)
            .map(|device| device.context_allocations.as_slice())
            .unwrap_or_default();
        let extent = |context_allocation: &Id<ContextAllocation>| {
            Some((
                *context_allocation,
                self.memory.context_allocations.get(*context_allocation)?.extent,
            ))
        };
        own.iter().chain(shared).filter_map(extent).collect()
    }

    fn segment_location(&self, extent: Id<Extent>) -> Option<SegmentLocation> {
        match &self.memory.extents.get(extent)?.location {
            Location::Segment { segment, range } => {
                Some(SegmentLocation { segment: *segment, offset: range.start() })
            }
            _ => None,
        }
    }
}

impl Context {
    /// Whether context allocations are held resident for it.
    #[inline]
    pub(crate) fn holds_extents(&self) -> bool {
        !self.held_extents.is_empty()
    }
}

impl KernelCallbacks {
    /// Updates a context allocation with a paging operation that carries `private`, and waits for
    /// it (`DxgkCbUpdateContextAllocation`).
    pub fn update_context_allocation(
        &self,
        at: &mut Passive,
        name: usize,
        private: &[u8],
    ) -> DriverResult<()> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.update_context_allocation(at, self.adapter, name, private)
    }

    /// The GPU address of a context allocation from page `first_page` on
    /// (`DxgkCbMapContextAllocation`).
    pub fn map_context_allocation(
        &self,
        at: &mut Passive,
        name: usize,
        first_page: u64,
        pages: u64,
    ) -> Option<u64> {
        self.kernel.upgrade()?.map_context_allocation(at, self.adapter, name, first_page, pages)
    }
}
