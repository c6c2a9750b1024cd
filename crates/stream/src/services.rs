//! What a minidriver may call: the `Ks*` functions, in plain types.
//!
//! A driver cannot prove its IRQL, so the host reports it. A forbidden call is refused and
//! reported, and never panics. Each service is in the file of its subject; this file has those that
//! belong to none.

use crate::memory::{FrameMemory, MemoryKind};
use crate::stream::Stream;
use crate::stream_state::{MemoryBlock, StreamState};
use crate::types::{AllocatorId, DeviceId, DriverError, DriverResult, ObjectId};
use flight::{Host, Irql, Log, RuleId, StateGuard, WaitResult, WaitToken, current_thread};
use std::sync::Arc;

/// The services of one device.
pub struct Services {
    /// The class driver, which ends with its owner ([`StreamOwner`](crate::StreamOwner)) and not
    /// with this reference.
    pub(crate) stream: Arc<Stream>,
    pub(crate) device: DeviceId,
    /// The memory of its frames.
    pub(crate) memory: Arc<dyn FrameMemory>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
}

impl Services {
    /// The class driver, with its state locked. Fails if the class driver has ended: a driver may
    /// outlive it.
    #[inline]
    pub(crate) fn lock_state(&self) -> DriverResult<(&Stream, StateGuard<'_, StreamState>)> {
        let state = self.stream.state.lock();
        if state.ended { Err(DriverError::Invalid) } else { Ok((&self.stream, state)) }
    }

    /// Its device.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The current time, in steps of 100 ns.
    pub fn now(&self) -> u64 {
        self.host.now()
    }

    /// The host that runs the kernel.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log for what doors report.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Waits for a time (`KeDelayExecutionThread`).
    pub fn delay(&self, interval: u64) -> DriverResult<()> {
        let (stream, _) = self.lock_state()?;
        let level = self.host.irql();
        let broken = (level != Irql::Passive)
            .then(|| format!("a driver waited at {level} level: waiting is for passive level"));
        let error = broken.is_some();
        stream.judge(RuleId::WT_LEVEL_001, self.device.subject(), "KeDelayExecutionThread", broken);
        if error {
            return Err(DriverError::Deadlock);
        }
        let until = self.host.now().saturating_add(interval);
        self.wait_in_call(stream, |at| {
            let token = WaitToken::new("a driver's delay");
            match self.host.park(at, &token, Some(until)) {
                WaitResult::HostEnded => Err(DriverError::Deadlock),
                _ => Ok(()),
            }
        })
    }

    /// The allocator whose entry is called on this thread: by its id, because two may have the same
    /// driver handle.
    pub fn current_allocator(&self) -> Option<AllocatorId> {
        let (_, state) = self.lock_state().ok()?;
        let about = state.active_call(current_thread())?.about;
        match about {
            ObjectId::Allocator(allocator) => Some(allocator),
            _ => None,
        }
    }

    /// Allocates memory (`ExAllocatePool2`). Memory allocated in a call of an allocator's entry
    /// belongs to that allocator.
    pub fn allocate_memory(&self, bytes: u32, alignment: u32, kind: MemoryKind) -> Option<usize> {
        let memory = self.stream.memory_of(self.device)?;
        let driver_handle = memory.allocate(bytes, alignment, kind)?;
        self.add_memory(driver_handle);
        Some(driver_handle)
    }

    /// Records memory that was allocated for the driver elsewhere as the driver's.
    pub fn add_memory(&self, driver_handle: usize) {
        // The driver may outlive the stream.
        let Ok((_, mut state)) = self.lock_state() else { return };
        let allocator = match state.active_call(current_thread()).map(|inside| inside.about) {
            Some(ObjectId::Allocator(allocator)) => Some(allocator),
            _ => None,
        };
        let (device, number) = (self.device, state.blocks_allocated);
        state.blocks_allocated += 1;
        state.blocks.insert(
            (device, driver_handle),
            MemoryBlock { allocator, allocator_deleted: false, serial: number },
        );
        // The address of a freed frame now belongs to other memory.
        state.freed_frames.remove(&(device, driver_handle));
    }

    /// Frees memory (`ExFreePool`).
    pub fn free_memory(&self, driver_handle: usize) -> DriverResult<()> {
        let memory = self.stream.memory_of(self.device).ok_or(DriverError::Invalid)?;
        self.remove_memory(driver_handle)?;
        memory.free(driver_handle).then_some(()).ok_or(DriverError::Invalid)
    }

    /// Records that the driver frees memory of its own, which is released elsewhere. Fails with
    /// [`DriverError::Busy`] if a bag holds it, and [`DriverError::Invalid`] if it is not the
    /// driver's.
    pub fn remove_memory(&self, driver_handle: usize) -> DriverResult<()> {
        let (stream, mut state) = self.lock_state()?;
        let bagged = state.bags.holds(self.device, driver_handle);
        let broken =
            bagged.then(|| "a driver freed an item that is in a bag: the bag frees it".to_owned());
        stream.judge(RuleId::KS_BAG_003, self.device.subject(), "ExFreePool", broken);
        if bagged {
            return Err(DriverError::Busy);
        }
        let block =
            state.blocks.remove(&(self.device, driver_handle)).ok_or(DriverError::Invalid)?;
        if let Some(allocator) = block.allocator {
            let broken = block.allocator_deleted.then(|| {
                format!(
                    "memory of {} was freed after AVStrMiniDeleteAllocator had \
                     returned: delete cannot defer its work",
                    allocator.subject()
                )
            });
            let about = allocator.subject();
            stream.judge(RuleId::KS_ALLOC_015, about, "AVStrMiniDeleteAllocator", broken);
        }
        Ok(())
    }

    /// Writes to memory as the device's hardware does, without a stream pointer.
    pub fn write_memory(
        &self,
        driver_handle: usize,
        offset: u32,
        bytes: &[u8],
    ) -> DriverResult<()> {
        let memory = self.stream.memory_of(self.device).ok_or(DriverError::Invalid)?;
        {
            let (stream, state) = self.lock_state()?;
            let broken = state.freed_frames.contains(&(self.device, driver_handle)).then(|| {
                format!(
                    "{} bytes were written to a frame after the driver was called to free it",
                    bytes.len()
                )
            });
            let error = broken.is_some();
            let place = "AVStrMiniAllocatorFreeFrame";
            stream.judge(RuleId::KS_ALLOC_011, self.device.subject(), place, broken);
            if error {
                return Err(DriverError::Invalid);
            }
        }
        memory.write(driver_handle, offset, bytes).then_some(()).ok_or(DriverError::Invalid)
    }

    /// Records that the hardware has a DMA adapter (`KsDeviceRegisterAdapterObject`).
    pub fn register_dma(&self) -> DriverResult<()> {
        let (_, mut state) = self.lock_state()?;
        let device = state.devices.get_mut(self.device).ok_or(DriverError::Invalid)?;
        device.has_dma_adapter = true;
        Ok(())
    }
}
