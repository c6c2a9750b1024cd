//! Patterns in outputs: they show which member a driver has not written.
//!
//! Before a call, an output that the driver must write has one of two patterns. An output that has
//! it after the call was not written, or the driver wrote this very value. So a query, which can be
//! repeated, is repeated with the other pattern, and only what has both was not written. Other calls
//! have the patterns by turns, in outputs of four bytes and more.
//!
//! Structures whose bit fields a driver sets one by one, such as capabilities, have no pattern: a
//! driver may rely on zeros there, because no page says what they contain.

use crate::door::Door;
use crate::query::judge;
use abi::HANDLE;
use flight::RuleId;
use std::ptr;

/// What an output contains before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    First,
    Second,
}

/// An output of a call that can have a pattern.
pub(crate) trait Pattern: PartialEq {
    fn of_bytes(byte: u8) -> Self;
}

macro_rules! patterns {
    ($($number:ty),*) => { $(
        impl Pattern for $number {
            fn of_bytes(byte: u8) -> Self {
                Self::from_ne_bytes([byte; size_of::<Self>()])
            }
        }
    )* };
}

patterns! { u8, i32, u32, u64 }

impl Pattern for HANDLE {
    fn of_bytes(byte: u8) -> Self {
        // An address that faults when it is accessed.
        ptr::without_provenance_mut(usize::from_ne_bytes([byte; size_of::<usize>()]))
    }
}

impl Fill {
    /// The pattern with this number.
    pub(crate) fn numbered(number: u64) -> Self {
        if number.count_ones().is_multiple_of(2) { Self::First } else { Self::Second }
    }

    fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// Each byte of the pattern. The two have no bit in common.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::First => 0xa5,
            Self::Second => 0x5a,
        }
    }

    /// An output with this pattern.
    pub(crate) fn value<T: Pattern>(self) -> T {
        T::of_bytes(self.byte())
    }

    /// Whether an output has this pattern.
    pub(crate) fn is_in<T: Pattern>(self, output: &T) -> bool {
        *output == self.value()
    }

    /// Makes a query that can be repeated, with this pattern in its outputs. Returns what the query
    /// returned, and the names of the outputs that it has not written.
    ///
    /// `unset` returns the names of the outputs that have a pattern; none if the query failed.
    pub(crate) fn query<A>(
        self,
        mut query: impl FnMut(Self) -> A,
        unset: impl Fn(&A, Self) -> Vec<&'static str>,
    ) -> (A, Vec<&'static str>) {
        let answer = query(self);
        let mut names = unset(&answer, self);
        if !names.is_empty() {
            let again = unset(&query(self.other()), self.other());
            names.retain(|name| again.contains(name));
        }
        (answer, names)
    }
}

/// Entry rule: a call that succeeds has written the outputs that its page says it returns. Returns
/// whether the rule holds.
pub(crate) fn judge_outputs(door: &Door, call: &'static str, unset: &[&str]) -> bool {
    let broken = (!unset.is_empty())
        .then(|| format!("{call} succeeded, but has not set {}", unset.join(" and ")));
    judge(door.services(), RuleId::WT_BUFFER_002, call, broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries an output that the driver writes with `write`.
    fn unset(first: Fill, write: impl Fn(&mut u32)) -> (usize, Vec<&'static str>) {
        let mut calls = 0;
        let query = |fill: Fill| {
            calls += 1;
            let mut output = fill.value();
            write(&mut output);
            output
        };
        let names = |output: &u32, fill: Fill| {
            if fill.is_in(output) { vec!["Output"] } else { Vec::new() }
        };
        let (_, names) = first.query(query, names);
        (calls, names)
    }

    #[test]
    fn an_output_that_was_not_written_is_named() {
        for fill in [Fill::First, Fill::Second] {
            assert_eq!(unset(fill, |_| ()), (2, vec!["Output"]));
            assert_eq!(unset(fill, |output| *output = 0), (1, vec![]));
        }
    }

    #[test]
    fn a_value_that_equals_a_pattern_was_written() {
        for fill in [Fill::First, Fill::Second] {
            for value in [Fill::First, Fill::Second].map(Fill::value) {
                assert_eq!(unset(fill, |output| *output = value).1, Vec::<&str>::new());
            }
        }
    }

    #[test]
    fn both_patterns_have_their_turns() {
        let first = |number: &u64| Fill::numbered(*number) == Fill::First;
        assert_eq!((0..64).filter(first).count(), 32);
        assert_eq!(Fill::First.byte() & Fill::Second.byte(), 0);
    }
}
