//! One engine of the hardware: it executes its work in order.
//!
//! # Invariants
//!
//! 1. The engine executes the work at the front of its queue. Work leaves the queue when all of it
//!    is done, and then its fence is signalled. Work that touches memory that does not exist leaves
//!    too, with a fault instead.
//! 2. A hang stays at the front forever: only a reset ends it.
//! 3. Before the first command of a context, the registers of the previous context are saved to its
//!    save area and those of the new one are loaded from its own.

use crate::controller::{Address, Controller};
use crate::format::{Command, decode};
use crate::gpu::Packet;
use crate::memory::Memory;
use crate::mmu::Virtual;
use crate::paging::{HEAD, MAX_WRITE, PagingCommand};
use crate::plan::PAGE;
use crate::save_area::{REGISTERS_SIZE, Registers, SAVED_AT};
use flight::{Fence, MemoryWrite, TableRoot};
use kernel::miniport::DriverError;
use std::collections::VecDeque;
use std::sync::Weak;

/// Commands of a context that use GPU memory.
#[derive(Debug)]
pub struct RenderWork {
    /// The node that executes it.
    pub node: u32,
    /// Its fence on that node.
    pub fence: Fence,
    /// The context, by a number that no other context ever gets.
    pub context: u64,
    /// Where the engine saves that context.
    pub area: SaveTarget,
    /// The commands that are still to do.
    pub commands: VecDeque<Command<Target>>,
    /// The address space of its virtual addresses.
    pub root: Option<TableRoot>,
    /// More commands that the engine fetches first: virtual address and size in bytes.
    pub fetch: Option<(u64, u32)>,
    /// The engine has started it.
    pub started: bool,
}

/// Memory, as located by the driver when it wrote a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The driver handle, which a fault reports.
    pub driver_handle: Option<usize>,
    /// The GPU address. An access to memory without an address faults.
    pub address: Option<u64>,
    /// The size in bytes.
    pub size: u64,
}

/// Where an engine saves a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveTarget {
    /// Nowhere: the context starts anew each time.
    None,
    /// At this GPU address.
    At(u64),
    /// In memory that is not resident, by its driver handle: a fault.
    NotResident(usize),
}

/// Paging commands in system memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The node that executes them.
    pub node: u32,
    /// Their fence on that node.
    pub fence: Fence,
    /// The address of the commands that are still to do.
    pub commands: u64,
    /// The size of those commands in bytes.
    pub length: u32,
    /// No context is current after them.
    pub switch: bool,
}

/// Commands of a context in system memory, with GPU addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The node that executes them.
    pub node: u32,
    /// Their fence on that node.
    pub fence: Fence,
    /// The context, by a number that no other context ever gets.
    pub context: u64,
    /// Where the engine saves that context.
    pub area: SaveTarget,
    /// The address of the commands that are still to do.
    pub commands: u64,
    /// The size of those commands in bytes.
    pub length: u32,
    /// The packet hangs.
    pub hung: bool,
}

/// How a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All of it is done.
    Done(Fence),
    /// It touched memory that is not resident: which, by its driver handle if it has one.
    Faulted(Fence, Option<usize>),
    /// It touched a virtual address that is not mapped, or not writable.
    PageFaulted(Fence, u64),
    /// The work behind it was given back, as this preemption requested.
    Preempted(Fence),
}

/// The kinds of work that an engine takes.
#[derive(Debug)]
pub(crate) enum Work {
    /// Commands on memory of the driver.
    Packet(Packet),
    Render(RenderWork),
    Stream(Stream),
    Paging(Paging),
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) queue: VecDeque<Work>,
    pub(crate) completions: Vec<Completion>,
    /// The address space of virtual addresses in paging commands.
    system: Option<TableRoot>,
    pub(crate) current: Option<Current>,
    /// The engine is to give back its queued work (preemption).
    pub(crate) preemption: Option<Fence>,
    /// The last completed fence.
    pub(crate) done: Fence,
    /// The last submitted fence.
    pub(crate) last_submitted: Fence,
}

/// The context whose registers are in the engine.
#[derive(Debug)]
pub(crate) struct Current {
    context: u64,
    area: Option<u64>,
    registers: Registers,
}

/// The result of one engine step.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) faults: u64,
    pub(crate) interrupt: bool,
    /// A client's packet ended.
    pub(crate) packet: bool,
    /// Where a context was saved.
    pub(crate) saved: Option<u64>,
    /// What a command reads and writes: fence, location and size in bytes.
    pub(crate) used: Vec<(Fence, u64, u64)>,
    /// What a packet's command wrote: fence and location.
    pub(crate) wrote: Option<(Fence, MemoryWrite)>,
    /// The address space with which a packet was started.
    pub(crate) rooted: Option<(Fence, Option<TableRoot>)>,
}

/// What became of the work at the front.
enum Outcome {
    /// A command was done.
    Continue,
    /// A command was skipped.
    Skipped,
    /// All commands are done.
    Done,
    /// It touched memory that does not exist.
    Fault(Option<usize>),
    /// It touched a virtual address that is not mapped.
    PageFault(u64),
}

impl Engine {
    /// An engine without work that continues from the same fences.
    pub(crate) fn without_work(&self) -> Self {
        Self { done: self.done, last_submitted: self.last_submitted, ..Self::default() }
    }

    pub(crate) fn idle(&self) -> bool {
        match self.queue.front() {
            None => self.preemption.is_none(),
            Some(Work::Packet(it)) => matches!(it.commands.front(), Some(Command::Hang)),
            Some(Work::Render(it)) => matches!(it.commands.front(), Some(Command::Hang)),
            Some(Work::Stream(it)) => it.hung,
            Some(Work::Paging(_)) => false,
        }
    }

    /// Executes one command, or completes work that has none left.
    pub(crate) fn step(&mut self, memory: Option<&Controller>) -> Step {
        let mut step = Step::default();
        // Invariant 2: the caller never steps an engine that hangs.
        if self.idle() {
            return step;
        }
        let Some(mut work) = self.queue.pop_front() else {
            // The work it had is over, and the rest was given back.
            self.completions.extend(self.preemption.take().map(Completion::Preempted));
            step.interrupt = true;
            return step;
        };
        let (fence, outcome) = match (&mut work, memory) {
            (Work::Packet(it), _) => (it.fence, run_own_memory(it)),
            (Work::Render(it), Some(memory)) => (it.fence, self.draw(it, memory, &mut step)),
            (Work::Stream(it), Some(memory)) => (it.fence, self.stream(it, memory, &mut step)),
            (Work::Paging(it), Some(memory)) => (it.fence, self.page(it, memory, &mut step)),
            (
                Work::Render(RenderWork { fence, .. })
                | Work::Stream(Stream { fence, .. })
                | Work::Paging(Paging { fence, .. }),
                None,
            ) => (*fence, Outcome::Fault(None)),
        };
        let client = !matches!(work, Work::Paging(_));
        if matches!(outcome, Outcome::Done | Outcome::Fault(_)) {
            self.done = fence;
        }
        let completions = match outcome {
            Outcome::Continue | Outcome::Skipped => {
                self.queue.push_front(work);
                None
            }
            Outcome::Done => Some(Completion::Done(fence)),
            Outcome::Fault(driver_handle) => Some(Completion::Faulted(fence, driver_handle)),
            Outcome::PageFault(address) => Some(Completion::PageFaulted(fence, address)),
        };
        step.faults += u64::from(!matches!(outcome, Outcome::Continue | Outcome::Done));
        step.interrupt = completions.is_some();
        step.packet = client && step.interrupt;
        self.completions.extend(completions);
        step
    }

    fn draw(&mut self, it: &mut RenderWork, memory: &Controller, step: &mut Step) -> Outcome {
        if let SaveTarget::NotResident(driver_handle) = it.area {
            // The previous context is saved anyway.
            self.leave(memory, step);
            return Outcome::Fault(Some(driver_handle));
        }
        self.enter((it.context, it.area), memory, step);
        if !it.started {
            it.started = true;
            if memory.mmu().is_some() {
                step.rooted = Some((it.fence, it.root));
            }
            if let Some(fault) = fetch_commands(it, memory) {
                return fault;
            }
        }
        let mut unkept = Registers::default();
        let registers = self.current.as_mut().map_or(&mut unkept, |it| &mut it.registers);
        let Some(command) = it.commands.pop_front() else {
            registers.packets += 1;
            registers.fence = u64::from(it.fence.0);
            return Outcome::Done;
        };
        let outcome = command_on(&command, memory, it.root);
        if matches!(outcome, Outcome::Continue) {
            step.wrote = written(&command).map(|to| (it.fence, to));
        }
        registers.commands += u64::from(matches!(outcome, Outcome::Continue));
        outcome
    }

    /// Invariant 3.
    fn enter(&mut self, (context, area): (u64, SaveTarget), memory: &Controller, step: &mut Step) {
        let area = if let SaveTarget::At(address) = area { Some(address) } else { None };
        match &mut self.current {
            Some(current) if current.context == context => current.area = area,
            _ => {
                self.leave(memory, step);
                let registers = area.map(|value| load(value, memory));
                step.faults += u64::from(registers == Some(None));
                let registers = registers.flatten().unwrap_or_default();
                self.current = Some(Current { context, area, registers });
            }
        }
    }

    /// Saves the current context; then no context is current.
    fn leave(&mut self, memory: &Controller, step: &mut Step) {
        if let Some(Current { area: Some(area), registers, .. }) = self.current.take() {
            let saved =
                memory.write(Address::Local(area.saturating_add(SAVED_AT)), &registers.encode());
            step.faults += u64::from(!saved);
            step.saved = Some(area);
        }
    }

    fn stream(&mut self, it: &mut Stream, memory: &Controller, step: &mut Step) -> Outcome {
        if let SaveTarget::NotResident(driver_handle) = it.area {
            self.leave(memory, step);
            return Outcome::Fault(Some(driver_handle));
        }
        self.enter((it.context, it.area), memory, step);
        let mut unkept = Registers::default();
        let registers = self.current.as_mut().map_or(&mut unkept, |it| &mut it.registers);
        if it.length == 0 {
            registers.packets += 1;
            registers.fence = u64::from(it.fence.0);
            return Outcome::Done;
        }
        let Some(bytes) = fetch(&mut it.commands, &mut it.length, memory) else {
            return Outcome::Fault(None);
        };
        let mut uses = |side, bytes| {
            if let Address::Local(address) = side {
                step.used.push((it.fence, address, bytes));
            }
        };
        match PagingCommand::decode(&bytes) {
            Some(PagingCommand::Hang) => it.hung = true,
            Some(PagingCommand::Copy { from, to, bytes }) => {
                uses(from, bytes);
                uses(to, bytes);
            }
            Some(PagingCommand::Fill { to, bytes, .. }) => uses(to, bytes),
            _ => (),
        }
        match page(&bytes, memory, &mut self.system) {
            Some(()) => {
                registers.commands += 1;
                Outcome::Continue
            }
            None => Outcome::Fault(None),
        }
    }

    fn page(&mut self, it: &mut Paging, memory: &Controller, step: &mut Step) -> Outcome {
        if it.switch {
            it.switch = false;
            self.leave(memory, step);
        }
        if it.length == 0 {
            return Outcome::Done;
        }
        let fetched = fetch(&mut it.commands, &mut it.length, memory);
        match fetched.and_then(|bytes| page(&bytes, memory, &mut self.system)) {
            Some(()) => Outcome::Continue,
            None => Outcome::Fault(None),
        }
    }
}

/// The registers in a save area.
fn load(area: u64, memory: &Controller) -> Option<Registers> {
    let mut bytes = [0; REGISTERS_SIZE];
    let read = memory.read(Address::Local(area.saturating_add(SAVED_AT)), &mut bytes);
    if read { Registers::decode(&bytes) } else { None }
}

/// The next command in system memory, if there is one.
fn fetch(commands: &mut u64, left: &mut u32, memory: &Controller) -> Option<Vec<u8>> {
    let mut head = [0; HEAD];
    memory.read(Address::System(*commands), &mut head).then_some(())?;
    let length = PagingCommand::length(head)?;
    *left = left.checked_sub(u32::try_from(length).ok()?)?;
    let mut bytes = vec![0; length];
    memory.read(Address::System(*commands), &mut bytes).then_some(())?;
    *commands = commands.checked_add(length as u64)?;
    Some(bytes)
}

fn page(bytes: &[u8], memory: &Controller, system: &mut Option<TableRoot>) -> Option<()> {
    let place = |side| match side {
        Address::Virtual(address) => Some(Virtual { root: *system, address }),
        Address::Local(_) | Address::System(_) => None,
    };
    let done = match PagingCommand::decode(bytes)? {
        PagingCommand::Copy { from, to, bytes } => match (place(from), place(to)) {
            (Some(from), Some(to)) => memory.copy_virtual(from, to, bytes).is_ok(),
            // A copy with a virtual address at one end only is not supported.
            _ => memory.copy(from, to, bytes),
        },
        PagingCommand::Fill { to, bytes, pattern } => match place(to) {
            Some(to) => memory.fill_virtual(to, bytes, pattern).is_ok(),
            None => memory.fill(to, bytes, pattern),
        },
        PagingCommand::Map { page, start, count } => memory.aperture().map(page, start, count),
        PagingCommand::Unmap { page, count, dummy } => memory.aperture().unmap(page, count, dummy),
        PagingCommand::Hang => true,
        PagingCommand::Write { to, bytes } => write(memory, to, place(to), bytes),
        PagingCommand::Repeat { to, driver_handle, count } => {
            let count = usize::try_from(count).ok().filter(|index| *index <= MAX_WRITE / 8)?;
            write(memory, to, place(to), &driver_handle.to_le_bytes().repeat(count))
        }
        PagingCommand::Flush { root, start, end } => {
            memory.mmu()?.tlb().forget(root, &(start / PAGE..end.div_ceil(PAGE)));
            true
        }
        PagingCommand::Root(root) => {
            memory.mmu()?;
            *system = Some(root);
            true
        }
    };
    done.then_some(())
}

fn write(memory: &Controller, to: Address, place: Option<Virtual>, bytes: &[u8]) -> bool {
    place
        .map_or_else(|| memory.write(to, bytes), |place| memory.write_virtual(place, bytes).is_ok())
}

/// Reads the commands that a packet has at a virtual address. Commands that name allocations by
/// handle are not for the hardware.
fn fetch_commands(it: &mut RenderWork, memory: &Controller) -> Option<Outcome> {
    let (address, length) = it.fetch.take()?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    if let Err(fault) = memory.read_virtual(Virtual { root: it.root, address }, &mut bytes) {
        return Some(Outcome::PageFault(fault));
    }
    let nameless = |command: Command| command.resolve(|_| Err(DriverError::Invalid));
    let commands = decode(&bytes).and_then(|commands| commands.into_iter().map(nameless).collect());
    match commands {
        Ok(commands) => {
            let last_submitted = std::mem::replace(&mut it.commands, commands);
            it.commands.extend(last_submitted);
            None
        }
        // The memory was read: what is wrong with the commands is no page fault.
        Err(_) => Some(Outcome::Skipped),
    }
}

/// Executes a command of a context. A range outside its allocation has no address, so the command
/// is skipped.
fn command_on(command: &Command<Target>, memory: &Controller, root: Option<TableRoot>) -> Outcome {
    let find = |target: &Target, offset: u64, length: u64| {
        let inside = offset.checked_add(length).is_some_and(|end| end <= target.size);
        let address = target.address.ok_or(Outcome::Fault(target.driver_handle))?;
        if inside {
            Ok(Address::Local(address.saturating_add(offset)))
        } else {
            Err(Outcome::Skipped)
        }
    };
    let did =
        |done: bool, driver_handle| if done { Ok(()) } else { Err(Outcome::Fault(driver_handle)) };
    let done = match command {
        Command::Hang => Ok(()),
        Command::Fill { target, offset, length, value } => {
            find(target, *offset, *length).and_then(|to| {
                let pattern = u32::from_le_bytes([*value; 4]);
                did(memory.fill(to, *length, pattern), target.driver_handle)
            })
        }
        Command::Copy { from, from_offset, to, to_offset, length } => {
            let ends = find(from, *from_offset, *length)
                .and_then(|source| Ok((source, find(to, *to_offset, *length)?)));
            ends.and_then(|(source, target)| {
                let driver_handle = if memory.contains(source, *length) {
                    to.driver_handle
                } else {
                    from.driver_handle
                };
                did(memory.copy(source, target, *length), driver_handle)
            })
        }
        Command::FillAt { address, length, value } => {
            let to = Virtual { root, address: *address };
            let pattern = u32::from_le_bytes([*value; 4]);
            memory.fill_virtual(to, *length, pattern).map_err(Outcome::PageFault)
        }
        Command::CopyAt { from, to, length } => {
            let [from, to] = [from, to].map(|value| Virtual { root, address: *value });
            memory.copy_virtual(from, to, *length).map_err(Outcome::PageFault)
        }
    };
    done.err().unwrap_or(Outcome::Continue)
}

/// Where a completed command has written.
fn written(command: &Command<Target>) -> Option<MemoryWrite> {
    let own = |target: &Target, offset: u64, bytes: u64| {
        let address = target.address?.checked_add(offset)?;
        Some(MemoryWrite { address, bytes, translated: false })
    };
    let at = |address: u64, bytes: u64| Some(MemoryWrite { address, bytes, translated: true });
    match command {
        Command::Hang => None,
        Command::Fill { target, offset, length, .. } => own(target, *offset, *length),
        Command::Copy { to, to_offset, length, .. } => own(to, *to_offset, *length),
        Command::FillAt { address, length, .. } => at(*address, *length),
        Command::CopyAt { to, length, .. } => at(*to, *length),
    }
}

/// Executes a command of a packet on memory of the driver, or completes the packet.
fn run_own_memory(packet: &mut Packet) -> Outcome {
    let done = match packet.commands.pop_front() {
        None => return Outcome::Done,
        Some(Command::Hang) => Some(()),
        Some(Command::Fill { target, offset, length, value }) => {
            fill(&target, offset, length, value)
        }
        Some(Command::Copy { from, from_offset, to, to_offset, length }) => {
            copy((&from, from_offset), (&to, to_offset), length)
        }
        // There are no virtual addresses here.
        Some(Command::FillAt { .. } | Command::CopyAt { .. }) => None,
    };
    if done.is_some() { Outcome::Continue } else { Outcome::Skipped }
}

fn fill(target: &Weak<Memory>, offset: u64, length: u64, value: u8) -> Option<()> {
    target.upgrade()?.fill(offset..offset.checked_add(length)?, value)
}

fn copy(from: (&Weak<Memory>, u64), to: (&Weak<Memory>, u64), length: u64) -> Option<()> {
    // All bytes are read before the first is written: the ranges may overlap.
    let bytes = from.0.upgrade()?.read(from.1..from.1.checked_add(length)?)?;
    to.0.upgrade()?.write(to.1, &bytes)
}
