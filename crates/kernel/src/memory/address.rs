//! Address spaces: the GPU virtual addresses of a process on an adapter that translates addresses.
//!
//! # Invariants (checked by `KernelState::validate_spaces`)
//!
//! 1. A process has one space on an adapter, created before its first device there and destroyed
//!    after its last handle of the adapter and its last device. The system has one, created first.
//! 2. The content of page tables is derived from the ranges and from the locations of extents after
//!    all paging work planned so far. Each change of either plans the entries that change with it.
//! 3. A table exists for each span in which a range has entries, together with all tables above it.
//! 4. An entry is written after the bytes it points to arrive. It is removed, and flushed from the
//!    TLB, before they leave. So a range is correct whenever the plan has been executed up to it.

pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod driver_range;
pub(crate) mod entries;
pub(crate) mod fault;
pub(crate) mod gaps;
pub(crate) mod geometry;
pub(crate) mod grow;
pub(crate) mod lifetime;
pub(crate) mod queued_update;
pub(crate) mod ranges;
pub(crate) mod restore;
pub(crate) mod step;
pub(crate) mod system;
pub(crate) mod tables;
pub(crate) mod update;

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::DriverProcess;
use crate::ddi::mmu::{MmuFeatures, Root, RootSize};
use crate::ddi::operation::PAGE;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::memory::Extent;
use crate::memory::address::fault::{FreedRange, PendingRange};
use crate::memory::address::geometry::Geometry;
use crate::memory::address::ranges::AddressRanges;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::{Subject, invariant};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A process on an adapter (`hKmdProcess`), with its addresses.
pub struct AddressSpace {
    /// `None`: the system's space.
    pub(crate) process: Option<Id<Process>>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) stage: SpaceStage,
    pub(crate) driver_handle: Option<Arc<DriverProcess>>,
    /// Number of devices that are being created in it.
    pub(crate) users: u32,
    pub(crate) addresses: AddressRanges,
    /// The extent of each table, by level and index within the level.
    pub(crate) tables: BTreeMap<(u32, u64), Id<Extent>>,
    /// The size of its root.
    pub(crate) root: RootSize,
    /// The number of its last update.
    pub(crate) last_update: u32,
    /// Recently freed ranges, oldest first.
    pub(crate) freed: VecDeque<FreedRange>,
    /// Ranges that cannot be used before a fence has a value.
    pub(crate) pending_ranges: Vec<PendingRange>,
    /// The kernel's handle.
    pub(crate) kernel_handle: Handle,
    /// The driver's create call for it is running.
    pub(crate) creating_process: bool,
    /// A thread is changing its root.
    pub(crate) growing_root: bool,
}

/// The state of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceStage {
    Creating,
    Live,
    Ending,
}

/// The address translation of an adapter, and the system's objects for it.
pub(crate) struct Mmu {
    pub(crate) features: MmuFeatures,
    pub(crate) geometry: Arc<Geometry>,
    /// The system's space.
    pub(crate) system: Option<Id<AddressSpace>>,
    /// The system's device and context, in which paging runs.
    pub(crate) device: Option<Id<Device>>,
    pub(crate) context: Option<Id<Context>>,
    /// The address of each segment in the system's space, in order; `None` for apertures.
    pub(crate) linear: Vec<Option<u64>>,
}

impl KernelState {
    /// The space of a process on an adapter.
    pub(crate) fn space_of(
        &self,
        process: Id<Process>,
        adapter: Id<Adapter>,
    ) -> Option<Id<AddressSpace>> {
        let live = |it: &&Id<AddressSpace>| {
            self.memory
                .spaces
                .get(**it)
                .is_some_and(|address_space| address_space.stage != SpaceStage::Ending)
        };
        self.memory.spaces_of.get(&(process, adapter))?.iter().find(live).copied()
    }

    /// Adds a space.
    pub(crate) fn add_space(&mut self, it: AddressSpace) -> Id<AddressSpace> {
        let whose = it.process.map(|process| (process, it.adapter));
        let number = self.memory.spaces.insert(it);
        if let Some(whose) = whose {
            self.memory.spaces_of.entry(whose).or_default().push(number);
        }
        number
    }

    /// Removes a space.
    pub(crate) fn remove_space(&mut self, number: Id<AddressSpace>) {
        let it = self.memory.spaces.remove(number);
        // The system's space has no process.
        let Some(whose) = it.process.map(|process| (process, it.adapter)) else { return };
        let all = invariant(self.memory.spaces_of.get_mut(&whose), "a process lists its spaces");
        all.retain(|address_space| *address_space != number);
        if all.is_empty() {
            self.memory.spaces_of.remove(&whose);
        }
    }

    /// The devices of a process on an adapter.
    pub(crate) fn devices_on(
        &self,
        process: Id<Process>,
        adapter: Id<Adapter>,
    ) -> impl Iterator<Item = Id<Device>> {
        self.devices_of(process).filter(move |device| self.devices[*device].adapter == adapter)
    }

    /// The address translation of an adapter.
    pub(crate) fn mmu(&self, adapter: Id<Adapter>) -> Option<&Mmu> {
        self.adapter_memory(adapter)?.mmu.as_ref()
    }

    /// The root of a space, as drivers receive it.
    pub(crate) fn root_of(&self, space: Id<AddressSpace>) -> Option<(Id<Extent>, Root)> {
        let it = self.memory.spaces.get(space)?;
        let memory = self.adapter_memory(it.adapter)?;
        let top = memory.mmu.as_ref()?.geometry.top();
        let extent = *it.tables.get(&(top, 0))?;
        let (segment, offset) = self.location_of(extent)?;
        Some((extent, Root { segment, offset, entries: it.root.entries }))
    }

    /// The driver's number of the segment an extent is in, and its offset there.
    pub(crate) fn location_of(&self, extent: Id<Extent>) -> Option<(u32, u64)> {
        match &self.memory.extents.get(extent)?.location {
            crate::memory::Location::Segment { segment, range } => {
                Some((crate::memory::segment_number(*segment), range.start()))
            }
            crate::memory::Location::Unbacked | crate::memory::Location::System => None,
        }
    }

    /// Checks the invariants of spaces.
    pub(crate) fn validate_spaces(&self) -> Result<(), String> {
        for (number, space) in self.memory.spaces.iter() {
            space.addresses.validate().map_err(|text| format!("{number}: {text}"))?;
            // A stopped adapter has no memory.
            let Some(geometry) = self.mmu(space.adapter).map(|mmu| mmu.geometry.clone()) else {
                continue;
            };
            for (span, taken) in space.addresses.all() {
                let missing = |value: &u64| !space.tables.contains_key(&(0, *value));
                if taken.backing.has_entries()
                    && geometry.tables(0, &span).any(|value| missing(&value))
                {
                    return Err(format!(
                        "space {} has no table for {:#x}",
                        number.serial(),
                        span.start
                    ));
                }
            }
            for (level, table) in space.tables.keys() {
                let above = geometry.table(level + 1, geometry.span(*level, *table).start);
                if *level < geometry.top() && !space.tables.contains_key(&(level + 1, above)) {
                    return Err(format!("{number}: a table of level {level} has no parent"));
                }
            }
        }
        Ok(())
    }
}

/// The subject of a space in events.
pub(crate) fn subject(space: Id<AddressSpace>) -> Subject {
    space.subject()
}

/// Number of pages of `bytes` bytes.
pub(crate) fn pages(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE).unwrap_or(u32::MAX)
}
