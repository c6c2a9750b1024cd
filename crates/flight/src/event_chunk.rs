//! The memory of logged events.

use crate::{Event, EventKind, Subject};

/// Number of events in a chunk: 16 KiB.
pub(crate) const CHUNK: usize = 128;

/// Number of places that are prepared together: a page of memory.
const GROWTH: usize = 32;

/// Up to [`CHUNK`] events in a row.
///
/// A place exists before its event, so that an event is moved there at once, and not first into a
/// value that is then moved to the end of a list. The places that no event has needed yet are not
/// prepared, since most logs are short.
///
/// # Invariants
///
/// 1. No event in a place from `length` on has memory of its own, so nothing is dropped when
///    another event gets its place.
#[derive(Debug, Default)]
pub(crate) struct EventChunk {
    /// The places; those from `length` on have events that were read, or none.
    places: Vec<Event>,
    length: usize,
    /// Whether one of the events has memory of its own.
    owns_memory: bool,
}

impl EventChunk {
    /// Prepares places, if none is. Returns false if the chunk is full.
    pub(crate) fn prepare(&mut self) -> bool {
        if self.length >= CHUNK {
            return false;
        }
        if self.length == self.places.len() {
            self.places.reserve_exact(CHUNK - self.length);
            self.places.resize_with(self.length + GROWTH, empty);
        }
        true
    }

    /// The place of the next event, which is in the chunk from now on; `None` if it must be prepared
    /// first. The caller changes its event by [`Event::replace_kind`], and says here whether the new
    /// one has memory of its own.
    #[inline]
    pub(crate) fn next_place(&mut self, owns_memory: bool) -> Option<&mut Event> {
        let place = self.places.get_mut(self.length)?;
        self.length += 1;
        self.owns_memory |= owns_memory;
        Some(place)
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

    /// Removes the events.
    pub(crate) fn clear(&mut self) {
        if self.owns_memory {
            self.places[..self.length].fill_with(empty);
            self.owns_memory = false;
        }
        self.length = 0;
    }
}

/// What a place has before its first event. It is never read.
fn empty() -> Event {
    let kind = EventKind::ViewIdle {}; // Any.
    Event { seq: 0, thread: 0, call: None, subject: Subject::RUN, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_events_that_were_read_is_freed() {
        let mut chunk = EventChunk::default();
        for round in 0..3 {
            for index in 0..CHUNK {
                assert!(chunk.prepare());
                let name = format!("thread {round} {index}");
                let kind = EventKind::ThreadStarted { name: name.into() };
                let owns_memory = kind.owns_memory();
                let place = chunk.next_place(owns_memory).unwrap();
                assert!(!place.kind.owns_memory(), "round {round}, place {index}");
                place.replace_kind(kind);
            }
            assert!(!chunk.prepare(), "it is full");
            assert!(chunk.events().iter().all(|event| event.kind.owns_memory()));
            chunk.clear();
        }
    }
}
