//! One DPC of an adapter is pending at a time.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::{Adapter, Shadows};
use flight::{Component, Event, EventKind, RuleId};

/// The history rules on interrupts; the others are judged where drivers report.
pub(crate) static RULES: &[Rule] =
    &[Rule::on(&["dpc.queued", "ddi.call"], RuleId::KMD_ISR_012, one_dpc).of(&[ddi::DPC])];

fn one_dpc(event: &Event, shadows: &Shadows) -> Verdict {
    let pending = |adapter| shadows.adapter(adapter).is_some_and(|adapter: &Adapter| adapter.dpc);
    let (broken, adapter) = match &event.kind {
        EventKind::DpcQueued { inserted: fresh } => {
            (*fresh && pending(event.subject), event.subject)
        }
        EventKind::DdiCall { name, adapter, .. } if name == ddi::DPC => {
            (!pending(*adapter), *adapter)
        }
        _ => return Verdict::NotApplicable,
    };
    let message = match event.kind {
        EventKind::DpcQueued { .. } => {
            "was requested to queue its DPC while one is pending, and queued another"
        }
        _ => "has its DPC called, but it was not requested since the last one",
    };
    Verdict::holds_if(!broken, Component::Kernel, "DxgkCbQueueDpc", || {
        format!("{adapter} {message}")
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    const ID: RuleId = RuleId::KMD_ISR_012;

    fn queued(fresh: bool) -> String {
        format!("adapter:1 dpc.queued inserted={fresh}\n")
    }

    fn dpc(call: u32) -> String {
        format!(
            "call:{call} ddi.call name=DxgkDdiDpcRoutine level=dispatch threading_level=none \
             adapter=adapter:1 process=-\n"
        )
    }

    #[test]
    fn a_further_request_does_nothing() {
        let good = [queued(true), queued(false), dpc(1), queued(true), dpc(2)].concat();
        assert!(messages(ID, &good).is_empty());
        assert_eq!(judge_count(ID, &good), 5);
        assert_eq!(
            messages(ID, &[queued(true), queued(true)].concat()),
            ["adapter 1 was requested to queue its DPC while one is pending, and queued another"]
        );
        assert_eq!(
            messages(ID, &[queued(true), queued(false), dpc(1), dpc(2)].concat()),
            ["adapter 1 has its DPC called, but it was not requested since the last one"]
        );
    }
}
