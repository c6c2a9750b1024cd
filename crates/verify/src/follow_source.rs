//! Following display sources and their owners.

use crate::shadow::Shadows;
use flight::{Event, EventKind};

impl Shadows {
    /// Records how a device owns a display source.
    pub(crate) fn follow_source(&mut self, event: &Event) {
        let EventKind::SourceOwned { device, source, how } = &event.kind else { return };
        let key = (event.subject, *source);
        let it = self.sources.entry(key).or_default();
        let owned = it.owners.iter().any(|(owner, _)| owner == device);
        it.owners.retain(|(owner, _)| owner != device);
        it.released_by_other = &**how == "none" && !owned;
        if &**how != "none" {
            it.owners.push((*device, how.clone()));
        }
        if it.owners.is_empty() {
            self.sources.remove(&key);
        }
    }
}
