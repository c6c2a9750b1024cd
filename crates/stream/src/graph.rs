//! A small graph: a filter of a device, one pin of it, and a sink of ours.

use crate::describe::Format;
use crate::framing::{Framing, Wish};
use crate::refused::Refused;
use crate::stream::Stream;
use crate::words::{DeviceId, FilterId, Header, PinId, State};
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
pub struct Picture {
    /// What is said with it.
    pub header: Header,
    /// Its bytes: as many as are used.
    pub bytes: Vec<u8>,
}

impl Graph {
    /// Opens the first filter of a device and connects its first pin. What was done before a
    /// refusal is undone.
    pub fn open(
        stream: &Arc<Stream>,
        at: &mut Passive,
        device: DeviceId,
        format: &Format,
        wish: &Wish,
    ) -> Result<Graph, Refused> {
        let filter = stream.open_filter(at, device, 0)?;
        let connected = stream.create_pin(at, filter, 0, format).and_then(|pin| {
            let framing = stream.connect(at, pin, wish).inspect_err(|_| {
                // It may be gone already, with its device.
                let _ = stream.close_pin(at, pin);
            })?;
            Ok((pin, framing))
        });
        match connected {
            Ok((pin, framing)) => Ok(Graph { stream: stream.clone(), filter, pin, framing }),
            Err(why) => {
                // Likewise.
                let _ = stream.close_filter(at, filter);
                Err(why)
            }
        }
    }

    /// Runs until so many frames have arrived, or the last one that its driver has.
    pub fn run(&self, at: &mut Passive, frames: usize) -> Result<Vec<Picture>, Refused> {
        self.stream.set_state(at, self.pin, State::Run)?;
        let mut pictures = Vec::new();
        while pictures.len() < frames {
            let taken = self.stream.take_frame(at, self.pin, None)?;
            let room = taken.header.used.min(self.framing.bytes);
            let mut bytes = vec![0; room as usize];
            self.stream.read_frame(taken.frame, 0, &mut bytes)?;
            let end = taken.header.end;
            pictures.push(Picture { header: taken.header, bytes });
            self.stream.give_back(at, taken.frame)?;
            if end {
                break;
            }
        }
        Ok(pictures)
    }

    /// Stops it.
    pub fn stop(&self, at: &mut Passive) -> Result<(), Refused> {
        self.stream.set_state(at, self.pin, State::Stop)
    }

    /// Closes the pin, then the filter.
    pub fn close(self, at: &mut Passive) -> Result<(), Refused> {
        let closed = self.stream.close_pin(at, self.pin);
        self.stream.close_filter(at, self.filter)?;
        closed
    }
}
