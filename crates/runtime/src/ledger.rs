//! What a driver was given for a device, and what it owes.
//!
//! # Invariants
//!
//! 1. An allocation is in the list of its resource exactly as long as it is known.
//! 2. A resource is known from before the driver hears of it until it is both dropped by the
//!    application and released by the driver.

use crate::surfaces::Surfaces;
use abi::umd::{D3DDDI_RESOURCEFLAGS, D3DDDI_RESOURCEFLAGS2};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::{ByNumber, Subject};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many handles are remembered that mean nothing any more.
const REMEMBERED: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) groups: BTreeMap<usize, Group>,
    pub(crate) pieces: ByNumber<D3DKMT_HANDLE, Piece>,
    pub(crate) contexts: BTreeMap<usize, Context>,
    /// Paging queues, each with its fence.
    pub(crate) queues: BTreeMap<D3DKMT_HANDLE, D3DKMT_HANDLE>,
    pub(crate) objects: BTreeSet<D3DKMT_HANDLE>,
    /// Whether the driver has ever allocated something of no resource: then a resource may be
    /// drawn with other memory than its own.
    pub(crate) loose: bool,
    /// How often work was submitted.
    pub(crate) submissions: u64,
    /// What the application draws with in the call that the driver is in.
    pub(crate) drawing: Vec<usize>,
    /// What callbacks have refused with in the call that the driver is in.
    pub(crate) failed: Vec<HRESULT>,
    /// A callback has said that the device is removed: what it had queued is over.
    pub(crate) removed: bool,
    /// A lock that discards and was refused: of what, and how much was submitted then.
    pub(crate) refused_discard: Option<(D3DKMT_HANDLE, u64)>,
    /// Whether the driver has had a context.
    pub(crate) had_context: bool,
    /// What the driver said of what it made, by what it was asked for.
    pub(crate) described: BTreeMap<Vec<u8>, Described>,
    /// Instances of allocations that a lock has replaced, the last ones.
    retired: VecDeque<D3DKMT_HANDLE>,
    /// Those that commands use which were written before: they go out with the next submission.
    leaving: Vec<D3DKMT_HANDLE>,
    /// The resources whose memory the application has, by where that is.
    system: BTreeMap<usize, usize>,
    /// The driver's handles, each with the resource that has it.
    drivers: BTreeSet<(usize, usize)>,
    /// Resources that may have been drawn with since work was last submitted, that have surfaces
    /// which were drawn to since then, and that are dropped: so nobody has to look at all.
    drawn: BTreeSet<usize>,
    written: BTreeSet<usize>,
    dropped: BTreeSet<usize>,
    released: VecDeque<usize>,
    /// Handles of the driver's that are dead: what they meant was dropped.
    dead: VecDeque<usize>,
}

/// What a driver said of the allocations of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// What the members were that mean nothing.
    pub(crate) noise: u32,
    /// Its private data: of the resource in each call, and of each allocation.
    pub(crate) said: Vec<Vec<u8>>,
    /// Whether it said the same again of the same, once it could.
    pub(crate) steady: Option<bool>,
}

/// A resource: a group of surfaces.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) subject: Subject,
    pub(crate) surfaces: Surfaces,
    /// The driver's own handle, once it gave one.
    pub(crate) driver: usize,
    /// The kernel's handle, if the driver has made a resource of it, and the one for others.
    pub(crate) kernel: D3DKMT_HANDLE,
    pub(crate) global: D3DKMT_HANDLE,
    /// The allocations that are alive.
    pub(crate) members: Vec<D3DKMT_HANDLE>,
    pub(crate) stage: Stage,
    pub(crate) opened: bool,
    /// How often the driver has allocated for it, and in how many calls it has freed by list.
    pub(crate) allocated: u32,
    pub(crate) listed: u32,
    /// The private data that it came with: of the resource in each call, and of each allocation.
    pub(crate) said: Vec<Vec<u8>>,
    /// How many locks the application has of each surface.
    pub(crate) locks: Vec<u32>,
    /// The surfaces that were drawn to since work was last submitted.
    pub(crate) written: BTreeSet<u32>,
    /// How much was submitted when the application last drew with it.
    pub(crate) drawn: Option<u64>,
    /// The application's memory of each surface, where the runtime has it.
    pub(crate) system: Vec<Box<[u8]>>,
}

/// How far a resource is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The driver is making it.
    Making,
    /// The application has it.
    Live,
    /// The application has dropped it; the driver has not released it.
    Dropped,
    /// The driver has released it; the application has not dropped it.
    Released,
}

/// An allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    /// The resource it belongs to.
    pub(crate) group: Option<usize>,
    /// How many locks the driver has of it.
    pub(crate) locks: u32,
}

/// What is known of allocations that are to go, in one look at each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Going {
    /// The first that is locked.
    pub(crate) locked: Option<D3DKMT_HANDLE>,
    /// The resource of the first that has one, and of the first that has one that is shared.
    pub(crate) grouped: Option<Subject>,
    pub(crate) shared: Option<Subject>,
    /// The first resource that was drawn with since work was last submitted.
    pub(crate) drawn: Option<Subject>,
}

/// A context.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    pub(crate) kernel: D3DKMT_HANDLE,
    /// Where the allocation list is that the driver writes to now, and how many entries it has:
    /// none in a context whose packets have no lists.
    pub(crate) list: (usize, u32),
    /// The same of its commands and of its patch locations.
    pub(crate) commands: (usize, u32),
    pub(crate) patches: (usize, u32),
}

impl Group {
    /// Whether other processes may have it.
    pub(crate) fn is_shared(&self) -> bool {
        self.opened || self.surfaces.is(D3DDDI_RESOURCEFLAGS::SharedResource)
    }

    /// Whether a display may show it.
    pub(crate) fn is_displayable(&self) -> bool {
        self.surfaces.is(D3DDDI_RESOURCEFLAGS::Primary)
            || self.surfaces.flags2 & D3DDDI_RESOURCEFLAGS2::IsDisplayable != 0
    }

    /// Whether a kind of buffer has answers of its own.
    pub(crate) fn is_buffer(&self) -> bool {
        let kinds = D3DDDI_RESOURCEFLAGS::VertexBuffer | D3DDDI_RESOURCEFLAGS::IndexBuffer;
        self.surfaces.is(kinds)
    }
}

impl Ledger {
    /// The resource that a driver's handle means.
    pub(crate) fn by_driver(&self, driver: usize) -> Option<usize> {
        let all = (driver, 0)..=(driver, usize::MAX);
        self.drivers.range(all).next().map(|(_, handle)| *handle)
    }

    /// The driver has given its own handle of a resource, which the application has from now on.
    pub(crate) fn name(&mut self, handle: usize, driver: usize) {
        let Some(group) = self.groups.get_mut(&handle) else { return };
        (group.driver, group.stage) = (driver, Stage::Live);
        self.drivers.insert((driver, handle));
    }

    /// The application has no such resource any more; what the driver has of it, it owes.
    pub(crate) fn let_go(&mut self, handle: usize) {
        let Some(group) = self.groups.get_mut(&handle) else { return };
        self.drivers.remove(&(group.driver, handle));
        (group.driver, group.stage) = (0, Stage::Dropped);
        self.dropped.insert(handle);
    }

    /// The resources that are dropped, and not released.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = &Group> {
        self.dropped.iter().filter_map(|it| self.groups.get(it))
    }

    /// The application draws with a resource. Answers it, and what it was drawn with before.
    pub(crate) fn draw(&mut self, handle: usize) -> Option<(usize, Option<u64>)> {
        let group = self.groups.get_mut(&handle)?;
        self.drawn.insert(handle);
        Some((handle, group.drawn.replace(self.submissions)))
    }

    /// A surface was drawn to that a display may show.
    pub(crate) fn write(&mut self, handle: usize, index: u32) {
        let Some(group) = self.groups.get_mut(&handle) else { return };
        group.written.insert(index);
        self.written.insert(handle);
    }

    /// The resources with surfaces that were drawn to since work was last submitted.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Group> {
        self.written.iter().filter_map(|it| self.groups.get(it))
    }

    /// Notes a resource that the driver is to hear of.
    pub(crate) fn keep(&mut self, handle: usize, group: Group) {
        for memory in group.system.iter().filter(|it| !it.is_empty()) {
            self.system.insert(memory.as_ptr().addr(), handle);
        }
        self.groups.insert(handle, group);
    }

    /// Takes a resource out of the books.
    pub(crate) fn strike(&mut self, handle: usize) {
        let Some(group) = self.groups.remove(&handle) else { return };
        for memory in &group.system {
            self.system.remove(&memory.as_ptr().addr());
        }
        self.drivers.remove(&(group.driver, handle));
        for all in [&mut self.drawn, &mut self.written, &mut self.dropped] {
            all.remove(&handle);
        }
    }

    /// Memory of the application that a driver sees, if so many bytes are there.
    pub(crate) fn system(&mut self, address: usize, length: usize) -> Option<&mut [u8]> {
        let (start, handle) = self.system.range(..=address).next_back()?;
        let (start, group) = (*start, self.groups.get_mut(handle)?);
        let memory = group.system.iter_mut().find(|it| it.as_ptr().addr() == start)?;
        memory.get_mut(address - start..)?.get_mut(..length)
    }

    /// Notes allocations of a resource, or of none.
    pub(crate) fn add(
        &mut self,
        group: Option<usize>,
        list: impl ExactSizeIterator<Item = D3DKMT_HANDLE> + Clone,
    ) {
        self.loose |= group.is_none();
        for allocation in list.clone() {
            self.revive(allocation);
            self.pieces.insert(allocation, Piece { group, locks: 0 });
        }
        if let Some(it) = group.and_then(|it| self.groups.get_mut(&it)) {
            it.members.extend(list);
            // One that was released and is made anew is to be released again.
            if it.stage == Stage::Released {
                it.stage = Stage::Live;
            }
        }
    }

    /// The kernel gives a name again that nothing has any more.
    fn revive(&mut self, allocation: D3DKMT_HANDLE) {
        if !self.retired.is_empty() {
            self.retired.retain(|it| *it != allocation);
        }
        if !self.leaving.is_empty() {
            self.leaving.retain(|it| *it != allocation);
        }
    }

    /// Forgets allocations that were freed by one list.
    pub(crate) fn remove_listed(&mut self, list: &[D3DKMT_HANDLE]) {
        let mut groups = BTreeSet::new();
        for allocation in list {
            let Some(handle) = self.pieces.remove(allocation).and_then(|it| it.group) else {
                continue;
            };
            if let Some(it) = self.groups.get_mut(&handle) {
                it.members.retain(|it| it != allocation);
                it.listed += u32::from(groups.insert(handle));
            }
        }
    }

    /// What is known of allocations that are to go.
    pub(crate) fn going(&self, list: &[D3DKMT_HANDLE]) -> Going {
        let mut going = Going::default();
        for allocation in list {
            let Some(piece) = self.pieces.get(allocation) else { continue };
            if piece.locks > 0 {
                going.locked = going.locked.or(Some(*allocation));
            }
            let Some(group) = piece.group.and_then(|it| self.groups.get(&it)) else { continue };
            let about = group.subject;
            going.grouped = going.grouped.or(Some(about));
            if group.is_shared() {
                going.shared = going.shared.or(Some(about));
            }
            if group.drawn == Some(self.submissions) {
                going.drawn = Some(going.drawn.map_or(about, |it| it.min(about)));
            }
        }
        going
    }

    /// The resource that an allocation belongs to.
    pub(crate) fn group_of(&self, allocation: D3DKMT_HANDLE) -> Option<&Group> {
        self.groups.get(&self.pieces.get(&allocation)?.group?)
    }

    /// A lock answered with another instance of an allocation: the driver is to use that. The old
    /// one may be used by commands that are `written` already.
    pub(crate) fn rename(&mut self, old: D3DKMT_HANDLE, new: D3DKMT_HANDLE, written: bool) {
        let Some(piece) = self.pieces.remove(&old) else { return };
        if written {
            self.leaving.push(old);
        } else {
            remember(&mut self.retired, old);
        }
        self.revive(new);
        self.pieces.insert(new, piece);
        if let Some(it) = piece.group.and_then(|it| self.groups.get_mut(&it)) {
            for member in it.members.iter_mut().filter(|it| **it == old) {
                *member = new;
            }
        }
    }

    /// The driver has released a resource with all its allocations. Answers whether it is over:
    /// the application has dropped it, too.
    pub(crate) fn release(&mut self, handle: usize) -> bool {
        let Some(group) = self.groups.get_mut(&handle) else { return false };
        let members = std::mem::take(&mut group.members);
        let over = group.stage == Stage::Dropped;
        (group.stage, group.kernel) = (Stage::Released, 0);
        // What is allocated for it from now on has nothing to do with what was.
        (group.listed, group.said) = (0, Vec::new());
        for member in members {
            self.pieces.remove(&member);
        }
        if over {
            self.forget(handle);
        }
        over
    }

    /// A resource is over.
    pub(crate) fn forget(&mut self, handle: usize) {
        self.strike(handle);
        remember(&mut self.released, handle);
    }

    /// Work was submitted: what was written before is out.
    pub(crate) fn submit(&mut self) {
        self.submissions += 1;
        self.drawn.clear();
        for handle in std::mem::take(&mut self.written) {
            if let Some(group) = self.groups.get_mut(&handle) {
                group.written.clear();
            }
        }
        for it in std::mem::take(&mut self.leaving) {
            remember(&mut self.retired, it);
        }
    }

    /// One of these that a lock has replaced.
    pub(crate) fn replaced(&self, list: &[D3DKMT_HANDLE]) -> Option<D3DKMT_HANDLE> {
        list.iter().find(|it| self.retired.contains(it)).copied()
    }

    /// The application has dropped a resource: the driver's handle of it means nothing.
    pub(crate) fn bury(&mut self, driver: usize) {
        self.dead.retain(|it| *it != driver);
        remember(&mut self.dead, driver);
    }

    /// Whether a driver's handle is dead, and was not given again.
    pub(crate) fn is_dead(&self, driver: usize) -> bool {
        self.dead.contains(&driver) && self.by_driver(driver).is_none()
    }

    /// What is locked of these, and not by the application.
    pub(crate) fn left_locked(&self, list: &[D3DKMT_HANDLE]) -> Option<D3DKMT_HANDLE> {
        let by_application = |it: D3DKMT_HANDLE| {
            self.group_of(it).is_some_and(|group| group.locks.iter().any(|it| *it > 0))
        };
        let locked = |it: D3DKMT_HANDLE| self.pieces.get(&it).is_some_and(|it| it.locks > 0);
        list.iter().copied().find(|it| locked(*it) && !by_application(*it))
    }

    /// Whether something was drawn since work was last submitted, by the GPU.
    pub(crate) fn has_drawn(&self) -> bool {
        let now = Some(self.submissions);
        let mut drawn = self.drawn.iter().filter_map(|it| self.groups.get(it));
        drawn.any(|it| it.drawn == now && !it.members.is_empty())
    }

    /// Whether a handle meant a resource that is over.
    pub(crate) fn was(&self, handle: usize) -> bool {
        self.released.contains(&handle)
    }
}

/// Puts one behind the others, and forgets the first if those are many.
fn remember<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == REMEMBERED {
        kept.pop_front();
    }
    kept.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::Kind;

    fn group(number: u32, flags: u32, drawn: Option<u64>) -> Group {
        let mut surfaces = Surfaces::texture(4, 4);
        surfaces.flags |= flags;
        Group {
            subject: Kind::Surfaces.nr(number),
            surfaces,
            driver: 0,
            kernel: 0,
            global: 0,
            members: Vec::new(),
            stage: Stage::Live,
            opened: false,
            allocated: 0,
            listed: 0,
            said: Vec::new(),
            locks: vec![0],
            written: BTreeSet::new(),
            drawn,
            system: Vec::new(),
        }
    }

    /// 0x40 is alone, 0x80 and 0xc0 are of resource 2, which was drawn with, 0x100 is of
    /// resource 1, which was, too, and is shared.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.groups.insert(16, group(2, 0, Some(0)));
        ledger.groups.insert(32, group(1, D3DDDI_RESOURCEFLAGS::SharedResource, Some(0)));
        ledger.add(None, [0x40].into_iter());
        ledger.add(Some(16), [0x80, 0xc0].into_iter());
        ledger.add(Some(32), [0x100].into_iter());
        ledger
    }

    #[test]
    fn one_look_says_what_every_rule_asks_of_those_that_go() {
        let mut ledger = ledger();
        let (first, second) = (Some(Kind::Surfaces.nr(1)), Some(Kind::Surfaces.nr(2)));
        assert_eq!(ledger.going(&[0x40, 7]), Going::default());
        let all = Going { locked: None, grouped: second, shared: first, drawn: first };
        assert_eq!(ledger.going(&[0x40, 0x80, 0x100]), all);
        for locked in [0x40, 0xc0] {
            ledger.pieces.entry(locked).or_default().locks = 1;
        }
        let part = Going { locked: Some(0xc0), shared: None, drawn: second, ..all };
        assert_eq!(ledger.going(&[0xc0, 0x40]), part);
        ledger.submit();
        assert_eq!(ledger.going(&[0x80]), Going { locked: None, drawn: None, ..part });
    }

    #[test]
    fn a_list_counts_once_for_each_resource_that_it_has_something_of() {
        let mut ledger = ledger();
        ledger.remove_listed(&[0x80, 0xc0, 0x40, 0x80, 7]);
        let left: Vec<D3DKMT_HANDLE> = ledger.pieces.keys().copied().collect();
        assert_eq!(left, [0x100]);
        assert_eq!((ledger.groups[&16].listed, ledger.groups[&16].members.len()), (1, 0));
        assert_eq!((ledger.groups[&32].listed, ledger.groups[&32].members.len()), (0, 1));
    }

    #[test]
    fn what_is_found_by_index_is_what_the_resources_say() {
        let mut ledger = Ledger::default();
        let system = vec![vec![0; 8].into_boxed_slice()];
        let address = system[0].as_ptr().addr();
        ledger.keep(16, Group { system, ..group(1, 0, None) });
        ledger.keep(32, group(2, 0, None));
        for handle in [16, 32] {
            ledger.name(handle, 7);
            ledger.add(Some(handle), [0x40 * u32::from(handle == 16) + 0x40].into_iter());
        }
        assert_eq!((ledger.by_driver(7), ledger.by_driver(0)), (Some(16), None));
        assert_eq!((ledger.draw(32), ledger.draw(8)), (Some((32, None)), None));
        ledger.write(32, 0);
        assert!(ledger.has_drawn() && ledger.written().count() == 1);
        assert!(ledger.system(address + 4, 4).is_some() && ledger.system(address + 4, 5).is_none());
        ledger.let_go(16);
        assert_eq!((ledger.by_driver(7), ledger.dropped().count()), (Some(32), 1));
        ledger.submit();
        assert!(!ledger.has_drawn() && ledger.written().count() == 0);
        assert!(ledger.groups[&32].written.is_empty());
        assert!(ledger.release(16), "it was dropped before");
        assert!(ledger.system(address, 1).is_none() && ledger.dropped().count() == 0);
        ledger.release(32);
        ledger.add(Some(32), [0x80].into_iter());
        assert_eq!(ledger.groups[&32].stage, Stage::Live, "it is made anew");
        ledger.strike(32);
        assert_eq!(ledger.by_driver(7), None);
    }

    #[test]
    fn a_name_that_is_given_again_is_not_the_one_that_was_replaced() {
        let mut ledger = ledger();
        ledger.rename(0x40, 0x140, false);
        ledger.rename(0x80, 0x180, true);
        ledger.submit();
        assert_eq!(ledger.replaced(&[0x40, 0x80]), Some(0x40));
        ledger.add(None, [0x40].into_iter());
        assert_eq!(ledger.replaced(&[0x40, 0x80]), Some(0x80));
    }
}
