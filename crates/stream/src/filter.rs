//! Filters: opened by clients, closed after their pins.

use crate::bag::BagOf;
use crate::describe::{FilterDescriptor, PinDescriptor};
use crate::funnel::{Driver, Entry};
use crate::minidriver::FilterView;
use crate::mutex::{Held, Mutex};
use crate::refused::Refused;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, DeviceId, FilterId, PinId, Refusal, Token};
use crate::world::World;
use flight::{Passive, RuleId, What, Who};
use std::sync::Arc;

/// A filter.
pub struct Filter {
    pub(crate) device: DeviceId,
    pub(crate) factory: u32,
    pub(crate) descriptor: Arc<FilterDescriptor>,
    /// Its pins, by number.
    pub(crate) pins: Vec<PinId>,
    /// The driver's own word for it, if it gave one.
    pub(crate) own: Option<usize>,
    /// The word it is lent: its own, or its device's.
    pub(crate) word: usize,
    /// The driver has made it.
    pub(crate) created: bool,
    /// The last time it was processed nothing moved.
    pub(crate) idle: bool,
    /// Its driver wants to be asked before it is processed again.
    pub(crate) waits: bool,
}

impl World {
    pub(crate) fn filter(&self, filter: FilterId) -> Result<&Filter, Refused> {
        self.filters.get(filter).ok_or_else(|| Refused::NotThere(filter.subject()))
    }

    pub(crate) fn filter_view(&self, filter: FilterId) -> FilterView {
        let it = &self.filters[filter];
        FilterView { filter, device: it.device, factory: it.factory, word: it.word }
    }

    pub(crate) fn driver_of(&self, filter: FilterId) -> Arc<Driver> {
        self.devices[self.filters[filter].device].driver.clone()
    }

    pub(crate) fn pins_of(&self, filter: FilterId) -> &[PinId] {
        &self.filters[filter].pins
    }
}

impl Stream {
    /// Opens a filter of a device: the `factory`th that its driver describes.
    pub fn open_filter(
        &self,
        at: &mut Passive,
        device: DeviceId,
        factory: u32,
    ) -> Result<FilterId, Refused> {
        // WINDOWS: D-20. One page names the device mutex, another the control mutex: both.
        let _device = self.take(at, Mutex::Device(device.subject()))?;
        let (filter, driver, asks) = {
            let mut world = self.world.hold();
            let it = world.started(device)?;
            let descriptor = it.factories.get(factory as usize).cloned();
            let descriptor = descriptor.ok_or(Refused::NoFactory(factory))?;
            let (word, driver) = (it.word, it.driver.clone());
            let asks = descriptor.dispatch.contains(&Entry::FilterCreate);
            let filter = world.filters.insert(Filter {
                device,
                factory,
                descriptor,
                pins: Vec::new(),
                own: None,
                word,
                created: false,
                idle: false,
                waits: false,
            });
            (filter, driver, asks)
        };
        let _control = match self.take(at, Mutex::Control(filter.subject())) {
            Ok(held) => held,
            Err(why) => {
                self.world.hold().filters.remove(filter);
                return Err(why);
            }
        };
        let own = match asks.then(|| self.ask_filter(at, &driver, filter)) {
            None => None,
            Some(Ok(word)) => (word != 0).then_some(word),
            Some(Err(why)) => {
                self.empty_bag(at, device, BagOf::Filter(filter));
                let mut world = self.world.hold();
                world.filters.remove(filter);
                self.log.emit(filter.subject(), What::FilterUnmade {});
                self.wake(&mut world);
                drop(world);
                driver.gone(filter.into());
                return Err(why);
            }
        };
        let mut world = self.world.hold();
        let it = &mut world.filters[filter];
        it.created = true;
        it.own = own;
        it.word = own.unwrap_or(it.word);
        let (dispatch, own) = (it.descriptor.dispatch_level, own.is_some());
        let needs = it.descriptor.pins.iter().map(|it| it.necessary);
        let needs = needs.fold(0, u32::saturating_add);
        let device = device.subject();
        let made = What::FilterCreated { device, factory, own, dispatch, needs };
        self.log.emit(filter.subject(), made);
        Ok(filter)
    }

    fn ask_filter(
        &self,
        at: &mut Passive,
        driver: &Driver,
        filter: FilterId,
    ) -> Result<usize, Refused> {
        let view = self.world.hold().filter_view(filter);
        self.begin_request(filter.subject());
        let answer = driver.create_filter(at, &view);
        let answer = answer.map(|it| it.map_or(0, |it| it.word()));
        Ok(self.end_request(at, filter.subject(), Entry::FilterCreate, answer)?)
    }

    /// Closes a filter whose pins are closed.
    pub fn close_filter(&self, at: &mut Passive, filter: FilterId) -> Result<(), Refused> {
        let device = self.world.hold().filter(filter)?.device;
        let _device = self.take(at, Mutex::Device(device.subject()))?;
        let _control = self.take(at, Mutex::Control(filter.subject()))?;
        {
            let world = self.world.hold();
            world.filter(filter)?;
            let pins = world.pins_of(filter).len();
            let broken = (pins > 0)
                .then(|| format!("{} was closed with {pins} of its pins open", filter.subject()));
            let refused = broken.is_some();
            let place = "IRP_MJ_CLOSE";
            self.log.judge(RuleId::KS_PIN_013, Who::Client, filter.subject(), place, broken);
            if refused {
                return Err(Refused::PinsOpen(filter.subject()));
            }
        }
        self.shut_filter(at, filter);
        Ok(())
    }

    /// Takes the control mutex of a filter that is made, and whose device is started.
    pub(crate) fn control(&self, at: &mut Passive, filter: FilterId) -> Result<Held<'_>, Refused> {
        let held = self.take(at, Mutex::Control(filter.subject()))?;
        let answer = {
            let world = self.world.hold();
            let it = world.filter(filter);
            // One that is being made has no pins yet.
            let it = it
                .and_then(|it| it.created.then_some(it).ok_or(Refused::NotThere(filter.subject())));
            it.and_then(|it| world.started(it.device).map(|_| ()))
        };
        answer.map(|()| held)
    }

    /// Ends a filter with all its pins. Both its mutexes are held.
    pub(crate) fn shut_filter(&self, at: &mut Passive, filter: FilterId) {
        let pins = self.world.hold().pins_of(filter).to_vec();
        for pin in pins {
            self.shut_pin(at, pin);
        }
        let (view, driver, own, asks, device) = {
            let world = self.world.hold();
            let (view, driver) = (world.filter_view(filter), world.driver_of(filter));
            let it = &world.filters[filter];
            let asks = it.created && it.descriptor.dispatch.contains(&Entry::FilterClose);
            (view, driver, it.own, asks, it.device)
        };
        if asks {
            self.begin_request(filter.subject());
            let answer = driver.close_filter(at, &view, own.map(Token::lent)).map(|()| 0);
            // What it answers changes nothing: the filter is closed.
            let _ = self.end_request(at, filter.subject(), Entry::FilterClose, answer);
        }
        self.empty_bag(at, device, BagOf::Filter(filter));
        let mut world = self.world.hold();
        world.filters.remove(filter);
        world.jobs.retain(|it| !it.is_of_filter(filter));
        self.log.emit(filter.subject(), What::FilterClosed {});
        self.wake(&mut world);
        drop(world);
        driver.gone(filter.into());
    }
}

impl Services {
    /// A filter of the device, as it is now.
    pub fn see_filter(&self, filter: FilterId) -> Option<FilterView> {
        let stream = self.stream().ok()?;
        let world = stream.world.hold();
        world.filters.get(filter).filter(|it| it.device == self.device)?;
        Some(world.filter_view(filter))
    }

    /// Makes another kind of pin of one filter (`KsFilterCreatePinFactory`), with the control
    /// mutex held. Answers its number.
    pub fn create_pin_factory(&self, filter: FilterId, pin: PinDescriptor) -> Answer<u32> {
        let stream = self.stream()?;
        let mut whole = {
            let world = stream.world.hold();
            let it = world.filters.get(filter).filter(|it| it.device == self.device);
            let whole = FilterDescriptor::clone(&it.ok_or(Refusal::Invalid)?.descriptor);
            stream.judge_walk(&world, Mutex::Control(filter.subject()))?;
            whole
        };
        whole.pins.push(pin);
        let number = u32::try_from(whole.pins.len() - 1).map_err(|_| Refusal::NoMemory)?;
        stream.check(filter.subject(), &whole).map_err(|_| Refusal::Invalid)?;
        let mut world = stream.world.hold();
        // It may have been closed since: the world was not held while the descriptor was judged.
        let it = world.filters.get_mut(filter).ok_or(Refusal::Invalid)?;
        it.descriptor = Arc::new(whole);
        Ok(number)
    }
}
