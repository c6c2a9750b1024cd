//! Frames that a driver was told to free and keeps: their contents are checked after its calls.

use crate::ks::door::Door;
use flight::{Component, RuleId};
use std::collections::BTreeMap;
use stream::Entry;

/// The maximum number of bytes that are checked after a call. If there are more, frames take turns.
const MAX_WATCHED: usize = 1 << 20;

/// The kept frames: the size of each, and its checksum.
#[derive(Debug, Default)]
pub(crate) struct FreedFrames {
    pub(crate) frames: BTreeMap<usize, (usize, u64)>,
    /// The last frame that was checked.
    last: usize,
    /// How many allocator calls are running: they may change kept frames.
    calls: u32,
    /// How many allocator calls have started or ended.
    turns: u64,
}

impl FreedFrames {
    /// The next frames to check, at least one, with at most `most` bytes, beginning behind the last
    /// one.
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

/// An allocator call, until dropped.
pub(crate) struct AllocatorCallGuard<'a>(&'a Door);

impl Drop for AllocatorCallGuard<'_> {
    /// Records the contents of kept frames as the driver left them.
    fn drop(&mut self) {
        self.0.check_freed(true);
        let freed = &mut self.0.inner().freed_frames;
        (freed.calls, freed.turns) = (freed.calls - 1, freed.turns + 1);
    }
}

impl Door {
    /// Begins an allocator call.
    pub(crate) fn begin_allocator_call(&self) -> AllocatorCallGuard<'_> {
        let freed = &mut self.inner().freed_frames;
        (freed.calls, freed.turns) = (freed.calls + 1, freed.turns + 1);
        AllocatorCallGuard(self)
    }

    /// Entry rule: a driver does not write to a frame that it was told to free, though it may keep
    /// frames in its own list. It may change that list in an allocator's calls.
    pub(crate) fn watch_freed(&self) {
        self.check_freed(false);
    }

    /// Checks the contents of kept frames. Changes that an allocator call may have made are not
    /// judged: after an allocator call (`silent`), and if one began meanwhile on another thread.
    fn check_freed(&self, silent: bool) {
        let (turn, turns) = {
            let mut inner = self.inner();
            if inner.freed_frames.frames.is_empty() || (!silent && inner.freed_frames.calls > 0) {
                return;
            }
            // A frame without memory is freed for good.
            inner.freed_frames.frames.retain(|frame, _| self.pool().extent(*frame).is_some());
            let turn = inner.freed_frames.next_batch(if silent { usize::MAX } else { MAX_WATCHED });
            (turn, inner.freed_frames.turns)
        };
        for (frame, bytes, before) in turn {
            // No more than the frame: the rest of the block is not part of it.
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
            let broken = (sum != before)
                .then(|| "a frame was written after the driver was told to free it".to_owned());
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

    /// Forgets the kept frames in memory that is used as a frame again.
    pub(crate) fn forget_reused(&self, frame: usize, bytes: usize) {
        let end = frame.saturating_add(bytes.max(1));
        self.inner().freed_frames.frames.retain(|start, (bytes, _)| {
            start.saturating_add((*bytes).max(1)) <= frame || *start >= end
        });
    }

    /// A checksum over eight bytes at a time. The product with an odd number preserves any change,
    /// and the rotation moves it to where the next product spreads it.
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
