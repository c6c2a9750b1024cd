//! Memory of a server that this process maps: locked allocations, fence values, command buffers.
#![expect(unsafe_code, reason = "maps memory")]

use server::message::MessageReader;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

/// Maps pieces of a file next to each other. Each is two numbers: its offset and its size. Returns the
/// address; `None` if that is not possible.
pub(crate) fn map(file: &OwnedFd, pieces: &[u8], writable: bool) -> Option<usize> {
    let mut reader = MessageReader(pieces);
    let mut list: Vec<(libc::off_t, usize)> = Vec::new();
    while !reader.0.is_empty() {
        let offset = libc::off_t::try_from(reader.long()?).ok()?;
        list.push((offset, usize::try_from(reader.long()?).ok()?));
    }
    let total = list.iter().try_fold(0_usize, |sum, piece| sum.checked_add(piece.1))?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: The operating system chooses unused addresses.
    let base = unsafe { libc::mmap(ptr::null_mut(), total, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let rights = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
    let mut at = 0;
    for (offset, size) in list {
        let (start, flags) = (base.wrapping_byte_add(at), libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: The addresses were just reserved, and nothing refers to them.
        let mapped = unsafe { libc::mmap(start, size, rights, flags, file.as_raw_fd(), offset) };
        if mapped == libc::MAP_FAILED {
            unmap(base.expose_provenance(), total);
            return None;
        }
        at += size;
    }
    Some(base.expose_provenance())
}

/// Unmaps them.
pub(crate) fn unmap(address: usize, size: usize) {
    // SAFETY: The server names what was mapped for it, which the client uses no more.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(address), size) };
}
