//! Damaged files: drivers, their symbols, steps and allow files. The command reads or refuses them;
//! no file ends the command, and none takes more memory or time than is stated.
#![expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

use crate::images::{driver, drivers_folder, on_two_threads, replaced};
use harness::command::{windtunnel, windtunnel_command};
use harness::damage::{DamagedFile, FileKind, SeedFile, damaged_file, seed_files};
use harness::{
    contained_panics, load_as_image, read_as_allow_file, read_as_driver_file, read_as_symbol_file,
    read_as_trace_and_steps, repeats,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A new folder for the files of a test.
fn new_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("windtunnel-{}-{name}", std::process::id()));
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Copies an image. Its symbol file is found beside the copy only, not where it was linked.
fn copy_image(from: &str, to: &Path) {
    let folder = drivers_folder();
    let folder = folder.to_str().unwrap();
    let nowhere = "x".repeat(folder.len());
    let image = fs::read(from).unwrap();
    fs::write(to, replaced(&image, folder.as_bytes(), nowhere.as_bytes())).unwrap();
}

/// Flies a driver that ends its first flight with a finding. Returns the report.
fn report_of(path: &Path) -> String {
    let path = path.to_str().unwrap();
    let output = windtunnel(&["check", path, "--scenario", "submit-fill-and-copy"]);
    let (report, errors) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let report = report.unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}\n{}", errors.unwrap());
    assert!(report.contains("\nFAIL: 1 error, "), "{report}");
    report
}

/// A PDB whose first module says that it has 2 GB of lines: pdb2 panics.
fn with_long_lines(mut pdb: Vec<u8>) -> Vec<u8> {
    /// The part of the record of a module in front of its name, and the sizes of its C11 and C13
    /// lines there.
    const HEAD: usize = 64;
    const C11_LINES: usize = 40;
    const C13_LINES: usize = 44;
    let size = |pdb: &[u8], at: usize| u32::from_le_bytes(pdb[at..at + 4].try_into().unwrap());
    let ends = pdb.windows(3).enumerate().filter(|(_, part)| part == b".o\0").map(|(at, _)| at);
    let record = ends.filter_map(|end| {
        let name = pdb[..end].iter().rposition(|byte| *byte == 0)? + 1;
        let record = name.checked_sub(HEAD)?;
        let lines = size(&pdb, record + C13_LINES) as usize;
        (size(&pdb, record + C11_LINES) == 0 && (1..pdb.len()).contains(&lines)).then_some(record)
    });
    let lines = record.take(1).next().unwrap() + C13_LINES;
    pdb[lines..lines + 4].copy_from_slice(&0x7fff_0000_u32.to_le_bytes());
    pdb
}

#[test]
fn a_symbol_file_that_cannot_be_read_is_a_line_in_the_head() {
    const NAME: &str = "null-write-in-dpc";
    let folder = new_folder("damaged-symbols");
    let image = folder.join(format!("{NAME}.sys"));
    copy_image(&driver(&format!("bad/{NAME}.sys")), &image);
    let pdb = fs::read(driver(&format!("bad/{NAME}.pdb"))).unwrap();
    let path = folder.join(format!("{NAME}.pdb"));

    fs::write(&path, &pdb).unwrap();
    let whole = report_of(&image);
    assert!(whole.contains(&format!("  symbols    {} matches\n", path.display())), "{whole}");
    assert!(whole.contains(" in SgDpcRoutine (report.c:"), "{whole}");

    let truncated = pdb[..pdb.len() / 2].to_vec();
    for (what, bytes) in [("long lines", with_long_lines(pdb)), ("truncated", truncated)] {
        fs::write(&path, bytes).unwrap();
        let report = report_of(&image);
        let line = format!("  symbols    none: {} cannot be read: ", path.display());
        assert!(report.contains(&line), "{what}: {report}");
        assert!(report.contains(&format!(" in {NAME}.sys+0x")), "{what}: {report}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// A shared object with debug information of two million nested functions, in assembler: addr2line
/// calls itself for each.
const NESTED: &str = r#"
#include <wdm.h>
__attribute__((visibility("default"))) NTSTATUS NTAPI
DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    *(volatile int *)8 = (int)(long long)driver + (int)(long long)registry_path;
    return 0;
}
__asm__(".section .debug_abbrev,\"\",@progbits\n"
        ".byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0\n" /* a unit: low_pc, high_pc */
        ".byte 2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0, 0\n" /* a function: the same */
        ".byte 3, 0x1d, 1, 0, 0, 0\n"                      /* an inlined function */
        ".section .debug_info,\"\",@progbits\n"
        ".long 2f - 1f\n"
        "1: .short 4\n"
        ".long 0\n"
        ".byte 8\n"
        ".byte 1\n .quad DriverEntry, 64\n"
        ".byte 2\n .quad DriverEntry, 64\n"
        ".fill 2000000, 1, 3\n"
        ".fill 2000002, 1, 0\n"
        "2:\n.text\n");
"#;

#[test]
fn debug_information_that_cannot_be_read_is_a_line_in_the_head() {
    let folder = new_folder("nested-symbols");
    let (source, object) = (folder.join("nested.c"), folder.join("nested.so"));
    fs::write(&source, NESTED).unwrap();
    let headers = harness::pages::root().join("crates/abi/include/km");
    let mut clang = Command::new("clang");
    clang.args(["-shared", "-nostdlib", "-fPIC", "-fshort-wchar", "-fuse-ld=lld", "-I"]);
    let built = clang.arg(headers).arg(&source).arg("-o").arg(&object).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let report = report_of(&object);
    let line = format!("  symbols    none: {} cannot be read: ", object.display());
    assert!(report.contains(&line), "{report}");
    assert!(report.contains(" in nested.so+0x"), "{report}");
    fs::remove_dir_all(&folder).unwrap();
}

/// A shared object whose names in the debug information are compressed, and have this size if one
/// believes the file.
fn with_compressed_names(mut object: Vec<u8>, size: u64) -> Vec<u8> {
    const SECTIONS: usize = 0x28;
    const NAMES: usize = 0x3e;
    const SECTION: usize = 64;
    const COMPRESSED: u64 = 0x800;
    const ZLIB: u64 = 1;
    let word = |object: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(object[at..at + 8].try_into().unwrap())).unwrap()
    };
    let table = word(&object, SECTIONS);
    let names = word(&object, table + SECTION * (word(&object, NAMES) & 0xffff) + 0x18);
    let name = |section: usize| names + (word(&object, section) & 0xffff_ffff);
    let mut sections = (table..object.len()).step_by(SECTION);
    let section = sections.find(|at| object[name(*at)..].starts_with(b".debug_str\0")).unwrap();
    let end = object.len() as u64;
    let header = [ZLIB, size, 1, 0];
    for (at, value) in [(0x08, COMPRESSED), (0x18, end), (0x20, 8 * header.len() as u64)] {
        object[section + at..section + at + 8].copy_from_slice(&value.to_le_bytes());
    }
    object.extend(header.into_iter().flat_map(u64::to_le_bytes));
    object
}

#[test]
fn a_symbol_file_that_needs_more_memory_than_is_stated_is_not_read() {
    let folder = new_folder("large-symbols");
    let path = folder.join("large.so");
    let object = fs::read(driver("bad/null-write-in-dpc.so")).unwrap();
    // The data is not there: a reader that gets the memory sees that next.
    for (size, why) in [(2_u64 << 30, "data allocation failed"), (1 << 20, "Invalid zlib")] {
        fs::write(&path, with_compressed_names(object.clone(), size)).unwrap();
        let report = report_of(&path);
        let line = format!("  symbols    none: {} cannot be read: ", path.display());
        let (_, reason) = report.split_once(&line).unwrap_or_else(|| panic!("{report}"));
        let reason = reason.lines().next().unwrap();
        assert!(reason.contains(why), "{reason}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// In the process of a reader: the first file, the one behind the last, and the file of its results.
const RANGE: &str = "WINDTUNNEL_DAMAGED";

/// The beginning of the line with the largest memory of a reader, in KiB.
const PEAK: &str = "peak ";

/// How many files are read, if `cargo xtask damage` says so.
const FILES: &str = "WINDTUNNEL_DAMAGED_FILES";

/// The addresses that the process of a reader may take, in KiB. The largest image that is loaded has
/// 256 MiB, in the file's layout and mapped.
const READER_KIB: u64 = 1 << 20;

/// The processor time of a reader, in seconds: for a reader that hangs.
const READER_SECONDS: u64 = 600;

/// How many files a reader reads.
const READER_FILES: u64 = 250;

/// One file of so many also goes through the whole command.
const WHOLE_COMMAND: u64 = 20;

fn seeds() -> Vec<SeedFile> {
    let steps = harness::pages::root().join("tests/steps/shared-lives.steps");
    seed_files(&drivers_folder(), &steps).unwrap()
}

/// Reads a file by the functions of the library. Returns whether it is valid.
fn read_here(file: &DamagedFile) -> bool {
    let bytes = &file.bytes;
    match file.kind {
        FileKind::Image => {
            load_as_image(bytes);
            read_as_driver_file(bytes)
        }
        FileKind::SharedObject => read_as_driver_file(bytes),
        FileKind::Pdb | FileKind::Dwarf => read_as_symbol_file(bytes),
        FileKind::Steps => read_as_trace_and_steps(bytes),
        FileKind::Allow => read_as_allow_file(bytes),
    }
}

/// The process of a reader: writes a line in front of each file and one behind it.
fn read_range(range: &str) {
    let mut words = range.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (first, end) = (number(), number());
    let mut results = fs::OpenOptions::new().append(true).open(words.next().unwrap()).unwrap();
    let seeds = seeds();
    for number in first..end {
        writeln!(results, "{number}").unwrap();
        let before = contained_panics();
        let is_valid = read_here(&damaged_file(&seeds, number));
        let result = match is_valid {
            _ if contained_panics() != before => "contained",
            true => "read",
            false => "refused",
        };
        writeln!(results, "{result}").unwrap();
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    writeln!(results, "{PEAK}{}", peak.trim().trim_end_matches(" kB")).unwrap();
}

/// A command with limits: for its processor time and its addresses, and a time after which it is
/// ended because it hangs.
fn limited(command: &Command, kib: Option<u64>) -> Command {
    let addresses = kib.map_or(String::new(), |kib| format!("ulimit -v {kib}; "));
    let mut shell = Command::new("sh");
    let script = format!(
        "ulimit -c 0; ulimit -t {READER_SECONDS}; {addresses}exec timeout 1200 \"$0\" \"$@\""
    );
    shell.args(["-c", &script]).arg(command.get_program()).args(command.get_args());
    shell
}

/// Whether a process ended by itself and did not panic.
fn ended_well(output: &Output) -> bool {
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_status = output.status.code().is_some_and(|code| code <= 2);
    is_status && output.status.signal().is_none() && !errors.contains("panicked at")
}

/// What became of the files of a kind.
#[derive(Debug, Default)]
struct Count {
    read: u64,
    refused: u64,
    /// Of symbol files: their reader panicked or ended, and the command goes on without symbols.
    contained: u64,
    /// Through the whole command.
    flown: u64,
}

/// What the readers have found.
#[derive(Default)]
struct Results {
    counts: BTreeMap<FileKind, Count>,
    /// The largest memory of a reader, in KiB.
    peak: u64,
    errors: Vec<String>,
}

/// Reads a range of files in processes with limits. A symbol file that ends its reader must not end
/// the command; another file that does is an error.
fn read_files(
    (first, end): (u64, u64),
    folder: &Path,
    seeds: &[SeedFile],
    Results { counts, peak, errors }: &mut Results,
) {
    let path = folder.join(format!("results-{first}"));
    let mut next = first;
    while next < end {
        fs::write(&path, "").unwrap();
        let mut reader = Command::new(std::env::current_exe().unwrap());
        reader.args(["--exact", "damaged::damaged_files_are_read_or_refused", "--nocapture"]);
        let mut reader = limited(&reader, Some(READER_KIB));
        let range = format!("{next} {end} {}", path.display());
        let output = reader.env(RANGE, range).env_remove(FILES).output().unwrap();
        let results = fs::read_to_string(&path).unwrap();
        let mut lines = results.lines();
        let mut last = next;
        while let Some(number) = lines.next() {
            if let Some(kib) = number.strip_prefix(PEAK) {
                *peak = (*peak).max(kib.parse().unwrap());
                continue;
            }
            last = number.parse::<u64>().unwrap();
            let kind = damaged_file(seeds, last).kind;
            let count = counts.entry(kind).or_default();
            match lines.next() {
                Some("read") => count.read += 1,
                Some("contained") => count.contained += 1,
                Some(_) => count.refused += 1,
                None if matches!(kind, FileKind::Pdb | FileKind::Dwarf) => count.contained += 1,
                None => {
                    let text = String::from_utf8_lossy(&output.stderr);
                    errors.push(format!("file {last} ({kind:?}): {}: {text}", output.status));
                }
            }
            next = last + 1;
        }
        let is_done = output.status.success() && next == end;
        if !is_done && results.is_empty() {
            let text = String::from_utf8_lossy(&output.stderr);
            errors.push(format!("the reader of {next}: {}: {text}", output.status));
            return;
        }
        if !is_done {
            errors.extend(fly_file(last, folder, seeds).err());
        }
    }
}

/// Gives a damaged file to the whole command.
fn fly_file(number: u64, folder: &Path, seeds: &[SeedFile]) -> Result<(), String> {
    const BAD: &str = "null-write-in-dpc";
    let file = damaged_file(seeds, number);
    let folder = folder.join(format!("file-{number}"));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{}.{}", file.seed, file.kind.extension()));
    fs::write(&path, &file.bytes).unwrap();
    let image = folder.join(format!("{}.sys", file.seed));
    let of = |path: &Path| path.to_str().unwrap().to_owned();
    let bad = driver(&format!("bad/{BAD}.sys"));
    let (driver, more) = match file.kind {
        FileKind::Image | FileKind::SharedObject | FileKind::Dwarf => (of(&path), Vec::new()),
        FileKind::Pdb => {
            copy_image(&driver(&format!("{}.sys", file.seed)), &image);
            (of(&image), Vec::new())
        }
        FileKind::Steps => ("softgpu".to_owned(), vec!["--scenario".to_owned(), of(&path)]),
        FileKind::Allow => (bad, vec!["--allow".to_owned(), of(&path)]),
    };
    let mut command = windtunnel_command();
    command.args(["check", &driver, "--deadline", "1", "--jobs", "1"]).args(&more);
    if file.kind != FileKind::Steps {
        let stream = file.seed == "capture";
        command.args(["--scenario", if stream { "ks-restart" } else { "create-standalone" }]);
    }
    let output = limited(&command, None).output().unwrap();
    if !ended_well(&output) {
        let errors = String::from_utf8_lossy(&output.stderr);
        let path = path.display();
        return Err(format!("file {number} ({path}): check: {}: {errors}", output.status));
    }
    fs::remove_dir_all(&folder).unwrap();
    Ok(())
}

/// `cargo xtask damage --files N` reads N files.
#[test]
fn damaged_files_are_read_or_refused() {
    if let Ok(range) = std::env::var(RANGE) {
        return read_range(&range);
    }
    let files = std::env::var(FILES).ok().and_then(|count| count.parse().ok());
    let files = files.unwrap_or_else(|| repeats(300, 10_000));
    let (folder, seeds) = (new_folder("damaged"), seeds());
    let mut results = Results::default();
    for first in (0..files).step_by(usize::try_from(READER_FILES).unwrap()) {
        let range = (first, files.min(first + READER_FILES));
        read_files(range, &folder, &seeds, &mut results);
    }
    let Results { mut counts, peak, mut errors } = results;
    // Of each kind alike.
    let kinds = FileKind::ALL.len() as u64;
    let chosen: Vec<u64> =
        (0..files).filter(|number| (number / kinds).is_multiple_of(WHOLE_COMMAND)).collect();
    let failed = std::sync::Mutex::new(Vec::new());
    on_two_threads(&chosen, |number| {
        if let Err(error) = fly_file(*number, &folder, &seeds) {
            failed.lock().unwrap().push(error);
        }
    });
    errors.extend(failed.into_inner().unwrap());
    for number in chosen {
        counts.get_mut(&damaged_file(&seeds, number).kind).unwrap().flown += 1;
    }
    println!("{files} damaged files, read with at most {} MiB of memory:", peak >> 10);
    for (kind, Count { read, refused, contained, flown }) in &counts {
        println!(
            "  {kind:?}: {read} read, {refused} refused, {contained} damaged for a reader of symbols, \
             contained; {flown} through the whole command"
        );
    }
    assert!(errors.is_empty(), "{} of {files} files:\n{}", errors.len(), errors.join("\n"));
    // The damage is neither always fatal nor never.
    for (kind, count) in &counts {
        let total = count.read + count.refused + count.contained;
        assert!(count.read * 20 > total && count.refused * 20 > total, "{kind:?}: {count:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
