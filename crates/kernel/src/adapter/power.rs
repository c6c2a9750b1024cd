//! Power: an adapter goes to sleep with everything on it, and wakes with everything in place.
//!
//! # Invariants
//!
//! 1. While an adapter sleeps its gate is closed: nobody is inside its driver, and who wants to
//!    be waits. While its power changes only paging work is let in, and what that takes; while
//!    its driver is told of it, nobody.
//! 2. Who sleeps has nothing in memory that loses its bytes: it is in the system's memory, and
//!    comes back to where it was.
//! 3. What the hardware has when its power goes, it loses. So it has nothing then, and is asked
//!    for nothing: that is looked at under the pass its driver is told with.

use crate::adapter::start::{Adapter, AdapterId};
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::place::PagingPlan;
use crate::memory::{Location, SegmentLocation};
use crate::schedule::report::Node;
use crate::state::KernelState;
use flight::{EventKind, Passive};
use std::sync::Arc;

/// What a driver is told of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPowerArgs {
    /// What is to have other power.
    pub of: PowerTarget,
    /// How much.
    pub state: PowerState,
    /// Why.
    pub action: PowerAction,
}

/// What has power of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerTarget {
    /// The adapter (`DISPLAY_ADAPTER_HW_ID`).
    Adapter,
    /// A child of it, by the number its driver gave.
    Child(u32),
}

/// How much power (`DEVICE_POWER_STATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// All: it works.
    D0,
    /// None: what it does not save elsewhere is gone.
    D3,
}

/// Why the power changes (`POWER_ACTION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    /// The adapter alone.
    None,
    /// The machine sleeps.
    Sleep,
    /// The machine hibernates.
    Hibernate,
}

impl PowerState {
    /// Its name in events.
    fn name(self) -> &'static str {
        match self {
            PowerState::D0 => "d0",
            PowerState::D3 => "d3",
        }
    }
}

/// The power of an adapter.
#[derive(Debug, Default)]
pub(crate) enum PowerStatus {
    /// It works.
    #[default]
    On,
    /// Somebody is changing it, and the hardware has power: paging work is let in.
    Changing,
    /// Somebody is changing it, and the hardware has no power, or is about to lose it.
    Notifying,
    /// It sleeps. These had places, and get them back.
    Off(Vec<(Id<Extent>, SegmentLocation)>),
}

impl PowerStatus {
    fn is_changing(&self) -> bool {
        matches!(self, PowerStatus::Changing | PowerStatus::Notifying)
    }

    /// Whether the hardware has it: what has none does not move, and is not late.
    pub(crate) fn is_powered(&self) -> bool {
        matches!(self, PowerStatus::On | PowerStatus::Changing)
    }
}

impl Kernel {
    /// Takes the power from an adapter that runs, when its work is done and its memory is saved.
    /// Answers whether it did: one that sleeps is left alone, and one with paging work that waits
    /// for packets which nothing could send.
    ///
    /// WINDOWS: at level three the GPU is idle and video memory evicted (documented). What a
    /// segment keeps in standby stays there (our reading).
    pub fn power_down(&self, at: &mut Passive, adapter: AdapterId, action: PowerAction) -> bool {
        let number = adapter.0;
        if !self.close_when_idle(at, adapter) {
            return false;
        }
        self.quiesce_nodes(number);
        let mut remaining = Vec::new();
        let entered = self.acquire_quiesced_permit(at, adapter, action, &mut remaining);
        if let Some((permit, driver)) = &entered {
            self.call_set_power(at, driver, permit, PowerState::D3, action);
        }
        let state = &mut *self.state.lock();
        state.change_power(number, PowerStatus::Off(remaining));
        if let Some((permit, _)) = entered {
            permit.release(state);
        }
        self.wake_all(state);
        true
    }

    /// Gives an adapter its power back, and everything its place. Answers whether it slept.
    pub fn power_up(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (remaining, driver) = {
            let mut state = self.state.lock();
            let Some(it) = state.adapters.get_mut(adapter.0) else { return false };
            let PowerStatus::Off(remaining) = &mut it.power else { return false };
            let remaining = std::mem::take(remaining);
            it.power = PowerStatus::Notifying;
            (remaining, it.driver.clone())
        };
        let keys = ThreadingLevel::Three.keys(adapter.0, driver.generation, None);
        let permit = self.acquire_nested_permit(at, &keys);
        if let Ok(permit) = &permit {
            self.call_set_power(at, &driver, permit, PowerState::D0, PowerAction::None);
            self.restore_tables(at, permit, &driver);
        }
        {
            let state = &mut *self.state.lock();
            state.change_power(adapter.0, PowerStatus::Changing);
            let nodes = state.adapters.get_mut(adapter.0).into_iter().flat_map(|it| &mut it.nodes);
            nodes.for_each(|node| node.watch = None); // Its time begins anew.
            if let Ok(permit) = permit {
                permit.release(state);
            }
        }
        self.plan_power_up(adapter.0, remaining);
        self.drain_paging(at, adapter.0);
        self.reopen_permits(adapter);
        true
    }

    /// Closes the gate of an adapter that runs, when its work is done: what it was given, and the
    /// packets that paging work waits for. Answers whether it did.
    fn close_when_idle(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (number, about) = (adapter.0, adapter.subject());
        let awake = |state: &KernelState| {
            let awake = |adapter: &&Adapter| {
                adapter.is_running() && matches!(adapter.power, PowerStatus::On)
            };
            state.adapters.get(number).filter(awake).map(|adapter| adapter.driver.generation)
        };
        let sent = |state: &KernelState| !state.pages_after_packets(number);
        loop {
            let Some(generation) = awake(&self.state.lock()) else { return false };
            let what =
                |_: &KernelState| format!("the packets that paging work of {about} waits for");
            if !self.wait_until(at, about, what, sent) {
                return false;
            }
            let Ok(permit) = self.acquire_idle_permit(at, number, generation) else { return false };
            let state = &mut *self.state.lock();
            // While this waited for its pass, too.
            let closes = awake(state).is_some() && sent(state);
            if closes {
                if let Some(it) = state.adapters.get_mut(number) {
                    it.power = PowerStatus::Changing;
                }
                state.permits.close(number);
            }
            permit.release(state);
            if closes {
                return true;
            }
        }
    }

    /// Waits until nobody changes an adapter's power; then it has some again.
    pub(crate) fn complete_power(&self, at: &mut Passive, adapter: AdapterId) {
        let about = adapter.subject();
        let over = |state: &KernelState| {
            state.adapters.get(adapter.0).is_none_or(|adapter| !adapter.power.is_changing())
        };
        self.wait_until(at, about, |_| format!("the power of {about}"), over);
        self.power_up(at, adapter);
    }

    /// An adapter works again, or never will: who waited for it looks.
    pub(crate) fn reopen_permits(&self, adapter: AdapterId) {
        let mut state = self.state.lock();
        if let Some(it) = state.adapters.get_mut(adapter.0) {
            it.power = PowerStatus::On;
        }
        for token in state.permits.open(adapter.0) {
            self.wake_one(&token);
        }
        self.wake_one(&self.work_available);
        self.wake_all(&mut state);
    }

    /// Waits for a pass to take the power from an adapter with: everything that would be lost is
    /// elsewhere, and its hardware has nothing to do. None, if it was pulled out meanwhile, or
    /// nothing could end the wait.
    fn acquire_quiesced_permit(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        action: PowerAction,
        remaining: &mut Vec<(Id<Extent>, SegmentLocation)>,
    ) -> Option<(DdiPermit<'_>, Arc<Driver>)> {
        let number = adapter.0;
        loop {
            let drained = self.drain_paging(at, number) && self.drain_nodes(at, number);
            // Clients that were in the middle of it may have planned more.
            if self.plan_power_down(number, action, remaining) {
                continue;
            }
            let driver =
                self.state.lock().adapters.get(number).map(|adapter| adapter.driver.clone())?;
            let keys = ThreadingLevel::Three.keys(number, driver.generation, None);
            let permit = self.acquire_nested_permit(at, &keys).ok()?;
            let state = &mut *self.state.lock();
            let changing = |adapter: &Adapter| matches!(adapter.power, PowerStatus::Changing);
            if !state.adapters.get(number).is_some_and(changing) {
                permit.release(state);
                return None;
            }
            // While this waited for its pass, too. What did not end goes with the power.
            if !drained || (state.is_paging_idle(number) && state.are_nodes_quiesced(number)) {
                state.change_power(number, PowerStatus::Notifying);
                return Some((permit, driver));
            }
            permit.release(state);
        }
    }

    /// Waits until no node has anything, or is asked for it. Answers whether that is so.
    fn drain_nodes(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        let over = |state: &KernelState| state.are_nodes_quiesced(adapter);
        self.wait_until(at, adapter.subject(), |_| format!("the nodes of {adapter} to rest"), over)
    }

    fn call_set_power(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        state: PowerState,
        action: PowerAction,
    ) {
        driver.set_power(at, permit, SetPowerArgs { of: PowerTarget::Adapter, state, action });
        self.log.emit(
            driver.adapter.subject(),
            EventKind::AdapterPowered { state: state.name().into() },
        );
    }

    /// No node has a context current any more: what they save into is at rest.
    fn quiesce_nodes(&self, adapter: Id<Adapter>) {
        let state = &mut *self.state.lock();
        let number = adapter;
        if state.memory(number).is_none() {
            return;
        }
        let nodes = state.adapters.get_mut(number).into_iter().flat_map(|it| &mut it.nodes);
        let current =
            |it: &mut Node| it.may_save(|_, _| true) && !std::mem::replace(&mut it.switching, true);
        let places: Vec<usize> =
            nodes.enumerate().filter_map(|(place, it)| current(it).then_some(place)).collect();
        for place in places {
            self.start_switch(state, number, place);
        }
    }

    /// Has everything leave that would lose its bytes. Answers whether anything does.
    fn plan_power_down(
        &self,
        adapter: Id<Adapter>,
        action: PowerAction,
        remaining: &mut Vec<(Id<Extent>, SegmentLocation)>,
    ) -> bool {
        let state = &mut *self.state.lock();
        let placed = state.extents_lost_on_power_down(adapter, action);
        let mut plan = PagingPlan::default();
        let mut any = false;
        for (extent, at) in placed {
            let used = state.extents.get(extent).map(|extent| extent.uses.clone());
            if self.plan_page_out(state, extent, "the power goes", &mut plan) {
                remaining.push((extent, at));
                any = true;
                // Packets that use it were not sent, and are when it is back: it does not wait
                // for them here, but when it leaves for another.
                if let Some((it, used)) = state.extents.get_mut(extent).zip(used) {
                    it.uses = used;
                }
            }
        }
        plan.waits.clear();
        self.start_paging(state, adapter, plan, None);
        any
    }

    /// Has everything come back to where it was, or to another place of the same kind.
    fn plan_power_up(&self, adapter: Id<Adapter>, remaining: Vec<(Id<Extent>, SegmentLocation)>) {
        let state = &mut *self.state.lock();
        let mut plan = PagingPlan::default();
        for (extent, at) in remaining {
            // What was thrown away or has ended meanwhile does not come back.
            if state
                .extents
                .get(extent)
                .is_none_or(|extent| extent.location != Location::System || extent.ending)
            {
                continue;
            }
            if state.allocate_at(extent, at) {
                if !self.plan_page_in_at(state, extent, at, &mut plan) {
                    state.release_location(extent, Location::System);
                }
            } else {
                // Who finds no place is where it was when it slept: in the system's memory.
                let _ = self.plan_page_in(state, extent, &mut plan);
            }
        }
        self.start_paging(state, adapter, plan, None);
    }
}

impl KernelState {
    /// Who changes the power of an adapter gets on with it, unless it was pulled out meanwhile.
    fn change_power(&mut self, adapter: Id<Adapter>, to: PowerStatus) {
        if let Some(it) =
            self.adapters.get_mut(adapter).filter(|adapter| adapter.power.is_changing())
        {
            it.power = to;
        }
    }

    /// Whether no node of an adapter has anything, or is asked for it.
    fn are_nodes_quiesced(&self, adapter: Id<Adapter>) -> bool {
        let rests = |node: &Node| !node.is_busy() && node.resubmit.is_empty();
        self.adapters.get(adapter).is_none_or(|adapter| adapter.nodes.iter().all(rests))
    }

    /// What is in memory that does not keep its bytes without power, and where.
    fn extents_lost_on_power_down(
        &self,
        adapter: Id<Adapter>,
        action: PowerAction,
    ) -> Vec<(Id<Extent>, SegmentLocation)> {
        let Some((extents, memory)) = self.memory(adapter) else { return Vec::new() };
        let keeps = |segment: usize| {
            let flags = memory.segments.get(segment).map(|segment| segment.info.flags);
            flags.is_some_and(|segment_flags| match action {
                PowerAction::Hibernate => segment_flags.preserved_in_hibernate,
                PowerAction::None | PowerAction::Sleep => segment_flags.preserved_in_standby,
            })
        };
        // Page tables stay where they are, and are written again.
        let table = |extent: &Extent| extent.owner.is_table();
        let mine = |extent: &Extent| extent.adapter == adapter && !extent.ending && !table(extent);
        let placed = extents.iter().filter(|(_, it)| mine(it));
        let location = placed.filter_map(|(number, it)| match &it.location {
            Location::Segment { segment, range } if !keeps(*segment) => {
                Some((number, SegmentLocation { segment: *segment, offset: range.start() }))
            }
            Location::Segment { .. } | Location::Unbacked | Location::System => None,
        });
        location.collect()
    }
}
