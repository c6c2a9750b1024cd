//! Interfaces between a kernel and its environment: the host that runs virtual threads, and the
//! simulated hardware with its interrupt line.

use crate::{Fence, Irql, Passive, Ram, Spawner, TableEntry, TableRoot, Text, thread};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs virtual threads. A virtual thread waits only through its host.
pub trait Host: Send + Sync {
    /// Waits until the token is woken, or until the deadline. The caller holds no lock.
    ///
    /// This is the only blocking call of the project. A wake-up is consumed: one wake-up ends one
    /// wait.
    fn park(&self, at: &mut Passive, token: &WaitToken, deadline: Option<u64>) -> WaitResult;

    /// The time in units of 100 ns. Time is virtual: it starts at zero, and a deadline passes when
    /// no thread can run.
    fn now(&self) -> u64;

    /// Wakes a token, at any IRQL. Two wake-ups before a park count as one.
    fn wake(&self, token: &WaitToken);

    /// A point where another virtual thread may run first: before each driver call.
    fn yield_point(&self, at: &mut Passive);

    /// Lets time pass while the calling thread runs, at any IRQL: it is busy and does not wait.
    fn pass_time(&self, time: u64);

    /// Whether clients that the host has not seen may still come, at any time: a wait that only a
    /// client can end is not stuck then, and goes on.
    fn expects_clients(&self) -> bool {
        false
    }

    /// The host as one that starts threads, for a driver that starts its own.
    fn spawner(self: Arc<Self>) -> Arc<dyn Spawner>;

    /// The IRQL of the calling virtual thread. Thread-local, so hosts do not store it.
    fn irql(&self) -> Irql {
        thread::irql()
    }

    /// Changes the IRQL of the calling virtual thread and returns the previous one.
    fn set_irql(&self, irql: Irql) -> Irql {
        thread::set_irql(irql)
    }
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// The token was woken.
    Woken,
    /// The deadline passed first.
    TimedOut,
    /// No thread that could wake the token can run. The text is the wait graph.
    Stuck(Text),
    /// The run is over. Only worker threads and threads of a driver get this result.
    HostEnded,
}

/// What a thread waits on. A clone is the same token.
#[derive(Clone)]
pub struct WaitToken(Arc<TokenState>);

struct TokenState {
    why: Text,
    woken: AtomicBool,
    source: WakeSource,
}

/// The threads that can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WakeSource {
    /// A thread that is ready or waiting.
    Internal,
    /// A virtual thread, by ending. That thread may itself be stuck.
    Thread,
    /// A client thread, also one that is outside now and may return.
    Client,
    /// A client thread, also one that has not entered the host yet.
    External,
    /// The driver, in which this thread is. Its calls can be those of any client.
    Driver,
}

impl WaitToken {
    /// Creates a token. `why` names what is waited for, and appears in the wait graph.
    pub fn new(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::Internal)
    }

    /// Creates a token that client threads wake. While a client thread is outside and may return
    /// to wake it, the wait is not stuck, and its deadline passes in real time. Where clients may come
    /// at any time ([`Host::expects_clients`]), the wait is never stuck.
    pub fn for_clients(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::Client)
    }

    /// Creates a token that any thread of a client may wake. If the host expects external threads
    /// ([`expect_external_threads`]), the wait is never stuck.
    ///
    /// [`expect_external_threads`]: crate::ThreadedHost::expect_external_threads
    pub fn for_external_threads(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::External)
    }

    /// Creates a token for a wait of the driver without a deadline, in a call of this thread. As one
    /// [for clients], because a client's call may let the driver end it. If nothing can end it, it is
    /// stuck before any thread that waits for the call.
    ///
    /// [for clients]: WaitToken::for_clients
    pub fn for_driver(why: impl Into<Text>) -> Self {
        Self::with_source(why.into(), WakeSource::Driver)
    }

    /// Creates a token for the end of a virtual thread.
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
        matches!(self.0.source, WakeSource::Client | WakeSource::External | WakeSource::Driver)
    }

    pub(crate) fn is_in_driver(&self) -> bool {
        self.0.source == WakeSource::Driver
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

    /// Whether it is woken and no thread has waited for it since, so that no thread is parked with
    /// it and another wake-up changes nothing. The thread that takes the wake-up sees what this
    /// thread wrote before.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        self.0.woken.compare_exchange(true, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn take(&self) -> bool {
        self.0.woken.swap(false, Ordering::AcqRel)
    }

    /// Whether both are the same token.
    pub fn same_as(&self, other: &WaitToken) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for WaitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitToken").field(&self.0.why).finish()
    }
}

/// Simulated hardware. It runs on its own virtual thread, one step at a time.
pub trait HardwareModel: Send + Sync {
    /// Whether a step would do nothing.
    fn idle(&self) -> bool;

    /// Executes one step, and raises the interrupt if the step requires it.
    fn step(&self, at: &mut Passive, line: &dyn InterruptLine);

    /// Whether a driver finds the hardware it expects here, so that it has to start, and whether the
    /// model can be asked for the memory of the GPU ([`HardwareModel::peek`]).
    fn models_hardware(&self) -> bool {
        true
    }

    /// What the driver asked its device for last, after the words "after it". `None` if it asked
    /// for nothing, or if this is not recorded.
    fn last_request(&self) -> Option<String> {
        None
    }

    /// Lets the engine of this node execute the next step, if it has work.
    fn prefer_node(&self, _node: u32) {}

    /// Whether the interrupt is asserted: the driver has not acknowledged it yet. `None` if the
    /// model does not report this.
    fn interrupt_asserted(&self) -> Option<bool> {
        None
    }

    /// How often the interrupt was asserted, of a model that reports whether it is.
    fn interrupt_count(&self) -> u64 {
        0
    }

    /// Whether an interrupt is enabled that a stopped adapter must not raise. `None` if the model
    /// does not report this.
    fn interrupt_enabled(&self) -> Option<bool> {
        None
    }

    /// Whether the engine of the node, or any engine, has work, even if it makes no progress.
    /// `None` if the model does not report this.
    fn holds_work(&self, _node: Option<u32>) -> Option<bool> {
        None
    }

    /// The system memory that the hardware can access, if any.
    fn ram(&self) -> Option<Arc<dyn Ram>> {
        None
    }

    /// Reads from physical GPU addresses as the engines would, for memory checks. Returns whether
    /// the whole range exists.
    fn peek(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Reads a page-table entry, for page-table checks. `_table` is the one-based segment of the
    /// table and its offset from the segment's base. `None` if it cannot be read.
    fn peek_entry(&self, _table: (u32, u64), _index: u32) -> Option<TableEntry> {
        None
    }

    /// Reads several entries of a page table, from `first` on, each as [`HardwareModel::peek_entry`].
    fn peek_entries(&self, table: (u32, u64), first: u32, into: &mut [Option<TableEntry>]) {
        for (index, entry) in (first..).zip(into) {
            *entry = self.peek_entry(table, index);
        }
    }

    /// Translates a virtual address as the engines would, from the page tables or from cached
    /// translations. Changes neither. `None` is a fault.
    fn translate(&self, _root: TableRoot, _address: u64) -> Option<TableEntry> {
        None
    }

    /// Reads from virtual addresses, with the same translation. Returns whether the whole range is
    /// mapped.
    fn peek_virtual(&self, _root: TableRoot, _address: u64, _into: &mut [u8]) -> bool {
        false
    }
}

/// The memory range that a command wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryWrite {
    /// The first address.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The address is virtual; otherwise it is a physical GPU address.
    pub translated: bool,
}

/// The interrupt line from the hardware to its driver. Also reports memory accesses that real
/// hardware does not report, for memory checks.
pub trait InterruptLine: Send + Sync {
    /// Interrupts: the driver's interrupt routine runs, then its DPC if the routine queued one.
    fn raise(&self, at: &mut Passive);

    /// An engine saved its current context at a physical GPU address.
    fn context_saved(&self, _node: u32, _address: u64) {}

    /// A command of the packet with this fence on the node reads or writes this many bytes at a
    /// physical GPU address.
    fn memory_used(&self, _node: u32, _fence: Fence, _address: u64, _bytes: u64) {}

    /// A command of the packet with this fence on the node has written to memory.
    fn memory_written(&self, _node: u32, _fence: Fence, _to: MemoryWrite) {}

    /// An engine starts a packet with this address space, or without one.
    fn root_used(&self, _node: u32, _fence: Fence, _root: Option<TableRoot>) {}
}
