//! Bytes that drivers from files move: judged where the flight can look at them, and reported as not
//! judged where it cannot.

use crate::images::{bad_drivers, driver, on_two_threads};
use harness::command::{json, text};
use serde_json::Value;

/// The findings of a driver in a scenario.
fn findings(file: &str, scenario: &str) -> Vec<Value> {
    let (code, report) = json(&["check", &driver(file), "--scenario", scenario]);
    assert_eq!(code, 1, "{file}: {report}");
    report["scenarios"][0]["findings"].as_array().cloned().unwrap_or_default()
}

/// Each bad driver that moves wrong bytes is found in both forms, and nothing else is.
#[test]
fn wrong_bytes_are_found_in_images_and_shared_objects() {
    const MOVES: [&str; 6] = [
        "transfers-one-byte",
        "transfers-nothing",
        "transfers-without-offsets",
        "fills-segment-start",
        "fills-wrong-pattern",
        "ignores-patch-without-fault",
    ];
    let mut rows = bad_drivers();
    rows.retain(|row| MOVES.contains(&&*row.name));
    assert_eq!(rows.len(), MOVES.len());
    on_two_threads(&rows, |row| {
        for extension in ["sys", "so"] {
            let found = findings(&format!("bad/{}.{extension}", row.name), &row.scenario);
            assert!(!found.is_empty(), "{}", row.name);
            for finding in &found {
                assert_eq!(finding["rule"], *row.rule, "{}: {finding}", row.name);
                assert_eq!(finding["who"], "driver", "{}: {finding}", row.name);
            }
        }
    });
}

/// Three ways to see that a transfer moved other bytes than it had to.
#[test]
fn the_finding_says_where_the_bytes_are_wrong() {
    for (name, scenario, words) in [
        // Out of memory that the CPU sees.
        (
            "transfers-one-byte",
            "residency-evict-and-restore",
            "left byte 0x1 of allocation 2, at page 0 of the system's memory, as 0x00 where 0x02 \
             must be",
        ),
        // Out of other memory, with contents that a packet wrote.
        (
            "transfers-one-byte",
            "residency-adjacent-allocations",
            "wrote nothing to bytes 0x40 to 0x7f of allocation 1 in the system's memory",
        ),
        // Out of other memory, with contents that paging work wrote.
        (
            "fills-wrong-pattern",
            "residency-reference-count",
            "as 0xef where 0x00 must be; the operation that brought the bytes to where the CPU does \
             not see them may be the wrong one",
        ),
        // To memory that the CPU sees.
        (
            "fills-segment-start",
            "render-locked-allocation",
            "the fill (paging 1) left byte 0x0 of allocation 2, at the GPU's address 0x10018000",
        ),
    ] {
        let found = findings(&format!("bad/{name}.sys"), scenario);
        let says =
            |finding: &Value| finding["message"].as_str().is_some_and(|it| it.contains(words));
        assert!(found.iter().any(says), "{name} in {scenario}: {found:?}");
    }
}

/// The report names the segments that a flight cannot look at, in a line and in JSON.
#[test]
fn segments_whose_bytes_are_not_judged_are_named() {
    let aperture = "bytes of segment 1 (an aperture: what the GPU finds there is not known, only the \
                    pages behind it)";
    let local = "bytes of segment 3 (the CPU does not see it: they are judged when a transfer brings \
                 them back)";
    let file = driver("compute.sys");
    let flight = ["check", &file, "--scenario", "residency-evict-and-restore"];
    let (_, report) = json(&flight);
    let expected = serde_json::json!([aperture, local]);
    assert_eq!(report["scenarios"][0]["not_judged"], expected, "{report}");
    for more in [&[][..], &["--verbose"]] {
        let (code, report) = text(&[&flight[..], more].concat());
        assert_eq!(code, 0, "{report}");
        let not_judged = report.split("\nNot judged:").nth(1).unwrap_or_default();
        assert!(not_judged.contains(aperture) && not_judged.contains(local), "{report}");
        assert!(!report.contains("bytes of segment 2"), "{report}");
    }
    // The model of the built-in hardware can be asked.
    let (_, report) = json(&["check", "--scenario", "residency-evict-and-restore"]);
    assert_eq!(report["scenarios"][0]["not_judged"], serde_json::json!([]), "{report}");
}
