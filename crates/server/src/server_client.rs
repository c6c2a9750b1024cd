//! A client of the server: a process, its session, and a thread of the server for each of its
//! channels.
#![expect(unsafe_code, reason = "an entry point takes the client's address")]

use crate::channel::{self, Channel, Side};
use crate::conversation::{self, ACCESS};
use crate::descriptor_socket::{self, DescriptorSocket};
use crate::hosted_kernel::HostedKernel;
use crate::message::{
    self, BYE, Call, HELLO, MessageReader, NEW_CHANNEL, OtherCall, REFUSED, VERSION,
};
use crate::nt_descriptors::NtDescriptors;
use crate::process_descriptor::{self, WatchedProcess};
use crate::remote_handles::{RemoteEvents, RemoteNtHandles, RemoteProcesses};
use crate::{CallSite, Leaks, internal};
use abi::NTSTATUS;
use abi::status::{
    STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
    STATUS_UNSUCCESSFUL,
};
use flight::{NoResources, Passive, Subject};
use kernel::ProcessExit;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thunk::{NtHandleText, Session};

/// How long a new client may take to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// The most channels of a client: threads that are inside a call at one time.
const MAX_CHANNELS: usize = 1024;

/// What all clients share.
pub(crate) struct SharedServer {
    pub(crate) hosted: HostedKernel,
    pub(crate) nt: Arc<NtDescriptors>,
    /// Closes NT handles that no process has any more.
    pub(crate) collector: Session,
    /// The adapter, and the objects that the system has made for it.
    pub(crate) own_objects: BTreeSet<Subject>,
    /// The driver maps pages of memory in this process.
    pub(crate) maps_pages: bool,
    pub(crate) clients: Mutex<Vec<Arc<ClientProcess>>>,
    /// What clients have left alive at their exit.
    pub(crate) left: Mutex<Leaks>,
}

/// A process that calls the server.
pub(crate) struct ClientProcess {
    pub(crate) session: Session,
    /// Its number in the operating system.
    pub(crate) number: i32,
    pub(crate) process: Arc<WatchedProcess>,
    /// Allocations cannot use its memory, because the driver maps pages in this process.
    pub(crate) is_out_of_reach: bool,
    /// For reports: its number and its name.
    name: Arc<str>,
    /// It has ended, or is being ended.
    pub(crate) is_gone: AtomicBool,
    memory: Mutex<ShownMemory>,
    channels: Mutex<Vec<Arc<Channel>>>,
}

/// The windows of the system memory that a client sees.
#[derive(Default)]
struct ShownMemory {
    /// The address and size there, by the address here.
    shown: BTreeMap<usize, (usize, usize)>,
    /// Those that it is to unmap.
    hidden: Vec<(u64, u32)>,
}

impl SharedServer {
    pub(crate) fn clients(&self) -> MutexGuard<'_, Vec<Arc<ClientProcess>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientProcess {
    fn memory(&self) -> MutexGuard<'_, ShownMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channels(&self) -> MutexGuard<'_, Vec<Arc<Channel>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the client sees a window.
    pub(crate) fn shown_at(&self, start: usize) -> Option<usize> {
        self.memory().shown.get(&start).map(|shown| shown.0)
    }

    pub(crate) fn add_shown(&self, start: usize, there: (usize, usize)) {
        self.memory().shown.insert(start, there);
    }

    /// A window shows its bytes no more.
    pub(crate) fn hide(&self, start: usize) {
        let mut memory = self.memory();
        if let Some((address, length)) = memory.shown.remove(&start) {
            memory.hidden.push((address as u64, u32::try_from(length).unwrap_or(u32::MAX)));
        }
    }

    /// What the client is to unmap now.
    pub(crate) fn take_hidden(&self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.memory().hidden)
    }
}

/// Serves a client until it is gone, on a thread of its own.
pub(crate) fn serve(server: &Arc<SharedServer>, socket: &DescriptorSocket, process: i32) {
    let name = match introduction(socket) {
        Ok(name) => name,
        Err(reason) => return refuse(socket, &reason),
    };
    let others = Arc::downgrade(server);
    let session = Session::remote(&server.hosted.kernel, ACCESS)
        .with_nt_handles(Arc::new(RemoteNtHandles(server.nt.clone())))
        .with_event_handles(Arc::new(RemoteEvents))
        .with_process_handles(Arc::new(RemoteProcesses { server: others, caller: process }));
    let client = Arc::new(ClientProcess {
        session,
        number: process,
        process: Arc::new(WatchedProcess::new(process)),
        is_out_of_reach: server.maps_pages,
        name: format!("process {process} ({name})").into(),
        is_gone: AtomicBool::new(false),
        memory: Mutex::default(),
        channels: Mutex::default(),
    });
    server.clients().push(client.clone());
    let (exit, threads) = watch(server, &client, socket);
    end(server, &client, exit, threads);
}

/// Tells a client why it is refused.
pub(crate) fn refuse(socket: &DescriptorSocket, reason: &str) {
    let answer = [REFUSED, reason.as_bytes()].concat();
    // A client that is gone does not need the reason.
    _ = socket.send(&answer[..answer.len().min(descriptor_socket::SHORT_BYTES)], &[]);
}

/// The name in the first message of a client; else why it is refused.
fn introduction(socket: &DescriptorSocket) -> Result<String, String> {
    let packet = socket.receive(Some(INTRODUCTION)).map_err(|error| error.to_string())?;
    let mut reader = MessageReader(&packet.bytes);
    if reader.bytes(HELLO.len()) != Some(HELLO) {
        return Err("no client of windtunnel".to_owned());
    }
    match reader.word() {
        Some(VERSION) => Ok(String::from_utf8_lossy(reader.0).into_owned()),
        _ => Err("library and server differ in version".to_owned()),
    }
}

/// Gives the client channels until it is gone. Returns how it has ended, and the threads of its
/// channels.
fn watch(
    server: &Arc<SharedServer>,
    client: &Arc<ClientProcess>,
    socket: &DescriptorSocket,
) -> (ProcessExit, Vec<JoinHandle<()>>) {
    let (mut exit, mut threads) = (ProcessExit::Killed, Vec::new());
    // A child that the client has forked may keep the socket open.
    let process = client.process.descriptor();
    while !process_descriptor::has_ended(process, socket.as_fd()) {
        let Ok(packet) = socket.receive(None) else { break };
        if packet.bytes == BYE {
            exit = ProcessExit::Orderly;
        } else if packet.bytes == NEW_CHANNEL && threads.len() < MAX_CHANNELS {
            match add_channel(server, client, socket) {
                Ok(thread) => threads.push(thread),
                // The client's call fails.
                Err(error) => refuse(socket, &error.to_string()),
            }
        } else {
            break;
        }
    }
    (exit, threads)
}

/// Creates a channel, with a thread that executes its calls.
fn add_channel(
    server: &Arc<SharedServer>,
    client: &Arc<ClientProcess>,
    socket: &DescriptorSocket,
) -> io::Result<JoinHandle<()>> {
    let memory: OwnedFd = channel::create_memory()?;
    let (here, there) = descriptor_socket::pair()?;
    let channel = Arc::new(Channel::new(memory.as_fd(), Side::Server, here)?);
    let (server, client_of_thread, of_thread) = (server.clone(), client.clone(), channel.clone());
    let thread = thread::Builder::new().name("windtunnel-call".to_owned());
    let thread = thread.spawn(move || {
        conversation::begin(of_thread.clone(), client_of_thread.clone());
        while let Some((call, structure)) = conversation::next_call() {
            let status = execute(&server, &client_of_thread, call, &structure);
            conversation::finish_call(status);
        }
        conversation::end();
        // A client that is there, but whose message made no sense, does not wait.
        of_thread.end();
    })?;
    client.channels().push(channel);
    socket.send(NEW_CHANNEL, &[memory.as_fd(), there.as_fd()])?;
    Ok(thread)
}

/// Executes a call. Does not unwind.
fn execute(
    server: &SharedServer,
    client: &ClientProcess,
    call: Call,
    structure: &[u8],
) -> NTSTATUS {
    let (name, row) = match (message::entry_of(call.entry), OtherCall::from_number(call.entry)) {
        (Some(row), _) => (row.name, Some(row)),
        (None, Some(OtherCall::CheckExclusiveOwnership)) => ("D3DKMTCheckExclusiveOwnership", None),
        (None, Some(OtherCall::NtHandleType)) => ("windtunnel_nt_handle_type", None),
        (None, Some(OtherCall::NtHandleName)) => ("windtunnel_nt_handle_name", None),
        (None, Some(OtherCall::EventClose)) => ("windtunnel_event_close", None),
        (None, None) => return STATUS_NOT_SUPPORTED,
    };
    let run = || {
        server.hosted.host.adopt("client", |at| {
            let Some(report) = &server.hosted.report else {
                return dispatch(client, at, call, row, structure);
            };
            let call_site = CallSite::of_process(name, &client.name);
            let log = client.session.kernel().log();
            report.call(log, call_site, || dispatch(client, at, call, row, structure))
        })
    };
    internal::caught(run).unwrap_or_else(|panic| {
        if panic.is::<NoResources>() { STATUS_NO_MEMORY } else { STATUS_UNSUCCESSFUL }
    })
}

fn dispatch(
    client: &ClientProcess,
    at: &mut Passive,
    call: Call,
    row: Option<&thunk::EntryRow>,
    structure: &[u8],
) -> NTSTATUS {
    let session = &client.session;
    if let Some(row) = row {
        let Ok(address) = usize::try_from(call.arguments) else { return STATUS_INVALID_PARAMETER };
        // SAFETY: The session's pointers are those of another process and may be any numbers.
        return unsafe { (row.call)(session, at, ptr::without_provenance_mut(address)) };
    }
    let mut words = MessageReader(structure);
    let mut word = || words.long().and_then(|word| usize::try_from(word).ok()).unwrap_or(0);
    let what = match OtherCall::from_number(call.entry) {
        Some(OtherCall::CheckExclusiveOwnership) => {
            return NTSTATUS::from(thunk::is_any_source_exclusive(session));
        }
        Some(OtherCall::EventClose) => {
            let closed = session.judge_event_close(ptr::without_provenance_mut(word()));
            return closed.err().unwrap_or(STATUS_SUCCESS);
        }
        Some(OtherCall::NtHandleType) => NtHandleText::Type,
        Some(OtherCall::NtHandleName) => NtHandleText::Name,
        None => return STATUS_NOT_SUPPORTED,
    };
    let (handle, text) = (ptr::without_provenance_mut(word()), ptr::without_provenance_mut(word()));
    // SAFETY: As above.
    unsafe { session.write_nt_handle_text(at, handle, what, (text, word())) }
}

/// Ends a process that is gone: its calls return, and its objects end.
fn end(
    server: &SharedServer,
    client: &ClientProcess,
    exit: ProcessExit,
    threads: Vec<JoinHandle<()>>,
) {
    client.is_gone.store(true, Ordering::SeqCst);
    client.process.set_gone();
    let stop_calls = || client.channels().iter().for_each(|channel| channel.end());
    stop_calls();
    let (kernel, process) = (&server.hosted.kernel, client.session.process());
    if let Some(report) = &server.hosted.report {
        report.observe(kernel.log());
        if exit == ProcessExit::Orderly {
            let left = report.leaks_of(process.subject());
            server.left.lock().unwrap_or_else(PoisonError::into_inner).add(&left);
        }
    }
    let end = || {
        server.hosted.host.adopt("exit", |at| {
            kernel.end_process(at, process, exit);
            client.session.collect_closed_nt_handles(at);
        });
    };
    // A broken invariant ends the server.
    _ = internal::caught(end);
    for thread in threads {
        while !thread.is_finished() {
            // A hostile client may write to the channel as long as it lives.
            stop_calls();
            thread::sleep(Duration::from_millis(1));
        }
        _ = thread.join();
    }
    if let Some(report) = &server.hosted.report {
        report.observe(kernel.log());
    }
    server.clients().retain(|other| !ptr::eq(Arc::as_ptr(other), client));
}

/// Ends the connection of a client, which notices.
pub(crate) fn disconnect(socket: &impl AsRawFd) {
    // SAFETY: The function takes any number.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}
