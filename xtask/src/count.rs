//! Counts the instructions of a pair, a packet, a user-mode driver's pair, a frame and a pair through
//! the C library with callgrind. Guards against regressions, because counts repeat and times do not.

use crate::{announce, cargo, root};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The program runs with both numbers of pairs; the difference is the cost of the pairs.
const FEW: u64 = 100;
const MANY: u64 = 1100;

/// Fails if a count exceeds the file's by more than this percentage. With the verifier, two runs
/// may differ by 0.2 % (seeded maps); without it, two builds in two folders by less. Another
/// machine's C library may differ more.
const TOLERANCE: u64 = 3;

/// What is counted: a pair, a packet, a user-mode driver's pair and a frame, without the verifier
/// and with every live rule; a pair whose events become a trace; and a pair through the C library,
/// without a report.
const WATCHES: &[&str] = &[
    "off",
    "verifier",
    "trace",
    "packet-off",
    "packet-verifier",
    "callback-off",
    "callback-verifier",
    "frame-off",
    "frame-verifier",
    "library-off",
];

const HEAD: &str = "\
# Instructions of one pair (an allocation created and opened, one closed and destroyed), of one
# packet (submitted, done, retired), of one pair by the callbacks of a user-mode driver, of one
# frame (64 bytes, filled, taken, read, given back) and of one pair through the C library with the
# built-in driver, counted by callgrind in a release build.
# `cargo xtask test` compares, `cargo xtask bless` rewrites.
";

/// Counts and compares with the file.
pub(crate) fn check() -> Result<(), String> {
    if !there() {
        println!("Skipped: valgrind is missing and could not be installed.");
        return Ok(());
    }
    let text = std::fs::read_to_string(file()).map_err(|reason| {
        format!("{}: {reason}; 'cargo xtask bless' writes it", file().display())
    })?;
    let mut slower = Vec::new();
    for watch in WATCHES {
        let was = read(&text, watch)
            .ok_or_else(|| format!("{} has no line '{watch}'", file().display()))?;
        let is = count(watch)?;
        println!("{watch}: {is} instructions; the file has {was}");
        if is * 100 > was * (100 + TOLERANCE) {
            slower.push(format!("{watch}: {is} instead of {was}"));
        } else if is * (100 + TOLERANCE) < was * 100 {
            println!("More than {TOLERANCE} % fewer: 'cargo xtask bless' records it");
        }
    }
    if slower.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than before ({}); 'cargo xtask bless' accepts them",
        slower.join(", ")
    ))
}

/// Counts and writes the file.
pub(crate) fn bless() -> Result<(), String> {
    if !there() {
        println!("Instruction counts are unchanged: valgrind is missing.");
        return Ok(());
    }
    let mut text = HEAD.to_owned();
    for watch in WATCHES {
        let line = format!("{watch} {}\n", count(watch)?);
        text.push_str(&line);
    }
    print!("{text}");
    std::fs::write(file(), text).map_err(|reason| format!("{}: {reason}", file().display()))
}

fn file() -> PathBuf {
    root().join("crates/cost/instructions.txt")
}

fn read(text: &str, watch: &str) -> Option<u64> {
    let line = text.lines().find_map(|text| text.strip_prefix(watch)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// Whether valgrind is available; tries to install it.
fn there() -> bool {
    let starts = || {
        let mut asked = Command::new("valgrind");
        let asked = asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|exit_status| exit_status.success())
    };
    if starts() {
        return true;
    }
    println!("valgrind is missing: installing it with apt-get");
    let mut install = Command::new("apt-get");
    let _ = install.args(["install", "--yes", "--no-install-recommends", "valgrind"]).status();
    starts()
}

/// The instructions of one pair.
fn count(watch: &str) -> Result<u64, String> {
    let (few, many) = (collected(watch, FEW)?, collected(watch, MANY)?);
    Ok(many.saturating_sub(few) / (MANY - FEW))
}

/// The instructions of a run with this many pairs.
fn collected(watch: &str, pairs: u64) -> Result<u64, String> {
    let runner = r#"target."cfg(all())".runner = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]"#;
    let mut run = cargo(&["run", "--release", "--quiet", "--config", runner]);
    run.args(["--package", "windtunnel-cost", "--bin", "pairs", "--", watch, &pairs.to_string()]);
    announce(&run);
    let told = run.output().map_err(|reason| format!("{run:?} did not start: {reason}"))?;
    let said = String::from_utf8_lossy(&told.stderr);
    let number =
        said.lines().find_map(|text| text.split_once("Collected :")?.1.trim().parse().ok());
    number.filter(|_| told.status.success()).ok_or_else(|| format!("{run:?} said:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_file_is_found_by_its_first_word() {
        let text = format!("{HEAD}off 24043\nverifier 54703\n");
        assert_eq!(read(&text, "off"), Some(24043));
        assert_eq!(read(&text, "verifier"), Some(54703));
        assert_eq!(read(&text, "trace"), None);
    }
}
