//! Judges leaks: what a driver has not freed when its device is destroyed.

use crate::device::DeviceState;
use crate::ledger::{Ledger, ResourceEntry};
use flight::RuleId;

impl DeviceState {
    /// Judges what is left of a device that the driver has destroyed.
    pub(crate) fn judge_leaks(&self, name: &'static str) {
        let ledger = self.ledger();
        let locked = ledger.allocations.iter().filter(|(_, it)| it.locks > 0);
        let locked = locked.min_by_key(|(handle, _)| **handle);
        let broken = locked.map(|(handle, it)| {
            format!(
                "allocation {handle:#x} was locked {} times more than it was unlocked",
                it.locks
            )
        });
        self.judge(RuleId::UMD_LOCK_003, "pfnLockCb.hAllocation", broken);
        for group in ledger.resources.values() {
            self.judge_resource_leaks(name, group);
        }
        self.judge(RuleId::UMD_DESTROY_013, name, describe_leaks(&ledger));
    }

    /// Judges what is left of destroyed shared resources after a flush: other processes wait for
    /// it.
    pub(crate) fn judge_shared_leaks(&self, name: &'static str) {
        let ledger = self.ledger();
        let left = ledger.destroyed_not_freed().find(|resource_entry| resource_entry.is_shared());
        let broken = left.map(|resource_entry| {
            let about = resource_entry.subject;
            format!("{about} is shared and was destroyed, and a flush has not freed it")
        });
        self.judge(RuleId::UMD_DESTROY_002, name, broken);
    }

    /// Judges what is left of a resource. A resource that was freed as a whole leaves nothing.
    pub(crate) fn judge_resource_leaks(&self, name: &'static str, group: &ResourceEntry) {
        let (alive, all) = (group.members.len(), group.surfaces.surfaces.len());
        let (whole, freed) = (group.kernel_handle != 0, group.list_free_count);
        let about = group.subject;
        let never = (alive > 0 && freed == 0)
            .then(|| format!("{about} was destroyed, and its {alive} allocations are not freed"));
        self.judge(RuleId::UMD_DESTROY_002, name, never);
        let partly = (alive > 0 && freed > 0).then(|| {
            format!("{alive} of the {all} allocations of {about} are left, others are freed")
        });
        self.judge(RuleId::UMD_DESTROY_005, name, partly);
        let bare = whole && alive == 0;
        let broken =
            || format!("all allocations of {about} were freed by list, its hResource was not");
        self.judge(RuleId::UMD_DESTROY_006, name, (bare && freed == 1).then(broken));
        self.judge(RuleId::UMD_DESTROY_007, name, (bare && freed > 1).then(broken));
    }
}

/// Describes the leaked objects other than resources.
fn describe_leaks(ledger: &Ledger) -> Option<String> {
    let alone = ledger
        .allocations
        .values()
        .filter(|allocation_entry| allocation_entry.resource.is_none())
        .count();
    let counts = [
        (alone, "allocations without a resource"),
        (ledger.contexts.len(), "contexts"),
        (ledger.queues.len(), "paging queues"),
        (ledger.objects.len(), "synchronization objects"),
    ];
    let left: Vec<String> = counts
        .iter()
        .filter(|pair| pair.0 > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!left.is_empty()).then(|| format!("the device is destroyed, and has {} left", left.join(", ")))
}
