//! A small graph: a filter of a device, one pin of it, and a sink of ours.

use crate::descriptor::Format;
use crate::error::StreamError;
use crate::frame::ClientFrame;
use crate::framing::{Framing, FramingRequest};
use crate::stream::Stream;
use crate::types::{DeviceId, FilterId, Header, PinId, PinState};
use flight::Passive;
use std::sync::Arc;

/// A filter that is open, with a pin that is connected to a sink of ours.
pub struct Graph {
    stream: Arc<Stream>,
    /// The filter.
    pub filter: FilterId,
    /// Its pin.
    pub pin: PinId,
    /// What was agreed on.
    pub framing: Framing,
}

/// A frame that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// What is said with it.
    pub header: Header,
    /// Its bytes: as many as are used.
    pub bytes: Vec<u8>,
}

impl ReceivedFrame {
    /// Takes the next frame of a pin that runs, and gives it back.
    pub fn receive(
        stream: &Stream,
        at: &mut Passive,
        pin: PinId,
    ) -> Result<ReceivedFrame, StreamError> {
        let ClientFrame { frame, header } = stream.take_frame(at, pin, None)?;
        // What is said to be used may be more than there is.
        let there = stream.state.lock().frames.get(frame).map_or(0, |frame| frame.bytes);
        let mut bytes = vec![0; header.data_used.min(there) as usize];
        stream.read_frame(frame, 0, &mut bytes)?;
        stream.return_frame(at, frame)?;
        Ok(ReceivedFrame { header, bytes })
    }
}

impl Graph {
    /// Opens the first filter of a device and connects its first pin. What was done before a
    /// refusal is undone.
    pub fn open(
        stream: &Arc<Stream>,
        at: &mut Passive,
        device: DeviceId,
        format: &Format,
        request: &FramingRequest,
    ) -> Result<Graph, StreamError> {
        let filter = stream.open_filter(at, device, 0)?;
        let connected = stream.create_pin(at, filter, 0, format).and_then(|pin| {
            let framing = stream.connect(at, pin, request).inspect_err(|_| {
                // It may be gone already, with its device.
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

    /// Runs until so many frames have arrived, or the last one that its driver has.
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

    /// Stops it.
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
