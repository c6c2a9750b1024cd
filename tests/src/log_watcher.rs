//! A log that is judged while it is written, so that it stays short.

use flight::Log;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verify::Verifier;

/// Judges the log while it is written, so that it stays short.
#[derive(Debug)]
pub struct Watch {
    log: Arc<Log>,
    seen: Mutex<WatchState>,
}

/// The events so far.
#[derive(Debug, Default)]
pub struct WatchState {
    /// The verifier.
    pub verifier: Verifier,
    /// The number of events.
    pub events: u64,
    /// The difference between created and destroyed objects, by kind.
    pub alive: BTreeMap<&'static str, i64>,
}

impl Watch {
    /// Creates a watcher of this log.
    pub fn of(log: &Arc<Log>) -> Self {
        Self { log: log.clone(), seen: Mutex::default() }
    }

    /// Returns what was seen so far.
    pub fn seen(&self) -> MutexGuard<'_, WatchState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the events since the last call. Slices are judged in order.
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
