//! Following streaming: devices, filters, pins, allocators, frames.

use crate::follow::{Shadows, less};
use crate::shadow::stream::{
    Allocator, Bag, Filter, Frame, KsCall, KsDevice, Pin, StreamPointer,
};
use crate::shadow::{Known, Shadow};
use flight::{Event, Subject, What};

/// The entries that make a filter or a pin.
const MAKES: [&str; 2] = ["AVStrMiniFilterCreate", "AVStrMiniPinCreate"];

impl Shadows {
    pub(crate) fn ks_device(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::KsAdded { .. } = event.what {
            return self.start(subject, Known::KsDevice(KsDevice::default()));
        }
        let Some(it) = self.get(subject).and_then(Shadow::ks_device_mut) else { return };
        bag(&mut it.bag, &event.what);
        match event.what {
            What::KsStarted {} => it.started = true,
            // Whoever was about to open a filter of one that is pulled out has opened it.
            What::KsStopped {} => it.started = false,
            What::KsRemoved {} => self.end(subject),
            _ => (),
        }
    }

    pub(crate) fn filter(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::FilterCreated { device, .. } = event.what {
            let first = self.first(subject, || Known::Filter(Filter::default()));
            if let Some(it) = first.filter_mut() {
                it.device = Some(device);
            }
            if let Some(it) = self.get(device).and_then(Shadow::ks_device_mut) {
                it.filters += 1;
            }
            return;
        }
        let Some(it) = self.get(subject).and_then(Shadow::filter_mut) else { return };
        bag(&mut it.bag, &event.what);
        if let What::FilterClosed {} = event.what {
            let device = it.device;
            self.end(subject);
            let device = device.and_then(|it| self.get(it));
            if let Some(it) = device.and_then(Shadow::ks_device_mut) {
                less(&mut it.filters);
            }
        }
    }

    pub(crate) fn pin(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::PinCreated { filter, factory, standard, dispatch, .. } = event.what {
            let first = self.first(subject, || Known::Pin(Pin::default()));
            if let Some(it) = first.pin_mut() {
                let bag = std::mem::take(&mut it.bag);
                let (created, filter) = (true, Some(filter));
                *it = Pin { created, filter, factory, standard, dispatch, bag, ..Pin::default() };
            }
            if let Some(it) = self.get(filter).and_then(Shadow::filter_mut) {
                it.pins.push(factory);
            }
            return;
        }
        let Some(it) = self.get(subject).and_then(Shadow::pin_mut) else { return };
        bag(&mut it.bag, &event.what);
        match &event.what {
            What::PinWanted { to, .. } => it.client = Some(to.clone()),
            What::PinRefused { from, .. } => it.client = Some(from.clone()),
            What::PinState { to, .. } => it.state = to.clone(),
            What::PinClosed {} => self.pin_gone(subject),
            _ => (),
        }
    }

    fn pin_gone(&mut self, subject: Subject) {
        let Some(it) = self.get(subject).and_then(Shadow::pin_mut) else { return };
        let (filter, factory) = (it.filter, it.factory);
        let allocators = std::mem::take(&mut it.allocators);
        self.end(subject);
        for allocator in allocators {
            self.end(allocator);
        }
        if let Some(it) = filter.and_then(|it| self.get(it)).and_then(Shadow::filter_mut)
            && let Some(at) = it.pins.iter().position(|it| *it == factory)
        {
            it.pins.remove(at);
        }
    }

    pub(crate) fn allocator(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::AllocatorChosen { pin, by, .. } => {
                let (pin, by) = (*pin, by.clone());
                self.start(
                    subject,
                    Known::Allocator(Allocator {
                        pin,
                        by,
                        initialised: 0,
                        deletes: 0,
                        ready: false,
                        deleted: false,
                        most: 0,
                        made: 0,
                        freed: 0,
                        out: 0,
                    }),
                );
                if let Some(it) = self.get(pin).and_then(Shadow::pin_mut) {
                    it.allocators.push(subject);
                }
            }
            What::AllocatorReady { frames, .. } => {
                if let Some(it) = self.get(subject).and_then(Shadow::allocator_mut) {
                    (it.ready, it.most) = (true, *frames);
                }
            }
            What::AllocatorDeleted { .. } => {
                if let Some(it) = self.get(subject).and_then(Shadow::allocator_mut) {
                    it.deleted = true;
                }
            }
            What::AllocatorRefused { .. } => {
                let pin = self.of(subject).allocator().map(|it| it.pin);
                self.end(subject);
                if let Some(it) = pin.and_then(|it| self.get(it)).and_then(Shadow::pin_mut) {
                    it.allocators.retain(|it| *it != subject);
                }
            }
            _ => (),
        }
    }

    pub(crate) fn frame(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::FrameMade { allocator, .. } = event.what {
            self.start(subject, Known::Frame(Frame { allocator, clones: 0, held: None }));
            let allocator = allocator.and_then(|it| self.get(it));
            if let Some(it) = allocator.and_then(Shadow::allocator_mut) {
                it.made += 1;
                it.out += 1;
            }
            return;
        }
        let Some(it) = self.get(subject).and_then(Shadow::frame_mut) else { return };
        match event.what {
            What::FrameHeld { by } => {
                it.held = Some(by);
                let first = || Known::StreamPointer(StreamPointer { of: None, keeps: None });
                if let Some(it) = self.first(by, first).stream_pointer_mut() {
                    it.keeps = Some(subject);
                }
            }
            What::FrameCancelled {} | What::FrameHome {} => it.clones = 0,
            What::FrameFreed {} => {
                let allocator = it.allocator;
                self.end(subject);
                let allocator = allocator.and_then(|it| self.get(it));
                if let Some(it) = allocator.and_then(Shadow::allocator_mut) {
                    less(&mut it.out);
                }
            }
            _ => (),
        }
    }

    pub(crate) fn stream_pointer(&mut self, event: &Event) {
        let subject = event.subject;
        match event.what {
            What::PointerCloned { frame, .. } => {
                let known = StreamPointer { of: Some(frame), keeps: None };
                self.start(subject, Known::StreamPointer(known));
                self.count_clones(Some(frame), true);
            }
            What::PointerMoved { frame } => {
                self.unkeep(subject);
                let Some(it) = self.get(subject).and_then(Shadow::stream_pointer_mut) else {
                    return;
                };
                let before = std::mem::replace(&mut it.of, frame);
                if before.is_some() {
                    self.count_clones(before, false);
                    self.count_clones(frame, true);
                }
            }
            What::PointerUnlocked {} => self.unkeep(subject),
            What::PointerDeleted { .. } => {
                self.unkeep(subject);
                let of = self.of(subject).stream_pointer().and_then(|it| it.of);
                self.end(subject);
                self.count_clones(of, false);
            }
            _ => (),
        }
    }

    fn count_clones(&mut self, frame: Option<Subject>, more: bool) {
        let Some(it) = frame.and_then(|it| self.get(it)).and_then(Shadow::frame_mut) else { return };
        if more { it.clones += 1 } else { less(&mut it.clones) }
    }

    /// A pointer is not locked any more: what it kept can go. An edge is forgotten with that.
    fn unkeep(&mut self, pointer: Subject) {
        let Some(it) = self.get(pointer).and_then(Shadow::stream_pointer_mut) else { return };
        let (keeps, edge) = (it.keeps.take(), it.of.is_none());
        if edge {
            self.end(pointer);
        }
        if let Some(it) = keeps.and_then(|it| self.get(it)).and_then(Shadow::frame_mut) {
            it.held = None;
        }
    }

    /// A streaming minidriver is called, or has returned.
    pub(crate) fn ks_call(&mut self, event: &Event) {
        let call = event.subject;
        match &event.what {
            What::KsCall { name, about, .. } => {
                let (name, about) = (name.clone(), *about);
                self.ks_began(call, &name, about);
                self.start(call, Known::KsCall(KsCall { name, about }));
            }
            What::KsReturn { answer, .. } => {
                let Some(it) = self.get(call).and_then(Shadow::ks_call_mut) else { return };
                let about = it.about;
                let makes = MAKES.contains(&&*it.name);
                self.end(call);
                if makes && !["ok", "pending"].contains(&&**answer) {
                    return self.end(about);
                }
                if let Some(it) = self.get(about).and_then(Shadow::pin_mut) {
                    it.closing = it.closing.filter(|it| *it != call);
                    it.processing = it.processing.filter(|it| *it != call);
                }
            }
            _ => (),
        }
    }

    fn ks_began(&mut self, call: Subject, name: &str, about: Subject) {
        match name {
            "AVStrMiniPinCreate" => self.start(about, Known::Pin(Pin::default())),
            "AVStrMiniFilterCreate" => self.start(about, Known::Filter(Filter::default())),
            _ => (),
        }
        let Some(shadow) = self.get(about) else { return };
        if let Some(it) = shadow.allocator_mut() {
            match name {
                "AVStrMiniInitializeAllocator" => it.initialised += 1,
                "AVStrMiniAllocatorFreeFrame" => it.freed += 1,
                "AVStrMiniDeleteAllocator" => it.deletes += 1,
                _ => (),
            }
        }
        if let Some(it) = shadow.pin_mut() {
            match name {
                "AVStrMiniPinClose" => it.closing = Some(call),
                "AVStrMiniPinProcess" => it.processing = Some(call),
                _ => (),
            }
        }
    }
}

fn bag(bag: &mut Bag, what: &What) {
    match what {
        What::KsBagged { item } => bag.push(*item),
        What::KsUnbagged { item, .. } => {
            if let Some(at) = bag.iter().position(|it| it == item) {
                bag.remove(at);
            }
        }
        _ => (),
    }
}
