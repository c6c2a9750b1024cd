//! Following synchronisation objects, and waits for them.

use crate::follow::decrement;
use crate::shadow::sync::{GpuWait, SyncObject, WaitList};
use crate::shadow::{Serial, Shadows};
use flight::{Event, EventKind, Kind, Subject};

/// The maximum fence values, of 64 bits and of 32.
pub(crate) const MAX_VALUES: [u64; 2] = [u64::MAX, u32::MAX as u64];

impl Shadows {
    pub(crate) fn follow_sync(&mut self, event: &Event) {
        let subject = event.subject;
        if let EventKind::SyncCreated {
            device,
            kind,
            value,
            sharing,
            no_signal: silent,
            no_wait: deaf,
            no_tdr_signal: stays,
        } = &event.kind
        {
            let low = kind == "monitored" && !silent && !stays && !MAX_VALUES.contains(value);
            let sync = SyncObject {
                device: (*device).into(),
                kind: kind.clone(),
                value: *value,
                sharing: sharing.clone(),
                first_handle: None,
                no_signal: *silent,
                no_wait: *deaf,
                no_tdr_signal: *stays,
                restricted: Vec::new(),
                global: None,
                handles: 0,
                waits: Vec::new(),
                broadcasts: Vec::new(),
            };
            self.start(subject, sync);
            return self.with_device(*device, |device| {
                device.low.extend(low.then_some(Serial::of(subject)));
            });
        }
        let Some(it) = self.sync_mut(subject) else { return };
        match &event.kind {
            EventKind::SyncSignalled { by, value, .. } => {
                it.value = *value;
                let come = it.broadcasts.iter().position(|pair| pair.1 == 0);
                if let Some(place) = come.filter(|_| by == "broadcast") {
                    it.broadcasts.remove(place);
                }
                let (awaited, device, kind) = (it.waits.clone(), it.device, it.kind.clone());
                let low = kind == "monitored"
                    && !it.no_signal
                    && !it.no_tdr_signal
                    && !MAX_VALUES.contains(value);
                self.with_device(device, |device| {
                    device.low.retain(|serial| *serial != subject);
                    device.low.extend(low.then_some(Serial::of(subject)));
                });
                // Any waiter can take a mutex or a semaphore.
                if kind == "fence" || kind == "monitored" {
                    self.update_waits(subject, &awaited, *value);
                }
            }
            EventKind::SyncRestricted { process, handle, no_signal, no_wait } => {
                it.restricted.push((*process, *handle, *no_signal, *no_wait));
            }
            EventKind::SyncReached { broadcast, remaining: left, .. } => {
                // A signal may name an object twice: then it counts twice.
                it.broadcasts.retain(|pair| pair.0 != *broadcast || pair.1 == 0);
                it.broadcasts.push((*broadcast, *left));
            }
            EventKind::SyncAcquired { by, remaining: left } => {
                it.value = *left;
                if let Some(it) = self.gpu_wait_mut(*by) {
                    for mark in it.points.iter_mut().filter(|entry| entry.0 == subject) {
                        mark.2 = true;
                    }
                }
            }
            EventKind::SyncDestroyed {} => {
                let device = it.device;
                self.end(subject);
                self.with_device(device, |device| device.low.retain(|serial| *serial != subject));
            }
            _ => (),
        }
    }

    /// A local or global handle of a synchronisation object is published, or a local one is closed.
    pub(crate) fn count_sync_handle(&mut self, process: Subject, what: &EventKind) {
        let (of, given) = match what {
            EventKind::HandlePublished { of: to, .. } => (*to, true),
            EventKind::HandleClosed { of, .. } => (*of, false),
            EventKind::HandleShared { of, handle } => {
                if let Some(it) = self.sync_mut(*of) {
                    it.global = Some(*handle);
                }
                return;
            }
            _ => return,
        };
        if of.kind != Kind::Sync {
            return;
        }
        let count = |number: &mut u32| if given { *number += 1 } else { decrement(number) };
        if let Some(it) = self.sync_mut(of) {
            count(&mut it.handles);
            match what {
                EventKind::HandlePublished { handle, .. } => {
                    it.first_handle.get_or_insert((process, *handle));
                }
                EventKind::HandleClosed { handle, .. } => {
                    it.restricted.retain(|other| (other.0, other.1) != (process, *handle));
                }
                _ => (),
            }
        }
        self.with_process(Some(process), |it| count(&mut it.sync_handles));
    }

    pub(crate) fn follow_awaiting(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.kind {
            EventKind::GpuWaitStarted { waiter: component, waiter_kind, any, .. } => {
                let (points, set) = (Vec::new(), false);
                let it = GpuWait {
                    waiter: *component,
                    waiter_kind: waiter_kind.clone(),
                    any: *any,
                    points,
                    set,
                };
                self.start(subject, it);
                self.order_after_wait(event, *component, Some(subject.into()));
            }
            EventKind::GpuWaitObject { of, value } => {
                let met = if let Some(sync) = self.sync_mut(*of) {
                    sync.waits.push((subject.into(), *value));
                    let counts = sync.kind == "fence" || sync.kind == "monitored";
                    counts && sync.value >= *value
                } else if let Some(queue) = self.paging_queue_mut(*of) {
                    queue.waits.push((subject.into(), *value));
                    queue.signalled >= *value
                } else {
                    false
                };
                if let Some(it) = self.gpu_wait_mut(subject) {
                    it.points.push((*of, *value, met));
                }
            }
            EventKind::GpuWaitReleased { of } => {
                let Some(it) = self.gpu_wait_mut(subject) else { return };
                for point in it.points.iter_mut().filter(|point| point.0 == *of) {
                    point.2 = true;
                }
                if let Some(sync) = self.sync_mut(*of) {
                    sync.waits.retain(|(wait, _)| *wait != subject);
                }
            }
            EventKind::GpuWaitSatisfied {} | EventKind::GpuWaitCancelled {} => {
                let Some(it) = self.gpu_wait_mut(subject) else { return };
                let (component, points) = (it.waiter, std::mem::take(&mut it.points));
                self.end(subject);
                for (of, ..) in points {
                    let awaited = match of.kind {
                        Kind::Sync => self.sync_mut(of).map(|sync| &mut sync.waits),
                        _ => self.paging_queue_mut(of).map(|queue| &mut queue.waits),
                    };
                    if let Some(awaited) = awaited {
                        awaited.retain(|(wait, _)| *wait != subject);
                    }
                }
                self.order_after_wait(event, component, None);
            }
            _ => (),
        }
    }

    /// A context or a thread starts or stops waiting.
    fn order_after_wait(
        &mut self,
        event: &Event,
        component: Subject,
        wait: Option<Serial<GpuWait>>,
    ) {
        let mine = |it: Option<Serial<GpuWait>>| it.is_none_or(|serial| serial == event.subject);
        if let Some(context) = self.context_mut(component) {
            context.gpu_wait = wait.map(|wait| (wait, context.sent));
        }
        let Some(process) = self.process_mut(component) else { return };
        if wait.is_none() {
            // Another thread than the one that waits may end a wait.
            for call in process.calls.iter_mut().filter(|call| mine(call.gpu_wait)) {
                call.gpu_wait = None;
            }
        } else if let Some(call) = process.call_mut(event.thread) {
            call.gpu_wait = wait;
        }
    }

    /// An object has a new value: waits for it are satisfied, or not any more.
    pub(crate) fn update_waits(&mut self, of: Subject, awaited: &WaitList, value: u64) {
        for (wait, _) in awaited {
            let Some(it) = self.gpu_wait_mut(*wait) else { continue };
            for mark in it.points.iter_mut().filter(|entry| entry.0 == of) {
                mark.2 = value >= mark.1;
            }
        }
    }

    /// An event is set for a wait.
    pub(crate) fn mark_event_set(&mut self, by: Option<Subject>) {
        if let Some(it) = self.gpu_wait_mut(by) {
            it.set = true;
        }
    }
}
