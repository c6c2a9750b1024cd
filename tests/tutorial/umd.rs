//! A user-mode driver in safe Rust: it creates and destroys surfaces.

use std::collections::BTreeMap;
use windtunnel::abi::hresult::E_INVALIDARG;
use windtunnel::softgpu::format::{HARDWARE_INFO_SIZE, describe};
use windtunnel::umd::{
    AdapterCallbacks, Callbacks, CreateDeviceArgs, CreateResourceArgs, DeallocateRequest,
    NewAllocation, OpenAdapterArgs, Resource, RuntimeResource, Surface, UmdResult, UserAdapter,
    UserDevice, UserDriver,
};

pub(crate) struct TwoPassDriver;

impl UserDriver for TwoPassDriver {
    fn open(
        _order: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        let mut info = [0; HARDWARE_INFO_SIZE];
        callbacks.query_adapter_info(&mut info)?; // Before any device is created.
        Ok(Box::new(TwoPassDriver))
    }
}

impl UserAdapter for TwoPassDriver {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> UmdResult<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _order: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>> {
        Ok(Box::new(Made { callbacks, resources: BTreeMap::new(), last: 0 }))
    }
}

struct Made {
    callbacks: Callbacks,
    /// The runtime's handles of resources, by the driver's handles.
    resources: BTreeMap<u64, RuntimeResource>,
    last: u64,
}

impl UserDevice for Made {
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        let surface = |surface: &Surface| {
            let bytes = u64::from(surface.width) * u64::from(surface.height) * 4;
            NewAllocation {
                private: describe(bytes.next_multiple_of(4096)),
                ..NewAllocation::default()
            }
        };
        let mut all: Vec<NewAllocation> = args.surfaces.iter().map(surface).collect();
        self.callbacks.allocate(args.runtime, &[], &mut all)?; // One call for all surfaces.
        self.last += 1;
        self.resources.insert(self.last, args.runtime);
        Ok(self.last)
    }

    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()> {
        let runtime = self.resources.get(&resource.number).copied().ok_or(E_INVALIDARG)?;
        self.callbacks
            .deallocate(&DeallocateRequest { resource: runtime, ..DeallocateRequest::default() })?;
        self.resources.remove(&resource.number);
        Ok(())
    }

    fn flush(&mut self) -> UmdResult<()> {
        Ok(()) // No commands are collected.
    }

    fn end(&mut self) -> UmdResult<()> {
        Ok(()) // Resources are destroyed earlier.
    }
}
