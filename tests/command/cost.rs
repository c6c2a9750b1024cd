//! The programs that measure: `bench`, and `churn`, the load on the C library.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use crate::images::drivers_folder;
use harness::command::cost_program;
use serde_json::Value;
use std::process::Output;

/// A smoke test with further arguments: its exit code and its output.
fn bench(arguments: &[&str]) -> (i32, String) {
    drivers_folder(); // The rows of images need the drivers.
    let output = cost_program("bench").arg("--quick").args(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn bench_measures_every_row_beside_its_floors() {
    let (code, report) = bench(&["--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(code, 0, "{report}");
    let rows = report["bench"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 26, "{report}");
    for row in rows {
        let positive = |key: &str| row[key].as_f64().is_some_and(|value| value > 0.0);
        assert!(["pair_ns", "bare_ns", "composite_ns", "bytes"].into_iter().all(positive), "{row}");
    }
    let memory = report["bench"]["memory"].as_array().unwrap();
    assert_eq!(memory.len(), 11, "{report}");
    for row in memory {
        let positive = |key: &str| row[key].as_f64().is_some_and(|value| value > 0.0);
        assert!(positive("number"), "{row}");
        // A benchmark with a goal has a comparison; one inside the kernel has bytes.
        assert_eq!(row["wanted"].is_null(), row["met"].is_null(), "{row}");
        let resident = row["what"].as_str().unwrap().starts_with("MakeResident");
        assert_eq!(positive("bytes"), resident, "{row}");
    }
    let work = report["bench"]["work"].as_array().unwrap();
    assert_eq!(work.len(), 10, "{report}");
    for row in work {
        assert!(row["ns"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert_eq!(row["wanted_ns"].is_null(), row["met"].is_null(), "{row}");
    }
    let through = report["bench"]["umd"].as_array().unwrap();
    assert_eq!(through.len(), 3, "{report}");
    for row in through {
        let positive = |key: &str| row[key].as_f64().is_some_and(|value| value > 0.0);
        assert!(positive("thunk_ns") && positive("runtime_ns"), "{row}");
        assert_eq!(row["wanted_ns"].is_null(), row["met"].is_null(), "{row}");
    }
    let check = &report["bench"]["check"];
    let positive = |key: &str| check[key].as_u64().is_some_and(|value| value > 0);
    assert!(["processor_ns", "page_faults", "waits"].into_iter().all(positive), "{check}");
    assert!(report["bench"]["images_left_out"].is_null(), "{report}");
    let images = report["bench"]["images"].as_array().unwrap();
    assert_eq!(images.len(), 8, "{report}");
    for row in images {
        assert!(row["ns"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert_eq!(row["beside_ns"].is_null(), row["added_ns"].is_null(), "{row}");
        assert_eq!(row["wanted_ns"].is_null(), row["met"].is_null(), "{row}");
    }
    for goal in report["bench"]["goals"].as_array().unwrap() {
        let none = goal["measured"].as_array().unwrap().is_empty();
        assert_eq!(none, goal["met"].is_null(), "{goal}");
        // With a single number there is nothing to compare.
        let across = goal["what"].as_str().unwrap().contains("with the most live");
        assert_eq!(none, across, "{goal}");
    }
    let (code, report) = bench(&["--only", "checks off"]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report.lines().filter(|text| text.contains(" | 10 | ")).count(), 12, "{report}");
    let (code, report) = bench(&["--only", "C library"]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report.lines().filter(|text| text.contains(" | 10 | ")).count(), 4, "{report}");
    let (code, report) = bench(&["--only", "bandwidth"]);
    assert_eq!((code, report.matches("GB/s").count()), (0, 3), "{report}");
    let (code, report) = bench(&["--only", "an image loaded"]);
    assert_eq!((code, report.matches(" us |").count()), (0, 1), "{report}");
    let (code, report) = bench(&["--only", "windtunnel check"]);
    assert_eq!((code, report.matches("| windtunnel check").count()), (0, 2), "a row and a goal");
    let (code, report) = bench(&["--only", "nothing"]);
    assert_eq!(code, 2, "{report}");
}

/// Twenty thousand allocations alive on eight threads, some of which are destroyed and created
/// again.
fn churn(report: &str) -> Output {
    let size = ["--alive", "20000", "--threads", "8", "--pairs", "2500"];
    let mut churn = cost_program("churn");
    churn.args(size).env_remove("WINDTUNNEL_FAIL").env("WINDTUNNEL_REPORT", report);
    churn.output().unwrap()
}

#[test]
fn nothing_is_alive_after_a_load_of_eight_threads() {
    const NONE: &str = "windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects left alive\n";
    for (report, errors) in [("0", ""), ("1", NONE)] {
        let output = churn(report);
        let (text, said) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{text}{said}");
        assert!(text.starts_with("20000 alive after "), "{text}");
        assert!(text.ends_with("\n20000 pairs; everything destroyed; 0 objects alive\n"), "{text}");
        assert!(said.ends_with(errors) && said.is_empty() == errors.is_empty(), "{said}");
    }
}
