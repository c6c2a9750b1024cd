//! Following NT objects, their names and what they keep alive.

use crate::follow::decrement;
use crate::shadow::nt_object::NtObject;
use crate::shadow::{Serial, Shadows};
use flight::{Event, EventKind, Subject};

impl Shadows {
    pub(crate) fn follow_nt_object(&mut self, event: &Event) {
        let subject = event.subject;
        if let EventKind::NtObjectCreated { name, resource, keyed_mutex, sync, .. } = &event.kind {
            let parts: Vec<_> =
                [resource, keyed_mutex, sync].into_iter().flatten().copied().collect();
            for part in &parts {
                *self.nt_holds.entry(*part).or_default() += 1;
            }
            if !name.is_empty() {
                self.nt_names.insert(name.to_uppercase(), Serial::of(subject));
            }
            return self.start(subject, NtObject { name: name.clone(), handles: 1, parts });
        }
        let Some(it) = self.nt_object_mut(subject) else { return };
        match &event.kind {
            EventKind::NtObjectOpened { .. } => it.handles += 1,
            EventKind::NtResourceLost { resource } => {
                it.parts.retain(|part| part != resource);
                self.release_nt_hold(*resource);
            }
            EventKind::NtHandleClosed { .. } => decrement(&mut it.handles),
            EventKind::NtObjectEnded {} => {
                let (parts, name) = (std::mem::take(&mut it.parts), it.name.to_uppercase());
                for part in parts {
                    self.release_nt_hold(part);
                }
                self.nt_names.retain(|key, of| *key != name || *of != subject);
                self.end(subject);
            }
            _ => (),
        }
    }

    fn release_nt_hold(&mut self, part: Subject) {
        if let Some(count) = self.nt_holds.get_mut(&part) {
            decrement(count);
        }
        self.nt_holds.retain(|_, count| *count > 0);
    }
}
