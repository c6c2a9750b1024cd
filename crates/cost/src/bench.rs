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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_memory_is_measured() {
        let mut said = String::new();
        let mut count = |only: &str| {
            let extent = Extent { only: Some(only.to_owned()), ..Extent::quick() };
            let measured = bench(&extent, &mut |it| said.push_str(it)).unwrap();
            assert!(measured.memory.iter().all(|it| it.number > 0.0), "{measured:?}");
            (measured.rows.len(), measured.memory.len())
        };
        assert_eq!(count("a range placed"), (0, 2));
        assert_eq!(count("MakeResident"), (0, 6));
        assert_eq!(count("paging bandwidth"), (0, 3));
        assert_eq!(said.lines().filter(|it| it.starts_with("| video memory |")).count(), 3);
    }
}
