//! Renamed allocations: rules on instances, which the driver does not see, and on their number.

use crate::ddi::CREATE_ALLOCATION;
use crate::follow::less;
use crate::rule::{Rule, Verdict};
use crate::shadow::Instance;
use crate::shadow::Shadows;
use crate::shadow::memory::Memory;
use flight::{Event, RuleId, What, Who};

const LOCK: &str = "D3DKMTLock";
const DISCARD: &str = "D3DKMTLock.Flags.Discard";

/// The rules on renaming.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["lock.renamed"], RuleId::ALLOC_LOCK_011, may_be_renamed),
    Rule::on(&["instance.made", "paging.done", "leave"], RuleId::KMD_ALLOC_015, of_one_word),
    Rule::on(&["instance.made"], RuleId::KMD_ALLOC_016, within_the_limit),
];

/// Of primaries nothing is said in events.
fn may_be_renamed(event: &Event, shadows: &Shadows) -> Verdict {
    let What::LockRenamed { to, .. } = event.what else { return Verdict::Aside };
    let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
    let shared = shadows.resource(it.resource).is_some_and(|it| it.data.is_some());
    Verdict::kept_if(!it.wanted.pinned && !shared, Who::Kernel, DISCARD, || {
        let why = if shared { "shared" } else { "pinned" };
        format!("{} is {why}, and a lock with Discard shows {to} instead of it", it.allocation)
    })
}

fn of_one_word(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::InstanceMade { of, word, .. } => {
            let Some(known) = shadows.allocation(of).and_then(|it| it.word) else {
                return Verdict::Aside;
            };
            Verdict::kept_if(known == *word, Who::Kernel, CREATE_ALLOCATION, || {
                let it = event.subject;
                format!("{it} of {of} is {word} to its driver, which knows {of} as {known}")
            })
        }
        What::PagingDone { of, .. } => {
            let Some(it) = shadows.instance(of) else { return Verdict::Aside };
            let Some(built) = it.built else { return Verdict::Aside };
            Verdict::kept_if(built == it.word, Who::Kernel, "DxgkDdiBuildPagingBuffer", || {
                let (allocation, word) = (it.allocation, it.word);
                format!("{of} was paged as {built}, but its driver knows {allocation} as {word}")
            })
        }
        What::Leave { call, .. } if call == LOCK => {
            let asked = shadows.process(event.subject).and_then(|it| it.call(event.thread));
            Verdict::kept_if(asked.is_none_or(|it| !it.creates), Who::Kernel, LOCK, || {
                format!("a lock of {} had {CREATE_ALLOCATION} called", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}

fn within_the_limit(event: &Event, shadows: &Shadows) -> Verdict {
    let What::InstanceMade { of, count, .. } = event.what else { return Verdict::Aside };
    let Some(most) = shadows.allocation(of).and_then(|it| it.limit) else { return Verdict::Aside };
    Verdict::kept_if(count <= most, Who::Kernel, CREATE_ALLOCATION, || {
        format!(
            "{of} has {count} instances, but its driver set MaximumRenamingListLength to {most}"
        )
    })
}

impl Shadows {
    pub(crate) fn follow_instance(&mut self, event: &Event) {
        if let What::InstanceMade { of, view, word, .. } = event.what {
            let memory = Memory::default();
            let instance = Instance {
                allocation: of.into(),
                view: view.into(),
                word: word.into(),
                built: None,
                memory,
            };
            return self.start(event.subject, instance);
        }
        if self.follow_memory(event) {
            return;
        }
        match &event.what {
            What::LockAsked { still, .. } => {
                self.with_memory(event.subject, |it| it.still = *still);
            }
            What::LockTaken { place, .. } => self.lock_taken(event.subject, place),
            What::LockEnded { .. } => self.with_memory(event.subject, |it| less(&mut it.locks)),
            What::InstanceGone {} => self.end(event.subject),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    const CREATED: &str = "word:1 word.given to=allocation:1
        allocation:1 allocation.created adapter=adapter:1 device=device:1 resource=- size=4096 \
            pitch_size=0 alignment=4096 given=0x00000000 seen=0x00000000
        allocation:1 allocation.limited most=2\n";

    fn made(word: u32, count: u32) -> String {
        format!(
            "{CREATED}instance:1 instance.made of=allocation:1 view=view:1 word=word:{word} \
             count={count}"
        )
    }

    #[test]
    fn an_instance_is_the_same_to_its_driver() {
        let id = RuleId::KMD_ALLOC_015;
        assert_eq!((said(id, &made(1, 2)).len(), judged(id, &made(1, 2))), (0, 1));
        assert_eq!(
            said(id, &made(2, 2)),
            [
                "instance 1 of allocation 1 is word 2 to its driver, which knows allocation 1 as word 1"
            ]
        );
    }

    #[test]
    fn a_lock_has_nothing_created() {
        let id = RuleId::KMD_ALLOC_015;
        let lock = |ddi: &str| {
            format!(
                "process:1 enter call=D3DKMTLock
                call:1 ddi.call name={ddi} level=passive class=level-0 adapter=adapter:1 \
                    process=process:1
                process:1 leave call=D3DKMTLock status=0x00000000"
            )
        };
        assert_eq!(judged(id, &lock("DxgkDdiBuildPagingBuffer")), 1);
        assert!(said(id, &lock("DxgkDdiBuildPagingBuffer")).is_empty());
        assert_eq!(
            said(id, &lock("DxgkDdiCreateAllocation")),
            ["a lock of process 1 had DxgkDdiCreateAllocation called"]
        );
    }

    #[test]
    fn there_are_no_more_than_a_driver_wants() {
        let id = RuleId::KMD_ALLOC_016;
        assert_eq!((said(id, &made(1, 2)).len(), judged(id, &made(1, 2))), (0, 1));
        assert_eq!(
            said(id, &made(1, 3)),
            ["allocation 1 has 3 instances, but its driver set MaximumRenamingListLength to 2"]
        );
    }
}
