//! What a driver owes when its device goes.

use crate::device::Inner;
use crate::ledger::{Group, Ledger};
use flight::RuleId;

impl Inner {
    /// Judges what is left of a device that the driver has destroyed.
    pub(crate) fn judge_left(&self, name: &'static str) {
        let ledger = self.ledger();
        let locked = ledger.pieces.iter().filter(|(_, it)| it.locks > 0);
        let locked = locked.min_by_key(|(handle, _)| **handle);
        let broken = locked.map(|(handle, it)| {
            format!(
                "allocation {handle:#x} was locked {} times more than it was unlocked",
                it.locks
            )
        });
        self.judge(RuleId::UMD_LOCK_003, "pfnLockCb.hAllocation", broken);
        for group in ledger.groups.values() {
            self.judge_group(name, group);
        }
        self.judge(RuleId::UMD_DESTROY_013, name, left(&ledger));
    }

    /// Judges what is left of shared resources that are dropped, after a flush: others wait for it.
    pub(crate) fn judge_flushed(&self, name: &'static str) {
        let ledger = self.ledger();
        let left = ledger.dropped().find(|it| it.is_shared());
        let broken = left.map(|it| {
            let about = it.subject;
            format!("{about} is shared and was dropped, and a flush has not freed it")
        });
        self.judge(RuleId::UMD_DESTROY_002, name, broken);
    }

    /// Judges what is left of a resource: nothing, if it was released as one.
    pub(crate) fn judge_group(&self, name: &'static str, group: &Group) {
        let (alive, all) = (group.members.len(), group.surfaces.list.len());
        let (whole, freed) = (group.kernel != 0, group.listed);
        let about = group.subject;
        let never = (alive > 0 && freed == 0)
            .then(|| format!("{about} was dropped, and its {alive} allocations were not freed"));
        self.judge(RuleId::UMD_DESTROY_002, name, never);
        let partly = (alive > 0 && freed > 0).then(|| {
            format!("{alive} of the {all} allocations of {about} are left, others are freed")
        });
        self.judge(RuleId::UMD_DESTROY_005, name, partly);
        let bare = whole && alive == 0;
        let said =
            || format!("all allocations of {about} were freed by list, its hResource was not");
        self.judge(RuleId::UMD_DESTROY_006, name, (bare && freed == 1).then(said));
        self.judge(RuleId::UMD_DESTROY_007, name, (bare && freed > 1).then(said));
    }
}

/// What is left besides resources, in words.
fn left(ledger: &Ledger) -> Option<String> {
    let alone = ledger.pieces.values().filter(|it| it.group.is_none()).count();
    let counts = [
        (alone, "allocations without a resource"),
        (ledger.contexts.len(), "contexts"),
        (ledger.queues.len(), "paging queues"),
        (ledger.objects.len(), "synchronisation objects"),
    ];
    let left: Vec<String> = counts
        .iter()
        .filter(|it| it.0 > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!left.is_empty()).then(|| format!("the device is destroyed, and has {} left", left.join(", ")))
}
