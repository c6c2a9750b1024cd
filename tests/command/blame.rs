//! The component that a finding blames, where a driver's mistake shows in the work of a client: the
//! drivers of `drivers/c/flaws.toml` that lose what the kernel has told them.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use crate::images::{bad_drivers, driver, on_two_threads};
use harness::command::{json, text};
use serde_json::Value;
use std::fs;

/// Drivers, and the DDI that got last what they have lost.
const LOSES: [(&str, &str); 8] = [
    ("maps-aperture-one-page-off", "DxgkDdiBuildPagingBuffer"),
    ("keeps-address-of-moved-allocation", "DxgkDdiPatch"),
    ("patches-nothing", "DxgkDdiPatch"),
    ("ignores-start-index", "DxgkDdiBuildPagingBuffer"),
    ("takes-page-number-as-bytes", "DxgkDdiBuildPagingBuffer"),
    ("updates-no-page-table", "DxgkDdiBuildPagingBuffer"),
    ("resets-nothing", "DxgkDdiResetEngine.LastAbortedFenceId"),
    ("resets-nothing-returns-fence", "DxgkDdiResetEngine"),
];

/// Drivers with one mistake that breaks several rules.
const ONE_CAUSE: [(&str, &str); 4] = [
    ("never-notifies-interrupt", "DxgkCbNotifyInterrupt"),
    ("creates-first-allocation-only", "DxgkDdiCreateAllocation, hAllocation"),
    ("opens-first-allocation-only", "DxgkDdiOpenAllocation, hDeviceSpecificAllocation"),
    ("forgets-fence", "DxgkDdiQueryCurrentFence"),
];

/// The findings of all scenarios.
fn findings(report: &Value) -> Vec<&Value> {
    let scenarios = report["scenarios"].as_array().unwrap();
    scenarios.iter().flat_map(|scenario| scenario["findings"].as_array().unwrap()).collect()
}

/// The rule that a bad driver declares, and the scenario that finds it.
fn declared(name: &str) -> (String, String) {
    let row = bad_drivers().into_iter().find(|row| row.name == name).unwrap();
    (row.rule, row.scenario)
}

/// The file of a bad driver.
fn bad(name: &str) -> String {
    driver(&format!("bad/{name}.sys"))
}

#[test]
fn a_driver_that_loses_what_it_was_told_is_blamed_in_every_good_scenario() {
    on_two_threads(&LOSES, |(name, place)| {
        let (code, report) = json(&["check", &bad(name)]);
        assert_eq!(code, 1, "{name}: {report}");
        let (rule, scenario) = declared(name);
        let found = findings(&report);
        for finding in &found {
            assert_eq!(finding["who"], "driver", "{name}: {finding}");
            // A fill by wrong table entries leaves the bytes where it had to go.
            if finding["rule"] == "WT-BYTES-001" && finding["where"] == "DxgkDdiBuildPagingBuffer" {
                continue;
            }
            assert_eq!(
                (&finding["rule"], &finding["where"]),
                (&rule.as_str().into(), &(*place).into()),
                "{name}: {finding}"
            );
        }
        let of_it = |value: &&Value| value["name"] == *scenario;
        let flown = report["scenarios"].as_array().unwrap().iter().find(of_it).unwrap();
        let mut rules: Vec<_> =
            flown["findings"].as_array().unwrap().iter().map(|it| &it["rule"]).collect();
        rules.dedup();
        assert_eq!(rules, [rule.as_str()], "{name}: {flown}");
    });
}

#[test]
fn one_mistake_of_a_driver_is_one_finding() {
    on_two_threads(&ONE_CAUSE, |(name, place)| {
        let (rule, scenario) = declared(name);
        let (code, report) = json(&["check", &bad(name), "--scenario", &scenario]);
        assert_eq!(code, 1, "{name}: {report}");
        let found = findings(&report);
        assert_eq!(found.len(), 1, "{name}: {report}");
        assert_eq!(
            (&found[0]["rule"], &found[0]["where"]),
            (&rule.as_str().into(), &(*place).into()),
            "{name}"
        );
        assert_eq!(found[0]["who"], "driver", "{name}");
    });
}

/// The rest of what an unfilled element breaks is listed below the finding about its handle.
#[test]
fn what_follows_from_an_unfilled_element_is_listed_below_it() {
    let (_, scenario) = declared("creates-first-allocation-only");
    let file = bad("creates-first-allocation-only");
    let (_, report) = json(&["check", &file, "--scenario", &scenario]);
    let below = findings(&report)[0]["consequences"].as_array().unwrap();
    let rules: Vec<&str> = below.iter().map(|finding| finding["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["KMD-ALLOC-002", "KMD-ALLOC-005", "ALLOC-PRIO-002", "WT-POOL-001"]);
}

#[test]
fn a_packet_that_is_never_reported_is_named_once() {
    let file = bad("never-notifies-interrupt");
    let (_, report) = json(&["check", &file]);
    assert_eq!(report["distinct"]["errors"], 1, "{report}");
    let found = findings(&report);
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("the packet with fence 1 of node 1 has ended"), "{message}");
}

/// A client that does break the rule is blamed, whatever driver it uses.
#[test]
fn a_client_that_uses_what_it_has_not_is_still_blamed() {
    for (file, scenario, rule) in [
        ("compute.sys", "residency-use-never-resident", "RESID-MAKE-005"),
        ("compute.sys", "residency-use-evicted", "RESID-EVICT-002"),
        ("gpuva.sys", "gpuva-use-unmapped", "GPUVA-MAP-007"),
        ("bad/maps-aperture-one-page-off.sys", "residency-use-never-resident", "RESID-MAKE-005"),
    ] {
        let (code, report) = json(&["check", &driver(file), "--scenario", scenario]);
        let found = findings(&report);
        assert_eq!((code, found.len()), (1, 1), "{file}: {report}");
        assert_eq!(
            (&found[0]["rule"], &found[0]["who"]),
            (&rule.into(), &"client".into()),
            "{file}"
        );
    }
}

/// The client of steps from a file may break any rule; it has broken none here.
#[test]
fn a_free_client_is_not_blamed_for_a_driver_that_loses_an_address() {
    let path = std::env::temp_dir().join(format!("windtunnel-{}-blame.steps", std::process::id()));
    fs::write(&path, "p1 d1 create alone a1 1\np1 d1 fill a1\nsettle\n").unwrap();
    let (code, report) = json(&[
        "check",
        &bad("ignores-residency-notification"),
        "--scenario",
        path.to_str().unwrap(),
    ]);
    fs::remove_file(&path).unwrap();
    let found = findings(&report);
    assert_eq!((code, found.len()), (1, 1), "{report}");
    assert_eq!((&found[0]["rule"], &found[0]["who"]), (&"WT-FAULT-001".into(), &"driver".into()));
}

/// The client of a good scenario breaks no rule. A finding against it, without one against a driver
/// before, is not printed as a finding: the check stops with exit status 2 and asks for a report.
#[test]
fn a_good_client_that_would_be_blamed_is_an_error_of_the_check() {
    let file = bad("reports-fault-elsewhere");
    let (code, report) = json(&["check", &file, "--scenario", "gpuva-map-and-submit"]);
    assert_eq!((code, &report["result"]), (2, &"could-not-run".into()), "{report}");
    assert!(findings(&report).is_empty(), "{report}");
    let error = report["error"].as_str().unwrap();
    for part in ["GPUVA-MAP-007", "0x123456000", "Please report this"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// No page names the number of the implicit system segment: a driver that puts its page tables there
/// is not flown, and not blamed.
#[test]
fn page_tables_in_the_implicit_segment_are_no_finding() {
    let file = driver("implicit-segment.sys");
    let (code, report) = json(&["check", &file, "--scenario", "gpuva-map-and-submit"]);
    assert_eq!((code, &report["result"]), (2, &"could-not-run".into()), "{report}");
    assert!(findings(&report).is_empty(), "{report}");
    let (_, report) = text(&["check", &file, "--scenario", "gpuva-map-and-submit", "--verbose"]);
    assert!(report.contains("page tables in the implicit system segment"), "{report}");
}

/// The driver submits by virtual address only, and its CPU does all paging work.
#[test]
fn a_driver_without_submit_command_starts_with_a_warning_and_flies() {
    let (code, report) = json(&["check", &driver("virtual-only.sys")]);
    assert_eq!(code, 0, "{report}");
    let found = findings(&report);
    assert!(!found.is_empty());
    for finding in found {
        assert_eq!(
            (&finding["rule"], &finding["severity"]),
            (&"WT-ENTRY-002".into(), &"warning".into()),
            "{finding}"
        );
    }
    let scenarios = report["scenarios"].as_array().unwrap();
    let flown = |name: &str| {
        let of_it = scenarios.iter().find(|value| value["name"] == name).unwrap();
        of_it["needs"] == serde_json::json!([])
    };
    for name in ["gpuva-map-and-submit", "gpuva-update", "residency-evict-and-restore"] {
        assert!(flown(name), "{name}: {report}");
    }
}
