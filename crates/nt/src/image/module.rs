//! A loaded driver: an image, or a shared object.
#![expect(unsafe_code, reason = "calls code of the driver")]

use super::call_place;
use super::load::{Binding, LoadedImage};
use super::parse::{Image, ImageError, Section};
use super::shared_object::{LoadedObject, SharedObject};
use sha2::{Digest as _, Sha256};
use std::ops::Range;
use std::path::Path;

/// The SHA-256 of a file.
pub fn hash(file: &[u8]) -> [u8; 32] {
    Sha256::digest(file).into()
}

/// A driver file that can be loaded.
#[derive(Debug)]
pub enum DriverImage {
    /// An image of Windows.
    Image(Image),
    /// A shared object of this machine.
    SharedObject(SharedObject),
}

impl DriverImage {
    /// Reads a driver from the bytes of its file.
    pub fn parse(file: &[u8]) -> Result<Self, ImageError> {
        if SharedObject::is_elf(file) {
            return SharedObject::parse(file).map(Self::SharedObject);
        }
        if !Image::is_mz(file) {
            return Err(ImageError("is neither a PE image nor an ELF shared object".into()));
        }
        Image::parse(file).map(Self::Image)
    }

    /// The sections of an image. A shared object has none.
    pub fn sections(&self) -> &[Section] {
        match self {
            Self::Image(image) => &image.sections,
            Self::SharedObject(_) => &[],
        }
    }

    /// The names that it imports.
    pub fn import_names(&self) -> Vec<&str> {
        match self {
            Self::Image(image) => image.imports.iter().map(|import| &*import.name).collect(),
            Self::SharedObject(object) => object.imports.iter().map(|name| &**name).collect(),
        }
    }
}

/// A loaded driver.
#[derive(Debug)]
pub enum Module {
    /// From an image.
    Image(LoadedImage),
    /// From a shared object.
    SharedObject(LoadedObject),
}

impl Module {
    /// Loads a driver. `resolve` finds the target of each import.
    pub fn load(
        path: &Path,
        file: &[u8],
        resolve: impl Fn(&str) -> Binding,
    ) -> Result<Self, ImageError> {
        let loaded = match DriverImage::parse(file)? {
            DriverImage::Image(image) => {
                LoadedImage::load(image, |import| resolve(&import.name)).map(Self::Image)?
            }
            DriverImage::SharedObject(object) => {
                LoadedObject::load(path, &object, resolve).map(Self::SharedObject)?
            }
        };
        call_place::set_module(&loaded.range());
        Ok(loaded)
    }

    /// Its addresses.
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Image(image) => image.range(),
            Self::SharedObject(object) => object.range(),
        }
    }

    /// The addresses of its absent imports.
    pub fn trap_range(&self) -> Range<usize> {
        match self {
            Self::Image(image) => image.trap_range(),
            Self::SharedObject(object) => object.trap_range(),
        }
    }

    /// Makes what is needed during `DriverEntry` only inaccessible.
    pub fn discard_init(&self) {
        if let Self::Image(image) = self {
            image.discard_init();
        }
    }

    /// Calls `DriverEntry(driver, registry_path)`.
    ///
    /// # Safety
    ///
    /// The code of the driver runs in this process, with these arguments.
    pub unsafe fn call_entry(&self, driver: usize, registry_path: usize) -> i32 {
        match self {
            // SAFETY: The caller's contract.
            Self::Image(image) => unsafe { image.call_entry(driver, registry_path) },
            // SAFETY: The caller's contract.
            Self::SharedObject(object) => unsafe { object.call_entry(driver, registry_path) },
        }
    }
}
