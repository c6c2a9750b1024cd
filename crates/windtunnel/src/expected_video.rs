//! What a streaming minidriver shows: the format it is asked for, and how its pictures look.

use drivers::stream::pattern;
use stream::{Format, Header};

/// What a streaming minidriver is asked to show, and what is known of that.
#[derive(Clone, Debug)]
pub struct ExpectedVideo {
    /// The format that its first pin is made with.
    pub format: Format,
    /// How long its pictures are apart, in steps of 100 ns.
    pub interval: u64,
    /// Whether it shows the test pattern of the built-in sources.
    pattern: bool,
}

/// Thirty pictures a second.
const DEFAULT_INTERVAL: u64 = 333_333;

impl ExpectedVideo {
    /// Pictures of that format, of which nothing else is known.
    pub fn with_format(format: Format) -> Self {
        Self { format, interval: DEFAULT_INTERVAL, pattern: false }
    }

    /// The test pattern of the built-in sources.
    pub(crate) fn pattern() -> Self {
        Self { format: pattern::format(0), interval: pattern::INTERVAL, pattern: true }
    }

    /// The same with so many pictures, if its formats can say that.
    pub(crate) fn with_frame_count(&self, frames: u32) -> Option<Format> {
        self.pattern.then(|| pattern::format(frames))
    }

    /// What is wrong with a picture, beside the one before; else where it stands.
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
            // Pictures that took no time to make may have one time.
            None => time < frame_position.time,
        });
        if early {
            let which = number.map_or("a picture".to_owned(), |value| format!("picture {value}"));
            return Err(format!("frames that are later than those before: {which} is at {time}"));
        }
        Ok(FramePosition { time, number })
    }
}

/// Where a picture stands among others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePosition {
    time: u64,
    number: Option<u64>,
}
