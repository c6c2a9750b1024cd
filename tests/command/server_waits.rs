//! Clients of a server that wait for each other, or for no one.
#![expect(clippy::unwrap_used, reason = "a client that does not build is a failed test")]

use crate::c_library::{build_c, command, output_text};
use crate::server::Server;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

/// A client whose packet waits for a fence, and whose thread waits for the packet.
struct Waiting {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    fn start(server: &Server) -> Self {
        let mut process = command(&build_c("tests/c/waiting_work.c"));
        process.env("WINDTUNNEL_SOCKET", &server.socket);
        let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "waiting\n");
        Self { process, output }
    }

    /// Has it signal the fence and end.
    fn signal(mut self) {
        drop(self.process.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "signalled: done\n");
        assert!(self.process.wait().unwrap().success());
    }
}

#[test]
fn a_client_whose_packet_waits_does_not_stop_the_others() {
    let server = Server::start("waiting_work");
    let waiting = Waiting::start(&server);
    let client = build_c("tests/c/waiting_work.c");
    for _ in 0..3 {
        assert_eq!(server.run_well(&client, &["beside"]), "beside: done\n");
    }
    let second = Waiting::start(&server);
    assert_eq!(server.run_well(&client, &["beside"]), "beside: done\n");
    waiting.signal();
    second.signal();
    server.stop_clean();
}

#[test]
fn a_client_that_is_killed_while_its_packet_waits_leaves_nothing() {
    let server = Server::start("waiting_killed");
    let client = build_c("tests/c/waiting_work.c");
    for _ in 0..3 {
        let mut waiting = Waiting::start(&server);
        assert_eq!(server.run_well(&client, &["beside"]), "beside: done\n");
        waiting.process.kill().unwrap();
        waiting.process.wait().unwrap();
        assert_eq!(server.run_well(&client, &["beside"]), "beside: done\n");
    }
    // A server that stops ends the client that waits.
    let mut waiting = Waiting::start(&server);
    server.stop_clean();
    waiting.process.kill().unwrap();
    waiting.process.wait().unwrap();
}

#[test]
fn a_wait_behind_a_signal_of_a_faulted_gpu_returns() {
    let client = build_c("tests/c/faulted.c");
    let output = command(&client).output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert_eq!(text, "the wait returned\n");
    let server = Server::start("faulted");
    assert_eq!(server.run_well(&client, &[]), "the wait returned\n");
    let report = server.stop().report;
    // The client used what was not resident, and nothing else is wrong.
    assert!(report.contains("windtunnel: 1 error, "), "{report}");
    assert!(!report.contains("WT-STUCK-001"), "{report}");
}
