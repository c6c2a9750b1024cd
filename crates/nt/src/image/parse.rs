//! Reads a PE32+ file for x64: headers and sections by the `object` crate, the tables behind them by
//! hand from the laid-out image.
//!
//! A file that cannot be loaded is an [`ImageError`] of one sentence. The checks are stricter than
//! those of Windows where a real driver has no use for the freedom: no section may overlap another,
//! and no import may be by ordinal.

use super::read::Layout;
use object::LittleEndian as LE;
use object::pe;
use object::read::pe::ImageNtHeaders as _;
use std::fmt;

/// The largest image that is loaded.
const MAX_IMAGE: u32 = 256 << 20;

/// The page size, to which sections are aligned.
const PAGE: u32 = 4096;

const MACHINE_X64: u16 = 0x8664;
const MACHINE_X86: u16 = 0x014c;
const MACHINE_ARM64: u16 = 0xaa64;
const SUBSYSTEM_NATIVE: u16 = 1;
const SUBSYSTEM_GUI: u16 = 2;
const SUBSYSTEM_CONSOLE: u16 = 3;
const RELOCATION_PADDING: u16 = 0;
const RELOCATION_64_BIT: u16 = 10;
const DEBUG_CODEVIEW: u32 = 2;
const DEBUG_REPRODUCIBLE: u32 = 16;

/// Why a file cannot be loaded, as a sentence about the file without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError(pub String);

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ImageError {}

/// A driver image that can be loaded.
pub struct Image {
    /// The image as it lies in memory at `preferred_base`, before imports are bound.
    pub(crate) layout: Vec<u8>,
    /// The address for which it was linked.
    pub preferred_base: u64,
    /// The RVA of `DriverEntry`, or of the function in front of it.
    pub entry: u32,
    /// Its sections, by address.
    pub sections: Vec<Section>,
    /// What it imports.
    pub imports: Vec<ImportedName>,
    /// The RVAs of the pointers that contain addresses of the image.
    pub(crate) relocations: Vec<u32>,
    /// The RVA of the stack cookie (`/GS`), if the image has one.
    pub(crate) cookie: Option<u32>,
    /// The range of the function table (`.pdata`).
    pub(crate) function_table: (u32, u32),
    /// The time at which it was linked, in seconds since 1970. `None` if the build is reproducible
    /// and the field contains a hash.
    pub link_time: Option<u32>,
    /// Its symbol file.
    pub pdb: Option<PdbReference>,
}

/// A section of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its first RVA.
    pub rva: u32,
    /// Its size in memory.
    pub size: u32,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it contains code.
    pub executable: bool,
    /// Whether it is discarded after `DriverEntry` (INIT).
    pub discardable: bool,
}

/// A name that an image imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedName {
    /// The module, such as `ntoskrnl.exe`.
    pub module: String,
    /// The name.
    pub name: String,
    /// The RVA of the pointer that is bound to it.
    pub(crate) slot: u32,
}

/// The symbol file that belongs to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdbReference {
    /// Its path at the time of linking.
    pub path: String,
    /// Its signature.
    pub guid: [u8; 16],
    /// How often it was written since its creation.
    pub age: u32,
}

fn error<T>(text: impl Into<String>) -> Result<T, ImageError> {
    Err(ImageError(text.into()))
}

impl Image {
    /// Whether a file begins as an image does.
    pub fn is_mz(file: &[u8]) -> bool {
        file.starts_with(b"MZ")
    }

    /// Reads an image from the bytes of its file.
    pub fn parse(file: &[u8]) -> Result<Self, ImageError> {
        check_kind(file)?;
        let truncated = |_| ImageError("is truncated: its headers do not fit into the file".into());
        let dos = pe::ImageDosHeader::parse(file).map_err(truncated)?;
        let mut offset = dos.nt_headers_offset().into();
        let (headers, directories) =
            pe::ImageNtHeaders64::parse(file, &mut offset).map_err(truncated)?;
        let sections = headers.sections(file, offset).map_err(truncated)?;
        let optional = &headers.optional_header;
        let size = optional.size_of_image.get(LE);
        if size == 0 || size > MAX_IMAGE {
            return error(format!("has a SizeOfImage of {size} bytes, expected up to {MAX_IMAGE}"));
        }
        let mut layout = vec![0; size.next_multiple_of(PAGE) as usize];
        let header_size = optional.size_of_headers.get(LE) as usize;
        let (Some(from), Some(to)) = (file.get(..header_size), layout.get_mut(..header_size))
        else {
            return error("is truncated: its headers do not fit into the file");
        };
        to.copy_from_slice(from);
        let mut found: Vec<Section> = Vec::new();
        for header in sections.iter() {
            found.push(lay_out_section(header, file, &mut layout, header_size)?);
        }
        check_overlaps(&mut found)?;
        let image = Layout(&layout);
        let directory = |index: usize| {
            let entry = directories.get(index);
            entry.map_or((0, 0), pe::ImageDataDirectory::address_range)
        };
        if directory(pe::IMAGE_DIRECTORY_ENTRY_TLS).0 != 0 {
            return error("has thread-local storage, which a kernel-mode driver cannot have");
        }
        if directory(pe::IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT).0 != 0 {
            return error("has delay-loaded imports, which a kernel-mode driver cannot have");
        }
        let entry = optional.address_of_entry_point.get(LE);
        let executable = |section: &&Section| {
            section.executable && (section.rva..section.rva + section.size).contains(&entry)
        };
        if !found.iter().any(|section| executable(&section)) {
            return error(format!(
                "has its entry point at {entry:#x}, which is in no code section"
            ));
        }
        let imports = read_imports(image, directory(pe::IMAGE_DIRECTORY_ENTRY_IMPORT))?;
        let relocations = read_relocations(image, directory(pe::IMAGE_DIRECTORY_ENTRY_BASERELOC))?;
        let preferred_base = optional.image_base.get(LE);
        let load_config = directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG);
        let cookie = read_cookie(image, load_config, preferred_base)?;
        let debug = read_debug(image, directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG))?;
        let function_table = directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION);
        image.bytes(function_table.0, function_table.1 as usize, "the function table (.pdata)")?;
        let stamp = headers.file_header.time_date_stamp.get(LE);
        Ok(Self {
            preferred_base,
            entry,
            sections: found,
            imports,
            relocations,
            cookie,
            function_table,
            link_time: (!debug.reproducible && stamp != 0).then_some(stamp),
            pdb: debug.pdb,
            layout,
        })
    }
}

impl Image {
    /// Whether a text of 16-bit characters is in the image, in upper or lower case.
    pub fn contains_wide_text(&self, text: &str) -> bool {
        let wanted: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        self.layout.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(&wanted))
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("bytes", &self.layout.len()).finish_non_exhaustive()
    }
}

/// Checks that the file is a kernel-mode image for this processor.
fn check_kind(file: &[u8]) -> Result<(), ImageError> {
    if !Image::is_mz(file) {
        return error("is not a Windows image: it does not begin with MZ");
    }
    let word = |at: usize| -> Option<u16> {
        Some(u16::from_le_bytes(file.get(at..at.checked_add(2)?)?.try_into().ok()?))
    };
    let header = file.get(0x3c..0x40).and_then(|bytes| bytes.try_into().ok());
    let at = header.map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize);
    let signature = at.checked_add(4).and_then(|end| file.get(at..end));
    match signature {
        None => return error("is truncated: it has no PE header"),
        Some(b"PE\0\0") => (),
        Some(_) => return error("is not a Windows image: it has MZ, but no PE header"),
    }
    match word(at + 4) {
        Some(MACHINE_X64) => (),
        Some(MACHINE_X86) => {
            return error("is a 32-bit image (x86), expected one for x64");
        }
        Some(MACHINE_ARM64) => {
            return error("is an image for ARM64, expected one for x64");
        }
        Some(other) => return error(format!("is for machine {other:#06x}, expected x64")),
        None => return error("is truncated: it has no file header"),
    }
    match word(at + 24) {
        Some(pe::IMAGE_NT_OPTIONAL_HDR64_MAGIC) => (),
        Some(_) => return error("is not PE32+: its optional header is not that of x64"),
        None => return error("is truncated: it has no optional header"),
    }
    match word(at + 24 + 68) {
        Some(SUBSYSTEM_NATIVE) => Ok(()),
        Some(SUBSYSTEM_GUI | SUBSYSTEM_CONSOLE) => {
            error("is a user-mode program or DLL, expected a kernel-mode driver (subsystem native)")
        }
        Some(other) => error(format!("has subsystem {other}, expected 1 (native)")),
        None => error("is truncated: it has no optional header"),
    }
}

/// Copies a section to its place.
fn lay_out_section(
    header: &pe::ImageSectionHeader,
    file: &[u8],
    layout: &mut [u8],
    header_size: usize,
) -> Result<Section, ImageError> {
    let raw_name = header.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = raw_name.escape_ascii().to_string();
    let (rva, virtual_size) = (header.virtual_address.get(LE), header.virtual_size.get(LE));
    let (raw_at, raw_size) = (header.pointer_to_raw_data.get(LE), header.size_of_raw_data.get(LE));
    let size = if virtual_size == 0 { raw_size } else { virtual_size };
    let inside = rva.checked_add(size).is_some_and(|end| end as usize <= layout.len());
    if !inside || (rva as usize) < header_size || !rva.is_multiple_of(PAGE) {
        return error(format!(
            "has a section {name} at {rva:#x} with {size:#x} bytes, which is not inside the image \
             of {:#x} bytes on a page boundary",
            layout.len()
        ));
    }
    let copied = raw_size.min(size) as usize;
    let from = (raw_at as usize).checked_add(copied).and_then(|end| file.get(raw_at as usize..end));
    let Some(from) = from else {
        return error(format!("is truncated: section {name} does not fit into the file"));
    };
    layout[rva as usize..rva as usize + copied].copy_from_slice(from);
    let flags = header.characteristics.get(LE);
    Ok(Section {
        name,
        rva,
        size,
        writable: flags.contains(pe::IMAGE_SCN_MEM_WRITE),
        executable: flags.contains(pe::IMAGE_SCN_MEM_EXECUTE),
        discardable: flags.contains(pe::IMAGE_SCN_MEM_DISCARDABLE),
    })
}

fn check_overlaps(sections: &mut [Section]) -> Result<(), ImageError> {
    sections.sort_by_key(|section| section.rva);
    for pair in sections.windows(2) {
        if pair[0].rva + pair[0].size > pair[1].rva {
            return error(format!(
                "has overlapping sections {} and {}",
                pair[0].name, pair[1].name
            ));
        }
    }
    Ok(())
}

/// The size of an entry of the import directory.
const IMPORT_DESCRIPTOR: u32 = 20;

fn read_imports(
    image: Layout<'_>,
    (start, _): (u32, u32),
) -> Result<Vec<ImportedName>, ImageError> {
    const WHAT: &str = "the import directory";
    let mut found = Vec::new();
    if start == 0 {
        return Ok(found);
    }
    let mut descriptor = start;
    loop {
        let names = image.u32(descriptor, WHAT)?;
        let module = image.u32(next(descriptor, 12)?, WHAT)?;
        let slots = image.u32(next(descriptor, 16)?, WHAT)?;
        if module == 0 && slots == 0 {
            return Ok(found);
        }
        let module = image.text(module, "the name of an imported module")?;
        let names = if names == 0 { slots } else { names };
        read_module_imports(image, &module, (names, slots), &mut found)?;
        descriptor = next(descriptor, IMPORT_DESCRIPTOR)?;
    }
}

fn read_module_imports(
    image: Layout<'_>,
    module: &str,
    (names, slots): (u32, u32),
    found: &mut Vec<ImportedName>,
) -> Result<(), ImageError> {
    let what = format!("the list of imports from {module}");
    for offset in (0_u32..).step_by(8) {
        let value = image.u64(next(names, offset)?, &what)?;
        let slot = next(slots, offset)?;
        if value == 0 {
            break;
        }
        if value >> 63 != 0 {
            let ordinal = value & 0xffff;
            return error(format!(
                "imports ordinal {ordinal} of {module}: only imports by name can be bound"
            ));
        }
        let Ok(hint) = u32::try_from(value) else {
            return error(format!("has an import from {module} whose name is outside the image"));
        };
        let name = image.text(next(hint, 2)?, "the name of an import")?;
        image.u64(slot, &what)?;
        found.push(ImportedName { module: module.to_owned(), name, slot });
    }
    Ok(())
}

fn read_relocations(image: Layout<'_>, (start, size): (u32, u32)) -> Result<Vec<u32>, ImageError> {
    const WHAT: &str = "the relocations";
    let mut found = Vec::new();
    let end = next(start, size)?;
    let mut block = start;
    while block < end {
        let (page, bytes) = (image.u32(block, WHAT)?, image.u32(next(block, 4)?, WHAT)?);
        if bytes < 8 || bytes % 2 != 0 || end - block < bytes {
            return error(format!("has a block of relocations at {block:#x} of {bytes} bytes"));
        }
        for at in (block + 8..block + bytes).step_by(2) {
            let entry = image.u16(at, WHAT)?;
            let target = next(page, u32::from(entry & 0xfff))?;
            match entry >> 12 {
                RELOCATION_PADDING => (),
                RELOCATION_64_BIT => {
                    image.u64(target, "a relocated pointer")?;
                    found.push(target);
                }
                kind => {
                    return error(format!(
                        "has a relocation of type {kind} at {target:#x}, expected 64-bit ones"
                    ));
                }
            }
        }
        block += bytes;
    }
    Ok(found)
}

/// The offset of `SecurityCookie` in the load configuration.
const COOKIE_OFFSET: u32 = 0x58;

fn read_cookie(
    image: Layout<'_>,
    (start, _): (u32, u32),
    base: u64,
) -> Result<Option<u32>, ImageError> {
    const WHAT: &str = "the load configuration";
    if start == 0 || image.u32(start, WHAT)? < COOKIE_OFFSET + 8 {
        return Ok(None);
    }
    let address = image.u64(next(start, COOKIE_OFFSET)?, WHAT)?;
    if address == 0 {
        return Ok(None);
    }
    let rva = address.checked_sub(base).and_then(|rva| u32::try_from(rva).ok());
    let Some(rva) = rva else {
        return error("has a load configuration whose stack cookie is outside the image");
    };
    image.u64(rva, "the stack cookie")?;
    Ok(Some(rva))
}

#[derive(Default)]
struct DebugInfo {
    pdb: Option<PdbReference>,
    reproducible: bool,
}

fn read_debug(image: Layout<'_>, (start, size): (u32, u32)) -> Result<DebugInfo, ImageError> {
    const ENTRY: u32 = 28;
    const WHAT: &str = "the debug directory";
    let mut found = DebugInfo::default();
    for offset in (0..size / ENTRY).map(|index| index * ENTRY) {
        let at = next(start, offset)?;
        let kind = image.u32(next(at, 12)?, WHAT)?;
        let (length, data) = (image.u32(next(at, 16)?, WHAT)?, image.u32(next(at, 20)?, WHAT)?);
        if kind == DEBUG_REPRODUCIBLE {
            found.reproducible = true;
        }
        let codeview = kind == DEBUG_CODEVIEW && length >= 24 && data != 0;
        if codeview && image.bytes(data, 4, WHAT)? == b"RSDS" {
            let mut guid = [0; 16];
            guid.copy_from_slice(image.bytes(next(data, 4)?, 16, WHAT)?);
            let age = image.u32(next(data, 20)?, WHAT)?;
            let path = image.text(next(data, 24)?, "the path of the symbol file")?;
            found.pdb = Some(PdbReference { path, guid, age });
        }
    }
    Ok(found)
}

/// An RVA plus an offset.
fn next(rva: u32, offset: u32) -> Result<u32, ImageError> {
    rva.checked_add(offset).ok_or_else(|| ImageError(format!("has an address beyond {rva:#x}")))
}
