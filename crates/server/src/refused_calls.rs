//! Calls of clients that were refused, for their report: notes with the reason, no findings.
//!
//! # Invariants
//!
//! 1. Calls of one place that were refused for one cause are one line: the same entry point, status and
//!    reason apart from its numbers.
//! 2. At most [`MAX_LINES`] lines are kept; further calls are counted.

use crate::call_site::{CallSite, CallSiteKey};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use thunk::RefusedCall;
use verify::plural;

/// The most lines of a report.
const MAX_LINES: usize = 64;

/// The refused calls that were observed.
#[derive(Default)]
pub(crate) struct RefusedCalls {
    /// In the order of their first calls.
    lines: Vec<RefusedCallLine>,
    /// The index of each line.
    known: BTreeMap<Cause, usize>,
    /// Calls whose causes have no line.
    others: u64,
}

/// What makes two refused calls one line.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    call: &'static str,
    status: i32,
    /// Without numbers.
    reason: String,
    call_site: CallSiteKey,
}

struct RefusedCallLine {
    /// Of the first call.
    call_site: Arc<CallSite>,
    refusal: RefusedCall,
    count: u64,
}

impl RefusedCalls {
    /// Adds a call.
    pub(crate) fn add(&mut self, call_site: Arc<CallSite>, refusal: RefusedCall) {
        let cause = Cause {
            call: call_site.call,
            status: refusal.status,
            reason: verify::cause(&refusal.reason),
            call_site: call_site.key(),
        };
        if let Some(index) = self.known.get(&cause) {
            self.lines[*index].count += 1;
        } else if self.lines.len() < MAX_LINES {
            self.known.insert(cause, self.lines.len());
            self.lines.push(RefusedCallLine { call_site, refusal, count: 1 });
        } else {
            self.others += 1;
        }
    }

    /// Writes the section of the report, if there is one. Writing to a String cannot fail.
    pub(crate) fn describe(&self, text: &mut String) {
        if !self.lines.is_empty() {
            text.push_str("\nrefused calls:\n");
        }
        for RefusedCallLine { call_site, refusal, count } in &self.lines {
            let RefusedCall { status, reason } = refusal;
            let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
            let number = || format!("{:#010X}", status.cast_unsigned());
            let status = abi::status::name(*status).map_or_else(number, str::to_owned);
            let _ = writeln!(text, "  {} returned {status}: {reason}{times}", call_site.call);
            for caller in call_site.callers() {
                let _ = writeln!(text, "    called by {caller}");
            }
        }
        if self.others > 0 {
            let others = plural(usize::try_from(self.others).unwrap_or(usize::MAX), "call");
            let _ = writeln!(text, "  and {others} for other reasons or from other places");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::status::STATUS_INVALID_PARAMETER;

    fn refusal(reason: &str) -> RefusedCall {
        RefusedCall { status: STATUS_INVALID_PARAMETER, reason: reason.to_owned() }
    }

    fn site(process: &str) -> Arc<CallSite> {
        Arc::new(CallSite::of_process("D3DKMTDestroyDevice", &Arc::from(process)))
    }

    fn text(calls: &RefusedCalls) -> String {
        let mut text = String::new();
        calls.describe(&mut text);
        text
    }

    #[test]
    fn calls_of_one_place_and_cause_are_one_line() {
        let mut calls = RefusedCalls::default();
        for handle in 1..=3 {
            let reason = format!("hDevice {handle:#x} was never published");
            calls.add(site("process 1 (a)"), refusal(&reason));
        }
        calls.add(site("process 2 (b)"), refusal("hDevice 0x9 was never published"));
        let unknown =
            RefusedCall { status: 0xC123_4567_u32.cast_signed(), reason: "a reason".into() };
        calls.add(site("process 1 (a)"), unknown);
        let expected = "
refused calls:
  D3DKMTDestroyDevice returned STATUS_INVALID_PARAMETER: hDevice 0x1 was never published (3 times)
    called by process 1 (a)
  D3DKMTDestroyDevice returned STATUS_INVALID_PARAMETER: hDevice 0x9 was never published
    called by process 2 (b)
  D3DKMTDestroyDevice returned 0xC1234567: a reason
    called by process 1 (a)
";
        assert_eq!(text(&calls), expected);
    }

    #[test]
    fn lines_are_bounded_and_the_rest_is_counted() {
        let mut calls = RefusedCalls::default();
        assert_eq!(text(&calls), "");
        for process in 0..MAX_LINES + 2 {
            calls.add(site(&format!("process {process} (a)")), refusal("a reason"));
        }
        calls.add(site("process 0 (a)"), refusal("a reason"));
        let text = text(&calls);
        assert_eq!(text.matches("returned").count(), MAX_LINES, "{text}");
        assert!(text.contains("a reason (2 times)"), "{text}");
        assert!(text.ends_with("  and 2 calls for other reasons or from other places\n"), "{text}");
    }
}
