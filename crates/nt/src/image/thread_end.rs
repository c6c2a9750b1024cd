//! Driver code that ends the thread that called it: `pthread_exit`, a cancelled thread, an exception
//! of C++. Such a thread never returns, and its flight would wait for it without an end.
//!
//! The calls of a shared object to the functions that end a thread are replaced by ours, which know
//! the place. What ends a thread in another way unwinds the frames that called the driver; there the
//! place is not known any more.
#![expect(unsafe_code, reason = "replaces addresses in a shared object")]

use super::processor_block::ProcessorBlock;
use super::shared_object::base_of;
use super::{signals, watchdog};
use libc::{c_int, c_void, pthread_t};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget,
};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// How driver code ended a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum ThreadEnd {
    /// By `pthread_exit`.
    Exit = 0,
    /// By `pthread_cancel`.
    Cancel = 1,
    /// By unwinding the frames that called it.
    Unwinding = 2,
}

/// Runs driver code, which returns. Code that unwinds the frame of this function instead, other than
/// by a panic, ends the process of a flight.
pub fn returning<R>(body: impl FnOnce() -> R) -> R {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                signals::end_for_thread_end(ThreadEnd::Unwinding);
            }
        }
    }
    let left = Left;
    let answer = body();
    std::mem::forget(left);
    answer
}

/// Whether driver code runs on this thread.
fn is_in_driver() -> bool {
    ProcessorBlock::existing().is_some_and(|block| block.entered() != 0)
}

/// `pthread_exit` for driver code. A thread of the driver's own, which the host does not know, ends.
unsafe extern "C-unwind" fn exit_thread(value: *mut c_void) -> ! {
    if is_in_driver() {
        signals::end_for_thread_end(ThreadEnd::Exit);
    }
    // SAFETY: The caller's contract.
    unsafe { pthread_exit(value) }
}

/// `pthread_cancel` for driver code.
unsafe extern "C-unwind" fn cancel_thread(thread: pthread_t) -> c_int {
    if watchdog::watches(thread) {
        signals::end_for_thread_end(ThreadEnd::Cancel);
    }
    // SAFETY: The caller's contract.
    unsafe { pthread_cancel(thread) }
}

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
    fn pthread_cancel(thread: pthread_t) -> c_int;
}

/// The functions that are replaced.
fn replacement(name: &str) -> Option<usize> {
    let exit: unsafe extern "C-unwind" fn(*mut c_void) -> ! = exit_thread;
    let cancel: unsafe extern "C-unwind" fn(pthread_t) -> c_int = cancel_thread;
    match name {
        "pthread_exit" | "thrd_exit" => Some(exit as usize),
        "pthread_cancel" => Some(cancel as usize),
        _ => None,
    }
}

/// Where a shared object keeps the addresses of functions that are replaced: the offset of each in
/// its memory, and the address of the replacement.
pub(super) fn replaced_addresses(elf: &ElfFile64<'_, Endianness>) -> Vec<(u64, usize)> {
    let (Some(relocations), Some(symbols)) =
        (elf.dynamic_relocations(), elf.dynamic_symbol_table())
    else {
        return Vec::new();
    };
    let found = relocations.filter_map(|(offset, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = symbols.symbol_by_index(index).ok()?;
        let is_own = !symbol.is_undefined() || relocation.addend() != 0;
        let address = symbol.name().ok().filter(|_| !is_own).and_then(replacement)?;
        Some((offset, address))
    });
    found.collect()
}

/// Replaces the calls of a user-mode driver that end a thread: the file that was loaded, and an
/// address of its code.
pub fn replace_thread_ends(file: &Path, address: usize) {
    let Ok(bytes) = std::fs::read(file) else { return };
    if let Ok(elf) = ElfFile64::<Endianness>::parse(bytes.as_slice()) {
        replace_addresses(base_of(address), &replaced_addresses(&elf));
    }
}

/// Replaces addresses in a shared object that was loaded at `base`. Its pages may be read-only.
pub(super) fn replace_addresses(base: usize, addresses: &[(u64, usize)]) {
    if addresses.is_empty() {
        return;
    }
    let Ok(memory) = std::fs::File::options().write(true).open("/proc/self/mem") else { return };
    for (offset, address) in addresses {
        // A system that refuses this keeps the function of the C library.
        _ = memory.write_all_at(&(*address as u64).to_le_bytes(), base as u64 + offset);
    }
}
