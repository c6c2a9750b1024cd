//! Reports about drivers that end their process, and what the process of a flight may do. A driver in
//! a file ends its own process, and the command reports; one that flies in the process of a program
//! is named on standard error before the program ends. `faults.rs` counts the faults.
#![expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

use crate::images::drivers_folder;
use harness::c_umd::{build_c, c_umd};
use harness::command::windtunnel_command;
use harness::pages::read;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The longest time that a test waits for what must come: the machine can be busy.
const HANG_LIMIT: Duration = Duration::from_mins(5);

/// The driver whose environment chooses a fault.
pub(crate) static FAULTY: LazyLock<String> = LazyLock::new(|| {
    let file = build_c("tests/c/faulty_umd.c", "faulty_umd.so", &["-shared", "-fPIC"]);
    file.display().to_string()
});

/// Flies the faulty driver.
fn fly(fault: &str, more: &[&str]) -> Output {
    fly_within("1", fault, more)
}

/// Flies the faulty driver, with a deadline in seconds.
fn fly_within(deadline: &str, fault: &str, more: &[&str]) -> Output {
    let mut command = windtunnel_command();
    command.args(["check", "softgpu-allocation-lists", "--umd", &FAULTY, "--deadline", deadline]);
    command.args(["--scenario", "umd-create-and-destroy"]).args(more).env("FAULT", fault);
    command.output().unwrap()
}

/// Flies the faulty driver. Returns the findings of the report, which says that the check failed.
fn findings(fault: &str) -> Vec<Value> {
    findings_of(fault, &fly(fault, &["--json"]))
}

/// The findings of a report, which says that the check failed.
fn findings_of(fault: &str, output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{fault}: {report}");
    assert_eq!(report["result"], "fail", "{fault}: {report}");
    report["scenarios"][0]["findings"].as_array().unwrap().clone()
}

/// What a user-mode driver got from the runtime and has not given back when its device is destroyed.
#[test]
fn a_user_mode_driver_that_keeps_an_object_of_the_kernel_is_found() {
    for (fault, below, left) in [
        ("leak-allocation", "softgpu-allocation-lists", "1 allocation without a resource"),
        ("leak-context", "softgpu-allocation-lists", "1 context"),
        ("leak-object", "softgpu-gpummu", "1 synchronization object"),
        ("leak-queue", "softgpu-gpummu", "1 paging queue"),
    ] {
        let mut command = windtunnel_command();
        command.args(["check", below, "--umd", &FAULTY, "--json"]);
        command.args(["--scenario", "umd-create-and-destroy"]);
        let output = command.env("FAULT", format!("{fault}@create_device")).output().unwrap();
        let found = findings_of(fault, &output);
        let message = format!("the device is destroyed, and has {left} left");
        assert_eq!(found.len(), 1, "{fault}: {found:?}");
        assert_eq!(found[0]["message"], message, "{fault}");
        assert_eq!(
            (&found[0]["rule"], &found[0]["who"]),
            (&"UMD-DESTROY-013".into(), &"umd".into())
        );
        assert_eq!(found[0]["where"], "pfnDestroyDevice", "{fault}");
    }
}

/// An access to memory whose lock has ended names the lock.
#[test]
fn a_user_mode_driver_that_writes_after_its_lock_is_told_which_lock() {
    for (kind, ended) in [("unlocked", "an unlock"), ("destroyed", "a destroy")] {
        let found = findings(&format!("{kind}@create_resource"));
        let found = found.iter().find(|found| found["rule"] == "WT-CRASH-001").unwrap();
        let message = found["message"].as_str().unwrap();
        let start = "the user-mode driver wrote to offset 16 of the memory of a lock of view:";
        let end = format!("which {ended} had ended, in write_after_lock (faulty_umd.c:");
        assert!(message.starts_with(start) && message.contains(&end), "{kind}: {message}");
        assert_eq!(found["who"], "umd", "{kind}: {found}");
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
    let source = read("tests/c/faulty_umd.c");
    let line = source.lines().position(|line| line.contains("overflow(depth + 1)")).unwrap() + 1;
    // The call itself touches the end of the stack, if a frame ends there: that is up to chance.
    let is_folded = [
        format!("             overflow (faulty_umd.c:{line}), 15 times"),
        format!("    stack    overflow (faulty_umd.c:{line}), 16 times"),
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

/// The process of a flight prints its limits and its descriptors.
#[test]
fn the_process_of_a_flight_has_limits() {
    let command = windtunnel_command();
    let mut shell = Command::new("bash");
    // Two descriptors of the command that are open for its children, too.
    shell.args(["-c", "exec 7</dev/null 9</dev/null; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(["check", "softgpu-allocation-lists"]);
    shell.args(["--umd", &FAULTY, "--scenario", "umd-create-and-destroy"]);
    let output = shell.env("FAULT", "limits@create_resource").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let line = |key: &str| {
        let mut lines = errors.lines().filter_map(|line| line.strip_prefix(key));
        lines.next_back().unwrap_or_else(|| panic!("{key}: {errors}")).trim().to_owned()
    };
    assert_eq!(line("no new privileges:"), "1");
    assert_eq!(line("core:"), "0");
    assert_eq!(line("descriptors:"), "1024");
    assert_eq!(line("file size:"), (1_u64 << 30).to_string());
    // Beyond what the process had when it started.
    for (key, limit) in [("addresses:", 64_u64 << 30), ("data:", 8 << 30)] {
        let bytes: u64 = line(key).parse().unwrap();
        assert!((limit..limit + (4 << 30)).contains(&bytes), "{key} {bytes}");
    }
    assert_eq!(line("inherited:"), "0", "{errors}");
}

/// Whether a process runs. A process that has ended and that no one waits for does not.
pub(crate) fn is_alive(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// The process of the flight of a command. Waits until the flight begins.
pub(crate) fn flight_of(command: &Child) -> u32 {
    let began = Instant::now();
    loop {
        // Any thread may make a flight. A child without a scenario only loads the driver, and one
        // that has not begun its program has the words of the command.
        let threads = fs::read_dir(format!("/proc/{}/task", command.id())).unwrap();
        let lists = threads.map(|thread| thread.unwrap().path().join("children"));
        let ids: String = lists.map(|list| fs::read_to_string(list).unwrap_or_default()).collect();
        let is_flight = |child: &u32| {
            let words = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            words.split('\0').nth(1) == Some("flight") && words.contains("--scenario")
        };
        let mut children = ids.split_whitespace().filter_map(|id| id.parse().ok());
        if let Some(child) = children.find(is_flight) {
            return child;
        }
        assert!(began.elapsed() < HANG_LIMIT, "the flight does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process has ended. It was killed, and ends as soon as the system runs it.
pub(crate) fn await_end(process: u32) {
    let began = Instant::now();
    while is_alive(process) {
        assert!(began.elapsed() < HANG_LIMIT, "process {process} is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn no_flight_is_left_when_the_command_is_killed() {
    let mut command = windtunnel_command();
    command.args(["check", "softgpu-allocation-lists", "--umd", &FAULTY, "--deadline", "0"]);
    command.args(["--scenario", "umd-create-and-destroy"]).env("FAULT", "loop@create_resource");
    let mut command = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let flight = flight_of(&command);
    command.kill().unwrap();
    command.wait().unwrap();
    await_end(flight);
}

#[test]
fn a_process_that_a_driver_starts_ends_with_the_flight() {
    // The second one is in a session of its own, and its parent has ended.
    for fault in ["fork@create_resource", "daemon@create_resource"] {
        let output = fly(fault, &["--json"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let started = errors.lines().find_map(|line| line.strip_prefix("started process "));
        let started: u32 = started.unwrap_or_else(|| panic!("{errors}")).parse().unwrap();
        await_end(started);
    }
}

/// The command maps the memory that it shares with a flight, and a missing page would end it.
#[test]
fn a_driver_cannot_truncate_the_memory_of_its_flight() {
    let output = fly("truncate@create_resource", &["--json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("truncated: -1\n"), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["result"], "pass", "{report}");
}

/// What a driver writes over the events of its flight is no event, no end and no error.
#[test]
fn a_driver_that_writes_over_the_events_of_its_flight_is_named() {
    let sentence = "the user-mode driver wrote over the memory in which the process of the flight \
                    records its events: what is behind event ";
    for fault in ["overwrite", "flood", "forge-record", "forge-pass", "forge-error"] {
        // The driver writes much, and a busy machine is slow.
        let output = fly_within("60", &format!("{fault}@create_resource"), &["--json"]);
        let found = findings_of(fault, &output);
        let [found] = &found[..] else { panic!("{fault}: {found:?}") };
        assert_eq!((&found["rule"], &found["who"]), (&"WT-BUFFER-001".into(), &"umd".into()));
        assert!(found["message"].as_str().unwrap().starts_with(sentence), "{fault}: {found}");
    }
    let found = findings("overwrite-and-null@create_resource");
    let [overwritten, crash] = &found[..] else { panic!("{found:?}") };
    assert!(overwritten["message"].as_str().unwrap().starts_with(sentence), "{overwritten}");
    let message = crash["message"].as_str().unwrap();
    assert!(message.contains("in write_null (faulty_umd.c:"), "{crash}");
}

/// A driver that is not there any more did nothing wrong.
#[test]
fn a_file_that_disappears_during_a_check_is_not_the_drivers_fault() {
    let file = drivers_folder().join("disappears.so");
    fs::copy(drivers_folder().join("compute.so"), &file).unwrap();
    let mut command = windtunnel_command();
    command.arg("check").arg(&file).args(["--scenario", "create-standalone", "--seeds", "2000"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    flight_of(&command);
    fs::remove_file(&file).unwrap();
    let output = command.wait_with_output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{report}");
    assert!(!report.contains("WT-CRASH-001"), "{report}");
}

#[test]
fn a_system_call_of_a_driver_is_named_with_its_number() {
    for extension in ["sys", "so"] {
        let file = drivers_folder().join(format!("bad/system-call-in-dpc.{extension}"));
        let mut command = windtunnel_command();
        command.arg("check").arg(&file).args(["--scenario", "interrupt-shared-line", "--json"]);
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = &report["scenarios"][0]["findings"][0];
        let message = found["message"].as_str().unwrap();
        let expected =
            "the driver made system call 39 of this machine at DISPATCH_LEVEL in SgDpcRoutine (";
        assert!(message.starts_with(expected), "{extension}: {message}");
        assert_eq!(found["where"], "DxgkDdiDpcRoutine", "{extension}: {report}");
    }
}

#[test]
fn a_user_mode_driver_that_changes_the_control_state_is_named() {
    for (fault, change) in [
        ("mxcsr", "the control bits of MXCSR are 0x7f80 and were 0x1f80"),
        ("direction-flag", "the direction flag is set"),
    ] {
        let found = findings(&format!("{fault}@create_resource"));
        let first = &found[0];
        let message = first["message"].as_str().unwrap();
        assert_eq!((&first["rule"], &first["who"]), (&"WT-REGISTER-001".into(), &"umd".into()));
        assert_eq!(first["where"], "pfnCreateResource", "{first}");
        assert!(message.starts_with("the user-mode driver returned") && message.ends_with(change));
    }
}

/// Flies a bad driver. Returns the exit status and the report of its scenario.
fn fly_bad_driver(file: &str) -> (Option<i32>, Value) {
    let path = drivers_folder().join("bad").join(file);
    let mut command = windtunnel_command();
    command.arg("check").arg(&path).args(["--scenario", "create-standalone", "--json"]);
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), report["scenarios"][0].clone())
}

/// The system reports a general protection fault as an access to address zero, whatever it was.
#[test]
fn a_general_protection_fault_is_named_by_its_instruction() {
    let wild = "executed address 0x5a5a5a5a5a5a5a5a, which is no canonical address,";
    for (name, words) in [
        ("jump-to-wild-address-in-ddi", wild),
        ("return-to-wild-address-in-ddi", wild),
        ("debug-service-in-ddi", "called the debugger with int 2Dh,"),
        ("misaligned-load-in-ddi", "executed movaps with an address that is not aligned,"),
    ] {
        for extension in ["sys", "so"] {
            let file = format!("{name}.{extension}");
            let (code, scenario) = fly_bad_driver(&file);
            let message = scenario["findings"][0]["message"].as_str().unwrap_or_default();
            let expected =
                format!("the driver {words} at PASSIVE_LEVEL in SgStartDevice (adapter.c:");
            assert_eq!(code, Some(1), "{file}: {scenario}");
            assert!(message.starts_with(&expected), "{file}: {message}");
            let windows = ": bug check 0x7E in a system thread, 0x3B in a system call";
            assert!(message.ends_with(windows), "{file}: {message}");
        }
    }
}

/// The kernel of Windows executes it, so the driver is not to blame.
#[test]
fn a_privileged_instruction_that_is_not_emulated_is_a_need_of_the_flight() {
    for extension in ["sys", "so"] {
        let (code, scenario) =
            fly_bad_driver(&format!("privileged-instruction-in-ddi.{extension}"));
        assert_eq!((code, &scenario["findings"]), (Some(2), &serde_json::json!([])), "{scenario}");
        let need = scenario["needs"][0].as_str().unwrap_or_default();
        let expected = "the privileged instruction wrmsr in SgStartDevice (adapter.c:";
        assert!(need.starts_with(expected), "{scenario}");
    }
}

#[test]
fn a_finding_about_memory_of_the_process_is_the_same_in_each_run() {
    for (file, words) in [
        ("data-execution-in-ddi.so", "executed data-execution-in-ddi.so+0x"),
        ("data-execution-in-ddi.sys", "executed data-execution-in-ddi.sys+0x"),
        ("writes-constant.sys", "wrote to writes-constant.sys+0x"),
    ] {
        let messages = [(); 2].map(|()| {
            let (code, scenario) = fly_bad_driver(file);
            assert_eq!(code, Some(1), "{file}: {scenario}");
            scenario["findings"][0]["message"].as_str().unwrap().to_owned()
        });
        assert!(messages[0].starts_with(&format!("the driver {words}")), "{messages:?}");
        assert_eq!(messages[0], messages[1], "{file}");
    }
}

/// A report without the judgement of system calls says so, and what the judgement needs.
#[test]
fn a_report_says_that_the_system_refuses_the_filter_of_system_calls() {
    let refuse = build_c("tests/c/without_call.c", "without_call", &[]);
    let file = drivers_folder().join("compute.sys");
    let fly = |more: &[&str], refused: bool| {
        let own = windtunnel_command();
        let mut command =
            Command::new(if refused { refuse.as_os_str() } else { own.get_program() });
        if refused {
            command.arg("seccomp").arg(own.get_program());
        }
        command.arg("check").arg(&file).args(["--scenario", "create-standalone"]).args(more);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let sentence = "system calls by instructions of the driver's own, because the operating system \
                    refuses a seccomp filter (Operation not permitted (os error 1)): they need a \
                    Linux kernel with CONFIG_SECCOMP_FILTER, and no policy against the system call \
                    seccomp";
    for more in [&[][..], &["--verbose"]] {
        assert!(fly(more, true).contains(sentence), "{more:?}");
        assert!(!fly(more, false).contains("seccomp"), "{more:?}");
    }
    let report: Value = serde_json::from_str(&fly(&["--json"], true)).unwrap();
    assert_eq!(report["scenarios"][0]["not_judged"][0], sentence, "{report}");
    let report: Value = serde_json::from_str(&fly(&["--json"], false)).unwrap();
    assert!(!report["scenarios"][0]["not_judged"].to_string().contains("seccomp"), "{report}");
}
