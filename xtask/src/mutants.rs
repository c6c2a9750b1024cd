//! Mutants: small changes of our own code that the tests must notice.
//!
//! `xtask/mutants.txt` lists them by file, change and function. `cargo-mutants` makes and tests each
//! in a copy of the sources below the target folder, so the developer's files are not touched and
//! the dependencies are built once.
//!
//! # Invariants
//!
//! 1. A line of the list is exactly one mutant. A line that matches none is an error.
//! 2. Each mutant runs against the tests of its crate and one program of `tests`, after both passed
//!    without a mutant.
//! 3. A survivor without a reason in the list is an error.

use crate::{cargo, root, run as done, target};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const HELP: &str = "\
cargo xtask mutants [--only TEXT] [--turn N]
                    changes our own code in 100 listed ways and counts which changes the tests
                    notice; takes hours. --only runs the lines of xtask/mutants.txt that contain
                    a text, --turn every fifth line (N from 0 to 4)";

/// The list, from the root.
const LIST: &str = "xtask/mutants.txt";

/// How many turns the list has. `cargo xtask test --long` runs the turn of the day.
const TURNS: usize = 5;

/// The time limit of a test run in seconds: a machine can be busy.
const LIMIT: u32 = 240;

/// Which program of `tests` runs, by the beginning of the file's path. The first match counts.
const PROGRAMS: &[(&str, &str)] = &[
    ("crates/kernel/src/memory", "memory"),
    ("crates/kernel/src/sync", "scheduling"),
    ("crates/kernel/src/schedule", "scheduling"),
    ("crates/kernel/src/adapter/tdr", "scheduling"),
    ("crates/kernel/src/adapter/interrupt", "scheduling"),
    ("crates/kernel/src/ddi/interrupt", "scheduling"),
    ("crates/kernel/src/stuck", "scheduling"),
    ("crates/kernel/src/progress", "memory"),
    ("crates/kernel/", "lifetime"),
    ("crates/stream/", "rules"),
    ("crates/verify/", "rules"),
    ("crates/thunk/src/client_keyed_mutex", "scheduling"),
    ("crates/thunk/src/client_sync", "scheduling"),
    ("crates/thunk/src/context_priority", "scheduling"),
    ("crates/thunk/src/keyed_mutex", "scheduling"),
    ("crates/thunk/src/render", "scheduling"),
    ("crates/thunk/src/client_render", "scheduling"),
    ("crates/thunk/src/signal", "scheduling"),
    ("crates/thunk/src/submit", "scheduling"),
    ("crates/thunk/src/sync", "scheduling"),
    ("crates/thunk/src/wait", "scheduling"),
    ("crates/thunk/src/address", "memory"),
    ("crates/thunk/src/allocation_priority", "memory"),
    ("crates/thunk/src/budget", "memory"),
    ("crates/thunk/src/client_address", "memory"),
    ("crates/thunk/src/client_memory", "memory"),
    ("crates/thunk/src/client_priority", "memory"),
    ("crates/thunk/src/lock", "memory"),
    ("crates/thunk/src/offer", "memory"),
    ("crates/thunk/src/paging_queue", "memory"),
    ("crates/thunk/src/residency", "memory"),
    ("crates/thunk/", "lifetime"),
];

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// The file and the change, as `cargo mutants --list --line-col=false` prints them.
    name: String,
    /// Which of the mutants with this name, in the order of the file.
    place: usize,
    /// Why no test can notice it, if none can.
    reason: Option<String>,
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Killed,
    Survived,
    Unviable,
    TimedOut,
}

/// `cargo xtask mutants`.
pub(crate) fn run() -> Result<(), String> {
    let mut only = None;
    let mut turn = None;
    let mut arguments = std::env::args().skip(2);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value\n{HELP}"));
        match &*flag {
            "--only" => only = Some(value?),
            "--turn" => {
                let wrong = |_| format!("--turn takes a number from 0 to {}", TURNS - 1);
                turn = Some(value?.parse::<usize>().map_err(wrong)?);
            }
            _ => return Err(format!("unknown argument {flag}\n{HELP}")),
        }
    }
    test(only.as_deref(), turn)
}

/// Runs a fifth of the list: which one depends on the date.
pub(crate) fn run_turn_of_the_day() -> Result<(), String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let days = usize::try_from(since.as_secs() / (24 * 60 * 60)).unwrap_or_default();
    let turn = days % TURNS;
    println!(
        "-- turn {turn} of the mutants, by date; repeat it with cargo xtask mutants --turn {turn}"
    );
    test(None, Some(turn))
}

/// Tests the chosen entries of the list and prints the score.
fn test(only: Option<&str>, turn: Option<usize>) -> Result<(), String> {
    install()?;
    let path = root().join(LIST);
    let text = fs::read_to_string(&path).map_err(|reason| format!("{LIST}: {reason}"))?;
    let entries = parse(&text)?;
    let tree = copy_sources()?;
    let listed = list(&tree)?;
    // Every entry is looked up, also those of other turns: a stale line is found at once.
    let mut chosen = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let name = resolve(entry, &listed)?;
        let program = program(&entry.name)?;
        let fits = only.is_none_or(|text| entry.name.contains(text));
        if fits && turn.is_none_or(|turn| number % TURNS == turn) {
            chosen.push((entry, name, program));
        }
    }
    if chosen.is_empty() {
        return Err("no line of the list was chosen".into());
    }
    let groups: BTreeSet<(&str, &str)> =
        chosen.iter().map(|(entry, _, program)| (package(&entry.name), *program)).collect();
    let mut outcomes = Vec::new();
    for (package, program) in groups {
        let names: Vec<&str> = chosen
            .iter()
            .filter(|(entry, _, other)| self::package(&entry.name) == package && *other == program)
            .map(|(_, name, _)| *name)
            .collect();
        println!("-- {} of windtunnel-{package}: its tests and {program}", names.len());
        outcomes.extend(test_group(&tree, package, program, &names)?);
    }
    report(&chosen, &outcomes)
}

fn install() -> Result<(), String> {
    let there =
        cargo(&["mutants", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|exit_status| exit_status.success()) {
        return Ok(());
    }
    println!("cargo mutants is missing: installing cargo-mutants with cargo");
    done(&mut cargo(&["install", "cargo-mutants", "--locked"]))
}

/// Reads the list. Lines with `#` in front are comments; an indented line is the reason why the
/// mutant above survives; ` #2` at the end of a line is the second mutant with that name.
fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("{LIST}, line {}: {why}", number + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(reason) = line.strip_prefix("    ") {
            let entry = entries.last_mut().ok_or_else(|| wrong("a reason before any mutant"))?;
            let reason = match entry.reason.take() {
                Some(begin) => format!("{begin} {}", reason.trim()),
                None => reason.trim().to_owned(),
            };
            entry.reason = Some(reason);
            continue;
        }
        let (name, place) = match line.rsplit_once(" #") {
            Some((name, place)) => {
                let place = place.parse().map_err(|_| wrong("no number after #"))?;
                (name, place)
            }
            None => (line, 1),
        };
        let entry = Entry { name: name.to_owned(), place, reason: None };
        if entries.iter().any(|other| other.name == entry.name && other.place == entry.place) {
            return Err(wrong("listed before"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The mutant of an entry, with line and column: `cargo-mutants` takes these names.
fn resolve<'a>(entry: &Entry, listed: &'a [(String, String)]) -> Result<&'a str, String> {
    let same = listed.iter().filter(|(name, _)| *name == entry.name);
    let mutant = entry.place.checked_sub(1).and_then(|place| same.clone().nth(place));
    mutant.map(|(_, with_line)| &**with_line).ok_or_else(|| {
        let count = same.count();
        format!(
            "{LIST}: \"{}\" #{} matches no mutant ({count} have this name): the code changed; \
             replace the line by a mutant of the same function",
            entry.name, entry.place
        )
    })
}

/// All mutants of the sources: names without and with line and column, in the order of each file.
fn list(tree: &Path) -> Result<Vec<(String, String)>, String> {
    let mut cargo = mutants(tree);
    cargo.arg("--list");
    for package in ["kernel", "stream", "verify", "thunk"] {
        cargo.arg(format!("--package=windtunnel-{package}"));
    }
    let told = cargo.output().map_err(|reason| format!("{cargo:?} did not start: {reason}"))?;
    if !told.status.success() {
        return Err(format!("{cargo:?}: {}", String::from_utf8_lossy(&told.stderr)));
    }
    Ok(sort(&String::from_utf8_lossy(&told.stdout)))
}

/// Sorts lines like `crates/kernel/src/live.rs:12:3: replace …` by file, line and column.
fn sort(text: &str) -> Vec<(String, String)> {
    let mut lines: Vec<(&str, usize, usize, &str, &str)> = text
        .lines()
        .filter_map(|whole| {
            let (place, change) = whole.split_once(": ")?;
            let mut parts = place.split(':');
            let (file, line, column) = (parts.next()?, parts.next()?, parts.next()?);
            Some((file, line.parse().ok()?, column.parse().ok()?, change, whole))
        })
        .collect();
    lines.sort_unstable();
    let name = |(file, _, _, change, whole): (&str, usize, usize, &str, &str)| {
        (format!("{file}: {change}"), whole.to_owned())
    };
    lines.into_iter().map(name).collect()
}

fn program(name: &str) -> Result<&'static str, String> {
    let found = PROGRAMS.iter().find(|(begin, _)| name.starts_with(begin));
    found.map(|pair| pair.1).ok_or_else(|| format!("{LIST}: no test program for {name}"))
}

/// The folder of a file's crate.
fn package(name: &str) -> &str {
    name.split('/').nth(1).unwrap_or_default()
}

/// Copies the sources into the target folder. Files that did not change keep their times, so that
/// cargo builds only what changed; a mutant that an interrupted run left is overwritten.
fn copy_sources() -> Result<PathBuf, String> {
    let tree = target().join("mutants/tree");
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let told = git.output().map_err(|reason| format!("git did not start: {reason}"))?;
    let names = String::from_utf8_lossy(&told.stdout).into_owned();
    let names: BTreeSet<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    for name in &names {
        let wrong = |reason| format!("{name}: {reason}");
        // A tracked file can be deleted in the working tree.
        let Ok(bytes) = fs::read(root().join(name)) else { continue };
        let copy = tree.join(name);
        if fs::read(&copy).is_ok_and(|old| old == bytes) {
            continue;
        }
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder).map_err(wrong)?;
        }
        fs::write(copy, bytes).map_err(wrong)?;
    }
    remove_others(&tree, &tree, &names)?;
    Ok(tree)
}

/// Removes files from the copy that the sources do not have.
fn remove_others(tree: &Path, folder: &Path, names: &BTreeSet<&str>) -> Result<(), String> {
    let wrong = |reason| format!("{}: {reason}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            remove_others(tree, &path, names)?;
            continue;
        }
        let name = path.strip_prefix(tree).map(Path::to_string_lossy).unwrap_or_default();
        if !names.contains(&*name) || !root().join(&*name).exists() {
            fs::remove_file(&path).map_err(wrong)?;
        }
    }
    Ok(())
}

/// A `cargo mutants` command in the copy, with a target folder of its own.
fn mutants(tree: &Path) -> Command {
    let mut command = cargo(&["mutants", "--no-config", "--no-shuffle", "--colors=never"]);
    command.current_dir(tree).env("CARGO_TARGET_DIR", target().join("mutants/build"));
    command
}

/// Tests mutants of one package with one program. Cargo stops at the first program that fails.
fn test_group(
    tree: &Path,
    package: &str,
    program: &str,
    names: &[&str],
) -> Result<Vec<(String, Outcome)>, String> {
    let out = target().join("mutants").join(format!("{package}-{program}"));
    fs::create_dir_all(&out).map_err(|reason| format!("{}: {reason}", out.display()))?;
    let mut cargo = mutants(tree);
    cargo.args(["--in-place", "--caught", "--unviable"]);
    // The baseline of cargo-mutants does not know `--test-package`.
    cargo.args(["--baseline=skip".into(), format!("--timeout={LIMIT}")]).arg("--output").arg(&out);
    cargo.arg(format!("--package=windtunnel-{package}"));
    for tested in [&*format!("windtunnel-{package}"), "windtunnel-tests"] {
        cargo.arg(format!("--test-package={tested}"));
    }
    cargo.args(["--cargo-arg=--lib".into(), format!("--cargo-arg=--test={program}")]);
    let diff = out.join("lines.diff");
    fs::write(&diff, lines_of(tree, names)?)
        .map_err(|reason| format!("{}: {reason}", diff.display()))?;
    cargo.arg("--in-diff").arg(diff);
    for name in names {
        cargo.arg(format!("--re=^{}$", escape(name)));
    }
    let text = format!("cargo mutants of {package}");
    let status = cargo.status().map_err(|reason| format!("{text} did not start: {reason}"))?;
    // 0: all were killed; 2: some survived; 3: some ran into the time limit.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("{text} ended with {status}; its log is in {}", out.display()));
    }
    let mut outcomes = Vec::new();
    for (file, outcome) in [
        ("caught.txt", Outcome::Killed),
        ("missed.txt", Outcome::Survived),
        ("unviable.txt", Outcome::Unviable),
        ("timeout.txt", Outcome::TimedOut),
    ] {
        let path = out.join("mutants.out").join(file);
        let text =
            fs::read_to_string(&path).map_err(|reason| format!("{}: {reason}", path.display()))?;
        outcomes.extend(text.lines().map(|line| (line.to_owned(), outcome)));
    }
    Ok(outcomes)
}

/// A diff that changes the first line of each mutant: `cargo-mutants` 27 ignores `--re` for mutants
/// that delete a field, so the lines are chosen as well. A few more mutants may run than were asked
/// for; the report does not count them.
fn lines_of(tree: &Path, names: &[&str]) -> Result<String, String> {
    let mut lines: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for name in names {
        let mut parts = name.split(':');
        let (file, line) = (parts.next(), parts.next().and_then(|line| line.parse().ok()));
        if let (Some(file), Some(line)) = (file, line) {
            lines.entry(file).or_default().insert(line);
        }
    }
    let mut diff = String::new();
    for (file, lines) in lines {
        let text =
            fs::read_to_string(tree.join(file)).map_err(|reason| format!("{file}: {reason}"))?;
        let _ = writeln!(diff, "--- a/{file}\n+++ b/{file}"); // Writing to a string cannot fail.
        for line in lines {
            let now = text.lines().nth(line - 1).unwrap_or_default();
            let _ = writeln!(diff, "@@ -{line},1 +{line},1 @@\n-\n+{now}");
        }
    }
    Ok(diff)
}

/// A regular expression that matches this text only.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Prints the score and the survivors.
///
/// Fails if a mutant survived without a reason, did not compile, or was not run.
fn report(chosen: &[(&Entry, &str, &str)], outcomes: &[(String, Outcome)]) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut counts = [0_usize; 4];
    println!();
    for (entry, name, _) in chosen {
        let Some((_, outcome)) = outcomes.iter().find(|(mutant, _)| mutant == name) else {
            wrong.push(format!("not run: {name}"));
            continue;
        };
        counts[*outcome as usize] += 1;
        match (outcome, &entry.reason) {
            (Outcome::Survived, Some(reason)) => println!("survived: {name}\n    {reason}"),
            (Outcome::Survived, None) => {
                wrong.push(format!("survived, and the list has no reason: {name}"));
            }
            (Outcome::Unviable, _) => {
                wrong.push(format!("does not compile, so it proves nothing: {name}"));
            }
            (Outcome::Killed | Outcome::TimedOut, Some(_)) => {
                println!("killed now, so the list needs no reason for it: {name}");
            }
            (Outcome::Killed | Outcome::TimedOut, None) => (),
        }
    }
    let [killed, survived, unviable, timed_out] = counts;
    println!(
        "Mutants: {killed} killed, {timed_out} timed out (noticed as well), {survived} survived, \
         {unviable} unviable; {} of {} noticed",
        killed + timed_out,
        chosen.len()
    );
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
crates/verify/src/pool.rs:12:9: replace == with != in nothing_leaked
crates/verify/src/pool.rs:9:20: replace == with != in nothing_leaked
crates/verify/src/pool.rs:9:5: replace nothing_leaked -> bool with true
";

    fn entry(name: &str, place: usize) -> Entry {
        Entry { name: name.into(), place, reason: None }
    }

    #[test]
    fn a_line_is_one_mutant() {
        let listed = sort(LISTED);
        let operator = "crates/verify/src/pool.rs: replace == with != in nothing_leaked";
        assert_eq!(
            resolve(&entry(operator, 1), &listed).unwrap(),
            "crates/verify/src/pool.rs:9:20: replace == with != in nothing_leaked"
        );
        assert_eq!(
            resolve(&entry(operator, 2), &listed).unwrap(),
            "crates/verify/src/pool.rs:12:9: replace == with != in nothing_leaked"
        );
        let stale = resolve(&entry(operator, 3), &listed).unwrap_err();
        assert!(stale.contains("#3 matches no mutant (2 have this name)"), "{stale}");
        assert!(resolve(&entry(operator, 0), &listed).is_err());
    }

    #[test]
    fn reasons_and_places_are_read() {
        let text = "# comment\n\na.rs: replace f with ()\n    equivalent:\n    why\n\
                    a.rs: replace == with != in f #2\n";
        let first =
            Entry { reason: Some("equivalent: why".into()), ..entry("a.rs: replace f with ()", 1) };
        assert_eq!(parse(text).unwrap(), [first, entry("a.rs: replace == with != in f", 2)]);
        assert!(parse("    a reason alone").unwrap_err().contains("line 1"));
        assert!(parse("a.rs: x\na.rs: x").unwrap_err().contains("line 2: listed before"));
        assert!(parse("a.rs: x #two").unwrap_err().contains("no number after #"));
    }

    #[test]
    fn the_list_has_a_hundred_lines_with_a_program_each() {
        let text = fs::read_to_string(root().join(LIST)).unwrap();
        let entries = parse(&text).unwrap();
        assert_eq!(entries.len(), 100);
        for entry in &entries {
            program(&entry.name).unwrap();
            let file = entry.name.split(':').next().unwrap();
            assert!(root().join(file).exists(), "{file} of the list does not exist");
        }
    }

    #[test]
    fn survivors_need_a_reason() {
        let (known, unknown) =
            (entry("a", 1), Entry { reason: Some("why".into()), ..entry("b", 1) });
        let chosen = [(&known, "a", "rules"), (&unknown, "b", "rules")];
        let outcome = |a, b| [("a".to_owned(), a), ("b".to_owned(), b)];
        let report = |outcomes: [(String, Outcome); 2]| report(&chosen, &outcomes);
        assert!(report(outcome(Outcome::Killed, Outcome::Survived)).is_ok());
        assert!(report(outcome(Outcome::TimedOut, Outcome::Killed)).is_ok());
        assert!(report(outcome(Outcome::Survived, Outcome::Survived)).is_err());
        assert!(report(outcome(Outcome::Unviable, Outcome::Survived)).is_err());
        assert!(super::report(&chosen, &outcome(Outcome::Killed, Outcome::Killed)[..1]).is_err());
    }

    #[test]
    fn an_escaped_name_matches_only_itself() {
        assert_eq!(escape("a.rs:1:2: f -> (u8)"), r"a\.rs:1:2: f -> \(u8\)");
    }
}
