//! Drivers: the built-in ones by name, and files.

use crate::driver_file::DriverFile;
use drivers::{Listed, ListedStream, STREAMS};
use flight::RuleId;
use runtime::Umd;

/// A driver to fly.
#[derive(Clone, Copy, Debug)]
pub enum Driver {
    /// A display driver.
    Display(&'static Listed),
    /// A streaming minidriver.
    Streaming(&'static ListedStream),
    /// A driver in a file.
    File(&'static DriverFile),
}

impl Driver {
    /// Every built-in driver.
    pub fn all() -> impl Iterator<Item = Driver> {
        let streams = STREAMS.iter().copied().flatten();
        drivers::ALL.iter().map(Driver::Display).chain(streams.map(Driver::Streaming))
    }

    /// Finds a built-in driver by its name, also one whose fault only guarded memory shows.
    pub fn find(name: &str) -> Option<Driver> {
        let guarded = drivers::GUARDED.iter().map(Driver::Display);
        Self::all().chain(guarded).find(|driver| driver.name() == name)
    }

    /// Whether only guarded memory shows its fault. It flies in a process of its own.
    pub fn needs_guard(self) -> bool {
        drivers::GUARDED.iter().any(|listed| listed.name == self.name())
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Display(it) => it.name,
            Driver::Streaming(it) => it.name,
            Driver::File(it) => it.name(),
        }
    }

    /// What the driver does, as a sentence without a full stop.
    pub fn about(self) -> &'static str {
        match self {
            Driver::Display(it) => it.about,
            Driver::Streaming(it) => it.about,
            Driver::File(it) => it.about(),
        }
    }

    /// The rules that the driver breaks, the first finding's rule first; empty for a good driver.
    pub fn breaks(self) -> &'static [RuleId] {
        match self {
            Driver::Display(it) => it.breaks,
            Driver::Streaming(it) => it.breaks,
            Driver::File(_) => &[],
        }
    }

    /// The user-mode driver of a display driver, if it has one.
    pub(crate) fn umd(self) -> Option<fn() -> Umd> {
        match self {
            Driver::Display(it) => it.umd,
            Driver::Streaming(_) | Driver::File(_) => None,
        }
    }

    /// Whether it is a file whose `DriverEntry` registered no driver in a flight.
    pub(crate) fn registers_nothing(self) -> bool {
        matches!(self, Driver::File(file) if file.registers_nothing())
    }

    /// Whether this is a streaming minidriver.
    pub fn streams(self) -> bool {
        match self {
            Driver::Display(_) => false,
            Driver::Streaming(_) => true,
            Driver::File(file) => file.streams(),
        }
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
