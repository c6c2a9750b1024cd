//! Pressure: memory is short, buffers are small and hardware is preempted, all drawn from a seed.
//! Pressure breaks no rule, so a correct driver works under it.

use crate::ddi::operation::PAGE;
use crate::kernel::Kernel;

/// Draws the restrictions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pressure(u64);

/// A segment with at most this many pages is not restricted.
const MIN_PAGES: u64 = 64;
/// A paging buffer has at least this much room: no driver needs more for one command.
const MIN_CAPACITY: u32 = 256;

impl Kernel {
    /// Puts the adapters that start from now on under pressure (`--pressure`).
    pub fn set_pressure(&self, seed: u64) {
        self.state.lock().memory.pressure = Some(Pressure(seed));
    }
}

impl Pressure {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, from the seed.
    fn next_random(&mut self, bound: u64) -> u64 {
        flight::next_random(&mut self.0, bound)
    }

    /// The usable size of a segment.
    pub(crate) fn limit(&mut self, limit: u64) -> u64 {
        let half = limit / 2 / PAGE;
        if half < MIN_PAGES { limit } else { (half + self.next_random(half)) * PAGE }
    }

    /// The usable size of a paging buffer.
    pub(crate) fn buffer_capacity(&mut self, size: u32) -> u32 {
        let limit = u64::from(size.saturating_sub(MIN_CAPACITY)) + 1;
        let more = if self.next_random(4) == 0 {
            self.next_random(limit)
        } else {
            self.next_random(limit.min(64))
        };
        size.min(MIN_CAPACITY + u32::try_from(more).unwrap_or(0))
    }

    /// Number of contiguous bytes of an allocation's pages.
    pub(crate) fn contiguous_bytes(&mut self, bytes: u64) -> u64 {
        bytes.min((1 + self.next_random(4)) * PAGE)
    }

    /// The largest part in which `bytes` bytes are transferred.
    pub(crate) fn part_bytes(&mut self, bytes: u64) -> u64 {
        (1 + self.next_random(bytes.div_ceil(PAGE).max(1) * 2)) * PAGE
    }

    /// The node to preempt, if any.
    pub(crate) fn preempted_node(&mut self, nodes: usize) -> Option<u32> {
        let bound = u64::try_from(nodes).unwrap_or(1) + 1;
        u32::try_from(self.next_random(bound))
            .ok()
            .filter(|number| *number < u32::try_from(nodes).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_stays_within_bounds_and_repeats() {
        let mut one = Pressure(7);
        let mut same = Pressure(7);
        for _ in 0..1000 {
            let limit = one.limit(1 << 20);
            assert!(
                limit.is_multiple_of(PAGE) && (1 << 19..1 << 20).contains(&limit),
                "{limit:#x}"
            );
            assert_eq!(limit, same.limit(1 << 20));
            assert!((MIN_CAPACITY..=4096).contains(&one.buffer_capacity(4096)));
            assert_eq!(one.buffer_capacity(100), 100, "less than that is not made less");
            assert!(one.preempted_node(2).is_none_or(|number| number < 2));
            same = one;
        }
        assert_eq!(Pressure(1).limit(PAGE), PAGE);
    }
}
