//! Scenarios: what a client does to a driver, by name.

use crate::scenarios::{bad, destroy, life, share, threads};
use crate::tunnel::{Stopped, Tunnel};
use flight::RuleId;

/// A story that a driver is flown through.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub about: &'static str,
    /// The rules its client breaks: empty for a good one. Bad ones are flown by name only.
    pub breaks: &'static [RuleId],
    /// The entries a driver must offer to be flown through it.
    pub needs: &'static [&'static str],
    /// The story.
    pub story: fn(&mut Tunnel<'_>) -> Result<(), Stopped>,
}

/// Submission and completion.
pub(crate) const WORK: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
];

/// Standard allocations.
pub(crate) const STANDARD: &[&str] = &["DxgkDdiGetStandardAllocationDriverData"];

/// Every scenario, good ones first.
pub const ALL: &[&[Scenario]] = &[life::ALL, share::ALL, destroy::ALL, threads::ALL, bad::ALL];

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().flatten().find(|it| it.name == name)
}
