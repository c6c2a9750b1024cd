//! Calls of a server: with `WINDTUNNEL_SOCKET` set, the kernel is in another process.
//!
//! Each thread that is inside a call has a channel of its own. The server executes the call and asks
//! for this process's memory and descriptors; the thread answers until the call returns.
//!
//! # Invariants
//!
//! 1. Memory of the client is accessed as in a call of a kernel in this process: a bad address is an
//!    error.
//! 2. A server that is gone ends every call with `STATUS_DEVICE_REMOVED`.
//! 3. A child of `fork` does not use the connection of its parent: it makes its own, also if another
//!    thread of the parent was connecting.
#![expect(unsafe_code, reason = "maps the server's memory, and takes over descriptors")]

use crate::fork_lock::ForkLock;
use crate::{claim_copy, process_handles, shown_memory};
use abi::NTSTATUS;
use abi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};
use server::channel::{Channel, Gone, Side};
use server::descriptor_socket::{DescriptorSocket, Packet};
use server::message::{
    BYE, Call, HELLO, MessageReader, NEW_CHANNEL, Operation, REFUSED, Request, VERSION, put_call,
    put_reply,
};
use server::standard_error;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use thunk::claims;

/// The environment variable that names the server's socket.
const VARIABLE: &str = "WINDTUNNEL_SOCKET";

/// How long a server may take to answer over a socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a call that waits looks whether the server is there.
const LOOK: Duration = Duration::from_millis(100);

/// The most bytes of this process's name that the server is told.
const NAME_BYTES: usize = 32;

/// A connection to a server. It is never freed: other threads may use it.
pub(crate) struct Connection {
    /// For new channels. `None` if there is no server.
    socket: Option<Mutex<DescriptorSocket>>,
    /// Channels that no thread uses now.
    free: Mutex<Vec<ClientChannel>>,
    is_gone: AtomicBool,
}

/// A channel with its buffers.
struct ClientChannel {
    channel: Channel,
    message: Vec<u8>,
    answer: Vec<u8>,
}

/// The connection of this process.
static CONNECTION: AtomicPtr<Connection> = AtomicPtr::new(ptr::null_mut());

/// Held while a connection is made.
static CONNECTING: ForkLock<()> = ForkLock::new(());

thread_local! {
    /// The channel of this thread, with its connection. It goes back when the thread ends.
    static CHANNEL: RefCell<ThreadChannel> = const { RefCell::new(ThreadChannel(None)) };
}

/// The channel of a thread.
struct ThreadChannel(Option<(&'static Connection, ClientChannel)>);

impl Drop for ThreadChannel {
    fn drop(&mut self) {
        // The locks of a connection of the parent of this process may be held for ever.
        if let Some((connection, channel)) = self.0.take()
            && ptr::eq(connection, CONNECTION.load(Ordering::Acquire))
        {
            connection.give_back(channel);
        }
    }
}

/// Where the server is; `None` if the kernel is in this process.
fn socket_path() -> Option<&'static Path> {
    /// Never freed. Without a lock, which a child of `fork` could find held.
    static PATH: AtomicPtr<Option<PathBuf>> = AtomicPtr::new(ptr::null_mut());
    // SAFETY: The path is never freed.
    if let Some(known) = unsafe { PATH.load(Ordering::Acquire).as_ref() } {
        return known.as_deref();
    }
    let read = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Threads that are here at the same time have read the same.
    let read = Box::leak(Box::new(read));
    PATH.store(read, Ordering::Release);
    read.as_deref()
}

/// Whether calls go to a server.
pub(crate) fn is_requested() -> bool {
    socket_path().is_some()
}

/// In a child of `fork`: the connection belongs to the parent.
pub(crate) fn forget() {
    CONNECTION.store(ptr::null_mut(), Ordering::SeqCst);
}

/// A call of a server.
pub(crate) struct RemoteCall<'a> {
    /// The entry point ([`server::message`]).
    pub(crate) entry: u32,
    /// Its arguments.
    pub(crate) arguments: RemoteArguments<'a>,
}

/// The arguments of a call.
pub(crate) enum RemoteArguments<'a> {
    /// A structure of this many bytes in the client's memory.
    Structure { address: usize, bytes: usize },
    /// Its bytes: the client has passed the members one by one.
    Members(&'a [u8]),
}

/// Where the server finds the structure of a call whose members were passed one by one: an address
/// that no program uses.
const MEMBERS: u64 = 0x1000;

/// Makes a call.
pub(crate) fn call(call: &RemoteCall<'_>) -> NTSTATUS {
    let Some(path) = socket_path() else { return STATUS_DEVICE_REMOVED };
    let connection = Connection::get(path);
    if connection.is_gone.load(Ordering::Acquire) {
        return STATUS_DEVICE_REMOVED;
    }
    // A thread whose thread-local values are destroyed has a channel for this call only.
    let kept = CHANNEL.try_with(|kept| kept.try_borrow_mut().ok()?.take(connection));
    let channel = kept.ok().flatten().or_else(|| connection.channel());
    let called = channel.and_then(|mut channel| {
        let made = || channel.call(connection, call);
        let status = claims::with_guard(claim_copy::DIRECT_ACCESS, made).ok()?;
        Some((status, channel))
    });
    let Some((status, channel)) = called else {
        connection.is_gone.store(true, Ordering::Release);
        return STATUS_DEVICE_REMOVED;
    };
    let mut channel = Some(channel);
    _ = CHANNEL.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            kept.0 = channel.take().map(|channel| (connection, channel));
        }
    });
    if let Some(channel) = channel {
        connection.give_back(channel);
    }
    status
}

/// Tells the server that this process exits.
pub(crate) fn say_goodbye() {
    let connection = CONNECTION.load(Ordering::Acquire);
    // SAFETY: A connection is never freed.
    let Some(connection) = (unsafe { connection.as_ref() }) else { return };
    if let Some(Ok(socket)) = connection.socket.as_ref().map(Mutex::try_lock) {
        // A server that is gone does not need to know.
        _ = socket.send(BYE, &[]);
    }
}

impl ThreadChannel {
    /// Takes the channel, if it is of this connection.
    fn take(&mut self, of: &'static Connection) -> Option<ClientChannel> {
        let (connection, channel) = self.0.take()?;
        if !ptr::eq(connection, of) {
            // That of the parent of this process: dropping it would unmap only our copy.
            return None;
        }
        Some(channel)
    }
}

impl Connection {
    /// The connection of this process, which is made now if there is none.
    fn get(path: &Path) -> &'static Self {
        let made = CONNECTION.load(Ordering::Acquire);
        // SAFETY: A connection is never freed.
        if let Some(made) = unsafe { made.as_ref() } {
            return made;
        }
        let _connecting = CONNECTING.lock();
        // SAFETY: As above.
        if let Some(made) = unsafe { CONNECTION.load(Ordering::Acquire).as_ref() } {
            return made;
        }
        claim_copy::install();
        let socket = match introduce(path) {
            Ok(socket) => Some(Mutex::new(socket)),
            Err(reason) => {
                standard_error::print_line(&format!(
                    "{VARIABLE}: {reason} Every call returns STATUS_DEVICE_REMOVED"
                ));
                None
            }
        };
        let is_gone = AtomicBool::new(socket.is_none());
        let made = Box::new(Self { socket, free: Mutex::default(), is_gone });
        let made = Box::into_raw(made);
        CONNECTION.store(made, Ordering::Release);
        // SAFETY: As above.
        unsafe { &*made }
    }

    /// A channel that no other thread uses.
    fn channel(&self) -> Option<ClientChannel> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.or_else(|| self.new_channel())
    }

    fn give_back(&self, channel: ClientChannel) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
    }

    fn new_channel(&self) -> Option<ClientChannel> {
        let socket = self.socket.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that refuses has said why, and is gone.
        _ = socket.send(NEW_CHANNEL, &[]);
        let packet = socket.receive(Some(PATIENCE)).ok()?;
        drop(socket);
        if let Some(reason) = refusal(&packet) {
            standard_error::print_line(&format!("{VARIABLE}: {reason}"));
            return None;
        }
        let [memory, end] = <[OwnedFd; 2]>::try_from(packet.descriptors).ok()?;
        let channel = Channel::new(memory.as_fd(), Side::Client, end.into()).ok()?;
        Some(ClientChannel { channel, message: Vec::new(), answer: Vec::new() })
    }

    fn has_ended(&self) -> bool {
        let socket = self.socket.as_ref().map(Mutex::try_lock);
        // Another thread is about to find out, if it has the lock.
        matches!(socket, Some(Ok(socket)) if socket.is_gone())
    }
}

/// Connects and says which program this is.
/// Why the server refuses, if a message says so.
fn refusal(packet: &Packet) -> Option<String> {
    let reason = packet.bytes.strip_prefix(REFUSED)?;
    Some(format!("the server refuses: {}", String::from_utf8_lossy(reason)))
}

fn introduce(path: &Path) -> Result<DescriptorSocket, String> {
    let asks = |error: String| format!("{error}; is `windtunnel serve` running there?");
    let socket = server::connect(path).map_err(asks)?;
    let name = std::env::current_exe().ok();
    let name = name.as_deref().and_then(Path::file_name).unwrap_or_default();
    let name = name.to_string_lossy();
    let name = name.get(..name.len().min(NAME_BYTES)).unwrap_or("a client");
    let hello = [HELLO, &VERSION.to_ne_bytes(), name.as_bytes()].concat();
    let sent = socket.send(&hello, &[]);
    sent.map_err(|error| {
        // A server that refuses at once has closed its end.
        let reason = socket.receive(Some(PATIENCE)).ok().as_ref().and_then(refusal);
        let reason = reason.map(|reason| format!("{reason}."));
        reason.unwrap_or_else(|| asks(format!("{}: {error}", path.display())))
    })?;
    Ok(socket)
}

impl ClientChannel {
    fn call(&mut self, connection: &Connection, call: &RemoteCall<'_>) -> Result<NTSTATUS, Gone> {
        self.put_call(call);
        let mut possible = true;
        loop {
            self.channel.send(&self.answer);
            self.channel.receive(&mut self.message, Some(LOOK), || connection.has_ended())?;
            if let Some(status) =
                execute(&self.channel, &self.message, &mut self.answer, &mut possible)?
            {
                return Ok(if possible { status } else { STATUS_INVALID_PARAMETER });
            }
        }
    }
}

impl ClientChannel {
    /// Writes the first message of a call.
    fn put_call(&mut self, call: &RemoteCall<'_>) {
        self.answer.clear();
        let entry = call.entry;
        let (address, bytes) = match call.arguments {
            RemoteArguments::Structure { address, bytes } => (address, bytes),
            RemoteArguments::Members(members) => {
                let call = Call { entry, writable: false, arguments: MEMBERS };
                return put_call(&mut self.answer, call, Some(members));
            }
        };
        let at: *mut u8 = ptr::with_exposed_provenance_mut(address);
        // SAFETY: Pointers of the client are guarded.
        let copy = unsafe { claims::read_small_list::<u8, 256>(at.cast_const(), bytes) };
        let copy = copy.ok().filter(|_| bytes > 0);
        // SAFETY: As above.
        let writable = unsafe { claims::check_writable(at.cast(), bytes) }.is_ok();
        let call = Call { entry, writable: writable && copy.is_some(), arguments: address as u64 };
        put_call(&mut self.answer, call, copy.as_deref());
    }
}

/// Executes operations of the server until a question, whose reply is written to `answer`, or the end
/// of the call. `possible` is cleared by a write to memory that is not there.
fn execute(
    channel: &Channel,
    message: &[u8],
    answer: &mut Vec<u8>,
    possible: &mut bool,
) -> Result<Option<NTSTATUS>, Gone> {
    let mut reader = MessageReader(message);
    while let Some(request) = reader.request() {
        let Request { operation, size, address, data } = request;
        let address = usize::try_from(address).map_err(|_| Gone)?;
        let at: *mut u8 = ptr::with_exposed_provenance_mut(address);
        let size = size as usize;
        let reply = match operation {
            Operation::Write => {
                // SAFETY: Pointers of the client are guarded.
                *possible &= unsafe { claims::write_list(at, data) }.is_ok();
                continue;
            }
            Operation::Unmap => {
                shown_memory::unmap(address, size);
                continue;
            }
            Operation::CloseDescriptor => {
                // SAFETY: The server names a descriptor that it has given in this call.
                unsafe { libc::close(i32::try_from(address).map_err(|_| Gone)?) };
                continue;
            }
            Operation::Return => {
                let status = u32::try_from(address).map_err(|_| Gone)?;
                return Ok(Some(status.cast_signed()));
            }
            Operation::Read => {
                // SAFETY: As above.
                unsafe { claims::read_list(at.cast_const(), size) }.ok()
            }
            Operation::ReadForResults => {
                // SAFETY: As above.
                unsafe { claims::read_list_mut(at, size) }.ok()
            }
            Operation::SendDescriptor => send_descriptor(channel, address),
            Operation::TakeDescriptor => {
                let number = take_descriptor(channel, size != 0);
                number.map(|number| u64::from(number).to_ne_bytes().to_vec())
            }
            Operation::Map => {
                let packet = channel.socket.receive(Some(PATIENCE)).map_err(|_| Gone)?;
                let file = packet.descriptors.into_iter().next().ok_or(Gone)?;
                let mapped = shown_memory::map(&file, data, address != 0);
                mapped.map(|address| (address as u64).to_ne_bytes().to_vec())
            }
            Operation::Confirm => possible.then(Vec::new),
        };
        answer.clear();
        put_reply(answer, reply.is_some(), &reply.unwrap_or_default());
        return Ok(None);
    }
    Err(Gone)
}

/// Sends a descriptor of the client. Returns the rights that it has, if it is of a process.
fn send_descriptor(channel: &Channel, number: usize) -> Option<Vec<u8>> {
    let number = i32::try_from(number).ok().filter(|number| *number > 0)?;
    // SAFETY: A number that is not open is an error of the system.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    channel.socket.send(b"descriptor", &[descriptor]).ok()?;
    Some(process_handles::rights_of(descriptor).to_ne_bytes().to_vec())
}

/// Takes over a descriptor that the server gives.
fn take_descriptor(channel: &Channel, inherit: bool) -> Option<u32> {
    /// Not one of the standard streams.
    const LOWEST: i32 = 3;
    let packet = channel.socket.receive(Some(PATIENCE)).ok()?;
    let descriptor = packet.descriptors.into_iter().next()?;
    let mut number = descriptor.into_raw_fd();
    if number < LOWEST {
        // SAFETY: The descriptor is open.
        let moved = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, LOWEST) };
        // SAFETY: The descriptor is ours, and its duplicate replaces it.
        unsafe { libc::close(number) };
        number = moved;
    }
    if inherit && number >= 0 {
        // SAFETY: The descriptor is open; the flag of `execve` is cleared.
        unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
    }
    u32::try_from(number).ok()
}
