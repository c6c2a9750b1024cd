//! The memory of logged events.

use crate::Event;

/// Number of events in a chunk: 16 KiB.
pub(crate) const CHUNK: usize = 128;

/// Up to [`CHUNK`] events in a row.
///
/// Dropping an event takes a look at its kind, and nearly no event has memory of its own. So a chunk
/// knows whether one of its events has some, and forgets them all if not.
#[derive(Debug, Default)]
pub(crate) struct EventChunk {
    events: Vec<Event>,
    /// Whether one of the events has memory of its own.
    owns_memory: bool,
}

impl EventChunk {
    /// Allocates the memory of the chunk, if it has none. Returns false if the chunk is full.
    pub(crate) fn prepare(&mut self) -> bool {
        if self.events.capacity() == 0 {
            self.events.reserve_exact(CHUNK);
        }
        self.events.len() < self.events.capacity()
    }

    /// Adds an event; `None` if the chunk must be prepared first. The caller changes the event by
    /// [`Event::replace_kind`], and says here whether it then has memory of its own.
    #[expect(clippy::inline_always, reason = "every event is added by it")]
    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event, owns_memory: bool) -> Option<&mut Event> {
        if self.events.len() == self.events.capacity() {
            std::mem::forget(event); // It is still to be changed, and has no memory of its own.
            return None;
        }
        self.owns_memory |= owns_memory;
        Some(self.events.push_mut(event))
    }

    /// The events.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// For how many events it has memory.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.events.capacity()
    }

    /// The events, in a list that has only them.
    pub(crate) fn into_events(mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        events.shrink_to_fit();
        events
    }
}

impl Drop for EventChunk {
    fn drop(&mut self) {
        if !self.owns_memory {
            std::mem::take(&mut self.events).into_iter().for_each(std::mem::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventKind, Subject};

    #[test]
    fn a_chunk_knows_whether_its_events_have_memory() {
        let mut chunk = EventChunk::default();
        for index in 0..CHUNK {
            assert!(chunk.prepare());
            let kind = EventKind::ViewIdle {};
            let event = Event { seq: 0, thread: 0, call: None, subject: Subject::RUN, kind };
            let name = if index == 7 { format!("thread {index}").into() } else { "thread".into() };
            let kind = EventKind::ThreadStarted { name };
            let owns_memory = kind.owns_memory();
            chunk.push(event, owns_memory).unwrap().replace_kind(kind);
            assert_eq!(chunk.owns_memory, index >= 7);
        }
        assert!(!chunk.prepare(), "it is full");
        assert_eq!((chunk.events().len(), chunk.into_events().len()), (CHUNK, CHUNK));
    }
}
