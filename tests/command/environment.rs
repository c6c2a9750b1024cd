//! The environment rules on drivers from files: time at a raised IRQL, locks, the kernel stack,
//! pageable memory, what is left at the unload, assertions. Each finding names its place.
#![expect(clippy::unwrap_used, reason = "a report that cannot be read is a failed test")]

use crate::images::drivers_folder;
use harness::command::{json, text as output};
use serde_json::Value;

/// The first finding of a bad driver in a scenario, with its file.
fn first_finding(name: &str, scenario: &str, extension: &str) -> (String, Value) {
    let file = drivers_folder().join("bad").join(format!("{name}.{extension}"));
    let file = file.into_os_string().into_string().unwrap();
    // A deadline that none of them meets: what is found is found in virtual time.
    let (code, report) = json(&["check", &file, "--scenario", scenario, "--deadline", "60"]);
    let finding = report["scenarios"][0]["findings"][0].clone();
    assert!(code == 1 || finding["severity"] == "warning", "{file}: {report}");
    (file, finding)
}

/// Asserts that the first finding of both forms of a driver has a rule, texts in its message, and
/// a function as the first of its stack.
fn assert_found(name: &str, scenario: &str, rule: &str, texts: &[&str], function: Option<&str>) {
    for extension in ["sys", "so"] {
        let (file, finding) = first_finding(name, scenario, extension);
        assert_eq!(finding["rule"], rule, "{file}: {finding}");
        let message = finding["message"].as_str().unwrap();
        for text in texts {
            assert!(message.contains(text), "{file}: {text} is not in: {message}");
        }
        let innermost = finding["stack"][0]["function"].as_str();
        assert_eq!(innermost, function, "{file}: {finding}");
    }
}

const DPC: &str = "interrupt-shared-line";
const DDI: &str = "create-standalone";

#[test]
fn stalls_are_warnings() {
    let stall = ["for 60 microseconds", "in UseLocks (environment_flaws.h:"];
    assert_found("stalls-too-long", DDI, "WT-TIME-001", &stall, Some("UseLocks"));
    let total = ["DxgkDdiDpcRoutine kept the processor at DISPATCH_LEVEL for 120 microseconds"];
    assert_found("stalls-in-dpc", DPC, "WT-TIME-002", &total, None);
    for name in ["stalls-too-long", "stalls-in-dpc"] {
        let scenario = if name == "stalls-in-dpc" { DPC } else { DDI };
        assert_eq!(first_finding(name, scenario, "sys").1["severity"], "warning");
    }
}

#[test]
fn an_endless_poll_is_found_in_virtual_time_with_its_place() {
    let texts =
        ["20 seconds of virtual time at DISPATCH_LEVEL", "SgDpcRoutine (report.c:", "0x133"];
    for name in ["polls-in-dpc", "polls-clock-in-dpc"] {
        assert_found(name, DPC, "WT-TIME-003", &texts, Some("SgDpcRoutine"));
        // It repeats.
        let found = || first_finding(name, DPC, "sys").1["message"].clone();
        assert_eq!(found(), found());
    }
}

#[test]
fn a_return_with_a_spin_lock_is_an_error_with_the_places_of_the_acquisition_and_the_return() {
    let texts = [
        "DxgkDdiOpenAllocation, which is SgOpenAllocation (",
        "returned at DISPATCH_LEVEL with a spin lock (acquired in ",
        ".c:",
    ];
    assert_found("keeps-spin-lock-in-open", DDI, "KMD-LEVEL-008", &texts, None);
    let (_, finding) = first_finding("keeps-spin-lock-in-open", DDI, "sys");
    assert_eq!(finding["severity"], "error");
    assert!(finding["link"].as_str().unwrap().contains("bug-check-0xc8"), "{finding}");
}

#[test]
fn a_deadlock_is_named_with_the_places_of_the_locks() {
    for extension in ["sys", "so"] {
        let (file, finding) = first_finding("keeps-spin-lock", "submit-fill-and-copy", extension);
        assert_eq!(finding["rule"], "WT-LOCK-001", "{file}: {finding}");
        let message = finding["message"].as_str().unwrap();
        assert!(message.contains("a spin lock that its thread already holds (acquired in "));
        // The function is inlined in an image.
        assert_eq!(message.matches("(gpu.c:").count(), 2, "{file}: {message}");
        assert_eq!(finding["stack"][0]["file"], "gpu.c", "{file}: {finding}");
    }
    let mutex = ["ExAcquireFastMutex was called for a mutex that the thread already holds"];
    assert_found("acquires-fast-mutex-twice", DDI, "WT-LOCK-001", &mutex, Some("UseLocks"));
    let order = [
        "in the opposite order",
        "acquired in UseLocks (environment_flaws.h:",
        "the one that is requested now in LockBoth (environment_flaws.h:",
        "then the other in LockBoth (environment_flaws.h:",
    ];
    assert_found("inverts-lock-order", DDI, "WT-LOCK-002", &order, Some("UseLocks"));
    let wait = ["KeDelayExecutionThread waits", "(acquired in UseLocks (environment_flaws.h:"];
    assert_found("waits-with-spin-lock", DDI, "WT-LOCK-003", &wait, Some("UseLocks"));
}

/// The functions of a stack.
fn functions(stack: &Value) -> Vec<&str> {
    stack.as_array().unwrap().iter().map(|frame| frame["function"].as_str().unwrap()).collect()
}

#[test]
fn an_inverted_order_is_named_with_the_stacks_of_both_threads() {
    for (name, import, other) in [
        ("inverts-mutex-order", "ExAcquireFastMutex", "a mutex while the thread holds another one"),
        (
            "inverts-resource-order",
            "KeWaitForSingleObject",
            "a mutex while the thread holds a resource",
        ),
    ] {
        for extension in ["sys", "so"] {
            let (file, finding) = first_finding(name, DDI, extension);
            assert_eq!(finding["rule"], "WT-LOCK-002", "{file}: {finding}");
            let message = finding["message"].as_str().unwrap();
            let texts = [
                other,
                "the one that is requested now in AcquireInOrder (environment_flaws.h:",
                "two threads can wait for each other for ever",
            ];
            for text in texts {
                assert!(message.contains(text), "{file}: {text} is not in: {message}");
            }
            assert!(message.starts_with(import), "{file}: {message}");
            let own = functions(&finding["stack"]);
            assert_eq!(own[0], "InvertOrder", "{file}: {finding}");
            let last = own.last().unwrap();
            assert!(["SgStartDevice", "StartDevice"].contains(last), "{file}: {finding}");
            let threads = finding["threads"].as_array().unwrap();
            assert_eq!(threads.len(), 1, "{file}: {finding}");
            let stack = functions(&threads[0]["stack"]);
            assert_eq!(stack, ["AcquireInOrder", "LockThread"], "{file}: {finding}");
            let thread = &threads[0]["thread"];
            assert!(message.contains(&format!("(by t{thread}: ")), "{file}: {message}");
            // It repeats, and the text shows both stacks.
            assert_eq!(first_finding(name, DDI, extension).1, finding, "{file}");
            let (_, text) = output(&["check", &file, "--scenario", DDI]);
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let label = format!("stack t{thread} AcquireInOrder (environment_flaws.h:");
            let at = lines.iter().position(|line| line.starts_with(&label));
            let at = at.unwrap_or_else(|| panic!("{file}: {text}"));
            assert!(lines[at + 1].starts_with("LockThread (environment_flaws.h:"), "{text}");
        }
    }
}

#[test]
fn an_order_of_locks_that_is_not_remembered_is_not_judged_and_the_report_says_so() {
    let file = drivers_folder().join("bad/holds-many-locks.sys");
    let file = file.into_os_string().into_string().unwrap();
    let (code, report) = json(&["check", &file, "--scenario", DDI]);
    assert_eq!(code, 0, "{report}");
    // 100 locks are 4,950 pairs, and UseLocks has one more.
    assert_eq!(report["scenarios"][0]["lock_orders_left_out"], 855, "{report}");
    let (_, text) = output(&["check", &file, "--scenario", DDI]);
    let needs = "the order of 855 acquisitions of a lock under another one (needs room for more";
    assert_eq!(text.matches(needs).count(), 1, "{text}");
}

#[test]
fn a_kernel_stack_has_24_kibibytes() {
    for (place, scenario) in [("ddi", DDI), ("dpc", DPC), ("thread", DDI)] {
        let texts = ["more than the 24 KiB of a kernel stack", "0x7F", "FlawLargeFrame (flaws.h:"];
        let name = format!("large-frame-in-{place}");
        assert_found(&name, scenario, "WT-STACK-001", &texts, Some("FlawLargeFrame"));
    }
}

/// The deepest use of the stack by a driver in a scenario.
fn deepest_stack(name: &str, scenario: &str, extension: &str) -> (String, Value) {
    let file = drivers_folder().join("bad").join(format!("{name}.{extension}"));
    let file = file.into_os_string().into_string().unwrap();
    let (code, report) = json(&["check", &file, "--scenario", scenario]);
    assert_eq!(code, 0, "{file}: {report}");
    (file, report["scenarios"][0]["deepest_stack"].clone())
}

#[test]
fn the_deepest_use_of_the_stack_is_reported_with_its_place() {
    // What is around the frame: the functions of the driver that lead to it. One of them, in displib,
    // has a copy of DXGKRNL_INTERFACE in its frame.
    const AROUND: u64 = 2500;
    for extension in ["sys", "so"] {
        // A frame of 20,000 bytes, in a function that calls nothing.
        let (file, stack) = deepest_stack("frame-that-fits", DDI, extension);
        let bytes = stack["bytes"].as_u64().unwrap();
        assert!((20_000..20_000 + AROUND).contains(&bytes), "{file}: {stack}");
        assert_eq!(stack["function"], "DxgkDdiStartDevice", "{file}");
        assert_eq!(stack["import"], Value::Null, "{file}");
        assert_eq!(deepest_stack("frame-that-fits", DDI, extension).1, stack, "it repeats");
        let (_, text) = output(&["check", &file, "--scenario", DDI]);
        let line = format!(
            "Kernel stack: {bytes} of 24576 bytes used in DxgkDdiStartDevice (create-standalone)\n"
        );
        assert_eq!(text.matches(&line).count(), 1, "{text}");
        // A frame of 3,000 bytes, in a function that calls an import after others were called.
        let (file, stack) = deepest_stack("calls-import-with-large-frame", DDI, extension);
        let bytes = stack["bytes"].as_u64().unwrap();
        assert!((3000..3000 + AROUND).contains(&bytes), "{file}: {stack}");
        assert_eq!(stack["function"], "DxgkDdiStartDevice", "{file}");
        assert_eq!(stack["import"], "KeQueryTimeIncrement", "{file}");
        // Less than half: only with --verbose.
        let (_, text) = output(&["check", &file, "--scenario", DDI]);
        assert!(!text.contains("Kernel stack"), "{text}");
        let (_, text) = output(&["check", &file, "--scenario", DDI, "--verbose"]);
        let line =
            "used in DxgkDdiStartDevice at a call of KeQueryTimeIncrement (create-standalone)";
        assert!(text.contains(line), "{text}");
        // The frames of Windtunnel are not counted: this driver uses little itself.
        let (file, stack) = deepest_stack("uses-locks", DDI, extension);
        assert!((200..3000).contains(&stack["bytes"].as_u64().unwrap()), "{file}: {stack}");
    }
}

#[test]
fn pageable_memory_is_not_there_at_dispatch_level() {
    let texts = [
        "wrote to offset 0 of a paged pool block of 64 bytes (tag ",
        "allocated in SgStartDevice (adapter.c:",
        "at DISPATCH_LEVEL in SgDpcRoutine (report.c:",
        "0xD1",
    ];
    assert_found("touches-paged-pool-in-dpc", DPC, "WT-PAGED-001", &texts, Some("SgDpcRoutine"));
    let (file, finding) = first_finding("pageable-code-in-dpc", DPC, "sys");
    assert_eq!(finding["rule"], "WT-PAGED-001", "{file}: {finding}");
    let message = finding["message"].as_str().unwrap();
    let text = "executed pageable code at DISPATCH_LEVEL in UsePaged (report.c:";
    assert!(message.contains(text), "{message}");
    assert_eq!(finding["stack"][1]["function"], "SgDpcRoutine", "{finding}");
}

/// What is left of `DxgkDdiStartDevice` is found when `DxgkDdiStopDevice` returns, with the call that
/// got it.
#[test]
fn what_is_left_at_the_stop_has_the_place_of_its_call() {
    let sentence = "DxgkDdiStopDevice returned, but what the driver got since DxgkDdiStartDevice \
                    is left: one ";
    let (got, gave) =
        ("made in GetThings (environment_flaws.h:", "made in GiveThingsBack (environment_flaws.h:");
    for (name, rule, left, place) in [
        ("leaks-key-handle", "WT-LEAK-001", "open handle", got),
        ("leaks-lookaside-list", "WT-LEAK-002", "lookaside list", got),
        ("leaks-io-mapping", "WT-LEAK-002", "mapping of MmMapIoSpace", got),
        ("leaks-locked-pages", "WT-LEAK-002", "MDL with locked pages", got),
        ("leaks-work-item", "WT-LEAK-002", "work item of IoAllocateWorkItem", got),
        ("leaves-timer-set", "KMD-PNP-005", "timer that is set", got),
        ("leaves-dpc-queued", "KMD-PNP-005", "queued DPC", gave),
        ("leaves-work-item-queued", "KMD-PNP-005", "queued work item", gave),
        ("leaves-thread-running", "KMD-PNP-005", "running thread", "(gpu.c:"),
        ("leaks-thread-reference", "KMD-PNP-005", "reference to an object", "(gpu.c:"),
        (
            "leaks-contiguous-memory",
            "KMD-PNP-005",
            "block of contiguous memory or pages",
            "(gpu.c:",
        ),
    ] {
        assert_found(name, DDI, rule, &[&format!("{sentence}{left} ("), place], None);
        assert_eq!(first_finding(name, DDI, "sys").1["where"], "DxgkDdiStopDevice");
    }
    for (name, place) in [
        ("leaks-pool-block", "allocated in GetThings (environment_flaws.h:"),
        ("leaks-mdl", "allocated in SgStartDevice (adapter.c:"),
    ] {
        let texts = ["DxgkDdiStopDevice returned, but pool block ", place];
        assert_found(name, DDI, "KMD-PNP-005", &texts, None);
    }
}

/// What is left of `DxgkDdiAddDevice` is not found before `DxgkDdiRemoveDevice` returns.
#[test]
fn what_is_left_at_the_removal_has_the_place_of_its_call() {
    let sentence = "DxgkDdiRemoveDevice returned, but what the driver got since DxgkDdiAddDevice \
                    is left: one ";
    let place = "made in GetThings (environment_flaws.h:";
    for (name, rule, left) in [
        ("leaks-key-handle-at-removal", "WT-LEAK-001", "open handle"),
        ("leaks-lookaside-list-at-removal", "WT-LEAK-002", "lookaside list"),
        ("leaves-timer-set-at-removal", "KMD-PNP-003", "timer that is set"),
        (
            "leaks-contiguous-memory-at-removal",
            "KMD-PNP-003",
            "block of contiguous memory or pages",
        ),
    ] {
        assert_found(name, DDI, rule, &[&format!("{sentence}{left} ("), place], None);
    }
    let texts = ["allocated in GetThings (environment_flaws.h:", ") that DxgkDdiAddDevice took"];
    assert_found("leaks-pool-block-at-removal", DDI, "KMD-PNP-003", &texts, None);
}

/// Each stop reports what its own start got, and nothing is reported twice.
#[test]
fn what_is_left_is_counted_once_in_each_round() {
    for name in ["leaks-key-handle", "leaks-key-handle-at-removal"] {
        let file = drivers_folder().join("bad").join(format!("{name}.sys"));
        let file = file.into_os_string().into_string().unwrap();
        let (_, report) = json(&["check", &file, "--scenario", "pnp-restart"]);
        let findings = report["scenarios"][0]["findings"].as_array().unwrap();
        let places: Vec<&str> =
            findings.iter().map(|finding| finding["where"].as_str().unwrap()).collect();
        let expected =
            if name == "leaks-key-handle" { "DxgkDdiStopDevice" } else { "DxgkDdiRemoveDevice" };
        assert_eq!(places, [expected], "{report}");
        let message = findings[0]["message"].as_str().unwrap();
        assert!(message.contains(": one open handle (made in GetThings"), "{message}");
    }
}

#[test]
fn what_is_left_at_the_unload_has_the_place_of_its_call() {
    let left =
        ["the driver is unloaded, but it has left: one running thread (made in ", "driver.c:"];
    assert_found("capture-leaves-thread", "ks-state-transitions", "WT-LEAK-003", &left, None);
}

#[test]
fn an_assertion_is_reported_in_the_words_of_the_driver() {
    let words = ["assertion failed: Adapter->Removed == FALSE, environment_flaws.h:"];
    assert_found("fails-assertion", DDI, "WT-ASSERT-001", &words, Some("FailAssertion"));
    let place = ["own assertion (int 2Ch) failed at PASSIVE_LEVEL in FailAssertion (environment_"];
    assert_found("raises-assertion", DDI, "WT-ASSERT-001", &place, Some("FailAssertion"));
}

/// The same code without the flaw: nothing is found, with everything on.
#[test]
fn correct_uses_are_clean() {
    for (name, scenario) in [
        ("uses-locks", DDI),
        ("frame-that-fits", DDI),
        ("uses-paged-pool", DPC),
        ("gives-everything-back", DDI),
        ("gives-everything-back", "pnp-restart"),
        ("gives-everything-back-at-removal", DDI),
        ("gives-everything-back-at-removal", "pnp-restart"),
    ] {
        for extension in ["sys", "so"] {
            let file = drivers_folder().join("bad").join(format!("{name}.{extension}"));
            let file = file.into_os_string().into_string().unwrap();
            let check = ["check", &file, "--scenario", scenario, "--deny", "warnings"];
            let (code, report) = json(&check);
            assert_eq!(code, 0, "{file}: {report}");
            assert_eq!(report["scenarios"][0]["result"], "clean", "{file}: {report}");
        }
    }
}
