//! What is remembered of synchronisation objects, and of waits for them.

use super::{Device, Serial};
use flight::{Hex, Subject, Text};

/// Waits for something, each with the value it needs.
pub type WaitList = Vec<(Serial<GpuWait>, u64)>;

/// Of a synchronisation object.
#[derive(Debug)]
pub struct SyncObject {
    /// The device it was created for.
    pub device: Serial<Device>,
    /// Its kind.
    pub kind: Text,
    /// What it has.
    pub value: u64,
    /// How it is shared.
    pub sharing: Text,
    /// Its device may not signal it.
    pub no_signal: bool,
    /// Its device may not wait for it.
    pub no_wait: bool,
    /// A reset leaves its value alone.
    pub no_tdr_signal: bool,
    /// Its global name.
    pub global: Option<Hex>,
    /// How many local names it has.
    pub handles: u32,
    /// Who waits for it.
    pub waits: WaitList,
    /// Broadcasts of it that do not count yet: how many contexts have not come to them.
    pub broadcasts: Vec<(u32, u32)>,
}

/// Of a wait.
#[derive(Debug)]
pub struct GpuWait {
    /// Who waits: a context, a process or an event.
    pub waiter: Subject,
    /// A context, a thread or an event.
    pub waiter_kind: Text,
    /// One of what it names is enough.
    pub any: bool,
    /// What it names, the value it needs, and whether that has come.
    pub points: Vec<(Subject, u64, bool)>,
    /// Its event is set.
    pub set: bool,
}

impl GpuWait {
    /// Whether it can pass.
    pub fn is_satisfied(&self) -> bool {
        let met = |entry: &(Subject, u64, bool)| entry.2;
        if self.any { self.points.iter().any(met) } else { self.points.iter().all(met) }
    }
}
