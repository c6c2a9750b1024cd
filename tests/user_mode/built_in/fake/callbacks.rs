//! The callback functions.
//!
//! # Safety
//!
//! A handle is the address of a live [`Fake`]; a structure and its pointers are valid.

use super::Fake;
use abi::hresult::{E_PENDING, S_OK, succeeded};
use abi::ukm::D3DDDICB_LOCKFLAGS;
use abi::ukm::{D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_MAKERESIDENT, D3DDDI_MAPGPUVIRTUALADDRESS};
use abi::umd::{
    D3DDDI_DEVICECALLBACKS, D3DDDICB_ALLOCATE, D3DDDICB_CREATECONTEXT,
    D3DDDICB_CREATECONTEXTVIRTUAL, D3DDDICB_CREATEPAGINGQUEUE,
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT2, D3DDDICB_DEALLOCATE, D3DDDICB_DEALLOCATE2,
    D3DDDICB_DESTROYCONTEXT, D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT, D3DDDICB_LOCK, D3DDDICB_LOCK2,
    D3DDDICB_QUERYADAPTERINFO, D3DDDICB_RENDER, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
    D3DDDICB_SUBMITCOMMAND, D3DDDICB_UNLOCK, D3DDDICB_UNLOCK2,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
};
use abi::{HANDLE, HRESULT};
use kernel::Handle;
use softgpu::format::{Command, decode, list_index, read_allocation_info};
use std::ptr;
use std::slice;
use std::sync::atomic::Ordering::SeqCst;

pub(super) fn table() -> D3DDDI_DEVICECALLBACKS {
    D3DDDI_DEVICECALLBACKS {
        pfnAllocateCb: Some(allocate),
        pfnDeallocateCb: Some(deallocate),
        pfnDeallocate2Cb: Some(deallocate2),
        pfnCreateContextCb: Some(create_context),
        pfnCreateContextVirtualCb: Some(create_context_virtual),
        pfnDestroyContextCb: Some(destroy_context),
        pfnRenderCb: Some(render),
        pfnSubmitCommandCb: Some(submit),
        pfnLockCb: Some(lock),
        pfnUnlockCb: Some(unlock),
        pfnLock2Cb: Some(lock2),
        pfnUnlock2Cb: Some(unlock2),
        pfnCreatePagingQueueCb: Some(create_queue),
        pfnDestroyPagingQueueCb: Some(destroy_queue),
        pfnMakeResidentCb: Some(make_resident),
        pfnMapGpuVirtualAddressCb: Some(map),
        pfnCreateSynchronizationObject2Cb: Some(create_sync),
        pfnDestroySynchronizationObjectCb: Some(destroy_sync),
        pfnSignalSynchronizationObjectFromGpuCb: Some(signal),
        pfnWaitForSynchronizationObjectFromCpuCb: Some(wait),
        ..D3DDDI_DEVICECALLBACKS::ZERO
    }
}

fn fake<'a>(handle: HANDLE) -> &'a Fake {
    // SAFETY: This module's contract.
    unsafe { handle.cast::<Fake>().as_ref() }.unwrap()
}

fn deref_args<'a, T>(args: *const T) -> &'a T {
    // SAFETY: This module's contract.
    unsafe { args.as_ref() }.unwrap()
}

fn deref_args_mut<'a, T>(args: *mut T) -> &'a mut T {
    // SAFETY: This module's contract.
    unsafe { args.as_mut() }.unwrap()
}

fn list<'a, T>(list: *const T, count: u32) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: This module's contract.
    unsafe { slice::from_raw_parts(list, count as usize) }
}

pub(super) unsafe extern "win64-unwind" fn query_adapter_info(
    handle: HANDLE,
    args: *const D3DDDICB_QUERYADAPTERINFO,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args(args));
    let mut info = [0; 32];
    info[..9].copy_from_slice(&[b'W', b'T', b'U', b'M', 1, 0, 0, 0, fake.flags]);
    assert_eq!(args.PrivateDriverDataSize, 32);
    // SAFETY: This module's contract.
    unsafe { args.pPrivateDriverData.cast::<[u8; 32]>().write_unaligned(info) };
    S_OK
}

unsafe extern "win64-unwind" fn allocate(handle: HANDLE, args: *mut D3DDDICB_ALLOCATE) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    let count = args.NumAllocations;
    let answer = fake.called("allocate", format!("{:x}: {count}", args.hResource.addr()));
    if succeeded(answer) {
        for place in 0..count as usize {
            let info = deref_args_mut(args.pAllocationInfo.wrapping_add(place));
            let private = list(info.pPrivateDriverData.cast::<u8>(), info.PrivateDriverDataSize);
            let size = usize::try_from(read_allocation_info(private).unwrap().size).unwrap();
            info.hAllocation = fake.name();
            fake.memory.lock().unwrap().insert(info.hAllocation, vec![0; size].into());
        }
    }
    answer
}

unsafe extern "win64-unwind" fn deallocate(
    handle: HANDLE,
    args: *const D3DDDICB_DEALLOCATE,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args(args));
    let names = list(args.HandleList, args.NumAllocations);
    fake.called("free", format!("{:x} {names:?}", args.hResource.addr()))
}

unsafe extern "win64-unwind" fn deallocate2(
    handle: HANDLE,
    args: *const D3DDDICB_DEALLOCATE2,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args(args));
    let names = list(args.HandleList, args.NumAllocations);
    let idle = if args.Flags.Value == 1 { " idle" } else { "" };
    fake.called("free", format!("{:x} {names:?}{idle}", args.hResource.addr()))
}

unsafe extern "win64-unwind" fn create_context(
    handle: HANDLE,
    args: *mut D3DDDICB_CREATECONTEXT,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    args.hContext = ptr::without_provenance_mut(0xc);
    let [commands, list, patches] = fresh(fake);
    (args.pCommandBuffer, args.CommandBufferSize) = (commands.cast(), 128);
    (args.pAllocationList, args.AllocationListSize) = (list.cast(), 4);
    (args.pPatchLocationList, args.PatchLocationListSize) = (patches.cast(), 4);
    fake.called("context", "")
}

/// Three buffers; all earlier buffers are poisoned.
fn fresh(fake: &Fake) -> [*mut u64; 3] {
    let mut buffers = fake.buffers.lock().unwrap();
    for old in buffers.iter_mut() {
        old.fill(0xeeee_eeee_eeee_eeee);
    }
    [(); 3].map(|()| {
        let mut buffer = Box::<[u64]>::from([0; 64]);
        let at = buffer.as_mut_ptr();
        at.expose_provenance();
        buffers.push(buffer);
        at
    })
}

unsafe extern "win64-unwind" fn create_context_virtual(
    handle: HANDLE,
    args: *mut D3DDDICB_CREATECONTEXTVIRTUAL,
) -> HRESULT {
    deref_args_mut(args).hContext = ptr::without_provenance_mut(0xc);
    fake(handle).called("context", "virtual")
}

unsafe extern "win64-unwind" fn destroy_context(
    handle: HANDLE,
    _args: *const D3DDDICB_DESTROYCONTEXT,
) -> HRESULT {
    fake(handle).called("end context", "")
}

fn describe(commands: &[Command]) -> String {
    let name = |command: &Command| match *command {
        Command::Fill { target, offset, length, value } => {
            format!("fill {}+{offset} {length} {value:x}", target.0)
        }
        Command::Copy { from, to, length, .. } => format!("copy {} {} {length}", from.0, to.0),
        Command::Hang => "tdr-hang".to_owned(),
        Command::FillAt { address, length, value } => {
            format!("fill @{address:x} {length} {value:x}")
        }
        Command::CopyAt { from, to, length } => format!("copy @{from:x} @{to:x} {length}"),
    };
    commands.iter().map(name).collect::<Vec<_>>().join(", ")
}

unsafe extern "win64-unwind" fn render(handle: HANDLE, args: *mut D3DDDICB_RENDER) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    let (count, from) = (args.CommandLength as usize, fake.buffers.lock().unwrap().len() - 3);
    let what = {
        let buffers = fake.buffers.lock().unwrap();
        let bytes = |place: usize| -> Vec<u8> {
            buffers[from + place].iter().flat_map(|value| value.to_ne_bytes()).collect()
        };
        let uses = bytes(1);
        let (uses, _) = uses[..args.NumAllocations as usize * 8].as_chunks::<8>();
        let uses: Vec<u8> = uses.iter().map(|bytes| bytes[0]).collect();
        let named = |name: Handle| Ok(Handle(u32::from(uses[list_index(name).unwrap()])));
        let commands = decode(&bytes(0)[..count]).and_then(|it| {
            let it: Result<Vec<_>, _> =
                it.into_iter().map(|command| command.resolve(named)).collect();
            it.map(|commands| describe(&commands))
        });
        format!("{} uses {uses:?}", commands.unwrap_or_else(|_| "nothing sensible".to_owned()))
    };
    let [commands, list, patches] = fresh(fake);
    (args.pNewCommandBuffer, args.NewCommandBufferSize) = (commands.cast(), 128);
    (args.pNewAllocationList, args.NewAllocationListSize) = (list.cast(), 4);
    (args.pNewPatchLocationList, args.NewPatchLocationListSize) = (patches.cast(), 4);
    fake.called("render", what)
}

unsafe extern "win64-unwind" fn submit(
    handle: HANDLE,
    args: *const D3DDDICB_SUBMITCOMMAND,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args(args));
    let bytes = list(args.pPrivateDriverData.cast::<u8>(), args.PrivateDriverDataSize);
    let commands = decode(bytes)
        .map_or_else(|_| "nothing sensible".to_owned(), |commands| describe(&commands));
    let written = &args.WrittenPrimaries[..args.NumPrimaries as usize];
    let written = if written.is_empty() { String::new() } else { format!(" shows {written:?}") };
    fake.called("submit", format!("{commands}{written}"))
}

fn memory(fake: &Fake, allocation: u32) -> *mut core::ffi::c_void {
    let mut memory = fake.memory.lock().unwrap();
    memory.get_mut(&allocation).map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast())
}

unsafe extern "win64-unwind" fn lock(handle: HANDLE, args: *mut D3DDDICB_LOCK) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    let flags = args.Flags.Value & !D3DDDICB_LOCKFLAGS::LockEntire;
    let answer = fake.called("lock", format!("{} {flags:x}", args.hAllocation));
    if args.Flags.has(D3DDDICB_LOCKFLAGS::Discard) && succeeded(answer) {
        let mut memory = fake.memory.lock().unwrap();
        let size = memory[&args.hAllocation].len();
        args.hAllocation = fake.name();
        memory.insert(args.hAllocation, vec![0; size].into());
    }
    args.pData = memory(fake, args.hAllocation);
    answer
}

unsafe extern "win64-unwind" fn unlock(handle: HANDLE, args: *const D3DDDICB_UNLOCK) -> HRESULT {
    let args = deref_args(args);
    fake(handle).called("unlock", format!("{:?}", list(args.phAllocations, args.NumAllocations)))
}

unsafe extern "win64-unwind" fn lock2(handle: HANDLE, args: *mut D3DDDICB_LOCK2) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    args.pData = memory(fake, args.hAllocation);
    fake.called("lock2", args.hAllocation.to_string())
}

unsafe extern "win64-unwind" fn unlock2(handle: HANDLE, args: *const D3DDDICB_UNLOCK2) -> HRESULT {
    fake(handle).called("unlock2", deref_args(args).hAllocation.to_string())
}

unsafe extern "win64-unwind" fn create_queue(
    handle: HANDLE,
    args: *mut D3DDDICB_CREATEPAGINGQUEUE,
) -> HRESULT {
    let args = deref_args_mut(args);
    (args.hPagingQueue, args.hSyncObject) = (0x90, 0x91);
    fake(handle).called("queue", "")
}

unsafe extern "win64-unwind" fn destroy_queue(
    handle: HANDLE,
    _args: *const D3DDDI_DESTROYPAGINGQUEUE,
) -> HRESULT {
    fake(handle).called("end queue", "")
}

unsafe extern "win64-unwind" fn make_resident(
    handle: HANDLE,
    args: *mut D3DDDI_MAKERESIDENT,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    args.PagingFenceValue = 7;
    let names = list(args.AllocationList, args.NumAllocations);
    match fake.called("resident", format!("{names:?}")) {
        S_OK => E_PENDING,
        refused => refused,
    }
}

unsafe extern "win64-unwind" fn map(
    handle: HANDLE,
    args: *mut D3DDDI_MAPGPUVIRTUALADDRESS,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    args.VirtualAddress = u64::from(args.hAllocation) << 16;
    fake.called("map", format!("{} {}", args.hAllocation, args.SizeInPages))
}

unsafe extern "win64-unwind" fn create_sync(
    handle: HANDLE,
    args: *mut D3DDDICB_CREATESYNCHRONIZATIONOBJECT2,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args_mut(args));
    args.hSyncObject = 0xf;
    args.Info.set_value_address(fake.fence.as_ptr().expose_provenance());
    fake.called("fence", "")
}

unsafe extern "win64-unwind" fn destroy_sync(
    handle: HANDLE,
    _args: *const D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT,
) -> HRESULT {
    fake(handle).called("end fence", "")
}

unsafe extern "win64-unwind" fn signal(
    handle: HANDLE,
    args: *const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args(args));
    let values = usize::try_from(args.MonitoredFenceValueArray[0]).unwrap();
    let value = list(ptr::with_exposed_provenance::<u64>(values), args.ObjectCount)[0];
    fake.signalled.store(value, SeqCst);
    if !fake.slow.load(SeqCst) {
        fake.fence.store(value, SeqCst);
    }
    fake.called("signal", value.to_string())
}

unsafe extern "win64-unwind" fn wait(
    handle: HANDLE,
    args: *const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
) -> HRESULT {
    let (fake, args) = (fake(handle), deref_args(args));
    let object = list(args.ObjectHandleArray, args.ObjectCount)[0];
    let value = list(args.FenceValueArray, args.ObjectCount)[0];
    if object == 0xf {
        fake.fence.fetch_max(value, SeqCst);
    }
    fake.called("wait", format!("{object:x} {value}"))
}
