//! The expected video of a streaming minidriver: the requested format and the test pattern.

use drivers::stream::pattern;
use stream::{Format, Header};

/// The video requested from a streaming minidriver, and what is known about its frames.
#[derive(Clone, Debug)]
pub struct ExpectedVideo {
    /// The format of its first pin.
    pub format: Format,
    /// The frame interval, in units of 100 ns.
    pub interval: u64,
    /// Whether frames show the test pattern of the built-in sources.
    pattern: bool,
}

/// Thirty frames per second.
const DEFAULT_INTERVAL: u64 = 333_333;

impl ExpectedVideo {
    /// Frames of that format with unknown content.
    pub fn with_format(format: Format) -> Self {
        Self { format, interval: DEFAULT_INTERVAL, pattern: false }
    }

    /// The test pattern of the built-in sources.
    pub(crate) fn pattern() -> Self {
        Self { format: pattern::format(0), interval: pattern::INTERVAL, pattern: true }
    }

    /// The same with this frame interval, if the format carries one.
    pub(crate) fn with_frame_count(&self, frames: u32) -> Option<Format> {
        self.pattern.then(|| pattern::format(frames))
    }

    /// Checks a frame against the previous one. Returns its position, or what is wrong.
    pub(crate) fn check_frame(
        &self,
        before: Option<FramePosition>,
        header: &Header,
        bytes: &[u8],
    ) -> Result<FramePosition, String> {
        let time = header.time;
        let number = self.pattern.then(|| pattern::number(bytes)).flatten();
        if let Some(reason) = self.pattern.then(|| pattern::wrong(bytes)).flatten() {
            return Err(format!("frames with the right pattern: {reason}"));
        }
        let early = before.is_some_and(|frame_position| match number {
            Some(number) => time <= frame_position.time || Some(number) <= frame_position.number,
            // Frames produced without delay may have the same time.
            None => time < frame_position.time,
        });
        if early {
            let which = number.map_or("a frame".to_owned(), |value| format!("frame {value}"));
            return Err(format!("frames with increasing times: {which} is at {time}"));
        }
        Ok(FramePosition { time, number })
    }
}

/// The position of a frame in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePosition {
    time: u64,
    number: Option<u64>,
}

impl FramePosition {
    /// Whether a frame has the same time. A source without a clock gives all frames one time.
    pub(crate) fn has_time_of(self, header: &Header) -> bool {
        self.time == header.time
    }
}
