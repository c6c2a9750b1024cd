//! The report of a check: its order, what is merged and what is not, and its JSON Schema.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use crate::images::driver;
use harness::command::{json, text, windtunnel};
use harness::pages::{compare, read, root};
use harness::schema::difference;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const LEAKS: &str = "kmd-leaks-destroyed-allocation";

/// A folder for a test.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

/// The command of a `repeat` line, without the program.
fn repeated(command: &str) -> Vec<&str> {
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "windtunnel", "{command}");
    words[1..].to_vec()
}

#[test]
fn a_mistake_in_every_scenario_is_one_finding() {
    let (code, report) = text(&["check", LEAKS]);
    let (_, machine) = json(&["check", LEAKS]);
    assert_eq!(code, 1);
    assert_eq!(report.matches("rule     KMD-DESTROY-002").count(), 1, "{report}");
    assert_eq!(machine["distinct"]["errors"], 1, "{machine}");
    let scenarios = machine["scenarios"].as_array().unwrap();
    let found = scenarios.iter().filter(|value| value["result"] == "findings").count();
    assert!(found > 20, "{found}");
    assert!(report.contains(&format!(" times in {found} scenarios)\n")), "{report}");
    let others = format!(
        "found in create-standalone, create-resource, create-into-resource and {} more\n",
        found - 3
    );
    assert!(report.contains(&others), "{report}");
    let last = report.lines().last().unwrap();
    assert!(
        last.starts_with("FAIL: 1 error, 0 warnings, 0 notes; 72 of 132 scenarios flown; "),
        "{last}"
    );
    let repeat = "; repeat with: windtunnel check kmd-leaks-destroyed-allocation --seed 1";
    assert!(last.ends_with(repeat), "{last}");
}

#[test]
fn the_findings_come_last_and_each_says_what_to_change() {
    let (_, report) =
        text(&["check", LEAKS, "--scenario", "create-resource", "--deny", "warnings"]);
    let at = |part: &str| report.find(part).unwrap_or_else(|| panic!("no {part} in {report}"));
    let order = [
        "Flying ",
        "  findings   create-resource",
        "Not judged: ",
        "  error: DxgkDdiDestroyAllocation returned",
        "    where    driver, in DxgkDdiDestroyAllocation, pAllocationList",
        "    rule     KMD-DESTROY-002 (documented): ",
        "    page     https://learn.microsoft.com/windows-hardware/drivers/ddi/d3dkmddi/ns-d3dkmddi-_dxgkarg_destroyallocation\n",
        "    Windows  no bug check: the pool stays allocated until the system restarts; pool left at ",
        "    events\n",
        "  <- here\n",
        "    help     ",
        "    repeat   windtunnel check kmd-leaks-destroyed-allocation --scenario create-resource --seed 1\n",
        "1 of 1 scenario flown to the end; ",
        "FAIL: 1 error, ",
    ];
    assert!(order.map(at).is_sorted(), "{report}");
    let expected = "repeat with: windtunnel check kmd-leaks-destroyed-allocation --scenario \
                    create-resource --seed 1 --deny warnings\n";
    assert!(report.ends_with(expected), "{report}");
    assert!(!report.contains('\x1b'), "no colour in a pipe");
}

#[test]
fn clean_scenarios_fold_and_verbose_lists_them() {
    let (_, short) = text(&["check"]);
    let (_, long) = text(&["check", "--verbose"]);
    assert!(!short.contains("destroy-deferred") && long.contains("destroy-deferred"), "{short}");
    assert!(short.lines().any(|line| line.starts_with("  clean      keyed-mutex ")), "{short}");
    let needs = "7 scenarios need a driver that implements DxgkDdiRender, DxgkDdiPatch: \
                 render-fill-and-copy, ";
    assert!(short.contains(needs), "{short}");
    assert!(short.contains("(--verbose lists them)"), "{short}");
    assert!(long.contains("\n  live rules never evaluated: "), "{long}");
    assert!(short.lines().count() < 40, "{short}");
    let last = "; repeat with: windtunnel check softgpu-gpummu --seed 1\n";
    assert!(short.ends_with(last) && long.ends_with(last), "{short}");
}

#[test]
fn the_repeat_command_of_a_finding_shows_it_again() {
    let driver = "kmd-reports-unsubmitted-fence";
    let (_, report) =
        json(&["check", driver, "--scenario", "process-two-threads", "--seeds", "3", "--pressure"]);
    let finding = &report["scenarios"][0]["findings"][0];
    let (_, again) = json(&repeated(finding["repeat"].as_str().unwrap()));
    let same = &again["scenarios"][0]["findings"][0];
    for key in ["rule", "message", "events", "seed"] {
        assert_eq!(same[key], finding[key], "{key}");
    }
    let (_, again) = json(&repeated(report["repeat"].as_str().unwrap()));
    assert_eq!(again, report);
}

#[test]
fn a_scenario_that_ended_early_says_where_and_is_not_called_flown() {
    let (_, report) = json(&["check", "softgpu", "--scenario", "residency-evict-twice"]);
    let scenario = &report["scenarios"][0];
    let need = scenario["needs"][0].as_str().unwrap();
    let begun = scenario["ended_early"].as_u64().unwrap();
    let (_, output) = text(&["check", "softgpu", "--scenario", "residency-evict-twice"]);
    assert!(output.contains(need), "{output}");
    assert!(output.contains("0 of 1 scenario flown to the end"), "{output}");
    assert_eq!(output.contains("1 ended early"), begun == 1, "{output}");
    // A driver that fails a step has findings, and its scenarios do not reach their end.
    let (_, report) = json(&["check", "kmd-fails-create-context"]);
    let scenarios = report["scenarios"].as_array().unwrap();
    let early = scenarios.iter().filter(|value| value["ended_early"] == 1).count();
    let done = scenarios.iter().filter(|value| value["needs"] == Value::Array(vec![])).count();
    let (_, output) = text(&["check", "kmd-fails-create-context"]);
    assert!(early > 0, "{report}");
    let summary =
        format!("{done} of {} scenarios flown to the end, {early} ended early", scenarios.len());
    assert!(output.contains(&summary), "{output}");
    let step = format!(
        "{early} scenarios ended early: each needs D3DKMTCreateContextVirtual for node 0 to succeed; it returned STATUS_NOT_SUPPORTED: "
    );
    assert!(output.contains(&step), "{output}");
    let (_, output) = text(&["check", "kmd-fails-create-context", "--verbose"]);
    assert_eq!(output.matches("ended early, after ").count(), early, "{output}");
}

/// A device is lost, because the driver reports a fault of a packet without a reason that the kernel
/// knows: the check names no rule, and does not pass.
#[test]
fn a_step_that_fails_without_a_finding_makes_the_check_incomplete() {
    let driver = driver("bad/reports-fault-nowhere.so");
    let (code, report) = json(&["check", &driver, "--scenario", "destroy-synchronous"]);
    let scenario = &report["scenarios"][0];
    assert_eq!((code, &report["result"]), (1, &"fail".into()), "{report}");
    assert_eq!((&scenario["incomplete"], &scenario["result"]), (&1.into(), &"not-flown".into()));
    assert_eq!(report["distinct"]["errors"], 0, "{report}");
    let need = scenario["needs"][0].as_str().unwrap();
    for text in [
        "to succeed; it returned STATUS_DEVICE_REMOVED; device ",
        " was lost (",
        "; the last call of the driver was DxgkDdi",
    ] {
        assert!(need.contains(text), "{need}");
    }
    let (code, output) = text(&["check", &driver, "--scenario", "destroy-synchronous"]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("\nFAIL (incomplete): 0 errors, "), "{output}");
    assert!(output.contains(need), "{output}");
    // A correct driver may refuse a step: its scenarios are not flown to the end, and nothing fails.
    let (code, report) = json(&[
        "check",
        "softgpu",
        "--scenario",
        "residency-evict-twice",
        "--scenario",
        "create-standalone",
    ]);
    assert_eq!((code, &report["result"]), (0, &"pass".into()), "{report}");
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_flying() {
    let file = folder("refused").join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("below");
    for option in ["--trace", "--frames", "--write-baseline"] {
        let output = windtunnel(&["check", option, below.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(output.stdout.is_empty(), "{option}: nothing was flown");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("below cannot be written: "), "{message}");
    }
    // A check that is refused for another reason leaves no file.
    let new = folder("refused").join("new.toml");
    let output = windtunnel(&[
        "check",
        "--host",
        "threads",
        "--seed",
        "1",
        "--write-baseline",
        new.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!new.exists());
}

#[test]
fn a_file_that_cannot_be_written_during_a_check_fails_it_after_its_findings() {
    for (option, driver, scenario, file, errors) in [
        ("--trace", "softgpu", "create-standalone", "create-standalone.trace", "0 errors"),
        ("--trace", LEAKS, "create-standalone", "create-standalone.trace", "1 error"),
        ("--frames", "capture", "ks-state-transitions", "ks-state-transitions-000.png", "0 errors"),
        ("--frames", "capture", "ks-state-transitions", "contact-sheet.png", "0 errors"),
    ] {
        let folder = folder(&format!("full-{driver}-{file}"));
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.join(file)).unwrap();
        let check = ["check", driver, "--scenario", scenario, option, folder.to_str().unwrap()];
        let output = windtunnel(&check);
        let [report, message] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let why = format!("{file} cannot be written: No space left on device (os error 28)");
        assert_eq!(output.status.code(), Some(2), "{file}: {report}{message}");
        let last = report.lines().last().unwrap();
        assert!(last.starts_with(&format!("FAIL (incomplete): {errors}, ")), "{last}");
        assert!(last.contains(&why), "{last}");
        assert!(message.trim_end().ends_with(&why), "{message}");
        let (code, machine) = json(&check);
        assert_eq!((code, &machine["result"]), (2, &"could-not-run".into()), "{machine}");
        assert!(machine["error"].as_str().unwrap().ends_with(&why), "{machine}");
        assert_eq!(machine["distinct"]["errors"], u64::from(errors == "1 error"), "{machine}");
    }
}

#[test]
fn reports_have_the_form_of_their_schema() {
    let schema: Value = serde_json::from_str(&read("docs/report.schema.json")).unwrap();
    let known = root().join("target/nothing.toml");
    let allow = folder("schema").join("allow.toml");
    fs::write(&allow, "[[allow]]\nrule = \"KMD-DESTROY-002\"\nwhere = \"DxgkDdiDestroyAllocation, pAllocationList\"\nreason = \"known\"\n[[allow]]\nrule = \"KMD-DESTROY-003\"\nwhere = \"here\"\nreason = \"other\"\n").unwrap();
    let allow = allow.to_str().unwrap();
    let checks: &[&[&str]] = &[
        &["check"],
        &["check", LEAKS],
        &["check", LEAKS, "--scenario", "create-resource", "--allow", allow],
        &["check", "kmd-frees-pool-twice"],
        &["check", "--scenario", "process-leaks-objects", "--live", "--seeds", "2"],
        &["check", "--scenario", "create-standalone", "--host", "threads"],
        &["check", "--scenario", "create-standalone", "--pressure"],
        &["check", "softgpu", "--scenario", "umd-texture"],
        &["check", "capture"],
        &["check", "no-such-driver"],
        &["check", "--allow", known.to_str().unwrap()],
    ];
    for arguments in checks {
        let (code, report) = json(arguments);
        assert_eq!(difference(&schema, &report), None, "{arguments:?}");
        let result = ["pass", "fail", "could-not-run"][usize::try_from(code).unwrap()];
        assert_eq!(report["result"], result, "{arguments:?}");
    }
    let (_, mut report) = json(&["check", LEAKS, "--scenario", "create-resource"]);
    report["scenarios"][0]["findings"][0].as_object_mut().unwrap().remove("help");
    let message = difference(&schema, &report).unwrap();
    assert!(message.contains("$.scenarios[0].findings[0] has no \"help\""), "{message}");
    report["scenarios"][0]["findings"][0]["help"] = 7.into();
    assert!(difference(&schema, &report).unwrap().contains(".help is 7"));
    report["scenarios"][0]["findings"][0]["help"] = Value::Null;
    report["more"] = 1.into();
    assert!(difference(&schema, &report).unwrap().contains("$ has more"));
}

#[test]
fn many_findings_of_one_rule_in_one_place_are_sentences() {
    let driver = "kmd-completes-paging-unsubmitted";
    let (_, report) = text(&["check", driver]);
    let (_, machine) = json(&["check", driver]);
    let errors = machine["distinct"]["errors"].as_u64().unwrap();
    let full = report.matches("\n  error: ").count() as u64;
    let also = report.matches("\n    also     ").count() as u64;
    assert_eq!(full + also, errors, "{report}");
    assert!(also > 10, "{report}");
    assert_eq!(report.matches("rule     WT-BYTES-001").count(), 2, "{report}");
}

/// Every finding of every bad driver: help, a link or a basis, and no text for programmers of
/// Windtunnel only.
#[test]
fn findings_read_as_sentences() {
    for driver in [
        LEAKS,
        "kmd-rejects-own-private-data",
        "kmd-fails-destroy-device",
        "kmd-crashes-in-destroy",
    ] {
        let (_, report) = text(&["check", driver]);
        for debug in
            ["Driver(", "Some(", "None", "0x00000103", "(1 times)", " 1 errors", " 1 warnings"]
        {
            assert!(!report.contains(debug), "{driver} prints {debug}: {report}");
        }
        let findings = report.matches("\n    where    ").count();
        assert!(findings > 0, "{report}");
        assert_eq!(report.matches("\n    help     ").count(), findings, "{report}");
        let pages = report.matches("\n    page     https://learn.microsoft.com/").count();
        assert_eq!(pages + report.matches("\n    source   ").count(), findings, "{report}");
    }
}

#[test]
fn the_readme_quotes_the_report() {
    let page = read("README.md");
    let command = "$ cargo run --release -- check kmd-leaks-destroyed-allocation --scenario create-resource\n";
    let (before, after) = page.split_once(command).unwrap();
    let (_, after) = after.split_once("```").unwrap();
    let (_, output) = text(&["check", LEAKS, "--scenario", "create-resource"]);
    compare("README.md", &format!("{before}{command}{output}```{after}"));
}
