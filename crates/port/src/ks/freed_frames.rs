//! Frames that a driver was told to free and keeps: what is in them is looked at after its calls.

use crate::ks::door::Door;
use flight::{Component, RuleId};
use std::collections::BTreeMap;
use stream::Entry;

/// How many bytes are looked at after a call: the frames of which more are kept take turns.
const MAX_WATCHED: usize = 1 << 20;

/// The frames that are kept: how many bytes each has, and what was in it.
#[derive(Debug, Default)]
pub(crate) struct FreedFrames {
    pub(crate) frames: BTreeMap<usize, (usize, u64)>,
    /// The last one that was looked at.
    last: usize,
    /// How many calls of allocators are under way: those may change what they keep.
    calls: u32,
    /// How many such calls there were, and how many of them are over.
    turns: u64,
}

impl FreedFrames {
    /// Those whose turn it is, one at least: with as many bytes as are looked at, beginning behind
    /// the last one.
    fn next_batch(&mut self, most: usize) -> Vec<(usize, usize, u64)> {
        let (behind, before) =
            (self.frames.range(self.last + 1..), self.frames.range(..=self.last));
        let mut left = Some(most);
        let turn = behind.chain(before).take_while(|(_, (bytes, _))| {
            let has = left.is_some();
            left = left.and_then(|index| index.checked_sub(*bytes)).filter(|index| *index > 0);
            has
        });
        let turn: Vec<_> = turn.map(|(frame, (bytes, sum))| (*frame, *bytes, *sum)).collect();
        self.last = turn.last().map_or(0, |entry| entry.0);
        turn
    }
}

/// A call of an allocator, while it lives.
pub(crate) struct AllocatorCallGuard<'a>(&'a Door);

impl Drop for AllocatorCallGuard<'_> {
    /// What the driver keeps is as it left it.
    fn drop(&mut self) {
        self.0.check_freed(true);
        let freed = &mut self.0.inner().freed_frames;
        (freed.calls, freed.turns) = (freed.calls - 1, freed.turns + 1);
    }
}

impl Door {
    /// A call of an allocator begins.
    pub(crate) fn begin_allocator_call(&self) -> AllocatorCallGuard<'_> {
        let freed = &mut self.inner().freed_frames;
        (freed.calls, freed.turns) = (freed.calls + 1, freed.turns + 1);
        AllocatorCallGuard(self)
    }

    /// Entry rule: a frame that the driver was told to free is left alone, though it may keep
    /// frames in a list of its own. That list it may change in an allocator's calls.
    pub(crate) fn watch_freed(&self) {
        self.check_freed(false);
    }

    /// Looks at what is in frames that are kept. What an allocator's call may have changed is not
    /// judged: after such a call (`silent`), and if one began meanwhile on another thread.
    fn check_freed(&self, silent: bool) {
        let (turn, turns) = {
            let mut inner = self.inner();
            if inner.freed_frames.frames.is_empty() || (!silent && inner.freed_frames.calls > 0) {
                return;
            }
            // What is not there any more is freed for good.
            inner.freed_frames.frames.retain(|frame, _| self.pool().extent(*frame).is_some());
            let turn = inner.freed_frames.next_batch(if silent { usize::MAX } else { MAX_WATCHED });
            (turn, inner.freed_frames.turns)
        };
        for (frame, bytes, before) in turn {
            // No more than the frame: what follows it in its block is not its.
            let there = self.pool().extent(frame).map(|(there, _)| there.min(bytes));
            let Some(sum) = there.map(|bytes| self.checksum(frame, bytes)) else { continue };
            {
                let mut inner = self.inner();
                if !silent && inner.freed_frames.turns != turns {
                    return;
                }
                if let Some(it) = inner.freed_frames.frames.get_mut(&frame) {
                    it.1 = sum;
                }
            }
            if silent {
                continue;
            }
            let broken = (sum != before).then(|| {
                "a frame was written to that the driver was told to free and keeps".to_owned()
            });
            let device = self.services().device().subject();
            let place = Entry::FreeFrame.name();
            self.services().log().judge(
                RuleId::KS_ALLOC_011,
                Component::Driver,
                device,
                place,
                broken,
            );
        }
    }

    /// Memory is a frame again, and with it all that was freed there.
    pub(crate) fn forget_reused(&self, frame: usize, bytes: usize) {
        let end = frame.saturating_add(bytes.max(1));
        self.inner().freed_frames.frames.retain(|start, (bytes, _)| {
            start.saturating_add((*bytes).max(1)) <= frame || *start >= end
        });
    }

    /// Eight bytes at a time. A product with an odd number keeps any change, and the rotation takes
    /// it to where the next product spreads it.
    fn checksum(&self, frame: usize, bytes: usize) -> u64 {
        let (mut sum, mut some) = (0xcbf2_9ce4_8422_2325_u64, [0; 4096]);
        for start in (0..bytes).step_by(some.len()) {
            let some = &mut some[..(bytes - start).min(4096)];
            self.pool().read(frame + start, some);
            for word in some.chunks(8) {
                let mut eight = [0; 8];
                eight[..word.len()].copy_from_slice(word);
                sum = (sum ^ u64::from_le_bytes(eight))
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .rotate_left(29);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_has_its_turn_and_a_call_has_an_end() {
        let mut freed = FreedFrames::default();
        freed.frames.extend((1..=5).map(|index| (index * 0x1000, (100, 0))));
        let mut turn =
            |most| freed.next_batch(most).iter().map(|entry| entry.0 >> 12).collect::<Vec<_>>();
        assert_eq!(turn(usize::MAX), [1, 2, 3, 4, 5]);
        assert_eq!(turn(500), [1, 2, 3, 4, 5]);
        assert_eq!([turn(200), turn(200), turn(200)], [[1, 2], [3, 4], [5, 1]]);
        assert_eq!([turn(1), turn(1)], [[2], [3]], "one at least");
        freed.frames.clear();
        assert!(freed.next_batch(200).is_empty());
    }
}
