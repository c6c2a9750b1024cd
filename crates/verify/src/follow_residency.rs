//! Following residency: what clients list as resident, their paging queues, offers and locks.

use crate::follow::decrement;
use crate::shadow::memory::{Offer, PagingQueue};
use crate::shadow::{Key, Shadows};
use flight::{Event, EventKind, Kind, Subject};

impl Shadows {
    pub(crate) fn follow_queue(&mut self, event: &Event) {
        let subject = event.subject;
        if let EventKind::PagingQueueCreated { device, .. } = event.kind {
            let queue = PagingQueue {
                device: device.into(),
                last_assigned: 0,
                signalled: 0,
                counted: 0,
                handles: 0,
                waits: Vec::new(),
            };
            self.start(subject, queue);
            return self.with_device(device, |device| device.queues += 1);
        }
        let Some(it) = self.paging_queue_mut(subject) else { return };
        let device = it.device;
        match &event.kind {
            EventKind::PagingQueueAssigned { value, .. } => it.last_assigned = *value,
            EventKind::PagingQueueSignalled { value } => {
                it.signalled = *value;
                let awaited = it.waits.clone();
                self.update_waits(subject, &awaited, *value);
            }
            EventKind::PagingQueueDestroyed {} => {
                self.end(subject);
                self.with_device(device, |it| decrement(&mut it.queues));
            }
            EventKind::ResidencyRequested { must_succeed: must, result, .. } => {
                it.counted = 0;
                let failed = *must && result == "no-memory";
                self.with_device(device, |device| device.failed |= failed);
            }
            _ => (),
        }
    }

    /// A handle of a queue, or of its fence, is published or closed.
    pub(crate) fn count_queue_handle(&mut self, subject: Subject, given: bool) {
        if !matches!(subject.kind, Kind::PagingQueue | Kind::PagingQueueFence) {
            return;
        }
        let queue = Kind::PagingQueue.subject(subject.number);
        if let Some(it) = self.paging_queue_mut(queue) {
            it.handles = if given { it.handles + 1 } else { it.handles.saturating_sub(1) };
        }
    }

    /// Follows a client's operation on a view's memory.
    pub(crate) fn follow_residency(&mut self, event: &Event) {
        let Some(view) = self.view_mut(event.subject) else { return };
        let allocation = view.allocation;
        match &event.kind {
            EventKind::ResidencyCounted {
                device,
                queue,
                count,
                only_if_necessary: lazily,
                not_written: clean,
            } => {
                let before = std::mem::replace(&mut view.resident, *count);
                let unwritten = (view.memory.not_written && before > 0) || *clean;
                if unwritten != view.memory.not_written {
                    view.memory.not_written = unwritten;
                }
                self.with_memory(allocation, |it| {
                    match (before, *count) {
                        (0, 1..) => it.resident_devices += 1,
                        (1.., 0) => {
                            decrement(&mut it.resident_devices);
                            (it.not_written, it.written) = (unwritten, it.written || !unwritten);
                        }
                        _ => (),
                    }
                    it.evict_if_necessary = *lazily;
                });
                if let Some(it) = self.paging_queue_mut(queue) {
                    it.counted += 1;
                }
                if (before, *count) == (1, 0) {
                    let bytes = self.memory(allocation).map_or(0, |memory| memory.bytes);
                    let process = self.device(*device).and_then(|device| device.process);
                    self.with_process(process, |process| process.trimmed += bytes);
                }
            }
            EventKind::LockRenamed { to, .. } => {
                view.memory.instance = Key::serial(*to);
            }
            EventKind::LockRequested { do_not_evict: still, .. } => {
                view.memory.lock_requested = event.seq;
                self.with_memory(allocation, |memory| memory.do_not_evict = *still);
            }
            EventKind::LockAcquired { location, .. } => {
                if view.memory.reclaimed {
                    view.memory.reclaimed = false;
                }
                self.note_lock(allocation, location);
            }
            EventKind::LockEnded { .. } => {
                self.with_memory(allocation, |it| decrement(&mut it.locks));
            }
            EventKind::OfferStarted { .. } => {
                view.memory.offered = event.seq;
                self.with_memory(allocation, |memory| memory.offer = Some(Offer::default()));
            }
            EventKind::OfferReady {} => self.with_memory(allocation, |memory| {
                memory.offer.iter_mut().for_each(|offer| offer.ready = true);
            }),
            EventKind::OfferEnded { value, .. } => {
                let placed = self.memory(allocation).and_then(|memory| memory.location);
                let segment =
                    placed.and_then(|segment_address| self.segment(segment_address.segment));
                let mapped = *value > 0 && segment.is_some_and(|segment| segment.aperture);
                self.with_memory(allocation, |memory| {
                    memory.offer = None;
                    memory.reclaimed = mapped && !memory.is_resident();
                });
                if let Some(it) = self.view_mut(event.subject) {
                    it.memory.reclaimed = mapped;
                }
            }
            _ => (),
        }
    }

    pub(crate) fn note_lock(&mut self, allocation: impl Into<Subject>, location: &str) {
        self.with_memory(allocation, |memory| {
            if memory.locks == 0 {
                memory.cpu_view_current = location == "memory";
                memory.outside = location == "system";
            }
            (memory.locks, memory.not_written, memory.do_not_evict) =
                (memory.locks + 1, false, false);
            memory.backed = location == "system" || (memory.backed && location != "memory");
        });
    }
}
