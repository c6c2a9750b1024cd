//! The callback arguments of a hostile driver.
#![expect(unsafe_code, reason = "plays a driver that passes any number as a pointer")]

use super::{OWN_DEVICE, OWN_RESOURCE, STATE, ends, handle, held, new_context, state, text};
use abi::hresult::{E_FAIL, E_INVALIDARG, E_NOTIMPL, S_OK, succeeded};
use abi::umd::{
    D3DDDI_ADAPTERCALLBACKS, D3DDDI_DEVICECALLBACKS, D3DDDICB_ALLOCATE, D3DDDICB_DEALLOCATE,
    D3DDDICB_LOCK, D3DDDICB_RENDER, D3DDDICB_SUBMITCOMMAND, D3DDDICB_UNLOCK,
};
use abi::{HANDLE, HRESULT};
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::OnceLock;

/// Any function of a callback table, with the common signature.
type Any = unsafe extern "win64-unwind" fn(HANDLE, *mut c_void) -> HRESULT;

/// The size of the largest callback structure.
const ARGS: usize = 4096;

/// A read-only page, and a page without access.
fn pages() -> (usize, usize) {
    static PAGES: OnceLock<(usize, usize)> = OnceLock::new();
    *PAGES.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let map = |protection| {
            // SAFETY: A new mapping replaces no other mapping.
            let base = unsafe { libc::mmap(null_mut(), ARGS, protection, flags, -1, 0) };
            assert_ne!(base, libc::MAP_FAILED, "room for a page");
            base.addr()
        };
        (map(libc::PROT_READ), map(libc::PROT_NONE))
    })
}

/// The functions of a table, in slot order.
fn functions<T: Copy, const N: usize>(table: &T) -> [usize; N] {
    assert_eq!(size_of::<T>(), N * size_of::<usize>());
    let from = (&raw const *table).cast::<[usize; N]>();
    // SAFETY: A table is an array of optional functions; a missing function is zero.
    unsafe { from.read() }
}

const ADAPTER_SLOTS: usize = D3DDDI_ADAPTERCALLBACKS::SLOTS.len();
const DEVICE_SLOTS: usize = D3DDDI_DEVICECALLBACKS::SLOTS.len();

fn call(function: usize, of: usize, args: usize) -> HRESULT {
    let function: *const () = with_exposed_provenance(function);
    // SAFETY: The function is the runtime's; all of them take a handle and one pointer, or use
    // neither.
    let function = unsafe { transmute::<*const (), Any>(function) };
    // SAFETY: The runtime validates this driver's pointers.
    unsafe { function(handle(of), with_exposed_provenance_mut(args)) }
}

/// The implemented callbacks; the others return "not implemented" and log their name.
pub fn is_served(slot: &str) -> bool {
    runtime::CALLBACKS.iter().any(|callback_row| callback_row.name == slot)
}

/// Calls every slot of every table with wrong handles and pointers, from one function.
pub(super) fn call_with_bad_arguments(place: &'static str) {
    let it = state();
    if !it.hostile {
        return;
    }
    let (read_only, nowhere) = pages();
    let pointers = [
        ("NULL", 0),
        ("a page without access", nowhere),
        ("the end of a page without access", nowhere + ARGS - 1),
        ("one", 1),
        ("no address of a process", usize::MAX - 7),
        ("no address at all", 0x8000_0000_0000_0000),
    ];
    let mut message = Vec::new();
    let mut calls = 0;
    let adapter_table: [usize; ADAPTER_SLOTS] = functions(&it.adapter_callbacks);
    let device_table: [usize; DEVICE_SLOTS] = functions(&it.callbacks);
    let adapters = D3DDDI_ADAPTERCALLBACKS::SLOTS.iter().zip(adapter_table);
    let devices = D3DDDI_DEVICECALLBACKS::SLOTS.iter().zip(device_table);
    let slots = adapters.map(|pair| (true, pair)).chain(devices.map(|pair| (false, pair)));
    for (of_adapter, (slot, function)) in slots.filter(|pair| pair.1.1 != 0) {
        // Fresh structures for each call, because outputs stay in them.
        let [mut zeros, mut ones, mut wild] =
            [0, u64::MAX, nowhere as u64].map(|value| vec![value; ARGS / 8]);
        let at = |list: &mut Vec<u64>| list.as_mut_ptr().expose_provenance();
        let structures = [
            ("zeros", at(&mut zeros)),
            ("ones", at(&mut ones)),
            ("wild pointers", at(&mut wild)),
            ("what is only read", read_only),
        ];
        // WINDOWS: an escape of a device names the adapter (documented).
        let adapters = of_adapter || *slot == "pfnEscapeCb";
        let good = if adapters { it.adapter } else { it.inside };
        let other = it.devices.iter().copied().find(|one| *one != it.inside && *one != it.gone);
        let handles = [
            ("NULL", 0, E_INVALIDARG),
            ("one", 1, E_INVALIDARG),
            ("the driver's own handle", OWN_DEVICE, E_INVALIDARG),
            (
                "a handle of the other kind",
                if adapters { it.inside } else { it.adapter },
                E_INVALIDARG,
            ),
            ("a destroyed device", it.gone, E_INVALIDARG),
            (
                "another device",
                if adapters { 0 } else { other.unwrap_or(0) },
                if adapters || other.is_none() { E_INVALIDARG } else { E_FAIL },
            ),
        ];
        for (what, of, expected) in handles {
            for (_, args) in pointers.iter().chain(&structures) {
                let answer = call(function, of, *args);
                calls += 1;
                let expected = if is_served(slot) { expected } else { E_NOTIMPL };
                if answer != expected {
                    message.push(format!("{place}: {slot} of {what}: {}", text(answer)));
                }
            }
        }
        if good == 0 {
            continue;
        }
        for (what, args) in pointers {
            let answer = call(function, good, args);
            calls += 1;
            let expected = if is_served(slot) { E_INVALIDARG } else { E_NOTIMPL };
            if answer != expected {
                message.push(format!("{place}: {slot} with {what}: {}", text(answer)));
            }
        }
        for (what, args) in structures {
            let answer = call(function, good, args);
            calls += 1;
            let refused = !succeeded(answer);
            let may = matches!(what, "zeros" | "what is only read");
            if !refused && !may {
                message.push(format!("{place}: {slot} with {what}: {}", text(answer)));
            }
        }
    }
    let mut state = held(&STATE);
    state.wrong.extend(message);
    state.calls += calls;
}

/// Calls a callback of the saved table with a structure.
macro_rules! back {
    ($it:ident.$slot:ident, $args:expr) => {{
        let mut args = $args;
        match $it.callbacks.$slot {
            // SAFETY: The structure is a local, and its pointers are validated.
            Some(function) => unsafe { function(handle($it.inside), &raw mut args) },
            None => E_NOTIMPL,
        }
    }};
}

/// Rows: the call, the situation, the expected result, and the actual result.
macro_rules! rows {
    ($it:ident; $($slot:ident $what:literal $expected:ident $args:expr;)*) => {
        [$((stringify!($slot), $what, $expected, back!($it.$slot, $args))),*]
    };
}

fn allocate_args(resource: usize, count: u32, list: usize) -> D3DDDICB_ALLOCATE {
    D3DDDICB_ALLOCATE {
        hResource: handle(resource),
        NumAllocations: count,
        pAllocationInfo: with_exposed_provenance_mut(list),
        ..D3DDDICB_ALLOCATE::ZERO
    }
}

fn frees(resource: usize, count: u32, list: usize) -> D3DDDICB_DEALLOCATE {
    let list = with_exposed_provenance(list);
    D3DDDICB_DEALLOCATE { hResource: handle(resource), NumAllocations: count, HandleList: list }
}

fn renders(context: usize) -> D3DDDICB_RENDER {
    D3DDDICB_RENDER { hContext: handle(context), ..D3DDDICB_RENDER::ZERO }
}

fn submits(context: usize, count: u32) -> D3DDDICB_SUBMITCOMMAND {
    let mut args = D3DDDICB_SUBMITCOMMAND::ZERO;
    args.BroadcastContextCount = count;
    args.BroadcastContext[0] = handle(context);
    args
}

fn locks(allocation: u32, pages: u32, list: usize) -> D3DDDICB_LOCK {
    D3DDDICB_LOCK {
        hAllocation: allocation,
        NumPages: pages,
        pPages: with_exposed_provenance(list),
        ..D3DDDICB_LOCK::ZERO
    }
}

fn unlock_args(count: u32, list: usize) -> D3DDDICB_UNLOCK {
    D3DDDICB_UNLOCK { NumAllocations: count, phAllocations: with_exposed_provenance(list) }
}

/// Calls with one wrong argument, in a flush of a device that has a context and a resource.
/// Returns the unexpected results.
pub(super) fn call_with_one_error() -> Vec<String> {
    let it = state();
    let of = |list: &[(usize, usize)], mine: bool| {
        list.iter().rfind(|one| (one.0 == it.inside) == mine).map_or(1, |one| one.1)
    };
    let (context, resource) = (of(&it.contexts, true), of(&it.resources, true));
    // Without another device these handles are invalid anyway.
    let (foreign_context, client_frames) = (of(&it.contexts, false), of(&it.resources, false));
    let ((_, nowhere), own) = (pages(), OWN_RESOURCE + resource);
    let garbage = [0xdead_beef_u32];
    let wrong = garbage.as_ptr().expose_provenance();
    let more = |of: D3DDDICB_RENDER| D3DDDICB_RENDER { CommandLength: 8, ..of };
    // A context that is created and destroyed: its handle is stale afterwards.
    let stale = new_context(&it.callbacks, handle(it.inside));
    let table = rows! { it;
        pfnDestroyContextCb "a context" S_OK ends(stale);
        pfnDestroyContextCb "a destroyed context" E_INVALIDARG ends(stale);
        pfnDestroyContextCb "another device's" E_INVALIDARG ends(foreign_context);
        pfnDestroyContextCb "NULL" E_INVALIDARG ends(0);
        pfnRenderCb "a destroyed context" E_INVALIDARG renders(stale);
        pfnRenderCb "another device's context" E_INVALIDARG renders(foreign_context);
        pfnRenderCb "more commands than fit" E_INVALIDARG
            D3DDDICB_RENDER { CommandLength: u32::MAX, ..renders(context) };
        pfnRenderCb "commands beyond their buffer" E_INVALIDARG
            D3DDDICB_RENDER { CommandOffset: u32::MAX, ..more(renders(context)) };
        pfnRenderCb "more allocations than fit" E_INVALIDARG
            D3DDDICB_RENDER { NumAllocations: u32::MAX, ..more(renders(context)) };
        pfnRenderCb "more patches than fit" E_INVALIDARG
            D3DDDICB_RENDER { NumPatchLocations: u32::MAX, ..more(renders(context)) };
        pfnRenderCb "another context besides" E_NOTIMPL
            D3DDDICB_RENDER { BroadcastContextCount: 1, ..renders(context) };
        pfnSubmitCommandCb "no context" E_INVALIDARG submits(context, 0);
        pfnSubmitCommandCb "more contexts than there can be" E_INVALIDARG submits(context, u32::MAX);
        pfnSubmitCommandCb "a destroyed context" E_INVALIDARG submits(stale, 1);
        pfnSubmitCommandCb "another device's context" E_INVALIDARG submits(foreign_context, 1);
        pfnAllocateCb "no allocations" E_INVALIDARG allocate_args(0, 0, 0);
        pfnAllocateCb "a list that is NULL" E_INVALIDARG allocate_args(0, 1, 0);
        pfnAllocateCb "a list that is nowhere" E_INVALIDARG allocate_args(0, 1, nowhere);
        pfnAllocateCb "very many" E_INVALIDARG allocate_args(0, u32::MAX, wrong);
        pfnAllocateCb "the driver's own handle" E_INVALIDARG allocate_args(own, 1, nowhere);
        pfnAllocateCb "another device's resource" E_INVALIDARG allocate_args(client_frames, 1, nowhere);
        pfnDeallocateCb "nothing" S_OK frees(0, 0, 0);
        pfnDeallocateCb "a list that is NULL" E_INVALIDARG frees(0, 1, 0);
        pfnDeallocateCb "a list that is nowhere" E_INVALIDARG frees(0, 1, nowhere);
        pfnDeallocateCb "very many" E_INVALIDARG frees(0, u32::MAX, wrong);
        pfnDeallocateCb "no allocation" E_INVALIDARG frees(0, 1, wrong);
        pfnDeallocateCb "the driver's own handle" E_INVALIDARG frees(own, 0, 0);
        pfnDeallocateCb "another device's resource" E_INVALIDARG frees(client_frames, 0, 0);
        pfnDeallocateCb "a resource and a list" E_INVALIDARG frees(resource, 1, wrong);
        pfnLockCb "no allocation" E_INVALIDARG locks(0xdead_beef, 0, 0);
        pfnLockCb "pages that are nowhere" E_INVALIDARG locks(0xdead_beef, 1, nowhere);
        pfnUnlockCb "a list that is nowhere" E_INVALIDARG unlock_args(1, nowhere);
        pfnUnlockCb "no allocation" E_INVALIDARG unlock_args(1, wrong);
        pfnUnlockCb "very many" E_INVALIDARG unlock_args(u32::MAX, wrong);
    };
    let message = |row: &(&str, &str, HRESULT, HRESULT)| {
        let (call, what, expected, answer) = row;
        format!("{call} with {what}: {} and not {}", text(*answer), text(*expected))
    };
    let mut wrong: Vec<String> = table.iter().filter(|row| row.2 != row.3).map(message).collect();
    // A thread that the driver started.
    let function = functions::<_, DEVICE_SLOTS>(&it.callbacks)[0];
    let answer = std::thread::scope(|scope| scope.spawn(|| call(function, it.inside, 0)).join());
    if answer.ok() != Some(E_FAIL) {
        wrong.push("pfnAllocateCb on a thread of the driver's own is not refused".to_owned());
    }
    wrong
}
