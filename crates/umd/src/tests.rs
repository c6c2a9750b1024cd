//! A small driver behind the tables, called correctly and incorrectly.
#![expect(unsafe_code, reason = "acts as the runtime")]

use crate::{
    AdapterCallbacks, Callbacks, CreateDeviceArgs, CreateResourceArgs, DeallocateRequest, LockArgs,
    LockResult, OpenAdapterArgs, ResidencyStatus, Resource, RuntimeResource, UmdResult,
    UserAdapter, UserDevice, UserDriver, VisibleMemory, open_adapter,
};
use abi::hresult::{E_FAIL, E_INVALIDARG, E_NOTIMPL, S_OK, S_RESIDENT_IN_SHARED_MEMORY};
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_VISTA, D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3D9_INTERFACE,
    D3DDDI_ADAPTERCALLBACKS, D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICECALLBACKS, D3DDDI_DEVICEFUNCS,
    D3DDDI_SURFACEINFO, D3DDDIARG_CREATEDEVICE, D3DDDIARG_CREATERESOURCE, D3DDDIARG_GETCAPS,
    D3DDDIARG_LOCK, D3DDDIARG_OPENADAPTER, D3DDDIARG_QUERYRESOURCERESIDENCY, D3DDDICB_DEALLOCATE,
};
use abi::{HANDLE, HRESULT};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

static FREED: AtomicU32 = AtomicU32::new(0);

struct Tiny;

/// No memory is mapped.
struct Dark;

impl VisibleMemory for Dark {
    fn read(_: usize, _: &mut [u8]) -> bool {
        false
    }

    fn write(_: usize, _: &[u8]) -> bool {
        false
    }
}

impl UserDriver for Tiny {
    fn open(
        args: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        assert_eq!(args.interface, D3D9_INTERFACE);
        assert_eq!(callbacks.query_adapter_info(&mut [0; 4]), Err(E_NOTIMPL), "it is absent");
        Ok(Box::new(TinyAdapter))
    }
}

struct TinyAdapter;

impl UserAdapter for TinyAdapter {
    fn caps(&self, kind: i32, answer: &mut [u8]) -> UmdResult<()> {
        answer.fill(u8::try_from(kind).map_err(|_| E_INVALIDARG)?);
        Ok(())
    }

    fn create_device(
        &self,
        _: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>> {
        assert_eq!(callbacks.unlock2(1), Err(E_NOTIMPL), "it is absent");
        Ok(Box::new(TinyDevice(callbacks, 0)))
    }
}

struct TinyDevice(Callbacks, u64);

impl UserDevice for TinyDevice {
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        assert_eq!((args.surfaces.len(), args.surfaces[0].width), (1, 5));
        self.1 += 1;
        Ok(self.1)
    }

    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()> {
        // Called from another thread: the runtime judges it.
        let callbacks = self.0.clone();
        let release =
            DeallocateRequest { resource: RuntimeResource(resource.handle), list: vec![7] };
        thread::spawn(move || callbacks.deallocate(&release)).join().unwrap()
    }

    fn lock(&mut self, args: &LockArgs) -> UmdResult<LockResult> {
        assert_ne!(args.index, 3, "a bug of the driver's");
        Ok(LockResult { address: 0x5000, pitch: 20, slice_pitch: 0 })
    }

    fn flush(&mut self) -> UmdResult<()> {
        Err(E_FAIL)
    }

    fn query_residency(&mut self, resources: &[Resource]) -> UmdResult<ResidencyStatus> {
        if resources.is_empty() { Err(E_INVALIDARG) } else { Ok(ResidencyStatus::SharedMemory) }
    }

    fn end(&mut self) -> UmdResult<()> {
        Ok(())
    }
}

unsafe extern "win64-unwind" fn free(_: HANDLE, args: *const D3DDDICB_DEALLOCATE) -> HRESULT {
    // SAFETY: The driver's structure is valid.
    let args = unsafe { args.read() };
    // SAFETY: The list is valid and has one entry.
    assert_eq!((args.NumAllocations, unsafe { args.HandleList.read() }), (1, 7));
    FREED.fetch_add(1, SeqCst);
    S_OK
}

struct FlightResult {
    adapter: HANDLE,
    of: D3DDDI_ADAPTERFUNCS,
    device: HANDLE,
    functions: D3DDDI_DEVICEFUNCS,
}

fn open(version: u32) -> FlightResult {
    let callbacks = D3DDDI_ADAPTERCALLBACKS::ZERO;
    let mut of = D3DDDI_ADAPTERFUNCS::ZERO;
    let mut args = D3DDDIARG_OPENADAPTER {
        Interface: D3D9_INTERFACE,
        Version: version,
        pAdapterCallbacks: &raw const callbacks,
        pAdapterFuncs: &raw mut of,
        ..D3DDDIARG_OPENADAPTER::ZERO
    };
    // SAFETY: All arguments outlive the call.
    assert_eq!(unsafe { open_adapter::<Tiny, Dark>(&raw mut args) }, S_OK);
    let adapter = args.hAdapter;
    let (device, functions) = create(adapter, &of, version);
    FlightResult { adapter, of, device, functions }
}

fn create(adapter: HANDLE, of: &D3DDDI_ADAPTERFUNCS, version: u32) -> (HANDLE, D3DDDI_DEVICEFUNCS) {
    let callbacks =
        D3DDDI_DEVICECALLBACKS { pfnDeallocateCb: Some(free), ..D3DDDI_DEVICECALLBACKS::ZERO };
    let mut functions = D3DDDI_DEVICEFUNCS::ZERO;
    let mut args = D3DDDIARG_CREATEDEVICE {
        Interface: D3D9_INTERFACE,
        Version: version,
        pCallbacks: &raw const callbacks,
        pDeviceFuncs: &raw mut functions,
        ..D3DDDIARG_CREATEDEVICE::ZERO
    };
    // SAFETY: All arguments outlive the call.
    assert_eq!(unsafe { of.pfnCreateDevice.unwrap()(adapter, &raw mut args) }, S_OK);
    (args.hDevice, functions)
}

impl FlightResult {
    fn resource(&self) -> HANDLE {
        let surface = D3DDDI_SURFACEINFO { Width: 5, ..D3DDDI_SURFACEINFO::ZERO };
        let mut args = D3DDDIARG_CREATERESOURCE {
            pSurfList: &raw const surface,
            SurfCount: 1,
            hResource: ptr::without_provenance_mut(0x10),
            ..D3DDDIARG_CREATERESOURCE::ZERO
        };
        let create = self.functions.pfnCreateResource.unwrap();
        // SAFETY: All arguments outlive the call.
        assert_eq!(unsafe { create(self.device, &raw mut args) }, S_OK);
        args.hResource
    }

    fn close(self) {
        // SAFETY: The device is not used again.
        assert_eq!(unsafe { self.functions.pfnDestroyDevice.unwrap()(self.device) }, S_OK);
        // SAFETY: The adapter is not used again.
        assert_eq!(unsafe { self.of.pfnCloseAdapter.unwrap()(self.adapter) }, S_OK);
    }
}

#[test]
fn answers_come_back_in_the_structures() {
    let flown = open(D3D_UMD_INTERFACE_VERSION_WDDM2_0);
    let it = flown.resource();
    assert_ne!(it, flown.resource(), "each has its own handle");
    let mut caps = [0_u8; 3];
    let request = D3DDDIARG_GETCAPS {
        Type: 9,
        pData: caps.as_mut_ptr().cast(),
        DataSize: 3,
        ..D3DDDIARG_GETCAPS::ZERO
    };
    // SAFETY: All arguments outlive the call.
    let told = unsafe { flown.of.pfnGetCaps.unwrap()(flown.adapter, &raw const request) };
    assert_eq!((told, caps), (S_OK, [9; 3]));
    let mut lock = D3DDDIARG_LOCK { hResource: it, ..D3DDDIARG_LOCK::ZERO };
    // SAFETY: As above.
    let locked = unsafe { flown.functions.pfnLock.unwrap()(flown.device, &raw mut lock) };
    assert_eq!((locked, lock.pSurfData.addr(), lock.Pitch), (S_OK, 0x5000, 20));
    let list = [it];
    let of = D3DDDIARG_QUERYRESOURCERESIDENCY { pHandleList: list.as_ptr(), NumResources: 1 };
    let query = flown.functions.pfnQueryResourceResidency.unwrap();
    // SAFETY: As above.
    assert_eq!(unsafe { query(flown.device, &raw const of) }, S_RESIDENT_IN_SHARED_MEMORY);
    // SAFETY: As above.
    assert_eq!(unsafe { flown.functions.pfnFlush.unwrap()(flown.device) }, E_FAIL);
    // SAFETY: As above.
    assert_eq!(unsafe { flown.functions.pfnFlush1.unwrap()(flown.device, 0) }, E_FAIL);
    let destroy = flown.functions.pfnDestroyResource.unwrap();
    let before = FREED.load(SeqCst);
    // SAFETY: As above.
    assert_eq!(unsafe { destroy(flown.device, it) }, S_OK);
    assert_eq!(FREED.load(SeqCst), before + 1);
    // SAFETY: A handle of a resource may be any number.
    assert_eq!(unsafe { destroy(flown.device, it) }, E_INVALIDARG);
    flown.close();
}

#[test]
fn null_is_answered() {
    let flown = open(D3D_UMD_INTERFACE_VERSION_WDDM2_0);
    let (null, functions) = (ptr::null_mut(), flown.functions);
    // SAFETY: NULL is allowed, here and below.
    assert_eq!(unsafe { open_adapter::<Tiny, Dark>(ptr::null_mut()) }, E_INVALIDARG);
    let mut bare = D3DDDIARG_OPENADAPTER::ZERO;
    // SAFETY: As above.
    assert_eq!(unsafe { open_adapter::<Tiny, Dark>(&raw mut bare) }, E_INVALIDARG);
    // SAFETY: As above.
    assert_eq!(unsafe { flown.of.pfnCloseAdapter.unwrap()(null) }, E_INVALIDARG);
    // SAFETY: As above.
    assert_eq!(unsafe { functions.pfnDestroyDevice.unwrap()(null) }, E_INVALIDARG);
    // SAFETY: As above.
    assert_eq!(unsafe { functions.pfnFlush.unwrap()(null) }, E_INVALIDARG);
    let lock = functions.pfnLock.unwrap();
    // SAFETY: As above.
    assert_eq!(unsafe { lock(flown.device, ptr::null_mut()) }, E_INVALIDARG);
    let create = functions.pfnCreateResource.unwrap();
    let mut args = D3DDDIARG_CREATERESOURCE { SurfCount: 1, ..D3DDDIARG_CREATERESOURCE::ZERO };
    // SAFETY: As above.
    assert_eq!(unsafe { create(flown.device, &raw mut args) }, E_INVALIDARG);
    flown.close();
}

#[test]
fn a_panic_passes_through_and_the_device_goes_on() {
    let flown = open(D3D_UMD_INTERFACE_VERSION_WDDM2_0);
    let it = flown.resource();
    let mut args = D3DDDIARG_LOCK { hResource: it, SubResourceIndex: 3, ..D3DDDIARG_LOCK::ZERO };
    let lock = flown.functions.pfnLock.unwrap();
    // SAFETY: All arguments outlive the call.
    let call = AssertUnwindSafe(|| unsafe { lock(flown.device, &raw mut args) });
    assert!(catch_unwind(call).is_err());
    args.SubResourceIndex = 0;
    // SAFETY: As above.
    assert_eq!(unsafe { lock(flown.device, &raw mut args) }, S_OK);
    flown.close();
}

#[test]
fn only_what_the_trait_has_is_there_and_an_old_table_is_short() {
    let flown = open(D3D_UMD_INTERFACE_VERSION_WDDM2_0);
    assert_eq!(flown.functions.filled().count(), 16);
    assert!(flown.functions.pfnSetRenderState.is_none());
    flown.close();
    let flown = open(D3D_UMD_INTERFACE_VERSION_VISTA);
    assert!(flown.functions.pfnOpenResource.is_some() && flown.functions.pfnFlush1.is_none());
    assert!(flown.functions.pfnLockAsync.is_none());
    flown.close();
}

#[test]
fn devices_are_used_by_threads_at_once() {
    let flown = open(D3D_UMD_INTERFACE_VERSION_WDDM2_0);
    let (adapter, of) = (flown.adapter.expose_provenance(), flown.of);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let adapter = ptr::with_exposed_provenance_mut(adapter);
                for _ in 0..50 {
                    let (device, functions) =
                        create(adapter, &of, D3D_UMD_INTERFACE_VERSION_WDDM2_0);
                    let flown = FlightResult { adapter, of, device, functions };
                    let it = flown.resource();
                    let destroy = functions.pfnDestroyResource.unwrap();
                    // SAFETY: Only this thread uses the device.
                    assert_eq!(unsafe { destroy(device, it) }, S_OK);
                    // SAFETY: As above.
                    assert_eq!(unsafe { functions.pfnDestroyDevice.unwrap()(device) }, S_OK);
                }
            });
        }
    });
    flown.close();
}
