//! The messages of a channel.
//!
//! A client sends a call. The server answers with operations on the client's memory and descriptors,
//! in order, of which the last is a question or the end of the call. The client executes them; after a
//! question it sends a reply, and the server goes on.

/// The version of the messages and of the tables of entry points: a client and a server of different
/// versions do not understand each other.
pub const VERSION: u32 = {
    // The messages themselves.
    let mut hash = 1;
    let mut row = 0;
    while row < thunk::ENTRIES.len() + thunk::ABSENT_ENTRIES.len() {
        let entry = row_at(row);
        let name = entry.name.as_bytes();
        let mut at = 0;
        while at < name.len() {
            hash = mix(hash, name[at] as u32);
            at += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "structures are small")]
        let bytes = entry.bytes as u32;
        hash = mix(hash, bytes);
        row += 1;
    }
    hash
};

const fn mix(hash: u32, number: u32) -> u32 {
    (hash ^ number).wrapping_mul(0x0100_0193)
}

const fn row_at(row: usize) -> &'static thunk::EntryRow {
    if row < thunk::ENTRIES.len() {
        &thunk::ENTRIES[row]
    } else {
        &thunk::ABSENT_ENTRIES[row - thunk::ENTRIES.len()]
    }
}

/// What a client sends first over its socket, before the version and its name.
pub const HELLO: &[u8; 4] = b"WTCL";

/// What a client sends for another channel.
pub const NEW_CHANNEL: &[u8] = b"channel";

/// What a client sends before it exits.
pub const BYE: &[u8] = b"bye";

/// What the server answers to a client that it does not let in, before the reason.
pub const REFUSED: &[u8] = b"refused: ";

/// The kinds of messages of a client.
const CALL: u32 = 1;
const REPLY: u32 = 2;

/// The calls that are no rows of the table of entry points: their numbers begin here.
const OTHER_CALLS: u32 = 0x8000_0000;

/// A call that is no row of the table of entry points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCall {
    /// `D3DKMTCheckExclusiveOwnership`; the status is the answer.
    CheckExclusiveOwnership = 0,
    /// `windtunnel_nt_handle_type`; three words: the handle, the buffer, its size.
    NtHandleType = 1,
    /// `windtunnel_nt_handle_name`, likewise.
    NtHandleName = 2,
    /// `windtunnel_event_close`; a word: the handle.
    EventClose = 3,
}

impl OtherCall {
    /// Its number in a call.
    pub fn number(self) -> u32 {
        OTHER_CALLS + self as u32
    }

    /// The call of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        let all = [
            Self::CheckExclusiveOwnership,
            Self::NtHandleType,
            Self::NtHandleName,
            Self::EventClose,
        ];
        all.into_iter().find(|call| call.number() == number)
    }
}

/// The number of an entry point in a call: its place in the tables of `thunk`, the absent ones last.
/// For names that are known when the program is compiled.
pub const fn entry_number(name: &str) -> u32 {
    let mut number = 0;
    while number < thunk::ENTRIES.len() + thunk::ABSENT_ENTRIES.len() {
        if is_same(row_at(number).name.as_bytes(), name.as_bytes()) {
            #[expect(clippy::cast_possible_truncation, reason = "there are a few hundred")]
            return number as u32;
        }
        number += 1;
    }
    panic!("no entry point has this name")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The entry point of a number in a call.
pub fn entry_of(number: u32) -> Option<&'static thunk::EntryRow> {
    let number = number as usize;
    let absent = || thunk::ABSENT_ENTRIES.get(number.checked_sub(thunk::ENTRIES.len())?);
    thunk::ENTRIES.get(number).or_else(absent)
}

/// The start of a call. The structure's bytes follow, if they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The entry point.
    pub entry: u32,
    /// Whether the structure can be written.
    pub writable: bool,
    /// The address of the structure.
    pub arguments: u64,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// Writes the bytes that follow.
    Write = 1,
    /// Question: the bytes at an address.
    Read = 2,
    /// Question: the bytes at an address where results will be written, if that is possible.
    ReadForResults = 3,
    /// Question: sends the descriptor with this number over the channel's socket; the reply has the
    /// rights that were asked for when it was opened.
    SendDescriptor = 4,
    /// Question: takes a descriptor from the channel's socket; the reply has its number. The size is
    /// one if processes that the client starts inherit it.
    TakeDescriptor = 5,
    /// Question: maps the pieces that follow, of a file from the channel's socket; the reply has the
    /// address. The address is one if the client may write there.
    Map = 6,
    /// Unmaps memory that was mapped so.
    Unmap = 7,
    /// Question: whether all operations before were possible.
    Confirm = 8,
    /// The call returns this status.
    Return = 9,
    /// Closes a descriptor that was taken in this call, which fails.
    CloseDescriptor = 10,
}

impl Operation {
    fn from_number(number: u32) -> Option<Self> {
        let all = [
            Self::Write,
            Self::Read,
            Self::ReadForResults,
            Self::SendDescriptor,
            Self::TakeDescriptor,
            Self::Map,
            Self::Unmap,
            Self::Confirm,
            Self::Return,
            Self::CloseDescriptor,
        ];
        all.into_iter().find(|it| *it as u32 == number)
    }
}

/// The bytes of an operation before its data.
pub const OPERATION_BYTES: usize = 16;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub operation: Operation,
    /// A number of bytes.
    pub size: u32,
    /// An address, a number of a descriptor, a status.
    pub address: u64,
    /// The data of `Write` and `Map`.
    pub data: &'a [u8],
}

/// Writes a call at the start of an empty message.
pub fn put_call(message: &mut Vec<u8>, call: Call, structure: Option<&[u8]>) {
    put_word(message, CALL);
    put_word(message, call.entry);
    put_word(message, u32::from(structure.is_some()));
    put_word(message, u32::from(call.writable));
    message.extend_from_slice(&call.arguments.to_ne_bytes());
    message.extend_from_slice(structure.unwrap_or_default());
}

/// Writes a reply at the start of an empty message.
pub fn put_reply(message: &mut Vec<u8>, possible: bool, data: &[u8]) {
    put_word(message, REPLY);
    put_word(message, u32::from(possible));
    message.extend_from_slice(data);
}

/// Appends an operation.
pub fn put_request(message: &mut Vec<u8>, request: &Request<'_>) {
    put_word(message, request.operation as u32);
    put_word(message, request.size);
    message.extend_from_slice(&request.address.to_ne_bytes());
    message.extend_from_slice(request.data);
}

fn put_word(message: &mut Vec<u8>, word: u32) {
    message.extend_from_slice(&word.to_ne_bytes());
}

/// Reads a message from its start.
#[derive(Clone, Copy, Debug)]
pub struct MessageReader<'a>(pub &'a [u8]);

impl<'a> MessageReader<'a> {
    /// The next number of 32 bits.
    pub fn word(&mut self) -> Option<u32> {
        self.bytes(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
    }

    /// The next number of 64 bits.
    pub fn long(&mut self) -> Option<u64> {
        self.bytes(8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes)
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A call, and its structure if it could be read.
    pub fn call(mut self) -> Option<(Call, Option<&'a [u8]>)> {
        if self.word()? != CALL {
            return None;
        }
        let entry = self.word()?;
        let readable = self.word()? != 0;
        let writable = self.word()? != 0;
        let arguments = self.long()?;
        Some((Call { entry, writable, arguments }, readable.then_some(self.0)))
    }

    /// A reply: whether the operation was possible, and its data.
    pub fn reply(mut self) -> Option<(bool, &'a [u8])> {
        (self.word()? == REPLY).then_some(())?;
        Some((self.word()? != 0, self.0))
    }

    /// The next operation.
    pub fn request(&mut self) -> Option<Request<'a>> {
        let operation = Operation::from_number(self.word()?)?;
        let (size, address) = (self.word()?, self.long()?);
        let has_data = matches!(operation, Operation::Write | Operation::Map);
        let data = self.bytes(if has_data { size as usize } else { 0 })?;
        Some(Request { operation, size, address, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut message = Vec::new();
        let call = Call { entry: 7, writable: true, arguments: 0xdead_beef_1234 };
        put_call(&mut message, call, Some(b"structure"));
        assert_eq!(MessageReader(&message).call(), Some((call, Some(&b"structure"[..]))));
        assert_eq!(MessageReader(&message).reply(), None);
        message.clear();
        put_reply(&mut message, true, b"data");
        assert_eq!(MessageReader(&message).reply(), Some((true, &b"data"[..])));
        message.clear();
        let write = Request { operation: Operation::Write, size: 3, address: 0x1000, data: b"abc" };
        let end = Request { operation: Operation::Return, size: 0, address: 5, data: b"" };
        put_request(&mut message, &write);
        put_request(&mut message, &end);
        let mut reader = MessageReader(&message);
        assert_eq!([reader.request(), reader.request()], [Some(write), Some(end)]);
        assert_eq!(reader.request(), None);
    }

    #[test]
    fn short_and_unknown_messages_are_nothing() {
        let mut message = Vec::new();
        let write = Request { operation: Operation::Write, size: 3, address: 0x1000, data: b"abc" };
        put_request(&mut message, &write);
        for length in 0..message.len() {
            assert_eq!(MessageReader(&message[..length]).request(), None, "{length}");
        }
        message[0] = 99;
        assert_eq!(MessageReader(&message).request(), None);
    }

    #[test]
    fn every_entry_point_has_a_number() {
        for row in thunk::ENTRIES.iter().chain(thunk::ABSENT_ENTRIES) {
            let number = entry_number(row.name);
            assert_eq!(entry_of(number).unwrap().name, row.name);
        }
        let count = u32::try_from(thunk::ENTRIES.len() + thunk::ABSENT_ENTRIES.len()).unwrap();
        assert!(entry_of(count).is_none());
        assert!(entry_of(OtherCall::NtHandleName.number()).is_none());
    }
}
