//! The driver and the hardware with memory, driven by hand as a kernel would.

use crate::allocation::Allocation;
use crate::engine::Completion;
use crate::format::Command;
use crate::plan::{APERTURE_BASE, LOCAL_BASE, PAGE, VISIBLE_BASE};
use crate::records::SaveArea;
use crate::{APERTURE, AREA_SIZE, Gpu, LOCAL, MemoryPlan, Registers, SoftGpu, VISIBLE};
use flight::{DeterministicHost, Fence, HardwareModel, InterruptLine, Log, Passive, Ram, Run};
use kernel::handle_table::Handle;
use kernel::miniport::{DriverError, DriverResult, Miniport};
use kernel::operation::{
    BuildPagingBufferArgs, Operation, Pages, SubmitPagingArgs, Transfer, TransferEnd,
};
use std::sync::Arc;

const PLAN: MemoryPlan = MemoryPlan {
    visible: 16 * PAGE,
    local: 16 * PAGE,
    aperture: 8 * PAGE,
    paging_buffer: 4096,
    paging_node: 0,
    mmu: None,
};
const RAM: u64 = 128 * PAGE;
/// The driver handles of the context and the allocation that most tests use.
const CONTEXT: usize = 11;
const ALLOCATION: usize = 30;
const NAME: Handle = Handle(0x4000_0040);

struct Quiet;

impl InterruptLine for Quiet {
    fn raise(&self, _at: &mut Passive) {}
}

struct Bench<'a> {
    ram: Arc<nt::Ram>,
    driver: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
    at: &'a mut Passive,
    /// Where paging commands go.
    buffer: Run,
    fence: u32,
}

fn fly(body: impl FnOnce(&mut Bench<'_>)) {
    let ram = nt::Ram::new(RAM).unwrap();
    let buffer = ram.allocate(2 * PAGE).unwrap();
    let (driver, gpu) = SoftGpu::with_memory(ram.clone(), PLAN);
    let flown = DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| {
        body(&mut Bench { ram, driver, gpu, at, buffer, fence: 0 });
    });
    flown.unwrap();
}

impl Bench<'_> {
    /// A device with a context, and an allocation of two pages that the device has opened.
    fn furnish(&self) {
        let records = &mut self.driver.state().records;
        records.add_device(10, 0);
        records.add_context(CONTEXT, 10, None);
        let make = |handle| Allocation::without_memory(handle, 2 * PAGE);
        records.add_allocation(Some(ALLOCATION), make);
        records.add_view(Some(31), 10, NAME, ALLOCATION).unwrap();
    }

    /// One call of the driver: its result, and how many bytes it wrote at that position.
    fn build(
        &mut self,
        operation: &Operation<'_>,
        (offset, room): (u64, u64),
        multipass: &mut u32,
    ) -> (DriverResult<()>, u32) {
        let place = Run { start: self.buffer.start + offset, bytes: room };
        let mut told = None;
        let lent = self.ram.with_slice(place, &mut |bytes| {
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
        });
        assert!(lent);
        told.unwrap()
    }

    /// Executes an operation through buffers of this size at any start. Returns how many it took.
    fn page(&mut self, operation: &Operation<'_>, room: u64) -> u32 {
        let mut multipass = 0;
        for pass in 1..1000 {
            let offset = u64::from(pass) * 13;
            let (answer, length) = self.build(operation, (offset, room), &mut multipass);
            assert!(u64::from(length) <= room);
            assert!(answer.is_ok() || length > 0, "it did not get on");
            self.submit(self.buffer.start + offset, length, false);
            self.run();
            assert_eq!(self.gpu.take_completions(0), [Completion::Done(Fence(self.fence))]);
            match answer {
                Ok(()) => return pass,
                Err(refusal) => assert_eq!(refusal, DriverError::NoRoom),
            }
        }
        panic!("it does not end");
    }

    fn submit(&mut self, commands: u64, length: u32, switch: bool) {
        self.fence += 1;
        let (fence, private) = (Fence(self.fence), &[][..]);
        let packet = SubmitPagingArgs { node: 0, fence, commands, length, private, switch };
        let driver = self.driver.clone();
        let taken = self.at.raised(|at: &mut flight::Dispatch| driver.submit_paging(at, &packet));
        assert_eq!(taken, Ok(()));
    }

    /// Submits fills of one byte each, of the allocation, from a context.
    fn draw(&mut self, context: usize, fills: &[(u64, u8)]) {
        self.fence += 1;
        let fill = |&(offset, value)| Command::Fill { target: NAME, offset, length: 1, value };
        let commands = fills.iter().map(fill).collect();
        let commands = self.driver.state().records.resolve(context, commands).unwrap();
        self.driver.push_render_work(context, (0, Fence(self.fence)), commands, None).unwrap();
    }

    fn run(&mut self) {
        while !self.gpu.idle() {
            self.gpu.step(self.at, &Quiet);
        }
    }

    fn notify(&mut self, address: u64, resident: bool) {
        let notice =
            Operation::Notify { driver_handle: ALLOCATION, segment: LOCAL, address, resident };
        assert_eq!(self.build(&notice, (0, 0), &mut 0), (Ok(()), 0));
    }

    fn system(&self, start: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        assert!(self.ram.read(start, &mut bytes));
        bytes
    }

    fn peek(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.gpu.peek(address, &mut bytes).then_some(bytes)
    }

    /// Pages that are not contiguous, except the first two.
    fn scattered(&self) -> Vec<Run> {
        let pages: Vec<Run> = (0..9).map(|_| self.ram.allocate(PAGE).unwrap()).collect();
        [0, 1, 8, 5, 3].map(|index| pages[index]).to_vec()
    }
}

fn in_segment<'a>(number: u32, address: u64) -> TransferEnd<'a> {
    TransferEnd::Segment { number, address }
}

fn transfer<'a>(
    driver_handle: usize,
    bytes: u64,
    from: TransferEnd<'a>,
    to: TransferEnd<'a>,
) -> Operation<'a> {
    let (offset, start, end, idle, special) = (0, true, true, true, false);
    let driver_handle = Some(driver_handle);
    Operation::Transfer(Transfer {
        driver_handle,
        offset,
        bytes,
        from,
        to,
        start,
        end,
        idle,
        special_lock: special,
    })
}

#[test]
fn its_segments_are_where_it_says() {
    fly(|bench| {
        let features = bench.driver.query_adapter_info(bench.at).unwrap();
        let memory = features.memory.unwrap();
        let all: Vec<_> = memory.segments.iter().map(|info| (info.base, info.size)).collect();
        let sizes = [(APERTURE_BASE, 8 * PAGE), (VISIBLE_BASE, 16 * PAGE), (LOCAL_BASE, 16 * PAGE)];
        assert_eq!(all, sizes);
        let cpu = memory.segments[VISIBLE as usize - 1].cpu_address.unwrap();
        assert!(bench.ram.write(cpu + 5, b"seen"));
        assert_eq!(bench.peek(VISIBLE_BASE + 5, 4), Some(b"seen".to_vec()));
        assert_eq!(bench.peek(LOCAL_BASE + 5, 4), Some(vec![0; 4]));
        for (base, size) in sizes {
            assert_eq!(bench.peek(base + size - 1, 2), None, "{base:#x}");
        }
        assert_eq!(bench.peek(APERTURE_BASE, 1), None, "nothing is mapped");
        assert_eq!((bench.peek(0, 1), bench.peek(u64::MAX, 2)), (None, None));
    });
}

#[test]
fn its_memory_is_the_machines_again_when_it_ends() {
    let ram = nt::Ram::new(RAM).unwrap();
    let pair = SoftGpu::with_memory(ram.clone(), PLAN);
    assert!(ram.allocate(RAM).is_none());
    drop(pair);
    assert!(ram.allocate(RAM).is_some());
}

#[test]
fn bytes_move_through_buffers_of_any_size() {
    for (room, passes) in [(32, [4, 1, 4]), (33, [4, 1, 4]), (64, [2, 1, 2]), (200, [1, 1, 1])] {
        fly(|bench| {
            let (from, to) = (bench.scattered(), bench.scattered());
            let length = 5 * PAGE - 100;
            for (page, number) in from.iter().zip(1..) {
                assert!(bench.ram.fill(*page, u32::from_le_bytes([number; 4])));
            }
            let pages = |runs| TransferEnd::System(Pages { runs, first: 0, count: 5 });
            let (one, two) = (LOCAL_BASE + 3 * PAGE, VISIBLE_BASE + PAGE);
            let (local, visible) = (in_segment(LOCAL, one), in_segment(VISIBLE, two));
            let took = [
                transfer(ALLOCATION, length, pages(&from), local),
                transfer(ALLOCATION, length, local, visible),
                transfer(ALLOCATION, length, visible, pages(&to)),
            ];
            let took = took.map(|operation| bench.page(&operation, room));
            assert_eq!(took, passes, "{room}: four pieces, then one, then four");
            let mut wanted: Vec<u8> = (1..=5).flat_map(|byte| [byte; 4096]).collect();
            wanted[5 * 4096 - 100..].fill(0);
            let moved: Vec<u8> = to.iter().flat_map(|run| bench.system(run.start, 4096)).collect();
            assert!(moved == wanted, "{room}: other bytes came out");
            assert_eq!(bench.gpu.faults(), 0);
        });
    }
}

#[test]
fn a_part_of_an_allocation_moves_alone() {
    fly(|bench| {
        let runs = bench.scattered();
        assert!(bench.ram.write(runs[2].start, b"third"));
        let from = TransferEnd::System(Pages { runs: &runs, first: 2, count: 1 });
        let part = Transfer {
            driver_handle: Some(ALLOCATION),
            offset: 2 * PAGE,
            bytes: PAGE,
            from,
            to: in_segment(LOCAL, LOCAL_BASE),
            start: true,
            end: false,
            idle: false,
            special_lock: false,
        };
        assert_eq!(bench.page(&Operation::Transfer(part), 64), 1);
        assert_eq!(bench.peek(LOCAL_BASE + 2 * PAGE, 5), Some(b"third".to_vec()));
    });
}

#[test]
fn without_room_for_a_command_none_is_written() {
    fly(|bench| {
        let (from, to) = (in_segment(LOCAL, LOCAL_BASE), in_segment(VISIBLE, VISIBLE_BASE));
        let operation = transfer(ALLOCATION, PAGE, from, to);
        let mut multipass = 0;
        let told = bench.build(&operation, (7, 31), &mut multipass);
        assert_eq!((told, multipass), ((Err(DriverError::NoRoom), 0), 0));
        let discard =
            Operation::Discard { driver_handle: 1, segment: LOCAL, address: 0, idle: true };
        assert_eq!(bench.build(&discard, (7, 0), &mut multipass), (Ok(()), 0));
    });
}

#[test]
fn an_aperture_shows_pages_until_the_dummy_is_shown() {
    for room in [32, 64, 4096] {
        fly(|bench| {
            let runs = bench.scattered();
            let dummy = bench.ram.allocate(PAGE).unwrap().start;
            let pages = Pages { runs: &runs, first: 1, count: 4 };
            let driver_handle = Some(ALLOCATION);
            bench.page(
                &Operation::MapAperture {
                    driver_handle,
                    segment: APERTURE,
                    page: 2,
                    pages,
                    coherent: true,
                },
                room,
            );
            let address = APERTURE_BASE + 2 * PAGE;
            let (bytes, pattern) = (4 * PAGE, 0x4433_2211);
            let fill = Operation::Fill {
                driver_handle: ALLOCATION,
                segment: APERTURE,
                address,
                bytes,
                pattern,
            };
            bench.page(&fill, room);
            assert_eq!(bench.system(runs[0].start + PAGE - 4, 8), [0, 0, 0, 0, 17, 34, 51, 68]);
            for run in &runs[1..] {
                assert_eq!(bench.system(run.start + PAGE - 5, 5), [68, 17, 34, 51, 68]);
            }
            assert_eq!(bench.peek(address + 4 * PAGE, 1), None, "not mapped");

            let unmap = Operation::UnmapAperture {
                driver_handle,
                segment: APERTURE,
                page: 2,
                pages: 3,
                dummy,
            };
            bench.page(&unmap, room);
            let fill = Operation::Fill {
                driver_handle: ALLOCATION,
                segment: APERTURE,
                address,
                bytes: 3 * PAGE,
                pattern: 0x5555_5555,
            };
            bench.page(&fill, room);
            assert_eq!(bench.system(dummy + 100, 2), [0x55, 0x55]);
            assert_eq!(bench.system(runs[1].start, 2), [17, 34], "the dummy took it");
            assert_eq!(bench.peek(address + 3 * PAGE, 2), Some(vec![17, 34]), "still mapped");
            bench.gpu.reset();
            assert_eq!(bench.peek(address, 2), None);
        });
    }
}

#[test]
fn garbage_in_a_paging_buffer_is_a_fault() {
    fly(|bench| {
        let fill = |address| Operation::Fill {
            driver_handle: ALLOCATION,
            segment: LOCAL,
            address,
            bytes: PAGE,
            pattern: u32::MAX,
        };
        let start = bench.buffer.start;
        let (_, good) = bench.build(&fill(LOCAL_BASE), (0, 64), &mut 0);
        let (_, outside) = bench.build(&fill(LOCAL_BASE + 16 * PAGE), (100, 64), &mut 0);
        assert!(bench.ram.write(start + 200, b"no command at all, but bytes of something"));
        // Truncated, no memory, not committed, behind the segment; the valid command continues.
        let wrong = [(start, good - 1), (start + 200, 40), (8, 40), (start + 100, outside)];
        for (faults, (commands, length)) in (1..).zip(wrong) {
            bench.submit(commands, length, false);
            bench.submit(start, good, false);
            bench.run();
            let (bad, fine) = (Fence(bench.fence - 1), Fence(bench.fence));
            assert_eq!(
                bench.gpu.take_completions(0),
                [Completion::Faulted(bad, None), Completion::Done(fine)]
            );
            assert_eq!(bench.gpu.faults(), faults);
        }
        assert_eq!(bench.peek(LOCAL_BASE, 1), Some(vec![255]));
    });
}

#[test]
fn access_to_missing_memory_faults() {
    fly(|bench| {
        bench.furnish();
        let read = |bench: &Bench<'_>| bench.driver.read(NAME, 0..3);
        assert_eq!(read(bench), None);
        bench.notify(LOCAL_BASE + PAGE, true);
        bench.draw(CONTEXT, &[(0, 7), (2, 9)]);
        bench.run();
        assert_eq!(bench.gpu.take_completions(0), [Completion::Done(Fence(1))]);
        assert_eq!(read(bench), Some(vec![7, 0, 9]));
        assert_eq!(bench.peek(LOCAL_BASE + PAGE, 3), Some(vec![7, 0, 9]));

        bench.notify(LOCAL_BASE, false);
        assert_eq!(read(bench), Some(vec![7, 0, 9]), "that is not where it is");
        bench.notify(LOCAL_BASE + PAGE, false);
        assert_eq!(read(bench), None);
        bench.draw(CONTEXT, &[(0, 1), (1, 1)]);
        bench.notify(VISIBLE_BASE, true);
        bench.draw(CONTEXT, &[(1, 5)]);
        bench.run();
        let completions =
            [Completion::Faulted(Fence(2), Some(ALLOCATION)), Completion::Done(Fence(3))];
        assert_eq!(
            bench.gpu.take_completions(0),
            completions,
            "where it was when the packet came counts"
        );
        assert_eq!((read(bench), bench.gpu.faults()), (Some(vec![0, 5, 0]), 1));
    });
}

#[test]
fn a_range_outside_an_allocation_is_skipped() {
    fly(|bench| {
        bench.furnish();
        bench.notify(LOCAL_BASE, true);
        bench.draw(CONTEXT, &[(2 * PAGE, 1), (u64::MAX, 1), (2 * PAGE - 1, 4)]);
        bench.run();
        assert_eq!(bench.gpu.take_completions(0), [Completion::Done(Fence(1))]);
        assert_eq!(bench.gpu.faults(), 2);
        assert_eq!(bench.peek(LOCAL_BASE + 2 * PAGE - 1, 2), Some(vec![4, 0]));
    });
}

/// Two contexts (12, 13) with save areas (70, 71) at the start of local memory.
fn with_areas(bench: &mut Bench<'_>) {
    bench.furnish();
    bench.notify(VISIBLE_BASE, true);
    for (context, area) in [(12, 70), (13, 71)] {
        let records = &mut bench.driver.state().records;
        records.add_area(area, AREA_SIZE);
        records.add_context(
            context,
            10,
            Some(SaveArea {
                driver_handle: area,
                kernel_handle: 0,
                owner: (0, 0),
                replacement: false,
            }),
        );
    }
    for (area, address) in [(70, LOCAL_BASE), (71, LOCAL_BASE + PAGE)] {
        let place = in_segment(LOCAL, address);
        let init = Operation::InitContext {
            driver_handle: area,
            location: place,
            cpu: None,
            bytes: AREA_SIZE,
        };
        bench.page(&init, 64);
    }
}

fn registers(packets: u64, commands: u64, fence: u64) -> Registers {
    Registers { packets, commands, fence }
}

#[test]
fn an_engine_saves_a_context_before_it_does_another() {
    fly(|bench| {
        with_areas(bench);
        assert_eq!(bench.driver.saved(), [Some(registers(0, 0, 0)), Some(registers(0, 0, 0))]);
        bench.fence = 100;
        bench.draw(12, &[(0, 1), (1, 1)]);
        bench.run();
        assert_eq!(bench.driver.saved()[0], Some(registers(0, 0, 0)), "it is still current");
        bench.draw(13, &[(0, 2)]);
        bench.draw(12, &[(0, 3)]);
        bench.run();
        assert_eq!(bench.driver.saved(), [Some(registers(1, 2, 101)), Some(registers(1, 1, 102))]);

        let paging = bench.buffer.start;
        bench.submit(paging, 0, false);
        bench.run();
        assert_eq!(bench.driver.saved()[0], Some(registers(1, 2, 101)), "paging is no switch");
        bench.submit(paging, 0, true);
        bench.run();
        assert_eq!(bench.driver.saved()[0], Some(registers(2, 3, 103)));
        assert_eq!(bench.gpu.faults(), 0);
    });
}

#[test]
fn a_saved_context_goes_on_where_its_area_has_moved() {
    fly(|bench| {
        with_areas(bench);
        bench.fence = 100;
        bench.draw(12, &[(0, 1), (1, 1)]);
        bench.submit(bench.buffer.start, 0, true);
        bench.run();
        bench.gpu.take_completions(0);
        let (from, to) = (LOCAL_BASE, VISIBLE_BASE + 8 * PAGE);
        let (away, back) = (in_segment(VISIBLE, to), in_segment(LOCAL, from));
        bench.page(&transfer(70, AREA_SIZE, back, away), 64);
        let fill = Operation::Fill {
            driver_handle: 1,
            segment: LOCAL,
            address: from,
            bytes: AREA_SIZE,
            pattern: 0,
        };
        bench.page(&fill, 64);
        let private: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let (driver_handle, bytes) = (70, AREA_SIZE);
        let update =
            Operation::UpdateContext { driver_handle, location: away, bytes, private: &private };
        assert_eq!(bench.page(&update, 64), 2048_u32.div_ceil(48));
        bench.fence = 200;
        bench.draw(12, &[(2, 1)]);
        bench.submit(bench.buffer.start, 0, true);
        bench.run();
        assert_eq!(bench.driver.saved()[0], Some(registers(2, 3, 201)));
        let start = bench.peek(to, 2048).unwrap();
        assert!(start == private[..2048], "the driver's own bytes are before the registers");
        assert_eq!(bench.gpu.faults(), 0);
    });
}

#[test]
fn a_context_whose_area_is_not_there_faults() {
    fly(|bench| {
        with_areas(bench);
        bench.fence = 100;
        let notice = |resident| {
            let (segment, address) = (LOCAL, LOCAL_BASE + PAGE);
            Operation::Notify { driver_handle: 71, segment, address, resident }
        };
        bench.build(&notice(false), (0, 0), &mut 0).0.unwrap();
        bench.draw(13, &[(0, 5)]);
        bench.draw(12, &[(1, 5)]);
        bench.run();
        let completions = [Completion::Faulted(Fence(101), Some(71)), Completion::Done(Fence(102))];
        assert_eq!(bench.gpu.take_completions(0), completions);
        assert_eq!(bench.driver.read(NAME, 0..2), Some(vec![0, 5]));
        assert_eq!(bench.driver.saved()[1], None);
    });
}
