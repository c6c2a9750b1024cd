//! Following residency: what clients list as resident, their paging queues, offers and locks.

use crate::follow::less;
use crate::shadow::Shadows;
use crate::shadow::memory::{Offer, Queue};
use flight::{Event, Kind, Subject, What};

impl Shadows {
    pub(crate) fn follow_queue(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::QueueCreated { device, .. } = event.what {
            let queue = Queue {
                device: device.into(),
                given: 0,
                signalled: 0,
                counted: 0,
                names: 0,
                awaited: Vec::new(),
            };
            self.start(subject, queue);
            return self.with_device(device, |it| it.queues += 1);
        }
        let Some(it) = self.queue_mut(subject) else { return };
        let device = it.device;
        match &event.what {
            What::QueueGiven { value, .. } => it.given = *value,
            What::QueueSignalled { value } => {
                it.signalled = *value;
                let awaited = it.awaited.clone();
                self.reached(subject, &awaited, *value);
            }
            What::QueueDestroyed {} => {
                self.end(subject);
                self.with_device(device, |it| less(&mut it.queues));
            }
            What::ResidentAsked { must, answer, .. } => {
                it.counted = 0;
                let failed = *must && answer == "no-memory";
                self.with_device(device, |it| it.failed |= failed);
            }
            _ => (),
        }
    }

    /// A queue, or its fence, is given a name or loses it.
    pub(crate) fn queue_name(&mut self, subject: Subject, given: bool) {
        if !matches!(subject.kind, Kind::Queue | Kind::QueueFence) {
            return;
        }
        let queue = Kind::Queue.nr(subject.number);
        if let Some(it) = self.queue_mut(queue) {
            it.names = if given { it.names + 1 } else { it.names.saturating_sub(1) };
        }
    }

    /// What a client does with a view's memory. Answers whether it was that.
    pub(crate) fn follow_residency(&mut self, event: &Event) -> bool {
        let Some(view) = self.view_mut(event.subject) else { return false };
        let allocation = view.allocation;
        match &event.what {
            What::ResidentCounted { device, queue, count, lazily, clean } => {
                let before = std::mem::replace(&mut view.resident, *count);
                view.clean = (view.clean && before > 0) || *clean;
                let unwritten = view.clean;
                self.with_memory(allocation, |it| {
                    match (before, *count) {
                        (0, 1..) => it.listed += 1,
                        (1.., 0) => {
                            less(&mut it.listed);
                            (it.clean, it.written) = (unwritten, it.written || !unwritten);
                        }
                        _ => (),
                    }
                    it.lazily = *lazily;
                });
                if let Some(it) = self.queue_mut(queue) {
                    it.counted += 1;
                }
                if (before, *count) == (1, 0) {
                    let bytes = self.memory(allocation).map_or(0, |it| it.bytes);
                    let process = self.device(*device).and_then(|it| it.process);
                    self.with_process(process, |it| it.trimmed += bytes);
                }
            }
            What::LockRenamed { to, .. } => {
                view.newest = if to.kind == Kind::Instance { *to } else { allocation.into() };
            }
            What::LockAsked { still, .. } => {
                view.lock_asked = event.seq;
                self.with_memory(allocation, |it| it.still = *still);
            }
            What::LockTaken { place, .. } => {
                view.reclaimed = false;
                self.lock_taken(allocation, place);
            }
            What::LockEnded { .. } => self.with_memory(allocation, |it| less(&mut it.locks)),
            What::OfferMade { .. } => {
                view.offered = event.seq;
                self.with_memory(allocation, |it| it.offer = Some(Offer::default()));
            }
            What::OfferReady {} => self.with_memory(allocation, |it| {
                it.offer.iter_mut().for_each(|it| it.ready = true);
            }),
            What::OfferEnded { value, .. } => {
                let placed = self.memory(allocation).and_then(|it| it.placed);
                let segment = placed.and_then(|it| self.segment(it.segment));
                let mapped = *value > 0 && segment.is_some_and(|it| it.aperture);
                self.with_memory(allocation, |it| {
                    it.offer = None;
                    it.reclaimed = mapped && !it.is_there();
                });
                if let Some(it) = self.view_mut(event.subject) {
                    it.reclaimed = mapped;
                }
            }
            _ => return false,
        }
        true
    }

    pub(crate) fn lock_taken(&mut self, allocation: impl Into<Subject>, place: &str) {
        self.with_memory(allocation, |it| {
            if it.locks == 0 {
                it.aimed = place == "memory";
                it.outside = place == "system";
            }
            (it.locks, it.clean, it.still) = (it.locks + 1, false, false);
            it.backed = place == "system" || (it.backed && place != "memory");
        });
    }
}
