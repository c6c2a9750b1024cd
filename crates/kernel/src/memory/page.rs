//! Paging work: planned by the kernel, written by the driver, given to the hardware.
//!
//! # Invariants
//!
//! 1. The work of an adapter is built by one at a time, in the order of its plan, under the
//!    scheduler's key.
//! 2. A step is done when the buffer that ends it has passed, not before.

use crate::ddi::{Driver, For};
use crate::gate::{Class, Pass};
use crate::kernel::Kernel;
use crate::listed::Patching;
use crate::memory::facts::Facts;
use crate::memory::place::Plan;
use crate::memory::queue::Queue;
use crate::memory::{Batch, Buffer, Move, Paging, Step};
use crate::miniport::{Generation, Refusal};
use crate::operation::{Building, PAGE, PagingSubmission};
use crate::schedule::{Behind, Flying};
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, RuleId, Run, What, Who};
use std::collections::VecDeque;

/// A driver that needs more buffers than this for one operation does not get on.
const MOST_PASSES: u32 = 100_000;

/// How a turn at a step ended.
enum Turn {
    Whole,
    Full,
    Busy,
}

/// The buffer that is being written.
struct Open {
    buffer: Buffer,
    /// How much of it is to be used.
    room: u32,
    used: u32,
    /// The steps it ends.
    done: Vec<Step>,
}

impl Kernel {
    /// Makes a plan paging work. Answers its number, if it does anything or somebody waits.
    pub(crate) fn start_paging(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        plan: Plan,
        signals: Option<(Id<Queue>, u64)>,
    ) -> Option<Id<Paging>> {
        let Plan { leave, come, mut behind, .. } = plan;
        let steps: VecDeque<Step> = leave.into_iter().chain(come).collect();
        if steps.is_empty() && signals.is_none() {
            return None;
        }
        behind.retain(|it| !world.is_over(adapter, *it));
        for step in &steps {
            if let Some(it) = world.extents.get_mut(step.extent) {
                it.pending += 1;
                it.moving += u32::from(step.what.moves());
            }
            for also in step.what.also_of() {
                if let Some(it) = world.extents.get_mut(*also) {
                    it.pending += 1;
                }
            }
        }
        let (count, waits) = (steps.len(), behind.len());
        let number = world.pagings.insert(Paging {
            adapter,
            steps,
            behind,
            flying: 0,
            built: false,
            signals,
            switch: None,
        });
        let small = |it| u32::try_from(it).unwrap_or(u32::MAX);
        let (adapter_subject, steps, behind) = (adapter.subject(), small(count), small(waits));
        let planned = What::PagingPlanned { adapter: adapter_subject, steps, behind };
        self.log.emit(number.subject(), planned);
        if let Some((queue, value)) = signals {
            let paging = number.subject();
            self.log.emit(queue.subject(), What::QueueGiven { paging, value });
        }
        self.enqueue_paging(world, adapter, number);
        Some(number)
    }

    /// Asks for a packet after which no context is current on a node.
    pub(crate) fn start_switch(&self, world: &mut World, adapter: Id<Adapter>, node: usize) {
        let number = world.pagings.insert(Paging {
            adapter,
            steps: VecDeque::new(),
            behind: Vec::new(),
            flying: 0,
            built: false,
            signals: None,
            switch: Some(node),
        });
        let planned = What::PagingPlanned { adapter: adapter.subject(), steps: 0, behind: 0 };
        self.log.emit(number.subject(), planned);
        self.enqueue_paging(world, adapter, number);
    }

    fn enqueue_paging(&self, world: &mut World, adapter: Id<Adapter>, number: Id<Paging>) {
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.planned.push_back(number);
        }
        self.ring(&self.bell);
    }

    /// Builds the next paging work of an adapter whose pass can be had. Answers whether it did.
    pub(crate) fn try_paging(&self, at: &mut Passive) -> bool {
        let ready = self.world.hold().paging_ready();
        ready.into_iter().any(|adapter| self.page(at, adapter))
    }

    fn page(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        let Some(driver) = self.world.hold().adapters.get(adapter).map(|it| it.driver.clone())
        else {
            return false;
        };
        let keys = Class::Scheduler.keys(adapter, driver.generation, None);
        let pass; // Before the world, so that it is dropped after it.
        let number = {
            let mut world = self.world.hold();
            let taken = self.try_enter_work(&mut world, adapter, keys);
            let Some(taken) = taken else { return false };
            let ready = world.paging_ready().contains(&adapter);
            let memory = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut());
            let next = memory.filter(|it| ready && !it.building).and_then(|it| {
                let number = it.planned.pop_front()?;
                it.building = true;
                Some(number)
            });
            let Some(number) = next else {
                taken.leave(&mut world);
                return false;
            };
            pass = taken;
            number
        };
        let fatal = self.world.hold().adapters.get(adapter).is_some_and(|it| it.fatal);
        if fatal || driver.pulled.get().is_some() {
            self.give_up_paging(number); // There is no hardware to do it.
        } else {
            self.build_work(at, &driver, &pass, number);
        }
        let mut world = self.world.hold();
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.building = false;
        }
        self.wake(&mut world);
        true
    }

    /// Has the driver write all steps, and submits what it wrote.
    fn build_work(&self, at: &mut Passive, driver: &Driver, pass: &Pass<'_>, number: Id<Paging>) {
        let adapter = driver.adapter;
        let Some(mut open) = self.open_buffer(adapter, false) else {
            self.give_up_paging(number);
            return;
        };
        while let Some(mut step) = self.next_step(number) {
            if self.must_wait(adapter, &step, open.used) {
                self.put_back(number, step);
                self.submit_paging(at, driver, pass, number, open, false);
                self.wait_for_paging(adapter, number);
                return;
            }
            match self.build_step(at, driver, pass, number, &mut step, &mut open) {
                Turn::Whole => open.done.push(step),
                Turn::Full => {
                    let open_used = open.used;
                    self.put_back(number, step);
                    self.submit_paging(at, driver, pass, number, open, false);
                    // Who got nowhere gets all the room there is.
                    let Some(next) = self.open_buffer(adapter, open_used == 0) else {
                        self.give_up_paging(number);
                        return;
                    };
                    open = next;
                }
                Turn::Busy => {
                    step.idle = true;
                    self.put_back(number, step);
                    self.submit_paging(at, driver, pass, number, open, false);
                    self.wait_for_nodes(adapter, number);
                    return;
                }
            }
        }
        self.submit_paging(at, driver, pass, number, open, true);
    }

    fn next_step(&self, number: Id<Paging>) -> Option<Step> {
        self.world.hold().pagings.get_mut(number)?.steps.pop_front()
    }

    fn put_back(&self, number: Id<Paging>, step: Step) {
        if let Some(it) = self.world.hold().pagings.get_mut(number) {
            it.steps.push_front(step);
        }
    }

    /// Whether a step has to wait for all before it to be done: what the CPU writes is written
    /// at once, whatever the hardware still has to do.
    fn must_wait(&self, adapter: Id<Adapter>, step: &Step, used: u32) -> bool {
        let world = self.world.hold();
        if !world.is_by_cpu(step) {
            return false;
        }
        // The adapter may have stopped meanwhile.
        let Some(it) = world.adapters.get(adapter) else { return false };
        let on = it.memory.as_ref().map_or(0, |it| it.paging.node as usize);
        used > 0 || it.nodes.get(on).is_some_and(|it| it.queue.iter().any(|it| it.batch.is_some()))
    }

    /// Paging work goes on when the node that pages has done what it was given.
    fn wait_for_paging(&self, adapter: Id<Adapter>, number: Id<Paging>) {
        let mut world = self.world.hold();
        // The adapter may have stopped meanwhile.
        let Some(it) = world.adapters.get_mut(adapter) else { return };
        let on = it.memory.as_ref().map_or(0, |it| it.paging.node as usize);
        let behind = it.nodes.get(on).map(|it| Behind::Node(on, it.given));
        if let Some(it) = it.memory.as_mut() {
            it.planned.push_front(number);
        }
        if let Some(it) = world.pagings.get_mut(number) {
            it.behind = behind.into_iter().collect();
        }
    }

    /// A driver said that an allocation is in use: its turn comes when what flies has passed.
    fn wait_for_nodes(&self, adapter: Id<Adapter>, number: Id<Paging>) {
        let mut world = self.world.hold();
        let nodes = world.adapters.get(adapter).map(|it| it.nodes.as_slice()).unwrap_or_default();
        let behind = (0..).zip(nodes).filter(|(_, it)| it.passed != it.given);
        let behind: Vec<Behind> = behind.map(|(node, it)| Behind::Node(node, it.given)).collect();
        if let Some(it) = world.pagings.get_mut(number) {
            it.behind = behind;
        }
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.planned.push_front(number);
        }
    }

    fn open_buffer(&self, adapter: Id<Adapter>, all: bool) -> Option<Open> {
        let mut world = self.world.hold();
        let memory = world.adapters.get_mut(adapter)?.memory.as_mut()?;
        let buffer = if let Some(it) = memory.buffers.pop() {
            it
        } else {
            let bytes = u64::from(memory.paging.buffer).next_multiple_of(PAGE);
            let private = vec![0; memory.paging.private as usize];
            Buffer { run: memory.ram.take(bytes)?, private }
        };
        let size = memory.paging.buffer;
        let pressure = memory.pressure.as_mut().filter(|_| !all);
        let room = pressure.map_or(size, |it| it.room(size));
        Some(Open { buffer, room, used: 0, done: Vec::new() })
    }

    /// One call of `DxgkDdiBuildPagingBuffer`.
    fn build_step(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
        number: Id<Paging>,
        step: &mut Step,
        open: &mut Open,
    ) -> Turn {
        let facts = self.world.hold().facts(step);
        let heard = |it: &Facts| it.named.is_some() || matches!(step.what, Move::Map | Move::Unmap);
        let Some(facts) = facts.filter(heard) else { return Turn::Whole };
        if step.passes == 0 {
            self.witness(number, &step.what, &facts, true);
        }
        let operation = facts.operation(step);
        let (name, address) = (step.what.name(), facts.address);
        let room = open.room.saturating_sub(open.used);
        let start = open.buffer.run.start + u64::from(open.used);
        let rest = Run { start, bytes: u64::from(room) };
        let mut operation = Some(operation);
        let (mut answer, mut written) = (Err(Refusal::NoMemory), 0);
        let before = step.multipass;
        let mut multipass = before;
        let private = &mut open.buffer.private;
        let used = open.used;
        let secret = crate::create::digest(private);
        // WINDOWS: what the CPU writes has no buffer (documented).
        let by_cpu = facts.table.as_ref().is_some_and(|it| it.cpu);
        let mut build = |buffer: &mut [u8]| {
            let Some(operation) = operation.take() else { return };
            let mut building = Building {
                operation,
                buffer,
                address: if by_cpu { 0 } else { start },
                before: if by_cpu { 0 } else { used },
                written: 0,
                multipass: &mut multipass,
                private,
            };
            let whom = For { process: None, carries: &|_| () };
            answer = driver.build_paging(at, pass, whom, &mut building);
            written = building.written;
        };
        if by_cpu {
            build(&mut []);
        } else {
            facts.ram.lend(rest, &mut build);
        }
        let room = if by_cpu { 0 } else { room };
        let private = &open.buffer.private;
        if !private.is_empty() {
            let what = What::PagingPrivate {
                buffer: open.buffer.run.start,
                bytes: u32::try_from(private.len()).unwrap_or(u32::MAX),
                before: secret,
                after: crate::create::digest(private),
            };
            self.log.emit(driver.adapter.subject(), what);
        }
        let broken = (written > room).then(|| {
            format!("the driver says it wrote {written} bytes of commands where {room} were free")
        });
        let about = facts.owner;
        let place = "DxgkDdiBuildPagingBuffer.pDmaBuffer";
        self.log.judge(RuleId::KMD_PAGING_002, Who::Driver, about, place, broken);
        let written = written.min(room);
        open.used += written;
        (step.multipass, step.passes) = (multipass, step.passes + 1);
        let turn = match answer {
            Err(Refusal::NoRoom) => {
                let whole = room == facts.room;
                let stuck = whole && written == 0 && used == 0 && step.multipass == before;
                if self.judge_progress(step, about, stuck) { Turn::Full } else { Turn::Whole }
            }
            Err(Refusal::Busy) if !step.idle => Turn::Busy,
            // WINDOWS: any other answer stops the system (observed); here the operation counts
            // as done, and the answer is judged.
            Err(_) => {
                self.forget_bytes(facts.owner);
                Turn::Whole
            }
            Ok(()) => Turn::Whole,
        };
        let built = What::PagingBuilt {
            operation: name.into(),
            of: about,
            word: self.log.word(facts.word),
            segment: facts.segment,
            address,
            size: facts.bytes,
            private: match &step.what {
                Move::Update(private) => crate::create::digest(private),
                _ => flight::Hex(0),
            },
            come: step.what.comes(),
            idle: step.idle,
            bytes: written,
            pass: step.passes,
            answer: answer.as_ref().err().map_or("ok".into(), |why| why.name()),
            whole: matches!(turn, Turn::Whole),
        };
        self.log.emit(number.subject(), built);
        if let Some(table) = facts.table.as_ref().filter(|_| matches!(turn, Turn::Whole)) {
            self.say_tabled(facts.owner, &step.what, table);
            if by_cpu {
                self.witness_table(Some(number), &step.what, table, false);
            }
        }
        turn
    }

    /// A driver whose buffer is full goes on with the next. Answers whether it gets on.
    fn judge_progress(&self, step: &Step, about: flight::Subject, stuck: bool) -> bool {
        let endless = step.passes >= MOST_PASSES;
        let broken = (stuck || endless).then(|| {
            format!(
                "the driver asked for another buffer, though it got nowhere with an empty one, \
                 after {} buffers for one operation",
                step.passes
            )
        });
        let goes_on = broken.is_none();
        let place = "DxgkDdiBuildPagingBuffer.MultipassOffset";
        self.log.judge(RuleId::KMD_PAGING_003, Who::Driver, about, place, broken);
        goes_on
    }

    /// Tells whoever looks at bytes that nothing is known of an allocation's.
    fn forget_bytes(&self, of: flight::Subject) {
        if let Some(witness) = self.witness.get() {
            witness.forget(of);
        }
    }

    /// One call of `DxgkDdiPatch` for paging work, which has no lists.
    ///
    /// WINDOWS: one page says that it is called, another that it need not be: it is, but under
    /// pressure (our decision).
    fn patch_paging(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
        packet: &PagingSubmission<'_>,
    ) {
        let ram = {
            let world = self.world.hold();
            let Some((_, memory)) = world.memory(driver.adapter) else { return };
            if memory.pressure.is_some() || packet.length == 0 {
                return;
            }
            memory.ram.clone()
        };
        let mut private = packet.private.to_vec();
        let mut answer = Ok(());
        let run = Run { start: packet.commands, bytes: u64::from(packet.length) };
        ram.lend(run, &mut |buffer| {
            let mut patching = Patching {
                context: None,
                list: &[],
                patches: &[],
                buffer,
                address: packet.commands,
                submitted: 0..packet.length,
                private: &mut private,
                fence: packet.fence,
                null: false,
            };
            answer = driver.patch(at, pass, None, &mut patching);
        });
        let broken = answer.err().map(|why| {
            format!("DxgkDdiPatch answered {} for paging work, which has no lists", why.name())
        });
        let (rule, place) = (RuleId::KMD_SUBMIT_004, "DxgkDdiPatch.Flags.Paging");
        self.log.judge(rule, Who::Driver, driver.adapter.subject(), place, broken);
    }

    /// One call of `DxgkDdiSubmitCommand` with what a driver wrote.
    fn submit_paging(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
        number: Id<Paging>,
        open: Open,
        last: bool,
    ) {
        let Open { buffer, used, done, .. } = open;
        let given = {
            let world = &mut *self.world.hold();
            // It may have been given up meanwhile.
            let Some(paging) = world.pagings.get_mut(number) else { return };
            (paging.flying, paging.built) = (paging.flying + 1, last);
            let (switch, adapter) = (paging.switch, paging.adapter);
            // The adapter may have stopped meanwhile.
            let Some(it) = world.adapters.get_mut(adapter) else { return };
            let on = it.memory.as_ref().map_or(0, |it| it.paging.node as usize);
            let index = switch.unwrap_or(on);
            let Some(node) = it.nodes.get_mut(index) else { return };
            node.given = node.given.next();
            let (fence, subject) = (node.given, node.subject());
            let (commands, private) = (buffer.run.start, buffer.private.clone());
            let batch = Batch {
                paging: number,
                done,
                buffer: Some(buffer),
                length: used,
                switch: switch.is_some(),
                refused: false,
            };
            let batch = Some(batch);
            node.queue.push_back(Flying { fence, of: None, batch, lost: false });
            let (paging, switch) = (number.subject(), switch.is_some());
            self.log.emit(subject, What::PagingSubmitted { paging, fence, bytes: used, switch });
            (index, fence, commands, private, switch)
        };
        let (node, fence, commands, private, switch) = given;
        let submission = PagingSubmission {
            node: u32::try_from(node).unwrap_or(u32::MAX),
            fence,
            commands,
            length: used,
            private: &private,
            switch,
        };
        if driver.generation == Generation::One {
            self.patch_paging(at, driver, pass, &submission);
        }
        // WINDOWS: a refusal stops the system (observed); here it counts as done, once what is
        // before it has passed.
        if driver.submit_paging(at, pass, &submission).is_err() {
            self.refuse_batch(driver.adapter, node, fence);
        }
    }
}

impl World {
    /// The adapters whose next paging work waits for nothing.
    fn paging_ready(&self) -> Vec<Id<Adapter>> {
        let ready = |(number, it): (Id<Adapter>, &Adapter)| {
            let memory = it.memory.as_ref().filter(|it| !it.building)?;
            let next = self.pagings.get(*memory.planned.front()?)?;
            // A node that is asked for what it has gets nothing, and what it gave back is first.
            let node = it.nodes.get(next.switch.unwrap_or(memory.paging.node as usize));
            if !it.fatal
                && (!node.is_none_or(crate::schedule::Node::takes) || self.is_to_be_reset(number))
            {
                return None;
            }
            next.behind.iter().all(|it| self.is_over(number, *it)).then_some(number)
        };
        self.adapters.iter().filter_map(ready).collect()
    }
}
