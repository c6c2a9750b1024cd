//! The whole run: the tables of pairs, memory, scheduling and addresses, user-mode drivers and
//! streams, and the goals of pairs.

use crate::page::{
    MEMORY_HEAD, STREAM_HEAD, THROUGH_HEAD, WORK_HEAD, head, line, memory_line, stream_line,
    table_of_goals, through_line, work_line,
};
use crate::{
    BenchSize, MeasureError, MemoryRow, Row, StreamRow, UmdRow, WorkRow, measure, memory,
    streaming, umd_calls, work,
};

/// The results of a run.
#[derive(Clone, Debug)]
pub struct BenchReport {
    /// Pairs.
    pub rows: Vec<Row>,
    /// Video memory.
    pub memory: Vec<MemoryRow>,
    /// Scheduling and addresses.
    pub work: Vec<WorkRow>,
    /// User-mode drivers.
    pub through: Vec<UmdRow>,
    /// Streams.
    pub streams: Vec<StreamRow>,
}

/// Measures the selected rows and prints each table when it is complete.
pub fn bench(
    extent: &BenchSize,
    push_row: &mut dyn FnMut(&str),
) -> Result<BenchReport, MeasureError> {
    let mut first = true;
    let rows = measure::measure(extent, &mut |row| {
        if std::mem::take(&mut first) {
            push_row(&head(extent));
        }
        push_row(&line(row));
    })?;
    let mut first = true;
    let memory = memory::measure(extent, &mut |memory_row| {
        if std::mem::take(&mut first) {
            push_row(if rows.is_empty() { "" } else { "\n" });
            push_row(MEMORY_HEAD);
        }
        push_row(&memory_line(memory_row));
    })?;
    let mut first = true;
    let work = work::measure(extent, &mut |work_row| {
        if std::mem::take(&mut first) {
            push_row(if rows.is_empty() && memory.is_empty() { "" } else { "\n" });
            push_row(WORK_HEAD);
        }
        push_row(&work_line(work_row));
    })?;
    let mut first = true;
    let none = rows.is_empty() && memory.is_empty() && work.is_empty();
    let through = umd_calls::measure(extent, &mut |umd_row| {
        if std::mem::take(&mut first) {
            push_row(if none { "" } else { "\n" });
            push_row(THROUGH_HEAD);
        }
        push_row(&through_line(umd_row));
    })?;
    let mut first = true;
    let none = none && through.is_empty();
    let streams = streaming::measure(extent, &mut |stream_row| {
        if std::mem::take(&mut first) {
            push_row(if none { "" } else { "\n" });
            push_row(STREAM_HEAD);
        }
        push_row(&stream_line(stream_row));
    })?;
    if none && streams.is_empty() {
        return Err(MeasureError(
            "a row of that name; run without --only to see all names".to_owned(),
        ));
    }
    if !rows.is_empty() {
        push_row(&format!("\n{}", table_of_goals(&rows)));
    }
    Ok(BenchReport { rows, memory, work, through, streams })
}
