//! A driver that only returns driver handles, so that the kernel is measured.

use flight::{HardwareModel, InterruptLine, Passive, Pool};
use kernel::DriverSetup;
use kernel::callbacks::KernelCallbacks;
use kernel::device::Device;
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, DestroyAllocationArgs, Drain, DriverDevice,
    DriverResource, DriverResult, DriverView, Features, HandleSlot, Miniport, OpenAllocationArgs,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: u64 = 4096;

/// The driver, with hardware and memory that also do nothing.
pub(crate) fn set_up() -> DriverSetup {
    let it = Arc::new(Idle::default());
    DriverSetup { miniport: it.clone(), hardware: it.clone(), pool: it }
}

/// The last driver handle.
#[derive(Default)]
pub(crate) struct Idle(AtomicUsize);

impl Idle {
    /// Returns rising handles, like addresses that are never reused.
    pub(crate) fn next_handle(&self) -> usize {
        0x10 * (1 + self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Miniport for Idle {
    fn add_device(&self, _at: &mut Passive, _services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        Ok(())
    }

    fn start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }

    fn query_adapter_info(&self, _at: &mut Passive) -> DriverResult<Features> {
        Ok(Features { nodes: 1, ..Features::default() })
    }

    fn stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }

    fn unload(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        Ok(slot.fill(self.next_handle()))
    }

    fn destroy_device(&self, _at: &mut Passive, _device: DriverDevice) -> DriverResult<()> {
        Ok(())
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let shape = AllocationInfo { size: PAGE, alignment: PAGE, ..AllocationInfo::default() };
        for new in &mut args.allocations {
            new.fill(self.next_handle(), shape);
        }
        Ok(None)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        _doomed: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        Ok(None)
    }

    fn open_allocations(
        &self,
        _at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        for new in &mut args.views {
            new.fill(self.next_handle());
        }
        Ok(())
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        _views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        Ok(())
    }
}

impl HardwareModel for Idle {
    fn idle(&self) -> bool {
        true
    }

    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}
}

impl Pool for Idle {
    fn allocate_pool(&self, _bytes: usize, _tag: u32) -> Option<usize> {
        None
    }

    fn free(&self, _block: usize, _tag: u32) {}

    fn refers_to(&self, _block: usize, _word: usize) -> bool {
        false
    }

    fn inspect(&self, _call: &'static str) {}

    fn close(&self) {}
}
