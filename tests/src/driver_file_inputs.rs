//! Arbitrary bytes as the file of a driver or of its symbols: they are read or refused, without a
//! panic of ours.

use nt::image::{
    Binding, CrashRecord, DriverImage, LoadedImage, MappedObjects, Symbols,
    places_in_shared_object, walk_stack,
};
use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads bytes as an image or a shared object, as they are and as the body of a file with the magic
/// number of each. Returns whether they could be loaded.
pub fn read_as_driver_file(bytes: &[u8]) -> bool {
    for magic in [&b"MZ"[..], b"\x7fELF\x02\x01\x01"] {
        if let Some(rest) = bytes.get(magic.len()..) {
            read(&[magic, rest].concat());
        }
    }
    read(bytes)
}

fn read(file: &[u8]) -> bool {
    match DriverImage::parse(file) {
        Ok(image) => {
            assert!(image.import_names().iter().all(|name| name.len() <= file.len()));
            true
        }
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            false
        }
    }
}

/// Loads bytes as an image without any import, if they can be read as the body of one: it is
/// mapped, relocated, bound and protected. Its code does not run.
pub fn load_as_image(bytes: &[u8]) {
    let Some(rest) = bytes.get(2..) else { return };
    let Ok(DriverImage::Image(image)) = DriverImage::parse(&[b"MZ", rest].concat()) else {
        return;
    };
    let loaded = LoadedImage::load(image, |_| Binding::Absent);
    if let Err(error) = loaded {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}

/// The offsets in a driver's code whose places are read.
const OFFSETS: Range<u32> = 0..0x8000;

/// Reads bytes as a symbol file: as a PDB, or as the debug information and the unwind tables of a
/// shared object. Returns whether a place was found.
pub fn read_as_symbol_file(bytes: &[u8]) -> bool {
    let file = SymbolFile::new(bytes);
    let offsets: Vec<u32> = OFFSETS.step_by(0x100).collect();
    let places = if bytes.starts_with(b"\x7fELF") {
        walk_stacks(&file.0);
        while_reading(|| places_in_shared_object(&file.0, &offsets))
    } else {
        let Some(signature) = signature(bytes) else { return false };
        match while_reading(|| Symbols::of_pdb(&file.0, signature)) {
            Ok(symbols) => symbols.places(&offsets),
            Err(error) => {
                assert_eq!(error.0.lines().count(), 1, "{error:?}");
                return false;
            }
        }
    };
    for place in places.iter().flatten() {
        assert_eq!(place.to_string().lines().count(), 1, "{place:?}");
    }
    places.iter().any(Option::is_some)
}

/// Walks stacks from many instructions of a shared object.
fn walk_stacks(path: &Path) {
    const BASE: u64 = 0x7f00_0000_0000;
    const STACK: u64 = 0x7ffe_0000_0000;
    const FRAMES: usize = 256;
    let end = BASE + u64::from(OFFSETS.end);
    let maps = format!("{BASE:x}-{end:x} r-xp 00000000 00:00 1 {}\n", path.display());
    let objects = MappedObjects::parse(&maps);
    let mut record = Box::new(CrashRecord::EMPTY);
    record.registers = [STACK; 16];
    (record.stack_start, record.stack_bytes) = (STACK, record.stack.len() as u64);
    for (index, word) in record.stack.chunks_exact_mut(8).enumerate() {
        let offset = index as u64 * 0x35 % u64::from(OFFSETS.end);
        word.copy_from_slice(&(BASE + offset).to_le_bytes());
    }
    for offset in OFFSETS.step_by(0x400) {
        record.rip = BASE + u64::from(offset);
        let frames = while_reading(|| walk_stack(&record, &objects));
        assert!((1..=FRAMES).contains(&frames.len()), "{} frames", frames.len());
    }
}

/// The signature of a PDB, which is behind the number of its format.
fn signature(bytes: &[u8]) -> Option<[u8; 16]> {
    const FORMAT: [u8; 4] = 20_000_404_u32.to_le_bytes();
    const DISTANCE: usize = 12;
    let at = bytes.windows(FORMAT.len()).position(|part| part == FORMAT)? + DISTANCE;
    bytes.get(at..at + 16)?.try_into().ok()
}

/// A file with bytes, which is removed when it drops.
struct SymbolFile(PathBuf);

impl SymbolFile {
    fn new(bytes: &[u8]) -> Self {
        let thread = std::thread::current().id();
        let name = format!("windtunnel-symbols-{}-{thread:?}", std::process::id());
        let path = std::env::temp_dir().join(name.replace(['(', ')'], ""));
        fs::write(&path, bytes).expect("a file in the temporary folder");
        Self(path)
    }
}

impl Drop for SymbolFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // It stays if another one removed it.
    }
}

thread_local! {
    /// Whether a reader of symbols, which may panic, runs on this thread.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// How many panics of readers of symbols were contained.
static CONTAINED: AtomicU64 = AtomicU64::new(0);

/// How many panics of readers of symbols were contained in this process.
pub fn contained_panics() -> u64 {
    CONTAINED.load(Ordering::Relaxed)
}

/// Runs a reader of symbols, whose panics are contained and not printed: a fuzzer would end at one.
fn while_reading<T>(read: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if READS.get() {
                CONTAINED.fetch_add(1, Ordering::Relaxed);
            } else {
                before(info);
            }
        }));
    });
    READS.set(true);
    let result = read();
    READS.set(false);
    result
}
