//! The system's knowledge of an adapter's hardware, and the driver's mappings of it.
//!
//! # Invariants
//!
//! 1. `mappings` contains each address that the driver got and has not unmapped, once.

use crate::post_display::FRAME_BUFFER;
use abi::PHYSICAL_ADDRESS;
use abi::miniport::{
    CM_FULL_RESOURCE_DESCRIPTOR, CM_PARTIAL_RESOURCE_DESCRIPTOR, CM_PARTIAL_RESOURCE_LIST,
    CM_RESOURCE_LIST, CmResourceShareDeviceExclusive, CmResourceTypeMemory, PCIBus,
};
use flight::{Ram, Run};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE: u64 = 4096;

/// The value that a read from removed hardware returns.
const REMOVED_BYTE: u32 = u32::MAX;

/// An adapter's hardware, as seen on its bus.
#[derive(Clone, Default)]
pub struct Hardware {
    /// The machine's memory, and the range of it that is the adapter's one resource.
    pub memory: Option<(Arc<dyn Ram>, Run)>,
    /// The PCI configuration space, from byte zero on.
    pub config: Vec<u8>,
    /// The machine's memory, for page tables that the CPU writes and for the frame buffer that a
    /// driver takes over.
    pub ram: Option<Arc<dyn Ram>>,
}

/// A mapping for the CPU: the memory, and the address that [`Ram::map`] returned.
type Mapping = (Arc<dyn Ram>, usize);

/// The hardware of one door.
pub(crate) struct HardwareState {
    memory: Option<(Arc<dyn Ram>, Run)>,
    config: Mutex<Vec<u8>>,
    resources: Mutex<CM_RESOURCE_LIST>,
    /// The memory and the mapping of each address that the driver knows.
    mappings: Mutex<BTreeMap<usize, Mapping>>,
    surprise_removed: AtomicBool,
    ram: Option<Arc<dyn Ram>>,
    /// The frame buffer of the display that was on before the driver started, once the driver has
    /// asked for it.
    post_frame_buffer: Mutex<Option<Run>>,
}

impl HardwareState {
    pub(crate) fn new(it: &Hardware) -> Self {
        let resources = Mutex::new(resource_list(it.memory.as_ref().map(|pair| pair.1)));
        let (memory, config) = (it.memory.clone(), Mutex::new(it.config.clone()));
        let (mappings, surprise_removed, post_frame_buffer) = Default::default();
        let ram = it.ram.clone();
        Self { memory, config, resources, mappings, surprise_removed, ram, post_frame_buffer }
    }

    /// The frame buffer of the display that was on before the driver started. A machine without
    /// memory has none.
    pub(crate) fn post_frame_buffer(&self) -> Option<Run> {
        let mut buffer = lock(&self.post_frame_buffer);
        if buffer.is_none() {
            *buffer = self.ram.as_ref().and_then(|ram| ram.allocate(FRAME_BUFFER));
        }
        *buffer
    }

    /// The list of resources, valid while `self` exists.
    pub(crate) fn resources(&self) -> *mut CM_RESOURCE_LIST {
        &raw mut *lock(&self.resources)
    }

    /// The number of ranges in the list of resources.
    pub(crate) fn resource_count(&self) -> u32 {
        self.memory.is_some().into()
    }

    /// Whether a range lies in the resources, or in the frame buffer that the driver took over.
    pub(crate) fn contains(&self, start: PHYSICAL_ADDRESS, bytes: u32) -> bool {
        self.memory_of(start, bytes).is_some()
    }

    /// The memory that contains a range of the resources or of the frame buffer.
    fn memory_of(&self, start: PHYSICAL_ADDRESS, bytes: u32) -> Option<&Arc<dyn Ram>> {
        let start = start.cast_unsigned();
        let end = start.checked_add(bytes.into()).filter(|_| bytes != 0)?;
        let within = |run: Run| start >= run.start && end <= run.start + run.bytes;
        let resource = self.memory.as_ref().filter(|(_, run)| within(*run)).map(|(ram, _)| ram);
        let buffer =
            || self.ram.as_ref().filter(|_| lock(&self.post_frame_buffer).is_some_and(within));
        resource.or_else(buffer)
    }

    /// Maps a range of the resources for the CPU.
    pub(crate) fn map(&self, start: PHYSICAL_ADDRESS, bytes: u32) -> Option<usize> {
        let ram = self.memory_of(start, bytes)?;
        let start = start.cast_unsigned();
        let inside = start % PAGE;
        let bytes = (inside + u64::from(bytes)).next_multiple_of(PAGE);
        let view = ram.map(&[Run { start: start - inside, bytes }])?;
        let address = view + usize::try_from(inside).ok()?;
        lock(&self.mappings).insert(address, (ram.clone(), view));
        Some(address)
    }

    /// Unmaps an address. Returns whether it was mapped.
    pub(crate) fn unmap(&self, address: usize) -> bool {
        let Some((ram, view)) = lock(&self.mappings).remove(&address) else { return false };
        ram.unmap(view);
        true
    }

    /// Unmaps everything that is still mapped. Returns the number of mappings.
    pub(crate) fn unmap_all(&self) -> usize {
        let addresses: Vec<usize> = lock(&self.mappings).keys().copied().collect();
        addresses.into_iter().filter(|index| self.unmap(*index)).count()
    }

    /// Surprise-removes the hardware. Reads then return ones, as on a bus without the device.
    pub(crate) fn surprise_remove(&self) {
        if let Some((ram, run)) = &self.memory {
            ram.fill(*run, REMOVED_BYTE);
        }
        lock(&self.config).fill(u8::MAX);
        self.surprise_removed.store(true, Ordering::SeqCst);
    }

    /// Whether the hardware was surprise-removed.
    pub(crate) fn is_surprise_removed(&self) -> bool {
        self.surprise_removed.load(Ordering::SeqCst)
    }

    /// Whether the hardware's range was written after the surprise removal.
    pub(crate) fn is_written_after_removal(&self) -> bool {
        let Some((ram, run)) = self.memory.as_ref().filter(|_| self.is_surprise_removed()) else {
            return false;
        };
        let mut bytes = vec![0; usize::try_from(run.bytes).unwrap_or(0)];
        ram.read(run.start, &mut bytes) && bytes.iter().any(|byte| *byte != u8::MAX)
    }

    /// The bytes of the configuration space from `offset` on.
    pub(crate) fn with_config<R>(&self, offset: u32, body: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut config = lock(&self.config);
        let from = (offset as usize).min(config.len());
        body(&mut config[from..])
    }
}

impl Drop for HardwareState {
    fn drop(&mut self) {
        self.unmap_all();
        if let (Some(run), Some(ram)) = (*lock(&self.post_frame_buffer), &self.ram) {
            ram.free(run);
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the data under the lock inconsistent.
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resources as Windows lists them: one range, or none.
fn resource_list(run: Option<Run>) -> CM_RESOURCE_LIST {
    let memory = run.map(|run| CM_PARTIAL_RESOURCE_DESCRIPTOR {
        Type: CmResourceTypeMemory,
        ShareDisposition: CmResourceShareDeviceExclusive,
        Start: run.start.cast_signed(),
        Length: u32::try_from(run.bytes).unwrap_or(u32::MAX),
        ..CM_PARTIAL_RESOURCE_DESCRIPTOR::ZERO
    });
    let partial = CM_PARTIAL_RESOURCE_LIST {
        Version: 1,
        Revision: 1,
        Count: memory.is_some().into(),
        PartialDescriptors: memory.unwrap_or(CM_PARTIAL_RESOURCE_DESCRIPTOR::ZERO),
    };
    let list = CM_FULL_RESOURCE_DESCRIPTOR {
        InterfaceType: PCIBus,
        BusNumber: 0,
        PartialResourceList: partial,
    };
    CM_RESOURCE_LIST { Count: 1, List: list }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nt::Ram as HardwareModel;

    fn in_use() -> (Arc<HardwareModel>, Run, HardwareState) {
        let ram = HardwareModel::new(1 << 20).unwrap();
        let run = ram.allocate(4 * PAGE).unwrap();
        let memory: Arc<dyn Ram> = ram.clone();
        let it = HardwareState::new(&Hardware {
            memory: Some((memory, run)),
            config: vec![1, 2, 3],
            ram: None,
        });
        (ram, run, it)
    }

    #[test]
    fn a_range_is_in_the_resources_with_every_byte() {
        let (_ram, run, it) = in_use();
        let start = run.start.cast_signed();
        assert!(
            it.contains(start, 1) && it.contains(start, 0x4000) && it.contains(start + 0x3fff, 1)
        );
        assert!(
            !it.contains(start, 0) && !it.contains(start, 0x4001) && !it.contains(start - 1, 2)
        );
        assert!(!it.contains(-1, 4) && !it.contains(0, u32::MAX));
        assert!(!HardwareState::new(&Hardware::default()).contains(0, 1));
    }

    #[test]
    fn a_mapping_ends_once() {
        let (_ram, run, it) = in_use();
        let start = run.start.cast_signed();
        let one = it.map(start + 0x10, 0x1000).unwrap();
        let other = it.map(start, 1).unwrap();
        assert_eq!(one % 0x1000, 0x10);
        assert!(!it.unmap(one + 1) && it.unmap(one) && !it.unmap(one));
        assert_eq!((it.unmap_all(), it.unmap_all(), it.unmap(other)), (1, 0, false));
    }

    #[test]
    fn the_frame_buffer_of_the_machine_can_be_mapped_once_it_is_taken_over() {
        let ram = HardwareModel::new(8 << 20).unwrap();
        let memory: Arc<dyn Ram> = ram.clone();
        let it = HardwareState::new(&Hardware { ram: Some(memory), ..Hardware::default() });
        let run = it.post_frame_buffer().unwrap();
        assert_eq!((run.bytes, it.post_frame_buffer()), (1024 * 768 * 4, Some(run)));
        let (start, bytes) = (run.start.cast_signed(), 1024 * 768 * 4);
        assert!(it.contains(start, bytes) && !it.contains(start, bytes + 1));
        let address = it.map(start, bytes).unwrap();
        assert!(it.unmap(address) && !it.unmap(address));
        drop(it);
        assert_eq!(ram.allocate(8 << 20).map(|run| run.bytes), Some(8 << 20));
        let none = HardwareState::new(&Hardware::default());
        assert_eq!(none.post_frame_buffer(), None);
    }

    #[test]
    fn what_is_written_to_hardware_that_is_gone_is_seen() {
        let (ram, run, it) = in_use();
        assert!(
            ram.write(run.start, &[7])
                && !it.is_surprise_removed()
                && !it.is_written_after_removal()
        );
        it.surprise_remove();
        assert!(it.is_surprise_removed() && !it.is_written_after_removal());
        assert_eq!(it.with_config(0, |bytes| bytes.to_vec()), [0xff; 3]);
        assert!(ram.write(run.start + 0x3fff, &[7]));
        assert!(it.is_written_after_removal());
    }

    #[test]
    fn the_list_has_the_range_if_there_is_one() {
        let run = Run { start: 5 << 30, bytes: 0x4000 };
        let one = resource_list(Some(run)).List.PartialResourceList;
        let (start, length) = (one.PartialDescriptors.Start, one.PartialDescriptors.Length);
        assert_eq!(({ one.Count }, start, length), (1, 5 << 30, 0x4000));
        assert_eq!({ resource_list(None).List.PartialResourceList.Count }, 0);
    }

    #[test]
    fn the_configuration_space_ends() {
        let (_ram, _, it) = in_use();
        assert_eq!(it.with_config(1, |bytes| bytes.to_vec()), [2, 3]);
        it.with_config(2, |bytes| bytes[0] = 9);
        assert_eq!(it.with_config(0, |bytes| bytes.to_vec()), [1, 2, 9]);
        assert_eq!(it.with_config(u32::MAX, |bytes| bytes.len()), 0);
    }
}
