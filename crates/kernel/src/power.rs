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

use crate::ddi::Driver;
use crate::gate::{Class, Keys, Pass};
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::place::Plan;
use crate::memory::{Place, Spotted};
use crate::schedule::Node;
use crate::start::{Adapter, AdapterId};
use crate::store::Id;
use crate::world::World;
use flight::{Passive, What};
use std::sync::Arc;

/// What a driver is told of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerOrder {
    /// What is to have other power.
    pub of: Powered,
    /// How much.
    pub state: PowerState,
    /// Why.
    pub action: PowerAction,
}

/// What has power of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Powered {
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
pub(crate) enum Power {
    /// It works.
    #[default]
    On,
    /// Somebody is changing it, and the hardware has power: paging work is let in.
    Changing,
    /// Somebody is changing it, and the hardware has no power, or is about to lose it.
    Telling,
    /// It sleeps. These had places, and get them back.
    Off(Vec<(Id<Extent>, Spotted)>),
}

impl Power {
    fn is_changing(&self) -> bool {
        matches!(self, Power::Changing | Power::Telling)
    }

    /// Whether the hardware has it: what has none does not move, and is not late.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self, Power::On | Power::Changing)
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
        if !self.close_idle(at, adapter) {
            return false;
        }
        self.rest_nodes(number);
        let mut left = Vec::new();
        let entered = self.enter_rested(at, adapter, action, &mut left);
        if let Some((pass, driver)) = &entered {
            self.tell_power(at, driver, pass, PowerState::D3, action);
        }
        let world = &mut *self.world.hold();
        world.change_power(number, Power::Off(left));
        if let Some((pass, _)) = entered {
            pass.leave(world);
        }
        self.wake(world);
        true
    }

    /// Gives an adapter its power back, and everything its place. Answers whether it slept.
    pub fn power_up(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (left, driver) = {
            let mut world = self.world.hold();
            let Some(it) = world.adapters.get_mut(adapter.0) else { return false };
            let Power::Off(left) = &mut it.power else { return false };
            let left = std::mem::take(left);
            it.power = Power::Telling;
            (left, it.driver.clone())
        };
        let keys = Class::Three.keys(adapter.0, driver.generation, None);
        let pass = self.enter_inside(at, &keys);
        if let Ok(pass) = &pass {
            self.tell_power(at, &driver, pass, PowerState::D0, PowerAction::None);
            self.restore_tables(at, pass, &driver);
        }
        {
            let world = &mut *self.world.hold();
            world.change_power(adapter.0, Power::Changing);
            let nodes = world.adapters.get_mut(adapter.0).into_iter().flat_map(|it| &mut it.nodes);
            nodes.for_each(|it| it.watch = None); // Its time begins anew.
            if let Ok(pass) = pass {
                pass.leave(world);
            }
        }
        self.plan_waking(adapter.0, left);
        self.drain_paging(at, adapter.0);
        self.open_gate(adapter);
        true
    }

    /// Closes the gate of an adapter that runs, when its work is done: what it was given, and the
    /// packets that paging work waits for. Answers whether it did.
    fn close_idle(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (number, about) = (adapter.0, adapter.subject());
        let awake = |it: &World| {
            let awake = |it: &&Adapter| it.runs() && matches!(it.power, Power::On);
            it.adapters.get(number).filter(awake).map(|it| it.driver.generation)
        };
        let sent = |it: &World| !it.pages_behind_packets(number);
        loop {
            let Some(generation) = awake(&self.world.hold()) else { return false };
            let what = |_: &World| format!("the packets that paging work of {about} waits for");
            if !self.wait_until(at, about, what, sent) {
                return false;
            }
            let Ok(pass) = self.enter_idle(at, number, generation) else { return false };
            let world = &mut *self.world.hold();
            // While this waited for its pass, too.
            let closes = awake(world).is_some() && sent(world);
            if closes {
                if let Some(it) = world.adapters.get_mut(number) {
                    it.power = Power::Changing;
                }
                world.gate.close(number);
            }
            pass.leave(world);
            if closes {
                return true;
            }
        }
    }

    /// Waits until nobody changes an adapter's power; then it has some again.
    pub(crate) fn settle_power(&self, at: &mut Passive, adapter: AdapterId) {
        let about = adapter.subject();
        let over = |it: &World| it.adapters.get(adapter.0).is_none_or(|it| !it.power.is_changing());
        self.wait_until(at, about, |_| format!("the power of {about}"), over);
        self.power_up(at, adapter);
    }

    /// An adapter works again, or never will: who waited for it looks.
    pub(crate) fn open_gate(&self, adapter: AdapterId) {
        let mut world = self.world.hold();
        if let Some(it) = world.adapters.get_mut(adapter.0) {
            it.power = Power::On;
        }
        for ticket in world.gate.open(adapter.0) {
            self.ring(&ticket);
        }
        self.ring(&self.bell);
        self.wake(&mut world);
    }

    /// A pass for paging work, and for what that takes, if it can be had now: also while the
    /// power of its adapter changes.
    pub(crate) fn try_enter_work(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        keys: Keys,
    ) -> Option<Pass<'_>> {
        let power = world.adapters.get(adapter).map(|it| &it.power);
        if matches!(power, Some(Power::Changing)) {
            self.try_enter_inside(world, keys)
        } else {
            self.try_enter(world, keys)
        }
    }

    /// Waits for a pass to take the power from an adapter with: everything that would be lost is
    /// elsewhere, and its hardware has nothing to do. None, if it was pulled out meanwhile, or
    /// nothing could end the wait.
    fn enter_rested(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        action: PowerAction,
        left: &mut Vec<(Id<Extent>, Spotted)>,
    ) -> Option<(Pass<'_>, Arc<Driver>)> {
        let number = adapter.0;
        loop {
            let drained = self.drain_paging(at, number) && self.drain_nodes(at, number);
            // Clients that were in the middle of it may have planned more.
            if self.plan_sleep(number, action, left) {
                continue;
            }
            let driver = self.world.hold().adapters.get(number).map(|it| it.driver.clone())?;
            let keys = Class::Three.keys(number, driver.generation, None);
            let pass = self.enter_inside(at, &keys).ok()?;
            let world = &mut *self.world.hold();
            let changing = |it: &Adapter| matches!(it.power, Power::Changing);
            if !world.adapters.get(number).is_some_and(changing) {
                pass.leave(world);
                return None;
            }
            // While this waited for its pass, too. What did not end goes with the power.
            if !drained || (world.pages_nothing(number) && world.nodes_rest(number)) {
                world.change_power(number, Power::Telling);
                return Some((pass, driver));
            }
            pass.leave(world);
        }
    }

    /// Waits until no node has anything, or is asked for it. Answers whether that is so.
    fn drain_nodes(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        let over = |it: &World| it.nodes_rest(adapter);
        self.wait_until(at, adapter.subject(), |_| format!("the nodes of {adapter} to rest"), over)
    }

    fn tell_power(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
        state: PowerState,
        action: PowerAction,
    ) {
        driver.set_power(at, pass, PowerOrder { of: Powered::Adapter, state, action });
        self.log
            .emit(driver.adapter.subject(), What::AdapterPowered { state: state.name().into() });
    }

    /// No node has a context current any more: what they save into is at rest.
    fn rest_nodes(&self, adapter: Id<Adapter>) {
        let world = &mut *self.world.hold();
        let number = adapter;
        if world.memory(number).is_none() {
            return;
        }
        let nodes = world.adapters.get_mut(number).into_iter().flat_map(|it| &mut it.nodes);
        let current =
            |it: &mut Node| it.may_save(|_, _| true) && !std::mem::replace(&mut it.switching, true);
        let places: Vec<usize> =
            nodes.enumerate().filter_map(|(place, it)| current(it).then_some(place)).collect();
        for place in places {
            self.start_switch(world, number, place);
        }
    }

    /// Has everything leave that would lose its bytes. Answers whether anything does.
    fn plan_sleep(
        &self,
        adapter: Id<Adapter>,
        action: PowerAction,
        left: &mut Vec<(Id<Extent>, Spotted)>,
    ) -> bool {
        let world = &mut *self.world.hold();
        let placed = world.would_be_lost(adapter, action);
        let mut plan = Plan::default();
        let mut any = false;
        for (extent, at) in placed {
            let used = world.extents.get(extent).map(|it| it.used.clone());
            if self.plan_out(world, extent, "the power goes", &mut plan) {
                left.push((extent, at));
                any = true;
                // Packets that use it were not sent, and are when it is back: it does not wait
                // for them here, but when it leaves for another.
                if let Some((it, used)) = world.extents.get_mut(extent).zip(used) {
                    it.used = used;
                }
            }
        }
        plan.behind.clear();
        self.start_paging(world, adapter, plan, None);
        any
    }

    /// Has everything come back to where it was, or to another place of the same kind.
    fn plan_waking(&self, adapter: Id<Adapter>, left: Vec<(Id<Extent>, Spotted)>) {
        let world = &mut *self.world.hold();
        let mut plan = Plan::default();
        for (extent, at) in left {
            // What was thrown away or has ended meanwhile does not come back.
            if world.extents.get(extent).is_none_or(|it| it.place != Place::System || it.ending) {
                continue;
            }
            if world.place_back(extent, at) {
                if !self.plan_coming(world, extent, at, &mut plan) {
                    world.leave_place(extent, Place::System);
                }
            } else {
                // Who finds no place is where it was when it slept: in the system's memory.
                let _ = self.plan_in(world, extent, &mut plan);
            }
        }
        self.start_paging(world, adapter, plan, None);
    }
}

impl World {
    /// Who changes the power of an adapter gets on with it, unless it was pulled out meanwhile.
    fn change_power(&mut self, adapter: Id<Adapter>, to: Power) {
        if let Some(it) = self.adapters.get_mut(adapter).filter(|it| it.power.is_changing()) {
            it.power = to;
        }
    }

    /// Whether no node of an adapter has anything, or is asked for it.
    fn nodes_rest(&self, adapter: Id<Adapter>) -> bool {
        let rests = |it: &Node| !it.is_busy() && it.again.is_empty();
        self.adapters.get(adapter).is_none_or(|it| it.nodes.iter().all(rests))
    }

    /// What is in memory that does not keep its bytes without power, and where.
    fn would_be_lost(
        &self,
        adapter: Id<Adapter>,
        action: PowerAction,
    ) -> Vec<(Id<Extent>, Spotted)> {
        let Some((extents, memory)) = self.memory(adapter) else { return Vec::new() };
        let keeps = |segment: usize| {
            let flags = memory.segments.get(segment).map(|it| it.shape.flags);
            flags.is_some_and(|it| match action {
                PowerAction::Hibernate => it.preserved_in_hibernate,
                PowerAction::None | PowerAction::Sleep => it.preserved_in_standby,
            })
        };
        // Page tables stay where they are, and are written again.
        let table = |it: &Extent| it.owner.is_table();
        let mine = |it: &Extent| it.adapter == adapter && !it.ending && !table(it);
        let placed = extents.iter().filter(|(_, it)| mine(it));
        let spotted = placed.filter_map(|(number, it)| match &it.place {
            Place::In { segment, spot } if !keeps(*segment) => {
                Some((number, Spotted { segment: *segment, offset: spot.start() }))
            }
            Place::In { .. } | Place::Nowhere | Place::System => None,
        });
        spotted.collect()
    }
}
