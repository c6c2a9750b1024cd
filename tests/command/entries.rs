//! Every row of the entry point table, called with made-up arguments through a guarded session:
//! nothing crashes, and each call returns a status of its row.
#![expect(clippy::unwrap_used, reason = "a kernel that does not start is a failed test")]
#![expect(unsafe_code, reason = "plays an application that passes any number as a pointer")]

use abi::status::{STATUS_SUCCESS, name};
use flight::{Log, Passive, ThreadedHost};
use kernel::{DriverSetup, Kernel, ProcessExit};
use softgpu::{MemoryPlan, SoftGpu};
use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::Arc;
use thunk::{ABSENT_ENTRIES, Client, CreateAllocation, ENTRIES, EntryRow, Session};

/// The number of structures that each entry point is called with.
const ROUNDS: usize = 300;

/// More than the size of any argument.
const MOST_WORDS: usize = 256;

/// Runs `body` with a client of a kernel that has one adapter.
fn with_an_adapter(body: impl FnOnce(&Client, &mut Passive)) {
    let log = Arc::new(Log::new());
    let flown = ThreadedHost::fly(&log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        let ram = nt::Ram::new(1 << 30).unwrap();
        let (miniport, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
        let pool = nt::Pool::new(log.clone());
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter =
            kernel.add_adapter(at, DriverSetup { miniport, hardware: machine, pool }).unwrap();
        let spawner: Arc<dyn flight::Spawner> = host.clone();
        kernel.start_workers(&spawner, adapter);
        let client = Client::from_session(Session::guarded(&kernel));
        body(&client, at);
        let process = client.session().process();
        kernel.end_process(at, process, ProcessExit::Killed);
    });
    flown.unwrap();
}

/// The entry points whose callers guarantee only valid pointers.
fn rows() -> impl Iterator<Item = &'static EntryRow> {
    ENTRIES.iter().chain(ABSENT_ENTRIES).filter(|row| row.requires.is_empty())
}

/// Checks a status. Statuses of drivers are not in the row.
fn check(row: &EntryRow, status: abi::NTSTATUS, with: &str) {
    let listed = row.statuses.contains(&status) || !row.forwards_errors_of.is_empty();
    let text = name(status).unwrap_or("a status without a name");
    assert!(status == STATUS_SUCCESS || listed, "{} answered {text} to {with}", row.name);
}

#[test]
fn an_unmapped_argument_fails_as_the_row_says() {
    with_an_adapter(|client, at| {
        for row in rows() {
            for address in [0, 1, 0xdead_0000, usize::MAX - 3, 0xffff_8000_0000_0000] {
                let args = without_provenance_mut::<c_void>(address);
                // SAFETY: The session is guarded; the address is unmapped.
                let status = unsafe { (row.call)(client.session(), at, args) };
                assert_ne!(status, STATUS_SUCCESS, "{} with {address:#x}", row.name);
                assert!(row.statuses.contains(&status), "{} answered {status:#x}", row.name);
            }
        }
    });
}

#[test]
fn a_random_structure_returns_what_the_row_allows() {
    with_an_adapter(|client, at| {
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let context = client.create_context(at, device, 0).unwrap();
        let allocations = vec![softgpu::format::describe(4096)];
        let create = CreateAllocation { device, allocations, ..CreateAllocation::default() };
        let created = client.create(at, &create).unwrap();
        // No two of these numbers form an address that could be mapped.
        let words = [
            0,
            0,
            0,
            1,
            2,
            3,
            34,
            0xfff,
            0x7fff_ffff,
            0xffff_ffff,
            adapter,
            device,
            device,
            context,
            created.allocations[0],
        ];
        let mut seed = 1_u64;
        let mut succeeded = 0;
        for row in rows() {
            assert!(row.bytes.div_ceil(8) <= MOST_WORDS, "{}", row.name);
            for _ in 0..ROUNDS {
                let mut args = [0_u64; MOST_WORDS];
                for word in &mut args {
                    let mut draw = || {
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        u64::from(words[usize::try_from(seed >> 33).unwrap() % words.len()])
                    };
                    *word = draw() | (draw() << 32);
                }
                let with = format!("{:x?}", &args[..row.bytes.div_ceil(8)]);
                // SAFETY: `args` is as long as the structure, and none of its numbers is a mapped
                // address.
                let status = unsafe { (row.call)(client.session(), at, args.as_mut_ptr().cast()) };
                check(row, status, &with);
                succeeded += usize::from(status == STATUS_SUCCESS);
            }
        }
        assert!(succeeded > 100, "{succeeded} calls succeeded");
    });
}
