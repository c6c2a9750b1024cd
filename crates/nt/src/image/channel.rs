//! What crosses from the process of a flight to its parent: shared memory with the crash record and
//! with text that is appended while the flight runs.
//!
//! The memory outlives the process, so whatever ends the process, nothing that was appended is lost.
//!
//! # Invariants
//!
//! 1. The memory stays mapped while the value exists; it is mapped for the rest of the process once
//!    faults are contained.
//! 2. One process appends, under the lock of the log; the other reads after that process has ended.
#![expect(unsafe_code, reason = "shares memory between processes")]

use super::crash::{CrashKind, CrashRecord};
use super::signals;
use super::stack_walk::MappedObjects;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of the shared memory. It is sparse: only what is written takes memory.
const SIZE: usize = 1 << 30;

/// The room that is kept for the end of the text.
const END: usize = 16 << 20;

/// Where the length of the text is.
const LENGTH: usize = MAPS + signals::MAPS_BYTES;

/// Where the list of mappings is.
const MAPS: usize = 64 << 10;

/// Where the numbers are.
const NUMBERS: usize = LENGTH + 64;

/// Where the text begins.
const TEXT: usize = LENGTH + 4096;

/// A number that the flight leaves for its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The address at which the image was loaded.
    ImageBase = 0,
    /// Its size.
    ImageSize = 1,
    /// The address of the first absent import.
    Traps = 2,
    /// The number of bytes of absent imports.
    TrapBytes = 3,
    /// The sign of life of the flight: it changes while the flight can end its driver.
    Heartbeat = 4,
    /// How many pieces of text did not fit.
    LeftOut = 5,
    /// One as soon as the process of the flight is ready to load the driver.
    Ready = 6,
}

/// The shared memory of a flight.
#[derive(Debug)]
pub struct Channel {
    file: OwnedFd,
    address: usize,
}

/// A file in memory, for what a child process prints. Other child processes do not inherit it.
pub fn text_file() -> io::Result<File> {
    memory_file(c"windtunnel-printed", libc::MFD_CLOEXEC).map(File::from)
}

/// A file in memory.
fn memory_file(name: &CStr, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: The name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor is new, and only this value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Channel {
    /// Creates the memory. The descriptor is inherited by child processes.
    pub fn create() -> io::Result<Self> {
        let file = memory_file(c"windtunnel-flight", 0)?;
        let size = libc::off_t::try_from(SIZE).map_err(io::Error::other)?;
        // SAFETY: The descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::map(file)
    }

    /// Opens the memory that the parent process created. Fails if the descriptor is not one.
    pub fn inherited(descriptor: RawFd) -> io::Result<Self> {
        // SAFETY: Asks whether the descriptor is open.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The descriptor is open, and the command line gives it to this value.
        Self::map(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: A new mapping at an address that the system chooses overwrites nothing.
        let at = unsafe { libc::mmap(ptr::null_mut(), SIZE, rights, flags, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, address: at.expose_provenance() })
    }

    /// The descriptor, for the command line of the child process.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Handles the faults of this process from now on: the record goes into this memory.
    pub fn contain_faults(self) -> &'static Self {
        let channel: &'static Self = Box::leak(Box::new(self));
        let record = ptr::with_exposed_provenance_mut(channel.address);
        let maps = ptr::with_exposed_provenance_mut(channel.address + MAPS);
        // SAFETY: The memory is mapped until the process ends, and nothing else is written there.
        unsafe { signals::contain_faults(record, maps) };
        channel
    }

    /// Whether the process ended with a crash record.
    pub fn has_record(&self) -> bool {
        self.record().kind() != CrashKind::None
    }

    /// The crash record; of no kind if the process ended otherwise.
    pub fn record(&self) -> CrashRecord {
        let at = ptr::with_exposed_provenance::<CrashRecord>(self.address);
        // SAFETY: The memory is mapped, and any bytes are a valid record.
        unsafe { at.read_volatile() }
    }

    /// Writes a crash record and the list of mappings from outside of the flight's process.
    pub(super) fn set_record(&self, record: &CrashRecord, maps: &str) {
        let at = ptr::with_exposed_provenance_mut::<u8>(self.address + MAPS);
        let length = maps.len().min(signals::MAPS_BYTES);
        // SAFETY: The range is inside the mapping, and the flight's threads do not run.
        unsafe { at.copy_from_nonoverlapping(maps.as_ptr(), length) };
        let at = ptr::with_exposed_provenance_mut::<CrashRecord>(self.address);
        // SAFETY: As above.
        unsafe { at.write_volatile(*record) };
    }

    /// The files whose code was mapped when the record was written.
    pub fn mapped_objects(&self) -> MappedObjects {
        let at = ptr::with_exposed_provenance::<u8>(self.address + MAPS);
        // SAFETY: The memory is mapped, any bytes are valid, and the process that wrote has ended.
        let bytes = unsafe { std::slice::from_raw_parts(at, signals::MAPS_BYTES) };
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        MappedObjects::parse(&String::from_utf8_lossy(text))
    }

    /// Appends text. What does not fit is left out and counted: room is kept for the end.
    pub fn append(&self, text: &[u8]) {
        self.append_below(SIZE - END, text);
    }

    /// Appends the last text, for which room was kept.
    pub fn append_end(&self, text: &[u8]) {
        self.append_below(SIZE, text);
    }

    fn append_below(&self, limit: usize, text: &[u8]) {
        let length = self.cell(LENGTH);
        let start = usize::try_from(length.load(Ordering::Relaxed)).unwrap_or(SIZE);
        if start > limit - TEXT || text.len() > limit - TEXT - start {
            self.set_number(Number::LeftOut, self.number(Number::LeftOut) + 1);
            return;
        }
        let to = ptr::with_exposed_provenance_mut::<u8>(self.address + TEXT + start);
        // SAFETY: The range is inside the mapping, and this thread alone appends (invariant 2).
        unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        length.store((start + text.len()) as u64, Ordering::Release);
    }

    /// The length of the text so far.
    pub(super) fn length(&self) -> u64 {
        self.cell(LENGTH).load(Ordering::Acquire)
    }

    /// The text so far.
    pub fn text(&self) -> Vec<u8> {
        let length = self.cell(LENGTH).load(Ordering::Acquire);
        let length = usize::try_from(length).unwrap_or(0).min(SIZE - TEXT);
        let mut text = vec![0; length];
        let from = ptr::with_exposed_provenance::<u8>(self.address + TEXT);
        // SAFETY: The range is inside the mapping, and was written before its length was.
        unsafe { text.as_mut_ptr().copy_from_nonoverlapping(from, length) };
        text
    }

    /// Leaves a number.
    pub fn set_number(&self, number: Number, value: u64) {
        self.cell(NUMBERS + 8 * number as usize).store(value, Ordering::Release);
    }

    /// A number that was left, or zero.
    pub fn number(&self, number: Number) -> u64 {
        self.cell(NUMBERS + 8 * number as usize).load(Ordering::Acquire)
    }

    fn cell(&self, offset: usize) -> &AtomicU64 {
        let at = ptr::with_exposed_provenance::<AtomicU64>(self.address + offset);
        // SAFETY: The address is inside the mapping and aligned; any bytes are a valid number.
        unsafe { &*at }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let at = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: The mapping is this value's own.
        unsafe { libc::munmap(at, SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_channel_keeps_what_was_sent_and_has_room_for_the_end() {
        let channel = Channel::create().unwrap();
        channel.append(b"one\n");
        channel.cell(LENGTH).store((SIZE - TEXT - END - 4) as u64, Ordering::Release);
        channel.append(b"two\n");
        assert_eq!(channel.number(Number::LeftOut), 0);
        channel.append(b"three\n");
        channel.append(b"four\n");
        assert_eq!(channel.number(Number::LeftOut), 2);
        channel.append_end(b"=end\n");
        assert_eq!(channel.number(Number::LeftOut), 2);
        let text = channel.text();
        assert!(text.starts_with(b"one\n") && text.ends_with(b"two\n=end\n"));
    }

    #[test]
    fn text_and_numbers_are_read_by_another_mapping() {
        assert!(size_of::<CrashRecord>() <= MAPS);
        assert_eq!(LENGTH % align_of::<AtomicU64>(), 0);
        let here = Channel::create().unwrap();
        // SAFETY: The descriptor is open.
        let copy = unsafe { libc::dup(here.descriptor()) };
        let there = Channel::inherited(copy).unwrap();
        here.append(b"one\n");
        here.append(b"two\n");
        here.set_number(Number::Traps, 7);
        assert_eq!(there.text(), b"one\ntwo\n");
        assert_eq!((there.number(Number::Traps), there.number(Number::ImageBase)), (7, 0));
        assert_eq!(there.record().kind(), CrashKind::None);
        assert!(Channel::inherited(9999).is_err());
    }
}
