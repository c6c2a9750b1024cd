//! Retirements, and the handle data that drivers have acquired.

use crate::base::id_list::{Id, Slab};
use crate::lifetime::handle_data::HandleDataReference;
use crate::lifetime::retire::Retirement;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The state of this folder.
#[derive(Default)]
pub(crate) struct LifetimeState {
    pub(crate) retirements: Slab<Retirement>,
    /// Idle retirements that wait for their permit.
    pub(crate) jobs: VecDeque<Id<Retirement>>,
    /// The running driver calls in which handle data was acquired.
    pub(crate) calls: BTreeSet<u32>,
    /// The handle data that drivers have acquired and not released.
    pub(crate) handle_data: BTreeMap<u32, HandleDataReference>,
    pub(crate) last_handle_data: u32,
}
