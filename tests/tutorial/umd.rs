//! A user-mode driver in safe Rust: it makes surfaces, and lets them go.

use std::collections::BTreeMap;
use windtunnel::abi::hresult::E_INVALIDARG;
use windtunnel::softgpu::format::{HARDWARE_INFO_SIZE, describe};
use windtunnel::umd::{
    AdapterCallbacks, Allocation, Answer, Callbacks, NewDevice, NewResource, OpenAdapter, Release,
    Resource, RuntimeResource, Surface, UserAdapter, UserDevice, UserDriver,
};

pub(crate) struct Maker;

impl UserDriver for Maker {
    fn open(_order: &OpenAdapter, callbacks: AdapterCallbacks) -> Answer<Box<dyn UserAdapter>> {
        let mut told = [0; HARDWARE_INFO_SIZE];
        callbacks.query_adapter_info(&mut told)?; // What the hardware is: before any device.
        Ok(Box::new(Maker))
    }
}

impl UserAdapter for Maker {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> Answer<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _order: &NewDevice,
        callbacks: Callbacks,
    ) -> Answer<Box<dyn UserDevice>> {
        Ok(Box::new(Made { callbacks, resources: BTreeMap::new(), last: 0 }))
    }
}

struct Made {
    callbacks: Callbacks,
    /// The runtime's names of resources, by the driver's numbers.
    resources: BTreeMap<u64, RuntimeResource>,
    last: u64,
}

impl UserDevice for Made {
    fn create_resource(&mut self, order: &NewResource) -> Answer<u64> {
        let surface = |it: &Surface| {
            let bytes = u64::from(it.width) * u64::from(it.height) * 4;
            Allocation { private: describe(bytes.next_multiple_of(4096)), ..Allocation::default() }
        };
        let mut all: Vec<Allocation> = order.surfaces.iter().map(surface).collect();
        self.callbacks.allocate(order.runtime, &[], &mut all)?; // One call for all surfaces.
        self.last += 1;
        self.resources.insert(self.last, order.runtime);
        Ok(self.last)
    }

    fn destroy_resource(&mut self, resource: Resource) -> Answer<()> {
        let runtime = self.resources.get(&resource.number).copied().ok_or(E_INVALIDARG)?;
        self.callbacks.deallocate(&Release { resource: runtime, ..Release::default() })?;
        self.resources.remove(&resource.number);
        Ok(())
    }

    fn flush(&mut self) -> Answer<()> {
        Ok(()) // It collects nothing.
    }

    fn end(&mut self) -> Answer<()> {
        Ok(()) // What is left is destroyed before.
    }
}
