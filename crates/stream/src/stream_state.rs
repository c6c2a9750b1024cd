//! Everything that is alive, under one lock.
//!
//! # Invariants (checked by [`StreamState::validate`])
//!
//! 1. A filter's device, a pin's filter, an allocator's and a frame's pin are there.
//! 2. A frame that is queued is in the queue of its pin, once; no other is.
//! 3. A frame's count of clones is that of the clones that point to it.
//! 4. An edge points into its pin's queue, or nowhere.
//! 5. A pin lists its frames and a filter its pins, by number.
//! 6. What is due is what pointers say is, and where frames are is what they say.

use crate::allocator::Allocator;
use crate::bag::ObjectBags;
use crate::device::Device;
use crate::driver_calls::ActiveCall;
use crate::filter::Filter;
use crate::frame::{Frame, FrameLocation};
use crate::mutex::MutexOwners;
use crate::pending::PendingRequest;
use crate::pin::Pin;
use crate::pointer::{PointerKind, StreamPointer};
use crate::process::Job;
use crate::types::{AllocatorId, DeviceId, FrameId, PointerId};
use flight::{Slab, Subject, WaitToken};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Everything that is alive.
#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) devices: Slab<Device>,
    pub(crate) filters: Slab<Filter>,
    pub(crate) pins: Slab<Pin>,
    pub(crate) allocators: Slab<Allocator>,
    pub(crate) frames: Slab<Frame>,
    /// Where frames are: by device, word and number.
    pub(crate) frames_by_address: BTreeSet<(DeviceId, usize, FrameId)>,
    pub(crate) pointers: Slab<StreamPointer>,
    pub(crate) mutexes: MutexOwners,
    /// The calls that threads are in, a thread's last one innermost.
    pub(crate) active_calls: Vec<ActiveCall>,
    /// What is due.
    pub(crate) jobs: VecDeque<Job>,
    /// When the time of which pointer is over.
    pub(crate) timers: BTreeSet<(u64, PointerId)>,
    pub(crate) bags: ObjectBags,
    /// Memory that drivers have made, by device: each has words of its own.
    pub(crate) blocks: BTreeMap<(DeviceId, usize), MemoryBlock>,
    /// How many pieces of it there ever were.
    pub(crate) blocks_allocated: u64,
    /// Where frames were that drivers have been told to free, by device.
    pub(crate) freed_frames: BTreeSet<(DeviceId, usize)>,
    /// Creates and closes that are not over yet.
    pub(crate) pending: BTreeMap<Subject, PendingRequest>,
    /// The threads that wait: all look again when the state has changed.
    pub(crate) waiters: Vec<WaitToken>,
    /// What is made hard is drawn from this, if it is.
    pub(crate) pressure: Option<u64>,
}

/// Memory that a driver has made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBlock {
    /// The allocator in whose call it was made.
    pub(crate) allocator: Option<AllocatorId>,
    /// That allocator was deleted.
    pub(crate) allocator_deleted: bool,
    /// How many were made before it: where it is does not repeat, this does.
    pub(crate) serial: u64,
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

    /// The memory of a device that is so, in the order in which it was made.
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

    /// The time of a pointer is not looked at any more.
    pub(crate) fn unschedule(&mut self, pointer: PointerId) {
        if let Some(due) = self.pointers[pointer].timeout.take() {
            self.timers.remove(&(due, pointer));
        }
    }

    /// The call a thread is in.
    pub(crate) fn active_call(&self, thread: u32) -> Option<ActiveCall> {
        self.active_calls.iter().rfind(|active_call| active_call.thread == thread).copied()
    }

    /// Checks the invariants of everything that is alive.
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
            return Err("there are places of frames that are gone".to_owned());
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
