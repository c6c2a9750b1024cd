//! The system's own space: made when an adapter starts, before anything else, and ended last.
//!
//! All memory of the adapter is in it, segment by segment. Its tables are written by the CPU, with
//! no buffer, before its root is set.

use crate::ddi::{Driver, For};
use crate::gate::Pass;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::place::Plan;
use crate::memory::{Move, Step, number};
use crate::miniport::{ContextOrder, Refusal};
use crate::mmu::{Entry, MmuFeatures};
use crate::operation::{Building, PAGE};
use crate::refused::Refused;
use crate::space::Space;
use crate::space::geometry::Geometry;
use crate::space::step::TableWrite;
use crate::space::{Mmu, Stage};
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::invariant;
use flight::{Kind, Passive, What};
use std::sync::Arc;

impl Kernel {
    /// Makes the system's space, its device and its context. After a refusal nothing of them is
    /// left.
    ///
    /// WINDOWS: the process comes first, then the device and its context, then the tables, then
    /// the root (observed).
    pub(crate) fn start_system(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
    ) -> Result<(), (&'static str, Refusal)> {
        let adapter = driver.adapter;
        if self.world.hold().mmu(adapter).is_none() {
            return Ok(());
        }
        let refused = |entry| {
            move |why: Refused| match why {
                Refused::Driver(why) => (entry, why),
                _ => (entry, Refusal::NoMemory),
            }
        };
        let space =
            self.make_space(at, pass, driver, None).map_err(refused("DxgkDdiCreateProcess"))?;
        if let Some(it) = self.world.hold().mmu_mut(adapter) {
            it.system = Some(space);
        }
        let rooted = self
            .start_system_context(at, pass, driver)
            .map_err(refused("DxgkDdiCreateContext"))
            .and_then(|()| {
                self.write_system(at, pass, driver, space)
                    .map_err(refused("DxgkDdiSetRootPageTable"))
            });
        if let Err(why) = rooted {
            self.end_system(at, pass, driver);
            return Err(why);
        }
        let mut world = self.world.hold();
        if let Some(it) = world.spaces.get_mut(space) {
            (it.stage, it.users) = (Stage::Live, 0);
        }
        Ok(())
    }

    /// The system's device and its context, on the node that pages.
    fn start_system_context(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
    ) -> Result<(), Refused> {
        let adapter = driver.adapter;
        let (device, own) = self.begin_device(None, adapter, Handle(0))?;
        let made = driver.create_device(at, pass, (None, own.handle()));
        let word = {
            let mut world = self.world.hold();
            let subject = device.subject();
            let word = match made {
                Ok(word) => Arc::new(word),
                Err(why) => {
                    self.forget_saved(&mut world, device, "DxgkDdiCreateDevice");
                    world.take_device(device);
                    world.kernel_names.take_back(own);
                    return Err(why.into());
                }
            };
            world.kernel_names.publish(own, device.into());
            let process = Kind::Process.nr(0);
            self.log.emit(subject, What::DeviceCreated { process, adapter: adapter.subject() });
            self.give_word(word.word(), subject);
            if let Some(it) = world.devices.get_mut(device) {
                (it.word, it.ending) = (Some(word.clone()), false);
            }
            if let Some(it) = world.mmu_mut(adapter) {
                it.device = Some(device);
            }
            word
        };
        let node = self.world.hold().memory(adapter).map_or(0, |it| it.1.paging.node);
        let order = ContextOrder { node, engine: 1, system: true, private: Vec::new() };
        let (context, own) = self.begin_system_context(device, node as usize)?;
        let made = driver.create_context(at, pass, (None, own.handle()), &word, &order);
        drop(word);
        let mut world = self.world.hold();
        let subject = context.subject();
        match made {
            Ok((word, _)) => {
                world.kernel_names.publish(own, context.into());
                let given = word.word();
                world.contexts[context].word = Some(Arc::new(word));
                world.devices[device].contexts.insert(context);
                if let Some(it) = world.mmu_mut(adapter) {
                    it.context = Some(context);
                }
                let nodes = world.adapters.get(adapter).map(|it| it.nodes.as_slice());
                let on = nodes.and_then(|it| it.get(node as usize)).map_or(0, |it| it.number);
                let (device, node) = (device.subject(), Kind::Node.nr(on));
                self.log.emit(subject, What::ContextCreated { device, node });
                self.give_word(given, subject);
                Ok(())
            }
            Err(why) => {
                self.forget_saved(&mut world, context, "DxgkDdiCreateContext");
                world.contexts.take(context);
                world.kernel_names.take_back(own);
                Err(why.into())
            }
        }
    }

    /// Makes the system's tables, has the driver write them with the CPU, and sets the root.
    fn write_system(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        space: Id<Space>,
    ) -> Result<(), Refused> {
        let adapter = driver.adapter;
        let steps = {
            let world = &mut *self.world.hold();
            let mut plan = Plan::default();
            self.plan_system(world, adapter, space, &mut plan)?;
            plan.come
        };
        for step in &steps {
            self.write_now(at, pass, driver, step)?;
        }
        let (rooted, context, number) = {
            let world = self.world.hold();
            let number = world.mmu(adapter).and_then(|it| it.context);
            let number = invariant(number, "the system has its context before its tables");
            let word = world.contexts[number].word.clone();
            (world.root_of(space), word, number)
        };
        let (Some((extent, root)), Some(context)) = (rooted, context) else {
            return Err(Refused::NoRoom { trim: 0 });
        };
        driver.set_root(at, pass, None, &context, root)?;
        drop(context);
        let mut world = self.world.hold();
        self.say_root(&world, space, Some(number), (extent, root));
        world.contexts[number].root = Some(root);
        Ok(())
    }

    /// Plans the system's tables: a root, and all memory segment by segment.
    fn plan_system(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        space: Id<Space>,
        plan: &mut Plan,
    ) -> Result<(), Refused> {
        let no_room = |why: crate::memory::place::NoPlace| Refused::NoRoom { trim: why.missing };
        let Some(mmu) = world.mmu(adapter) else { return Ok(()) };
        let (geometry, linear) = (mmu.geometry.clone(), mmu.linear.clone());
        let top = geometry.top();
        let size = world.spaces.get(space).map(|it| it.root);
        let size = size.map_or((1, None), |it| (it.entries, Some(it.bytes)));
        let shape = geometry.level(top);
        self.make_table(world, space, (top, 0), shape, size, plan).map_err(no_room)?;
        for (segment, start) in linear.iter().enumerate() {
            let Some(start) = *start else { continue };
            let bytes = world.memory(adapter).and_then(|it| it.1.segments.get(segment));
            let bytes = bytes.map_or(0, |it| it.shape.size);
            self.make_tables(world, space, &(start..start + bytes), plan).map_err(no_room)?;
        }
        plan.come.extend(world.linear_steps(adapter, space));
        Ok(())
    }

    /// Has the driver write entries with the CPU, at once: there is no buffer.
    pub(crate) fn write_now(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        step: &Step,
    ) -> Result<(), Refused> {
        let facts = {
            let world = self.world.hold();
            world.table_facts(step).zip(world.extents.get(step.extent).map(|it| it.owner))
        };
        let Some((facts, table)) = facts else { return Ok(()) };
        self.witness_table(None, &step.what, &facts, true);
        let (mut multipass, mut buffer, mut private) = (0, [0; 0], [0; 0]);
        let Some(operation) = facts.operation(&step.what) else { return Ok(()) };
        let mut building = Building {
            operation,
            buffer: &mut buffer,
            address: 0,
            before: 0,
            written: 0,
            multipass: &mut multipass,
            private: &mut private,
        };
        let whom = For { process: None, carries: &|_| () };
        let answer = driver.build_paging(at, pass, whom, &mut building);
        self.say_tabled(table.subject(), &step.what, &facts);
        answer?;
        self.witness_table(None, &step.what, &facts, false);
        Ok(())
    }

    /// Ends what the system has on an adapter, the last of all.
    pub(crate) fn end_system(&self, at: &mut Passive, pass: &Pass<'_>, driver: &Driver) {
        let adapter = driver.adapter;
        let system = self.world.hold().mmu(adapter).map(|it| (it.system, it.device, it.context));
        let Some((Some(space), device, context)) = system else { return };
        let last = self.world.hold().last_writes(space);
        for step in &last {
            let _ = self.write_now(at, pass, driver, step); // A refusal changes nothing any more.
        }
        if let Some(context) = context
            && let Some(word) = self.world.hold().contexts[context].word.take()
            && let Some(word) = Arc::into_inner(word)
        {
            let (subject, given) = (context.subject(), word.word());
            let carries = |log: &flight::Log| log.emit(subject, What::DdiEnds {});
            let _ =
                driver.destroy_context(at, pass, For { process: None, carries: &carries }, word);
            let mut world = self.world.hold();
            world.end_kernel_name(context);
            self.forget_saved(&mut world, context, "DxgkDdiDestroyContext");
            world.leave_context(adapter, context);
            self.log.emit(subject, What::ContextDestroyed {});
            self.end_word(given, subject, false);
            world.forget_context(context);
        }
        if let Some(device) = device
            && let Some(word) = self.world.hold().devices[device].word.take()
            && let Some(word) = Arc::into_inner(word)
        {
            let (subject, given) = (device.subject(), word.word());
            let carries = |log: &flight::Log| log.emit(subject, What::DdiEnds {});
            let _ = driver.destroy_device(at, pass, For { process: None, carries: &carries }, word);
            let mut world = self.world.hold();
            world.end_kernel_name(device);
            self.forget_saved(&mut world, device, "DxgkDdiDestroyDevice");
            self.log.emit(subject, What::DeviceDestroyed {});
            self.end_word(given, subject, false);
            world.take_device(device);
        }
        self.forget_process(at, pass, driver, space);
    }
}

impl crate::memory::Memory {
    /// Where each segment of memory is in the system's space: from a whole table on, one behind
    /// the other. What does not fit is not there.
    fn lay_out(&self, mmu: &MmuFeatures, geometry: &Geometry) -> Vec<Option<u64>> {
        let step = geometry.leaf_span();
        let end = 1_u64.checked_shl(mmu.address_bits).unwrap_or(1 << 63);
        let mut at = step;
        let place = |segment: &crate::memory::Segment| {
            if segment.shape.flags.aperture {
                return None;
            }
            let start = at;
            at = start.checked_add(segment.shape.size)?.checked_next_multiple_of(step)?;
            (at <= end).then_some(start)
        };
        self.segments.iter().map(place).collect()
    }
}

impl World {
    /// Enters how an adapter translates.
    pub(crate) fn add_mmu(&mut self, adapter: Id<Adapter>, features: MmuFeatures) {
        let Ok(geometry) = Geometry::new(&features) else { return };
        let memory = self.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut());
        if let Some(memory) = memory {
            let linear = memory.lay_out(&features, &geometry);
            let geometry = Arc::new(geometry);
            memory.mmu =
                Some(Mmu { features, geometry, system: None, device: None, context: None, linear });
        }
    }

    pub(crate) fn mmu_mut(&mut self, adapter: Id<Adapter>) -> Option<&mut Mmu> {
        self.adapters.get_mut(adapter)?.memory.as_mut()?.mmu.as_mut()
    }

    /// Writes where all memory is in the system's space.
    pub(crate) fn linear_steps(&self, adapter: Id<Adapter>, space: Id<Space>) -> Vec<Step> {
        let Some((_, memory)) = self.memory(adapter) else { return Vec::new() };
        let Some((mmu, it)) = memory.mmu.as_ref().zip(self.spaces.get(space)) else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        for (place, (start, segment)) in mmu.linear.iter().zip(&memory.segments).enumerate() {
            let Some(start) = *start else { continue };
            for row in mmu.geometry.rows(&(start..start + segment.shape.size)) {
                let Some(table) = it.tables.get(&(0, row.table)).copied() else { continue };
                let first = (row.span.start - start) / PAGE;
                let entry = |it: u32| Entry {
                    valid: true,
                    segment: number(place),
                    page: first + u64::from(it),
                    ..Entry::default()
                };
                let write = TableWrite {
                    first: row.first,
                    count: row.count,
                    entries: (0..row.count).map(entry).collect(),
                    repeat: false,
                    ..TableWrite::invalid(space, 0, table, row.span.start)
                };
                steps.extend(self.table_step(write));
            }
        }
        steps
    }

    /// Where memory of a segment is in the system's space.
    pub(crate) fn system_address(
        &self,
        adapter: Id<Adapter>,
        (segment, offset): (u32, u64),
    ) -> Option<u64> {
        let linear = &self.mmu(adapter)?.linear;
        let start = linear.get(crate::memory::place_of(segment)?).copied().flatten()?;
        Some(start + offset)
    }

    /// Makes all tables of a space invalid, for drivers that want that before they go.
    fn last_writes(&self, space: Id<Space>) -> Vec<Step> {
        let it = &self.spaces[space];
        let mmu = self.mmu(it.adapter).filter(|it| it.features.invalidates);
        let Some(geometry) = mmu.map(|it| it.geometry.clone()) else { return Vec::new() };
        let write = |((level, table), extent): (&(u32, u64), &Id<Extent>)| {
            let root = *level == geometry.top();
            let count = if root { it.root.entries } else { geometry.entries(*level) };
            let address = geometry.span(*level, *table).start;
            let write = TableWrite::invalid(space, *level, *extent, address);
            self.table_step(TableWrite { count, ..write })
        };
        it.tables.iter().filter_map(write).collect()
    }

    /// Whether a step is a write that the CPU does.
    pub(crate) fn is_by_cpu(&self, step: &Step) -> bool {
        matches!(step.what, Move::Table(_)) && self.table_facts(step).is_some_and(|it| it.cpu)
    }
}
