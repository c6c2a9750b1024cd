//! Calls of clients that are refused without a broken rule: notes in the client's report.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use crate::c_library::{build_c, command, line_of, output_text};
use crate::server::Server;
use harness::pages::root;
use std::fs;
use std::path::Path;

const SOURCE: &str = "tests/c/refused.c";

/// The section of a report, without its headline.
fn section(report: &str) -> &str {
    let (_, section) = report.split_once("\nrefused calls:\n").unwrap_or_else(|| {
        panic!("no refused calls in:\n{report}");
    });
    section.split("\n\n").next().unwrap()
}

#[test]
fn each_refused_call_of_a_client_is_a_note_with_its_reason_and_place() {
    let client = build_c(SOURCE);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused.report");
    let output = command(&client).env("WINDTUNNEL_REPORT", &path).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let report = fs::read_to_string(&path).unwrap();
    let place = |text| format!("{SOURCE}:{}:", line_of(SOURCE, text));
    let first_places: Vec<&str> =
        section(&report).lines().filter(|line| !line.starts_with("    ")).collect();
    let returned = "returned STATUS_INVALID_PARAMETER:";
    let expected = [
        format!("  D3DKMTDestroyDevice {returned} hDevice 0x1234 was never published (3 times)"),
        format!(
            "  D3DKMTDestroyContext {returned} the argument structure is NULL, but must point to 4 \
             bytes"
        ),
        format!(
            "  D3DKMTCreateAllocation2 {returned} pAllocationInfo is NULL, but must point to 96 bytes"
        ),
        format!(
            "  D3DKMTCreateAllocation2 {returned} pAllocationInfo is 0x10, where 96 bytes cannot be \
             read or written"
        ),
    ];
    assert_eq!(first_places, expected, "{report}");
    let places: Vec<&str> =
        section(&report).lines().filter(|line| line.contains("refused.c:")).collect();
    for (line, function, text) in [
        (0, "destroy", "made-up devices"),
        (1, "main", "CHECK(destroy(made_up) == BAD)"),
        (2, "main", "refused: no structure"),
        (3, "main", "refused: no list"),
        (4, "main", "refused: an unmapped list"),
    ] {
        let expected = format!("    called by {function} at {}", place(text));
        assert!(places[line].starts_with(&expected), "{expected} is not in:\n{report}");
    }
    // docs/run-your-client.md quotes the first line.
    let page = fs::read_to_string(root().join("docs/run-your-client.md")).unwrap();
    let quote = page.split("```report refused.c\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(report.replace(SOURCE, "refused.c").contains(quote), "{quote}\n{report}");
    // A finding and what is absent are where they were, and the counts are those of findings.
    assert!(report.contains("ALLOC-DESTROY-001") && report.contains("absent: D3DKMTEscape"));
    let counts = "1 error, 0 warnings, 0 notes, 0 objects left alive\n";
    assert!(report.ends_with(counts), "{report}");
}

#[test]
fn refused_calls_alone_do_not_fail_a_client() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused_only.c");
    let text = "#include <windtunnel/d3dkmt.h>\n\
                int main(void)\n{\n    D3DKMT_DESTROYDEVICE device = {.hDevice = 0x1234};\n\
                return D3DKMTDestroyDevice(&device) != STATUS_INVALID_PARAMETER;\n}\n";
    fs::write(&source, text).unwrap();
    let client = build_c(source.to_str().unwrap());
    let mut run = command(&client);
    let output = run.env("WINDTUNNEL_REPORT", "1").env("WINDTUNNEL_FAIL", "1").output().unwrap();
    let report = output_text(&output);
    assert!(output.status.success(), "{report}");
    assert!(section(&report).contains("hDevice 0x1234 was never published"), "{report}");
    assert!(report.ends_with("0 errors, 0 warnings, 0 notes, 0 objects left alive\n"), "{report}");
}

#[test]
fn the_report_of_a_server_has_the_refused_calls_of_each_process() {
    let server = Server::start("refused");
    server.run_well(&build_c(SOURCE), &["served"]);
    let ended = server.stop();
    let section = section(&ended.report);
    let devices = "  D3DKMTDestroyDevice returned STATUS_INVALID_PARAMETER: hDevice 0x1234 was never \
                   published (3 times)\n    called by process ";
    assert!(section.contains(devices), "{}", ended.report);
    let lock = section.lines().find(|line| line.starts_with("  D3DKMTLock2 ")).unwrap();
    let reason = "returned STATUS_INVALID_PARAMETER: another process created view ";
    assert!(lock.contains(reason), "{}", ended.report);
    assert!(!ended.report.contains("ALLOC-LOCK"), "{}", ended.report);
    assert!(ended.report.ends_with("1 error, 0 warnings, 0 notes, 0 objects left alive\n"));
}
