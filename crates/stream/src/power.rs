//! Sleep and wake of a streaming device, and when its hardware may be programmed.

use crate::driver_calls::Entry;
use crate::error::StreamError;
use crate::mutex::KsMutex;
use crate::services::Services;
use crate::stream::Stream;
use crate::types::{DeviceId, DriverError, DriverResult, FilterId, PinId, PinState};
use flight::{EventKind, Passive, RuleId};

/// What is notified first when a device wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerUpOrder {
    /// The device: it has power.
    PowerFirst,
    /// Its pins: they run.
    PinsFirst,
}

impl Stream {
    /// Puts a device to sleep: its running pins pause first.
    ///
    /// WINDOWS: our reading. The state of pins during sleep is not documented.
    pub fn power_down(&self, at: &mut Passive, device: DeviceId) -> Result<(), StreamError> {
        self.state.lock().started_device(device)?;
        for pin in self.pins_in_state(device, PinState::Run) {
            // A client may close pins meanwhile.
            let Ok(filter) = self.filter_of(pin) else { continue };
            let _control = self.acquire_control(at, filter)?;
            if self.state(pin).is_ok_and(|(_, state)| state == PinState::Run) {
                self.step_state(at, pin, PinState::Run, PinState::Pause, true)?;
                self.state.lock().pins[pin].runs_after_power_up = true;
            }
        }
        self.call_set_power(at, device, false)
    }

    /// Wakes a device, in either order: a driver must handle both. A pin whose driver refuses stays
    /// paused.
    pub fn power_up(
        &self,
        at: &mut Passive,
        device: DeviceId,
        order: PowerUpOrder,
    ) -> Result<(), StreamError> {
        self.state.lock().started_device(device)?;
        if order == PowerUpOrder::PowerFirst {
            self.call_set_power(at, device, true)?;
        }
        let mut refused = Ok(());
        for pin in self.pins_in_state(device, PinState::Pause) {
            // A client may close pins meanwhile.
            let Ok(filter) = self.filter_of(pin) else { continue };
            let _control = self.acquire_control(at, filter)?;
            let runs_after_power_up = {
                let mut stream_state = self.state.lock();
                let it = stream_state
                    .pins
                    .get_mut(pin)
                    .filter(|pin| pin.device_state == PinState::Pause);
                it.is_some_and(|it| std::mem::take(&mut it.runs_after_power_up))
            };
            if runs_after_power_up {
                let answer = self.step_state(at, pin, PinState::Pause, PinState::Run, false);
                let broken = answer.is_err().then(|| {
                    let first = if order == PowerUpOrder::PinsFirst { "before" } else { "after" };
                    format!(
                        "{} refused to run {first} its device had power: both orders come",
                        pin.subject()
                    )
                });
                let place = Entry::PinSetDeviceState.name();
                self.judge(RuleId::KS_STATE_005, pin.subject(), place, broken);
                refused = refused.and(answer);
            }
        }
        if order == PowerUpOrder::PinsFirst {
            self.call_set_power(at, device, true)?;
        }
        refused
    }

    fn pins_in_state(&self, device: DeviceId, state: PinState) -> Vec<PinId> {
        let stream_state = self.state.lock();
        let mine = stream_state
            .pins
            .iter()
            .filter(|(_, it)| it.device == device && it.device_state == state);
        mine.map(|(pin, _)| pin).collect()
    }

    fn call_set_power(
        &self,
        at: &mut Passive,
        device: DeviceId,
        on: bool,
    ) -> Result<(), StreamError> {
        let _held = self.acquire_guard(at, KsMutex::Device(device.subject()))?;
        let (driver, asks) = {
            let stream_state = self.state.lock();
            let it = stream_state.started_device(device)?;
            (it.driver.clone(), it.dispatch.contains(&Entry::DeviceSetPower))
        };
        self.log.emit(device.subject(), || EventKind::KsPowered { on });
        if asks {
            driver.set_power(at, on);
        }
        Ok(())
    }
}

impl Services {
    /// Reports that the driver programs the hardware for a pin: it writes registers.
    pub fn program_hardware(&self, pin: PinId) -> DriverResult<()> {
        let place = "AVStrMiniPinSetDeviceState";
        let (stream, stream_state) = self.lock_state()?;
        self.find_pin(&stream_state.pins, pin, place)?;
        let it = &stream_state.pins[pin];
        let early = it.client_state < PinState::Acquire;
        let other = stream_state.pins.iter().find(|(id, other)| {
            *id != pin && other.device == it.device && other.device_state >= PinState::Acquire
        });
        let broken = other.filter(|_| early).map(|(other, _)| {
            format!(
                "the hardware was programmed for {}, which has not reached acquire, and pin \
                 {} uses it",
                pin.subject(),
                other.serial()
            )
        });
        let refused = broken.is_some();
        stream.judge(RuleId::KS_STATE_006, pin.subject(), place, broken);
        if refused { Err(DriverError::Busy) } else { Ok(()) }
    }

    /// The filter of a pin (`KsPinGetParentFilter`).
    pub fn filter_of(&self, pin: PinId) -> DriverResult<FilterId> {
        let (_, stream_state) = self.lock_state()?;
        Ok(self.find_pin(&stream_state.pins, pin, "KsPinGetParentFilter")?.filter)
    }
}
