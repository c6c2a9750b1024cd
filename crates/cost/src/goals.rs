//! The cost goals: shown, never asserted.

use crate::Row;
use crate::row_kinds::{
    C, C_TWO, OFF, RUST, RUST_TWO, THREADS, THREADS_TWO, THREADS_TWO_TRACE, THREADS_TWO_VERIFIER,
    TRACE, VERIFIER,
};

/// A packet from its submission until it is retired, in nanoseconds.
pub(crate) const PACKET: f64 = 500.0;
/// The factor by which more live objects may slow down scheduling and addresses (cache misses).
pub(crate) const FLAT: f64 = 2.0;

/// A goal and the measured numbers.
#[derive(Clone, Debug)]
pub struct Goal {
    /// What is measured.
    pub what: &'static str,
    /// The maximum, or, if `least`, the minimum.
    pub wanted: f64,
    /// More is better.
    pub least: bool,
    /// The measured cells: number of live allocations, which one dies, and the number.
    pub cells: Vec<(usize, &'static str, f64)>,
}

impl Goal {
    /// Whether a number meets the goal.
    pub fn met_by(&self, number: f64) -> bool {
        if self.least { number >= self.wanted } else { number <= self.wanted }
    }

    /// Whether every number meets the goal; `None` without numbers.
    pub fn met(&self) -> Option<bool> {
        let all = self.cells.iter().all(|entry| self.met_by(entry.2));
        (!self.cells.is_empty()).then_some(all)
    }
}

/// The goals with the numbers of the rows.
pub fn goals(rows: &[Row]) -> Vec<Goal> {
    let times = |parents: &'static str, below: &'static str| {
        move |rows: &GoalRows<'_>| Some(rows.of(parents)?.pair / rows.of(below)?.pair)
    };
    let at_most = |what, wanted, number: &Number<'_>| goal(what, (wanted, false), rows, number);
    let at_least = |what, wanted, number: &Number<'_>| goal(what, (wanted, true), rows, number);
    let to_bare = |goal_rows: &GoalRows<'_>| goal_rows.of(OFF).map(|row| row.pair / row.bare);
    let bytes = |goal_rows: &GoalRows<'_>| goal_rows.of(OFF)?.bytes;
    vec![
        at_most("checks off: times the bare floor", 6.0, &to_bare),
        at_most("verifier on: times checks off", 2.0, &times(VERIFIER, OFF)),
        at_most("trace on: times checks off", 1.5, &times(TRACE, OFF)),
        at_most("verifier on, two threads", 2.0, &times(THREADS_TWO_VERIFIER, THREADS_TWO)),
        at_most("trace on, two threads", 1.5, &times(THREADS_TWO_TRACE, THREADS_TWO)),
        at_most("C library: times the same through Rust", 1.3, &times(C, RUST)),
        at_most("C library, two threads", 1.3, &times(C_TWO, RUST_TWO)),
        at_most("times the bare floor: times that at the fewest live", 2.0, &|goal_rows| {
            let fewest =
                rows.iter().map(|row| row.live).min().filter(|few| *few != goal_rows.live)?;
            Some(to_bare(goal_rows)? / to_bare(&GoalRows { live: fewest, ..*goal_rows })?)
        }),
        at_least("two threads: times the throughput of one", 1.6, &times(THREADS, THREADS_TWO)),
        at_most("bytes for each that lives, checks off", 400.0, &bytes),
    ]
}

/// The rows with the same number of live allocations and the same one that dies.
#[derive(Clone, Copy)]
struct GoalRows<'a> {
    rows: &'a [Row],
    live: usize,
    dies: &'static str,
}

impl GoalRows<'_> {
    fn of(&self, what: &str) -> Option<&Row> {
        self.rows.iter().find(|row| (row.what, row.live, row.dies) == (what, self.live, self.dies))
    }
}

/// Computes a goal's number.
type Number<'a> = dyn Fn(&GoalRows<'_>) -> Option<f64> + 'a;

fn goal(
    what: &'static str,
    (wanted, least): (f64, bool),
    rows: &[Row],
    number: &Number<'_>,
) -> Goal {
    let mut cells: Vec<(usize, &'static str, f64)> = Vec::new();
    for row in rows {
        if cells.iter().any(|entry| (entry.0, entry.1) == (row.live, row.dies)) {
            continue;
        }
        let place = GoalRows { rows, live: row.live, dies: row.dies };
        cells.extend(number(&place).map(|value| (row.live, row.dies, value)));
    }
    Goal { what, wanted, least, cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &'static str, live: usize, pair: f64) -> Row {
        let (bare, composite, bytes) = (10.0, 20.0, Some(500.0));
        Row { what, live, dies: "oldest", threads: 1, pair, bare, composite, bytes }
    }

    fn find<'a>(goals: &'a [Goal], start: &str) -> &'a Goal {
        goals.iter().find(|goal| goal.what.starts_with(start)).expect("a goal")
    }

    #[test]
    fn a_goal_compares_rows_of_the_same_place() {
        let rows = [row(OFF, 10, 50.0), row(VERIFIER, 10, 75.0), row(OFF, 1000, 200.0)];
        let goals = goals(&rows);
        let floor = find(&goals, "checks off");
        assert_eq!(floor.cells, [(10, "oldest", 5.0), (1000, "oldest", 20.0)]);
        assert_eq!(floor.met(), Some(false));
        let verifier = find(&goals, "verifier on: times");
        assert_eq!((&verifier.cells[..], verifier.met()), (&[(10, "oldest", 1.5)][..], Some(true)));
        let grown = find(&goals, "times the bare floor");
        assert_eq!((&grown.cells[..], grown.met()), (&[(1000, "oldest", 4.0)][..], Some(false)));
        assert_eq!(find(&goals, "bytes").met(), Some(false));
        assert_eq!(find(&goals, "trace on: times").met(), None);
    }

    #[test]
    fn more_throughput_is_better() {
        let rows = [row(OFF, 10, 1.0), row(THREADS, 10, 200.0), row(THREADS_TWO, 10, 100.0)];
        assert_eq!(find(&goals(&rows), "two threads: times").met(), Some(true));
        let rows = [row(OFF, 10, 1.0), row(THREADS, 10, 100.0), row(THREADS_TWO, 10, 100.0)];
        assert_eq!(find(&goals(&rows), "two threads: times").met(), Some(false));
    }
}
