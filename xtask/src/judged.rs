//! How often each rule is judged in a whole `windtunnel check`: never less often than recorded.

use crate::tally::sums;
use crate::{root, run as done, target};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const HEAD: &str = "\
# How often each rule is judged in 'windtunnel check' (the built-in driver, all good scenarios).
# `cargo xtask test` fails if a rule is judged less often; `cargo xtask bless` rewrites.
";

fn file() -> PathBuf {
    root().join("crates/windtunnel/judged.txt")
}

/// Runs the check of the README, and compares the counts of its rules with the file.
pub(crate) fn check() -> Result<(), String> {
    let recorded = std::fs::read_to_string(file())
        .map_err(|why| format!("{}: {why}; 'cargo xtask bless' writes it", file().display()))?;
    let (text, recorded) = (judged()?, sums(&recorded));
    let less = less_often(&sums(&text), &recorded);
    if less.is_empty() {
        println!("No rule of {} is judged less often than recorded", recorded.len());
        return Ok(());
    }
    Err(format!("rules that a check judges less often than recorded:\n{}", less.join("\n")))
}

/// Runs the check, and writes the file.
pub(crate) fn bless() -> Result<(), String> {
    let text = judged()?;
    let lines = sums(&text).into_iter().map(|(rule, count)| format!("{rule} {count}\n"));
    let lines: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
    std::fs::write(file(), lines).map_err(|why| format!("{}: {why}", file().display()))
}

/// The lines `RULE count` of all flights of a check.
fn judged() -> Result<String, String> {
    let path = target().join("judged.txt");
    let _ = std::fs::remove_file(&path); // There may be none.
    let mut check = Command::new(target().join("release/windtunnel"));
    done(check.current_dir(root()).arg("check").env("WINDTUNNEL_TALLY", &path))?;
    std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
}

/// The rules that are judged less often than before, as sentences.
fn less_often(now: &BTreeMap<&str, u64>, before: &BTreeMap<&str, u64>) -> Vec<String> {
    let less = before.iter().filter_map(|(rule, was)| {
        let is = now.get(rule).copied().unwrap_or(0);
        (is < *was).then(|| format!("{rule}: {is} times instead of {was}"))
    });
    less.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_judged_less_often_is_named() {
        let before = sums("# Words of a head.\nA-1 2\nB-1 3\nC-1 1\n");
        assert_eq!(before.len(), 3);
        assert_eq!(less_often(&sums("A-1 1\nA-1 1\nB-1 4\nC-1 1\nD-1 1"), &before), [""; 0]);
        let less = less_often(&sums("A-1 1\nB-1 3"), &before);
        assert_eq!(less, ["A-1: 1 times instead of 2", "C-1: 0 times instead of 1"]);
    }
}
