//! The whole run: the table of pairs, that of memory, that of scheduling and addresses, that of
//! user-mode drivers, that of streams, the goals of pairs.

use crate::page::{
    MEMORY_HEAD, STREAM_HEAD, THROUGH_HEAD, WORK_HEAD, head, line, memory_line, stream_line,
    table_of_goals, through_line, work_line,
};
use crate::{
    Extent, MemoryRow, NotMeasured, Row, StreamRow, ThroughRow, WorkRow, measure, memory,
    streaming, through, work,
};

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Pairs.
    pub rows: Vec<Row>,
    /// Video memory.
    pub memory: Vec<MemoryRow>,
    /// Scheduling and addresses.
    pub work: Vec<WorkRow>,
    /// User-mode drivers.
    pub through: Vec<ThroughRow>,
    /// Streams.
    pub streams: Vec<StreamRow>,
}

/// Measures what is asked for, and says the tables as they come.
pub fn bench(extent: &Extent, say: &mut dyn FnMut(&str)) -> Result<Measured, NotMeasured> {
    let mut first = true;
    let rows = measure::measure(extent, &mut |it| {
        if std::mem::take(&mut first) {
            say(&head(extent));
        }
        say(&line(it));
    })?;
    let mut first = true;
    let memory = memory::measure(extent, &mut |it| {
        if std::mem::take(&mut first) {
            say(if rows.is_empty() { "" } else { "\n" });
            say(MEMORY_HEAD);
        }
        say(&memory_line(it));
    })?;
    let mut first = true;
    let work = work::measure(extent, &mut |it| {
        if std::mem::take(&mut first) {
            say(if rows.is_empty() && memory.is_empty() { "" } else { "\n" });
            say(WORK_HEAD);
        }
        say(&work_line(it));
    })?;
    let mut first = true;
    let none = rows.is_empty() && memory.is_empty() && work.is_empty();
    let through = through::measure(extent, &mut |it| {
        if std::mem::take(&mut first) {
            say(if none { "" } else { "\n" });
            say(THROUGH_HEAD);
        }
        say(&through_line(it));
    })?;
    let mut first = true;
    let none = none && through.is_empty();
    let streams = streaming::measure(extent, &mut |it| {
        if std::mem::take(&mut first) {
            say(if none { "" } else { "\n" });
            say(STREAM_HEAD);
        }
        say(&stream_line(it));
    })?;
    if none && streams.is_empty() {
        return Err(NotMeasured("a row of that name; without --only it names them all".to_owned()));
    }
    if !rows.is_empty() {
        say(&format!("\n{}", table_of_goals(&rows)));
    }
    Ok(Measured { rows, memory, work, through, streams })
}
