//! The display miniport of the built-in GPU: complete, and it follows every rule.
//!
//! This file creates the driver and has what all its entry points share; they are in `miniport`.
//!
//! # Invariants
//!
//! 1. A driver handle is the address of a pool block of this driver, or a number if the pool has no
//!    blocks. Its record is created after the block is allocated and removed before the block is
//!    freed, so a reused address finds no old record.
//! 2. The lock is never held while services, the pool or the hardware are called.
//! 3. Everything that can fail is checked before the first record is created, so undoing is only
//!    freeing blocks.

mod allocations;
mod contexts;
mod miniport;

use crate::blocks::free;
use crate::gpu::Gpu;
use crate::mmu::MmuPlan;
use crate::plan::MemoryPlan;
use crate::records::{Records, RemovedHandles};
use crate::render::SIZES;
use flight::Ram;
use kernel::callbacks::KernelCallbacks;
use kernel::handle_table::Handle;
use kernel::miniport::{DriverError, DriverResult};
use kernel::render_args::BufferSizes;
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The driver of a [`Gpu`].
pub struct SoftGpu {
    pub(crate) gpu: Arc<Gpu>,
    /// The adapter's memory, if it has some.
    plan: Option<MemoryPlan>,
    /// The sizes of the buffers for packets with lists, if this is a WDDM 1.x driver.
    pub(crate) lists: Option<BufferSizes>,
    state: Mutex<State>,
    /// Objects are numbered, because the pool has no blocks.
    has_numbers: AtomicBool,
    /// Held by the thread that creates or frees save areas, so a context is ended once.
    pub(crate) areas: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Set from `add_device` to `remove_device`.
    callbacks: Option<Arc<KernelCallbacks>>,
    /// The hardware was surprise-removed and is not touched any more.
    surprise_removed: bool,
    pub(crate) records: Records,
}

impl SoftGpu {
    /// A driver and its hardware: an adapter without memory, whose allocations are memory of the
    /// driver.
    pub fn new() -> (Arc<SoftGpu>, Arc<Gpu>) {
        Self::from_gpu(Gpu::new(), None, None)
    }

    /// The same with GPU memory, taken from system memory. Panics if that is too small.
    pub fn with_memory(ram: Arc<dyn Ram>, plan: MemoryPlan) -> (Arc<SoftGpu>, Arc<Gpu>) {
        Self::with_plan(ram, plan, None)
    }

    /// The same as a WDDM 1.x driver: packets list the allocations that they use.
    pub fn with_lists(ram: Arc<dyn Ram>, plan: MemoryPlan) -> (Arc<SoftGpu>, Arc<Gpu>) {
        Self::with_plan(ram, plan, Some(SIZES))
    }

    fn with_plan(
        ram: Arc<dyn Ram>,
        plan: MemoryPlan,
        lists: Option<BufferSizes>,
    ) -> (Arc<SoftGpu>, Arc<Gpu>) {
        let plan = plan.whole();
        let gpu = Gpu::with_memory(ram, &plan);
        let gpu = gpu.unwrap_or_else(|| panic!("the machine has less memory than {plan:?}"));
        Self::from_gpu(gpu, Some(plan), lists)
    }

    fn from_gpu(
        gpu: Gpu,
        plan: Option<MemoryPlan>,
        lists: Option<BufferSizes>,
    ) -> (Arc<SoftGpu>, Arc<Gpu>) {
        let gpu = Arc::new(gpu);
        (
            Arc::new(Self {
                gpu: gpu.clone(),
                plan,
                lists,
                state: Mutex::default(),
                has_numbers: AtomicBool::new(false),
                areas: Mutex::default(),
            }),
            gpu,
        )
    }

    /// The bytes of the allocation behind a client's handle, for tests.
    ///
    /// Returns `None` if no device has opened the handle, if the range is outside the allocation,
    /// if devices of several processes use the handle for different memory, and if the adapter has
    /// memory and the allocation is not resident.
    pub fn read(&self, handle: Handle, range: Range<u64>) -> Option<Vec<u8>> {
        let allocation = self.state().records.find_on_any_device(handle)?;
        match allocation.memory() {
            Some(own) => own.read(range),
            None => self.peek(allocation.address()?, allocation.size(), range),
        }
    }

    /// How the hardware translates virtual addresses, if it does.
    pub(crate) fn mmu(&self) -> Option<MmuPlan> {
        self.plan.and_then(|memory_plan| memory_plan.mmu)
    }

    pub(crate) fn callbacks(&self) -> DriverResult<Arc<KernelCallbacks>> {
        self.state().callbacks.clone().ok_or(DriverError::Invalid)
    }

    /// Whether allocations, views and resources are numbered.
    pub(crate) fn has_numbers(&self) -> bool {
        self.has_numbers.load(Ordering::Relaxed)
    }

    /// Sets the services of the adapter, or removes them. Returns those before.
    fn set_callbacks(
        &self,
        callbacks: Option<Arc<KernelCallbacks>>,
    ) -> Option<Arc<KernelCallbacks>> {
        if let Some(callbacks) = &callbacks {
            self.has_numbers.store(!callbacks.pool().has_blocks(), Ordering::Relaxed);
        }
        let mut state = self.state();
        state.surprise_removed &= callbacks.is_none();
        std::mem::replace(&mut state.callbacks, callbacks)
    }

    /// Ends objects: removes their records under the lock, then frees their blocks without it.
    pub(crate) fn remove_handles(
        &self,
        body: impl FnOnce(&mut Records, &mut RemovedHandles),
    ) -> DriverResult<()> {
        let mut completions = RemovedHandles::default();
        let callbacks = {
            let mut state = self.state();
            let State { callbacks, records, .. } = &mut *state;
            let callbacks = callbacks.as_ref().ok_or(DriverError::Invalid)?;
            body(records, &mut completions);
            (!completions.handles.is_empty()).then(|| callbacks.clone())
        };
        if let Some(callbacks) = callbacks {
            free(&**callbacks.pool(), &completions.handles);
        }
        if completions.unknown { Err(DriverError::Invalid) } else { Ok(()) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;
    use flight::{DeterministicHost, Log, Passive};
    use kernel::miniport::{
        Features, Miniport, SchedulingFeatures, StandardAllocationArgs, StandardPrivateData,
    };

    fn fly(body: impl FnOnce(&SoftGpu, &mut Passive)) {
        let (driver, _gpu) = SoftGpu::new();
        DeterministicHost::fly(0, &Arc::new(Log::silent()), |_, at| body(&driver, at)).unwrap();
    }

    #[test]
    fn a_standard_allocation_is_sized_first_and_filled_then() {
        fly(|driver, at| {
            let mut standard = StandardAllocationArgs {
                bytes: 8192,
                private: None,
                allocation_size: 0,
                resource_size: 0,
            };
            driver.get_standard_allocation_driver_data(at, &mut standard).unwrap();
            assert_eq!((standard.allocation_size, standard.resource_size), (16, 8));
            standard.private = Some(StandardPrivateData::default());
            driver.get_standard_allocation_driver_data(at, &mut standard).unwrap();
            let private = standard.private.unwrap();
            assert_eq!(format::read_description(&private.allocation), Ok(8192));
            assert_eq!(private.allocation.len(), 16);
            assert_eq!(private.resource, b"WTSGres\0");
        });
    }

    #[test]
    fn without_an_adapter_there_is_nothing_to_start_or_remove() {
        fly(|driver, at| {
            assert_eq!(driver.start_device(at), Err(DriverError::Invalid));
            assert_eq!(driver.remove_device(at), Err(DriverError::Invalid));
            let scheduling = SchedulingFeatures {
                preempts: true,
                cancellation: true,
                engine_reset: true,
                fences_32_bit: false,
            };
            assert_eq!(
                driver.query_adapter_info(at),
                Ok(Features { nodes: 2, scheduling, ..Features::default() })
            );
            assert_eq!(driver.read(Handle(0x4000_0040), 0..1), None);
        });
    }
}
