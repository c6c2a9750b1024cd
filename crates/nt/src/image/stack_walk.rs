//! The call stack at a fault, from the recorded registers and stack, by the unwind tables
//! (`.eh_frame`, else `.debug_frame`) of the objects in the process.
//!
//! It needs the files of the objects and nothing of the process, so the parent of a flight can walk
//! the stack of a child that has ended. Frames of an image are found by [`super::exception`] while
//! the process still exists: an image is not in a file as it is in memory.
//!
//! The files are foreign input. Files that are too large are not read, a table that would be searched
//! from its start for too long is not searched, and a panic of the reader ends the walk.

use super::crash::CrashRecord;
use addr2line::gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection as _, UnwindTableRow,
};
use object::{Object as _, ObjectSection as _};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// How many frames are walked at most, ours included.
const MAX_FRAMES: usize = 256;

/// The largest file whose tables are read.
const MAX_FILE: u64 = 1 << 30;

/// The longest table that is searched from its start, because it has no index.
const MAX_SEARCHED: usize = 16 << 20;

/// The number of the return address in unwind tables.
const RETURN_ADDRESS: usize = 16;

/// The number of the stack pointer in unwind tables.
const STACK_POINTER: usize = 7;

/// The registers of a [`CrashRecord`] in the order of unwind tables: rax, rdx, rcx, rbx, rsi, rdi,
/// rbp, rsp, r8 to r15.
const TABLE_ORDER: [usize; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// A file whose code is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedObject {
    /// The file.
    pub path: PathBuf,
    /// The address of its first byte.
    pub base: u64,
    /// The end of its last mapping.
    pub end: u64,
}

/// The files whose code is mapped into a process, and the ranges of its memory that are no file.
#[derive(Clone, Debug, Default)]
pub struct MappedObjects(Vec<MappedObject>, Vec<Range<u64>>);

impl MappedObjects {
    /// Reads the list of mappings of a process (`/proc/PID/maps`). Lines that are not of a file, or
    /// not complete, are skipped.
    pub fn parse(maps: &str) -> Self {
        let mut objects: Vec<MappedObject> = Vec::new();
        let mut others: Vec<Range<u64>> = Vec::new();
        for line in maps.lines() {
            let Some((range, offset, path)) = mapping(line) else {
                others.extend(range(line));
                continue;
            };
            // A small object has its first page in several mappings.
            match objects.last_mut().filter(|last| last.path == Path::new(path)) {
                Some(last) => last.end = range.1,
                None if offset == 0 => {
                    objects.push(MappedObject { path: path.into(), base: range.0, end: range.1 });
                }
                None => (),
            }
        }
        Self(objects, others)
    }

    /// Those of this process.
    pub fn of_this_process() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    /// The object that contains an address.
    pub fn find(&self, address: u64) -> Option<&MappedObject> {
        self.0.iter().find(|object| (object.base..object.end).contains(&address))
    }

    /// The range of memory that is no file and contains an address.
    pub fn find_other(&self, address: u64) -> Option<&Range<u64>> {
        self.1.iter().find(|range| range.contains(&address))
    }

    /// Whether a file is mapped.
    pub fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|object| object.path == path)
    }
}

/// The range, the offset in the file and the path of a line of the list of mappings.
pub(super) fn mapping(line: &str) -> Option<((u64, u64), u64, &str)> {
    let Range { start, end } = range(line)?;
    let (_, rest) = line.split_once(' ')?;
    let offset = u64::from_str_radix(rest.split_whitespace().nth(1)?, 16).ok()?;
    let path = &rest[rest.find('/')?..];
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some(((start, end), offset, path))
}

/// The range of a line of the list of mappings.
fn range(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// The instructions of the frames at a fault, the innermost first. The first one is the faulting
/// instruction; the others are in the call instruction.
pub fn walk_stack(record: &CrashRecord, objects: &MappedObjects) -> Vec<u64> {
    UnwindFiles::default().walk(record, objects, |_| true)
}

/// Files with their unwind tables, each read when it is needed first.
#[derive(Default)]
pub(super) struct UnwindFiles(Vec<(PathBuf, Option<UnwindTables>)>);

impl UnwindFiles {
    /// As [`walk_stack`], up to the first frame from which the walk does not go on: no file is read for
    /// it.
    pub(super) fn walk(
        &mut self,
        record: &CrashRecord,
        objects: &MappedObjects,
        goes_on: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let mut registers = [0; RETURN_ADDRESS + 1];
        for (number, from) in TABLE_ORDER.into_iter().enumerate() {
            registers[number] = record.registers[from];
        }
        registers[RETURN_ADDRESS] = record.rip;
        let stack = RecordedStack::new(record);
        let files = &mut self.0;
        let mut frames = Vec::new();
        while frames.len() < MAX_FRAMES && registers[RETURN_ADDRESS] != 0 || frames.is_empty() {
            // The call is in front of its return address.
            let address = registers[RETURN_ADDRESS].saturating_sub(u64::from(!frames.is_empty()));
            frames.push(address);
            if !goes_on(address) {
                break;
            }
            let unwound = match objects.find(address) {
                Some(object) => {
                    let known = files.iter().position(|(path, _)| *path == object.path);
                    let index = known.unwrap_or_else(|| {
                        let tables = guarded(|| UnwindTables::read(&object.path));
                        files.push((object.path.clone(), tables));
                        files.len() - 1
                    });
                    let tables = files[index].1.as_ref();
                    let unwound = tables.and_then(|tables| {
                        let offset = address - object.base;
                        guarded(|| tables.unwind(offset, &registers, &stack))
                    });
                    // A call of data: nothing has run there.
                    let is_data = frames.len() == 1 && record.error & 0x10 != 0;
                    unwound.or_else(|| leaf(&registers, &stack).filter(|_| is_data))
                }
                // A call through a bad pointer: nothing has run there.
                None if frames.len() == 1 => leaf(&registers, &stack),
                None => None,
            };
            let Some(caller) = unwound else { break };
            if caller[STACK_POINTER] <= registers[STACK_POINTER] {
                break; // The stack is damaged.
            }
            registers = caller;
        }
        frames
    }
}

type Registers = [u64; RETURN_ADDRESS + 1];

/// Runs a reader of a file. A panic of it is `None`.
fn guarded<T>(read: impl FnOnce() -> Option<T>) -> Option<T> {
    // What the reader has made of the file is dropped.
    catch_unwind(AssertUnwindSafe(read)).ok().flatten()
}

/// The registers of the caller of a function that has not pushed anything.
fn leaf(registers: &Registers, stack: &RecordedStack<'_>) -> Option<Registers> {
    let mut caller = *registers;
    caller[RETURN_ADDRESS] = stack.read(registers[STACK_POINTER])?;
    caller[STACK_POINTER] = registers[STACK_POINTER].wrapping_add(8);
    Some(caller)
}

/// The recorded part of the stack.
struct RecordedStack<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl<'a> RecordedStack<'a> {
    fn new(record: &'a CrashRecord) -> Self {
        let length = usize::try_from(record.stack_bytes).unwrap_or(0).min(record.stack.len());
        Self { start: record.stack_start, bytes: &record.stack[..length] }
    }

    fn read(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(offset..)?.get(..8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }
}

/// The unwind tables of a file.
enum UnwindTables {
    /// `.eh_frame` and its index, each with its address.
    Loaded { frames: (u64, Vec<u8>), index: Option<(u64, Vec<u8>)> },
    /// `.debug_frame`, of a file whose tables are only for debuggers.
    Debug(Vec<u8>),
}

/// A row of unwind tables.
type Row = UnwindTableRow<usize>;

impl UnwindTables {
    fn read(path: &Path) -> Option<Self> {
        let length = std::fs::metadata(path).ok().filter(Metadata::is_file)?.len();
        if length > MAX_FILE {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(length).read_to_end(&mut bytes).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let section = |name| {
            let section = file.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let can_be_searched = |frames: &Vec<u8>| frames.len() <= MAX_SEARCHED;
        if let Some(frames) = section(".eh_frame") {
            let index = section(".eh_frame_hdr");
            let is_usable = index.is_some() || can_be_searched(&frames.1);
            return is_usable.then_some(Self::Loaded { frames, index });
        }
        let frames = section(".debug_frame").map(|(_, bytes)| bytes);
        frames.filter(can_be_searched).map(Self::Debug)
    }

    /// The row of an address.
    fn row(&self, address: u64) -> Option<Row> {
        let mut context = UnwindContext::new();
        let row = match self {
            Self::Loaded { frames: (at, frames), index } => {
                let frames = EhFrame::new(frames, LittleEndian);
                let mut bases = BaseAddresses::default().set_eh_frame(*at);
                let cie = EhFrame::cie_from_offset;
                match index {
                    Some((at, index)) => {
                        bases = bases.set_eh_frame_hdr(*at);
                        let index = EhFrameHdr::new(index, LittleEndian).parse(&bases, 8).ok()?;
                        let table = index.table()?;
                        table.unwind_info_for_address(&frames, &bases, &mut context, address, cie)
                    }
                    None => frames.unwind_info_for_address(&bases, &mut context, address, cie),
                }
            }
            Self::Debug(frames) => {
                let mut frames = DebugFrame::new(frames, LittleEndian);
                frames.set_address_size(8);
                let (bases, cie) = (BaseAddresses::default(), DebugFrame::cie_from_offset);
                frames.unwind_info_for_address(&bases, &mut context, address, cie)
            }
        };
        row.ok().cloned()
    }

    /// The registers of the caller. `None` if the tables do not say, or the stack is not recorded.
    fn unwind(
        &self,
        address: u64,
        registers: &Registers,
        stack: &RecordedStack<'_>,
    ) -> Option<Registers> {
        let row = self.row(address)?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let base = registers.get(usize::from(register.0))?.wrapping_add_signed(*offset);
        let mut caller = *registers;
        caller[STACK_POINTER] = base;
        for (number, value) in caller.iter_mut().enumerate() {
            let number = u16::try_from(number).ok()?;
            match row.register(Register(number)) {
                Some(RegisterRule::Offset(at)) => {
                    *value = stack.read(base.wrapping_add_signed(at))?;
                }
                Some(RegisterRule::ValOffset(at)) => *value = base.wrapping_add_signed(at),
                Some(RegisterRule::Register(from)) => {
                    *value = *registers.get(usize::from(from.0))?;
                }
                // The outermost frame has no caller.
                Some(RegisterRule::Undefined) if usize::from(number) == RETURN_ADDRESS => {
                    return None;
                }
                _ => (),
            }
        }
        Some(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_the_list_of_mappings() {
        let maps = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:01 12 /usr/bin/tool
55d0c0001000-55d0c0009000 r-xp 00001000 fe:01 12 /usr/bin/tool
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0  [heap]
7f0000000000-7f0000002000 r--p 00000000 fe:01 14 /tmp/my driver.so (deleted)
7f0000002000-7f0000003000 r-xp 00000000 fe:01 14 /tmp/my driver.so (deleted)
7f00000";
        let objects = MappedObjects::parse(maps);
        let path = |address| objects.find(address).map(|object| object.path.to_str().unwrap());
        assert_eq!(path(0x55d0_c000_8fff), Some("/usr/bin/tool"));
        assert_eq!(path(0x7f00_0000_2fff), Some("/tmp/my driver.so"));
        assert_eq!(
            objects.find(0x7f00_0000_2fff).map(|object| object.base),
            Some(0x7f00_0000_0000)
        );
        assert_eq!(path(0x55d0_c100_0000), None);
        assert!(objects.has(Path::new("/usr/bin/tool")) && !objects.has(Path::new("/usr/bin")));
    }
}
