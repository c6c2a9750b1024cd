//! What crosses from the process of a flight to its parent: shared memory with the crash record and
//! with text that is appended while the flight runs.
//!
//! The memory outlives the process, so whatever ends the process, nothing that was appended is lost.
//!
//! Code of the driver can write there, too. So each piece of text and the crash record have a check:
//! a hash with a key that the parent draws for the flight. The child takes the key out of the memory
//! before the driver is loaded. What has another check is not what the child wrote, and the parent
//! does not read it. This finds stray writes and text that a driver writes there; it does not stop a
//! driver that looks for the key in its process.
//!
//! # Invariants
//!
//! 1. The memory stays mapped while the value exists; it is mapped for the rest of the process once
//!    faults are contained. Its size is sealed: no process can make it smaller, so that a mapped
//!    page is always there.
//! 2. One process appends, under the lock of the log; the other reads after that process has ended.
//! 3. The parent copies what it reads before it compares the check.
#![expect(unsafe_code, reason = "shares memory between processes")]

use super::crash::{CrashKind, CrashRecord};
use super::signals;
use super::stack_walk::MappedObjects;
use std::ffi::CStr;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The size of the shared memory. It is sparse: only what is written takes memory.
const SIZE: usize = 1 << 30;

/// The room that is kept for the end of the text.
const END: usize = 16 << 20;

/// Where the length of the text is.
const LENGTH: usize = MAPS + signals::MAPS_BYTES;

/// Where the list of mappings is.
const MAPS: usize = 64 << 10;

/// Where the key is until the child takes it.
const KEY: usize = LENGTH + 16;

/// Where the check of the crash record is.
const RECORD_CHECK: usize = LENGTH + 32;

/// Where the numbers are.
const NUMBERS: usize = LENGTH + 64;

/// Where the text begins.
const TEXT: usize = LENGTH + 4096;

/// What is in front of each piece of text: its length, and its check. A length of zero ends the text.
const HEADER: usize = 16;

/// The alignment of a piece.
const ALIGNMENT: usize = 8;

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
}

/// The key of the checks of a flight.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64, u64);

impl Key {
    fn random() -> Self {
        let number = || RandomState::new().hash_one(());
        Self(number(), number())
    }

    /// The check of bytes at a place.
    #[expect(deprecated, reason = "the hash of the standard library with a key of one's own")]
    fn check(self, place: usize, parts: &[&[u8]]) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.0, self.1);
        hasher.write_usize(place);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// The shared memory of a flight.
#[derive(Debug)]
pub struct Channel {
    file: OwnedFd,
    address: usize,
    key: Key,
    /// The length of the text that this process has appended, with the headers.
    appended: AtomicUsize,
}

/// The text of a flight, as far as it is what the flight wrote.
#[derive(Debug)]
pub struct Pieces<'a> {
    channel: &'a Channel,
    at: usize,
    is_damaged: bool,
}

impl Pieces<'_> {
    /// Whether the text behind the last piece was written by something else than the flight.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }
}

impl Iterator for Pieces<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let (channel, at) = (self.channel, self.at);
        let written = channel.cell(LENGTH).load(Ordering::Acquire);
        let length = match at {
            _ if self.is_damaged => return None,
            at if at > SIZE - TEXT - HEADER => 0,
            at => channel.cell(TEXT + at).load(Ordering::Acquire),
        };
        if length == 0 {
            // A process that is killed may have appended without the new length.
            self.is_damaged = written > at as u64;
            return None;
        }
        let piece = usize::try_from(length).ok().and_then(|length| channel.piece(at, length));
        self.is_damaged = piece.is_none();
        self.at = at + HEADER + piece.as_ref().map_or(0, Vec::len).next_multiple_of(ALIGNMENT);
        piece
    }
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
    /// Where the text of the flight begins in the memory.
    pub const TEXT_START: u64 = TEXT as u64;

    /// Creates the memory. The descriptor is inherited by child processes.
    pub fn create() -> io::Result<Self> {
        let file = memory_file(c"windtunnel-flight", libc::MFD_ALLOW_SEALING)?;
        let size = libc::off_t::try_from(SIZE).map_err(io::Error::other)?;
        // SAFETY: The descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: The descriptor is open.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let channel = Self::map(file, Key::random())?;
        channel.cell(KEY).store(channel.key.0, Ordering::Release);
        channel.cell(KEY + 8).store(channel.key.1, Ordering::Release);
        Ok(channel)
    }

    /// Opens the memory that the parent process created, and takes the key. Fails if the descriptor
    /// is not one.
    pub fn inherited(descriptor: RawFd) -> io::Result<Self> {
        // SAFETY: Asks whether the descriptor is open.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The descriptor is open, and the command line gives it to this value.
        let mut channel = Self::map(unsafe { OwnedFd::from_raw_fd(descriptor) }, Key(0, 0))?;
        let take = |offset: usize| channel.cell(offset).swap(0, Ordering::AcqRel);
        channel.key = Key(take(KEY), take(KEY + 8));
        Ok(channel)
    }

    /// Whether the child has taken the key. Before, no code of a driver runs in its process.
    pub fn is_taken(&self) -> bool {
        let key = [KEY, KEY + 8].map(|offset| self.cell(offset).load(Ordering::Acquire));
        Key(key[0], key[1]) != self.key
    }

    fn map(file: OwnedFd, key: Key) -> io::Result<Self> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: A new mapping at an address that the system chooses overwrites nothing.
        let at = unsafe { libc::mmap(ptr::null_mut(), SIZE, rights, flags, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, address: at.expose_provenance(), key, appended: AtomicUsize::new(0) })
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
        unsafe { signals::contain_faults(record, maps, channel) };
        channel
    }

    /// Whether the process ended with a crash record.
    pub fn has_record(&self) -> bool {
        self.record().kind() != CrashKind::None
    }

    /// Whether something is in the place of the crash record that the flight did not write.
    pub fn has_damaged_record(&self) -> bool {
        self.shown_record().kind() != CrashKind::None && !self.has_record()
    }

    /// The crash record; of no kind if the process ended otherwise.
    pub fn record(&self) -> CrashRecord {
        let record = self.shown_record();
        let check = self.cell(RECORD_CHECK).load(Ordering::Acquire);
        let is_own = record.kind() == CrashKind::None
            || check == self.record_check(&self.bytes(0, size_of::<CrashRecord>()), record.kind());
        if is_own { record } else { CrashRecord::EMPTY }
    }

    /// What is in the place of the crash record.
    fn shown_record(&self) -> CrashRecord {
        let at = ptr::with_exposed_provenance::<CrashRecord>(self.address);
        // SAFETY: The memory is mapped, and any bytes are a valid record.
        unsafe { at.read_volatile() }
    }

    /// The crash record and the list of mappings are complete but for the kind of the record, which
    /// is to be this one. A signal handler may call this.
    pub(super) fn seal_record(&self, kind: CrashKind) {
        let at = ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: The memory is mapped, and the thread that wrote the record calls this.
        let record = unsafe { std::slice::from_raw_parts(at, size_of::<CrashRecord>()) };
        self.cell(RECORD_CHECK).store(self.record_check(record, kind), Ordering::Release);
    }

    /// The check of the bytes of a record, which begin with its kind, and of the list of mappings.
    fn record_check(&self, record: &[u8], kind: CrashKind) -> u64 {
        let at = ptr::with_exposed_provenance::<u8>(self.address + MAPS);
        // SAFETY: The memory is mapped, and any bytes are valid.
        let maps = unsafe { std::slice::from_raw_parts(at, signals::MAPS_BYTES) };
        let maps = maps.split(|byte| *byte == 0).next().unwrap_or_default();
        self.key.check(kind as usize, &[&record[size_of::<u32>()..], maps])
    }

    /// A copy of bytes of the memory.
    fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let from = ptr::with_exposed_provenance::<u8>(self.address + offset);
        // SAFETY: The callers name a range inside the mapping.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from, length) };
        bytes
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
        self.seal_record(record.kind());
    }

    /// The files whose code was mapped when the record was written.
    pub fn mapped_objects(&self) -> MappedObjects {
        if !self.has_record() {
            return MappedObjects::default();
        }
        let bytes = self.bytes(MAPS, signals::MAPS_BYTES);
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
        let start = self.appended.load(Ordering::Relaxed);
        let end = start + HEADER + text.len().next_multiple_of(ALIGNMENT);
        if end > limit - TEXT {
            self.set_number(Number::LeftOut, self.number(Number::LeftOut) + 1);
            return;
        }
        let to = ptr::with_exposed_provenance_mut::<u8>(self.address + TEXT + start + HEADER);
        // SAFETY: The range is inside the mapping, and this thread alone appends (invariant 2).
        unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        self.cell(TEXT + start + 8).store(self.key.check(start, &[text]), Ordering::Relaxed);
        self.cell(TEXT + start).store(text.len() as u64, Ordering::Release);
        self.appended.store(end, Ordering::Release);
        self.cell(LENGTH).store(end as u64, Ordering::Release);
    }

    /// The length of the text that this process has appended.
    pub(super) fn length(&self) -> u64 {
        self.appended.load(Ordering::Acquire) as u64
    }

    /// The pieces of the text so far.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { channel: self, at: 0, is_damaged: false }
    }

    /// The piece of text with this length. `None` if the flight did not write it.
    fn piece(&self, at: usize, length: usize) -> Option<Vec<u8>> {
        let room = SIZE - TEXT - HEADER - at;
        let text = self.bytes(TEXT + at + HEADER, Some(length).filter(|length| *length <= room)?);
        let check = self.cell(TEXT + at + 8).load(Ordering::Acquire);
        (self.key.check(at, &[&text]) == check).then_some(text)
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

    fn text(channel: &Channel) -> (Vec<u8>, bool) {
        let mut pieces = channel.pieces();
        let text: Vec<Vec<u8>> = pieces.by_ref().collect();
        (text.concat(), pieces.is_damaged())
    }

    /// The other end of a channel, as the process of a flight has it.
    fn child_of(channel: &Channel) -> Channel {
        // SAFETY: The descriptor is open.
        let copy = unsafe { libc::dup(channel.descriptor()) };
        Channel::inherited(copy).unwrap()
    }

    /// Writes as a driver may.
    fn overwrite(channel: &Channel, offset: usize, bytes: &[u8]) {
        let at = ptr::with_exposed_provenance_mut::<u8>(channel.address + offset);
        // SAFETY: The tests name ranges inside the mapping.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    #[test]
    fn a_full_channel_keeps_what_was_sent_and_has_room_for_the_end() {
        let channel = Channel::create().unwrap();
        channel.append(b"one\n");
        let part = vec![b'.'; 1 << 20];
        while channel.number(Number::LeftOut) == 0 {
            channel.append(&part);
        }
        channel.append(&part);
        assert_eq!(channel.number(Number::LeftOut), 2);
        channel.append_end(b"=end\n");
        assert_eq!(channel.number(Number::LeftOut), 2);
        let mut pieces = channel.pieces();
        assert_eq!(pieces.next().as_deref(), Some(&b"one\n"[..]));
        assert_eq!(pieces.by_ref().last().as_deref(), Some(&b"=end\n"[..]));
        assert!(!pieces.is_damaged());
    }

    #[test]
    fn text_and_numbers_are_read_by_another_mapping() {
        assert!(size_of::<CrashRecord>() <= MAPS);
        assert_eq!(LENGTH % align_of::<AtomicU64>(), 0);
        let here = Channel::create().unwrap();
        assert!(!here.is_taken());
        let there = child_of(&here);
        assert!(here.is_taken() && there.key == here.key);
        assert_eq!(text(&here), (Vec::new(), false));
        there.append(b"one\n");
        there.append(b"two\n");
        there.set_number(Number::Traps, 7);
        assert_eq!(text(&here), (b"one\ntwo\n".to_vec(), false));
        assert_eq!((here.number(Number::Traps), here.number(Number::ImageBase)), (7, 0));
        assert_eq!(here.record().kind(), CrashKind::None);
        assert!(Channel::inherited(9999).is_err());
    }

    #[test]
    fn no_process_can_change_the_size() {
        let channel = Channel::create().unwrap();
        for size in [0, 1 << 12, 1 << 40] {
            // SAFETY: The descriptor is open.
            let result = unsafe { libc::ftruncate(channel.descriptor(), size) };
            assert_eq!(result, -1, "{size}");
        }
        // SAFETY: The descriptor is open.
        let result = unsafe { libc::fcntl(channel.descriptor(), libc::F_ADD_SEALS, 0) };
        assert_eq!(result, -1, "the seals are sealed");
    }

    #[test]
    fn what_the_flight_did_not_write_is_not_read() {
        let second = TEXT + HEADER + 8;
        for (offset, bytes, expected) in [
            (TEXT + HEADER + 1, &b"x"[..], &b""[..]),
            (TEXT, &[0; 16], b""),
            (TEXT, &[0xff; 16], b""),
            (second, &[9], b"one\n"),
            (second + HEADER, b"b", b"one\n"),
            // A further piece with a made-up check; zeros behind the text are no writes.
            (second + HEADER + 8, &[4], b"one\ntwo\n"),
            (LENGTH, &[0xff; 8], b"one\ntwo\n"),
        ] {
            let here = Channel::create().unwrap();
            let there = child_of(&here);
            there.append(b"one\n");
            there.append(b"two\n");
            assert_eq!(text(&here), (b"one\ntwo\n".to_vec(), false));
            overwrite(&there, offset, bytes);
            assert_eq!(text(&here), (expected.to_vec(), true), "{offset:#x} {bytes:?}");
        }
    }

    #[test]
    fn a_piece_in_the_place_of_another_is_not_read() {
        let here = Channel::create().unwrap();
        let there = child_of(&here);
        there.append(b"one\n");
        there.append(b"two\n");
        let first = here.bytes(TEXT, HEADER + 8);
        overwrite(&there, TEXT + HEADER + 8, &first);
        assert_eq!(text(&here), (b"one\n".to_vec(), true));
    }

    #[test]
    fn a_crash_record_that_the_flight_did_not_write_is_none() {
        let here = Channel::create().unwrap();
        let there = child_of(&here);
        let mut record = Box::new(CrashRecord::EMPTY);
        record.set_kind(CrashKind::Access);
        record.address = 7;
        there.set_record(&record, "1000-2000 r-xp 00000000 08:01 42 /lib/one.so\n");
        assert_eq!((here.record().address, here.has_damaged_record()), (7, false));
        assert!(here.mapped_objects().find(0x1000).is_some());
        overwrite(&there, MAPS + 40, b"x");
        assert!(!here.has_record() && here.has_damaged_record());
        assert!(here.mapped_objects().find(0x1000).is_none());
        there.set_record(&record, "");
        assert!(here.has_record());
        overwrite(&there, 0, &[5]);
        assert!(!here.has_record() && here.has_damaged_record());
        overwrite(&there, 0, &[0; 4]);
        assert!(!here.has_record() && !here.has_damaged_record());
    }
}
