//! A small graph: a filter of a device, one of its pins, and a built-in sink.

use crate::descriptor::Format;
use crate::error::StreamError;
use crate::frame::ClientFrame;
use crate::framing::{Framing, FramingRequest};
use crate::stream::{Stream, StreamOwner};
use crate::types::{DeviceId, FilterId, Header, PinId, PinState};
use flight::Passive;
use std::sync::Arc;

/// An open filter with a pin that is connected to a built-in sink.
pub struct Graph {
    stream: Arc<StreamOwner>,
    /// The filter.
    pub filter: FilterId,
    /// Its pin.
    pub pin: PinId,
    /// The agreed framing.
    pub framing: Framing,
}

/// A frame that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Its stream header.
    pub header: Header,
    /// Its bytes: as many as are used.
    pub bytes: Vec<u8>,
    /// The number of bytes that it has room for.
    pub room: u32,
}

impl ReceivedFrame {
    /// Takes the next frame of a running pin, and gives it back.
    pub fn receive(
        stream: &Stream,
        at: &mut Passive,
        pin: PinId,
    ) -> Result<ReceivedFrame, StreamError> {
        let ClientFrame { frame, header } = stream.take_frame(at, pin, None)?;
        // The claimed number of used bytes may exceed the frame.
        let room = stream.state.lock().frames.get(frame).map_or(0, |frame| frame.bytes);
        let mut bytes = vec![0; header.data_used.min(room) as usize];
        stream.read_frame(frame, 0, &mut bytes)?;
        stream.return_frame(at, frame)?;
        Ok(ReceivedFrame { header, bytes, room })
    }
}

impl Graph {
    /// Opens the first filter of a device and connects its first pin. On failure, everything done
    /// before is undone.
    pub fn open(
        stream: &Arc<StreamOwner>,
        at: &mut Passive,
        device: DeviceId,
        format: &Format,
        request: &FramingRequest,
    ) -> Result<Graph, StreamError> {
        let filter = stream.open_filter(at, device, 0)?;
        let connected = stream.create_pin(at, filter, 0, format).and_then(|pin| {
            let framing = stream.connect(at, pin, request).inspect_err(|_| {
                // It may be closed already, with its device.
                let _ = stream.close_pin(at, pin);
            })?;
            Ok((pin, framing))
        });
        match connected {
            Ok((pin, framing)) => Ok(Graph { stream: stream.clone(), filter, pin, framing }),
            Err(reason) => {
                // Likewise.
                let _ = stream.close_filter(at, filter);
                Err(reason)
            }
        }
    }

    /// Runs until `frames` frames have arrived, or the driver's last one.
    pub fn run(&self, at: &mut Passive, frames: usize) -> Result<Vec<ReceivedFrame>, StreamError> {
        self.stream.set_state(at, self.pin, PinState::Run)?;
        let mut pictures = Vec::new();
        while pictures.len() < frames {
            let frame_bytes = ReceivedFrame::receive(&self.stream, at, self.pin)?;
            let end = frame_bytes.header.end_of_stream;
            pictures.push(frame_bytes);
            if end {
                break;
            }
        }
        Ok(pictures)
    }

    /// Stops the pin.
    pub fn stop(&self, at: &mut Passive) -> Result<(), StreamError> {
        self.stream.set_state(at, self.pin, PinState::Stop)
    }

    /// Closes the pin, then the filter.
    pub fn close(self, at: &mut Passive) -> Result<(), StreamError> {
        let closed = self.stream.close_pin(at, self.pin);
        self.stream.close_filter(at, self.filter)?;
        closed
    }
}
