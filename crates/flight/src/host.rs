//! What a kernel asks of whoever runs it.

use crate::{Fence, Irql, Passive, Ram, TableEntry, TableRoot, Text, thread};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs virtual threads, and is the only one who makes them wait.
pub trait Host: Send + Sync {
    /// Waits until the ticket is rung. The caller holds no lock.
    ///
    /// This is the one blocking call of the house. A ring is used up: one ring, one return.
    fn park(&self, at: &mut Passive, token: &WaitToken, deadline: Option<u64>) -> WaitResult;

    /// What time it is, in steps of 100 ns. Time is virtual: it begins at zero, and a deadline
    /// passes when nothing else can happen.
    fn now(&self) -> u64;

    /// Rings a ticket, from any level. Ringing twice before a park is ringing once.
    fn wake(&self, token: &WaitToken);

    /// A place where another virtual thread may go first: before each call of a driver.
    fn yield_point(&self, at: &mut Passive);

    /// The level of the calling virtual thread. It is the thread's own: no host has to keep it.
    fn irql(&self) -> Irql {
        thread::irql()
    }

    /// Changes the level of the calling virtual thread and answers the old one.
    fn set_irql(&self, irql: Irql) -> Irql {
        thread::set_irql(irql)
    }
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// The ticket was rung.
    Woken,
    /// The deadline passed first.
    TimedOut,
    /// Nothing that could ring it is left to run. Who waits for what, in words.
    Stuck(Text),
    /// The run is over: for those who serve others and outlive them.
    HostEnded,
}

/// What somebody waits on. Clones are the same ticket.
#[derive(Clone)]
pub struct WaitToken(Arc<TokenState>);

struct TokenState {
    why: Text,
    woken: AtomicBool,
    source: WakeSource,
}

/// Who could end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WakeSource {
    /// Somebody who is ready, or waits.
    Internal,
    /// A virtual thread, with its own end: that one may be the stuck one.
    Thread,
    /// A client: also one that is away now, and may come back.
    Client,
    /// A client: also a thread of it that was never here.
    External,
}

impl WaitToken {
    /// A ticket. `why` says what is waited for, and stands in the wait graph.
    pub fn new(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::Internal)
    }

    /// A ticket for something that clients do. While one is away, which may come back and do it,
    /// the wait is not stuck, and its deadline takes as long as it says.
    pub fn for_clients(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::Client)
    }

    /// A ticket for something that any thread of a client may do. Where threads come that were
    /// never here ([`ThreadedHost::expect_external_threads`](crate::ThreadedHost::expect_external_threads)), it is never stuck.
    pub fn for_external_threads(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::External)
    }

    /// A ticket for the end of a virtual thread.
    pub(crate) fn thread_end(name: &str) -> Self {
        Self::with_source(format!("the end of {name}").into(), WakeSource::Thread)
    }

    fn with_source(why: Text, ends: WakeSource) -> Self {
        Self(Arc::new(TokenState { why, woken: AtomicBool::new(false), source: ends }))
    }

    pub(crate) fn is_thread_end(&self) -> bool {
        self.0.source == WakeSource::Thread
    }

    pub(crate) fn is_for_clients(&self) -> bool {
        matches!(self.0.source, WakeSource::Client | WakeSource::External)
    }

    pub(crate) fn is_for_external_threads(&self) -> bool {
        self.0.source == WakeSource::External
    }

    /// What is waited for.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    pub(crate) fn set(&self) {
        self.0.woken.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> bool {
        self.0.woken.swap(false, Ordering::AcqRel)
    }

    /// Whether it is the same ticket.
    pub fn same_as(&self, other: &WaitToken) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for WaitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.0.why).finish()
    }
}

/// Hardware: it moves by itself, one step at a time, on a virtual thread of its own.
pub trait HardwareModel: Send + Sync {
    /// Whether a step would do nothing.
    fn idle(&self) -> bool;

    /// Does one thing; raises the interrupt if that calls for it.
    fn step(&self, at: &mut Passive, line: &dyn InterruptLine);

    /// Has this node's engine do the next thing, if it has something to do.
    fn prefer_node(&self, _node: u32) {}

    /// Whether it asks to interrupt: something happened that its driver has not acknowledged.
    /// None, if it does not say.
    fn interrupt_asserted(&self) -> Option<bool> {
        None
    }

    /// Whether an engine has something to do, even if it does not get on: that of a node, or any.
    /// None, if it does not say.
    fn holds_work(&self, _node: Option<u32>) -> Option<bool> {
        None
    }

    /// The machine's memory that it reaches; none, if it reaches none.
    fn ram(&self) -> Option<Arc<dyn Ram>> {
        None
    }

    /// Reads from its own addresses, as its engines would, for who checks bytes. Answers
    /// whether all of it was there.
    fn peek(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// What an entry of a page table says, for who checks tables: the table is in that segment,
    /// from one on, at that offset from its base. None, if there is nothing to read.
    fn peek_entry(&self, _table: (u32, u64), _index: u32) -> Option<TableEntry> {
        None
    }

    /// What its engines find behind a virtual address, in their tables or in what they remember
    /// of those; looking changes neither. None is a fault.
    fn translate(&self, _root: TableRoot, _address: u64) -> Option<TableEntry> {
        None
    }

    /// Reads from virtual addresses, likewise. Answers whether all of it was there.
    fn peek_virtual(&self, _root: TableRoot, _address: u64, _into: &mut [u8]) -> bool {
        false
    }
}

/// Where a command wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryWrite {
    /// From which address on.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// It is a virtual address; else one of the machine's own.
    pub translated: bool,
}

/// The interrupt line from a machine to its driver.
pub trait InterruptLine: Send + Sync {
    /// Interrupts: the driver's interrupt routine runs, then its DPC if it asked for one.
    fn raise(&self, at: &mut Passive);

    /// An engine saved the context that it had current, at an address of the machine's own: no
    /// hardware says so, but who checks memory has to know.
    fn context_saved(&self, _node: u32, _address: u64) {}

    /// A command of the packet that has this fence on the node reads or writes so many bytes, at
    /// an address of the machine's own: likewise.
    fn memory_used(&self, _node: u32, _fence: Fence, _address: u64, _bytes: u64) {}

    /// A command of the packet that has this fence on the node has written: likewise.
    fn memory_written(&self, _node: u32, _fence: Fence, _to: MemoryWrite) {}

    /// An engine begins a packet with this address space, or with none: likewise.
    fn root_used(&self, _node: u32, _fence: Fence, _root: Option<TableRoot>) {}
}
