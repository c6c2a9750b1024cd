//! What the runtime asks of a user-mode driver, in plain words.

use crate::args::{
    BltArgs, ColorFillArgs, CreateDeviceArgs, CreateResourceArgs, LockArgs, LockAsyncArgs,
    LockAsyncResult, LockResult, OpenAdapterArgs, OpenResourceArgs, RenameArgs, ResidencyStatus,
    Resource, RuntimeResource, UnlockArgs,
};
use crate::callbacks::{AdapterCallbacks, Callbacks};
use crate::result::UmdResult;
use abi::hresult::E_NOTIMPL;

/// A driver: what [`open_adapter`](crate::open_adapter) opens.
pub trait UserDriver: 'static {
    /// Opens an adapter (`OpenAdapterArgs`). Here the miniport is asked what the hardware is.
    fn open(
        order: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>>;
}

/// An adapter of a driver's. Several threads make devices of it at once.
pub trait UserAdapter: Send + Sync {
    /// Answers what the driver can (`GetCaps`), into memory that is zero.
    fn caps(&self, kind: i32, answer: &mut [u8]) -> UmdResult<()>;

    /// Makes a device (`CreateDevice`).
    fn create_device(
        &self,
        order: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>>;

    /// Closes it (`CloseAdapter`). It is dropped then, whatever is answered.
    fn close(&self) -> UmdResult<()> {
        Ok(())
    }
}

/// A device of a driver's. One thread at a time is inside.
pub trait UserDevice: Send {
    /// Makes a resource (`CreateResource`), and answers the driver's number of it.
    fn create_resource(&mut self, order: &CreateResourceArgs) -> UmdResult<u64>;

    /// Opens a resource that another device made (`OpenResource`).
    fn open_resource(&mut self, _order: &OpenResourceArgs) -> UmdResult<u64> {
        Err(E_NOTIMPL)
    }

    /// What the runtime is given as the handle of a resource just made: its box's address. Only a
    /// bad driver answers something else.
    fn handle_of(&mut self, _number: u64, _runtime: RuntimeResource, made: usize) -> usize {
        made
    }

    /// Destroys a resource (`DestroyResource`). If it fails, the runtime's handle stays.
    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()>;

    /// Shows a subresource to the application (`LockArgs`).
    fn lock(&mut self, _order: &LockArgs) -> UmdResult<LockResult> {
        Err(E_NOTIMPL)
    }

    /// Ends a lock (`UnlockArgs`).
    fn unlock(&mut self, _order: &UnlockArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Shows a subresource, without a flush (`LockAsync`).
    fn lock_async(&mut self, _order: &LockAsyncArgs) -> UmdResult<LockAsyncResult> {
        Err(E_NOTIMPL)
    }

    /// Ends such a lock (`UnlockAsync`).
    fn unlock_async(&mut self, _order: &UnlockArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Takes over what such a lock has renamed (`RenameArgs`).
    fn rename(&mut self, _order: &RenameArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Copies (`BltArgs`).
    fn blt(&mut self, _order: &BltArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Fills (`ColorFillArgs`).
    fn color_fill(&mut self, _order: &ColorFillArgs) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Has everything done that was asked for (`Flush`, `Flush1`).
    fn flush(&mut self) -> UmdResult<()>;

    /// How much a resource is worth (`SetPriority`).
    fn set_priority(&mut self, _resource: Resource, _priority: u32) -> UmdResult<()> {
        Err(E_NOTIMPL)
    }

    /// Where resources are, the worst of them (`QueryResourceResidency`).
    fn query_residency(&mut self, _resources: &[Resource]) -> UmdResult<ResidencyStatus> {
        Err(E_NOTIMPL)
    }

    /// Releases everything (`DestroyDevice`). It is dropped then, whatever is answered.
    fn end(&mut self) -> UmdResult<()>;
}
