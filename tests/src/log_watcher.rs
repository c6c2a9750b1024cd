//! A log that is watched while it is written, so that it never grows long.

use flight::Log;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verify::Verifier;

/// Watches the log while it is written, so that it never grows long.
#[derive(Debug)]
pub struct Watch {
    log: Arc<Log>,
    seen: Mutex<WatchState>,
}

/// What it has seen.
#[derive(Debug, Default)]
pub struct WatchState {
    /// Who judged it.
    pub verifier: Verifier,
    /// How many events there were.
    pub events: u64,
    /// How many came more than went.
    pub alive: BTreeMap<&'static str, i64>,
}

impl Watch {
    /// A watch of this log.
    pub fn of(log: &Arc<Log>) -> Self {
        Self { log: log.clone(), seen: Mutex::default() }
    }

    /// What was seen up to now.
    pub fn seen(&self) -> MutexGuard<'_, WatchState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what was written since the last look. Slices are judged in their order.
    pub fn look(&self) {
        let seen = &mut *self.seen();
        for event in self.log.take() {
            seen.verifier.observe(&event);
            seen.events += 1;
            let (life, change) = match event.kind.name() {
                "resource.created" => ("resources", 1),
                "resource.destroyed" => ("resources", -1),
                "allocation.created" => ("allocations", 1),
                "allocation.destroyed" => ("allocations", -1),
                "view.opened" => ("views", 1),
                "view.closed" => ("views", -1),
                "user-device.created" => ("devices", 1),
                "user-device.destroyed" => ("devices", -1),
                _ => continue,
            };
            *seen.alive.entry(life).or_default() += change;
        }
    }
}
