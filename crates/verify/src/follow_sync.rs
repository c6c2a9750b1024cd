//! Following synchronisation objects, and waits for them.

use crate::follow::less;
use crate::shadow::sync::{Await, Awaited, Sync};
use crate::shadow::{Serial, Shadows};
use flight::{Event, Kind, Subject, What};

/// The most that fences have, of 64 bits and of 32.
pub(crate) const MOST: [u64; 2] = [u64::MAX, u32::MAX as u64];

impl Shadows {
    pub(crate) fn follow_sync(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::SyncCreated { device, kind, value, sharing, silent, deaf, stays } = &event.what
        {
            let low = kind == "monitored" && !silent && !stays && !MOST.contains(value);
            let sync = Sync {
                device: (*device).into(),
                kind: kind.clone(),
                value: *value,
                sharing: sharing.clone(),
                silent: *silent,
                deaf: *deaf,
                stays: *stays,
                global: None,
                names: 0,
                awaited: Vec::new(),
                broadcasts: Vec::new(),
            };
            self.start(subject, sync);
            return self
                .with_device(*device, |it| it.low.extend(low.then_some(Serial::of(subject))));
        }
        let Some(it) = self.sync_mut(subject) else { return };
        match &event.what {
            What::SyncSignalled { by, value, .. } => {
                it.value = *value;
                let come = it.broadcasts.iter().position(|it| it.1 == 0);
                if let Some(place) = come.filter(|_| by == "broadcast") {
                    it.broadcasts.remove(place);
                }
                let (awaited, device, kind) = (it.awaited.clone(), it.device, it.kind.clone());
                let low = kind == "monitored" && !it.silent && !it.stays && !MOST.contains(value);
                self.with_device(device, |it| {
                    it.low.retain(|it| *it != subject);
                    it.low.extend(low.then_some(Serial::of(subject)));
                });
                // A mutex or a semaphore is there for whoever takes it.
                if kind == "fence" || kind == "monitored" {
                    self.reached(subject, &awaited, *value);
                }
            }
            What::SyncReached { broadcast, left, .. } => {
                // A signal may name an object twice: then it counts twice.
                it.broadcasts.retain(|it| it.0 != *broadcast || it.1 == 0);
                it.broadcasts.push((*broadcast, *left));
            }
            What::SyncTaken { by, left } => {
                it.value = *left;
                if let Some(it) = self.awaiting_mut(*by) {
                    for mark in it.marks.iter_mut().filter(|it| it.0 == subject) {
                        mark.2 = true;
                    }
                }
            }
            What::SyncGone {} => {
                let device = it.device;
                self.end(subject);
                self.with_device(device, |it| it.low.retain(|it| *it != subject));
            }
            _ => (),
        }
    }

    /// A synchronisation object is given a local name or a global one, or loses a local one.
    pub(crate) fn sync_name(&mut self, process: Subject, what: &What) {
        let (of, given) = match what {
            What::NameGiven { to, .. } => (*to, true),
            What::NameClosed { of, .. } => (*of, false),
            What::NameShared { of, handle } => {
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
        let count = |it: &mut u32| if given { *it += 1 } else { less(it) };
        if let Some(it) = self.sync_mut(of) {
            count(&mut it.names);
        }
        self.with_process(Some(process), |it| count(&mut it.syncs));
    }

    pub(crate) fn follow_awaiting(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::AwaitBegun { who, form, any, .. } => {
                let (marks, set) = (Vec::new(), false);
                let it = Await { who: *who, form: form.clone(), any: *any, marks, set };
                self.start(subject, it);
                self.behind(event, *who, Some(subject.into()));
            }
            What::AwaitNamed { of, value } => {
                let met = if let Some(sync) = self.sync_mut(*of) {
                    sync.awaited.push((subject.into(), *value));
                    let counts = sync.kind == "fence" || sync.kind == "monitored";
                    counts && sync.value >= *value
                } else if let Some(queue) = self.queue_mut(*of) {
                    queue.awaited.push((subject.into(), *value));
                    queue.signalled >= *value
                } else {
                    false
                };
                if let Some(it) = self.awaiting_mut(subject) {
                    it.marks.push((*of, *value, met));
                }
            }
            What::AwaitPassed {} | What::AwaitDropped {} => {
                let Some(it) = self.awaiting_mut(subject) else { return };
                let (who, marks) = (it.who, std::mem::take(&mut it.marks));
                self.end(subject);
                for (of, ..) in marks {
                    let awaited = match of.kind {
                        Kind::Sync => self.sync_mut(of).map(|sync| &mut sync.awaited),
                        _ => self.queue_mut(of).map(|queue| &mut queue.awaited),
                    };
                    if let Some(awaited) = awaited {
                        awaited.retain(|(wait, _)| *wait != subject);
                    }
                }
                self.behind(event, who, None);
            }
            _ => (),
        }
    }

    /// A context or a thread stands behind a wait, or does no longer.
    fn behind(&mut self, event: &Event, who: Subject, wait: Option<Serial<Await>>) {
        let mine = |it: Option<Serial<Await>>| it.is_none_or(|it| it == event.subject);
        if let Some(context) = self.context_mut(who) {
            context.awaits = wait.map(|wait| (wait, context.sent));
        }
        let Some(process) = self.process_mut(who) else { return };
        if wait.is_none() {
            // Another thread than the one that waits may end a wait.
            for call in process.calls.iter_mut().filter(|call| mine(call.awaits)) {
                call.awaits = None;
            }
        } else if let Some(call) = process.call_mut(event.thread) {
            call.awaits = wait;
        }
    }

    /// Something has a value: waits for it have what they need, or not any more.
    pub(crate) fn reached(&mut self, of: Subject, awaited: &Awaited, value: u64) {
        for (wait, _) in awaited {
            let Some(it) = self.awaiting_mut(*wait) else { continue };
            for mark in it.marks.iter_mut().filter(|it| it.0 == of) {
                mark.2 = value >= mark.1;
            }
        }
    }

    /// An event is set for a wait.
    pub(crate) fn event_set(&mut self, by: Option<Subject>) {
        if let Some(it) = self.awaiting_mut(by) {
            it.set = true;
        }
    }
}
