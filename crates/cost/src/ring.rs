//! The live objects, and which one is destroyed next.

use crate::MeasureError;

/// The number of pairs between two runs of the observer.
const BATCH: usize = 64;

/// Creates and destroys objects. `At` is the argument of its calls.
pub(crate) trait TwoPassDriver<At> {
    type Name: Copy;

    fn create(&mut self, at: &mut At) -> Result<Self::Name, MeasureError>;
    fn destroy(&mut self, at: &mut At, name: Self::Name) -> Result<(), MeasureError>;

    /// Runs the observer, if any.
    fn watch(&mut self) {}
}

/// The handles of the live objects.
pub(crate) struct Ring<N> {
    live: Vec<N>,
    next: u64,
}

impl<N: Copy> Ring<N> {
    /// A ring with this capacity, so that filling it allocates only the objects' memory.
    pub(crate) fn with_room(count: usize) -> Self {
        Self { live: Vec::with_capacity(count.max(1)), next: 0 }
    }

    /// The handles of the live objects.
    pub(crate) fn into_live(self) -> Vec<N> {
        self.live
    }

    pub(crate) fn fill<At, M: TwoPassDriver<At, Name = N>>(
        &mut self,
        maker: &mut M,
        at: &mut At,
    ) -> Result<(), MeasureError> {
        while self.live.len() < self.live.capacity() {
            self.live.push(maker.create(at)?);
            if self.live.len().is_multiple_of(BATCH) {
                maker.watch();
            }
        }
        maker.watch();
        Ok(())
    }

    /// Runs `count` pairs; each destroys the oldest live object, or a random one.
    pub(crate) fn pairs<At, M: TwoPassDriver<At, Name = N>>(
        &mut self,
        maker: &mut M,
        at: &mut At,
        random: bool,
        count: usize,
    ) -> Result<(), MeasureError> {
        for number in 1..=count {
            let new = maker.create(at)?;
            let old = self.turn(new, random);
            maker.destroy(at, old)?;
            if number.is_multiple_of(BATCH) {
                maker.watch();
            }
        }
        maker.watch();
        Ok(())
    }

    /// Inserts an object and returns the one to destroy.
    fn turn(&mut self, new: N, random: bool) -> N {
        let draw = if random { splitmix64(self.next) } else { self.next };
        self.next += 1;
        let place = usize::try_from(draw % self.live.len() as u64).unwrap_or(0);
        std::mem::replace(&mut self.live[place], new)
    }
}

/// A pseudorandom number, the same sequence each time: splitmix64.
pub(crate) fn splitmix64(number: u64) -> u64 {
    let it = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^ (it >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles rise; records the destroyed ones.
    #[derive(Default)]
    struct Counter {
        made: u32,
        died: Vec<u32>,
    }

    impl TwoPassDriver<()> for Counter {
        type Name = u32;

        fn create(&mut self, _at: &mut ()) -> Result<u32, MeasureError> {
            self.made += 1;
            Ok(self.made)
        }

        fn destroy(&mut self, _at: &mut (), name: u32) -> Result<(), MeasureError> {
            self.died.push(name);
            Ok(())
        }
    }

    fn flown(random: bool) -> Counter {
        let (mut counter, mut ring) = (Counter::default(), Ring::with_room(10));
        ring.fill(&mut counter, &mut ()).unwrap();
        ring.pairs(&mut counter, &mut (), random, 1000).unwrap();
        counter
    }

    #[test]
    fn the_oldest_dies_first() {
        assert!(flown(false).died.into_iter().eq(1..=1000));
    }

    #[test]
    fn a_random_one_dies_once_and_the_same_each_time() {
        let died = flown(true).died;
        assert_eq!(died, flown(true).died);
        assert!(!died.is_sorted());
        let mut each = died.clone();
        each.sort_unstable();
        each.dedup();
        assert_eq!(each.len(), died.len());
    }
}
