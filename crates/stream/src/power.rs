//! Power: a device sleeps and wakes, and its pins with it; and hardware that several pins share.

use crate::funnel::Entry;
use crate::mutex::Mutex;
use crate::refused::Refused;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, DeviceId, PinId, Refusal, State};
use flight::{Passive, RuleId};

impl Stream {
    /// A device sleeps: its pins that run are paused, then its driver is told. Answers which pins.
    pub fn sleep(&self, at: &mut Passive, device: DeviceId) -> Result<Vec<PinId>, Refused> {
        let running: Vec<PinId> = {
            let world = self.world.hold();
            world.started(device.0)?;
            let mine = world.pins.iter().filter(|(_, it)| it.device == device.0);
            mine.filter(|(_, it)| it.state == State::Run).map(|(it, _)| PinId(it)).collect()
        };
        for pin in &running {
            self.set_state(at, *pin, State::Pause)?;
        }
        self.tell_power(at, device, false)?;
        Ok(running)
    }

    /// It wakes: its driver is told, and the pins run again, in this order or in the other one.
    ///
    /// WINDOWS: both orders come (documented).
    pub fn wake_device(
        &self,
        at: &mut Passive,
        device: DeviceId,
        pins: &[PinId],
        pins_first: bool,
    ) -> Result<(), Refused> {
        if !pins_first {
            self.tell_power(at, device, true)?;
        }
        let mut refused = Ok(());
        for pin in pins {
            let answer = self.set_state(at, *pin, State::Run);
            if pins_first {
                let broken = matches!(answer, Err(Refused::Driver(_))).then(|| {
                    format!(
                        "{} was to run before its driver was told that {} has power, and refused",
                        pin.subject(),
                        device.subject()
                    )
                });
                let place = Entry::PinSetDeviceState.name();
                self.judge(RuleId::KS_STATE_005, pin.subject(), place, broken);
            }
            refused = refused.and(answer);
        }
        if pins_first {
            self.tell_power(at, device, true)?;
        }
        refused
    }

    fn tell_power(&self, at: &mut Passive, device: DeviceId, on: bool) -> Result<(), Refused> {
        let _held = self.take(at, Mutex::Device(device.subject()))?;
        let (driver, told) = {
            let world = self.world.hold();
            let it = world.device(device.0)?;
            (it.driver.clone(), it.dispatch.contains(&Entry::DeviceSetPower))
        };
        if told {
            driver.set_power(at, on);
        }
        Ok(())
    }
}

impl Services {
    /// Programs the device's hardware for a pin, as writes to its registers do.
    pub fn program_hardware(&self, pin: PinId) -> Answer<()> {
        let (stream, place) = (self.stream()?, "WRITE_REGISTER_ULONG");
        let world = stream.world.hold();
        self.find_pin(&world, pin, place)?;
        let early = world.pins.get(pin.0).is_some_and(|it| it.client < State::Acquire);
        let mut others = world.pins.iter().filter(|(it, _)| *it != pin.0);
        let used = others.find(|(_, it)| it.device == self.device.0 && it.state == State::Run);
        let broken = used.filter(|_| early).map(|(other, _)| {
            format!(
                "the hardware was programmed for {}, which is not acquired, while {} runs on it",
                pin.subject(),
                PinId(other).subject()
            )
        });
        let refused = broken.is_some();
        stream.judge(RuleId::KS_STATE_006, pin.subject(), place, broken);
        if refused { Err(Refusal::Busy) } else { Ok(()) }
    }
}
