//! Following keyed mutexes.

use crate::shadow::Shadows;
use crate::shadow::keyed_mutex::{KeyedMutex, KeyedMutexState};
use flight::{Event, EventKind};

impl Shadows {
    pub(crate) fn follow_keyed(&mut self, event: &Event) {
        let subject = event.subject;
        if let EventKind::KeyedMutexCreated { key, runtime, sharing, .. } = &event.kind {
            let turn = KeyedMutexState::Free { key: *key, fence: 0 };
            let nt = sharing == "nt";
            return self.start(subject, KeyedMutex { state: turn, runtime: *runtime, nt });
        }
        let Some(it) = self.keyed_mutex_mut(subject) else { return };
        match event.kind {
            EventKind::KeyedMutexAcquired { process, handle, .. } => {
                it.state = KeyedMutexState::Owned(process.into(), handle);
            }
            EventKind::KeyedMutexReleased { key, fence, runtime, .. } => {
                (it.state, it.runtime) = (KeyedMutexState::Free { key, fence }, runtime);
            }
            EventKind::KeyedMutexAbandoned { .. } => it.state = KeyedMutexState::Abandoned,
            EventKind::KeyedMutexDestroyed {} => self.end(subject),
            _ => (),
        }
    }
}
