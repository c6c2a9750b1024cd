//! A section: the file of a descriptor from `memfd_create` or `shm_open`.
//!
//! The bytes are read and written with system calls and not through a mapping: a client can make the
//! file shorter, which is an error and not a crash.
#![expect(unsafe_code, reason = "asks the operating system about a descriptor")]

use super::{FirstFailure, by_pages, inside};
use crate::claims::PointerTrust;
use flight::{ExistingMemory, FailedAccess};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Why a handle is not that of a section that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadSection {
    /// The caller has no descriptor of this number.
    NotOpen,
    /// The descriptor is of something else.
    OtherKind,
    /// The section has only this many bytes.
    TooShort(u64),
    /// The descriptor or a seal does not allow to read and write.
    NoAccess,
}

/// The first bytes of a section.
#[derive(Debug)]
pub(super) struct Section {
    file: File,
    bytes: usize,
    failed: FirstFailure,
}

impl Section {
    /// The section of a handle of the caller.
    pub(super) fn find(
        pointers: PointerTrust,
        handle: usize,
        bytes: usize,
        is_written: bool,
    ) -> Result<Self, BadSection> {
        // An NT handle is never zero.
        let number = i32::try_from(handle).ok().filter(|number| *number > 0);
        let descriptor = number.and_then(|number| pointers.take_descriptor(number));
        Self::new(descriptor.ok_or(BadSection::NotOpen)?, bytes, is_written)
    }

    fn new(descriptor: OwnedFd, bytes: usize, is_written: bool) -> Result<Self, BadSection> {
        let file = File::from(descriptor);
        // Only files in memory have seals.
        let seals = control(&file, libc::F_GET_SEALS).ok_or(BadSection::OtherKind)?;
        let metadata = file.metadata().map_err(|_| BadSection::OtherKind)?;
        let flags = control(&file, libc::F_GETFL).ok_or(BadSection::OtherKind)?;
        let access = flags & libc::O_ACCMODE;
        let is_sealed = seals & (libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE) != 0;
        let is_writable = access == libc::O_RDWR && !is_sealed;
        if access == libc::O_WRONLY || (is_written && !is_writable) {
            return Err(BadSection::NoAccess);
        }
        if metadata.len() < bytes as u64 {
            return Err(BadSection::TooShort(metadata.len()));
        }
        Ok(Self { file, bytes, failed: FirstFailure::default() })
    }

    /// Whether the file still has this many bytes: a write would make it longer.
    fn has(&self, end: usize) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() >= end as u64)
    }
}

/// Asks about a descriptor.
fn control(file: &File, command: i32) -> Option<i32> {
    // SAFETY: The commands of this file have no pointers.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command) };
    (answer >= 0).then_some(answer)
}

/// A descriptor of this process once more; `None` if it is not open.
pub(crate) fn duplicate(number: i32) -> Option<OwnedFd> {
    // SAFETY: The call has no pointers, and takes any number.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: The descriptor was just opened, and nothing else owns it.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

impl ExistingMemory for Section {
    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let Some(range) = inside(self.bytes, offset, into.len()) else {
            into.fill(0);
            return;
        };
        if self.file.read_exact_at(into, offset).is_err() {
            for (at, part) in by_pages(range) {
                if self.file.read_exact_at(&mut into[part.clone()], at as u64).is_err() {
                    into[part].fill(0);
                    self.failed.note(at, false);
                }
            }
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let Some(range) = inside(self.bytes, offset, bytes.len()) else { return };
        if self.has(range.end) && self.file.write_all_at(bytes, offset).is_ok() {
            return;
        }
        for (at, part) in by_pages(range) {
            let is_there = self.has(at + part.len());
            if !is_there || self.file.write_all_at(&bytes[part], at as u64).is_err() {
                self.failed.note(at, true);
            }
        }
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn failed_access(&self) -> Option<FailedAccess> {
        self.failed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// A new section.
    fn create(bytes: u64) -> File {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: The name is a C string with static lifetime.
        let number = unsafe { libc::memfd_create(c"section".as_ptr(), flags) };
        assert!(number >= 0);
        // SAFETY: The descriptor was just opened, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(number) };
        file.set_len(bytes).unwrap();
        file
    }

    fn open(file: &File, bytes: usize) -> Result<Section, BadSection> {
        Section::new(duplicate(file.as_raw_fd()).unwrap(), bytes, true)
    }

    #[test]
    fn the_bytes_are_those_of_the_file() {
        let file = create(3 * PAGE as u64);
        let section = open(&file, 2 * PAGE).unwrap();
        section.write(PAGE as u64 - 1, &[1, 2]);
        let mut read = [9; 3];
        file.read_exact_at(&mut read, PAGE as u64 - 2).unwrap();
        assert_eq!(read, [0, 1, 2]);
        section.read(PAGE as u64 - 1, &mut read);
        assert_eq!((read, section.failed_access()), ([1, 2, 0], None));
    }

    #[test]
    fn a_section_that_is_made_shorter_stays_so() {
        let file = create(2 * PAGE as u64);
        let section = open(&file, 2 * PAGE).unwrap();
        section.write(0, &[7; 2 * PAGE]);
        file.set_len(PAGE as u64).unwrap();
        let mut read = [9; 2 * PAGE];
        section.read(0, &mut read);
        assert!(read[..PAGE].iter().all(|byte| *byte == 7));
        assert!(read[PAGE..].iter().all(|byte| *byte == 0));
        let failure = FailedAccess { offset: PAGE as u64, is_write: false };
        assert_eq!(section.failed_access(), Some(failure));
        section.write(0, &[5; 2 * PAGE]);
        assert_eq!(file.metadata().unwrap().len(), PAGE as u64);
        section.read(0, &mut read[..1]);
        assert_eq!(read[0], 5);
    }

    #[test]
    fn other_descriptors_are_no_sections() {
        let kind = |file: &File| open(file, PAGE).err();
        assert_eq!(kind(&File::open("/dev/null").unwrap()), Some(BadSection::OtherKind));
        assert_eq!(kind(&File::open("/proc/self/exe").unwrap()), Some(BadSection::OtherKind));
        assert_eq!(kind(&create(PAGE as u64 - 1)), Some(BadSection::TooShort(PAGE as u64 - 1)));
        let sealed = create(PAGE as u64);
        // SAFETY: The call has no pointers.
        unsafe { libc::fcntl(sealed.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
        assert_eq!(kind(&sealed), Some(BadSection::NoAccess));
        let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        assert_eq!(kind(&File::open(path).unwrap()), Some(BadSection::NoAccess));
        let trusted = PointerTrust::Trusted;
        for handle in [0, 0x7fff_ffff, 0x7f12_3456_7000] {
            let found = Section::find(trusted, handle, PAGE, true);
            assert_eq!(found.err(), Some(BadSection::NotOpen), "{handle:#x}");
        }
    }
}
