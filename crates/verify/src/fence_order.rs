//! A driver reports the fences submitted to it, in order, each once.
//!
//! WINDOWS: bug check 0x119, parameter 1 = 1: documented for an invalid fence, observed for a wrong
//! order. That a repeated one breaks it too is our reading.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

/// Judges each report by the fences submitted to the node.
pub(crate) static RULES: &[Rule] =
    &[Rule::on(&["fence.reported"], RuleId::KMD_ISR_008, fence_order)];

fn fence_order(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::FenceReported { fence } = event.kind else { return Verdict::NotApplicable };
    let due = shadows.node(event.subject).map(|node| &node.fences);
    let but = match due.and_then(|node_fences| {
        Some((node_fences, node_fences.last_done?, node_fences.last_submitted()?))
    }) {
        Some((due, ..)) if due.is_in_order(fence) => return Verdict::Holds,
        Some((_, done, last)) => format!("has done {done} and was given up to {last}"),
        None => "was given no work".into(),
    };
    let message = format!("{} reported fence {fence}, but {but}", event.subject);
    Verdict::broken(Component::Driver, "DxgkCbNotifyInterrupt, SubmissionFenceId".into(), message)
}

#[cfg(test)]
mod tests {
    use flight::RuleId;

    /// Flies a script and returns the findings. `+3` submits fence 3 to node 0, `-3` reports it;
    /// `1:-3` is node 1.
    fn fly(script: &str) -> Vec<String> {
        let line = |driver_handle: &str| {
            let (node, step) = driver_handle.split_once(':').unwrap_or(("0", driver_handle));
            let (given, fence) = step.split_at(1);
            match given {
                "+" => {
                    format!("context:1 packet.submitted packet=1 node=node:{node} fence={fence}\n")
                }
                _ => format!("node:{node} fence.reported fence={fence}\n"),
            }
        };
        let lines: String = script.split_whitespace().map(line).collect();
        let lines = format!("context:1 context.created device=device:1 node=node:0\n{lines}");
        crate::script::messages(RuleId::KMD_ISR_008, &lines)
    }

    #[test]
    fn in_order_is_quiet() {
        assert!(fly("+1 +2 -1 -2").is_empty());
        assert!(fly("+1 +2 +3 -3").is_empty(), "a report stands for those before it");
        assert!(fly("+4294967295 +0 +1 -4294967295 -1").is_empty(), "fences wrap");
    }

    #[test]
    fn out_of_order_is_named() {
        let done_0 = "node 0 reported fence 7, but has done 0 and was given up to 1";
        let done_2 = "node 0 reported fence 1, but has done 2 and was given up to 2";
        assert_eq!(fly("+1 -7 -7 -1"), [done_0; 2], "a false report moves nothing");
        assert_eq!(fly("+1 +2 -2 -1"), [done_2]);
        assert_eq!(fly("+1 1:-1"), ["node 1 reported fence 1, but was given no work"]);
    }
}
