//! Pins: created with a format, connected, closed.

use crate::allocator::AllocatorOwner;
use crate::bag::BagOwner;
use crate::descriptor::{Flow, Format, PinDescriptor, PinFlag, PinFlagSet};
use crate::driver_calls::{Driver, Entry};
use crate::error::StreamError;
use crate::framing::{Framing, FramingForm, FramingItem, FramingRequest, negotiate};
use crate::minidriver::PinView;
use crate::mutex::KsMutex;
use crate::pointer::{PointerKind, StreamPointer};
use crate::process::ProcessCall;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{
    AllocatorId, DeviceId, DriverError, DriverPin, DriverResult, FilterId, FrameId, PinId,
    PinState, PointerId,
};
use flight::{EventKind, Passive, RuleId, Slab, current_thread};
use std::collections::VecDeque;
use std::sync::Arc;

/// A pin.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Pin {
    pub(crate) device: DeviceId,
    pub(crate) filter: FilterId,
    pub(crate) factory: u32,
    pub(crate) descriptor: Arc<PinDescriptor>,
    /// The descriptor's flags, flow and process routine, which every frame reads.
    pub(crate) flags: PinFlagSet,
    pub(crate) flows_out: bool,
    pub(crate) has_process_routine: bool,
    /// Its filter processes it, together with its other pins.
    pub(crate) filter_centric: bool,
    /// Its framing: the descriptor's, or as edited by its driver.
    pub(crate) framing: Option<FramingForm>,
    /// The driver handle, if the driver set one.
    pub(crate) own_handle: Option<DriverPin>,
    /// The driver handle passed with each call: its own, or its filter's.
    pub(crate) driver_handle: usize,
    pub(crate) format: Arc<Format>,
    /// The state that its client requested, and the state of its driver.
    pub(crate) client_state: PinState,
    pub(crate) device_state: PinState,
    pub(crate) created: bool,
    pub(crate) connection: Option<Connection>,
    pub(crate) allocator: Option<AllocatorId>,
    /// Its frames, by number.
    pub(crate) frames: Vec<FrameId>,
    /// The queued frames: those that an edge has not passed.
    pub(crate) queue: VecDeque<FrameId>,
    pub(crate) leading: PointerId,
    pub(crate) trailing: Option<PointerId>,
    pub(crate) clones: Vec<PointerId>,
    /// The completed frames, for its client.
    pub(crate) completed: VecDeque<FrameId>,
    /// How often one of its pointers was moved, created or deleted.
    pub(crate) move_count: u64,
    /// The last processing moved nothing.
    pub(crate) made_no_progress: bool,
    /// Its driver must attempt processing before it is processed again.
    pub(crate) waits_for_attempt: bool,
    /// The inputs of its gate that its driver has added, on and off.
    pub(crate) gate_inputs: (u32, u32),
    /// Its driver injects its frames.
    pub(crate) injects_frames: bool,
    /// It ran when its device went to sleep.
    pub(crate) runs_after_power_up: bool,
    /// The last call of its process routine, if there was one and it has returned.
    pub(crate) process_call: Option<Box<ProcessCall>>,
}

/// The agreed framing of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) framing: Framing,
    pub(crate) allocator_owner: AllocatorOwner,
    /// The other side's frames are smaller.
    pub(crate) half_size: bool,
    /// The other side is in user mode.
    pub(crate) user_mode: bool,
}

impl Pin {
    /// The pin as its driver sees it.
    pub(crate) fn view(&self, pin: PinId) -> PinView {
        PinView {
            pin,
            filter: self.filter,
            factory: self.factory,
            driver_handle: self.driver_handle,
            format: self.format.clone(),
            client_state: self.client_state,
            device_state: self.device_state,
        }
    }

    /// Whether it has a flag.
    #[inline]
    pub(crate) fn has_flag(&self, flag: PinFlag) -> bool {
        self.flags.contains(flag)
    }

    /// The queued frame after another one, which is nearly always the first one.
    #[inline]
    pub(crate) fn queued_after(&self, frame: FrameId) -> Option<FrameId> {
        let first = self.queue.front() == Some(&frame);
        let place = if first { 0 } else { self.queue.iter().position(|it| *it == frame)? };
        self.queue.get(place + 1).copied()
    }

    /// Removes a frame from the queue: nearly always the first one.
    #[inline]
    pub(crate) fn dequeue(&mut self, frame: FrameId) {
        if self.queue.front() == Some(&frame) {
            self.queue.pop_front();
        } else {
            self.queue.retain(|other| *other != frame);
        }
    }
}

impl StreamState {
    pub(crate) fn pin(&self, pin: PinId) -> Result<&Pin, StreamError> {
        self.pins.get(pin).ok_or_else(|| StreamError::NotFound(pin.subject()))
    }

    pub(crate) fn pin_view(&self, pin: PinId) -> PinView {
        self.pins[pin].view(pin)
    }

    /// A pin's driver, the pin as its driver sees it, and whether the entry exists.
    pub(crate) fn pin_call(&self, pin: PinId, entry: Entry) -> (Arc<Driver>, PinView, bool) {
        let it = &self.pins[pin];
        let driver = self.devices[it.device].driver.clone();
        (driver, self.pin_view(pin), it.descriptor.dispatch.contains(&entry))
    }
}

impl Stream {
    /// Creates a pin of a filter: number `factory` of those that its driver describes, with a
    /// format.
    pub fn create_pin(
        &self,
        at: &mut Passive,
        filter: FilterId,
        factory: u32,
        format: &Format,
    ) -> Result<PinId, StreamError> {
        let _control = self.acquire_control(at, filter)?;
        let pin = self.reserve_pin(filter, factory, format)?;
        let blocks_allocated =
            self.choose_format(at, pin, None).and_then(|()| self.call_create_pin(at, pin));
        match blocks_allocated {
            Ok(own) => {
                self.judge_frame_size(pin);
                let mut stream_state = self.state.lock();
                let it = &mut stream_state.pins[pin];
                it.created = true;
                it.driver_handle = own.as_ref().map_or(it.driver_handle, DriverPin::as_raw);
                let blocks_allocated = EventKind::PinCreated {
                    filter: filter.subject(),
                    factory,
                    out: it.flows_out,
                    has_context: own.is_some(),
                    possible: it.descriptor.instances_possible,
                    standard: it.descriptor.changes_state_stepwise(),
                    dispatch: it.has_flag(PinFlag::DispatchLevelProcessing),
                    min_state: it.processing_state().name().into(),
                };
                it.own_handle = own;
                self.log.emit(pin.subject(), || blocks_allocated);
                Ok(pin)
            }
            Err(why) => {
                self.remove_pin(at, pin);
                Err(why)
            }
        }
    }

    fn reserve_pin(
        &self,
        filter: FilterId,
        factory: u32,
        format: &Format,
    ) -> Result<PinId, StreamError> {
        let mut stream_state = self.state.lock();
        let of = &stream_state.filters[filter];
        let (device, word, filter_centric) =
            (of.device, of.driver_handle, of.descriptor.is_filter_centric());
        let descriptor = of.descriptor.pins.get(factory as usize).cloned();
        let descriptor = Arc::new(descriptor.ok_or(StreamError::NoFactory(factory))?);
        let same = |pin: &&PinId| stream_state.pins[**pin].factory == factory;
        let there = of.pins.iter().filter(same).count();
        if there >= descriptor.instances_possible as usize {
            return Err(StreamError::TooMany { most: descriptor.instances_possible });
        }
        if !descriptor.formats.iter().any(|it| it.contains(format)) {
            return Err(StreamError::NoFormat);
        }
        let pin = stream_state.pins.reserve();
        let trailing = descriptor.has_flag(PinFlag::DistinctTrailingEdge);
        let leading =
            stream_state.pointers.insert(StreamPointer::new_edge(pin, PointerKind::Leading));
        let trailing = trailing.then(|| {
            stream_state.pointers.insert(StreamPointer::new_edge(pin, PointerKind::Trailing))
        });
        let it = Pin {
            device,
            filter,
            factory,
            framing: descriptor.framing.clone(),
            flags: PinFlagSet::new(&descriptor.flags),
            flows_out: descriptor.flow == Flow::Out,
            has_process_routine: descriptor.dispatch.contains(&Entry::PinProcess),
            descriptor,
            filter_centric,
            own_handle: None,
            driver_handle: word,
            format: Arc::new(format.clone()),
            client_state: PinState::Stop,
            device_state: PinState::Stop,
            created: false,
            connection: None,
            allocator: None,
            frames: Vec::new(),
            queue: VecDeque::new(),
            leading,
            trailing,
            clones: Vec::new(),
            completed: VecDeque::new(),
            move_count: 0,
            made_no_progress: false,
            waits_for_attempt: false,
            gate_inputs: (0, 0),
            injects_frames: false,
            runs_after_power_up: false,
            process_call: None,
        };
        stream_state.pins.fill(pin, it);
        stream_state.filters[filter].pins.push(pin);
        Ok(pin)
    }

    /// Queries the driver range by range whether the pin can have its format.
    fn choose_format(
        &self,
        at: &mut Passive,
        pin: PinId,
        old: Option<&Format>,
    ) -> Result<(), StreamError> {
        let (call, ranges) = {
            let stream_state = self.state.lock();
            let it = &stream_state.pins[pin];
            let ranges = it.descriptor.formats.iter().filter(|range| range.contains(&it.format));
            let ranges: Vec<Format> = ranges.cloned().collect();
            let (filter, sample_size) = (it.filter.subject(), it.format.sample_size);
            let first = old.is_none();
            self.log.emit(pin.subject(), || EventKind::PinFormat {
                filter,
                sample: sample_size,
                first,
            });
            (stream_state.pin_call(pin, Entry::PinSetDataFormat), ranges)
        };
        let (driver, view, asks) = call;
        if !asks {
            return ranges.first().map(|_| ()).ok_or(StreamError::NoFormat);
        }
        for range in &ranges {
            let answer = driver.set_format(at, &view, old, range);
            let broken = (answer == Err(DriverError::Pending)).then(|| {
                format!("the entry that sets the format of {} returned pending", pin.subject())
            });
            self.judge(RuleId::KS_PIN_006, pin.subject(), Entry::PinSetDataFormat.name(), broken);
            match answer {
                Ok(()) => {
                    // The first time there is no pin yet: its framing may be edited when it is
                    // created.
                    if old.is_some() {
                        self.judge_frame_size(pin);
                    }
                    return Ok(());
                }
                Err(DriverError::NoMatch) => (),
                Err(why) => return Err(why.into()),
            }
        }
        Err(StreamError::NoFormat)
    }

    /// Entry rule: frames have room for the format that was set.
    fn judge_frame_size(&self, pin: PinId) {
        let stream_state = self.state.lock();
        let it = &stream_state.pins[pin];
        let most = match &it.framing {
            None => return,
            Some(FramingForm::Simple(simple)) if simple.bytes == 0 => return,
            Some(FramingForm::Simple(simple)) => simple.bytes,
            Some(FramingForm::Extended(all)) => {
                let limits = all.items.iter().map(FramingItem::max_size);
                let most =
                    limits.collect::<Option<Vec<u32>>>().map(|numbers| numbers.into_iter().max());
                // Where an item has no limit, frames have room.
                let Some(most) = most else { return };
                most.unwrap_or(0)
            }
        };
        let sample_size = it.format.sample_size;
        let broken = (sample_size > most).then(|| {
            format!(
                "{} accepted a format with samples of {sample_size} bytes, but its framing allows {most}",
                pin.subject()
            )
        });
        let place = Entry::PinSetDataFormat.name();
        self.judge(RuleId::KS_FRAMING_005, pin.subject(), place, broken);
    }

    fn call_create_pin(
        &self,
        at: &mut Passive,
        pin: PinId,
    ) -> Result<Option<DriverPin>, StreamError> {
        let (driver, view, asks) = self.state.lock().pin_call(pin, Entry::PinCreate);
        if !asks {
            return Ok(None);
        }
        self.begin_request(pin.subject());
        let answer = driver.create_pin(at, &view);
        Ok(self.end_request(at, pin.subject(), Entry::PinCreate, answer)?)
    }

    /// The filter of a pin. A call for the pin acquires the filter's control mutex first.
    pub(crate) fn filter_of(&self, pin: PinId) -> Result<FilterId, StreamError> {
        Ok(self.state.lock().pin(pin)?.filter)
    }

    /// Changes the format of a stopped pin. If its driver refuses, the old format stays.
    pub fn set_format(
        &self,
        at: &mut Passive,
        pin: PinId,
        format: &Format,
    ) -> Result<(), StreamError> {
        let _control = self.acquire_control(at, self.filter_of(pin)?)?;
        let old = {
            let mut stream_state = self.state.lock();
            let it = stream_state.pins.get_mut(pin).ok_or(StreamError::NotFound(pin.subject()))?;
            if it.device_state != PinState::Stop {
                return Err(StreamError::InvalidState(it.device_state));
            }
            std::mem::replace(&mut it.format, Arc::new(format.clone()))
        };
        let answer = self.choose_format(at, pin, Some(&old));
        if answer.is_err() {
            self.state.lock().pins[pin].format = old;
        }
        answer
    }

    /// The framing of a pin (`KSPROPERTY_CONNECTION_ALLOCATORFRAMING_EX`), if it has one.
    pub fn framing(&self, pin: PinId) -> Result<Option<FramingForm>, StreamError> {
        let stream_state = self.state.lock();
        let framing = stream_state.pin(pin)?.framing.clone();
        let there = framing.is_some();
        self.log.emit(pin.subject(), || EventKind::PinFraming {
            set: false,
            available: there,
            succeeded: there,
        });
        Ok(framing)
    }

    /// Always fails: clients cannot change a pin's framing.
    pub fn set_framing(&self, pin: PinId, _framing: &FramingForm) -> Result<(), StreamError> {
        let stream_state = self.state.lock();
        let there = stream_state.pin(pin)?.framing.is_some();
        self.log.emit(pin.subject(), || EventKind::PinFraming {
            set: true,
            available: there,
            succeeded: false,
        });
        Err(StreamError::Driver(DriverError::Unsupported))
    }

    /// The states of a pin: the one its client requested, and its driver's.
    pub fn state(&self, pin: PinId) -> Result<(PinState, PinState), StreamError> {
        let stream_state = self.state.lock();
        let it = stream_state.pin(pin)?;
        Ok((it.client_state, it.device_state))
    }

    /// Connects a pin to a built-in sink or source with its own framing requirements: the framing
    /// is agreed on, an allocator is chosen, and it is initialised.
    pub fn connect(
        &self,
        at: &mut Passive,
        pin: PinId,
        request: &FramingRequest,
    ) -> Result<Framing, StreamError> {
        let _control = self.acquire_control(at, self.filter_of(pin)?)?;
        let connection = {
            let mut stream_state = self.state.lock();
            let it = stream_state.pins.get_mut(pin).ok_or(StreamError::NotFound(pin.subject()))?;
            if it.connection.is_some() {
                return Err(StreamError::Connected(pin.subject()));
            }
            let framing = negotiate(it.framing.as_ref(), request, it.format.sample_size);
            let framing = framing.map_err(StreamError::Framing)?;
            let by = AllocatorOwner::choose(it.descriptor.allocator.is_some(), request);
            let connection = Connection {
                framing,
                allocator_owner: by,
                half_size: request.half_size,
                user_mode: request.user_mode,
            };
            it.connection = Some(connection);
            connection
        };
        let blocks_allocated = self.call_connect(at, pin).and_then(|()| {
            self.create_allocator(at, pin, connection).inspect_err(|_| {
                self.call_disconnect(at, pin);
            })
        });
        let mut stream_state = self.state.lock();
        if let Err(why) = blocks_allocated {
            stream_state.pins[pin].connection = None;
            return Err(why);
        }
        let Framing { frames, bytes, alignment, .. } = connection.framing;
        let by = connection.allocator_owner.name().into();
        self.log.emit(pin.subject(), || EventKind::PinConnected { frames, bytes, alignment, by });
        Ok(connection.framing)
    }

    fn call_connect(&self, at: &mut Passive, pin: PinId) -> Result<(), StreamError> {
        let (driver, view, asks) = self.state.lock().pin_call(pin, Entry::PinConnect);
        if !asks {
            return Ok(());
        }
        let answer = driver.connect_pin(at, &view);
        self.judge_not_pending(pin, Entry::PinConnect, answer);
        Ok(answer?)
    }

    /// Entry rule: it does not return `STATUS_PENDING`.
    pub(crate) fn judge_not_pending(&self, pin: PinId, entry: Entry, answer: DriverResult<()>) {
        let broken = (answer == Err(DriverError::Pending))
            .then(|| format!("{} for {} returned pending", entry.name(), pin.subject()));
        self.judge(RuleId::KS_PIN_012, pin.subject(), entry.name(), broken);
    }

    fn call_disconnect(&self, at: &mut Passive, pin: PinId) {
        let (driver, view, asks) = self.state.lock().pin_call(pin, Entry::PinDisconnect);
        if asks {
            driver.disconnect_pin(at, &view);
        }
    }

    /// Disconnects a pin: stops it, takes back its frames, deletes its allocator.
    pub fn disconnect(&self, at: &mut Passive, pin: PinId) -> Result<(), StreamError> {
        let _control = self.acquire_control(at, self.filter_of(pin)?)?;
        if self.state.lock().pin(pin)?.connection.is_none() {
            return Err(StreamError::NotConnected(pin.subject()));
        }
        self.force_stop(at, pin);
        self.undo_connection(at, pin);
        Ok(())
    }

    /// Closes a pin.
    pub fn close_pin(&self, at: &mut Passive, pin: PinId) -> Result<(), StreamError> {
        let filter = self.filter_of(pin)?;
        let _control = self.acquire_guard(at, KsMutex::Control(filter.subject()))?;
        self.state.lock().pin(pin)?;
        self.destroy_pin(at, pin);
        Ok(())
    }

    fn undo_connection(&self, at: &mut Passive, pin: PinId) {
        self.delete_allocator(at, pin);
        self.call_disconnect(at, pin);
        let mut stream_state = self.state.lock();
        stream_state.pins[pin].connection = None;
        self.log.emit(pin.subject(), || EventKind::PinDisconnected {});
    }

    /// Ends a pin: stops it, deletes clones, frees frames, deletes the allocator, calls the driver,
    /// empties the bag. The control mutex of its filter is held.
    pub(crate) fn destroy_pin(&self, at: &mut Passive, pin: PinId) {
        self.force_stop(at, pin);
        let connected = self.state.lock().pins[pin].connection.is_some();
        if connected {
            self.undo_connection(at, pin);
        }
        let (call, own, created) = {
            let mut stream_state = self.state.lock();
            let call = stream_state.pin_call(pin, Entry::PinClose);
            let it = &mut stream_state.pins[pin];
            (call, it.own_handle.take(), it.created)
        };
        let (driver, view, asks) = call;
        if asks && created {
            self.begin_request(pin.subject());
            let answer = driver.close_pin(at, &view, own).map(|()| None::<DriverPin>);
            // The result is ignored: the pin is closed.
            let _ = self.end_request(at, pin.subject(), Entry::PinClose, answer);
        }
        self.end_timeouts(at, pin);
        self.remove_pin(at, pin);
    }

    /// Removes the pin, with its bag and its pointers.
    fn remove_pin(&self, at: &mut Passive, pin: PinId) {
        let (device, driver) = {
            let stream_state = self.state.lock();
            let device = stream_state.pins[pin].device;
            (device, stream_state.devices[device].driver.clone())
        };
        self.empty_bag(at, device, BagOwner::Pin(pin));
        let mut stream_state = self.state.lock();
        let it = stream_state.pins.remove(pin);
        stream_state.filters[it.filter].pins.retain(|other| *other != pin);
        let pointers = it.clones.iter().copied().chain([it.leading]).chain(it.trailing);
        for pointer in pointers {
            stream_state.unschedule(pointer);
            stream_state.pointers.remove(pointer);
        }
        stream_state.jobs.retain(|job| !job.is_of_pin(pin));
        let gone = if it.created { EventKind::PinClosed {} } else { EventKind::PinCreateFailed {} };
        self.log.emit(pin.subject(), || gone);
        self.wake_all(&mut stream_state);
        drop(stream_state);
        driver.object_removed(pin.into());
    }
}

impl Services {
    /// A pin that a driver passes. Fails if it is closed or belongs to another device.
    #[inline]
    pub(crate) fn find_pin<'a>(
        &self,
        pins: &'a Slab<Pin>,
        pin: PinId,
        place: &'static str,
    ) -> DriverResult<&'a Pin> {
        match pins.get(pin) {
            Some(found) if found.device == self.device => {
                self.stream.count_kept([RuleId::KS_PIN_004]);
                Ok(found)
            }
            live => {
                self.judge_unusable_pin(pins, pin, live.is_some(), place);
                Err(DriverError::Invalid)
            }
        }
    }

    #[cold]
    fn judge_unusable_pin(&self, pins: &Slab<Pin>, pin: PinId, live: bool, place: &'static str) {
        let subject = pin.subject();
        if live || pins.has_issued(pin.serial()) {
            let broken = if live {
                format!("a driver used {subject}, which is a pin of another device")
            } else {
                format!("a driver used {subject} after it was closed")
            };
            self.stream.judge(RuleId::KS_PIN_004, subject, place, Some(broken));
        }
    }

    /// A pin of the device, as it is now.
    pub fn pin_view(&self, pin: PinId) -> Option<PinView> {
        let (_, stream_state) = self.lock_state().ok()?;
        stream_state.pins.get(pin).filter(|pin| pin.device == self.device)?;
        Some(stream_state.pin_view(pin))
    }

    /// The pins of a filter (`KsFilterGetFirstChildPin`), with the control mutex held.
    pub fn pins(&self, filter: FilterId) -> DriverResult<Vec<PinId>> {
        let (stream, stream_state) = self.lock_state()?;
        stream_state.filters.get(filter).ok_or(DriverError::Invalid)?;
        stream.judge_enumeration(&stream_state, KsMutex::Control(filter.subject()))?;
        Ok(stream_state.pins_of(filter).to_vec())
    }

    /// Changes the framing of a pin, on a copy of its own (`KsEdit`), with the control mutex held.
    pub fn edit_framing(&self, pin: PinId, framing: Option<FramingForm>) -> DriverResult<()> {
        let (stream, mut stream_state) = self.lock_state()?;
        self.find_pin(&stream_state.pins, pin, "_KsEdit")?;
        let mutex = KsMutex::Control(stream_state.pins[pin].filter.subject());
        let held = stream_state.holds_mutex(current_thread(), mutex);
        let broken = (!held).then(|| {
            format!("the descriptor of {} was edited without the control mutex", pin.subject())
        });
        stream.judge(RuleId::KS_BAG_005, pin.subject(), "_KsEdit", broken);
        if !held {
            return Err(DriverError::Invalid);
        }
        let it = &mut stream_state.pins[pin];
        let edited = PinDescriptor { framing, ..PinDescriptor::clone(&it.descriptor) };
        let mut all = Vec::new();
        edited.judge_framing(&mut all);
        let error = all.iter().any(|(_, broken)| broken.is_some());
        for (rule, broken) in all {
            stream.judge(rule, pin.subject(), "_KsEdit", broken);
        }
        if error {
            return Err(DriverError::Invalid);
        }
        it.framing = edited.framing;
        Ok(())
    }

    /// The live clones of a pin (`KsPinGetFirstCloneStreamPointer`).
    pub fn clones(&self, pin: PinId) -> DriverResult<Vec<PointerId>> {
        let (_, stream_state) = self.lock_state()?;
        let it = self.find_pin(&stream_state.pins, pin, "KsPinGetFirstCloneStreamPointer")?;
        Ok(it.clones.clone())
    }
}
