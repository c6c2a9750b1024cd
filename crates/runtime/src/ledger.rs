//! The ledger of a device: what the driver was given, and what it must free.
//!
//! # Invariants
//!
//! 1. An allocation is in the member list of its resource exactly as long as it is in the ledger.
//! 2. A resource is in the ledger from before the driver is called until it is both destroyed by
//!    the application and freed by the driver.

use crate::resource_description::ResourceDescription;
use abi::umd::{D3DDDI_RESOURCEFLAGS, D3DDDI_RESOURCEFLAGS2};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::{FastMap, Subject};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many invalid handles are remembered.
const MAX_REMEMBERED: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) resources: BTreeMap<usize, ResourceEntry>,
    pub(crate) allocations: FastMap<D3DKMT_HANDLE, AllocationEntry>,
    pub(crate) contexts: BTreeMap<usize, Context>,
    /// Paging queues, each with its fence.
    pub(crate) queues: BTreeMap<D3DKMT_HANDLE, D3DKMT_HANDLE>,
    pub(crate) objects: BTreeSet<D3DKMT_HANDLE>,
    /// Whether the driver has ever created an allocation without a resource: then a resource may be
    /// drawn with memory other than its own.
    pub(crate) has_standalone: bool,
    /// The number of submissions.
    pub(crate) submissions: u64,
    /// The resources that the application draws with in the current driver call.
    pub(crate) drawn_in_call: Vec<usize>,
    /// The errors that callbacks returned in the current driver call.
    pub(crate) callback_errors: Vec<HRESULT>,
    /// A callback has returned "device removed": the queued work of the device is lost.
    pub(crate) removed: bool,
    /// A discarding lock that failed: its allocation, and the submission count at that time.
    pub(crate) failed_discard: Option<(D3DKMT_HANDLE, u64)>,
    /// Whether the driver has ever had a context.
    pub(crate) had_context: bool,
    /// The driver's descriptions of resources, by what the application requested.
    pub(crate) descriptions: BTreeMap<Vec<u8>, Description>,
    /// The most recent instances of allocations that a lock has replaced.
    replaced_instances: VecDeque<D3DKMT_HANDLE>,
    /// Replaced instances that earlier commands use: they are submitted with the next submission.
    replaced_in_commands: Vec<D3DKMT_HANDLE>,
    /// Resources in the application's memory, by address.
    system_memory: BTreeMap<usize, usize>,
    /// The driver's handles, each with its resource.
    driver_handles: BTreeSet<(usize, usize)>,
    /// Resources that may have been drawn with since the last submission, resources with surfaces
    /// that were drawn to since then, and destroyed resources. Indexes, to avoid a scan of all
    /// resources.
    drawn: BTreeSet<usize>,
    written: BTreeSet<usize>,
    destroyed: BTreeSet<usize>,
    freed: VecDeque<usize>,
    /// Invalid driver handles: their resources were destroyed.
    dead_handles: VecDeque<usize>,
}

/// A driver's description of the allocations of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// The value of the reserved members.
    pub(crate) reserved_values: u32,
    /// The private data: of the resource in each call, and of each allocation.
    pub(crate) private_data: Vec<Vec<u8>>,
    /// Whether the driver repeated the description for an identical request. `None` until it has
    /// had to.
    pub(crate) repeatable: Option<bool>,
}

/// A resource: a group of surfaces.
#[derive(Debug)]
pub(crate) struct ResourceEntry {
    pub(crate) subject: Subject,
    pub(crate) surfaces: ResourceDescription,
    /// The driver's handle, once the driver has returned it.
    pub(crate) driver_handle: usize,
    /// The kernel handle, if the driver has created a kernel resource, and the shared handle.
    pub(crate) kernel_handle: D3DKMT_HANDLE,
    pub(crate) global_handle: D3DKMT_HANDLE,
    /// The live allocations.
    pub(crate) members: Vec<D3DKMT_HANDLE>,
    pub(crate) stage: ResourceStage,
    pub(crate) opened: bool,
    /// How many allocations the driver has created for it, and how many calls freed some by list.
    pub(crate) allocate_count: u32,
    pub(crate) list_free_count: u32,
    /// The private data at creation: of the resource in each call, and of each allocation.
    pub(crate) private_data: Vec<Vec<u8>>,
    /// The number of application locks on each surface.
    pub(crate) locks: Vec<u32>,
    /// The surfaces that were drawn to since the last submission.
    pub(crate) written: BTreeSet<u32>,
    /// The submission count when the application last drew with the resource.
    pub(crate) drawn: Option<u64>,
    /// The application's memory for each surface, if the runtime allocated it.
    pub(crate) system_memory: Vec<Box<[u8]>>,
}

/// The life cycle of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceStage {
    /// The driver is creating it.
    Creating,
    /// The application has it.
    Live,
    /// The application has destroyed it; the driver has not freed it.
    Destroyed,
    /// The driver has freed it; the application has not destroyed it.
    Freed,
}

/// An allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllocationEntry {
    /// The resource it belongs to.
    pub(crate) resource: Option<usize>,
    /// How many locks the driver holds on it.
    pub(crate) locks: u32,
}

/// Facts about allocations that are to be freed, collected in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreedAllocations {
    /// The first locked allocation.
    pub(crate) locked: Option<D3DKMT_HANDLE>,
    /// The resource of the first allocation that has one, and the first shared resource.
    pub(crate) grouped: Option<Subject>,
    pub(crate) shared: Option<Subject>,
    /// The first resource that was drawn with since the last submission.
    pub(crate) drawn: Option<Subject>,
}

/// A context.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    pub(crate) kernel: D3DKMT_HANDLE,
    /// The address and entry count of the current allocation list; zero in a context whose packets
    /// have no lists.
    pub(crate) list: (usize, u32),
    /// The same for the command buffer and for the patch location list.
    pub(crate) commands: (usize, u32),
    pub(crate) patches: (usize, u32),
}

impl ResourceEntry {
    /// Whether other processes can open it.
    pub(crate) fn is_shared(&self) -> bool {
        self.opened || self.surfaces.has_flag(D3DDDI_RESOURCEFLAGS::SharedResource)
    }

    /// Whether a display may show it.
    pub(crate) fn is_displayable(&self) -> bool {
        self.surfaces.has_flag(D3DDDI_RESOURCEFLAGS::Primary)
            || self.surfaces.flags2 & D3DDDI_RESOURCEFLAGS2::IsDisplayable != 0
    }

    /// Whether it is a buffer kind with specific error results.
    pub(crate) fn is_buffer(&self) -> bool {
        let kinds = D3DDDI_RESOURCEFLAGS::VertexBuffer | D3DDDI_RESOURCEFLAGS::IndexBuffer;
        self.surfaces.has_flag(kinds)
    }
}

impl Ledger {
    /// The resource of a driver's handle.
    pub(crate) fn find_by_driver_handle(&self, driver: usize) -> Option<usize> {
        let all = (driver, 0)..=(driver, usize::MAX);
        self.driver_handles.range(all).next().map(|(_, handle)| *handle)
    }

    /// Records the driver's handle of a resource. From now on the application has the resource.
    pub(crate) fn set_driver_handle(&mut self, handle: usize, driver: usize) {
        let Some(group) = self.resources.get_mut(&handle) else { return };
        (group.driver_handle, group.stage) = (driver, ResourceStage::Live);
        self.driver_handles.insert((driver, handle));
    }

    /// Records that the application has destroyed a resource; the driver must free its memory.
    pub(crate) fn mark_destroyed(&mut self, handle: usize) {
        let Some(group) = self.resources.get_mut(&handle) else { return };
        self.driver_handles.remove(&(group.driver_handle, handle));
        (group.driver_handle, group.stage) = (0, ResourceStage::Destroyed);
        self.destroyed.insert(handle);
    }

    /// The resources that are destroyed and not freed.
    pub(crate) fn destroyed_not_freed(&self) -> impl Iterator<Item = &ResourceEntry> {
        self.destroyed.iter().filter_map(|index| self.resources.get(index))
    }

    /// Records a draw with a resource. Returns the resource, and its previous draw.
    pub(crate) fn note_draw(&mut self, handle: usize) -> Option<(usize, Option<u64>)> {
        let group = self.resources.get_mut(&handle)?;
        self.drawn.insert(handle);
        Some((handle, group.drawn.replace(self.submissions)))
    }

    /// Records a draw to a surface that a display may show.
    pub(crate) fn note_write(&mut self, handle: usize, index: u32) {
        let Some(group) = self.resources.get_mut(&handle) else { return };
        group.written.insert(index);
        self.written.insert(handle);
    }

    /// The resources with surfaces that were drawn to since the last submission.
    pub(crate) fn written_resources(&self) -> impl Iterator<Item = &ResourceEntry> {
        self.written.iter().filter_map(|index| self.resources.get(index))
    }

    /// Adds a resource, before the driver is called for it.
    pub(crate) fn insert(&mut self, handle: usize, group: ResourceEntry) {
        for memory in group.system_memory.iter().filter(|bytes| !bytes.is_empty()) {
            self.system_memory.insert(memory.as_ptr().addr(), handle);
        }
        self.resources.insert(handle, group);
    }

    /// Removes a resource.
    pub(crate) fn remove(&mut self, handle: usize) {
        let Some(group) = self.resources.remove(&handle) else { return };
        for memory in &group.system_memory {
            self.system_memory.remove(&memory.as_ptr().addr());
        }
        self.driver_handles.remove(&(group.driver_handle, handle));
        for all in [&mut self.drawn, &mut self.written, &mut self.destroyed] {
            all.remove(&handle);
        }
    }

    /// Whether a driver sees `length` bytes of the application's memory at `address`.
    pub(crate) fn has_system_memory(&mut self, address: usize, length: usize) -> Option<&mut [u8]> {
        let (start, handle) = self.system_memory.range(..=address).next_back()?;
        let (start, group) = (*start, self.resources.get_mut(handle)?);
        let memory = group.system_memory.iter_mut().find(|bytes| bytes.as_ptr().addr() == start)?;
        memory.get_mut(address - start..)?.get_mut(..length)
    }

    /// Adds allocations, with or without a resource.
    pub(crate) fn add(
        &mut self,
        group: Option<usize>,
        list: impl ExactSizeIterator<Item = D3DKMT_HANDLE> + Clone,
    ) {
        self.has_standalone |= group.is_none();
        for allocation in list.clone() {
            self.note_reused_handle(allocation);
            self.allocations.insert(allocation, AllocationEntry { resource: group, locks: 0 });
        }
        if let Some(it) = group.and_then(|index| self.resources.get_mut(&index)) {
            it.members.extend(list);
            // A freed resource that is allocated again must be freed again.
            if it.stage == ResourceStage::Freed {
                it.stage = ResourceStage::Live;
            }
        }
    }

    /// The kernel has reused the handle of a destroyed object.
    fn note_reused_handle(&mut self, allocation: D3DKMT_HANDLE) {
        if !self.replaced_instances.is_empty() {
            self.replaced_instances.retain(|number| *number != allocation);
        }
        if !self.replaced_in_commands.is_empty() {
            self.replaced_in_commands.retain(|number| *number != allocation);
        }
    }

    /// Removes allocations that were freed by one list.
    pub(crate) fn remove_listed(&mut self, list: &[D3DKMT_HANDLE]) {
        let mut resources = BTreeSet::new();
        for allocation in list {
            let Some(handle) = self
                .allocations
                .remove(allocation)
                .and_then(|allocation_entry| allocation_entry.resource)
            else {
                continue;
            };
            if let Some(it) = self.resources.get_mut(&handle) {
                it.members.retain(|number| number != allocation);
                it.list_free_count += u32::from(resources.insert(handle));
            }
        }
    }

    /// Collects facts about allocations that are to be freed.
    pub(crate) fn freed_allocations(&self, list: &[D3DKMT_HANDLE]) -> FreedAllocations {
        let mut going = FreedAllocations::default();
        for allocation in list {
            let Some(piece) = self.allocations.get(allocation) else { continue };
            if piece.locks > 0 {
                going.locked = going.locked.or(Some(*allocation));
            }
            let Some(group) = piece.resource.and_then(|index| self.resources.get(&index)) else {
                continue;
            };
            let about = group.subject;
            going.grouped = going.grouped.or(Some(about));
            if group.is_shared() {
                going.shared = going.shared.or(Some(about));
            }
            if group.drawn == Some(self.submissions) {
                going.drawn = Some(going.drawn.map_or(about, |subject| subject.min(about)));
            }
        }
        going
    }

    /// The resource of an allocation.
    pub(crate) fn resource_of(&self, allocation: D3DKMT_HANDLE) -> Option<&ResourceEntry> {
        self.resources.get(&self.allocations.get(&allocation)?.resource?)
    }

    /// Replaces an allocation by another instance that a lock returned. Commands that are `written`
    /// already may use the old instance.
    pub(crate) fn rename(&mut self, old: D3DKMT_HANDLE, new: D3DKMT_HANDLE, written: bool) {
        let Some(piece) = self.allocations.remove(&old) else { return };
        if written {
            self.replaced_in_commands.push(old);
        } else {
            push_bounded(&mut self.replaced_instances, old);
        }
        self.note_reused_handle(new);
        self.allocations.insert(new, piece);
        if let Some(it) = piece.resource.and_then(|index| self.resources.get_mut(&index)) {
            for member in it.members.iter_mut().filter(|number| **number == old) {
                *member = new;
            }
        }
    }

    /// Records that the driver has freed a resource with all its allocations. Returns whether the
    /// resource was removed because the application has destroyed it, too.
    pub(crate) fn mark_freed(&mut self, handle: usize) -> bool {
        let Some(group) = self.resources.get_mut(&handle) else { return false };
        let members = std::mem::take(&mut group.members);
        let destroyed = group.stage == ResourceStage::Destroyed;
        (group.stage, group.kernel_handle) = (ResourceStage::Freed, 0);
        // Later allocations for it are unrelated to the earlier ones.
        (group.list_free_count, group.private_data) = (0, Vec::new());
        for member in members {
            self.allocations.remove(&member);
        }
        if destroyed {
            self.remove_resource(handle);
        }
        destroyed
    }

    /// Removes a resource for good.
    pub(crate) fn remove_resource(&mut self, handle: usize) {
        self.remove(handle);
        push_bounded(&mut self.freed, handle);
    }

    /// Records a submission: all earlier commands are submitted.
    pub(crate) fn note_submission(&mut self) {
        self.submissions += 1;
        self.drawn.clear();
        for handle in std::mem::take(&mut self.written) {
            if let Some(group) = self.resources.get_mut(&handle) {
                group.written.clear();
            }
        }
        for it in std::mem::take(&mut self.replaced_in_commands) {
            push_bounded(&mut self.replaced_instances, it);
        }
    }

    /// The first of these that a lock has replaced.
    pub(crate) fn find_replaced(&self, list: &[D3DKMT_HANDLE]) -> Option<D3DKMT_HANDLE> {
        list.iter().find(|number| self.replaced_instances.contains(number)).copied()
    }

    /// Invalidates the driver's handle of a resource that the application has destroyed.
    pub(crate) fn mark_handle_dead(&mut self, driver: usize) {
        self.dead_handles.retain(|index| *index != driver);
        push_bounded(&mut self.dead_handles, driver);
    }

    /// Whether a driver's handle is invalid, and was not reused.
    pub(crate) fn is_handle_dead(&self, driver: usize) -> bool {
        self.was_handle_dead(driver) && self.find_by_driver_handle(driver).is_none()
    }

    /// Whether a driver's handle was invalid; it may have been reused.
    pub(crate) fn was_handle_dead(&self, driver: usize) -> bool {
        self.dead_handles.contains(&driver)
    }

    /// Whether the driver still has to free the memory of a destroyed resource.
    pub(crate) fn has_unfreed(&self) -> bool {
        !self.destroyed.is_empty()
    }

    /// The first of these that the driver, not the application, has locked.
    pub(crate) fn find_locked(&self, list: &[D3DKMT_HANDLE]) -> Option<D3DKMT_HANDLE> {
        let by_application = |id: D3DKMT_HANDLE| {
            self.resource_of(id).is_some_and(|group| group.locks.iter().any(|number| *number > 0))
        };
        let locked = |number: D3DKMT_HANDLE| {
            self.allocations.get(&number).is_some_and(|allocation_entry| allocation_entry.locks > 0)
        };
        list.iter().copied().find(|number| locked(*number) && !by_application(*number))
    }

    /// Whether the GPU has drawn something since the last submission.
    pub(crate) fn has_drawn(&self) -> bool {
        let now = Some(self.submissions);
        let mut drawn = self.drawn.iter().filter_map(|index| self.resources.get(index));
        drawn
            .any(|resource_entry| resource_entry.drawn == now && !resource_entry.members.is_empty())
    }

    /// Whether a handle belonged to a removed resource.
    pub(crate) fn was_resource(&self, handle: usize) -> bool {
        self.freed.contains(&handle)
    }
}

/// Appends an entry, and removes the first if the queue is full.
fn push_bounded<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == MAX_REMEMBERED {
        kept.pop_front();
    }
    kept.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::Kind;

    fn group(number: u32, flags: u32, drawn: Option<u64>) -> ResourceEntry {
        let mut surfaces = ResourceDescription::texture(4, 4);
        surfaces.flags |= flags;
        ResourceEntry {
            subject: Kind::Surfaces.subject(number),
            surfaces,
            driver_handle: 0,
            kernel_handle: 0,
            global_handle: 0,
            members: Vec::new(),
            stage: ResourceStage::Live,
            opened: false,
            allocate_count: 0,
            list_free_count: 0,
            private_data: Vec::new(),
            locks: vec![0],
            written: BTreeSet::new(),
            drawn,
            system_memory: Vec::new(),
        }
    }

    /// 0x40 has no resource, 0x80 and 0xc0 belong to resource 2, which was drawn with, 0x100
    /// belongs to resource 1, which was drawn with and is shared.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.resources.insert(16, group(2, 0, Some(0)));
        ledger.resources.insert(32, group(1, D3DDDI_RESOURCEFLAGS::SharedResource, Some(0)));
        ledger.add(None, [0x40].into_iter());
        ledger.add(Some(16), [0x80, 0xc0].into_iter());
        ledger.add(Some(32), [0x100].into_iter());
        ledger
    }

    #[test]
    fn one_look_says_what_every_rule_asks_of_those_that_go() {
        let mut ledger = ledger();
        let (first, second) = (Some(Kind::Surfaces.subject(1)), Some(Kind::Surfaces.subject(2)));
        assert_eq!(ledger.freed_allocations(&[0x40, 7]), FreedAllocations::default());
        let all = FreedAllocations { locked: None, grouped: second, shared: first, drawn: first };
        assert_eq!(ledger.freed_allocations(&[0x40, 0x80, 0x100]), all);
        for locked in [0x40, 0xc0] {
            ledger.allocations.entry(locked).or_default().locks = 1;
        }
        let part = FreedAllocations { locked: Some(0xc0), shared: None, drawn: second, ..all };
        assert_eq!(ledger.freed_allocations(&[0xc0, 0x40]), part);
        ledger.note_submission();
        assert_eq!(
            ledger.freed_allocations(&[0x80]),
            FreedAllocations { locked: None, drawn: None, ..part }
        );
    }

    #[test]
    fn a_list_counts_once_for_each_resource_that_it_has_something_of() {
        let mut ledger = ledger();
        ledger.remove_listed(&[0x80, 0xc0, 0x40, 0x80, 7]);
        let left: Vec<D3DKMT_HANDLE> = ledger.allocations.keys().copied().collect();
        assert_eq!(left, [0x100]);
        assert_eq!(
            (ledger.resources[&16].list_free_count, ledger.resources[&16].members.len()),
            (1, 0)
        );
        assert_eq!(
            (ledger.resources[&32].list_free_count, ledger.resources[&32].members.len()),
            (0, 1)
        );
    }

    #[test]
    fn what_is_found_by_index_is_what_the_resources_say() {
        let mut ledger = Ledger::default();
        let system = vec![vec![0; 8].into_boxed_slice()];
        let address = system[0].as_ptr().addr();
        ledger.insert(16, ResourceEntry { system_memory: system, ..group(1, 0, None) });
        ledger.insert(32, group(2, 0, None));
        for handle in [16, 32] {
            ledger.set_driver_handle(handle, 7);
            ledger.add(Some(handle), [0x40 * u32::from(handle == 16) + 0x40].into_iter());
        }
        assert_eq!(
            (ledger.find_by_driver_handle(7), ledger.find_by_driver_handle(0)),
            (Some(16), None)
        );
        assert_eq!((ledger.note_draw(32), ledger.note_draw(8)), (Some((32, None)), None));
        ledger.note_write(32, 0);
        assert!(ledger.has_drawn() && ledger.written_resources().count() == 1);
        assert!(
            ledger.has_system_memory(address + 4, 4).is_some()
                && ledger.has_system_memory(address + 4, 5).is_none()
        );
        ledger.mark_destroyed(16);
        assert_eq!(
            (ledger.find_by_driver_handle(7), ledger.destroyed_not_freed().count()),
            (Some(32), 1)
        );
        ledger.note_submission();
        assert!(!ledger.has_drawn() && ledger.written_resources().count() == 0);
        assert!(ledger.resources[&32].written.is_empty());
        assert!(ledger.mark_freed(16), "already destroyed");
        assert!(
            ledger.has_system_memory(address, 1).is_none()
                && ledger.destroyed_not_freed().count() == 0
        );
        ledger.mark_freed(32);
        ledger.add(Some(32), [0x80].into_iter());
        assert_eq!(ledger.resources[&32].stage, ResourceStage::Live, "allocated again");
        ledger.remove(32);
        assert_eq!(ledger.find_by_driver_handle(7), None);
    }

    #[test]
    fn a_name_that_is_given_again_is_not_the_one_that_was_replaced() {
        let mut ledger = ledger();
        ledger.rename(0x40, 0x140, false);
        ledger.rename(0x80, 0x180, true);
        ledger.note_submission();
        assert_eq!(ledger.find_replaced(&[0x40, 0x80]), Some(0x40));
        ledger.add(None, [0x40].into_iter());
        assert_eq!(ledger.find_replaced(&[0x40, 0x80]), Some(0x80));
    }
}
