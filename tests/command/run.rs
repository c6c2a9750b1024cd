//! The command line: output for people and for machines.

use crate::images::drivers_folder;
use harness::command::{json, text, windtunnel};

#[test]
fn check_flies_the_built_in_driver_clean() {
    let (code, report) = text(&["check"]);
    assert_eq!(code, 0, "{report}");
    assert!(report.contains("rules watched"), "{report}");
    assert!(report.contains("; 0 live objects; terms: docs/GLOSSARY.md\nPASS: "), "{report}");
    let (_, last) = report.split_once("PASS: 0 errors, 0 warnings, 0 notes; ").unwrap();
    assert!(last.contains(" scenarios flown; repeat with: "), "{report}");
    let (code, report) = json(&["check"]);
    assert_eq!((code, report["findings"].as_u64()), (0, Some(0)));
    for scenario in report["scenarios"].as_array().unwrap() {
        // A driver with virtual addresses has no lists to patch; it flies every other scenario.
        let lists = scenario["needs"][0] == "a driver that implements DxgkDdiRender";
        assert_eq!(scenario["result"], if lists { "not-flown" } else { "clean" }, "{scenario}");
        assert_eq!(scenario["live"], 0, "{scenario}");
    }
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    let expected = [
        "calls_without_context",
        "distinct",
        "driver",
        "findings",
        "flown",
        "host",
        "judged",
        "repeat",
        "result",
        "scenarios",
        "schema",
        "seed",
        "umd",
        "windtunnel",
    ];
    assert_eq!(keys, expected);
    assert_eq!(report["judged"]["entries"][1], 44);
}

#[test]
fn the_name_of_a_family_flies_its_good_scenarios() {
    let (_, all) = json(&["list", "scenarios"]);
    for (family, beside) in [("destroy", "create-standalone"), ("keyed-mutex", "umd-texture")] {
        let good = all.as_array().unwrap().iter().filter(|value| value["breaks"][0].is_null());
        let names = good.map(|value| value["name"].as_str().unwrap());
        let mut expected: Vec<&str> =
            names.filter(|name| name.starts_with(&format!("{family}-"))).collect();
        assert!(expected.len() > 2, "{expected:?}");
        expected.insert(0, beside);
        let check = ["check", "softgpu", "--scenario", beside, "--scenario", family];
        let (code, report) = json(&check);
        let flown = report["scenarios"].as_array().unwrap().iter();
        let flown: Vec<&str> = flown.map(|value| value["name"].as_str().unwrap()).collect();
        assert_eq!((code, flown), (0, expected));
        let repeat = format!("softgpu --scenario {beside} --scenario {family} --seed 1");
        assert!(report["repeat"].as_str().unwrap().ends_with(&repeat), "{report}");
    }
    // A finding repeats in one scenario.
    let (_, report) = json(&["check", "kmd-leaks-destroyed-allocation", "--scenario", "destroy"]);
    let second = &report["scenarios"][1];
    let repeat = second["findings"][0]["repeat"].as_str().unwrap();
    let name = second["name"].as_str().unwrap();
    assert!(repeat.ends_with(&format!(" --scenario {name} --seed 1")), "{repeat}");
}

#[test]
fn a_check_fails_if_fewer_scenarios_are_flown_than_required() {
    // The driver has no DxgkDdiRender, which one of the two scenarios needs.
    let two = ["--scenario", "create-standalone", "--scenario", "render-fill-and-copy"];
    let check = |more: &[&str]| text(&[&["check"], &two[..], more].concat());
    let (code, report) = check(&["--require-flown", "1"]);
    assert_eq!(code, 0, "{report}");
    assert!(report.contains("PASS: 0 errors, 0 warnings, 0 notes; 1 of 2 scenarios flown; "));
    let (code, report) = check(&["--require-flown", "2"]);
    assert_eq!(code, 1, "{report}");
    let counts = "0 notes; 1 of 2 scenarios flown, but --require-flown is 2; repeat with: ";
    assert!(report.contains(&format!("FAIL: 0 errors, 0 warnings, {counts}")), "{report}");
    assert!(report.trim_end().ends_with(" --require-flown 2"), "{report}");
}

/// The same for a driver from a file, in both forms, and for `AVStream` minidrivers: each flies one of
/// two scenarios.
#[test]
fn each_kind_of_driver_flies_as_many_scenarios_as_required_or_fails() {
    let file = |name: &str| drivers_folder().join(name).into_os_string().into_string().unwrap();
    let [display, stream] = ["create-standalone", "ks-state-transitions"];
    for (driver, flown) in [
        ("softgpu".to_owned(), display),
        (file("compute.so"), display),
        (file("compute.sys"), display),
        ("capture".to_owned(), stream),
        (file("capture.so"), stream),
        (file("capture.sys"), stream),
    ] {
        let mut check = vec!["check", &driver, "--scenario", display, "--scenario", stream];
        let (code, report) = text(&check);
        assert_eq!(code, 0, "{report}");
        let counts = "PASS: 0 errors, 0 warnings, 0 notes; 1 of 2 scenarios flown; repeat with: ";
        assert!(report.lines().last().unwrap().starts_with(counts), "{report}");
        for (required, expected) in [("1", (0, "pass")), ("2", (1, "fail"))] {
            check.truncate(6);
            check.extend(["--require-flown", required]);
            let (code, report) = text(&check);
            assert_eq!(code, expected.0, "{report}");
            let line = report.lines().last().unwrap();
            let fails = line.contains("1 of 2 scenarios flown, but --require-flown is 2; ");
            assert_eq!(fails, code == 1, "{line}");
            let (code, report) = json(&check);
            assert_eq!((code, &report["result"]), (expected.0, &expected.1.into()), "{report}");
            assert_eq!(report["flown"], serde_json::json!([1, 2]), "{report}");
            assert_eq!(report["require_flown"].to_string(), required, "{report}");
            for scenario in report["scenarios"].as_array().unwrap() {
                let result = if scenario["name"] == flown { "clean" } else { "not-flown" };
                assert_eq!(scenario["result"], result, "{driver}: {scenario}");
            }
        }
    }
}

#[test]
fn one_thing_is_singular_in_a_report() {
    let (_, report) = text(&["check", "softgpu", "--scenario", "keyed-mutex-alternate", "--live"]);
    assert!(report.contains(", with 1 view\n"), "{report}");
    let words: Vec<&str> = report.split_whitespace().collect();
    for pair in words.windows(2).filter(|pair| pair[0] == "1") {
        let plural = ["views", "packets", "members", "handles", "objects"];
        assert!(!plural.contains(&pair[1].trim_end_matches(',')), "{pair:?}: {report}");
    }
}

#[test]
fn every_bad_driver_is_reported_with_its_rule_first() {
    let (_, drivers) = json(&["list", "drivers"]);
    let mut bad = 0;
    for driver in drivers.as_array().unwrap() {
        let name = driver["name"].as_str().unwrap();
        let (code, report) = json(&["check", name, "--deny", "warnings"]);
        let found = report["scenarios"].as_array().unwrap().iter();
        let found: Vec<_> = found.flat_map(|value| value["findings"].as_array().unwrap()).collect();
        // Findings above notes come first; a driver may break a rule whose findings are notes.
        let weighs = found.iter().find(|value| value["severity"] != "note");
        let first = weighs.or(found.first()).map(|value| &value["rule"]);
        assert_eq!(first, driver["breaks"].get(0), "{name}");
        assert_eq!(code, i32::from(weighs.is_some()), "{name}");
        bad += usize::from(first.is_some());
    }
    assert!(bad >= 10, "{bad} bad drivers");
}

#[test]
fn every_client_of_a_minidriver_is_clean_or_reported() {
    let (_, scenarios) = json(&["list", "scenarios"]);
    let names = scenarios.as_array().unwrap().iter();
    let mut flown = 0;
    for scenario in names.filter(|value| value["name"].as_str().unwrap().starts_with("ks-")) {
        let name = scenario["name"].as_str().unwrap();
        let (code, report) = json(&["check", "capture", "--scenario", name, "--deny", "warnings"]);
        let flight = &report["scenarios"][0];
        if flight["needs"].get(0).is_some() {
            continue;
        }
        assert_eq!(flight["findings"][0].get("rule"), scenario["breaks"].get(0), "{name}");
        assert_eq!(code, i32::from(scenario["breaks"].get(0).is_some()), "{name}");
        flown += 1;
    }
    assert!(flown > 10, "{flown} scenarios were flown");
}

#[test]
fn every_bad_client_is_reported_with_its_rule_first() {
    let (_, scenarios) = json(&["list", "scenarios"]);
    for scenario in scenarios.as_array().unwrap() {
        let name = scenario["name"].as_str().unwrap();
        if name.starts_with("ks-") {
            continue; // For minidrivers: see below.
        }
        let mut flown = 0;
        let plain = ["softgpu", "table", "softgpu-memory", "softgpu-gpummu"];
        // For packets with allocation lists, which the others do not have: of WDDM 2, and of WDDM
        // 1.x.
        let listed = ["table-allocation-lists", "softgpu-allocation-lists"];
        for driver in plain.into_iter().chain(listed) {
            if listed.contains(&driver) && flown > 0 {
                continue;
            }
            let (code, report) = json(&["check", driver, "--scenario", name, "--deny", "warnings"]);
            let flight = &report["scenarios"][0];
            // Without memory, no scenario about memory can be flown; with memory, all can.
            let needs = flight["needs"][0].as_str().unwrap_or_default();
            let missing =
                ["an adapter with memory", "a driver that implements DxgkDdiBuildPagingBuffer"];
            let memory = !["softgpu", "table"].contains(&driver);
            let addresses = needs == "a driver that implements DxgkDdiCreateProcess";
            let lists =
                needs == "a driver that implements DxgkDdiRender" && !listed.contains(&driver);
            let first = needs == "a WDDM 1.x driver" && driver == "table-allocation-lists";
            let umd =
                needs == "a driver that implements OpenAdapter" || needs == "a user-mode driver";
            if ((missing.contains(&needs) || umd) && !memory)
                || (addresses && driver != "softgpu-gpummu")
                || lists
                || first
            {
                continue;
            }
            let findings = &flight["findings"];
            assert_eq!(findings[0].get("rule"), scenario["breaks"].get(0), "{driver}, {name}");
            assert_eq!(code, i32::from(scenario["breaks"].get(0).is_some()), "{driver}, {name}");
            flown += 1;
        }
        assert!((1..=5).contains(&flown), "{name}");
    }
}

#[test]
fn a_finding_has_every_field() {
    let (_, report) = json(&["check", "--scenario", "destroy-mixed-list"]);
    let finding = &report["scenarios"][0]["findings"][0];
    assert_eq!(finding["rule"], "ALLOC-DESTROY-005");
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["basis"], "documented");
    assert_eq!(finding["who"], "client");
    assert_eq!(finding["where"], "D3DKMTDestroyAllocation2.phAllocationList");
    assert_eq!(finding["message"], "the list mixes members of resource 1 and no resource");
    assert_eq!(finding["windows"], "returns STATUS_INVALID_PARAMETER");
    assert_eq!(finding["count"], 1);
    assert!(!finding["events"].as_array().unwrap().is_empty());
    let rule = verify::find("ALLOC-DESTROY-005").unwrap();
    assert_eq!(finding["rule_text"], rule.rule.as_str());
    assert_eq!(finding["help"], rule.help.as_deref().unwrap());
    assert_eq!(finding["link"], rule.link().unwrap());
    let repeat = "windtunnel check softgpu-gpummu --scenario destroy-mixed-list --seed 1";
    assert_eq!(finding["repeat"], repeat);
    assert!(!finding["source"].as_str().unwrap().is_empty());
}

#[test]
fn warnings_count_only_when_denied() {
    assert_eq!(json(&["check", "--scenario", "process-stale-device-handle"]).0, 0);
    assert_eq!(
        json(&["check", "--scenario", "process-stale-device-handle", "--deny", "warnings"]).0,
        1
    );
}

#[test]
fn an_unknown_name_gets_the_nearest_names() {
    let output = windtunnel(&["check", "sofgpu"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("there is no driver 'sofgpu'; the nearest are: softgpu"), "{message}");
    let (code, report) = json(&["check", "--scenario", "destroy-synchronuos"]);
    assert_eq!(code, 2);
    assert!(report["error"].as_str().unwrap().contains("destroy-synchronous"), "{report}");
    let (code, report) = json(&["explain", "KMD-DESTROY-02"]);
    assert_eq!(code, 2);
    assert!(report["error"].as_str().unwrap().contains("KMD-DESTROY-002"), "{report}");
    for file in ["./my.so", "my.sys"] {
        let output = windtunnel(&["check", file]);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        let expected = format!("windtunnel: {file} cannot be read: ");
        assert!(message.starts_with(&expected) && message.contains("--umd FILE.so"), "{message}");
    }
}

#[test]
fn rules_are_listed_and_explained() {
    let (code, rules) = json(&["list", "rules"]);
    assert_eq!(code, 0);
    let rules = rules.as_array().unwrap();
    assert_eq!(rules.len(), verify::catalogue().len());
    let live = rules.iter().filter(|value| value["live"] == true).count();
    assert_eq!(live, flight::RuleId::LIVE.len());
    let (code, rule) = json(&["explain", "kmd-destroy-002"]);
    assert_eq!((code, &rule["id"], &rule["live"]), (0, &"KMD-DESTROY-002".into(), &true.into()));
    let (code, output) = text(&["explain", "KMD-DESTROY-002"]);
    assert_eq!(code, 0);
    assert!(output.contains("windtunnel check kmd-leaks-destroyed-allocation"), "{output}");
    let (_, output) = text(&["explain", "KMD-DEV-003"]);
    assert!(output.contains("live               no: needs device information"), "{output}");
    // One line for each rule: id, party and text.
    let (_, output) = text(&["list", "rules"]);
    for entry in verify::catalogue() {
        let line = output.lines().find(|line| line.split(' ').next() == Some(&entry.id));
        let line = line.unwrap_or_else(|| panic!("{} is not listed", entry.id));
        assert!(line.ends_with(&entry.rule), "{line}");
        assert!(line.split_whitespace().any(|word| word == entry.obligation), "{line}");
    }
    let live = verify::catalogue().iter().filter(|entry| entry.judge.is_some());
    let unknown = live.filter(|entry| entry.windows_is_unknown()).count();
    let last = format!(
        "For {unknown} live rules it is not known what Windows does when they are broken.\n"
    );
    assert!(output.ends_with(&last), "{output}");
}

#[test]
fn a_rule_is_explained_with_a_flight_that_breaks_it_and_one_that_keeps_it() {
    let (_, rule) = json(&["explain", "KMD-DESTROY-002"]);
    assert!(rule["help"].as_str().unwrap().starts_with("In DxgkDdiDestroyAllocation"), "{rule}");
    assert!(rule["link"].as_str().unwrap().starts_with("https://learn.microsoft.com/"), "{rule}");
    for (key, expected) in [("broken", 1), ("kept", 0)] {
        let command = rule[key]["command"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let (code, report) = json(&words);
        assert_eq!(code, expected, "{command}: {report}");
        let found = report["scenarios"][0]["findings"].as_array().unwrap();
        let found = found.iter().any(|finding| finding["rule"] == "KMD-DESTROY-002");
        assert_eq!(found, key == "broken", "{command}");
    }
    // A rule of the kernel: only a changed trace breaks it.
    let (_, output) = text(&["explain", "HANDLE-FORM-001"]);
    let changed = "broken             only by a changed trace of this flight: a local handle that \
                   ends in one (in the first event with 'handle.published of=device:1', set handle \
                   to 0x40000041)\n";
    assert!(output.contains(changed), "{output}");
    let command = "windtunnel check softgpu --scenario create-resource --seed 1 --trace DIR\n";
    assert!(output.contains(command), "{output}");
}

#[test]
fn words_that_people_meet_are_explained_in_a_screenful() {
    for (word, expected) in [
        ("STATUS_INVALID_PARAMETER", "returned           D3DKMT"),
        ("STATUS_SUCCESS", "success"),
        ("DestroyResource", "pfnDestroyResource: Functions of a user-mode driver"),
        ("PFND3DDDI_DESTROYRESOURCE", "UMD-DESTROY-002"),
        ("code 43", "start refused"),
        ("0x7E", "SYSTEM_THREAD_EXCEPTION_NOT_HANDLED"),
        ("0xC4", "DRIVER_VERIFIER_DETECTED_VIOLATION"),
        ("KMD-DESTROY", "a family of 12 rules"),
        ("D-53", "Rules that observation overrides"),
        ("F-028", "refused a submission while busy"),
        ("softgpu-memory", "breaks             no rule: it flies clean"),
        ("kmd-leaks-destroyed-allocation", "breaks             KMD-DESTROY-002: "),
        ("destroy-deferred", "windtunnel check --scenario destroy-deferred"),
    ] {
        let (code, output) = text(&["explain", word]);
        assert!(code == 0 && output.contains(expected), "{word}: {output}");
        assert!(output.lines().count() <= 40, "{word}: {output}");
        assert_eq!(json(&["explain", word]).0, 0, "{word}");
    }
    let (_, short) = text(&["explain", "STATUS_INVALID_PARAMETER"]);
    let (_, long) = text(&["explain", "STATUS_INVALID_PARAMETER", "--all"]);
    assert!(short.contains("more: --all lists them\n"), "{short}");
    assert!(long.lines().count() > 100 && !long.contains("--all"), "{long}");
    let output = windtunnel(&["explain", "softgpu-memry"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("the nearest are: softgpu-memory, "), "{message}");
}

#[test]
fn support_tables_are_shown() {
    let (code, output) = text(&["support"]);
    assert_eq!(code, 0);
    assert!(output.contains("D3DKMTDestroyAllocation2 "), "{output}");
    let (code, report) = json(&["support"]);
    assert_eq!(code, 0);
    let find = |table: &str, name: &str| {
        let rows = report["support"][table].as_array().unwrap().iter();
        rows.clone().find(|value| value["name"] == name).unwrap().clone()
    };
    assert_eq!(find("d3dkmt", "D3DKMTDestroyAllocation2")["state"], "done");
    let submit = find("ddi", "DxgkDdiSubmitCommandVirtual");
    assert_eq!((&submit["irql"], &submit["state"]), (&"dispatch".into(), &"part".into()));
    assert_eq!(submit["statuses"][1], "STATUS_INVALID_PARAMETER");
    assert_eq!(find("uncalled", "DxgkDdiCommitVidPn")["missing"], "no display output");
    assert_eq!(find("callback", "DxgkCbEvalAcpiMethod")["state"], "absent");
    assert_eq!(find("callback", "DxgkCbNotifyDpc")["state"], "done");
    assert_eq!(find("import", "ExFreePool")["state"], "done");
    // Names that Windows has and this project has not are listed and counted.
    assert_eq!(find("d3dkmt", "D3DKMTPresent")["state"], "absent");
    assert_eq!(find("import", "IofCallDriver")["state"], "done");
    assert_eq!(find("import", "SeExports")["state"], "absent");
    let rows = report["support"].as_object().unwrap().values();
    let rows: Vec<_> = rows.flat_map(|table| table.as_array().unwrap()).collect();
    let absent = rows.iter().filter(|row| row["state"] == "absent").count();
    let total = format!("Of {} names, ", rows.len());
    let line = output.lines().find(|line| line.starts_with(&total)).unwrap();
    assert!(line.ends_with(&format!(" {absent} absent.")), "{line}");
}

#[test]
fn statuses_and_bug_checks_are_explained() {
    for text in ["0xC000000D", "STATUS_INVALID_PARAMETER", "3221225485", "-1073741811"] {
        let (code, status) = json(&["explain", text]);
        assert_eq!((code, &status["name"]), (0, &"STATUS_INVALID_PARAMETER".into()), "{text}");
        assert_eq!(status["success"], false);
        let has = |list: &str, it: &str| status[list].as_array().unwrap().contains(&it.into());
        assert!(has("returned_by", "D3DKMTDestroyAllocation2"), "{status}");
        assert!(has("legal_for", "DxgkDdiCreateAllocation"), "{status}");
        assert!(!has("legal_for", "DxgkDdiCreateDevice"), "{status}");
        assert_eq!(status["rules"][0]["id"], "ALLOC-CREATE-001");
    }
    for text in [&["0x119/2"][..], &["bugcheck 0x119 (0x2)"], &["bugcheck", "0x119", "(0x2)"]] {
        let (code, stop) = json(&[&["explain"], text].concat());
        assert_eq!((code, &stop["name"]), (0, &"VIDEO_SCHEDULER_INTERNAL_ERROR".into()));
        for rule in stop["rules"].as_array().unwrap() {
            assert_eq!(rule["parameter"], "0x2", "{stop}");
        }
    }
    let (_, output) = text(&["explain", "0x10E/0xB"]);
    assert!(
        output.starts_with("bug check 0x10E (0xB), VIDEO_MEMORY_MANAGEMENT_INTERNAL"),
        "{output}"
    );
    assert!(output.contains("when DxgkDdiBuildPagingBuffer returns what it may not"), "{output}");
    let (code, report) = json(&["explain", "0xC000000E"]);
    assert_eq!(code, 2);
    let output = report["error"].as_str().unwrap();
    assert!(output.contains("the nearest are: 0xC000000D STATUS_INVALID_PARAMETER"), "{output}");
}

#[test]
fn live_objects_are_shown_on_request() {
    let (_, output) =
        text(&["check", "softgpu-memory", "--scenario", "destroy-deferred", "--live"]);
    assert!(output.contains("used, behind packet 2 of context 1"), "{output}");
    let (_, report) =
        json(&["check", "softgpu-memory", "--scenario", "destroy-deferred", "--live"]);
    let live = report["scenarios"][0]["looks"][0]["live"].as_array().unwrap();
    let of_device = live.iter().filter(|value| value["owner"] == "device 1").count();
    assert_eq!(of_device, 6, "a context, a queue, a resource view, two views, a retirement");
}

#[test]
fn the_report_names_the_host() {
    let (_, report) = json(&["check", "--scenario", "create-standalone", "--seed", "3"]);
    assert_eq!((&report["host"], &report["seed"]), (&"deterministic".into(), &3.into()));
    let (code, report) = json(&["check", "--host", "threads"]);
    assert_eq!(
        (code, &report["host"], &report["seed"]),
        (0, &"threads".into(), &serde_json::Value::Null)
    );
    let (_, output) = text(&["check", "--host", "threads", "--scenario", "create-standalone"]);
    assert!(output.contains("on host threads.\n"), "{output}");
    let (code, report) = json(&["check", "--host", "threads", "--seed", "3"]);
    let error = report["error"].as_str().unwrap();
    assert_eq!(code, 2);
    assert!(error.starts_with("--seed 3 has no meaning with --host threads"), "{error}");
}

#[test]
fn a_bad_driver_is_reported_on_either_host() {
    for (driver, rule) in [
        ("kmd-leaks-destroyed-allocation", "KMD-DESTROY-002"),
        ("kmd-reports-unsubmitted-fence", "KMD-ISR-008"),
    ] {
        let (code, report) = json(&["check", driver, "--host", "threads"]);
        let flights = report["scenarios"].as_array().unwrap().iter();
        let mut found = flights.flat_map(|value| value["findings"].as_array().unwrap());
        assert_eq!(code, 1);
        assert!(found.any(|value| value["rule"] == rule), "{driver}: {report}");
    }
}
