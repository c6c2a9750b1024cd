//! A user-mode driver that only calls back, as often as requested, so that the runtime is measured.

use abi::D3DKMT_HANDLE;
use abi::hresult::E_FAIL;
use runtime::Umd;
use std::collections::BTreeMap;
use umd::{
    AdapterCallbacks, Callbacks, ColorFillArgs, CreateDeviceArgs, CreateResourceArgs,
    DeallocateRequest, NewAllocation, OpenAdapterArgs, Resource, RuntimeContext, RuntimeResource,
    UmdResult, UserAdapter, UserDevice, UserDriver,
};

/// The size of the private data of an allocation and of a packet.
pub(crate) const PRIVATE: usize = 32;

/// The driver.
pub(crate) fn umd() -> Umd {
    drivers::umd_from_rust::<MeteredUmd>()
}

struct MeteredUmd;

impl UserDriver for MeteredUmd {
    fn open(
        _order: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        // A good driver queries the adapter; this one ignores the response.
        let _ = callbacks.query_adapter_info(&mut [0; 4]);
        Ok(Box::new(MeteredUmd))
    }
}

impl UserAdapter for MeteredUmd {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> UmdResult<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _order: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>> {
        let context = callbacks.create_context_virtual(0, 0, &mut [])?;
        let (filled, groups) = (false, BTreeMap::new());
        Ok(Box::new(MeteredDevice { callbacks, context, filled, groups, last: 0 }))
    }
}

struct MeteredDevice {
    callbacks: Callbacks,
    context: RuntimeContext,
    /// Set when commands wait for submission.
    filled: bool,
    groups: BTreeMap<u64, (RuntimeResource, D3DKMT_HANDLE)>,
    last: u64,
}

impl MeteredDevice {
    /// One allocation, in a resource or standalone.
    fn allocate(&self, resource: RuntimeResource) -> UmdResult<D3DKMT_HANDLE> {
        let allocation = NewAllocation { private: vec![0xa5; PRIVATE], ..NewAllocation::default() };
        let made = self.callbacks.allocate(resource, &[], &mut [allocation])?;
        made.allocations.first().copied().ok_or(E_FAIL)
    }
}

impl UserDevice for MeteredDevice {
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        let allocation = self.allocate(args.runtime)?;
        self.last += 1;
        self.groups.insert(self.last, (args.runtime, allocation));
        Ok(self.last)
    }

    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()> {
        let (runtime, _) = self.groups.remove(&resource.number).ok_or(E_FAIL)?;
        self.callbacks.deallocate(&DeallocateRequest { resource: runtime, list: Vec::new() })
    }

    /// Creates and frees as many allocations as the color says; fills if the color is zero.
    fn color_fill(&mut self, args: &ColorFillArgs) -> UmdResult<()> {
        self.filled |= args.color == 0;
        for _ in 0..args.color {
            let list = vec![self.allocate(RuntimeResource::default())?];
            self.callbacks
                .deallocate(&DeallocateRequest { list, ..DeallocateRequest::default() })?;
        }
        Ok(())
    }

    /// Queries the residency of the allocation as often as the priority says.
    fn set_priority(&mut self, resource: Resource, priority: u32) -> UmdResult<()> {
        let (_, allocation) = self.groups.get(&resource.number).ok_or(E_FAIL)?;
        let of = DeallocateRequest { list: vec![*allocation], ..DeallocateRequest::default() };
        (0..priority).try_for_each(|_| self.callbacks.query_residency(&of).map(drop))
    }

    fn flush(&mut self) -> UmdResult<()> {
        if !std::mem::take(&mut self.filled) {
            return Ok(());
        }
        self.callbacks.submit(&[self.context], &[0xa5; PRIVATE], &[])
    }

    fn end(&mut self) -> UmdResult<()> {
        self.callbacks.destroy_context(self.context)
    }
}
