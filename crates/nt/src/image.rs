//! Driver images: a `.sys` file of Windows x64, from the file to code that runs in this process.
//!
//! [`Image::parse`] checks a file and lays it out as the loader of Windows would;
//! [`LoadedImage::load`] maps it with its imports bound to our functions.

mod call_place;
mod channel;
mod context;
mod crash;
mod dwarf_places;
mod emulate;
pub(crate) mod exception;
mod fault_reporter;
mod flight_process;
mod function_table;
mod limits;
mod load;
mod mapping;
mod module;
mod parse;
#[cfg(test)]
mod parse_tests;
mod processor_block;
mod protection_fault;
mod read;
mod remote_threads;
pub(crate) mod sanitizer;
mod shared_object;
mod signal_stack;
mod signals;
mod stack_limit;
mod stack_use;
mod stack_walk;
mod stop_signals;
mod symbol_reader;
mod symbols;
mod thread_end;
mod thunk;
mod thunk_call;
mod true_address;
mod unwind;
#[cfg(test)]
mod unwind_tests;
mod user_memory;
mod watchdog;

pub use call_place::{CODE, CallStack, ImportCall, ThreadFrames};
pub(crate) use call_place::{place, with_other_thread};
pub use channel::{Channel, Number, text_file};
pub use crash::{ABANDONED, CrashKind, CrashRecord, FRAMES};
pub use exception::USER_PROBE_ADDRESS;
pub use flight_process::{FlightProcess, ProcessEnd};
pub use limits::{limit_process, return_large_blocks};
pub use load::{Binding, LoadedImage, TRAP};
pub use module::{DriverImage, Module, hash};
pub use parse::{Image, ImageError, ImportedName, PdbReference, Section};
pub use protection_fault::RefusedInstruction;
pub use shared_object::{LoadedObject, SharedObject};
pub use signal_stack::lend_signal_stack;
pub use signals::{
    ASSERTION_FAILURE, end_for_limit, finish, is_handled_by_program, is_own_handler, limit_message,
    refuse_system_calls, report_faults, report_faults_again,
};
pub(crate) use signals::{bug_check, end_for_deadlock, end_for_watchdog};
pub use stack_limit::KERNEL_STACK;
pub use stack_use::StackDepth;
pub(crate) use stack_use::driver_is_called;
pub use stack_walk::{MappedObject, MappedObjects, walk_stack};
pub use stop_signals::StopSignal;
pub use symbol_reader::{SymbolQuestion, answer_symbol_question, read_symbols_apart};
pub use symbols::{Place, SymbolError, Symbols, places_in_shared_object};
pub use thread_end::{replace_thread_ends, returning};
pub use user_memory::UserMemory;
pub use watchdog::start_watchdog;

use crate::ke_irql::{DISPATCH_LEVEL, KIRQL};
use crate::paged;
use flight::{Component, RunningCallGuard};
use processor_block::ProcessorBlock;
use stack_limit::StackLimit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether each thread that runs driver code has a processor block: in a process that hosts an image
/// or contains faults.
static TRACKS_THREADS: AtomicBool = AtomicBool::new(false);

/// Whether this process hosts an image.
static HOSTS_IMAGE: AtomicBool = AtomicBool::new(false);

/// Whether this process hosts an image.
pub(crate) fn hosts_image() -> bool {
    HOSTS_IMAGE.load(Ordering::Relaxed)
}

/// This process hosts an image from now on.
fn host_image() {
    HOSTS_IMAGE.store(true, Ordering::Relaxed);
    TRACKS_THREADS.store(true, Ordering::Relaxed);
}

/// The block of this thread, if threads have one in this process.
fn tracked_thread() -> Option<ProcessorBlock> {
    TRACKS_THREADS.load(Ordering::Relaxed).then(ProcessorBlock::of_this_thread)
}

/// The return address of the import call that runs on this thread. Zero if none is known.
pub(crate) fn last_caller() -> u64 {
    let block = ProcessorBlock::existing().filter(|block| block.entered() != 0);
    block.map_or(0, |block| block.last_import().0)
}

/// Gives driver code on this thread its whole deadline again: virtual time limits what it does.
pub(crate) fn restart_deadline() {
    if let Some(block) = ProcessorBlock::existing().filter(|block| block.entered() != 0) {
        block.set_entered(watchdog::now());
    }
}

/// Marks that driver code runs on this thread, until the guard drops: for its deadline, and for the
/// record of a fault.
#[derive(Debug)]
pub(crate) struct DriverCode {
    block: Option<ProcessorBlock>,
    entered: u64,
    call: u64,
    irql: u8,
    user_mode: bool,
    stack_limit: Option<StackLimit>,
}

impl DriverCode {
    /// Driver code begins.
    pub(crate) fn begin(call: u64, irql: KIRQL) -> Self {
        let Some(block) = tracked_thread() else {
            let (block, stack_limit) = (None, None);
            return Self { block, entered: 0, call: 0, irql: 0, user_mode: false, stack_limit };
        };
        block.set_current_thread(crate::ps::current_thread());
        let (entered, call) = (block.set_entered(watchdog::now()), block.set_call(call));
        paged::irql_changed(irql);
        let irql = block.set_irql(irql);
        let user_mode = block.set_user_mode(false);
        let stack_limit = StackLimit::begin(block);
        Self { block: Some(block), entered, call, irql, user_mode, stack_limit }
    }

    /// Whether the code has the stack that the Windows kernel gives it, and no more.
    pub(crate) fn limits_stack(&self) -> bool {
        self.stack_limit.is_some()
    }

    /// Whether the code runs where pageable memory is inaccessible.
    pub(crate) fn is_above_paged_memory(&self) -> bool {
        let raised = |block: ProcessorBlock| block.irql() >= DISPATCH_LEVEL;
        paged::is_enabled() && self.block.is_some_and(raised)
    }

    /// The driver changed the IRQL.
    pub(crate) fn irql_changed(to: KIRQL) {
        if let Some(block) = ProcessorBlock::existing() {
            block.set_irql(to);
            paged::irql_changed(to);
        }
    }
}

impl Drop for DriverCode {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            // Time that another call took inside this one is not this one's.
            let entered = if self.entered == 0 { 0 } else { watchdog::now() };
            block.set_entered(entered);
            block.set_call(self.call);
            block.set_irql(self.irql);
            paged::irql_changed(self.irql);
            block.set_user_mode(self.user_mode);
        }
    }
}

/// Marks that a function of a user-mode driver runs on this thread, until the guard drops: for its
/// deadline, and for the report of a fault.
#[derive(Debug)]
pub struct UserModeCode {
    _running: RunningCallGuard,
    /// The block, with the time and the kind of the code around this one.
    tracked: Option<(ProcessorBlock, u64, bool)>,
}

impl UserModeCode {
    /// The function begins.
    pub fn begin(name: &'static str) -> Self {
        let running = RunningCallGuard::enter(Component::Umd, name);
        let tracked = tracked_thread()
            .map(|block| (block, block.set_entered(watchdog::now()), block.set_user_mode(true)));
        Self { _running: running, tracked }
    }
}

impl Drop for UserModeCode {
    fn drop(&mut self) {
        if let Some((block, entered, user_mode)) = self.tracked {
            block.set_entered(if entered == 0 { 0 } else { watchdog::now() });
            block.set_user_mode(user_mode);
        }
    }
}

/// Marks that a callback of a user-mode driver runs on this thread, until the guard drops. Its time
/// is not that of the driver.
#[derive(Debug)]
pub struct UserModeCallback {
    _running: RunningCallGuard,
    /// The block, with the time and the kind of the calling code, and the time of the call.
    tracked: Option<(ProcessorBlock, u64, bool, u64)>,
}

impl UserModeCallback {
    /// The callback begins.
    pub fn begin(name: &'static str) -> Self {
        let running = RunningCallGuard::enter(Component::Umd, name);
        let tracked = ProcessorBlock::existing().map(|block| {
            (block, block.set_entered(0), block.set_user_mode(false), watchdog::now())
        });
        Self { _running: running, tracked }
    }
}

impl Drop for UserModeCallback {
    fn drop(&mut self) {
        if let Some((block, entered, user_mode, began)) = self.tracked {
            let took = watchdog::now().saturating_sub(began);
            block.set_entered(if entered == 0 { 0 } else { entered + took });
            block.set_user_mode(user_mode);
        }
    }
}

/// Marks that driver code waits on this thread, until the guard drops.
#[derive(Debug)]
pub(crate) struct DriverWaits(Option<(ProcessorBlock, u64)>);

impl DriverWaits {
    /// A wait begins.
    pub(crate) fn begin() -> Self {
        let block = ProcessorBlock::existing();
        Self(block.map(|block| (block, block.set_entered(0))))
    }
}

impl Drop for DriverWaits {
    fn drop(&mut self) {
        if let Some((block, before)) = self.0 {
            block.set_entered(if before == 0 { 0 } else { watchdog::now() });
        }
    }
}
