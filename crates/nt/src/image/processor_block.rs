//! The processor block behind GS, which code of an image reads directly.
//!
//! Windows keeps the state of a processor in a block at GS, and compilers inline reads of it, such
//! as `KeGetCurrentThread`. GS is free on Linux, so each thread that runs a driver gets a block of
//! its own. Behind the part that Windows defines it has our own fields, which thunks write.
//!
//! WINDOWS: the offsets up to 0x1A4 are observed in the code of public drivers.
#![expect(unsafe_code, reason = "sets a processor register")]

use std::cell::Cell;
use std::ptr;

/// The size of the block.
pub(super) const BLOCK: usize = 0x2000;

/// The address of the block itself.
const SELF: usize = 0x18;
/// The address of the inner block (`CurrentPrcb`).
const CURRENT_PRCB: usize = 0x20;
/// Where the inner block begins.
const PRCB: usize = 0x180;
/// The thread object (`CurrentThread`).
const CURRENT_THREAD: usize = 0x188;

/// The operation of `arch_prctl` that sets the base of GS.
const ARCH_SET_GS: libc::c_int = 0x1001;

/// Our field: the return address of the last import call.
pub(super) const CALLER: u32 = 0x1000;
/// Our field: the stack pointer of the last import call, which points at its return address.
pub(super) const CALLER_STACK: u32 = 0x1008;
/// Our field: the frame pointer of the last import call.
pub(super) const CALLER_FRAME: u32 = 0x1048;
/// Our field: the number of the last import.
pub(super) const IMPORT_NUMBER: u32 = 0x1010;
/// Our field: the IRQL as a Windows number.
pub(super) const IRQL: u32 = 0x1018;
/// Our field: the number of the driver call, zero outside one.
const CALL: usize = 0x1020;
/// Our field: the number of the virtual thread.
const THREAD: usize = 0x1030;
/// Our field: the lowest address of the stack.
const STACK: usize = 0x1038;
/// Our field: the time at which driver code was entered, in ticks of the watchdog; zero outside.
const ENTERED: usize = 0x1028;
/// Our field: the lowest address behind the driver's kernel stack; zero if there is no limit.
const STACK_LIMIT: usize = 0x1050;
/// Our field: the lowest stack pointer of an import call of the driver code that runs; zero if it is
/// not measured.
pub(super) const LOWEST_CALL: u32 = 0x1058;
/// Our field: whether the code is that of a user-mode driver.
const USER_MODE: usize = 0x1040;

thread_local! {
    static BLOCK_ADDRESS: Cell<usize> = const { Cell::new(0) };
}

/// The processor block of an OS thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorBlock(usize);

impl ProcessorBlock {
    /// The block of this thread; made and put behind GS if the thread has none.
    pub(crate) fn of_this_thread() -> Self {
        let known = BLOCK_ADDRESS.get();
        if known != 0 {
            return Self(known);
        }
        // It is never freed: GS points to it until the thread has ended, and a signal may read it.
        let block = Box::leak(Box::new([0_u64; BLOCK / 8]));
        let address = block.as_mut_ptr().expose_provenance();
        let block = Self(address);
        block.write(SELF, address as u64);
        block.write(CURRENT_PRCB, (address + PRCB) as u64);
        block.write(THREAD, flight::ExecutionContext::current().thread().into());
        // SAFETY: The call changes the base of GS only, which no compiled Rust code or C library
        // on x86-64 Linux uses.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, address) };
        block.write(STACK, lowest_stack_address() as u64);
        BLOCK_ADDRESS.set(address);
        super::signals::add_signal_stack();
        super::watchdog::watch(block);
        block
    }

    /// The copy of a block of another process, while the copy exists.
    pub(super) fn of_copy(copy: &[u64; BLOCK / 8]) -> Self {
        Self(copy.as_ptr().expose_provenance())
    }

    /// The block of this thread, if it has one. Does not allocate.
    pub(super) fn existing() -> Option<Self> {
        let address = BLOCK_ADDRESS.try_with(Cell::get).unwrap_or(0);
        (address != 0).then_some(Self(address))
    }

    /// Sets the thread object.
    pub(crate) fn set_current_thread(self, object: usize) {
        self.write(CURRENT_THREAD, object as u64);
    }

    /// The IRQL as a Windows number.
    pub(crate) fn irql(self) -> u8 {
        u8::try_from(self.read(IRQL as usize)).unwrap_or(u8::MAX)
    }

    /// Sets the IRQL; returns the previous one.
    pub(crate) fn set_irql(self, irql: u8) -> u8 {
        let before = self.irql();
        self.write(IRQL as usize, irql.into());
        before
    }

    /// The driver call, zero outside one.
    pub(crate) fn call(self) -> u64 {
        self.read(CALL)
    }

    /// Sets the driver call; returns the previous one.
    pub(crate) fn set_call(self, call: u64) -> u64 {
        let before = self.call();
        self.write(CALL, call);
        before
    }

    /// The number of the virtual thread.
    pub(crate) fn thread(self) -> u32 {
        u32::try_from(self.read(THREAD)).unwrap_or(u32::MAX)
    }

    /// Whether an address is in the inaccessible pages below the stack of this thread.
    pub(super) fn is_below_stack(self, address: u64) -> bool {
        /// Far enough for any frame that does not touch its pages in order.
        const REACH: u64 = 1 << 20;
        let lowest = self.read(STACK);
        lowest != 0 && (lowest.saturating_sub(REACH)..lowest + 4096).contains(&address)
    }

    /// The lowest address behind the kernel stack of the driver; zero if its use is not limited.
    pub(super) fn stack_limit(self) -> usize {
        usize::try_from(self.read(STACK_LIMIT)).unwrap_or(0)
    }

    /// Sets the lowest address behind the kernel stack of the driver.
    pub(super) fn set_stack_limit(self, lowest: usize) {
        self.write(STACK_LIMIT, lowest as u64);
    }

    /// Sets the stack pointer below which an import call is measured; returns the previous one.
    pub(super) fn replace_lowest_call(self, lowest: u64) -> u64 {
        let before = self.read(LOWEST_CALL as usize);
        self.write(LOWEST_CALL as usize, lowest);
        before
    }

    /// Whether this thread's stack reaches far below an address.
    pub(super) fn has_stack_below(self, address: usize) -> bool {
        const FAR: u64 = 256 << 10;
        let lowest = self.read(STACK);
        lowest != 0 && lowest + FAR < address as u64
    }

    /// When driver code was entered, in ticks of the watchdog; zero outside.
    pub(crate) fn entered(self) -> u64 {
        self.read(ENTERED)
    }

    /// Sets the time at which driver code was entered; returns the previous one.
    pub(crate) fn set_entered(self, tick: u64) -> u64 {
        let before = self.entered();
        self.write(ENTERED, tick);
        before
    }

    /// Whether the code is that of a user-mode driver.
    pub(super) fn is_user_mode(self) -> bool {
        self.read(USER_MODE) != 0
    }

    /// Sets whether the code is that of a user-mode driver; returns the previous value.
    pub(super) fn set_user_mode(self, user_mode: bool) -> bool {
        let before = self.is_user_mode();
        self.write(USER_MODE, user_mode.into());
        before
    }

    /// The return address, stack pointer and number of the last import call.
    pub(crate) fn last_import(self) -> (u64, u64, u32) {
        let number = self.read(IMPORT_NUMBER as usize) & 0xffff_ffff;
        let number = u32::try_from(number).unwrap_or(0);
        (self.read(CALLER as usize), self.read(CALLER_STACK as usize), number)
    }

    /// The frame pointer of the last import call.
    pub(super) fn last_import_frame(self) -> u64 {
        self.read(CALLER_FRAME as usize)
    }

    fn read(self, offset: usize) -> u64 {
        let at = ptr::with_exposed_provenance::<u64>(self.0 + offset);
        // SAFETY: The field is inside the block, which is never freed; other threads only read it.
        unsafe { at.read_volatile() }
    }

    fn write(self, offset: usize, value: u64) {
        let at = ptr::with_exposed_provenance_mut::<u64>(self.0 + offset);
        // SAFETY: The field is inside the block, which is never freed; this thread alone writes.
        unsafe { at.write_volatile(value) };
    }
}

/// The lowest address of this thread's stack; zero if it is not known.
fn lowest_stack_address() -> usize {
    // SAFETY: Zero is a valid value of the attributes before they are filled in.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: Asks for the running thread.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: The thread exists, and the attributes are this function's own.
    let failed = unsafe { libc::pthread_getattr_np(thread, &raw mut attributes) };
    if failed != 0 {
        return 0;
    }
    let (mut lowest, mut size) = (ptr::null_mut(), 0);
    // SAFETY: The attributes were filled in above.
    unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size) };
    // SAFETY: The attributes were filled in above, and are not used again.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    lowest.addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::asm;

    #[test]
    fn code_finds_the_block_behind_gs() {
        let block = ProcessorBlock::of_this_thread();
        block.set_current_thread(0x1234);
        let (own, thread): (u64, u64);
        // SAFETY: Reads two fields of the block of this thread.
        unsafe { asm!("mov {}, gs:[0x18]", "mov {}, gs:[0x188]", out(reg) own, out(reg) thread) };
        assert_eq!((own, thread), (block.0 as u64, 0x1234));
        assert_eq!(ProcessorBlock::of_this_thread().0, block.0, "a thread has one block");
        assert_eq!((block.set_irql(2), block.irql()), (0, 2));
        let other = std::thread::spawn(|| ProcessorBlock::of_this_thread().0).join().unwrap();
        assert_ne!(other, block.0);
    }
}
