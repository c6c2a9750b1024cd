//! A client that does not keep to the messages of a server: random calls of every entry point, random
//! answers to the server's questions, random bytes in the shared memory. The server goes on, and does
//! not grow.
#![expect(clippy::unwrap_used, reason = "a server that does not answer is a failed test")]

use crate::server::Server;
use flight::next_random;
use harness::repeats;
use server::channel::{Channel, MESSAGE_BYTES, Side};
use server::descriptor_socket::DescriptorSocket;
use server::message::{
    Call, HELLO, MessageReader, NEW_CHANNEL, Operation, OtherCall, VERSION, put_call, put_reply,
};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// How long an answer is waited for, in looks of ten milliseconds. A call that waits is left alone.
const LOOKS: u32 = 5;

/// A connection with one channel.
struct Hostile {
    /// Closed with this.
    _socket: DescriptorSocket,
    channel: Channel,
    /// The shared memory, to write anything there.
    memory: File,
}

impl Hostile {
    fn connect(server: &Server) -> Self {
        let socket = server::connect(&server.socket).unwrap();
        let hello = [HELLO, &VERSION.to_ne_bytes()[..], b"hostile"].concat();
        socket.send(&hello, &[]).unwrap();
        socket.send(NEW_CHANNEL, &[]).unwrap();
        let packet = socket.receive(Some(Duration::from_secs(20))).unwrap();
        let [memory, end] = <[OwnedFd; 2]>::try_from(packet.descriptors).unwrap();
        let channel = Channel::new(memory.as_fd(), Side::Client, end.into()).unwrap();
        Self { _socket: socket, channel, memory: memory.into() }
    }

    /// Makes a call, and answers the server. Returns whether it has returned.
    fn call(&self, random: &mut u64) -> bool {
        let (mut message, mut answer) = (random_call(random), Vec::new());
        for _ in 0..100 {
            self.channel.send(&message);
            if draw(random, 200) == 0 {
                // The system refuses writes past the end.
                let offset = next_random(random, 3 * 64 + 2 * 65536 - 64);
                let length = 1 + draw(random, 64);
                self.memory.write_all_at(&random_bytes(random, length), offset).unwrap();
            }
            let mut looks = 0;
            let received =
                self.channel.receive(&mut answer, Some(Duration::from_millis(10)), || {
                    looks += 1;
                    looks > LOOKS
                });
            if received.is_err() {
                return false;
            }
            match self.reply(&answer, random) {
                Some(reply) => message = reply,
                None => return true,
            }
        }
        false
    }

    /// The reply to the question at the end of operations; `None` if there is none.
    fn reply(&self, operations: &[u8], random: &mut u64) -> Option<Vec<u8>> {
        let mut reader = MessageReader(operations);
        let mut last = None;
        while let Some(request) = reader.request() {
            last = Some((request.operation, request.size as usize));
        }
        let (operation, size) = last?;
        let size = size.min(MESSAGE_BYTES - 8);
        let mut message = Vec::new();
        if draw(random, 20) == 0 {
            let length = draw(random, 100);
            return Some(random_bytes(random, length));
        }
        let possible = draw(random, 10) != 0;
        let data = match operation {
            Operation::Return => return None,
            Operation::Read if draw(random, 20) == 0 => random_bytes(random, size / 2),
            Operation::Read => random_bytes(random, size),
            Operation::SendDescriptor => {
                if draw(random, 10) != 0 {
                    let file = File::open("/dev/null").unwrap();
                    // The server may be gone.
                    _ = self.channel.socket.send(b"x", &[file.as_fd()]);
                }
                random_bytes(random, 4)
            }
            Operation::TakeDescriptor | Operation::Map => {
                // Perhaps it is never taken.
                if draw(random, 10) != 0 {
                    _ = self.channel.socket.receive(Some(Duration::from_millis(10)));
                }
                random_bytes(random, 8)
            }
            _ => Vec::new(),
        };
        put_reply(&mut message, possible, &data);
        Some(message)
    }
}

fn draw(random: &mut u64, below: usize) -> usize {
    usize::try_from(next_random(random, below as u64)).unwrap()
}

/// Bytes that are often small numbers, handles and addresses.
fn random_bytes(random: &mut u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        let word = match draw(random, 6) {
            0 => 0,
            1 => next_random(random, 8),
            2 => 0x4000_0000 | next_random(random, 64) << 6,
            3 => 0x7000_0000_0000 | next_random(random, 1 << 20),
            4 => u64::MAX,
            _ => next_random(random, u64::MAX),
        };
        let size = if draw(random, 2) == 0 { 4 } else { 8 };
        bytes.extend_from_slice(&word.to_ne_bytes()[..size]);
    }
    bytes.truncate(length);
    bytes
}

/// A call of any entry point, or any message.
fn random_call(random: &mut u64) -> Vec<u8> {
    let mut message = Vec::new();
    if draw(random, 50) == 0 {
        let length = draw(random, 300);
        return random_bytes(random, length);
    }
    let rows = thunk::ENTRIES.len() + thunk::ABSENT_ENTRIES.len();
    let row = draw(random, rows + 4);
    let (entry, bytes) = match thunk::ENTRIES.get(row) {
        Some(entry) => (u32::try_from(row).unwrap(), entry.bytes),
        None if row < rows => (u32::try_from(row).unwrap(), 0),
        None => (OtherCall::NtHandleName.number() + u32::try_from(row - rows).unwrap() - 1, 24),
    };
    // A wait of an unknown length is not what this is about.
    let bytes = if draw(random, 20) == 0 { draw(random, bytes + 1) } else { bytes };
    let structure = random_bytes(random, bytes);
    let arguments = 0x7000_0000_0000 | next_random(random, 1 << 20);
    let call = Call { entry, writable: draw(random, 5) != 0, arguments };
    put_call(&mut message, call, (draw(random, 20) != 0).then_some(&structure));
    message
}

#[test]
fn a_hostile_client_harms_no_server() {
    let server = Server::start("hostile_messages");
    let mut random = 1;
    // A long run takes about ten minutes.
    let calls = repeats(4_000, 2_400_000);
    let mut client = Hostile::connect(&server);
    let (mut returned, mut before) = (0, 0);
    for call in 0..calls {
        if client.call(&mut random) {
            returned += 1;
        } else {
            client = Hostile::connect(&server);
        }
        if call == calls / 2 {
            before = server.resident_bytes();
        }
    }
    println!("{returned} of {calls} calls returned");
    assert!(returned > calls / 2, "only {returned} of {calls} calls returned");
    let now = server.resident_bytes();
    // The second half: findings are counted, and each place of one is kept once.
    assert!(now < before + before / 2 + (16 << 20), "{before} bytes have become {now}");
    drop(client);
    // Another client is served as if nothing had happened.
    let output = server.run_well(&crate::c_library::build_c("examples/c/allocations.c"), &[]);
    assert!(output.contains("every object is destroyed"), "{output}");
    let ended = server.stop();
    assert_eq!(ended.status, Some(1), "{}", ended.report);
    assert!(ended.report.contains("0 objects left alive"), "{}", ended.report);
}
