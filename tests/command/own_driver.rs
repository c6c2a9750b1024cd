//! A client in C and its own kernel-mode driver from a file, in one process: `WINDTUNNEL_DRIVER` names
//! the file.
#![expect(clippy::unwrap_used, reason = "a client that does not run is a failed test")]

use crate::c_library::{build_c, command, line_of, output_text};
use crate::images::drivers_folder;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Output;

const CLIENT: &str = "tests/c/own_driver.c";

/// Runs the client with a driver. Returns its output and its report.
fn run(driver: &Path, arguments: &[&str]) -> (Output, String) {
    let name = driver.file_name().unwrap().to_str().unwrap();
    let name = format!("own-{name}{}.report", arguments.concat());
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_file(&report); // There may be none.
    let mut client = command(&build_c(CLIENT));
    client.args(arguments).env("WINDTUNNEL_DRIVER", driver).env("WINDTUNNEL_REPORT", &report);
    let output = client.output().unwrap();
    (output, fs::read_to_string(report).unwrap_or_default())
}

#[test]
fn a_client_and_a_driver_from_a_file_run_in_one_process() {
    for file in ["compute.so", "compute.sys", "gpuva.so", "gpuva.sys"] {
        let (output, report) = run(&drivers_folder().join(file), &[]);
        assert!(output.status.success(), "{file}: {}", output_text(&output));
        assert_eq!(output_text(&output), "adapters: 1\nfilled and read\n", "{file}");
        let clean = "0 errors, 0 warnings, 0 notes, 0 objects left alive";
        assert!(report.contains(clean), "{file}: {report}");
    }
}

/// What the driver does wrong is in the report of the client, which did nothing wrong.
#[test]
fn the_report_of_the_client_has_the_findings_on_its_driver() {
    let (output, report) = run(&drivers_folder().join("bad/frees-with-wrong-tag.so"), &[]);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(report.contains("  rule     WT-POOL-001: "), "{report}");
    assert!(report.contains("  who      driver, in DxgkDdiDestroyContext\n"), "{report}");
    assert!(!report.contains("  who      client"), "{report}");
}

/// In a call of the client, in a DPC, in a thread of the driver, and before the kernel runs.
#[test]
fn a_fault_of_the_driver_in_the_process_of_the_client_is_named_and_passed_on() {
    const NULL_WRITE: &str = "the driver wrote to address 0x0 (NULL) at ";
    for (file, what, place) in [
        (
            "dereferences-device-handle.sys",
            "the driver read from address ",
            ", in DxgkDdiCreateDevice",
        ),
        (
            "dereferences-device-handle.so",
            "the driver read from address ",
            ", in DxgkDdiCreateDevice",
        ),
        ("null-write-in-dpc.so", NULL_WRITE, ", in DxgkDdiDpcRoutine"),
        ("null-write-in-thread.so", NULL_WRITE, ""),
        ("null-write-in-driver-entry.so", NULL_WRITE, ""),
    ] {
        let (output, report) = run(&drivers_folder().join("bad").join(file), &[]);
        let text = output_text(&output);
        assert_eq!(output.status.signal(), Some(11), "{file}: {text}");
        assert!(text.contains(&format!("windtunnel: {what}")), "{file}: {text}");
        assert!(text.contains(&format!("\n    where    driver{place}\n")), "{file}: {text}");
        assert!(text.contains("    stack    "), "{file}: {text}");
        // Before the kernel runs there is no report.
        if !file.contains("driver-entry") {
            assert!(report.contains("\nended by a fault of the driver, in "), "{file}: {report}");
            assert!(report.contains("  rule     WT-CRASH-001: "), "{file}: {report}");
            assert!(report.contains("windtunnel: 1 error, "), "{file}: {report}");
        }
    }
}

#[test]
fn a_fault_of_the_client_is_not_its_drivers() {
    let (output, report) = run(&drivers_folder().join("compute.so"), &["fault"]);
    assert_eq!(output.status.signal(), Some(11), "{}", output_text(&output));
    let line = line_of(CLIENT, "the write");
    let ended = format!(
        "ended by SIGSEGV: the client wrote to address 0x0 (NULL) in write_null (own_driver.c:{line})"
    );
    assert!(report.contains(&ended), "{report}");
    assert!(!report.contains("driver, in "), "{report}");
}

#[test]
fn a_file_that_is_no_display_driver_is_named_and_there_is_no_adapter() {
    let folder = drivers_folder();
    for (file, why) in [
        (folder.join("none.so"), "cannot be read: "),
        (
            folder.join("capture.so"),
            "is an AVStream minidriver: D3DKMT clients need a display driver",
        ),
        (folder.join("nothing.sys"), "needs "),
    ] {
        let (output, _) = run(&file, &[]);
        let text = output_text(&output);
        assert!(output.status.success(), "{text}");
        let start = format!("windtunnel: WINDTUNNEL_DRIVER: {} {why}", file.display());
        assert!(text.contains(&start), "{text}");
        assert!(
            text.contains("adapters: 0\n") && text.contains("; there is no adapter\n"),
            "{text}"
        );
    }
}
