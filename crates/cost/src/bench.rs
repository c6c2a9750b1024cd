//! The whole run: the table of pairs, the table of memory, the goals of pairs.

use crate::page::{MEMORY_HEAD, head, line, memory_line, table_of_goals};
use crate::{Extent, MemoryRow, NotMeasured, Row, measure, memory};

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Pairs.
    pub rows: Vec<Row>,
    /// Video memory.
    pub memory: Vec<MemoryRow>,
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
    if rows.is_empty() && memory.is_empty() {
        return Err(NotMeasured("a row of that name; without --only it names them all".to_owned()));
    }
    if !rows.is_empty() {
        say(&format!("\n{}", table_of_goals(&rows)));
    }
    Ok(Measured { rows, memory })
}
