//! Following addresses: spaces, their mappings, and their page tables.

use crate::shadow::address::{AddressRange, AddressSpace, Mapping, PageTable};
use crate::shadow::memory::Segment;
use crate::shadow::{Adapter, Context, Key, Serial, Shadows};
use flight::{Event, EventKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

const PAGE: u64 = 4096;

impl Shadows {
    pub(crate) fn follow_space(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.kind {
            EventKind::AddressSpaceCreated {
                adapter,
                process,
                bits,
                invalidates_tables: again,
            } => {
                let end = 1_u64.checked_shl(*bits).unwrap_or(u64::MAX);
                let (adapter, process) = (*adapter, *process);
                let (ranges, order, again) = (BTreeMap::new(), None, *again);
                let space = AddressSpace {
                    adapter: adapter.into(),
                    process: process.map(Serial::from),
                    end,
                    ranges,
                    order,
                    invalidates_tables: again,
                    contexts: BTreeSet::new(),
                    tables: BTreeMap::new(),
                    parents: BTreeMap::new(),
                    remembered: BTreeMap::new(),
                    waiting: BTreeSet::new(),
                    unmapped: VecDeque::new(),
                };
                self.start(subject, space);
                self.with_adapter(adapter, |adapter| {
                    adapter.spaces.push((process.map(Serial::from), subject.into()));
                });
            }
            EventKind::AddressSpaceDestroyed {} => {
                let adapter =
                    self.address_space(subject).map(|address_space| address_space.adapter);
                self.remove_mappings(subject.into(), |_| true);
                self.end(subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |adapter| {
                        adapter.spaces.retain(|pair| pair.1 != subject);
                    });
                }
            }
            EventKind::RangeReserved { start, end, .. }
            | EventKind::RangeDriverReserved { start, end, .. } => {
                let taken = AddressRange { end: *end, of: None, offset: 0 };
                self.with_space(subject, |address_space| {
                    address_space.set_range(&(*start..*end), Some(taken), event.seq);
                });
            }
            EventKind::RangeMapped { start, end, of, offset, index: order, .. } => {
                let taken = AddressRange { end: *end, of: *of, offset: *offset };
                self.with_space(subject, |address_space| {
                    address_space.set_range(&(*start..*end), Some(taken), event.seq);
                    address_space.order = Some(*order);
                });
            }
            EventKind::RangeMapReturned { .. } => {
                self.with_space(subject, |address_space| address_space.order = None);
            }
            EventKind::UpdateApplied { update, .. } => self.with_space(subject, |address_space| {
                address_space.order = None;
                address_space.waiting.remove(update);
            }),
            EventKind::UpdateQueued { update, .. } => {
                self.with_space(subject, |address_space| address_space.waiting.extend([*update]));
            }
            EventKind::UpdateCancelled { update } => {
                self.with_space(subject, |address_space| {
                    address_space.waiting.retain(|number| number != update);
                });
            }
            EventKind::RangeFreed { start, end, still_reserved: kept, .. } => {
                let stays = AddressRange { end: *end, of: None, offset: 0 };
                self.with_space(subject, |address_space| {
                    address_space.set_range(&(*start..*end), kept.then_some(stays), event.seq);
                });
            }
            EventKind::TlbFlushed { start, end } => {
                let all = (*start, *end) == (0, 0);
                let inside = |mapping: &Mapping| {
                    all || (*start <= mapping.span.start && mapping.span.end <= *end)
                };
                self.remove_mappings(subject.into(), |mapping| mapping.stale && inside(mapping));
                self.with_space(subject, |address_space| {
                    address_space
                        .remembered
                        .retain(|_, address_space| !all && *address_space >= *end);
                });
            }
            EventKind::RootSet { context: Some(context), table, .. } => {
                self.set_root((*context).into(), Some((*table).into()));
                self.with_space(subject, |address_space| {
                    address_space.contexts.extend([Serial::of(*context)]);
                });
            }
            _ => (),
        }
    }

    /// A context gets another root, or is destroyed.
    pub(crate) fn set_root(&mut self, context: Serial<Context>, table: Option<Serial<PageTable>>) {
        if let Some(table) = table.filter(|_| self.context(context).is_none()) {
            self.early_roots.insert(context, table);
        }
        let before = self.context_mut(context).and_then(|context| {
            let before = context.root.take();
            context.root = table;
            before
        });
        let space = before.and_then(|it| {
            let it = self.page_table_mut(it)?;
            it.roots.remove(&context);
            Some(it.space)
        });
        if let Some(space) = space.filter(|_| table.is_none()) {
            self.with_space(space, |address_space| {
                address_space.contexts.retain(|serial| *serial != context);
            });
        }
        if let Some(it) = self.page_table_mut(table) {
            it.roots.insert(context);
        }
    }

    fn with_space(
        &mut self,
        space: impl Key<AddressSpace>,
        change: impl FnOnce(&mut AddressSpace),
    ) {
        if let Some(it) = self.address_space_mut(space) {
            change(it);
        }
    }

    pub(crate) fn follow_table(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.kind {
            EventKind::PageTableCreated { space, entries, level, address } => {
                let (space, entries, roots) = (*space, *entries, BTreeSet::new());
                let table =
                    PageTable { space: space.into(), entries, first: None, last: None, roots };
                self.start(subject, table);
                self.with_space(space, |address_space| {
                    address_space.tables.extend([((*level, *address), Serial::of(subject))]);
                });
            }
            EventKind::PageTableDestroyed {} => {
                if let Some(space) = self.page_table(subject).map(|page_table| page_table.space) {
                    self.with_space(space, |address_space| {
                        address_space.tables.retain(|_, address_space| *address_space != subject);
                        address_space.remembered.remove(&Serial::of(subject));
                        address_space
                            .parents
                            .retain(|_, (child, parent)| *child != subject && *parent != subject);
                    });
                }
                self.end(subject);
            }
            EventKind::PageTableWritten { entry_kind: what, count, .. } => {
                if let Some(it) = self.page_table_mut(subject) {
                    it.first.get_or_insert((what.clone(), *count));
                    it.last = Some((what.clone(), *count));
                }
                self.add_mapping(event);
                self.add_parent_entry(event);
            }
            _ => (),
        }
    }

    /// An upper-level entry now leads to a table, or to none any more.
    fn add_parent_entry(&mut self, event: &Event) {
        let EventKind::PageTableWritten { space, level, address, count, entry_kind: what, .. } =
            &event.kind
        else {
            return;
        };
        let (Some(below), parent) = (level.checked_sub(1), event.subject) else { return };
        let Some(it) = self.address_space_mut(*space) else { return };
        let key = (below, *address);
        let now = it.tables.get(&key).copied().filter(|_| what == "table");
        let mine = |at: &(u32, u64), parent_of: &Serial<PageTable>| {
            if *count == 1 { *at == key } else { *parent_of == parent }
        };
        let before: Vec<_> = it.parents.extract_if(.., |at, of| mine(at, &of.1)).collect();
        it.remembered.extend(before.into_iter().map(|((_, address), of)| (of.0, address)));
        if let Some(now) = now {
            it.remembered.remove(&now);
            it.parents.insert(key, (now, parent.into()));
        }
    }

    /// A GPU was reset: cached translations are dropped, and entries are written again.
    pub(crate) fn forget_tables(&mut self, adapter: impl Key<Adapter>) {
        let spaces =
            self.adapter(adapter).map(|adapter| adapter.spaces.clone()).unwrap_or_default();
        for (_, space) in spaces {
            self.with_space(space, |address_space| {
                address_space.parents.clear();
                address_space.remembered.clear();
            });
        }
    }

    /// The segments of the adapter of a space.
    fn segments_of(&self, space: impl Key<AddressSpace>) -> Vec<Serial<Segment>> {
        let adapter = self.address_space(space).map(|address_space| address_space.adapter);
        let adapter = self.adapter(adapter);
        adapter.map(|adapter| adapter.segments.clone()).unwrap_or_default()
    }

    /// Entries of pages now lead elsewhere.
    fn add_mapping(&mut self, event: &Event) {
        let EventKind::PageTableWritten {
            space,
            level: 0,
            address,
            count,
            entry_kind: what,
            segment,
            page,
            of,
            ..
        } = &event.kind
        else {
            return;
        };
        // Those of the system lead everywhere, always.
        if self.address_space(*space).is_none_or(|address_space| address_space.process.is_none()) {
            return;
        }
        let span = *address..address + u64::from(*count) * PAGE;
        let segments = self.segments_of(*space);
        for it in &segments {
            if let Some(it) = self.segment_mut(*it) {
                let mappings = std::mem::take(&mut it.mappings);
                it.mappings = mappings
                    .into_iter()
                    .flat_map(|mapping| mapping.split((*space).into(), &span))
                    .collect();
            }
        }
        let to = segment.checked_sub(1).and_then(|number| segments.get(number as usize));
        let to = to.copied().filter(|_| what == "page");
        if let Some(it) = self.segment_mut(to) {
            let to = it.base + page * PAGE;
            let lead = Mapping { space: (*space).into(), span, to, of: *of, stale: false };
            it.mappings.push(lead);
        }
    }

    fn remove_mappings(&mut self, space: Serial<AddressSpace>, which: impl Fn(&Mapping) -> bool) {
        for it in self.segments_of(space) {
            if let Some(it) = self.segment_mut(it) {
                it.mappings.retain(|mapping| mapping.space != space || !which(mapping));
            }
        }
    }
}

/// The addresses of entries.
pub(crate) fn span_of(address: u64, count: u32) -> Range<u64> {
    address..address.saturating_add(u64::from(count) * PAGE)
}
