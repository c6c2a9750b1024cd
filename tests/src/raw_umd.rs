//! A raw user-mode driver: functions with the Windows calling convention, and a shared state that
//! controls them and records their arguments. `bad_arguments` has its hostile calls.
#![expect(unsafe_code, reason = "plays a driver that passes any number as a pointer")]

mod bad_arguments;

use crate::application_calls::text;
use abi::hresult::{E_NOTIMPL, S_OK, succeeded};
use abi::ukm::D3DDDI_ALLOCATIONINFO;
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3DDDI_ADAPTERCALLBACKS, D3DDDI_ADAPTERFUNCS,
    D3DDDI_DEVICECALLBACKS, D3DDDI_DEVICEFUNCS, D3DDDIARG_BLT, D3DDDIARG_COLORFILL,
    D3DDDIARG_CREATEDEVICE, D3DDDIARG_CREATERESOURCE, D3DDDIARG_CREATERESOURCE2, D3DDDIARG_LOCK,
    D3DDDIARG_LOCKASYNC, D3DDDIARG_OPENADAPTER, D3DDDIARG_OPENRESOURCE,
    D3DDDIARG_QUERYRESOURCERESIDENCY, D3DDDIARG_RENAME, D3DDDIARG_SETPRIORITY, D3DDDIARG_UNLOCK,
    D3DDDIARG_UNLOCKASYNC, D3DDDICB_ALLOCATE, D3DDDICB_CREATECONTEXT,
    D3DDDICB_CREATECONTEXTVIRTUAL, D3DDDICB_DEALLOCATE, D3DDDICB_DESTROYCONTEXT,
    D3DDDICB_QUERYADAPTERINFO,
};
use abi::{HANDLE, HRESULT};
use bad_arguments::{call_with_bad_arguments, call_with_one_error};
use runtime::Umd;
use softgpu::format::describe;
use std::ptr::without_provenance_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use bad_arguments::is_served;

/// The tests share one driver and run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

static STATE: Mutex<Board> = Mutex::new(Board::NEW);

fn held<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the driver's `OpenAdapter` behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenBehaviour {
    /// Correctly.
    Success,
    /// Returns this result.
    Fails(HRESULT),
    /// Returns this `DriverVersion`.
    WithVersion(u32),
    /// Returns an empty table.
    WithNoTable,
    /// Omits `pfnCreateDevice`.
    WithNoCreateDevice,
    /// Omits `pfnCloseAdapter`.
    WithNoCloseAdapter,
    /// Correctly, but queries the hardware only with the later callback.
    QueriesCapsWithCb2,
}

/// What the driver does, and the arguments it received.
#[derive(Clone, Debug)]
pub struct Board {
    /// How it opens an adapter.
    pub open_behaviour: OpenBehaviour,
    /// Whether it calls every callback with bad arguments, in every function.
    pub hostile: bool,
    /// The function that panics.
    pub panics: Option<&'static str>,
    /// The missing slot of the device's table.
    pub missing: Option<&'static str>,
    adapter: usize,
    adapter_callbacks: D3DDDI_ADAPTERCALLBACKS,
    callbacks: D3DDDI_DEVICECALLBACKS,
    /// The runtime's handles of devices, including destroyed ones; the last is in `inside`.
    devices: Vec<usize>,
    inside: usize,
    gone: usize,
    /// The runtime's handles of resources and contexts, each with its device.
    resources: Vec<(usize, usize)>,
    contexts: Vec<(usize, usize)>,
    /// Unexpected results.
    pub wrong: Vec<String>,
    /// The number of hostile calls.
    pub calls: u64,
}

impl Board {
    const NEW: Self = Self {
        open_behaviour: OpenBehaviour::Success,
        hostile: false,
        panics: None,
        missing: None,
        adapter: 0,
        adapter_callbacks: D3DDDI_ADAPTERCALLBACKS::ZERO,
        callbacks: D3DDDI_DEVICECALLBACKS::ZERO,
        devices: Vec::new(),
        inside: 0,
        gone: 0,
        resources: Vec::new(),
        contexts: Vec::new(),
        wrong: Vec::new(),
        calls: 0,
    };
}

/// Returns a copy of the current state.
pub fn state() -> Board {
    held(&STATE).clone()
}

/// Changes what the driver does.
pub fn change(change: impl FnOnce(&mut Board)) {
    change(&mut held(&STATE));
}

/// Creates a new state, valid while the guard lives; other tests wait.
pub fn start(set: impl FnOnce(&mut Board)) -> impl Drop {
    struct Alone(#[expect(dead_code, reason = "a guard")] MutexGuard<'static, ()>);
    impl Drop for Alone {
        fn drop(&mut self) {}
    }
    let alone = held(&ALONE);
    let state = &mut *held(&STATE);
    *state = Board::NEW;
    set(state);
    Alone(alone)
}

fn handle(it: usize) -> HANDLE {
    without_provenance_mut(it)
}

/// The driver's handles of its adapter, its devices and its resources.
const OWN_ADAPTER: usize = 0x51_0000;
const OWN_DEVICE: usize = 0x52_0000;
const OWN_RESOURCE: usize = 0x53_0000;

/// Called in each function of the driver; panics if that function is to panic.
fn enter(place: &'static str) {
    let panics = held(&STATE).panics;
    assert!(panics != Some(place), "a driver that panics in {place}");
    call_with_bad_arguments(place);
}

unsafe extern "win64-unwind" fn open_adapter(args: *mut D3DDDIARG_OPENADAPTER) -> HRESULT {
    // SAFETY: The runtime's structure is valid for the call.
    let mut request = unsafe { args.read() };
    // SAFETY: The function table is valid, too.
    let callbacks = unsafe { request.pAdapterCallbacks.read() };
    {
        let mut state = held(&STATE);
        state.adapter = request.hAdapter.addr();
        state.adapter_callbacks = callbacks;
    }
    enter("OpenAdapter");
    let open_behaviour = held(&STATE).open_behaviour;
    if let OpenBehaviour::Fails(answer) = open_behaviour {
        return answer;
    }
    let mut functions = D3DDDI_ADAPTERFUNCS {
        pfnGetCaps: None,
        pfnCreateDevice: Some(create_device),
        pfnCloseAdapter: Some(close_adapter),
    };
    match open_behaviour {
        OpenBehaviour::WithNoTable => functions = D3DDDI_ADAPTERFUNCS::ZERO,
        OpenBehaviour::WithNoCreateDevice => functions.pfnCreateDevice = None,
        OpenBehaviour::WithNoCloseAdapter => functions.pfnCloseAdapter = None,
        _ => (),
    }
    let mut info = [0_u8; 32];
    let query = D3DDDICB_QUERYADAPTERINFO {
        pPrivateDriverData: info.as_mut_ptr().cast(),
        PrivateDriverDataSize: 32,
    };
    if let (OpenBehaviour::QueriesCapsWithCb2, Some(ask)) =
        (open_behaviour, callbacks.pfnQueryAdapterInfoCb2)
    {
        // SAFETY: The function is the runtime's and reads no arguments.
        let answer = unsafe { ask() };
        assert_eq!(answer, E_NOTIMPL, "an unsupported callback");
    } else if let Some(ask) = callbacks.pfnQueryAdapterInfoCb {
        // SAFETY: The structure and its memory are locals of this function.
        let answer = unsafe { ask(request.hAdapter, &raw const query) };
        assert_eq!(answer, S_OK, "the hardware query");
    }
    request.hAdapter = handle(OWN_ADAPTER);
    request.DriverVersion = match open_behaviour {
        OpenBehaviour::WithVersion(version) => version,
        _ => D3D_UMD_INTERFACE_VERSION_WDDM2_0,
    };
    // SAFETY: As above.
    unsafe { request.pAdapterFuncs.write(functions) };
    // SAFETY: As above.
    unsafe { args.write(request) };
    S_OK
}

unsafe extern "win64-unwind" fn close_adapter(_: HANDLE) -> HRESULT {
    enter("pfnCloseAdapter");
    S_OK
}

/// The table of a device without the missing slot.
fn device_functions() -> D3DDDI_DEVICEFUNCS {
    let mut all = D3DDDI_DEVICEFUNCS {
        pfnCreateResource: Some(create_resource),
        pfnCreateResource2: Some(create_resource2),
        pfnOpenResource: Some(open_resource),
        pfnDestroyResource: Some(destroy_resource),
        pfnLock: Some(lock),
        pfnUnlock: Some(unlock),
        pfnLockAsync: Some(lock_async),
        pfnUnlockAsync: Some(unlock_async),
        pfnRename: Some(rename),
        pfnBlt: Some(blt),
        pfnColorFill: Some(color_fill),
        pfnFlush: Some(flush),
        pfnSetPriority: Some(set_priority),
        pfnQueryResourceResidency: Some(query_residency),
        pfnDestroyDevice: Some(destroy_device),
        ..D3DDDI_DEVICEFUNCS::ZERO
    };
    match held(&STATE).missing {
        Some("pfnCreateResource") => all.pfnCreateResource = None,
        Some("pfnCreateResource2") => all.pfnCreateResource2 = None,
        Some("pfnOpenResource") => all.pfnOpenResource = None,
        Some("pfnDestroyResource") => all.pfnDestroyResource = None,
        Some("pfnLock") => all.pfnLock = None,
        Some("pfnUnlock") => all.pfnUnlock = None,
        Some("pfnLockAsync") => all.pfnLockAsync = None,
        Some("pfnUnlockAsync") => all.pfnUnlockAsync = None,
        Some("pfnRename") => all.pfnRename = None,
        Some("pfnBlt") => all.pfnBlt = None,
        Some("pfnColorFill") => all.pfnColorFill = None,
        Some("pfnFlush") => all.pfnFlush = None,
        Some("pfnSetPriority") => all.pfnSetPriority = None,
        Some("pfnQueryResourceResidency") => all.pfnQueryResourceResidency = None,
        Some("pfnDestroyDevice") => all.pfnDestroyDevice = None,
        _ => (),
    }
    all
}

unsafe extern "win64-unwind" fn create_device(
    _: HANDLE,
    args: *mut D3DDDIARG_CREATEDEVICE,
) -> HRESULT {
    // SAFETY: The runtime's structure is valid for the call.
    let mut request = unsafe { args.read() };
    // SAFETY: The function table is valid, too.
    let callbacks = unsafe { request.pCallbacks.read() };
    let device = request.hDevice.addr();
    {
        let mut state = held(&STATE);
        state.callbacks = callbacks;
        state.devices.push(device);
        state.inside = device;
    }
    enter("pfnCreateDevice");
    let context = new_context(&callbacks, request.hDevice);
    assert_ne!(context, 0, "a context");
    held(&STATE).contexts.push((device, context));
    request.hDevice = handle(OWN_DEVICE + device);
    // SAFETY: As above.
    unsafe { request.pDeviceFuncs.write(device_functions()) };
    // SAFETY: As above.
    unsafe { args.write(request) };
    S_OK
}

/// The driver's handle of a device identifies the runtime's handle.
fn device_from_handle(device: HANDLE) {
    held(&STATE).inside = device.addr() - OWN_DEVICE;
}

unsafe extern "win64-unwind" fn destroy_device(device: HANDLE) -> HRESULT {
    device_from_handle(device);
    enter("pfnDestroyDevice");
    let it = state();
    for (_, context) in it.contexts.iter().filter(|one| one.0 == it.inside) {
        let args = ends(*context);
        if let Some(destroy) = it.callbacks.pfnDestroyContextCb {
            // SAFETY: The structure is a local of this function.
            let _ = unsafe { destroy(handle(it.inside), &raw const args) };
        }
    }
    let mut state = held(&STATE);
    state.devices.retain(|one| *one != it.inside);
    (state.gone, state.inside) = (it.inside, 0);
    S_OK
}

/// Creates a resource of one page.
fn make(runtime: HANDLE) -> Result<usize, HRESULT> {
    let it = state();
    let mut private = describe(4096);
    let mut info = D3DDDI_ALLOCATIONINFO {
        pPrivateDriverData: private.as_mut_ptr().cast(),
        PrivateDriverDataSize: u32::try_from(private.len()).unwrap_or(0),
        ..D3DDDI_ALLOCATIONINFO::ZERO
    };
    let mut args = D3DDDICB_ALLOCATE {
        hResource: runtime,
        NumAllocations: 1,
        pAllocationInfo: &raw mut info,
        ..D3DDDICB_ALLOCATE::ZERO
    };
    let allocate = it.callbacks.pfnAllocateCb.ok_or(E_NOTIMPL)?;
    // SAFETY: The structure, its list and its data are locals of this function.
    let answer = unsafe { allocate(handle(it.inside), &raw mut args) };
    if !succeeded(answer) {
        return Err(answer);
    }
    held(&STATE).resources.push((it.inside, runtime.addr()));
    Ok(OWN_RESOURCE + runtime.addr())
}

unsafe extern "win64-unwind" fn create_resource(
    device: HANDLE,
    args: *mut D3DDDIARG_CREATERESOURCE,
) -> HRESULT {
    device_from_handle(device);
    enter("pfnCreateResource");
    // SAFETY: The runtime's structure is valid for the call.
    let mut request = unsafe { args.read() };
    match make(request.hResource) {
        Ok(own) => request.hResource = handle(own),
        Err(answer) => return answer,
    }
    // SAFETY: As above.
    unsafe { args.write(request) };
    S_OK
}

unsafe extern "win64-unwind" fn destroy_resource(device: HANDLE, resource: HANDLE) -> HRESULT {
    device_from_handle(device);
    enter("pfnDestroyResource");
    let it = state();
    let args = D3DDDICB_DEALLOCATE {
        hResource: handle(resource.addr() - OWN_RESOURCE),
        ..D3DDDICB_DEALLOCATE::ZERO
    };
    let Some(free) = it.callbacks.pfnDeallocateCb else { return E_NOTIMPL };
    // SAFETY: The structure is a local of this function.
    unsafe { free(handle(it.inside), &raw const args) }
}

unsafe extern "win64-unwind" fn flush(device: HANDLE) -> HRESULT {
    device_from_handle(device);
    enter("pfnFlush");
    let hostile = held(&STATE).hostile;
    if hostile {
        let wrong = call_with_one_error();
        held(&STATE).wrong.extend(wrong);
    }
    S_OK
}

/// Functions that do nothing.
macro_rules! idle {
    ($($function:ident $name:literal ($($args:ty)?);)*) => {$(
        unsafe extern "win64-unwind" fn $function(device: HANDLE $(, _: $args)?) -> HRESULT {
            device_from_handle(device);
            enter($name);
            S_OK
        }
    )*};
}

idle! {
    create_resource2 "pfnCreateResource2" (*mut D3DDDIARG_CREATERESOURCE2);
    open_resource "pfnOpenResource" (*mut D3DDDIARG_OPENRESOURCE);
    lock "pfnLock" (*mut D3DDDIARG_LOCK);
    unlock "pfnUnlock" (*const D3DDDIARG_UNLOCK);
    lock_async "pfnLockAsync" (*mut D3DDDIARG_LOCKASYNC);
    unlock_async "pfnUnlockAsync" (*const D3DDDIARG_UNLOCKASYNC);
    rename "pfnRename" (*const D3DDDIARG_RENAME);
    blt "pfnBlt" (*const D3DDDIARG_BLT);
    color_fill "pfnColorFill" (*const D3DDDIARG_COLORFILL);
    set_priority "pfnSetPriority" (*const D3DDDIARG_SETPRIORITY);
    query_residency "pfnQueryResourceResidency" (*const D3DDDIARG_QUERYRESOURCERESIDENCY);
}

fn ends(context: usize) -> D3DDDICB_DESTROYCONTEXT {
    D3DDDICB_DESTROYCONTEXT { hContext: handle(context) }
}

/// Creates a context of the kind that the hardware has. Returns zero on failure.
fn new_context(callbacks: &D3DDDI_DEVICECALLBACKS, device: HANDLE) -> usize {
    let mut listed = D3DDDICB_CREATECONTEXT::ZERO;
    listed.EngineAffinity = 1;
    if let Some(create) = callbacks.pfnCreateContextCb {
        // SAFETY: The structure is a local of this function.
        let answer = unsafe { create(device, &raw mut listed) };
        if succeeded(answer) {
            return listed.hContext.addr();
        }
    }
    let mut addressed = D3DDDICB_CREATECONTEXTVIRTUAL::ZERO;
    addressed.EngineAffinity = 1;
    if let Some(create) = callbacks.pfnCreateContextVirtualCb {
        // SAFETY: The structure is a local of this function.
        let answer = unsafe { create(device, &raw mut addressed) };
        if succeeded(answer) {
            return addressed.hContext.addr();
        }
    }
    0
}

/// The driver, with pointers that are not trusted.
pub fn umd() -> Umd {
    // SAFETY: The functions stay loaded and follow the interface's contract.
    unsafe { Umd::untrusted(open_adapter) }
}
