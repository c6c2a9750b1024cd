//! Following what drivers keep for their contexts: whose it is, whether it is where engines can
//! save into it, and which nodes may.

use crate::follow::{Shadows, less};
use crate::shadow::memory::{Memory, Saved, Saves};
use crate::shadow::{Context, Device, Known, Shadow};
use flight::{Event, Subject, What};
use smallvec::SmallVec;

impl Shadows {
    pub(crate) fn saved(&mut self, event: &Event) {
        let subject = event.subject;
        match event.what {
            What::SavedCreated { adapter, device, context, word, .. } => {
                let on = self.nodes_with(adapter, device, context);
                for node in &on {
                    if let Some(it) = self.get(*node).and_then(Shadow::node_mut) {
                        it.saves.push(subject);
                    }
                }
                let saved = Saved {
                    device,
                    context,
                    word,
                    memory: Memory::default(),
                    initialised: false,
                    ready: false,
                    updating: None,
                    counts: true,
                    on,
                };
                self.start(subject, Known::Saved(saved));
                self.with_saves(device, context, |it| {
                    it.all.push(subject);
                    (it.unready, it.blank) = (it.unready + 1, it.blank + 1);
                });
            }
            What::SavedFreed { .. } => {
                let Some(it) = self.get(subject).and_then(Shadow::saved_mut) else { return };
                it.counts = false;
                let (device, context) = (it.device, it.context);
                let (ready, initialised) = (it.ready, it.initialised);
                self.with_saves(device, context, |it| {
                    it.all.retain(|it| *it != subject);
                    it.unready = it.unready.saturating_sub(u32::from(!ready));
                    it.blank = it.blank.saturating_sub(u32::from(!initialised));
                });
            }
            What::SavedUpdating { given } => {
                if let Some(it) = self.get(subject).and_then(Shadow::saved_mut) {
                    it.updating = Some(given);
                }
            }
            What::SavedGone {} => self.end(subject),
            _ => {
                self.memory(event);
                self.weigh(subject);
            }
        }
    }

    /// Counts an allocation of a context anew, for its owner.
    pub(crate) fn weigh(&mut self, subject: Subject) {
        let Some(it) = self.get(subject).and_then(Shadow::saved_mut) else { return };
        let place = it.memory.placed.map(|it| it.segment);
        let ready = it.initialised && place.is_some() && place == it.memory.there;
        let before = std::mem::replace(&mut it.ready, ready);
        let (device, context) = (it.device, it.context);
        if !it.counts {
            return;
        }
        let all = self.saves(context.unwrap_or(device)).map(|it| it.all.as_slice());
        let is_blank = |it: &&Subject| self.of(**it).saved().is_some_and(|it| !it.initialised);
        let blank = all.unwrap_or_default().iter().filter(is_blank).count();
        self.with_saves(device, context, |it| {
            it.blank = u32::try_from(blank).unwrap_or(u32::MAX);
            match (before, ready) {
                (false, true) => less(&mut it.unready),
                (true, false) => it.unready += 1,
                _ => (),
            }
        });
    }

    fn with_saves(
        &mut self,
        device: Subject,
        context: Option<Subject>,
        change: impl FnOnce(&mut Saves),
    ) {
        let owner = context.unwrap_or(device);
        let shadow = self.first(owner, || Known::Early(Saves::default()));
        let saves = match &mut shadow.known {
            Known::Context(it) => &mut it.saves,
            Known::Device(it) => &mut it.saves,
            Known::Early(it) => it,
            _ => return,
        };
        change(saves);
        if matches!(&shadow.known, Known::Early(it) if it.all.is_empty()) {
            self.end(owner);
        }
    }

    /// What a driver keeps for an owner that is said to exist only now.
    pub(crate) fn early_saves(&mut self, owner: Subject) -> Saves {
        match self.get(owner).map(|it| &mut it.known) {
            Some(Known::Early(it)) => std::mem::take(it),
            _ => Saves::default(),
        }
    }

    /// The allocations a driver keeps for an owner.
    fn saves(&self, owner: Subject) -> Option<&Saves> {
        match &self.of(owner).known {
            Known::Context(it) => Some(&it.saves),
            Known::Device(it) => Some(&it.saves),
            Known::Early(it) => Some(it),
            _ => None,
        }
    }

    /// The nodes of an adapter on which a context is current: that one, or any of the device.
    fn nodes_with(
        &self,
        adapter: Subject,
        device: Subject,
        context: Option<Subject>,
    ) -> SmallVec<[Subject; 2]> {
        let nodes = self.of(adapter).adapter().map(|it| it.nodes.as_slice()).unwrap_or_default();
        let saves = |it: &&Subject| {
            let current = self.of(**it).node().and_then(|it| it.current);
            let of = |it: Subject| self.of(it).context().map(|it| it.device);
            match context {
                Some(_) => current == context,
                None => current.and_then(of) == Some(device),
            }
        };
        nodes.iter().filter(saves).copied().collect()
    }

    /// A node has another context current: what that one saves into is in use there.
    pub(crate) fn node_switched(&mut self, node: Subject, to: Option<Subject>) {
        let Some(it) = self.get(node).and_then(Shadow::node_mut) else { return };
        it.current = to;
        let left = std::mem::take(&mut it.saves);
        for saved in left {
            if let Some(it) = self.get(saved).and_then(Shadow::saved_mut) {
                it.on.retain(|it| *it != node);
            }
        }
        let context = to.and_then(|it| self.of(it).context());
        let Some(Context { device, saves, .. }) = context else { return };
        let shared = self.of(*device).device().map(|Device { saves, .. }| &saves.all);
        let all: Vec<Subject> =
            saves.all.iter().chain(shared.into_iter().flatten()).copied().collect();
        for saved in &all {
            if let Some(it) = self.get(*saved).and_then(Shadow::saved_mut) {
                it.on.push(node);
            }
        }
        if let Some(it) = self.get(node).and_then(Shadow::node_mut) {
            it.saves = all;
        }
    }
}
