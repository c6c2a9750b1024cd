//! The state of the class driver, under one lock.
//!
//! # Invariants (checked by [`StreamState::validate`])
//!
//! 1. A filter's device, a pin's filter, and the pin of an allocator or frame exist.
//! 2. A queued frame is in the queue of its pin, once; no other frame is.
//! 3. A frame's count of clones is the number of clones that point to it.
//! 4. An edge points into its pin's queue, or nowhere.
//! 5. A pin lists its frames and a filter its pins, by number.
//! 6. The timeout table matches the pointers, and the table of frame addresses matches the frames.

use crate::allocator::Allocator;
use crate::bag::ObjectBags;
use crate::device::Device;
use crate::driver_calls::{ActiveCall, Entry};
use crate::filter::Filter;
use crate::frame::{Frame, FrameLocation};
use crate::jobs::JobQueue;
use crate::mutex::MutexOwners;
use crate::pending::PendingRequest;
use crate::pin::Pin;
use crate::pointer::{PointerKind, StreamPointer};
use crate::types::{AllocatorId, DeviceId, FrameId, PointerId};
use flight::{Slab, Subject, WaitQueue, current_thread};
use std::collections::{BTreeMap, BTreeSet};

/// All live objects.
#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) devices: Slab<Device>,
    pub(crate) filters: Slab<Filter>,
    pub(crate) pins: Slab<Pin>,
    pub(crate) allocators: Slab<Allocator>,
    pub(crate) frames: Slab<Frame>,
    /// Frames by device, address and number.
    pub(crate) frames_by_address: BTreeSet<(DeviceId, usize, FrameId)>,
    pub(crate) pointers: Slab<StreamPointer>,
    pub(crate) mutexes: MutexOwners,
    /// The calls that threads are in, a thread's innermost call last.
    pub(crate) active_calls: Vec<ActiveCall>,
    /// The queued jobs.
    pub(crate) jobs: JobQueue,
    /// When which pointer's timeout expires.
    pub(crate) timers: BTreeSet<(u64, PointerId)>,
    pub(crate) bags: ObjectBags,
    /// Memory that drivers have allocated, by device: each has its own addresses.
    pub(crate) blocks: BTreeMap<(DeviceId, usize), MemoryBlock>,
    /// How many blocks of it there ever were.
    pub(crate) blocks_allocated: u64,
    /// The addresses of frames that drivers were called to free, by device.
    pub(crate) freed_frames: BTreeSet<(DeviceId, usize)>,
    /// Creates and closes that are not completed.
    pub(crate) pending: BTreeMap<Subject, PendingRequest>,
    /// The waiting threads: all check again when the state has changed.
    pub(crate) waiters: WaitQueue,
    /// The random choices of `--pressure`, if it is set.
    pub(crate) pressure: Option<u64>,
    /// The class driver has ended: drivers that outlive it get no service.
    pub(crate) ended: bool,
}

/// Memory that a driver has allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBlock {
    /// The allocator in whose call it was allocated.
    pub(crate) allocator: Option<AllocatorId>,
    /// That allocator was deleted.
    pub(crate) allocator_deleted: bool,
    /// Its serial number: addresses do not repeat from run to run, this number does.
    pub(crate) serial: u64,
}

impl AsMut<WaitQueue> for StreamState {
    fn as_mut(&mut self) -> &mut WaitQueue {
        &mut self.waiters
    }
}

impl StreamState {
    /// The memory of a device.
    pub(crate) fn blocks_of(
        &self,
        device: DeviceId,
    ) -> impl Iterator<Item = (usize, &MemoryBlock)> {
        let mine = self.blocks.range((device, 0)..=(device, usize::MAX));
        mine.map(|((_, word), it)| (*word, it))
    }

    /// The memory of a device that fulfils a condition, in the order of allocation.
    pub(crate) fn blocks_where(
        &self,
        device: DeviceId,
        is: impl Fn(&MemoryBlock) -> bool,
    ) -> Vec<usize> {
        let some = self.blocks_of(device).filter(|(_, it)| is(it));
        let mut some: Vec<(u64, usize)> = some.map(|(word, it)| (it.serial, word)).collect();
        some.sort_unstable();
        some.into_iter().map(|pair| pair.1).collect()
    }

    /// Removes the timeout of a pointer.
    pub(crate) fn unschedule(&mut self, pointer: PointerId) {
        if let Some(due) = self.pointers[pointer].timeout.take() {
            self.timers.remove(&(due, pointer));
        }
    }

    /// The call a thread is in.
    #[inline]
    pub(crate) fn active_call(&self, thread: u32) -> Option<&ActiveCall> {
        self.active_calls.iter().rfind(|active_call| active_call.thread == thread)
    }

    /// The entry that the current thread is in.
    #[inline]
    pub(crate) fn current_entry(&self) -> Option<Entry> {
        self.active_call(current_thread()).map(|active_call| active_call.entry)
    }

    /// Checks the invariants of all live objects.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let mut clones: BTreeMap<FrameId, u32> = BTreeMap::new();
        for (number, it) in self.pointers.iter() {
            let Some(pin) = self.pins.get(it.pin) else {
                return Err(format!("{number} has no pin"));
            };
            match (it.kind, it.frame) {
                (PointerKind::Clone, Some(frame)) => *clones.entry(frame).or_default() += 1,
                (_, Some(frame)) if !pin.queue.contains(&frame) => {
                    return Err(format!("edge {number} points to {frame}, not queued"));
                }
                _ => (),
            }
        }
        let due = self.pointers.iter().filter_map(|(number, it)| Some((it.timeout?, number)));
        if !due.collect::<BTreeSet<_>>().iter().eq(&self.timers) {
            return Err("the times of pointers are not those that are due".to_owned());
        }
        for (number, it) in self.frames.iter() {
            let Some(pin) = self.pins.get(it.pin) else {
                return Err(format!("{number} has no pin"));
            };
            if !self.frames_by_address.contains(&(pin.device, it.address, number)) {
                return Err(format!("{number} is not where it is"));
            }
            if !pin.frames.contains(&number) {
                return Err(format!("{number} is not in the list of its pin"));
            }
            let queued = pin.queue.iter().filter(|other| **other == number).count();
            if queued != usize::from(it.location == FrameLocation::Queued) {
                return Err(format!("{number} is {:?} and queued {queued} times", it.location));
            }
            let there = clones.get(&number).copied().unwrap_or(0);
            if there != it.clones {
                return Err(format!("{number} counts {} clones of {there}", it.clones));
            }
        }
        if self.frames_by_address.len() != self.frames.iter().count() {
            return Err("the address table has frames that were freed".to_owned());
        }
        for (number, it) in self.pins.iter() {
            let Some(filter) = self.filters.get(it.filter) else {
                return Err(format!("{number} has no filter"));
            };
            if !filter.pins.contains(&number) {
                return Err(format!("{number} is not in the list of its filter"));
            }
            let sorted = filter.pins.is_sorted() && it.frames.is_sorted();
            if !sorted || it.frames.iter().any(|frame| self.frames.get(*frame).is_none()) {
                return Err(format!("a list of {number} or of its filter is not in order"));
            }
        }
        for (number, it) in self.filters.iter() {
            if self.devices.get(it.device).is_none() {
                return Err(format!("{number} has no device"));
            }
        }
        let homeless = self.allocators.iter().find(|(_, it)| self.pins.get(it.pin).is_none());
        homeless.map_or(Ok(()), |(number, _)| Err(format!("{number} has no pin")))
    }
}
