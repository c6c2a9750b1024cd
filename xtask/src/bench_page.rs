//! Measures the tables of docs/benchmarks.md and writes them between the marks.

use crate::{cargo, root};
use std::process::Stdio;

const PAGE: &str = "docs/benchmarks.md";
const FROM: &str = "<!-- tables: cargo xtask bench-page -->\n";
const TO: &str = "<!-- end of tables -->";

pub(crate) fn run() -> Result<(), String> {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|reason| format!("{PAGE}: {reason}"))?;
    let points = || format!("{PAGE} has no marks '{}' and '{TO}'", FROM.trim_end());
    let (before, rest) = page.split_once(FROM).ok_or_else(points)?;
    let (_, after) = rest.split_once(TO).ok_or_else(points)?;
    println!("measuring for some minutes; nothing else should run meanwhile");
    let mut bench = cargo(&["run", "--release", "--quiet", "--", "bench", "--full"]);
    let told = bench.stderr(Stdio::inherit()).output();
    let told = told.map_err(|reason| format!("{bench:?} did not start: {reason}"))?;
    if !told.status.success() {
        return Err(format!("{bench:?} ended with {}", told.status));
    }
    let said = String::from_utf8_lossy(&told.stdout);
    print!("{said}");
    // The page has its own introduction, so the text above the first table is skipped.
    let tables = said.find("| what |").and_then(|index| said.get(index..));
    let tables = tables.ok_or_else(|| "the output contains no table".to_owned())?;
    let (rows, goals) = tables.trim_end().rsplit_once("\n\n").unwrap_or((tables.trim_end(), ""));
    let page = format!("{before}{FROM}\n{goals}\n\n{rows}\n\n{TO}{after}");
    std::fs::write(&path, page).map_err(|reason| format!("{PAGE}: {reason}"))
}
