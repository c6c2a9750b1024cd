//! `AddressSanitizer` in a driver that is a shared object.
//!
//! The compiler's code needs the runtime of the sanitizer, which must be in the process before any
//! other library: `LD_PRELOAD` names it, or the program is linked to it. An object without its
//! runtime is refused ([`missing_runtime`]). With a runtime, the memory next to a block is poisoned,
//! so that the sanitizer knows the size of a pool block, and what it reports is a finding.
#![expect(unsafe_code, reason = "calls functions of the sanitizer's runtime")]

use super::parse::ImageError;
use super::signals;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

/// The start of each name that the compiler adds.
const PREFIX: &str = "__asan_";

type MemoryFunction = unsafe extern "C" fn(*const c_void, usize);
type Function = unsafe extern "C" fn();
type FlagFunction = unsafe extern "C" fn() -> c_int;
type TextFunction = unsafe extern "C" fn() -> *const c_char;
type CallbackFunction = unsafe extern "C" fn(extern "C" fn());

/// The functions of the runtime that are used.
struct Runtime {
    poison: MemoryFunction,
    unpoison: MemoryFunction,
    handle_no_return: Function,
    is_reporting: FlagFunction,
    description: TextFunction,
    set_death_callback: CallbackFunction,
}

/// Looks a function of the process up. `None` if there is none.
macro_rules! find {
    ($name:literal, $function:ty) => {{
        // SAFETY: The name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: The interface of the sanitizer declares the function with the type of its field.
        unsafe { std::mem::transmute::<*mut c_void, $function>(found) }
    }};
}

impl Runtime {
    /// The runtime of this process, if it has one.
    fn get() -> Option<&'static Self> {
        static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
        let find = || {
            Some(Self {
                poison: find!(c"__asan_poison_memory_region", MemoryFunction),
                unpoison: find!(c"__asan_unpoison_memory_region", MemoryFunction),
                handle_no_return: find!(c"__asan_handle_no_return", Function),
                is_reporting: find!(c"__asan_report_present", FlagFunction),
                description: find!(c"__asan_get_report_description", TextFunction),
                set_death_callback: find!(c"__sanitizer_set_death_callback", CallbackFunction),
            })
        };
        RUNTIME.get_or_init(find).as_ref()
    }
}

/// Whether the process has the runtime.
pub(super) fn is_present() -> bool {
    Runtime::get().is_some()
}

/// Why an object with these imports, and linked to these libraries, cannot be loaded: it was built
/// with the sanitizer, whose runtime is not in the process.
pub(super) fn missing_runtime(imports: &[String], libraries: &[String]) -> Option<ImageError> {
    if is_present() || !imports.iter().any(|name| name.starts_with(PREFIX)) {
        return None;
    }
    let is_gcc = libraries.iter().any(|library| library.starts_with("libasan."));
    let runtime = if is_gcc {
        "gcc -print-file-name=libasan.so"
    } else {
        "clang -print-file-name=libclang_rt.asan-x86_64.so"
    };
    Some(ImageError(format!(
        "is built with AddressSanitizer, whose runtime must be loaded first: run the command again \
         with LD_PRELOAD=$({runtime}) ASAN_OPTIONS=detect_leaks=0 in front of it"
    )))
}

/// What the sanitizer reports is recorded as a fault of the driver from now on.
pub(super) fn report_errors() {
    if let Some(runtime) = Runtime::get() {
        // SAFETY: The function can be called on any thread, and does not return.
        unsafe { (runtime.set_death_callback)(died) };
    }
}

/// The sanitizer is about to end the process.
extern "C" fn died() {
    if is_reporting() {
        signals::end_for_sanitizer();
    }
}

/// Whether the sanitizer has found an error. A signal handler may call this.
pub(super) fn is_reporting() -> bool {
    // SAFETY: The function reads a variable of the runtime.
    Runtime::get().is_some_and(|runtime| unsafe { (runtime.is_reporting)() } != 0)
}

/// Copies the sanitizer's name of the error, such as `stack-buffer-overflow`. Returns its length. A
/// signal handler may call this.
pub(super) fn copy_description(into: &mut [u8]) -> usize {
    let Some(runtime) = Runtime::get() else { return 0 };
    // SAFETY: The function returns a C string that is not freed, or NULL.
    let description = unsafe { (runtime.description)() };
    if description.is_null() {
        return 0;
    }
    // SAFETY: As above.
    let text = unsafe { CStr::from_ptr(description) }.to_bytes();
    let length = text.len().min(into.len());
    into[..length].copy_from_slice(&text[..length]);
    length
}

/// Code of the driver must not access these addresses.
pub(crate) fn poison(addresses: &Range<usize>) {
    let at = ptr::with_exposed_provenance(addresses.start);
    // SAFETY: The runtime changes its own memory only.
    Runtime::get().inspect(|runtime| unsafe { (runtime.poison)(at, addresses.len()) });
}

/// Code of the driver, and ours, may access these addresses again.
pub(crate) fn unpoison(addresses: &Range<usize>) {
    let at = ptr::with_exposed_provenance(addresses.start);
    // SAFETY: The runtime changes its own memory only.
    Runtime::get().inspect(|runtime| unsafe { (runtime.unpoison)(at, addresses.len()) });
}

/// Frames of this thread's stack are about to be left without returning.
pub(crate) fn leave_frames() {
    // SAFETY: The runtime changes what it knows of this thread's stack.
    Runtime::get().inspect(|runtime| unsafe { (runtime.handle_no_return)() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_its_runtime_is_refused_with_what_to_run() {
        let imports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let plain: Vec<String> = imports(&["ExAllocatePool2", "KeSetEvent"]);
        assert!(missing_runtime(&plain, &["libc.so.6".to_owned()]).is_none());
        let instrumented: Vec<String> = imports(&["KeSetEvent", "__asan_init"]);
        if is_present() {
            return; // This test runs with the sanitizer itself.
        }
        for (library, runtime) in
            [("libc.so.6", "libclang_rt.asan-"), ("libasan.so.8", "libasan.so")]
        {
            let refused = missing_runtime(&instrumented, &[library.to_owned()]).unwrap().0;
            assert!(refused.contains("LD_PRELOAD=$("), "{refused}");
            assert!(refused.contains(runtime), "{refused}");
        }
    }
}
