//! A server at the limit of its descriptors, connections that say nothing, and clients that end: what
//! the server keeps.

use crate::c_library::{build_c, output_text};
use crate::server::Server;
use server::descriptor_socket::{DescriptorSocket, Packet};
use server::message::{HELLO, NEW_CHANNEL, REFUSED, VERSION};
use std::io::ErrorKind;
use std::time::Duration;

/// The descriptors that a server may have, of which an idle one uses about twelve.
const DESCRIPTORS: &str = "--nofile=40";

/// Longer than the server waits for the introduction of a client.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why the server refuses, if it does.
fn refusal(packet: &Packet) -> Option<String> {
    let reason = packet.bytes.strip_prefix(REFUSED)?;
    Some(String::from_utf8_lossy(reason).into_owned())
}

#[test]
fn a_client_for_which_a_server_has_no_descriptor_is_told_so() {
    let prlimit = ["prlimit".as_ref(), DESCRIPTORS.as_ref()];
    let server = Server::start_under("full", &[], &prlimit);
    let mut silent: Vec<DescriptorSocket> = Vec::new();
    let reason = loop {
        // Not more than the queue of the socket can hold.
        assert!(silent.len() < 60, "no client is refused");
        let socket = server::connect(&server.socket).unwrap();
        let answer = socket.receive(Some(Duration::from_millis(20)));
        silent.push(socket);
        if let Some(reason) = answer.ok().as_ref().and_then(refusal) {
            break reason;
        }
    };
    assert_eq!(reason, "Too many open files (os error 24)");
    // Nothing is left in the queue of the socket, which the server would look at again and again.
    let refused = server::connect(&server.socket).unwrap();
    assert_eq!(refusal(&refused.receive(Some(PATIENCE)).unwrap()).unwrap(), reason);
    let client = build_c("examples/c/allocations.c");
    let output = output_text(&server.run(&client, &[]));
    assert!(output.contains(&format!("the server refuses: {reason}")), "{output}");
    drop(silent);
    while !server.run(&client, &[]).status.success() {
        // The server closes its ends one after the other.
    }
    server.stop_clean();
}

#[test]
fn a_client_for_whose_thread_a_server_has_no_descriptor_is_told_so() {
    let prlimit = ["prlimit".as_ref(), DESCRIPTORS.as_ref()];
    let server = Server::start_under("full_channels", &[], &prlimit);
    let socket = server::connect(&server.socket).unwrap();
    socket.send(&[HELLO, &VERSION.to_ne_bytes()[..], b"many threads"].concat(), &[]).unwrap();
    let mut channels = Vec::new();
    let reason = loop {
        socket.send(NEW_CHANNEL, &[]).unwrap();
        let packet = socket.receive(Some(PATIENCE)).unwrap();
        match refusal(&packet) {
            Some(reason) => break reason,
            None => channels.push(packet.descriptors),
        }
        assert!(channels.len() < 60, "no thread is refused");
    };
    assert_eq!(reason, "Too many open files (os error 24)");
    drop((socket, channels));
    server.stop_clean();
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let server = Server::start("silent");
    // From the first NT handle on, the server does not look after its clients once a second.
    server.run_well(&build_c("tests/c/third_process.c"), &[]);
    let socket = server::connect(&server.socket).unwrap();
    let packet = socket.receive(Some(PATIENCE)).unwrap();
    assert_eq!(refusal(&packet).unwrap(), "timed out");
    let end = socket.receive(Some(PATIENCE)).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof, "{end}");
    server.stop_clean();
}
