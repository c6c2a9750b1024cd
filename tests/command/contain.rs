//! Faults of user-mode drivers in files and of drivers in Rust. A driver in a file ends its own
//! process, and the command reports; one that flies in the process of a program is named on standard
//! error before the program ends.
#![expect(unsafe_code, reason = "a driver that writes through a NULL pointer")]
#![expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

use crate::images::drivers_folder;
use harness::c_umd::{build_c, c_umd};
use harness::command::windtunnel_command;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};
use std::ptr;
use std::sync::{Arc, LazyLock};
use windtunnel::softgpu::SoftGpu;
use windtunnel::{Flight, prelude::*};

/// The driver whose environment chooses a fault.
static FAULTY: LazyLock<String> = LazyLock::new(|| {
    let file = build_c("tests/c/faulty_umd.c", "faulty_umd.so", &["-shared", "-fPIC"]);
    file.display().to_string()
});

/// Flies the faulty driver.
fn fly(fault: &str, more: &[&str]) -> Output {
    let mut command = windtunnel_command();
    command.args(["check", "softgpu-allocation-lists", "--umd", &FAULTY, "--deadline", "1"]);
    command.args(["--scenario", "umd-create-and-destroy"]).args(more).env("FAULT", fault);
    command.output().unwrap()
}

/// Flies the faulty driver. Returns the findings of the report, which says that the check failed.
fn findings(fault: &str) -> Vec<Value> {
    let output = fly(fault, &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{fault}: {report}");
    assert_eq!(report["result"], "fail", "{fault}: {report}");
    report["scenarios"][0]["findings"].as_array().unwrap().clone()
}

/// Checks the only finding of a flight. Returns its message.
fn only_finding(fault: &str, place: &str) -> (String, Vec<String>) {
    let found = findings(fault);
    assert_eq!(found.len(), 1, "{fault}: {found:?}");
    let found = &found[0];
    assert_eq!(found["rule"], "WT-CRASH-001", "{fault}: {found}");
    assert_eq!((&found["who"], &found["where"]), (&"umd".into(), &place.into()), "{fault}");
    let function = |frame: &Value| frame["function"].as_str().unwrap().to_owned();
    let stack = found["stack"].as_array().unwrap().iter().map(function).collect();
    (found["message"].as_str().unwrap().to_owned(), stack)
}

#[test]
fn a_fault_in_any_function_of_a_user_mode_driver_is_a_finding() {
    let places = [
        ("open_adapter", "OpenAdapter", "OpenAdapter"),
        ("create_device", "pfnCreateDevice", "faulty_create_device"),
        ("create_resource", "pfnCreateResource", "faulty_create_resource"),
        ("destroy_device", "pfnDestroyDevice", "faulty_destroy_device"),
    ];
    let kinds = [
        ("null", "wrote to address 0x0 (NULL) in write_null (faulty_umd.c:"),
        ("abort", "aborted the process in fault (faulty_umd.c:"),
        ("loop", "did not return within the deadline; it was in fault (faulty_umd.c:"),
        ("exit", "ended the process with exit status 0 in fault (faulty_umd.c:"),
    ];
    for (place, name, function) in places {
        for (kind, sentence) in kinds {
            let (message, stack) = only_finding(&format!("{kind}@{place}"), name);
            let expected = format!("the user-mode driver {sentence}");
            assert!(message.starts_with(&expected), "{kind}@{place}: {message}");
            assert_eq!(stack.last().unwrap(), function, "{kind}@{place}: {stack:?}");
        }
        let (message, stack) = only_finding(&format!("overflow@{place}"), name);
        let expected = "the user-mode driver's stack overflowed in overflow (faulty_umd.c:";
        assert!(message.starts_with(expected), "{place}: {message}");
        assert_eq!(stack, vec!["overflow"; 16], "{place}");
    }
}

#[test]
fn other_ends_of_a_user_mode_driver_are_findings() {
    let exit = "the user-mode driver ended the process with exit status 0";
    for (fault, place, sentence) in [
        ("quick-exit@create_resource", "pfnCreateResource", exit),
        (
            "call-null@create_resource",
            "pfnCreateResource",
            "executed address 0x0 (NULL) in code at",
        ),
        ("wait@create_resource", "pfnCreateResource", "it was in libc.so.6, called by fault ("),
        ("thread@create_resource", "a routine that the runtime did not call", "in write_null ("),
        ("null@load", "its initialization", "in write_null (faulty_umd.c:"),
        ("loop@load", "its initialization", "within the deadline"),
        ("exit@unload", "its termination", exit),
        ("loop@unload", "its termination", "within the deadline"),
    ] {
        let (message, _) = only_finding(fault, place);
        assert!(message.contains(sentence), "{fault}: {message}");
    }
}

#[test]
fn findings_before_the_fault_are_in_the_report() {
    let found = findings("late-null@create_resource");
    let rules: Vec<&str> = found.iter().map(|finding| finding["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["UMD-RES-001", "WT-CRASH-001"]);
}

#[test]
fn the_text_report_has_the_call_stack() {
    let output = fly("null@create_resource", &[]);
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    let lines: Vec<&str> = report.lines().map(str::trim_start).collect();
    let first = lines.iter().position(|line| line.starts_with("stack    write_null (faulty"));
    let next = &lines[first.unwrap_or_else(|| panic!("{report}")) + 1..];
    assert!(next[0].starts_with("fault (faulty_umd.c:"), "{report}");
    assert!(next[1].starts_with("faulty_create_resource (faulty_umd.c:"), "{report}");
    assert!(next[2].starts_with("rule     WT-CRASH-001"), "{report}");
    assert!(lines.last().unwrap().starts_with("FAIL: 1 error"), "{report}");
    let output = fly("overflow@create_resource", &[]);
    let report = String::from_utf8(output.stdout).unwrap();
    // The call itself touches the end of the stack, if a frame ends there: that is up to chance.
    let is_folded = [
        "             overflow (faulty_umd.c:30), 15 times",
        "    stack    overflow (faulty_umd.c:30), 16 times",
    ]
    .iter()
    .any(|line| report.lines().any(|shown| shown == *line));
    assert!(is_folded, "{report}");
}

#[test]
fn what_a_driver_prints_is_not_in_the_report() {
    let output = fly("print@create_resource", &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["result"], "pass");
    assert!(String::from_utf8(output.stderr).unwrap().contains("printed by the driver\n"));
}

#[test]
fn in_the_process_of_the_command_the_signal_is_passed_on() {
    for (fault, signal, sentence) in [
        ("null@create_resource", 11, "wrote to address 0x0 (NULL) in write_null (faulty_umd.c:"),
        ("abort@create_resource", 6, "aborted the process in fault (faulty_umd.c:"),
        ("exit@destroy_device", 6, "ended the process with exit status 0 in fault (faulty_umd.c:"),
        ("thread@create_device", 11, "wrote to address 0x0 (NULL) in write_null (faulty_umd.c:"),
    ] {
        let output = fly(fault, &["--in-process"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{fault}: {errors}");
        let expected = format!("windtunnel: the user-mode driver {sentence}");
        assert!(errors.contains(&expected), "{fault}: {errors}");
        let innermost = if fault.starts_with("null") || fault.starts_with("thread") {
            "    stack    write_null (faulty_umd.c:"
        } else {
            "    stack    fault (faulty_umd.c:"
        };
        assert!(errors.contains(innermost), "{fault}: {errors}");
    }
}

#[test]
fn a_flight_is_the_same_in_a_process_of_its_own() {
    let file = c_umd(None).display().to_string();
    let folder = std::env::temp_dir().join(format!("windtunnel-{}-contain", std::process::id()));
    let run = |name: &str, more: &[&str]| {
        let traces = folder.join(name);
        let mut command = windtunnel_command();
        command.args(["check", "softgpu-gpummu", "--umd", &file, "--json", "--live", "--trace"]);
        let output = command.arg(&traces).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        let mut files: Vec<_> =
            fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let texts: Vec<String> =
            files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        (texts, String::from_utf8(output.stdout).unwrap())
    };
    let (child, here) = (run("child", &[]), run("here", &["--in-process"]));
    assert!(child.0.len() > 5, "{} traces", child.0.len());
    assert!(child.0 == here.0, "the traces differ");
    assert_eq!(child.1, here.1, "the reports differ");
    fs::remove_dir_all(&folder).unwrap();
}

/// The functions of the stack of the only finding of a bad driver.
fn stack_of(file: &str) -> Vec<String> {
    let file = drivers_folder().join("bad").join(file);
    let mut command = windtunnel_command();
    command.arg("check").arg(&file).args(["--scenario", "submit-fill-and-copy", "--json"]);
    let output = command.args(["--deadline", "1"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    let found = &report["scenarios"][0]["findings"][0];
    let function = |frame: &Value| frame["function"].as_str().unwrap().to_owned();
    found["stack"].as_array().unwrap().iter().map(function).collect()
}

#[test]
fn the_call_stacks_of_an_image_and_of_a_shared_object_are_the_same() {
    // The second frame is that of displib.
    let in_ddi = vec!["SgStartDevice", "StartDevice"];
    for (kind, expected) in [
        ("null-write", in_ddi.clone()),
        ("bug-check", in_ddi.clone()),
        ("endless-loop", in_ddi),
        ("stack-overflow", vec!["FlawRecursion"; 16]),
    ] {
        for extension in ["sys", "so"] {
            let file = format!("{kind}-in-ddi.{extension}");
            assert_eq!(stack_of(&file), expected, "{file}");
        }
    }
}

#[test]
fn an_image_in_the_process_of_the_command_is_named_before_the_command_ends() {
    for (file, sentence) in [
        (
            "null-write-in-ddi.sys",
            "the driver wrote to address 0x0 (NULL) at PASSIVE_LEVEL in SgSta",
        ),
        (
            "bug-check-in-ddi.sys",
            "the driver called KeBugCheckEx(0xe2, 0x1, 0x2, 0x3, 0x4) in SgSta",
        ),
        ("stack-overflow-in-dpc.so", "the driver's stack overflowed in FlawRecursion (flaws.h:"),
    ] {
        let mut command = windtunnel_command();
        command.arg("check").arg(drivers_folder().join("bad").join(file)).arg("--in-process");
        let output = command.args(["--scenario", "submit-fill-and-copy"]).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.signal().is_some(), "{file}: {errors}");
        assert!(errors.contains(&format!("windtunnel: {sentence}")), "{file}: {errors}");
    }
}

#[test]
fn both_drivers_of_a_flight_can_be_files() {
    let image = drivers_folder().join("render.sys");
    let run = |fault: &str| {
        let mut command = windtunnel_command();
        command.arg("check").arg(&image).args(["--umd", &FAULTY, "--json"]).env("FAULT", fault);
        let output = command.args(["--scenario", "umd-create-and-destroy"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report["scenarios"][0].clone())
    };
    let (code, scenario) = run("none");
    assert_eq!((code, &scenario["result"]), (Some(0), &"clean".into()), "{scenario}");
    let (code, scenario) = run("null@create_resource");
    let found = &scenario["findings"][0];
    assert_eq!((code, &found["who"]), (Some(1), &"umd".into()), "{scenario}");
    assert_eq!(found["stack"][2]["function"], "faulty_create_resource", "{scenario}");
    assert_eq!(found["stack"].as_array().unwrap().len(), 3, "{scenario}");
}

/// A driver that writes through a NULL pointer when it creates an allocation.
struct WritesNull(Arc<SoftGpu>);

impl Miniport for WritesNull {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.0)
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        _args: CreateAllocationArgs<'_>,
    ) -> DriverResult<CreatedAllocations> {
        // SAFETY: It is not safe: the process ends here.
        unsafe { ptr::null_mut::<u32>().write_volatile(1) };
        Err(DriverError::NoMemory)
    }
}

/// This test is run once more, in a process that ends, by itself.
#[test]
fn a_fault_of_a_driver_in_rust_is_named_before_its_program_ends() {
    const FLIES: &str = "WINDTUNNEL_TEST_FLIES";
    const NAME: &str = "contain::a_fault_of_a_driver_in_rust_is_named_before_its_program_ends";
    if std::env::var_os(FLIES).is_some() {
        let (driver, gpu) = SoftGpu::new();
        let driver = Arc::new(WritesNull(driver));
        let flown = Flight::new(driver, gpu).fly(|testbed| {
            let client = testbed.test_client()?;
            client.create(testbed.at, 1).map(drop)
        });
        flown.assert_clean();
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", NAME, "--nocapture"]).env(FLIES, "1").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.signal(), Some(11), "{errors}");
    let expected = "windtunnel: the driver wrote to address 0x0 (NULL)";
    assert!(errors.contains(expected), "{errors}");
    assert!(errors.contains("\n    where    driver, in DxgkDdiCreateAllocation\n"), "{errors}");
    assert!(errors.contains("WritesNull"), "the function is not named: {errors}");
    assert!(errors.contains("(contain.rs:"), "the line is not named: {errors}");
}
