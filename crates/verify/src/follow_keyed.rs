//! Following keyed mutexes.

use crate::shadow::Shadows;
use crate::shadow::keyed::{Keyed, Turn};
use flight::{Event, What};

impl Shadows {
    pub(crate) fn follow_keyed(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::KeyedCreated { key, runtime, .. } = event.what {
            let turn = Turn::Free { key, fence: 0 };
            return self.start(subject, Keyed { turn, runtime });
        }
        let Some(it) = self.keyed_mut(subject) else { return };
        match event.what {
            What::KeyedAcquired { process, handle, .. } => {
                it.turn = Turn::Owned(process.into(), handle);
            }
            What::KeyedReleased { key, fence, runtime, .. } => {
                (it.turn, it.runtime) = (Turn::Free { key, fence }, runtime);
            }
            What::KeyedAbandoned { .. } => it.turn = Turn::Abandoned,
            What::KeyedGone {} => self.end(subject),
            _ => (),
        }
    }
}
