//! The state of this folder: retirements, the handle data that drivers have acquired, and the
//! display sources that devices own.
//!
//! # Invariants
//!
//! 1. The views that a retirement ends exist ([`LifetimeState::validate`] checks this).
//! 2. A retirement in `jobs` is idle. It waits for its permit, for paging work, or for the release
//!    of handle data.
//! 3. A call in `calls` is running. Handle data that was acquired in it may be released before it
//!    returns; handle data of a call that is not in `calls` was kept beyond the call.
//! 4. The number of a handle data reference is not used again.
//! 5. A device that owns a display source or has a limit of presents exists.

use crate::base::id_list::{Id, Slab};
use crate::lifetime::device::Device;
use crate::lifetime::handle_data::HandleDataReference;
use crate::lifetime::nt_object::NtState;
use crate::lifetime::ownership::SourceOwner;
use crate::lifetime::retire::Retirement;
use crate::objects::view::View;
use flight::Subject;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Lifetimes, of all devices.
#[derive(Default)]
pub(crate) struct LifetimeState {
    pub(super) retirements: Slab<Retirement>,
    /// Idle retirements that wait to be run.
    pub(super) jobs: VecDeque<Id<Retirement>>,
    /// The running driver calls in which handle data was acquired.
    pub(super) calls: BTreeSet<u32>,
    /// The handle data that drivers have acquired and not released.
    pub(super) handle_data: BTreeMap<u32, HandleDataReference>,
    /// The last number of a handle data reference.
    pub(super) last_handle_data: u32,
    /// The display sources that devices own, in the order in which they were acquired.
    pub(super) source_owners: Vec<SourceOwner>,
    /// The devices whose clients have limited their queued presents.
    pub(super) present_limits: BTreeMap<Id<Device>, u32>,
    /// NT handles and what they refer to.
    pub(super) nt: NtState,
}

impl LifetimeState {
    /// The job at a position of the queue; `None` behind the last one.
    pub(crate) fn job(&self, position: usize) -> Option<Id<Retirement>> {
        self.jobs.get(position).copied()
    }

    /// Whether a retirement waits to be run.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty() || self.nt.has_jobs()
    }

    /// The device of a retirement, unless the retirement has ended.
    pub(crate) fn device_of(&self, retirement: Subject) -> Option<Id<Device>> {
        let found = self.retirements.iter().find(|(id, _)| id.subject() == retirement);
        found.map(|(_, retirement)| retirement.device)
    }

    /// A driver call in which handle data was acquired has returned.
    pub(crate) fn call_returned(&mut self, call: u32) {
        self.calls.remove(&call);
    }

    /// Checks the invariants of retirements. Returns the first that does not hold.
    pub(crate) fn validate(&self, views: &Slab<View>) -> Result<(), String> {
        for (number, retirement) in self.retirements.iter() {
            if retirement.views.iter().any(|view| views.get(*view).is_none()) {
                return Err(format!("{number} ends a view that is destroyed"));
            }
        }
        Ok(())
    }
}
