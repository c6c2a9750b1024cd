//! `windtunnel serve`: clients in several processes.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use crate::c_library::{build_c, build_cpp, command, library, output_text};
use crate::images::drivers_folder;
use harness::command::windtunnel_command;
use harness::pages::root;
use harness::repeats;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A server that runs.
pub(crate) struct Server {
    process: Child,
    pub(crate) socket: PathBuf,
    report: PathBuf,
    errors: BufReader<ChildStderr>,
}

/// How a server has ended.
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) report: String,
}

impl Server {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    pub(crate) fn start_with(name: &str, options: &[&str]) -> Self {
        Self::start_under(name, options, &[])
    }

    /// A server for which the system refuses a system call, by the program that arranges that.
    pub(crate) fn start_without(name: &str, refuse: &Path, call: &str) -> Self {
        Self::start_under(name, &[], &[refuse.as_os_str(), call.as_ref()])
    }

    pub(crate) fn start_under(name: &str, options: &[&str], before: &[&OsStr]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let socket = folder.join(format!("{name}.sock"));
        let report = folder.join(format!("{name}.report"));
        let mut serve = serve_under(&socket, before);
        serve.arg("--report").arg(&report).args(options);
        let mut process = serve.stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let is_ready = line.starts_with("serving at ");
        assert!(is_ready, "{line}");
        Self { process, socket, report, errors }
    }

    /// Runs a client of this server.
    pub(crate) fn run(&self, client: &Path, arguments: &[&str]) -> Output {
        command(client).args(arguments).env("WINDTUNNEL_SOCKET", &self.socket).output().unwrap()
    }

    /// Runs a client that must succeed. Returns what it printed.
    pub(crate) fn run_well(&self, client: &Path, arguments: &[&str]) -> String {
        let output = self.run(client, arguments);
        let text = output_text(&output);
        assert!(
            output.status.success(),
            "{} {arguments:?}: {}\n{text}",
            client.display(),
            output.status
        );
        text
    }

    /// The number of the server's process, which `timeout` has started.
    fn number(&self) -> String {
        let parent = self.process.id().to_string();
        let number = Command::new("pgrep").args(["-P", &parent]).output().unwrap();
        String::from_utf8(number.stdout).unwrap().trim().to_owned()
    }

    /// The memory that the server uses.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.number())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        assert!(kill.args([signal, &self.process.id().to_string()]).status().unwrap().success());
    }

    /// Stops the server as an operator does.
    pub(crate) fn stop(mut self) -> Ended {
        self.signal("-TERM");
        let status = self.process.wait().unwrap().code();
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).unwrap();
        assert_eq!(errors, "");
        assert!(!self.socket.exists(), "the socket is left");
        Ended { status, report: fs::read_to_string(&self.report).unwrap() }
    }

    /// Stops the server, whose clients made no mistake.
    pub(crate) fn stop_clean(self) {
        let ended = self.stop();
        assert_eq!(ended.status, Some(0), "{}", ended.report);
        let clean = "windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects left alive\n";
        assert!(ended.report.ends_with(clean), "{}", ended.report);
    }
}

/// A test that fails leaves no server.
impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(None)) {
            return; // It has ended.
        }
        // What `timeout` has started does not end with `timeout`.
        _ = Command::new("pkill").args(["-KILL", "-P", &self.process.id().to_string()]).status();
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn serve(socket: &Path) -> Command {
    serve_under(socket, &[])
}

fn serve_under(socket: &Path, before: &[&OsStr]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--preserve-status", "-s", "KILL", "1200"]).args(before);
    command.arg(windtunnel_command().get_program()).arg("serve").arg("--socket").arg(socket);
    // `timeout` passes signals on.
    command
}

#[test]
fn clients_of_one_process_work_with_a_server() {
    let server = Server::start("one_process");
    let mode = fs::metadata(&server.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = server.run_well(&build_c("examples/c/allocations.c"), &[]);
    assert!(text.contains("every object is destroyed"), "{text}");
    let text = server.run_well(&build_cpp("examples/c/allocations.cpp"), &[]);
    assert!(text.contains("four threads are done"), "{text}");
    server.stop_clean();
}

#[test]
fn events_of_clients_of_a_server_are_set() {
    let server = Server::start("events");
    server.run_well(&build_c("tests/c/events.c"), &[]);
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}

#[test]
fn a_client_that_fills_its_counter_does_not_stop_the_server() {
    let server = Server::start("full_counter");
    let text = server.run_well(&build_c("tests/c/full_counter.c"), &[]);
    assert_eq!(text, "full counter: the server goes on\n");
    server.run_well(&build_c("tests/c/events.c"), &[]);
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}

#[test]
fn a_fork_while_another_thread_connects_leaves_no_lock_held() {
    let server = Server::start("fork_connecting");
    let client = build_c("tests/c/fork_connecting.c");
    let rounds = repeats(200, 2000).to_string();
    let text = server.run_well(&client, &[&rounds]);
    assert_eq!(text, "fork while connecting: every child has called\n");
    let ended = server.stop();
    assert!(ended.report.contains("0 errors"), "{}", ended.report);
    // The same with the kernel in each process: a child of one that has begun has none.
    let output = command(&client).args([&rounds, "here"]).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
}

#[test]
fn a_report_of_a_server_names_the_process() {
    let server = Server::start("named");
    server.run_well(&build_c("tests/c/nt_handles.c"), &[]);
    let ended = server.stop();
    assert_eq!(ended.status, Some(1));
    assert!(ended.report.contains("ALLOC-SHARE-006"), "{}", ended.report);
    assert!(ended.report.contains("(nt_handles.gcc.client)"), "{}", ended.report);
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}

#[test]
fn what_a_client_leaves_at_its_exit_is_listed() {
    let server = Server::start("leaks");
    server.run(&build_c("tests/c/leaks.c"), &[]);
    let ended = server.stop();
    assert_eq!(ended.status, Some(1), "{}", ended.report);
    assert!(ended.report.contains("left alive:\n"), "{}", ended.report);
    assert!(ended.report.contains("called by process "), "{}", ended.report);
    assert!(!ended.report.contains("of a process that has ended"), "{}", ended.report);
}

#[test]
fn hostile_pointers_are_answered_by_a_server() {
    let server = Server::start("hostile");
    let text = server.run_well(&build_c("tests/c/hostile.c"), &[]);
    assert!(text.ends_with("hostile: all answered\n"), "{text}");
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}

#[test]
fn two_threads_of_a_client_that_use_and_end_an_object_do_not_stop_a_server() {
    let server = Server::start("racing");
    let client = build_c("tests/c/racing.c");
    let text = server.run_well(&client, &[]);
    assert!(text.ends_with("racing: each call returned\n"), "{text}");
    // Another client finds the server at work.
    server.run_well(&build_c("examples/c/allocations.c"), &[]);
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
    assert!(!ended.report.contains("WT-STUCK-001"), "{}", ended.report);
}

#[test]
fn two_processes_share_by_handle_by_name_and_by_global_handle() {
    let server = Server::start("two");
    let clients = [build_c("tests/c/two_processes.c"), build_cpp("tests/c/two_processes.cpp")];
    for (first, second) in [(0, 1), (1, 0)] {
        let second = clients[second].to_str().unwrap();
        let text = server.run_well(&clients[first], &[second]);
        assert_eq!(text, "two processes: all shared\n");
    }
    server.stop_clean();
}

#[test]
fn two_processes_answer_as_windows_does() {
    let server = Server::start("observed");
    let text = server.run_well(&build_c("tests/c/observed_processes.c"), &[]);
    assert_eq!(text, "two processes: as observed\n");
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}

#[test]
fn a_server_answers_as_windows_does() {
    let server = Server::start("observed_one");
    // The first client of this server.
    server.run_well(&build_c("tests/c/statistics.c"), &[]);
    for client in ["displays", "sync", "mutex"] {
        let client = build_c(&format!("tests/c/observed_{client}.c"));
        let text = server.run_well(&client, &[]);
        assert!(text.ends_with(": all as on Windows\n"), "{text}");
    }
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}

#[test]
fn a_driver_from_a_file_is_served() {
    let clients = [build_c("tests/c/two_processes.c"), build_cpp("tests/c/two_processes.cpp")];
    for file in ["gpuva.sys", "gpuva.so"] {
        let driver = drivers_folder().join(file).into_os_string().into_string().unwrap();
        let server = Server::start_with(file, &["--driver", &driver]);
        server.run_well(&build_c("tests/c/third_process.c"), &[]);
        let text = server.run_well(&clients[0], &[clients[1].to_str().unwrap()]);
        assert_eq!(text, "two processes: all shared\n", "{file}");
        server.stop_clean();
    }
    let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_driver.sock");
    for (driver, why) in [("./none.sys", "cannot be read"), ("none", "which is none of ")] {
        let output = serve(&socket).args(["--driver", driver]).output().unwrap();
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(2), "{driver}: {text}");
        assert!(text.contains(why), "{driver}: {text}");
        assert!(!socket.exists(), "{driver}");
    }
}

#[test]
fn what_a_driver_does_not_release_is_in_the_report_of_its_server() {
    let client = build_c("tests/c/own_driver.c");
    // Left by DxgkDdiDestroyAllocation, DxgkDdiStopDevice, DxgkDdiRemoveDevice and DxgkDdiUnload.
    for (name, rule) in [
        ("leaks-allocation", "KMD-DESTROY-002"),
        ("leaves-thread-running", "KMD-PNP-005"),
        ("leaks-adapter", "KMD-PNP-003"),
        ("leaks-at-unload", "WT-POOL-003"),
    ] {
        let driver = drivers_folder().join("bad").join(name).with_extension("so");
        let server = Server::start_with(name, &["--driver", driver.to_str().unwrap()]);
        server.run_well(&client, &[]);
        let Ended { status, report } = server.stop();
        assert_eq!(status, Some(1), "{name}: {report}");
        assert!(report.contains(&format!("  rule     {rule}: ")), "{name}: {report}");
        assert!(!report.contains("  who      client"), "{name}: {report}");
        assert!(report.contains(" 0 objects left alive"), "{name}: {report}");
    }
    // A driver that never stops is named, and the server ends.
    let driver = drivers_folder().join("bad/endless-wait-in-stop-device.so");
    let server = Server::start_with("endless_stop", &["--driver", driver.to_str().unwrap()]);
    server.run_well(&client, &[]);
    let Ended { status, report } = server.stop();
    assert_eq!(status, Some(1), "{report}");
    assert!(report.contains("  who      driver, in DxgkDdiStopDevice"), "{report}");
    assert!(report.contains("  rule     WT-STUCK-001: "), "{report}");
}

#[test]
fn a_fault_of_the_driver_ends_the_server_with_its_report() {
    let client = build_c("tests/c/driver_fault.c");
    for form in ["sys", "so"] {
        let driver = drivers_folder().join("bad/dereferences-device-handle").with_extension(form);
        let driver = driver.to_str().unwrap();
        let mut server = Server::start_with("driver_fault", &["--driver", driver]);
        let mut other = command(&client);
        other.arg("watch").env("WINDTUNNEL_SOCKET", &server.socket).stdout(Stdio::piped());
        let mut other = other.spawn().unwrap();
        let mut watched = BufReader::new(other.stdout.take().unwrap());
        let mut line = String::new();
        watched.read_line(&mut line).unwrap();
        assert_eq!(line, "watching\n");
        assert_eq!(server.run_well(&client, &[]), "removed\n", "{form}");
        assert!(other.wait().unwrap().success(), "{form}");
        assert_eq!(server.process.wait().unwrap().code(), Some(1), "{form}");
        assert!(!server.socket.exists(), "{form}");
        let mut errors = String::new();
        server.errors.read_to_string(&mut errors).unwrap();
        assert!(errors.contains("where    driver, in DxgkDdiCreateDevice"), "{errors}");
        let report = fs::read_to_string(&server.report).unwrap();
        for text in [
            "ended by a fault of the driver, in DxgkDdiCreateDevice\n",
            "error: the driver read from address ",
            "(hDevice of DxgkDdiCreateDevice), which is not to be dereferenced)",
            "  who      driver, in DxgkDdiCreateDevice\n",
            "  rule     WT-CRASH-001: ",
            "  Windows  stops with bug check 0x50\n",
            "windtunnel: 1 error, 0 warnings, 0 notes, 0 objects left alive\n",
        ] {
            assert!(report.contains(text), "{form}: {text}\n{report}");
        }
    }
}

#[test]
fn a_fault_before_the_first_client_has_a_report() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (socket, report) = (folder.join("early.sock"), folder.join("early.report"));
    for (name, place, why) in [
        ("bug-check-in-ddi.sys", "DxgkDdiStartDevice", "KeBugCheckEx("),
        ("null-write-in-driver-entry.so", "DriverEntry", "wrote to address 0x0 (NULL)"),
        ("stack-overflow-in-ddi.so", "DxgkDdiStartDevice", "stack overflowed"),
    ] {
        let mut serve = serve(&socket);
        serve.arg("--driver").arg(drivers_folder().join("bad").join(name));
        let output = serve.arg("--report").arg(&report).output().unwrap();
        let (text, report) = (output_text(&output), fs::read_to_string(&report).unwrap());
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(report.contains(&format!("  who      driver, in {place}\n")), "{name}: {report}");
        assert!(report.contains(why), "{name}: {report}");
        assert!(!socket.exists(), "{name}");
    }
}

#[test]
fn a_client_that_is_killed_leaves_nothing_and_the_other_goes_on() {
    let server = Server::start("killed");
    let clients = [build_c("tests/c/two_processes.c"), build_cpp("tests/c/two_processes.cpp")];
    let (mut killed, kills) = (0, repeats(20, 1000));
    // Each makes more than 26 calls. The step has no common divisor with that.
    for turn in 0..kills {
        let (who, at) = (usize::from(turn % 2 != 0), 1 + (turn / 2 * 17) % 26);
        let second = clients[1 - who].to_str().unwrap();
        let arguments = [second, "kill", &(who + 1).to_string(), &at.to_string()];
        let text = server.run_well(&clients[who], &arguments);
        killed += u64::from(text == "one was killed, the other one went on\n");
    }
    assert_eq!(killed, kills);
    let second = clients[1].to_str().unwrap();
    server.run_well(&clients[0], &[second]);
    let ended = server.stop();
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
    // The global handles of a process that was killed are stale, which its partner may find out.
    let rules = ended.report.lines().filter_map(|line| line.strip_prefix("  rule     "));
    for rule in rules {
        let is_stale = rule.starts_with("ALLOC-SHARE-010") || rule.starts_with("MUTEX-KEYED-001");
        assert!(is_stale, "{}", ended.report);
    }
}

#[test]
fn an_nt_handle_of_a_third_process_keeps_its_object() {
    let server = Server::start("third");
    let text = server.run_well(&build_c("tests/c/third_process.c"), &[]);
    assert_eq!(text, "third process: the handle kept its object\n");
    server.stop_clean();
}

#[test]
fn a_server_that_is_gone_is_a_removed_device() {
    let client = build_c("tests/c/server_gone.c");
    for signal in ["-KILL", "-TERM"] {
        let mut server = Server::start("gone");
        let mut process = command(&client);
        process.env("WINDTUNNEL_SOCKET", &server.socket).stdout(Stdio::piped());
        let mut process = process.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "waiting\n");
        let of_timeout = server.process.id().to_string();
        let mut kill = Command::new("pkill");
        assert!(kill.args([signal, "-P", &of_timeout]).status().unwrap().success());
        line.clear();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "removed\n", "{signal}");
        assert!(process.wait().unwrap().success(), "{signal}");
        server.process.wait().unwrap();
        // What a killed server has left is replaced by the next one.
        assert_eq!(server.socket.exists(), signal == "-KILL");
    }
    // There is no server at all.
    let output = command(&client).env("WINDTUNNEL_SOCKET", "/nonexistent/socket").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("is `windtunnel serve` running there?"), "{text}");
}

#[test]
fn a_socket_in_use_is_not_taken_over() {
    let server = Server::start("in_use");
    let output = serve(&server.socket).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = output_text(&output);
    assert!(text.contains("is in use by another server"), "{text}");
    server.stop_clean();
    let long = Path::new("/tmp").join("x".repeat(200));
    let output = serve(&long).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output_text(&output).contains("the path of a socket has 1 to 107 bytes"));
    let output = serve(Path::new("/nonexistent/socket")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a_file");
    fs::write(&file, "kept").unwrap();
    let output = serve(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn an_idle_server_uses_no_processor_time() {
    let server = Server::start("idle");
    server.run_well(&build_c("examples/c/allocations.c"), &[]);
    let pid = server.number();
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let numbers: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|it| it.parse().unwrap())
            .collect();
        numbers.iter().sum::<u64>()
    };
    // A tick is a hundredth of a second. On a busy machine, the end of the client may take more
    // than a second.
    let began = Instant::now();
    loop {
        let before = used();
        std::thread::sleep(Duration::from_secs(1));
        let ticks = used() - before;
        if ticks <= 1 {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(5), "{ticks} ticks in a second");
    }
    server.stop_clean();
}

/// The commands of a page that do not build windtunnel, with a variable of the shell for each folder
/// that is another one here: the paths of a clone may contain what is replaced.
fn commands_of_page(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter(|line| !line.starts_with("cargo build "));
    let replaced = lines.map(|line| {
        let line = line.replace("target/release/windtunnel", "\"$PROGRAM\"");
        line.replace("target/release", "\"$LIBRARY\"").replace("/tmp/", "\"$FOLDER\"/")
    });
    replaced.collect()
}

#[test]
fn the_commands_of_the_page_run() {
    let script =
        commands_of_page(&fs::read_to_string(root().join("docs/run-your-client.md")).unwrap());
    assert!(script.len() >= 10, "{script:?}");
    // A clone may be below /tmp, which the page names, too, and its path may have spaces: here, the
    // path of the library is such a path.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tmp/the page");
    let _ = fs::remove_dir_all(&folder); // There may be none.
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(library(), folder.join("library")).unwrap();
    let mut shell = Command::new("timeout");
    shell.args(["120", "sh", "-e", "-c", &script.join("\n")]).env("FOLDER", &folder);
    shell.env("PROGRAM", windtunnel_command().get_program()).env("LIBRARY", folder.join("library"));
    let output = shell.current_dir(root()).output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{script:#?}\n{text}");
    assert_eq!(text.matches("every object is destroyed").count(), 3, "{text}");
    let clean = "windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects left alive";
    assert_eq!(text.matches(clean).count(), 2, "{text}");
}
