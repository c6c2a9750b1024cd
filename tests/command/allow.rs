//! Allowed findings are listed separately and never hidden; many seeds give one report.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use harness::command::{json, text, windtunnel};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// A file for a test, in its own folder.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("allow");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn allow(rule: &str, place: &str, more: &str) -> String {
    format!("[[allow]]\nrule = \"{rule}\"\nwhere = \"{place}\"\nreason = \"known\"\n{more}\n")
}

const LEAKS: &[&str] =
    &["check", "kmd-leaks-destroyed-allocation", "--scenario", "create-resource"];
const PLACE: &str = "DxgkDdiDestroyAllocation, pAllocationList";

fn flown(arguments: &[&str], path: &std::path::Path) -> (i32, Value) {
    json(&[arguments, &["--allow", path.to_str().unwrap()]].concat())
}

#[test]
fn an_allowed_finding_is_listed_and_does_not_count() {
    let (code, before) = json(LEAKS);
    assert_eq!(code, 1);
    assert_eq!(before["scenarios"][0]["allowed"], Value::Array(Vec::new()));
    let path = file("leak.toml", &allow("KMD-DESTROY-002", PLACE, ""));
    let (code, report) = flown(LEAKS, &path);
    let scenario = &report["scenarios"][0];
    let of = |list: &Value| list.as_array().unwrap().len() as u64;
    let found = of(&before["scenarios"][0]["findings"]);
    assert_eq!(of(&scenario["allowed"]), 1);
    assert_eq!(of(&scenario["findings"]), found - 1);
    assert_eq!(scenario["allowed"][0]["rule"], "KMD-DESTROY-002");
    assert_eq!(scenario["allowed"][0]["reason"], "known");
    assert_eq!(report["findings"].as_u64().unwrap(), before["findings"].as_u64().unwrap() - 1);
    assert_eq!(code, i32::from(report["findings"] != 0));
    let (_, output) = text(&[LEAKS, &["--allow", path.to_str().unwrap()]].concat());
    let line = format!("allowed: KMD-DESTROY-002 in {PLACE} (3 times): known");
    assert!(output.contains(&line), "{output}");
    assert!(output.contains(": 1 finding\n"), "{output}");
}

#[test]
fn the_allow_file_of_the_readme_is_valid() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let block = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let (code, report) = flown(LEAKS, &file("readme.toml", block));
    assert_eq!((code, &report["scenarios"][0]["result"]), (0, &"allowed".into()));
}

#[test]
fn rule_place_driver_and_scenario_are_exact() {
    let others = [
        allow("KMD-DESTROY-002", "DxgkDdiDestroyAllocation", ""),
        allow("KMD-DESTROY-003", PLACE, ""),
        allow("KMD-DESTROY-002", PLACE, "driver = \"table\""),
        allow("KMD-DESTROY-002", PLACE, "scenario = \"process-killed-in-use\""),
    ];
    for (number, another_client) in others.iter().enumerate() {
        let (code, report) = flown(LEAKS, &file(&format!("other-{number}.toml"), another_client));
        assert_eq!((code, &report["allow"]["allowed"]), (1, &0.into()), "{another_client}");
        // A rule for another driver or scenario had no chance to match.
        let idle = report["allow"]["did_not_occur"].as_array().unwrap().len();
        assert_eq!(idle, usize::from(number < 2), "{another_client}");
    }
}

#[test]
fn unused_allow_entries_are_reported() {
    let path = file("idle.toml", &allow("KMD-DESTROY-002", PLACE, ""));
    let good = &["check", "--scenario", "create-resource"];
    let (code, report) = flown(good, &path);
    assert_eq!((code, &report["allow"]["did_not_occur"][0]["line"]), (0, &1.into()));
    let (_, output) = text(&[&good[..], &["--allow", path.to_str().unwrap()]].concat());
    assert!(output.contains("allowed, but did not occur: KMD-DESTROY-002"), "{output}");
}

#[test]
fn a_bad_file_is_an_error_with_its_line() {
    let reasonless = allow("KMD-DESTROY-002", PLACE, "").replace("reason = \"known\"\n", "");
    for (name, text, at) in [
        (
            "reasonless.toml",
            format!("\n{reasonless}"),
            ":2: this [[allow]] has no reason; expected",
        ),
        ("broken.toml", "[[allow]]\nrule = KMD\n".to_owned(), ":2: "),
        ("unknown.toml", allow("KMD-DESTROY-902", PLACE, ""), ":1: there is no rule"),
    ] {
        let path = file(name, &text);
        let (code, report) = flown(LEAKS, &path);
        let output = report["error"].as_str().unwrap();
        assert_eq!(code, 2, "{output}");
        assert!(output.starts_with(&format!("{}{at}", path.display())), "{output}");
        assert!(output.contains("expected"), "{output}");
    }
    let (code, report) = flown(LEAKS, &PathBuf::from("/nowhere/allow.toml"));
    assert_eq!(code, 2);
    assert!(report["error"].as_str().unwrap().contains("/nowhere/allow.toml cannot be read"));
}

#[test]
fn a_baseline_allows_its_own_run_and_is_stable() {
    for driver in [
        "kmd-leaks-destroyed-allocation",
        "kmd-frees-allocation-on-close",
        "kmd-crashes-in-destroy",
        "softgpu",
    ] {
        let path = file(&format!("{driver}.toml"), "");
        let name = path.to_str().unwrap();
        let (code, _) = json(&["check", driver, "--write-baseline", name]);
        assert_eq!(code, i32::from(driver != "softgpu"), "{driver}");
        let first = fs::read_to_string(&path).unwrap();
        let again = ["check", driver, "--deny", "warnings", "--allow", name];
        let (code, report) = json(&[&again[..], &["--write-baseline", name]].concat());
        assert_eq!((code, &report["findings"]), (0, &0.into()), "{driver}: {report:#}");
        assert_eq!(fs::read_to_string(&path).unwrap(), first, "{driver}");
        let reason = format!("reason = \"baseline of {driver}: to be explained\"");
        assert_eq!(first.contains(&reason), driver != "softgpu", "{first}");
        let rules: Vec<&str> = first.lines().filter(|text| text.starts_with("rule = ")).collect();
        assert!(rules.is_sorted(), "{first}");
    }
}

#[test]
fn a_baseline_keeps_the_reasons_it_is_given() {
    let path = file("keeps.toml", &allow("KMD-DESTROY-002", PLACE, ""));
    let name = path.to_str().unwrap();
    text(&[LEAKS, &["--allow", name, "--write-baseline", name]].concat());
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("reason = \"known\""), "{written}");
}

#[test]
fn many_seeds_are_one_report_that_names_the_first() {
    let arguments = [
        "check",
        "kmd-reports-unsubmitted-fence",
        "--scenario",
        "process-two-threads",
        "--seed",
        "5",
    ];
    let (_, one) = json(&arguments);
    let (code, many) = json(&[&arguments[..], &["--seeds", "7"]].concat());
    assert_eq!((code, &many["seed"], &many["seeds"]), (1, &5.into(), &7.into()));
    assert_eq!(many["scenarios"].as_array().unwrap().len(), 1);
    let (first, merged) =
        (&one["scenarios"][0]["findings"][0], &many["scenarios"][0]["findings"][0]);
    assert_eq!((&merged["rule"], &merged["seed"]), (&first["rule"], &5.into()));
    assert!(merged["count"].as_u64() > first["count"].as_u64(), "{merged}");
    let (_, output) = text(&[&arguments[..], &["--seeds", "7"]].concat());
    assert!(output.contains("seeds 5 to 11") && output.contains("5 is the first"), "{output}");
    let output = windtunnel(&["check", "--seeds", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn progress_is_for_terminals_only() {
    let output = windtunnel(&["check", "--seeds", "5"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
