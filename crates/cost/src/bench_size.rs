//! How much is measured.

/// How much is measured.
#[derive(Clone, Debug)]
pub struct BenchSize {
    /// How many others live, for each part of the table.
    pub live: Vec<usize>,
    /// How many other ranges are placed, likewise.
    pub ranges: Vec<usize>,
    /// How many other objects, ranges or spaces there are for scheduling and addresses, likewise.
    pub objects: Vec<usize>,
    /// How many pairs a turn has.
    pub pairs: usize,
    /// How many turns there are.
    pub turns: usize,
    /// Only rows whose name has these words in it.
    pub only: Option<String>,
}

/// Threads have to be started for a turn: they do so much more in so many fewer turns.
const LONGER: usize = 20;

impl BenchSize {
    /// Enough to see that it runs.
    pub fn quick() -> Self {
        let few = || vec![10];
        Self { live: few(), ranges: few(), objects: few(), pairs: 20, turns: 1, only: None }
    }

    /// A thousand and a hundred thousand others. A turn is short, so that most turns are not
    /// interrupted by what else the machine does.
    pub fn default_size() -> Self {
        let (live, ranges) = (vec![1_000, 100_000], vec![10_000, 100_000]);
        let objects = vec![1, 1_000, 100_000];
        Self { live, ranges, objects, pairs: 200, turns: 51, only: None }
    }

    /// A million others besides.
    pub fn full() -> Self {
        let (live, ranges) = (vec![1_000, 100_000, 1_000_000], vec![10_000, 100_000, 1_000_000]);
        Self { live, ranges, turns: 101, ..Self::default_size() }
    }

    /// The same amount, for threads that are started for each turn.
    pub(crate) fn with_more_pairs(&self) -> Self {
        let (pairs, turns) = (self.pairs * LONGER, self.turns.div_ceil(LONGER));
        let none = Vec::new;
        Self { live: none(), ranges: none(), objects: none(), pairs, turns, only: None }
    }

    /// Whether a row of this name is asked for.
    pub(crate) fn asks(&self, what: &str) -> bool {
        self.only.as_ref().is_none_or(|words| what.contains(words))
    }
}
