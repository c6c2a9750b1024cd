//! Where the driver of a file was when it called an import that runs now.
//!
//! An address of the driver's code is shown as `code+0x1234`, the offset in its file as it is loaded.
//! Addresses differ from run to run, offsets do not. The report replaces it by function and line.

use super::crash::CrashRecord;
use super::exception;
use super::processor_block::ProcessorBlock;
use super::signals::read_stack;
use super::stack_walk::{MappedObjects, UnwindFiles};
use flight::Callers;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The text in front of an offset in the driver's code.
pub const CODE: &str = "code+0x";

/// The addresses of the driver that was loaded last.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// The driver of this process is there.
pub(super) fn set_module(range: &Range<usize>) {
    START.store(range.start, Ordering::Relaxed);
    END.store(range.end, Ordering::Relaxed);
}

/// Whether an address is in the driver.
pub(super) fn is_in_module(address: u64) -> bool {
    offset(address).is_some()
}

/// The offset of an address in the driver's code.
fn offset(address: u64) -> Option<u64> {
    let range = START.load(Ordering::Relaxed) as u64..END.load(Ordering::Relaxed) as u64;
    range.contains(&address).then(|| address - range.start)
}

/// The place of a call by its return address, as ` in code+0x1234`; empty if it is not known.
pub(crate) fn place(returns_to: u64) -> String {
    let offset = returns_to.checked_sub(1).and_then(offset);
    offset.map_or(String::new(), |offset| format!(" in {CODE}{offset:x}"))
}

/// The frames of a thread at the call of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadFrames {
    /// The number of the virtual thread.
    pub thread: u32,
    /// The driver's frames as offsets in its code, the innermost first. Empty for a driver that is
    /// not one of a file.
    pub frames: Vec<u64>,
}

thread_local! {
    /// The other thread that a finding of this thread is about.
    static OTHER_THREAD: RefCell<Option<ThreadFrames>> = const { RefCell::new(None) };
}

/// What this thread reports inside of `body` is about another thread, too.
pub(crate) fn with_other_thread(other: Option<ThreadFrames>, body: impl FnOnce()) {
    OTHER_THREAD.set(other);
    body();
    OTHER_THREAD.set(None);
}

/// An import that a driver of a file has called and that has not returned.
#[derive(Debug)]
pub struct ImportCall {
    /// The number of the import.
    pub import: u32,
    /// The driver's frames as offsets in its code, the innermost first.
    pub frames: Vec<u64>,
    /// The other thread that the finding of this call is about.
    pub other_thread: Option<ThreadFrames>,
}

/// The files of this process, as they were mapped when the driver called first.
static FILES: Mutex<Option<(MappedObjects, UnwindFiles)>> = Mutex::new(None);

/// The frames of a shared object.
fn walk_files(record: &CrashRecord) -> Vec<u64> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = files.take().filter(|(objects, _)| objects.find(record.rip).is_some());
    let (objects, tables) = files.insert(
        known.unwrap_or_else(|| (MappedObjects::of_this_process(), UnwindFiles::default())),
    );
    // The files of this program are large.
    tables.walk(record, objects, is_in_module)
}

/// How many functions of a [`CallStack`] are recorded.
const CALLERS: usize = 4;

/// The driver's functions that led to the call of an import: offsets of the calls in its code, the
/// innermost first. Those behind the last one are zero; all are zero if they are not known, as for a
/// driver that is not one of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct CallStack(pub(crate) [u32; CALLERS]);

impl CallStack {
    /// Those that are not known.
    pub(crate) const UNKNOWN: Self = Self([0; CALLERS]);

    /// Those of the import that runs on this thread.
    pub(crate) fn of_import() -> Self {
        let mut stack = Self::UNKNOWN;
        if END.load(Ordering::Relaxed) == 0 {
            return stack; // The drivers of this process are not from files.
        }
        let frames = ImportCall::frames().map_or(Vec::new(), |(_, frames)| frames);
        for (caller, frame) in stack.0.iter_mut().zip(frames) {
            *caller = u32::try_from(frame).unwrap_or(0);
        }
        stack
    }

    /// The offsets.
    pub fn offsets(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().take_while(|offset| *offset != 0).map(u64::from)
    }

    /// As text, with an offset for each function.
    pub(crate) fn callers(&self) -> Callers {
        let offsets: Vec<String> =
            self.offsets().map(|offset| format!("{CODE}{offset:x}")).collect();
        if offsets.is_empty() {
            return Callers::UNKNOWN;
        }
        Callers(offsets.join(Callers::BETWEEN).into())
    }
}

impl ImportCall {
    /// The call that runs on this thread. The caller knows that it is one: the record of a call
    /// stays when it has returned.
    pub fn current() -> Option<Self> {
        let (import, frames) = Self::frames()?;
        let other_thread = OTHER_THREAD.with_borrow(Clone::clone);
        Some(Self { import, frames, other_thread })
    }

    /// The number of the import that runs on this thread, and the driver's frames.
    fn frames() -> Option<(u32, Vec<u64>)> {
        let block = ProcessorBlock::existing().filter(|block| block.entered() != 0)?;
        let (caller, stack, import) = block.last_import();
        offset(caller)?;
        // It is large, and the thread may be near the end of its stack.
        let mut record = Box::new(CrashRecord::EMPTY);
        record.describe_thread();
        record.rip = caller.saturating_sub(1);
        record.registers[CrashRecord::RSP] = stack.wrapping_add(8);
        record.registers[CrashRecord::RBP] = block.last_import_frame();
        record.stack_start = stack;
        record.stack_bytes = read_stack(stack, &mut record.stack) as u64;
        exception::record_frames(&mut record);
        let count = usize::try_from(record.frame_count).unwrap_or(0).min(record.frames.len());
        let addresses = match count {
            0 => walk_files(&record),
            count => record.frames[..count].to_vec(),
        };
        Some((import, addresses.into_iter().map_while(offset).collect()))
    }
}
