//! Pins: made with a format, connected, closed.

use crate::allocator::By;
use crate::bag::BagOf;
use crate::describe::{Flow, Format, PinDescriptor, PinFlag};
use crate::framing::{Framing, FramingForm, FramingItem, Wish, negotiate};
use crate::funnel::{Driver, Entry};
use crate::minidriver::PinView;
use crate::mutex::Mutex;
use crate::pointer::{Pointer, PointerKind};
use crate::refused::Refused;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{
    AllocatorId, Answer, DeviceId, FilterId, FrameId, PinId, PointerId, Refusal, State, Token,
};
use crate::world::World;
use flight::{Passive, RuleId, What, current_thread};
use std::collections::VecDeque;
use std::sync::Arc;

/// A pin.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Pin {
    pub(crate) device: DeviceId,
    pub(crate) filter: FilterId,
    pub(crate) factory: u32,
    pub(crate) descriptor: Arc<PinDescriptor>,
    /// Its filter processes it, together with its other pins.
    pub(crate) centric: bool,
    /// What it asks of frames: the descriptor's, or what its driver made of that.
    pub(crate) framing: Option<FramingForm>,
    pub(crate) own: Option<usize>,
    pub(crate) word: usize,
    /// Lent to its driver with every call.
    pub(crate) format: Arc<Format>,
    /// What its client wants, and where its driver is.
    pub(crate) client: State,
    pub(crate) state: State,
    pub(crate) created: bool,
    pub(crate) connection: Option<Connection>,
    pub(crate) allocator: Option<AllocatorId>,
    /// The frames that are its, by number.
    pub(crate) frames: Vec<FrameId>,
    /// The frames that an edge has to pass, or has not reached.
    pub(crate) queue: VecDeque<FrameId>,
    pub(crate) leading: PointerId,
    pub(crate) trailing: Option<PointerId>,
    pub(crate) clones: Vec<PointerId>,
    /// The frames that are done, for its client.
    pub(crate) done: VecDeque<FrameId>,
    /// How often one of its pointers has moved, come or gone.
    pub(crate) moves: u64,
    /// The last time it was processed nothing moved.
    pub(crate) idle: bool,
    /// Its driver wants to be asked before it is processed again.
    pub(crate) waits: bool,
    /// The inputs of its gate that its driver has added, on and off.
    pub(crate) gate: (u32, u32),
    /// Its frames come from its driver.
    pub(crate) injects: bool,
    /// It ran when its device went to sleep.
    pub(crate) resumes: bool,
}

/// What a pin and the other side agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) framing: Framing,
    pub(crate) by: By,
    /// The other side's frames are smaller.
    pub(crate) short: bool,
    /// The other side is in user mode.
    pub(crate) user: bool,
}

impl Pin {
    /// A frame leaves the queue: nearly always the first one.
    pub(crate) fn forget(&mut self, frame: FrameId) {
        if self.queue.front() == Some(&frame) {
            self.queue.pop_front();
        } else {
            self.queue.retain(|other| *other != frame);
        }
    }
}

impl World {
    pub(crate) fn pin(&self, pin: PinId) -> Result<&Pin, Refused> {
        self.pins.get(pin).ok_or_else(|| Refused::NotThere(pin.subject()))
    }

    pub(crate) fn pin_view(&self, pin: PinId) -> PinView {
        let it = &self.pins[pin];
        PinView {
            pin,
            filter: it.filter,
            factory: it.factory,
            word: it.word,
            format: it.format.clone(),
            client: it.client,
            state: it.state,
        }
    }

    /// A pin's driver, what that sees of it, and whether it has an entry.
    pub(crate) fn pin_call(&self, pin: PinId, entry: Entry) -> (Arc<Driver>, PinView, bool) {
        let it = &self.pins[pin];
        let driver = self.devices[it.device].driver.clone();
        (driver, self.pin_view(pin), it.descriptor.dispatch.contains(&entry))
    }
}

impl Stream {
    /// Makes a pin of a filter: the `factory`th that its driver describes, with a format.
    pub fn create_pin(
        &self,
        at: &mut Passive,
        filter: FilterId,
        factory: u32,
        format: &Format,
    ) -> Result<PinId, Refused> {
        let _control = self.control(at, filter)?;
        let pin = self.build_pin(filter, factory, format)?;
        let made = self.choose_format(at, pin, None).and_then(|()| self.ask_pin(at, pin));
        match made {
            Ok(own) => {
                self.judge_grown(pin);
                let mut world = self.world.hold();
                let it = &mut world.pins[pin];
                it.created = true;
                it.own = own;
                it.word = own.unwrap_or(it.word);
                let made = What::PinCreated {
                    filter: filter.subject(),
                    factory,
                    out: it.descriptor.flow == Flow::Out,
                    own: own.is_some(),
                    most: it.descriptor.possible,
                    standard: it.descriptor.is_standard(),
                    dispatch: it.descriptor.is(PinFlag::DispatchLevelProcessing),
                    least: it.least().name().into(),
                };
                self.log.emit(pin.subject(), made);
                Ok(pin)
            }
            Err(why) => {
                self.drop_pin(at, pin);
                Err(why)
            }
        }
    }

    fn build_pin(&self, filter: FilterId, factory: u32, format: &Format) -> Result<PinId, Refused> {
        let mut world = self.world.hold();
        let of = &world.filters[filter];
        let (device, word, centric) = (of.device, of.word, of.descriptor.is_centric());
        let descriptor = of.descriptor.pins.get(factory as usize).cloned();
        let descriptor = Arc::new(descriptor.ok_or(Refused::NoFactory(factory))?);
        let same = |pin: &&PinId| world.pins[**pin].factory == factory;
        let there = of.pins.iter().filter(same).count();
        if there >= descriptor.possible as usize {
            return Err(Refused::TooMany { most: descriptor.possible });
        }
        if !descriptor.formats.iter().any(|it| it.has(format)) {
            return Err(Refused::NoFormat);
        }
        let pin = world.pins.reserve();
        let trailing = descriptor.is(PinFlag::DistinctTrailingEdge);
        let leading = world.pointers.insert(Pointer::edge(pin, PointerKind::Leading));
        let trailing =
            trailing.then(|| world.pointers.insert(Pointer::edge(pin, PointerKind::Trailing)));
        let it = Pin {
            device,
            filter,
            factory,
            framing: descriptor.framing.clone(),
            descriptor,
            centric,
            own: None,
            word,
            format: Arc::new(format.clone()),
            client: State::Stop,
            state: State::Stop,
            created: false,
            connection: None,
            allocator: None,
            frames: Vec::new(),
            queue: VecDeque::new(),
            leading,
            trailing,
            clones: Vec::new(),
            done: VecDeque::new(),
            moves: 0,
            idle: false,
            waits: false,
            gate: (0, 0),
            injects: false,
            resumes: false,
        };
        world.pins.fill(pin, it);
        world.filters[filter].pins.push(pin);
        Ok(pin)
    }

    /// Asks the driver range by range whether the pin can have its format.
    fn choose_format(
        &self,
        at: &mut Passive,
        pin: PinId,
        old: Option<&Format>,
    ) -> Result<(), Refused> {
        let (call, ranges) = {
            let world = self.world.hold();
            let it = &world.pins[pin];
            let ranges = it.descriptor.formats.iter().filter(|range| range.has(&it.format));
            let ranges: Vec<Format> = ranges.cloned().collect();
            let (filter, sample) = (it.filter.subject(), it.format.sample);
            let first = old.is_none();
            self.log.emit(pin.subject(), What::PinFormat { filter, sample, first });
            (world.pin_call(pin, Entry::PinSetDataFormat), ranges)
        };
        let (driver, view, asks) = call;
        if !asks {
            return ranges.first().map(|_| ()).ok_or(Refused::NoFormat);
        }
        for range in &ranges {
            let answer = driver.set_format(at, &view, old, range);
            let broken = (answer == Err(Refusal::Pending))
                .then(|| format!("the format of {} was answered with pending", pin.subject()));
            self.judge(RuleId::KS_PIN_006, pin.subject(), Entry::PinSetDataFormat.name(), broken);
            match answer {
                Ok(()) => {
                    // The first time there is no pin yet: its framing may be edited when it is made.
                    if old.is_some() {
                        self.judge_grown(pin);
                    }
                    return Ok(());
                }
                Err(Refusal::NoMatch) => (),
                Err(why) => return Err(why.into()),
            }
        }
        Err(Refused::NoFormat)
    }

    /// Entry rule: frames have room for the format that was set.
    fn judge_grown(&self, pin: PinId) {
        let world = self.world.hold();
        let it = &world.pins[pin];
        let most = match &it.framing {
            None => return,
            Some(FramingForm::Simple(simple)) if simple.bytes == 0 => return,
            Some(FramingForm::Simple(simple)) => simple.bytes,
            Some(FramingForm::Extended(all)) => {
                let limits = all.items.iter().map(FramingItem::limit);
                let most = limits.collect::<Option<Vec<u32>>>().map(|it| it.into_iter().max());
                // Where an item has no limit, frames have room.
                let Some(most) = most else { return };
                most.unwrap_or(0)
            }
        };
        let sample = it.format.sample;
        let broken = (sample > most).then(|| {
            format!(
                "{} took a format with samples of {sample} bytes, and its framing still says {most}",
                pin.subject()
            )
        });
        let place = Entry::PinSetDataFormat.name();
        self.judge(RuleId::KS_FRAMING_005, pin.subject(), place, broken);
    }

    fn ask_pin(&self, at: &mut Passive, pin: PinId) -> Result<Option<usize>, Refused> {
        let (driver, view, asks) = self.world.hold().pin_call(pin, Entry::PinCreate);
        if !asks {
            return Ok(None);
        }
        self.begin_request(pin.subject());
        let answer = driver.create_pin(at, &view).map(|it| it.map_or(0, |it| it.word()));
        let word = self.end_request(at, pin.subject(), Entry::PinCreate, answer)?;
        Ok((word != 0).then_some(word))
    }

    /// The filter of a pin: its control mutex is what a call for the pin takes first.
    pub(crate) fn filter_of(&self, pin: PinId) -> Result<FilterId, Refused> {
        Ok(self.world.hold().pin(pin)?.filter)
    }

    /// Changes the format of a pin that is stopped. If its driver refuses, it has the old one.
    pub fn set_format(&self, at: &mut Passive, pin: PinId, format: &Format) -> Result<(), Refused> {
        let _control = self.control(at, self.filter_of(pin)?)?;
        let old = {
            let mut world = self.world.hold();
            let it = world.pins.get_mut(pin).ok_or(Refused::NotThere(pin.subject()))?;
            if it.state != State::Stop {
                return Err(Refused::State(it.state));
            }
            std::mem::replace(&mut it.format, Arc::new(format.clone()))
        };
        let answer = self.choose_format(at, pin, Some(&old));
        if answer.is_err() {
            self.world.hold().pins[pin].format = old;
        }
        answer
    }

    /// What a pin asks of frames (`KSPROPERTY_CONNECTION_ALLOCATORFRAMING_EX`); none, if nothing.
    pub fn framing(&self, pin: PinId) -> Result<Option<FramingForm>, Refused> {
        let world = self.world.hold();
        let framing = world.pin(pin)?.framing.clone();
        let there = framing.is_some();
        let told = What::PinFraming { set: false, there, answered: there };
        self.log.emit(pin.subject(), told);
        Ok(framing)
    }

    /// Always fails: clients cannot change what a pin asks of frames.
    pub fn set_framing(&self, pin: PinId, _framing: &FramingForm) -> Result<(), Refused> {
        let world = self.world.hold();
        let there = world.pin(pin)?.framing.is_some();
        let told = What::PinFraming { set: true, there, answered: false };
        self.log.emit(pin.subject(), told);
        Err(Refused::Driver(Refusal::Unsupported))
    }

    /// Where a pin is: what its client wants, and where its driver is.
    pub fn state(&self, pin: PinId) -> Result<(State, State), Refused> {
        let world = self.world.hold();
        let it = world.pin(pin)?;
        Ok((it.client, it.state))
    }

    /// Connects a pin to a sink or source of ours, which has wishes about frames: what frames
    /// there are is agreed on, whose allocator is used is chosen, and that is initialised.
    pub fn connect(&self, at: &mut Passive, pin: PinId, wish: &Wish) -> Result<Framing, Refused> {
        let _control = self.control(at, self.filter_of(pin)?)?;
        let connection = {
            let mut world = self.world.hold();
            let it = world.pins.get_mut(pin).ok_or(Refused::NotThere(pin.subject()))?;
            if it.connection.is_some() {
                return Err(Refused::Connected(pin.subject()));
            }
            let framing = negotiate(it.framing.as_ref(), wish, it.format.sample);
            let framing = framing.map_err(Refused::Framing)?;
            let by = By::choose(it.descriptor.allocator.is_some(), wish);
            let connection = Connection { framing, by, short: wish.short, user: wish.user };
            it.connection = Some(connection);
            connection
        };
        let made = self.ask_connect(at, pin).and_then(|()| {
            self.make_allocator(at, pin, connection).inspect_err(|_| {
                self.tell_disconnect(at, pin);
            })
        });
        let mut world = self.world.hold();
        if let Err(why) = made {
            world.pins[pin].connection = None;
            return Err(why);
        }
        let Framing { frames, bytes, alignment, .. } = connection.framing;
        let by = connection.by.name().into();
        self.log.emit(pin.subject(), What::PinConnected { frames, bytes, alignment, by });
        Ok(connection.framing)
    }

    fn ask_connect(&self, at: &mut Passive, pin: PinId) -> Result<(), Refused> {
        let (driver, view, asks) = self.world.hold().pin_call(pin, Entry::PinConnect);
        if !asks {
            return Ok(());
        }
        let answer = driver.connect_pin(at, &view);
        self.judge_at_once(pin, Entry::PinConnect, answer);
        Ok(answer?)
    }

    /// Entry rule: it does not answer that it is pending.
    pub(crate) fn judge_at_once(&self, pin: PinId, entry: Entry, answer: Answer<()>) {
        let broken = (answer == Err(Refusal::Pending))
            .then(|| format!("{} for {} answered that it is pending", entry.name(), pin.subject()));
        self.judge(RuleId::KS_PIN_012, pin.subject(), entry.name(), broken);
    }

    fn tell_disconnect(&self, at: &mut Passive, pin: PinId) {
        let (driver, view, asks) = self.world.hold().pin_call(pin, Entry::PinDisconnect);
        if asks {
            driver.disconnect_pin(at, &view);
        }
    }

    /// Ends a pin's connection: the pin is stopped, its frames come home, its allocator goes.
    pub fn disconnect(&self, at: &mut Passive, pin: PinId) -> Result<(), Refused> {
        let _control = self.control(at, self.filter_of(pin)?)?;
        if self.world.hold().pin(pin)?.connection.is_none() {
            return Err(Refused::NotConnected(pin.subject()));
        }
        self.fall(at, pin);
        self.undo_connection(at, pin);
        Ok(())
    }

    /// Closes a pin.
    pub fn close_pin(&self, at: &mut Passive, pin: PinId) -> Result<(), Refused> {
        let filter = self.filter_of(pin)?;
        let _control = self.take(at, Mutex::Control(filter.subject()))?;
        self.world.hold().pin(pin)?;
        self.shut_pin(at, pin);
        Ok(())
    }

    fn undo_connection(&self, at: &mut Passive, pin: PinId) {
        self.delete_allocator(at, pin);
        self.tell_disconnect(at, pin);
        let mut world = self.world.hold();
        world.pins[pin].connection = None;
        self.log.emit(pin.subject(), What::PinDisconnected {});
    }

    /// Ends a pin: to stop, clones gone, frames home, allocator deleted, driver told, bag empty.
    /// The control mutex of its filter is held.
    pub(crate) fn shut_pin(&self, at: &mut Passive, pin: PinId) {
        self.fall(at, pin);
        let connected = self.world.hold().pins[pin].connection.is_some();
        if connected {
            self.undo_connection(at, pin);
        }
        let (call, own, created) = {
            let world = self.world.hold();
            let it = &world.pins[pin];
            (world.pin_call(pin, Entry::PinClose), it.own, it.created)
        };
        let (driver, view, asks) = call;
        if asks && created {
            self.begin_request(pin.subject());
            let answer = driver.close_pin(at, &view, own.map(Token::lent)).map(|()| 0);
            // What it answers changes nothing: the pin is closed.
            let _ = self.end_request(at, pin.subject(), Entry::PinClose, answer);
        }
        self.end_timeouts(at, pin);
        self.drop_pin(at, pin);
    }

    /// The pin is gone, with its bag and its pointers.
    fn drop_pin(&self, at: &mut Passive, pin: PinId) {
        let (device, driver) = {
            let world = self.world.hold();
            let device = world.pins[pin].device;
            (device, world.devices[device].driver.clone())
        };
        self.empty_bag(at, device, BagOf::Pin(pin));
        let mut world = self.world.hold();
        let it = world.pins.remove(pin);
        world.filters[it.filter].pins.retain(|other| *other != pin);
        let pointers = it.clones.iter().copied().chain([it.leading]).chain(it.trailing);
        for pointer in pointers {
            world.unschedule(pointer);
            world.pointers.remove(pointer);
        }
        world.jobs.retain(|job| !job.is_of_pin(pin));
        let gone = if it.created { What::PinClosed {} } else { What::PinUnmade {} };
        self.log.emit(pin.subject(), gone);
        self.wake(&mut world);
        drop(world);
        driver.gone(pin.into());
    }
}

impl Services {
    /// A pin, as a driver names it. One that is closed is not the driver's any more, and one of
    /// another device never was.
    pub(crate) fn find_pin<'a>(
        &self,
        world: &'a World,
        pin: PinId,
        place: &'static str,
    ) -> Answer<&'a Pin> {
        let (rule, subject) = (RuleId::KS_PIN_004, pin.subject());
        let live = world.pins.get(pin);
        let found = live.filter(|it| it.device == self.device);
        if live.is_some() || world.pins.has_issued(pin.serial()) {
            let broken = match (live, found) {
                (_, Some(_)) => None,
                (Some(_), None) => {
                    Some(format!("a driver used {subject}, which is a pin of another device"))
                }
                (None, None) => Some(format!("a driver used {subject} after it was closed")),
            };
            self.log.judge(rule, flight::Who::Driver, subject, place, broken);
        }
        found.ok_or(Refusal::Invalid)
    }

    /// A pin of the device, as it is now.
    pub fn see_pin(&self, pin: PinId) -> Option<PinView> {
        let stream = self.stream().ok()?;
        let world = stream.world.hold();
        world.pins.get(pin).filter(|it| it.device == self.device)?;
        Some(world.pin_view(pin))
    }

    /// The pins of a filter (`KsFilterGetFirstChildPin`), with the control mutex held.
    pub fn pins(&self, filter: FilterId) -> Answer<Vec<PinId>> {
        let stream = self.stream()?;
        let world = stream.world.hold();
        world.filters.get(filter).ok_or(Refusal::Invalid)?;
        stream.judge_walk(&world, Mutex::Control(filter.subject()))?;
        Ok(world.pins_of(filter).to_vec())
    }

    /// Changes what a pin asks of frames, on a copy of its own (`KsEdit`), with the control mutex
    /// held.
    pub fn edit_framing(&self, pin: PinId, framing: Option<FramingForm>) -> Answer<()> {
        let stream = self.stream()?;
        let mut world = stream.world.hold();
        self.find_pin(&world, pin, "_KsEdit")?;
        let mutex = Mutex::Control(world.pins[pin].filter.subject());
        let held = world.has(current_thread(), mutex);
        let broken = (!held).then(|| {
            format!("the descriptor of {} was edited without the control mutex", pin.subject())
        });
        stream.judge(RuleId::KS_BAG_005, pin.subject(), "_KsEdit", broken);
        if !held {
            return Err(Refusal::Invalid);
        }
        let it = &mut world.pins[pin];
        let edited = PinDescriptor { framing, ..PinDescriptor::clone(&it.descriptor) };
        let mut all = Vec::new();
        edited.judge_framing(&mut all);
        let bad = all.iter().any(|(_, broken)| broken.is_some());
        for (rule, broken) in all {
            stream.judge(rule, pin.subject(), "_KsEdit", broken);
        }
        if bad {
            return Err(Refusal::Invalid);
        }
        it.framing = edited.framing;
        Ok(())
    }

    /// The clones of a pin that are there (`KsPinGetFirstCloneStreamPointer`).
    pub fn clones(&self, pin: PinId) -> Answer<Vec<PointerId>> {
        let stream = self.stream()?;
        let world = stream.world.hold();
        let it = self.find_pin(&world, pin, "KsPinGetFirstCloneStreamPointer")?;
        Ok(it.clones.clone())
    }
}
