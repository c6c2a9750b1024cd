//! The kernel stack of a driver: 24 KiB from the frame that calls it.
//!
//! A thread of ours has a larger stack, on which our own functions run, too. So the pages behind the
//! first 24 KiB become inaccessible when driver code is entered, and the fault tells what touched
//! them: the driver, which is reported, or a function of ours that the driver called, which gets
//! them back. From then on the use of this call is not limited any more.
//!
//! WINDOWS: a kernel stack has 24 KiB on x64, and what called the driver uses a part of it
//! (documented). So nothing that is found here fits.
#![expect(unsafe_code, reason = "protects memory")]

use super::call_place;
use super::processor_block::ProcessorBlock;
use super::stack_use::StackUse;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of a kernel stack.
pub const KERNEL_STACK: usize = 24 << 10;

/// The inaccessible bytes behind it: more than any frame that does not touch its pages in order.
const FORBIDDEN: usize = 64 << 10;

const PAGE: usize = 4096;

/// Whether the stacks of this process are limited.
static LIMITED: AtomicBool = AtomicBool::new(false);

/// Limits the stack of driver code from now on.
pub(super) fn limit_stacks() {
    LIMITED.store(true, Ordering::Relaxed);
}

/// The limit of the driver code that runs on this thread, until the guard drops. Inside of other
/// driver code, that code's limit is set again then.
#[derive(Debug)]
pub(super) struct StackLimit {
    block: ProcessorBlock,
    /// The first inaccessible address of the code around this one; zero if there is none.
    outer: usize,
    stack_use: StackUse,
}

impl StackLimit {
    /// Driver code begins, called by this function's caller.
    #[inline(never)]
    pub(super) fn begin(block: ProcessorBlock) -> Option<Self> {
        if !LIMITED.load(Ordering::Relaxed) {
            return None;
        }
        let here = 0_u8;
        let start = (&raw const here).addr();
        let top = (start - KERNEL_STACK) / PAGE * PAGE;
        let lowest = top - FORBIDDEN;
        // Our functions need some of the stack themselves.
        if !block.has_stack_below(lowest) {
            return None;
        }
        let outer = block.stack_limit();
        allow(outer);
        forbid(block, lowest);
        let stack_use = StackUse::begin(block, start, top);
        Some(Self { block, outer, stack_use })
    }
}

impl Drop for StackLimit {
    fn drop(&mut self) {
        self.stack_use.end();
        allow(self.block.stack_limit());
        forbid(self.block, self.outer);
    }
}

/// Makes the pages from an address inaccessible; of zero, none.
fn forbid(block: ProcessorBlock, lowest: usize) {
    // Before the pages are: the handler of a fault has to know them.
    block.set_stack_limit(lowest);
    protect(lowest, libc::PROT_NONE);
}

/// Makes the pages from an address accessible; of zero, none.
fn allow(lowest: usize) {
    protect(lowest, libc::PROT_READ | libc::PROT_WRITE);
}

fn protect(lowest: usize, rights: i32) {
    if lowest != 0 {
        let at = ptr::with_exposed_provenance_mut(lowest);
        // SAFETY: The pages are a part of this thread's stack that holds nothing: it is below all
        // frames, and a frame that reaches it faults.
        unsafe { libc::mprotect(at, FORBIDDEN, rights) };
    }
}

/// The code that touched pages behind the kernel stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackUser {
    /// The driver.
    Driver,
    /// A function of ours that the driver called: it can go on.
    Windtunnel,
}

/// What a fault at an address means for the limit. `None` if the address is not behind it. The
/// pages are accessible afterwards. A signal handler may call this.
pub(super) fn touched(address: u64, instruction: u64) -> Option<StackUser> {
    let block = ProcessorBlock::existing()?;
    let lowest = block.stack_limit();
    let forbidden = lowest as u64..(lowest + FORBIDDEN) as u64;
    if lowest == 0 || !forbidden.contains(&address) {
        return None;
    }
    allow(lowest);
    block.set_stack_limit(0);
    // A function that works on an array in a frame of the driver's, such as memset.
    let (caller, frame, _) = block.last_import();
    let is_drivers = call_place::is_in_module(instruction)
        || crate::crt_memory::is_stack_probe(instruction)
        || (call_place::is_in_module(caller) && address >= frame);
    Some(if is_drivers { StackUser::Driver } else { StackUser::Windtunnel })
}
