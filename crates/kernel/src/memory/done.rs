//! Paging work that is done, or counts as done.

use crate::kernel::Kernel;
use crate::memory::Paging;
use crate::memory::{Batch, Step};
use crate::schedule::Flying;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Fence, What};
use std::collections::VecDeque;

impl Kernel {
    /// The driver did not take a buffer: it is over when what is before it has passed.
    pub(crate) fn refuse_batch(&self, adapter: Id<Adapter>, node: usize, fence: Fence) {
        let world = &mut *self.world.hold();
        let it = world.adapters.get_mut(adapter).and_then(|it| it.nodes.get_mut(node));
        let flying = it.and_then(|it| it.queue.iter_mut().find(|it| it.fence == fence));
        if let Some(batch) = flying.and_then(|it| it.batch.as_mut()) {
            batch.refused = true;
        }
        self.finish_refused(world, adapter);
    }

    /// Buffers that a driver did not take, and that nothing is before any more, are over.
    pub(crate) fn finish_refused(&self, world: &mut World, adapter: Id<Adapter>) {
        let refused = |it: &Flying| it.batch.as_ref().is_some_and(|it| it.refused);
        let mut over = Vec::new();
        for node in world.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes) {
            while node.queue.front().is_some_and(refused) {
                over.extend(
                    node.queue.pop_front().and_then(|it| it.batch).map(|it| (node.subject(), it)),
                );
            }
        }
        for (node, batch) in over {
            if batch.switch {
                self.switch(world, adapter, node, None);
            }
            self.finish_batch(world, adapter, batch, true);
        }
    }

    /// A buffer has passed: its steps are done.
    pub(crate) fn finish_batch(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        batch: Batch,
        lost: bool,
    ) {
        let Batch { paging, done, buffer, .. } = batch;
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.buffers.extend(buffer);
        }
        for step in &done {
            self.finish_step(world, paging, step, lost);
        }
        // It may have been given up already.
        let Some(it) = world.pagings.get_mut(paging) else { return };
        it.flying -= 1;
        if it.built && it.flying == 0 {
            self.end_paging(world, paging, lost);
        }
    }

    fn finish_step(&self, world: &mut World, paging: Id<Paging>, step: &Step, lost: bool) {
        let extent = step.extent;
        if let Some(witness) = self.witness.get()
            && let Some(facts) = world.facts(step)
        {
            // What was never done says nothing about bytes.
            if let (true, Some(_)) = (lost, &facts.table) {
                self.forget_table(world, extent);
            } else if lost {
                witness.forget(facts.owner);
            } else {
                self.witness(paging, &step.what, &facts, false);
            }
        }
        self.finish_for(world, step);
        // Its memory may be gone already: its adapter stopped.
        if !world.extents.contains(extent) {
            return;
        }
        let (extents, memory) = world.memory_mut_of(extent);
        let it = &mut extents[extent];
        it.pending -= 1;
        it.moving -= u32::from(step.what.moves());
        if let Some(segment) = memory.segments.get(step.at.segment).map(|it| it.subject) {
            let (operation, come) = (step.what.name().into(), step.what.comes());
            let done = What::PagingDone { operation, of: it.owner.subject(), segment, come };
            self.log.emit(paging.subject(), done);
        }
        let (ending, idle, owner) = (it.ending, it.pending == 0, it.owner);
        if idle {
            for run in std::mem::take(&mut it.thrown) {
                memory.ram.give_back(run);
            }
        }
        if step.what.moves()
            && let Some(place) = world.aim(extent)
        {
            self.log.emit(owner.subject(), What::LockAimed { place: place.into() });
        }
        if ending && idle {
            self.release_extent(world, extent);
        }
    }

    /// What a step was done for besides its own extent may end now.
    fn finish_for(&self, world: &mut World, step: &Step) {
        for &extent in step.what.also_of() {
            // Its memory may be gone already.
            let Some(it) = world.extents.get_mut(extent) else { continue };
            it.pending -= 1;
            if it.ending && it.pending == 0 {
                self.release_extent(world, extent);
            }
        }
    }

    /// Paging work is over: whoever waits for it goes on.
    fn end_paging(&self, world: &mut World, number: Id<Paging>, lost: bool) {
        // It may have been given up already.
        let Some(it) = world.pagings.take(number) else { return };
        self.log.emit(number.subject(), What::PagingEnded { lost });
        if let Some((queue, value)) = it.signals {
            self.signal_queue(world, queue, value);
        }
        self.finish_updates(world, number);
        self.wake(world);
        self.ring(&self.bell);
    }

    /// There is no memory for the driver's commands: the work counts as done.
    pub(crate) fn give_up_paging(&self, number: Id<Paging>) {
        let world = &mut *self.world.hold();
        // It may have been given up already.
        let Some(it) = world.pagings.get_mut(number) else { return };
        it.built = true;
        let (steps, flying) = (std::mem::take(&mut it.steps), it.flying);
        let (adapter, switch) = (it.adapter, it.switch);
        let node = world.adapters.get_mut(adapter).zip(switch);
        if let Some(it) = node.and_then(|(it, node)| it.nodes.get_mut(node)) {
            it.switching = false;
        }
        for step in steps {
            self.finish_step(world, number, &step, true);
        }
        if flying == 0 {
            self.end_paging(world, number, true);
        }
    }

    /// What an adapter's hardware was given to page does not end: it counts as done. Answers
    /// whether there was any.
    pub(crate) fn lose_paging(&self, adapter: Id<Adapter>) -> bool {
        let world = &mut *self.world.hold();
        let Some(it) = world.adapters.get_mut(adapter) else { return false };
        let (mut lost, mut switched) = (Vec::new(), Vec::new());
        for node in &mut it.nodes {
            let (batches, others): (VecDeque<Flying>, VecDeque<Flying>) =
                std::mem::take(&mut node.queue).into_iter().partition(|it| it.batch.is_some());
            node.queue = others;
            let batches: Vec<Batch> = batches.into_iter().filter_map(|it| it.batch).collect();
            if batches.iter().any(|it| it.switch) {
                node.ghosts.clear();
                switched.push(node.subject());
            }
            lost.extend(batches);
        }
        let any = !lost.is_empty();
        for node in switched {
            self.switch(world, adapter, node, None);
        }
        for batch in lost {
            self.finish_batch(world, adapter, batch, true);
        }
        self.settle_saved(world);
        any
    }
}
