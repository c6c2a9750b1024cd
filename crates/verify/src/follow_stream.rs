//! Following streaming.

use crate::shadow::stream::{
    StreamAllocator, StreamCall, StreamDevice, StreamFilter, StreamFrame, StreamPin, StreamPointer,
};
use crate::shadow::{Serial, Shadows};
use flight::{Event, EventKind, Kind, Subject};

/// The index of a state, counted from stop.
pub(crate) fn rank(state: &str) -> usize {
    ["stop", "acquire", "pause", "run"].iter().position(|text| *text == state).unwrap_or(0)
}

impl Shadows {
    /// Follows the calls of a streaming driver.
    pub(crate) fn follow_stream_call(&mut self, event: &Event) {
        match &event.kind {
            EventKind::KsCall { name, about, .. } => {
                let call = StreamCall { name: name.clone(), about: *about };
                self.start(event.subject, call);
                self.note_stream_call(*about, name, Some(event.subject.into()));
            }
            EventKind::KsReturn { result, .. } => {
                let call = self.stream_call_mut(event.subject);
                if let Some((name, about)) =
                    call.map(|stream_call| (stream_call.name.clone(), stream_call.about))
                {
                    let failed = !matches!(&**result, "ok" | "pending");
                    self.note_stream_return(about, &name, failed);
                }
                self.end(event.subject);
            }
            _ => (),
        }
    }

    fn note_stream_call(&mut self, about: Subject, name: &str, call: Option<Serial<StreamCall>>) {
        match about.kind {
            Kind::Filter => {
                let filter = self.first::<StreamFilter>(about);
                if name == "AVStrMiniFilterProcess"
                    && let Some(it) = filter
                {
                    it.processing = call;
                }
            }
            Kind::Pin => {
                let Some(it) = self.first::<StreamPin>(about) else { return };
                match name {
                    "AVStrMiniPinProcess" => it.processing = call,
                    "AVStrMiniPinClose" => it.closing = call,
                    "AVStrMiniPinSetDeviceState" => it.failed = false,
                    _ => (),
                }
            }
            Kind::Allocator if name == "AVStrMiniInitializeAllocator" => {
                if let Some(it) = self.stream_allocator_mut(about) {
                    it.initialised += 1;
                }
            }
            _ => (),
        }
    }

    fn note_stream_return(&mut self, about: Subject, name: &str, failed: bool) {
        match (about.kind, name) {
            (Kind::Filter | Kind::Pin, "AVStrMiniFilterProcess" | "AVStrMiniPinProcess") => {
                self.note_stream_call(about, name, None);
            }
            (Kind::Pin, "AVStrMiniPinClose") => self.note_stream_call(about, name, None),
            (Kind::Pin, "AVStrMiniPinSetDeviceState") => {
                if let Some(it) = self.first::<StreamPin>(about) {
                    it.failed = failed;
                }
            }
            _ => (),
        }
    }

    pub(crate) fn follow_stream_object(&mut self, event: &Event) {
        match &event.kind {
            EventKind::KsBagged { .. } => self.count_bag_items(event.subject, |number| number + 1),
            EventKind::KsUnbagged { .. } => {
                self.count_bag_items(event.subject, |number| number.saturating_sub(1));
            }
            _ => match event.subject.kind {
                Kind::KsDevice => self.follow_stream_device(event),
                Kind::Filter => self.follow_stream_filter(event),
                Kind::Pin => self.follow_stream_pin(event),
                Kind::Allocator => self.follow_stream_allocator(event),
                Kind::Frame => self.follow_stream_frame(event),
                _ => self.follow_stream_pointer(event),
            },
        }
    }

    fn count_bag_items(&mut self, of: Subject, change: fn(u32) -> u32) {
        let bagged = match of.kind {
            Kind::Filter => self.first::<StreamFilter>(of).map(|it| &mut it.bagged),
            Kind::Pin => self.first::<StreamPin>(of).map(|it| &mut it.bagged),
            _ => self.stream_device_mut(of).map(|it| &mut it.bagged),
        };
        if let Some(bagged) = bagged {
            *bagged = change(*bagged);
        }
    }

    fn follow_stream_device(&mut self, event: &Event) {
        let subject = event.subject;
        match event.kind {
            EventKind::KsAdded { .. } => {
                self.start(subject, StreamDevice::default());
            }
            EventKind::KsStarted {} | EventKind::KsStopped {} => {
                if let Some(it) = self.stream_device_mut(subject) {
                    it.started = matches!(event.kind, EventKind::KsStarted {});
                }
            }
            EventKind::KsRemoved {} => self.end(subject),
            _ => (),
        }
    }

    fn follow_stream_filter(&mut self, event: &Event) {
        let subject = event.subject;
        match event.kind {
            EventKind::FilterCreated { device, dispatch, needs, .. } => {
                if let Some(it) = self.first::<StreamFilter>(subject) {
                    (it.device, it.dispatch, it.needs) = (Some(device.into()), dispatch, needs);
                }
                if let Some(it) = self.stream_device_mut(device) {
                    it.filters += 1;
                }
            }
            EventKind::FilterClosed {} => {
                let device =
                    self.stream_filter(subject).and_then(|stream_filter| stream_filter.device);
                if let Some(it) = self.stream_device_mut(device) {
                    it.filters = it.filters.saturating_sub(1);
                }
                self.end(subject);
            }
            EventKind::FilterCreateFailed {} => self.end(subject),
            _ => (),
        }
    }

    fn follow_stream_pin(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.kind {
            EventKind::PinFormat { .. } => drop(self.first::<StreamPin>(subject)),
            EventKind::PinCreated {
                filter, factory, standard, dispatch, min_state: least, ..
            } => {
                if let Some(it) = self.first::<StreamPin>(subject) {
                    (it.filter, it.factory, it.created) = (Some((*filter).into()), *factory, true);
                    (it.standard, it.dispatch, it.min_state) = (*standard, *dispatch, rank(least));
                }
                if let Some(it) = self.stream_filter_mut(*filter) {
                    *it.pins.entry(*factory).or_default() += 1;
                }
            }
            EventKind::PinStateRequested { to, .. } => {
                if let Some(it) = self.first::<StreamPin>(subject) {
                    it.requested = Some(rank(to));
                    it.failed = false;
                }
            }
            EventKind::PinStateChanged { to, .. } => {
                if let Some(it) = self.first::<StreamPin>(subject) {
                    (it.state, it.requested) = (rank(to), None);
                }
            }
            EventKind::PinStateRefused { .. } => {
                if let Some(it) = self.first::<StreamPin>(subject) {
                    it.requested = None;
                }
            }
            EventKind::PinClosed {} => {
                let of = self.stream_pin(subject);
                if let Some((filter, factory)) =
                    of.and_then(|stream_pin| Some((stream_pin.filter?, stream_pin.factory)))
                    && let Some(it) = self.stream_filter_mut(filter)
                {
                    let count = it.pins.entry(factory).or_default();
                    *count = count.saturating_sub(1);
                }
                self.end(subject);
            }
            EventKind::PinCreateFailed {} => self.end(subject),
            _ => (),
        }
    }

    fn follow_stream_allocator(&mut self, event: &Event) {
        let subject = event.subject;
        match &event.kind {
            EventKind::AllocatorChosen { pin, by, .. } => {
                let it = StreamAllocator {
                    pin: (*pin).into(),
                    by: by.clone(),
                    initialised: 0,
                    ready: false,
                    driver_handle: None,
                    frames: 0,
                    out: 0,
                };
                self.start(subject, it);
            }
            EventKind::AllocatorReady { pin, driver_handle, frames, by, .. } => {
                if let Some(it) = self.stream_allocator_mut(subject) {
                    (it.ready, it.driver_handle, it.frames) =
                        (true, Some((*driver_handle).into()), *frames);
                }
                if by == "driver"
                    && let Some(it) = self.first::<StreamPin>(*pin)
                {
                    it.allocators += 1;
                }
            }
            EventKind::AllocatorDeleted { .. } => {
                let of = self.stream_allocator(subject);
                let pin = of
                    .filter(|stream_allocator| stream_allocator.by == "driver")
                    .map(|stream_allocator| stream_allocator.pin);
                if let Some(it) = self.first::<StreamPin>(pin) {
                    it.allocators = it.allocators.saturating_sub(1);
                }
                self.end(subject);
            }
            EventKind::AllocatorFailed { .. } => self.end(subject),
            _ => (),
        }
    }

    fn follow_stream_frame(&mut self, event: &Event) {
        let subject = event.subject;
        if let EventKind::FrameCreated { allocator, pointer: driver_handle, .. } = event.kind {
            let (clones, locks, passed, freeing) = (0, 0, false, false);
            let it = StreamFrame {
                allocator: allocator.map(Serial::from),
                pointer: driver_handle.into(),
                clones,
                locks,
                passed,
                freeing,
            };
            self.start(subject, it);
            if let Some(it) = self.stream_allocator_mut(allocator) {
                it.out += 1;
            }
            return;
        }
        let Some(it) = self.stream_frame_mut(subject) else { return };
        match event.kind {
            EventKind::FrameQueued { .. } => it.passed = false,
            EventKind::FramePassed { .. } => it.passed = true,
            EventKind::FrameFreeing { .. } => it.freeing = true,
            EventKind::FrameFreed {} => {
                let allocator = it.allocator;
                self.end(subject);
                if let Some(it) = self.stream_allocator_mut(allocator) {
                    it.out = it.out.saturating_sub(1);
                }
            }
            _ => (),
        }
    }

    fn follow_stream_pointer(&mut self, event: &Event) {
        let subject = event.subject;
        let Some(it) = self.first::<StreamPointer>(subject) else { return };
        let (before, previous, cloned) = (it.frame, it.locked, it.cloned);
        match event.kind {
            EventKind::PointerCloned { frame, locked, .. } => {
                (it.cloned, it.frame, it.locked) = (true, Some(frame.into()), locked);
            }
            EventKind::PointerLocked { .. } => it.locked = true,
            EventKind::PointerUnlocked {} => it.locked = false,
            EventKind::PointerMoved { frame } => {
                it.frame = frame.map(Serial::from);
                it.locked &= frame.is_some();
            }
            EventKind::PointerDeleted { .. } => (it.frame, it.locked) = (None, false),
            _ => return,
        }
        let (after, is, clone) = (it.frame, it.locked, it.cloned);
        // Edges have no event that ends them: one that points nowhere is forgotten.
        if after.is_none() && (!clone || matches!(event.kind, EventKind::PointerDeleted { .. })) {
            self.end(subject);
        }
        self.count_pointer(before, previous, cloned, |number| number.saturating_sub(1));
        self.count_pointer(after, is, clone, |number| number + 1);
    }

    fn count_pointer(
        &mut self,
        frame: Option<Serial<StreamFrame>>,
        locked: bool,
        cloned: bool,
        change: fn(u32) -> u32,
    ) {
        let Some(it) = self.stream_frame_mut(frame) else { return };
        if locked {
            it.locks = change(it.locks);
        }
        if cloned {
            it.clones = change(it.clones);
        }
    }
}
