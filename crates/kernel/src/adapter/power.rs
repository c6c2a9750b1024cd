//! Power management: suspending and resuming an adapter.
//!
//! # Invariants
//!
//! 1. While an adapter is off, its permit table is closed: no thread is inside the driver, and a
//!    thread that requests a permit waits. While the power changes, only paging work and the calls
//!    it needs get a permit; while the driver is being notified, no thread does.
//! 2. While an adapter is off, no allocation is in memory that loses its contents. Those
//!    allocations are in system memory, and return to their previous locations on resume.
//! 3. Hardware loses the work it holds when its power is removed. Therefore the hardware holds no
//!    work then, and none is requested. This is checked under the permit for the driver's
//!    notification.

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

/// Arguments of `DxgkDdiSetPowerState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPowerArgs {
    /// The hardware whose power changes.
    pub of: PowerTarget,
    /// The new power state.
    pub state: PowerState,
    /// Why the power changes.
    pub action: PowerAction,
}

/// Hardware with its own power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerTarget {
    /// The adapter (`DISPLAY_ADAPTER_HW_ID`).
    Adapter,
    /// A child device, by the number that the driver assigned.
    Child(u32),
}

/// A power state (`DEVICE_POWER_STATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// Fully on.
    D0,
    /// Off: contents that are not saved elsewhere are lost.
    D3,
}

/// Why the power changes (`POWER_ACTION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    /// Only the adapter changes its power.
    None,
    /// The machine enters sleep.
    Sleep,
    /// The machine enters hibernation.
    Hibernate,
}

impl PowerState {
    /// The state's name in events.
    fn name(self) -> &'static str {
        match self {
            PowerState::D0 => "d0",
            PowerState::D3 => "d3",
        }
    }
}

/// The power of an adapter, as the kernel tracks it.
#[derive(Debug, Default)]
pub(crate) enum PowerStatus {
    /// The adapter is on.
    #[default]
    On,
    /// The power is changing, and the hardware has power: paging work gets permits.
    Changing,
    /// The power is changing, and the hardware has no power or is about to lose it.
    Notifying,
    /// The adapter is off. These extents return to these locations on resume.
    Off(Vec<(Id<Extent>, SegmentLocation)>),
}

impl PowerStatus {
    fn is_changing(&self) -> bool {
        matches!(self, PowerStatus::Changing | PowerStatus::Notifying)
    }

    /// Whether the hardware has power. Hardware without power makes no progress and does not time
    /// out.
    pub(crate) fn is_powered(&self) -> bool {
        matches!(self, PowerStatus::On | PowerStatus::Changing)
    }
}

impl Kernel {
    /// Turns a running adapter off, after its work is done and its memory is saved.
    ///
    /// Returns whether it did. An adapter that is already off is left alone, and so is one whose
    /// paging work waits for packets that no thread can send.
    ///
    /// WINDOWS: at level three the GPU is idle and video memory evicted (documented). Contents that
    /// a segment preserves in standby stay there (our reading).
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

    /// Turns an adapter on, and restores its memory. Returns whether the adapter was off.
    pub fn power_up(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (remaining, driver) = {
            let mut state = self.state.lock();
            // The host may pass an adapter that is removed, or not off.
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
            let nodes = state
                .adapters
                .get_mut(adapter.0)
                .into_iter()
                .flat_map(|adapter| &mut adapter.nodes);
            nodes.for_each(|node| node.watch = None); // The timeout period starts again.
            if let Ok(permit) = permit {
                permit.release(state);
            }
        }
        self.plan_power_up(adapter.0, remaining);
        self.drain_paging(at, adapter.0);
        self.reopen_permits(adapter);
        true
    }

    /// Closes the permit table of a running adapter after its work is done: the packets submitted
    /// to it, and the packets that its paging work waits for. Returns whether it did.
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
            // The host may pass an adapter that is not running, or not on.
            let Some(generation) = awake(&self.state.lock()) else { return false };
            let what =
                |_: &KernelState| format!("the packets that paging work of {about} waits for");
            if !self.wait_until(at, about, what, sent) {
                return false;
            }
            // The adapter may stop during the wait, or the wait cannot end.
            let Ok(permit) = self.acquire_idle_permit(at, number, generation) else { return false };
            let state = &mut *self.state.lock();
            // Also check what changed while this thread waited for the permit.
            let closes = awake(state).is_some() && sent(state);
            if closes {
                state.adapters[number].power = PowerStatus::Changing;
                state.permits.close(number);
            }
            permit.release(state);
            if closes {
                return true;
            }
        }
    }

    /// Waits until no thread changes the adapter's power, then turns the adapter on.
    pub(crate) fn complete_power(&self, at: &mut Passive, adapter: AdapterId) {
        let about = adapter.subject();
        let over = |state: &KernelState| {
            state.adapters.get(adapter.0).is_none_or(|adapter| !adapter.power.is_changing())
        };
        self.wait_until(at, about, |_| format!("the power change of {about}"), over);
        self.power_up(at, adapter);
    }

    /// Reopens the permit table of an adapter that is on again, or that is removed. Wakes the
    /// threads that wait for it.
    pub(crate) fn reopen_permits(&self, adapter: AdapterId) {
        let mut state = self.state.lock();
        // The adapter may have been removed while its power changed.
        if let Some(it) = state.adapters.get_mut(adapter.0) {
            it.power = PowerStatus::On;
        }
        for token in state.permits.open(adapter.0) {
            self.wake_one(&token);
        }
        self.wake_one(&self.work_available);
        self.wake_all(&mut state);
    }

    /// Waits for a permit for turning an adapter off. When it returns the permit, all memory that
    /// would be lost is saved and the hardware is idle. Returns `None` if the adapter was
    /// surprise-removed meanwhile, or if no thread could end the wait.
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
            // Clients in the middle of a call may have planned more paging.
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
            // Also check what changed while this thread waited for the permit. Work that did not
            // complete is lost with the power.
            if !drained || (state.is_paging_idle(number) && state.are_nodes_quiesced(number)) {
                state.change_power(number, PowerStatus::Notifying);
                return Some((permit, driver));
            }
            permit.release(state);
        }
    }

    /// Waits until no node holds packets or has packets to resubmit. Returns whether the wait
    /// succeeded.
    fn drain_nodes(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        let over = |state: &KernelState| state.are_nodes_quiesced(adapter);
        self.wait_until(
            at,
            adapter.subject(),
            |_| format!("the nodes of {adapter} to become idle"),
            over,
        )
    }

    fn call_set_power(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        state: PowerState,
        action: PowerAction,
    ) {
        driver.set_power_state(
            at,
            permit,
            SetPowerArgs { of: PowerTarget::Adapter, state, action },
        );
        self.log.emit(driver.adapter.subject(), || EventKind::AdapterPowered {
            state: state.name().into(),
        });
    }

    /// Switches every node to no context, so that context allocations are not in use.
    fn quiesce_nodes(&self, adapter: Id<Adapter>) {
        let state = &mut *self.state.lock();
        let number = adapter;
        if state.adapter_memory(number).is_none() {
            return;
        }
        let nodes =
            state.adapters.get_mut(number).into_iter().flat_map(|adapter| &mut adapter.nodes);
        let current = |node: &mut Node| {
            node.may_save(|_, _| true) && !std::mem::replace(&mut node.switching, true)
        };
        let places: Vec<usize> =
            nodes.enumerate().filter_map(|(index, node)| current(node).then_some(index)).collect();
        for place in places {
            self.start_switch(state, number, place);
        }
    }

    /// Plans to page out every extent that would lose its contents. Returns whether there are any.
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
            let used = state.memory.extent(extent).map(|extent| extent.uses.clone());
            if self.plan_page_out(state, extent, "the power goes", &mut plan) {
                remaining.push((extent, at));
                any = true;
                // The packets that use this extent are not submitted yet; they are submitted after
                // resume. This page-out does not wait for them; a later eviction does.
                state.memory.set_uses(extent, used.unwrap_or_default());
            }
        }
        plan.waits.clear();
        self.start_paging(state, adapter, plan, None);
        any
    }

    /// Plans to page every extent back in, to its previous location or to another of the same kind.
    fn plan_power_up(&self, adapter: Id<Adapter>, remaining: Vec<(Id<Extent>, SegmentLocation)>) {
        let state = &mut *self.state.lock();
        let mut plan = PagingPlan::default();
        for (extent, at) in remaining {
            // An extent that was discarded or has ended does not return.
            if state
                .memory
                .extent(extent)
                .is_none_or(|extent| extent.location != Location::System || extent.ending)
            {
                continue;
            }
            if state.allocate_at(extent, at) {
                if !self.plan_page_in_at(state, extent, at, &mut plan) {
                    state.release_location(extent, Location::System);
                }
            } else {
                // If no location is free, the extent stays in system memory.
                let _ = self.plan_page_in(state, extent, &mut plan);
            }
        }
        self.start_paging(state, adapter, plan, None);
    }
}

impl KernelState {
    /// Sets the next power status, unless the adapter was surprise-removed meanwhile.
    fn change_power(&mut self, adapter: Id<Adapter>, to: PowerStatus) {
        if let Some(it) =
            self.adapters.get_mut(adapter).filter(|adapter| adapter.power.is_changing())
        {
            it.power = to;
        }
    }

    /// Whether no node of an adapter holds packets or has packets to resubmit.
    fn are_nodes_quiesced(&self, adapter: Id<Adapter>) -> bool {
        let rests = |node: &Node| !node.is_busy() && node.resubmit.is_empty();
        self.adapters.get(adapter).is_none_or(|adapter| adapter.nodes.iter().all(rests))
    }

    /// The extents in memory that loses its contents without power, and their locations.
    fn extents_lost_on_power_down(
        &self,
        adapter: Id<Adapter>,
        action: PowerAction,
    ) -> Vec<(Id<Extent>, SegmentLocation)> {
        // The driver may describe no memory.
        let Some(memory) = self.adapter_memory(adapter) else { return Vec::new() };
        let keeps = |segment: usize| {
            let flags = memory.segments.get(segment).map(|segment| segment.info.flags);
            flags.is_some_and(|segment_flags| match action {
                PowerAction::Hibernate => segment_flags.preserved_in_hibernate,
                PowerAction::None | PowerAction::Sleep => segment_flags.preserved_in_standby,
            })
        };
        // Page tables stay in place and are rewritten.
        let table = |extent: &Extent| extent.owner.is_table();
        let mine = |extent: &Extent| !extent.ending && !table(extent);
        let placed = self.memory.extents_of(adapter).filter(|(_, extent)| mine(extent));
        let location = placed.filter_map(|(number, extent)| match &extent.location {
            Location::Segment { segment, range } if !keeps(*segment) => {
                Some((number, SegmentLocation { segment: *segment, offset: range.start() }))
            }
            Location::Segment { .. } | Location::Unbacked | Location::System => None,
        });
        location.collect()
    }
}
