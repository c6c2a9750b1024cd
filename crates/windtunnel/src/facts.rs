//! Decisions and failures by name (`D-53`, `F-028`), as rules and reports cite them. The texts are
//! those of `docs/facts`.

use serde::Deserialize;
use std::sync::LazyLock;
use verify::{Entry, catalogue};

/// A decision between sources that disagree or are silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its name, as `D-53`.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// What the sources say, and what was decided.
    pub text: String,
}

/// A failure of a public project that a rule would have found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// Its name, as `F-028`.
    pub id: String,
    /// The project.
    pub project: String,
    /// How it can be found: `documented`, `observed` or `partial`.
    pub basis: String,
    /// What happened.
    pub happened: String,
    /// What Windows requires.
    pub contract: String,
    /// How it can be found here.
    pub check: String,
}

#[derive(Deserialize)]
struct File {
    failure: Vec<Failure>,
}

static DECISIONS: LazyLock<Vec<Decision>> =
    LazyLock::new(|| decisions(include_str!("../../../docs/facts/decisions.md")));

static FAILURES: LazyLock<Vec<Failure>> = LazyLock::new(|| {
    // The text is part of the program, and a test parses it.
    let text = include_str!("../../../docs/facts/failures.toml");
    let file: File = toml::from_str(text).expect("docs/facts/failures.toml is TOML");
    file.failure
});

/// The decisions of a page: paragraphs that begin with `**D-1 Title.**`.
fn decisions(page: &str) -> Vec<Decision> {
    let mut all: Vec<Decision> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        let head = line.strip_prefix("**D-").and_then(|rest| rest.split_once("**"));
        if let Some((head, rest)) = head {
            let (number, title) = head.split_once(' ').unwrap_or((head, ""));
            let title = title.trim_end_matches('.').to_owned();
            all.push(Decision { id: format!("D-{number}"), title, text: plain(rest) });
            open = true;
        } else if line.is_empty() || line.starts_with('#') || line.starts_with("**") {
            open = false;
        } else if let Some(last) = all.last_mut().filter(|_| open) {
            last.text = format!("{}\n{}", last.text, plain(line));
        }
    }
    all
}

/// A line without its marks.
fn plain(line: &str) -> String {
    line.replace("**", "").replace('`', "").trim_start_matches([':', ' ']).to_owned()
}

/// Every decision.
pub(crate) fn all_decisions() -> &'static [Decision] {
    &DECISIONS
}

/// Every failure.
pub(crate) fn all_failures() -> &'static [Failure] {
    &FAILURES
}

/// The rules that cite a decision or a failure.
pub fn citing_rules(id: &str) -> Vec<&'static Entry> {
    let cites = |entry: &&Entry| {
        let texts = [Some(&entry.source), Some(&entry.rule), Some(&entry.check)];
        let texts = texts.into_iter().chain([entry.observed.as_ref(), entry.profile.as_ref()]);
        texts.flatten().any(|text| mentions(text, id))
    };
    catalogue().iter().filter(cites).collect()
}

/// Whether a text has a name as a word.
fn mentions(text: &str, id: &str) -> bool {
    text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-')
        .any(|word| word == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_decision_and_failure_that_a_rule_cites_has_a_text() {
        let ids: BTreeSet<&str> =
            all_decisions().iter().map(|decision| decision.id.as_str()).collect();
        assert_eq!(ids.len(), all_decisions().len(), "each once");
        assert!(all_decisions().iter().all(|decision| decision.text.len() > 10));
        let failures = all_failures().iter().map(|failure| failure.id.as_str());
        let ids: BTreeSet<&str> = ids.into_iter().chain(failures).collect();
        let mut cited = 0;
        for word in flight::CATALOGUE
            .split(|character: char| !character.is_ascii_alphanumeric() && character != '-')
        {
            let number = word.strip_prefix("D-").or_else(|| word.strip_prefix("F-"));
            if number.is_some_and(|text| text.parse::<u32>().is_ok()) {
                assert!(ids.contains(word), "{word}");
                cited += 1;
            }
        }
        assert!(cited > 30, "{cited}");
        assert!(!citing_rules("D-53").is_empty() && !citing_rules("F-036").is_empty());
    }
}
