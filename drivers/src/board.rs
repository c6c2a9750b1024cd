//! The hardware of the table drivers: engines, memory, and address spaces.
//!
//! The engines are the built-in GPU's. A driver reaches a board through the pointer that it gets in
//! `DxgkDdiAddDevice`, and names objects on the board by numbers. A wrong or old number is an error
//! or is ignored, so a bad driver harms only itself.
//!
//! # Invariants
//!
//! 1. A number is used once and never again.
//! 2. The board owns the memory; packets look it up and may find it destroyed.
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
    /// The memory segments, if it has memory.
    pub(crate) features: Option<MemoryFeatures>,
    /// The address translation, if it has any.
    pub(crate) mmu: Option<MmuPlan>,
    /// The flags that a driver adds to each allocation on this board.
    pub(crate) allocation_flags: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The last number used for memory or a space.
    last: u64,
    memory: BTreeMap<u64, Arc<Memory>>,
    /// The GPU address, if the memory is GPU memory.
    pub(crate) addresses: BTreeMap<u64, u64>,
    /// The meaning of each client handle in each space.
    spaces: BTreeMap<u64, BTreeMap<u32, u64>>,
    /// The root page table of each context, by the context's number.
    pub(crate) roots: BTreeMap<u64, TableRoot>,
    /// The root page table of paging commands.
    pub(crate) system: Option<TableRoot>,
    /// The last acknowledged fence of each node.
    done: [u32; NODES as usize],
    /// The fences of faulted packets of each node since the last query.
    faulted: [Vec<(Fence, u64)>; NODES as usize],
    /// The preemption request that each node has completed since the last query.
    preempted: [Option<Fence>; NODES as usize],
}

impl Board {
    /// Creates a board without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a board with memory from the machine's RAM. `None` if the RAM is too small.
    pub fn with_memory(ram: Arc<dyn Ram>, plan: MemoryPlan) -> Option<Self> {
        let plan = plan.whole();
        let gpu = Gpu::with_memory(ram, &plan)?;
        let features = gpu.cpu_address().map(|value| plan.features(value));
        Some(Self { gpu, features, mmu: plan.mmu, ..Self::default() })
    }

    /// The same board, for a driver that adds these flags to each allocation.
    pub(crate) fn with_allocation_flags(self, allocation_flags: u32) -> Self {
        Self { allocation_flags, ..self }
    }

    /// Whether the board has video memory.
    pub fn has_memory(&self) -> bool {
        self.gpu.cpu_address().is_some()
    }

    /// Allocates memory and returns its number, which is not zero.
    pub fn allocate(&self, size: u64) -> u64 {
        let mut state = self.state();
        let number = state.next();
        state.memory.insert(number, Arc::new(Memory::new(size)));
        number
    }

    /// Frees memory. An unknown number is ignored.
    pub fn release(&self, memory: u64) {
        let mut state = self.state();
        state.memory.remove(&memory);
        state.addresses.remove(&memory);
    }

    /// Creates an address space and returns its number.
    pub fn open_space(&self) -> u64 {
        let mut state = self.state();
        let number = state.next();
        state.spaces.insert(number, BTreeMap::new());
        number
    }

    /// Removes an address space with all its handles.
    pub fn close_space(&self, space: u64) {
        self.state().spaces.remove(&space);
    }

    /// Publishes a handle of memory in a space. A reused handle means the newer memory.
    pub fn map(&self, space: u64, name: u32, memory: u64) {
        if let Some(names) = self.state().spaces.get_mut(&space) {
            names.insert(name, memory);
        }
    }

    /// Removes a handle if it still means this memory.
    pub fn unmap(&self, space: u64, name: u32, memory: u64) {
        if let Some(names) = self.state().spaces.get_mut(&space)
            && names.get(&name) == Some(&memory)
        {
            names.remove(&name);
        }
    }

    /// Queues commands of a space on a node, with `fence` at their end. Fails if a handle has no
    /// meaning in the space, or if the node does not exist.
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

    /// Whether a node's engine has completed packets since the last query. Reading acknowledges the
    /// interrupt.
    pub fn acknowledge(&self, node: u32) -> bool {
        let (ended, mut over) = (self.gpu.take_completions(node), false);
        let (mut state, node) = (self.state(), node as usize);
        for it in &ended {
            // A faulted packet is complete, too.
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

    /// The acknowledged fences of faulted packets since the last query, in order, each with the
    /// virtual address of the fault, or zero.
    pub fn faulted(&self, node: u32) -> Vec<(Fence, u64)> {
        CallGuard::touch();
        self.state().faulted.get_mut(node as usize).map(mem::take).unwrap_or_default()
    }

    /// The preemption request that a node has completed since the last query. It is acknowledged
    /// with the node's completed packets.
    pub fn preempted(&self, node: u32) -> Option<Fence> {
        CallGuard::touch();
        self.state().preempted.get_mut(node as usize)?.take()
    }

    /// Resets a node. Returns the last fence that the reset completed.
    pub fn reset_node(&self, node: u32) -> Fence {
        let over = self.gpu.reset_node(node);
        self.state().forget(node, over);
        over
    }

    /// Sets the last completed fence of a node, whatever the node has completed.
    pub fn set_last_fence(&self, node: u32, over: Fence) {
        self.state().forget(node, over);
    }

    /// Resets all nodes: all submitted packets end.
    pub fn reset_nodes(&self) {
        self.gpu.reset_nodes();
        for node in 0..NODES {
            let over = self.gpu.done(node);
            self.state().forget(node, over);
        }
    }

    /// Whether a vsync has not been acknowledged.
    pub fn shows_vsync(&self) -> bool {
        self.gpu.is_vsync_asserted()
    }

    /// Enables or disables vsync interrupts.
    pub fn set_vsync(&self, on: bool) {
        self.gpu.set_vsync(on);
    }

    /// Whether the interrupt was for a vsync. Reading acknowledges the vsync.
    pub fn acknowledge_vsync(&self) -> bool {
        self.gpu.take_vsync()
    }

    /// Returns the physical address for a virtual address of the system's address space.
    pub(crate) fn physical(&self, address: u64) -> Option<u64> {
        let root = self.state().system?;
        let TableEntry { segment, page, .. } = self.gpu.translate(root, address)?;
        Some(softgpu::segment_base(segment)? + page * PAGE + address % PAGE)
    }

    /// The register with the last acknowledged fence of a node. Packets of a node complete in
    /// order, so the fence covers the earlier packets.
    pub fn done(&self, node: u32) -> Fence {
        CallGuard::touch();
        Fence(self.state().done.get(node as usize).copied().unwrap_or_default())
    }

    /// The register that counts completed packets. It is exact while no engine runs.
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

    /// Powers up: drops every packet, but the fences continue.
    pub fn wake(&self) {
        self.gpu.start_after_power();
        for node in 0..NODES {
            let over = self.gpu.done(node);
            self.state().forget(node, over);
        }
    }

    /// Powers down: loses every packet and every byte of video memory.
    pub fn lose_power(&self) {
        self.gpu.lose_power();
    }

    /// Whether the board has neither memory nor a space, so its driver leaked nothing.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.memory.is_empty() && state.spaces.is_empty()
    }

    /// The number of commands skipped because their memory was destroyed or their range was
    /// outside.
    pub fn faults(&self) -> u64 {
        self.gpu.faults()
    }

    /// The bytes behind a client's handle, for tests.
    ///
    /// `None` if the handle has no meaning in any space or different meanings, or if the range is
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

    /// Records a node's reset: everything up to that fence has ended.
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

    /// GPU memory as a space names it.
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

    fn interrupt_count(&self) -> u64 {
        self.gpu.interrupt_count()
    }

    fn interrupt_enabled(&self) -> Option<bool> {
        self.gpu.interrupt_enabled()
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

    fn peek_entries(&self, table: (u32, u64), first: u32, into: &mut [Option<TableEntry>]) {
        self.gpu.peek_entries(table, first, into);
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

    struct IgnoredInterrupts;

    impl InterruptLine for IgnoredInterrupts {
        fn raise(&self, _at: &mut Passive) {}
    }

    fn run(board: &Board) {
        let flown = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
            while !board.idle() {
                board.step(at, &IgnoredInterrupts);
            }
        });
        flown.unwrap();
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
