//! Frames that the driver was told to free and keeps: it leaves them alone.

use crate::ks::door::Door;
use flight::{RuleId, Who};
use stream::Entry;

impl Door {
    /// Entry rule: a frame that the driver was told to free is left alone, though it may keep
    /// frames in a list of its own. That list it may change in an allocator's calls (`silent`).
    pub(super) fn watch_freed(&self, silent: bool) {
        let freed: Vec<(usize, u64)> =
            self.inner().freed.iter().map(|(frame, sum)| (*frame, *sum)).collect();
        for (frame, before) in freed {
            let sum = self.pool().extent(frame).map(|(bytes, _)| self.sum(frame, bytes));
            let mut inner = self.inner();
            match sum {
                // It is freed for good.
                None => inner.freed.remove(&frame),
                Some(sum) => inner.freed.insert(frame, sum),
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

    fn sum(&self, frame: usize, bytes: usize) -> u64 {
        let mut all = vec![0; bytes];
        self.pool().read(frame, &mut all);
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        all.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }
}
