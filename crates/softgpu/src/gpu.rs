//! The hardware: one engine that does packets in order.
//!
//! # Invariants
//!
//! 1. The packet in front is the one the engine does; it leaves the queue when it has no
//!    commands left, and with that its fence is done.
//! 2. A hang stays in front forever: only `reset` ends it.
//! 3. The lock is not held while the line is raised, for the driver answers with calls of ours.

use crate::format::Command;
use crate::memory::Memory;
use flight::{Fence, Line, Machine, Passive};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// The built-in GPU.
#[derive(Debug, Default)]
pub struct Gpu {
    state: Mutex<State>,
}

/// Commands, and the fence that is done when they are.
#[derive(Debug)]
pub struct Packet {
    /// Its number.
    pub fence: Fence,
    /// What is left to do. The packet does not keep the memory: who destroys an allocation
    /// too early is caught by a fault.
    pub commands: VecDeque<Command<Weak<Memory>>>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Packet>,
    done: Vec<Fence>,
    faults: u64,
}

impl Gpu {
    /// A GPU with nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a packet.
    pub fn push(&self, packet: Packet) {
        self.state().queue.push_back(packet);
    }

    /// The fences that were done since this was last asked, in their order.
    pub fn take_done(&self) -> Vec<Fence> {
        mem::take(&mut self.state().done)
    }

    /// How many commands were skipped, since their memory was gone or their range outside.
    pub fn faults(&self) -> u64 {
        self.state().faults
    }

    /// Drops every packet, and what was done and not yet asked for. Faults stay counted.
    pub fn reset(&self) {
        let mut state = self.state();
        state.queue.clear();
        state.done.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine for Gpu {
    fn idle(&self) -> bool {
        let hangs = |it: &Packet| matches!(it.commands.front(), Some(Command::Hang));
        self.state().queue.front().is_none_or(hangs)
    }

    fn step(&self, at: &mut Passive, line: &dyn Line) {
        if self.state().step() {
            line.raise(at);
        }
    }
}

impl State {
    /// Does one command, or ends the packet. Answers whether that calls for an interrupt.
    fn step(&mut self) -> bool {
        let Some(packet) = self.queue.front_mut() else { return false };
        let done = match packet.commands.pop_front() {
            None => {
                self.done.push(packet.fence);
                self.queue.pop_front();
                return true;
            }
            Some(Command::Hang) => {
                packet.commands.push_front(Command::Hang);
                return false;
            }
            Some(Command::Fill { target, offset, length, value }) => {
                fill(&target, offset, length, value)
            }
            Some(Command::Copy { from, from_offset, to, to_offset, length }) => {
                copy((&from, from_offset), (&to, to_offset), length)
            }
        };
        if done.is_none() {
            self.faults += 1;
        }
        false
    }
}

fn fill(target: &Weak<Memory>, offset: u64, length: u64, value: u8) -> Option<()> {
    target.upgrade()?.fill(offset..offset.checked_add(length)?, value)
}

fn copy(from: (&Weak<Memory>, u64), to: (&Weak<Memory>, u64), length: u64) -> Option<()> {
    // Read whole before the first byte is written: the ranges may overlap.
    let bytes = from.0.upgrade()?.read(from.1..from.1.checked_add(length)?)?;
    to.0.upgrade()?.write(to.1, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{Log, Stepped};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Raised(AtomicU32);

    impl Line for Raised {
        fn raise(&self, _at: &mut Passive) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn packet<const N: usize>(fence: u32, commands: [Command<Weak<Memory>>; N]) -> Packet {
        Packet { fence: Fence(fence), commands: commands.into() }
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

    /// Steps until the GPU is idle. How many steps that were, and how many interrupts.
    fn run(gpu: &Gpu) -> (u32, u32) {
        let raised = Raised::default();
        let mut steps = 0;
        let flown = Stepped::fly(0, &Arc::new(Log::silent()), |_, at| {
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
        assert_eq!((gpu.take_done(), gpu.take_done()), (vec![Fence(1)], Vec::new()));
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
        assert_eq!(gpu.take_done(), [Fence(u32::MAX), Fence(0), Fence(1)]);
    }

    #[test]
    fn a_hang_is_idle_and_nothing_behind_it_runs() {
        let (gpu, memory) = (Gpu::new(), Arc::new(Memory::new(4)));
        gpu.push(packet(1, [fill(&memory, 0, 1, 5), Command::Hang, fill(&memory, 1, 1, 5)]));
        gpu.push(packet(2, [fill(&memory, 2, 1, 5)]));
        assert_eq!(run(&gpu), (1, 0));
        let flown = Stepped::fly(0, &Arc::new(Log::silent()), |_, at| {
            gpu.step(at, &Raised::default());
        });
        flown.unwrap();
        assert!(gpu.idle(), "a step does not end it");
        assert_eq!(memory.read(0..4), Some(vec![5, 0, 0, 0]));
        assert_eq!(gpu.take_done(), []);
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
    fn memory_that_is_gone_is_a_fault() {
        let (gpu, kept, gone) = (Gpu::new(), Arc::new(Memory::new(4)), Arc::new(Memory::new(4)));
        let commands = [
            fill(&gone, 0, 1, 5),
            copy((&gone, 0), (&kept, 0), 1),
            copy((&kept, 0), (&gone, 0), 1),
        ];
        gpu.push(packet(1, commands));
        drop(gone);
        assert_eq!(run(&gpu), (4, 1));
        assert_eq!((gpu.faults(), gpu.take_done()), (3, vec![Fence(1)]));
    }
}
