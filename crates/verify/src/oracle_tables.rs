//! Compares page tables with a model: each entry is read after it was written, and each address is
//! translated as an engine would after a TLB flush.

use flight::{Component, Log, PageTableWrite, RuleId, Subject, TableEntry, TlbFlush};
use std::collections::BTreeMap;

const ARGUMENT: &str = "DxgkDdiBuildPagingBuffer";
const PAGE_BITS: u32 = 12;

/// The tables of all address spaces, as the kernel requested them.
#[derive(Default)]
pub(crate) struct Tables {
    entries: BTreeMap<Key, Vec<Slot>>,
    /// Updates of each address space that have begun and not ended.
    pending: BTreeMap<Subject, u32>,
    pub(crate) compared: u64,
    /// The entries that were read last. Kept for its memory.
    found: Vec<Option<TableEntry>>,
}

/// The address space of a table, its segment, and its offset there.
type Key = (Subject, u32, u64);

/// An entry.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The expected entry; `None` if it was never written.
    says: Option<TableEntry>,
    /// The last valid entry.
    previous: Option<TableEntry>,
    /// The entry before its last update.
    older: Option<TableEntry>,
    /// Updates of it that have begun and not ended.
    pending: u32,
}

/// An entry that differs from the model.
struct EntryMismatch {
    index: u32,
    expected: TableEntry,
    found: Option<TableEntry>,
    /// It is unchanged.
    untouched: bool,
    /// How many other requested entries are wrong.
    more: u32,
}

impl Tables {
    pub(crate) fn write_started(&mut self, it: &PageTableWrite<'_>) {
        *self.pending.entry(it.of).or_insert(0) += 1;
        let slots = self.entries.entry((it.of, it.table.0, it.table.1)).or_default();
        let range = indices(it);
        let end = range.end as usize;
        if slots.len() < end {
            slots.resize(end, Slot::default());
        }
        let found = peek_entries(it, range.clone(), &mut self.found);
        for ((index, older), slot) in
            range.clone().zip(found).zip(&mut slots[range.start as usize..])
        {
            slot.older = *older;
            slot.says = Some(expected(it, index));
            slot.previous = slot.says.filter(|table_entry| table_entry.valid).or(slot.previous);
            slot.pending += 1;
        }
    }

    pub(crate) fn write_finished(&mut self, it: &PageTableWrite<'_>, log: &Log) {
        if let Some(flying) = self.pending.get_mut(&it.of) {
            *flying = flying.saturating_sub(1);
        }
        let Some(slots) = self.entries.get_mut(&(it.of, it.table.0, it.table.1)) else { return };
        for index in indices(it) {
            if let Some(slot) = slots.get_mut(index as usize) {
                slot.pending = slot.pending.saturating_sub(1);
            }
        }
        if it.hardware.peek_entry(it.table, it.first).is_none() {
            return; // Its hardware does not report its tables.
        }
        // An entry that is being updated again may have either value.
        let known = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let found = peek_entries(it, 0..known, &mut self.found);
        let settled = (0..).zip(&*slots).zip(found).filter(|((_, slot), _)| slot.pending == 0);
        let mut own = None;
        let mut other = None;
        for ((index, slot), found) in settled {
            let Some(says) = slot.says else { continue };
            self.compared += 1;
            let found = *found;
            if found.is_some_and(|table_entry| table_entry.same(&says)) {
                continue;
            }
            let untouched = found == slot.older;
            let mine = indices(it).contains(&index);
            let first: &mut Option<EntryMismatch> = if mine { &mut own } else { &mut other };
            match first {
                Some(first) => first.more += 1,
                None => {
                    *first =
                        Some(EntryMismatch { index, expected: says, found, untouched, more: 0 });
                }
            }
        }
        judge_written(it, log, own.as_ref(), other.as_ref());
        if own.is_none() && other.is_none() {
            return;
        }
        // An error is reported once.
        for (slot, found) in slots.iter_mut().zip(found) {
            if slot.pending == 0 && slot.says.is_some() {
                slot.says = *found;
            }
        }
    }

    /// Forgets all entries in this memory, of every address space.
    pub(crate) fn forget(&mut self, table: (u32, u64)) {
        let lost = |slots: &Vec<Slot>| slots.iter().any(|slot| slot.pending > 0);
        for (key, _) in
            self.entries.iter().filter(|pair| (pair.0.1, pair.0.2) == table && lost(pair.1))
        {
            self.pending.remove(&key.0); // A lost update never ends.
        }
        self.entries.retain(|it, _| (it.1, it.2) != table);
    }

    /// Translates all known addresses of a space, if no update of it is running.
    pub(crate) fn tlb_flushed(&mut self, it: &TlbFlush<'_>, log: &Log) {
        if self.pending.get(&it.of).is_some_and(|number| *number > 0) {
            return;
        }
        if it.hardware.peek_entry((it.root.segment, it.root.offset), 0).is_none() {
            return;
        }
        let whole = (it.start, it.end) == (0, 0);
        let mut compared = 0;
        let root = Node { table: (it.root.segment, it.root.offset), address: 0, removed: false };
        let level = u32::try_from(it.index_bits.len()).unwrap_or(0).saturating_sub(1);
        let wrong = self.find_stale(it, level, root, &mut compared);
        self.compared += compared;
        let broken = wrong.map(|(address, expected, found)| {
            let range = if whole {
                "of the whole address space".to_owned()
            } else {
                format!("from {:#x} up to {:#x}", it.start, it.end)
            };
            format!(
                "after the flush {range} of {} of {} ({}), the GPU finds {} at {address:#x} where the \
                 tables have {}",
                it.of,
                describe_process(it.process),
                it.paging,
                describe_entry(found),
                describe_entry(expected)
            )
        });
        let rule = if whole { RuleId::KMD_PAGING_024 } else { RuleId::WT_TABLES_001 };
        log.judge(rule, Component::Driver, it.of, ARGUMENT, broken);
    }

    /// Checks a table and the tables below it. Returns the first address with a wrong translation,
    /// the expected one, and the actual one.
    fn find_stale(
        &self,
        it: &TlbFlush<'_>,
        level: u32,
        node: Node,
        compared: &mut u64,
    ) -> Option<StaleEntry> {
        let slots = self.entries.get(&(it.of, node.table.0, node.table.1))?;
        let below: u32 = it.index_bits.iter().take(level as usize).sum::<u32>() + PAGE_BITS;
        let top = level as usize + 1 == it.index_bits.len();
        let limit = if top { it.root.entries } else { u32::MAX };
        let inside = |start: u64| {
            let end = start.saturating_add(1 << below);
            (it.start, it.end) == (0, 0) || (start < it.end && it.start < end)
        };
        for (index, slot) in (0..limit).zip(slots) {
            let address = node.address + (u64::from(index) << below);
            let (Some(says), Some(previous)) = (slot.says, slot.previous) else { continue };
            if !inside(address) {
                continue;
            }
            let removed = node.removed || !says.valid;
            if level > 0 {
                let table = (previous.segment, previous.page << PAGE_BITS);
                let child = Node { table, address, removed };
                if let Some(wrong) = self.find_stale(it, level - 1, child, compared) {
                    return Some(wrong);
                }
                continue;
            }
            *compared += 1;
            let expected = Some(says).filter(|_| !removed);
            let found = it.hardware.translate(it.root, address);
            let same = match (expected, found) {
                (None, None) => true,
                (Some(one), Some(other)) => one.same(&other),
                _ => false,
            };
            if !same {
                return Some((address, expected, found));
            }
        }
        None
    }
}

/// A table of the walk: its location, its first address, and whether no entry leads there.
#[derive(Clone, Copy)]
struct Node {
    table: (u32, u64),
    address: u64,
    removed: bool,
}

/// An address, its expected translation, and the actual one.
type StaleEntry = (u64, Option<TableEntry>, Option<TableEntry>);

fn judge_written(
    it: &PageTableWrite<'_>,
    log: &Log,
    own: Option<&EntryMismatch>,
    other: Option<&EntryMismatch>,
) {
    let judge = |rule, broken| log.judge(rule, Component::Driver, it.of, ARGUMENT, broken);
    let sentence = |wrong: &EntryMismatch, what: &str| {
        format!(
            "the update ({}) of entries {} to {} of a table of level {} at {:#x} of segment {}, \
             which translate from {:#x} on for {} of {}, {what} entry {} as {} where {} must be",
            it.paging,
            it.first,
            u64::from(it.first) + u64::from(it.count).saturating_sub(1),
            it.level,
            it.table.1,
            it.table.0,
            it.address,
            it.of,
            describe_process(it.process),
            wrong.index,
            describe_entry(wrong.found),
            describe_entry(Some(wrong.expected))
        )
    };
    if it.repeat && it.count > 1 {
        // The first entry is right, and this one is unchanged, or most are wrong: so the entry was
        // not repeated.
        let few = own.filter(|wrong| {
            wrong.index != it.first && (wrong.untouched || wrong.more >= it.count / 2)
        });
        judge(
            RuleId::KMD_PAGING_021,
            few.map(|entry_mismatch| sentence(entry_mismatch, "with Repeat left")),
        );
        if few.is_some() {
            return;
        }
    }
    if it.by_cpu {
        // The first entry is unchanged: so nothing was written yet.
        let late = own.filter(|wrong| wrong.index == it.first && wrong.untouched);
        judge(
            RuleId::KMD_PAGING_020,
            late.map(|entry_mismatch| sentence(entry_mismatch, "by the CPU left")),
        );
        if late.is_some() {
            return;
        }
    }
    let broken = own.map(|entry_mismatch| sentence(entry_mismatch, "left"));
    let broken = broken
        .or_else(|| other.map(|entry_mismatch| sentence(entry_mismatch, "changed another one:")));
    judge(RuleId::WT_TABLES_001, broken);
}

fn describe_process(process: Option<Subject>) -> String {
    process.map_or("the system".to_owned(), |subject| subject.to_string())
}

fn indices(it: &PageTableWrite<'_>) -> std::ops::Range<u32> {
    it.first..it.first.saturating_add(it.count)
}

/// Reads entries of the table, into the memory of those that were read before.
fn peek_entries<'a>(
    it: &PageTableWrite<'_>,
    range: std::ops::Range<u32>,
    found: &'a mut Vec<Option<TableEntry>>,
) -> &'a [Option<TableEntry>] {
    found.clear();
    found.resize(range.len(), None);
    it.hardware.peek_entries(it.table, range.start, found);
    found
}

fn expected(it: &PageTableWrite<'_>, index: u32) -> TableEntry {
    let at = if it.repeat { 0 } else { (index - it.first) as usize };
    it.entries.get(at).copied().unwrap_or_default()
}

fn describe_entry(entry: Option<TableEntry>) -> String {
    match entry {
        None => "nothing".to_owned(),
        Some(it) if !it.valid => "an invalid entry".to_owned(),
        Some(it) if it.zero => "a page of zeroes".to_owned(),
        Some(it) => {
            let fixed = if it.read_only { " (read-only)" } else { "" };
            let place = match it.segment {
                0 => "the system's memory".to_owned(),
                number => format!("segment {number}"),
            };
            format!("page {:#x} of {place}{fixed}", it.page)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{EventKind, HardwareModel, InterruptLine, Kind, Passive, TableRoot};
    use std::cell::RefCell;
    use std::sync::Mutex;

    const SPACE: Subject = Subject { kind: Kind::AddressSpace, number: 1 };
    const ROOT: TableRoot = TableRoot { segment: 3, offset: 0, entries: 512 };

    /// Two levels of tables, and what the engines have cached.
    #[derive(Default)]
    struct Fake {
        entries: Mutex<BTreeMap<(u32, u64, u32), TableEntry>>,
        remembered: Mutex<BTreeMap<u64, TableEntry>>,
    }

    impl HardwareModel for Fake {
        fn idle(&self) -> bool {
            true
        }

        fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}

        fn peek_entry(&self, table: (u32, u64), index: u32) -> Option<TableEntry> {
            let entries = self.entries.lock().unwrap();
            Some(entries.get(&(table.0, table.1, index)).copied().unwrap_or_default())
        }

        fn translate(&self, root: TableRoot, address: u64) -> Option<TableEntry> {
            if let Some(it) = self.remembered.lock().unwrap().get(&address) {
                return Some(*it);
            }
            let index = |shift: u32| u32::try_from(address >> shift & 511).unwrap();
            let top = self.peek_entry((root.segment, root.offset), index(21))?;
            let top = Some(top).filter(|table_entry| table_entry.valid)?;
            let leaf = self.peek_entry((top.segment, top.page << 12), index(12));
            leaf.filter(|table_entry| table_entry.valid)
        }
    }

    fn page(page: u64) -> TableEntry {
        TableEntry { valid: true, segment: 2, page, ..TableEntry::default() }
    }

    fn table(page: u64) -> TableEntry {
        TableEntry { valid: true, segment: 3, page, ..TableEntry::default() }
    }

    struct Flight {
        fake: Fake,
        tables: RefCell<Tables>,
        log: Log,
    }

    impl Flight {
        fn new() -> Self {
            Self { fake: Fake::default(), tables: RefCell::default(), log: Log::new() }
        }

        fn update<'a>(
            &'a self,
            level: u32,
            first: u32,
            entries: &'a [TableEntry],
        ) -> PageTableWrite<'a> {
            PageTableWrite {
                paging: Kind::Paging.subject(1),
                of: SPACE,
                process: Some(Kind::Process.subject(1)),
                level,
                table: (3, if level == 1 { 0 } else { 0x1000 }),
                first,
                count: u32::try_from(entries.len()).unwrap(),
                entries,
                repeat: false,
                by_cpu: false,
                address: 0,
                hardware: &self.fake,
            }
        }

        /// An update, and what the driver writes for it.
        fn written(&self, it: &PageTableWrite<'_>, created_line: &[(u32, TableEntry)]) {
            self.tables.borrow_mut().write_started(it);
            for (index, entry) in created_line {
                let place = (it.table.0, it.table.1, *index);
                self.fake.entries.lock().unwrap().insert(place, *entry);
            }
            self.tables.borrow_mut().write_finished(it, &self.log);
        }

        fn flush(&self, start: u64, end: u64) {
            let flushed = TlbFlush {
                paging: Kind::Paging.subject(2),
                of: SPACE,
                process: Some(Kind::Process.subject(1)),
                root: ROOT,
                index_bits: &[9, 9],
                start,
                end,
                hardware: &self.fake,
            };
            self.tables.borrow_mut().tlb_flushed(&flushed, &self.log);
        }

        /// Page 5 at 0x3000, page 6 behind it.
        fn mapped() -> Self {
            let it = Self::new();
            let top = [table(1)];
            it.written(&it.update(1, 0, &top), &[(0, top[0])]);
            let pages = [page(5), page(6)];
            it.written(&it.update(0, 3, &pages), &[(3, page(5)), (4, page(6))]);
            it.flush(0x3000, 0x5000);
            it.broken(&[]);
            it
        }

        fn broken(&self, expected: &[(RuleId, &str)]) {
            let events = self.log.take().into_iter().map(|event| event.kind);
            let broken: Vec<(RuleId, String)> = events
                .map(|kind| match kind {
                    EventKind::RuleBroken { rule, message, .. } => (rule, message.into_owned()),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(broken.len(), expected.len(), "{broken:?}");
            for ((rule, message), (wanted, part)) in broken.iter().zip(expected) {
                assert_eq!(rule, wanted, "{message}");
                assert!(message.contains(part), "{message}");
            }
        }
    }

    #[test]
    fn what_was_written_as_asked_is_kept() {
        let it = Flight::mapped();
        let counts = it.log.rule_counts();
        assert_eq!(counts.count_of(RuleId::WT_TABLES_001), 3);
        assert!(it.tables.borrow().compared >= 5);
    }

    #[test]
    fn an_entry_too_few_and_one_too_many() {
        let it = Flight::mapped();
        let pages = [page(7), page(8)];
        it.written(&it.update(0, 5, &pages), &[(5, page(7))]);
        it.broken(&[(RuleId::WT_TABLES_001, "left entry 6 as an invalid entry where page 0x8")]);
        it.written(&it.update(0, 2, &[page(9)]), &[(2, page(9)), (3, page(10))]);
        it.broken(&[(RuleId::WT_TABLES_001, "changed another one: entry 3 as page 0xa")]);
        it.written(&it.update(0, 9, &[page(9)]), &[(9, page(9 << 12))]);
        it.broken(&[(RuleId::WT_TABLES_001, "page 0x9000 of segment 2 where page 0x9 of")]);
    }

    #[test]
    fn repeat_and_the_cpu_have_rules_of_their_own() {
        let it = Flight::mapped();
        let one = [page(7)];
        let write = PageTableWrite { count: 3, repeat: true, ..it.update(0, 8, &one) };
        it.written(&write, &[(8, page(7))]);
        it.broken(&[(RuleId::KMD_PAGING_021, "with Repeat left entry 9")]);
        it.written(&write, &[(8, page(7)), (9, page(7)), (10, page(7))]);
        it.broken(&[]);
        it.written(&PageTableWrite { by_cpu: true, ..it.update(0, 12, &one) }, &[]);
        it.broken(&[(RuleId::KMD_PAGING_020, "by the CPU left entry 12 as an invalid entry")]);
    }

    #[test]
    fn a_stale_translation_is_found_by_the_flush() {
        let it = Flight::mapped();
        it.fake.remembered.lock().unwrap().insert(0x3000, page(5));
        it.written(&it.update(0, 3, &[page(9)]), &[(3, page(9))]);
        it.flush(0x4000, 0x5000);
        it.broken(&[]);
        it.flush(0x3000, 0x4000);
        it.broken(&[(RuleId::WT_TABLES_001, "finds page 0x5 of segment 2 at 0x3000 where")]);
        it.flush(0, 0);
        it.broken(&[(
            RuleId::KMD_PAGING_024,
            "of the whole address space of address-space 1 of process 1",
        )]);
    }

    #[test]
    fn what_is_below_an_entry_that_is_gone_is_gone() {
        let it = Flight::mapped();
        it.fake.remembered.lock().unwrap().insert(0x4000, page(6));
        let none = [TableEntry::default()];
        it.written(&it.update(1, 0, &none), &[(0, none[0])]);
        it.flush(0, 0);
        it.broken(&[(RuleId::KMD_PAGING_024, "where the tables have nothing")]);
        it.tables.borrow_mut().forget((3, 0x1000));
        it.flush(0, 0);
        it.broken(&[]);
    }

    #[test]
    fn what_is_on_its_way_is_not_compared() {
        let it = Flight::mapped();
        let pages = [page(7)];
        let update = it.update(0, 3, &pages);
        it.tables.borrow_mut().write_started(&update);
        it.written(&it.update(0, 3, &[page(8)]), &[]);
        it.flush(0, 0);
        it.broken(&[]);
    }
}
