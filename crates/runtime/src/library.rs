//! Loads shared objects of this machine. This is the only file that loads code.
#![expect(unsafe_code, reason = "loads code through the operating system")]

use abi::umd::PFND3DDDI_OPENADAPTER;
use nt::image::{UserModeCode, replace_thread_ends};
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A loaded shared object. It is unloaded when the last owner drops it.
pub(crate) struct Library {
    path: PathBuf,
    handle: *mut c_void,
}

// SAFETY: The operating system's functions on a handle may be called on any thread.
unsafe impl Send for Library {}
// SAFETY: As above.
unsafe impl Sync for Library {}

/// Why a driver could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The path of the file.
    pub path: PathBuf,
    /// The operating system's error text.
    pub reason: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl Library {
    /// Loads a shared object.
    ///
    /// # Safety
    ///
    /// The object's initialization code may run.
    pub(crate) unsafe fn open(path: &Path) -> Result<Self, LoadError> {
        let refused = |why: String| LoadError { path: path.to_owned(), reason: why };
        // A name without a slash would be searched for in the system's folders.
        let whole = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
        let name = CString::new(whole.as_os_str().as_bytes())
            .map_err(|_| refused("the path contains a zero byte".to_owned()))?;
        let _code = UserModeCode::begin("its initialization");
        // SAFETY: `name` ends with a zero byte; the caller permits the initialization to run.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(refused(last_error()));
        }
        Ok(Self { path: path.to_owned(), handle })
    }

    /// The driver's entry point.
    ///
    /// # Safety
    ///
    /// What the object exports as `OpenAdapter` is a function with this signature.
    pub(crate) unsafe fn open_adapter(&self) -> Result<PFND3DDDI_OPENADAPTER, LoadError> {
        // SAFETY: The handle is open, and the name ends with a zero byte.
        let found = unsafe { libc::dlsym(self.handle, c"OpenAdapter".as_ptr()) };
        if found.is_null() {
            let why = "it exports no OpenAdapter: a user-mode driver exports one, with \
                       __attribute__((ms_abi))";
            return Err(LoadError { path: self.path.clone(), reason: why.to_owned() });
        }
        replace_thread_ends(&self.path, found.expose_provenance());
        // SAFETY: The caller guarantees its signature, and the pointer is not null.
        Ok(unsafe { std::mem::transmute::<*mut c_void, PFND3DDDI_OPENADAPTER>(found) })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _code = UserModeCode::begin("its termination");
        // SAFETY: The handle is open, and is not used again.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn last_error() -> String {
    // SAFETY: `dlerror` has no preconditions.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the operating system gave no reason".to_owned();
    }
    // SAFETY: The text ends with a zero byte, and is valid until this thread's next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
