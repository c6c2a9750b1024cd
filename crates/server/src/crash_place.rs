//! Where driver code was when it ended its process: names of addresses, and the call stack.

use crate::driver_file::OpenedFile;
use flight::{Callers, Component};
use nt::image::{
    CODE, CallStack, Channel, CrashKind, CrashRecord, FRAMES, MappedObjects, Number, Place,
    Section, places_in_shared_object, walk_stack,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use verify::StackFrame;

/// The crates that call drivers.
const OWN_CRATES: [&str; 11] = [
    "flight",
    "kernel",
    "nt",
    "port",
    "runtime",
    "server",
    "stream",
    "thunk",
    "umd",
    "verify",
    "windtunnel",
];

/// The crates of the language.
const LANGUAGE_CRATES: [&str; 3] = ["alloc", "core", "std"];

/// The files that this process had loaded before its first flight.
static OWN_OBJECTS: OnceLock<MappedObjects> = OnceLock::new();

/// What is loaded now is not a driver. Has no effect the second time.
pub fn remember_own_objects() {
    OWN_OBJECTS.get_or_init(MappedObjects::of_this_process);
}

/// Names of the addresses of a process.
pub struct Places<'a> {
    file: Option<&'a OpenedFile>,
    /// The addresses of the file's image.
    image: Range<u64>,
    /// The addresses of its absent imports.
    traps: Range<u64>,
    umd: Option<PathBuf>,
    objects: MappedObjects,
    /// The file of the program.
    program: Option<PathBuf>,
    /// Whether drivers can be part of the program.
    has_drivers: bool,
    /// Whether only the file's image is code of a driver.
    only_image: bool,
}

impl<'a> Places<'a> {
    /// Those of a child process.
    pub fn of_child(file: Option<&'a OpenedFile>, umd: Option<&str>, channel: &Channel) -> Self {
        remember_own_objects();
        let range = |start: Number, size: Number| {
            let start = channel.number(start);
            start..start.saturating_add(channel.number(size))
        };
        let canonical = |umd: &str| std::fs::canonicalize(umd).ok();
        Self {
            file,
            image: range(Number::ImageBase, Number::ImageSize),
            traps: range(Number::Traps, Number::TrapBytes),
            umd: umd.and_then(canonical),
            objects: channel.mapped_objects(),
            program: program(),
            has_drivers: file.is_none() && umd.is_none(),
            only_image: false,
        }
    }

    /// Those of this process: with the addresses of an image, and of its absent imports.
    pub fn here(
        file: Option<&'a OpenedFile>,
        (image, traps): (Range<u64>, Range<u64>),
        umd: Option<PathBuf>,
    ) -> Self {
        let objects = MappedObjects::of_this_process();
        let program = program();
        let (has_drivers, only_image) = (true, false);
        Self { file, image, traps, umd, objects, program, has_drivers, only_image }
    }

    /// Those of a client's process: only the file's image is code of a driver.
    pub fn of_client(file: &'a OpenedFile, ranges: (Range<u64>, Range<u64>)) -> Self {
        let here = Self::here(Some(file), ranges, None);
        Self { has_drivers: false, only_image: true, ..here }
    }

    /// The absent import that the driver used.
    pub fn absent_import(&self, record: &CrashRecord) -> Option<String> {
        let used = if record.error & 0x10 != 0 { record.instruction } else { record.address };
        if record.kind() != CrashKind::Access || !self.traps.contains(&used) {
            return None;
        }
        let index = usize::try_from(used - self.traps.start).ok()? / nt::image::TRAP;
        self.file?.image().import_names().get(index).map(|name| (*name).to_owned())
    }

    /// The driver's frames, the innermost first.
    pub fn stack(&self, record: &CrashRecord) -> Vec<StackFrame> {
        let count = usize::try_from(record.frame_count).unwrap_or(0).min(FRAMES);
        let addresses = match (count, record.kind()) {
            (_, CrashKind::None) => return Vec::new(),
            (0, _) => walk_stack(record, &self.objects),
            _ => record.frames[..count].to_vec(),
        };
        // Our code called the driver: what is behind it is another driver's, or none.
        let called = addresses.into_iter().skip_while(|address| !self.is_in_driver(*address));
        let called = called.take_while(|address| self.has_drivers || !self.is_in_program(*address));
        let addresses: Vec<u64> = called.filter(|address| self.is_in_driver(*address)).collect();
        let program = self.program.as_deref().map(name_of).unwrap_or_default();
        let owner = |frame: &StackFrame| {
            if frame.module == program { code_owner(frame) } else { CodeOwner::Driver }
        };
        let frames = self.frames(&addresses).into_iter();
        let frames = frames.skip_while(|frame| owner(frame) != CodeOwner::Driver);
        let frames = frames.take_while(|frame| owner(frame) != CodeOwner::Windtunnel);
        frames.filter(|frame| owner(frame) == CodeOwner::Driver).take(FRAMES).collect()
    }

    /// Whether the record is one of code of the user-mode driver.
    pub fn is_in_umd(&self, record: &CrashRecord) -> bool {
        let in_umd = |address: u64| {
            let object = self.objects.find(address);
            object.is_some_and(|object| Some(&object.path) == self.umd.as_ref())
        };
        let addresses = walk_stack(record, &self.objects);
        addresses.into_iter().find(|address| self.is_in_driver(*address)).is_some_and(in_umd)
    }

    /// Whether an address is in code of a driver.
    fn is_in_driver(&self, address: u64) -> bool {
        if self.image.contains(&address) || self.only_image {
            return self.image.contains(&address);
        }
        self.objects.find(address).is_some_and(|object| {
            let own = OWN_OBJECTS.get().is_some_and(|own| own.has(&object.path));
            !own || (self.has_drivers && self.is_in_program(address))
        })
    }

    fn is_in_program(&self, address: u64) -> bool {
        let object = self.objects.find(address);
        object.is_some_and(|object| Some(&object.path) == self.program.as_ref())
    }

    /// The frames of addresses in code of a driver.
    fn frames(&self, addresses: &[u64]) -> Vec<StackFrame> {
        let mut frames = Vec::new();
        // Symbols of a file are read once for consecutive frames.
        let same = |one: &u64, next: &u64| self.module(*one) == self.module(*next);
        for group in addresses.chunk_by(same) {
            let Some((path, base)) = self.module(group[0]) else { continue };
            let offsets: Vec<u64> = group.iter().map(|address| address - base).collect();
            let rvas: Vec<u32> =
                offsets.iter().map(|offset| u32::try_from(*offset).unwrap_or(u32::MAX)).collect();
            let places = match self.file.filter(|_| self.image.contains(&group[0])) {
                Some(file) => file.symbols().ok().map(|symbols| symbols.places(&rvas)),
                None => Some(places_in_shared_object(&path, &rvas)),
            };
            let places = places.unwrap_or_else(|| vec![None; rvas.len()]);
            for (offset, place) in offsets.into_iter().zip(places) {
                frames.push(frame(name_of(&path), offset, place));
            }
        }
        frames
    }

    /// The file of an address in code of a driver, and the address of its first byte.
    fn module(&self, address: u64) -> Option<(PathBuf, u64)> {
        if self.image.contains(&address) {
            return Some((self.file?.path().to_owned(), self.image.start));
        }
        self.objects.find(address).map(|object| (object.path.clone(), object.base))
    }

    /// An address in words: where the system has put a file or memory differs from run to run, so
    /// that only an address of neither is shown as a number.
    pub(crate) fn describe(&self, address: u64, record: &CrashRecord) -> String {
        if let Some((path, base)) = self.module(address) {
            return format!("{}+{:#x}", name_of(&path), address - base);
        }
        let Some(range) = self.objects.find_other(address) else {
            return format!("address {address:#x}");
        };
        let is_stack = range.contains(&record.registers[CrashRecord::RSP]);
        if is_stack { "memory of the stack" } else { "memory that is not of a file" }.to_owned()
    }

    /// As [`Self::describe`], without a noun in front of a number.
    fn number_or_name(&self, address: u64, record: &CrashRecord) -> String {
        let text = self.describe(address, record);
        text.strip_prefix("address ").map_or(text.clone(), str::to_owned)
    }

    /// The name of the place that a record is about: in the driver, or in code that it called.
    pub fn name(&self, record: &CrashRecord, stack: &[StackFrame]) -> String {
        // A bug check has the return address of the call: the call is in front of it.
        let by_import = [CrashKind::BugCheck, CrashKind::Watchdog, CrashKind::Deadlock];
        let back = by_import.contains(&record.kind()).into();
        let address = record.instruction.saturating_sub(back);
        if self.is_in_driver(address)
            && let Some(frame) = self.frames(&[address]).first()
            && (!self.has_drivers || stack.first() == Some(frame))
        {
            // Of a call of data, the call has a line.
            let fetch = record.kind() == CrashKind::Access && record.error & 0x10 != 0;
            let caller = stack.get(1).filter(|_| fetch && stack.first() == Some(frame));
            return caller
                .map_or(frame.to_string(), |caller| format!("{frame}, called by {caller}"));
        }
        let import = self.last_import(record);
        // A shared object also calls the C library, after an import that has returned.
        let is_innermost = |caller: &StackFrame| {
            self.frames(&[record.caller.saturating_sub(1)]).first() == Some(caller)
        };
        if let Some(import) = &import
            && record.is_in_import()
            && stack.first().is_none_or(is_innermost)
        {
            return import.clone();
        }
        let object = self.objects.find(address).map(|object| name_of(&object.path));
        match (stack.first(), record.kind(), object) {
            (
                Some(caller),
                CrashKind::Abort | CrashKind::Exit | CrashKind::Sanitizer | CrashKind::ThreadEnd,
                _,
            ) => caller.to_string(),
            (Some(caller), _, Some(object)) => format!("{object}, called by {caller}"),
            (Some(caller), _, None) => {
                format!("code at {}, called by {caller}", self.number_or_name(address, record))
            }
            // Such as the timer of a driver whose memory is gone.
            (None, _, Some(object)) if import.is_some() => {
                format!("code of {object}, after {}", import.unwrap_or_default())
            }
            (None, _, Some(object)) => format!("code of {object}"),
            (None, _, None) => format!("code at {}", self.number_or_name(address, record)),
        }
    }
}

/// The frames of offsets in the code of a driver's file, those of inlined functions included.
pub fn frames_of_file(file: &OpenedFile, offsets: &[u64]) -> Vec<StackFrame> {
    frames_at(file, offsets).into_iter().flatten().collect()
}

/// For each offset in the code of a driver's file, its frame and those that it is inlined in.
fn frames_at(file: &OpenedFile, offsets: &[u64]) -> Vec<Vec<StackFrame>> {
    let rva = |offset: &u64| u32::try_from(*offset).unwrap_or(u32::MAX);
    let rvas: Vec<u32> = offsets.iter().map(rva).collect();
    let places =
        file.symbols().map_or_else(|_| vec![None; rvas.len()], |known| known.places(&rvas));
    let frames = |(offset, place): (&u64, Option<Place>)| {
        let frame = |place| frame(name_of(file.path()), *offset, place);
        let Some(place) = place else { return vec![frame(None)] };
        place.with_outer().map(|place| frame(Some(place.clone()))).collect()
    };
    offsets.iter().zip(places).map(frames).collect()
}

/// Frames in a sentence, the innermost first.
fn as_callers(frames: &[StackFrame]) -> String {
    let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
    frames.join(Callers::BETWEEN)
}

/// The text with each offset in the code of a driver's file ([`CODE`]) as function and line.
pub fn name_code(file: &OpenedFile, text: &str) -> String {
    let mut parts = text.split(CODE);
    let mut named = parts.next().unwrap_or_default().to_owned();
    let offset = |part: &str| {
        let end = part.find(|next: char| !next.is_ascii_hexdigit()).unwrap_or(part.len());
        (u64::from_str_radix(&part[..end], 16).unwrap_or(0), end)
    };
    let parts: Vec<&str> = parts.collect();
    if parts.is_empty() {
        return named; // Symbols are not read for it.
    }
    let offsets: Vec<u64> = parts.iter().map(|part| offset(part).0).collect();
    for (part, frames) in parts.into_iter().zip(frames_at(file, &offsets)) {
        named += &as_callers(&frames);
        named += &part[offset(part).1..];
    }
    named
}

impl<'a> Places<'a> {
    /// The section of the image that does not allow the access: it is read-only, or discarded.
    pub fn section(&self, record: &CrashRecord) -> Option<&'a Section> {
        let file = self.file.filter(|_| record.kind() == CrashKind::Access)?;
        let (is_fetch, is_write) = (record.error & 0x10 != 0, record.error & 2 != 0);
        let address = if is_fetch { record.instruction } else { record.address };
        let offset = address.checked_sub(self.image.start)?;
        let is_there = |section: &&Section| {
            let start = u64::from(section.rva);
            (start..start + u64::from(section.size)).contains(&offset)
        };
        let section = file.image().sections().iter().find(is_there)?;
        let is_read_only = is_write && (!section.writable || section.executable);
        (section.discardable || is_read_only).then_some(section)
    }

    /// The place of a call by its return address. `None` if it is outside of the driver.
    pub fn caller(&self, returns_to: u64) -> Option<String> {
        let address = returns_to.checked_sub(1).filter(|address| self.is_in_driver(*address))?;
        self.frames(&[address]).first().map(ToString::to_string)
    }

    /// The two innermost functions of a call stack. `None` if it is not known.
    pub(crate) fn callers(&self, stack: CallStack) -> Option<String> {
        let offsets: Vec<u64> = stack.offsets().take(2).collect();
        let frames = frames_of_file(self.file.filter(|_| !offsets.is_empty())?, &offsets);
        Some(as_callers(&frames[..2.min(frames.len())]))
    }

    /// The last import that the thread called, and the place of the call.
    fn last_import(&self, record: &CrashRecord) -> Option<String> {
        let is_user_mode = matches!(record.running(), Some((Component::Umd, _)));
        let file = self.file.filter(|_| self.image.contains(&record.caller) && !is_user_mode)?;
        let names = file.image().import_names();
        let import = names.get(record.import as usize).copied().unwrap_or("an import");
        let caller = self.frames(&[record.caller.saturating_sub(1)]).pop()?;
        Some(format!("{import}, called by {caller}"))
    }
}

fn frame(module: String, offset: u64, place: Option<Place>) -> StackFrame {
    let (function, line) = place.map_or((None, None), |place| (Some(place.function), place.line));
    StackFrame { module, offset, function, line }
}

/// The name of a file.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The file of this program.
fn program() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/exe").ok()
}

/// Whose code a frame of this program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeOwner {
    Driver,
    Windtunnel,
    Language,
}

/// Whose code a frame of this program is, by the crate of its function.
fn code_owner(frame: &StackFrame) -> CodeOwner {
    let function = frame.function.as_deref().unwrap_or_default();
    let name = function.trim_start_matches(['<', '&', '_', '*']);
    match name.split_once("::").map(|(first, _)| first) {
        Some(first) if OWN_CRATES.contains(&first) => CodeOwner::Windtunnel,
        Some(first) if !LANGUAGE_CRATES.contains(&first) => CodeOwner::Driver,
        _ => CodeOwner::Language,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_are_told_apart_by_their_crate() {
        let owner = |function: &str| {
            let place = Place::new(function.to_owned(), None);
            code_owner(&frame("test".to_owned(), 0, Some(place)))
        };
        assert_eq!(owner("my_driver::gpu::start"), CodeOwner::Driver);
        let method = "<my_driver::Gpu as kernel::ddi::miniport::Miniport>::start";
        assert_eq!(owner(method), CodeOwner::Driver);
        assert_eq!(owner("kernel::lifetime::create::create"), CodeOwner::Windtunnel);
        let once = "<alloc::boxed::Box<F> as core::ops::function::FnOnce<A>>::call_once";
        assert_eq!((owner(once), owner("main")), (CodeOwner::Language, CodeOwner::Language));
    }
}
