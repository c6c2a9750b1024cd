//! `DxgkDdiDestroyAllocation`: what the kernel may hand to it, and what the driver gives back.
//!
//! A driver's word is usually the address of a pool block. Where it is, the block tells whether
//! the driver let go of what it was told to destroy, and not of more.

use crate::ddi::DESTROY_ALLOCATION;
use crate::rule::{Rule, Verdict};
use crate::shadow::{Block, Shadows, Word, call_of};
use flight::{Event, Irql, Kind, RuleId, Subject, What, Who};

/// The rules on `DxgkDdiDestroyAllocation`.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.destroys"], RuleId::KMD_DESTROY_001, once),
    Rule::on(&["word.ended"], RuleId::KMD_DESTROY_002, allocation_freed),
    Rule::on(&["ddi.destroys", "pool.damaged"], RuleId::KMD_DESTROY_003, not_reached),
    Rule::on(&["word.ended"], RuleId::KMD_DESTROY_004, resource_freed),
    Rule::on(&["pool.freed", "ddi.resource"], RuleId::KMD_DESTROY_005, resource_kept),
    Rule::on(&["ddi.resource"], RuleId::KMD_DESTROY_006, with_the_last),
    Rule::on(&["word.ended"], RuleId::KMD_DESTROY_007, empty_resource_freed),
    Rule::on(&["ddi.return"], RuleId::KMD_DESTROY_008, without_waiting),
    Rule::on(&["ddi.return"], RuleId::KMD_DESTROY_009, succeeds),
    Rule::on(&["ddi.call"], RuleId::KMD_DESTROY_010, passive),
    Rule::on(&["ddi.destroys"], RuleId::KMD_DESTROY_011, own_adapter),
];

const LIST: &str = "DxgkDdiDestroyAllocation, pAllocationList";
const RESOURCE: &str = "DxgkDdiDestroyAllocation, hResource";
const ADAPTER: &str = "DxgkDdiDestroyAllocation, hAdapter";
const FLAG: &str = "DxgkDdiDestroyAllocation, DestroyResource";

fn once(event: &Event, shadows: &Shadows) -> Verdict {
    let untold = shadows.allocation(event.subject).map(|it| it.told.is_none());
    Verdict::kept_if(untold == Some(true), Who::Kernel, LIST, || {
        let but = if untold.is_some() { "it was given to one before" } else { "it is not live" };
        format!("{} is given to {DESTROY_ALLOCATION}, but {but}", event.subject)
    })
}

fn own_adapter(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::DdiDestroys { adapter }, Some(allocation)) =
        (&event.what, shadows.allocation(event.subject))
    else {
        return Verdict::Aside;
    };
    Verdict::kept_if(*adapter == allocation.adapter, Who::Kernel, ADAPTER, || {
        format!(
            "{DESTROY_ALLOCATION} is called for {adapter} with {}, but that belongs to {}",
            event.subject, allocation.adapter
        )
    })
}

fn without_waiting(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(call) = shadows.call(event.subject).filter(|it| it.name == DESTROY_ALLOCATION) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(call.waited.is_none(), Who::Driver, DESTROY_ALLOCATION, || {
        let waited = call.waited.as_deref().unwrap_or_default();
        format!(
            "{} waited in {DESTROY_ALLOCATION} ({waited}), but what is destroyed there is used \
             by no work any more",
            event.subject
        )
    })
}

fn allocation_freed(event: &Event, shadows: &Shadows) -> Verdict {
    match event.what {
        What::WordEnded { of, .. } if of.kind == Kind::Allocation => {
            freed(of, shadows.word(event.subject), LIST, "hAllocation")
        }
        _ => Verdict::Aside,
    }
}

fn resource_freed(event: &Event, shadows: &Shadows) -> Verdict {
    match event.what {
        What::WordEnded { of, alone: false } if of.kind == Kind::Resource => {
            freed(of, shadows.word(event.subject), RESOURCE, "hResource")
        }
        _ => Verdict::Aside,
    }
}

fn empty_resource_freed(event: &Event, shadows: &Shadows) -> Verdict {
    match event.what {
        What::WordEnded { of, alone: true } if of.kind == Kind::Resource => {
            freed(of, shadows.word(event.subject), RESOURCE, "hResource")
        }
        _ => Verdict::Aside,
    }
}

/// Whether the block behind the word of something that ended is freed, if there was one.
fn freed(of: Subject, word: Option<&Word>, place: &'static str, handle: &str) -> Verdict {
    let Some(Block { bytes, tag, freed, leaked, .. }) = word.and_then(|word| word.block.as_ref())
    else {
        return Verdict::Aside;
    };
    if *leaked {
        return Verdict::Aside; // The call that should have freed it has crashed.
    }
    Verdict::kept_if(freed.is_some(), Who::Driver, place, || {
        format!(
            "{DESTROY_ALLOCATION} returned for {of}, but the pool block behind its {handle} \
             ({bytes} bytes, tag {tag}) is not freed"
        )
    })
}

fn not_reached(event: &Event, shadows: &Shadows) -> Verdict {
    if let What::PoolDamaged { offset } = event.what {
        let word = shadows.word(event.subject);
        let Some((of, block)) = word.and_then(|it| it.allocation.zip(it.block.as_ref())) else {
            return Verdict::Aside;
        };
        let place =
            shadows.call_of(event).map_or(DESTROY_ALLOCATION.into(), |call| call.name.clone());
        let Block { bytes, tag, .. } = block;
        return Verdict::Broken(
            Who::Driver,
            place,
            format!(
                "the pool block behind the hAllocation of {of} ({bytes} bytes, tag {tag}) was \
                 written to at offset {offset} after it was freed"
            ),
        );
    }
    let word = shadows.allocation(event.subject).and_then(|allocation| allocation.word);
    let word = shadows.word(word).filter(|word| word.block.is_some());
    let Some(word) = word else { return Verdict::Aside };
    let freed = word.freed();
    Verdict::kept_if(freed.is_none(), Who::Driver, LIST, || {
        let freed = freed.map_or("", |it| it);
        format!(
            "{DESTROY_ALLOCATION} is about to reach the data of {}, but the pool block behind \
             its hAllocation was freed before, in {freed}",
            event.subject
        )
    })
}

fn resource_kept(event: &Event, shadows: &Shadows) -> Verdict {
    let lost = |of: Subject, place: &flight::Text| {
        let message = format!(
            "{place} freed the pool block behind the hResource of {of}, but {of} was not to be \
             destroyed"
        );
        Verdict::Broken(Who::Driver, place.clone(), message)
    };
    if let What::DdiResource { word, .. } = event.what {
        let Some(word) = shadows.word(word).filter(|it| it.block.is_some()) else {
            return Verdict::Aside;
        };
        return word.freed().map_or(Verdict::Kept, |place| lost(event.subject, place));
    }
    let mut uses = shadows.word(event.subject).into_iter().flat_map(|word| &word.uses);
    let Some(it) = uses.find(|it| it.of.kind == Kind::Resource) else { return Verdict::Aside };
    // A call that lends the word may change it, and free the old block: then the next call
    // that carries the word tells.
    if it.lent_in.is_some() && it.lent_in == call_of(event) {
        return Verdict::Aside;
    }
    if it.ending {
        return Verdict::Kept;
    }
    lost(
        it.of,
        &shadows.call_of(event).map_or("ExFreePoolWithTag".into(), |call| call.name.clone()),
    )
}

fn with_the_last(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::DdiResource { goes: true, .. }, Some(resource)) =
        (&event.what, shadows.resource(event.subject))
    else {
        return Verdict::Aside;
    };
    let spared = resource.spared_by(call_of(event));
    Verdict::kept_if(spared == 0, Who::Kernel, FLAG, || {
        format!(
            "{DESTROY_ALLOCATION} ends {}, but {spared} of its allocations live and are not in \
             its list",
            event.subject
        )
    })
}

fn succeeds(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::DdiReturn { name, answer, .. } = &event.what else { return Verdict::Aside };
    // A crash is a finding of its own, and an absent entry gave no answer.
    if name != DESTROY_ALLOCATION || answer == "crashed" || answer == "absent" {
        return Verdict::Aside;
    }
    Verdict::kept_if(answer == "ok", Who::Driver, DESTROY_ALLOCATION, || {
        format!(
            "{DESTROY_ALLOCATION} answered {answer}, but what it was given is gone all the same: \
             it has to succeed"
        )
    })
}

fn passive(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::DdiCall { name, level, .. } = &event.what else { return Verdict::Aside };
    if name != DESTROY_ALLOCATION {
        return Verdict::Aside;
    }
    Verdict::kept_if(*level == Irql::Passive, Who::Kernel, DESTROY_ALLOCATION, || {
        format!("{DESTROY_ALLOCATION} is called at {level} level, but it is for passive level")
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    /// An allocation of a resource, each with a pool block behind its word.
    const BORN: &str = "call:1 ddi.call name=DxgkDdiCreateAllocation level=passive class=zero adapter=adapter:1 process=-
        c1 word:1 pool.taken bytes=64 tag=Wtun
        c1 word:2 pool.taken bytes=32 tag=Wtun
        call:1 ddi.return name=DxgkDdiCreateAllocation answer=ok legal=true
        word:2 word.given to=resource:1
        resource:1 resource.created adapter=adapter:1 device=device:1 sharing=none
        allocation:3 allocation.created adapter=adapter:1 device=device:1 resource=resource:1 size=1 pitch_size=0 alignment=0 given=0x00000000 seen=0x00000000
        word:1 word.given to=allocation:3\n";
    const CALL: &str = "call:2 ddi.call name=DxgkDdiDestroyAllocation level=passive class=zero adapter=adapter:1 process=-\n";
    const DESTROYS: &str = "c2 allocation:3 ddi.destroys adapter=adapter:1\n";
    const GOES: &str = "c2 resource:1 ddi.resource word=word:2 goes=true alone=false\n";
    const STAYS: &str = "c2 resource:1 ddi.resource word=word:2 goes=false alone=false\n";
    const RETURN: &str = "call:2 ddi.return name=DxgkDdiDestroyAllocation answer=ok legal=true\n";
    const FREED: &str = "c2 word:1 pool.freed\n";
    const RESOURCE_FREED: &str = "c2 word:2 pool.freed\n";
    const ENDED: &str = "word:1 word.ended of=allocation:3 alone=false\n";

    fn check(id: RuleId, steps: &[&str], expected: &[&str]) {
        let script = [&[BORN], steps].concat().concat();
        assert_eq!(said(id, &script), expected);
        assert_ne!(judged(id, &script), 0);
    }

    #[test]
    fn a_wait_for_another_thread_is_no_wait_for_the_gpu() {
        let waits = |name: &str, ended: &str| {
            let script = format!(
                "call:1 ddi.call name={name} level=passive class=zero adapter=adapter:1 process=-
                c1 call:1 driver.waited what=KeWaitForSingleObject ended=\"{ended}\"
                call:1 ddi.return name={name} answer=ok legal=true"
            );
            said(RuleId::KMD_DESTROY_008, &script)
        };
        assert!(waits("DxgkDdiDestroyAllocation", "set at passive").is_empty());
        assert!(waits("DxgkDdiCreateAllocation", "set at dispatch").is_empty());
        let named = waits("DxgkDdiDestroyAllocation", "set at dispatch");
        assert!(named[0].contains("(KeWaitForSingleObject, set at dispatch)"), "{named:?}");
        assert_eq!(waits("DxgkDdiDestroyAllocation", "timed out").len(), 1);
    }

    #[test]
    fn an_allocation_is_destroyed_once_by_its_adapter() {
        let (id, gone) = (RuleId::KMD_DESTROY_001, "allocation:3 allocation.gone\n");
        check(id, &[DESTROYS], &[]);
        let twice =
            "allocation 3 is given to DxgkDdiDestroyAllocation, but it was given to one before";
        check(id, &[DESTROYS, DESTROYS], &[twice]);
        let dead = "allocation 3 is given to DxgkDdiDestroyAllocation, but it is not live";
        check(id, &[DESTROYS, gone, DESTROYS], &[dead]);
        check(RuleId::KMD_DESTROY_011, &[DESTROYS], &[]);
        let other = "c2 allocation:3 ddi.destroys adapter=adapter:2";
        let wrong = "DxgkDdiDestroyAllocation is called for adapter 2 with allocation 3, but \
                     that belongs to adapter 1";
        check(RuleId::KMD_DESTROY_011, &[other], &[wrong]);
    }

    #[test]
    fn what_is_behind_a_handle_is_freed() {
        let id = RuleId::KMD_DESTROY_002;
        check(id, &[DESTROYS, FREED, ENDED], &[]);
        let kept = "DxgkDdiDestroyAllocation returned for allocation 3, but the pool block behind \
                    its hAllocation (64 bytes, tag Wtun) is not freed";
        check(id, &[DESTROYS, ENDED], &[kept]);
        let plain =
            "word:7 word.given to=allocation:9\nword:7 word.ended of=allocation:9 alone=false";
        assert_eq!(judged(id, plain), 0, "no block, no judgement");
        for (id, alone) in [(RuleId::KMD_DESTROY_004, false), (RuleId::KMD_DESTROY_007, true)] {
            let ended = format!("word:2 word.ended of=resource:1 alone={alone}");
            check(id, &[GOES, RESOURCE_FREED, &ended], &[]);
            let kept = "DxgkDdiDestroyAllocation returned for resource 1, but the pool block \
                        behind its hResource (32 bytes, tag Wtun) is not freed";
            check(id, &[GOES, &ended], &[kept]);
        }
    }

    #[test]
    fn freed_data_is_not_reached() {
        let id = RuleId::KMD_DESTROY_003;
        check(id, &[DESTROYS, FREED, ENDED], &[]);
        let early = "DxgkDdiDestroyAllocation is about to reach the data of allocation 3, but the \
                     pool block behind its hAllocation was freed before, in ExFreePoolWithTag";
        check(id, &[FREED, DESTROYS], &[early]);
        let damaged = "the pool block behind the hAllocation of allocation 3 (64 bytes, tag Wtun) \
                       was written to at offset 8 after it was freed";
        check(id, &[DESTROYS, FREED, ENDED, "word:1 pool.damaged offset=8"], &[damaged]);
    }

    #[test]
    fn a_resource_that_stays_is_kept() {
        let id = RuleId::KMD_DESTROY_005;
        check(id, &[CALL, DESTROYS, GOES, RESOURCE_FREED], &[]);
        let early = "DxgkDdiDestroyAllocation freed the pool block behind the hResource of \
                     resource 1, but resource 1 was not to be destroyed";
        check(id, &[CALL, DESTROYS, RESOURCE_FREED], &[early]);
        let goes = "c3 resource:1 ddi.resource word=word:2 goes=true alone=true";
        check(id, &[CALL, DESTROYS, STAYS, RESOURCE_FREED, RETURN, goes], &[early]);
        let changed = "word:4 word.given to=resource:1
            c3 resource:1 ddi.resource word=word:4 goes=true alone=true";
        check(id, &[CALL, DESTROYS, STAYS, RESOURCE_FREED, RETURN, changed], &[]);
    }

    #[test]
    fn a_resource_goes_with_the_last_of_it() {
        let id = RuleId::KMD_DESTROY_006;
        let gone = "allocation:3 allocation.gone\n";
        check(id, &[DESTROYS, GOES], &[]);
        check(id, &["c1 allocation:3 ddi.destroys adapter=adapter:1\n", gone, GOES], &[]);
        let left = "DxgkDdiDestroyAllocation ends resource 1, but 1 of its allocations live and \
                    are not in its list";
        check(id, &[GOES], &[left]);
        check(id, &["c1 allocation:3 ddi.destroys adapter=adapter:1\n", GOES], &[left]);
    }

    #[test]
    fn it_is_called_at_passive_level_and_succeeds() {
        check(RuleId::KMD_DESTROY_009, &[CALL, RETURN], &[]);
        check(RuleId::KMD_DESTROY_010, &[CALL, RETURN], &[]);
        let refused = RETURN.replace("=ok", "=no-memory");
        let no = "DxgkDdiDestroyAllocation answered no-memory, but what it was given is gone all \
                  the same: it has to succeed";
        check(RuleId::KMD_DESTROY_009, &[CALL, &refused], &[no]);
        let crashed = [CALL, &RETURN.replace("=ok", "=crashed")].concat();
        assert_eq!(judged(RuleId::KMD_DESTROY_009, &crashed), 0);
        let raised = CALL.replace("=passive", "=dispatch");
        let high =
            "DxgkDdiDestroyAllocation is called at dispatch level, but it is for passive level";
        check(RuleId::KMD_DESTROY_010, &[&raised], &[high]);
    }
}
