//! The nodes of all adapters: their numbers, and the recovery of those that timed out.

use crate::adapter::tdr::RecoveryAction;
use std::collections::VecDeque;

/// The state of this folder.
#[derive(Default)]
pub(crate) struct NodeState {
    /// Nodes that timed out, and the next recovery step of each.
    pub(crate) recoveries: VecDeque<RecoveryAction>,
    pub(crate) last_node: u32,
}
