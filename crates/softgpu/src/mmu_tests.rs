//! Virtual addresses without a kernel: paging operations write tables, packets use them.

use crate::engine::Completion;
use crate::format::{Command, encode};
use crate::plan::{LOCAL_BASE, PAGE, VISIBLE_BASE};
use crate::{ENTRY_SIZE, Gpu, LOCAL, MemoryPlan, MmuPlan, SoftGpu, VISIBLE};
use flight::{
    DeterministicHost, Dispatch, Fence, HardwareModel, InterruptLine, Log, Passive, Ram, Run,
};
use flight::{TableEntry, TableRoot};
use kernel::miniport::{DriverError, DriverResult, Miniport};
use kernel::mmu::{EntryCopy, PageTableEntry, RootSize, TableAddress, TableUpdate, UpdateMode};
use kernel::operation::{BuildPagingBufferArgs, Operation, SubmitPagingArgs};
use std::sync::{Arc, Mutex};

/// Tables are the first pages of local memory, data those of visible memory.
const ROOT: u64 = 0;
const MIDDLE: u64 = PAGE;
const LEAF: u64 = 2 * PAGE;
const LOCAL_BYTES: u64 = 32 * PAGE;
const PROCESS: usize = 77;
const CONTEXT: usize = 11;
const SYSTEM: usize = 12;
/// An address with a different index at each level: 1, 2 and 3.
const ADDRESS: u64 = 1 << 30 | 2 << 21 | 3 << 12;

/// Records the roots with which packets are started.
#[derive(Default)]
struct Heard(Mutex<Vec<(Fence, Option<TableRoot>)>>);

impl InterruptLine for Heard {
    fn raise(&self, _at: &mut Passive) {}

    fn root_used(&self, _node: u32, fence: Fence, root: Option<TableRoot>) {
        self.0.lock().unwrap().push((fence, root));
    }
}

struct Bench<'a> {
    ram: Arc<nt::Ram>,
    driver: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
    at: &'a mut Passive,
    buffer: Run,
    fence: u32,
    line: Heard,
}

fn fly(mmu: MmuPlan, body: impl FnOnce(&mut Bench<'_>)) {
    let ram = nt::Ram::new(256 * PAGE).unwrap();
    let buffer = ram.allocate(2 * PAGE).unwrap();
    let plan = MemoryPlan {
        visible: 32 * PAGE,
        local: LOCAL_BYTES,
        aperture: 8 * PAGE,
        paging_node: 0,
        mmu: Some(mmu),
        ..MemoryPlan::default()
    };
    let (driver, gpu) = SoftGpu::with_memory(ram.clone(), plan);
    let flown = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
        let line = Heard::default();
        let bench = &mut Bench { ram, driver, gpu, at, buffer, fence: 0, line };
        bench.furnish();
        body(bench);
    });
    flown.unwrap();
}

fn page(segment: u32, page: u64) -> PageTableEntry {
    PageTableEntry { valid: true, segment, page, ..PageTableEntry::default() }
}

fn table(offset: u64) -> PageTableEntry {
    page(LOCAL, offset / PAGE)
}

/// How an engine translates that page.
#[expect(clippy::unnecessary_wraps, reason = "the signature of an engine's translation")]
fn found(segment: u32, page: u64) -> Option<TableEntry> {
    Some(TableEntry { valid: true, segment, page, ..TableEntry::default() })
}

fn root(entries: u32) -> TableRoot {
    TableRoot { segment: LOCAL, offset: ROOT, entries }
}

fn update(level: u32, offset: u64, first: u32, entries: &[PageTableEntry]) -> TableUpdate<'_> {
    TableUpdate {
        process: PROCESS,
        level,
        table: TableAddress::Physical(LOCAL, LOCAL_BASE + offset),
        first,
        count: u32::try_from(entries.len()).unwrap(),
        entries,
        repeat: false,
        initial: false,
        evicts: false,
        address: 0,
        driver_handle: None,
        offset: 0,
        protection: 0,
    }
}

impl Bench<'_> {
    /// A device with a context, and the system's.
    fn furnish(&self) {
        let records = &mut self.driver.state().records;
        records.add_device(10, 0);
        records.add_context(CONTEXT, 10, None);
        records.add_context(SYSTEM, 10, None);
        records.set_system(SYSTEM);
    }

    fn build(
        &mut self,
        operation: &Operation<'_>,
        room: u64,
        multipass: &mut u32,
    ) -> (DriverResult<()>, u32) {
        let mut told = None;
        let place = Run { start: self.buffer.start, bytes: room };
        let mut build = |bytes: &mut [u8]| {
            let mut args = BuildPagingBufferArgs {
                operation: operation.clone(),
                buffer: bytes,
                address: place.start,
                used: 0,
                written: 0,
                multipass,
                private: &mut [],
            };
            let answer = self.driver.build_paging_buffer(self.at, &mut args);
            told = Some((answer, args.written));
        };
        if room == 0 {
            build(&mut []);
        } else {
            assert!(self.ram.with_slice(place, &mut build));
        }
        told.unwrap()
    }

    /// Executes an operation through buffers of that size. Returns how many it took, and its
    /// result.
    fn page_in(&mut self, operation: &Operation<'_>, room: u64) -> (u32, Completion) {
        let mut multipass = 0;
        for pass in 1..1000 {
            let (answer, length) = self.build(operation, room, &mut multipass);
            self.fence += 1;
            let packet = SubmitPagingArgs {
                node: 0,
                fence: Fence(self.fence),
                commands: self.buffer.start,
                length,
                private: &[],
                switch: false,
            };
            let driver = self.driver.clone();
            let raised = |at: &mut Dispatch| driver.submit_paging(at, &packet);
            assert_eq!(self.at.raised(raised), Ok(()));
            let completions = self.run();
            match answer {
                Ok(()) => return (pass, completions),
                Err(refusal) => assert_eq!(refusal, DriverError::NoRoom),
            }
        }
        panic!("it does not end");
    }

    fn page(&mut self, operation: &Operation<'_>) {
        let (_, completions) = self.page_in(operation, PAGE);
        assert_eq!(completions, Completion::Done(Fence(self.fence)), "{operation:?}");
    }

    fn write(&mut self, level: u32, offset: u64, first: u32, entries: &[PageTableEntry]) {
        self.page(&Operation::UpdateTable(update(level, offset, first, entries)));
    }

    /// Tables for one page, at ADDRESS.
    fn map(&mut self, entry: PageTableEntry) {
        self.write(2, ROOT, 1, &[table(MIDDLE)]);
        self.write(1, MIDDLE, 2, &[table(LEAF)]);
        self.write(0, LEAF, 3, &[entry]);
    }

    fn flush(&mut self, start: u64, end: u64) {
        let root = (LOCAL, ROOT);
        self.page(&Operation::FlushTlb { process: PROCESS, root, start, end });
    }

    /// Submits a packet of the context, and returns how it ended.
    fn draw(&mut self, commands: &[Command], fetch: Option<(u64, u32)>) -> Completion {
        self.fence += 1;
        let commands = self.driver.state().records.resolve(CONTEXT, commands.to_vec()).unwrap();
        self.driver.push_render_work(CONTEXT, (0, Fence(self.fence)), commands, fetch).unwrap();
        self.run()
    }

    fn fill(&mut self, address: u64, length: u64, value: u8) -> Completion {
        self.draw(&[Command::FillAt { address, length, value }], None)
    }

    fn set_root(&mut self, root: TableRoot) {
        assert!(self.driver.state().records.set_root(CONTEXT, root));
    }

    fn run(&mut self) -> Completion {
        while !self.gpu.idle() {
            self.gpu.step(self.at, &self.line);
        }
        *self.gpu.take_completions(0).last().unwrap()
    }

    fn done(&self) -> Completion {
        Completion::Done(Fence(self.fence))
    }

    fn fault(&self, address: u64) -> Completion {
        Completion::PageFaulted(Fence(self.fence), address)
    }

    fn byte(&self, address: u64) -> u8 {
        let mut byte = [0];
        assert!(self.gpu.peek(address, &mut byte));
        byte[0]
    }
}

#[test]
fn an_address_is_walked_from_the_root_to_the_page() {
    fly(MmuPlan::default(), |bench| {
        bench.set_root(root(512));
        assert_eq!(bench.fill(ADDRESS, 4, 5), bench.fault(ADDRESS), "nothing is mapped");
        bench.map(page(VISIBLE, 7));
        assert_eq!(bench.gpu.translate(root(512), ADDRESS + 9), found(VISIBLE, 7));
        assert_eq!(bench.gpu.peek_entry((LOCAL, LEAF), 3), found(VISIBLE, 7));
        assert_eq!(bench.fill(ADDRESS + 9, 4, 5), bench.done());
        assert_eq!(bench.byte(VISIBLE_BASE + 7 * PAGE + 9), 5);
        let mut bytes = [0; 2];
        assert!(bench.gpu.peek_virtual(root(512), ADDRESS + 12, &mut bytes));
        assert_eq!(bytes, [5, 0]);
        assert_eq!(bench.fill(ADDRESS + PAGE - 2, 4, 6), bench.fault(ADDRESS + PAGE));
        assert_eq!(bench.byte(VISIBLE_BASE + 8 * PAGE - 1), 0, "whole or not at all");
        assert_eq!(bench.fill(1 << 39 | ADDRESS, 1, 6), bench.fault(1 << 39 | ADDRESS));
        assert_eq!(bench.fill(u64::MAX, 2, 6), bench.fault(u64::MAX));
    });
}

#[test]
fn an_address_behind_the_roots_entries_faults() {
    fly(MmuPlan::default(), |bench| {
        bench.map(page(VISIBLE, 7));
        bench.set_root(root(2));
        assert_eq!(bench.fill(ADDRESS, 1, 5), bench.done());
        bench.set_root(root(1));
        assert_eq!(bench.fill(ADDRESS, 1, 5), bench.fault(ADDRESS), "although it is remembered");
        assert_eq!(bench.gpu.translate(root(1), ADDRESS), None);
    });
}

#[test]
fn what_is_remembered_stays_until_it_is_flushed() {
    fly(MmuPlan::default(), |bench| {
        bench.set_root(root(512));
        bench.map(page(VISIBLE, 7));
        bench.fill(ADDRESS, 1, 5);
        bench.write(0, LEAF, 3, &[page(VISIBLE, 8)]);
        bench.fill(ADDRESS, 1, 6);
        let places = [7, 8].map(|value| VISIBLE_BASE + value * PAGE);
        assert_eq!(places.map(|value| bench.byte(value)), [6, 0], "the old page");
        assert_eq!(bench.gpu.translate(root(512), ADDRESS), found(VISIBLE, 7));
        bench.flush(ADDRESS + PAGE, ADDRESS + 2 * PAGE);
        assert_eq!(bench.gpu.translate(root(512), ADDRESS), found(VISIBLE, 7));
        bench.flush(ADDRESS, ADDRESS + PAGE);
        bench.fill(ADDRESS, 1, 7);
        assert_eq!(places.map(|value| bench.byte(value)), [6, 7]);
        bench.write(0, LEAF, 3, &[PageTableEntry::default()]);
        assert_eq!(bench.fill(ADDRESS, 1, 7), bench.done());
        bench.flush(0, 0);
        assert_eq!(bench.fill(ADDRESS, 1, 7), bench.fault(ADDRESS), "zero to zero is all");
    });
}

#[test]
fn looking_remembers_nothing() {
    fly(MmuPlan::default(), |bench| {
        bench.map(page(VISIBLE, 7));
        assert_eq!(bench.gpu.translate(root(512), ADDRESS), found(VISIBLE, 7));
        assert!(bench.gpu.peek_virtual(root(512), ADDRESS, &mut [0]));
        bench.write(0, LEAF, 3, &[page(VISIBLE, 8)]);
        assert_eq!(bench.gpu.translate(root(512), ADDRESS), found(VISIBLE, 8));
    });
}

#[test]
fn zero_pages_lose_what_is_written_and_read_only_ones_fault() {
    fly(MmuPlan::default(), |bench| {
        bench.set_root(root(512));
        bench.map(page(VISIBLE, 7));
        bench.fill(ADDRESS, PAGE, 5);
        let zero = PageTableEntry { valid: true, zero: true, ..PageTableEntry::default() };
        let fixed = PageTableEntry { read_only: true, ..page(VISIBLE, 9) };
        bench.write(0, LEAF, 4, &[zero, fixed]);
        assert_eq!(bench.fill(ADDRESS + PAGE, PAGE, 6), bench.done());
        let copy = Command::CopyAt { from: ADDRESS + PAGE, to: ADDRESS + 8, length: 8 };
        assert_eq!(bench.draw(&[copy], None), bench.done());
        assert_eq!(
            [7, 8, 15, 16].map(|value| bench.byte(VISIBLE_BASE + 7 * PAGE + value)),
            [5, 0, 0, 5]
        );
        let to = ADDRESS + 2 * PAGE;
        assert_eq!(bench.fill(to, 1, 6), bench.fault(to));
        let copy = Command::CopyAt { from: to, to: ADDRESS, length: 1 };
        assert_eq!(bench.draw(&[copy], None), bench.done(), "it may be read");
    });
}

#[test]
fn commands_can_lie_at_virtual_addresses() {
    fly(MmuPlan::default(), |bench| {
        bench.set_root(root(512));
        bench.map(page(VISIBLE, 7));
        let commands = encode(&[Command::FillAt { address: ADDRESS + 2048, length: 3, value: 9 }]);
        let place = bench.gpu.cpu_address().unwrap() + 7 * PAGE;
        assert!(bench.ram.write(place, &commands));
        let length = u32::try_from(commands.len()).unwrap();
        assert_eq!(bench.draw(&[], Some((ADDRESS, length))), bench.done());
        assert_eq!(bench.byte(VISIBLE_BASE + 7 * PAGE + 2050), 9);
        let away = ADDRESS + PAGE;
        assert_eq!(bench.draw(&[], Some((away, length))), bench.fault(away));
        let cut = bench.draw(&[], Some((ADDRESS, length - 1)));
        assert_eq!(cut, bench.done(), "commands that cannot be read are no page fault");
        let said = bench.line.0.lock().unwrap().clone();
        assert_eq!(said.len(), 3, "once for each packet");
        assert!(said.iter().all(|pair| pair.1 == Some(root(512))));
    });
}

#[test]
fn without_a_root_every_address_faults() {
    fly(MmuPlan::default(), |bench| {
        assert_eq!(bench.fill(0, 1, 1), bench.fault(0));
        assert_eq!(bench.line.0.lock().unwrap()[0].1, None);
    });
}

#[test]
fn entries_go_on_from_buffer_to_buffer_and_one_can_be_repeated() {
    fly(MmuPlan::default(), |bench| {
        let entries: Vec<PageTableEntry> = (0..300).map(|value| page(LOCAL, value)).collect();
        let operation = Operation::UpdateTable(update(0, LEAF, 5, &entries));
        let (passes, completions) = bench.page_in(&operation, 100);
        assert!(passes > 20 && completions == bench.done(), "{passes}");
        for (index, page) in (5..305).zip(0..) {
            assert_eq!(bench.gpu.peek_entry((LOCAL, LEAF), index), found(LOCAL, page));
        }
        // Also behind the end of the memory, where there are none.
        for (table, first) in [(LEAF, 0), (LEAF, 7), (LOCAL_BYTES - 200 * ENTRY_SIZE, 0)] {
            let mut all = [Some(TableEntry { valid: true, ..TableEntry::default() }); 400];
            bench.gpu.peek_entries((LOCAL, table), first, &mut all);
            for (index, entry) in (first..).zip(all) {
                assert_eq!(bench.gpu.peek_entry((LOCAL, table), index), entry, "{index}");
            }
            assert_eq!(all[300].is_some(), table == LEAF);
        }
        let one = [page(VISIBLE, 6), page(VISIBLE, 9)];
        let repeated = TableUpdate { count: 512, repeat: true, ..update(0, LEAF, 0, &one) };
        assert_eq!(
            bench.page_in(&Operation::UpdateTable(repeated), 48),
            (1, Completion::Done(Fence(bench.fence)))
        );
        assert!(
            (0..512).all(|number| bench.gpu.peek_entry((LOCAL, LEAF), number) == found(VISIBLE, 6))
        );
        assert_eq!(bench.byte(LOCAL_BASE + LEAF + 512 * 8), 0, "and no more");
    });
}

#[test]
fn the_cpu_writes_before_the_call_returns() {
    fly(MmuPlan::BY_CPU, |bench| {
        let start = bench.gpu.cpu_address().unwrap() + LEAF;
        let entries = [page(VISIBLE, 6), page(VISIBLE, 7)];
        let it = TableUpdate { table: TableAddress::Cpu(start), ..update(0, LEAF, 3, &entries) };
        let built = bench.build(&Operation::UpdateTable(it), 0, &mut 0);
        assert_eq!(built, (Ok(()), 0), "there is no buffer");
        assert_eq!(bench.gpu.peek_entry((VISIBLE, LEAF), 4), found(VISIBLE, 7));
        let one = [PageTableEntry::default()];
        let it = TableUpdate { count: 512, repeat: true, first: 0, entries: &one, ..it };
        assert_eq!(bench.build(&Operation::UpdateTable(it), 0, &mut 0), (Ok(()), 0));
        assert_eq!(bench.gpu.peek_entry((VISIBLE, LEAF), 4), Some(TableEntry::default()));
        let short = TableUpdate { repeat: false, ..it };
        let refused = bench.build(&Operation::UpdateTable(short), 0, &mut 0);
        assert_eq!(refused, (Err(DriverError::Invalid), 0));
    });
}

#[test]
fn paging_works_at_addresses_of_the_system() {
    fly(MmuPlan::default(), |bench| {
        // The system's own tables, near the end of local memory; its data is mapped page by page.
        let (top, middle, leaf) = (16 * PAGE, 17 * PAGE, 18 * PAGE);
        let pages: Vec<PageTableEntry> = (0..8).map(|value| page(VISIBLE, 7 - value)).collect();
        for (level, offset, entries) in
            [(2, top, &[table(middle)][..]), (1, middle, &[table(leaf)]), (0, leaf, &pages)]
        {
            bench.write(level, offset, 0, entries);
        }
        let root = TableRoot { segment: LOCAL, offset: top, entries: 512 };
        assert!(bench.driver.state().records.set_root(SYSTEM, root));
        let driver_handle = Some(30);
        bench.page(&Operation::VirtualFill {
            driver_handle,
            offset: PAGE,
            address: 100,
            bytes: PAGE,
            pattern: 0x0403_0201,
        });
        assert_eq!(
            [99, 100, 101, 4095].map(|value| bench.byte(VISIBLE_BASE + 7 * PAGE + value)),
            [0, 1, 2, 4]
        );
        assert_eq!(
            [0, 99, 100].map(|value| bench.byte(VISIBLE_BASE + 6 * PAGE + value)),
            [1, 4, 0]
        );
        bench.page(&Operation::VirtualTransfer {
            driver_handle,
            offset: 3 * PAGE,
            from: 100,
            to: 4 * PAGE,
            bytes: PAGE,
        });
        assert_eq!(bench.byte(VISIBLE_BASE + 3 * PAGE + 4095), 4, "the offset counts for nothing");
        let outside = Operation::VirtualFill {
            driver_handle,
            offset: 0,
            address: 8 * PAGE,
            bytes: 1,
            pattern: 0,
        };
        assert_eq!(bench.page_in(&outside, PAGE).1, Completion::Faulted(Fence(bench.fence), None));

        // Table entries are ordinary bytes: here the pages themselves serve as tables.
        let copy = EntryCopy { from: (0, 13), to: (2 * PAGE, 1), count: 2 };
        bench.page(&Operation::CopyEntries(&[copy]));
        let entry = |place, index| bench.gpu.peek_entry((VISIBLE, place), index);
        assert_eq!(entry(5 * PAGE, 1), entry(7 * PAGE, 13));
        assert_eq!(entry(5 * PAGE, 2), entry(7 * PAGE, 14));
        assert_eq!(entry(5 * PAGE, 3), Some(TableEntry::default()));
    });
}

#[test]
fn plans_say_what_they_are() {
    let three = MmuPlan::default().features();
    assert_eq!((three.address_bits, three.levels.len()), (39, 3));
    assert!(
        three
            .levels
            .iter()
            .all(|table_level| (table_level.index_bits, table_level.bytes) == (9, 4096))
    );
    let two = MmuPlan::TWO_LEVELS.features();
    let bits: Vec<u32> = two.levels.iter().map(|table_level| table_level.index_bits).collect();
    assert_eq!((two.address_bits, bits), (33, vec![9, 12]));
    assert_eq!(two.levels[1].bytes, 32768);
    let sizes = [0, 1, 512, 513, 4096].map(|number| MmuPlan::TWO_LEVELS.root_size(number));
    let pages = [1, 1, 1, 2, 8]
        .map(|number| RootSize { entries: number * 512, bytes: u64::from(number) * PAGE });
    assert_eq!(sizes, pages);
    assert_eq!(MmuPlan::BY_CPU.features().mode, UpdateMode::Cpu);
}

#[test]
fn two_levels_are_walked_as_well() {
    fly(MmuPlan::TWO_LEVELS, |bench| {
        let address = 700 << 21 | 3 << 12;
        bench.set_root(root(1024));
        bench.write(1, ROOT, 700, &[table(LEAF)]);
        bench.write(0, LEAF, 3, &[page(VISIBLE, 7)]);
        assert_eq!(bench.fill(address, 1, 5), bench.done());
        assert_eq!(bench.byte(VISIBLE_BASE + 7 * PAGE), 5);
        bench.set_root(root(512));
        assert_eq!(bench.fill(address, 1, 5), bench.fault(address));
    });
}

#[test]
fn the_window_shows_what_is_there() {
    fly(MmuPlan { window: 4, ..MmuPlan::default() }, |bench| {
        assert!(bench.gpu.map_host_aperture(&[(0, 31), (3, 0)]));
        assert!(!bench.gpu.map_host_aperture(&[(1, 0), (4, 0)]), "there are four pages");
        assert!(!bench.gpu.map_host_aperture(&[(1, 32)]), "the memory does not exist");
        assert!(!bench.gpu.unmap_host_aperture(&[0, 1]) && bench.gpu.unmap_host_aperture(&[3]));
        assert!(!bench.gpu.unmap_host_aperture(&[3]));
        let features = bench.driver.query_adapter_info(bench.at).unwrap();
        let segments = features.memory.unwrap().segments;
        let windows: Vec<u64> = segments.iter().map(|info| info.window).collect();
        assert_eq!(windows, [0, 0, 4]);
    });
}
