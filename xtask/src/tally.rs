//! Checks that every live rule was evaluated by at least one flight of the tests.

use flight::RuleId;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads the tally file. Fails if a live rule is missing.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path)
        .map_err(|reason| format!("the flights left no tally at {}: {reason}", path.display()))?;
    let judged = sums(&text);
    let never: Vec<&str> = RuleId::LIVE
        .iter()
        .map(|rule_id| rule_id.name())
        .filter(|text| !judged.contains_key(text))
        .collect();
    println!("{} of {} live rules were evaluated", judged.len(), RuleId::LIVE.len());
    if never.is_empty() {
        return Ok(());
    }
    Err(format!("live rules that no flight of the tests evaluated: {}", never.join(", ")))
}

/// Adds up the lines `RULE count`. A line that begins with `#` is a comment.
pub(crate) fn sums(text: &str) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (rule, count) in lines.filter_map(|line| line.split_once(' ')) {
        *sums.entry(rule).or_default() += count.parse().unwrap_or(0);
    }
    sums
}
