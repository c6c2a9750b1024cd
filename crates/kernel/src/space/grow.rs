//! Roots that grow: a new one is built and filled, contexts are told, then the old one goes.

use crate::context::Context;
use crate::ddi::Driver;
use crate::device::Device;
use crate::device::Loss;
use crate::gate::Class;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Step;
use crate::memory::place::Plan;
use crate::mmu::{Entry, Root, RootSize};
use crate::operation::PAGE;
use crate::refused::Refused;
use crate::schedule::Flying;
use crate::space::Space;
use crate::space::geometry::Geometry;
use crate::space::step::TableWrite;
use crate::space::subject;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::Passive;

impl Kernel {
    /// Has the root of a space reach so far. Somebody else's root is waited for.
    pub(crate) fn grow_root(
        &self,
        at: &mut Passive,
        driver: &Driver,
        space: Id<Space>,
        end: u64,
    ) -> Result<(), Refused> {
        let about = subject(space);
        let still = |it: &World| it.spaces.get(space).is_none_or(|it| !it.growing);
        loop {
            if !self.wait_until(at, about, |_| format!("the new root of {about}"), still) {
                return Err(Refused::Stuck);
            }
            let world = &mut *self.world.hold();
            if world.reaches(space, end) {
                return Ok(());
            }
            let it = world.spaces.get_mut(space).ok_or(Refused::NoAddresses)?;
            if !std::mem::replace(&mut it.growing, true) {
                break;
            }
        }
        let grown = self.grow(at, driver, space, end);
        let mut world = self.world.hold();
        if let Some(it) = world.spaces.get_mut(space) {
            it.growing = false;
        }
        self.hold_contexts(&mut world, space, false);
        self.apply_held_back(&mut world, space);
        self.wake(&mut world);
        grown
    }

    fn grow(
        &self,
        at: &mut Passive,
        driver: &Driver,
        space: Id<Space>,
        end: u64,
    ) -> Result<(), Refused> {
        let (process, geometry) = {
            let world = self.world.hold();
            let it = world.spaces.get(space).ok_or(Refused::NoAddresses)?;
            let mmu = world.mmu(it.adapter).ok_or(Refused::NoAddresses)?;
            (it.process, mmu.geometry.clone())
        };
        let adapter = driver.adapter;
        let keys = || Class::Zero.keys(adapter, driver.generation, process);
        let wanted = geometry.index(geometry.top(), end - 1).saturating_add(1);
        let size = {
            let pass = self.enter(at, keys())?;
            self.size_root(at, &pass, driver, process, wanted)?
        };
        let new = self.build_root(at, adapter, space, &geometry, size)?;
        let spot = self
            .rest_contexts(at, space)
            .and_then(|()| self.world.hold().spot_of(new).ok_or(Refused::NoAddresses));
        let (segment, offset) = match spot {
            Ok(it) => it,
            Err(why) => {
                self.release_extent(&mut self.world.hold(), new);
                return Err(why);
            }
        };
        let root = Root { segment, offset, entries: size.entries };
        let contexts = self.world.hold().contexts_of(space);
        for number in contexts {
            let pass = self.enter(at, keys());
            let (word, device) = {
                let mut world = self.world.hold();
                let Some(it) = world.contexts.get_mut(number) else { continue };
                let Some(word) = it.word.clone() else { continue };
                it.inside += 1; // From here on it cannot go.
                (word, it.device)
            };
            let told = match &pass {
                Ok(pass) => driver.set_root(at, pass, process, &word, root).is_ok(),
                Err(_) => false,
            };
            drop(word);
            let mut world = self.world.hold();
            if let Some(it) = world.contexts.get_mut(number) {
                it.inside -= 1;
                it.root = Some(root);
            }
            if told {
                self.say_root(&world, space, Some(number), (new, root));
            } else {
                // It has the old root, which goes: it never runs again.
                self.lose(&mut world, device, Loss::Refused);
            }
            self.wake(&mut world);
        }
        self.change_root(at, adapter, space, &geometry, (new, size));
        Ok(())
    }

    /// Has the contexts of a space rest, also those that are made meanwhile.
    ///
    /// WINDOWS: they do not run while their root changes (documented).
    fn rest_contexts(&self, at: &mut Passive, space: Id<Space>) -> Result<(), Refused> {
        let about = subject(space);
        let made = |it: &World| it.spaces.get(space).is_none_or(|it| it.users == 0);
        let idle = |it: &World| it.contexts_rest(space) && made(it);
        loop {
            self.hold_contexts(&mut self.world.hold(), space, true);
            let what = |_: &World| format!("the contexts of {about} to rest");
            if !self.wait_until(at, about, what, idle) {
                return Err(Refused::Stuck);
            }
            let world = self.world.hold();
            let held = |it: &Id<Context>| world.contexts.get(*it).is_none_or(|it| it.rooting);
            if idle(&world) && world.contexts_of(space).iter().all(held) {
                return Ok(());
            }
        }
    }

    /// Builds a new root, with all that the old one has, and waits until it is written.
    fn build_root(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        space: Id<Space>,
        geometry: &Geometry,
        size: RootSize,
    ) -> Result<Id<Extent>, Refused> {
        let top = geometry.top();
        let extent = {
            let world = &mut *self.world.hold();
            let old = world.spaces.get(space).and_then(|it| it.tables.get(&(top, 0)).copied());
            let mut plan = Plan::default();
            let (shape, large) = (geometry.level(top), (size.entries, Some(size.bytes)));
            let made = self.make_table(world, space, (top, 0), shape, large, &mut plan);
            // The old one is the root until contexts are told.
            if let (Some(it), Some(old)) = (world.spaces.get_mut(space), old) {
                it.tables.insert((top, 0), old);
            }
            let extent = match made {
                Ok(it) => it,
                Err(why) => {
                    self.unplan(world, &mut plan);
                    self.start_paging(world, adapter, plan, None);
                    return Err(Refused::NoRoom { trim: why.missing });
                }
            };
            plan.come.extend(world.root_entries(space, geometry, extent));
            self.start_paging(world, adapter, plan, None);
            extent
        };
        let about = subject(space);
        let written = |it: &World| it.extents.get(extent).is_none_or(|it| it.pending == 0);
        if self.wait_until(at, about, |_| format!("the new root of {about}"), written) {
            Ok(extent)
        } else {
            self.release_extent(&mut self.world.hold(), extent);
            Err(Refused::Stuck)
        }
    }

    /// The new root is the space's; nothing is remembered of the old one when it goes.
    fn change_root(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        space: Id<Space>,
        geometry: &Geometry,
        (new, size): (Id<Extent>, RootSize),
    ) {
        let paging = {
            let world = &mut *self.world.hold();
            let top = geometry.top();
            let again = world.mmu(adapter).is_some_and(|it| it.features.invalidates);
            let it = &mut world.spaces[space];
            let count = std::mem::replace(&mut it.root, size).entries;
            let old = it.tables.insert((top, 0), new);
            let mut plan = Plan::default();
            plan.come.extend(world.flush_step(space, &(0..0), None));
            if let Some(old) = old {
                plan.come.extend(world.flush_old(space, old));
                let write = TableWrite { count, ..TableWrite::invalid(space, top, old, 0) };
                plan.come.extend(again.then(|| world.table_step(write)).flatten());
            }
            let paging = self.start_paging(world, adapter, plan, None);
            if let Some(old) = old {
                self.release_extent(world, old);
            }
            paging
        };
        // What was planned for the old root is done before contexts go on with the new one.
        let about = subject(space);
        let over = |it: &World| paging.is_none_or(|paging| it.pagings.get(paging).is_none());
        self.wait_until(at, about, |_| format!("the old root of {about}"), over);
    }

    /// Keeps the contexts of a space from running, or lets them go on.
    fn hold_contexts(&self, world: &mut World, space: Id<Space>, hold: bool) {
        for context in world.contexts_of(space) {
            if let Some(it) = world.contexts.get_mut(context) {
                it.rooting = hold;
            }
            if !hold {
                self.advance(world, context);
            }
        }
    }
}

impl World {
    /// Whether the root of a space reaches so far.
    pub(crate) fn reaches(&self, space: Id<Space>, end: u64) -> bool {
        // Nothing waits for a space that has ended.
        let Some(it) = self.spaces.get(space) else { return true };
        let Some(mmu) = self.mmu(it.adapter) else { return true };
        end == 0 || mmu.geometry.index(mmu.geometry.top(), end - 1) < it.root.entries
    }

    /// The same, with nobody who changes it.
    pub(crate) fn is_rooted(&self, space: Id<Space>, end: u64) -> bool {
        self.reaches(space, end) && self.spaces.get(space).is_none_or(|it| !it.growing)
    }

    /// The contexts of a space's process.
    fn contexts_of(&self, space: Id<Space>) -> Vec<Id<Context>> {
        let Some(it) = self.spaces.get(space) else { return Vec::new() };
        let mine = |device: Id<Device>| {
            let device = self.devices.get(device);
            device.is_some_and(|that| that.adapter == it.adapter && that.process == it.process)
        };
        let all = self.contexts.iter().filter(|it| mine(it.1.device) && it.1.word.is_some());
        all.map(|it| it.0).collect()
    }

    /// Whether no packet of a space's contexts is with the hardware.
    fn contexts_rest(&self, space: Id<Space>) -> bool {
        // Nothing waits for a space that has ended.
        let Some(it) = self.spaces.get(space) else { return true };
        let mine = self.contexts_of(space);
        let nodes = self.adapters.get(it.adapter).map(|it| it.nodes.as_slice());
        let flying = nodes.unwrap_or_default().iter().flat_map(|it| &it.queue);
        flying.filter_map(Flying::context).all(|context| !mine.contains(&context))
    }

    /// What a root says of the tables below it.
    fn root_entries(&self, space: Id<Space>, geometry: &Geometry, root: Id<Extent>) -> Vec<Step> {
        let Some(it) = self.spaces.get(space) else { return Vec::new() };
        let top = geometry.top();
        let below = it.tables.range((top - 1, 0)..(top, 0));
        let write = |((level, table), extent): (&(u32, u64), &Id<Extent>)| {
            let address = geometry.span(*level, *table).start;
            let (segment, offset) = self.spot_of(*extent)?;
            let entry = Entry { valid: true, segment, page: offset / PAGE, ..Entry::default() };
            self.table_step(TableWrite {
                first: geometry.index(top, address),
                entries: vec![entry],
                repeat: false,
                ..TableWrite::invalid(space, top, root, address)
            })
        };
        below.filter_map(write).collect()
    }

    /// Has all translations of a root forgotten that is not its space's any more.
    fn flush_old(&self, space: Id<Space>, root: Id<Extent>) -> Option<Step> {
        let mut step = self.flush_step(space, &(0..0), None)?;
        let (segment, offset) = self.spot_of(root)?;
        step.extent = root;
        step.at = crate::memory::Spotted { segment: crate::memory::place_of(segment)?, offset };
        Some(step)
    }
}
