//! Following what is in memory: resources, allocations, views, their ends, and words.
//!
//! An allocation counts its views, a resource its members and views, a retirement the views it
//! ends; a word knows what it stands for and which pool block has that address.

use crate::ddi;
use crate::follow::{Shadows, less};
use crate::shadow::memory::Memory;
use crate::shadow::{
    Allocation, Asked, Block, Data, Known, Resource, ResourceView, Retirement, Shadow, Stage, Use,
    View, Word,
};
use flight::{Event, Kind, Subject, What};

impl Shadows {
    pub(crate) fn resource(&mut self, event: &Event) {
        match &event.what {
            What::ResourceCreated { adapter, sharing, .. } => {
                let word = self.named(event.subject);
                let (live, told, told_in, views) = (0, 0, None, 0);
                let (adapter, global) = (*adapter, sharing == "global");
                let resource =
                    Resource { adapter, global, live, told, told_in, views, word, data: None };
                self.start(event.subject, Known::Resource(resource));
                self.with_adapter(adapter, |it| it.owned += 1);
            }
            What::ShareKept { runtime, total } => {
                if let Some(it) = self.get(event.subject).and_then(Shadow::resource_mut) {
                    it.data = Some(Data { runtime: *runtime, total: *total });
                }
            }
            What::ResourceGone {} => {
                let adapter = self.of(event.subject).resource().map(|it| it.adapter);
                self.end(event.subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| less(&mut it.owned));
                }
            }
            What::DdiResource { word, goes, .. } => {
                if *goes {
                    self.ends_in(event.call, *word);
                }
                self.with_word(*word, |it| {
                    if let Some(it) = it.use_mut(event.subject) {
                        it.ending |= goes;
                        it.lent_in = if *goes { None } else { event.call };
                    }
                });
            }
            _ => (),
        }
    }

    pub(crate) fn resource_view(&mut self, event: &Event) {
        if let What::ResourceViewOpened { resource, device } = event.what {
            let view = ResourceView { resource, device };
            self.start(event.subject, Known::ResourceView(view));
            self.with_resource(resource, |it| it.views += 1);
            return;
        }
        let shadow = self.get(event.subject).and_then(Shadow::resource_view_mut);
        let Some(&mut ResourceView { resource, .. }) = shadow else { return };
        match event.what {
            What::ResourceViewUnnamed { retirement, .. } => {
                self.with_retirement(retirement, |it| it.group_mut(resource).whole = true);
            }
            What::ResourceViewClosed {} => {
                self.end(event.subject);
                self.with_resource(resource, |it| less(&mut it.views));
            }
            _ => (),
        }
    }

    pub(crate) fn allocation(&mut self, event: &Event) {
        if let What::AllocationCreated { adapter, device: creator, resource, .. } = event.what {
            let word = self.named(event.subject);
            let (told, views, busy, held, ended_by, limit) = (None, 0, 0, 0, None, None);
            let memory = Memory::default();
            let allocation = Allocation {
                adapter,
                creator,
                memory,
                resource,
                word,
                told,
                views,
                busy,
                held,
                ended_by,
                limit,
            };
            self.start(event.subject, Known::Allocation(allocation));
            self.with_resource_of(resource, |it| it.live += 1);
            self.with_adapter(adapter, |it| it.owned += 1);
            return;
        }
        if self.memory(event) {
            return;
        }
        let shadow = self.get(event.subject).and_then(Shadow::allocation_mut);
        let Some(allocation) = shadow else { return };
        let (resource, word, told) = (allocation.resource, allocation.word, allocation.told);
        let (adapter, ended_by) = (allocation.adapter, allocation.ended_by);
        match event.what {
            What::AllocationGone {} => {
                self.end(event.subject);
                self.with_adapter(adapter, |it| less(&mut it.owned));
                if let Some(retirement) = ended_by {
                    self.with_retirement(retirement, |it| less(&mut it.orphans));
                }
                self.with_resource_of(resource, |it| {
                    less(&mut it.live);
                    if told == Some(it.told_in) {
                        less(&mut it.told);
                    }
                });
            }
            What::AllocationLimited { most } => allocation.limit = Some(most),
            What::HandleAcquired { .. } => allocation.held += 1,
            What::HandleReleased { .. } => less(&mut allocation.held),
            What::DdiDestroys { .. } if told.is_none() => {
                allocation.told = Some(event.call);
                self.with_resource_of(resource, |it| {
                    it.told = if it.told_in == event.call { it.told + 1 } else { 1 };
                    it.told_in = event.call;
                });
                if let Some(word) = word {
                    self.ends_in(event.call, word);
                    self.with_word(word, |it| {
                        if let Some(it) = it.use_mut(event.subject) {
                            it.ending = true;
                        }
                    });
                }
            }
            _ => (),
        }
    }

    pub(crate) fn view(&mut self, event: &Event) {
        if let What::ViewOpened { allocation, device, resource, .. } = event.what {
            let named = resource.and_then(|it| self.of(it).resource_view());
            let resource = named.map_or(resource, |it| Some(it.resource));
            let (stage, retirement, asked, told) = (Stage::Named, None, None, false);
            let known = self.of(allocation).allocation();
            let view = View {
                allocation,
                device,
                resource,
                stage,
                retirement,
                asked,
                told,
                word: None,
                creator: known.is_some_and(|it| it.creator == device),
                wanted: known.map(|it| it.memory.wanted).unwrap_or_default(),
                resident: 0,
                lock_asked: 0,
                clean: false,
                offered: 0,
                reclaimed: false,
                newest: allocation,
            };
            self.start(event.subject, Known::View(view));
            self.with_allocation(allocation, |it| {
                it.views += 1;
                it.busy += 1;
            });
            self.with_device(device, |it| it.views += 1);
            return;
        }
        if let What::DdiOpens { device, create: false, .. } = event.what {
            let call = event.call.and_then(|it| self.get(Kind::Call.nr(it)));
            if let Some(call) = call.and_then(Shadow::call_mut) {
                call.opens_for = Some(device);
            }
            return;
        }
        if let What::ViewUnnamed { retirement, .. } = event.what {
            return self.view_unnamed(event.subject, retirement);
        }
        if self.residency(event) {
            return;
        }
        let Some(view) = self.get(event.subject).and_then(Shadow::view_mut) else { return };
        match event.what {
            What::DdiCloses { .. } => view.told = true,
            What::HandleAcquired { .. } => {
                let allocation = view.allocation;
                self.with_allocation(allocation, |it| it.held += 1);
            }
            What::HandleReleased { .. } => {
                let allocation = view.allocation;
                self.with_allocation(allocation, |it| less(&mut it.held));
            }
            What::ViewIdle {} => self.view_idle(event.subject),
            What::ViewClosed {} => {
                let (allocation, device) = (view.allocation, view.device);
                let (retirement, resource) = (view.retirement, view.resource);
                let listed = view.resident > 0;
                self.view_idle(event.subject);
                if listed {
                    self.with_memory(allocation, |it| less(&mut it.listed));
                }
                self.end(event.subject);
                let mut orphan = 0;
                self.with_allocation(allocation, |it| {
                    less(&mut it.views);
                    if it.views == 0 {
                        (it.ended_by, orphan) = (retirement, 1);
                    }
                });
                self.with_device(device, |it| less(&mut it.views));
                let Some(retirement) = retirement else { return };
                self.with_retirement(retirement, |it| {
                    it.closed += 1;
                    it.orphans += orphan;
                    if let Some(resource) = resource {
                        less(&mut it.group_mut(resource).open);
                    }
                });
            }
            _ => (),
        }
    }

    fn view_unnamed(&mut self, subject: Subject, retirement: Subject) {
        let asked = self.of(retirement).retirement().map(|it| it.asked);
        let Some(view) = self.get(subject).and_then(Shadow::view_mut) else { return };
        if view.stage != Stage::Named {
            return;
        }
        (view.stage, view.retirement, view.asked) = (Stage::Unnamed, Some(retirement), asked);
        let (device, resource) = (view.device, view.resource);
        if asked.is_some_and(|it| it.assume) {
            self.with_device(device, |it| it.hasty += 1);
        }
        if let Some(resource) = resource {
            self.with_retirement(retirement, |it| it.group_mut(resource).open += 1);
        }
    }

    /// The view is in nobody's way any more, if it still was.
    fn view_idle(&mut self, subject: Subject) {
        let Some(view) = self.get(subject).and_then(Shadow::view_mut) else { return };
        let before = std::mem::replace(&mut view.stage, Stage::Idle);
        let (allocation, device, asked) = (view.allocation, view.device, view.asked);
        if before != Stage::Idle {
            self.with_allocation(allocation, |it| less(&mut it.busy));
        }
        if before == Stage::Unnamed && asked.is_some_and(|it| it.assume) {
            self.with_device(device, |it| less(&mut it.hasty));
        }
    }

    pub(crate) fn retirement(&mut self, event: &Event) {
        if let What::RetireAsked { views, assume, sync, .. } = event.what {
            let asked = Asked { seq: event.seq, assume, sync };
            let (closed, orphans, groups) = (0, 0, Vec::new());
            let (done, answered) = (false, false);
            let retirement = Retirement { asked, views, closed, groups, orphans, done, answered };
            return self.start(event.subject, Known::Retirement(retirement));
        }
        let Some(it) = self.get(event.subject).and_then(Shadow::retirement_mut) else { return };
        match event.what {
            What::RetireDone {} => it.done = true,
            What::RetireAnswered { .. } => it.answered = true,
            _ => (),
        }
        // Nobody has to answer for one that nobody waits for.
        if it.done && (it.answered || !it.asked.sync) {
            self.end(event.subject);
        }
    }

    pub(crate) fn word(&mut self, event: &Event) {
        let subject = event.subject;
        let call = event.call.map(|it| Kind::Call.nr(it));
        match &event.what {
            // The null word stands for nothing.
            _ if subject.number == 0 => (),
            What::PoolTaken { bytes, tag } => {
                let (bytes, taken_in) = (*bytes, event.call);
                let name = call.and_then(|it| Some(&self.of(it).call()?.name));
                let added = name.is_some_and(|it| it == ddi::ADD_DEVICE);
                let (tag_of, freed, leaked) = (tag.clone(), None, false);
                let block = Some(Block { bytes, tag: tag_of, taken_in, added, freed, leaked });
                self.start(subject, Known::Word(Word { block, ..Word::default() }));
                if let Some(call) = call.and_then(|it| self.get(it)?.call_mut()) {
                    call.blocks.push((subject, bytes, tag.clone()));
                }
            }
            What::PoolFreed {} => {
                let name = call.and_then(|it| Some(self.of(it).call()?.name.clone()));
                let Some(word) = self.get(subject).and_then(Shadow::word_mut) else { return };
                let Some(block) = &mut word.block else { return };
                block.freed = Some(name.unwrap_or("ExFreePoolWithTag".into()));
                let taken_in = block.taken_in.map(|it| Kind::Call.nr(it));
                if let Some(call) = taken_in.and_then(|it| self.get(it)?.call_mut()) {
                    call.blocks.retain(|(it, ..)| *it != subject);
                }
            }
            // It is named with the stop.
            What::PoolKept {} => self.with_word(subject, Word::leak),
            What::WordGiven { to } => self.word_given(subject, *to),
            What::WordEnded { of, .. } => {
                let Some(word) = self.get(subject).and_then(Shadow::word_mut) else { return };
                // A view has no rule of its own that would name its block.
                if of.kind != Kind::View {
                    word.leak();
                }
                word.uses.retain(|it| it.of != *of);
                if word.uses.is_empty() && word.block.is_none() {
                    self.end(subject);
                }
                if matches!(self.of(*of).known, Known::Named(_)) {
                    self.end(*of);
                }
                self.with_adapter(*of, |it| it.word = None);
            }
            _ => (),
        }
    }

    fn word_given(&mut self, subject: Subject, to: Subject) {
        let shadow = self.first(subject, || Known::Word(Word::default()));
        let Some(word) = shadow.word_mut() else { return };
        if word.uses.is_empty() && word.freed().is_some() {
            // The block has left: this is another word that took over its number.
            *word = Word::default();
        }
        if word.use_mut(to).is_none() {
            word.uses.push(Use { of: to, ending: false, lent_in: None });
        }
        if to.kind == Kind::Allocation {
            word.allocation = Some(to);
        }
        let before = match self.get(to).map(|it| &mut it.known) {
            Some(Known::Allocation(it)) => it.word.replace(subject),
            Some(Known::Resource(it)) => it.word.replace(subject),
            Some(Known::View(it)) => it.word.replace(subject),
            // One word for an adapter, for all its life.
            Some(Known::Adapter(it)) => {
                it.word = Some(subject);
                None
            }
            None if matches!(to.kind, Kind::Allocation | Kind::Resource) => {
                self.start(to, Known::Named(subject));
                None
            }
            _ => None,
        };
        if let Some(before) = before.filter(|it| *it != subject) {
            self.with_word(before, |it| it.uses.retain(|it| it.of != to));
        }
    }

    /// A call ends what a word stands for.
    fn ends_in(&mut self, call: Option<u32>, word: Subject) {
        let shadow = call.and_then(|it| self.get(Kind::Call.nr(it)));
        if let Some(call) = shadow.and_then(Shadow::call_mut) {
            call.ends.push(word);
        }
    }

    /// The word that was given for something before it was said to exist.
    fn named(&self, subject: Subject) -> Option<Subject> {
        match self.of(subject).known {
            Known::Named(word) => Some(word),
            _ => None,
        }
    }
}
