//! Measures the tables of docs/benchmarks.md and writes them between the marks, with the commit
//! that was measured. The goals come first: those that are instructions, counted by callgrind, and
//! those that are times and bytes.

use crate::count::{self, Count};
use crate::{build_release, root, run as done, target};
use std::process::{Command, Stdio};

const PAGE: &str = "docs/benchmarks.md";
const FROM: &str = "<!-- tables: cargo xtask bench-page -->\n";
const TO: &str = "<!-- end of tables -->";

/// The events of a pair: what the verifier and the trace do more work for.
const EVENTS: u64 = 33;

/// Runs the benchmarks with these arguments.
pub(crate) fn bench(arguments: &[String]) -> Result<(), String> {
    build_release(&["bench"])?;
    done(program().args(arguments))
}

/// Rewrites the tables of the page; with `--quick`, prints them, in seconds.
pub(crate) fn run(quick: bool) -> Result<(), String> {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|reason| format!("{PAGE}: {reason}"))?;
    build_release(&["bench"])?;
    let commit = commit()?;
    if !quick {
        println!("measuring for some minutes; nothing else should run meanwhile");
    }
    let mut bench = program();
    bench.arg(if quick { "--quick" } else { "--full" }).stderr(Stdio::inherit());
    let told = bench.output().map_err(|reason| format!("{bench:?} did not start: {reason}"))?;
    if !told.status.success() {
        return Err(format!("{bench:?} ended with {}", told.status));
    }
    let said = String::from_utf8_lossy(&told.stdout);
    let page = with_tables(&page, &tables(&commit, &said, &count::operations()?)?)?;
    if quick {
        print!("{page}");
        return Ok(());
    }
    print!("{said}");
    std::fs::write(&path, page).map_err(|reason| format!("{PAGE}: {reason}"))
}

fn program() -> Command {
    let mut bench = Command::new(target().join("release/bench"));
    bench.current_dir(root());
    bench
}

/// The commit of the sources, with a sign if they were changed since.
fn commit() -> Result<String, String> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["describe", "--always", "--dirty"]);
    let told = git.output().map_err(|reason| format!("git did not start: {reason}"))?;
    Ok(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}

/// The page with new text between the marks.
fn with_tables(page: &str, tables: &str) -> Result<String, String> {
    let marks = || format!("{PAGE} has no marks '{}' and '{TO}'", FROM.trim_end());
    let (before, rest) = page.split_once(FROM).ok_or_else(marks)?;
    let (_, after) = rest.split_once(TO).ok_or_else(marks)?;
    Ok(format!("{before}{FROM}\n{tables}\n\n{TO}{after}"))
}

/// The text between the marks. The output begins with an introduction, which the page has, too, and
/// ends with the goals, which the page has first.
fn tables(commit: &str, said: &str, counts: &[Count]) -> Result<String, String> {
    let tables = said.find("| what |").and_then(|index| said.get(index..));
    let tables = tables.ok_or_else(|| "the output contains no table".to_owned())?;
    let (rows, goals) = tables.trim_end().rsplit_once("\n\n").unwrap_or((tables.trim_end(), ""));
    let kept: Vec<String> = rows.split("\n\n").map(fewest_and_most).collect();
    let counted = counted_goals(counts);
    Ok(format!("Measured at commit {commit}.\n\n{goals}{counted}\n\n{}", kept.join("\n\n")))
}

/// A table whose second column is the number of live objects, without the rows between the fewest
/// and the most: the page is long enough. Other tables stay as they are.
fn fewest_and_most(table: &str) -> String {
    let cells = |line: &str| {
        let mut cells = line.split(" | ");
        let what = cells.next()?.to_owned();
        Some((what, cells.next()?.parse::<u64>().ok()?))
    };
    if table.split(" | ").nth(1) != Some("live") {
        return table.to_owned();
    }
    let rows: Vec<(String, u64)> = table.lines().filter_map(cells).collect();
    let is_kept = |line: &&str| {
        cells(line).is_none_or(|(what, live)| {
            let mut same = rows.iter().filter(|row| row.0 == what).map(|row| row.1);
            let is_fewest = same.clone().all(|other| live <= other);
            is_fewest || same.all(|other| live >= other)
        })
    };
    table.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// The goals that are instructions, as rows of the table of goals.
fn counted_goals(counts: &[Count]) -> String {
    let of = |name: &str| counts.iter().find(|count| count.name == name).map(|count| count.number);
    let per_event = |name: &str| Some(of(name)?.saturating_sub(of("off")?) / EVENTS);
    let goals = [
        ("instructions of a pair, checks off", 1800, of("off")),
        ("instructions of an event, verifier on", 250, per_event("verifier")),
        ("instructions of an event, trace on", 300, per_event("trace")),
        ("instructions of a packet, one at a time", 4000, of("packet-off")),
        ("instructions of a packet, 64 at a time", 2500, of("packet64-off")),
    ];
    let row = |(what, wanted, number): (&str, u64, Option<u64>)| {
        let number = number?;
        let met = if number <= wanted { "yes" } else { "no" };
        Some(format!("\n| {what} | <= {wanted} | {number} | {met} |"))
    };
    goals.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Words.\n\n| what | live | ns |\n|---|---|---|\n| a | 1000 | 5 |\n\
                        | a | 100000 | 6 |\n| a | 1000000 | 7 |\n\n\
                        | goal | wanted | measured | met |\n|---|---:|---:|---|\n| g | 1 | 2 | no |\n";

    #[test]
    fn the_page_gets_the_commit_the_goals_and_the_rows() {
        let counts = [("off", 1000), ("verifier", 34000), ("packet-off", 4001)]
            .map(|(name, number)| Count { name, number });
        let page = format!("Above.\n{FROM}old\n{TO}\nBelow.\n");
        let page = with_tables(&page, &tables("abc", SAID, &counts).unwrap()).unwrap();
        let expected = format!(
            "Above.\n{FROM}\nMeasured at commit abc.\n\n\
             | goal | wanted | measured | met |\n|---|---:|---:|---|\n| g | 1 | 2 | no |\n\
             | instructions of a pair, checks off | <= 1800 | 1000 | yes |\n\
             | instructions of an event, verifier on | <= 250 | 1000 | no |\n\
             | instructions of a packet, one at a time | <= 4000 | 4001 | no |\n\n\
             | what | live | ns |\n|---|---|---|\n| a | 1000 | 5 |\n| a | 1000000 | 7 |\n\n\
             {TO}\nBelow.\n"
        );
        assert_eq!(page, expected);
        assert!(with_tables("no marks", "").is_err());
        assert!(tables("abc", "nothing", &[]).is_err());
    }

    #[test]
    fn the_page_has_its_marks() {
        let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
        assert!(with_tables(&page, "").is_ok());
    }
}
