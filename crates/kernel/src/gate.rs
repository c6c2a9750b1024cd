//! Passes: the right to be inside a driver, for a set of keys, all at once or not at all.
//!
//! The threading levels of the DDI are state here, not locks: a pass is held across a call of
//! a driver, as a lock never is. Whoever has to wait for one parks; a job without its pass is
//! not runnable.
//!
//! # Invariants
//!
//! 1. A pass has all its keys. Nobody holds one key and waits for another, so passes cannot
//!    deadlock.
//! 2. A key is held alone by one, or shared by any number.

use crate::kernel::Kernel;
use crate::lock::Held;
use crate::miniport::Generation;
use crate::process::Process;
use crate::resource::Resource;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, Subject, Ticket, What, Woken};
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// What a pass excludes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The adapter: shared by all calls, alone at levels two and three.
    Adapter(Id<Adapter>),
    /// The scheduler class of an adapter (level one).
    Scheduler(Id<Adapter>),
    /// The threads of one process; none is the system's.
    Process(Option<Id<Process>>),
    /// The in and out word of a resource.
    Resource(Id<Resource>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, serial) = match self {
            Self::Adapter(id) => ("Adapter", id.serial()),
            Self::Scheduler(id) => ("Scheduler", id.serial()),
            Self::Process(id) => ("Process", id.map_or(0, Id::serial)),
            Self::Resource(id) => ("Resource", id.serial()),
        };
        write!(f, "{name}({serial})")
    }
}

/// How a key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Alone,
}

/// The exclusion a DDI runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Interrupts and their DPCs: not excluded by passes.
    None,
    /// Level zero: any number of threads, of different processes.
    Zero,
    /// Level one, the GPU scheduler's class: one thread.
    Scheduler,
    /// Level two: nobody else is inside, and nothing is queued.
    Two,
    /// Level three: nobody else is inside.
    Three,
}

/// The keys of one permit, and the threading level they were made for.
#[derive(Clone)]
pub(crate) struct Keys {
    adapter: Id<Adapter>,
    class: Class,
    list: SmallVec<[(Key, Mode); 3]>,
}

/// Who holds which keys, and who waits.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Each key once, with how many hold it. They are few: no more than a few to a thread.
    held: Vec<(Key, Mode, u32)>,
    /// Adapters that only who changes their power gets passes for, and the work that takes.
    closed: Vec<Id<Adapter>>,
    waiting: Vec<Ticket>,
}

/// The right to call a driver under some keys. Dropping it holds the world to give them back;
/// one without keys has left.
pub(crate) struct Pass<'k> {
    kernel: &'k Kernel,
    keys: Keys,
}

/// Nothing that could give the keys back is left to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

impl Class {
    /// Whether nobody else is inside that uses the hardware.
    pub(crate) fn is_exclusive(self) -> bool {
        match self {
            Class::None | Class::Zero | Class::Scheduler => false,
            Class::Two | Class::Three => true,
        }
    }

    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Class::None => "none",
            Class::Zero => "zero",
            Class::Scheduler => "scheduler",
            Class::Two => "two",
            Class::Three => "three",
        }
    }

    /// The keys of a call of this class for a process (none: the system).
    ///
    /// WINDOWS: the pages of levels zero and one promise that two threads of one process are
    /// never inside together. Free-threaded creation and deferred destruction contradict that
    /// from WDDM 2 on, so it is promised to drivers of the first generation only (our decision).
    pub(crate) fn keys(
        self,
        adapter: Id<Adapter>,
        generation: Generation,
        process: impl Into<Option<Id<Process>>>,
    ) -> Keys {
        if self.is_exclusive() {
            let list = smallvec![(Key::Adapter(adapter), Mode::Alone)];
            return Keys { adapter, class: self, list };
        }
        let mut list = smallvec![(Key::Adapter(adapter), Mode::Shared)];
        if self == Class::Scheduler {
            list.push((Key::Scheduler(adapter), Mode::Alone));
        }
        if generation == Generation::One {
            list.push((Key::Process(process.into()), Mode::Alone));
        }
        Keys { adapter, class: self, list }
    }

    /// Whether a permit of this level excludes everything that a DDI of level `needed` asks for.
    ///
    /// A permit of an exclusive level excludes all other threads, so it serves every lower level,
    /// too. The scheduler's permit does not serve level zero: each of the two has its own DDIs.
    pub(crate) fn serves(self, needed: Class) -> bool {
        self == needed || self == Class::Three || (self == Class::Two && !needed.is_exclusive())
    }
}

impl Keys {
    /// Adds a key.
    pub(crate) fn push(&mut self, key: (Key, Mode)) {
        self.list.push(key);
    }
}

impl Extend<(Key, Mode)> for Keys {
    fn extend<I: IntoIterator<Item = (Key, Mode)>>(&mut self, keys: I) {
        self.list.extend(keys);
    }
}

/// The keys alone: waits print them.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

impl Gate {
    /// Takes all keys, or none.
    fn take(&mut self, keys: &[(Key, Mode)]) -> bool {
        let shut = |(key, _): &(Key, Mode)| matches!(key, Key::Adapter(it) if self.is_closed(*it));
        (self.closed.is_empty() || !keys.iter().any(shut)) && self.take_inside(keys)
    }

    fn is_closed(&self, adapter: Id<Adapter>) -> bool {
        self.closed.contains(&adapter)
    }

    /// Gives no more passes for an adapter, but to who comes from inside.
    pub(crate) fn close(&mut self, adapter: Id<Adapter>) {
        self.closed.push(adapter);
    }

    /// Gives them again; answers who should look again.
    pub(crate) fn open(&mut self, adapter: Id<Adapter>) -> Vec<Ticket> {
        self.closed.retain(|it| *it != adapter);
        std::mem::take(&mut self.waiting)
    }

    /// Takes all keys, or none, also where others are kept out.
    fn take_inside(&mut self, keys: &[(Key, Mode)]) -> bool {
        let free = |(key, mode): &(Key, Mode)| match self.held.iter().find(|it| it.0 == *key) {
            None => true,
            Some((_, held, _)) => (*held, *mode) == (Mode::Shared, Mode::Shared),
        };
        let all = keys.iter().all(free);
        if all {
            for (key, mode) in keys {
                match self.held.iter_mut().find(|it| it.0 == *key) {
                    Some((_, _, count)) => *count += 1,
                    None => self.held.push((*key, *mode, 1)),
                }
            }
        }
        all
    }

    /// Gives keys back; answers who should look again.
    fn give_back(&mut self, keys: &[(Key, Mode)]) -> Vec<Ticket> {
        for (key, _) in keys {
            if let Some(place) = self.held.iter().position(|it| it.0 == *key) {
                self.held[place].2 -= 1;
                if self.held[place].2 == 0 {
                    self.held.swap_remove(place);
                }
            }
        }
        std::mem::take(&mut self.waiting)
    }
}

impl Kernel {
    /// Waits for a pass. The caller holds no other.
    pub(crate) fn enter(&self, at: &mut Passive, keys: Keys) -> Result<Pass<'_>, Stuck> {
        let (pass, world) = self.enter_held(at, self.world.hold(), keys)?;
        drop(world);
        Ok(pass)
    }

    /// Waits for a pass, and comes back with the world held: as it was given, if nobody had to
    /// wait. A pass that does not leave has to outlive the hold (later bindings are dropped first).
    pub(crate) fn enter_held<'k>(
        &'k self,
        at: &mut Passive,
        mut world: Held<'k, World>,
        keys: Keys,
    ) -> Result<(Pass<'k>, Held<'k, World>), Stuck> {
        while !world.gate.take(&keys.list) {
            let ticket = Ticket::new(format!("a pass for {keys:?}"));
            world.gate.waiting.push(ticket.clone());
            drop(world);
            if let Woken::Stuck(_) = self.park(at, Subject::RUN, &ticket) {
                return Err(Stuck);
            }
            world = self.world.hold();
        }
        Ok((Pass { kernel: self, keys }, world))
    }

    /// A pass if it can be had now. It has to outlive the hold, or to leave.
    pub(crate) fn try_enter(&self, world: &mut World, keys: Keys) -> Option<Pass<'_>> {
        let taken = world.gate.take(&keys.list);
        taken.then(|| Pass { kernel: self, keys }) // Only then: a dropped pass gives keys back.
    }

    /// The same from inside: also if its adapter is closed.
    pub(crate) fn try_enter_inside(&self, world: &mut World, keys: Keys) -> Option<Pass<'_>> {
        let taken = world.gate.take_inside(&keys.list);
        taken.then(|| Pass { kernel: self, keys }) // As above.
    }

    /// Waits for a pass from inside: also if its adapter is closed. The caller holds no other.
    pub(crate) fn enter_inside(&self, at: &mut Passive, keys: &Keys) -> Result<Pass<'_>, Stuck> {
        loop {
            let ticket = {
                let mut world = self.world.hold();
                // It has to leave, or to outlive the hold: a pass that was not had has no keys.
                if world.gate.take_inside(&keys.list) {
                    drop(world);
                    return Ok(Pass { kernel: self, keys: keys.clone() });
                }
                let ticket = Ticket::new(format!("a pass for {keys:?}"));
                world.gate.waiting.push(ticket.clone());
                ticket
            };
            if let Woken::Stuck(_) = self.park(at, Subject::RUN, &ticket) {
                return Err(Stuck);
            }
        }
    }

    /// Waits, for ever.
    pub(crate) fn park(&self, at: &mut Passive, about: Subject, ticket: &Ticket) -> Woken {
        self.park_until(at, about, ticket, None)
    }

    /// The one place where the kernel waits: said before and after.
    pub(crate) fn park_until(
        &self,
        at: &mut Passive,
        about: Subject,
        ticket: &Ticket,
        deadline: Option<u64>,
    ) -> Woken {
        self.log.emit(about, What::WaitParked { why: ticket.why().to_owned().into() });
        let woken = self.host.park(at, ticket, deadline);
        match &woken {
            Woken::Stuck(graph) => self.log.emit(about, What::WaitStuck { graph: graph.clone() }),
            Woken::Rung => self.log.emit(about, What::WaitWoken { how: "rung".into() }),
            Woken::TimedOut => {
                self.log.emit(about, What::WaitWoken { how: "timed-out".into() });
            }
            Woken::Over => self.log.emit(about, What::WaitWoken { how: "over".into() }),
        }
        woken
    }
}

impl Pass<'_> {
    /// The threading level it was taken for.
    pub(crate) fn class(&self) -> Class {
        self.keys.class
    }

    /// Whether it is held for this adapter, and has not left.
    pub(crate) fn is_for(&self, adapter: Id<Adapter>) -> bool {
        self.keys.adapter == adapter && !self.keys.list.is_empty()
    }

    /// Gives the keys back in a world that is held already.
    pub(crate) fn leave(mut self, world: &mut World) {
        self.give_back(world);
    }

    fn give_back(&mut self, world: &mut World) {
        for ticket in world.gate.give_back(&self.keys.list) {
            self.kernel.ring(&ticket);
        }
        if world.has_work() {
            self.kernel.ring(&self.kernel.bell);
        }
        self.keys.list.clear();
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.keys.list.is_empty() {
            self.give_back(&mut self.kernel.world.hold());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ids;

    #[test]
    fn keys_are_taken_together_or_not_at_all() {
        let mut gate = Gate::default();
        let ([adapter], [first, second]) = (ids(), ids());
        let one = vec![(Key::Adapter(adapter), Mode::Shared), (Key::Resource(first), Mode::Alone)];
        let two = vec![(Key::Adapter(adapter), Mode::Shared), (Key::Resource(second), Mode::Alone)];
        let both = vec![(Key::Resource(second), Mode::Alone), (Key::Resource(first), Mode::Alone)];
        assert!(gate.take(&one) && gate.take(&two));
        assert!(!gate.take(&one), "a resource is held alone");
        gate.give_back(&two);
        assert!(!gate.take(&both), "one of the two is held");
        assert!(gate.take(&two), "so the other was not taken");
        assert!(!gate.take(&[(Key::Adapter(adapter), Mode::Alone)]), "level three is alone");
        gate.give_back(&one);
        gate.give_back(&two);
        assert!(gate.take(&[(Key::Adapter(adapter), Mode::Alone)]));
    }
}
