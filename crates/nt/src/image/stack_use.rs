//! The deepest use of the driver's kernel stack in this process: its high-water mark.
//!
//! Our functions run on the same stack, below the frames of the driver that calls them, and do not
//! count. So two things are measured:
//!
//! 1. the stack pointer at each call of an import, and the end of the frame that `__chkstk` probes: a
//!    thunk compares it with the lowest so far;
//! 2. until a call of the driver calls its first import, the lowest byte that changes. The free part
//!    of the stack has a pattern for that.
//!
//! So the mark is never too high. Not seen is a function that calls no import and runs later in the
//! call: what it changes cannot be told from what our functions have left there.
#![expect(unsafe_code, reason = "reads and writes the free part of the stack")]

use super::processor_block::ProcessorBlock;
use super::stack_walk::mapping;
use super::thunk_call::called_by_thunk;
use flight::RunningCall;
use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The byte of the pattern.
const PATTERN: u8 = 0xD5;

/// The part of the stack that frames of this file take.
const MEASURING_FRAMES: usize = 1 << 10;

/// How many calls get the pattern, and one of how many later ones.
const FIRST_CALLS: u64 = 1024;
const LATER_CALLS: u64 = 64;

static CALLS: AtomicU64 = AtomicU64::new(0);
static DEEPEST_BYTES: AtomicUsize = AtomicUsize::new(0);
static DEEPEST: Mutex<Option<StackDepth>> = Mutex::new(None);

/// How deep the driver's stack was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackDepth {
    /// The bytes from the frame that called the driver, rounded up to 16.
    pub bytes: usize,
    /// The driver function that was called, or its `DriverEntry`; `None` for a routine that is not a
    /// DDI.
    pub function: Option<&'static str>,
    /// The number of the import that was called there.
    pub import: Option<u32>,
}

impl StackDepth {
    /// The deepest use so far. `None` if no call of the driver has ended.
    pub fn deepest() -> Option<Self> {
        *DEEPEST.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is measured of a call of driver code.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// Where the stack of the driver begins and ends; zero outside of driver code.
    stack: (usize, usize),
    /// The first address with the pattern, and the one behind the last; equal if there is none.
    filled: (usize, usize),
    /// The lowest address that the driver has used, and the import that was called there.
    lowest: (usize, Option<u32>),
    /// Whether the driver has called an import.
    called: bool,
}

impl Measurement {
    const NONE: Self = Self { stack: (0, 0), filled: (0, 0), lowest: (0, None), called: false };

    /// Looks for the lowest address below `end` that the driver has changed.
    fn look(&mut self, end: usize) {
        let changed = lowest_change(self.filled.0..end.min(self.filled.1));
        if let Some(changed) = changed.filter(|changed| *changed < self.lowest.0) {
            self.lowest = (changed, None);
        }
    }
}

thread_local! {
    /// The driver code that runs on this thread.
    static RUNNING: Cell<Measurement> = const { Cell::new(Measurement::NONE) };
}

/// Measures a call of driver code.
#[derive(Debug)]
pub(super) struct StackUse {
    block: ProcessorBlock,
    /// Whether it is the first driver code of the process.
    is_first: bool,
    /// What is measured of the code around this one, and its lowest call.
    outer: (Measurement, u64),
}

impl StackUse {
    /// Driver code begins. Its stack is from `start` down to `end`.
    pub(super) fn begin(block: ProcessorBlock, start: usize, end: usize) -> Self {
        let is_first = CALLS.fetch_add(1, Ordering::Relaxed) == 0;
        let lowest = (start, None);
        let running = Measurement { stack: (start, end), lowest, ..Measurement::NONE };
        let outer = (RUNNING.replace(running), block.replace_lowest_call(u64::MAX));
        Self { block, is_first, outer }
    }

    /// The driver code has ended.
    pub(super) fn end(&self) {
        let mut running = RUNNING.replace(self.outer.0);
        self.block.replace_lowest_call(self.outer.1);
        if !running.called {
            running.look(usize::MAX);
        }
        let (lowest, import) = running.lowest;
        let bytes = running.stack.0.saturating_sub(lowest).next_multiple_of(16);
        if bytes > DEEPEST_BYTES.load(Ordering::Relaxed) {
            let function = RunningCall::current().map(|call| call.name);
            let function = function.or_else(|| self.is_first.then_some("DriverEntry"));
            let mut deepest = DEEPEST.lock().unwrap_or_else(PoisonError::into_inner);
            if deepest.is_none_or(|deepest| bytes > deepest.bytes) {
                *deepest = Some(StackDepth { bytes, function, import });
                DEEPEST_BYTES.store(bytes, Ordering::Relaxed);
            }
        }
    }
}

/// The caller calls driver code now: the frames until here are ours.
#[inline(never)]
pub(crate) fn driver_is_called() {
    let mut running = RUNNING.get();
    if running.stack.0 == 0 || running.called {
        return;
    }
    let here = 0_u64;
    let (start, end) = ((&raw const here).addr(), running.stack.1);
    running.stack.0 = start;
    running.lowest = (start, None);
    let calls = CALLS.load(Ordering::Relaxed);
    // What is above the mark is of no interest.
    let above = DEEPEST_BYTES.load(Ordering::Relaxed).max(MEASURING_FRAMES);
    let to = start.saturating_sub(above) / 8 * 8;
    if to > end && (calls < FIRST_CALLS || calls.is_multiple_of(LATER_CALLS)) {
        own_code(); // Now: it needs more of the stack the first time.
        running.filled = (end, to);
        let at = ptr::with_exposed_provenance_mut::<u8>(end);
        // SAFETY: It is the free part of this thread's stack: the frames of this function and of
        // those that it calls are above it.
        unsafe { at.write_bytes(PATTERN, to - end) };
    }
    RUNNING.set(running);
}

/// The lowest address that has no pattern. `None` if there is none, or if one of our functions ran
/// there: it has left its return addresses.
fn lowest_change(filled: Range<usize>) -> Option<usize> {
    if filled.is_empty() {
        return None;
    }
    let words = ptr::with_exposed_provenance::<u64>(filled.start);
    // SAFETY: It is the free part of this thread's stack.
    let words = unsafe { std::slice::from_raw_parts(words, filled.len() / 8) };
    let pattern = u64::from_ne_bytes([PATTERN; 8]);
    let first = words.iter().position(|word| *word != pattern)?;
    (!words[first..].iter().any(|word| is_own_return_address(*word)))
        .then(|| filled.start + first * 8)
}

/// Whether a word of the stack is the return address of a call by our code. A function of ours to
/// which the driver has a pointer is not behind a call.
fn is_own_return_address(word: u64) -> bool {
    let code = own_code();
    if !(code.start + 7..code.end).contains(&word) {
        return false;
    }
    let before = ptr::with_exposed_provenance::<[u8; 7]>(usize::try_from(word).unwrap_or(0) - 7);
    // SAFETY: It is in our code, which is never unmapped.
    is_call(unsafe { before.read_unaligned() })
}

/// Whether bytes of code end with a call instruction.
fn is_call(code: [u8; 7]) -> bool {
    // FF /2 with a register, with an address, or with an address and an index.
    let operand =
        |at: usize| (code[at] == 0xff && code[at + 1] >> 3 & 7 == 2).then(|| code[at + 1]);
    let is_operand = |at: usize, fits: fn(u8) -> bool| operand(at).is_some_and(fits);
    code[2] == 0xe8
        || is_operand(5, |mode| {
            mode >> 6 == 3 || (mode >> 6 == 0 && mode & 7 != 4 && mode & 7 != 5)
        })
        || is_operand(4, |mode| (mode >> 6 == 1 && mode & 7 != 4) || mode == 0x14)
        || is_operand(3, |mode| mode == 0x54)
        || is_operand(1, |mode| mode == 0x15 || (mode >> 6 == 2 && mode & 7 != 4))
        || is_operand(0, |mode| mode == 0x94)
}

/// The addresses of our code.
fn own_code() -> &'static Range<u64> {
    static OWN_CODE: OnceLock<Range<u64>> = OnceLock::new();
    OWN_CODE.get_or_init(|| {
        let here = own_code as *const () as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let ranges = maps.lines().filter_map(mapping).map(|((start, end), ..)| start..end);
        ranges.into_iter().find(|range| range.contains(&here)).unwrap_or(0..0)
    })
}

called_by_thunk! {
    /// For an import: its stack pointer is in the processor block.
    call_is_lower, measure_call
}

called_by_thunk! {
    /// For the probe of a frame (`__chkstk`): the lowest address of the frame is in r11.
    frame_is_lower, measure_frame
}

/// Measures the stack at the import call that begins on this thread.
extern "win64" fn measure_call(_: u64) {
    if let Some(block) = ProcessorBlock::existing() {
        let (_, stack, import) = block.last_import();
        measure(block, stack, Some(import));
    }
}

/// Measures the stack with the frame of a function that begins on this thread.
extern "win64" fn measure_frame(lowest: u64) {
    if let Some(block) = ProcessorBlock::existing() {
        measure(block, lowest, None);
    }
}

/// The stack reaches down to an address, at a call of an import.
fn measure(block: ProcessorBlock, stack: u64, import: Option<u32>) {
    let (_, called_at, _) = block.last_import();
    block.replace_lowest_call(stack);
    let address = |value: u64| usize::try_from(value).unwrap_or(0);
    let mut running = RUNNING.get();
    if !running.called {
        running.called = true;
        running.look(address(called_at).saturating_sub(MEASURING_FRAMES));
    }
    if address(stack) < running.lowest.0 {
        running.lowest = (address(stack), import);
    }
    RUNNING.set(running);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes a word of the free part of the stack.
    fn change(address: usize, value: u64) {
        let at = ptr::with_exposed_provenance_mut::<u64>(address);
        // SAFETY: The word is in the free part of the stack of the test.
        unsafe { at.write(value) };
    }

    /// The return address of this call.
    #[unsafe(naked)]
    extern "sysv64" fn return_address() -> u64 {
        std::arch::naked_asm!("mov rax, [rsp]", "ret");
    }

    #[test]
    fn calls_are_told_from_other_code() {
        assert!(is_call([0x90, 0x90, 0xe8, 1, 2, 3, 4]), "call rip + offset");
        assert!(is_call([0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd2]), "call r10");
        assert!(is_call([0x90, 0xff, 0x15, 1, 2, 3, 4]), "call [rip + offset]");
        assert!(is_call([0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 8]), "call [rax + 8]");
        assert!(!is_call([0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3]), "ret");
        assert!(!is_call([0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]), "jmp rax");
    }

    #[test]
    fn the_lowest_change_counts_unless_our_code_made_it() {
        let block = ProcessorBlock::of_this_thread();
        let here = 0_u64;
        let begin = (&raw const here).addr();
        let end = (begin - (24 << 10)) / 4096 * 4096;
        let before = block.replace_lowest_call(7);
        driver_is_called();
        assert_eq!(RUNNING.get().filled, (0, 0), "no driver code runs");
        let measured = StackUse::begin(block, begin, end);
        driver_is_called();
        let mut running = RUNNING.get();
        let start = running.stack.0 / 8 * 8;
        assert!(start < begin && begin - start < MEASURING_FRAMES);
        running.stack.0 = start;
        change(start - 9000, 1);
        running.look(usize::MAX);
        assert_eq!(running.lowest, (start - 9000, None));
        running.look(start - 10_000);
        assert_eq!(running.lowest, (start - 9000, None), "nothing is changed below");
        change(start - 12_000, return_address());
        running.look(usize::MAX);
        assert_eq!(running.lowest, (start - 9000, None), "a return address of ours");
        change(start - 12_000, change as *const () as u64);
        running.look(usize::MAX);
        assert_eq!(running.lowest, (start - 12_000, None), "the address of a function");
        running.lowest = (start - 20_000, Some(3));
        running.called = true;
        RUNNING.set(running);
        measured.end();
        assert_eq!(block.replace_lowest_call(before), 7, "that of the code around it");
        let deepest = StackDepth::deepest().unwrap();
        assert_eq!((deepest.bytes, deepest.import), (20_000, Some(3)));
    }
}
