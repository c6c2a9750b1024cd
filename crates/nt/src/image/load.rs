//! Loads an image: maps, relocates, binds and protects it.
#![expect(unsafe_code, reason = "calls code of the image")]

use super::exception;
use super::mapping::{Mapping, PAGE, Protection};
use super::parse::{Image, ImageError, ImportedName};
use super::thunk::Thunks;
use super::unwind::FunctionTable;
use crate::import_irql::ImportIrql;
use crate::paged::{self, PagedKind};
use std::ops::Range;
use std::ptr;

/// What an imported name is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A function; calls of it go through a thunk.
    Function {
        /// Its address.
        address: usize,
        /// The IRQLs of its calls, if the thunk judges them.
        irql: Option<&'static ImportIrql>,
    },
    /// A variable.
    Variable(usize),
    /// Nothing: its use is a fault at an address of its own.
    Absent,
}

/// The distance between the addresses of two absent imports.
pub const TRAP: usize = 16;

/// The stack cookie that a new image is linked with; code that finds it refuses to run.
const DEFAULT_COOKIE: u64 = 0x0000_2b99_2ddf_a232;

/// An image in memory, ready to run.
///
/// # Invariants
///
/// 1. The mappings live as long as this value. No page of them is both writable and executable.
#[derive(Debug)]
pub struct LoadedImage {
    image: Image,
    mapping: Mapping,
    /// Held for its code.
    _thunks: Thunks,
    /// Inaccessible memory with an address for each import.
    traps: Mapping,
}

impl LoadedImage {
    /// Loads an image. `resolve` finds the target of each import.
    pub fn load(
        image: Image,
        resolve: impl Fn(&ImportedName) -> Binding,
    ) -> Result<Self, ImageError> {
        super::host_image();
        let mapping = Mapping::new(image.layout.len())?;
        mapping.write(0, &image.layout);
        let base = mapping.start() as u64;
        let delta = base.wrapping_sub(image.preferred_base);
        for rva in &image.relocations {
            let old = u64_at(&image.layout, *rva);
            mapping.write(*rva as usize, &old.wrapping_add(delta).to_le_bytes());
        }
        if let Some(cookie) = image.cookie {
            mapping.write(cookie as usize, &new_cookie(base).to_le_bytes());
        }
        let bindings: Vec<Binding> = image.imports.iter().map(resolve).collect();
        let thunks = Thunks::new(&bindings)?;
        let traps = Mapping::new((bindings.len() * TRAP).max(1))?;
        traps.protect(0..traps.range().len(), Protection::None)?;
        for (number, (import, binding)) in image.imports.iter().zip(&bindings).enumerate() {
            let address = match binding {
                Binding::Function { .. } => thunks.address(number),
                Binding::Variable(address) => *address,
                Binding::Absent => traps.start() + number * TRAP,
            };
            mapping.write(import.slot as usize, &address.to_le_bytes());
        }
        let loaded = Self { image, mapping, _thunks: thunks, traps };
        loaded.protect()?;
        exception::add_image(FunctionTable {
            base,
            size: loaded.mapping.range().len() as u64,
            table: loaded.image.function_table,
        });
        Ok(loaded)
    }

    fn protect(&self) -> Result<(), ImageError> {
        let headers = self.image.sections.first().map_or(PAGE, |section| section.rva as usize);
        self.mapping.protect(0..headers, Protection::Read)?;
        for section in &self.image.sections {
            // Of a section that asks for both, W is dropped.
            let protection = match (section.executable, section.writable) {
                (true, _) => Protection::Execute,
                (false, true) => Protection::Write,
                (false, false) => Protection::Read,
            };
            let start = section.rva as usize;
            let range = start..start + section.size as usize;
            self.mapping.protect(range.clone(), protection)?;
            // WINDOWS: sections whose names begin with PAGE are pageable (documented).
            if section.name.starts_with("PAGE") && !section.discardable {
                let pages = range.start..range.end.next_multiple_of(PAGE);
                let base = self.mapping.start();
                let pages = base + pages.start..base + pages.end;
                paged::add(PagedKind::Section, &pages, protection.rights());
            }
        }
        Ok(())
    }

    /// Makes the sections that are needed during `DriverEntry` only inaccessible (INIT).
    pub fn discard_init(&self) {
        for section in self.image.sections.iter().filter(|section| section.discardable) {
            let start = section.rva as usize;
            // If it fails, the section stays accessible, which harms nothing.
            let _ = self.mapping.protect(start..start + section.size as usize, Protection::None);
        }
    }

    /// The image.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The addresses of the image.
    pub fn range(&self) -> Range<usize> {
        self.mapping.range()
    }

    /// The addresses of absent imports: `TRAP` bytes for each import.
    pub fn trap_range(&self) -> Range<usize> {
        self.traps.range()
    }

    /// Calls the entry point: `DriverEntry(driver, registry_path)`, or the function in front of it.
    ///
    /// # Safety
    ///
    /// The code of the image runs in this process, with these arguments.
    pub unsafe fn call_entry(&self, driver: usize, registry_path: usize) -> i32 {
        type Entry = unsafe extern "win64-unwind" fn(usize, usize) -> i32;
        let address = self.mapping.start() + self.image.entry as usize;
        let entry = ptr::with_exposed_provenance::<()>(address);
        // SAFETY: The entry point is in a code section, and has this type on Windows.
        let entry: Entry = unsafe { std::mem::transmute(entry) };
        // SAFETY: The caller's contract.
        unsafe { entry(driver, registry_path) }
    }
}

impl Drop for LoadedImage {
    /// Another image may be mapped at the same address.
    fn drop(&mut self) {
        exception::remove_image(self.mapping.start() as u64);
        paged::remove(&self.mapping.range());
    }
}

/// A stack cookie: 48 bits, not zero, not the default, and the same in every run at this address.
fn new_cookie(base: u64) -> u64 {
    let mixed = base.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let cookie = (mixed & 0x0000_ffff_ffff_ffff) | 1;
    if cookie == DEFAULT_COOKIE { cookie ^ 2 } else { cookie }
}

fn u64_at(bytes: &[u8], rva: u32) -> u64 {
    let at = rva as usize;
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::parse_tests::small_image;

    #[test]
    fn an_image_is_known_to_exceptions_while_it_is_mapped() {
        let image = Image::parse(&small_image()).unwrap();
        let loaded = LoadedImage::load(image, |_| Binding::Absent).unwrap();
        let base = loaded.range().start as u64;
        assert_eq!(exception::image_of(base + 8).map(|image| image.base), Some(base));
        drop(loaded);
        assert!(exception::image_of(base + 8).is_none());
    }
}
