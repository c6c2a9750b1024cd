//! Frames that a driver was told to free and keeps: what is in them is looked at after its calls.

use crate::ks::door::Door;
use flight::{RuleId, Who};
use stream::Entry;

impl Door {
    /// Entry rule: a frame that the driver was told to free is left alone, though it may keep
    /// frames in a list of its own. That list it may change in an allocator's calls (`silent`).
    pub(crate) fn watch_freed(&self, silent: bool) {
        let freed: Vec<(usize, (usize, u64))> =
            self.inner().freed.iter().map(|(frame, it)| (*frame, *it)).collect();
        for (frame, (bytes, before)) in freed {
            // No more than the frame: what follows it in its block is not its.
            let there = self.pool().extent(frame).map(|(there, _)| there.min(bytes));
            let sum = there.map(|bytes| self.sum(frame, bytes));
            let mut inner = self.inner();
            match sum {
                // It is freed for good.
                None => inner.freed.remove(&frame),
                Some(sum) => inner.freed.insert(frame, (bytes, sum)),
            };
            drop(inner);
            if silent {
                continue;
            }
            let broken = sum.filter(|it| *it != before).map(|_| {
                "a frame was written to that the driver was told to free and keeps".to_owned()
            });
            let device = self.services().device().subject();
            let place = Entry::FreeFrame.name();
            self.services().log().judge(RuleId::KS_ALLOC_011, Who::Driver, device, place, broken);
        }
    }

    /// Memory is a frame again, and with it all that was freed there.
    pub(crate) fn reused(&self, frame: usize, bytes: usize) {
        let end = frame.saturating_add(bytes.max(1));
        self.inner().freed.retain(|start, (bytes, _)| {
            start.saturating_add((*bytes).max(1)) <= frame || *start >= end
        });
    }

    fn sum(&self, frame: usize, bytes: usize) -> u64 {
        let mut all = vec![0; bytes];
        self.pool().read(frame, &mut all);
        // Eight bytes at a time: this is done after every call. A product of an odd number keeps
        // any change, and the rotation takes it to where the next product spreads it.
        let step = |sum: u64, word: &[u8]| {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word);
            (sum ^ u64::from_le_bytes(eight)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        all.chunks(8).fold(0xcbf2_9ce4_8422_2325, step)
    }
}
