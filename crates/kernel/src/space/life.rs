//! The life of a space: made with the first device of a process, ended with its last use.

use crate::context::Context;
use crate::ddi::{Driver, For};
use crate::device::Device;
use crate::gate::{Class, Pass};
use crate::handle::Handle;
use crate::handle::ObjectId;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::place::Plan;
use crate::miniport::{DriverContext, DriverProcess, Refusal};
use crate::mmu::{ProcessOrder, Root, RootSize};
use crate::process::Process;
use crate::refused::Refused;
use crate::space::addresses::Addresses;
use crate::space::geometry::Geometry;
use crate::space::{Space, Stage, subject};
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Log, Passive, RuleId, What, Who};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many entries a root that can grow has at first.
const FIRST_ENTRIES: u32 = 16;

impl Kernel {
    /// Has the space of a process ready, on an adapter that has such: it cannot end until
    /// [`Kernel::leave_space`].
    pub(crate) fn ready_space(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        process: Id<Process>,
    ) -> Result<Option<Id<Space>>, Refused> {
        let adapter = driver.adapter;
        loop {
            let found = {
                let world = &mut *self.world.hold();
                if world.mmu(adapter).is_none() {
                    return Ok(None);
                }
                let found = world.space_of(process, adapter);
                match found.and_then(|it| world.spaces.get_mut(it)) {
                    Some(it) if it.stage == Stage::Live => {
                        it.users += 1;
                        return Ok(found);
                    }
                    Some(_) => found,
                    // One that ends is over before the next begins.
                    None => world.ending_space(process, adapter),
                }
            };
            let Some(number) = found else { break };
            let over = |it: &World| it.spaces.get(number).is_none_or(|it| it.stage == Stage::Live);
            let about = subject(number);
            if !self.wait_until(at, about, |_| format!("{about} to be ready, or gone"), over) {
                return Err(Refused::Stuck);
            }
        }
        self.make_space(at, pass, driver, Some(process)).map(Some)
    }

    /// Has the driver meet a process, and makes the root of its addresses.
    pub(crate) fn make_space(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        process: Option<Id<Process>>,
    ) -> Result<Id<Space>, Refused> {
        let adapter = driver.adapter;
        let (number, own, geometry, bits, again) = {
            let world = &mut *self.world.hold();
            let mmu = world.mmu(adapter).ok_or(Refused::NoAddresses)?;
            let (geometry, bits) = (mmu.geometry.clone(), mmu.features.address_bits);
            let again = mmu.features.invalidates;
            let own = world.kernel_names.reserve()?;
            let number = world.add_space(Space {
                process,
                adapter,
                stage: Stage::Making,
                word: None,
                users: 1,
                addresses: Addresses::new(bits),
                tables: BTreeMap::new(),
                root: RootSize { entries: 0, bytes: 0 },
                last_update: 0,
                freed: VecDeque::new(),
                coming: Vec::new(),
                name: own.handle(),
                meeting: true,
                growing: false,
            });
            world.kernel_names.promise(&own, number.into());
            (number, own, geometry, bits, again)
        };
        let made = self.meet(at, pass, driver, (process, own.handle()), &geometry);
        let mut world = self.world.hold();
        match made {
            Ok((word, size)) => {
                let given = word.word();
                if let Some(it) = world.spaces.get_mut(number) {
                    (it.word, it.root, it.meeting) = (Some(Arc::new(word)), size, false);
                }
                world.kernel_names.publish(own, number.into());
                let process = process.map(Id::subject);
                let created =
                    What::SpaceCreated { adapter: driver.adapter.subject(), process, bits, again };
                self.log.emit(subject(number), created);
                self.say_kept(&world, number);
                self.give_word(given, subject(number));
            }
            Err(why) => {
                world.remove_space(number);
                world.kernel_names.take_back(own);
                self.wake(&mut world);
                return Err(why.into());
            }
        }
        if process.is_some() {
            let rooted = self.root_space(&mut world, number, &geometry);
            if let Err(why) = rooted {
                drop(world);
                self.forget_process(at, pass, driver, number);
                return Err(why);
            }
            if let Some(it) = world.spaces.get_mut(number) {
                it.stage = Stage::Live;
            }
        }
        self.wake(&mut world);
        Ok(number)
    }

    /// The calls of the driver for a new space.
    fn meet(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        (process, name): (Option<Id<Process>>, Handle),
        geometry: &Geometry,
    ) -> Result<(DriverProcess, RootSize), Refusal> {
        let size = self.first_root(at, pass, driver, process, geometry)?;
        let order = ProcessOrder { system: process.is_none() };
        let word = driver.create_process(at, pass, (process, name), order)?;
        Ok((word, size))
    }

    /// How large the first root of a space is.
    ///
    /// WINDOWS: only a root above one other level can have several sizes (documented); for four
    /// levels nobody asks (observed). The system's is whole from the start.
    fn first_root(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        process: Option<Id<Process>>,
        geometry: &Geometry,
    ) -> Result<RootSize, Refusal> {
        let top = geometry.top();
        let most = geometry.entries(top);
        if top > 1 {
            let bytes = u64::from(geometry.level(top).bytes);
            return Ok(RootSize { entries: most, bytes });
        }
        let wanted = if process.is_none() { most } else { FIRST_ENTRIES.min(most) };
        self.size_root(at, pass, driver, process, wanted)
    }

    /// Asks a driver for the size of a root, and judges its answer.
    pub(crate) fn size_root(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        process: Option<Id<Process>>,
        entries: u32,
    ) -> Result<RootSize, Refusal> {
        let size = driver.root_size(at, pass, process, entries)?;
        let granule = self.world.hold().root_granule(driver.adapter);
        let broken = if size.entries < entries {
            let given = size.entries;
            Some(format!("{entries} entries were asked for, and the root has {given}"))
        } else if size.bytes == 0 || !size.bytes.is_multiple_of(granule) {
            let bytes = size.bytes;
            Some(format!("a root has {bytes:#x} bytes, in a segment with pages of {granule:#x}"))
        } else {
            None
        };
        let sound = broken.is_none();
        let place = "DxgkDdiGetRootPageTableSize";
        self.log.judge(RuleId::KMD_PT_002, Who::Driver, driver.adapter.subject(), place, broken);
        if sound { Ok(size) } else { Err(Refusal::Invalid) }
    }

    /// Makes the root of a client's space: invalid at first.
    fn root_space(
        &self,
        world: &mut World,
        space: Id<Space>,
        geometry: &Geometry,
    ) -> Result<(), Refused> {
        let Some((adapter, size)) = world.spaces.get(space).map(|it| (it.adapter, it.root)) else {
            return Ok(());
        };
        let top = geometry.top();
        let shape = geometry.level(top);
        let size = (size.entries, Some(size.bytes));
        let mut plan = Plan::default();
        let made = self.make_table(world, space, (top, 0), shape, size, &mut plan);
        let failed = made.map_err(|why| Refused::NoRoom { trim: why.missing }).err();
        if failed.is_some() {
            self.unplan(world, &mut plan);
        }
        self.start_paging(world, adapter, plan, None);
        failed.map_or(Ok(()), Err)
    }

    /// Whoever made a device in a space is done.
    pub(crate) fn leave_space(&self, space: Option<Id<Space>>) {
        let mut world = self.world.hold();
        if let Some(it) = space.and_then(|it| world.spaces.get_mut(it)) {
            it.users = it.users.saturating_sub(1);
            self.wake(&mut world);
        }
    }

    /// Gives a new context the root of its process's addresses, once that is written. The space
    /// keeps that root until [`Kernel::leave_space`].
    pub(crate) fn set_first_root(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        (process, number): (Id<Process>, Id<Context>),
        context: &DriverContext,
    ) -> Result<Option<(Id<Space>, Root)>, Refused> {
        let space = {
            let world = self.world.hold();
            world.space_of(process, driver.adapter)
        };
        let Some(space) = space else { return Ok(None) };
        let about = subject(space);
        let written = |it: &World| {
            let root = it.root_of(space).and_then(|root| it.extents.get(root.0));
            let still = it.spaces.get(space).is_none_or(|it| !it.growing);
            still && root.is_none_or(|it| it.pending == 0)
        };
        // Who is inside a call does not hold up the reset of what it waits for.
        let adapter = driver.adapter;
        let ends = |it: &World| written(it) || it.is_to_be_reset(adapter);
        let (extent, root) = loop {
            if !self.wait_until(at, about, |_| format!("the root of {about}"), ends) {
                return Err(Refused::Stuck);
            }
            let mut world = self.world.hold();
            if world.is_to_be_reset(adapter) {
                return Err(Refused::Removed(adapter.subject()));
            }
            if written(&world) {
                let Some(root) = world.root_of(space) else { return Ok(None) };
                world.spaces.get_mut(space).into_iter().for_each(|it| it.users += 1);
                break root;
            }
        };
        if let Err(why) = driver.set_root(at, pass, Some(process), context, root) {
            self.leave_space(Some(space));
            return Err(why.into());
        }
        let world = self.world.hold();
        self.say_root(&world, space, Some(number), (extent, root));
        Ok(Some((space, root)))
    }

    /// Says which root a context has, or the system's.
    pub(crate) fn say_root(
        &self,
        world: &World,
        space: Id<Space>,
        context: Option<Id<Context>>,
        (extent, root): (Id<Extent>, Root),
    ) {
        let table = world.extents[extent].owner;
        let flying = context.and_then(|it| world.contexts.get(it)).map_or(0, |it| it.flying);
        let context = context.map(Id::subject);
        let (entries, idle) = (root.entries, flying == 0);
        self.log
            .emit(subject(space), What::RootSet { context, table: table.subject(), entries, idle });
    }

    /// Ends the space of a process on an adapter, if nothing of the process uses it any more.
    pub(crate) fn settle_space(
        &self,
        at: &mut Passive,
        process: Id<Process>,
        adapter: Id<Adapter>,
    ) {
        let number = {
            let mut world = self.world.hold();
            let found = world.space_of(process, adapter).filter(|it| world.is_unused(*it));
            if let Some(it) = found.and_then(|it| world.spaces.get_mut(it)) {
                it.stage = Stage::Ending;
            }
            found
        };
        if let Some(number) = number {
            self.end_space(at, number);
        }
    }

    /// Ends all spaces that clients have on an adapter: their devices are gone.
    pub(crate) fn end_spaces(&self, at: &mut Passive, adapter: Id<Adapter>) {
        let numbers: Vec<Id<Space>> = {
            let mut world = self.world.hold();
            let mine = |it: &Space| it.adapter == adapter && it.process.is_some();
            let all = world.spaces.iter().filter(|it| mine(it.1) && it.1.stage == Stage::Live);
            let all: Vec<Id<Space>> = all.map(|it| it.0).collect();
            for number in &all {
                world.spaces.get_mut(*number).into_iter().for_each(|it| it.stage = Stage::Ending);
            }
            all
        };
        for number in numbers {
            self.end_space(at, number);
        }
        let none = |it: &World| {
            it.spaces.iter().all(|(_, it)| it.adapter != adapter || it.process.is_none())
        };
        let about = adapter.subject();
        self.wait_until(at, about, |_| format!("the address spaces of {about}"), none);
    }

    /// Ends a space: its tables go, then the driver forgets the process.
    fn end_space(&self, at: &mut Passive, number: Id<Space>) {
        let about = subject(number);
        let (adapter, paging) = {
            let world = &mut *self.world.hold();
            // Another thread may have ended it meanwhile.
            let Some(it) = world.spaces.get_mut(number) else { return };
            let adapter = it.adapter;
            let all = 0..it.addresses.end();
            for (span, _) in it.addresses.all().collect::<Vec<_>>() {
                self.log.emit(
                    about,
                    What::RangeFreed { start: span.start, end: span.end, ended: true, kept: false },
                );
            }
            it.addresses.free(&all);
            let mut plan = Plan::default();
            let gone = world.drop_tables(number, &all, &mut plan.come);
            plan.come.extend(world.end_of_root(number));
            let paging = self.start_paging(world, adapter, plan, None);
            for extent in gone {
                self.release_extent(world, extent);
            }
            (adapter, paging)
        };
        if let Some(paging) = paging {
            let over = |it: &World| it.pagings.get(paging).is_none();
            while !self.wait_until(at, about, |_| format!("the end of {about}"), over) {
                if !self.lose_paging(adapter) {
                    break; // It was lost before, and that did not help: nothing more can.
                }
            }
        }
        let driver = self.world.hold().adapters.get(adapter).map(|it| it.driver.clone());
        let Some(driver) = driver else { return };
        let process = self.world.hold().spaces.get(number).and_then(|it| it.process);
        let keys = Class::Zero.keys(adapter, driver.generation, process);
        if let Ok(pass) = self.enter(at, keys) {
            self.forget_process(at, &pass, &driver, number);
        }
    }

    /// Has the driver forget a process, and gives back what its tables still have.
    pub(crate) fn forget_process(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        number: Id<Space>,
    ) {
        let (word, process, tables) = {
            let mut world = self.world.hold();
            // Another thread may have ended it meanwhile.
            let Some(it) = world.spaces.get_mut(number) else { return };
            (it.word.take(), it.process, std::mem::take(&mut it.tables))
        };
        {
            let world = &mut *self.world.hold();
            for extent in tables.into_values() {
                self.release_extent(world, extent);
            }
        }
        let about = subject(number);
        let word = word.and_then(Arc::into_inner);
        let told = word.map(|word| {
            let given = word.word();
            let carries = |log: &Log| log.emit(about, What::DdiEnds {});
            // WINDOWS: after a refusal it is gone all the same (our decision).
            let _ = driver.destroy_process(at, pass, For { process, carries: &carries }, word);
            given
        });
        let mut world = self.world.hold();
        if let Some(given) = told {
            self.log.emit(about, What::SpaceDestroyed {});
            self.end_word(given, about, false);
        }
        if let Some(name) = world.spaces.get(number).map(|it| it.name) {
            let _ = world.kernel_names.close(name); // It was live: it was this one's.
        }
        world.remove_space(number);
        self.wake(&mut world);
    }
}

impl World {
    /// A space of a process on an adapter whose end is under way.
    fn ending_space(&self, process: Id<Process>, adapter: Id<Adapter>) -> Option<Id<Space>> {
        self.spaces_of.get(&(process, adapter))?.first().copied()
    }

    /// Whether nothing of its process uses a space: no name of the adapter, and no device.
    fn is_unused(&self, number: Id<Space>) -> bool {
        let Some(it) = self.spaces.get(number) else { return false };
        let Some(process) = it.process.filter(|_| it.users == 0 && it.stage == Stage::Live) else {
            return false;
        };
        let there = |it: Id<Device>| self.devices.get(it).is_some_and(|it| !it.gone);
        let used = self.devices_on(process, it.adapter).any(there);
        let adapter = ObjectId::Adapter(it.adapter);
        let names = self.processes.get(process).map(|it| &it.names);
        !used && names.is_none_or(|names| names.iter().all(|it| it.1 != adapter))
    }

    /// The size of the pages of the segment of roots.
    fn root_granule(&self, adapter: Id<Adapter>) -> u64 {
        let memory = self.memory(adapter).map(|it| it.1);
        let segment = memory.and_then(|it| {
            let geometry = &it.mmu.as_ref()?.geometry;
            it.numbered(geometry.level(geometry.top()).segment)
        });
        let large = segment.is_some_and(|it| it.shape.flags.large_pages);
        if large { 64 << 10 } else { crate::operation::PAGE }
    }

    /// The last steps of a space's root: nothing of it is remembered, and it is made invalid
    /// again for drivers that want that.
    fn end_of_root(&self, space: Id<Space>) -> Vec<crate::memory::Step> {
        let it = &self.spaces[space];
        let Some(mmu) = self.mmu(it.adapter) else { return Vec::new() };
        let Some((extent, root)) = self.root_of(space) else { return Vec::new() };
        let write = crate::space::step::TableWrite {
            count: root.entries,
            ..crate::space::step::TableWrite::invalid(space, mmu.geometry.top(), extent, 0)
        };
        let again = mmu.features.invalidates.then(|| self.table_step(write)).flatten();
        self.flush_step(space, &(0..0), None).into_iter().chain(again).collect()
    }
}
