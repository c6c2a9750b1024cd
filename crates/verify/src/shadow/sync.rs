//! Shadows of synchronisation objects, and of waits for them.

use super::{Device, Serial};
use flight::{Hex, Subject, Text};

/// Waits, each with the value it needs.
pub type WaitList = Vec<(Serial<GpuWait>, u64)>;

/// Of a synchronisation object.
#[derive(Debug)]
pub struct SyncObject {
    /// The device it was created for.
    pub device: Serial<Device>,
    /// Its kind.
    pub kind: Text,
    /// Its value.
    pub value: u64,
    /// How it is shared.
    pub sharing: Text,
    /// The process and the handle it was created with.
    pub first_handle: Option<(Subject, Hex)>,
    /// It may not be signalled through that handle.
    pub no_signal: bool,
    /// It may not be waited for through that handle.
    pub no_wait: bool,
    /// A reset does not change its value.
    pub no_tdr_signal: bool,
    /// Other handles with fewer rights: the process, the handle, and whether it may not be signalled
    /// and not waited for through it.
    pub restricted: Vec<(Subject, Hex, bool, bool)>,
    /// Its global handle.
    pub global: Option<Hex>,
    /// How many local handles it has.
    pub handles: u32,
    /// The waits for it.
    pub waits: WaitList,
    /// Its broadcasts that do not count yet: how many contexts have not reached them.
    pub broadcasts: Vec<(u32, u32)>,
}

/// Of a wait.
#[derive(Debug)]
pub struct GpuWait {
    /// The waiter: a context, a process or an event.
    pub waiter: Subject,
    /// A context, a thread or an event.
    pub waiter_kind: Text,
    /// One of its objects is enough.
    pub any: bool,
    /// Its objects, the value it needs, and whether that is reached.
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
