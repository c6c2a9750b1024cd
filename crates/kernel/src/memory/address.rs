//! Address spaces: what a process has on an adapter that translates addresses.
//!
//! # Invariants (checked by `KernelState::validate_spaces`)
//!
//! 1. A process has one space on an adapter, made before its first device there and ended after
//!    its last name of the adapter and its last device. The system has one, made first.
//! 2. What tables say is derived: from ranges, and from where extents will be when all paging
//!    work planned so far is done. Each change of either plans the entries that change with it.
//! 3. A table is there for each span in which a range has entries, with all tables above it.
//! 4. An entry comes after the bytes it leads to, and goes, with what is remembered of it,
//!    before they do. So a range is right whenever the plan has been done up to it.

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
use flight::Subject;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A process on an adapter (`hKmdProcess`), with its addresses.
pub struct AddressSpace {
    /// None: the system's own.
    pub(crate) process: Option<Id<Process>>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) stage: SpaceStage,
    pub(crate) driver_handle: Option<Arc<DriverProcess>>,
    /// Devices that are being made in it.
    pub(crate) users: u32,
    pub(crate) addresses: AddressRanges,
    /// The extent of each table, by level and by which of that level it is.
    pub(crate) tables: BTreeMap<(u32, u64), Id<Extent>>,
    /// How large its root is.
    pub(crate) root: RootSize,
    /// How many updates it had.
    pub(crate) last_update: u32,
    /// What was freed lately: the first to be forgotten first.
    pub(crate) freed: VecDeque<FreedRange>,
    /// What cannot be used before a fence has a value.
    pub(crate) pending_ranges: Vec<PendingRange>,
    /// The kernel's own name for it.
    pub(crate) kernel_handle: Handle,
    /// Its driver is being told of it now.
    pub(crate) creating_process: bool,
    /// Somebody is changing its root.
    pub(crate) growing_root: bool,
}

/// Where a space is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceStage {
    Creating,
    Live,
    Ending,
}

/// How an adapter translates addresses, and the system's part in it.
pub(crate) struct Mmu {
    pub(crate) features: MmuFeatures,
    pub(crate) geometry: Arc<Geometry>,
    /// The system's own space.
    pub(crate) system: Option<Id<AddressSpace>>,
    /// The device of the system, and its context, in which paging runs.
    pub(crate) device: Option<Id<Device>>,
    pub(crate) context: Option<Id<Context>>,
    /// Where in the system's space each segment is, one behind the other: none for apertures.
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
            self.spaces
                .get(**it)
                .is_some_and(|address_space| address_space.stage != SpaceStage::Ending)
        };
        self.spaces_of.get(&(process, adapter))?.iter().find(live).copied()
    }

    /// Enters a space.
    pub(crate) fn add_space(&mut self, it: AddressSpace) -> Id<AddressSpace> {
        let whose = it.process.map(|process| (process, it.adapter));
        let number = self.spaces.insert(it);
        if let Some(whose) = whose {
            self.spaces_of.entry(whose).or_default().push(number);
        }
        number
    }

    /// Forgets a space.
    pub(crate) fn remove_space(&mut self, number: Id<AddressSpace>) {
        let it = self.spaces.remove(number);
        let Some(whose) = it.process.map(|process| (process, it.adapter)) else { return };
        if let Some(all) = self.spaces_of.get_mut(&whose) {
            all.retain(|address_space| *address_space != number);
            if all.is_empty() {
                self.spaces_of.remove(&whose);
            }
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

    /// How an adapter translates.
    pub(crate) fn mmu(&self, adapter: Id<Adapter>) -> Option<&Mmu> {
        self.memory(adapter)?.1.mmu.as_ref()
    }

    /// The root of a space, as drivers are told it.
    pub(crate) fn root_of(&self, space: Id<AddressSpace>) -> Option<(Id<Extent>, Root)> {
        let it = self.spaces.get(space)?;
        let (_, memory) = self.memory(it.adapter)?;
        let top = memory.mmu.as_ref()?.geometry.top();
        let extent = *it.tables.get(&(top, 0))?;
        let (segment, offset) = self.location_of(extent)?;
        Some((extent, Root { segment, offset, entries: it.root.entries }))
    }

    /// The driver's number of the segment an extent is in, and where it is there.
    pub(crate) fn location_of(&self, extent: Id<Extent>) -> Option<(u32, u64)> {
        match &self.extents.get(extent)?.location {
            crate::memory::Location::Segment { segment, range } => {
                Some((crate::memory::segment_number(*segment), range.start()))
            }
            crate::memory::Location::Unbacked | crate::memory::Location::System => None,
        }
    }

    /// Checks the invariants of spaces.
    pub(crate) fn validate_spaces(&self) -> Result<(), String> {
        for (number, space) in self.spaces.iter() {
            space.addresses.validate().map_err(|text| format!("{number}: {text}"))?;
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
                    return Err(format!("{number}: a table of level {level} hangs nowhere"));
                }
            }
        }
        Ok(())
    }
}

/// A space, for events.
pub(crate) fn subject(space: Id<AddressSpace>) -> Subject {
    space.subject()
}

/// How many pages so many bytes are.
pub(crate) fn pages(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE).unwrap_or(u32::MAX)
}
