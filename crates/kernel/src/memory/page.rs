//! Paging work: planned by the kernel, written by the driver, done by the hardware.
//!
//! # Invariants
//!
//! 1. The work of an adapter is built by one at a time, in the order of its plan, under the
//!    scheduler's key.
//! 2. A step is done when the buffer that ends it has passed, not before.

use crate::ddi::{Driver, For};
use crate::gate::{Class, Pass};
use crate::kernel::Kernel;
use crate::memory::place::{Plan, segment_number};
use crate::memory::{Batch, Buffer, Move, Paging, Spotted, Step};
use crate::miniport::Refusal;
use crate::operation::{Building, End, Operation, PAGE, Pages, PagingSubmission, Transfer};
use crate::schedule::Flying;
use crate::world::World;
use flight::{Fence, Kind, Movement, Moving, Passive, RuleId, Run, What, Who};
use std::collections::VecDeque;
use std::sync::Arc;

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
        adapter: u32,
        plan: Plan,
        signals: Option<(u32, u64)>,
    ) -> Option<u32> {
        let Plan { leave, come, mut behind, .. } = plan;
        let steps: VecDeque<Step> = leave.into_iter().chain(come).collect();
        if steps.is_empty() && signals.is_none() {
            return None;
        }
        behind.retain(|(node, fence)| !world.fence_passed(adapter, *node, *fence));
        for step in &steps {
            if let Some(it) = world.extents.get_mut(step.extent) {
                it.pending += 1;
                it.moving += u32::from(step.what.moves());
            }
        }
        let (count, waits) = (steps.len(), behind.len());
        let number = world.pagings.add(Paging {
            adapter,
            steps,
            behind,
            flying: 0,
            built: false,
            signals,
            switch: None,
        });
        let small = |it| u32::try_from(it).unwrap_or(u32::MAX);
        let (adapter_subject, steps, behind) =
            (Kind::Adapter.nr(adapter), small(count), small(waits));
        let planned = What::PagingPlanned { adapter: adapter_subject, steps, behind };
        self.log.emit(Kind::Paging.nr(number), planned);
        if let Some((queue, value)) = signals {
            let paging = Kind::Paging.nr(number);
            self.log.emit(Kind::Queue.nr(queue), What::QueueGiven { paging, value });
        }
        self.enqueue_paging(world, adapter, number);
        Some(number)
    }

    /// Asks for a packet after which no context is current on a node.
    pub(crate) fn start_switch(&self, world: &mut World, adapter: u32, node: usize) {
        let number = world.pagings.add(Paging {
            adapter,
            steps: VecDeque::new(),
            behind: Vec::new(),
            flying: 0,
            built: false,
            signals: None,
            switch: Some(node),
        });
        let planned =
            What::PagingPlanned { adapter: Kind::Adapter.nr(adapter), steps: 0, behind: 0 };
        self.log.emit(Kind::Paging.nr(number), planned);
        self.enqueue_paging(world, adapter, number);
    }

    fn enqueue_paging(&self, world: &mut World, adapter: u32, number: u32) {
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

    fn page(&self, at: &mut Passive, adapter: u32) -> bool {
        let Some(driver) = self.world.hold().adapters.get(adapter).map(|it| it.driver.clone())
        else {
            return false;
        };
        let keys = Class::Scheduler.keys(adapter, driver.generation, 0);
        let pass; // Before the world, so that it is dropped after it.
        let number = {
            let mut world = self.world.hold();
            let Some(taken) = self.try_enter(&mut world, keys) else { return false };
            let memory = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut());
            let next = memory.filter(|it| !it.building).and_then(|it| {
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
        self.build_work(at, &driver, &pass, number);
        let mut world = self.world.hold();
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.building = false;
        }
        self.wake(&mut world);
        true
    }

    /// Has the driver write all steps, and submits what it wrote.
    fn build_work(&self, at: &mut Passive, driver: &Driver, pass: &Pass<'_>, number: u32) {
        let adapter = driver.adapter.number;
        let Some(mut open) = self.open_buffer(adapter, false) else {
            self.give_up_paging(number);
            return;
        };
        while let Some(mut step) = self.next_step(number) {
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

    fn next_step(&self, number: u32) -> Option<Step> {
        self.world.hold().pagings.get_mut(number)?.steps.pop_front()
    }

    fn put_back(&self, number: u32, step: Step) {
        if let Some(it) = self.world.hold().pagings.get_mut(number) {
            it.steps.push_front(step);
        }
    }

    /// A driver said that an allocation is in use: its turn comes when what flies has passed.
    fn wait_for_nodes(&self, adapter: u32, number: u32) {
        let mut world = self.world.hold();
        let nodes = world.adapters.get(adapter).map(|it| it.nodes.as_slice()).unwrap_or_default();
        let behind = (0..).zip(nodes).filter(|(_, it)| it.passed != it.given);
        let behind: Vec<(usize, Fence)> = behind.map(|(node, it)| (node, it.given)).collect();
        if let Some(it) = world.pagings.get_mut(number) {
            it.behind = behind;
        }
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.planned.push_front(number);
        }
    }

    fn open_buffer(&self, adapter: u32, all: bool) -> Option<Open> {
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
        number: u32,
        step: &mut Step,
        open: &mut Open,
    ) -> Turn {
        let facts = self.world.hold().facts(step.extent, step.at);
        let heard = |it: &Facts| it.named.is_some() || matches!(step.what, Move::Map | Move::Unmap);
        let Some(facts) = facts.filter(heard) else { return Turn::Whole };
        if step.passes == 0 {
            self.witness(number, &step.what, &facts, true);
        }
        let operation = facts.operation(step);
        let (name, address) = (operation.name(), facts.address);
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
        facts.ram.lend(rest, &mut |buffer| {
            let Some(operation) = operation.take() else { return };
            let mut building = Building {
                operation,
                buffer,
                address: start,
                before: used,
                written: 0,
                multipass: &mut multipass,
                private,
            };
            let whom = For { process: None, carries: &|_| () };
            answer = driver.build_paging(at, pass, whom, &mut building);
            written = building.written;
        });
        let private = &open.buffer.private;
        if !private.is_empty() {
            let what = What::PagingPrivate {
                buffer: open.buffer.run.start,
                bytes: u32::try_from(private.len()).unwrap_or(u32::MAX),
                before: secret,
                after: crate::create::digest(private),
            };
            self.log.emit(driver.adapter, what);
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
        self.log.emit(Kind::Paging.nr(number), built);
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

    /// Tells whoever looks at bytes what an operation does to them.
    fn witness(&self, paging: u32, what: &Move, facts: &Facts, begins: bool) {
        let Some(witness) = self.witness.get() else { return };
        if facts.locked && *what != Move::Unmap {
            return witness.forget(facts.owner); // The CPU may write to it meanwhile.
        }
        let movement = match what {
            Move::Fill => Movement::Filled,
            Move::In => Movement::Comes,
            Move::Out => Movement::Leaves,
            Move::Discard { .. } => Movement::Thrown,
            Move::Map => Movement::Mapped,
            Move::Unmap => Movement::Unmapped,
            Move::Init | Move::Update(_) | Move::Shift { .. } => {
                return witness.forget(facts.owner);
            }
            Move::Come | Move::Go => return,
        };
        let moving = Moving {
            paging: Kind::Paging.nr(paging),
            of: facts.owner,
            movement,
            address: facts.address,
            runs: &facts.runs,
            bytes: facts.bytes,
            linear: facts.linear,
            unwritten: *what == Move::Discard { unwritten: true },
            dummy: facts.dummy,
            machine: &*facts.machine,
            ram: &*facts.ram,
        };
        if begins {
            witness.begins(&moving);
        } else {
            witness.ends(&moving);
        }
    }

    /// One call of `DxgkDdiSubmitCommand` with what a driver wrote.
    fn submit_paging(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
        number: u32,
        open: Open,
        last: bool,
    ) {
        let Open { buffer, used, done, .. } = open;
        let given = {
            let world = &mut *self.world.hold();
            let Some(paging) = world.pagings.get_mut(number) else { return };
            (paging.flying, paging.built) = (paging.flying + 1, last);
            let (switch, adapter) = (paging.switch, paging.adapter);
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
                switch: switch.is_some(),
                refused: false,
            };
            let batch = Some(batch);
            node.queue.push_back(Flying { fence, context: 0, device: 0, batch, lost: false });
            let (paging, switch) = (Kind::Paging.nr(number), switch.is_some());
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
        // WINDOWS: a refusal stops the system (observed); here it counts as done, once what is
        // before it has passed.
        if driver.submit_paging(at, pass, &submission).is_err() {
            self.refuse_batch(driver.adapter.number, node, fence);
        }
    }

    /// The driver did not take a buffer: it is over when what is before it has passed.
    fn refuse_batch(&self, adapter: u32, node: usize, fence: Fence) {
        let world = &mut *self.world.hold();
        let it = world.adapters.get_mut(adapter).and_then(|it| it.nodes.get_mut(node));
        let flying = it.and_then(|it| it.queue.iter_mut().find(|it| it.fence == fence));
        if let Some(batch) = flying.and_then(|it| it.batch.as_mut()) {
            batch.refused = true;
        }
        self.finish_refused(world, adapter);
    }

    /// Buffers that a driver did not take, and that nothing is before any more, are over.
    pub(crate) fn finish_refused(&self, world: &mut World, adapter: u32) {
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
    pub(crate) fn finish_batch(&self, world: &mut World, adapter: u32, batch: Batch, lost: bool) {
        let Batch { paging, done, buffer, .. } = batch;
        if let Some(it) = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut()) {
            it.buffers.extend(buffer);
        }
        for step in &done {
            self.finish_step(world, paging, step, lost);
        }
        let Some(it) = world.pagings.get_mut(paging) else { return };
        it.flying -= 1;
        if it.built && it.flying == 0 {
            self.end_paging(world, paging, lost);
        }
    }

    fn finish_step(&self, world: &mut World, paging: u32, step: &Step, lost: bool) {
        let extent = step.extent;
        if let Some(witness) = self.witness.get()
            && let Some(facts) = world.facts(extent, step.at)
        {
            // What was never done says nothing about bytes.
            if lost {
                witness.forget(facts.owner);
            } else {
                self.witness(paging, &step.what, &facts, false);
            }
        }
        let Some((extents, memory)) = world.memory_mut_of(extent) else { return };
        let Some(it) = extents.get_mut(extent) else { return };
        it.pending -= 1;
        it.moving -= u32::from(step.what.moves());
        if let Some(segment) = memory.segments.get(step.at.segment).map(|it| it.subject) {
            let (operation, come) = (step.what.name().into(), step.what.comes());
            let done = What::PagingDone { operation, of: it.owner, segment, come };
            self.log.emit(Kind::Paging.nr(paging), done);
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
            self.log.emit(owner, What::LockAimed { place: place.into() });
        }
        if ending && idle {
            self.release_extent(world, extent);
        }
    }

    /// Paging work is over: whoever waits for it goes on.
    fn end_paging(&self, world: &mut World, number: u32, lost: bool) {
        let Some(it) = world.pagings.remove(number) else { return };
        self.log.emit(Kind::Paging.nr(number), What::PagingEnded { lost });
        if let Some((queue, value)) = it.signals {
            self.signal_queue(world, queue, value);
        }
        self.wake(world);
        self.ring(&self.bell);
    }

    /// There is no memory for the driver's commands: the work counts as done.
    fn give_up_paging(&self, number: u32) {
        let world = &mut *self.world.hold();
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
    pub(crate) fn lose_paging(&self, adapter: u32) -> bool {
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

/// What the operation of a step says, taken out of the world.
struct Facts {
    ram: Arc<dyn flight::Ram>,
    machine: Arc<dyn flight::Machine>,
    room: u32,
    owner: flight::Subject,
    segment: flight::Subject,
    word: usize,
    /// The same, if the driver may hear it.
    named: Option<usize>,
    bytes: u64,
    runs: Vec<Run>,
    address: u64,
    coherent: bool,
    linear: bool,
    dummy: u64,
    cpu: Option<usize>,
    locked: bool,
}

impl Facts {
    fn operation<'a>(&'a self, step: &'a Step) -> Operation<'a> {
        let (word, address, bytes) = (self.word, self.address, self.bytes);
        let segment = segment_number(step);
        let pages = Pages { runs: &self.runs, first: 0, count: bytes / PAGE };
        let place = End::Segment { number: segment, address };
        let transfer = |from, to| {
            Operation::Transfer(Transfer {
                word: Some(word),
                offset: 0,
                bytes,
                from,
                to,
                start: true,
                end: true,
                idle: step.idle,
                special: false,
            })
        };
        match &step.what {
            Move::Fill => Operation::Fill { word, segment, address, bytes, pattern: 0 },
            Move::In => transfer(End::System(pages), place),
            Move::Out => transfer(place, End::System(pages)),
            Move::Shift { from } => {
                let address = address - step.at.offset + from;
                transfer(End::Segment { number: segment, address }, place)
            }
            Move::Discard { .. } => Operation::Discard { word, segment, address, idle: step.idle },
            Move::Map => Operation::MapAperture {
                word: self.named,
                segment,
                page: step.at.offset / PAGE,
                pages,
                coherent: self.coherent,
            },
            Move::Unmap => Operation::UnmapAperture {
                word: self.named,
                segment,
                page: step.at.offset / PAGE,
                pages: bytes / PAGE,
                dummy: self.dummy,
            },
            Move::Init => Operation::InitContext { word, place, cpu: self.cpu, bytes },
            Move::Update(private) => Operation::UpdateContext { word, place, bytes, private },
            Move::Come => Operation::Notify { word, segment, address, resident: true },
            Move::Go => Operation::Notify { word, segment, address, resident: false },
        }
    }
}

impl Move {
    /// Whether the allocation comes by it, or stays, and does not leave.
    pub(crate) fn comes(&self) -> bool {
        !matches!(self, Move::Out | Move::Discard { .. } | Move::Unmap | Move::Go)
    }

    /// Whether it moves or changes the allocation's bytes.
    fn moves(&self) -> bool {
        let shift = matches!(self, Move::Shift { .. });
        shift || matches!(self, Move::Fill | Move::In | Move::Out | Move::Init | Move::Update(_))
    }

    /// The name of its operation in events.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Move::Fill => "fill",
            Move::In | Move::Out | Move::Shift { .. } => "transfer",
            Move::Discard { .. } => "discard",
            Move::Map => "map-aperture",
            Move::Unmap => "unmap-aperture",
            Move::Init => "init-context",
            Move::Update(_) => "update-context",
            Move::Come | Move::Go => "notify-residency",
        }
    }
}

impl World {
    /// What the operation of a step on an extent says.
    fn facts(&self, extent: u32, at: Spotted) -> Option<Facts> {
        let it = self.extents.get(extent)?;
        // What a driver has freed it does not hear of any more; only an aperture has to be told.
        let freed = self.is_freed(it.owner);
        let adapter = self.adapters.get(it.adapter)?;
        let memory = adapter.memory.as_ref()?;
        let segment = memory.segments.get(at.segment)?;
        let flags = it.wants.flags;
        let cpu = segment.shape.flags.aperture && flags.cpu_visible && flags.protected;
        Some(Facts {
            ram: memory.ram.clone(),
            machine: adapter.driver.machine.clone(),
            room: memory.paging.buffer,
            owner: it.owner,
            segment: segment.subject,
            word: it.word,
            named: (!freed).then_some(it.word),
            bytes: it.bytes,
            runs: it.backing.clone(),
            address: segment.shape.base + at.offset,
            coherent: segment.shape.flags.coherent && it.wants.flags.cached,
            linear: flags.cpu_visible && !flags.swizzled,
            dummy: memory.dummy.map_or(0, |it| it.start),
            cpu: it.lock.as_ref().map(|it| it.address).filter(|_| cpu),
            locked: it.lock.is_some(),
        })
    }

    /// Whether a node has done a packet, or it counts as done since its device is lost.
    pub(crate) fn fence_passed(&self, adapter: u32, node: usize, fence: Fence) -> bool {
        let nodes = self.adapters.get(adapter).map(|it| it.nodes.as_slice()).unwrap_or_default();
        let Some(it) = nodes.get(node) else { return true };
        it.passed.covers(fence) || it.queue.iter().all(|it| it.fence != fence)
    }

    /// The adapters whose next paging work waits for nothing.
    fn paging_ready(&self) -> Vec<u32> {
        let ready = |(number, it): (u32, &crate::start::Adapter)| {
            let memory = it.memory.as_ref().filter(|it| !it.building)?;
            let next = self.pagings.get(*memory.planned.front()?)?;
            let passed = |(node, fence): &(usize, Fence)| self.fence_passed(number, *node, *fence);
            next.behind.iter().all(passed).then_some(number)
        };
        self.adapters.iter().filter_map(ready).collect()
    }
}
