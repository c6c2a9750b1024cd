//! Access to caller memory during a call. No other file of this crate touches it, except
//! `existing_memory` for allocations that use it.
//!
//! A pointer from an application is a claim. The [`Session`](crate::Session) decides how it is
//! checked. A *trusting* session relies on the safety contract of the entry point (`# Safety`), so
//! only NULL and implausible counts are checked. In a *guarded* session an unmapped pointer is an
//! error instead of a crash: the bytes are copied by a function of the session's owner that survives
//! a fault ([`DirectAccess`]), or else by the operating system, which costs a system call. A pointer
//! below the caller's own stack frame is an error, too: the frames of this library are there.
//!
//! Output memory is checked before the call acts (`read_mut`): a byte of each page is written. So a
//! call whose results cannot be returned does nothing.
//!
//! WINDOWS: NULL is an invalid parameter (observed). That any other address that cannot be
//! read or written is one too, and not an access violation, is our reading: only 32-bit Windows
//! was observed to return that. Windows compilers align arguments; a misaligned argument is
//! accepted (our decision).
//!
//! # Invariants
//!
//! 1. Everything goes through `fetch` and `store`, which take an address and a length that
//!    together are inside the address space.
//! 2. State kept during a call is thread-local and is restored when the call ends.
#![expect(unsafe_code, reason = "reads and writes the memory of the caller")]
#![expect(clippy::inline_always, reason = "copies of a few bytes on the path of every call")]

mod access;

pub use access::{CallerProcess, DirectAccess, DirectAccessResult, RemoteAccess, ShownAccess};

use crate::existing_memory;
use crate::refusal::{inaccessible, invalid_with, refused};
use abi::NTSTATUS;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::c_void;
use std::io::Error;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::{ptr, slice};

/// The most bytes of data that a call accepts in one piece: 16 MiB.
pub(crate) const MAX_BYTES: usize = 1 << 24;

/// The longest list that a call accepts: 65,536 elements.
///
/// WINDOWS: our decision. The driver of Windows in Linux accepts 10,240 allocations in a call
/// (observed).
pub(crate) const MAX_ELEMENTS: usize = 1 << 16;

/// How the pointers of a session are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PointerTrust {
    /// The caller keeps the safety contract.
    Trusted,
    /// Pointers may be any number, within this process.
    Guarded { process: libc::pid_t, direct: Option<DirectAccess> },
    /// Pointers may be any number, within another process.
    Remote(&'static RemoteAccess),
}

/// How the memory of the current call is accessed.
#[derive(Clone, Copy)]
enum Access {
    /// By the functions or the operating system.
    Here(libc::pid_t, Option<DirectAccess>),
    /// In another process.
    Remote(&'static RemoteAccess),
}

/// The checks for the call that a thread is in.
#[derive(Clone, Copy, Debug)]
struct CallTrust {
    trust: PointerTrust,
    /// Where the caller's frames begin. Our own are below.
    caller_frames: usize,
}

thread_local! {
    static COPIED: Cell<u64> = const { Cell::new(0) };
    /// The checks for the current call. A thread-local, so that no entry point can forget to
    /// pass it down.
    static CALL_TRUST: Cell<CallTrust> =
        const { Cell::new(CallTrust { trust: PointerTrust::Trusted, caller_frames: 0 }) };
    /// Whether the pointers of the current call are checked: what most copies ask first.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the frames of the caller of the next call begin; zero if that is not known.
    static CALLER_FRAMES: Cell<usize> = const { Cell::new(0) };
}

/// Where the stack frames of the caller begin, for the next call on this thread: the stack pointer
/// behind the return address of its entry point.
pub fn set_caller_frames(address: usize) {
    CALLER_FRAMES.set(address);
}

/// The address of [`set_caller_frames`], until the next call on this thread begins; else zero.
pub fn caller_frames() -> usize {
    CALLER_FRAMES.get()
}

impl PointerTrust {
    /// Checks pointers into the memory of this process.
    pub(crate) fn guarded() -> Self {
        Self::guarded_by(None)
    }

    /// Checks pointers into the memory of this process. The functions access it, if they can.
    pub(crate) fn guarded_by(direct: Option<DirectAccess>) -> Self {
        // SAFETY: The function has no requirements.
        Self::Guarded { process: unsafe { libc::getpid() }, direct }
    }

    /// The address of memory of this process in the caller's.
    pub(crate) fn show(self, address: usize, access: ShownAccess) -> Option<usize> {
        match self {
            Self::Remote(remote) if address != 0 => (remote.show)(address, access),
            _ => Some(address),
        }
    }

    /// The caller's process, if its memory can be accessed outside of the call.
    pub(crate) fn caller_process(self) -> Option<Arc<dyn CallerProcess>> {
        match self {
            Self::Remote(remote) => (remote.process)(),
            Self::Guarded { process, .. } => Some(Arc::new(access::ThisProcess(process))),
            // SAFETY: The function has no requirements.
            Self::Trusted => Some(Arc::new(access::ThisProcess(unsafe { libc::getpid() }))),
        }
    }

    /// A copy of a descriptor of the caller, by its number there.
    pub(crate) fn take_descriptor(self, number: i32) -> Option<OwnedFd> {
        match self {
            Self::Remote(remote) => (remote.take_descriptor)(number),
            Self::Trusted | Self::Guarded { .. } => existing_memory::duplicate(number),
        }
    }

    /// Checks that a range of the caller's addresses can be its memory, without touching it.
    pub(crate) fn check_range(self, start: usize, bytes: usize) -> Result<(), NTSTATUS> {
        let start = ptr::without_provenance(start);
        if self.is_trusted() {
            check_address(start, bytes)
        } else {
            check_claim(start, bytes).map(drop)
        }
    }

    /// Whether the caller has ended during its call.
    pub(crate) fn is_caller_gone(self) -> bool {
        matches!(self, Self::Remote(remote) if (remote.is_gone)())
    }

    /// Whether the caller is another process.
    pub(crate) fn is_remote(self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Whether the caller keeps the safety contract.
    pub(crate) fn is_trusted(self) -> bool {
        matches!(self, Self::Trusted)
    }

    /// Runs the body of a call with these checks.
    pub(crate) fn during<R>(self, body: impl FnOnce() -> R) -> R {
        /// The checks of the enclosing call, restored on drop, also after a panic.
        struct Before(CallTrust);
        impl Drop for Before {
            fn drop(&mut self) {
                CALL_TRUST.set(self.0);
                GUARDED.set(!self.0.trust.is_trusted());
            }
        }
        // What is above this function is the caller's, if the entry point does not know better.
        let mark = 0_u8;
        let here = (&raw const mark).addr();
        let caller_frames = Some(CALLER_FRAMES.take()).filter(|address| *address != 0);
        let caller_frames = caller_frames.unwrap_or(here);
        // A trusting call outside a guarded one changes nothing.
        let changes = GUARDED.get() || !self.is_trusted();
        let _before = changes.then(|| {
            GUARDED.set(!self.is_trusted());
            Before(CALL_TRUST.replace(CallTrust { trust: self, caller_frames }))
        });
        body()
    }
}

/// Runs `body`, in which pointers into the memory of this process are checked and these functions
/// access it: for a caller whose call is made elsewhere.
pub fn with_guard<R>(direct: DirectAccess, body: impl FnOnce() -> R) -> R {
    PointerTrust::guarded_by(Some(direct)).during(body)
}

/// Reads a structure.
///
/// # Safety
///
/// The pointer is NULL or valid for reads of a `T`, unless the session is guarded. Every bit
/// pattern is a valid `T`.
#[inline]
pub unsafe fn read<T: Copy>(from: *const T) -> Result<T, NTSTATUS> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: The caller's contract.
    unsafe { read_into(from, &mut value) }.copied()
}

/// As [`read`], to a place of the caller: a large structure is not copied again.
///
/// # Safety
///
/// As for [`read`].
#[inline]
pub(crate) unsafe fn read_into<T: Copy>(
    from: *const T,
    value: &mut MaybeUninit<T>,
) -> Result<&T, NTSTATUS> {
    // SAFETY: The caller's contract; `value` has the size of a `T`.
    unsafe { fetch(from.cast(), value.as_mut_ptr().cast(), size_of::<T>()) }?;
    // SAFETY: Every byte was fetched, and by the contract any bytes are a valid `T`.
    Ok(unsafe { value.assume_init_ref() })
}

/// Reads a structure that receives results, and checks that it can be written.
///
/// # Safety
///
/// As for [`read`] and [`write()`].
#[inline]
pub unsafe fn read_mut<T: Copy>(at: *mut T) -> Result<T, NTSTATUS> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: The caller's contract; `value` has the size of a `T`.
    unsafe { fetch_for_results(at.cast(), value.as_mut_ptr().cast(), size_of::<T>()) }?;
    // SAFETY: Every byte was fetched, and by the contract any bytes are a valid `T`.
    Ok(unsafe { value.assume_init() })
}

/// Writes a structure back.
///
/// # Safety
///
/// The pointer is NULL or valid for writes of a `T`, unless the session is guarded. It never
/// points to memory of this library.
#[inline]
pub unsafe fn write<T: Copy>(to: *mut T, value: T) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract; `value` has the size of a `T`.
    unsafe { store((&raw const value).cast(), to.cast(), size_of::<T>()) }
}

/// Reads a list. NULL is valid only for an empty list.
///
/// # Safety
///
/// The pointer is NULL or valid for reads of `count` values of `T`, unless the session is guarded.
/// Every bit pattern is a valid `T`.
pub unsafe fn read_list<T: Copy>(from: *const T, count: usize) -> Result<Vec<T>, NTSTATUS> {
    let mut list = Vec::<T>::new();
    // SAFETY: The caller's contract; the list is empty.
    unsafe { fetch_list(from, count, fetch, |count| reserve(&mut list, count)) }?;
    // SAFETY: All elements were fetched, and by the contract any bytes are a valid `T`.
    unsafe { list.set_len(count) };
    Ok(list)
}

/// Room for a list. The count is a claim, too: memory for it may not be available.
fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<*mut T, NTSTATUS> {
    list.try_reserve_exact(count).map_err(|_| no_room())?;
    Ok(list.as_mut_ptr())
}

fn no_room() -> NTSTATUS {
    refused(STATUS_NO_MEMORY, "there is no memory for a copy of a list")
}

/// As [`reserve`], for an empty list that is not on the heap while it is short.
#[inline(always)]
fn reserve_small<T, const N: usize>(
    list: &mut SmallVec<[T; N]>,
    count: usize,
) -> Result<*mut T, NTSTATUS> {
    if count > N {
        list.try_reserve_exact(count).map_err(|_| no_room())?;
    }
    Ok(list.as_mut_ptr())
}

/// Fetches the elements of a list to the room that `room` returns.
///
/// # Safety
///
/// As for [`read_list`]; `room` returns room for that many elements. `by` is [`fetch`] or
/// [`fetch_for_results`].
#[inline]
unsafe fn fetch_list<T: Copy>(
    from: *const T,
    count: usize,
    by: unsafe fn(*const c_void, *mut c_void, usize) -> Result<(), NTSTATUS>,
    room: impl FnOnce(usize) -> Result<*mut T, NTSTATUS>,
) -> Result<(), NTSTATUS> {
    if count == 0 {
        return Ok(());
    }
    let bytes = length_of(from, count)?;
    let to = room(count)?;
    // SAFETY: The caller's contract; there is room for all elements.
    unsafe { by(from.cast(), to.cast(), bytes) }
}

/// Reads a list. Up to `N` elements are not allocated on the heap.
///
/// # Safety
///
/// As for [`read_list`].
#[inline]
pub unsafe fn read_small_list<T: Copy, const N: usize>(
    from: *const T,
    count: usize,
) -> Result<SmallVec<[T; N]>, NTSTATUS> {
    let mut list = SmallVec::<[T; N]>::new();
    // SAFETY: The caller's contract; the list is empty.
    unsafe { fetch_list(from, count, fetch, |count| reserve_small(&mut list, count)) }?;
    // SAFETY: All elements were fetched, and by the contract any bytes are a valid `T`.
    unsafe { list.set_len(count) };
    Ok(list)
}

/// Reads a list again, in place.
///
/// # Safety
///
/// As for [`read_list`], with the length of the list.
pub unsafe fn reread_list<T: Copy>(from: *const T, list: &mut [T]) -> Result<(), NTSTATUS> {
    if list.is_empty() {
        return Ok(());
    }
    // SAFETY: The caller's contract; the list has this size, and any bytes are a valid `T`.
    unsafe { fetch(from.cast(), list.as_mut_ptr().cast(), size_of_val(list)) }
}

/// The size of a nonempty list in bytes, unless it is too long. Every list of a caller, and all data
/// of a size that the caller chooses, is bounded here: before memory is allocated for it.
#[inline]
fn length_of<T>(from: *const T, count: usize) -> Result<usize, NTSTATUS> {
    let limit = const { if size_of::<T>() == 1 { MAX_BYTES } else { MAX_ELEMENTS } };
    let bytes = count.saturating_mul(size_of::<T>());
    if from.is_null() {
        return Err(inaccessible(STATUS_INVALID_PARAMETER, 0, bytes));
    }
    if count > limit {
        return Err(invalid_with(|| {
            format!("a list has {count} elements, and {limit} are accepted")
        }));
    }
    Ok(bytes)
}

/// Reads a list that receives results, and checks that it can be written.
///
/// # Safety
///
/// As for [`read_list`] and [`write_list`].
pub unsafe fn read_list_mut<T: Copy>(at: *mut T, count: usize) -> Result<Vec<T>, NTSTATUS> {
    let mut list = Vec::<T>::new();
    // SAFETY: The caller's contract; the list is empty.
    unsafe { fetch_list(at, count, fetch_for_results, |count| reserve(&mut list, count)) }?;
    // SAFETY: All elements were fetched, and by the contract any bytes are a valid `T`.
    unsafe { list.set_len(count) };
    Ok(list)
}

/// Reads a list that receives results, and checks that it can be written. Up to `N` elements are
/// not allocated on the heap.
///
/// # Safety
///
/// As for [`read_list`] and [`write_list`].
#[inline]
pub(crate) unsafe fn read_small_list_mut<T: Copy, const N: usize>(
    at: *mut T,
    count: usize,
) -> Result<SmallVec<[T; N]>, NTSTATUS> {
    let mut list = SmallVec::<[T; N]>::new();
    let room = |count| reserve_small(&mut list, count);
    // SAFETY: The caller's contract; the list is empty.
    unsafe { fetch_list(at.cast_const(), count, fetch_for_results, room) }?;
    // SAFETY: All elements were fetched, and by the contract any bytes are a valid `T`.
    unsafe { list.set_len(count) };
    Ok(list)
}

/// Writes a list back.
///
/// # Safety
///
/// The pointer is NULL or valid for writes of all values, unless the session is guarded. It never
/// points to memory of this library.
pub unsafe fn write_list<T: Copy>(to: *mut T, values: &[T]) -> Result<(), NTSTATUS> {
    if values.is_empty() {
        return Ok(());
    }
    // SAFETY: The caller's contract; `values` has this size.
    unsafe { store(values.as_ptr().cast(), to.cast(), size_of_val(values)) }
}

/// Checks that this many bytes can be written.
///
/// # Safety
///
/// As for [`write_list`], of that many bytes.
pub unsafe fn check_writable(at: *mut c_void, bytes: usize) -> Result<(), NTSTATUS> {
    if GUARDED.get() {
        // SAFETY: The caller's contract; the session is guarded, so reading has no requirements.
        unsafe { read_list_mut(at.cast::<u8>(), bytes) }?;
    }
    Ok(())
}

/// Reads private data.
///
/// # Safety
///
/// The pointer is NULL or valid for reads of `size` bytes, unless the session is guarded.
pub(crate) unsafe fn read_bytes(from: *const c_void, size: u32) -> Result<Vec<u8>, NTSTATUS> {
    // SAFETY: The same contract, for bytes.
    unsafe { read_list(from.cast::<u8>(), size as usize) }
}

/// Writes private data back.
///
/// # Safety
///
/// The pointer is NULL or valid for writes of all bytes, unless the session is guarded. It never
/// points to memory of this library.
pub(crate) unsafe fn write_bytes(to: *mut c_void, bytes: &[u8]) -> Result<(), NTSTATUS> {
    // SAFETY: The same contract, for bytes.
    unsafe { write_list(to.cast::<u8>(), bytes) }?;
    COPIED.with(|count| count.set(count.get() + bytes.len() as u64));
    Ok(())
}

/// The number of data bytes returned to callers on this thread so far, without structures.
pub(crate) fn copied() -> u64 {
    COPIED.with(Cell::get)
}

/// Copies out of the caller's memory.
///
/// # Safety
///
/// `ours` is valid for writes of all bytes. `theirs` is NULL or valid for reads of as many, unless
/// the session is guarded.
#[inline(always)]
unsafe fn fetch(theirs: *const c_void, ours: *mut c_void, bytes: usize) -> Result<(), NTSTATUS> {
    if GUARDED.get() {
        // SAFETY: The caller's contract.
        let fetched = unsafe { fetch_guarded(theirs, ours, bytes) };
        return fetched.map_err(|status| inaccessible(status, theirs.addr(), bytes));
    }
    check_address(theirs, bytes)?;
    // SAFETY: By the contract both have `bytes` bytes; the caller has no access to `ours`.
    unsafe { ours.cast::<u8>().copy_from_nonoverlapping(theirs.cast(), bytes) };
    Ok(())
}

/// As [`fetch`], in a guarded session.
///
/// # Safety
///
/// `ours` is valid for writes of all bytes.
unsafe fn fetch_guarded(
    theirs: *const c_void,
    ours: *mut c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    let (process, direct) = match check_claim(theirs, bytes)? {
        Access::Here(process, direct) => (process, direct),
        Access::Remote(remote) => {
            // SAFETY: By the contract `ours` has room.
            let ours = unsafe { slice::from_raw_parts_mut(ours.cast::<MaybeUninit<u8>>(), bytes) };
            return accessed((remote.read)(theirs.addr(), ours, false));
        }
    };
    // SAFETY: By the contract `ours` has room; the caller's memory was checked not to be ours.
    let copied = direct.map(|direct| unsafe { (direct.copy)(ours.cast(), theirs.cast(), bytes) });
    // SAFETY: As above.
    finished(copied, || unsafe { fetch_by_system(process, theirs, ours, bytes) })
}

/// As [`fetch`], from memory that gets results: checks that it can be written.
///
/// # Safety
///
/// As for [`fetch`] and [`store`].
#[inline(always)]
unsafe fn fetch_for_results(
    theirs: *const c_void,
    ours: *mut c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    if GUARDED.get() {
        // SAFETY: The caller's contract.
        let fetched = unsafe { fetch_for_results_guarded(theirs, ours, bytes) };
        return fetched.map_err(|status| inaccessible(status, theirs.addr(), bytes));
    }
    // SAFETY: The caller's contract.
    unsafe { fetch(theirs, ours, bytes) }
}

/// As [`fetch_for_results`], in a guarded session.
///
/// # Safety
///
/// As for [`fetch_guarded`] and [`store`].
unsafe fn fetch_for_results_guarded(
    theirs: *const c_void,
    ours: *mut c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    if let PointerTrust::Remote(remote) = CALL_TRUST.get().trust {
        check_claim(theirs, bytes)?;
        // SAFETY: By the contract `ours` has room.
        let ours = unsafe { slice::from_raw_parts_mut(ours.cast::<MaybeUninit<u8>>(), bytes) };
        return accessed((remote.read)(theirs.addr(), ours, true));
    }
    // SAFETY: The caller's contract.
    unsafe { fetch_guarded(theirs, ours, bytes) }?;
    // SAFETY: The caller's contract; what is written is what was read.
    unsafe { check_results(theirs.cast_mut(), ours.cast_const(), bytes) }
}

/// Copies into the caller's memory.
///
/// # Safety
///
/// `ours` is valid for reads of all bytes. `theirs` is NULL or valid for writes of as many, unless
/// the session is guarded. It never points to memory of this library.
#[inline(always)]
unsafe fn store(ours: *const c_void, theirs: *mut c_void, bytes: usize) -> Result<(), NTSTATUS> {
    if GUARDED.get() {
        // SAFETY: The caller's contract.
        let stored = unsafe { store_guarded(ours, theirs, bytes) };
        return stored.map_err(|status| inaccessible(status, theirs.addr(), bytes));
    }
    check_address(theirs, bytes)?;
    // SAFETY: By the contract both have `bytes` bytes; the caller has no access to `ours`.
    unsafe { theirs.cast::<u8>().copy_from_nonoverlapping(ours.cast(), bytes) };
    Ok(())
}

/// As [`store`], in a guarded session.
///
/// # Safety
///
/// `ours` is valid for reads of all bytes. `theirs` never points to memory of this library.
unsafe fn store_guarded(
    ours: *const c_void,
    theirs: *mut c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    let (process, direct) = match check_claim(theirs, bytes)? {
        Access::Here(process, direct) => (process, direct),
        Access::Remote(remote) => {
            // SAFETY: By the contract `ours` has the bytes.
            let ours = unsafe { slice::from_raw_parts(ours.cast::<u8>(), bytes) };
            return accessed((remote.write)(theirs.addr(), ours));
        }
    };
    // SAFETY: By the contract `ours` has the bytes; the caller's memory was checked not to be ours.
    let copied = direct.map(|direct| unsafe { (direct.copy)(theirs.cast(), ours.cast(), bytes) });
    // SAFETY: As above.
    finished(copied, || unsafe { store_by_system(process, ours, theirs, bytes) })
}

/// Checks that memory which was read can be written. Where the operating system copies, what was
/// read is written there.
///
/// # Safety
///
/// `read` has the bytes that were read from `theirs`. It never points to memory of this library.
#[inline]
unsafe fn check_results(
    theirs: *mut c_void,
    read: *const c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    let PointerTrust::Guarded { process, direct } = CALL_TRUST.get().trust else { return Ok(()) };
    if bytes == 0 {
        return Ok(());
    }
    // The memory was checked not to be ours when it was read.
    // SAFETY: There is a byte, and by the contract the memory is not ours.
    let probed = direct.map(|direct| unsafe { (direct.probe)(theirs.cast(), bytes) });
    // SAFETY: By the contract the bytes are there.
    finished(probed, || unsafe { store_by_system(process, read, theirs, bytes) })
}

/// The result of an access in another process.
fn accessed(possible: bool) -> Result<(), NTSTATUS> {
    if possible { Ok(()) } else { Err(STATUS_INVALID_PARAMETER) }
}

/// The result of an access, or that of the operating system where it was not possible.
#[inline]
fn finished(
    direct: Option<DirectAccessResult>,
    by_system: impl FnOnce() -> Result<(), NTSTATUS>,
) -> Result<(), NTSTATUS> {
    match direct {
        Some(DirectAccessResult::Done) => Ok(()),
        Some(DirectAccessResult::Fault) => Err(STATUS_INVALID_PARAMETER),
        Some(DirectAccessResult::Unavailable) | None => by_system(),
    }
}

/// As [`fetch`], by the operating system.
#[cold]
unsafe fn fetch_by_system(
    process: libc::pid_t,
    theirs: *const c_void,
    ours: *mut c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    let here = libc::iovec { iov_base: ours, iov_len: bytes };
    let there = libc::iovec { iov_base: theirs.cast_mut(), iov_len: bytes };
    // SAFETY: The operating system checks `there`; by the contract `here` has room.
    let copied =
        unsafe { libc::process_vm_readv(process, &raw const here, 1, &raw const there, 1, 0) };
    check_copied(bytes, copied)
}

/// As [`store`], by the operating system.
#[cold]
unsafe fn store_by_system(
    process: libc::pid_t,
    ours: *const c_void,
    theirs: *mut c_void,
    bytes: usize,
) -> Result<(), NTSTATUS> {
    let here = libc::iovec { iov_base: ours.cast_mut(), iov_len: bytes };
    let there = libc::iovec { iov_base: theirs, iov_len: bytes };
    // SAFETY: The operating system checks `there`; `here` is only read, and has the same length.
    let copied =
        unsafe { libc::process_vm_writev(process, &raw const here, 1, &raw const there, 1, 0) };
    check_copied(bytes, copied)
}

/// Checks that an address is not NULL, and that the bytes end in the address space.
#[inline]
fn check_address(theirs: *const c_void, bytes: usize) -> Result<(), NTSTATUS> {
    let fits = theirs.addr().checked_add(bytes).is_some();
    if theirs.is_null() || !fits { Err(STATUS_INVALID_PARAMETER) } else { Ok(()) }
}

/// Checks address and length in a guarded session, without touching the memory. Returns how it is
/// accessed.
#[inline]
fn check_claim(theirs: *const c_void, bytes: usize) -> Result<Access, NTSTATUS> {
    check_address(theirs, bytes)?;
    let CallTrust { trust, caller_frames } = CALL_TRUST.get();
    let (begin, end) = (theirs.addr(), theirs.addr() + bytes);
    // The upper half of the addresses is the system's: some of them can be read, but they are not
    // the client's. Below the caller's frames are ours.
    let is_foreign =
        isize::try_from(end).is_err() || (begin < caller_frames && end > lowest_frame());
    match trust {
        PointerTrust::Guarded { process, direct } if !is_foreign => {
            Ok(Access::Here(process, direct))
        }
        // The frames are those of this process.
        PointerTrust::Remote(remote) if isize::try_from(end).is_ok() => Ok(Access::Remote(remote)),
        _ => Err(STATUS_INVALID_PARAMETER),
    }
}

/// An address below the frames of this thread that are in use while a claim is copied.
#[inline(never)]
fn lowest_frame() -> usize {
    /// The frames of the copy itself.
    const COPY: usize = 512;
    let mark = 0_u8;
    (&raw const mark).addr().saturating_sub(COPY)
}

/// Whether the operating system copied everything.
fn check_copied(bytes: usize, copied: isize) -> Result<(), NTSTATUS> {
    match usize::try_from(copied) {
        Ok(copied) if copied == bytes => Ok(()),
        // The copy reached unmapped memory.
        Ok(_) => Err(STATUS_INVALID_PARAMETER),
        Err(_) if Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => {
            Err(STATUS_INVALID_PARAMETER)
        }
        // A sandbox without this system call: no pointer can be checked, so every call fails.
        Err(_) => Err(STATUS_NOT_SUPPORTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn guarded<R>(body: impl FnOnce() -> R) -> R {
        PointerTrust::guarded().during(body)
    }

    #[test]
    fn both_beliefs_copy_what_is_there() {
        for trust in [PointerTrust::Trusted, PointerTrust::guarded()] {
            let mut list = [1_u32, 2, 3];
            trust.during(|| {
                // SAFETY: The list outlives the call and has three elements.
                assert_eq!(unsafe { read_list(list.as_ptr(), 3) }, Ok(vec![1, 2, 3]));
                // SAFETY: As above.
                let few = unsafe { read_small_list::<_, 4>(list.as_ptr(), 3) };
                // SAFETY: As above.
                let many = unsafe { read_small_list::<_, 2>(list.as_ptr(), 3) };
                assert_eq!((few, many), (Ok(smallvec![1, 2, 3]), Ok(smallvec![1, 2, 3])));
                // SAFETY: As above.
                assert_eq!(unsafe { write_list(list.as_mut_ptr(), &[7, 8]) }, Ok(()));
                assert_eq!(list, [7, 8, 3]);
                let mut again = [0; 2];
                // SAFETY: As above; two of them are read.
                assert_eq!(unsafe { reread_list(list.as_ptr(), &mut again) }, Ok(()));
                assert_eq!(again, [7, 8]);
                let misaligned = list.as_ptr().map_addr(|address| address + 1);
                // SAFETY: Its four bytes are inside the list.
                assert_eq!(unsafe { read(misaligned) }, Ok(0x0800_0000));
            });
        }
    }

    #[test]
    fn nothing_is_an_invalid_parameter_and_no_crash() {
        let bad = Err(STATUS_INVALID_PARAMETER);
        for address in [0, 1, 0xdead_0000, usize::MAX - 3, 0xffff_8000_0000_0000] {
            let nothing = ptr::without_provenance_mut::<u64>(address);
            // SAFETY: The session is guarded, so a read can have any address.
            assert_eq!(guarded(|| unsafe { read(nothing.cast_const()) }), bad, "{address:#x}");
            // SAFETY: The session is guarded, and no memory of this library is there.
            let stored = guarded(|| unsafe { write(nothing, 1) });
            assert_eq!(stored.map(|()| 0), bad, "{address:#x}");
            // SAFETY: As the first.
            let list = guarded(|| unsafe { read_list(nothing.cast_const(), MAX_ELEMENTS) });
            assert_eq!(list.map(|_| 0), bad, "{address:#x}");
            // SAFETY: As the first.
            let few = guarded(|| unsafe { read_small_list::<_, 1>(nothing.cast_const(), 1) });
            assert_eq!(few.map(|_| 0), bad, "{address:#x}");
            // SAFETY: As the first.
            let again = guarded(|| unsafe { reread_list(nothing.cast_const(), &mut [0]) });
            assert_eq!(again.map(|()| 0), bad, "{address:#x}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_refused_before_it_is_read() {
        let bad = Err(STATUS_INVALID_PARAMETER);
        let (bytes, words) = (vec![0_u8; MAX_BYTES + 1], vec![0_u32; MAX_ELEMENTS + 1]);
        for trust in [PointerTrust::Trusted, PointerTrust::guarded()] {
            trust.during(|| {
                for (more, expected) in [(0, Ok(())), (1, bad)] {
                    // SAFETY: The bytes are there.
                    let data = unsafe { read_list(bytes.as_ptr(), MAX_BYTES + more) };
                    assert_eq!(data.map(drop), expected, "{more}");
                    // SAFETY: The words are there.
                    let list = unsafe { read_list(words.as_ptr(), MAX_ELEMENTS + more) };
                    assert_eq!(list.map(drop), expected, "{more}");
                }
            });
        }
    }

    #[test]
    fn what_is_read_only_is_read_and_not_written() {
        static CONSTANT: u64 = 5;
        let constant = (&raw const CONSTANT).cast_mut();
        // SAFETY: `constant` is valid for reads.
        assert_eq!(guarded(|| unsafe { read(constant.cast_const()) }), Ok(5));
        // SAFETY: The session is guarded, and the operating system does not write there.
        let stored = guarded(|| unsafe { write(constant, 6) });
        assert_eq!(stored, Err(STATUS_INVALID_PARAMETER));
    }

    #[test]
    fn the_frames_of_a_call_are_not_the_callers() {
        let mut mine = 7_u64;
        let at = &raw mut mine;
        // SAFETY: `mine` outlives the call.
        assert_eq!(guarded(|| unsafe { write(at, 8) }), Ok(()));
        assert_eq!(mine, 8);
        set_caller_frames(at.addr() + size_of::<u64>());
        // SAFETY: The session is guarded.
        let below = guarded(|| unsafe { write(at, 9) });
        assert_eq!((below, mine), (Err(STATUS_INVALID_PARAMETER), 8));
        // SAFETY: The session is guarded.
        let later = guarded(|| unsafe { write(at, 9) });
        assert_eq!((later, mine), (Ok(()), 9), "the address is that of one call");
    }

    #[test]
    fn a_belief_ends_with_its_call() {
        assert!(std::panic::catch_unwind(|| guarded(|| panic!("on purpose"))).is_err());
        assert!(CALL_TRUST.get().trust.is_trusted());
    }
}
