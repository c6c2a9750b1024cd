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
    /// Whether its pointers are believed: those of a driver in another language are not.
    pub(crate) trusted: bool,
    /// How many objects it has of an adapter that the runtime called so, if it counts them.
    pub(crate) live_objects: Option<fn(usize) -> usize>,
    /// What its code is in.
    _library: Option<Arc<Library>>,
}

impl Umd {
    /// A driver that is part of this program.
    ///
    /// # Safety
    ///
    /// The entry point does what `OpenAdapter` does: it fills the tables it is given with
    /// functions that stay as long as this program, and every pointer it or they call back with
    /// is good for what its structure says. What it shows of a surface is what the runtime has
    /// shown it: other memory the application does not see.
    pub const unsafe fn new(entry: PFND3DDDI_OPENADAPTER) -> Self {
        Self { entry, trusted: true, live_objects: None, _library: None }
    }

    /// The same, of a driver that counts what it has of each adapter: by the handle that the
    /// runtime opened it with.
    #[must_use]
    pub const fn counting(mut self, live_objects: fn(usize) -> usize) -> Self {
        self.live_objects = Some(live_objects);
        self
    }

    /// The same of a driver whose pointers are not believed, as those of one that is loaded are
    /// not: what it calls back with may point anywhere.
    ///
    /// # Safety
    ///
    /// The entry point does what `OpenAdapter` does: it fills the tables it is given with
    /// functions that stay as long as this program.
    pub const unsafe fn untrusted(entry: PFND3DDDI_OPENADAPTER) -> Self {
        Self { entry, trusted: false, live_objects: None, _library: None }
    }

    /// Loads a driver from a shared object of this machine, which exports `OpenAdapter` with the
    /// Windows calling convention.
    ///
    /// # Safety
    ///
    /// The object's initialisation may be run, its `OpenAdapter` is one, and what its functions
    /// write to is theirs, or what they were told to write to.
    pub unsafe fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: The caller promises the same.
        let library = unsafe { Library::open(path) }?;
        // SAFETY: The caller promises that what has this name is one.
        let entry = unsafe { library.open_adapter() }?;
        Ok(Self { entry, trusted: false, live_objects: None, _library: Some(Arc::new(library)) })
    }
}

impl fmt::Debug for Umd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Umd").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}
