//! The runtime's functions, in plain words (`D3DDDI_DEVICECALLBACKS`, `D3DDDI_ADAPTERCALLBACKS`).
//!
//! Nothing here believes that a call is right: a driver may name what it likes, keep what it has
//! after its end, and call from a thread of its own. To judge that is the runtime's.
#![expect(unsafe_code, reason = "the functions are the runtime's")]

mod allocation;
mod memory;
mod submit;
mod sync;

pub use allocation::{AllocateResponse, DeallocateRequest, NewAllocation};
pub use memory::{MapRequest, PagingQueue, PagingResponse};
pub use submit::RenderRequest;
pub use sync::Fence;

use crate::memory::{Memory, MemoryAccess};
use crate::result::{UmdResult, to_result};
use crate::table::copy_table;
use abi::hresult::E_NOTIMPL;
use abi::umd::{D3DDDI_ADAPTERCALLBACKS, D3DDDI_DEVICECALLBACKS, D3DDDICB_QUERYADAPTERINFO};
use abi::{HANDLE, HRESULT};
use core::ptr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

type CallbackMut<A> = Option<unsafe extern "win64-unwind" fn(HANDLE, *mut A) -> HRESULT>;
type CallbackConst<A> = Option<unsafe extern "win64-unwind" fn(HANDLE, *const A) -> HRESULT>;

/// What a driver calls for a device. A clone is the same device's.
#[derive(Clone, Debug)]
pub struct Callbacks {
    inner: Arc<DeviceCallbackTable>,
}

#[derive(Debug)]
struct DeviceCallbackTable {
    /// `hDevice`, as the runtime calls it.
    device: usize,
    table: D3DDDI_DEVICECALLBACKS,
    host: MemoryAccess,
}

impl Callbacks {
    /// Copies the runtime's table, as far as its version has one.
    ///
    /// # Safety
    ///
    /// The table is that of the device, and NULL or as long as its version says; its functions
    /// are what Microsoft's pages say, from now on and on any thread.
    pub(crate) unsafe fn new(
        device: HANDLE,
        table: *const D3DDDI_DEVICECALLBACKS,
        version: u32,
        host: MemoryAccess,
    ) -> Option<Self> {
        let length = crate::table::callbacks_length(version);
        // SAFETY: The caller's contract.
        let table = unsafe { copy_table(table, length, D3DDDI_DEVICECALLBACKS::ZERO) }?;
        Some(Self {
            inner: Arc::new(DeviceCallbackTable {
                device: device.expose_provenance(),
                table,
                host,
            }),
        })
    }

    fn table(&self) -> &D3DDDI_DEVICECALLBACKS {
        &self.inner.table
    }

    /// Memory that the runtime says is at an address.
    fn memory<T>(&self, address: *const T, length: usize) -> Memory {
        Memory::new(self.inner.host, address.expose_provenance(), length)
    }

    /// Calls a function that answers in its structure. What that points to is borrowed by the
    /// methods of this module, each for the time of its call.
    fn call_mut<A>(&self, function: CallbackMut<A>, args: &mut A) -> HRESULT {
        let Some(function) = function else { return E_NOTIMPL };
        // SAFETY: `new`'s contract: it is the runtime's, and its structure lives here.
        unsafe { function(ptr::with_exposed_provenance_mut(self.inner.device), args) }
    }

    /// The same, of a function that only reads.
    fn call_const<A>(&self, function: CallbackConst<A>, args: &A) -> UmdResult<()> {
        let Some(function) = function else { return Err(E_NOTIMPL) };
        // SAFETY: As in `call_mut`.
        to_result(unsafe { function(ptr::with_exposed_provenance_mut(self.inner.device), args) })
    }
}

/// What a driver calls for an adapter. A clone is the same adapter's.
#[derive(Clone, Debug)]
pub struct AdapterCallbacks {
    inner: Arc<AdapterCallbackTable>,
}

#[derive(Debug)]
struct AdapterCallbackTable {
    adapter: usize,
    table: D3DDDI_ADAPTERCALLBACKS,
}

/// The adapters that callbacks were given for, by the runtime's handle.
static ADAPTERS: Mutex<BTreeMap<usize, Weak<AdapterCallbackTable>>> = Mutex::new(BTreeMap::new());

/// How many objects drivers have that hold the callbacks of an adapter, by the runtime's handle.
pub fn live_objects_of(adapter: usize) -> usize {
    let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = adapters.get(&adapter).map_or(0, Weak::strong_count);
    if count == 0 {
        adapters.remove(&adapter);
    }
    count
}

impl AdapterCallbacks {
    /// Copies the runtime's table.
    ///
    /// # Safety
    ///
    /// As that of [`Callbacks::new`], for an adapter.
    pub(crate) unsafe fn new(
        adapter: HANDLE,
        table: *const D3DDDI_ADAPTERCALLBACKS,
    ) -> Option<Self> {
        // WINDOWS: the second slot came later than the first (docs do not say when).
        let length = size_of::<HANDLE>();
        // SAFETY: The caller's contract.
        let table = unsafe { copy_table(table, length, D3DDDI_ADAPTERCALLBACKS::ZERO) }?;
        let adapter = adapter.expose_provenance();
        let inner = Arc::new(AdapterCallbackTable { adapter, table });
        let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
        adapters.insert(adapter, Arc::downgrade(&inner));
        drop(adapters);
        Some(Self { inner })
    }

    /// Asks the miniport what its hardware is (`pfnQueryAdapterInfoCb`), into these bytes.
    pub fn query_adapter_info(&self, private: &mut [u8]) -> UmdResult<()> {
        let Some(query) = self.inner.table.pfnQueryAdapterInfoCb else { return Err(E_NOTIMPL) };
        let args = D3DDDICB_QUERYADAPTERINFO {
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: count(private.len()),
        };
        let adapter = ptr::with_exposed_provenance_mut(self.inner.adapter);
        // SAFETY: `new`'s contract: it is the runtime's, and its structure lives here.
        to_result(unsafe { query(adapter, &raw const args) })
    }
}

/// A length as Windows writes it.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A list as Windows points to it: NULL if it is empty.
fn list<T>(list: &[T]) -> *const T {
    if list.is_empty() { ptr::null() } else { list.as_ptr() }
}
