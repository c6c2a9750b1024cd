//! Pages of a client's process.
//!
//! The GPU accesses them at any time, also while the client is in no call, so the operating system
//! copies the bytes (`process_vm_readv`, `process_vm_writev`): memory that the client has unmapped is
//! an error and not a crash.
#![expect(unsafe_code, reason = "the operating system copies a client's bytes")]

use super::{FirstFailure, Unusable, by_pages, inside};
use crate::claims::CallerProcess;
use flight::{ExistingMemory, FailedAccess};
use std::fs;
use std::io::Error;
use std::ptr;
use std::sync::Arc;

/// A range of whole pages.
#[derive(Debug)]
pub(super) struct ClientPages {
    process: Arc<dyn CallerProcess>,
    start: usize,
    bytes: usize,
    failed: FirstFailure,
}

impl ClientPages {
    /// Pages that are mapped for reading and, if they `are_written`, for writing. The range is
    /// inside the address space, and not empty.
    pub(super) fn new(
        process: Arc<dyn CallerProcess>,
        start: usize,
        bytes: usize,
        are_written: bool,
    ) -> Result<Self, Unusable> {
        let pages = Self { process, start, bytes, failed: FirstFailure::default() };
        match pages.copy_out(0, &mut [0]) {
            Ok(()) => (),
            Err(libc::EFAULT) => return Err(Unusable::Inaccessible(start)),
            Err(_) => return Err(Unusable::Forbidden),
        }
        let maps = fs::read_to_string(format!("/proc/{}/maps", pages.process.number()));
        // Without the list, an access finds what is not mapped.
        let end = maps.map_or(start + bytes, |maps| mapped_end(&maps, start, are_written));
        if end < start + bytes { Err(Unusable::Inaccessible(end)) } else { Ok(pages) }
    }

    /// Copies bytes of the client. Fails with the number of the error.
    fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), i32> {
        let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let (there, number) = (self.vector(offset, into.len()), self.process.number());
        // SAFETY: The operating system checks `there`; `here` has room.
        let copied =
            unsafe { libc::process_vm_readv(number, &raw const here, 1, &raw const there, 1, 0) };
        check_copied(copied, into.len())
    }

    /// Copies bytes to the client. Fails with the number of the error.
    fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), i32> {
        let ours = bytes.as_ptr().cast_mut().cast();
        let here = libc::iovec { iov_base: ours, iov_len: bytes.len() };
        let (there, number) = (self.vector(offset, bytes.len()), self.process.number());
        // SAFETY: The operating system checks `there`; `here` has the bytes and is only read.
        let copied =
            unsafe { libc::process_vm_writev(number, &raw const here, 1, &raw const there, 1, 0) };
        check_copied(copied, bytes.len())
    }

    fn vector(&self, offset: usize, length: usize) -> libc::iovec {
        let theirs = ptr::without_provenance_mut(self.start + offset);
        libc::iovec { iov_base: theirs, iov_len: length }
    }

    /// Notes a failure. A process that has ended has not taken its memory away.
    fn note(&self, offset: usize, is_write: bool, error: i32) {
        if error == libc::EFAULT && !self.process.has_ended() {
            self.failed.note(offset, is_write);
        }
    }
}

impl ExistingMemory for ClientPages {
    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let range = inside(self.bytes, offset, into.len());
        let Some(range) = range.filter(|_| !self.process.has_ended()) else {
            into.fill(0);
            return;
        };
        if self.copy_out(range.start, into).is_err() {
            for (at, part) in by_pages(range) {
                if let Err(error) = self.copy_out(at, &mut into[part.clone()]) {
                    into[part].fill(0);
                    self.note(at, false, error);
                }
            }
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let range = inside(self.bytes, offset, bytes.len());
        let Some(range) = range.filter(|_| !self.process.has_ended()) else { return };
        if self.copy_in(range.start, bytes).is_err() {
            for (at, part) in by_pages(range) {
                if let Err(error) = self.copy_in(at, &bytes[part]) {
                    self.note(at, true, error);
                }
            }
        }
    }

    fn address_here(&self) -> Option<usize> {
        // SAFETY: The function has no requirements.
        (self.process.number() == unsafe { libc::getpid() }).then_some(self.start)
    }

    fn client_address(&self) -> Option<usize> {
        Some(self.start)
    }

    fn failed_access(&self) -> Option<FailedAccess> {
        self.failed.get()
    }
}

/// Whether the operating system copied everything; else the number of the error.
fn check_copied(copied: isize, bytes: usize) -> Result<(), i32> {
    match usize::try_from(copied) {
        Ok(copied) if copied == bytes => Ok(()),
        // The copy reached memory that is not mapped.
        Ok(_) => Err(libc::EFAULT),
        Err(_) => Err(Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM)),
    }
}

/// Where memory that is mapped without a gap from `start` on ends, by the list of a process's
/// mappings in the order of their addresses.
fn mapped_end(maps: &str, start: usize, are_written: bool) -> usize {
    let mut end = start;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let range = words.next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = range.and_then(|(from, to)| Some((number(from)?, number(to)?)));
        let (Some((from, to)), Some(access)) = (range, words.next()) else { continue };
        if from > end {
            break;
        }
        let is_accessible = access.starts_with(if are_written { "rw" } else { "r" });
        if end < to && is_accessible {
            end = to;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct This;

    impl CallerProcess for This {
        fn number(&self) -> i32 {
            // SAFETY: The function has no requirements.
            unsafe { libc::getpid() }
        }

        fn has_ended(&self) -> bool {
            false
        }
    }

    const PAGE: usize = 4096;

    /// New pages of this process.
    fn map(pages: usize) -> usize {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: The operating system chooses unused addresses.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, access, flags, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        mapped.expose_provenance()
    }

    fn unmap(at: usize, pages: usize) {
        // SAFETY: The pages are those of a test that does not use them any more.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(at), pages * PAGE) };
    }

    fn protect(at: usize, access: i32) {
        // SAFETY: The page is one of a test, and no reference to it exists.
        unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(at), PAGE, access) };
    }

    #[test]
    fn the_bytes_are_those_of_the_process() {
        let start = map(2);
        let pages = ClientPages::new(Arc::new(This), start, 2 * PAGE, true).unwrap();
        pages.write(PAGE as u64 - 1, &[1, 2]);
        let at: *mut u8 = ptr::with_exposed_provenance_mut(start + PAGE);
        // SAFETY: The pages are mapped.
        assert_eq!(unsafe { at.read_volatile() }, 2);
        // SAFETY: As above.
        unsafe { at.write_volatile(3) };
        let mut read = [9; 3];
        pages.read(PAGE as u64 - 1, &mut read);
        assert_eq!((read, pages.failed_access()), ([1, 3, 0], None));
        unmap(start, 2);
    }

    #[test]
    fn memory_that_is_taken_away_is_zeros_and_a_failure() {
        let start = map(3);
        let pages = ClientPages::new(Arc::new(This), start, 3 * PAGE, true).unwrap();
        pages.write(0, &[7; 3 * PAGE]);
        unmap(start + PAGE, 1);
        let mut read = [9; 3 * PAGE];
        pages.read(0, &mut read);
        assert!(read[..PAGE].iter().chain(&read[2 * PAGE..]).all(|byte| *byte == 7));
        assert!(read[PAGE..2 * PAGE].iter().all(|byte| *byte == 0));
        let failure = FailedAccess { offset: PAGE as u64, is_write: false };
        assert_eq!(pages.failed_access(), Some(failure));
        pages.write(0, &[5; 3 * PAGE]);
        pages.read(2 * PAGE as u64, &mut read[..1]);
        assert_eq!((read[0], pages.failed_access()), (5, Some(failure)));
        unmap(start, 3);
    }

    #[test]
    fn memory_with_a_gap_is_refused() {
        let start = map(3);
        let create = |are_written| {
            let pages = ClientPages::new(Arc::new(This), start, 3 * PAGE, are_written);
            pages.map(drop)
        };
        protect(start + PAGE, libc::PROT_READ);
        assert_eq!(create(true), Err(Unusable::Inaccessible(start + PAGE)));
        assert_eq!(create(false), Ok(()));
        protect(start + PAGE, libc::PROT_NONE);
        assert_eq!(create(false), Err(Unusable::Inaccessible(start + PAGE)));
        unmap(start, 3);
        assert_eq!(create(true), Err(Unusable::Inaccessible(start)));
    }

    #[test]
    fn a_list_of_mappings_is_read_to_the_first_gap() {
        let maps = "1000-2000 r--p 0 00:00 0\n2000-4000 rw-p 0 00:00 0 [heap]\n\
                    4000-5000 rw-s 0 00:00 0\n6000-7000 rw-p 0 00:00 0\nodd line\n";
        assert_eq!(mapped_end(maps, 0x2000, true), 0x5000);
        assert_eq!(mapped_end(maps, 0x3000, true), 0x5000);
        assert_eq!(mapped_end(maps, 0x1000, true), 0x1000);
        assert_eq!(mapped_end(maps, 0x1000, false), 0x5000);
        assert_eq!(mapped_end(maps, 0x5000, true), 0x5000);
        assert_eq!(mapped_end(maps, 0x9000, true), 0x9000);
    }
}
