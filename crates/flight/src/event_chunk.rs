//! The memory of logged events.

use crate::{Event, EventKind, Subject};

/// Number of events in a chunk: 64 KiB.
pub(crate) const CHUNK: usize = 512;

/// Number of places that are prepared together: a page of memory.
const GROWTH: usize = 32;

/// Up to [`CHUNK`] events in a row.
///
/// A place exists before its event, so that an event is moved there at once, and not first into a
/// value that is then moved to the end of a list. The places that no event has needed yet are not
/// prepared, since most logs are short.
#[derive(Debug, Default)]
pub(crate) struct EventChunk {
    /// The places; those from `length` on have events that were read, or none.
    places: Vec<Event>,
    length: usize,
}

impl EventChunk {
    /// Whether `push` needs `prepare` first.
    #[inline]
    pub(crate) fn is_unprepared(&self) -> bool {
        self.length == self.places.len()
    }

    /// Prepares places, if none is. Returns false if the chunk is full.
    pub(crate) fn prepare(&mut self) -> bool {
        if self.length >= CHUNK {
            return false;
        }
        if self.is_unprepared() {
            let kind = || EventKind::ViewIdle {}; // Any: it is never read.
            let (thread, call, subject) = (0, None, Subject::RUN);
            let empty = || Event { seq: 0, thread, call, subject, kind: kind() };
            self.places.reserve_exact(CHUNK - self.length);
            self.places.resize_with(self.length + GROWTH, empty);
        }
        true
    }

    /// Moves an event to its place, which must be prepared.
    #[expect(clippy::inline_always, reason = "a call would copy each event once more")]
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        seq: u64,
        (thread, call): (u32, Option<u32>),
        subject: Subject,
        kind: EventKind,
    ) -> &Event {
        let event = &mut self.places[self.length];
        self.length += 1;
        (event.seq, event.thread, event.call, event.subject) = (seq, thread, call, subject);
        event.kind = kind;
        event
    }

    /// The events.
    pub(crate) fn events(&self) -> &[Event] {
        &self.places[..self.length]
    }

    /// The events, in a list that has only them.
    pub(crate) fn into_events(mut self) -> Vec<Event> {
        self.places.truncate(self.length);
        self.places.shrink_to_fit();
        self.places
    }

    /// Removes the events. Each is dropped when another one gets its place, or with the chunk.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }
}
