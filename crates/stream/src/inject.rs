//! Injection: frames that a driver supplies itself, and that are returned to it.

use crate::frame::{Frame, FrameLocation};
use crate::services::Services;
use crate::stream::Stream;
use crate::types::{DriverError, DriverResult, FrameId, Header, PinId, PinState};
use flight::{EventKind, Passive, RuleId, invariant};

impl Services {
    /// Sets a pin to get its frames from the driver (`KsPinRegisterFrameReturnCallback`), before it
    /// leaves stop.
    pub fn inject_frames(&self, pin: PinId) -> DriverResult<()> {
        let place = "KsPinRegisterFrameReturnCallback";
        let (stream, mut stream_state) = self.lock_state()?;
        self.find_pin(&stream_state.pins, pin, place)?;
        let it = &mut stream_state.pins[pin];
        let stopped = it.client_state == PinState::Stop && it.device_state == PinState::Stop;
        let broken = (!stopped).then(|| {
            format!(
                "{} was set to inject frames in state {}",
                pin.subject(),
                it.client_state.name()
            )
        });
        stream.judge(RuleId::KS_STATE_008, pin.subject(), place, broken);
        if !stopped {
            return Err(DriverError::Invalid);
        }
        it.injects_frames = true;
        stream.log.emit(pin.subject(), || EventKind::PinInjects {});
        Ok(())
    }

    /// Submits a frame (`KsPinSubmitFrame`): it comes back through the driver's frame return entry,
    /// once. Its memory is NULL exactly if it has no bytes.
    pub fn submit_frame(
        &self,
        pin: PinId,
        (word, bytes): (usize, u32),
        header: Header,
        context: usize,
    ) -> DriverResult<()> {
        let place = "KsPinSubmitFrame";
        let (stream, mut stream_state) = self.lock_state()?;
        self.find_pin(&stream_state.pins, pin, place)?;
        let it = &stream_state.pins[pin];
        let broken = if !it.injects_frames {
            Some(format!("a frame was submitted to {}, which does not inject", pin.subject()))
        } else if (word == 0) != (bytes == 0) {
            let null = if word == 0 { "no" } else { "a" };
            let subject = pin.subject();
            Some(format!("a frame of {bytes} bytes with {null} address was submitted to {subject}"))
        } else {
            None
        };
        let error = broken.is_some();
        stream.judge(RuleId::KS_STATE_009, pin.subject(), place, broken);
        if error {
            return Err(DriverError::Invalid);
        }
        if it.client_state < PinState::Acquire {
            return Err(DriverError::NotReady);
        }
        let mut frame = Frame::new(pin, None, word, bytes);
        frame.header = header;
        frame.location = FrameLocation::Cloned;
        frame.injected = Some(context);
        let frame = stream_state.add_frame(frame);
        let (word, pin) = (stream.acquire_pointer(word), pin.subject());
        stream.log.emit(frame.subject(), || EventKind::FrameCreated {
            allocator: None,
            pin,
            pointer: word,
            bytes,
        });
        stream.complete_if_unreferenced(&mut stream_state, frame);
        Ok(())
    }
}

impl Stream {
    /// Returns an injected frame to its driver. A thread that stops the pin waits for that, or does
    /// it.
    pub(crate) fn return_injected_frame(&self, at: &mut Passive, pin: PinId, frame: FrameId) {
        // The pin may have been closed since the client gave the frame back.
        let Some(processing) = self.processing_mutex(pin) else { return };
        // A client that takes and gives back frames in a loop lets other threads have the mutex,
        // too.
        self.host.yield_point(at);
        // The wait cannot end: a thread that stops the pin returns the frame.
        let Ok(_held) = self.acquire_guard(at, processing) else { return };
        let (word, context, driver) = {
            let mut stream_state = self.state.lock();
            // The pin may have stopped or been closed meanwhile: then the frame was returned.
            let Some(of) =
                stream_state.pins.get(pin).filter(|pin| pin.device_state != PinState::Stop)
            else {
                return;
            };
            // Another thread may have returned the frame.
            let Some(it) = stream_state.frames.get(frame) else { return };
            let context = invariant(it.injected, "only injected frames go back to their driver");
            let (word, driver) = (it.address, stream_state.devices[of.device].driver.clone());
            stream_state.remove_frame(frame);
            (word, context, driver)
        };
        driver.frame_returned(at, pin, word, context);
        self.log.emit(frame.subject(), || EventKind::FrameFreed {});
        self.release_pointer(word);
        driver.object_removed(frame.into());
    }
}
