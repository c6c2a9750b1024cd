//! Memory of this process that is mapped page by page, with an inaccessible page on each side.
#![expect(unsafe_code, reason = "maps memory")]

use super::parse::ImageError;
use std::io;
use std::ops::Range;
use std::ptr;

/// The page size.
pub(super) const PAGE: usize = 4096;

/// What a range of pages allows. No range is both writable and executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// No access.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Reading and executing.
    Execute,
}

impl Protection {
    /// The rights as the system has them.
    pub(super) fn rights(self) -> i32 {
        match self {
            Protection::None => libc::PROT_NONE,
            Protection::Read => libc::PROT_READ,
            Protection::Write => libc::PROT_READ | libc::PROT_WRITE,
            Protection::Execute => libc::PROT_READ | libc::PROT_EXEC,
        }
    }
}

/// Mapped memory between two inaccessible pages. It is unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The first byte, behind the first inaccessible page.
    start: usize,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` bytes, rounded up to pages, writable and zero.
    pub(super) fn new(bytes: usize) -> Result<Self, ImageError> {
        let bytes = bytes.next_multiple_of(PAGE);
        let length = bytes + 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: A new mapping at an address that the system chooses overwrites nothing.
        let whole = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if whole == libc::MAP_FAILED {
            let why = io::Error::last_os_error();
            return Err(ImageError(format!("cannot be mapped: {length} bytes of memory: {why}")));
        }
        let mapping = Self { start: whole.expose_provenance() + PAGE, bytes };
        mapping.protect(0..bytes, Protection::Write)?;
        Ok(mapping)
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The addresses of the mapping.
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Writes bytes. The range has to be inside the mapping and writable.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.bytes), "the range is inside the mapping");
        let to = ptr::with_exposed_provenance_mut::<u8>(self.start + offset);
        // SAFETY: The range is inside this mapping, which no reference points into; `new` and the
        // callers of `protect` keep it writable until the last write.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Changes what a range of pages allows.
    pub(super) fn protect(&self, range: Range<usize>, to: Protection) -> Result<(), ImageError> {
        let range = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE).min(self.bytes);
        let at = ptr::with_exposed_provenance_mut(self.start + range.start);
        // SAFETY: The range is inside this mapping, which no reference points into.
        let failed = unsafe { libc::mprotect(at, range.len(), to.rights()) } != 0;
        if failed {
            let why = io::Error::last_os_error();
            return Err(ImageError(format!("cannot be mapped: protecting its pages: {why}")));
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let whole = ptr::with_exposed_provenance_mut(self.start - PAGE);
        // SAFETY: The mapping with its two inaccessible pages is this value's own.
        unsafe { libc::munmap(whole, self.bytes + 2 * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_and_its_pages_are_protected() {
        let mapping = Mapping::new(5000).unwrap();
        assert_eq!(mapping.range().len(), 2 * PAGE);
        mapping.write(4998, b"ab");
        mapping.protect(0..PAGE, Protection::None).unwrap();
        mapping.protect(PAGE..2 * PAGE, Protection::Read).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let rights = |at: usize| {
            let begins = format!("{at:x}-");
            let line = maps.lines().find(|line| line.starts_with(&begins));
            line.map(|line| line.split(' ').nth(1).unwrap().to_owned())
        };
        assert_eq!(rights(mapping.start() + PAGE).as_deref(), Some("r--p"));
        let at = ptr::with_exposed_provenance::<u8>(mapping.start() + 4998);
        // SAFETY: The page can be read.
        assert_eq!(unsafe { at.read() }, b'a');
    }
}
