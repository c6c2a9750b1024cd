//! Safe wrappers of the runtime's callbacks (`D3DDDI_DEVICECALLBACKS`, `D3DDDI_ADAPTERCALLBACKS`).
//!
//! No call is validated here: a driver may pass any handle, use an object after its destruction,
//! and call from any thread. The runtime judges the calls.
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

/// The callbacks for a device. Clones refer to the same device.
#[derive(Clone, Debug)]
pub struct Callbacks {
    inner: Arc<DeviceCallbackTable>,
}

#[derive(Debug)]
struct DeviceCallbackTable {
    /// The runtime's handle of the device (`hDevice`).
    device: usize,
    table: D3DDDI_DEVICECALLBACKS,
    host: MemoryAccess,
}

impl Callbacks {
    /// Copies the runtime's table, up to the length of its version.
    ///
    /// # Safety
    ///
    /// The table belongs to the device. It is NULL or has the length of its version; its functions
    /// behave as documented by Microsoft, from now on and on any thread.
    pub(crate) unsafe fn new(
        device: HANDLE,
        table: *const D3DDDI_DEVICECALLBACKS,
        version: u32,
        host: MemoryAccess,
    ) -> Option<Self> {
        let length = crate::table::callbacks_length(version);
        // SAFETY: The caller guarantees it.
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

    /// The memory that the runtime returned at an address.
    fn memory<T>(&self, address: *const T, length: usize) -> Memory {
        Memory::new(self.inner.host, address.expose_provenance(), length)
    }

    /// Calls a function with output members in its structure. The methods of this module borrow
    /// what the structure points to for the duration of the call.
    fn call_mut<A>(&self, function: CallbackMut<A>, args: &mut A) -> HRESULT {
        let Some(function) = function else { return E_NOTIMPL };
        // SAFETY: `new` guarantees a function of the runtime, and `args` outlives the call.
        unsafe { function(ptr::with_exposed_provenance_mut(self.inner.device), args) }
    }

    /// Calls a function that only reads its structure.
    fn call_const<A>(&self, function: CallbackConst<A>, args: &A) -> UmdResult<()> {
        let Some(function) = function else { return Err(E_NOTIMPL) };
        // SAFETY: As in `call_mut`.
        to_result(unsafe { function(ptr::with_exposed_provenance_mut(self.inner.device), args) })
    }
}

/// The callbacks for an adapter. Clones refer to the same adapter.
#[derive(Clone, Debug)]
pub struct AdapterCallbacks {
    inner: Arc<AdapterCallbackTable>,
}

#[derive(Debug)]
struct AdapterCallbackTable {
    adapter: usize,
    table: D3DDDI_ADAPTERCALLBACKS,
}

/// The adapters whose callbacks were copied, by the runtime's handle.
static ADAPTERS: Mutex<BTreeMap<usize, Weak<AdapterCallbackTable>>> = Mutex::new(BTreeMap::new());

/// How many driver objects hold the callbacks of an adapter, by the runtime's handle.
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
    /// As for [`Callbacks::new`], for an adapter.
    pub(crate) unsafe fn new(
        adapter: HANDLE,
        table: *const D3DDDI_ADAPTERCALLBACKS,
    ) -> Option<Self> {
        // WINDOWS: the second slot was added later than the first (the version is not documented).
        let length = size_of::<HANDLE>();
        // SAFETY: The caller guarantees it.
        let table = unsafe { copy_table(table, length, D3DDDI_ADAPTERCALLBACKS::ZERO) }?;
        let adapter = adapter.expose_provenance();
        let inner = Arc::new(AdapterCallbackTable { adapter, table });
        let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
        adapters.insert(adapter, Arc::downgrade(&inner));
        drop(adapters);
        Some(Self { inner })
    }

    /// Queries the miniport's private adapter information into `private` (`pfnQueryAdapterInfoCb`).
    pub fn query_adapter_info(&self, private: &mut [u8]) -> UmdResult<()> {
        let Some(query) = self.inner.table.pfnQueryAdapterInfoCb else { return Err(E_NOTIMPL) };
        let args = D3DDDICB_QUERYADAPTERINFO {
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: count(private.len()),
        };
        let adapter = ptr::with_exposed_provenance_mut(self.inner.adapter);
        // SAFETY: `new` guarantees a function of the runtime, and `args` outlives the call.
        to_result(unsafe { query(adapter, &raw const args) })
    }
}

/// A length as a `UINT`.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A pointer to a list, NULL if the list is empty.
fn list<T>(list: &[T]) -> *const T {
    if list.is_empty() { ptr::null() } else { list.as_ptr() }
}
