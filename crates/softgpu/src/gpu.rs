//! The hardware: one engine for each node, each executing its packets in order.
//!
//! # Invariants
//!
//! 1. Engines take steps in turn: the engine that took the last step is considered last for the
//!    next.
//! 2. A hang of one engine does not affect the others.
//! 3. The lock is not held while the interrupt line is raised, because the driver calls back.
//! 4. A register access by a driver is recorded in the driver call that makes it (`CallGuard`).

use crate::controller::{Address, Controller};
use crate::engine::{Completion, Engine, Paging, RenderWork, Step, Stream, Work};
use crate::format::Command;
use crate::memory::Memory;
use crate::mmu::Virtual;
use crate::plan::MemoryPlan;
use flight::{CallGuard, Fence, HardwareModel, InterruptLine, Passive, Ram, TableEntry, TableRoot};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The number of nodes, each with one engine and its own fences.
pub const NODES: u32 = 2;

/// The built-in GPU.
#[derive(Debug, Default)]
pub struct Gpu {
    memory: Option<Controller>,
    state: Mutex<State>,
    /// Whether a step would do something. Set when the lock is released, and read without it: a
    /// driver call that gives no work finds that out without a lock.
    busy: AtomicBool,
}

/// Commands, and the fence that is signalled when they are done.
#[derive(Debug)]
pub struct Packet {
    /// The node that executes it.
    pub node: u32,
    /// Its fence on that node.
    pub fence: Fence,
    /// The commands that are still to do. The packet does not keep the memory alive: destroying an
    /// allocation too early shows as a fault.
    pub commands: VecDeque<Command<Weak<Memory>>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) engines: [Engine; NODES as usize],
    /// The engine that is considered first for the next step.
    next: usize,
    faults: u64,
    /// How many packets were completed.
    packets: u64,
    vsync: Vsync,
    vsync_enabled: bool,
    /// How often the interrupt was asserted.
    interrupts: u64,
}

/// The state of the display. Time does not pass here, so enabling vsync interrupts yields one
/// vsync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Vsync {
    /// No vsync is requested, or the last one was acknowledged.
    #[default]
    Idle,
    /// The next step is a vsync.
    Due,
    /// A vsync happened and is not acknowledged.
    Asserted,
}

impl Gpu {
    /// An idle GPU without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A GPU with memory. Returns `None` if the machine has too little memory.
    pub fn with_memory(ram: Arc<dyn Ram>, plan: &MemoryPlan) -> Option<Self> {
        let memory = Some(Controller::new(ram, &plan.whole())?);
        Some(Self { memory, ..Self::default() })
    }

    /// Queues a packet on its node. A packet for a node that does not exist is counted as a fault
    /// and skipped.
    pub fn push(&self, packet: Packet) {
        self.enqueue(packet.node, Work::Packet(packet));
    }

    /// Queues commands that use GPU memory, likewise.
    pub fn push_render(&self, drawing: RenderWork) {
        self.enqueue(drawing.node, Work::Render(drawing));
    }

    /// Queues commands in system memory, likewise.
    pub fn push_stream(&self, stream: Stream) {
        self.enqueue(stream.node, Work::Stream(stream));
    }

    /// Queues paging commands, likewise.
    pub fn push_paging(&self, paging: Paging) {
        self.enqueue(paging.node, Work::Paging(paging));
    }

    fn enqueue(&self, node: u32, work: Work) {
        CallGuard::touch();
        let mut state = self.state();
        match state.engine(node) {
            Some(engine) => engine.take(work),
            None => state.faults += 1,
        }
    }

    /// The fences of a node that completed since the last call, in order.
    pub fn take_done(&self, node: u32) -> Vec<Fence> {
        let done =
            |completion| if let Completion::Done(fence) = completion { Some(fence) } else { None };
        self.take_completions(node).into_iter().filter_map(done).collect()
    }

    /// The packets of a node that ended since the last call, in order.
    pub fn take_completions(&self, node: u32) -> Vec<Completion> {
        CallGuard::touch();
        let taken = self.state().engine(node).map(|it| mem::take(&mut it.completions));
        if taken.as_ref().is_some_and(|completions| !completions.is_empty()) {
            CallGuard::acknowledge();
        }
        taken.unwrap_or_default()
    }

    /// Enables or disables vsync interrupts.
    pub fn set_vsync(&self, on: bool) {
        CallGuard::touch();
        let mut state = self.state();
        state.vsync = if on { Vsync::Due } else { Vsync::Idle };
        state.vsync_enabled = on;
    }

    /// Whether there is a vsync to acknowledge.
    pub fn is_vsync_asserted(&self) -> bool {
        CallGuard::touch();
        self.state().vsync == Vsync::Asserted
    }

    /// Whether there was a vsync since the last call, which this call acknowledges.
    pub fn take_vsync(&self) -> bool {
        CallGuard::touch();
        let mut state = self.state();
        let was = state.vsync == Vsync::Asserted;
        if was {
            CallGuard::acknowledge();
            state.vsync = Vsync::Idle;
        }
        was
    }

    /// The register that counts completed packets. It is valid while no engine runs.
    pub fn packets(&self) -> u64 {
        CallGuard::touch();
        self.state().packets
    }

    /// How many commands were skipped because their memory was destroyed or their range outside.
    pub fn faults(&self) -> u64 {
        self.state().faults
    }

    /// Drops every packet, and every completion that was not read yet. Unmaps the aperture and
    /// clears all cached translations. The counts of faults and packets stay, and local memory
    /// keeps its bytes.
    pub fn reset(&self) {
        self.restart_engines(|_| Engine::default());
    }

    /// Powers on: the same, but its fences continue, because its driver remembers them.
    pub fn start_after_power(&self) {
        self.restart_engines(Engine::without_work);
    }

    fn restart_engines(&self, engine: impl Fn(&Engine) -> Engine) {
        CallGuard::touch();
        let mut state = self.state();
        state.vsync = Vsync::default();
        state.vsync_enabled = false;
        for it in &mut state.engines {
            *it = engine(it);
        }
        drop(state);
        if let Some(memory) = &self.memory {
            memory.reset();
        }
    }

    /// Fills local memory with a pattern: after power-on its contents are undefined.
    pub fn fill_local(&self, pattern: u32) {
        if let Some(memory) = &self.memory {
            memory.fill_local(pattern);
        }
    }

    /// Maps pages of the segment [`LOCAL`](crate::LOCAL) into pages of the CPU's window: pairs of
    /// both. Returns whether all exist.
    pub fn map_host_aperture(&self, pairs: &[(u64, u64)]) -> bool {
        CallGuard::touch();
        let memory = self.memory.as_ref();
        memory.is_some_and(|controller| {
            controller.mmu().is_some_and(|mmu| mmu.map_window(pairs, controller.local_pages()))
        })
    }

    /// Unmaps these pages of the window. Returns whether all were mapped.
    pub fn unmap_host_aperture(&self, pages: &[u64]) -> bool {
        CallGuard::touch();
        self.memory.as_ref().and_then(Controller::mmu).is_some_and(|mmu| mmu.unmap_window(pages))
    }

    /// Loses power: every packet, and every byte of local memory, which is replaced by noise.
    pub fn lose_power(&self) {
        self.start_after_power();
        if let Some(memory) = &self.memory {
            memory.lose_power();
        }
    }

    /// Where the CPU sees local memory, if there is some.
    pub fn cpu_address(&self) -> Option<u64> {
        self.memory.as_ref().map(Controller::cpu_address)
    }

    pub(crate) fn state(&self) -> StateGuard<'_> {
        let state = self.state.lock();
        StateGuard { state, busy: &self.busy }
    }
}

/// The state of the hardware, locked.
pub(crate) struct StateGuard<'a> {
    state: MutexGuard<'a, State>,
    busy: &'a AtomicBool,
}

impl Deref for StateGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        self.busy.store(!self.state.idle(), Ordering::Release);
    }
}

impl HardwareModel for Gpu {
    fn idle(&self) -> bool {
        !self.busy.load(Ordering::Acquire)
    }

    fn holds_work(&self, node: Option<u32>) -> Option<bool> {
        let state = self.state();
        let mut engines = (0..).zip(&state.engines);
        Some(
            engines
                .any(|(at, engine)| node.is_none_or(|number| number == at) && engine.holds_work()),
        )
    }

    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        if self.state().raise_vsync() {
            return line.raise(at);
        }
        let (node, step) = self.state().step(self.memory.as_ref());
        if let Some(address) = step.saved {
            line.context_saved(node, address);
        }
        for (fence, address, bytes) in step.used {
            line.memory_used(node, fence, address, bytes);
        }
        if let Some((fence, to)) = step.wrote {
            line.memory_written(node, fence, to);
        }
        if let Some((fence, root)) = step.rooted {
            line.root_used(node, fence, root);
        }
        if step.interrupt {
            line.raise(at);
        }
    }

    fn interrupt_asserted(&self) -> Option<bool> {
        let state = self.state();
        let completions = state.engines.iter().any(|engine| !engine.completions.is_empty());
        Some(completions || state.vsync == Vsync::Asserted)
    }

    fn interrupt_count(&self) -> u64 {
        self.state().interrupts
    }

    fn interrupt_enabled(&self) -> Option<bool> {
        Some(self.state().vsync_enabled)
    }

    fn prefer_node(&self, node: u32) {
        if node < NODES {
            self.state().next = node as usize;
        }
    }

    fn ram(&self) -> Option<Arc<dyn Ram>> {
        self.memory.as_ref().map(|controller| controller.ram().clone())
    }

    fn peek(&self, address: u64, into: &mut [u8]) -> bool {
        self.memory
            .as_ref()
            .is_some_and(|controller| controller.read(Address::Local(address), into))
    }

    fn peek_entry(&self, table: (u32, u64), index: u32) -> Option<TableEntry> {
        self.memory.as_ref()?.entry(table, u64::from(index))
    }

    fn peek_entries(&self, table: (u32, u64), first: u32, into: &mut [Option<TableEntry>]) {
        match &self.memory {
            Some(controller) => controller.entries(table, u64::from(first), into),
            None => into.fill(None),
        }
    }

    fn translate(&self, root: TableRoot, address: u64) -> Option<TableEntry> {
        self.memory.as_ref()?.translate(root, address)
    }

    fn peek_virtual(&self, root: TableRoot, address: u64, into: &mut [u8]) -> bool {
        let at = Virtual { root: Some(root), address };
        self.memory.as_ref().is_some_and(|controller| controller.peek_virtual(at, into))
    }
}

impl State {
    /// Whether a step would do nothing.
    fn idle(&self) -> bool {
        self.vsync != Vsync::Due && self.engines.iter().all(Engine::idle)
    }

    pub(crate) fn engine(&mut self, node: u32) -> Option<&mut Engine> {
        self.engines.get_mut(node as usize)
    }

    /// Steps the display, if it is due.
    fn raise_vsync(&mut self) -> bool {
        let due = self.vsync == Vsync::Due;
        if due {
            self.vsync = Vsync::Asserted;
            self.interrupts += 1;
        }
        due
    }

    /// Steps the next engine that has work. Returns which engine, and the result.
    fn step(&mut self, memory: Option<&Controller>) -> (u32, Step) {
        let count = self.engines.len();
        let mut round_robin = (0..count).map(|index| (self.next + index) % count);
        let Some(busy) = round_robin.find(|index| !self.engines[*index].idle()) else {
            return (0, Step::default());
        };
        self.next = (busy + 1) % count;
        let step = self.engines[busy].step(memory);
        self.faults += step.faults;
        self.packets += u64::from(step.packet);
        self.interrupts += u64::from(step.interrupt);
        (u32::try_from(busy).unwrap_or(u32::MAX), step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{DeterministicHost, Log};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Raised(AtomicU32);

    impl InterruptLine for Raised {
        fn raise(&self, _at: &mut Passive) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn packet<const N: usize>(fence: u32, commands: [Command<Weak<Memory>>; N]) -> Packet {
        Packet { node: 0, fence: Fence(fence), commands: commands.into() }
    }

    fn fill(target: &Arc<Memory>, offset: u64, length: u64, value: u8) -> Command<Weak<Memory>> {
        Command::Fill { target: Arc::downgrade(target), offset, length, value }
    }

    fn copy(
        (from, from_offset): (&Arc<Memory>, u64),
        (to, to_offset): (&Arc<Memory>, u64),
        length: u64,
    ) -> Command<Weak<Memory>> {
        let (from, to) = (Arc::downgrade(from), Arc::downgrade(to));
        Command::Copy { from, from_offset, to, to_offset, length }
    }

    /// Steps until the GPU is idle. Returns the numbers of steps and of interrupts.
    fn run(gpu: &Gpu) -> (u32, u32) {
        let raised = Raised::default();
        let mut steps = 0;
        let flown = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
            while !gpu.idle() {
                gpu.step(at, &raised);
                steps += 1;
            }
        });
        flown.unwrap();
        (steps, raised.0.into_inner())
    }

    #[test]
    fn a_packet_fills_and_copies_real_bytes() {
        let (gpu, a, b) = (Gpu::new(), Arc::new(Memory::new(8)), Arc::new(Memory::new(8)));
        gpu.push(packet(1, [fill(&a, 2, 3, 7), fill(&a, 4, 4, 9), copy((&a, 3), (&b, 0), 3)]));
        assert_eq!(run(&gpu), (4, 1), "one step for each command, one for the end");
        assert_eq!(a.read(0..8), Some(vec![0, 0, 7, 7, 9, 9, 9, 9]));
        assert_eq!(b.read(0..8), Some(vec![7, 9, 9, 0, 0, 0, 0, 0]));
        assert_eq!((gpu.take_done(0), gpu.take_done(0)), (vec![Fence(1)], Vec::new()));
        assert_eq!(gpu.faults(), 0);
    }

    #[test]
    fn a_copy_may_overlap_itself() {
        let (gpu, memory) = (Gpu::new(), Arc::new(Memory::new(4)));
        memory.write(0, &[1, 2, 3, 4]).unwrap();
        gpu.push(packet(1, [copy((&memory, 0), (&memory, 1), 3)]));
        run(&gpu);
        assert_eq!(memory.read(0..4), Some(vec![1, 1, 2, 3]));
        gpu.push(packet(2, [copy((&memory, 1), (&memory, 0), 3)]));
        run(&gpu);
        assert_eq!(memory.read(0..4), Some(vec![1, 2, 3, 3]));
    }

    #[test]
    fn packets_end_in_their_order_and_each_interrupts_once() {
        let gpu = Gpu::new();
        for fence in [u32::MAX, 0, 1] {
            gpu.push(packet(fence, []));
        }
        assert_eq!(run(&gpu), (3, 3));
        assert_eq!(gpu.take_done(0), [Fence(u32::MAX), Fence(0), Fence(1)]);
    }

    #[test]
    fn a_hang_is_idle_and_nothing_behind_it_runs() {
        let (gpu, memory) = (Gpu::new(), Arc::new(Memory::new(4)));
        gpu.push(packet(1, [fill(&memory, 0, 1, 5), Command::Hang, fill(&memory, 1, 1, 5)]));
        gpu.push(packet(2, [fill(&memory, 2, 1, 5)]));
        assert_eq!(run(&gpu), (1, 0));
        let flown = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
            gpu.step(at, &Raised::default());
        });
        flown.unwrap();
        assert!(gpu.idle(), "a step does not end it");
        assert_eq!(memory.read(0..4), Some(vec![5, 0, 0, 0]));
        assert_eq!(gpu.take_done(0), []);
        gpu.reset();
        gpu.push(packet(3, [fill(&memory, 3, 1, 5)]));
        assert_eq!(run(&gpu), (2, 1));
        assert_eq!(memory.read(0..4), Some(vec![5, 0, 0, 5]));
    }

    #[test]
    fn a_range_outside_is_a_fault_and_the_rest_is_done() {
        let (gpu, a, b) = (Gpu::new(), Arc::new(Memory::new(4)), Arc::new(Memory::new(4)));
        let outside = [
            fill(&a, 3, 2, 5),
            fill(&a, u64::MAX, 2, 5),
            copy((&a, 0), (&b, 1), 4),
            copy((&a, 2), (&b, 0), 4),
            copy((&a, u64::MAX), (&b, 0), 4),
            copy((&a, 0), (&b, u64::MAX), 4),
            fill(&a, 4, 0, 5),
            fill(&b, 0, 4, 6),
        ];
        gpu.push(packet(1, outside));
        assert_eq!(run(&gpu), (9, 1));
        assert_eq!(gpu.faults(), 6);
        assert_eq!((a.read(0..4), b.read(0..4)), (Some(vec![0; 4]), Some(vec![6; 4])));
    }

    #[test]
    fn destroyed_memory_is_a_fault() {
        let (gpu, kept, gone) = (Gpu::new(), Arc::new(Memory::new(4)), Arc::new(Memory::new(4)));
        let commands = [
            fill(&gone, 0, 1, 5),
            copy((&gone, 0), (&kept, 0), 1),
            copy((&kept, 0), (&gone, 0), 1),
        ];
        gpu.push(packet(1, commands));
        drop(gone);
        assert_eq!(run(&gpu), (4, 1));
        assert_eq!((gpu.faults(), gpu.take_done(0)), (3, vec![Fence(1)]));
    }

    #[test]
    fn engines_take_turns_and_each_has_its_own_fences() {
        let (gpu, memory) = (Gpu::new(), Arc::new(Memory::new(4)));
        let on = |node, fence, value| {
            let commands = [fill(&memory, 0, 1, value), fill(&memory, 1, 1, value)];
            Packet { node, ..packet(fence, commands) }
        };
        gpu.push(on(0, 1, 5));
        gpu.push(on(1, 1, 6));
        gpu.push(Packet { node: 7, ..packet(1, []) });
        assert_eq!(gpu.faults(), 1, "the node does not exist");
        let mut contents = Vec::new();
        let flown = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
            while !gpu.idle() {
                gpu.step(at, &Raised::default());
                contents.push(memory.read(0..2).unwrap());
            }
        });
        flown.unwrap();
        assert_eq!(contents, [[5, 0], [6, 0], [6, 5], [6, 6], [6, 6], [6, 6]]);
        assert_eq!((gpu.take_done(0), gpu.take_done(1)), (vec![Fence(1)], vec![Fence(1)]));
    }

    #[test]
    fn a_hang_leaves_the_other_engine_alone() {
        let (gpu, memory) = (Gpu::new(), Arc::new(Memory::new(4)));
        gpu.push(packet(1, [Command::Hang]));
        gpu.push(Packet { node: 1, ..packet(1, [fill(&memory, 0, 1, 5)]) });
        assert_eq!(run(&gpu), (2, 1));
        assert_eq!((gpu.take_done(0), gpu.take_done(1)), (vec![], vec![Fence(1)]));
    }
}
