//! Why the class driver did not do as a client asked, in plain words.

use crate::describe::BadDescriptor;
use crate::words::{Refusal, State};
use flight::Subject;
use std::fmt;

/// A refusal. The door turns it into a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such thing, or not any more.
    NotThere(Subject),
    /// The device is not started (`STATUS_DEVICE_NOT_READY`), or it is gone.
    NotStarted(Subject),
    /// There is no such filter or pin among what the driver describes.
    NoFactory(u32),
    /// The driver describes something impossible.
    Descriptor(BadDescriptor),
    /// No range of the pin has this format.
    NoFormat,
    /// There are as many pins of this kind as there may be.
    TooMany {
        /// How many.
        most: u32,
    },
    /// Another kind of pin has too few for a change of state.
    TooFew {
        /// Which kind.
        factory: u32,
        /// How many there must be.
        least: u32,
    },
    /// It is not connected.
    NotConnected(Subject),
    /// It is connected already.
    Connected(Subject),
    /// It is not in a state for this.
    State(State),
    /// What one side wants of frames the other cannot have: why, in words.
    Framing(String),
    /// Pins of the filter are open.
    PinsOpen(Subject),
    /// No frame could be had.
    NoFrames,
    /// The pin stopped, or went.
    Stopped,
    /// A wait that nothing could end was given up.
    Stuck,
    /// The run is over: nobody goes on.
    Over,
    /// The time is over.
    TimedOut,
    /// Data goes the other way.
    OtherWay,
    /// The driver refused.
    Driver(Refusal),
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Refused::Driver(why)
    }
}

impl From<BadDescriptor> for Refused {
    fn from(why: BadDescriptor) -> Self {
        Refused::Descriptor(why)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotThere(it) => write!(f, "{it} is not there"),
            Refused::NotStarted(it) => write!(f, "{it} is not started"),
            Refused::NoFactory(it) => write!(f, "the driver describes no number {it}"),
            Refused::Descriptor(why) => why.fmt(f),
            Refused::NoFormat => write!(f, "no range of the pin has this format"),
            Refused::TooMany { most } => write!(f, "there are {most} of this pin, the most"),
            Refused::TooFew { factory, least } => {
                write!(f, "pin {factory} of the filter must be there {least} times")
            }
            Refused::NotConnected(it) => write!(f, "{it} is not connected"),
            Refused::Connected(it) => write!(f, "{it} is connected"),
            Refused::State(it) => write!(f, "the pin is in state {}", it.name()),
            Refused::Framing(why) => f.write_str(why),
            Refused::PinsOpen(it) => write!(f, "{it} has open pins"),
            Refused::NoFrames => write!(f, "no frame could be had"),
            Refused::Stopped => write!(f, "the pin stopped"),
            Refused::Stuck => write!(f, "nothing could end the wait"),
            Refused::Over => write!(f, "the run is over"),
            Refused::TimedOut => write!(f, "the time is over"),
            Refused::OtherWay => write!(f, "data goes the other way"),
            Refused::Driver(why) => write!(f, "the driver refused: {}", why.name()),
        }
    }
}
