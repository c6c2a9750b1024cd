//! A user-mode driver, before an adapter is opened through it.
#![expect(unsafe_code, reason = "vouches for an entry point")]

use crate::library::{Library, LoadError};
use abi::umd::PFND3DDDI_OPENADAPTER;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A user-mode driver: its entry point, `OpenAdapter`.
#[derive(Clone)]
pub struct Umd {
    pub(crate) entry: PFND3DDDI_OPENADAPTER,
    /// Whether its pointers are trusted. Those of a driver in another language are not.
    pub(crate) trusted: bool,
    /// How many objects it has for an adapter with this runtime handle, if it counts them.
    pub(crate) live_objects: Option<fn(usize) -> usize>,
    /// The library that contains its code.
    library: Option<Arc<Library>>,
}

impl Umd {
    /// A driver that is part of this program.
    ///
    /// # Safety
    ///
    /// The entry point implements `OpenAdapter`: it fills the tables it is given with functions
    /// that are valid as long as this program runs, and every pointer in a callback's structure is
    /// valid for its documented use. The memory that the driver returns for a surface is memory
    /// that the runtime mapped for it; the application cannot see other memory.
    pub const unsafe fn new(entry: PFND3DDDI_OPENADAPTER) -> Self {
        Self { entry, trusted: true, live_objects: None, library: None }
    }

    /// Adds a function that counts the driver's objects for an adapter, by the handle that the
    /// runtime opened the adapter with.
    #[must_use]
    pub const fn counting(mut self, live_objects: fn(usize) -> usize) -> Self {
        self.live_objects = Some(live_objects);
        self
    }

    /// A driver in this program whose pointers are not trusted, like those of a loaded driver: its
    /// callbacks may pass any pointer.
    ///
    /// # Safety
    ///
    /// The entry point implements `OpenAdapter`: it fills the tables it is given with functions
    /// that are valid as long as this program runs.
    pub const unsafe fn untrusted(entry: PFND3DDDI_OPENADAPTER) -> Self {
        Self { entry, trusted: false, live_objects: None, library: None }
    }

    /// Loads a driver from a shared object of this machine, which exports `OpenAdapter` with the
    /// Windows calling convention.
    ///
    /// # Safety
    ///
    /// The object's initialization may run, its `OpenAdapter` has the documented signature, and its
    /// functions write only to their own memory or to memory that they are told to write to.
    pub unsafe fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: The caller guarantees the same.
        let library = unsafe { Library::open(path) }?;
        // SAFETY: The caller guarantees the signature of the export.
        let entry = unsafe { library.open_adapter() }?;
        Ok(Self { entry, trusted: false, live_objects: None, library: Some(Arc::new(library)) })
    }

    /// Whether the driver is one of a file.
    pub(crate) fn is_from_file(&self) -> bool {
        self.library.is_some()
    }
}

impl fmt::Debug for Umd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Umd").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}
