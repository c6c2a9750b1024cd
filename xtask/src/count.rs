//! Counts instructions with callgrind, of single operations and of a whole `windtunnel check`, and
//! the page faults and waits of that check. Guards against regressions: counts repeat, times do not.
//!
//! A planted slow-down, one more look-up for each pair, must be noticed.

use crate::{announce, build_release, root, target};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The program runs with both numbers of operations; the difference is the cost of the operations.
/// Both are multiples of 64, the number of packets of an interrupt and of pairs of a look of the
/// verifier.
const FEW: u64 = 128;
const MANY: u64 = 1152;

/// Fails if a count of instructions exceeds the file's by more than this percentage. With the
/// verifier, two runs may differ by 0.2 % (seeded maps); without it, two builds in two folders by
/// less. Another machine's C library may differ more.
const INSTRUCTIONS: u64 = 3;

/// The same for page faults and waits. The least of five runs differs by as much as 20 % between a
/// quiet machine and a busy one; what the guard is for, memory that each flight touches anew, is a
/// multiple.
const USAGE: u64 = 25;

/// The runs of a check whose page faults and waits are counted.
const RUNS: u64 = 5;

/// The operations, as `pairs` calls them.
const OPERATIONS: &[&str] = &[
    "off",
    "verifier",
    "trace",
    "shared-off",
    "packet-off",
    "packet64-off",
    "packet-verifier",
    "callback-off",
    "callback-verifier",
    "frame-off",
    "frame-verifier",
    "library-off",
];

/// The instructions of a whole check.
const CHECK: &str = "check";

/// What the operating system counts of it.
const CHECK_USAGE: &[&str] = &["check-page-faults", "check-waits"];

/// The operation with the planted slow-down, and the one that it slows down.
const PLANTED: (&str, &str) = ("slowed-off", "off");

const HEAD: &str = "\
# Instructions, counted by callgrind in a release build, of
#   off, verifier, trace: a pair (an allocation created and opened, one closed and destroyed)
#   shared: a pair that a second process opens by its global handle, and destroys, too
#   packet: a packet submitted, completed and retired; packet64: one of 64 at a time
#   callback: a pair by the callbacks of a user-mode driver
#   frame: 64 bytes filled, taken, read and given back
#   library: a pair through the C library with the built-in driver
#   check: a whole 'windtunnel check --jobs 1' of the built-in driver
# and, as the operating system counts them, the page faults and waits of that check.
# `cargo xtask test` compares, `cargo xtask bless` rewrites.
";

/// A counted number.
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) number: u64,
}

impl Count {
    /// The percentage by which the number may exceed that of the file.
    fn tolerance(&self) -> u64 {
        if CHECK_USAGE.contains(&self.name) { USAGE } else { INSTRUCTIONS }
    }

    /// Says by how much the number exceeds another one, if that is more than the tolerance.
    fn slower_than(&self, was: u64) -> Option<String> {
        let Self { name, number, .. } = self;
        let tolerance = self.tolerance();
        let more = percent(*number, was);
        (number * 100 > was * (100 + tolerance)).then(|| {
            format!("{name}: {number} instead of {was}, {more} ({tolerance} % are allowed)")
        })
    }

    /// Whether the number is so much lower that the file should say so.
    fn is_faster_than(&self, was: u64) -> bool {
        self.number * (100 + self.tolerance()) < was * 100
    }
}

/// The difference of two numbers, as text.
fn percent(is: u64, was: u64) -> String {
    let tenths = is.abs_diff(was) * 1000 / was.max(1);
    let word = if is < was { "less" } else { "more" };
    format!("{}.{} % {word}", tenths / 10, tenths % 10)
}

/// Counts and compares with the file.
pub(crate) fn check() -> Result<(), String> {
    if !there() {
        println!("Skipped: valgrind is missing and could not be installed.");
        return Ok(());
    }
    let text = std::fs::read_to_string(file()).map_err(|reason| {
        format!("{}: {reason}; 'cargo xtask bless' writes it", file().display())
    })?;
    build_release(&["pairs"])?;
    let counts = counts(&[PLANTED.0])?;
    let (planted, counts): (Vec<&Count>, Vec<&Count>) =
        counts.iter().partition(|count| count.name == PLANTED.0);
    let mut slower = Vec::new();
    for count in &counts {
        let Count { name, number } = count;
        let was = read(&text, name)
            .ok_or_else(|| format!("{} has no line '{name}'", file().display()))?;
        println!("{name}: {number}; the file has {was} ({})", percent(*number, was));
        slower.extend(count.slower_than(was));
        if count.is_faster_than(was) {
            println!("{name}: 'cargo xtask bless' records the lower number");
        }
    }
    check_planted(&planted, &counts)?;
    if slower.is_empty() {
        return Ok(());
    }
    Err(format!("more than before; 'cargo xtask bless' accepts it:\n{}", slower.join("\n")))
}

/// Fails if the planted slow-down is not one for the comparison.
fn check_planted(planted: &[&Count], counts: &[&Count]) -> Result<(), String> {
    let plain = counts.iter().find(|count| count.name == PLANTED.1);
    let (Some(slowed), Some(plain)) = (planted.first(), plain) else {
        return Err("the planted slow-down was not counted".to_owned());
    };
    let (is, was) = (slowed.number, plain.number);
    let missed = || format!("one look-up more a pair is not noticed: {is} instead of {was}");
    let message = slowed.slower_than(was).ok_or_else(missed)?;
    println!("The planted slow-down is found: {message}");
    Ok(())
}

/// Counts and writes the file.
pub(crate) fn bless() -> Result<(), String> {
    if !there() {
        println!("Instruction counts are unchanged: valgrind is missing.");
        return Ok(());
    }
    build_release(&["pairs"])?;
    let counts = counts(&[])?;
    let lines = counts.iter().map(|Count { name, number }| format!("{name} {number}\n"));
    let text: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
    print!("{text}");
    std::fs::write(file(), text).map_err(|reason| format!("{}: {reason}", file().display()))
}

/// The instructions of the operations, for the page of the benchmarks. Empty without valgrind.
pub(crate) fn operations() -> Result<Vec<Count>, String> {
    if !there() {
        return Ok(Vec::new());
    }
    build_release(&["pairs"])?;
    let jobs = OPERATIONS.iter().copied().map(Job::Operation).collect();
    at_a_time(jobs)
}

fn file() -> PathBuf {
    root().join("crates/cost/instructions.txt")
}

fn read(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|text| text.strip_prefix(name)?.strip_prefix(' '))?;
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

/// Something to count.
#[derive(Clone, Copy)]
enum Job {
    /// The instructions of one operation.
    Operation(&'static str),
    /// The instructions of a whole check.
    Check,
}

impl Job {
    fn count(self) -> Result<Count, String> {
        match self {
            Self::Operation(name) => {
                let collected = |count: u64| collected("pairs", &[name, &count.to_string()]);
                let (few, many) = (collected(FEW)?, collected(MANY)?);
                Ok(Count { name, number: many.saturating_sub(few) / (MANY - FEW) })
            }
            Self::Check => {
                let number = collected("windtunnel", &["check", "--jobs", "1"])?;
                Ok(Count { name: CHECK, number })
            }
        }
    }
}

/// All counts: the operations, those that are named besides, and the check.
fn counts(besides: &[&'static str]) -> Result<Vec<Count>, String> {
    // The check takes longest, so it begins first.
    let operations = OPERATIONS.iter().chain(besides).copied().map(Job::Operation);
    let mut counts = at_a_time(std::iter::once(Job::Check).chain(operations).collect())?;
    counts.rotate_left(1);
    // Alone: its numbers depend on other processes.
    counts.extend(check_usage()?);
    Ok(counts)
}

/// Does as many jobs at a time as there are processors: instructions do not depend on the load.
fn at_a_time(jobs: Vec<Job>) -> Result<Vec<Count>, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let left = Mutex::new(jobs.into_iter().enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            let job = left.lock().map_err(|error| error.to_string())?.next();
            let Some((place, job)) = job else { return Ok::<_, String>(done) };
            done.push((place, job.count()?));
        }
    };
    let mut counts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => Err("a thread that counts panicked".to_owned()),
        });
        let mut all = Vec::new();
        for done in ended {
            all.extend(done?);
        }
        Ok::<_, String>(all)
    })?;
    counts.sort_by_key(|(place, _)| *place);
    Ok(counts.into_iter().map(|(_, count)| count).collect())
}

/// The page faults and waits of a check.
fn check_usage() -> Result<Vec<Count>, String> {
    let mut command = Command::new(target().join("release/pairs"));
    command.current_dir(root()).args(["check", &RUNS.to_string()]).stderr(Stdio::inherit());
    announce(&command);
    let told = command.output().map_err(|reason| format!("{command:?} did not start: {reason}"))?;
    let text = String::from_utf8_lossy(&told.stdout);
    let number = |name: &'static str| {
        let number = read(&text, name).ok_or_else(|| format!("{command:?} printed:\n{text}"))?;
        Ok(Count { name, number })
    };
    CHECK_USAGE.iter().map(|name| number(name)).collect()
}

/// The instructions of a run of a program. Threads take turns fairly, so that threads that hand over
/// to each other do not wait for nothing.
fn collected(program: &str, arguments: &[&str]) -> Result<u64, String> {
    let mut run = Command::new("valgrind");
    run.current_dir(root()).stdout(Stdio::null());
    run.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=try"]);
    run.arg(target().join("release").join(program)).args(arguments);
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
        let text = format!("{HEAD}off 24043\nverifier 54703\ncheck 7\ncheck-waits 8\n");
        assert_eq!(read(&text, "off"), Some(24043));
        assert_eq!(read(&text, "verifier"), Some(54703));
        assert_eq!((read(&text, "check"), read(&text, "check-waits")), (Some(7), Some(8)));
        assert_eq!(read(&text, "trace"), None);
    }

    #[test]
    fn more_than_the_tolerance_fails_with_the_row_and_the_difference() {
        let count = |name, number| Count { name, number };
        assert_eq!(count("off", 1030).slower_than(1000), None);
        assert_eq!(
            count("off", 1031).slower_than(1000).as_deref(),
            Some("off: 1031 instead of 1000, 3.1 % more (3 % are allowed)")
        );
        assert_eq!(count("check-waits", 1250).slower_than(1000), None);
        assert!(count("check-waits", 1251).slower_than(1000).is_some());
        assert!(count("off", 970).is_faster_than(1000) && !count("off", 971).is_faster_than(1000));
    }

    #[test]
    fn the_file_has_a_line_for_each_count() {
        let text = std::fs::read_to_string(file()).unwrap();
        let names = OPERATIONS.iter().chain([&CHECK]).chain(CHECK_USAGE);
        for name in names {
            assert!(read(&text, name).is_some(), "{name}");
        }
        assert_eq!(read(&text, PLANTED.0), None, "the planted slow-down is no row");
    }

    #[test]
    fn a_planted_slow_down_that_is_not_noticed_fails() {
        let (plain, slowed) =
            (Count { name: "off", number: 9000 }, |number| Count { name: "slowed-off", number });
        assert!(check_planted(&[&slowed(9459)], &[&plain]).is_ok());
        let missed = check_planted(&[&slowed(9200)], &[&plain]).unwrap_err();
        assert_eq!(missed, "one look-up more a pair is not noticed: 9200 instead of 9000");
        assert!(check_planted(&[], &[&plain]).is_err());
    }
}
