//! A runtime that trusts every pointer, does nothing, and records its calls.
#![expect(unsafe_code, reason = "a user-mode driver calls these, with pointers of its own")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod callbacks;

use abi::hresult::S_OK;
use abi::umd::{
    D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3D9_INTERFACE, D3DDDI_ADAPTERCALLBACKS,
    D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICEFUNCS, D3DDDI_LOCKASYNCFLAGS, D3DDDI_LOCKFLAGS,
    D3DDDI_SURFACEINFO, D3DDDIARG_BLT, D3DDDIARG_COLORFILL, D3DDDIARG_CREATEDEVICE,
    D3DDDIARG_CREATERESOURCE, D3DDDIARG_LOCK, D3DDDIARG_LOCKASYNC, D3DDDIARG_OPENADAPTER,
    D3DDDIARG_RENAME, D3DDDIARG_UNLOCK, D3DDDIARG_UNLOCKASYNC, D3DDDIPOOL_SYSTEMMEM,
    D3DDDIPOOL_VIDEOMEMORY, PFND3DDDI_OPENADAPTER,
};
use abi::{HANDLE, HRESULT, RECT};
use drivers::UmdFlaw as Flaw;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

/// A runtime with a stable address.
type Buffer = Box<[u64]>;

/// Maps everything for its drivers.
struct Everything;

impl umd::VisibleMemory for Everything {
    fn read(address: usize, bytes: &mut [u8]) -> bool {
        let from = ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: The drivers of these tests touch only memory that they have locked.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    fn write(address: usize, bytes: &[u8]) -> bool {
        let to = ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: As above.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }
}

/// The state of the runtime.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    notes: Mutex<Vec<String>>,
    /// The flags that the miniport reports.
    flags: u8,
    next: AtomicU32,
    /// The fence of a driver.
    fence: AtomicU64,
    /// The value that the fence reaches.
    signalled: AtomicU64,
    pub(crate) slow: AtomicBool,
    /// The failing callback and its result.
    refused: Mutex<Option<(&'static str, HRESULT)>>,
    memory: Mutex<BTreeMap<u32, Box<[u8]>>>,
    buffers: Mutex<Vec<Buffer>>,
}

impl Fake {
    fn note(&self, what: String) {
        self.notes.lock().unwrap().push(what);
    }

    /// Records a call. Returns its result.
    fn called(&self, name: &'static str, what: impl AsRef<str>) -> HRESULT {
        let what = what.as_ref();
        self.note(if what.is_empty() { name.to_owned() } else { format!("{name} {what}") });
        let refused = *self.refused.lock().unwrap();
        refused.filter(|pair| pair.0 == name).map_or(S_OK, |pair| pair.1)
    }

    fn name(&self) -> u32 {
        self.next.fetch_add(1, SeqCst) + 1
    }
}

/// An open device of a driver.
pub(crate) struct FlightResult {
    pub(crate) fake: Box<Fake>,
    adapter: HANDLE,
    device: HANDLE,
    adapter_functions: D3DDDI_ADAPTERFUNCS,
    functions: D3DDDI_DEVICEFUNCS,
    resources: usize,
}

impl FlightResult {
    /// Opens a driver on hardware with these flags, and creates a device.
    pub(crate) fn open(flaw: Flaw, flags: u8) -> Result<Self, HRESULT> {
        let fake = Box::new(Fake { flags, ..Fake::default() });
        Self::open_on(fake, flaw).map_err(|pair| pair.1)
    }

    /// Repeats an action while a callback fails. Returns the result and the calls.
    pub(crate) fn open_refused(
        flaw: Flaw,
        flags: u8,
        refused: (&'static str, HRESULT),
    ) -> (HRESULT, Vec<String>) {
        let fake = Fake { flags, refused: Mutex::new(Some(refused)), ..Fake::default() };
        match Self::open_on(Box::new(fake), flaw) {
            Ok(flown) => (S_OK, flown.close()),
            Err((fake, answer)) => (answer, fake.notes.into_inner().unwrap()),
        }
    }

    fn open_on(fake: Box<Fake>, flaw: Flaw) -> Result<Self, (Box<Fake>, HRESULT)> {
        let open: PFND3DDDI_OPENADAPTER = flaw.entry::<Everything>();
        let handle: HANDLE = ptr::from_ref(&*fake).cast_mut().cast();
        let callbacks = D3DDDI_ADAPTERCALLBACKS {
            pfnQueryAdapterInfoCb: Some(callbacks::query_adapter_info),
            ..D3DDDI_ADAPTERCALLBACKS::ZERO
        };
        let mut adapter_functions = D3DDDI_ADAPTERFUNCS::ZERO;
        let mut args = D3DDDIARG_OPENADAPTER {
            hAdapter: handle,
            Interface: D3D9_INTERFACE,
            Version: D3D_UMD_INTERFACE_VERSION_WDDM2_0,
            pAdapterCallbacks: &raw const callbacks,
            pAdapterFuncs: &raw mut adapter_functions,
            DriverVersion: 0,
        };
        // SAFETY: All arguments are locals of this function.
        assert_eq!(unsafe { open(&raw mut args) }, S_OK);
        let table = callbacks::table();
        let mut functions = D3DDDI_DEVICEFUNCS::ZERO;
        let mut device_args = D3DDDIARG_CREATEDEVICE {
            hDevice: handle,
            Interface: D3D9_INTERFACE,
            Version: D3D_UMD_INTERFACE_VERSION_WDDM2_0,
            pCallbacks: &raw const table,
            pDeviceFuncs: &raw mut functions,
            ..D3DDDIARG_CREATEDEVICE::ZERO
        };
        let create = adapter_functions.pfnCreateDevice.unwrap();
        // SAFETY: As above, and the functions of the tables stay loaded.
        let answer = unsafe { create(args.hAdapter, &raw mut device_args) };
        if answer != S_OK {
            let close = adapter_functions.pfnCloseAdapter.unwrap();
            // SAFETY: The adapter is not used any more.
            assert_eq!(unsafe { close(args.hAdapter) }, S_OK);
            return Err((fake, answer));
        }
        let (adapter, device) = (args.hAdapter, device_args.hDevice);
        Ok(Self { fake, adapter, device, adapter_functions, functions, resources: 0 })
    }

    /// Returns the calls since the last time.
    pub(crate) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.fake.notes.lock().unwrap())
    }

    /// Makes one callback fail from now on.
    pub(crate) fn refuse(&self, what: Option<(&'static str, HRESULT)>) {
        *self.fake.refused.lock().unwrap() = what;
    }

    /// The GPU completes everything.
    pub(crate) fn idle(&self) {
        self.fake.fence.store(self.fake.signalled.load(SeqCst), SeqCst);
    }

    fn new_name(&mut self) -> HANDLE {
        self.resources += 1;
        ptr::without_provenance_mut(0x1000 + self.resources)
    }

    /// Creates a resource of squares with these sides.
    pub(crate) fn create(&mut self, sides: &[u32], flags: u32) -> Result<HANDLE, HRESULT> {
        let surface = |number: &u32| D3DDDI_SURFACEINFO {
            Width: *number,
            Height: *number,
            Depth: 1,
            ..D3DDDI_SURFACEINFO::ZERO
        };
        let list: Vec<_> = sides.iter().map(surface).collect();
        self.create_of(&list, D3DDDIPOOL_VIDEOMEMORY, flags)
    }

    /// Creates a square in this memory.
    pub(crate) fn create_in(&mut self, side: u32, memory: &mut [u8]) -> HANDLE {
        let list = [D3DDDI_SURFACEINFO {
            Width: side,
            Height: side,
            Depth: 1,
            pSysMem: memory.as_mut_ptr().cast(),
            SysMemPitch: side * 4,
            ..D3DDDI_SURFACEINFO::ZERO
        }];
        self.create_of(&list, D3DDDIPOOL_SYSTEMMEM, 0).unwrap()
    }

    fn create_of(
        &mut self,
        list: &[D3DDDI_SURFACEINFO],
        pool: i32,
        flags: u32,
    ) -> Result<HANDLE, HRESULT> {
        let mut args = D3DDDIARG_CREATERESOURCE {
            Format: abi::ukm::D3DDDIFMT_A8R8G8B8,
            Pool: pool,
            pSurfList: list.as_ptr(),
            SurfCount: u32::try_from(list.len()).unwrap(),
            MipLevels: 1,
            hResource: self.new_name(),
            ..D3DDDIARG_CREATERESOURCE::ZERO
        };
        args.Flags.Value = flags;
        let create = self.functions.pfnCreateResource.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { create(self.device, &raw mut args) })?;
        Ok(args.hResource)
    }

    pub(crate) fn destroy(&self, resource: HANDLE) -> Result<(), HRESULT> {
        let destroy = self.functions.pfnDestroyResource.unwrap();
        // SAFETY: The functions of the table stay loaded.
        ok(unsafe { destroy(self.device, resource) })
    }

    pub(crate) fn fill(
        &self,
        (resource, index): (HANDLE, u32),
        side: i32,
        color: u32,
    ) -> Result<(), HRESULT> {
        let args = D3DDDIARG_COLORFILL {
            hResource: resource,
            SubResourceIndex: index,
            DstRect: RECT { left: 0, top: 0, right: side, bottom: side },
            Color: color,
            ..D3DDDIARG_COLORFILL::ZERO
        };
        let fill = self.functions.pfnColorFill.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { fill(self.device, &raw const args) })
    }

    pub(crate) fn blt(&self, from: HANDLE, to: HANDLE, side: i32) -> Result<(), HRESULT> {
        let area = RECT { left: 0, top: 0, right: side, bottom: side };
        let args = D3DDDIARG_BLT {
            hSrcResource: from,
            SrcRect: area,
            hDstResource: to,
            DstRect: area,
            ..D3DDDIARG_BLT::ZERO
        };
        let blt = self.functions.pfnBlt.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { blt(self.device, &raw const args) })
    }

    pub(crate) fn flush(&self) -> Result<(), HRESULT> {
        let flush = self.functions.pfnFlush.unwrap();
        // SAFETY: The functions of the table stay loaded.
        ok(unsafe { flush(self.device) })
    }

    /// Locks a surface. Returns its address.
    pub(crate) fn lock(&self, resource: HANDLE, flags: u32) -> Result<usize, HRESULT> {
        let mut args = D3DDDIARG_LOCK {
            hResource: resource,
            Flags: D3DDDI_LOCKFLAGS { Value: flags },
            ..D3DDDIARG_LOCK::ZERO
        };
        let lock = self.functions.pfnLock.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { lock(self.device, &raw mut args) })?;
        Ok(args.pSurfData.addr())
    }

    pub(crate) fn unlock(&self, resource: HANDLE) -> Result<(), HRESULT> {
        let args = D3DDDIARG_UNLOCK { hResource: resource, ..D3DDDIARG_UNLOCK::ZERO };
        let unlock = self.functions.pfnUnlock.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { unlock(self.device, &raw const args) })
    }

    /// Locks a surface asynchronously. Returns the cookie.
    pub(crate) fn lock_async(&self, resource: HANDLE, flags: u32) -> Result<HANDLE, HRESULT> {
        let mut args = D3DDDIARG_LOCKASYNC {
            hResource: resource,
            Flags: D3DDDI_LOCKASYNCFLAGS { Value: flags },
            ..D3DDDIARG_LOCKASYNC::ZERO
        };
        let lock = self.functions.pfnLockAsync.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { lock(self.device, &raw mut args) })?;
        Ok(args.hCookie)
    }

    pub(crate) fn unlock_async(&self, resource: HANDLE) -> Result<(), HRESULT> {
        let args = D3DDDIARG_UNLOCKASYNC { hResource: resource, ..D3DDDIARG_UNLOCKASYNC::ZERO };
        let unlock = self.functions.pfnUnlockAsync.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { unlock(self.device, &raw const args) })
    }

    pub(crate) fn rename(&self, resource: HANDLE, cookie: HANDLE) -> Result<(), HRESULT> {
        let args =
            D3DDDIARG_RENAME { hResource: resource, hCookie: cookie, ..D3DDDIARG_RENAME::ZERO };
        let rename = self.functions.pfnRename.unwrap();
        // SAFETY: All arguments are locals of this function.
        ok(unsafe { rename(self.device, &raw const args) })
    }

    pub(crate) fn close(self) -> Vec<String> {
        let destroy = self.functions.pfnDestroyDevice.unwrap();
        // SAFETY: The device is not used any more.
        assert_eq!(unsafe { destroy(self.device) }, S_OK);
        let close = self.adapter_functions.pfnCloseAdapter.unwrap();
        // SAFETY: The adapter is not used any more.
        assert_eq!(unsafe { close(self.adapter) }, S_OK);
        self.notes()
    }
}

pub(crate) fn ok(result: HRESULT) -> Result<(), HRESULT> {
    if abi::hresult::succeeded(result) { Ok(()) } else { Err(result) }
}
