//! The table of scheduling and addresses.

use crate::goals::FLAT;
use crate::{BenchSize, MeasureError, mapping, packets};

/// A row of the table of scheduling and addresses.
#[derive(Clone, Debug)]
pub struct WorkRow {
    /// What was measured.
    pub what: &'static str,
    /// The number of live objects.
    pub live: usize,
    /// Nanoseconds.
    pub number: f64,
    /// The number with the fewest live objects; `None` for that row itself.
    pub fewest: Option<f64>,
    /// The goal in nanoseconds.
    pub wanted: Option<f64>,
}

impl WorkRow {
    /// The number divided by that with the fewest live objects.
    pub fn times(&self) -> Option<f64> {
        self.fewest.map(|value| self.number / value)
    }

    /// Whether the goals are met: fast enough, and as fast as with the fewest live objects; `None`
    /// without a goal.
    pub fn met(&self) -> Option<bool> {
        let fast = self.wanted.map(|value| self.number <= value);
        let flat = self.times().map(|value| value <= FLAT);
        fast.into_iter().chain(flat).reduce(|one, two| one && two)
    }
}

/// Measures the table.
pub(crate) fn measure(
    extent: &BenchSize,
    said: &mut dyn FnMut(&WorkRow),
) -> Result<Vec<WorkRow>, MeasureError> {
    let mut rows = Vec::new();
    let mut say = |row: WorkRow| {
        said(&row);
        rows.push(row);
    };
    packets::measure(extent, &mut say)?;
    mapping::measure(extent, &mut say)?;
    Ok(rows)
}

/// The rows of one kind, one for each number of live objects.
pub(crate) fn rows(
    extent: &BenchSize,
    what: &'static str,
    wanted: Option<f64>,
    mut number: impl FnMut(usize) -> Result<f64, MeasureError>,
    said: &mut dyn FnMut(WorkRow),
) -> Result<(), MeasureError> {
    if !extent.asks(what) {
        return Ok(());
    }
    let mut fewest = None;
    for live in &extent.objects {
        let number = number(*live)?;
        said(WorkRow { what, live: *live, number, fewest, wanted });
        fewest.get_or_insert(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_to_be_fast_and_flat() {
        let row = |number, fewest, wanted| WorkRow { what: "it", live: 1, number, fewest, wanted };
        assert_eq!(row(10.0, None, None).met(), None);
        assert_eq!(row(10.0, None, Some(20.0)).met(), Some(true));
        assert_eq!(row(30.0, Some(29.0), Some(20.0)).met(), Some(false));
        assert_eq!(row(10.0, Some(9.0), Some(20.0)).met(), Some(true));
        assert_eq!(row(19.0, Some(9.0), Some(20.0)).met(), Some(false));
        assert_eq!(row(19.0, Some(9.0), None).times(), Some(19.0 / 9.0));
    }
}
