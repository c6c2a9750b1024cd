//! Following what is in memory: resources, allocations, views, their ends, and words.
//!
//! An allocation counts its views, a resource its members and views, a retirement the views it
//! ends; a word knows what it stands for and which pool block has that address.

use crate::ddi;
use crate::follow::less;
use crate::shadow::memory::Memory;
use crate::shadow::{
    Allocation, Asked, Block, Data, Resource, ResourceView, Retirement, Stage, Use, View, Word,
};
use crate::shadow::{Key, Serial, Shadows, call_of};
use flight::{Event, Kind, Subject, What};

impl Shadows {
    pub(crate) fn follow_resource(&mut self, event: &Event) {
        match &event.what {
            What::ResourceCreated { adapter, sharing, .. } => {
                let word = self.early_words.get(&event.subject).copied();
                let (live, told, told_in, views) = (0, 0, None, 0);
                let (adapter, global) = (*adapter, sharing == "global");
                let resource = Resource {
                    adapter: adapter.into(),
                    global,
                    live,
                    told,
                    told_in,
                    views,
                    word,
                    data: None,
                };
                self.start(event.subject, resource);
                self.with_adapter(adapter, |it| it.owned += 1);
            }
            What::ShareKept { runtime, total } => {
                if let Some(it) = self.resource_mut(event.subject) {
                    it.data = Some(Data { runtime: *runtime, total: *total });
                }
            }
            What::ResourceGone {} => {
                let adapter = self.resource(event.subject).map(|it| it.adapter);
                self.end(event.subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| less(&mut it.owned));
                }
            }
            What::DdiResource { word, goes, .. } => {
                if *goes {
                    self.ends_in(event, (*word).into());
                }
                self.with_word(*word, |it| {
                    if let Some(it) = it.use_mut(event.subject) {
                        it.ending |= goes;
                        it.lent_in = if *goes { None } else { call_of(event) };
                    }
                });
            }
            _ => (),
        }
    }

    pub(crate) fn follow_resource_view(&mut self, event: &Event) {
        if let What::ResourceViewOpened { resource, device } = event.what {
            let view = ResourceView { resource: resource.into(), device: device.into() };
            self.start(event.subject, view);
            self.with_resource(resource, |it| it.views += 1);
            return;
        }
        let shadow = self.resource_view_mut(event.subject);
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

    pub(crate) fn follow_allocation(&mut self, event: &Event) {
        if let What::AllocationCreated { adapter, device: creator, resource, .. } = event.what {
            let word = self.early_words.get(&event.subject).copied();
            let (told, views, busy, held, ended_by, limit) = (None, 0, 0, 0, None, None);
            let memory = Memory::default();
            let allocation = Allocation {
                adapter: adapter.into(),
                creator: creator.into(),
                memory,
                resource: resource.map(Serial::from),
                word,
                told,
                views,
                busy,
                held,
                ended_by,
                limit,
            };
            self.start(event.subject, allocation);
            self.with_resource(resource, |it| it.live += 1);
            self.with_adapter(adapter, |it| it.owned += 1);
            return;
        }
        if self.follow_memory(event) {
            return;
        }
        let shadow = self.allocation_mut(event.subject);
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
                self.with_resource(resource, |it| {
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
                allocation.told = Some(call_of(event));
                self.with_resource(resource, |it| {
                    it.told = if it.told_in == call_of(event) { it.told + 1 } else { 1 };
                    it.told_in = call_of(event);
                });
                if let Some(word) = word {
                    self.ends_in(event, word);
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

    pub(crate) fn follow_view(&mut self, event: &Event) {
        if let What::ViewOpened { allocation, device, resource, .. } = event.what {
            // The event names the device's view of the resource, or the resource itself.
            let named = self.resource_view(resource).map(|view| view.resource);
            let resource = named.or_else(|| resource.serial());
            let (stage, retirement, asked, told) = (Stage::Named, None, None, false);
            let known = self.allocation(allocation);
            let view = View {
                allocation: allocation.into(),
                device: device.into(),
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
            self.start(event.subject, view);
            self.with_allocation(allocation, |it| {
                it.views += 1;
                it.busy += 1;
            });
            self.with_device(device, |it| it.views += 1);
            return;
        }
        if let What::DdiOpens { device, create: false, .. } = event.what {
            if let Some(call) = self.call_of_mut(event) {
                call.opens_for = Some(device.into());
            }
            return;
        }
        if let What::ViewUnnamed { retirement, .. } = event.what {
            return self.view_unnamed(event.subject, retirement.into());
        }
        if self.follow_residency(event) {
            return;
        }
        let Some(view) = self.view_mut(event.subject) else { return };
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

    fn view_unnamed(&mut self, subject: Subject, retirement: Serial<Retirement>) {
        let asked = self.retirement(retirement).map(|it| it.asked);
        let Some(view) = self.view_mut(subject) else { return };
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
        let Some(view) = self.view_mut(subject) else { return };
        let before = std::mem::replace(&mut view.stage, Stage::Idle);
        let (allocation, device, asked) = (view.allocation, view.device, view.asked);
        if before != Stage::Idle {
            self.with_allocation(allocation, |it| less(&mut it.busy));
        }
        if before == Stage::Unnamed && asked.is_some_and(|it| it.assume) {
            self.with_device(device, |it| less(&mut it.hasty));
        }
    }

    pub(crate) fn follow_retirement(&mut self, event: &Event) {
        if let What::RetireAsked { views, assume, sync, .. } = event.what {
            let asked = Asked { seq: event.seq, assume, sync };
            let (closed, orphans, groups) = (0, 0, Vec::new());
            let (done, answered) = (false, false);
            let retirement = Retirement { asked, views, closed, groups, orphans, done, answered };
            return self.start(event.subject, retirement);
        }
        let Some(it) = self.retirement_mut(event.subject) else { return };
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

    pub(crate) fn follow_word(&mut self, event: &Event) {
        let subject = event.subject;
        let call = call_of(event);
        match &event.what {
            // The null word stands for nothing.
            _ if subject.number == 0 => (),
            What::PoolTaken { bytes, tag } => {
                let (bytes, taken_in) = (*bytes, call_of(event));
                let name = call.and_then(|it| Some(&self.call(it)?.name));
                let added = name.is_some_and(|it| it == ddi::ADD_DEVICE);
                let (tag_of, freed, leaked) = (tag.clone(), None, false);
                let block = Some(Block { bytes, tag: tag_of, taken_in, added, freed, leaked });
                self.start(subject, Word { block, ..Word::default() });
                if let Some(call) = self.call_mut(call) {
                    call.blocks.push((subject.into(), bytes, tag.clone()));
                }
            }
            What::PoolFreed {} => {
                let name = call.and_then(|it| Some(self.call(it)?.name.clone()));
                let Some(word) = self.word_mut(subject) else { return };
                let Some(block) = &mut word.block else { return };
                block.freed = Some(name.unwrap_or("ExFreePoolWithTag".into()));
                let taken_in = block.taken_in;
                if let Some(call) = self.call_mut(taken_in) {
                    call.blocks.retain(|(it, ..)| *it != subject);
                }
            }
            // It is named with the stop.
            What::PoolKept {} => self.with_word(subject, Word::leak),
            What::WordGiven { to } => self.word_given(subject.into(), *to),
            What::WordEnded { of, .. } => {
                let Some(word) = self.word_mut(subject) else { return };
                // A view has no rule of its own that would name its block.
                if of.kind != Kind::View {
                    word.leak();
                }
                word.uses.retain(|it| it.of != *of);
                if word.uses.is_empty() && word.block.is_none() {
                    self.end(subject);
                }
                self.early_words.remove(of);
                self.with_adapter(*of, |it| it.word = None);
            }
            _ => (),
        }
    }

    fn word_given(&mut self, subject: Serial<Word>, to: Subject) {
        let Some(word) = self.first::<Word>(subject) else { return };
        if word.uses.is_empty() && word.freed().is_some() {
            // The block has left: this is another word that took over its number.
            *word = Word::default();
        }
        if word.use_mut(to).is_none() {
            word.uses.push(Use { of: to, ending: false, lent_in: None });
        }
        if to.kind == Kind::Allocation {
            word.allocation = Some(to.into());
        }
        let known = match to.kind {
            Kind::Allocation => self.allocation_mut(to).map(|allocation| &mut allocation.word),
            Kind::Resource => self.resource_mut(to).map(|resource| &mut resource.word),
            Kind::View => self.view_mut(to).map(|view| &mut view.word),
            _ => None,
        };
        let before = match known {
            Some(word) => word.replace(subject),
            None if matches!(to.kind, Kind::Allocation | Kind::Resource) => {
                self.early_words.entry(to).or_insert(subject);
                None
            }
            None => None,
        };
        // An adapter keeps its one pointer for all its life.
        self.with_adapter(to, |adapter| adapter.word = Some(subject));
        if let Some(before) = before.filter(|it| *it != subject) {
            self.with_word(before, |it| it.uses.retain(|it| it.of != to));
        }
    }

    /// A call ends what a word stands for.
    fn ends_in(&mut self, event: &Event, word: Serial<Word>) {
        if let Some(call) = self.call_of_mut(event) {
            call.ends.push(word);
        }
    }
}
