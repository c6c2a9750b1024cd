//! Drivers of both kinds by name.

use drivers::{Listed, ListedStream, STREAMS};
use flight::RuleId;
use runtime::Umd;

/// A driver that can be flown by its name.
#[derive(Clone, Copy, Debug)]
pub enum Driver {
    /// A display driver.
    Display(&'static Listed),
    /// A streaming minidriver.
    Streaming(&'static ListedStream),
}

impl Driver {
    /// Every driver.
    pub fn all() -> impl Iterator<Item = Driver> {
        let streams = STREAMS.iter().copied().flatten();
        drivers::ALL.iter().map(Driver::Display).chain(streams.map(Driver::Streaming))
    }

    /// The driver of that name.
    pub fn find(name: &str) -> Option<Driver> {
        Self::all().find(|driver| driver.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Display(it) => it.name,
            Driver::Streaming(it) => it.name,
        }
    }

    /// What it does, in a sentence without its full stop.
    pub fn about(self) -> &'static str {
        match self {
            Driver::Display(it) => it.about,
            Driver::Streaming(it) => it.about,
        }
    }

    /// The rules it breaks, the one that is found first in front; none if it is good.
    pub fn breaks(self) -> &'static [RuleId] {
        match self {
            Driver::Display(it) => it.breaks,
            Driver::Streaming(it) => it.breaks,
        }
    }

    /// The user-mode driver that belongs to it, if there is one.
    pub(crate) fn umd(self) -> Option<fn() -> Umd> {
        match self {
            Driver::Display(it) => it.umd,
            Driver::Streaming(_) => None,
        }
    }

    /// Whether it streams.
    pub fn streams(self) -> bool {
        matches!(self, Driver::Streaming(_))
    }
}

impl From<&'static Listed> for Driver {
    fn from(it: &'static Listed) -> Self {
        Driver::Display(it)
    }
}

impl From<&'static ListedStream> for Driver {
    fn from(it: &'static ListedStream) -> Self {
        Driver::Streaming(it)
    }
}
