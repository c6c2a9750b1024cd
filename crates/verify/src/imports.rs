//! Imports: a driver calls each in the state that the page of the import requires.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

/// The history rules on imports; the level of a call is judged by the import.
pub(crate) static RULES: &[Rule] =
    &[Rule::on(&["driver.misuse", "adapter.stopped"], RuleId::WT_MISUSE_001, no_misuse)];

fn no_misuse(event: &Event, _shadows: &Shadows) -> Verdict {
    // A driver that has stopped has used its imports.
    let EventKind::DriverMisuse { import, why } = &event.kind else { return Verdict::Holds };
    let message = format!("the driver called {import} {why}");
    Verdict::broken(Component::Driver, import.clone(), message)
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    #[test]
    fn a_misuse_names_its_import() {
        let id = RuleId::WT_MISUSE_001;
        let event = "call:1 driver.misuse import=KeReleaseMutex why=\"on a thread without it\"\n";
        assert_eq!(
            messages(id, event),
            ["the driver called KeReleaseMutex on a thread without it"]
        );
        assert_eq!(judge_count(id, "call:1 driver.printed text=hello\n"), 0);
        let stopped = "adapter:1 adapter.stopped\n";
        assert_eq!((messages(id, stopped).len(), judge_count(id, stopped)), (0, 1));
    }
}
