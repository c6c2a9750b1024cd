//! Signal stacks for the threads of a program: without one, an overflow of a thread's stack cannot
//! be handled.
#![expect(unsafe_code, reason = "maps memory and sets the signal stack of a thread")]

use std::cell::Cell;
use std::ptr;

/// The size of a lent stack.
const BYTES: usize = 64 << 10;

/// A lent stack: its address, zero if the thread has its own. It is taken back when the thread ends.
struct LentStack(Cell<usize>);

thread_local! {
    static LENT: LentStack = const { LentStack(Cell::new(0)) };
    static KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread a signal stack, if it has none. A thread whose stack cannot be made goes on
/// without.
pub fn lend_signal_stack() {
    if !KNOWN.replace(true) {
        // The thread-local value may be gone, in a thread that ends.
        _ = LENT.try_with(LentStack::lend);
    }
}

/// The signal stack of this thread.
fn current() -> libc::stack_t {
    // SAFETY: Zero is a valid value of every field.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: `stack` has room for the answer.
    unsafe { libc::sigaltstack(ptr::null(), &raw mut stack) };
    stack
}

impl LentStack {
    fn lend(&self) {
        if current().ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: Maps new memory.
        let memory = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return;
        }
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: BYTES };
        // SAFETY: The memory stays until the thread ends.
        if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } == 0 {
            self.0.set(memory.expose_provenance());
        } else {
            // SAFETY: The memory was mapped above, and nothing uses it.
            unsafe { libc::munmap(memory, BYTES) };
        }
    }
}

impl Drop for LentStack {
    fn drop(&mut self) {
        let memory = ptr::with_exposed_provenance_mut(self.0.get());
        if self.0.get() == 0 {
            return;
        }
        if current().ss_sp == memory {
            let none =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: The thread runs on its own stack: it ends.
            if unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) } != 0 {
                return; // A handler on it ends the thread: the memory stays.
            }
        }
        // SAFETY: No thread has the memory as its signal stack any more.
        unsafe { libc::munmap(memory, BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_stack_until_it_ends_and_keeps_its_own() {
        let lent = std::thread::spawn(|| {
            // A thread of Rust has one already.
            let own = current().ss_sp.addr();
            lend_signal_stack();
            assert_eq!(current().ss_sp.addr(), own);
            let none =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: The thread runs on its ordinary stack.
            unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
            LENT.with(LentStack::lend);
            assert_eq!((current().ss_flags, current().ss_size), (0, BYTES));
            current().ss_sp.addr()
        });
        assert_ne!(lent.join().unwrap(), 0);
    }
}
