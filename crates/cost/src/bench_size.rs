//! The size of a benchmark run.

/// The size of a benchmark run.
#[derive(Clone, Debug)]
pub struct BenchSize {
    /// The numbers of live allocations, one for each part of the table.
    pub live: Vec<usize>,
    /// The numbers of other placed ranges.
    pub ranges: Vec<usize>,
    /// The numbers of other objects, ranges or address spaces for scheduling and addresses.
    pub objects: Vec<usize>,
    /// The number of pairs in a turn.
    pub pairs: usize,
    /// The number of turns.
    pub turns: usize,
    /// Only rows whose name contains this text.
    pub only: Option<String>,
}

/// Rows that start threads for each turn have turns longer by this factor, and fewer of them.
const LONGER: usize = 20;

impl BenchSize {
    /// A smoke test.
    pub fn quick() -> Self {
        let few = || vec![10];
        Self { live: few(), ranges: few(), objects: few(), pairs: 20, turns: 1, only: None }
    }

    /// A thousand and a hundred thousand live allocations. Turns are short, so that other processes
    /// interrupt few of them.
    pub fn default_size() -> Self {
        let (live, ranges) = (vec![1_000, 100_000], vec![10_000, 100_000]);
        let objects = vec![1, 1_000, 100_000];
        Self { live, ranges, objects, pairs: 200, turns: 51, only: None }
    }

    /// Also a million live allocations.
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

    /// Whether a row of this name is selected.
    pub(crate) fn asks(&self, what: &str) -> bool {
        self.only.as_ref().is_none_or(|words| what.contains(words))
    }
}
