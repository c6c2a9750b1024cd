//! Filters: opened by clients, closed after their pins.

use crate::bag::BagOwner;
use crate::descriptor::{FilterDescriptor, PinDescriptor};
use crate::driver_calls::{Driver, Entry};
use crate::error::StreamError;
use crate::minidriver::FilterView;
use crate::mutex::{KsMutex, KsMutexGuard};
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DeviceId, DriverError, DriverFilter, DriverResult, FilterId, PinId};
use flight::{Component, EventKind, Passive, RuleId};
use std::sync::Arc;

/// A filter.
pub struct Filter {
    pub(crate) device: DeviceId,
    pub(crate) factory: u32,
    pub(crate) descriptor: Arc<FilterDescriptor>,
    /// Its pins, by number.
    pub(crate) pins: Vec<PinId>,
    /// The driver handle, if the driver set one.
    pub(crate) own_handle: Option<DriverFilter>,
    /// The driver handle passed with each call: its own, or its device's.
    pub(crate) driver_handle: usize,
    /// The driver has created it.
    pub(crate) created: bool,
    /// The last processing moved nothing.
    pub(crate) made_no_progress: bool,
    /// Its driver must attempt processing before it is processed again.
    pub(crate) waits_for_attempt: bool,
}

impl StreamState {
    pub(crate) fn filter(&self, filter: FilterId) -> Result<&Filter, StreamError> {
        self.filters.get(filter).ok_or_else(|| StreamError::NotFound(filter.subject()))
    }

    pub(crate) fn filter_view(&self, filter: FilterId) -> FilterView {
        let it = &self.filters[filter];
        FilterView {
            filter,
            device: it.device,
            factory: it.factory,
            driver_handle: it.driver_handle,
        }
    }

    pub(crate) fn driver_of(&self, filter: FilterId) -> Arc<Driver> {
        self.devices[self.filters[filter].device].driver.clone()
    }

    pub(crate) fn pins_of(&self, filter: FilterId) -> &[PinId] {
        &self.filters[filter].pins
    }
}

impl Stream {
    /// Opens a filter of a device: number `factory` of those that its driver describes.
    pub fn open_filter(
        &self,
        at: &mut Passive,
        device: DeviceId,
        factory: u32,
    ) -> Result<FilterId, StreamError> {
        // WINDOWS: D-20. One page names the device mutex, another the control mutex: both.
        let _device = self.acquire_guard(at, KsMutex::Device(device.subject()))?;
        let (filter, driver, asks) = {
            let mut state = self.state.lock();
            let it = state.started_device(device)?;
            let descriptor = it.factories.get(factory as usize).cloned();
            let descriptor = descriptor.ok_or(StreamError::NoFactory(factory))?;
            let (word, driver) = (it.driver_handle, it.driver.clone());
            let asks = descriptor.dispatch.contains(&Entry::FilterCreate);
            let filter = state.filters.insert(Filter {
                device,
                factory,
                descriptor,
                pins: Vec::new(),
                own_handle: None,
                driver_handle: word,
                created: false,
                made_no_progress: false,
                waits_for_attempt: false,
            });
            (filter, driver, asks)
        };
        let _control = match self.acquire_guard(at, KsMutex::Control(filter.subject())) {
            Ok(held) => held,
            Err(reason) => {
                self.state.lock().filters.remove(filter);
                return Err(reason);
            }
        };
        let own = match asks.then(|| self.call_create_filter(at, &driver, filter)) {
            None => None,
            Some(Ok(own)) => own,
            Some(Err(reason)) => {
                self.empty_bag(at, device, BagOwner::Filter(filter));
                let mut state = self.state.lock();
                state.filters.remove(filter);
                self.log.emit(filter.subject(), || EventKind::FilterCreateFailed {});
                self.wake_all(&mut state);
                drop(state);
                driver.object_removed(filter.into());
                return Err(reason);
            }
        };
        let mut state = self.state.lock();
        let it = &mut state.filters[filter];
        it.created = true;
        it.driver_handle = own.as_ref().map_or(it.driver_handle, DriverFilter::as_raw);
        let (dispatch, has_context) = (it.descriptor.dispatch_level, own.is_some());
        it.own_handle = own;
        let needs =
            it.descriptor.pins.iter().map(|pin_descriptor| pin_descriptor.instances_necessary);
        let needs = needs.fold(0, u32::saturating_add);
        let device = device.subject();
        self.log.emit(filter.subject(), || EventKind::FilterCreated {
            device,
            factory,
            has_context,
            dispatch,
            needs,
        });
        Ok(filter)
    }

    fn call_create_filter(
        &self,
        at: &mut Passive,
        driver: &Driver,
        filter: FilterId,
    ) -> Result<Option<DriverFilter>, StreamError> {
        let view = self.state.lock().filter_view(filter);
        self.begin_request(filter.subject());
        let answer = driver.create_filter(at, &view);
        Ok(self.end_request(at, filter.subject(), Entry::FilterCreate, answer)?)
    }

    /// Closes a filter whose pins are closed.
    pub fn close_filter(&self, at: &mut Passive, filter: FilterId) -> Result<(), StreamError> {
        let device = self.state.lock().filter(filter)?.device;
        let _device = self.acquire_guard(at, KsMutex::Device(device.subject()))?;
        let _control = self.acquire_guard(at, KsMutex::Control(filter.subject()))?;
        {
            let state = self.state.lock();
            state.filter(filter)?;
            let pins = state.pins_of(filter).len();
            let broken = (pins > 0)
                .then(|| format!("{} was closed with {pins} of its pins open", filter.subject()));
            let refused = broken.is_some();
            let place = "IRP_MJ_CLOSE";
            self.log.judge(RuleId::KS_PIN_013, Component::Client, filter.subject(), place, broken);
            if refused {
                return Err(StreamError::PinsOpen(filter.subject()));
            }
        }
        self.destroy_filter(at, filter);
        Ok(())
    }

    /// Acquires the control mutex of a filter that is created and whose device is started.
    pub(crate) fn acquire_control(
        &self,
        at: &mut Passive,
        filter: FilterId,
    ) -> Result<KsMutexGuard<'_>, StreamError> {
        let held = self.acquire_guard(at, KsMutex::Control(filter.subject()))?;
        let answer = {
            let state = self.state.lock();
            let it = state.filter(filter);
            // A filter that is being created has no pins yet.
            let it = it.and_then(|it| {
                it.created.then_some(it).ok_or(StreamError::NotFound(filter.subject()))
            });
            it.and_then(|filter| state.started_device(filter.device).map(|_| ()))
        };
        answer.map(|()| held)
    }

    /// Ends a filter with all its pins. Both its mutexes are held.
    pub(crate) fn destroy_filter(&self, at: &mut Passive, filter: FilterId) {
        let pins = self.state.lock().pins_of(filter).to_vec();
        for pin in pins {
            self.destroy_pin(at, pin);
        }
        let (view, driver, own, asks, device) = {
            let mut state = self.state.lock();
            let (view, driver) = (state.filter_view(filter), state.driver_of(filter));
            let it = &mut state.filters[filter];
            let asks = it.created && it.descriptor.dispatch.contains(&Entry::FilterClose);
            (view, driver, it.own_handle.take(), asks, it.device)
        };
        if asks {
            self.begin_request(filter.subject());
            let answer = driver.close_filter(at, &view, own).map(|()| None::<DriverFilter>);
            // The result is ignored: the filter is closed.
            let _ = self.end_request(at, filter.subject(), Entry::FilterClose, answer);
        }
        self.empty_bag(at, device, BagOwner::Filter(filter));
        let mut state = self.state.lock();
        state.filters.remove(filter);
        state.jobs.retain(|job| !job.is_of_filter(filter));
        self.log.emit(filter.subject(), || EventKind::FilterClosed {});
        self.wake_all(&mut state);
        drop(state);
        driver.object_removed(filter.into());
    }
}

impl Services {
    /// A filter of the device, as it is now.
    pub fn filter_view(&self, filter: FilterId) -> Option<FilterView> {
        let (_, state) = self.lock_state().ok()?;
        state.filters.get(filter).filter(|filter| filter.device == self.device)?;
        Some(state.filter_view(filter))
    }

    /// Creates another pin factory of one filter (`KsFilterCreatePinFactory`), with the control
    /// mutex held. Returns its number.
    pub fn create_pin_factory(&self, filter: FilterId, pin: PinDescriptor) -> DriverResult<u32> {
        let (stream, state) = self.lock_state()?;
        let it = state.filters.get(filter).filter(|filter| filter.device == self.device);
        let mut whole = FilterDescriptor::clone(&it.ok_or(DriverError::Invalid)?.descriptor);
        stream.judge_enumeration(&state, KsMutex::Control(filter.subject()))?;
        drop(state);
        whole.pins.push(pin);
        let number = u32::try_from(whole.pins.len() - 1).map_err(|_| DriverError::NoMemory)?;
        stream.check_descriptor(filter.subject(), &whole).map_err(|_| DriverError::Invalid)?;
        let (_, mut state) = self.lock_state()?;
        // It may have been closed: the state was unlocked while the descriptor was judged.
        let it = state.filters.get_mut(filter).ok_or(DriverError::Invalid)?;
        it.descriptor = Arc::new(whole);
        Ok(number)
    }
}
