//! Observed results of Windows, compared with our entry points.
//!
//! "Row" is the number of an observation; each assertion states it in plain text. A pointer is NULL
//! or points to a local of the same call. Every process ends with no live objects.
#![expect(unsafe_code, reason = "calls the entry points as an application would")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_CREATEALLOCATION,
    D3DKMT_CREATEALLOCATIONFLAGS as Flags, D3DKMT_CREATEDEVICE, D3DKMT_CREATESTANDARDALLOCATION,
    D3DKMT_DESTROYALLOCATION, D3DKMT_DESTROYALLOCATION2, D3DKMT_DESTROYDEVICE,
    D3DKMT_ENUMADAPTERS2, D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_GRAPHICS_DRIVER_MISMATCH, STATUS_INVALID_HANDLE as NO_HANDLE,
    STATUS_INVALID_PARAMETER as INVALID, STATUS_SUCCESS as SUCCESS,
};
use abi::ukm::{D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO2};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Component, Event, EventKind, Passive, RuleId};
use harness::{KernelTestbed, VariantDriver, run, softgpu, verified};
use kernel::DriverSetup;
use softgpu::format;
use std::collections::BTreeSet;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use thunk::{Client, CreateAllocation, DestroyAllocation, EscapeCall, Session};
use verify::Severity;

const STEP: u32 = 0x40;
const GARBAGE: D3DKMT_HANDLE = 0x1ead_beed;
const PAGE: usize = 0x1000;

/// A process with a device.
struct Fixture<'a> {
    testbed: &'a KernelTestbed,
    at: &'a mut Passive,
    client: Client,
    adapter: D3DKMT_HANDLE,
    device: D3DKMT_HANDLE,
}

/// Runs a test with a process and a device, and destroys everything.
fn with_fixture(body: impl FnOnce(&mut Fixture<'_>)) -> Vec<Event> {
    with_a_driver(softgpu, body)
}

fn with_a_driver(
    make: impl FnOnce(&Arc<flight::Log>) -> DriverSetup,
    body: impl FnOnce(&mut Fixture<'_>),
) -> Vec<Event> {
    run(1, make, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let mut fixture = Fixture { testbed, at, client, adapter, device };
        body(&mut fixture);
        assert_eq!(fixture.client.destroy_device(fixture.at, device), Ok(()));
        assert_eq!(fixture.client.close_adapter(fixture.at, adapter), Ok(()));
        fixture.client.end(fixture.at);
    })
}

impl Fixture<'_> {
    fn session(&self) -> Session {
        self.client.session().clone()
    }

    /// `count` allocations of a page, which is what the driver agrees to with a client.
    fn pages(&self, count: usize) -> CreateAllocation {
        CreateAllocation::new(self.device, vec![format::describe(PAGE as u64); count])
    }

    fn destroy(&mut self, resource: D3DKMT_HANDLE, list: &[D3DKMT_HANDLE]) -> NTSTATUS {
        let destroy = DestroyAllocation {
            device: self.device,
            resource,
            list: list.to_vec(),
            ..DestroyAllocation::default()
        };
        self.client.destroy_v1(self.at, &destroy).err().unwrap_or(SUCCESS)
    }

    /// The number of live objects.
    fn alive(&self) -> usize {
        self.testbed.kernel.live_objects().count()
    }
}

/// The caller's memory.
#[repr(C, align(4096))]
struct Memory([AtomicU8; 2 * PAGE]);

static MEMORY: Memory = Memory([const { AtomicU8::new(0) }; 2 * PAGE]);

/// One standard allocation over a page of the caller's memory, as in the observations.
struct Ask {
    device: D3DKMT_HANDLE,
    resource: D3DKMT_HANDLE,
    flags: u32,
    count: u32,
    kind: i32,
    size: usize,
    memory: Option<&'static Memory>,
    runtime: Vec<u8>,
    private: Vec<u8>,
}

/// The outputs of a create call.
#[derive(Clone, Copy)]
struct Got {
    status: NTSTATUS,
    args: D3DKMT_CREATEALLOCATION,
    allocation: D3DKMT_HANDLE,
    private_size: u32,
}

/// Which of two entry points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

const VERSIONS: [Version; 2] = [Version::One, Version::Two];

impl Ask {
    fn on(device: D3DKMT_HANDLE) -> Self {
        Self {
            device,
            resource: 0,
            flags: Flags::StandardAllocation | Flags::ExistingSysMem,
            count: 1,
            kind: D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP,
            size: PAGE,
            memory: Some(&MEMORY),
            runtime: Vec::new(),
            private: Vec::new(),
        }
    }

    fn call(&mut self, fixture: &mut Fixture<'_>, version: Version) -> Got {
        let memory = self.memory.map_or(ptr::null(), |memory| memory.0.as_ptr().cast());
        let mut standard = D3DKMT_CREATESTANDARDALLOCATION::ZERO;
        (standard.Type, standard.ExistingHeapData.Size) = (self.kind, self.size);
        let private = if self.private.is_empty() {
            ptr::null_mut()
        } else {
            self.private.as_mut_ptr().cast()
        };
        let private_size = size(&self.private);
        let mut one = D3DDDI_ALLOCATIONINFO {
            pSystemMem: memory,
            pPrivateDriverData: private,
            PrivateDriverDataSize: private_size,
            ..D3DDDI_ALLOCATIONINFO::ZERO
        };
        let mut two = D3DDDI_ALLOCATIONINFO2 {
            pSystemMem: memory,
            pPrivateDriverData: private,
            PrivateDriverDataSize: private_size,
            ..D3DDDI_ALLOCATIONINFO2::ZERO
        };
        let mut args = D3DKMT_CREATEALLOCATION {
            hDevice: self.device,
            hResource: self.resource,
            pPrivateRuntimeData: self.runtime.as_ptr().cast(),
            PrivateRuntimeDataSize: size(&self.runtime),
            pPrivateDriverData: (&raw const standard).cast(),
            NumAllocations: self.count,
            ..D3DKMT_CREATEALLOCATION::ZERO
        };
        args.Flags.Value = self.flags;
        args.pAllocationInfo = match version {
            Version::One => &raw mut one,
            Version::Two => (&raw mut two).cast(),
        };
        let (session, to) = (fixture.session(), &raw mut args);
        let status = match version {
            // SAFETY: `args` and its arrays are locals with the lengths that `args` states.
            Version::One => unsafe { thunk::D3DKMTCreateAllocation(&session, fixture.at, to) },
            // SAFETY: `args` and its arrays are locals with the lengths that `args` states.
            Version::Two => unsafe { thunk::D3DKMTCreateAllocation2(&session, fixture.at, to) },
        };
        let (allocation, private_size) = match version {
            Version::One => (one.hAllocation, one.PrivateDriverDataSize),
            Version::Two => (two.hAllocation, two.PrivateDriverDataSize),
        };
        Got { status, args, allocation, private_size }
    }
}

fn size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Destroys with any count and any list pointer beside any resource.
fn destroy_raw(
    fixture: &mut Fixture<'_>,
    version: Version,
    resource: D3DKMT_HANDLE,
    list: Option<&[D3DKMT_HANDLE]>,
    count: u32,
) -> NTSTATUS {
    assert!(list.is_none_or(|numbers| numbers.len() >= count as usize));
    let (session, phAllocationList) = (fixture.session(), list.map_or(ptr::null(), <[_]>::as_ptr));
    let (hDevice, hResource, AllocationCount) = (fixture.device, resource, count);
    let one = D3DKMT_DESTROYALLOCATION { hDevice, hResource, phAllocationList, AllocationCount };
    let two = D3DKMT_DESTROYALLOCATION2 {
        hDevice,
        hResource,
        phAllocationList,
        AllocationCount,
        ..D3DKMT_DESTROYALLOCATION2::ZERO
    };
    match version {
        // SAFETY: The structure is a local; its list is NULL or has at least the stated length.
        Version::One => unsafe {
            thunk::D3DKMTDestroyAllocation(&session, fixture.at, &raw const one)
        },
        // SAFETY: The structure is a local; its list is NULL or has at least the stated length.
        Version::Two => unsafe {
            thunk::D3DKMTDestroyAllocation2(&session, fixture.at, &raw const two)
        },
    }
}

/// The rules that were broken, all by the client.
fn broken(events: &[Event]) -> BTreeSet<(&'static str, Severity)> {
    let verifier = verified(events);
    let findings = verifier.findings().iter();
    findings
        .inspect(|finding| assert_eq!(finding.component, Component::Client, "{}", finding.message))
        .map(|finding| (finding.rule.name(), finding.severity))
        .collect()
}

#[test]
fn handle_values_and_their_order_are_as_on_windows() {
    with_fixture(|fixture| {
        let context = fixture.client.create_context(fixture.at, fixture.device, 0).unwrap();
        let made = fixture.client.create(fixture.at, &fixture.pages(2).with_resource()).unwrap();
        let mut local = vec![fixture.adapter, fixture.device, context, made.resource];
        local.extend(&made.allocations);
        // Rows 1 and 2: one of the two top bits, and six zeroes at the end.
        assert!(
            local.iter().all(|number| number.trailing_zeros() >= 6 && number >> 30 != 0),
            "{local:x?}"
        );
        // Row 4: one table for all kinds, 0x40 apart. Row 7: a resource before its allocations.
        assert!(local.is_sorted_by(|a, b| *b == a + STEP), "{local:x?}");

        // Row 3: a global handle ends in 2, and has one of the top bits (row 1) as well.
        let shared = fixture.pages(1).with_resource();
        let shared = CreateAllocation { flags: shared.flags | Flags::CreateShared, ..shared };
        let shared = fixture.client.create(fixture.at, &shared).unwrap();
        assert!(shared.global & 0x3f == 2 && shared.global >> 30 != 0, "{:x}", shared.global);
        let (a, b) = (shared.resource, shared.allocations[0]);
        assert_eq!((a, b), (made.allocations[1] + STEP, made.allocations[1] + 2 * STEP));

        // Row 5: A and B exist, A is destroyed, and the next handle is the one after B.
        assert_eq!(fixture.destroy(a, &[]), SUCCESS);
        let next = fixture.client.create_device(fixture.at, fixture.adapter).unwrap();
        assert_eq!(next, b + STEP);

        // Row 6: failed calls use up no number, whether the kernel or the driver fails.
        let mut client_frames = fixture.pages(3).with_resource();
        client_frames.allocations[2][4] ^= 0xff;
        for _ in 0..3 {
            let refused = fixture.client.create(fixture.at, &client_frames);
            assert_eq!(refused, Err(STATUS_GRAPHICS_DRIVER_MISMATCH));
            assert_eq!(Ask::on(0).call(fixture, Version::One).status, INVALID);
        }
        let last = fixture.client.create_context(fixture.at, fixture.device, 0).unwrap();
        assert_eq!(last, next + STEP);

        assert_eq!(fixture.destroy(made.resource, &[]), SUCCESS);
        assert_eq!(fixture.client.destroy_context(fixture.at, context), Ok(()));
        assert_eq!(fixture.client.destroy_context(fixture.at, last), Ok(()));
        assert_eq!(fixture.client.destroy_device(fixture.at, next), Ok(()));
    });
}

#[test]
fn an_escape_for_an_unknown_context_fails_for_every_type() {
    let events = with_fixture(|fixture| {
        let context = fixture.client.create_context(fixture.at, fixture.device, 0).unwrap();
        let before = fixture.alive();
        let private = format::escape(format::Escape::Mirror(1));
        let escape = EscapeCall { adapter: fixture.adapter, private, ..EscapeCall::default() };
        // Row 42: two private types with a bad hContext; and others, and other bad ones.
        for kind in [0, 1, 0x8000_i32, 0x1234_5678, -1] {
            for context in [GARBAGE, fixture.device, context + STEP, 1, u32::MAX] {
                let escape = EscapeCall { kind, context, ..escape.clone() };
                assert_eq!(
                    fixture.client.escape(fixture.at, &escape),
                    Err(INVALID),
                    "{kind} {context:x}"
                );
            }
        }
        assert_eq!(fixture.alive(), before, "and nothing else happened");
        assert!(fixture.client.escape(fixture.at, &EscapeCall { context, ..escape }).is_ok());
        assert_eq!(fixture.client.destroy_context(fixture.at, context), Ok(()));
    });
    assert_eq!(broken(&events), BTreeSet::new());
    assert_eq!(verified(&events).rule_counts().count_of(RuleId::DEV_LIFE_014), 25);
    let outcomes =
        events.iter().filter(|event| matches!(event.kind, EventKind::DdiEscapes { .. })).count();
    assert_eq!(outcomes, 1, "only the last came to the driver");
}

/// `D3DKMTEnumAdapters2` with room for `count` adapters; without an array for `None`.
fn enumerate(
    fixture: &mut Fixture<'_>,
    command_capacity: Option<u32>,
) -> (NTSTATUS, u32, Vec<D3DKMT_ADAPTERINFO>) {
    let mut list = vec![D3DKMT_ADAPTERINFO::ZERO; command_capacity.unwrap_or(0) as usize];
    let pAdapters = if command_capacity.is_some() { list.as_mut_ptr() } else { ptr::null_mut() };
    let mut args = D3DKMT_ENUMADAPTERS2 { NumAdapters: command_capacity.unwrap_or(0), pAdapters };
    let session = fixture.session();
    // SAFETY: `args` is a local; its array is NULL or a local of the stated length.
    let status = unsafe { thunk::D3DKMTEnumAdapters2(&session, fixture.at, &raw mut args) };
    (status, args.NumAdapters, list)
}

/// `D3DKMTCloseAdapter`, with a NULL structure for `None`.
fn close_adapter(fixture: &mut Fixture<'_>, handle: Option<D3DKMT_HANDLE>) -> NTSTATUS {
    let (session, args) =
        (fixture.session(), handle.map(|hAdapter| D3DKMT_CLOSEADAPTER { hAdapter }));
    let from = args.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: NULL, or a structure that is a local of this function.
    unsafe { thunk::D3DKMTCloseAdapter(&session, fixture.at, from) }
}

#[test]
fn adapters_are_enumerated_open_and_closed_once() {
    let events = with_fixture(|fixture| {
        let (kernel, log) = (fixture.testbed.kernel.clone(), fixture.testbed.kernel.log().clone());
        let second = kernel.add_adapter(fixture.at, softgpu(&log)).unwrap();

        // Row 21: without an array the count is a fixed maximum (34 on Windows 11).
        let (status, count, _) = enumerate(fixture, None);
        assert_eq!((status, count), (SUCCESS, 34));
        let before = fixture.alive();
        let (status, _, list) = enumerate(fixture, Some(1));
        assert_eq!(status, STATUS_BUFFER_TOO_SMALL, "there are two");
        assert_eq!((fixture.alive(), list[0].hAdapter), (before, 0), "and none was opened");
        // Row 22: with one it is the real count; each has a LUID and an open handle.
        let (status, count, mut list) = enumerate(fixture, Some(34));
        assert_eq!((status, count), (SUCCESS, 2));
        list.truncate(2);
        let luids: BTreeSet<_> =
            list.iter().map(|info| (info.AdapterLuid.LowPart, info.AdapterLuid.HighPart)).collect();
        assert!(luids.len() == 2 && !luids.contains(&(0, 0)), "{luids:x?}");
        // Row 9: the handles follow each other.
        assert_eq!(list[0].hAdapter, fixture.device + STEP);
        assert_eq!(list[1].hAdapter, list[0].hAdapter + STEP);
        for info in &list {
            let device = fixture.client.create_device(fixture.at, info.hAdapter).unwrap();
            assert_eq!(fixture.client.destroy_device(fixture.at, device), Ok(()));
            // Row 25: a live handle is closed; afterwards it is invalid.
            assert_eq!(close_adapter(fixture, Some(info.hAdapter)), SUCCESS);
            assert_eq!(close_adapter(fixture, Some(info.hAdapter)), INVALID);
        }
        // Row 24: no structure, no handle.
        for nothing in [None, Some(0)] {
            assert_eq!(close_adapter(fixture, nothing), INVALID, "{nothing:?}");
        }
        kernel.remove_adapter(fixture.at, second);
    });
    // The array for one adapter is too short for two.
    let expected = [("ADAPTER-ENUM-002", Severity::Error), ("DEV-LIFE-001", Severity::Warning)];
    assert_eq!(broken(&events), expected.into());
}

/// `D3DKMTCreateDevice`, with a NULL structure for `None`.
fn create_device(
    fixture: &mut Fixture<'_>,
    handle: Option<D3DKMT_HANDLE>,
) -> (NTSTATUS, D3DKMT_HANDLE) {
    let filled = |hAdapter| D3DKMT_CREATEDEVICE { hAdapter, ..D3DKMT_CREATEDEVICE::ZERO };
    let (session, mut args) = (fixture.session(), handle.map(filled));
    let to = args.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: NULL, or a structure that is a local of this function.
    let status = unsafe { thunk::D3DKMTCreateDevice(&session, fixture.at, to) };
    (status, args.map_or(0, |raw| raw.hDevice))
}

/// `D3DKMTDestroyDevice`, with a NULL structure for `None`.
fn destroy_device(fixture: &mut Fixture<'_>, handle: Option<D3DKMT_HANDLE>) -> NTSTATUS {
    let (session, args) =
        (fixture.session(), handle.map(|hDevice| D3DKMT_DESTROYDEVICE { hDevice }));
    let from = args.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: NULL, or a structure that is a local of this function.
    unsafe { thunk::D3DKMTDestroyDevice(&session, fixture.at, from) }
}

#[test]
fn devices_are_created_on_an_adapter_and_destroyed_once() {
    let events = with_fixture(|fixture| {
        // Rows 43 and 45: no structure, no handle.
        for nothing in [None, Some(0)] {
            assert_eq!(create_device(fixture, nothing), (INVALID, 0), "{nothing:?}");
            assert_eq!(destroy_device(fixture, nothing), INVALID, "{nothing:?}");
        }
        // Row 46: a live device is destroyed; afterwards its handle is invalid.
        let (status, device) = create_device(fixture, Some(fixture.adapter));
        assert_eq!((status, device), (SUCCESS, fixture.device + STEP));
        assert_eq!(destroy_device(fixture, Some(device)), SUCCESS);
        assert_eq!(destroy_device(fixture, Some(device)), INVALID);
    });
    let expected = [("DEV-LIFE-003", Severity::Warning), ("DEV-LIFE-013", Severity::Error)];
    assert_eq!(broken(&events), expected.into());
}

/// Documented for every standard allocation that is not shared; Windows does not check it.
const UNSHARED: (&str, Severity) = ("ALLOC-CREATE-011", Severity::Note);

/// A failing request: its row, the status, the rule, and what is wrong with it.
type DriverError = (&'static str, NTSTATUS, &'static str, fn(&mut Ask));

const REFUSED: [DriverError; 9] = [
    ("row 141: no device", INVALID, "ALLOC-CREATE-023", |ask| ask.device = 0),
    // An invalid hResource is a bad handle, not a bad parameter; with CreateResource too.
    ("row 142: no such resource", NO_HANDLE, "ALLOC-CREATE-003", |ask| ask.resource = GARBAGE),
    ("row 151: nor with CreateResource", NO_HANDLE, "ALLOC-CREATE-003", |ask| {
        (ask.flags, ask.resource) = (ask.flags | Flags::CreateResource, GARBAGE);
    }),
    ("row 144: type zero", INVALID, "ALLOC-CREATE-022", |ask| ask.kind = 0),
    ("row 145: no memory", INVALID, "ALLOC-CREATE-013", |ask| ask.memory = None),
    ("row 147: no whole pages", INVALID, "ALLOC-CREATE-013", |ask| ask.size = 0x1100),
    ("row 148: without ExistingSysMem", INVALID, "ALLOC-CREATE-009", |ask| {
        ask.flags &= !Flags::ExistingSysMem;
    }),
    ("row 150: shared, but in no resource", INVALID, "ALLOC-CREATE-001", |ask| {
        ask.flags |= Flags::CreateShared;
    }),
    ("row 157: a resource of nothing", INVALID, "ALLOC-CREATE-006", |ask| {
        (ask.flags, ask.count) = (ask.flags | Flags::CreateResource, 0);
    }),
];

#[test]
fn an_invalid_create_fails_and_creates_nothing() {
    for (about, status, rule, spoil) in REFUSED {
        let events = with_fixture(|fixture| {
            let before = fixture.alive();
            for version in VERSIONS {
                let mut ask = Ask::on(fixture.device);
                spoil(&mut ask);
                let (resource, got) = (ask.resource, ask.call(fixture, version));
                assert_eq!(got.status, status, "{about}, {version:?}");
                assert_eq!((got.allocation, got.args.hGlobalShare), (0, 0), "{about}");
                assert_eq!(got.args.hResource, resource, "{about}: left as it was");
                assert_eq!(fixture.alive(), before, "{about}");
            }
        });
        let rules = broken(&events);
        assert!(rules.iter().any(|(it, _)| *it == rule), "{about}: {rules:?}");
    }
}

/// `D3DKMTCreateAllocation` or its second version, with a NULL structure for `None`.
fn create_raw(
    fixture: &mut Fixture<'_>,
    version: Version,
    args: Option<&mut D3DKMT_CREATEALLOCATION>,
) -> NTSTATUS {
    // Only the structure itself: no pointer in it is dereferenced.
    assert!(args.as_ref().is_none_or(|raw| raw.NumAllocations == 0 && raw.Flags.Value == 0));
    let (session, to) = (fixture.session(), args.map_or(ptr::null_mut(), ptr::from_mut));
    match version {
        // SAFETY: NULL, or a borrowed structure without pointers.
        Version::One => unsafe { thunk::D3DKMTCreateAllocation(&session, fixture.at, to) },
        // SAFETY: NULL, or a borrowed structure without pointers.
        Version::Two => unsafe { thunk::D3DKMTCreateAllocation2(&session, fixture.at, to) },
    }
}

#[test]
fn allocations_are_created_and_destroyed_as_on_windows() {
    let events = with_fixture(|fixture| {
        for version in VERSIONS {
            // WINDOWS: a NULL structure crashes the caller in user mode (row 129). There is no
            // caller to crash here, so the call fails as for other invalid arguments.
            assert_eq!(create_raw(fixture, version, None), INVALID);
            // Row 130: an empty request without a device.
            let mut zero = D3DKMT_CREATEALLOCATION::ZERO;
            assert_eq!(create_raw(fixture, version, Some(&mut zero)), INVALID);
            // Row 132: a device, and nothing to destroy on it.
            assert_eq!(destroy_raw(fixture, version, 0, None, 0), SUCCESS);
            // Row 133: one allocation to destroy, without a list.
            assert_eq!(destroy_raw(fixture, version, 0, None, 1), INVALID);

            // Row 135: created, and every size is unchanged.
            let got = Ask::on(fixture.device).call(fixture, version);
            let sizes = (got.args.PrivateRuntimeDataSize, got.args.PrivateDriverDataSize);
            assert_eq!((got.status, sizes, got.private_size), (SUCCESS, (0, 0), 0));
            assert_eq!(got.args.hResource, 0);
            // Row 136: an allocation of one version is destroyed by the other.
            let other = if version == Version::One { Version::Two } else { Version::One };
            let list = [got.allocation];
            assert_eq!(destroy_raw(fixture, other, 0, Some(&list), 1), SUCCESS);
            assert_eq!(destroy_raw(fixture, version, 0, Some(&list), 1), INVALID);

            // Row 138: private data of the caller beside a standard allocation is accepted; the
            // driver's own data replaces it, and the caller's bytes stay unchanged.
            let mut ask = Ask { private: b"123456".to_vec(), ..Ask::on(fixture.device) };
            let got = ask.call(fixture, version);
            assert_eq!((got.status, got.private_size), (SUCCESS, 6));
            assert_eq!(ask.private, b"123456");
            assert_eq!(fixture.destroy(0, &[got.allocation]), SUCCESS);
            // Row 139: the runtime's data is accepted without a resource, too.
            let got =
                Ask { runtime: vec![1, 2, 3, 4], ..Ask::on(fixture.device) }.call(fixture, version);
            assert_eq!((got.status, got.args.PrivateRuntimeDataSize), (SUCCESS, 4));
            assert_eq!(fixture.destroy(0, &[got.allocation]), SUCCESS);
        }
    });
    let expected = [
        ("ALLOC-CREATE-006", Severity::Note),
        UNSHARED,
        ("ALLOC-CREATE-023", Severity::Error),
        ("ALLOC-DESTROY-001", Severity::Error),
        ("ALLOC-DESTROY-024", Severity::Error),
    ];
    assert_eq!(broken(&events), expected.into());
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.kind.name() == name).count()
}

#[test]
fn a_resource_outlives_its_list_and_its_members_do_not_outlive_it() {
    let events = with_fixture(|fixture| {
        let mut ask = Ask::on(fixture.device);
        ask.flags |= Flags::CreateResource;
        let got = ask.call(fixture, Version::One);
        let (resource, member) = (got.args.hResource, got.allocation);
        // Row 7: the resource is numbered first.
        assert_eq!((got.status, member), (SUCCESS, resource + STEP));
        // Row 153: its only member is destroyed by list, and the resource still exists.
        assert_eq!(fixture.destroy(0, &[member]), SUCCESS);
        let more = fixture.pages(2).into_resource(resource);
        let more = fixture.client.create(fixture.at, &more).unwrap();
        assert_eq!(more.resource, resource);
        // Row 154: then it is destroyed, once. Row 156: with its members.
        assert_eq!(fixture.destroy(resource, &[]), SUCCESS);
        assert_eq!(fixture.destroy(resource, &[]), INVALID);
        for member in more.allocations {
            assert_eq!(fixture.destroy(0, &[member]), INVALID);
        }
        // The same with an empty resource.
        let got = ask.call(fixture, Version::Two);
        assert_eq!(fixture.destroy(0, &[got.allocation]), SUCCESS);
        assert_eq!(fixture.destroy(got.args.hResource, &[]), SUCCESS);
        assert_eq!(fixture.destroy(got.args.hResource, &[]), INVALID);
    });
    assert_eq!((count(&events, "resource.created"), count(&events, "resource.destroyed")), (2, 2));
    assert_eq!(
        (count(&events, "allocation.created"), count(&events, "allocation.destroyed")),
        (4, 4)
    );
    let goes = |event: &&Event| matches!(event.kind, EventKind::DdiResource { destroy: true, .. });
    assert_eq!(events.iter().filter(goes).count(), 2, "the driver was told once of each");
    assert_eq!(broken(&events), [UNSHARED, ("ALLOC-DESTROY-001", Severity::Error)].into());
}

#[test]
fn a_rule_that_windows_does_not_enforce_is_a_note() {
    let events = with_fixture(|fixture| {
        for version in VERSIONS {
            let made =
                fixture.client.create(fixture.at, &fixture.pages(2).with_resource()).unwrap();
            let list = made.allocations;
            // A list beside a resource is rejected by its count, and both still exist.
            let both = destroy_raw(fixture, version, made.resource, Some(&list), 2);
            assert_eq!(both, INVALID);
            // Without a count, the pointer is not used.
            let beside = destroy_raw(fixture, version, made.resource, Some(&list), 0);
            assert_eq!(beside, SUCCESS);
            // Row 157: documented: a resource without allocations is valid.
            let empty = fixture.pages(0).with_resource();
            assert_eq!(fixture.client.create(fixture.at, &empty), Err(INVALID));
        }
    });
    let notes = [RuleId::ALLOC_CREATE_006, RuleId::ALLOC_DESTROY_003, RuleId::ALLOC_DESTROY_004];
    assert_eq!(broken(&events), notes.map(|rule_id| (rule_id.name(), Severity::Note)).into());
}

#[test]
fn a_list_is_destroyed_whole_or_not_at_all() {
    let events = with_fixture(|fixture| {
        let other = fixture.client.create_device(fixture.at, fixture.adapter).unwrap();
        let good = fixture.client.create(fixture.at, &fixture.pages(4)).unwrap().allocations;
        let member = fixture.client.create(fixture.at, &fixture.pages(1).with_resource()).unwrap();
        let theirs = CreateAllocation { device: other, ..fixture.pages(1) };
        let theirs = fixture.client.create(fixture.at, &theirs).unwrap().allocations[0];
        let stale = good[3];
        assert_eq!(fixture.destroy(0, &[stale]), SUCCESS);

        let before = fixture.alive();
        let bad = [
            ("no handle", 0),
            ("made up", GARBAGE),
            ("closed before", stale),
            ("named twice", good[0]),
            ("a device", fixture.device),
            ("a resource", member.resource),
            ("a member of a resource", member.allocations[0]),
            ("of another device", theirs),
        ];
        for (about, third) in bad {
            let list = [good[0], good[1], third, good[2]];
            assert_eq!(fixture.destroy(0, &list), INVALID, "{about}");
            assert_eq!(fixture.alive(), before, "{about}");
        }
        // All of them still exist and are destroyed correctly.
        assert_eq!(fixture.destroy(0, &good[..3]), SUCCESS);
        assert_eq!(fixture.destroy(member.resource, &[]), SUCCESS);
        assert_eq!(fixture.client.destroy_device(fixture.at, other), Ok(()));
    });
    let expected = [("ALLOC-DESTROY-001", Severity::Error), ("ALLOC-DESTROY-005", Severity::Error)];
    assert_eq!(broken(&events), expected.into());
}

#[test]
fn only_the_drivers_private_data_is_copied_back() {
    let driver = VariantDriver::writing_private_data();
    let events = with_a_driver(
        |log| driver.set_up(log),
        |fixture| {
            let create = fixture.pages(2);
            let made = fixture.client.create(fixture.at, &create).unwrap();
            for (given, back) in create.allocations.iter().zip(&made.privates) {
                assert_eq!(&back[..2], b"co", "signed when created and when opened");
                assert_eq!(back[2..], given[2..]);
            }
            assert_eq!(fixture.destroy(0, &made.allocations), SUCCESS);
            // A standard allocation has the driver's own data; the driver must not mark the
            // caller's.
            let mut ask = Ask { private: b"123456".to_vec(), ..Ask::on(fixture.device) };
            let got = ask.call(fixture, Version::One);
            assert_eq!((got.status, &*ask.private), (SUCCESS, &b"123456"[..]));
            assert_eq!(fixture.destroy(0, &[got.allocation]), SUCCESS);
        },
    );
    assert_eq!(broken(&events), [UNSHARED].into());
}

#[test]
fn row_30_a_buffer_that_is_a_byte_too_small_is_an_invalid_parameter() {
    with_fixture(|fixture| {
        let mut sizes = abi::kmt::D3DKMT_SEGMENTSIZEINFO::ZERO;
        for (bytes, answer) in [(23, INVALID), (24, SUCCESS)] {
            let args = abi::kmt::D3DKMT_QUERYADAPTERINFO {
                hAdapter: fixture.adapter,
                Type: abi::kmt::KMTQAITYPE_GETSEGMENTSIZE,
                pPrivateDriverData: (&raw mut sizes).cast(),
                PrivateDriverDataSize: bytes,
            };
            let session = fixture.session();
            // SAFETY: `args` and `sizes` are locals, and `sizes` has the stated length.
            let status =
                unsafe { thunk::D3DKMTQueryAdapterInfo(&session, fixture.at, &raw const args) };
            assert_eq!(status, answer, "{bytes}");
        }
    });
}

#[test]
fn calls_about_memory_without_arguments_are_invalid() {
    with_fixture(|fixture| {
        let session = fixture.session();
        macro_rules! without {
            ($($entry:ident $null:ident),+ $(,)?) => {
                // SAFETY: NULL is not dereferenced.
                [$((stringify!($entry), unsafe { thunk::$entry(&session, fixture.at, ptr::$null()) })),+]
            };
        }
        let answers = without![
            D3DKMTCreatePagingQueue null_mut,
            D3DKMTDestroyPagingQueue null_mut,
            D3DKMTWaitForSynchronizationObjectFromCpu null,
            D3DKMTMakeResident null_mut,
            D3DKMTEvict null_mut,
            D3DKMTLock null_mut,
            D3DKMTUnlock null,
            D3DKMTLock2 null_mut,
            D3DKMTUnlock2 null,
            D3DKMTOfferAllocations null,
            D3DKMTReclaimAllocations null,
            D3DKMTReclaimAllocations2 null_mut,
            D3DKMTSetAllocationPriority null,
            D3DKMTGetAllocationPriority null,
            D3DKMTQueryAllocationResidency null,
            D3DKMTQueryAdapterInfo null,
            D3DKMTQueryVideoMemoryInfo null_mut,
            D3DKMTChangeVideoMemoryReservation null,
            D3DKMTRegisterTrimNotification null_mut,
            D3DKMTUnregisterTrimNotification null_mut,
        ];
        for (entry, answer) in answers {
            assert_eq!(answer, INVALID, "{entry}");
        }
    });
}
