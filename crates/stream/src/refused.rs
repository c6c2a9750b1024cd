//! Why the class driver did not do as a client asked, in plain words.

use crate::describe::BadDescriptor;
use crate::words::{Refusal, State};
use flight::Subject;
use std::error::Error;
use std::fmt;

/// A refusal. The door turns it into a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The object does not exist, or not any more.
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
    /// The run is over.
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
            Refused::NotThere(it) => write!(f, "{it} does not exist"),
            Refused::NotStarted(it) => write!(f, "{it} is not started"),
            Refused::NoFactory(it) => write!(f, "the driver describes no factory {it}"),
            Refused::Descriptor(why) => why.fmt(f),
            Refused::NoFormat => write!(f, "no data range of the pin has this format"),
            Refused::TooMany { most } => {
                write!(
                    f,
                    "the filter has {most} pins of this factory already, the most it can have"
                )
            }
            Refused::TooFew { factory, least } => {
                write!(f, "the filter needs at least {least} pins of factory {factory}")
            }
            Refused::NotConnected(it) => write!(f, "{it} is not connected"),
            Refused::Connected(it) => write!(f, "{it} is connected already"),
            Refused::State(it) => write!(f, "the pin cannot do this in state {}", it.name()),
            Refused::Framing(why) => f.write_str(why),
            Refused::PinsOpen(it) => write!(f, "{it} has open pins"),
            Refused::NoFrames => write!(f, "no frame could be allocated"),
            Refused::Stopped => write!(f, "the pin stopped"),
            Refused::Stuck => write!(f, "nothing can end the wait"),
            Refused::Over => write!(f, "the run is over"),
            Refused::TimedOut => write!(f, "the wait timed out"),
            Refused::OtherWay => write!(f, "data flows the other way through this pin"),
            Refused::Driver(why) => write!(f, "the driver failed: {why}"),
        }
    }
}

impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Refused::Descriptor(why) => Some(why),
            Refused::Driver(why) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong_and_names_its_source() {
        let refused = Refused::from(Refusal::NotReady);
        assert_eq!(refused.to_string(), "the driver failed: no data is ready");
        assert_eq!(refused.source().unwrap().to_string(), "no data is ready");
        let least = Refused::TooFew { factory: 3, least: 2 };
        assert_eq!(least.to_string(), "the filter needs at least 2 pins of factory 3");
        assert!(least.source().is_none());
        assert_eq!(Refusal::Other(0xc000_0001).to_string(), "failed with status 0xc0000001");
    }
}
