//! Following streaming.

use crate::follow::Shadows;
use crate::shadow::stream::{
    StreamAllocator, StreamCall, StreamDevice, StreamFilter, StreamFrame, StreamPin, StreamPointer,
};
use crate::shadow::{Known, Shadow};
use flight::{Event, Kind, Subject, What};

/// A state's place, counted from stop on.
pub(crate) fn rank(state: &str) -> usize {
    ["stop", "acquire", "pause", "run"].iter().position(|it| *it == state).unwrap_or(0)
}

impl Shadows {
    /// The calls of a streaming driver. Answers whether it was one.
    pub(crate) fn stream_call(&mut self, event: &Event) -> bool {
        match &event.what {
            What::KsCall { name, about, .. } => {
                let call = StreamCall { name: name.clone(), about: *about };
                self.start(event.subject, Known::StreamCall(call));
                self.stream_called(*about, name, Some(event.subject));
                true
            }
            What::KsReturn { answer, .. } => {
                let call = self.get(event.subject).and_then(Shadow::stream_call_mut);
                if let Some((name, about)) = call.map(|it| (it.name.clone(), it.about)) {
                    let failed = !matches!(&**answer, "ok" | "pending");
                    self.stream_returned(about, &name, failed);
                }
                self.end(event.subject);
                true
            }
            _ => false,
        }
    }

    fn stream_called(&mut self, about: Subject, name: &str, call: Option<Subject>) {
        match about.kind {
            Kind::Filter => {
                let filter = self.first(about, || Known::StreamFilter(StreamFilter::default()));
                if name == "AVStrMiniFilterProcess"
                    && let Some(it) = filter.stream_filter_mut()
                {
                    it.processing = call;
                }
            }
            Kind::Pin => {
                let Some(it) = self.stream_pin(about) else { return };
                match name {
                    "AVStrMiniPinProcess" => it.processing = call,
                    "AVStrMiniPinClose" => it.closing = call,
                    "AVStrMiniPinSetDeviceState" => it.failed = false,
                    _ => (),
                }
            }
            Kind::Allocator if name == "AVStrMiniInitializeAllocator" => {
                if let Some(it) = self.get(about).and_then(Shadow::stream_allocator_mut) {
                    it.initialised += 1;
                }
            }
            _ => (),
        }
    }

    fn stream_returned(&mut self, about: Subject, name: &str, failed: bool) {
        match (about.kind, name) {
            (Kind::Filter | Kind::Pin, "AVStrMiniFilterProcess" | "AVStrMiniPinProcess") => {
                self.stream_called(about, name, None);
            }
            (Kind::Pin, "AVStrMiniPinClose") => self.stream_called(about, name, None),
            (Kind::Pin, "AVStrMiniPinSetDeviceState") => {
                if let Some(it) = self.stream_pin(about) {
                    it.failed = failed;
                }
            }
            _ => (),
        }
    }

    /// A pin begins with whatever is first said of it.
    fn stream_pin(&mut self, pin: Subject) -> Option<&mut StreamPin> {
        self.first(pin, || Known::StreamPin(StreamPin::default())).stream_pin_mut()
    }

    pub(crate) fn stream_object(&mut self, event: &Event) {
        match &event.what {
            What::KsBagged { .. } => self.bag(event.subject, |it| it + 1),
            What::KsUnbagged { .. } => self.bag(event.subject, |it| it.saturating_sub(1)),
            _ => match event.subject.kind {
                Kind::KsDevice => self.stream_device(event),
                Kind::Filter => self.stream_filter(event),
                Kind::Pin => self.stream_pin_event(event),
                Kind::Allocator => self.stream_allocator(event),
                Kind::Frame => self.stream_frame(event),
                _ => self.stream_pointer(event),
            },
        }
    }

    fn bag(&mut self, of: Subject, change: fn(u32) -> u32) {
        let bagged = match of.kind {
            Kind::Filter => {
                let filter = self.first(of, || Known::StreamFilter(StreamFilter::default()));
                filter.stream_filter_mut().map(|it| &mut it.bagged)
            }
            Kind::Pin => self.stream_pin(of).map(|it| &mut it.bagged),
            _ => self.get(of).and_then(Shadow::stream_device_mut).map(|it| &mut it.bagged),
        };
        if let Some(bagged) = bagged {
            *bagged = change(*bagged);
        }
    }

    fn stream_device(&mut self, event: &Event) {
        let subject = event.subject;
        match event.what {
            What::KsAdded { .. } => {
                self.start(subject, Known::StreamDevice(StreamDevice::default()));
            }
            What::KsStarted {} | What::KsStopped {} => {
                if let Some(it) = self.get(subject).and_then(Shadow::stream_device_mut) {
                    it.started = matches!(event.what, What::KsStarted {});
                }
            }
            What::KsRemoved {} => self.end(subject),
            _ => (),
        }
    }

    fn stream_filter(&mut self, event: &Event) {
        let subject = event.subject;
        match event.what {
            What::FilterCreated { device, dispatch, needs, .. } => {
                let filter = self.first(subject, || Known::StreamFilter(StreamFilter::default()));
                if let Some(it) = filter.stream_filter_mut() {
                    (it.device, it.dispatch, it.needs) = (Some(device), dispatch, needs);
                }
                if let Some(it) = self.get(device).and_then(Shadow::stream_device_mut) {
                    it.filters += 1;
                }
            }
            What::FilterClosed {} => {
                let device = self.of(subject).stream_filter().and_then(|it| it.device);
                let device = device.and_then(|it| self.get(it));
                if let Some(it) = device.and_then(Shadow::stream_device_mut) {
                    it.filters = it.filters.saturating_sub(1);
                }
                self.end(subject);
            }
            What::FilterUnmade {} => self.end(subject),
            _ => (),
        }
    }

    fn stream_pin_event(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::PinFormat { .. } => drop(self.stream_pin(subject)),
            What::PinCreated { filter, factory, standard, dispatch, least, .. } => {
                if let Some(it) = self.stream_pin(subject) {
                    (it.filter, it.factory, it.created) = (Some(*filter), *factory, true);
                    (it.standard, it.dispatch, it.least) = (*standard, *dispatch, rank(least));
                }
                if let Some(it) = self.get(*filter).and_then(Shadow::stream_filter_mut) {
                    *it.pins.entry(*factory).or_default() += 1;
                }
            }
            What::PinWanted { to, .. } => {
                if let Some(it) = self.stream_pin(subject) {
                    it.wanted = Some(rank(to));
                    it.failed = false;
                }
            }
            What::PinState { to, .. } => {
                if let Some(it) = self.stream_pin(subject) {
                    (it.state, it.wanted) = (rank(to), None);
                }
            }
            What::PinRefused { .. } => {
                if let Some(it) = self.stream_pin(subject) {
                    it.wanted = None;
                }
            }
            What::PinClosed {} => {
                let of = self.of(subject).stream_pin();
                if let Some((filter, factory)) = of.and_then(|it| Some((it.filter?, it.factory)))
                    && let Some(it) = self.get(filter).and_then(Shadow::stream_filter_mut)
                {
                    let count = it.pins.entry(factory).or_default();
                    *count = count.saturating_sub(1);
                }
                self.end(subject);
            }
            What::PinUnmade {} => self.end(subject),
            _ => (),
        }
    }

    fn stream_allocator(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.what {
            What::AllocatorChosen { pin, by, .. } => {
                let it = StreamAllocator {
                    pin: *pin,
                    by: by.clone(),
                    initialised: 0,
                    ready: false,
                    word: None,
                    frames: 0,
                    out: 0,
                };
                self.start(subject, Known::StreamAllocator(it));
            }
            What::AllocatorReady { pin, word, frames, by, .. } => {
                if let Some(it) = self.get(subject).and_then(Shadow::stream_allocator_mut) {
                    (it.ready, it.word, it.frames) = (true, Some(*word), *frames);
                }
                if by == "driver"
                    && let Some(it) = self.stream_pin(*pin)
                {
                    it.allocators += 1;
                }
            }
            What::AllocatorDeleted { .. } => {
                let of = self.of(subject).stream_allocator();
                let pin = of.filter(|it| it.by == "driver").map(|it| it.pin);
                if let Some(it) = pin.and_then(|it| self.stream_pin(it)) {
                    it.allocators = it.allocators.saturating_sub(1);
                }
                self.end(subject);
            }
            What::AllocatorRefused { .. } => self.end(subject),
            _ => (),
        }
    }

    fn stream_frame(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::FrameMade { allocator, word, .. } = event.what {
            let (clones, locks, passed, freeing) = (0, 0, false, false);
            let it = StreamFrame { allocator, word, clones, locks, passed, freeing };
            self.start(subject, Known::StreamFrame(it));
            let allocator = allocator.and_then(|it| self.get(it));
            if let Some(it) = allocator.and_then(Shadow::stream_allocator_mut) {
                it.out += 1;
            }
            return;
        }
        let Some(it) = self.get(subject).and_then(Shadow::stream_frame_mut) else { return };
        match event.what {
            What::FrameQueued { .. } => it.passed = false,
            What::FramePassed { .. } => it.passed = true,
            What::FrameFreeing { .. } => it.freeing = true,
            What::FrameFreed {} => {
                let allocator = it.allocator;
                self.end(subject);
                let allocator = allocator.and_then(|it| self.get(it));
                if let Some(it) = allocator.and_then(Shadow::stream_allocator_mut) {
                    it.out = it.out.saturating_sub(1);
                }
            }
            _ => (),
        }
    }

    fn stream_pointer(&mut self, event: &Event) {
        let subject = event.subject;
        let pointer = self.first(subject, || Known::StreamPointer(StreamPointer::default()));
        let Some(it) = pointer.stream_pointer_mut() else { return };
        let (before, was, cloned) = (it.frame, it.locked, it.cloned);
        match event.what {
            What::PointerCloned { frame, locked, .. } => {
                (it.cloned, it.frame, it.locked) = (true, Some(frame), locked);
            }
            What::PointerLocked { .. } => it.locked = true,
            What::PointerUnlocked {} => it.locked = false,
            What::PointerMoved { frame } => {
                it.frame = frame;
                it.locked &= frame.is_some();
            }
            What::PointerDeleted { .. } => (it.frame, it.locked) = (None, false),
            _ => return,
        }
        let (after, is, clone) = (it.frame, it.locked, it.cloned);
        // Edges have no end of their own: one that points nowhere is forgotten.
        if after.is_none() && (!clone || matches!(event.what, What::PointerDeleted { .. })) {
            self.end(subject);
        }
        self.count_pointer(before, was, cloned, |it| it.saturating_sub(1));
        self.count_pointer(after, is, clone, |it| it + 1);
    }

    fn count_pointer(
        &mut self,
        frame: Option<Subject>,
        locked: bool,
        cloned: bool,
        change: fn(u32) -> u32,
    ) {
        let frame = frame.and_then(|it| self.get(it));
        let Some(it) = frame.and_then(Shadow::stream_frame_mut) else { return };
        if locked {
            it.locks = change(it.locks);
        }
        if cloned {
            it.clones = change(it.clones);
        }
    }
}
