//! Paging operations: the driver's arguments, and the results.

use super::driver::{Board, Build, fly, handle, table};
use abi::display::*;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{
    STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, STATUS_NO_MEMORY,
    STATUS_SUCCESS,
};
use abi::{MDL, MDL_PAGES_LOCKED, PVOID};
use flight::{Fence, Run};
use kernel::miniport::{DriverError, DriverResult, Miniport};
use kernel::operation::{
    BuildPagingBufferArgs, Operation, PAGE, Pages, SubmitPagingArgs, Transfer, TransferEnd,
};
use std::sync::Mutex;

const RUNS: &[Run] = &[
    Run { start: 0x10_000, bytes: 2 * PAGE },
    Run { start: 0x1_0000_0000, bytes: PAGE },
    Run { start: 0x40_000, bytes: PAGE },
];

const PAGES: Pages<'_> = Pages { runs: RUNS, first: 1, count: 2 };

const MOVE: Transfer<'_> = Transfer {
    driver_handle: Some(0xa110),
    offset: 0x1000,
    bytes: 0x2000,
    from: TransferEnd::System(PAGES),
    to: TransferEnd::Segment { number: 2, address: 0x100_3000 },
    start: true,
    end: false,
    idle: false,
    special_lock: false,
};

/// The result of one call.
#[derive(Debug, PartialEq, Eq)]
struct Built {
    answer: DriverResult<()>,
    written: u32,
    multipass: u32,
    buffer: Vec<u8>,
    private: Vec<u8>,
}

/// Builds an operation into sixteen bytes, twelve bytes behind the beginning of a buffer.
fn build(operation: Operation<'_>, build: Build) -> (Built, Vec<String>) {
    let mut built = None;
    let messages = fly(Board::default(), &table(), |flown, at| {
        *flown.board.build.lock().unwrap() = build;
        let (mut buffer, mut multipass, mut private) = (vec![1; 16], 5, vec![2; 4]);
        let mut building = BuildPagingBufferArgs {
            operation,
            buffer: &mut buffer,
            address: 0x70_000c,
            used: 12,
            written: 99,
            multipass: &mut multipass,
            private: &mut private,
        };
        let answer = flown.driver.build_paging_buffer(at, &mut building);
        let written = building.written;
        built = Some(Built { answer, written, multipass, buffer, private });
    });
    (built.unwrap(), messages)
}

/// Builds an operation that the driver inspects, without writing commands.
fn check_operation(operation: Operation<'_>, look: Build) {
    let (built, messages) = build(operation, look);
    assert_eq!((built.answer, built.written), (Ok(()), 0));
    assert_eq!(messages, [] as [&str; 0]);
}

/// The pages of a list, as a driver reads them.
fn pages(list: PVOID) -> Vec<u64> {
    let it = unsafe { *list.cast::<MDL>() };
    assert!(it.Next.is_null() && it.Process.is_null() && it.MappedSystemVa.is_null());
    assert_eq!((it.StartVa.is_null(), it.ByteOffset), (true, 0));
    assert_eq!(it.MdlFlags, MDL_PAGES_LOCKED);
    let count = it.ByteCount as usize / 4096;
    assert_eq!(usize::try_from(it.Size).unwrap(), size_of::<MDL>() + 8 * count);
    let first = list.wrapping_byte_add(size_of::<MDL>()).cast::<u64>();
    (0..count).map(|at| unsafe { first.wrapping_add(at).read() }).collect()
}

fn advance(args: &mut DXGKARG_BUILDPAGINGBUFFER, bytes: usize) {
    args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(bytes);
}

#[test]
fn a_turn_has_its_buffer_and_its_memory_of_the_last_one() {
    let (built, messages) = build(Operation::Transfer(MOVE), |args| {
        assert_eq!((args.DmaSize, args.DmaBufferPrivateDataSize), (16, 4));
        assert_eq!((args.MultipassOffset, args.DmaBufferGpuVirtualAddress), (5, 0x70_000c));
        assert_eq!(args.pDmaBuffer.addr() % 4096, 12, "it lies as the buffer does");
        assert!(args.hSystemContext.is_null());
        assert_eq!(unsafe { args.pDmaBuffer.cast::<[u8; 16]>().read() }, [1; 16]);
        assert_eq!(unsafe { args.pDmaBufferPrivateData.cast::<[u8; 4]>().read() }, [2; 4]);
        unsafe { args.pDmaBuffer.cast::<[u8; 3]>().write(*b"cmd") };
        unsafe { args.pDmaBufferPrivateData.cast::<u8>().write(9) };
        advance(args, 3);
        args.MultipassOffset = 6;
        STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER
    });
    assert_eq!(messages, [] as [&str; 0]);
    let mut buffer = vec![1; 16];
    buffer[..3].copy_from_slice(b"cmd");
    let answer = Err(DriverError::NoRoom);
    let private = vec![9, 2, 2, 2];
    assert_eq!(built, Built { answer, written: 3, multipass: 6, buffer, private });
}

#[test]
fn a_transfer_has_a_list_at_its_one_end() {
    check_operation(Operation::Transfer(MOVE), |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_TRANSFER);
        let it = unsafe { args.About.Transfer };
        assert_eq!((it.hAllocation, it.TransferOffset), (handle(0xa110), 0x1000));
        assert_eq!((it.TransferSize, it.MdlOffset), (0x2000, 1));
        assert_eq!(it.Source.SegmentId, 0);
        assert_eq!(pages(it.Source.pMdl), [0x10, 0x11, 0x10_0000, 0x40], "of all of it");
        assert_eq!(it.Destination.SegmentId, 2);
        assert_eq!(it.Destination.segment_address(), 0x100_3000);
        assert_eq!(it.Flags.Value, DXGK_TRANSFERFLAGS::TransferStart);
        STATUS_SUCCESS
    });
    let back = Transfer { from: MOVE.to, to: MOVE.from, idle: true, end: true, ..MOVE };
    check_operation(
        Operation::Transfer(Transfer { driver_handle: None, start: false, ..back }),
        |args| {
            let it = unsafe { args.About.Transfer };
            assert!(it.hAllocation.is_null());
            assert_eq!((it.Source.SegmentId, it.Destination.SegmentId, it.MdlOffset), (2, 0, 1));
            assert_eq!(pages(it.Destination.pMdl).len(), 4);
            let flags = DXGK_TRANSFERFLAGS::TransferEnd | DXGK_TRANSFERFLAGS::AllocationIsIdle;
            assert_eq!(it.Flags.Value, flags);
            STATUS_SUCCESS
        },
    );
    let local = TransferEnd::Segment { number: 1, address: 0x5000 };
    check_operation(Operation::Transfer(Transfer { from: local, ..MOVE }), |args| {
        let it = unsafe { args.About.Transfer };
        assert_eq!((it.Source.SegmentId, it.Source.segment_address()), (1, 0x5000));
        assert_eq!(it.MdlOffset, 0);
        STATUS_SUCCESS
    });
    check_operation(Operation::Transfer(Transfer { special_lock: true, ..MOVE }), |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_SPECIAL_LOCK_TRANSFER);
        let it = unsafe { args.About.SpecialLockTransfer };
        assert_eq!((it.TransferOffset, pages(it.Source.pMdl).len()), (0x1000, 4));
        STATUS_SUCCESS
    });
}

#[test]
fn memory_is_filled_and_discarded() {
    let address = 0x100_0000;
    let fill =
        Operation::Fill { driver_handle: 7, segment: 2, address, bytes: 8192, pattern: 0xabcd };
    check_operation(fill, |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_FILL);
        let it = unsafe { args.About.Fill };
        assert_eq!((it.hAllocation, it.FillSize, it.FillPattern), (handle(7), 8192, 0xabcd));
        let to = it.Destination;
        assert_eq!((to.SegmentId, to.SegmentAddress), (2, 0x100_0000));
        STATUS_SUCCESS
    });
    check_operation(
        Operation::Discard { driver_handle: 7, segment: 2, address, idle: true },
        |args| {
            assert_eq!(args.Operation, DXGK_OPERATION_DISCARD_CONTENT);
            let it = unsafe { args.About.DiscardContent };
            assert_eq!(
                (it.hAllocation, it.SegmentId, it.SegmentAddress),
                (handle(7), 2, 0x100_0000)
            );
            assert_eq!(it.Flags.Value, DXGK_DISCARDCONTENTFLAGS::AllocationIsIdle);
            STATUS_SUCCESS
        },
    );
}

#[test]
fn pages_come_into_an_aperture_and_leave_it() {
    let (segment, page) = (1, 16);
    let map = Operation::MapAperture {
        driver_handle: Some(7),
        segment,
        page,
        pages: PAGES,
        coherent: true,
    };
    check_operation(map, |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
        let it = unsafe { args.About.MapApertureSegment };
        assert_eq!((it.hDevice, it.hAllocation, it.SegmentId), (handle(0), handle(7), 1));
        assert_eq!((it.OffsetInPages, it.NumberOfPages, it.MdlOffset), (16, 2, 1));
        assert_eq!(pages(it.pMdl), [0x10, 0x11, 0x10_0000, 0x40]);
        assert_eq!(it.Flags.Value, DXGK_MAPAPERTUREFLAGS::CacheCoherent);
        STATUS_SUCCESS
    });
    let unmap =
        Operation::UnmapAperture { driver_handle: None, segment, page, pages: 2, dummy: 0x9000 };
    check_operation(unmap, |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT);
        let it = unsafe { args.About.UnmapApertureSegment };
        assert_eq!((it.hAllocation, it.SegmentId, it.DummyPage), (handle(0), 1, 0x9000));
        assert_eq!((it.OffsetInPages, it.NumberOfPages), (16, 2));
        STATUS_SUCCESS
    });
}

#[test]
fn memory_of_a_context_is_named_by_the_drivers_word() {
    let place = TransferEnd::Segment { number: 2, address: 0x100_2000 };
    let init = Operation::InitContext {
        driver_handle: 7,
        location: place,
        cpu: Some(0x1234),
        bytes: 4096,
    };
    check_operation(init, |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_INIT_CONTEXT_RESOURCE);
        let it = unsafe { args.About.InitContextResource };
        let to = it.Destination;
        assert_eq!((it.hAllocation, to.SegmentId, to.pMdl), (handle(7), 2, handle(0x100_2000)));
        assert_eq!((to.VirtualAddress, to.GpuVirtualAddress), (handle(0x1234), 0));
        STATUS_SUCCESS
    });
    let place = TransferEnd::System(PAGES);
    check_operation(
        Operation::InitContext { driver_handle: 7, location: place, cpu: None, bytes: 4096 },
        |args| {
            let to = unsafe { args.About.InitContextResource }.Destination;
            assert_eq!((to.SegmentId, pages(to.pMdl).len(), to.VirtualAddress), (0, 4, handle(0)));
            STATUS_SUCCESS
        },
    );
    let place = TransferEnd::Segment { number: 2, address: 0x100_2000 };
    let update = Operation::UpdateContext {
        driver_handle: 7,
        location: place,
        bytes: 4096,
        private: b"new",
    };
    check_operation(update, |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION);
        let it = unsafe { args.About.UpdateContextAllocation };
        assert_eq!((it.ContextAllocation, it.ContextAllocationSize), (0x100_2000, 4096));
        assert_eq!(it.DriverPrivateDataSize, 3);
        assert_eq!(unsafe { it.pDriverPrivateData.cast::<[u8; 3]>().read() }, *b"new");
        STATUS_SUCCESS
    });
}

#[test]
fn a_notification_counts_from_the_segments_beginning() {
    let notify =
        Operation::Notify { driver_handle: 7, segment: 2, address: 0x100_3000, resident: true };
    check_operation(notify, |args| {
        assert_eq!(args.Operation, DXGK_OPERATION_NOTIFY_RESIDENCY);
        let it = unsafe { args.About.NotifyResidency };
        assert_eq!(it.hAllocation, handle(7));
        let at = it.PhysicalAddress;
        assert_eq!((at.SegmentId, at.SegmentOffset), (2, 0x3000), "the segment is at 16 MiB");
        assert_eq!(it.Flags.Value, DXGK_NOTIFYRESIDENCY_FLAGS::Resident);
        STATUS_SUCCESS
    });
}

#[test]
fn what_windows_has_no_words_for_does_not_reach_the_driver() {
    let both = Transfer { to: TransferEnd::System(PAGES), ..MOVE };
    let nowhere = Transfer { to: TransferEnd::Segment { number: 0, address: 0 }, ..MOVE };
    let far = Transfer { offset: 1 << 32, ..MOVE };
    let long = Transfer {
        from: TransferEnd::System(Pages {
            runs: &[Run { start: 0, bytes: 1 << 32 }],
            first: 0,
            count: 1,
        }),
        ..MOVE
    };
    let moves = [both, nowhere, far, long].map(Operation::Transfer);
    let place = TransferEnd::System(PAGES);
    let others = [
        Operation::UpdateContext { driver_handle: 7, location: place, bytes: 1, private: b"" },
        Operation::Notify { driver_handle: 7, segment: 0, address: 0, resident: true },
        Operation::Notify { driver_handle: 7, segment: 3, address: 0, resident: true },
        Operation::Notify { driver_handle: 7, segment: 2, address: 0xfff, resident: true },
    ];
    for operation in moves.into_iter().chain(others) {
        let name = format!("{operation:?}");
        let (built, messages) = build(operation, |_| panic!("the driver is called"));
        assert_eq!((built.answer, messages.len()), (Err(DriverError::Invalid), 0), "{name}");
    }
}

#[test]
fn a_buffer_has_an_end() {
    let refused = |turn: Build| {
        let (built, messages) = build(Operation::Transfer(MOVE), turn);
        assert_eq!(built.answer, Ok(()));
        (built.written, messages)
    };
    let beyond = refused(|args| {
        advance(args, 17);
        STATUS_SUCCESS
    });
    let messages = "KMD-PAGING-002: DmaSize is 16, but";
    assert_eq!(beyond, (16, vec![format!("{messages} pDmaBuffer went on by 17 bytes")]));
    let backwards = refused(|args| {
        args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_sub(4);
        STATUS_SUCCESS
    });
    assert_eq!(backwards, (0, vec![format!("{messages} pDmaBuffer went on by -4 bytes")]));
    let behind = refused(|args| {
        unsafe { args.pDmaBuffer.cast::<u8>().wrapping_add(16).write(0) };
        advance(args, 16);
        STATUS_SUCCESS
    });
    assert_eq!(behind, (16, vec![format!("{messages} the driver wrote at byte 16 of the buffer")]));
    let full = refused(|args| {
        unsafe { args.pDmaBuffer.cast::<[u8; 16]>().write([0; 16]) };
        advance(args, 16);
        STATUS_SUCCESS
    });
    assert_eq!(full, (16, vec![]));
}

#[test]
fn only_what_may_be_in_use_is_busy() {
    let busy: Build = |args| {
        advance(args, 4);
        STATUS_GRAPHICS_ALLOCATION_BUSY
    };
    let discard =
        |idle| Operation::Discard { driver_handle: 7, segment: 2, address: 0x100_0000, idle };
    for operation in [Operation::Transfer(MOVE), discard(false)] {
        let (built, messages) = build(operation, busy);
        assert_eq!((built.answer, built.written), (Err(DriverError::Busy), 0));
        assert_eq!(messages, [] as [&str; 0]);
    }
    let idle = Operation::Transfer(Transfer { idle: true, ..MOVE });
    for (operation, but) in [
        (idle, "transfer busy, but AllocationIsIdle was set"),
        (discard(true), "discard busy, but AllocationIsIdle was set"),
        (
            Operation::Fill {
                driver_handle: 7,
                segment: 2,
                address: 0x100_0000,
                bytes: 1,
                pattern: 0,
            },
            "fill busy, but only transfers and discards may return it",
        ),
    ] {
        let (built, messages) = build(operation, busy);
        assert_eq!(built.answer, Err(DriverError::Busy));
        assert_eq!(messages, [format!("KMD-PAGING-005: the driver found {but}")]);
    }
}

#[test]
fn another_failure_is_passed_on() {
    let (built, messages) = build(Operation::Transfer(MOVE), |_| STATUS_NO_MEMORY);
    assert_eq!((built.answer, built.written), (Err(DriverError::NoMemory), 0));
    assert_eq!(messages, [] as [&str; 0], "the kernel judges it");
}

#[test]
fn a_paging_buffer_is_nobodys_work() {
    let messages = fly(Board::default(), &table(), |flown, at| {
        let packet = SubmitPagingArgs {
            node: 1,
            fence: Fence(7),
            commands: 0x70_0000,
            length: 64,
            private: b"mine",
            switch: false,
        };
        let driver = &flown.driver;
        at.raised(|at| {
            assert_eq!(driver.submit_paging(at, &packet), Ok(()));
            let switch = SubmitPagingArgs { length: 0, commands: 0, switch: true, ..packet };
            assert_eq!(driver.submit_paging(at, &switch), Ok(()));
        });
        let submitted = flown.board.submitted.lock().unwrap();
        let [it, switch] = submitted[..] else { panic!("{submitted:?}") };
        assert_eq!((it.hContext, it.DmaBufferSegmentId), (handle(0), 0));
        assert_eq!((it.DmaBufferPhysicalAddress, it.DmaBufferSize), (0x70_0000, 64));
        let range = (it.DmaBufferSubmissionStartOffset, it.DmaBufferSubmissionEndOffset);
        assert_eq!((range, it.DmaBufferPrivateDataSize), ((0, 64), 4));
        assert_eq!((it.SubmissionFenceId, it.NodeOrdinal, it.EngineOrdinal), (7, 1, 0));
        assert_eq!(it.Flags.Value, DXGK_SUBMITCOMMANDFLAGS::Paging);
        let flags = DXGK_SUBMITCOMMANDFLAGS::ContextSwitch;
        assert_eq!((switch.DmaBufferSize, switch.Flags.Value), (0, flags));
    });
    assert_eq!(messages, [] as [&str; 0]);
}

/// The pointers of each build call: the commands, the private data and the pages.
static POINTERS: Mutex<Vec<[usize; 3]>> = Mutex::new(Vec::new());

#[test]
fn the_operations_of_a_buffer_are_contiguous_and_stay_until_it_is_submitted() {
    let messages = fly(Board::default(), &table(), |flown, at| {
        *flown.board.build.lock().unwrap() = |args| {
            let list = unsafe { args.About.Transfer }.Source.pMdl;
            let (commands, private) = (args.pDmaBuffer, args.pDmaBufferPrivateData);
            let all = [commands, private, list.cast()].map(|at: PVOID| at.expose_provenance());
            POINTERS.lock().unwrap().push(all);
            unsafe { args.pDmaBuffer.cast::<[u8; 8]>().write_unaligned(*b"commands") };
            unsafe { args.pDmaBufferPrivateData.cast::<u8>().write(7) };
            advance(args, 8);
            STATUS_SUCCESS
        };
        let (mut memory, mut multipass, mut private) = (vec![0; 64], 0, vec![0; 4]);
        for used in [0, 8] {
            let mut building = BuildPagingBufferArgs {
                operation: Operation::Transfer(MOVE),
                buffer: &mut memory[used as usize..],
                address: 0x70_0000 + u64::from(used),
                used,
                written: 0,
                multipass: &mut multipass,
                private: &mut private,
            };
            flown.driver.build_paging_buffer(at, &mut building).unwrap();
        }
        let pointers = POINTERS.lock().unwrap().clone();
        let [first, second] = pointers[..] else { panic!("{pointers:?}") };
        assert_eq!((second[0], second[1]), (first[0] + 8, first[1]));
        assert_ne!(second[2], first[2], "each operation has its pages");
        let at_commands: *const u8 = std::ptr::with_exposed_provenance(first[0]);
        let commands = unsafe { at_commands.cast::<[u8; 16]>().read_unaligned() };
        assert_eq!((&commands, &memory[..16]), (b"commandscommands", &commands[..]));
        for operation in [first, second] {
            let list = std::ptr::with_exposed_provenance_mut(operation[2]);
            assert_eq!(pages(list), [0x10, 0x11, 0x10_0000, 0x40]);
        }
        let (commands, fence) = (0x70_0000, Fence(7));
        let packet = SubmitPagingArgs {
            node: 1,
            fence,
            commands,
            length: 16,
            private: &private,
            switch: false,
        };
        at.raised(|at| {
            assert_eq!(flown.driver.submit_paging(at, &packet), Ok(()));
        });
        let submitted = flown.board.submitted.lock().unwrap()[0];
        assert_eq!(submitted.pDmaBufferPrivateData.addr(), first[1]);
        let seen = unsafe { submitted.pDmaBufferPrivateData.cast::<[u8; 4]>().read() };
        assert_eq!(seen, [7, 0, 0, 0]);
    });
    assert_eq!(messages, [] as [&str; 0]);
}

#[test]
fn a_driver_without_the_entries_is_not_asked() {
    let table = DRIVER_INITIALIZATION_DATA {
        DxgkDdiBuildPagingBuffer: None,
        DxgkDdiSubmitCommand: None,
        ..table()
    };
    fly(Board::default(), &table, |flown, at| {
        let mut building = BuildPagingBufferArgs {
            operation: Operation::Transfer(MOVE),
            buffer: &mut [],
            address: 0,
            used: 0,
            written: 0,
            multipass: &mut 0,
            private: &mut [],
        };
        let answer = flown.driver.build_paging_buffer(at, &mut building);
        assert_eq!(answer, Err(DriverError::NoEntryPoint));
    });
}
