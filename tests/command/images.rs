//! Drivers from files: images (`.sys`) and shared objects (`.so`) of the C drivers in `drivers/c`,
//! flown by the command. `cargo xtask drivers` builds them.
#![expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

pub(crate) use harness::built::drivers_folder;
use harness::command::{json, text, windtunnel};
use harness::pages::{compare, read};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The correct drivers.
const CORRECT: [&str; 9] = [
    "compute",
    "render",
    "gpuva",
    "display",
    "capture",
    "plain",
    "lists",
    "single",
    "single-render",
];

/// A driver of the folder, such as `compute.sys`.
pub(crate) fn driver(name: &str) -> String {
    drivers_folder().join(name).into_os_string().into_string().unwrap()
}

/// A new folder for the files of a test.
fn new_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("windtunnel-{}-{name}", std::process::id()));
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the work for each item, on two threads.
pub(crate) fn on_two_threads<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(worker);
        worker();
    });
}

/// The traces of a folder by name.
fn traces(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let trace = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).unwrap())
    };
    files.map(trace).collect()
}

/// Flies a file with a trace. Returns the traces.
fn fly_for_trace(name: &str, run: &str) -> BTreeMap<String, String> {
    let folder = new_folder(&format!("{name}-{run}"));
    let (code, report) = text(&["check", &driver(name), "--trace", folder.to_str().unwrap()]);
    assert_eq!(code, 0, "{name}: {report}");
    assert!(report.contains("; 0 live objects; "), "{name}: {report}");
    assert!(report.contains("\nPASS: 0 errors, 0 warnings, 0 notes; "), "{name}: {report}");
    let traces = traces(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert!(!traces.is_empty(), "{name} has no traces");
    traces
}

/// Panics with the first line that differs.
fn assert_same(what: &str, one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) {
    assert!(one.keys().eq(other.keys()), "{what}: other scenarios");
    for (name, text) in one {
        let mut lines = text.lines().zip(other[name].lines());
        let different = lines.find(|(one, other)| one != other);
        assert_eq!(different, None, "{what}: {name}");
        assert_eq!(text.len(), other[name].len(), "{what}: {name}");
    }
}

/// Removes the offsets of the functions that led to a call: two files have their code at other ones.
pub(crate) fn without_offsets(trace: &mut String) {
    let known = |line: &str| match line.split_once(" caller=") {
        Some((event, _)) => format!("{event} caller\n"),
        None => format!("{line}\n"),
    };
    *trace = trace.lines().map(known).collect();
}

#[test]
fn correct_drivers_pass_in_both_forms_with_equal_traces() {
    on_two_threads(&CORRECT, |name| {
        let fly = |extension: &str| {
            let mut traces = fly_for_trace(&format!("{name}.{extension}"), "first");
            traces.values_mut().for_each(without_offsets);
            traces
        };
        let (image, shared_object) = (fly("sys"), fly("so"));
        assert_same(name, &image, &shared_object);
    });
}

#[test]
fn a_driver_with_one_node_is_not_flown_through_scenarios_that_need_two() {
    let (code, report) = text(&["check", &driver("single.so"), "--verbose"]);
    assert_eq!(code, 0, "{report}");
    let need = "needs an adapter with 2 GPU nodes; this adapter has 1 node\n";
    assert_eq!(report.matches(need).count(), 5, "{report}");
    let clean = |scenario: &str| report.contains(&format!("\n  clean      {scenario} "));
    assert!(clean("sync-contexts-in-lockstep") && clean("tdr-paging-hang"), "{report}");
    assert!(!clean("destroy-two-nodes") && !report.contains("DEV-LIFE-006"), "{report}");
}

#[test]
fn the_same_seed_gives_the_same_traces() {
    on_two_threads(&["compute.sys", "capture.sys"], |name| {
        assert_same(name, &fly_for_trace(name, "one"), &fly_for_trace(name, "two"));
    });
}

#[test]
fn correct_drivers_pass_on_threads() {
    on_two_threads(&CORRECT, |name| {
        let (code, report) = text(&["check", &driver(&format!("{name}.sys")), "--host", "threads"]);
        assert_eq!(code, 0, "{name}: {report}");
        assert!(report.contains("; 0 live objects; "), "{name}: {report}");
        assert!(report.contains("\nPASS: 0 errors, 0 warnings, 0 notes; "), "{name}: {report}");
    });
}

/// What is flown with each correct driver, and what the rest needs: `tests/golden/images.txt`.
#[test]
fn the_scenarios_of_each_driver_are_those_of_the_table() {
    let mut table = String::new();
    for name in CORRECT {
        let (code, report) = json(&["check", &driver(&format!("{name}.sys"))]);
        assert_eq!(code, 0, "{name}");
        let mut rows: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for scenario in report["scenarios"].as_array().unwrap() {
            let group = scenario["name"].as_str().unwrap().split('-').next().unwrap();
            let result = match scenario["needs"].get(0).and_then(Value::as_str) {
                None => "flown".to_owned(),
                Some(needs) if scenario["ended_early"] == 0 => format!("not flown: needs {needs}"),
                Some(needs) => format!("ended early: needs {needs}"),
            };
            *rows.entry((group, result)).or_default() += 1;
        }
        for ((group, result), count) in rows {
            _ = writeln!(table, "{name} {group} {count} {result}");
        }
    }
    compare("tests/golden/images.txt", &table);
}

/// The scenario that a driver is flown through, from the JSON report, with the exit status and
/// the private data of the file.
fn fly_with(file: &str, scenario: &str, options: &[&str]) -> (i32, Value, Value) {
    let path = driver(file);
    let (code, report) = json(&[&["check", &path, "--scenario", scenario], options].concat());
    (code, report["scenarios"][0].clone(), report["file"]["private_data"].clone())
}

/// `plain` accepts no private data of the built-in GPU, and `compute` none but that.
#[test]
fn a_driver_gets_the_private_data_that_it_takes() {
    for (file, takes, other) in
        [("plain.sys", "none", "builtin"), ("compute.so", "builtin", "none")]
    {
        for options in [&[][..], &["--private-data", takes]] {
            let (code, flight, data) = fly_with(file, "create-resource", options);
            assert_eq!((code, &flight["result"]), (0, &"clean".into()), "{file}: {flight}");
            assert_eq!(data, takes, "{file}");
        }
        let (code, flight, data) = fly_with(file, "create-resource", &["--private-data", other]);
        let needs = "D3DKMTCreateAllocation to succeed; it returned STATUS_INVALID_PARAMETER";
        assert_eq!((code, &flight["needs"][0]), (2, &needs.into()), "{file}: {flight}");
        assert_eq!(data, other, "{file}");
    }
    let path = driver("plain.sys");
    let output = windtunnel(&["check", &path, "--private-data", "mine"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("expected 'builtin' or 'none'"), "{errors}");
}

/// Allocations outside a resource are created one at a time if the driver rejects a list.
#[test]
fn allocations_are_created_one_at_a_time_for_a_driver_that_rejects_lists() {
    // The scenario creates one, two and one.
    for (name, calls) in [("compute.sys", 3), ("plain.sys", 5)] {
        let folder = new_folder(&format!("list-{name}"));
        let path = driver(name);
        let trace = ["--scenario", "create-standalone", "--trace", folder.to_str().unwrap()];
        let (code, report) = text(&[&["check", &path][..], &trace].concat());
        assert_eq!(code, 0, "{name}: {report}");
        let trace = &traces(&folder)["create-standalone.trace"];
        let call = "ddi.call name=DxgkDdiCreateAllocation ";
        assert_eq!(trace.matches(call).count(), calls, "{name}: {trace}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// The finding that docs/fly-your-driver.md shows is in the report of the command above it.
#[test]
fn the_finding_of_the_page_is_real() {
    let page = read("docs/fly-your-driver.md");
    let shown = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let file = driver("bad/null-write-in-dpc.sys");
    let (code, report) = text(&["check", &file, "--scenario", "submit-fill-and-copy"]);
    assert_eq!(code, 1, "{report}");
    for line in shown.lines() {
        assert!(report.lines().any(|real| real == line), "{line}: {report}");
    }
}

/// A row of `flaws.toml`.
pub(crate) struct BadDriver {
    pub(crate) name: String,
    /// Empty if no rule finds it yet.
    pub(crate) rule: String,
    pub(crate) scenario: String,
    forms: String,
}

impl BadDriver {
    /// The extensions of its files.
    pub(crate) fn extensions(&self) -> &[&str] {
        match self.forms.as_str() {
            "so" => &["so"],
            "sys" => &["sys"],
            _ => &["sys", "so"],
        }
    }
}

/// The rows of `flaws.toml`.
pub(crate) fn bad_drivers() -> Vec<BadDriver> {
    let text = read("drivers/c/flaws.toml");
    let row = |part: &str| {
        let value = |key: &str| {
            let row = part.lines().find_map(|row| row.strip_prefix(key)?.strip_prefix(" = "));
            row.unwrap_or_default().trim_matches('"').to_owned()
        };
        let (name, rule) = (value("name"), value("rule"));
        BadDriver { name, rule, scenario: value("scenario"), forms: value("forms") }
    };
    text.split("[[driver]]").skip(1).map(row).collect()
}

/// What each driver that needs its device asks for last, as the report says.
#[test]
fn a_driver_without_its_device_is_not_blamed_and_its_last_request_is_named() {
    for (name, request) in [
        (
            "memory",
            "tried to map 0x1000 bytes at 0xf0000000 (MmMapIoSpace), where no device answers",
        ),
        (
            "resources",
            "asked for its resources (DxgkCbGetDeviceInformation), of which there are none",
        ),
        ("port", "read port 0x3c5"),
        ("config-space", "read 4 bytes at offset 0x8 of the PCI configuration space"),
    ] {
        for extension in ["sys", "so"] {
            let file = driver(&format!("bad/needs-device-{name}.{extension}"));
            let (code, report) = json(&["check", &file, "--scenario", "create-standalone"]);
            let scenario = &report["scenarios"][0];
            let expected = format!(
                "a device model: DxgkDdiStartDevice returned STATUS_DEVICE_NOT_READY after it {request}"
            );
            assert_eq!(scenario["needs"], serde_json::json!([expected]), "{name}: {report}");
            assert_eq!((code, &scenario["result"]), (2, &"not-flown".into()), "{name}: {report}");
            assert_eq!(scenario["findings"], serde_json::json!([]), "{name}: {report}");
        }
    }
}

#[test]
fn a_file_is_flown_in_this_process_without_deadline_with_a_folder_of_files() {
    let folder = new_folder("files");
    for name in ["compute.sys", "compute.so"] {
        let path = driver(name);
        let options = ["--in-process", "--deadline", "0", "--files", folder.to_str().unwrap()];
        let flight = ["check", &path, "--scenario", "submit-fill-and-copy"];
        let (code, report) = json(&[&flight[..], &options].concat());
        assert_eq!((code, &report["scenarios"][0]["result"]), (0, &"clean".into()), "{name}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The driver opens a file below the folder of its files and one beside that folder.
#[test]
fn a_driver_reads_files_below_the_folder_only() {
    let folder = new_folder("reads-file");
    let files = folder.join("files");
    fs::create_dir_all(files.join("settings")).unwrap();
    fs::write(folder.join("outside.txt"), "outside").unwrap();
    for name in ["bad/reads-file.sys", "bad/reads-file.so"] {
        let path = driver(name);
        let check = ["check", &path, "--scenario", "ks-state-transitions"];
        let with_files = [&check[..], &["--files", files.to_str().unwrap()]].concat();
        let needs = |status: &str| {
            serde_json::json!([format!("DriverEntry to succeed; it returned {status}")])
        };
        let missing = needs("STATUS_OBJECT_NAME_NOT_FOUND");
        let (code, report) = json(&check);
        assert_eq!((code, &report["scenarios"][0]["needs"]), (2, &missing), "{name}: no folder");
        _ = fs::remove_file(files.join("settings/capture.txt"));
        let (code, report) = json(&with_files);
        assert_eq!((code, &report["scenarios"][0]["needs"]), (2, &missing), "{name}: no file");
        fs::write(files.join("settings/capture.txt"), "640x480\n").unwrap();
        let (code, report) = json(&with_files);
        assert_eq!((code, &report["scenarios"][0]["result"]), (0, &"clean".into()), "{name}");
        fs::write(files.join("settings/capture.txt"), "320x200\n").unwrap();
        let (code, report) = json(&with_files);
        let other = needs("STATUS_UNSUCCESSFUL");
        assert_eq!((code, &report["scenarios"][0]["needs"]), (2, &other), "{name}: other bytes");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// A PE file, with the places of its headers. WINDOWS: the offsets are documented ("PE format").
struct PeFile {
    bytes: Vec<u8>,
    /// Where "PE\0\0" is.
    header: usize,
    /// Where the section table is, and the number of its entries.
    sections: (usize, usize),
}

/// `e_lfanew` of the DOS header.
const HEADER_OFFSET: usize = 0x3c;
/// `Machine` from "PE\0\0" on.
const MACHINE: usize = 4;
/// `NumberOfSections`.
const SECTION_COUNT: usize = 6;
/// `SizeOfOptionalHeader`.
const OPTIONAL_SIZE: usize = 20;
/// The optional header, and `Magic` in it.
const OPTIONAL: usize = 24;
/// `Subsystem`.
const SUBSYSTEM: usize = OPTIONAL + 68;
/// The first data directory.
const DIRECTORIES: usize = OPTIONAL + 112;
/// The size of a section header, and its `VirtualAddress`, `SizeOfRawData` and `PointerToRawData`.
const SECTION: usize = 40;
const SECTION_RVA: usize = 12;
const SECTION_RAW_SIZE: usize = 16;
const SECTION_RAW: usize = 20;

impl PeFile {
    fn read(path: &str) -> Self {
        let bytes = fs::read(path).unwrap();
        let mut file = Self { bytes, header: 0, sections: (0, 0) };
        file.header = file.u32(HEADER_OFFSET) as usize;
        let half = |at: usize| usize::try_from(file.u32(at) & 0xffff).unwrap();
        let table = file.header + OPTIONAL + half(file.header + OPTIONAL_SIZE);
        file.sections = (table, half(file.header + SECTION_COUNT));
        file
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    /// Where an RVA is in the file.
    fn offset(&self, rva: u32) -> usize {
        let (table, count) = self.sections;
        let headers = (0..count).map(|index| table + index * SECTION);
        let offsets = headers.filter_map(|header| {
            let inside = rva.checked_sub(self.u32(header + SECTION_RVA))?;
            let there = inside < self.u32(header + SECTION_RAW_SIZE);
            there.then(|| (self.u32(header + SECTION_RAW) + inside) as usize)
        });
        offsets.take(1).next().unwrap()
    }

    /// Where the data of a directory entry is.
    fn directory(&self, index: usize) -> usize {
        self.offset(self.u32(self.header + DIRECTORIES + index * 8))
    }

    /// The file with other bytes at a place.
    fn with(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut changed = self.bytes.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    }
}

/// The first program header of an ELF file, the size of one, and the size in memory in it.
const PROGRAM_HEADERS: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SEGMENT_SIZE: usize = 0x28;

/// Checks that a file is refused with one line and exit status 2.
fn assert_refused(path: &str, expected: &str) {
    let output = windtunnel(&["check", path]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{path}: {errors}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{path}");
    assert_eq!(errors.lines().count(), 1, "{path}: {errors}");
    assert!(errors.starts_with(&format!("windtunnel: {path} ")), "{path}: {errors}");
    assert!(errors.contains(expected), "{path}: expected {expected:?}, found {errors}");
}

#[test]
fn files_that_are_no_drivers_are_refused() {
    let folder = new_folder("refused");
    let refused = |name: &str, bytes: &[u8], expected: &str| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        assert_refused(path.to_str().unwrap(), expected);
    };
    let neither = "is neither a PE image nor an ELF shared object";
    for (name, text) in [("empty.sys", ""), ("text.sys", "hello\n"), ("text.so", "hello\n")] {
        refused(name, text.as_bytes(), neither);
    }
    refused("mz.sys", b"MZ", "is truncated: it has no PE header");
    assert_refused(folder.join("missing.sys").to_str().unwrap(), "cannot be read: No such file");
    assert_refused(folder.join("missing.so").to_str().unwrap(), "cannot be read: No such file");
    fs::create_dir(folder.join("folder.sys")).unwrap();
    assert_refused(folder.join("folder.sys").to_str().unwrap(), "cannot be read: Is a directory");

    let program = std::env::current_exe().unwrap();
    assert_refused(program.to_str().unwrap(), "has no DriverEntry");
    // A shared object of the drivers whose only exported name is another one.
    let renamed =
        replaced(&fs::read(driver("compute.so")).unwrap(), b"DriverEntry", b"DriverEmpty");
    refused("other.so", &renamed, "has no DriverEntry");
    // The size in memory of the second segment, whose program header is the third one.
    let mut endless = fs::read(driver("nothing.so")).unwrap();
    endless[PROGRAM_HEADERS + 2 * PROGRAM_HEADER + SEGMENT_SIZE..][..8].fill(0xff);
    refused("endless.so", &endless, "has a segment at 0x");
    fs::remove_dir_all(&folder).unwrap();
}

/// The bytes with each occurrence of one text replaced by another of the same length.
pub(crate) fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() - old.len() {
        if &bytes[at..at + old.len()] == old {
            bytes[at..at + old.len()].copy_from_slice(new);
        }
    }
    bytes
}

#[test]
fn images_that_cannot_be_loaded_are_refused() {
    const IMPORTS: usize = 1;
    const RELOCATIONS: usize = 5;
    let file = PeFile::read(&driver("compute.sys"));
    let folder = new_folder("images");
    let refused = |name: &str, bytes: &[u8], expected: &str| {
        let path = folder.join(format!("{name}.sys"));
        fs::write(&path, bytes).unwrap();
        assert_refused(path.to_str().unwrap(), expected);
    };
    let header = file.header;
    refused("x86", &file.with(header + MACHINE, &[0x4c, 0x01]), "is a 32-bit image (x86)");
    refused("arm64", &file.with(header + MACHINE, &[0x64, 0xaa]), "is an image for ARM64");
    refused("pe32", &file.with(header + OPTIONAL, &[0x0b, 0x01]), "is not PE32+");
    refused("program", &file.with(header + SUBSYSTEM, &[3, 0]), "is a user-mode program or DLL");

    let (table, count) = file.sections;
    let first = file.u32(table + SECTION_RVA).to_le_bytes();
    let overlapping = file.with(table + SECTION + SECTION_RVA, &first);
    refused("overlapping", &overlapping, "has overlapping sections");

    // The first entry of the import directory begins with the RVA of its list of names.
    let names = file.offset(file.u32(file.directory(IMPORTS)));
    let ordinal = file.with(names, &(1_u64 << 63 | 7).to_le_bytes());
    refused("ordinal", &ordinal, "imports ordinal 7 of ");
    let outside = file.with(file.directory(RELOCATIONS), &0x7fff_f000_u32.to_le_bytes());
    refused("relocation", &outside, "a relocated pointer at 0x7fff");

    let last = table + (count - 1) * SECTION;
    let in_last_section = file.u32(last + SECTION_RAW) as usize + 1;
    let ends = [HEADER_OFFSET, header, header + MACHINE, header + OPTIONAL, table, in_last_section];
    for end in ends {
        refused(&format!("truncated-{end}"), &file.bytes[..end], "is truncated: ");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The driver with exceptions registers nothing, too: another line means that one of its steps is
/// wrong, and has the number of the step in the status of `DriverEntry`.
#[test]
fn a_driver_that_registers_nothing_is_refused() {
    for name in ["nothing.sys", "nothing.so", "exceptions.sys", "imports.sys"] {
        assert_refused(
            &driver(name),
            "its DriverEntry registers neither a display driver (DxgkInitialize) nor a streaming \
             minidriver (KsInitializeDriver)",
        );
    }
}

#[test]
fn a_driver_of_another_kind_is_refused_by_its_imports() {
    for (name, kind) in [
        ("network.sys", "is a network driver (NDIS), it imports functions of ndis.sys"),
        ("framework.sys", "is a KMDF driver, it imports functions of wdfldr.sys"),
        (
            "storage.sys",
            "is a storage miniport driver (Storport), it imports functions of storport.sys",
        ),
        (
            "minifilter.sys",
            "is a file system minifilter driver, it imports functions of fltmgr.sys",
        ),
        ("hal-only.sys", "imports functions of hal.dll only, so it cannot register"),
    ] {
        assert_refused(
            &driver(name),
            &format!("{kind}; expected a display miniport driver or an AVStream minidriver"),
        );
    }
}

#[test]
fn a_display_driver_that_imports_another_library_is_flown() {
    const MODULE: &[u8] = b"ntoskrnl.exe\0";
    let folder = new_folder("other-library");
    for (name, scenario) in [
        ("compute.sys", "create-standalone"),
        ("render.sys", "create-standalone"),
        ("capture.sys", "ks-restart"),
    ] {
        let path = folder.join(name);
        let bytes = fs::read(driver(name)).unwrap();
        fs::write(&path, replaced(&bytes, MODULE, b"ndis.sys\0\0\0\0\0")).unwrap();
        let (code, report) = text(&["check", path.to_str().unwrap(), "--scenario", scenario]);
        assert_eq!(code, 0, "{name}: {report}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
