//! Damaged files, each drawn from a number: flipped bits, other numbers in tables, other lengths.

use crate::random_steps::Rng;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A driver image (`.sys`).
    Image,
    /// A driver as a shared object (`.so`).
    SharedObject,
    /// The symbol file of an image (`.pdb`).
    Pdb,
    /// A driver as a shared object whose debug information and unwind tables are damaged.
    Dwarf,
    /// Steps.
    Steps,
    /// An allow file.
    Allow,
}

impl FileKind {
    /// All kinds, in the order in which they are drawn.
    pub const ALL: [Self; 6] =
        [Self::Image, Self::SharedObject, Self::Pdb, Self::Dwarf, Self::Steps, Self::Allow];

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Image => "sys",
            Self::SharedObject | Self::Dwarf => "so",
            Self::Pdb => "pdb",
            Self::Steps => "steps",
            Self::Allow => "toml",
        }
    }
}

/// A whole file.
pub struct SeedFile {
    kind: FileKind,
    /// Its name without extension.
    pub name: &'static str,
    bytes: Vec<u8>,
}

/// A damaged file.
pub struct DamagedFile {
    /// What it was before.
    pub kind: FileKind,
    /// The name of the whole file, without extension.
    pub seed: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The drivers of the seeds.
const DRIVERS: [&str; 5] = ["nothing", "compute", "capture", "display", "render"];

/// The symbol files of the seeds. They are larger.
const SYMBOLS: [&str; 2] = ["capture", "display"];

const ALLOW: &str = "# Known findings.
[[allow]]
rule = \"KMD-DESTROY-002\"
where = \"DxgkDdiDestroyAllocation, pAllocationList\"
reason = \"known; ticket 12\"

[[allow]]
rule = \"WT-CRASH-001\"
where = \"DxgkDdiDpcRoutine\"
reason = 'the DPC of the \"old\" engine'
driver = \"compute.sys\"
scenario = \"submit-fill-and-copy\"
";

/// The whole files: the drivers of a folder, and texts.
///
/// # Errors
///
/// A file that cannot be read.
pub fn seed_files(drivers: &Path, steps: &Path) -> Result<Vec<SeedFile>, String> {
    let read =
        |path: &Path| fs::read(path).map_err(|reason| format!("{}: {reason}", path.display()));
    let mut seeds = Vec::new();
    for kind in FileKind::ALL {
        let names: &[&'static str] = match kind {
            FileKind::Image | FileKind::SharedObject => &DRIVERS,
            FileKind::Pdb | FileKind::Dwarf => &SYMBOLS,
            FileKind::Steps | FileKind::Allow => &["text"],
        };
        for name in names {
            let bytes = match kind {
                FileKind::Steps => read(steps)?,
                FileKind::Allow => ALLOW.as_bytes().to_vec(),
                _ => read(&drivers.join(format!("{name}.{}", kind.extension())))?,
            };
            seeds.push(SeedFile { kind, name, bytes });
        }
    }
    Ok(seeds)
}

/// The damaged file with a number. The same number and seeds give the same file.
pub fn damaged_file(seeds: &[SeedFile], number: u64) -> DamagedFile {
    let mut rng = Rng::Seed(number);
    let kinds = FileKind::ALL.len() as u64;
    let kind = FileKind::ALL[usize::try_from(number % kinds).unwrap_or(0)];
    let seeds: Vec<&SeedFile> = seeds.iter().filter(|seed| seed.kind == kind).collect();
    let seed = seeds[rng.of(seeds.len())];
    let mut bytes = seed.bytes.clone();
    let is_text = matches!(kind, FileKind::Steps | FileKind::Allow);
    for _ in 0..=rng.of(4) {
        // Most damage is where a reader looks.
        let ranges = tables(kind, &bytes);
        let whole = 0..bytes.len();
        let range = match ranges.len() {
            0 => whole,
            _ if rng.one_in(4) => whole,
            many => ranges[rng.of(many)].clone(),
        };
        if range.is_empty() {
            continue;
        }
        if is_text {
            damage_text(&mut bytes, &mut rng);
        } else {
            damage(&mut bytes, &range, &mut rng);
        }
    }
    DamagedFile { kind, seed: seed.name, bytes }
}

/// Damages a range of a binary file.
fn damage(bytes: &mut Vec<u8>, range: &Range<usize>, rng: &mut Rng<'_>) {
    let at = range.start + rng.of(range.len());
    match rng.of(8) {
        0..3 => {
            for _ in 0..=rng.of(8) {
                bytes[range.start + rng.of(range.len())] ^= 1 << rng.of(8);
            }
        }
        3..6 => {
            let length = bytes.len() as u64;
            let numbers =
                [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX, length, length - 1];
            let number = numbers[rng.of(numbers.len())].to_le_bytes();
            // Numbers in tables are aligned.
            let (at, size) = (at - at % 4, [2, 4, 4, 8][rng.of(4)]);
            for (to, from) in bytes.iter_mut().skip(at).zip(number).take(size) {
                *to = from;
            }
        }
        6 => bytes.truncate(at.max(1)),
        _ => {
            let length = 1 + rng.of(range.len().min(4096));
            let part: Vec<u8> = bytes.iter().copied().skip(at).take(length).collect();
            let to = rng.of(bytes.len());
            if rng.one_in(2) {
                bytes.splice(to..to, part);
            } else {
                bytes.drain(at..at + part.len());
            }
        }
    }
}

/// Damages a text.
fn damage_text(bytes: &mut Vec<u8>, rng: &mut Rng<'_>) {
    const WORDS: [&str; 12] = [
        "\"",
        "'",
        "[",
        "]]",
        "=",
        "\n",
        "\0",
        "\u{feff}",
        "99999999999999999999",
        "-1",
        "é",
        "p1 d1",
    ];
    let at = rng.of(bytes.len());
    match rng.of(6) {
        0 => bytes[at] ^= 1 << rng.of(8),
        1 => bytes.truncate(at.max(1)),
        2 => _ = bytes.drain(at..(at + 1 + rng.of(40)).min(bytes.len())),
        3 => {
            let word = WORDS[rng.of(WORDS.len())].bytes();
            bytes.splice(at..at, word);
        }
        4 => {
            let part = bytes[at..(at + 1 + rng.of(200)).min(bytes.len())].repeat(1 + rng.of(400));
            bytes.splice(at..at, part);
        }
        _ => {
            let byte = bytes[at];
            bytes.splice(at..at, std::iter::repeat_n(byte, rng.of(20_000)));
        }
    }
}

/// The parts of a file that a reader follows.
fn tables(kind: FileKind, bytes: &[u8]) -> Vec<Range<usize>> {
    let ranges = match kind {
        FileKind::Image => image_tables(bytes),
        FileKind::SharedObject => object_tables(bytes),
        FileKind::Pdb => pdb_tables(bytes),
        FileKind::Dwarf => debug_sections(bytes),
        FileKind::Steps | FileKind::Allow => None,
    };
    let inside = |range: &Range<usize>| range.start < range.end && range.end <= bytes.len();
    ranges.unwrap_or_default().into_iter().filter(inside).collect()
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let mut number = [0; 8];
    number[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    usize::try_from(u64::from_le_bytes(number)).ok()
}

/// The headers of an image, its section table, and its sections that are not code.
fn image_tables(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    const SECTION: usize = 40;
    let header = number(bytes, 0x3c, 4)?;
    let count = number(bytes, header.checked_add(6)?, 2)?;
    let table = header + 24 + number(bytes, header + 20, 2)?;
    let mut ranges = vec![0..header, header..table, table..table.checked_add(count * SECTION)?];
    for section in 0..count {
        let at = table + section * SECTION;
        let (size, start) = (number(bytes, at + 16, 4)?, number(bytes, at + 20, 4)?);
        if !bytes.get(at..)?.starts_with(b".text") {
            ranges.push(start..start.saturating_add(size));
        }
    }
    Some(ranges)
}

/// The sections of an ELF file: type, offset and size of each.
fn sections(bytes: &[u8]) -> Option<Vec<(usize, Range<usize>)>> {
    let (table, size) = (number(bytes, 0x28, 8)?, number(bytes, 0x3a, 2)?);
    let count = number(bytes, 0x3c, 2)?;
    let section = |index: usize| {
        let at = table.checked_add(index * size)?;
        let start = number(bytes, at.checked_add(0x18)?, 8)?;
        let length = number(bytes, at + 0x20, 8)?;
        Some((number(bytes, at + 4, 4)?, start..start.saturating_add(length)))
    };
    (0..count).map(section).collect()
}

/// The headers of a shared object, and its sections that are not code.
fn object_tables(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    const PROGRAM: usize = 1;
    let table = number(bytes, 0x28, 8)?;
    let mut ranges = vec![0..64, 64..64 + 56 * number(bytes, 0x38, 2)?, table..bytes.len()];
    let tables = sections(bytes)?.into_iter().filter(|(kind, _)| *kind != PROGRAM);
    ranges.extend(tables.map(|(_, range)| range));
    Some(ranges)
}

/// The sections of debug information and unwind tables, which no code is in.
fn debug_sections(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    const PROGRAM: usize = 1;
    let named = sections(bytes)?.into_iter().filter(|(kind, _)| *kind == PROGRAM);
    Some(named.map(|(_, range)| range).collect())
}

/// The head of a PDB, the list of its streams, and the pages that begin a stream.
fn pdb_tables(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    const HEAD: usize = 56;
    let page = number(bytes, 32, 4)?;
    let directory_bytes = number(bytes, 44, 4)?;
    let list = number(bytes, 52, 4)?.checked_mul(page)?;
    let directory = number(bytes, list, 4)?.checked_mul(page)?;
    let mut ranges =
        vec![0..HEAD, list..list + 4, directory..directory.checked_add(directory_bytes)?];
    let count = number(bytes, directory, 4)?.min(64);
    let mut first = directory + 4 + 4 * count;
    for stream in 0..count {
        let size = number(bytes, directory + 4 + 4 * stream, 4)?;
        let size = if size == u32::MAX as usize { 0 } else { size };
        if size > 0 {
            let start = number(bytes, first, 4)?.checked_mul(page)?;
            ranges.push(start..start.saturating_add(size.min(page)));
        }
        first += 4 * size.div_ceil(page.max(1));
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_one_file() {
        let seed = |kind, bytes: &[u8]| SeedFile { kind, name: "seed", bytes: bytes.repeat(50) };
        let seeds: Vec<SeedFile> =
            FileKind::ALL.into_iter().map(|kind| seed(kind, b"MZ\x7fELF 0123456789\n")).collect();
        let mut differ = 0;
        for number in 0..600 {
            let (one, other) = (damaged_file(&seeds, number), damaged_file(&seeds, number));
            assert_eq!((one.kind, &one.bytes), (other.kind, &other.bytes), "{number}");
            differ += usize::from(one.bytes != seeds[0].bytes);
        }
        assert!(differ > 550, "{differ} of 600 are damaged");
    }
}
