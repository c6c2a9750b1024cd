//! One engine of the hardware: it does what it was given in order.
//!
//! # Invariants
//!
//! 1. What is in front is what the engine does; it leaves the queue when nothing of it is left,
//!    and with that its fence is done. What touches memory that is not there leaves as well,
//!    with a fault instead.
//! 2. A hang stays in front forever: only a reset ends it.
//! 3. Before the first command of a context the registers of the one before it are in its save
//!    area, and those of the new one are the ones from its own.

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

/// Commands of a context on memory of the GPU's.
#[derive(Debug)]
pub struct RenderWork {
    /// The node it is for.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Whose it is: a number that no other context ever has.
    pub context: u64,
    /// Where the engine saves that context.
    pub area: SaveTarget,
    /// What is left to do.
    pub commands: VecDeque<Command<Target>>,
    /// The address space that its addresses are of.
    pub root: Option<TableRoot>,
    /// More commands, that the engine fetches first: at which virtual address, how many bytes.
    pub fetch: Option<(u64, u32)>,
    /// The engine has begun with it.
    pub started: bool,
}

/// Memory as a driver found it when it wrote a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The driver's word for it, which a fault names.
    pub driver_handle: Option<usize>,
    /// Where it is in the GPU's addresses; whoever touches what is nowhere faults.
    pub address: Option<u64>,
    /// How many bytes it has.
    pub size: u64,
}

/// Where an engine saves a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveTarget {
    /// Nowhere: it begins anew each time.
    None,
    /// At this address of the GPU's.
    At(u64),
    /// In memory that is not there, by the driver's word for it: a fault.
    NotResident(usize),
}

/// Paging commands in the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The node it is for.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Where what is left of them begins.
    pub commands: u64,
    /// How many bytes that are.
    pub length: u32,
    /// No context is current after it.
    pub switch: bool,
}

/// Commands of a context in the machine's memory, with addresses of the GPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The node it is for.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Whose it is: a number that no other context ever has.
    pub context: u64,
    /// Where the engine saves that context.
    pub area: SaveTarget,
    /// Where what is left of them begins.
    pub commands: u64,
    /// How many bytes that are.
    pub length: u32,
    /// It hangs.
    pub hung: bool,
}

/// How a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is done.
    Done(Fence),
    /// It touched memory that is not there: whose, by the driver's word, if it had one.
    Faulted(Fence, Option<usize>),
    /// It touched a virtual address that is not there, or may not be written.
    PageFaulted(Fence, u64),
    /// What was behind it was given back, as this request asked.
    Preempted(Fence),
}

/// What an engine can be given.
#[derive(Debug)]
pub(crate) enum Work {
    /// Commands on memory of a driver's own.
    Packet(Packet),
    Render(RenderWork),
    Stream(Stream),
    Paging(Paging),
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) queue: VecDeque<Work>,
    pub(crate) completions: Vec<Completion>,
    /// What virtual addresses of paging commands mean.
    system: Option<TableRoot>,
    pub(crate) current: Option<Current>,
    /// It is to give back what it has.
    pub(crate) preemption: Option<Fence>,
    /// The last fence that is over.
    pub(crate) done: Fence,
    /// The last fence it was given.
    pub(crate) last_submitted: Fence,
}

/// The context whose registers are in the engine.
#[derive(Debug)]
pub(crate) struct Current {
    context: u64,
    area: Option<u64>,
    registers: Registers,
}

/// What a step of an engine came to.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) faults: u64,
    pub(crate) interrupt: bool,
    /// A client's packet ended.
    pub(crate) packet: bool,
    /// Where a context was saved.
    pub(crate) saved: Option<u64>,
    /// What a stream reads and writes: whose fence, where, and how many bytes.
    pub(crate) used: Vec<(Fence, u64, u64)>,
    /// What a command of a packet wrote: whose fence, and where.
    pub(crate) wrote: Option<(Fence, MemoryWrite)>,
    /// With which address space a packet was begun.
    pub(crate) rooted: Option<(Fence, Option<TableRoot>)>,
}

/// What became of the work in front.
enum Outcome {
    /// A command was done.
    Continue,
    /// One was skipped.
    Skipped,
    /// Nothing of it is left.
    Done,
    /// It touched what is not there.
    Fault(Option<usize>),
    /// It touched a virtual address that is not there.
    PageFault(u64),
}

impl Engine {
    /// One that has nothing, and counts on from the same fences.
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

    /// Does one command, or ends what has none left.
    pub(crate) fn step(&mut self, memory: Option<&Controller>) -> Step {
        let mut step = Step::default();
        // Invariant 2: it is never asked to take such a step.
        if self.idle() {
            return step;
        }
        let Some(mut work) = self.queue.pop_front() else {
            // What it had is over, and the rest was given back.
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
            // The one before makes room all the same.
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

    /// Saves the context that is current; then none is.
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

/// The registers that stand in an area.
fn load(area: u64, memory: &Controller) -> Option<Registers> {
    let mut bytes = [0; REGISTERS_SIZE];
    let read = memory.read(Address::Local(area.saturating_add(SAVED_AT)), &mut bytes);
    if read { Registers::decode(&bytes) } else { None }
}

/// The next command in the machine's memory, if there is one.
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
            // What is virtual at one end only is not reached.
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

/// Reads the commands that a packet has at a virtual address. What names an allocation is none
/// of the hardware's.
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
        Err(_) => Some(Outcome::PageFault(address)),
    }
}

/// Does a command of a context. A range outside its allocation is skipped, for no address
/// stands for it.
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

/// Where a command that was done has written.
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

/// Does a command of a packet on memory of a driver's own, or ends the packet.
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
    // Read whole before the first byte is written: the ranges may overlap.
    let bytes = from.0.upgrade()?.read(from.1..from.1.checked_add(length)?)?;
    to.0.upgrade()?.write(to.1, &bytes)
}
