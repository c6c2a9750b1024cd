//! Injection: frames that come from a driver itself, and go back to it.

use crate::frame::{Frame, Place};
use crate::funnel::Entry;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, FrameId, Header, PinId, Refusal, State};
use flight::{Passive, RuleId, What};

impl Services {
    /// Has a pin's frames come from the driver (`KsPinRegisterFrameReturnCallback`), before it
    /// leaves stop.
    pub fn inject_frames(&self, pin: PinId) -> Answer<()> {
        let (stream, place) = (self.stream()?, "KsPinRegisterFrameReturnCallback");
        let mut world = stream.world.hold();
        self.find_pin(&world, pin, place)?;
        let it = world.pins.get_mut(pin.0).ok_or(Refusal::Invalid)?;
        let stopped = it.client == State::Stop && it.state == State::Stop;
        let broken = (!stopped).then(|| {
            format!("{} was to inject frames in state {}", pin.subject(), it.client.name())
        });
        stream.judge(RuleId::KS_STATE_008, pin.subject(), place, broken);
        if !stopped {
            return Err(Refusal::Invalid);
        }
        it.injects = true;
        stream.log.emit(pin.subject(), What::PinInjects {});
        Ok(())
    }

    /// Sends a frame on (`KsPinSubmitFrame`): it comes back through the driver's frame return
    /// entry, once. Its memory is null exactly if it has no bytes.
    pub fn submit_frame(
        &self,
        pin: PinId,
        (word, bytes): (usize, u32),
        header: Header,
        context: usize,
    ) -> Answer<()> {
        let (stream, place) = (self.stream()?, "KsPinSubmitFrame");
        let mut world = stream.world.hold();
        self.find_pin(&world, pin, place)?;
        let it = world.pins.get_mut(pin.0).ok_or(Refusal::Invalid)?;
        let broken = if !it.injects {
            Some(format!("a frame was submitted to {}, which does not inject", pin.subject()))
        } else if (word == 0) != (bytes == 0) {
            let null = if word == 0 { "no" } else { "a" };
            let subject = pin.subject();
            Some(format!("a frame of {bytes} bytes with {null} address was submitted to {subject}"))
        } else {
            None
        };
        let refused = broken.is_some();
        stream.judge(RuleId::KS_STATE_009, pin.subject(), place, broken);
        if refused {
            return Err(Refusal::Invalid);
        }
        if it.client < State::Acquire {
            return Err(Refusal::NotReady);
        }
        let mut frame = Frame::new(pin.0, None, word, bytes);
        frame.header = header;
        frame.place = Place::Passed;
        frame.injected = Some(context);
        let number = world.add_frame(frame);
        let (word, pin) = (stream.hold_word(word), pin.subject());
        let made = What::FrameMade { allocator: None, pin, word, bytes };
        stream.log.emit(FrameId(number).subject(), made);
        stream.settle(&mut world, number);
        Ok(())
    }
}

impl Stream {
    /// An injected frame goes back to its driver. Whoever stops the pin waits for that, or does
    /// it.
    pub(crate) fn return_injected(&self, at: &mut Passive, pin: PinId, frame: FrameId) {
        let Some(processing) = self.processing_of(pin) else { return };
        // Who gives back and takes in a circle lets others have it, too.
        self.host.breathe(at);
        let Ok(_held) = self.take(at, processing) else { return };
        let found = {
            let mut world = self.world.hold();
            if world.pin(pin).is_ok_and(|it| it.state == State::Stop) {
                return;
            }
            let found = world.remove_frame(frame.0).and_then(|it| Some((it.word, it.injected?)));
            found.zip(world.pin_call(pin, Entry::FrameReturned))
        };
        let Some(((word, context), (driver, ..))) = found else { return };
        driver.frame_returned(at, pin, word, context);
        self.log.emit(frame.subject(), What::FrameFreed {});
        self.release_word(word);
        driver.gone(frame.subject());
    }
}
