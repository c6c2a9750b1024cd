//! The goals that are times or bytes: shown, never asserted. Goals that are instructions are in
//! `xtask/src/bench_page.rs`.

use crate::row_kinds::{C, OFF, SHARED, THREADS, THREADS_TWO, VERIFIER};
use crate::server_calls::PAIR;
use crate::{BenchReport, Row};

/// A packet from its submission until it is retired, in nanoseconds.
pub(crate) const PACKET: f64 = 500.0;
/// The factor by which more live objects may slow down scheduling and addresses (cache misses).
pub(crate) const FLAT: f64 = 2.0;

/// The size of the frames whose goal is in the table.
const SMALL_FRAME: u32 = 64;

/// A goal and the measured numbers.
#[derive(Clone, Debug)]
pub struct Goal {
    /// What is measured.
    pub what: &'static str,
    /// The maximum, or, if `least`, the minimum.
    pub wanted: f64,
    /// More is better.
    pub least: bool,
    /// The measured numbers, each with what it was measured with.
    pub numbers: Vec<(String, f64)>,
}

impl Goal {
    /// Whether a number meets the goal.
    pub fn met_by(&self, number: f64) -> bool {
        if self.least { number >= self.wanted } else { number <= self.wanted }
    }

    /// Whether every number meets the goal; `None` without numbers.
    pub fn met(&self) -> Option<bool> {
        let all = self.numbers.iter().all(|entry| self.met_by(entry.1));
        (!self.numbers.is_empty()).then_some(all)
    }
}

/// The goals with the numbers of a run.
pub fn goals(report: &BenchReport) -> Vec<Goal> {
    let rows = PairRows(&report.rows);
    let at_most = |what, wanted, numbers| Goal { what, wanted, least: false, numbers };
    let floor = |row: &Row| Some(row.pair / row.bare);
    let composite = |row: &Row| Some(row.pair / row.composite);
    let of_pair = |row: &Row| Some(row.pair / rows.beside(row, OFF)?.pair);
    let throughput = |row: &Row| Some(rows.beside(row, THREADS)?.pair / row.pair);
    let grown = rows.most_live(OFF).filter_map(|row| {
        let few = rows.fewest_live(OFF).find(|few| few.dies == row.dies && few.live < row.live)?;
        Some((format!("{} live, {}", row.live, row.dies), row.pair / few.pair))
    });
    let bytes = |what: &'static str| {
        let rows = report.rows.iter().filter(move |row| row.what == what && row.dies == "oldest");
        rows.filter_map(|row| Some((format!("{} live", row.live), row.bytes?))).collect()
    };
    let frames = report.streams.iter().filter(|row| row.bytes == SMALL_FRAME);
    let frames = frames.map(|row| (batch(row.what), row.times()));
    let server = report.server.iter().filter(|row| row.what == PAIR);
    let server = server.filter_map(|row| Some((String::new(), row.times()?)));
    let check = report.check.map(|used| (String::new(), used.processor.as_secs_f64()));
    vec![
        at_most("a pair, checks off: times the bare floor", 8.0, rows.numbers(OFF, floor)),
        at_most("the same with the most live: times that with the fewest", 1.5, grown.collect()),
        at_most("a pair through the C library: times the composite floor", 12.0, {
            rows.numbers(C, composite)
        }),
        at_most("a pair through a server: times the C library", 4.0, server.collect()),
        at_most("a pair shared by its global handle: times a plain one", 3.0, {
            rows.numbers(SHARED, of_pair)
        }),
        at_most("bytes of a live allocation, checks off", 300.0, bytes(OFF)),
        at_most("bytes of a live allocation, verifier on", 700.0, bytes(VERIFIER)),
        at_most("a frame of 64 bytes: times the bare queue", 5.0, frames.collect()),
        at_most("windtunnel check --jobs 1: seconds of a processor", 0.4, {
            check.into_iter().collect()
        }),
        Goal {
            what: "two threads: times the throughput of one",
            wanted: 1.6,
            least: true,
            numbers: rows.numbers(THREADS_TWO, throughput),
        },
    ]
}

/// The last words of a stream row that tell it from the others.
fn batch(what: &str) -> String {
    what.split(", ").nth(1).unwrap_or(what).to_owned()
}

/// The rows of pairs.
struct PairRows<'a>(&'a [Row]);

impl<'a> PairRows<'a> {
    /// The rows of this name with this number of live allocations.
    fn with(&self, what: &'static str, live: Option<usize>) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.what == what && Some(row.live) == live)
    }

    fn fewest_live(&self, what: &'static str) -> impl Iterator<Item = &'a Row> {
        self.with(what, self.0.iter().map(|row| row.live).min())
    }

    fn most_live(&self, what: &'static str) -> impl Iterator<Item = &'a Row> {
        self.with(what, self.0.iter().map(|row| row.live).max())
    }

    /// A number of each row of this name with the fewest live allocations.
    fn numbers(
        &self,
        what: &'static str,
        number: impl Fn(&Row) -> Option<f64>,
    ) -> Vec<(String, f64)> {
        let rows = self.fewest_live(what);
        rows.filter_map(|row| Some((row.dies.to_owned(), number(row)?))).collect()
    }

    /// The row of another name that was measured with the same allocations.
    fn beside(&self, row: &Row, what: &str) -> Option<&'a Row> {
        let place =
            |other: &&Row| (other.what, other.live, other.dies) == (what, row.live, row.dies);
        self.0.iter().find(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckUsage, StreamRow};
    use std::time::Duration;

    fn row(what: &'static str, live: usize, pair: f64) -> Row {
        let (bare, composite, bytes) = (10.0, 20.0, Some(500.0));
        Row { what, live, dies: "oldest", threads: 1, pair, bare, composite, bytes }
    }

    fn find(report: &BenchReport, start: &str) -> Goal {
        goals(report).into_iter().find(|goal| goal.what.starts_with(start)).expect("a goal")
    }

    fn numbers(goal: &Goal) -> Vec<f64> {
        goal.numbers.iter().map(|entry| entry.1).collect()
    }

    #[test]
    fn a_goal_compares_rows_of_the_same_place() {
        let rows = vec![
            row(OFF, 10, 50.0),
            row(SHARED, 10, 200.0),
            row(C, 10, 240.0),
            row(OFF, 1000, 100.0),
        ];
        let report = BenchReport { rows, ..BenchReport::default() };
        let floor = find(&report, "a pair, checks off");
        assert_eq!((numbers(&floor), floor.met()), (vec![5.0], Some(true)));
        let grown = find(&report, "the same with the most live");
        assert_eq!((numbers(&grown), grown.met()), (vec![2.0], Some(false)));
        assert_eq!(grown.numbers[0].0, "1000 live, oldest");
        let shared = find(&report, "a pair shared");
        assert_eq!((numbers(&shared), shared.met()), (vec![4.0], Some(false)));
        let library = find(&report, "a pair through the C library");
        assert_eq!((numbers(&library), library.met()), (vec![12.0], Some(true)));
        let bytes = find(&report, "bytes of a live allocation, checks off");
        assert_eq!((numbers(&bytes), bytes.met()), (vec![500.0, 500.0], Some(false)));
        assert_eq!(find(&report, "bytes of a live allocation, verifier").met(), None);
    }

    #[test]
    fn frames_and_the_check_have_their_goals() {
        let what = "a frame streamed, one at a time, checks off";
        let frame = |bytes| StreamRow { what, bytes, number: 60.0, bare: 10.0, wanted: None };
        let processor = Duration::from_millis(300);
        let report = BenchReport {
            streams: vec![frame(64), frame(4096)],
            check: Some(CheckUsage { processor, page_faults: 1, waits: 1 }),
            ..BenchReport::default()
        };
        let frames = find(&report, "a frame");
        assert_eq!(frames.numbers, [("one at a time".to_owned(), 6.0)]);
        assert_eq!(
            (frames.met(), find(&report, "windtunnel check").met()),
            (Some(false), Some(true))
        );
    }

    #[test]
    fn more_throughput_is_better() {
        for (two, met) in [(100.0, true), (200.0, false)] {
            let rows = vec![row(THREADS, 10, 200.0), row(THREADS_TWO, 10, two)];
            let report = BenchReport { rows, ..BenchReport::default() };
            assert_eq!(find(&report, "two threads").met(), Some(met));
        }
    }
}
