//! The table of video memory.

use crate::{BenchSize, MeasureError, bandwidth, ranges, residency};
use std::time::Duration;

/// A row of the table of video memory.
#[derive(Clone, Debug)]
pub struct MemoryRow {
    /// What was measured.
    pub what: &'static str,
    /// The number of live objects.
    pub live: usize,
    /// Which object was chosen each time.
    pub which: &'static str,
    /// The measured number.
    pub number: f64,
    /// The unit: more `GB/s` is better, fewer `ns` are better.
    pub unit: &'static str,
    /// The numbers of alternatives, in the same turns or the same run.
    pub beside: Vec<(&'static str, f64)>,
    /// The goal for the number divided by the best alternative.
    pub wanted: Option<f64>,
    /// Bytes per live object, if the program's allocator counts.
    pub bytes: Option<f64>,
}

/// Nanoseconds.
pub(crate) const TIME: &str = "ns";
/// Billions of bytes per second.
pub(crate) const SPEED: &str = "GB/s";

impl MemoryRow {
    /// Whether more is better.
    pub fn least(&self) -> bool {
        self.unit == SPEED
    }

    /// The number divided by the best alternative.
    pub fn times(&self) -> Option<f64> {
        let others = self.beside.iter().map(|pair| pair.1);
        let best = others.reduce(if self.least() { f64::max } else { f64::min })?;
        Some(self.number / best)
    }

    /// Whether the goal is met; `None` without a goal.
    pub fn met(&self) -> Option<bool> {
        let (wanted, times) = self.wanted.zip(self.times())?;
        Some(if self.least() { times >= wanted } else { times <= wanted })
    }
}

/// Measures the table of memory.
pub(crate) fn measure(
    extent: &BenchSize,
    said: &mut dyn FnMut(&MemoryRow),
) -> Result<Vec<MemoryRow>, MeasureError> {
    let mut rows = Vec::new();
    ranges::measure(extent, &mut |memory_row| push_row(&mut rows, memory_row, said))?;
    residency::measure(extent, &mut |memory_row| push_row(&mut rows, memory_row, said))?;
    bandwidth::measure(extent, &mut |memory_row| push_row(&mut rows, memory_row, said))?;
    Ok(rows)
}

fn push_row(rows: &mut Vec<MemoryRow>, row: MemoryRow, said: &mut dyn FnMut(&MemoryRow)) {
    said(&row);
    rows.push(row);
}

/// Nanoseconds per operation of the median turn.
#[expect(clippy::cast_precision_loss, reason = "there are not that many")]
pub(crate) fn nanoseconds_each(turns: Vec<Duration>, count: usize) -> f64 {
    crate::measure::median(turns).as_secs_f64() * 1e9 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: f64, unit: &'static str, wanted: Option<f64>) -> MemoryRow {
        let beside = vec![("one", 10.0), ("other", 20.0)];
        let (what, which) = ("it", "in turn");
        MemoryRow { what, live: 1, which, number, unit, beside, wanted, bytes: None }
    }

    #[test]
    fn it_is_compared_with_the_best_of_the_others() {
        let slow = row(15.0, TIME, Some(1.2));
        assert_eq!((slow.times(), slow.met()), (Some(1.5), Some(false)));
        let fast = row(15.0, SPEED, Some(0.7));
        assert_eq!((fast.times(), fast.met()), (Some(0.75), Some(true)));
        assert_eq!(row(10.0, TIME, None).met(), None);
        assert_eq!(MemoryRow { beside: Vec::new(), ..slow }.met(), None);
    }
}
