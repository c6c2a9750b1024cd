//! Following keyed mutexes.

use crate::follow::Shadows;
use crate::shadow::keyed::{Keyed, Turn};
use crate::shadow::{Known, Shadow};
use flight::{Event, What};

impl Shadows {
    pub(crate) fn keyed(&mut self, event: &Event) {
        let subject = event.subject;
        if let What::KeyedCreated { key, runtime, .. } = event.what {
            let turn = Turn::Free { key, fence: 0 };
            return self.start(subject, Known::Keyed(Keyed { turn, runtime }));
        }
        let Some(it) = self.get(subject).and_then(Shadow::keyed_mut) else { return };
        match event.what {
            What::KeyedAcquired { process, handle, .. } => it.turn = Turn::Owned(process, handle),
            What::KeyedReleased { key, fence, runtime, .. } => {
                (it.turn, it.runtime) = (Turn::Free { key, fence }, runtime);
            }
            What::KeyedAbandoned { .. } => it.turn = Turn::Abandoned,
            What::KeyedGone {} => self.end(subject),
            _ => (),
        }
    }
}
