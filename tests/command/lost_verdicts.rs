//! Ways to lose a verdict: faults, closed or full outputs, signals, no memory, no threads. In each the
//! report comes out, or a line says why not, and the exit status tells.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use crate::c_library::{build_c, command, line_of, output_text};
use crate::contain::{await_end, flight_of, is_alive};
use crate::images::driver;
use harness::c_umd;
use harness::command::windtunnel_command;
use harness::repeats;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

/// The client whose argument chooses a fault.
static FAULTS: LazyLock<PathBuf> = LazyLock::new(|| build_c("tests/c/faults.c"));

/// Runs the client with a fault. Returns how it ended, and its report.
fn fault(fault: &str) -> (Output, String) {
    let report = FAULTS.with_extension(format!("{fault}.report"));
    _ = fs::remove_file(&report); // There may be none.
    // Its own exit status, and not that of a program around it.
    let mut command = Command::new(&*FAULTS);
    command.env("LD_LIBRARY_PATH", crate::c_library::library()).arg(fault);
    let output = command.env("WINDTUNNEL_REPORT", &report).output().unwrap();
    let text = fs::read_to_string(&report);
    (output, text.unwrap_or_default())
}

#[test]
fn a_fault_of_a_client_leaves_its_report_and_its_exit_status() {
    let line = line_of("tests/c/faults.c", "the write");
    let write =
        format!("SIGSEGV: the client wrote to address 0x0 (NULL) in write_null (faults.c:{line})");
    for (name, signal, sentence) in [
        ("null", 11, &*write),
        ("thread", 11, &write),
        ("abort", 6, "SIGABRT: the client aborted in main (faults.c:"),
        ("divide", 8, "SIGFPE: the client divided by zero in divide (faults.c:"),
        ("overflow", 11, "SIGSEGV: the stack of the client overflowed in recurse (faults.c:"),
        (
            "thread-overflow",
            11,
            "SIGSEGV: the stack of the client overflowed in recurse (faults.c:",
        ),
    ] {
        let (output, report) = fault(name);
        assert_eq!(output.status.signal(), Some(signal), "{name}: {}", output_text(&output));
        assert!(report.contains(&format!("\nended by {sentence}")), "{name}: {report}");
        assert!(report.contains("rule     ALLOC-DESTROY-001"), "{name}: {report}");
        assert!(
            report.contains("left alive:\n") && report.contains("D3DKMTCreateDevice"),
            "{report}"
        );
        assert!(report.ends_with(" left alive\n"), "{name}: {report}");
    }
    let (_, report) = fault("null");
    assert!(report.contains("\n  called   by main (faults.c:"), "{report}");
}

/// An access to memory whose lock has ended names the lock.
#[test]
fn a_client_that_writes_after_its_lock_is_told_which_lock() {
    let line = line_of("tests/c/faults.c", "the late write");
    for (name, ended) in [("unlocked", "an unlock"), ("destroyed", "a destroy")] {
        let (output, report) = fault(name);
        assert_eq!(output.status.signal(), Some(11), "{name}: {}", output_text(&output));
        let start = "\nended by SIGSEGV: the client wrote to offset 16 of the memory of a lock of";
        let end = format!("which {ended} had ended, in write_after_lock (faults.c:{line})");
        assert!(report.contains(start) && report.contains(&end), "{name}: {report}");
    }
}

#[test]
fn a_clients_own_handler_keeps_working() {
    let (output, report) = fault("handled");
    assert_eq!(output.status.code(), Some(7), "{}", output_text(&output));
    assert!(report.contains("; the client's own handler runs next\n"), "{report}");
    let (output, report) = fault("recovers");
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert!(report.contains("rule     ALLOC-DESTROY-001"), "{report}");
    assert!(!report.contains("ended by"), "the client went on: {report}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
}

#[test]
fn a_fault_of_a_forked_child_is_not_in_its_parents_report() {
    let (output, report) = fault("forked");
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert!(!report.contains("ended by"), "{report}");
    assert!(report.ends_with(" 0 objects left alive\n"), "{report}");
}

/// A file to which nothing can be written.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_client_whose_standard_error_is_full_or_closed_ends_as_it_would() {
    let client = build_c("tests/c/leaks.c");
    for (redirection, fails, status) in [
        ("2>/dev/full", "0", 0),
        ("2>&-", "0", 0),
        ("2> >(exec true)", "0", 0), // a pipe that no one reads
        ("2>/dev/full", "1", 1),
    ] {
        let script = format!("exec {} {redirection}", client.display());
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env("LD_LIBRARY_PATH", crate::c_library::library());
        command.env("WINDTUNNEL_REPORT", "1").env("WINDTUNNEL_FAIL", fails);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{redirection}: {:?}", output.status);
    }
}

#[test]
fn a_full_standard_output_is_a_message_and_status_2() {
    for arguments in [
        &["check", "--scenario", "create-resource"][..],
        &["check", "--scenario", "create-resource", "--json"],
        &["check", "no-such-driver", "--json"],
        &["list", "rules"],
        &["list", "drivers", "--json"],
        &["explain", "KMD-DESTROY-002"],
        &["support"],
        &["--help"],
    ] {
        let output = windtunnel_command().args(arguments).stdout(full()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        let expected = "windtunnel: standard output cannot be written: No space left on device";
        assert!(errors.starts_with(expected), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    }
    let mut command = windtunnel_command();
    let output = command.args(["check", "no-such-driver"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "standard error is full");
}

#[test]
fn an_allow_file_of_a_hundred_thousand_entries_takes_ten_times_that_of_a_tenth() {
    let allow_file = |entries: u32| {
        let mut text = String::new();
        for number in 0..entries {
            _ = writeln!(text, "[[allow]]\nrule = \"KMD-DESTROY-002\"\nwhere = \"place {number}\"");
            text += "reason = \"known\"\n";
        }
        text + "[[allow]]\nrule = \"KMD-DESTROY-002\"\n\
                where = \"DxgkDdiDestroyAllocation, pAllocationList\"\nreason = \"known\"\n"
    };
    let (text, tenth) = (allow_file(100_000), allow_file(10_000));
    let allow = windtunnel::AllowList::read(&text).unwrap();
    assert_eq!((allow.entries().len(), allow.entries()[99_999].line), (100_001, 399_997));
    // Of the processor, in nanoseconds: other work on the machine takes none of it.
    let thread_time = || {
        let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        times.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let fastest = |text: &str| {
        let time = |_| {
            let started = thread_time();
            windtunnel::AllowList::read(text).unwrap();
            thread_time() - started
        };
        (0..3).map(time).min().unwrap()
    };
    // A search of all entries for each one would take a hundred times as long.
    let (whole, part) = (fastest(&text), fastest(&tenth));
    assert!(whole < part * 40, "{whole} ns for 100,000 entries, {part} ns for 10,000");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("many.toml");
    fs::write(&path, &text).unwrap();
    let mut command = windtunnel_command();
    command.args(["check", "kmd-leaks-destroyed-allocation", "--scenario", "create-resource"]);
    let output = command.arg("--allow").arg(&path).args(["--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["allow"]["allowed"], 1);
    assert_eq!(report["allow"]["did_not_occur"].as_array().unwrap().len(), 100_000);
}

/// Stops a check with a signal, after its first line. Returns how it ended.
fn stop(signal: &str, arguments: &[&str]) -> Output {
    // A background job of a shell ignores SIGINT, and so would this command.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM").arg(windtunnel_command().get_program());
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    let errors = child.wait_with_output().unwrap();
    let stdout = [text.into_bytes(), rest].concat();
    Output { stdout, ..errors }
}

#[test]
fn a_check_that_is_stopped_prints_what_was_found_so_far() {
    let seeds = u64::MAX.to_string();
    // The head of the report about a file is printed when its first flight has ended.
    let driver = driver("bad/leaks-allocation.so");
    let arguments = ["check", &driver, "--scenario", "create-standalone", "--seeds", &seeds];
    for (signal, name, status) in [("-INT", "SIGINT", 130), ("-TERM", "SIGTERM", 143)] {
        let output = stop(signal, &arguments);
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{text}{errors}");
        assert!(text.contains("rule     KMD-DESTROY-002"), "{text}");
        let last = text.lines().last().unwrap();
        let expected = format!("; {name} stopped the check after ");
        assert!(last.starts_with("FAIL (stopped): 1 error") && last.contains(&expected), "{last}");
        let line = format!("windtunnel: {name} stopped the check after ");
        assert!(errors.starts_with(&line), "{errors}");
        assert!(errors.ends_with(&format!(" of {seeds} flights\n")), "{errors}");
    }
}

/// Starts the check of a user-mode driver that never returns, without a deadline. Returns the command
/// and the process of its flight.
fn hung() -> (Child, u32) {
    let file = c_umd::build_c("tests/c/faulty_umd.c", "stopped_umd.so", &["-shared", "-fPIC"]);
    let mut command = windtunnel_command();
    command.args(["check", "softgpu-allocation-lists", "--deadline", "0", "--json", "--umd"]);
    command.arg(file).args(["--scenario", "umd-create-and-destroy"]);
    command.env("FAULT", "loop@create_resource").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let flight = flight_of(&child);
    (child, flight)
}

#[test]
fn a_stopped_check_leaves_no_process_and_accuses_no_driver() {
    let (child, flight) = hung();
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(143), "{report}");
    assert_eq!(
        (&report["stopped"], &report["result"]),
        (&"SIGTERM".into(), &"could-not-run".into())
    );
    assert_eq!(report["findings"], 0, "{report}");
    assert!(!is_alive(flight), "process {flight} is left");
    // A command that has no chance to stop its flight.
    let (mut child, flight) = hung();
    assert!(is_alive(flight));
    child.kill().unwrap();
    child.wait().unwrap();
    await_end(flight);
}

#[test]
fn a_check_without_memory_ends_with_a_line() {
    let check = |megabytes: u64| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={megabytes}000000")).arg(windtunnel_command().get_program());
        let output = command.args(["check", "--scenario", "create-resource"]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status, errors)
    };
    // The memory of the machine cannot be reserved.
    for megabytes in [200, 100] {
        let (status, errors) = check(megabytes);
        assert_eq!(status.code(), Some(2), "{megabytes}: {errors}");
        assert!(errors.contains("the machine has no resources left: "), "{megabytes}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{megabytes}: {errors}");
    }
    // Less and less, until the program cannot be loaded: before `main`, the words are those of the
    // C library or of Rust's.
    let mut without_memory = 0;
    for megabytes in (10..64).rev() {
        let (status, errors) = check(megabytes);
        if status.code() != Some(2) {
            assert_ne!((status.code(), status.signal()), (Some(101), None), "{errors}");
            let before_main =
                errors.contains("thread 'main' (") && errors.contains("alternative stack");
            assert!(status.signal() != Some(6) || before_main, "{megabytes}: {errors}");
            break;
        }
        assert_eq!(errors.lines().count(), 1, "{megabytes}: {errors}");
        without_memory +=
            u32::from(errors.ends_with("the machine has no resources left: no memory\n"));
    }
    assert!(without_memory > 0, "the program began without memory");
}

#[test]
fn a_file_that_does_not_fit_the_memory_ends_a_check_with_a_line() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_memory.toml");
    let entry = "[[allow]]\nrule = \"KMD-DESTROY-002\"\nreason = \"known\"\n";
    fs::write(&path, entry.repeat(60_000)).unwrap();
    let mut command = Command::new("prlimit");
    command.arg("--as=60000000").arg(windtunnel_command().get_program());
    let output = command.args(["check", "--allow"]).arg(&path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(errors, "windtunnel: the machine has no resources left: no memory\n");
}

#[test]
fn a_check_without_threads_ends_with_a_line() {
    // Root has as many threads as it likes, so it becomes another user. That user may be unable to
    // enter the folder of the command: the command is a descriptor that is open already.
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=61234", "--clear-groups", "prlimit"]);
        command
    } else {
        Command::new("prlimit")
    };
    command.args(["--nproc=1", "/proc/self/fd/0", "check", "--scenario", "create-resource"]);
    command.stdin(File::open(windtunnel_command().get_program()).unwrap());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("the machine has no resources left: the thread '"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn a_client_without_memory_is_answered() {
    let client = build_c("tests/c/no_memory.c");
    let output = command(&client).output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("without memory: 0xc0000017 0xc0000017\n"), "{text}");
    assert!(text.ends_with("no memory: all answered\n"), "{text}");
    let output = command(&client).arg("start").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("no memory: the start was answered\n"), "{text}");
}

#[test]
fn a_pointer_into_the_librarys_frames_or_to_a_page_that_is_gone_is_an_invalid_parameter() {
    let client = build_c("tests/c/stack_pointers.c");
    let output = command(&client).env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("stack pointers: all answered\n"), "{text}");
    assert!(text.ends_with(" left alive\n"), "{text}");
    assert!(!text.contains("who      kernel"), "{text}");
}

#[test]
fn a_bad_pointer_of_a_client_that_changes_its_signals_is_answered() {
    let client = build_c("tests/c/signals.c");
    for report in ["", "1"] {
        let output = command(&client).env("WINDTUNNEL_REPORT", report).output().unwrap();
        let text = output_text(&output);
        assert!(output.status.success(), "report '{report}': {}: {text}", output.status);
        assert!(text.contains("signals: all answered\n"), "report '{report}': {text}");
    }
}

#[test]
fn an_allocation_is_created_and_destroyed_without_a_system_call() {
    let client = build_c("tests/c/no_system_call.c");
    let output = command(&client).output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.ends_with("no system call: 1000 pairs\n"), "{text}");
}

#[test]
fn a_thread_can_be_cancelled_at_any_instruction_of_an_exported_function() {
    let client = build_c("tests/c/cancelled.c");
    let turns = repeats(200, 20_000).to_string();
    let output = command(&client).arg(turns).env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("cancelled: all answered\n"), "{text}");
    assert!(text.contains("0 objects left alive"), "{text}");
}

#[test]
fn a_handler_inside_a_call_is_answered_and_a_cancellation_waits() {
    let client = build_c("tests/c/interrupted.c");
    let output = command(&client).env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("the handler: 0x80000011\n"), "{text}");
    assert!(text.contains("the thread was cancelled: 1, after its call: 0\n"), "{text}");
    assert!(text.contains("interrupted: all answered\n"), "{text}");
    assert!(!text.contains("WT-") && !text.contains("who      kernel"), "{text}");
    // A handler that ends the process from inside a call: its thread may hold any lock.
    let output = command(&client).arg("exit").env("WINDTUNNEL_REPORT", "1").output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("created by D3DKMTCreateKeyedMutex, called by main at "), "{text}");
    assert!(text.ends_with(" 1 object left alive\n"), "{text}");
}
