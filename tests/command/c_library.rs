//! Clients in C and C++: built against the header and the library, and run.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use harness::pages::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex, PoisonError};

const NAME: &str = "libwindtunnel_d3dkmt.so";

/// The folder of the library, which cargo builds beside this test.
pub(crate) fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join(NAME).exists(), "{} is not there", folder.join(NAME).display());
    folder
}

/// Builds a client without warnings, once: other tests may run it already.
fn build(compiler: &str, standard: &str, source: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<(String, String), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (compiler.to_owned(), source.to_owned());
    built.entry(key).or_insert_with(|| build_now(compiler, standard, source)).clone()
}

fn build_now(compiler: &str, standard: &str, source: &str) -> PathBuf {
    let source = root().join(source);
    let client = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_name().unwrap());
    let client = client.with_extension(format!("{compiler}.client"));
    let library = library();
    let include = root().join("crates/d3dkmt/include");
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-rdynamic"]);
    command.arg("-pthread").arg("-I").arg(include).arg(&source).arg("-o").arg(&client);
    command.arg("-L").arg(&library).arg("-lwindtunnel_d3dkmt");
    // For example a sanitizer (`cargo xtask test --long`).
    command.args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace());
    let output = command.output().unwrap_or_else(|why| panic!("{compiler}: {why}"));
    assert!(output.status.success(), "{}:\n{}", source.display(), output_text(&output));
    client
}

pub(crate) fn build_c(source: &str) -> PathBuf {
    build("gcc", "-std=c11", source)
}

pub(crate) fn build_cpp(source: &str) -> PathBuf {
    build("g++", "-std=c++17", source)
}

/// Runs a client, which must succeed. Returns its output and its report.
fn run(client: &Path) -> (String, String) {
    let report = client.with_extension("report");
    let _ = fs::remove_file(&report); // There may be none.
    let output = command(client).env("WINDTUNNEL_REPORT", &report).output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {}\n{text}", client.display(), output.status);
    (text, fs::read_to_string(report).unwrap())
}

/// The command that runs a client.
pub(crate) fn command(client: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(client);
    // A report names sources relative to the folder that its program runs in. Cargo's own variable
    // names another folder first, with older builds.
    command.current_dir(root()).env("LD_LIBRARY_PATH", library());
    command
}

/// The number of the line with this text.
pub(crate) fn line_of(source: &str, text: &str) -> usize {
    let source = fs::read_to_string(root().join(source)).unwrap();
    1 + source.lines().position(|line| line.contains(text)).unwrap()
}

pub(crate) fn output_text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The last line of a report without anything in it.
const CLEAN: &str = "0 errors, 0 warnings, 0 notes, 0 objects left alive";

#[test]
fn the_library_exports_exactly_the_names_of_the_support_table() {
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(library().join(NAME)).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let exported: BTreeSet<&str> =
        text.lines().filter_map(|text| text.split_whitespace().nth(2)).collect();
    let tables = windtunnel::support();
    let table = tables.iter().find(|table| table.id == "d3dkmt").unwrap();
    let entries = table.rows.iter().map(|row| row.name);
    let events = [
        "windtunnel_process_open",
        "windtunnel_event_create",
        "windtunnel_event_is_set",
        "windtunnel_event_reset",
        "windtunnel_event_wait",
        "windtunnel_event_close",
        "windtunnel_nt_handle_name",
        "windtunnel_nt_handle_type",
    ];
    // Functions of the C library, to note the client's changes of its signals.
    let signals = ["sigaction", "signal", "__sysv_signal", "pthread_sigmask", "sigprocmask"];
    let expected = entries.chain(events).chain(signals);
    assert_eq!(exported, expected.collect::<BTreeSet<&str>>());
}

/// The page lists the functions of `win32u.dll` that have no page: none of them is exported.
#[test]
fn the_page_of_the_library_lists_the_names_that_are_not_exported() {
    let page = fs::read_to_string(root().join("docs/c-library.md")).unwrap();
    let (_, section) = page.split_once("\n## Not exported\n").unwrap();
    let listed: BTreeSet<&str> =
        section.split('`').filter(|name| name.starts_with("D3DKMT")).collect();
    assert!(section.contains(&format!("has {} more functions", listed.len())), "{section}");
    let known: BTreeSet<&str> =
        thunk::ENTRIES.iter().chain(thunk::ABSENT_ENTRIES).map(|row| row.name).collect();
    assert_eq!(listed.intersection(&known).next(), None);
    assert!(known.contains("D3DKMTCloseDxCoreDevice"));
}

/// A client that calls every entry point with a structure of zeros, and prints each status.
fn zeroed_calls() -> String {
    let rows = || thunk::ENTRIES.iter().chain(thunk::ABSENT_ENTRIES);
    let mut source = String::from("#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n");
    source.push_str("static uint64_t zeros[512];\n");
    // Writing to a String cannot fail.
    for row in rows() {
        let _ = writeln!(source, "int32_t {}(void *args);", row.name);
    }
    source.push_str("int main(void)\n{\n");
    for row in rows() {
        source.push_str("    memset(zeros, 0, sizeof zeros);\n");
        let name = row.name;
        let _ = writeln!(source, "    printf(\"{name} %x\\n\", (unsigned){name}(zeros));");
    }
    source.push_str("    return 0;\n}\n");
    source
}

#[test]
fn every_name_links_and_answers_a_zeroed_structure_as_its_row_says() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zeroed.c");
    fs::write(&source, zeroed_calls()).unwrap();
    let (output, report) = run(&build_c(source.to_str().unwrap()));
    assert_eq!(output.lines().count(), thunk::ENTRIES.len() + thunk::ABSENT_ENTRIES.len());
    for line in output.lines() {
        let (name, status) = line.split_once(' ').unwrap();
        let status = u32::from_str_radix(status, 16).unwrap().cast_signed();
        let absent = thunk::ABSENT_ENTRIES.iter().any(|row| row.name == name);
        let row = thunk::ENTRIES.iter().find(|row| row.name == name);
        let listed = row.is_some_and(|row| status == 0 || row.statuses.contains(&status));
        let expected = abi::status::STATUS_NOT_SUPPORTED;
        assert!(if absent { status == expected } else { listed }, "{line}");
    }
    assert!(!report.contains("who      kernel"), "{report}");
    // A refused call says why.
    let refused = report.split("refused calls:\n").nth(1).unwrap();
    let refused = refused.lines().filter(|line| line.contains(" returned STATUS_"));
    assert!(refused.count() > 40, "{report}");
    assert!(!report.contains(thunk::NO_REASON), "{report}");
}

#[test]
fn the_example_in_c_runs_clean() {
    let (output, report) = run(&build_c("examples/c/allocations.c"));
    assert!(output.ends_with("every object is destroyed\n"), "{output}");
    assert!(report.contains(CLEAN), "{report}");
}

#[test]
fn the_example_in_cpp_calls_from_threads_and_from_the_destructors_of_globals() {
    let (output, report) = run(&build_cpp("examples/c/allocations.cpp"));
    assert!(output.contains("four threads are done\nthe adapter closes: 0x00000000\n"), "{output}");
    assert!(report.contains(CLEAN), "{report}");
}

#[test]
fn the_header_is_c_and_cpp_with_any_warning() {
    let client = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header");
    let wide = "-DWINDTUNNEL_WIDE_WCHAR";
    for (compiler, standard, language, characters) in [
        ("gcc", "-std=c11", "c", "-UWINDTUNNEL_WIDE_WCHAR"),
        ("gcc", "-std=c11", "c", wide),
        ("gcc", "-std=c17", "c", "-UWINDTUNNEL_WIDE_WCHAR"),
        ("g++", "-std=c++17", "c++", "-UWINDTUNNEL_WIDE_WCHAR"),
        ("g++", "-std=c++17", "c++", wide),
    ] {
        let include = root().join("crates/d3dkmt/include");
        let mut command = Command::new(compiler);
        command.args([standard, "-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        command.arg(characters);
        let driver = root().join("crates/runtime/include");
        command.arg("-fsyntax-only").arg("-I").arg(&include).arg("-I").arg(&driver);
        command.arg(include.join("windtunnel/softgpu.h"));
        command.arg(driver.join("windtunnel/d3dumddi.h"));
        command.arg(include.join("windtunnel/d3dkmt.h")).arg("-o").arg(&client);
        // A header is not a main file, and this is the only warning about that.
        command.arg("-Wno-unused-function");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{compiler}: {}", output_text(&output));
    }
}

#[test]
fn hostile_pointers_crash_nothing_and_leak_nothing() {
    let (output, report) = run(&build_c("tests/c/hostile.c"));
    assert!(output.ends_with("hostile: all answered\n"), "{output}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
    assert!(!report.contains("WT-") && !report.contains("who      kernel"), "{report}");
    assert!(!report.contains(thunk::NO_REASON), "{report}");
}

#[test]
fn a_child_of_fork_gets_device_removed() {
    let (output, report) = run(&build_c("tests/c/forked.c"));
    assert!(output.ends_with("forked: all told\n"), "{output}");
    assert!(report.contains(CLEAN), "the report is the parent's: {report}");
}

#[test]
fn a_leak_is_reported_with_the_call_that_created_it() {
    let source = "tests/c/leaks.c";
    let (_, report) = run(&build_c(source));
    let text = fs::read_to_string(root().join(source)).unwrap();
    let line = |what: &str| 1 + text.lines().position(|text| text.contains(what)).unwrap();
    for (what, call, function) in [
        ("leaked: the device", "D3DKMTCreateDevice", "forget_a_device"),
        ("leaked: the allocation", "D3DKMTCreateAllocation", "forget_an_allocation"),
    ] {
        let origin = format!("created by {call}, called by {function} at ");
        let named = report.lines().find(|text| text.contains(&origin)).unwrap_or_else(|| {
            panic!("no line with '{origin}' in:\n{report}");
        });
        assert!(named.contains(&format!("leaks.c:{}", line(what))), "{named}");
    }
    assert!(report.contains("WT-LEFT-001"), "{report}");
    assert!(report.contains("ALLOC-DESTROY-001"), "the handle is invalid: {report}");
    let caller = format!("called   by main at tests/c/leaks.c:{}", line("with an invalid handle"));
    assert!(report.contains(&caller), "no '{caller}' in:\n{report}");
    assert!(report.ends_with(" 2 objects left alive\n"), "{report}");
    // README.md quotes the first lines about it. Addresses of sources are those of the build.
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let quote = readme.split("```report leaks.c\n").nth(1).unwrap().split("```").next().unwrap();
    let plain = |text: &str| text.replace("tests/c/leaks.c", "leaks.c");
    for line in quote.lines() {
        assert!(report.lines().any(|text| plain(text) == line), "no '{line}' in:\n{report}");
    }
}

#[test]
fn work_that_never_ends_is_reset_and_blocks_no_thread() {
    let (output, report) = run(&build_c("tests/c/hung.c"));
    let status = "waiting for it: 0x00000000\nhung: 1\nmore work: 0xc00002b6\n";
    assert_eq!(output, status, "{report}");
    assert!(!report.contains("WT-STUCK-001"), "{report}");
}

#[test]
fn threads_take_turns_and_an_impossible_key_is_reported() {
    let (output, report) = run(&build_c("tests/c/keyed.c"));
    assert!(output.ends_with("keyed: all had their turns\n"), "{output}");
    assert!(
        report.contains("WT-STUCK-001") && report.contains("key 77 of keyed-mutex 1"),
        "{report}"
    );
    assert!(report.ends_with("1 error, 0 warnings, 0 notes, 0 objects left alive\n"), "{report}");
}

#[test]
fn nt_handles_are_descriptors_and_answer_as_windows_does() {
    let (output, report) = run(&build_c("tests/c/nt_handles.c"));
    assert!(output.ends_with("nt_handles: all as observed\n"), "{output}");
    assert!(!report.contains("who      kernel") && !report.contains("WT-"), "{report}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
}

#[test]
fn events_and_sync_files_are_descriptors_that_a_client_polls() {
    let client = build_c("tests/c/events.c");
    let (output, report) = run(&client);
    assert!(output.ends_with("events: all seen\n"), "{output}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
    assert!(report.contains("is not an event of the client (5 times)"), "{report}");
    assert!(!report.contains("is closed before"), "{report}");
    let early = command(&client).arg("early").env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let report = output_text(&early);
    let sentence = "the event is closed before the 1 object that was created with it";
    assert!(report.contains(sentence) && report.contains("SYNC-CREATE-016"), "{report}");
    let line = line_of("tests/c/events.c", "too early");
    assert!(report.contains(&format!("by main at tests/c/events.c:{line}:")), "{report}");
}

#[test]
fn handles_adapters_and_allocations_answer_as_windows_does() {
    let (output, report) = run(&build_c("tests/c/observed.c"));
    assert!(output.ends_with("observed: all as on Windows\n"), "{output}");
    assert!(!report.contains("who      kernel") && !report.contains("WT-"), "{report}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
    // Rows 16 and 129: the client would crash.
    for rule in ["ADAPTER-OPEN-002", "ALLOC-CREATE-023"] {
        let crashes = "error: there is no argument structure: the call faults on Windows\n";
        let mut findings = report.split("\n\n").filter(|finding| finding.contains(rule));
        assert!(findings.any(|finding| finding.trim_start().starts_with(crashes)), "{report}");
    }
}

/// Runs a client that compares what it is answered with what Windows was seen to answer.
fn run_observed(source: &str, last_line: &str) {
    let (output, report) = run(&build_c(source));
    assert!(output.ends_with(last_line), "{output}");
    assert!(!report.contains("who      kernel") && !report.contains("WT-"), "{report}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
}

#[test]
fn owners_of_displays_answer_as_windows_does() {
    run_observed("tests/c/observed_displays.c", "displays: all as on Windows\n");
}

#[test]
fn synchronization_objects_answer_as_windows_does() {
    run_observed("tests/c/observed_sync.c", "synchronization: all as on Windows\n");
}

#[test]
fn keyed_mutexes_answer_as_windows_does() {
    run_observed("tests/c/observed_mutex.c", "keyed mutexes: all as on Windows\n");
}

#[test]
fn statistics_count_what_a_client_does() {
    let (output, report) = run(&build_c("tests/c/statistics.c"));
    assert!(output.ends_with("statistics: all counted\n"), "{output}");
    let clean = "windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects left alive\n";
    assert!(report.ends_with(clean), "{report}");
}

/// The report of a client that two tests read.
static ABSENT: LazyLock<String> = LazyLock::new(|| run(&build_c("tests/c/absent.c")).1);

/// A client that two tests run.
static FAILING: LazyLock<PathBuf> = LazyLock::new(|| build_cpp("tests/c/failing.cpp"));

#[test]
fn what_a_client_uses_and_is_absent_is_in_its_report() {
    let report = &*ABSENT;
    let absent: Vec<&str> =
        report.lines().filter_map(|line| line.strip_prefix("absent: ")).collect();
    assert_eq!(
        absent,
        [
            "D3DKMTCreateDevice.Flags",
            "D3DKMTEscape of another type than D3DKMT_ESCAPE_DRIVERPRIVATE (2 times)",
            "D3DKMTPresent (2 times)",
            "D3DKMTQueryAdapterInfo of a type that has no row",
        ],
        "{report}"
    );
}

#[test]
fn a_finding_names_the_version_of_the_entry_point_that_was_called() {
    let (source, report) = ("tests/c/absent.c", &*ABSENT);
    for (place, line) in [
        ("D3DKMTDestroyAllocation.phAllocationList", "the old destroy"),
        ("D3DKMTOpenResource2.hGlobalShare", "the new open"),
    ] {
        let expected = format!(
            "  who      client, in {place}\n  called   by main at {source}:{}:",
            line_of(source, line)
        );
        assert!(report.contains(&expected), "no '{expected}' in:\n{report}");
    }
    assert!(!report.contains("D3DKMTDestroyAllocation2"), "{report}");
}

#[test]
fn the_callers_in_cpp_have_their_names() {
    let source = "tests/c/failing.cpp";
    let mut command = command(&FAILING);
    let output = command.args(["0", "with an error"]).env("WINDTUNNEL_REPORT", "1").output();
    let report = output_text(&output.unwrap());
    let callers = format!(
        "  called   by client::Cache::destroy(unsigned int) at {source}:{}:",
        line_of(source, "an error: the handle is zero")
    );
    let (_, rest) = report.split_once(&callers).unwrap_or_else(|| panic!("{callers}\n{report}"));
    let mut rest = rest.lines().skip(1);
    for name in ["client::trim(client::Cache&)", "main"] {
        let prefix = format!("           by {name} at {source}:");
        assert!(rest.next().is_some_and(|line| line.starts_with(&prefix)), "{prefix}\n{report}");
    }
    assert!(rest.next().is_some_and(|line| line.starts_with("  rule ")), "{report}");
}

#[test]
fn a_client_with_errors_fails_if_the_environment_asks_for_it() {
    // Handlers, destructors and streams end as they would without the library.
    let printed = "main ends\nthe handler runs\nthe cache ends\n";
    for (arguments, variables, status, reported) in [
        (&["0", "with an error"][..], &[("WINDTUNNEL_FAIL", "1")][..], 1, true),
        (&["0", "with an error"], &[("WINDTUNNEL_FAIL", "0")], 0, false),
        (&["0", "with an error"], &[], 0, false),
        (&["0", "with an error"], &[("WINDTUNNEL_REPORT", "1")], 0, true),
        (&["7", "with an error"], &[("WINDTUNNEL_FAIL", "1")], 7, true),
        (&["0"], &[("WINDTUNNEL_FAIL", "1")], 0, false),
        (&["0"], &[("WINDTUNNEL_FAIL", "1"), ("WINDTUNNEL_REPORT", "1")], 0, true),
    ] {
        let mut command = command(&FAILING);
        command.args(arguments).env_remove("WINDTUNNEL_REPORT").env_remove("WINDTUNNEL_FAIL");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let case = format!("{arguments:?} with {variables:?}: {}", output_text(&output));
        assert_eq!(output.status.code(), Some(status), "{case}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{case}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors.contains("windtunnel: report"), reported, "{case}");
    }
}

#[test]
fn the_environment_chooses_the_driver() {
    let client = build_c("tests/c/drivers.c");
    let run = |driver: &str| {
        let output = command(&client).env("WINDTUNNEL_DRIVER", driver).output().unwrap();
        assert!(output.status.success(), "{driver}: {}", output_text(&output));
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let good = drivers::ALL.iter().filter(|driver| driver.breaks.is_empty());
    for driver in good.map(|driver| driver.name) {
        let (printed, errors) = run(driver);
        let virtual_addresses = usize::from(driver.contains("gpummu"));
        let expected = format!("adapters: 1\nvirtual addresses: {virtual_addresses}\n");
        assert_eq!((printed, &*errors), (expected, ""), "{driver}");
    }
    for driver in ["softgpu2", "kmd-leaks-device"] {
        let (printed, errors) = run(driver);
        assert_eq!(printed, "adapters: 0\n");
        let start =
            format!("windtunnel: WINDTUNNEL_DRIVER is {driver}, which is none of softgpu, ");
        assert!(errors.starts_with(&start), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}
