//! Drivers that never end, with calls of the system again and again: what a flight may take ends them,
//! and the finding names the calls that repeat. A driver that ends a thread that calls it is named,
//! too.
#![expect(clippy::unwrap_used, reason = "a report that cannot be read is a failed test")]

use crate::contain::FAULTY;
use crate::images::drivers_folder;
use harness::command::{json, windtunnel_command};
use serde_json::Value;

/// A deadline that no driver of this module meets: what is found does not depend on the machine.
const DEADLINE: [&str; 2] = ["--deadline", "120"];

/// The findings of a driver in a scenario.
fn findings(driver: &str, scenario: &str, more: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["check", driver, "--scenario", scenario];
    arguments.extend(DEADLINE);
    arguments.extend(more);
    let (code, report) = json(&arguments);
    assert_eq!(code, 1, "{driver}: {report}");
    report["scenarios"][0]["findings"].as_array().unwrap().clone()
}

/// The path of a bad driver.
fn bad(name: &str, extension: &str) -> String {
    let file = drivers_folder().join("bad").join(format!("{name}.{extension}"));
    file.into_os_string().into_string().unwrap()
}

/// Asserts that the first finding of both forms of a driver is about a loop, and has these texts.
fn assert_loop(name: &str, scenario: &str, more: &[&str], texts: &[&str]) {
    for extension in ["sys", "so"] {
        let found = findings(&bad(name, extension), scenario, more);
        let message = found[0]["message"].as_str().unwrap();
        assert_eq!(found[0]["rule"], "WT-CRASH-001", "{name}.{extension}: {found:?}");
        assert_eq!(found[0]["who"], "driver", "{name}.{extension}: {found:?}");
        for text in texts {
            assert!(message.contains(text), "{name}.{extension}: no '{text}' in: {message}");
        }
    }
}

const START: &str = "create-standalone";
const EVENTS: &str = "(--max-events)";
/// Enough for any correct driver in these scenarios.
const FEW: [&str; 2] = ["--max-events", "20000"];

#[test]
fn a_loop_of_dpcs_work_items_or_threads_is_named_with_the_calls_that_repeat() {
    let dpc =
        ["waits and routines of the driver", EVENTS, "a DPC", "LoopRoutine (endless_flaws.h:"];
    assert_loop("endless-dpc", START, &FEW, &dpc);
    let item = [EVENTS, "a work item, queued in LoopWork (endless_flaws.h:"];
    assert_loop("endless-work-item", START, &FEW, &item);
    let ping = "KeWaitForSingleObject in WakePing (endless_flaws.h:";
    let pong = "KeWaitForSingleObject in WakePong (endless_flaws.h:";
    assert_loop("endless-threads", START, &FEW, &[EVENTS, ping, pong]);
}

#[test]
fn a_ddi_that_polls_is_named_with_its_call_and_its_line() {
    let of = " of DxgkDdiStartDevice";
    for (name, import) in [
        ("endless-poll-with-delay", "KeDelayExecutionThread"),
        ("endless-clock-poll", "KeQueryPerformanceCounter"),
    ] {
        let call = format!("{import} in BeginLoop (endless_flaws.h:");
        assert_loop(name, START, &FEW, &[EVENTS, &call, of]);
        let found = findings(&bad(name, "so"), START, &FEW);
        assert_eq!(found[0]["where"], "DxgkDdiStartDevice", "{found:?}");
        assert_eq!(found[0]["stack"][0]["function"], "BeginLoop", "{found:?}");
    }
    let time =
        ["seconds of virtual time (--max-time)", "KeDelayExecutionThread in BeginLoop (", of];
    assert_loop("endless-long-delay", START, &[], &time);
}

#[test]
fn a_ddi_that_waits_for_ever_does_not_return_and_its_wait_is_named() {
    let object = "an event of the driver's";
    for (name, scenario, ddi, object, function) in [
        ("create-device", START, "DxgkDdiCreateDevice", object, "WaitForEver (endless_flaws.h:"),
        ("second-start", "pnp-restart", "DxgkDdiStartDevice", object, "WaitForEver ("),
        ("stop-device", START, "DxgkDdiStopDevice", "a thread of the driver's", "GpuStop (gpu.c:"),
    ] {
        for extension in ["sys", "so"] {
            let path = bad(&format!("endless-wait-in-{name}"), extension);
            let found = findings(&path, scenario, &[]);
            let message = found[0]["message"].as_str().unwrap();
            assert_eq!(found[0]["rule"], "WT-STUCK-001", "{found:?}");
            assert_eq!((&found[0]["who"], &found[0]["where"]), (&"driver".into(), &ddi.into()));
            for text in ["KeWaitForSingleObject in ", function, ddi, "waits for ", object] {
                assert!(message.contains(text), "{path}: no '{text}' in: {message}");
            }
            // The call does not return, so nothing that follows is said of the driver.
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }
}

#[test]
fn a_built_in_driver_that_waits_for_ever_does_not_return() {
    for host in ["deterministic", "threads"] {
        let found = findings("kmd-waits-forever-in-create", START, &["--host", host]);
        assert_eq!((found.len(), &found[0]["rule"]), (1, &"WT-STUCK-001".into()), "{found:?}");
        assert_eq!(found[0]["where"], "DxgkDdiCreateDevice", "{found:?}");
    }
}

#[test]
fn a_paging_operation_that_never_advances_is_named_with_its_ddi() {
    let texts = ["DxgkDdiBuildPagingBuffer, which is SgBuildPagingBuffer (paging.c:"];
    assert_loop("endless-paging", "submit-fill-and-copy", &FEW, &texts);
}

#[test]
fn a_timer_of_a_streaming_minidriver_that_sets_itself_is_named() {
    let texts = [EVENTS, "a DPC, queued or its timer set in CaptureTimerDpc (frames.c:"];
    assert_loop("endless-stream-timer", "ks-state-transitions", &FEW, &texts);
}

#[test]
fn a_driver_that_takes_more_and_more_memory_is_named_with_the_call() {
    let texts = [
        "takes more and more memory",
        "256 MiB of memory (--max-memory)",
        "an allocation from pool in BeginLoop (endless_flaws.h:",
    ];
    assert_loop("endless-allocation", START, &["--max-memory", "256"], &texts);
}

#[test]
fn threads_without_end_are_refused_and_those_that_stay_are_the_drivers() {
    for extension in ["sys", "so"] {
        let found = findings(&bad("endless-thread-creation", extension), START, &[]);
        let left = found.iter().find(|found| found["rule"] == "KMD-PNP-003");
        let message = left.unwrap_or_else(|| panic!("{found:?}"))["message"].as_str().unwrap();
        assert!(message.contains("BeginLoop (endless_flaws.h:"), "{extension}: {message}");
    }
}

#[test]
fn the_limits_are_options_and_the_report_repeats_them() {
    let (code, report) = json(&["check", "softgpu-gpummu", "--scenario", START]);
    assert_eq!(code, 0, "{report}");
    let driver = bad("endless-poll-with-delay", "so");
    let few = ["check", &driver, "--scenario", START, "--max-events", "5000"];
    let (code, report) = json(&few);
    let message = report["scenarios"][0]["findings"][0]["message"].as_str().unwrap();
    assert_eq!(code, 1, "{report}");
    assert!(message.contains("beyond 5000 "), "{message}");
    let repeat = report["repeat"].as_str().unwrap();
    assert!(repeat.contains(" --max-events 5000"), "{repeat}");
    // It repeats.
    assert_eq!(json(&few).1["scenarios"], report["scenarios"]);
}

#[test]
fn in_the_process_of_the_command_the_loop_is_named_before_the_command_ends() {
    let mut command = windtunnel_command();
    command.args(["check", &bad("endless-poll-with-delay", "so"), "--in-process"]);
    let output = command.args(["--scenario", START, "--max-events", "5000"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let sentence = "windtunnel: the flight does not end: it went beyond 5000 ";
    assert!(errors.contains(sentence), "{errors}");
    assert!(errors.contains("KeDelayExecutionThread in BeginLoop (endless_flaws.h:"), "{errors}");
    assert_ne!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn a_driver_that_ends_a_thread_that_calls_it_is_named_with_the_place() {
    for (name, scenario, words) in [
        (
            "thread-exit-in-ddi",
            START,
            "by pthread_exit at PASSIVE_LEVEL in SgStartDevice (adapter.c:",
        ),
        ("thread-exit-in-thread", START, "by pthread_exit at PASSIVE_LEVEL in GpuThread (gpu.c:"),
        ("thread-cancel-in-ddi", START, "by pthread_cancel at PASSIVE_LEVEL in SgStartDevice ("),
        (
            "thread-cancel-at-once-in-dpc",
            "submit-fill-and-copy",
            "by pthread_cancel at DISPATCH_LEVEL in SgDpcRoutine (report.c:",
        ),
    ] {
        let found = findings(&bad(name, "so"), scenario, &[]);
        let message = found[0]["message"].as_str().unwrap();
        assert_eq!(found[0]["rule"], "WT-CRASH-001", "{name}: {found:?}");
        assert!(message.starts_with("the driver ended a thread that calls it "), "{message}");
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn a_user_mode_driver_may_end_threads_of_its_own() {
    let mut command = windtunnel_command();
    command.args(["check", "softgpu-allocation-lists", "--umd", &FAULTY]);
    command
        .args(["--scenario", "umd-create-and-destroy"])
        .env("FAULT", "own-threads@create_resource");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
