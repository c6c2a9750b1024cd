//! Renamed allocations: rules on instances, which the driver does not see, and on their number.

use crate::ddi::CREATE_ALLOCATION;
use crate::follow::decrement;
use crate::rule::{Rule, Verdict};
use crate::shadow::Instance;
use crate::shadow::Shadows;
use crate::shadow::memory::Memory;
use flight::{Component, Event, EventKind, RuleId};

const LOCK: &str = "D3DKMTLock";
const DISCARD: &str = "D3DKMTLock.Flags.Discard";

/// The rules on renaming.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["lock.renamed"], RuleId::ALLOC_LOCK_011, discard_allowed),
    Rule::on(
        &["instance.created", "paging.done", "leave"],
        RuleId::KMD_ALLOC_015,
        instance_handle_matches,
    )
    .in_entries(&[LOCK]),
    Rule::on(&["instance.created"], RuleId::KMD_ALLOC_016, instance_limit),
];

/// Events do not report primaries.
fn discard_allowed(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::LockRenamed { to, .. } = event.kind else { return Verdict::NotApplicable };
    let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
    let shared = shadows.resource(it.resource).is_some_and(|resource| resource.data.is_some());
    Verdict::holds_if(!it.requirements.pinned && !shared, Component::Kernel, DISCARD, || {
        let why = if shared { "shared" } else { "pinned" };
        format!("{} is {why}, and a lock with Discard shows {to} instead of it", it.allocation)
    })
}

fn instance_handle_matches(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::InstanceCreated { of, driver_handle, .. } => {
            let Some(known) =
                shadows.allocation(of).and_then(|allocation| allocation.driver_handle)
            else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(known == *driver_handle, Component::Kernel, CREATE_ALLOCATION, || {
                let it = event.subject;
                format!(
                    "{it} of {of} is {driver_handle} to its driver, which knows {of} as {known}"
                )
            })
        }
        EventKind::PagingDone { of, .. } => {
            let Some(it) = shadows.instance(of) else { return Verdict::NotApplicable };
            let Some(built) = it.built else { return Verdict::NotApplicable };
            Verdict::holds_if(
                built == it.driver_handle,
                Component::Kernel,
                "DxgkDdiBuildPagingBuffer",
                || {
                    let (allocation, driver_handle) = (it.allocation, it.driver_handle);
                    format!(
                        "{of} was paged as {built}, but its driver knows {allocation} as {driver_handle}"
                    )
                },
            )
        }
        EventKind::Leave { call, .. } if call == LOCK => {
            let client_call =
                shadows.process(event.subject).and_then(|process| process.call(event.thread));
            Verdict::holds_if(
                client_call.is_none_or(|call| !call.creates),
                Component::Kernel,
                LOCK,
                || format!("a lock of {} had {CREATE_ALLOCATION} called", event.subject),
            )
        }
        _ => Verdict::NotApplicable,
    }
}

fn instance_limit(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::InstanceCreated { of, count, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(limit) =
        shadows.allocation(of).and_then(|allocation| allocation.memory.instance_limit)
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(count <= limit, Component::Kernel, CREATE_ALLOCATION, || {
        format!(
            "{of} has {count} instances, but its driver set MaximumRenamingListLength to {limit}"
        )
    })
}

impl Shadows {
    pub(crate) fn follow_instance(&mut self, event: &Event) {
        if let EventKind::InstanceCreated { of, view, driver_handle, .. } = event.kind {
            let memory = Memory::default();
            let instance = Instance {
                allocation: of.into(),
                view: view.into(),
                driver_handle: driver_handle.into(),
                built: None,
                memory,
            };
            return self.start(event.subject, instance);
        }
        if self.follow_memory(event) {
            return;
        }
        match &event.kind {
            EventKind::LockRequested { do_not_evict: still, .. } => {
                self.with_memory(event.subject, |memory| memory.do_not_evict = *still);
            }
            EventKind::LockAcquired { location: place, .. } => self.note_lock(event.subject, place),
            EventKind::LockEnded { .. } => {
                self.with_memory(event.subject, |it| decrement(&mut it.locks));
            }
            EventKind::InstanceDestroyed {} => self.end(event.subject),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    const CREATED: &str = "driver-pointer:1 driver-handle.set of=allocation:1
        allocation:1 allocation.created adapter=adapter:1 device=device:1 resource=- size=4096 \
            pitch_size=0 alignment=4096 client_data=0x00000000 driver_data=0x00000000
        allocation:1 allocation.limited limit=2\n";

    fn created_line(driver_handle: u32, count: u32) -> String {
        format!(
            "{CREATED}instance:1 instance.created of=allocation:1 view=view:1 driver_handle=driver-pointer:{driver_handle} \
             count={count}"
        )
    }

    #[test]
    fn an_instance_is_the_same_to_its_driver() {
        let id = RuleId::KMD_ALLOC_015;
        assert_eq!(
            (messages(id, &created_line(1, 2)).len(), judge_count(id, &created_line(1, 2))),
            (0, 1)
        );
        assert_eq!(
            messages(id, &created_line(2, 2)),
            [
                "instance 1 of allocation 1 is driver-pointer 2 to its driver, which knows allocation 1 as driver-pointer 1"
            ]
        );
    }

    #[test]
    fn a_lock_has_nothing_created() {
        let id = RuleId::KMD_ALLOC_015;
        let lock = |ddi: &str| {
            format!(
                "process:1 enter call=D3DKMTLock
                call:1 ddi.call name={ddi} level=passive threading_level=level-0 adapter=adapter:1 \
                    process=process:1
                process:1 leave call=D3DKMTLock status=0x00000000"
            )
        };
        assert_eq!(judge_count(id, &lock("DxgkDdiBuildPagingBuffer")), 1);
        assert!(messages(id, &lock("DxgkDdiBuildPagingBuffer")).is_empty());
        assert_eq!(
            messages(id, &lock("DxgkDdiCreateAllocation")),
            ["a lock of process 1 had DxgkDdiCreateAllocation called"]
        );
    }

    #[test]
    fn there_are_no_more_than_a_driver_wants() {
        let id = RuleId::KMD_ALLOC_016;
        assert_eq!(
            (messages(id, &created_line(1, 2)).len(), judge_count(id, &created_line(1, 2))),
            (0, 1)
        );
        assert_eq!(
            messages(id, &created_line(1, 3)),
            ["allocation 1 has 3 instances, but its driver set MaximumRenamingListLength to 2"]
        );
    }
}
