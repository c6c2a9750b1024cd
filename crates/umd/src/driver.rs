//! The traits that a user-mode driver implements.

use crate::args::{
    BltArgs, ColorFillArgs, CreateDeviceArgs, CreateResourceArgs, LockArgs, LockAsyncArgs,
    LockAsyncResult, LockResult, OpenAdapterArgs, OpenResourceArgs, RenameArgs, ResidencyStatus,
    Resource, RuntimeResource, UnlockArgs,
};
use crate::callbacks::{AdapterCallbacks, Callbacks};
use crate::result::UmdResult;
use abi::hresult::E_NOTIMPL;

/// A driver, as opened by [`open_adapter`](crate::open_adapter).
pub trait UserDriver: 'static {
    /// Opens an adapter (`OpenAdapter`). The driver queries the miniport's capabilities here.
    fn open(args: &OpenAdapterArgs, callbacks: AdapterCallbacks)
    -> UmdResult<Box<dyn UserAdapter>>;
}

/// An adapter of a driver. Several threads create devices at once.
pub trait UserAdapter: Send + Sync {
    /// Writes the driver's capabilities (`GetCaps`) into zeroed memory.
    fn caps(&self, kind: i32, answer: &mut [u8]) -> UmdResult<()>;

    /// Creates a device (`CreateDevice`).
    fn create_device(
        &self,
        args: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>>;

    /// Closes the adapter (`CloseAdapter`). It is dropped afterwards, also after a failure.
    fn close(&self) -> UmdResult<()> {
        Ok(())
    }
}

/// A device of a driver. One thread at a time uses it.
pub trait UserDevice: Send {
    /// Creates a resource (`CreateResource`), and returns the driver's number of it.
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64>;

    /// Opens a resource that another device created (`OpenResource`).
    fn open_resource(&mut self, _order: &OpenResourceArgs) -> UmdResult<u64> {
        Err(E_NOTIMPL)
    }

    /// The handle of a new resource that the runtime gets: the address of its box. Only a bad
    /// driver returns something else.
    fn handle_of(&mut self, _number: u64, _runtime: RuntimeResource, made: usize) -> usize {
        made
    }

    /// Destroys a resource (`DestroyResource`). After a failure the runtime's handle stays valid.
    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()>;

    /// Locks a subresource for the application (`Lock`).
    fn lock(&mut self, _order: &LockArgs) -> UmdResult<LockResult> {
        Err(E_NOTIMPL)
    }

    /// Unlocks a subresource (`Unlock`).
    fn unlock(&mut self, _order: &UnlockArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Locks a subresource without a flush (`LockAsync`).
    fn lock_async(&mut self, _order: &LockAsyncArgs) -> UmdResult<LockAsyncResult> {
        Err(E_NOTIMPL)
    }

    /// Unlocks a subresource that `lock_async` locked (`UnlockAsync`).
    fn unlock_async(&mut self, _order: &UnlockArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Makes the instance current that `lock_async` returned (`Rename`).
    fn rename(&mut self, _order: &RenameArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Copies between subresources (`Blt`).
    fn blt(&mut self, _order: &BltArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Fills a part of a subresource (`ColorFill`).
    fn color_fill(&mut self, _order: &ColorFillArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Submits all batched commands (`Flush`, `Flush1`).
    fn flush(&mut self) -> UmdResult<()>;

    /// Sets the residency priority of a resource (`SetPriority`).
    fn set_priority(&mut self, _resource: Resource, _priority: u32) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// The worst residency among the resources (`QueryResourceResidency`).
    fn query_residency(&mut self, _resources: &[Resource]) -> UmdResult<ResidencyStatus> {
        Err(E_NOTIMPL)
    }

    /// Frees everything (`DestroyDevice`). The device is dropped afterwards, also after a failure.
    fn end(&mut self) -> UmdResult<()>;
}
