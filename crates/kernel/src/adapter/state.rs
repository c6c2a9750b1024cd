//! The state of this folder: the numbers of nodes, and the recovery of nodes that timed out.
//!
//! # Invariants
//!
//! 1. A recovery action is queued at most once, and an adapter has at most one reset queued.
//! 2. The number of a node is not used again, also not by another adapter.

use crate::adapter::start::Adapter;
use crate::adapter::tdr::RecoveryAction;
use crate::base::id_list::Id;
use std::collections::VecDeque;

/// The nodes of all adapters.
#[derive(Default)]
pub(crate) struct NodeState {
    /// Nodes that timed out, and the next recovery step of each.
    pub(super) recoveries: VecDeque<RecoveryAction>,
    /// How many nodes have been numbered.
    pub(super) last_node: u32,
}

impl NodeState {
    /// Whether a recovery action waits to be performed.
    pub(crate) fn has_recoveries(&self) -> bool {
        !self.recoveries.is_empty()
    }

    /// Whether a reset of an adapter is queued.
    pub(crate) fn is_reset_queued(&self, adapter: Id<Adapter>) -> bool {
        self.recoveries.iter().any(|action| match action {
            RecoveryAction::ResetAdapter(number, _) => *number == adapter,
            RecoveryAction::QueryFence(..)
            | RecoveryAction::CheckPreemption(..)
            | RecoveryAction::ResetNode(..) => false,
        })
    }
}
