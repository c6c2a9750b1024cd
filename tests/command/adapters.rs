//! Adapters, opened and listed through the C library and by a client in Rust.
#![expect(clippy::unwrap_used, reason = "a kernel that does not start is a failed test")]
#![expect(unsafe_code, reason = "calls the exported functions")]
#![expect(non_snake_case, reason = "Windows's names")]

use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_ENUMADAPTERS_FILTER as Filter,
    D3DKMT_ENUMADAPTERS3, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME, D3DKMT_OPENADAPTERFROMLUID,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use abi::{D3DKMT_HANDLE, LUID, NTSTATUS};
use flight::{Log, Passive, ThreadedHost};
use kernel::{DriverSetup, Kernel};
use softgpu::{MemoryPlan, SoftGpu};
use std::ptr;
use std::sync::Arc;
use thunk::Client;

const DISPLAY: &str = r"\\.\DISPLAY1";

fn number(luid: LUID) -> (u32, i32) {
    (luid.LowPart, luid.HighPart)
}

/// Runs `body` with a client of a kernel that has two adapters.
fn with_two_adapters(body: impl FnOnce(&Client, &mut Passive)) {
    let log = Arc::new(Log::new());
    let flown = ThreadedHost::fly(&log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        for _ in 0..2 {
            let ram = nt::Ram::new(1 << 30).unwrap();
            let (miniport, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
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
