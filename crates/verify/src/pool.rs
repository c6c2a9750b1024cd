//! Pool memory: each block is freed once, is not written to afterwards, and none is leaked.

use crate::ddi::{REMOVE_DEVICE, UNLOAD};
use crate::rule::{Rule, Verdict};
use crate::shadow::{Block, DriverPointer, Shadows, in_functions};
use flight::{Component, Event, EventKind, RuleId, Text};

/// The rules on pool memory.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["pool.freed", "pool.bad-free"], RuleId::WT_POOL_001, freed_once),
    Rule::on(&["pool.freed", "pool.corrupted"], RuleId::WT_POOL_002, not_written_after_free),
    Rule::on(&["pool.freed", "pool.leaked"], RuleId::WT_POOL_003, nothing_leaked),
    Rule::on(&["pool.freed", "pool.overrun"], RuleId::WT_POOL_004, within_the_block),
];

fn freed_once(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PoolBadFree { why, caller } = &event.kind else { return Verdict::Holds };
    let block = describe(event, shadows);
    let message = match why.as_ref() {
        "it was freed before" => {
            let first = block_of(event, shadows)
                .map_or(String::new(), |block| in_functions(": first", &block.freed_by));
            let again = in_functions("; again", caller);
            format!("the driver freed {block} twice{first}{again}")
        }
        "no block starts there" => "the driver freed an address where no pool block starts".into(),
        why => format!("the driver freed {block}, but {why}"),
    };
    Verdict::broken(Component::Driver, ddi_of(event, shadows), message)
}

fn not_written_after_free(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PoolCorrupted { offset } = &event.kind else { return Verdict::Holds };
    // Data behind an allocation has a rule of its own.
    if shadows.driver_pointer(event.subject).is_some_and(DriverPointer::is_of_allocation) {
        return Verdict::NotApplicable;
    }
    let block = describe(event, shadows);
    let (argument, found) = written_place(event, shadows);
    let message = format!("{block} was written to at offset {offset} after it was freed{found}");
    Verdict::broken(Component::Driver, argument, message)
}

fn within_the_block(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PoolOverrun { distance, before, found } = &event.kind else {
        return Verdict::Holds;
    };
    let block = describe(event, shadows);
    let bytes = if *distance == 1 { "byte" } else { "bytes" };
    let side = if *before { "before the start" } else { "behind the end" };
    let call = shadows.call_of(event).map(|call| call.name.clone());
    let (argument, found) = match (&**found, call) {
        ("free", Some(call)) => (call.clone(), format!("when it was freed in {call}")),
        ("free", None) => ("ExFreePoolWithTag".into(), "when it was freed".to_owned()),
        ("unload", _) => (UNLOAD.into(), "when the driver was unloaded".to_owned()),
        (call, _) => (found.clone(), format!("when {call} had returned")),
    };
    let message = format!(
        "the driver wrote to the memory {distance} {bytes} {side} of {block}; found {found}"
    );
    Verdict::broken(Component::Driver, argument, message)
}

fn nothing_leaked(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PoolLeaked {} = &event.kind else { return Verdict::Holds };
    // A block reported where it should have been freed is not reported again.
    let block = block_of(event, shadows);
    if block.is_some_and(|block| block.leaked || block.is_added()) {
        return Verdict::NotApplicable;
    }
    // A block of `DxgkDdiUnload` is not overdue in `DxgkDdiRemoveDevice`.
    let allocated_in = block.and_then(|block| block.allocated_in.clone());
    let last = allocated_in.clone().filter(|name| name == UNLOAD).unwrap_or(REMOVE_DEVICE.into());
    let from = allocated_in.map_or(String::new(), |name| format!(", allocated during {name},"));
    let block = describe(event, shadows);
    let message = format!("{block}{from} was not freed before the driver was unloaded");
    Verdict::broken(Component::Driver, last, message)
}

/// The block and its known properties, as text.
fn describe(event: &Event, shadows: &Shadows) -> String {
    let details =
        block_of(event, shadows).map_or(String::new(), |block| format!(" ({})", block.details()));
    format!("pool block {}{details}", event.subject.number)
}

/// The block of an event.
fn block_of<'a>(event: &Event, shadows: &'a Shadows) -> Option<&'a Block> {
    shadows.driver_pointer(event.subject)?.block.as_deref()
}

/// Where a write to a freed block was made, as far as known: the call that freed the block, and the
/// call in which the write was found. The write was made between the two.
pub(crate) fn written_place(event: &Event, shadows: &Shadows) -> (Text, String) {
    let freed = shadows.driver_pointer(event.subject).and_then(DriverPointer::freed).cloned();
    let found = shadows.call_of(event).map(|call| call.name.clone());
    let by =
        block_of(event, shadows).map_or(String::new(), |block| in_functions(",", &block.freed_by));
    let freed_in = freed.as_ref().map_or(String::new(), |name| format!(" in {name}{by}"));
    let text = match &found {
        Some(found) if Some(found) == freed.as_ref() => format!("{freed_in}; found in this call"),
        Some(found) => format!("{freed_in}; found in {found}"),
        None => format!("{freed_in}; found when the next call had returned"),
    };
    (found.or(freed).unwrap_or("ExFreePoolWithTag".into()), text)
}

/// The DDI in which it happened or was noticed.
fn ddi_of(event: &Event, shadows: &Shadows) -> Text {
    shadows.call_of(event).map_or("ExFreePoolWithTag".into(), |call| call.name.clone())
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    const TAKEN: &str = "driver-pointer:1 pool.allocated bytes=64 tag=Wtun\n";
    const FREED: &str = "driver-pointer:1 pool.freed\n";
    const TAKEN_BY: &str = "driver-pointer:1 pool.allocated bytes=64 tag=Wtun \
                            caller=\"a, called by b, called by c\"\n";

    #[test]
    fn a_block_that_comes_back_keeps_all_three() {
        for id in [RuleId::WT_POOL_001, RuleId::WT_POOL_002, RuleId::WT_POOL_003] {
            let script = [TAKEN, FREED].concat();
            assert_eq!((messages(id, &script).len(), judge_count(id, &script)), (0, 1));
        }
    }

    #[test]
    fn a_block_comes_back_once() {
        let twice =
            [TAKEN, FREED, "driver-pointer:1 pool.bad-free why=\"it was freed before\""].concat();
        let no = "the driver freed pool block 1 (64 bytes, tag Wtun) twice";
        assert_eq!(messages(RuleId::WT_POOL_001, &twice), [no]);
        let twice = "driver-pointer:1 pool.freed caller=\"d, called by e, called by f\"\n\
                     driver-pointer:1 pool.bad-free why=\"it was freed before\" caller=\"g\"";
        let no = "the driver freed pool block 1 (64 bytes, tag Wtun, allocated in a, called by b) \
                  twice: first in d, called by e; again in g";
        assert_eq!(messages(RuleId::WT_POOL_001, &[TAKEN_BY, twice].concat()), [no]);
        assert_eq!(
            messages(RuleId::WT_POOL_001, "driver-pointer:0 pool.bad-free why=\"no block\"").len(),
            1
        );
    }

    #[test]
    fn a_freed_block_is_left_alone() {
        let id = RuleId::WT_POOL_002;
        let damaged = "driver-pointer:1 pool.corrupted offset=8";
        let no = "pool block 1 (64 bytes, tag Wtun) was written to at offset 8 after it was freed in ExFreePoolWithTag; \
                  found when the next call had returned";
        assert_eq!(messages(id, &[TAKEN, FREED, damaged].concat()), [no]);
        let given = "driver-pointer:1 driver-handle.set of=allocation:1\n";
        assert!(messages(id, &[TAKEN, given, FREED, damaged].concat()).is_empty());
    }

    #[test]
    fn bytes_next_to_a_block_are_left_alone() {
        let id = RuleId::WT_POOL_004;
        for (damage, place, found) in [
            ("distance=1 before=false found=free", "1 byte behind the end", "it was freed"),
            (
                "distance=4 before=true found=DxgkDdiEscape",
                "4 bytes before the start",
                "DxgkDdiEscape had returned",
            ),
            (
                "distance=9 before=false found=unload",
                "9 bytes behind the end",
                "the driver was unloaded",
            ),
        ] {
            let damaged = format!("driver-pointer:1 pool.overrun {damage}");
            let no = format!(
                "the driver wrote to the memory {place} of pool block 1 (64 bytes, tag Wtun, \
                 allocated in a, called by b); found when {found}"
            );
            assert_eq!(messages(id, &[TAKEN_BY, &damaged].concat()), [no]);
        }
        assert_eq!(judge_count(id, &[TAKEN, FREED].concat()), 1);
    }

    #[test]
    fn no_block_is_left() {
        let no = "pool block 1 (64 bytes, tag Wtun) was not freed before the driver was unloaded";
        assert_eq!(
            messages(RuleId::WT_POOL_003, &[TAKEN, "driver-pointer:1 pool.leaked"].concat()),
            [no]
        );
    }
}
