//! The handle table of a process, followed through the events that publish and close handles.

/// The distance between handles of one table.
pub(crate) const STEP: u32 = 0x40;

/// How many handles a new table publishes before a closed one can be reused.
///
/// WINDOWS: our reading of observations: tables grow by 1024 and keep 128 back.
pub(crate) const FRESH_HANDLES: u32 = 896;

/// How many handles are reserved before a closed slot can be reused.
pub(crate) const REUSE_DISTANCE: u64 = 128;

/// The history of a handle table.
#[derive(Debug, Default)]
pub struct HandleHistory {
    /// How many handles were reserved that had not been cancelled before.
    pub fresh_count: u32,
    /// The handle after the last of those.
    next: Option<u32>,
    /// Handles that were cancelled, the next one last.
    returned: Vec<u32>,
    /// How many handles were reserved.
    taken: u64,
    /// How many handles were closed.
    closed: u64,
    /// When each slot was closed, in pages: slots are dense, but an edited trace can name any.
    closed_slots: Vec<Option<Box<[ClosedSlot; PAGE]>>>,
}

/// The number of slots in a page.
const PAGE: usize = 64;

/// When a slot was closed last.
#[derive(Clone, Copy, Debug, Default)]
struct ClosedSlot {
    /// How many handles had been reserved.
    taken: u64,
    /// How many handles had been closed, with this one; zero if it never was.
    closed: u64,
}

/// The slot of a handle in its table.
fn slot(handle: u32) -> usize {
    (handle >> 6 & 0x00ff_ffff) as usize
}

impl HandleHistory {
    /// The handle that comes next, while it cannot be a closed one.
    pub fn expected(&self) -> Option<u32> {
        let young = self.fresh_count < FRESH_HANDLES;
        self.returned.last().copied().or(self.next).filter(|_| young)
    }

    /// How many handles were reserved since this handle's slot was closed, if that is recent.
    pub fn handles_since_closed(&self, handle: u32) -> Option<u64> {
        let slot = slot(handle);
        let closed = self.closed_slots.get(slot / PAGE)?.as_ref()?[slot % PAGE];
        // A slot that was closed before this many others can be reused.
        let is_recent = closed.closed != 0 && self.closed - closed.closed < REUSE_DISTANCE;
        is_recent.then(|| self.taken - closed.taken)
    }

    /// Whether any handle of the table was closed yet.
    pub fn any_closed(&self) -> bool {
        self.closed != 0
    }

    /// A handle is reserved.
    pub(crate) fn reserve(&mut self, handle: u32) {
        self.taken += 1;
        let returned = self.returned.len();
        self.returned.retain(|number| *number != handle);
        if returned == self.returned.len() {
            self.fresh_count = self.fresh_count.saturating_add(1);
            self.next = Some(handle.wrapping_add(STEP));
        }
    }

    /// A reserved handle is cancelled.
    pub(crate) fn cancel(&mut self, handle: u32) {
        self.returned.push(handle);
    }

    /// A handle is closed.
    pub(crate) fn close(&mut self, handle: u32) {
        let slot = slot(handle);
        self.closed += 1;
        let (taken, closed) = (self.taken, self.closed);
        let page = self.closed_slots.get_mut(slot / PAGE).and_then(Option::as_mut);
        let page = match page {
            Some(page) => page,
            None => self.add_page(slot / PAGE),
        };
        page[slot % PAGE] = ClosedSlot { taken, closed };
    }

    /// Adds the page of a slot that is closed.
    #[cold]
    fn add_page(&mut self, page: usize) -> &mut [ClosedSlot; PAGE] {
        if self.closed_slots.len() <= page {
            self.closed_slots.resize_with(page + 1, || None);
        }
        self.closed_slots[page].get_or_insert_with(|| Box::new([ClosedSlot::default(); PAGE]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_slot_is_recent_until_as_many_others_are_closed() {
        let mut history = HandleHistory::default();
        let handle = |slot: u32| slot << 6 | 0x4000_0000;
        let any = handle(0x00ff_ffff); // Only an edited trace has it.
        assert_eq!((history.any_closed(), history.handles_since_closed(any)), (false, None));
        history.close(any);
        assert_eq!((history.any_closed(), history.handles_since_closed(any)), (true, Some(0)));
        for slot in 1..128 {
            history.reserve(handle(slot));
            history.close(handle(slot));
        }
        assert_eq!(history.handles_since_closed(any), Some(127));
        assert_eq!(history.handles_since_closed(handle(127)), Some(0));
        assert_eq!(history.handles_since_closed(handle(128)), None, "it was never closed");
        history.close(handle(1));
        assert_eq!(history.handles_since_closed(any), None, "128 others were closed since");
        assert_eq!(
            history.handles_since_closed(handle(1)),
            Some(0),
            "closed twice, the last counts"
        );
    }
}
