//! Finds the first difference of two traces.

use crate::Event;
use std::fmt;

/// The first line at which two traces differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the traces, the first line being 1; events start on line 2.
    pub line: usize,
    /// The first trace's line, if it is that long.
    pub left: Option<String>,
    /// The second trace's line, if it is that long.
    pub right: Option<String>,
}

/// Finds the first line in which two traces differ.
pub fn compare(left: &[Event], right: &[Event]) -> Option<Difference> {
    let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    if same == left.len() && same == right.len() {
        return None;
    }
    let line = |events: &[Event]| events.get(same).map(Event::to_string);
    Some(Difference { line: same + 2, left: line(left), right: line(right) })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "(the end)".into());
        let (left, right) = (side(&self.left), side(&self.right));
        write!(f, "line {} differs:\n- {left}\n+ {right}", self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &[&str]) -> Vec<Event> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    const A: &str = "1 t1 - process:1 process.opened";
    const B: &str = "2 t1 - process:1 process.ended";
    const C: &str = "2 t1 - process:2 process.opened";

    #[test]
    fn equal_traces_do_not_differ() {
        assert_eq!(compare(&events(&[A, B]), &events(&[A, B])), None);
        assert_eq!(compare(&[], &[]), None);
    }

    #[test]
    fn the_first_difference_is_shown_with_both_sides() {
        let difference = compare(&events(&[A, B]), &events(&[A, C])).unwrap();
        assert_eq!(difference.to_string(), format!("line 3 differs:\n- {B}\n+ {C}"));
        let shorter = compare(&events(&[A, B]), &events(&[A])).unwrap();
        assert_eq!(shorter.to_string(), format!("line 3 differs:\n- {B}\n+ (the end)"));
        assert_eq!(compare(&[], &events(&[A])).unwrap().line, 2);
    }
}
