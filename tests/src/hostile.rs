//! A hostile client: bytes become calls of a guarded session, with any pointers and any sizes.
//!
//! All its pointers lead into an arena with an inaccessible page behind it, or to unmapped memory.
//! A legitimate write therefore damages nothing, and every crash is a bug of the thunks or of the
//! kernel.
#![expect(unsafe_code, reason = "plays an application that passes any number as a pointer")]

use crate::{run, verified};
use abi::ukm::{D3DDDI_MONITORED_FENCE, D3DDDI_SYNCHRONIZATION_MUTEX};
use flight::{Component, Event, EventKind, Passive};
use kernel::{Kernel, ProcessExit};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;
use thunk::Session;

/// The arena: two pages, and behind them one inaccessible page.
const LENGTH: usize = 0x2000;
/// The offset of made-up arguments.
const USED: usize = 0x1300;

/// The offset of each entry's arguments in a call that is not hostile about them.
const ENUM: usize = 0x000;
const DEVICE: usize = 0x080;
const CONTEXT: usize = 0x100;
const CREATE: usize = 0x180;
const INFOS: usize = 0x200;
const PRIVATE: usize = 0x300;
const DESTROY: usize = 0x400;
const SUBMIT: usize = 0x480;
const ESCAPE: usize = 0x640;
const STATE: usize = 0x700;
const OPEN: usize = 0x780;

const KEYED: usize = 0x800;
const KEYED_OPEN: usize = 0x820;
const ACQUIRE: usize = 0x840;
const RELEASE: usize = 0x870;
const SYNC: usize = 0x8a0;
const SYNC_FIRST: usize = 0x900;
const SYNC_OPEN: usize = 0x950;
const SIGNAL_CPU: usize = 0x9a0;
const WAIT_CPU: usize = 0x9c0;
const OBJECTS: usize = 0x9f0;
const VALUES: usize = 0x9f8;
const SIGNAL_GPU: usize = 0xa00;
const WAIT_GPU: usize = 0xa50;
const SIGNAL_ALL: usize = 0xaa0;
const CONTEXTS: usize = 0xb00;
const SIGNAL_FIRST: usize = 0xb10;
const SIGNAL_SECOND: usize = 0xba0;
const LISTED: usize = 0xd70;
const RENDER: usize = 0xdd0;
const QUEUE: usize = 0xf40;
const MAP: usize = 0xf60;
const RESERVE: usize = 0xfc8;
const FREE: usize = 0x1010;
const UPDATE: usize = 0x1028;
const OPERATIONS: usize = 0x1060;
const RESIDENT: usize = 0x10a0;
const EVICT: usize = 0x10d0;
const LIST: usize = 0x10f0;
const NT_SHARE: usize = 0x1100;
const NT_OBJECTS: usize = 0x1128;
const NT_HANDLE: usize = 0x1138;
const NT_ATTRIBUTES: usize = 0x1140;
const NT_NAME: usize = 0x1170;
const NT_BY_NAME: usize = 0x1180;
const NT_QUERY: usize = 0x1198;
const NT_OPEN: usize = 0x11c0;
const NT_SYNC: usize = 0x1228;
const NT_SYNC_2: usize = 0x1238;
const NT_MUTEX: usize = 0x1290;
const NT_LUID: usize = 0x12b0;

/// The drivers of the flights; the input bytes select one.
const DRIVERS: [&str; 3] = ["softgpu", "softgpu-gpummu", "softgpu-allocation-lists"];

struct Arena(*mut u8);

impl Arena {
    fn new() -> Self {
        let (all, flags) = (LENGTH + 0x1000, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: A new mapping replaces no other mapping.
        let base = unsafe { libc::mmap(null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "room for an arena");
        // SAFETY: The pages were just mapped.
        let opened = unsafe { libc::mprotect(base, LENGTH, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(opened, 0, "an arena to write to");
        Self(base.cast())
    }

    /// A number of the arena.
    fn at<T>(&self, place: usize) -> *mut T {
        let place = place % USED / size_of::<T>() * size_of::<T>();
        self.0.wrapping_add(place).cast()
    }

    fn get<T>(&self, place: usize) -> T {
        // SAFETY: The address is inside the arena and aligned; any bits are a valid `T`.
        unsafe { self.at::<T>(place).read() }
    }

    fn set<T>(&self, place: usize, value: T) {
        // SAFETY: The address is inside the arena and aligned.
        unsafe { self.at::<T>(place).write(value) }
    }

    fn address(&self, place: usize) -> u64 {
        self.0.addr() as u64 + place as u64
    }

    /// An address inside the arena, or an unmapped one.
    fn pick(&self, which: u8) -> u64 {
        match which {
            0 => 0,
            1 => 1,
            2 => 0xdead_0000,
            3 => u64::MAX - 3,
            4 => 0xffff_8000_0000_0000,
            5 => self.address(LENGTH),
            6 => self.address(LENGTH - 8),
            _ => self.address(usize::from(which) * 8),
        }
    }

    /// Ensures that no number is an address outside the arena: parts of addresses were copied
    /// around.
    fn disarm(&self) {
        let ours = self.address(0)..=self.address(LENGTH);
        for place in (0..USED).step_by(8) {
            let driver_handle = self.get::<u64>(place);
            let mapped = 0x1000_0000_0000..0x8000_0000_0000_u64;
            if mapped.contains(&driver_handle)
                && !(ours.contains(&driver_handle) && driver_handle.is_multiple_of(8))
            {
                self.set(place, self.address(INFOS));
            }
        }
    }

    /// The arguments of a correct application.
    fn furnish(&self) {
        self.set(ENUM, 34_u32);
        self.set(ENUM + 8, self.address(ENUM + 0x40));
        self.set(CONTEXT + 8, 1_u32);
        self.set(CREATE + 44, 1_u32);
        self.set(CREATE + 48, self.address(INFOS));
        self.set(CREATE + 56, 1_u32);
        let private = softgpu::format::describe(4096);
        for info in [INFOS, INFOS + 40, INFOS + 96] {
            self.set(info + 16, self.address(PRIVATE));
            self.set(info + 24, u32::try_from(private.len()).unwrap_or(0));
        }
        for (place, byte) in (PRIVATE..).zip(private) {
            self.set(place, byte);
        }
        self.set(SUBMIT + 24, 1_u32);
        self.set(STATE + 4, 1_u32);
        self.set(ESCAPE + 16, self.address(PRIVATE));
        self.set(ESCAPE + 24, 16_u32);
        self.set(OPEN + 8, 1_u32);
        self.set(OPEN + 16, self.address(INFOS));
        self.furnish_objects();
        self.furnish_memory();
        self.furnish_nt_handles();
    }

    /// As above, for NT handles.
    fn furnish_nt_handles(&self) {
        self.set(NT_SHARE, 1_u32);
        self.set(NT_SHARE + 8, self.address(NT_OBJECTS));
        self.set(NT_SHARE + 16, self.address(NT_ATTRIBUTES));
        self.set(NT_SHARE + 24, 0x1000_0000_u32);
        self.set(NT_SHARE + 32, self.address(NT_HANDLE));
        self.set(NT_ATTRIBUTES, 48_u32);
        self.set(NT_ATTRIBUTES + 16, self.address(NT_NAME));
        self.set(NT_NAME, 8_u16);
        self.set(NT_NAME + 8, self.address(PRIVATE));
        self.set(NT_BY_NAME, 0x1000_0000_u32);
        self.set(NT_BY_NAME + 8, self.address(NT_ATTRIBUTES));
        self.set(NT_OPEN + 16, 1_u32);
        self.set(NT_OPEN + 24, self.address(INFOS));
        self.set(NT_OPEN + 64, 0x80_u32);
        self.set(NT_OPEN + 72, self.address(PRIVATE));
    }

    /// As above, for keyed mutexes and synchronisation objects.
    fn furnish_objects(&self) {
        self.set(ACQUIRE + 16, self.address(VALUES));
        self.set(SYNC + 8, D3DDDI_MONITORED_FENCE);
        self.set(SYNC_FIRST + 4, D3DDDI_SYNCHRONIZATION_MUTEX);
        for (call, objects, values) in [
            (SIGNAL_CPU, 8, 16),
            (WAIT_CPU, 8, 16),
            (SIGNAL_GPU, 8, 16),
            (WAIT_GPU, 8, 16),
            (SIGNAL_ALL, 8, 32),
        ] {
            self.set(call + if call == SIGNAL_ALL { 0 } else { 4 }, 1_u32);
            self.set(call + objects, self.address(OBJECTS));
            self.set(call + values, self.address(VALUES));
        }
        self.set(SIGNAL_ALL + 20, 1_u32);
        self.set(SIGNAL_ALL + 24, self.address(CONTEXTS));
        self.set(SIGNAL_FIRST + 4, 1_u32);
        self.set(SIGNAL_SECOND + 4, 1_u32);
    }

    /// As above, for packets with allocation lists, residency and addresses.
    fn furnish_memory(&self) {
        self.set(LISTED + 8, 1_u32);
        self.set(MAP + 48, 1_u64);
        self.set(RESERVE + 32, 0x1_0000_u64);
        self.set(FREE + 16, 0x1_0000_u64);
        self.set(UPDATE + 12, 1_u32);
        self.set(UPDATE + 16, self.address(OPERATIONS));
        self.set(OPERATIONS + 16, 0x1000_u64);
        for call in [RESIDENT, EVICT] {
            self.set(call + 4, 1_u32);
            self.set(call + 8, self.address(LIST));
        }
    }

    /// Copies the handles of the last calls into the next arguments.
    fn pass_on_handles(&self) {
        for (from, to) in [
            (ENUM + 0x40, DEVICE),
            (ENUM + 0x40, ESCAPE),
            (DEVICE + 12, CONTEXT),
            (DEVICE + 12, CREATE),
            (DEVICE + 12, DESTROY),
            (DEVICE + 12, STATE),
            (DEVICE + 12, OPEN),
            (CONTEXT + 32, SUBMIT + 28),
            (CREATE + 4, DESTROY + 4),
            (CREATE + 8, OPEN + 4),
            (KEYED + 8, KEYED_OPEN),
            (KEYED + 12, ACQUIRE),
            (KEYED + 12, RELEASE),
            (DEVICE + 12, SYNC),
            (DEVICE + 12, SYNC_FIRST),
            (DEVICE + 12, SIGNAL_CPU),
            (DEVICE + 12, WAIT_CPU),
            (SYNC + 80, SYNC_OPEN),
            (SYNC + 88, OBJECTS),
            (SYNC + 88, UPDATE + 8),
            (SYNC_FIRST + 72, SIGNAL_FIRST + 8),
            (SYNC_FIRST + 72, SIGNAL_SECOND + 8),
            (CONTEXT + 32, CONTEXTS),
            (CONTEXT + 32, SIGNAL_GPU),
            (CONTEXT + 32, WAIT_GPU),
            (CONTEXT + 32, SIGNAL_FIRST),
            (CONTEXT + 32, SIGNAL_SECOND),
            (DEVICE + 12, LISTED),
            (LISTED + 32, RENDER),
            (DEVICE + 12, QUEUE),
            (QUEUE + 8, MAP),
            (QUEUE + 8, RESERVE),
            (QUEUE + 8, RESIDENT),
            (INFOS, MAP + 32),
            (INFOS, LIST),
            (INFOS, OPERATIONS + 24),
            (ENUM + 0x40, FREE),
            (DEVICE + 12, UPDATE),
            (DEVICE + 12, EVICT),
        ] {
            self.set(to, self.get::<u32>(from));
        }
        self.set(
            NT_OBJECTS,
            self.get::<u32>(if self.get::<u8>(PRIVATE).is_multiple_of(2) {
                CREATE + 4
            } else {
                SYNC + 88
            }),
        );
        for to in [NT_QUERY, NT_OPEN] {
            self.set(to, self.get::<u32>(DEVICE + 12));
        }
        self.set(NT_SYNC_2 + 8, self.get::<u32>(DEVICE + 12));
        for to in [NT_QUERY + 8, NT_OPEN + 8, NT_SYNC, NT_SYNC_2, NT_MUTEX, NT_LUID + 8] {
            self.set(to, self.get::<u64>(NT_HANDLE));
        }
        for to in [FREE + 8, OPERATIONS + 8] {
            self.set(to, self.get::<u64>(RESERVE + 56));
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours, and no reference points into it.
        unsafe { libc::munmap(self.0.cast(), LENGTH + 0x1000) };
    }
}

/// Calls an entry by number, with its own arguments or with that address.
macro_rules! entries {
    ($($name:ident $place:expr;)*) => {
        const PLACES: &[usize] = &[$($place),*];
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        fn call(session: &Session, at: &mut Passive, number: usize, address: u64) {
            let entries: &[&dyn Fn(&mut Passive)] = &[$(&|at| {
                let args = without_provenance_mut::<u8>(usize::try_from(address).unwrap_or(0));
                // SAFETY: The session is guarded and can write only the arena. (An unguarded
                // session ends the process, which is the planted bug.)
                let _ = unsafe { thunk::$name(session, at, args.cast()) };
            }),*];
            entries[number](at);
        }
    };
}

entries! {
    D3DKMTEnumAdapters2 ENUM;
    D3DKMTOpenAdapterFromLuid ENUM + 0x44;
    D3DKMTCloseAdapter DEVICE;
    D3DKMTCreateDevice DEVICE;
    D3DKMTDestroyDevice DESTROY;
    D3DKMTCreateContextVirtual CONTEXT;
    D3DKMTDestroyContext CONTEXT + 32;
    D3DKMTSubmitCommand SUBMIT;
    D3DKMTCreateAllocation CREATE;
    D3DKMTCreateAllocation2 CREATE;
    D3DKMTDestroyAllocation DESTROY;
    D3DKMTDestroyAllocation2 DESTROY;
    D3DKMTQueryResourceInfo OPEN;
    D3DKMTOpenResource OPEN;
    D3DKMTOpenResource2 OPEN;
    D3DKMTGetDeviceState STATE;
    D3DKMTEscape ESCAPE;
    D3DKMTCreateKeyedMutex KEYED;
    D3DKMTCreateKeyedMutex2 KEYED;
    D3DKMTOpenKeyedMutex KEYED_OPEN;
    D3DKMTOpenKeyedMutex2 KEYED_OPEN;
    D3DKMTAcquireKeyedMutex ACQUIRE;
    D3DKMTAcquireKeyedMutex2 ACQUIRE;
    D3DKMTReleaseKeyedMutex RELEASE;
    D3DKMTReleaseKeyedMutex2 RELEASE;
    D3DKMTDestroyKeyedMutex ACQUIRE;
    D3DKMTCreateSynchronizationObject SYNC_FIRST;
    D3DKMTCreateSynchronizationObject2 SYNC;
    D3DKMTOpenSynchronizationObject SYNC_OPEN;
    D3DKMTDestroySynchronizationObject OBJECTS;
    D3DKMTSignalSynchronizationObject SIGNAL_FIRST;
    D3DKMTSignalSynchronizationObject2 SIGNAL_SECOND;
    D3DKMTSignalSynchronizationObjectFromCpu SIGNAL_CPU;
    D3DKMTSignalSynchronizationObjectFromGpu SIGNAL_GPU;
    D3DKMTSignalSynchronizationObjectFromGpu2 SIGNAL_ALL;
    D3DKMTWaitForSynchronizationObject SIGNAL_FIRST;
    D3DKMTWaitForSynchronizationObject2 SIGNAL_SECOND;
    D3DKMTWaitForSynchronizationObjectFromCpu WAIT_CPU;
    D3DKMTWaitForSynchronizationObjectFromGpu WAIT_GPU;
    D3DKMTCreateContext LISTED;
    D3DKMTRender RENDER;
    D3DKMTCreatePagingQueue QUEUE;
    D3DKMTDestroyPagingQueue MAP;
    D3DKMTMakeResident RESIDENT;
    D3DKMTEvict EVICT;
    D3DKMTMapGpuVirtualAddress MAP;
    D3DKMTReserveGpuVirtualAddress RESERVE;
    D3DKMTFreeGpuVirtualAddress FREE;
    D3DKMTUpdateGpuVirtualAddress UPDATE;
    D3DKMTShareObjects NT_SHARE;
    D3DKMTOpenNtHandleFromName NT_BY_NAME;
    D3DKMTOpenSyncObjectNtHandleFromName NT_BY_NAME;
    D3DKMTQueryResourceInfoFromNtHandle NT_QUERY;
    D3DKMTOpenResourceFromNtHandle NT_OPEN;
    D3DKMTOpenSyncObjectFromNtHandle NT_SYNC;
    D3DKMTOpenSyncObjectFromNtHandle2 NT_SYNC_2;
    D3DKMTOpenKeyedMutexFromNtHandle NT_MUTEX;
    D3DKMTGetSharedResourceAdapterLuid NT_LUID;
}

/// Creates the objects it needs, as far as its driver supports them.
const FIRST: &[&str] = &[
    "D3DKMTEnumAdapters2",
    "D3DKMTCreateDevice",
    "D3DKMTCreateContextVirtual",
    "D3DKMTCreateAllocation",
    "D3DKMTCreateKeyedMutex",
    "D3DKMTCreateSynchronizationObject",
    "D3DKMTCreateSynchronizationObject2",
    "D3DKMTCreateContext",
    "D3DKMTCreatePagingQueue",
    "D3DKMTReserveGpuVirtualAddress",
];

const NUMBERS: [u32; 10] =
    [0, 1, 2, 3, 34, 0xfff, 0x10_0000, 0x0100_0001, 0x7fff_ffff, 0xffff_ffff];

/// Executes the bytes, five per step. Afterwards no object may be alive, and the kernel must have
/// broken no rule. Returns the number of successful calls.
pub fn call_from_bytes(bytes: &[u8]) -> usize {
    call_through(bytes, Session::guarded)
}

/// As above through an unguarded session: the planted bug, which ends the process.
pub fn call_unguarded(bytes: &[u8]) -> usize {
    call_through(bytes, Session::open)
}

fn call_through(bytes: &[u8], open: fn(&Arc<Kernel>) -> Session) -> usize {
    // A step uses the rest of the first byte.
    let which = bytes.first().map_or(0, |byte| usize::from(byte / 8)) % DRIVERS.len();
    let make = drivers::find(DRIVERS[which]).expect("a good driver").make;
    let events = run(0, make, |testbed, at| {
        let (arena, session) = (Arena::new(), open(&testbed.kernel));
        arena.furnish();
        for number in FIRST.iter().filter_map(|text| NAMES.iter().position(|name| name == text)) {
            arena.pass_on_handles();
            call(&session, at, number, arena.address(PLACES[number]));
        }
        arena.pass_on_handles();
        for step in bytes.as_chunks::<5>().0 {
            let [what, a, b, c, d] = *step;
            let place = |low, high| usize::from(u16::from_le_bytes([low, high]));
            match what % 8 {
                0..4 => {
                    let number = usize::from(a) % PLACES.len();
                    let own = arena.address(PLACES[number]);
                    arena.disarm();
                    call(&session, at, number, if b < 220 { own } else { arena.pick(c) });
                }
                4 => arena.pass_on_handles(),
                5 => arena.set(
                    place(a, b),
                    NUMBERS.get(usize::from(c)).map_or(d.into(), |number| *number),
                ),
                6 => arena.set(place(a, b), arena.get::<u32>(place(c, d))),
                _ => arena.set(place(a, b), arena.pick(c)),
            }
        }
        testbed.kernel.end_process(at, session.process(), ProcessExit::Killed);
    });
    for finding in verified(&events).findings() {
        assert_ne!(finding.component, Component::Kernel, "{}", finding.message);
    }
    let good =
        |event: &&Event| matches!(&event.kind, EventKind::Leave { status, .. } if status.0 == 0);
    events.iter().filter(good).count()
}
