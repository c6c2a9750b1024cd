//! Adapters, opened and listed through the C library and by a client in Rust.
#![expect(clippy::unwrap_used, reason = "a kernel that does not start is a failed test")]
#![expect(unsafe_code, reason = "calls the exported functions")]
#![expect(non_snake_case, reason = "Windows's names")]

use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_CREATEALLOCATIONFLAGS as Flags,
    D3DKMT_ENUMADAPTERS, D3DKMT_ENUMADAPTERS_FILTER as Filter, D3DKMT_ENUMADAPTERS3,
    D3DKMT_OPENADAPTERFROMDEVICENAME, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME,
    D3DKMT_OPENADAPTERFROMHDC, D3DKMT_OPENADAPTERFROMLUID,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
    STATUS_UNSUCCESSFUL,
};
use abi::{D3DKMT_HANDLE, LUID, NTSTATUS};
use flight::{Log, Passive, ThreadedHost};
use kernel::miniport::{DriverKind, Miniport};
use kernel::{DriverSetup, Kernel};
use softgpu::{MemoryPlan, SoftGpu};
use std::ptr;
use std::sync::Arc;
use thunk::{Client, CreateAllocation};

const DISPLAY: &str = r"\\.\DISPLAY1";

fn number(luid: LUID) -> (u32, i32) {
    (luid.LowPart, luid.HighPart)
}

/// The built-in driver, as one of another kind.
struct OtherKind(Arc<dyn Miniport>, DriverKind);

impl Miniport for OtherKind {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.0)
    }

    fn kind(&self) -> DriverKind {
        self.1
    }
}

/// Runs `body` with a client of a kernel that has two adapters.
fn with_two_adapters(body: impl FnOnce(&Client, &mut Passive)) {
    with_adapters([DriverKind::Full; 2], body);
}

/// Runs `body` with a client of a kernel that has an adapter of each kind.
fn with_adapters(kinds: [DriverKind; 2], body: impl FnOnce(&Client, &mut Passive)) {
    let log = Arc::new(Log::new());
    let flown = ThreadedHost::fly(&log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        for kind in kinds {
            let ram = nt::Ram::new(1 << 30).unwrap();
            let (miniport, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
            let miniport: Arc<dyn Miniport> = Arc::new(OtherKind(miniport, kind));
            let pool = nt::Pool::new(log.clone());
            kernel.add_adapter(at, DriverSetup { miniport, hardware: machine, pool }).unwrap();
        }
        let client = Client::new(&kernel);
        body(&client, at);
        client.end(at);
    });
    flown.unwrap();
}

fn close(adapter: D3DKMT_HANDLE) -> NTSTATUS {
    let args = D3DKMT_CLOSEADAPTER { hAdapter: adapter };
    // SAFETY: `args` is a local of this function.
    unsafe { d3dkmt::D3DKMTCloseAdapter(&raw const args) }
}

fn open_display(name: &str) -> (NTSTATUS, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME) {
    let mut args = D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME { VidPnSourceId: 7, ..ZERO_DISPLAY };
    for (to, unit) in args.DeviceName.iter_mut().zip(name.encode_utf16()) {
        *to = unit;
    }
    // SAFETY: `args` is a local of this function.
    let status = unsafe { d3dkmt::D3DKMTOpenAdapterFromGdiDisplayName(&raw mut args) };
    (status, args)
}

const ZERO_DISPLAY: D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME =
    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME::ZERO;

#[test]
fn the_first_display_opens_with_a_fresh_handle_of_its_adapter() {
    let (status, first) = open_display(DISPLAY);
    assert_eq!((status, first.VidPnSourceId), (STATUS_SUCCESS, 0));
    let (status, second) = open_display(DISPLAY);
    assert_eq!(status, STATUS_SUCCESS);
    assert_ne!(first.hAdapter, second.hAdapter);
    assert_ne!(number(first.AdapterLuid), (0, 0));
    let mut same = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: first.AdapterLuid, hAdapter: 0 };
    // SAFETY: `same` is a local of this function.
    assert_eq!(unsafe { d3dkmt::D3DKMTOpenAdapterFromLuid(&raw mut same) }, STATUS_SUCCESS);
    for adapter in [first.hAdapter, second.hAdapter, same.hAdapter] {
        assert_eq!(close(adapter), STATUS_SUCCESS);
    }
    assert_eq!(close(first.hAdapter), STATUS_INVALID_PARAMETER);
}

#[test]
fn a_display_that_is_not_attached_is_unsuccessful() {
    let long = DISPLAY.repeat(3);
    for name in ["", r"\\.\DISPLAY2", r"\\.\DISPLAY", r"\\.\DISPLAY11", "DISPLAY1", &long] {
        let (status, args) = open_display(name);
        assert_eq!((status, args.hAdapter), (STATUS_UNSUCCESSFUL, 0), "{name}");
    }
    let null = ptr::null_mut();
    // SAFETY: NULL is refused.
    let status = unsafe { d3dkmt::D3DKMTOpenAdapterFromGdiDisplayName(null) };
    assert_eq!(status, STATUS_UNSUCCESSFUL);
}

#[test]
fn a_client_opens_the_display_of_the_first_of_two_adapters() {
    with_two_adapters(|client, at| {
        let luids: Vec<u64> = client
            .session()
            .kernel()
            .adapters()
            .iter()
            .map(|adapter_id| adapter_id.luid())
            .collect();
        let (handle, luid) = client.open_display(at, DISPLAY).unwrap();
        let (low, high) = number(luid);
        assert_eq!(u64::from(low) | (u64::from(high.cast_unsigned()) << 32), luids[0]);
        assert_ne!(luids[0], luids[1]);
        let device = client.create_device(at, handle).unwrap();
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, handle).unwrap();
        let refused = client.open_display(at, r"\\.\DISPLAY2").map(|(handle, _)| handle);
        assert_eq!(refused, Err(STATUS_UNSUCCESSFUL));
    });
}

const BOTH: u64 = Filter::IncludeComputeOnly | Filter::IncludeDisplayOnly;

fn list_adapters(
    filter: u64,
    command_capacity: u32,
    array: &mut [D3DKMT_ADAPTERINFO],
) -> (NTSTATUS, u32) {
    let pAdapters = if array.is_empty() { ptr::null_mut() } else { array.as_mut_ptr() };
    let Filter = Filter { Value: filter };
    let mut args = D3DKMT_ENUMADAPTERS3 { Filter, NumAdapters: command_capacity, pAdapters };
    // SAFETY: `args` is a local, and its array has at least the stated length.
    (unsafe { d3dkmt::D3DKMTEnumAdapters3(&raw mut args) }, args.NumAdapters)
}

#[test]
fn adapters_are_listed_whatever_the_filter_adds() {
    for filter in [0, Filter::IncludeComputeOnly, Filter::IncludeDisplayOnly, BOTH] {
        assert_eq!(list_adapters(filter, 0, &mut []), (STATUS_SUCCESS, 34));
        let mut list = [D3DKMT_ADAPTERINFO::ZERO; 34];
        assert_eq!(list_adapters(filter, 0, &mut list), (STATUS_BUFFER_TOO_SMALL, 0));
        assert_eq!(list_adapters(filter, 34, &mut list), (STATUS_SUCCESS, 1));
        assert_ne!(number(list[0].AdapterLuid), (0, 0));
        assert_eq!(close(list[0].hAdapter), STATUS_SUCCESS);
    }
}

#[test]
fn a_reserved_bit_of_the_filter_is_an_invalid_parameter() {
    let mut list = [D3DKMT_ADAPTERINFO::ZERO; 34];
    for filter in [1 << 2, 1 << 63, BOTH | 1 << 40] {
        assert_eq!(list_adapters(filter, 34, &mut list).0, STATUS_INVALID_PARAMETER);
        assert_eq!(list[0].hAdapter, 0);
    }
    // SAFETY: NULL is refused.
    let status = unsafe { d3dkmt::D3DKMTEnumAdapters3(ptr::null_mut()) };
    assert_eq!(status, STATUS_INVALID_PARAMETER);
}

#[test]
fn a_client_lists_two_adapters_with_any_filter() {
    with_two_adapters(|client, at| {
        for filter in [0, BOTH] {
            let adapters = client.adapters_with(at, filter).unwrap();
            assert_eq!(adapters.len(), 2);
            for adapter in adapters {
                client.close_adapter(at, adapter).unwrap();
            }
        }
        assert_eq!(client.adapters_with(at, 1 << 2), Err(STATUS_INVALID_PARAMETER));
    });
}

#[test]
fn the_first_call_lists_the_same_adapters() {
    let mut all = D3DKMT_ENUMADAPTERS::ZERO;
    // SAFETY: `all` is a local of this function.
    assert_eq!(unsafe { d3dkmt::D3DKMTEnumAdapters(&raw mut all) }, STATUS_SUCCESS);
    let mut list = [D3DKMT_ADAPTERINFO::ZERO; 34];
    assert_eq!(list_adapters(0, 34, &mut list), (STATUS_SUCCESS, all.NumAdapters));
    assert_eq!((all.NumAdapters, all.Adapters[0].NumOfSources), (1, 1));
    assert_eq!(number(all.Adapters[0].AdapterLuid), number(list[0].AdapterLuid));
    assert_ne!(all.Adapters[0].hAdapter, list[0].hAdapter);
    for adapter in [all.Adapters[0].hAdapter, list[0].hAdapter] {
        assert_eq!(close(adapter), STATUS_SUCCESS);
    }
    // SAFETY: NULL is refused.
    let status = unsafe { d3dkmt::D3DKMTEnumAdapters(ptr::null_mut()) };
    assert_eq!(status, STATUS_INVALID_PARAMETER);
}

/// A structure whose characters have four bytes.
#[repr(C)]
struct WideDisplay {
    name: [u32; 32],
    adapter: D3DKMT_HANDLE,
    luid: LUID,
    source: u32,
}

#[test]
fn a_name_with_characters_of_four_bytes_opens_the_display() {
    let luid = LUID { LowPart: 0, HighPart: 0 };
    let mut args = WideDisplay { name: [0; 32], adapter: 0, luid, source: 7 };
    for (to, character) in args.name.iter_mut().zip(DISPLAY.chars()) {
        *to = character.into();
    }
    let pointer = (&raw mut args).cast();
    // SAFETY: `args` is a local of this function, as large as its characters say.
    let status = unsafe { d3dkmt::D3DKMTOpenAdapterFromGdiDisplayName(pointer) };
    assert_eq!((status, args.source), (STATUS_SUCCESS, 0));
    assert_ne!(number(args.luid), (0, 0));
    assert_eq!(close(args.adapter), STATUS_SUCCESS);
}

const ARRIVAL: &str = "{1ca05180-a699-450a-9a0c-de4fbe3ddd89}";
const DISPLAY_ADAPTER: &str = "{5b45201d-f2f2-4f3b-85bb-30ff1f953599}";

fn open_device<T>(name: &[T]) -> (NTSTATUS, D3DKMT_OPENADAPTERFROMDEVICENAME) {
    let pDeviceName = name.as_ptr().cast();
    let mut args =
        D3DKMT_OPENADAPTERFROMDEVICENAME { pDeviceName, ..D3DKMT_OPENADAPTERFROMDEVICENAME::ZERO };
    // SAFETY: `args` is a local of this function, and the name ends with a zero.
    (unsafe { d3dkmt::D3DKMTOpenAdapterFromDeviceName(&raw mut args) }, args)
}

#[test]
fn a_device_opens_by_the_path_of_its_arrival_only() {
    let (_, display) = open_display(DISPLAY);
    let path = format!(r"\\?\root#display#0000#{ARRIVAL}");
    let narrow: Vec<u16> = path.encode_utf16().chain([0]).collect();
    let wide: Vec<u32> = path.chars().map(u32::from).chain([0]).collect();
    for (status, args) in [open_device(&narrow), open_device(&wide)] {
        assert_eq!(status, STATUS_SUCCESS);
        assert_eq!(number(args.AdapterLuid), number(display.AdapterLuid));
        assert_eq!(close(args.hAdapter), STATUS_SUCCESS);
    }
    let other = format!(r"\\?\root#display#0000#{DISPLAY_ADAPTER}");
    let absent = format!(r"\\?\root#display#0007#{ARRIVAL}");
    let bare = format!(r"\\?\root#display#{ARRIVAL}");
    let long = path.repeat(30);
    for name in [&other, &absent, &bare, "", "a", &long] {
        let name: Vec<u16> = name.encode_utf16().chain([0, 0, 0]).collect();
        let (status, args) = open_device(&name);
        assert_eq!((status, args.hAdapter), (STATUS_INVALID_PARAMETER, 0));
    }
    let mut args = D3DKMT_OPENADAPTERFROMDEVICENAME::ZERO;
    // SAFETY: A name that is NULL is refused.
    let status = unsafe { d3dkmt::D3DKMTOpenAdapterFromDeviceName(&raw mut args) };
    assert_eq!(status, STATUS_INVALID_PARAMETER);
    assert_eq!(close(display.hAdapter), STATUS_SUCCESS);
}

#[test]
fn no_number_is_a_device_context() {
    for context in [0, 1, 0x1234_5678, usize::MAX] {
        let hDc = ptr::without_provenance_mut(context);
        let mut args = D3DKMT_OPENADAPTERFROMHDC { hDc, ..D3DKMT_OPENADAPTERFROMHDC::ZERO };
        // SAFETY: `args` is a local of this function.
        let status = unsafe { d3dkmt::D3DKMTOpenAdapterFromHdc(&raw mut args) };
        assert_eq!((status, args.hAdapter), (STATUS_INVALID_PARAMETER, 0));
    }
    // SAFETY: NULL is refused.
    let status = unsafe { d3dkmt::D3DKMTOpenAdapterFromHdc(ptr::null_mut()) };
    assert_eq!(status, STATUS_INVALID_PARAMETER);
}

#[test]
fn an_adapter_that_only_computes_is_listed_on_request_and_has_no_display() {
    with_adapters([DriverKind::ComputeOnly, DriverKind::Full], |client, at| {
        let (_, luid) = client.open_display(at, DISPLAY).unwrap();
        let second = client.session().kernel().adapters()[1].luid();
        assert_eq!(u64::from(luid.LowPart), second & 0xffff_ffff);
        assert_eq!(client.adapters(at).unwrap().len(), 1);
        for (filter, count) in [(0, 1), (Filter::IncludeDisplayOnly, 1), (BOTH, 2)] {
            assert_eq!(client.adapters_with(at, filter).unwrap().len(), count, "{filter}");
        }
    });
    with_adapters([DriverKind::ComputeOnly; 2], |client, at| {
        assert_eq!(
            client.open_display(at, DISPLAY).map(|(handle, _)| handle),
            Err(STATUS_UNSUCCESSFUL)
        );
        assert_eq!(client.adapters_with(at, 0).unwrap().len(), 0);
    });
}

#[test]
fn a_cross_adapter_resource_opens_on_its_own_adapter_and_elsewhere_is_not_supported() {
    with_two_adapters(|client, at| {
        let adapters = client.adapters(at).unwrap();
        let [one, other] = adapters[..] else { panic!("{adapters:?}") };
        let [device, elsewhere] = [one, other].map(|it| client.create_device(at, it).unwrap());
        let mut create = |flags| {
            let description = softgpu::format::describe(4096);
            let create = CreateAllocation::new(device, vec![description]).with_resource();
            let flags = create.flags | Flags::CreateShared | flags;
            client.create(at, &CreateAllocation { flags, ..create }).unwrap().global
        };
        let (cross, plain) = (create(Flags::CrossAdapter), create(0));
        let mut open = |device, global| client.open_resource(at, device, global).map(drop);
        assert_eq!(open(device, cross), Ok(()));
        // What is absent is not the client's mistake.
        assert_eq!(open(elsewhere, cross), Err(STATUS_NOT_SUPPORTED));
        assert_eq!(open(elsewhere, plain), Err(STATUS_INVALID_PARAMETER));
        for device in [device, elsewhere] {
            client.destroy_device(at, device).unwrap();
        }
        for adapter in adapters {
            client.close_adapter(at, adapter).unwrap();
        }
    });
}
