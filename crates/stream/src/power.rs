//! Sleep and wake of a streaming device, and when its hardware may be programmed.

use crate::funnel::Entry;
use crate::mutex::Mutex;
use crate::refused::Refused;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, DeviceId, FilterId, PinId, Refusal, State};
use flight::{Passive, RuleId, What};

/// Which is told first that a device wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeOrder {
    /// The device, that it has power.
    PowerFirst,
    /// Its pins, that they run.
    PinsFirst,
}

impl Stream {
    /// Puts a device to sleep: its pins that run pause first.
    ///
    /// WINDOWS: our reading. Which state pins have in sleep is not documented.
    pub fn sleep(&self, at: &mut Passive, device: DeviceId) -> Result<(), Refused> {
        self.world.hold().started(device)?;
        for pin in self.pins_in(device, State::Run) {
            // A client may close pins meanwhile.
            let Ok(filter) = self.filter_of(pin) else { continue };
            let _control = self.control(at, filter)?;
            if self.state(pin).is_ok_and(|(_, state)| state == State::Run) {
                self.step(at, pin, State::Run, State::Pause, true)?;
                self.world.hold().pins[pin].resumes = true;
            }
        }
        self.tell_power(at, device, false)
    }

    /// Wakes it, in either order: a driver stands both. A pin whose driver refuses stays paused.
    pub fn wake_up(
        &self,
        at: &mut Passive,
        device: DeviceId,
        order: WakeOrder,
    ) -> Result<(), Refused> {
        self.world.hold().started(device)?;
        if order == WakeOrder::PowerFirst {
            self.tell_power(at, device, true)?;
        }
        let mut refused = Ok(());
        for pin in self.pins_in(device, State::Pause) {
            // A client may close pins meanwhile.
            let Ok(filter) = self.filter_of(pin) else { continue };
            let _control = self.control(at, filter)?;
            let resumes = {
                let mut world = self.world.hold();
                let it = world.pins.get_mut(pin).filter(|it| it.state == State::Pause);
                it.is_some_and(|it| std::mem::take(&mut it.resumes))
            };
            if resumes {
                let answer = self.step(at, pin, State::Pause, State::Run, false);
                let broken = answer.is_err().then(|| {
                    let first = if order == WakeOrder::PinsFirst { "before" } else { "after" };
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
        if order == WakeOrder::PinsFirst {
            self.tell_power(at, device, true)?;
        }
        refused
    }

    fn pins_in(&self, device: DeviceId, state: State) -> Vec<PinId> {
        let world = self.world.hold();
        let mine = world.pins.iter().filter(|(_, it)| it.device == device && it.state == state);
        mine.map(|(pin, _)| pin).collect()
    }

    fn tell_power(&self, at: &mut Passive, device: DeviceId, on: bool) -> Result<(), Refused> {
        let _held = self.take(at, Mutex::Device(device.subject()))?;
        let (driver, asks) = {
            let world = self.world.hold();
            let it = world.started(device)?;
            (it.driver.clone(), it.dispatch.contains(&Entry::DeviceSetPower))
        };
        self.log.emit(device.subject(), What::KsPowered { on });
        if asks {
            driver.set_power(at, on);
        }
        Ok(())
    }
}

impl Services {
    /// Says that the hardware is being programmed for a pin: its registers are written.
    pub fn program_hardware(&self, pin: PinId) -> Answer<()> {
        let (stream, place) = (self.stream()?, "AVStrMiniPinSetDeviceState");
        let world = stream.world.hold();
        self.find_pin(&world, pin, place)?;
        let it = &world.pins[pin];
        let early = it.client < State::Acquire;
        let other = world.pins.iter().find(|(id, other)| {
            *id != pin && other.device == it.device && other.state >= State::Acquire
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
        if refused { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// The filter of a pin (`KsPinGetParentFilter`).
    pub fn filter_of(&self, pin: PinId) -> Answer<FilterId> {
        let stream = self.stream()?;
        let world = stream.world.hold();
        Ok(self.find_pin(&world, pin, "KsPinGetParentFilter")?.filter)
    }
}
