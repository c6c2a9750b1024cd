//! Memory of a client as a driver from a file sees it: below the line of user addresses, so that
//! `ProbeForRead` and `__try` mean what they mean on Windows.
#![expect(unsafe_code, reason = "maps memory")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;

/// A copy of a client's bytes at a user address. It is unmapped when dropped.
#[derive(Debug)]
pub struct UserMemory {
    start: usize,
    bytes: usize,
}

impl UserMemory {
    /// Copies bytes to a user address. `None` in a process that hosts no driver from a file, for no
    /// bytes, and if there is no memory.
    pub fn copy(bytes: &[u8]) -> Option<Self> {
        const FIRST: usize = 0x1000_0000_0000;
        static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
        if !super::hosts_image() || bytes.is_empty() {
            return None;
        }
        let length = bytes.len().next_multiple_of(PAGE);
        let start = NEXT.fetch_add(length + PAGE, Ordering::Relaxed);
        let at = ptr::without_provenance_mut(start);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: The flag lets the call fail if something is mapped there.
        let mapped = unsafe { libc::mmap(at, length, rights, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let to = mapped.cast::<u8>();
        // SAFETY: The new mapping has at least that many bytes.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(Self { start: mapped.expose_provenance(), bytes: length })
    }

    /// Its address.
    pub fn pointer(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.start)
    }
}

impl Drop for UserMemory {
    fn drop(&mut self) {
        // SAFETY: The mapping is this value's own.
        unsafe { libc::munmap(self.pointer(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{HOSTS_IMAGE, USER_PROBE_ADDRESS};

    #[test]
    fn a_copy_is_at_a_user_address() {
        HOSTS_IMAGE.store(true, Ordering::Relaxed);
        let memory = UserMemory::copy(b"commands").unwrap();
        assert!((memory.pointer().addr() as u64) < USER_PROBE_ADDRESS);
        // SAFETY: The bytes were copied there.
        assert_eq!(unsafe { memory.pointer().cast::<[u8; 8]>().read() }, *b"commands");
        assert!(UserMemory::copy(b"").is_none());
    }
}
