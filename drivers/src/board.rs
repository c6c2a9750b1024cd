//! The hardware of the drivers with a table: engines, memory, and address spaces.
//!
//! The engines are the built-in GPU's. A driver reaches a board through the pointer that
//! `DxgkDdiAddDevice` gives it, and names what it has there by numbers: one that is wrong or
//! old is refused or found to be nothing, so that a bad driver harms only itself.
//!
//! # Invariants
//!
//! 1. A number is given once and never again.
//! 2. The board keeps the memory; packets look for it and find it gone.
//! 3. The lock is never held while the engines are called.

use flight::{CallGuard, Fence, HardwareModel, InterruptLine, Passive, Ram, TableEntry, TableRoot};
use kernel::handle_table::Handle;
use kernel::miniport::DriverError;
use kernel::operation::PAGE;
use kernel::segment::MemoryFeatures;
use softgpu::format::Command;
use softgpu::{Completion, Gpu, Memory, MemoryPlan, MmuPlan, NODES, Packet, Target};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A board with two engines.
#[derive(Debug, Default)]
pub struct Board {
    pub(crate) gpu: Gpu,
    /// What memory it has, if it has some.
    pub(crate) features: Option<MemoryFeatures>,
    /// How it translates addresses, if it does.
    pub(crate) mmu: Option<MmuPlan>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The last number given, to memory or to a space.
    last: u64,
    memory: BTreeMap<u64, Arc<Memory>>,
    /// Where it is in the GPU's addresses, if it is in memory of the GPU's.
    pub(crate) addresses: BTreeMap<u64, u64>,
    /// What each name means, in each space.
    spaces: BTreeMap<u64, BTreeMap<u32, u64>>,
    /// The root of each context's addresses, by its number.
    pub(crate) roots: BTreeMap<u64, TableRoot>,
    /// The root that paging commands are of.
    pub(crate) system: Option<TableRoot>,
    /// The last fence acknowledged, of each node.
    done: [u32; NODES as usize],
    /// The fences of packets that faulted, of each node, since they were last asked for.
    faulted: [Vec<(Fence, u64)>; NODES as usize],
    /// What each node was asked to give back and has, since that was last asked for.
    preempted: [Option<Fence>; NODES as usize],
}

impl Board {
    /// A board with nothing on it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A board with memory, which is part of the machine's; none if that is too small.
    pub fn with_memory(ram: Arc<dyn Ram>, plan: MemoryPlan) -> Option<Self> {
        let plan = plan.whole();
        let gpu = Gpu::with_memory(ram, &plan)?;
        let features = gpu.cpu_address().map(|value| plan.features(value));
        Some(Self { gpu, features, mmu: plan.mmu, ..Self::default() })
    }

    /// Whether it has video memory.
    pub fn has_memory(&self) -> bool {
        self.gpu.cpu_address().is_some()
    }

    /// Sets memory aside and answers its number, which is not zero.
    pub fn allocate(&self, size: u64) -> u64 {
        let mut state = self.state();
        let number = state.next();
        state.memory.insert(number, Arc::new(Memory::new(size)));
        number
    }

    /// Gives memory back. What is not there is not missed.
    pub fn release(&self, memory: u64) {
        let mut state = self.state();
        state.memory.remove(&memory);
        state.addresses.remove(&memory);
    }

    /// Opens an address space and answers its number.
    pub fn open_space(&self) -> u64 {
        let mut state = self.state();
        let number = state.next();
        state.spaces.insert(number, BTreeMap::new());
        number
    }

    /// Closes an address space, with every name in it.
    pub fn close_space(&self, space: u64) {
        self.state().spaces.remove(&space);
    }

    /// Names memory in a space. A name that comes round means the newer memory.
    pub fn map(&self, space: u64, name: u32, memory: u64) {
        if let Some(names) = self.state().spaces.get_mut(&space) {
            names.insert(name, memory);
        }
    }

    /// Ends a name, if it still means this memory.
    pub fn unmap(&self, space: u64, name: u32, memory: u64) {
        if let Some(names) = self.state().spaces.get_mut(&space)
            && names.get(&name) == Some(&memory)
        {
            names.remove(&name);
        }
    }

    /// Queues commands of a space on a node; `fence` is done there when they are. Refused if a
    /// name means nothing in the space, or there is no such node.
    pub fn submit(
        &self,
        space: u64,
        node: u32,
        fence: Fence,
        commands: Vec<Command>,
    ) -> Result<(), DriverError> {
        if node >= NODES {
            return Err(DriverError::Invalid);
        }
        let commands = {
            let state = self.state();
            let find = |name: Handle| state.find(space, name.0).ok_or(DriverError::Invalid);
            commands.into_iter().map(|command| command.resolve(find)).collect::<Result<_, _>>()?
        };
        self.gpu.push(Packet { node, fence, commands });
        Ok(())
    }

    /// Whether a node's engine has ended packets since this was last asked: what the interrupt
    /// was for, which is acknowledged by reading it.
    pub fn acknowledge(&self, node: u32) -> bool {
        let (ended, mut over) = (self.gpu.take_completions(node), false);
        let (mut state, node) = (self.state(), node as usize);
        for it in &ended {
            // What faulted is over as well.
            let (Completion::Done(fence)
            | Completion::Faulted(fence, _)
            | Completion::PageFaulted(fence, _)) = *it
            else {
                if let (Completion::Preempted(by), Some(place)) =
                    (it, state.preempted.get_mut(node))
                {
                    *place = Some(*by);
                }
                continue;
            };
            over = true;
            if let Some(done) = state.done.get_mut(node) {
                *done = fence.0;
            }
            let address = match it {
                Completion::Faulted(..) => Some(0),
                Completion::PageFaulted(_, address) => Some(*address),
                Completion::Done(_) | Completion::Preempted(_) => None,
            };
            if let (Some(address), Some(faulted)) = (address, state.faulted.get_mut(node)) {
                faulted.push((fence, address));
            }
        }
        over
    }

    /// The fences acknowledged of packets that faulted, since this was last asked, in their order,
    /// each with the virtual address where it did, or zero.
    pub fn faulted(&self, node: u32) -> Vec<(Fence, u64)> {
        CallGuard::touch();
        self.state().faulted.get_mut(node as usize).map(mem::take).unwrap_or_default()
    }

    /// The request by which a node has given back what it had, if it has since this was last
    /// asked; it is acknowledged with what the node has ended.
    pub fn preempted(&self, node: u32) -> Option<Fence> {
        CallGuard::touch();
        self.state().preempted.get_mut(node as usize)?.take()
    }

    /// Resets a node. Answers the last fence that is over by that.
    pub fn reset_node(&self, node: u32) -> Fence {
        let over = self.gpu.reset_node(node);
        self.state().forget(node, over);
        over
    }

    /// Takes that fence for the last one of a node that is over, whatever is.
    pub fn set_last_fence(&self, node: u32, over: Fence) {
        self.state().forget(node, over);
    }

    /// Resets all nodes: everything they were given is over.
    pub fn reset_nodes(&self) {
        self.gpu.reset_nodes();
        for node in 0..NODES {
            let over = self.gpu.done(node);
            self.state().forget(node, over);
        }
    }

    /// Whether there is a vsync to acknowledge.
    pub fn shows_vsync(&self) -> bool {
        self.gpu.is_vsync_asserted()
    }

    /// Has the display interrupt at its vsyncs, or not any more.
    pub fn set_vsync(&self, on: bool) {
        self.gpu.set_vsync(on);
    }

    /// Whether the interrupt was for a vsync, which is acknowledged by reading it.
    pub fn acknowledge_vsync(&self) -> bool {
        self.gpu.take_vsync()
    }

    /// Where the memory is that the system has at a virtual address of its own.
    pub(crate) fn physical(&self, address: u64) -> Option<u64> {
        let root = self.state().system?;
        let TableEntry { segment, page, .. } = self.gpu.translate(root, address)?;
        Some(softgpu::segment_base(segment)? + page * PAGE + address % PAGE)
    }

    /// The register that holds the last fence of a node acknowledged. Packets of a node end in
    /// order, so it stands for those before it.
    pub fn done(&self, node: u32) -> Fence {
        CallGuard::touch();
        Fence(self.state().done.get(node as usize).copied().unwrap_or_default())
    }

    /// The register that counts the packets done. It is good while no engine runs.
    pub fn packets(&self) -> u64 {
        self.gpu.packets()
    }

    /// Drops every packet. Memory and spaces stay.
    pub fn reset(&self) {
        self.gpu.reset();
        for node in 0..NODES {
            self.state().forget(node, Fence::default());
        }
    }

    /// Its power comes: the same, but its fences go on where they were.
    pub fn wake(&self) {
        self.gpu.start_after_power();
        for node in 0..NODES {
            let over = self.gpu.done(node);
            self.state().forget(node, over);
        }
    }

    /// Loses its power: every packet, and every byte of video memory.
    pub fn lose_power(&self) {
        self.gpu.lose_power();
    }

    /// Whether there is neither memory nor a space on it: whether its driver left nothing.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.memory.is_empty() && state.spaces.is_empty()
    }

    /// How many commands were skipped, since their memory was gone or their range outside.
    pub fn faults(&self) -> u64 {
        self.gpu.faults()
    }

    /// The bytes behind a client's handle, for tests.
    ///
    /// `None` if it has no meaning in any space, or not the same in all, or the range is
    /// outside.
    pub fn read(&self, name: Handle, range: Range<u64>) -> Option<Vec<u8>> {
        let memory = {
            let state = self.state();
            let mut meant = state.spaces.values().filter_map(|map| map.get(&name.0));
            let first = meant.next()?;
            if meant.any(|value| value != first) {
                return None;
            }
            state.memory.get(first)?.clone()
        };
        memory.read(range)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A node was reset: up to that fence everything is over.
    fn forget(&mut self, node: u32, over: Fence) {
        let node = node as usize;
        if let Some(done) = self.done.get_mut(node) {
            *done = over.0;
        }
        if let Some(faulted) = self.faulted.get_mut(node) {
            faulted.clear();
        }
        if let Some(preempted) = self.preempted.get_mut(node) {
            *preempted = None;
        }
    }

    /// Memory of the GPU's, as a space names it.
    pub(crate) fn target(&self, space: u64, name: u32) -> Option<Target> {
        let number = self.spaces.get(&space)?.get(&name)?;
        let size = self.memory.get(number)?.size();
        Some(Target { driver_handle: None, address: self.addresses.get(number).copied(), size })
    }

    fn find(&self, space: u64, name: u32) -> Option<Weak<Memory>> {
        let number = self.spaces.get(&space)?.get(&name)?;
        self.memory.get(number).map(Arc::downgrade)
    }
}

impl HardwareModel for Board {
    fn idle(&self) -> bool {
        self.gpu.idle()
    }

    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        self.gpu.step(at, line);
    }

    fn interrupt_asserted(&self) -> Option<bool> {
        self.gpu.interrupt_asserted()
    }

    fn holds_work(&self, node: Option<u32>) -> Option<bool> {
        self.gpu.holds_work(node)
    }

    fn ram(&self) -> Option<Arc<dyn Ram>> {
        self.gpu.ram()
    }

    fn peek(&self, address: u64, into: &mut [u8]) -> bool {
        self.gpu.peek(address, into)
    }

    fn peek_entry(&self, table: (u32, u64), index: u32) -> Option<TableEntry> {
        self.gpu.peek_entry(table, index)
    }

    fn translate(&self, root: TableRoot, address: u64) -> Option<TableEntry> {
        self.gpu.translate(root, address)
    }

    fn peek_virtual(&self, root: TableRoot, address: u64, into: &mut [u8]) -> bool {
        self.gpu.peek_virtual(root, address, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{DeterministicHost, Log};

    const NAME: Handle = Handle(0x4000_0040);
    const FILL: Command = Command::Fill { target: NAME, offset: 1, length: 2, value: 7 };

    struct Nobody;

    impl InterruptLine for Nobody {
        fn raise(&self, _at: &mut Passive) {}
    }

    fn run(board: &Board) {
        let flight_result = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
            while !board.idle() {
                board.step(at, &Nobody);
            }
        });
        flight_result.unwrap();
    }

    #[test]
    fn a_packet_writes_what_its_space_means_by_a_name() {
        let board = Board::new();
        let (space, other, memory) = (board.open_space(), board.open_space(), board.allocate(4));
        board.map(space, NAME.0, memory);
        assert_eq!(board.submit(other, 0, Fence(1), vec![FILL]), Err(DriverError::Invalid));
        assert_eq!(board.submit(space, 2, Fence(1), vec![FILL]), Err(DriverError::Invalid));
        assert_eq!(board.submit(space, 0, Fence(1), vec![FILL]), Ok(()));
        assert!(!board.acknowledge(0));
        run(&board);
        assert_eq!(board.read(NAME, 0..4), Some(vec![0, 7, 7, 0]));
        assert_eq!((board.acknowledge(0), board.acknowledge(0)), (true, false));
        assert_eq!((board.done(0), board.faults()), (Fence(1), 0));
    }

    #[test]
    fn memory_that_is_given_back_is_gone_for_packets() {
        let board = Board::new();
        let (space, memory) = (board.open_space(), board.allocate(4));
        board.map(space, NAME.0, memory);
        board.submit(space, 0, Fence(1), vec![FILL]).unwrap();
        board.release(memory);
        run(&board);
        assert_eq!((board.faults(), board.read(NAME, 0..1)), (1, None));
        assert_eq!(board.submit(space, 0, Fence(2), vec![FILL]), Err(DriverError::Invalid));
        board.close_space(space);
        assert!(board.is_empty());
    }

    #[test]
    fn a_name_that_came_round_outlives_what_had_it() {
        let board = Board::new();
        let space = board.open_space();
        let (first_instance, new) = (board.allocate(4), board.allocate(8));
        board.map(space, NAME.0, first_instance);
        board.map(space, NAME.0, new);
        board.unmap(space, NAME.0, first_instance);
        assert_eq!(board.read(NAME, 0..8), Some(vec![0; 8]));
        board.unmap(space, NAME.0, new);
        assert_eq!(board.read(NAME, 0..8), None);
    }
}
