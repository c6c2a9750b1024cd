//! Pool memory: each block is freed once, is not written to afterwards, and none is leaked.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, Text, What, Who};

/// The rules on pool memory.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["pool.freed", "pool.misfreed"], RuleId::WT_POOL_001, once),
    Rule::on(&["pool.freed", "pool.damaged"], RuleId::WT_POOL_002, left_alone),
    Rule::on(&["pool.freed", "pool.left"], RuleId::WT_POOL_003, none_left),
];

fn once(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PoolMisfreed { why } = &event.what else { return Verdict::Kept };
    let block = describe(event, shadows);
    let message = format!("the driver gave back {block}, but could not: {why}");
    Verdict::Broken(Who::Driver, place(event, shadows), message)
}

fn left_alone(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PoolDamaged { offset } = &event.what else { return Verdict::Kept };
    // Data behind an allocation has a rule of its own.
    if shadows.word(event.subject).is_some_and(|word| word.allocation.is_some()) {
        return Verdict::Aside;
    }
    let block = describe(event, shadows);
    let message = format!("{block} was written to at offset {offset} after it was freed");
    Verdict::Broken(Who::Driver, place(event, shadows), message)
}

fn none_left(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PoolLeft {} = &event.what else { return Verdict::Kept };
    // One that was named where it should have been freed is not named again.
    let block = shadows.word(event.subject).and_then(|it| it.block.as_ref());
    if block.is_some_and(|it| it.leaked || it.added) {
        return Verdict::Aside;
    }
    let block = describe(event, shadows);
    let message = format!("{block} is still out, but its driver has ended");
    Verdict::Broken(Who::Driver, "DxgkDdiRemoveDevice".into(), message)
}

/// The block, with what is known of it.
fn describe(event: &Event, shadows: &Shadows) -> String {
    let block = shadows.word(event.subject).and_then(|word| word.block.as_ref());
    let size = block.map_or(String::new(), |it| format!(" ({} bytes, tag {})", it.bytes, it.tag));
    format!("pool block {}{size}", event.subject.number)
}

/// The DDI in which it happened or was noticed.
fn place(event: &Event, shadows: &Shadows) -> Text {
    shadows.call_of(event).map_or("ExFreePoolWithTag".into(), |call| call.name.clone())
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    const TAKEN: &str = "word:1 pool.taken bytes=64 tag=Wtun\n";
    const FREED: &str = "word:1 pool.freed\n";

    #[test]
    fn a_block_that_comes_back_keeps_all_three() {
        for id in [RuleId::WT_POOL_001, RuleId::WT_POOL_002, RuleId::WT_POOL_003] {
            let script = [TAKEN, FREED].concat();
            assert_eq!((said(id, &script).len(), judged(id, &script)), (0, 1));
        }
    }

    #[test]
    fn a_block_comes_back_once() {
        let twice = [TAKEN, FREED, "word:1 pool.misfreed why=\"it is free\""].concat();
        let no =
            "the driver gave back pool block 1 (64 bytes, tag Wtun), but could not: it is free";
        assert_eq!(said(RuleId::WT_POOL_001, &twice), [no]);
        assert_eq!(said(RuleId::WT_POOL_001, "word:0 pool.misfreed why=\"no block\"").len(), 1);
    }

    #[test]
    fn a_freed_block_is_left_alone() {
        let id = RuleId::WT_POOL_002;
        let damaged = "word:1 pool.damaged offset=8";
        let no = "pool block 1 (64 bytes, tag Wtun) was written to at offset 8 after it was freed";
        assert_eq!(said(id, &[TAKEN, FREED, damaged].concat()), [no]);
        let given = "word:1 word.given to=allocation:1\n";
        assert!(said(id, &[TAKEN, given, FREED, damaged].concat()).is_empty());
    }

    #[test]
    fn no_block_is_left() {
        let no = "pool block 1 (64 bytes, tag Wtun) is still out, but its driver has ended";
        assert_eq!(said(RuleId::WT_POOL_003, &[TAKEN, "word:1 pool.left"].concat()), [no]);
    }
}
