//! Injection: frames that come from a driver itself, and go back to it.

use crate::frame::{Frame, Place};
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, FrameId, Header, PinId, Refusal, State};
use flight::{Passive, RuleId, What, invariant};

impl Services {
    /// Has a pin's frames come from the driver (`KsPinRegisterFrameReturnCallback`), before it
    /// leaves stop.
    pub fn inject_frames(&self, pin: PinId) -> Answer<()> {
        let (stream, place) = (self.stream()?, "KsPinRegisterFrameReturnCallback");
        let mut world = stream.world.hold();
        self.find_pin(&world, pin, place)?;
        let it = &mut world.pins[pin];
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
        let it = &world.pins[pin];
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
        let mut frame = Frame::new(pin, None, word, bytes);
        frame.header = header;
        frame.place = Place::Passed;
        frame.injected = Some(context);
        let frame = world.add_frame(frame);
        let (word, pin) = (stream.hold_word(word), pin.subject());
        let made = What::FrameMade { allocator: None, pin, word, bytes };
        stream.log.emit(frame.subject(), made);
        stream.settle(&mut world, frame);
        Ok(())
    }
}

impl Stream {
    /// An injected frame goes back to its driver. A thread that stops the pin waits for that, or does
    /// it.
    pub(crate) fn return_injected(&self, at: &mut Passive, pin: PinId, frame: FrameId) {
        // The pin may have been closed since the client gave the frame back.
        let Some(processing) = self.processing_of(pin) else { return };
        // A client that takes and gives back in a loop lets other threads have the mutex, too.
        self.host.breathe(at);
        let Ok(_held) = self.take(at, processing) else { return };
        let (word, context, driver) = {
            let mut world = self.world.hold();
            // The pin may have stopped or been closed meanwhile: then the frame has gone back.
            let Some(of) = world.pins.get(pin).filter(|pin| pin.state != State::Stop) else {
                return;
            };
            let Some(it) = world.frames.get(frame) else { return };
            let context = invariant(it.injected, "only injected frames go back to their driver");
            let (word, driver) = (it.word, world.devices[of.device].driver.clone());
            world.remove_frame(frame);
            (word, context, driver)
        };
        driver.frame_returned(at, pin, word, context);
        self.log.emit(frame.subject(), What::FrameFreed {});
        self.release_word(word);
        driver.gone(frame.into());
    }
}
