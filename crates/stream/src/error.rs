//! Why the class driver did not fulfil a client's request.

use crate::descriptor::DescriptorError;
use crate::types::{DriverError, PinState};
use flight::Subject;
use std::error::Error;
use std::fmt;

/// The class driver's error. The door converts it into a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The object does not exist, or has ended.
    NotFound(Subject),
    /// The device is not started (`STATUS_DEVICE_NOT_READY`), or was removed.
    NotStarted(Subject),
    /// The driver describes no filter or pin with this index.
    NoFactory(u32),
    /// The driver's description is inconsistent.
    Descriptor(DescriptorError),
    /// No range of the pin has this format.
    NoFormat,
    /// The maximum number of pins of this kind exists.
    TooMany {
        /// That number.
        most: u32,
    },
    /// Another kind of pin has too few instances for a state change.
    TooFew {
        /// Which kind.
        factory: u32,
        /// How many instances are needed.
        least: u32,
    },
    /// The pin is not connected.
    NotConnected(Subject),
    /// The pin is connected already.
    Connected(Subject),
    /// The pin is in the wrong state.
    InvalidState(PinState),
    /// The two sides cannot agree on framing: why, as a message.
    Framing(String),
    /// Pins of the filter are open.
    PinsOpen(Subject),
    /// No frame could be allocated.
    NoFrames,
    /// The pin stopped, or was closed.
    Stopped,
    /// A wait that nothing could end was given up.
    Stuck,
    /// The run is over.
    HostEnded,
    /// The timeout expired.
    TimedOut,
    /// The pin's data flows in the other direction.
    WrongDirection,
    /// The driver returned an error.
    Driver(DriverError),
}

impl From<DriverError> for StreamError {
    fn from(reason: DriverError) -> Self {
        StreamError::Driver(reason)
    }
}

impl From<DescriptorError> for StreamError {
    fn from(reason: DescriptorError) -> Self {
        StreamError::Descriptor(reason)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::NotFound(it) => write!(f, "{it} does not exist"),
            StreamError::NotStarted(it) => write!(f, "{it} is not started"),
            StreamError::NoFactory(it) => write!(f, "the driver describes no factory {it}"),
            StreamError::Descriptor(reason) => reason.fmt(f),
            StreamError::NoFormat => write!(f, "no data range of the pin has this format"),
            StreamError::TooMany { most } => {
                write!(
                    f,
                    "the filter has {most} pins of this factory already, the most it can have"
                )
            }
            StreamError::TooFew { factory, least } => {
                write!(f, "the filter needs at least {least} pins of factory {factory}")
            }
            StreamError::NotConnected(it) => write!(f, "{it} is not connected"),
            StreamError::Connected(it) => write!(f, "{it} is connected already"),
            StreamError::InvalidState(it) => {
                write!(f, "the pin cannot do this in state {}", it.name())
            }
            StreamError::Framing(reason) => f.write_str(reason),
            StreamError::PinsOpen(it) => write!(f, "{it} has open pins"),
            StreamError::NoFrames => write!(f, "no frame could be allocated"),
            StreamError::Stopped => write!(f, "the pin stopped"),
            StreamError::Stuck => write!(f, "nothing can end the wait"),
            StreamError::HostEnded => write!(f, "the run is over"),
            StreamError::TimedOut => write!(f, "the wait timed out"),
            StreamError::WrongDirection => write!(f, "data flows the other way through this pin"),
            StreamError::Driver(reason) => write!(f, "the driver failed: {reason}"),
        }
    }
}

impl Error for StreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StreamError::Descriptor(reason) => Some(reason),
            StreamError::Driver(reason) => Some(reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_displays_what_is_wrong_and_has_its_source() {
        let refused = StreamError::from(DriverError::NotReady);
        assert_eq!(
            refused.to_string(),
            "the driver failed: there is no data, or the frame was cancelled"
        );
        assert_eq!(refused.source().unwrap().to_string(), DriverError::NotReady.to_string());
        let least = StreamError::TooFew { factory: 3, least: 2 };
        assert_eq!(least.to_string(), "the filter needs at least 2 pins of factory 3");
        assert!(least.source().is_none());
    }
}
