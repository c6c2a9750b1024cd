//! Power: an adapter goes to sleep with everything on it, and wakes with everything in place.
//!
//! # Invariants
//!
//! 1. While an adapter sleeps its gate is closed: nobody is inside its driver, and who wants to
//!    be waits. While its power changes only paging work is let in.
//! 2. Who sleeps has nothing in memory that loses its bytes: it is in the system's memory, and
//!    comes back to where it was.

use crate::gate::Class;
use crate::kernel::Kernel;
use crate::memory::place::Plan;
use crate::memory::{Place, Spotted};
use crate::start::{Adapter, AdapterId};
use crate::world::World;
use flight::{Passive, Subject, What};

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
    /// Somebody is changing it.
    Changing,
    /// It sleeps. These had places, and get them back.
    Off(Vec<(u32, Spotted)>),
}

impl Power {
    pub(crate) fn is_changing(&self) -> bool {
        matches!(self, Power::Changing)
    }
}

impl Kernel {
    /// Takes the power from an adapter that runs, when its work is done and its memory is saved.
    /// Answers whether it did: one that sleeps is left alone.
    ///
    /// WINDOWS: at level three the GPU is idle and video memory evicted (documented). What a
    /// segment keeps in standby stays there (our reading).
    pub fn power_down(&self, at: &mut Passive, adapter: AdapterId, action: PowerAction) -> bool {
        let number = adapter.0;
        let generation = {
            let world = self.world.hold();
            let awake = |it: &&Adapter| it.runs() && matches!(it.power, Power::On);
            let Some(it) = world.adapters.get(number).filter(awake) else { return false };
            it.driver.generation
        };
        let Ok(pass) = self.enter_idle(at, number, generation) else { return false };
        {
            let world = &mut *self.world.hold();
            let it = world.adapters.get_mut(number).filter(|it| it.runs());
            let Some(it) = it.filter(|it| matches!(it.power, Power::On)) else {
                pass.leave(world);
                return false;
            };
            it.power = Power::Changing;
            world.gate.close(number);
            pass.leave(world);
        }
        let about = adapter.subject();
        self.rest_nodes(about);
        self.drain_paging(at, about);
        let mut left = Vec::new();
        // Clients that were in the middle of it may have planned more.
        while self.plan_sleep(about, action, &mut left) {
            self.drain_paging(at, about);
        }
        self.tell_power(at, adapter, PowerState::D3, action);
        let mut world = self.world.hold();
        if let Some(it) = world.adapters.get_mut(number) {
            it.power = Power::Off(left);
        }
        self.wake(&mut world);
        true
    }

    /// Gives an adapter its power back, and everything its place. Answers whether it slept.
    pub fn power_up(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let left = {
            let mut world = self.world.hold();
            let Some(it) = world.adapters.get_mut(adapter.0) else { return false };
            let Power::Off(left) = &mut it.power else { return false };
            let left = std::mem::take(left);
            it.power = Power::Changing;
            left
        };
        self.tell_power(at, adapter, PowerState::D0, PowerAction::None);
        self.plan_waking(adapter.subject(), left);
        self.drain_paging(at, adapter.subject());
        self.open_gate(adapter);
        true
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

    fn tell_power(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        state: PowerState,
        action: PowerAction,
    ) {
        let driver = self.world.hold().adapters.get(adapter.0).map(|it| it.driver.clone());
        let Some(driver) = driver else { return };
        let keys = Class::Three.keys(adapter.0, driver.generation, 0);
        let Ok(pass) = self.enter_inside(at, &keys) else { return };
        driver.set_power(at, &pass, PowerOrder { of: Powered::Adapter, state, action });
        self.log.emit(adapter.subject(), What::AdapterPowered { state: state.name().into() });
        if state == PowerState::D0 {
            self.restore_tables(at, &pass, &driver);
        }
    }

    /// No node has a context current any more: what they save into is at rest.
    fn rest_nodes(&self, adapter: Subject) {
        let world = &mut *self.world.hold();
        let number = adapter.number;
        if world.memory(number).is_none() {
            return;
        }
        let nodes = world.adapters.get_mut(number).into_iter().flat_map(|it| &mut it.nodes);
        let current = |it: &mut crate::schedule::Node| {
            it.may_save(|_, _| true) && !std::mem::replace(&mut it.switching, true)
        };
        let places: Vec<usize> =
            nodes.enumerate().filter_map(|(place, it)| current(it).then_some(place)).collect();
        for place in places {
            self.start_switch(world, number, place);
        }
    }

    /// Has everything leave that would lose its bytes. Answers whether anything does.
    fn plan_sleep(
        &self,
        adapter: Subject,
        action: PowerAction,
        left: &mut Vec<(u32, Spotted)>,
    ) -> bool {
        let world = &mut *self.world.hold();
        let placed = world.would_be_lost(adapter.number, action);
        let mut plan = Plan::default();
        let mut any = false;
        for (extent, at) in placed {
            if self.plan_out(world, extent, "the power goes", &mut plan) {
                left.push((extent, at));
                any = true;
            }
        }
        self.start_paging(world, adapter.number, plan, None);
        any
    }

    /// Has everything come back to where it was, or to another place of the same kind.
    fn plan_waking(&self, adapter: Subject, left: Vec<(u32, Spotted)>) {
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
        self.start_paging(world, adapter.number, plan, None);
    }
}

impl World {
    /// What is in memory that does not keep its bytes without power, and where.
    fn would_be_lost(&self, adapter: u32, action: PowerAction) -> Vec<(u32, Spotted)> {
        let Some((extents, memory)) = self.memory(adapter) else { return Vec::new() };
        let keeps = |segment: usize| {
            let flags = memory.segments.get(segment).map(|it| it.shape.flags);
            flags.is_some_and(|it| match action {
                PowerAction::Hibernate => it.preserved_in_hibernate,
                PowerAction::None | PowerAction::Sleep => it.preserved_in_standby,
            })
        };
        // Page tables stay where they are, and are written again.
        let table = |it: &crate::memory::Extent| it.owner.kind == flight::Kind::Table;
        let mine = |it: &crate::memory::Extent| it.adapter == adapter && !it.ending && !table(it);
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
