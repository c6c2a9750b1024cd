//! Driver images: a `.sys` file of Windows x64, from the file to code that runs in this process.
//!
//! [`Image::parse`] checks a file and lays it out as the loader of Windows would;
//! [`LoadedImage::load`] maps it with its imports bound to our functions.

mod channel;
mod context;
mod crash;
mod emulate;
pub(crate) mod exception;
mod load;
mod mapping;
mod module;
mod parse;
#[cfg(test)]
mod parse_tests;
mod processor_block;
mod read;
mod shared_object;
mod signals;
mod symbols;
mod thunk;
mod true_address;
mod unwind;
#[cfg(test)]
mod unwind_tests;
mod user_memory;
mod watchdog;

pub use channel::{Channel, Number};
pub use crash::{ABANDONED, CrashKind, CrashRecord};
pub use exception::USER_PROBE_ADDRESS;
pub use load::{Binding, LoadedImage, TRAP};
pub use module::{DriverImage, Module, hash};
pub use parse::{Image, ImageError, ImportedName, PdbReference, Section};
pub use shared_object::{LoadedObject, SharedObject};
pub(crate) use signals::bug_check;
pub use signals::contain_faults;
pub use symbols::{Place, SymbolError, Symbols};
pub use user_memory::UserMemory;
pub use watchdog::start_watchdog;

use crate::ke_irql::KIRQL;
use processor_block::ProcessorBlock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process hosts an image: then each thread that runs driver code has a processor
/// block.
static HOSTS_IMAGE: AtomicBool = AtomicBool::new(false);

/// Whether this process hosts an image.
pub(crate) fn hosts_image() -> bool {
    HOSTS_IMAGE.load(Ordering::Relaxed)
}

/// The return address of the last import call of this thread. Zero if none is known.
pub(crate) fn last_caller() -> u64 {
    ProcessorBlock::existing().map_or(0, |block| block.last_import().0)
}

/// Marks that driver code runs on this thread, until the guard drops: for its deadline, and for the
/// record of a fault.
#[derive(Debug)]
pub(crate) struct DriverCode {
    block: Option<ProcessorBlock>,
    entered: u64,
    call: u64,
    irql: u8,
}

impl DriverCode {
    /// Driver code begins.
    pub(crate) fn begin(call: u64, irql: KIRQL) -> Self {
        if !hosts_image() {
            return Self { block: None, entered: 0, call: 0, irql: 0 };
        }
        let block = ProcessorBlock::of_this_thread();
        block.set_current_thread(crate::ps::current_thread());
        let (entered, call) = (block.set_entered(watchdog::now()), block.set_call(call));
        let irql = block.set_irql(irql);
        Self { block: Some(block), entered, call, irql }
    }

    /// The driver changed the IRQL.
    pub(crate) fn irql_changed(to: KIRQL) {
        if let Some(block) = ProcessorBlock::existing() {
            block.set_irql(to);
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
