//! What the runtime asks of a user-mode driver, in plain words.

use crate::answer::Answer;
use crate::callbacks::{AdapterCallbacks, Callbacks};
use crate::order::{
    AsyncLock, AsyncLocked, Blt, ColorFill, Lock, Locked, NewDevice, NewResource, OpenAdapter,
    OpenedResource, Rename, Residency, Resource, RuntimeResource, Unlock,
};
use abi::hresult::E_NOTIMPL;

/// A driver: what [`open_adapter`](crate::open_adapter) opens.
pub trait UserDriver: 'static {
    /// Opens an adapter (`OpenAdapter`). Here the miniport is asked what the hardware is.
    fn open(order: &OpenAdapter, callbacks: AdapterCallbacks) -> Answer<Box<dyn UserAdapter>>;
}

/// An adapter of a driver's. Several threads make devices of it at once.
pub trait UserAdapter: Send + Sync {
    /// Answers what the driver can (`GetCaps`), into memory that is zero.
    fn caps(&self, kind: i32, answer: &mut [u8]) -> Answer<()>;

    /// Makes a device (`CreateDevice`).
    fn create_device(&self, order: &NewDevice, callbacks: Callbacks)
    -> Answer<Box<dyn UserDevice>>;

    /// Closes it (`CloseAdapter`). It is dropped then, whatever is answered.
    fn close(&self) -> Answer<()> {
        Ok(())
    }
}

/// A device of a driver's. One thread at a time is inside.
pub trait UserDevice: Send {
    /// Makes a resource (`CreateResource`), and answers the driver's number of it.
    fn create_resource(&mut self, order: &NewResource) -> Answer<u64>;

    /// Opens a resource that another device made (`OpenResource`).
    fn open_resource(&mut self, _order: &OpenedResource) -> Answer<u64> {
        Err(E_NOTIMPL)
    }

    /// What the runtime is given as the handle of a resource just made: its box's address. Only a
    /// bad driver answers something else.
    fn handle_of(&mut self, _number: u64, _runtime: RuntimeResource, made: usize) -> usize {
        made
    }

    /// Destroys a resource (`DestroyResource`). If it fails, the runtime's handle stays.
    fn destroy_resource(&mut self, resource: Resource) -> Answer<()>;

    /// Shows a subresource to the application (`Lock`).
    fn lock(&mut self, _order: &Lock) -> Answer<Locked> {
        Err(E_NOTIMPL)
    }

    /// Ends a lock (`Unlock`).
    fn unlock(&mut self, _order: &Unlock) -> Answer<()> {
        Err(E_NOTIMPL)
    }

    /// Shows a subresource, without a flush (`LockAsync`).
    fn lock_async(&mut self, _order: &AsyncLock) -> Answer<AsyncLocked> {
        Err(E_NOTIMPL)
    }

    /// Ends such a lock (`UnlockAsync`).
    fn unlock_async(&mut self, _order: &Unlock) -> Answer<()> {
        Err(E_NOTIMPL)
    }

    /// Takes over what such a lock has renamed (`Rename`).
    fn rename(&mut self, _order: &Rename) -> Answer<()> {
        Err(E_NOTIMPL)
    }

    /// Copies (`Blt`).
    fn blt(&mut self, _order: &Blt) -> Answer<()> {
        Err(E_NOTIMPL)
    }

    /// Fills (`ColorFill`).
    fn color_fill(&mut self, _order: &ColorFill) -> Answer<()> {
        Err(E_NOTIMPL)
    }

    /// Has everything done that was asked for (`Flush`, `Flush1`).
    fn flush(&mut self) -> Answer<()>;

    /// How much a resource is worth (`SetPriority`).
    fn set_priority(&mut self, _resource: Resource, _priority: u32) -> Answer<()> {
        Err(E_NOTIMPL)
    }

    /// Where resources are, the worst of them (`QueryResourceResidency`).
    fn query_residency(&mut self, _resources: &[Resource]) -> Answer<Residency> {
        Err(E_NOTIMPL)
    }

    /// Releases everything (`DestroyDevice`). It is dropped then, whatever is answered.
    fn end(&mut self) -> Answer<()>;
}
