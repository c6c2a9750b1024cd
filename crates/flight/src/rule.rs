//! The catalogue of rules, and the ids of the live ones.
//!
//! A rule is live when its row names a judge: the code that has the argument (`entry`), or a
//! function over events in `verify` (`history`). `build.rs` generates one constant for each row
//! of `rules.toml`, so an id is written once: in its row.

/// The text of the catalogue, TOML. The crate `verify` parses it.
pub const CATALOGUE: &str = include_str!("../rules.toml");

/// A live rule. Its number is its index in [`RuleId::LIVE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u16);

/// The type of the constants of rules that are not live.
///
/// A judge of a rule whose row has no `judge` does not compile: it names a `NotLive` where a
/// [`RuleId`] is expected.
#[derive(Clone, Copy, Debug)]
pub struct NotLive;

/// The component that a finding blames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The application.
    Client,
    /// The kernel-mode driver.
    Driver,
    /// The user-mode driver.
    Umd,
    /// The graphics kernel itself.
    Kernel,
}

impl Component {
    pub(crate) const ALL: [Component; 4] =
        [Component::Client, Component::Driver, Component::Umd, Component::Kernel];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Component::Client => "client",
            Component::Driver => "driver",
            Component::Umd => "umd",
            Component::Kernel => "kernel",
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/rules.rs"));

impl RuleId {
    /// Its id in the catalogue.
    pub fn name(self) -> &'static str {
        NAMES[self.index()]
    }

    /// Its number among the live ones.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The live rule with that id.
    pub fn find(name: &str) -> Option<RuleId> {
        RuleId::LIVE.iter().copied().find(|rule| rule.name() == name)
    }
}
