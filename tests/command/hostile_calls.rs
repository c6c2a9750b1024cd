//! Random calls of every exported function: in a process with threads, signals, cancellations and forks,
//! and through a server beside a client that checks its bytes. `cargo xtask hostile` makes many.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use crate::c_library::{build_c, library, output_text};
use crate::server::Server;
use harness::pages::root;
use harness::repeats;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable with the number of calls.
const VARIABLE: &str = "WINDTUNNEL_HOSTILE_CALLS";

/// The processes of hostile clients of a server, at a time.
const PROCESSES: u64 = 2;

/// The calls of a process of a client of a server: then others begin.
const CALLS_OF_PROCESS: u64 = 400_000;

/// How much more memory a server may use after the last hostile clients than after the first ones.
const MOST_GROWTH: u64 = 64 << 20;

/// The calls of a long run, of both tests.
const LONG: u64 = 50_000_000;

/// The number of calls of a test, which has tenths of a long run.
fn calls(short: u64, tenths: u64) -> u64 {
    let chosen = std::env::var(VARIABLE).ok().and_then(|calls| calls.parse::<u64>().ok());
    chosen.map_or_else(|| repeats(short, LONG / 10 * tenths), |calls| calls / 10 * tenths)
}

/// The client, with a row for each exported entry point.
fn client() -> PathBuf {
    let mut source = String::from("#define HOSTILE_ROWS");
    // Writing to a String cannot fail.
    for row in thunk::ENTRIES.iter().chain(thunk::ABSENT_ENTRIES) {
        let by_value = if row.parameters.is_empty() { "ROW" } else { "SHARE_ROW" };
        let _ = write!(source, " \\\n    {by_value}({}, {})", row.name, row.bytes);
    }
    let body = root().join("tests/c/hostile_calls.c");
    let _ = writeln!(source, "\n#include \"{}\"", body.display());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile_calls_rows.c");
    if fs::read_to_string(&path).unwrap_or_default() != source {
        fs::write(&path, source).unwrap();
    }
    build_c(path.to_str().unwrap())
}

/// A client, for as long as it takes: it ends itself if a call does not return.
fn run_long(client: &Path) -> Command {
    let mut command = Command::new(client);
    command.env("LD_LIBRARY_PATH", library()).current_dir(root());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A client that makes calls, and prints the memory of its process.
fn hostile(calls: u64, seed: u64) -> Command {
    let mut command = run_long(&client());
    command.args([&calls.to_string(), "4", &seed.to_string()]);
    command
}

#[test]
fn hostile_calls_of_threads_that_are_interrupted_and_forked_are_answered() {
    let calls = calls(100_000, 8);
    // With a report, each call has a backtrace.
    for (report, calls) in [(false, calls), (true, calls / 10)] {
        let mut client = hostile(calls, 1);
        client.arg("here");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile_calls.report");
        if report {
            client.env("WINDTUNNEL_REPORT", &path);
        }
        let output = client.output().unwrap();
        let text = output_text(&output);
        assert!(output.status.success(), "{}: {text}", output.status);
        assert!(text.ends_with("hostile calls: all answered\n"), "{text}");
        println!("{text}");
        let told = if report { fs::read_to_string(&path).unwrap() } else { String::new() };
        assert!(!told.contains("who      kernel"), "{told}");
        assert_eq!(told.contains("\nrefused calls:\n"), report, "{told}");
        assert!(!told.contains(thunk::NO_REASON), "{told}");
    }
}

#[test]
fn a_client_beside_hostile_calls_finds_its_bytes() {
    let server = Server::start("hostile_calls");
    let served =
        |mut client: Command| client.env("WINDTUNNEL_SOCKET", &server.socket).spawn().unwrap();
    let honest = served(run_long(&build_c("tests/c/honest.c")));
    let calls = calls(40_000, 2);
    let rounds = calls.div_ceil(CALLS_OF_PROCESS * PROCESSES).max(3);
    let mut memory = Vec::new();
    for round in 0..rounds {
        let clients: Vec<_> = (0..PROCESSES)
            .map(|number| {
                let seed = 1 + round * PROCESSES + number;
                served(hostile(calls / rounds / PROCESSES, seed))
            })
            .collect();
        let mut killed = served(hostile(u64::MAX, round));
        for client in clients {
            let output = client.wait_with_output().unwrap();
            let text = output_text(&output);
            assert!(output.status.success(), "{}: {text}", output.status);
            assert!(text.ends_with("hostile calls: all answered\n"), "{text}");
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        memory.push(server.resident_bytes());
        println!("{} of {rounds} rounds: {} kB", round + 1, memory.last().unwrap() >> 10);
    }
    // The end of its input ends the client.
    let output = honest.wait_with_output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.ends_with("honest: every byte was there\n"), "{text}");
    println!("{text}");
    let (first, last) = (memory[1], *memory.last().unwrap());
    assert!(last < first + MOST_GROWTH, "{first} bytes have become {last}");
    let ended = server.stop();
    assert_ne!(ended.status, Some(2), "{}", ended.report);
    assert!(!ended.report.contains("who      kernel"), "{}", ended.report);
    // What a client leaves at its exit is listed.
    assert!(!ended.report.contains("of a process that has ended"), "{}", ended.report);
}
