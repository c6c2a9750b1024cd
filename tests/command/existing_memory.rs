//! Allocations over a client's own memory, in one process and through a server.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use crate::c_library::{build_c, command, output_text};
use crate::images::drivers_folder;
use crate::server::Server;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

fn client() -> PathBuf {
    build_c("tests/c/existing_memory.c")
}

/// Runs a part of the client in one process, which must succeed. Returns its report.
fn run(client: &Path, part: &str) -> String {
    let output = command(client).arg(part).env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{part}: {}\n{text}", output.status);
    text
}

/// The two findings about memory that a client does not have, or takes away.
fn assert_memory_findings(report: &str) {
    let findings: Vec<&str> =
        report.split("\n\n").filter(|it| it.contains("WT-MEMORY-001")).collect();
    let [refused, taken] = &findings[..] else { panic!("{report}") };
    assert!(refused.contains(" is not mapped for reading and writing (4 times)"), "{report}");
    let sentence = " at offset 0x0, but the client had taken that memory away, and it got zeros";
    assert!(
        taken.contains("error: the GPU read allocation ") && taken.contains(sentence),
        "{report}"
    );
    assert!(taken.contains("who      client, in D3DKMTCreateAllocation.pSystemMem"), "{report}");
    assert!(report.contains("windtunnel: 2 errors, 0 warnings, 0 notes, 0 objects"), "{report}");
}

const FORBIDDEN: &str = "absent: D3DKMTCreateAllocation2.Flags.ExistingSysMem where the system \
                         forbids process_vm_readv";

#[test]
fn the_gpu_works_on_the_memory_of_a_client() {
    let report = run(&client(), "memory");
    assert!(!report.contains("absent: "), "{report}");
    assert!(report.contains("windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects"), "{report}");
}

#[test]
fn memory_that_a_client_takes_away_is_its_finding() {
    assert_memory_findings(&run(&client(), "broken"));
}

#[test]
fn a_server_works_on_the_memory_of_its_clients() {
    let server = Server::start("existing_memory");
    server.run_well(&client(), &["memory"]);
    server.stop_clean();
    let server = Server::start("existing_memory_broken");
    server.run_well(&client(), &["broken"]);
    assert_memory_findings(&server.stop().report);
}

/// The findings about handles that are no sections, and about a section that is too short.
fn assert_section_findings(report: &str) {
    let all = |rule| report.split("\n\n").filter(|it| it.contains(rule)).collect::<Vec<_>>();
    let kinds = all("ALLOC-CREATE-017");
    let [other, closed] = &kinds[..] else { panic!("{report}") };
    assert!(other.contains(", a handle of another kind (2 times)"), "{report}");
    assert!(closed.contains("is 0x270f, which is no open handle (3 times)"), "{report}");
    let lengths = all("WT-MEMORY-001");
    let [short, taken] = &lengths[..] else { panic!("{report}") };
    assert!(short.contains("error: the section has 0x1000 of 0x2000 bytes"), "{report}");
    let sentence = " at offset 0x1000, but the client had taken that memory away, and the bytes \
                    were lost";
    assert!(taken.contains("error: the GPU wrote to ") && taken.contains(sentence), "{report}");
    assert!(report.contains("windtunnel: 4 errors, 0 warnings, 0 notes, 0 objects"), "{report}");
}

#[test]
fn the_gpu_works_on_a_section() {
    let report = run(&client(), "section");
    assert!(report.contains("windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects"), "{report}");
    assert_section_findings(&run(&client(), "broken section"));
}

#[test]
fn a_server_works_on_the_sections_of_its_clients() {
    let server = Server::start("existing_section");
    server.run_well(&client(), &["section"]);
    server.stop_clean();
    let server = Server::start("existing_section_broken");
    server.run_well(&client(), &["broken section"]);
    assert_section_findings(&server.stop().report);
}

/// A client that is killed while the GPU has its memory is no finding.
#[test]
fn a_client_that_is_killed_takes_its_memory_along() {
    let server = Server::start("existing_memory_killed");
    for _ in 0..5 {
        let output = server.run(&client(), &["killed"]);
        assert_eq!(output.status.signal(), Some(9), "{}", output_text(&output));
    }
    server.run_well(&client(), &["memory"]);
    server.stop_clean();
}

#[test]
fn where_the_system_forbids_the_copy_a_client_gets_not_supported() {
    let refuse = build_c("tests/c/without_call.c");
    let mut alone = command(&refuse);
    let output = alone.arg("process_vm_readv").arg(client()).arg("forbidden");
    let output = output.env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success() && text.contains(FORBIDDEN), "{text}");

    let server = Server::start_without("existing_memory_forbidden", &refuse, "process_vm_readv");
    server.run_well(&client(), &["forbidden"]);
    let ended = server.stop();
    assert!(ended.report.contains(FORBIDDEN), "{}", ended.report);
}

/// A driver from a file gets addresses of its own process, where no memory of a client can be.
#[test]
fn a_driver_from_a_file_gets_no_memory_of_another_process() {
    let driver = drivers_folder().join("gpuva.sys").into_os_string().into_string().unwrap();
    let server = Server::start_with("existing_memory_file", &["--driver", &driver]);
    server.run_well(&client(), &["forbidden"]);
    let report = server.stop().report;
    let absent = "absent: D3DKMTCreateAllocation2.Flags.ExistingSysMem of another process, with a \
                  driver from a file: it maps pages in its own process";
    assert!(report.contains(absent), "{report}");
    assert!(report.contains("windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects"), "{report}");
}
