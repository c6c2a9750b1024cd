//! A call of a client in another process: the server's thread asks for the client's memory and
//! descriptors while it executes the call.
//!
//! The current conversation is thread-local, because the functions of [`ACCESS`] are called deep
//! inside an entry point.

use crate::channel::{Channel, Gone, MESSAGE_BYTES};
use crate::descriptor_socket::Packet;
use crate::message::{Call, MessageReader, OPERATION_BYTES, Operation, Request, put_request};
use crate::server_client::ClientProcess;
use abi::NTSTATUS;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thunk::claims::{CallerProcess, RemoteAccess, ShownAccess};

/// How the memory of a client is accessed.
pub(crate) const ACCESS: &RemoteAccess = &RemoteAccess {
    read: read_memory,
    write: write_memory,
    show: show_memory,
    is_gone: is_client_gone,
    process: client_process,
    take_descriptor: client_descriptor,
};

/// The most bytes that one message reads or writes.
const PIECE: usize = 32 << 10;

/// How long a descriptor that a client says it has sent may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    static CURRENT: RefCell<Option<Conversation>> = const { RefCell::new(None) };
}

/// The server's side of a channel.
pub(crate) struct Conversation {
    channel: Arc<Channel>,
    pub(crate) client: Arc<ClientProcess>,
    /// Operations that are not sent yet.
    operations: Vec<u8>,
    /// The last message of the client.
    message: Vec<u8>,
    /// The structure of the call.
    structure: Vec<u8>,
    /// Where the client has it, and whether it can be written there.
    structure_at: Option<(usize, bool)>,
    /// The client is gone: it is asked nothing any more.
    is_gone: bool,
}

/// Makes a conversation the current one of this thread.
pub(crate) fn begin(channel: Arc<Channel>, client: Arc<ClientProcess>) {
    let conversation = Conversation {
        channel,
        client,
        operations: Vec::new(),
        message: Vec::new(),
        structure: Vec::new(),
        structure_at: None,
        is_gone: false,
    };
    CURRENT.set(Some(conversation));
}

/// The end of this thread's conversation.
pub(crate) fn end() {
    CURRENT.set(None);
}

/// Runs `body` with the conversation of this thread; `None` if it has none.
fn with<R>(body: impl FnOnce(&mut Conversation) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|current| current.as_mut().map(body))
}

/// Waits for the next call of the client; `None` if it is gone.
pub(crate) fn next_call() -> Option<(Call, Vec<u8>)> {
    with(|it| {
        it.receive().ok()?;
        let (call, structure) = MessageReader(&it.message).call()?;
        it.structure.clear();
        it.structure.extend_from_slice(structure.unwrap_or_default());
        let address = usize::try_from(call.arguments).ok()?;
        it.structure_at = structure.map(|_| (address, call.writable));
        Some((call, it.structure.clone()))
    })?
}

/// Tells the client the status of its call.
pub(crate) fn finish_call(status: NTSTATUS) {
    with(|it| {
        for (address, length) in it.client.take_hidden() {
            it.add(Operation::Unmap, length, address, &[]);
        }
        let status = u64::from(status.cast_unsigned());
        it.add(Operation::Return, 0, status, &[]);
        it.send();
    });
}

/// Takes a descriptor of the client, by its number there, with the rights that it was opened with.
pub(crate) fn take_descriptor(number: usize) -> Option<(OwnedFd, u32)> {
    with(|it| {
        let reply = it.ask(Operation::SendDescriptor, 0, number as u64, &[]).ok()??;
        let rights = MessageReader(reply).word()?;
        let Packet { descriptors, .. } = it.channel.socket.receive(Some(PATIENCE)).ok()?;
        descriptors.into_iter().next().map(|descriptor| (descriptor, rights))
    })?
}

/// Gives the client a descriptor. Returns its number there.
pub(crate) fn give_descriptor(descriptor: BorrowedFd<'_>, inherit: bool) -> Option<usize> {
    with(|it| {
        it.channel.socket.send(b"descriptor", &[descriptor]).ok()?;
        let reply = it.ask(Operation::TakeDescriptor, u32::from(inherit), 0, &[]).ok()??;
        usize::try_from(MessageReader(reply).long()?).ok()
    })?
}

/// Closes a descriptor that the client was given in this call.
pub(crate) fn close_descriptor(number: usize) {
    with(|it| it.add(Operation::CloseDescriptor, 0, number as u64, &[]));
}

fn read_memory(from: usize, to: &mut [MaybeUninit<u8>], gets_results: bool) -> bool {
    with(|it| it.read(from, to, gets_results)).unwrap_or(false)
}

fn write_memory(to: usize, bytes: &[u8]) -> bool {
    with(|it| it.write(to, bytes)).unwrap_or(false)
}

fn show_memory(address: usize, access: ShownAccess) -> Option<usize> {
    with(|it| it.show(address, access))?
}

fn is_client_gone() -> bool {
    with(|it| it.is_gone || it.client.is_gone.load(Ordering::SeqCst)).unwrap_or(false)
}

fn client_descriptor(number: i32) -> Option<OwnedFd> {
    take_descriptor(usize::try_from(number).ok()?).map(|(descriptor, _)| descriptor)
}

fn client_process() -> Option<Arc<dyn CallerProcess>> {
    with(|it| {
        let process = it.client.process.clone() as Arc<dyn CallerProcess>;
        (!it.client.is_out_of_reach).then_some(process)
    })?
}

impl Conversation {
    /// Waits for a message of the client.
    fn receive(&mut self) -> Result<(), Gone> {
        if self.is_gone {
            return Err(Gone);
        }
        let client = &self.client;
        let received =
            self.channel.receive(&mut self.message, None, || client.is_gone.load(Ordering::SeqCst));
        self.is_gone = received.is_err();
        received
    }

    /// Appends an operation. Writes that do not fit are sent before.
    fn add(&mut self, operation: Operation, size: u32, address: u64, data: &[u8]) {
        if self.operations.len() + 2 * OPERATION_BYTES + data.len() > MESSAGE_BYTES {
            put_request(&mut self.operations, &request(Operation::Confirm, 0, 0, &[]));
            self.send();
            self.is_gone |= self.receive().is_err();
        }
        put_request(&mut self.operations, &request(operation, size, address, data));
    }

    fn send(&mut self) {
        // The end of a channel must not be overwritten.
        if !self.is_gone && !self.client.is_gone.load(Ordering::SeqCst) {
            self.channel.send(&self.operations);
        }
        self.operations.clear();
    }

    /// Asks a question. Returns the data of the reply; `None` if it is not possible.
    fn ask(
        &mut self,
        operation: Operation,
        size: u32,
        address: u64,
        data: &[u8],
    ) -> Result<Option<&[u8]>, Gone> {
        self.add(operation, size, address, data);
        self.send();
        self.receive()?;
        // A message that makes no sense ends the conversation.
        self.is_gone = MessageReader(&self.message).reply().is_none();
        let (possible, data) = MessageReader(&self.message).reply().ok_or(Gone)?;
        Ok(possible.then_some(data))
    }

    /// Where a range is in the structure of the call.
    fn in_structure(&self, at: usize, bytes: usize) -> Option<usize> {
        let (start, _) = self.structure_at?;
        let offset = at.checked_sub(start)?;
        (offset.checked_add(bytes)? <= self.structure.len()).then_some(offset)
    }

    fn read(&mut self, from: usize, to: &mut [MaybeUninit<u8>], gets_results: bool) -> bool {
        if let (Some(offset), Some((_, writable))) =
            (self.in_structure(from, to.len()), self.structure_at)
        {
            to.write_copy_of_slice(&self.structure[offset..offset + to.len()]);
            return writable || !gets_results;
        }
        let operation = if gets_results { Operation::ReadForResults } else { Operation::Read };
        for (piece, address) in to.chunks_mut(PIECE).zip((from..).step_by(PIECE)) {
            let Ok(size) = u32::try_from(piece.len()) else { return false };
            match self.ask(operation, size, address as u64, &[]) {
                Ok(Some(bytes)) if bytes.len() == piece.len() => {
                    piece.write_copy_of_slice(bytes);
                }
                _ => return false,
            }
        }
        true
    }

    fn write(&mut self, to: usize, bytes: &[u8]) -> bool {
        if let Some(offset) = self.in_structure(to, bytes.len()) {
            self.structure[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        for (piece, address) in bytes.chunks(PIECE).zip((to..).step_by(PIECE)) {
            let Ok(size) = u32::try_from(piece.len()) else { return false };
            self.add(Operation::Write, size, address as u64, piece);
        }
        // A client that is gone gets no results; its call goes on and its end undoes it.
        true
    }

    /// Maps a window of the system memory in the client.
    fn show(&mut self, address: usize, access: ShownAccess) -> Option<usize> {
        let shown = self.try_show(address, access);
        // A client that is gone sees nothing; its call goes on and its end undoes it.
        let is_gone = self.is_gone || (shown.is_none() && self.channel.socket.is_gone());
        if is_gone { Some(address) } else { shown }
    }

    fn try_show(&mut self, address: usize, access: ShownAccess) -> Option<usize> {
        let window = nt::find_window(address)?;
        let offset = address - window.start;
        if let Some(shown) = self.client.shown_at(window.start) {
            return shown.checked_add(offset);
        }
        let writable = access == ShownAccess::ReadWrite;
        let file = if writable { window.file } else { nt::open_to_read(&window.file)? };
        let mut pieces = Vec::new();
        for piece in &window.pieces {
            pieces.extend_from_slice(&(piece.offset as u64).to_ne_bytes());
            pieces.extend_from_slice(&(piece.length as u64).to_ne_bytes());
        }
        let size = u32::try_from(pieces.len()).ok().filter(|_| pieces.len() <= PIECE)?;
        self.channel.socket.send(b"memory", &[file.as_fd()]).ok()?;
        let reply = self.ask(Operation::Map, size, u64::from(writable), &pieces).ok()??;
        let shown = usize::try_from(MessageReader(reply).long()?).ok()?;
        self.client.add_shown(window.start, (shown, window.length));
        // The address is what the client says.
        shown.checked_add(offset)
    }
}

fn request(operation: Operation, size: u32, address: u64, data: &[u8]) -> Request<'_> {
    Request { operation, size, address, data }
}
