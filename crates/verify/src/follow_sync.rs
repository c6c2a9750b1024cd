//! Following synchronisation objects, and waits for them.

use crate::follow::{Shadows, less};
use crate::shadow::sync::{Await, Awaited, Sync};
use crate::shadow::{Known, Shadow};
use flight::{Event, Kind, Subject, What};

/// The most that fences have, of 64 bits and of 32.
pub(crate) const MOST: [u64; 2] = [u64::MAX, u32::MAX as u64];

impl Shadows {
    pub(crate) fn sync(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::SyncCreated { device, kind, value, sharing, silent, deaf, stays } = &event.what
        {
            let low = kind == "monitored" && !silent && !stays && !MOST.contains(value);
            let sync = Sync {
                device: *device,
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
            self.start(subject, Known::Sync(sync));
            return self.with_device(*device, |it| it.low.extend(low.then_some(subject)));
        }
        let Some(it) = self.get(subject).and_then(Shadow::sync_mut) else { return };
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
                    it.low.extend(low.then_some(subject));
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
                if let Some(it) = self.get(*by).and_then(Shadow::awaiting_mut) {
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
                if let Some(it) = self.get(*of).and_then(Shadow::sync_mut) {
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
        if let Some(it) = self.get(of).and_then(Shadow::sync_mut) {
            count(&mut it.names);
        }
        self.with_process(Some(process), |it| count(&mut it.syncs));
    }

    pub(crate) fn awaiting(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::AwaitBegun { who, form, any, .. } => {
                let (marks, set) = (Vec::new(), false);
                let it = Await { who: *who, form: form.clone(), any: *any, marks, set };
                self.start(subject, Known::Await(it));
                self.behind(event, *who, Some(subject));
            }
            What::AwaitNamed { of, value } => {
                let met = match self.get(*of).map(|it| &mut it.known) {
                    Some(Known::Sync(it)) => {
                        it.awaited.push((subject, *value));
                        (it.kind == "fence" || it.kind == "monitored") && it.value >= *value
                    }
                    Some(Known::Queue(it)) => {
                        it.awaited.push((subject, *value));
                        it.signalled >= *value
                    }
                    _ => false,
                };
                if let Some(it) = self.get(subject).and_then(Shadow::awaiting_mut) {
                    it.marks.push((*of, *value, met));
                }
            }
            What::AwaitPassed {} | What::AwaitDropped {} => {
                let Some(it) = self.get(subject).and_then(Shadow::awaiting_mut) else { return };
                let (who, marks) = (it.who, std::mem::take(&mut it.marks));
                self.end(subject);
                for (of, ..) in marks {
                    match self.get(of).map(|it| &mut it.known) {
                        Some(Known::Sync(it)) => it.awaited.retain(|it| it.0 != subject),
                        Some(Known::Queue(it)) => it.awaited.retain(|it| it.0 != subject),
                        _ => (),
                    }
                }
                self.behind(event, who, None);
            }
            _ => (),
        }
    }

    /// A context or a thread stands behind a wait, or does no longer.
    fn behind(&mut self, event: &Event, who: Subject, wait: Option<Subject>) {
        let mine = |it: Option<Subject>| it.is_none_or(|it| it == event.subject);
        match self.get(who).map(|it| &mut it.known) {
            Some(Known::Context(it)) => it.awaits = wait.map(|wait| (wait, it.sent)),
            // Whoever ends a wait may be another thread than the one that waits.
            Some(Known::Process(it)) if wait.is_none() => {
                for call in it.calls.iter_mut().filter(|it| mine(it.awaits)) {
                    call.awaits = None;
                }
            }
            Some(Known::Process(it)) => {
                if let Some(call) = it.call_mut(event.thread) {
                    call.awaits = wait;
                }
            }
            _ => (),
        }
    }

    /// Something has a value: waits for it have what they need, or not any more.
    pub(crate) fn reached(&mut self, of: Subject, awaited: &Awaited, value: u64) {
        for (wait, _) in awaited {
            let Some(it) = self.get(*wait).and_then(Shadow::awaiting_mut) else { continue };
            for mark in it.marks.iter_mut().filter(|it| it.0 == of) {
                mark.2 = value >= mark.1;
            }
        }
    }

    /// An event is set for a wait.
    pub(crate) fn event_set(&mut self, by: Option<Subject>) {
        if let Some(it) = by.and_then(|it| self.get(it)?.awaiting_mut()) {
            it.set = true;
        }
    }
}
