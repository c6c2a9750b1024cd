//! Following addresses: spaces, what is mapped in them, and their page tables.

use crate::shadow::address::{Lead, Space, Table, Taken};
use crate::shadow::memory::Segment;
use crate::shadow::{Adapter, Context, Key, Serial, Shadows};
use flight::{Event, What};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const PAGE: u64 = 4096;

impl Shadows {
    pub(crate) fn follow_space(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::SpaceCreated { adapter, process, bits, again } => {
                let end = 1_u64.checked_shl(*bits).unwrap_or(u64::MAX);
                let (adapter, process) = (*adapter, *process);
                let (ranges, order, again) = (BTreeMap::new(), None, *again);
                let space = Space {
                    adapter: adapter.into(),
                    process: process.map(Serial::from),
                    end,
                    ranges,
                    order,
                    again,
                    walkers: BTreeSet::new(),
                    tables: BTreeMap::new(),
                    above: BTreeMap::new(),
                    remembered: BTreeMap::new(),
                    waiting: BTreeSet::new(),
                };
                self.start(subject, space);
                self.with_adapter(adapter, |it| {
                    it.spaces.push((process.map(Serial::from), subject.into()));
                });
            }
            What::SpaceDestroyed {} => {
                let adapter = self.space(subject).map(|it| it.adapter);
                self.forget_leads(subject.into(), |_| true);
                self.end(subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| it.spaces.retain(|it| it.1 != subject));
                }
            }
            What::RangeReserved { start, end, .. } | What::RangeKept { start, end, .. } => {
                let taken = Taken { end: *end, of: None, offset: 0 };
                self.with_space(subject, |it| it.put(&(*start..*end), Some(taken)));
            }
            What::RangeMapped { start, end, of, offset, order, .. } => {
                let taken = Taken { end: *end, of: *of, offset: *offset };
                self.with_space(subject, |it| {
                    it.put(&(*start..*end), Some(taken));
                    it.order = Some(*order);
                });
            }
            What::RangeGiven { .. } => self.with_space(subject, |it| it.order = None),
            What::UpdateApplied { update, .. } => self.with_space(subject, |it| {
                it.order = None;
                it.waiting.remove(update);
            }),
            What::UpdateQueued { update, .. } => {
                self.with_space(subject, |it| it.waiting.extend([*update]));
            }
            What::UpdateDropped { update } => {
                self.with_space(subject, |it| it.waiting.retain(|it| it != update));
            }
            What::RangeFreed { start, end, kept, .. } => {
                let stays = Taken { end: *end, of: None, offset: 0 };
                self.with_space(subject, |it| it.put(&(*start..*end), kept.then_some(stays)));
            }
            What::TlbFlushed { start, end } => {
                let all = (*start, *end) == (0, 0);
                let inside = |it: &Lead| all || (*start <= it.span.start && it.span.end <= *end);
                self.forget_leads(subject.into(), |it| it.stale && inside(it));
                self.with_space(subject, |it| it.remembered.retain(|_, it| !all && *it >= *end));
            }
            What::RootSet { context: Some(context), table, .. } => {
                self.root_set((*context).into(), Some((*table).into()));
                self.with_space(subject, |it| it.walkers.extend([Serial::of(*context)]));
            }
            _ => (),
        }
    }

    /// A context has another root, or is gone.
    pub(crate) fn root_set(&mut self, context: Serial<Context>, table: Option<Serial<Table>>) {
        if let Some(table) = table.filter(|_| self.context(context).is_none()) {
            self.early_roots.insert(context, table);
        }
        let before = self.context_mut(context).and_then(|it| {
            let before = it.root.take();
            it.root = table;
            before
        });
        let space = before.and_then(|it| {
            let it = self.table_mut(it)?;
            it.roots.remove(&context);
            Some(it.space)
        });
        if let Some(space) = space.filter(|_| table.is_none()) {
            self.with_space(space, |it| it.walkers.retain(|it| *it != context));
        }
        if let Some(it) = self.table_mut(table) {
            it.roots.insert(context);
        }
    }

    fn with_space(&mut self, space: impl Key<Space>, change: impl FnOnce(&mut Space)) {
        if let Some(it) = self.space_mut(space) {
            change(it);
        }
    }

    pub(crate) fn follow_table(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::TableMade { space, entries, level, address } => {
                let (space, entries, roots) = (*space, *entries, BTreeSet::new());
                let table = Table { space: space.into(), entries, first: None, last: None, roots };
                self.start(subject, table);
                self.with_space(space, |it| {
                    it.tables.extend([((*level, *address), Serial::of(subject))]);
                });
            }
            What::TableGone {} => {
                if let Some(space) = self.table(subject).map(|it| it.space) {
                    self.with_space(space, |it| {
                        it.tables.retain(|_, it| *it != subject);
                        it.remembered.remove(&Serial::of(subject));
                        it.above
                            .retain(|_, (child, parent)| *child != subject && *parent != subject);
                    });
                }
                self.end(subject);
            }
            What::TableWritten { what, count, .. } => {
                if let Some(it) = self.table_mut(subject) {
                    it.first.get_or_insert((what.clone(), *count));
                    it.last = Some((what.clone(), *count));
                }
                self.lead(event);
                self.lead_to_table(event);
            }
            _ => (),
        }
    }

    /// An entry above leads to a table from here on, or to none any more.
    fn lead_to_table(&mut self, event: &Event) {
        let What::TableWritten { space, level, address, count, what, .. } = &event.what else {
            return;
        };
        let (Some(below), parent) = (level.checked_sub(1), event.subject) else { return };
        let Some(it) = self.space_mut(*space) else { return };
        let key = (below, *address);
        let now = it.tables.get(&key).copied().filter(|_| what == "table");
        let mine = |at: &(u32, u64), parent_of: &Serial<Table>| {
            if *count == 1 { *at == key } else { *parent_of == parent }
        };
        let before: Vec<_> = it.above.extract_if(.., |at, of| mine(at, &of.1)).collect();
        it.remembered.extend(before.into_iter().map(|((_, address), of)| (of.0, address)));
        if let Some(now) = now {
            it.remembered.remove(&now);
            it.above.insert(key, (now, parent.into()));
        }
    }

    /// A GPU was reset: nothing is remembered, and what leads where is written again.
    pub(crate) fn tables_lost(&mut self, adapter: impl Key<Adapter>) {
        let spaces = self.adapter(adapter).map(|it| it.spaces.clone()).unwrap_or_default();
        for (_, space) in spaces {
            self.with_space(space, |it| {
                it.above.clear();
                it.remembered.clear();
            });
        }
    }

    /// The segments of the adapter of a space.
    fn segments_of(&self, space: impl Key<Space>) -> Vec<Serial<Segment>> {
        let adapter = self.space(space).map(|it| it.adapter);
        let adapter = self.adapter(adapter);
        adapter.map(|it| it.segments.clone()).unwrap_or_default()
    }

    /// Entries of pages lead elsewhere from here on.
    fn lead(&mut self, event: &Event) {
        let What::TableWritten { space, level: 0, address, count, what, segment, page, of, .. } =
            &event.what
        else {
            return;
        };
        // The system's own lead everywhere, always.
        if self.space(*space).is_none_or(|it| it.process.is_none()) {
            return;
        }
        let span = *address..address + u64::from(*count) * PAGE;
        let segments = self.segments_of(*space);
        for it in &segments {
            if let Some(it) = self.segment_mut(*it) {
                let leads = std::mem::take(&mut it.leads);
                it.leads =
                    leads.into_iter().flat_map(|it| it.cut((*space).into(), &span)).collect();
            }
        }
        let to = segment.checked_sub(1).and_then(|it| segments.get(it as usize));
        let to = to.copied().filter(|_| what == "page");
        if let Some(it) = self.segment_mut(to) {
            let to = it.base + page * PAGE;
            let lead = Lead { space: (*space).into(), span, to, of: *of, stale: false };
            it.leads.push(lead);
        }
    }

    fn forget_leads(&mut self, space: Serial<Space>, which: impl Fn(&Lead) -> bool) {
        for it in self.segments_of(space) {
            if let Some(it) = self.segment_mut(it) {
                it.leads.retain(|it| it.space != space || !which(it));
            }
        }
    }
}

/// The addresses of entries.
pub(crate) fn span_of(address: u64, count: u32) -> Range<u64> {
    address..address.saturating_add(u64::from(count) * PAGE)
}
