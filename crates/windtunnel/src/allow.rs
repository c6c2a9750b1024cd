//! Allow files: known findings, each with a reason.
//!
//! An allowed finding is listed separately and never hidden. An entry names rule and argument
//! exactly. Entries that did not occur are reported.

use crate::check::CheckReport;
use crate::scenario_report::ReportedFinding;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use toml::Spanned;
use verify::Finding;

/// The findings that an allow file covers.
#[derive(Debug, Default)]
pub struct AllowList {
    /// The entries of the file, in its order.
    entries: Vec<AllowedEntry>,
    /// The entries of a rule and a place, by their index: a file may have very many.
    by_place: HashMap<(String, String), Vec<usize>>,
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
        let lines = LineEnds::of(text);
        let file: File = toml::from_str(text).map_err(|why| {
            let line = lines.line_of(why.span().map_or(0, |range| range.start));
            let expected = "expected [[allow]] with rule, where and reason";
            AllowFileError { line, reason: format!("{}; {expected}", why.message().trim()) }
        })?;
        let entry = |raw: Spanned<RawEntry>| {
            let line = lines.line_of(raw.span().start);
            AllowedEntry::read(raw.into_inner(), line)
                .map_err(|why| AllowFileError { line, reason: why })
        };
        let entries: Vec<AllowedEntry> =
            file.allow.into_iter().map(entry).collect::<Result<_, _>>()?;
        let mut by_place: HashMap<(String, String), Vec<usize>> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            by_place.entry((entry.rule.clone(), entry.place.clone())).or_default().push(index);
        }
        Ok(Self { entries, by_place })
    }

    /// The entries of the file, in its order.
    pub fn entries(&self) -> &[AllowedEntry] {
        &self.entries
    }

    /// The indices of the entries that cover a finding, in the order of the file.
    fn matching(
        &self,
        driver: &str,
        scenario: &str,
        finding: &Finding,
    ) -> impl Iterator<Item = usize> {
        let place = (finding.rule.name().to_owned(), finding.argument.clone());
        let at_place = self.by_place.get(&place).map(Vec::as_slice).unwrap_or_default();
        let covers = move |index: &usize| self.entries[*index].covers(driver, scenario);
        at_place.iter().copied().filter(covers)
    }

    /// The reason why a finding is allowed; `None` if it is not.
    pub fn reason(&self, driver: &str, scenario: &str, finding: &Finding) -> Option<&str> {
        let first = self.matching(driver, scenario, finding).next();
        first.map(|index| self.entries[index].reason.as_str())
    }

    /// The entries that apply to the flown drivers and scenarios and did not occur.
    pub fn unused<'a>(&'a self, report: &'a CheckReport) -> impl Iterator<Item = &'a AllowedEntry> {
        let driver = report.driver;
        let flown: BTreeSet<&str> =
            report.scenarios.iter().map(|scenario_report| scenario_report.scenario).collect();
        let mut occurred = BTreeSet::new();
        for scenario_report in &report.scenarios {
            for allowed in &scenario_report.allowed {
                let (scenario, finding) = (scenario_report.scenario, &allowed.found.finding);
                occurred.extend(self.matching(driver, scenario, finding));
            }
        }
        let about = move |entry: &AllowedEntry| {
            entry.driver.as_ref().is_none_or(|text| text == driver)
                && entry.scenario.as_ref().is_none_or(|name| flown.contains(name.as_str()))
        };
        let unused = self.entries.iter().enumerate();
        unused
            .filter(move |(index, entry)| about(entry) && !occurred.contains(index))
            .map(|(_, entry)| entry)
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

    /// Whether it is about this driver and this scenario.
    fn covers(&self, driver: &str, scenario: &str) -> bool {
        self.driver.as_ref().is_none_or(|text| text == driver)
            && self.scenario.as_ref().is_none_or(|text| text == scenario)
    }
}

/// The offsets of the line ends of a text.
struct LineEnds(Vec<usize>);

impl LineEnds {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(offset, _)| offset).collect())
    }

    /// The line number of an offset, from one.
    fn line_of(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
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
        let list = AllowList::read(GOOD).unwrap();
        let entries = list.entries();
        assert_eq!((entries.len(), entries[0].line, &*entries[0].reason), (1, 3, "known"));
        assert!(AllowList::read("").unwrap().entries().is_empty());
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
