//! A C driver as a shared object of this machine (`DRIVER.so`), for debuggers and sanitizers.
//!
//! The system's loader loads it. What it does not define is its imports: they are in a library that
//! is made for it in memory, with an absolute address for each name, so that an absent one is a trap
//! and not a failure to load. Names of the C library keep their meaning.
#![expect(unsafe_code, reason = "loads code that the user requested")]

use super::load::{Binding, TRAP};
use super::mapping::{Mapping, Protection};
use super::parse::ImageError;
use super::sanitizer;
use super::thread_end::{replace_addresses, replaced_addresses};
use super::thunk::Thunks;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _};
use object::{Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::ffi::{CStr, CString, c_int};
use std::io;
use std::ops::Range;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

/// The largest shared object that is loaded. Offsets in its code have 32 bits.
const MAX_SIZE: u64 = u32::MAX as u64;

/// A shared object that can be loaded.
#[derive(Debug)]
pub struct SharedObject {
    /// The names that it imports.
    pub imports: Vec<String>,
    /// The address of `DriverEntry`, relative to its first one.
    pub entry: u32,
    /// The size of its memory.
    size: usize,
    /// Where it keeps the addresses of functions that are replaced, and the replacements.
    replaced: Vec<(u64, usize)>,
}

fn error<T>(text: impl Into<String>) -> Result<T, ImageError> {
    Err(ImageError(text.into()))
}

impl SharedObject {
    /// Whether a file is an ELF file.
    pub fn is_elf(file: &[u8]) -> bool {
        file.starts_with(b"\x7fELF")
    }

    /// Reads a shared object from the bytes of its file.
    pub fn parse(file: &[u8]) -> Result<Self, ImageError> {
        let bad = |why: object::Error| ImageError(format!("is not a complete ELF file: {why}"));
        let header = object::elf::FileHeader64::<Endianness>::parse(file).map_err(bad)?;
        let endian = header.endian().map_err(bad)?;
        if header.e_machine(endian) != object::elf::EM_X86_64 {
            return error("is an ELF file for another processor, expected one for x86-64");
        }
        if header.e_type(endian) != object::elf::ET_DYN {
            return error("is not a shared object: link the driver with -shared");
        }
        let elf: ElfFile64<'_, Endianness> = ElfFile64::parse(file).map_err(bad)?;
        let entry = elf.dynamic_symbols().find(|symbol| {
            symbol.name() == Ok("DriverEntry") && !symbol.is_undefined() && symbol.is_global()
        });
        let Some(entry) = entry else {
            return error(
                "has no DriverEntry: export it with default visibility; a user-mode driver is flown with \
             --umd",
            );
        };
        // A weak name that nothing defines is NULL; compilers' start files have such names.
        let undefined =
            elf.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
        let names =
            undefined.filter_map(|symbol| symbol.name().ok()).filter(|name| !name.is_empty());
        let imports: Vec<String> =
            names.filter(|name| !is_in_c_library(name)).map(str::to_owned).collect();
        let missing = sanitizer::missing_runtime(&imports, &libraries(&elf));
        if let Some(missing) = missing {
            return Err(missing);
        }
        if imports.iter().any(|name| name.contains(char::is_control)) {
            return error("imports a name that has control characters");
        }
        let (mut size, entry) = (0, u32::try_from(entry.address()).ok());
        for segment in elf.segments() {
            let (at, bytes) = (segment.address(), segment.size());
            let end = at.checked_add(bytes).filter(|end| *end <= MAX_SIZE);
            let end = end.and_then(|end| usize::try_from(end).ok()).ok_or_else(|| {
                ImageError(format!(
                    "has a segment at {at:#x} with {bytes:#x} bytes, expected up to {MAX_SIZE:#x}"
                ))
            })?;
            size = size.max(end);
        }
        let Some(entry) = entry.filter(|entry| (*entry as usize) < size) else {
            return error("has its DriverEntry outside of its segments");
        };
        let mut replaced = replaced_addresses(&elf);
        replaced.retain(|(offset, _)| offset.checked_add(8).is_some_and(|end| end <= size as u64));
        Ok(Self { imports, entry, size, replaced })
    }
}

/// The libraries that an object is linked to.
fn libraries(elf: &ElfFile64<'_, Endianness>) -> Vec<String> {
    let (endian, data) = (elf.endian(), elf.data());
    let sections = elf.elf_section_table();
    let Ok(Some((entries, link))) = sections.dynamic(endian, data) else { return Vec::new() };
    let Ok(strings) = sections.strings(endian, data, link) else { return Vec::new() };
    let needed = entries.iter().filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED);
    let names = needed.filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Whether the process has a definition of a name already: the C library's.
fn is_in_c_library(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: The name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    !found.is_null()
}

/// A loaded shared object. It is never unloaded.
#[derive(Debug)]
pub struct LoadedObject {
    entry: usize,
    range: Range<usize>,
    /// Held for its code.
    _thunks: Thunks,
    traps: Mapping,
}

impl LoadedObject {
    /// Loads a shared object. `resolve` finds the target of each import.
    pub fn load(
        path: &Path,
        object: &SharedObject,
        resolve: impl Fn(&str) -> Binding,
    ) -> Result<Self, ImageError> {
        super::host_image();
        let bindings: Vec<Binding> = object.imports.iter().map(|name| resolve(name)).collect();
        let thunks = Thunks::new(&bindings)?;
        let traps = Mapping::new((bindings.len() * TRAP).max(1))?;
        traps.protect(0..traps.range().len(), Protection::None)?;
        let address = |(number, binding): (usize, &Binding)| match binding {
            Binding::Function { .. } => thunks.address(number),
            Binding::Variable(address) => *address,
            Binding::Absent => traps.start() + number * TRAP,
        };
        let addresses = bindings.iter().enumerate().map(address);
        let symbols: Vec<(&str, usize)> =
            object.imports.iter().map(String::as_str).zip(addresses).collect();
        open_import_library(&symbols)?;
        let path = std::path::absolute(path).map_err(|why| ImageError(why.to_string()))?;
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| ImageError("has a NUL in its path".into()))?;
        let handle = open_library(&path, libc::RTLD_NOW | libc::RTLD_LOCAL)?;
        // SAFETY: The handle is open, and the name is a C string.
        let entry = unsafe { libc::dlsym(handle, c"DriverEntry".as_ptr()) };
        if entry.is_null() {
            return error("has no DriverEntry");
        }
        let base = base_of(entry.expose_provenance());
        replace_addresses(base, &object.replaced);
        Ok(Self {
            entry: entry.expose_provenance(),
            range: base..base.saturating_add(object.size),
            _thunks: thunks,
            traps,
        })
    }

    /// Its addresses.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The addresses of absent imports.
    pub fn trap_range(&self) -> Range<usize> {
        self.traps.range()
    }

    /// Calls `DriverEntry`.
    ///
    /// # Safety
    ///
    /// The code of the driver runs in this process, with these arguments.
    pub unsafe fn call_entry(&self, driver: usize, registry_path: usize) -> i32 {
        type Entry = unsafe extern "win64-unwind" fn(usize, usize) -> i32;
        let entry = ptr::with_exposed_provenance::<()>(self.entry);
        // SAFETY: The headers for drivers declare DriverEntry with this type.
        let entry: Entry = unsafe { std::mem::transmute(entry) };
        // SAFETY: The caller's contract.
        unsafe { entry(driver, registry_path) }
    }
}

/// The address at which the object that contains an address was loaded.
pub(super) fn base_of(address: usize) -> usize {
    // SAFETY: Zero is a valid value of every field.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let at = ptr::with_exposed_provenance(address);
    // SAFETY: The function fills in the structure.
    unsafe { libc::dladdr(at, &raw mut info) };
    info.dli_fbase.addr()
}

fn open_library(path: &CStr, mode: c_int) -> Result<*mut libc::c_void, ImageError> {
    // SAFETY: The user names the file and vouches for its code.
    let handle = unsafe { libc::dlopen(path.as_ptr(), mode) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: Returns the text of the last error on this thread, or NULL.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return error("cannot be loaded");
    }
    // SAFETY: The text is a C string until the next call.
    let why = unsafe { CStr::from_ptr(why) };
    error(format!("cannot be loaded: {}", why.to_string_lossy()))
}

/// Loads a library that defines the symbols at absolute addresses.
fn open_import_library(symbols: &[(&str, usize)]) -> Result<(), ImageError> {
    let failed = |_| ImageError("cannot be loaded: its imports do not fit into memory".into());
    // SAFETY: The name is a C string.
    let fd = unsafe { libc::memfd_create(c"windtunnel-imports".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let why = io::Error::last_os_error();
        return error(format!("cannot be loaded: no memory for its imports: {why}"));
    }
    // SAFETY: The descriptor is new, and only this value owns it.
    let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    io::Write::write_all(&mut &file, &import_library(symbols)).map_err(failed)?;
    // A debugger opens the path, too: with `self` it would open a descriptor of its own, and wait
    // for ever if that is a pipe. So the path names this process, and the descriptor stays open.
    let descriptor = file.into_raw_fd();
    let path = CString::new(format!("/proc/{}/fd/{descriptor}", std::process::id()))
        .map_err(|_| ImageError("cannot be loaded".into()))?;
    open_library(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
    Ok(())
}

/// A shared object without code: a table of absolute symbols.
fn import_library(symbols: &[(&str, usize)]) -> Vec<u8> {
    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    const SYMBOL: usize = 24;
    const GLOBAL_FUNCTION: u8 = 0x12;
    const ABSOLUTE: u16 = 0xfff1;
    let symbols_at = HEADER + 2 * PROGRAM_HEADER;
    let mut names = vec![0_u8];
    let mut table = vec![0_u8; SYMBOL];
    for (name, address) in symbols {
        let at = u32::try_from(names.len()).unwrap_or(0);
        names.extend(name.bytes().chain([0]));
        table.extend(at.to_le_bytes());
        table.extend([GLOBAL_FUNCTION, 0]);
        table.extend(ABSOLUTE.to_le_bytes());
        table.extend((*address as u64).to_le_bytes());
        table.extend(8_u64.to_le_bytes());
    }
    let names_at = symbols_at + table.len();
    let hash_at = (names_at + names.len()).next_multiple_of(8);
    let hash = hash_table(symbols);
    let dynamic_at = (hash_at + hash.len()).next_multiple_of(8);
    let dynamic: [(u64, usize); 6] = [
        (4, hash_at),      // DT_HASH
        (5, names_at),     // DT_STRTAB
        (6, symbols_at),   // DT_SYMTAB
        (10, names.len()), // DT_STRSZ
        (11, SYMBOL),      // DT_SYMENT
        (0, 0),            // DT_NULL
    ];
    let end = dynamic_at + dynamic.len() * 16;
    let mut file = Vec::with_capacity(end);
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]); // ET_DYN, x86-64, version 1
    file.extend(0_u64.to_le_bytes()); // no entry point
    file.extend((HEADER as u64).to_le_bytes());
    file.extend(0_u64.to_le_bytes()); // no sections
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    let mut program_header = |kind: u32, at: usize, bytes: usize, align: u64| {
        const READ_WRITE: u32 = 6;
        file.extend(kind.to_le_bytes());
        file.extend(READ_WRITE.to_le_bytes());
        for number in [at, at, at, bytes, bytes] {
            file.extend((number as u64).to_le_bytes());
        }
        file.extend(align.to_le_bytes());
    };
    program_header(1, 0, end, 4096);
    program_header(2, dynamic_at, dynamic.len() * 16, 8);
    file.extend(table);
    file.extend(names);
    file.resize(hash_at, 0);
    file.extend(hash);
    file.resize(dynamic_at, 0);
    for (tag, value) in dynamic {
        file.extend(tag.to_le_bytes());
        file.extend((value as u64).to_le_bytes());
    }
    file
}

/// The hash table of the symbols, with one chain.
fn hash_table(symbols: &[(&str, usize)]) -> Vec<u8> {
    let count = u32::try_from(symbols.len() + 1).unwrap_or(0);
    let first = u32::from(!symbols.is_empty());
    let mut words = vec![1, count, first, 0];
    let following = (1..count).map(|number| if number + 1 < count { number + 1 } else { 0 });
    words.extend(following);
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_imports_has_their_addresses() {
        let symbols = [("WindtunnelTestImportA", 0x1234_5678), ("WindtunnelTestImportB", 0x99)];
        open_import_library(&symbols).unwrap();
        for (name, address) in symbols {
            let name = CString::new(name).unwrap();
            // SAFETY: The name is a C string.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert_eq!(found.addr(), address);
        }
        open_import_library(&[]).unwrap();
    }

    #[test]
    fn what_is_no_driver_is_refused_in_words() {
        let refused = |file: &[u8]| SharedObject::parse(file).unwrap_err().0;
        assert!(refused(b"\x7fELF").starts_with("is not a complete ELF file"));
        let library = import_library(&[("A", 1)]);
        assert!(refused(&library).contains("DriverEntry"), "{}", refused(&library));
        let mut program = library.clone();
        program[16] = 2;
        assert!(refused(&program).contains("-shared"));
        let mut other = library;
        other[18] = 183;
        assert!(refused(&other).contains("another processor"));
    }
}
