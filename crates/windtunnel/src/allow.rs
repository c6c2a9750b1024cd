//! Allow files: known findings, each with a reason.
//!
//! An allowed finding is listed separately and never hidden. An entry names rule and argument
//! exactly. Entries that did not occur are reported.

use crate::check::CheckReport;
use crate::scenario_report::ReportedFinding;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use toml::Spanned;
use verify::Finding;

/// The findings that an allow file covers.
#[derive(Debug, Default)]
pub struct AllowList {
    /// The entries of the file, in its order.
    pub entries: Vec<AllowedEntry>,
}

/// An entry of an allow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedEntry {
    /// The rule's id.
    pub rule: String,
    /// Entry point and argument of the finding, as in reports.
    pub place: String,
    /// The reason.
    pub reason: String,
    /// Limits the entry to this driver.
    pub driver: Option<String>,
    /// Limits the entry to this scenario.
    pub scenario: Option<String>,
    /// The line of the entry in the file.
    pub line: usize,
}

/// Why an allow file could not be read.
#[derive(Debug, PartialEq, Eq)]
pub struct AllowFileError {
    /// The line, from one.
    pub line: usize,
    /// What is wrong and what was expected.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    allow: Vec<Spanned<RawEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    rule: Option<String>,
    r#where: Option<String>,
    reason: Option<String>,
    driver: Option<String>,
    scenario: Option<String>,
}

impl AllowList {
    /// Reads the text of an allow file.
    pub fn read(text: &str) -> Result<Self, AllowFileError> {
        let file: File = toml::from_str(text).map_err(|why| {
            let line = line_of(text, why.span().map_or(0, |range| range.start));
            let expected = "expected [[allow]] with rule, where and reason";
            AllowFileError { line, reason: format!("{}; {expected}", why.message().trim()) }
        })?;
        let entry = |raw: Spanned<RawEntry>| {
            let line = line_of(text, raw.span().start);
            AllowedEntry::read(raw.into_inner(), line)
                .map_err(|why| AllowFileError { line, reason: why })
        };
        let entries = file.allow.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// The reason why a finding is allowed; `None` if it is not.
    pub fn reason(&self, driver: &str, scenario: &str, finding: &Finding) -> Option<&str> {
        let names =
            |allowed_entry: &&AllowedEntry| allowed_entry.matches(driver, scenario, finding);
        self.entries.iter().find(names).map(|allowed_entry| allowed_entry.reason.as_str())
    }

    /// The entries that apply to the flown drivers and scenarios and did not occur.
    pub fn unused<'a>(&'a self, report: &'a CheckReport) -> impl Iterator<Item = &'a AllowedEntry> {
        let driver = report.driver;
        let about = move |allowed_entry: &&AllowedEntry| {
            let was_flown = |name: &String| {
                report.scenarios.iter().any(|scenario_report| scenario_report.scenario == *name)
            };
            allowed_entry.driver.as_ref().is_none_or(|text| text == driver)
                && allowed_entry.scenario.as_ref().is_none_or(was_flown)
        };
        let occurs = move |allowed_entry: &AllowedEntry| {
            report.scenarios.iter().any(|scenario_report| {
                let found = scenario_report
                    .allowed
                    .iter()
                    .map(|allowed_finding| &allowed_finding.found.finding);
                found
                    .into_iter()
                    .any(|found| allowed_entry.matches(driver, scenario_report.scenario, found))
            })
        };
        self.entries.iter().filter(about).filter(move |allowed_entry| !occurs(allowed_entry))
    }
}

impl AllowedEntry {
    fn read(raw: RawEntry, line: usize) -> Result<Self, String> {
        let RawEntry { rule, r#where: place, reason, driver, scenario } = raw;
        let needed = |it: Option<String>, what: &str| {
            let it = it.filter(|text| !text.trim().is_empty());
            it.ok_or_else(|| format!("this [[allow]] has no {what}"))
        };
        let rule = needed(rule, "rule; expected rule = \"...\", the id of a rule")?;
        if verify::find(&rule).is_none() {
            return Err(format!("there is no rule '{rule}'; expected the id of a rule"));
        }
        let place = needed(place, "where; expected where = \"...\", as in the report")?;
        let reason = needed(reason, "reason; expected reason = \"...\", a sentence")?;
        if let Some(it) = scenario.as_ref().filter(|text| crate::find_scenario(text).is_none()) {
            return Err(format!("there is no scenario '{it}'; expected the name of one"));
        }
        Ok(Self { rule, place, reason, driver, scenario, line })
    }

    fn matches(&self, driver: &str, scenario: &str, finding: &Finding) -> bool {
        self.rule == finding.rule.name()
            && self.place == finding.argument
            && self.driver.as_ref().is_none_or(|text| text == driver)
            && self.scenario.as_ref().is_none_or(|text| text == scenario)
    }
}

/// The line number of an offset in a text, from one.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// An allow file for all findings of a run, sorted. Allowed findings keep their reason.
pub fn baseline(report: &CheckReport) -> String {
    let new = format!("baseline of {}: to be explained", report.driver);
    let key = |reported_finding: &ReportedFinding| {
        (reported_finding.finding.rule.name(), reported_finding.finding.argument.clone())
    };
    let mut reasons: BTreeMap<(&str, String), String> = BTreeMap::new();
    for scenario_report in &report.scenarios {
        let found =
            scenario_report.findings.iter().map(|reported_finding| (key(reported_finding), &new));
        let allowed = scenario_report
            .allowed
            .iter()
            .map(|allowed_finding| (key(&allowed_finding.found), &allowed_finding.reason));
        for (key, reason) in allowed.chain(found) {
            reasons.entry(key).or_insert_with(|| reason.clone());
        }
    }
    let mut text = String::from(
        "# Known, allowed findings: 'windtunnel check --allow FILE' lists them separately.\n",
    );
    for ((rule, place), reason) in reasons {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[allow]]\nrule = {}\nwhere = {}\ndriver = {}\nreason = {}\n",
            quoted(rule),
            quoted(&place),
            quoted(report.driver),
            quoted(&reason),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# mine\n\n[[allow]]\nrule = \"KMD-DESTROY-002\"\nwhere = \"here\"\n\
                        reason = \"known\"\nscenario = \"create-resource\"\n";

    fn bad(text: &str) -> (usize, String) {
        let AllowFileError { line, reason: why } = AllowList::read(text).unwrap_err();
        (line, why)
    }

    #[test]
    fn an_entry_says_what_it_allows_and_where_it_stands() {
        let entries = AllowList::read(GOOD).unwrap().entries;
        assert_eq!((entries.len(), entries[0].line, &*entries[0].reason), (1, 3, "known"));
        assert!(AllowList::read("").unwrap().entries.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let no_reason = GOOD.replace("reason = \"known\"\n", "");
        let message = "this [[allow]] has no reason; expected reason = \"...\", a sentence";
        assert_eq!(bad(&no_reason), (3, message.to_owned()));
        let empty = GOOD.replace("\"known\"", "\" \"");
        assert_eq!(bad(&empty), (3, message.to_owned()));
        let (line, why) = bad(&GOOD.replace("where =", "were ="));
        assert_eq!(line, 5);
        assert!(why.contains("were") && why.contains("expected [[allow]] with rule"), "{why}");
        let (line, why) = bad(&GOOD.replace("\"known\"", "known"));
        assert_eq!(line, 6, "{why}");
        assert_eq!(bad(&GOOD.replace("-002", "-902")).0, 3);
        assert!(
            bad(&GOOD.replace("\"create-resource\"", "\"create-resourse\"")).1.contains("resourse")
        );
        assert_eq!(bad("[allow]\n").0, 1);
        assert_eq!(bad("\n[[alow]]\n").0, 2);
    }
}
