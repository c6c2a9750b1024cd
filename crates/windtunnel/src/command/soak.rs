//! `windtunnel soak`: many flights of random bad drivers from one process, for the long tests. Its
//! memory must not grow, and no child process may be left.
//!
//! Measured: flights of drivers from files leave no memory in this process, nor did those of eight
//! built-in display drivers after the first flights. Those of the built-in bad user-mode drivers,
//! which fly in this process, left about 1 KiB each.

use super::CommandError;
use super::check::{FileOptions, chosen_scenarios, find_driver};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windtunnel::{CheckPlan, Driver, HostKind, NativeUmd, Scenario, check};

/// The most that the resident memory may grow, in per cent.
const GROWTH: f64 = 5.0;

/// The most flights whose memory is averaged, at the start and at the end.
const WINDOW: usize = 1000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The flights to draw from: a driver and a scenario in each line, and a user-mode driver
    #[arg(long)]
    list: PathBuf,
    /// The number of flights
    #[arg(long, default_value_t = 10_000)]
    flights: usize,
    /// The seed of the draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    options: FileOptions,
}

/// A flight to draw.
struct Entry {
    driver: Driver,
    umd: Option<NativeUmd>,
    scenario: Vec<&'static Scenario>,
}

/// What the flights showed.
#[derive(Default)]
struct Counts {
    with_findings: usize,
    without_findings: BTreeMap<String, usize>,
    /// The resident memory after each flight, in KiB.
    resident: Vec<u64>,
    /// How much of that are pages of the program's files: code and constants that a flight was the
    /// first to use.
    of_files: Vec<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let path = arguments.list.display();
    let text = std::fs::read_to_string(&arguments.list)
        .map_err(|why| CommandError(format!("{path} cannot be read: {why}")))?;
    let entries = entries(&text, &arguments.options)?;
    if entries.is_empty() {
        return Err(CommandError(format!("{path} names no flight")));
    }
    let mut counts = Counts::default();
    let mut random = arguments.seed;
    for number in 1..=arguments.flights {
        let choice = flight::next_random(&mut random, entries.len() as u64);
        let entry = &entries[usize::try_from(choice).unwrap_or(0)];
        let seed = flight::next_random(&mut random, 1 << 32);
        counts.fly(entry, seed)?;
        if number % WINDOW == 0 {
            let resident = average(&counts.resident[number - WINDOW..number]);
            let found = counts.with_findings;
            println!("{number} flights, {found} with findings, {resident:.0} KiB resident");
        }
    }
    Ok(counts.report())
}

/// Reads the list. Each file is opened once.
fn entries(text: &str, options: &FileOptions) -> Result<Vec<Entry>, CommandError> {
    let mut drivers: BTreeMap<String, Driver> = BTreeMap::new();
    let mut umds: BTreeMap<String, NativeUmd> = BTreeMap::new();
    let mut entries = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(name), Some(scenario)) = (words.next(), words.next()) else { continue };
        let driver = match drivers.get(&name) {
            Some(driver) => *driver,
            None => *drivers.entry(name.clone()).or_insert(find_driver(&name, options)?),
        };
        let umd = words.next().map(|path| {
            if let Some(umd) = umds.get(&path) {
                return Ok(umd.clone());
            }
            let umd = NativeUmd::open(Path::new(&path), options.flight_options());
            umd.inspect(|umd| _ = umds.insert(path, umd.clone())).map_err(CommandError)
        });
        let umd = umd.transpose()?;
        let scenario = chosen_scenarios(&[scenario], driver.streams(), umd.is_some())?;
        entries.push(Entry { driver, umd, scenario });
    }
    Ok(entries)
}

impl Counts {
    fn fly(&mut self, entry: &Entry, seed: u64) -> Result<(), CommandError> {
        let plan = CheckPlan {
            driver: entry.driver,
            umd: entry.umd.clone(),
            scenarios: &entry.scenario,
            host: HostKind::deterministic(seed),
            seeds: 1,
            allow: None,
            own_process: None,
            require_flown: 0,
            jobs: 1,
        };
        let report = check(&plan, |_| ());
        let name = entry.driver.name();
        if let Some(error) = report.internal_error {
            return Err(CommandError(format!("{name}, seed {seed}: {}", error.0)));
        }
        if report.scenarios.iter().any(|scenario| !scenario.findings.is_empty()) {
            self.with_findings += 1;
        } else {
            *self.without_findings.entry(name.to_owned()).or_default() += 1;
        }
        let (resident, of_files) = resident();
        self.resident.push(resident);
        self.of_files.push(of_files);
        Ok(())
    }

    /// Prints the result; a failure if memory has grown or a child process is left.
    fn report(&self) -> ExitCode {
        let flights = self.resident.len();
        let window = WINDOW.min(flights.div_ceil(4));
        let ends =
            |values: &[u64]| (average(&values[..window]), average(&values[flights - window..]));
        let ((first, last), (first_files, last_files)) =
            (ends(&self.resident), ends(&self.of_files));
        let growth = (last / first - 1.0) * 100.0;
        let children = children();
        let without: usize = self.without_findings.values().sum();
        println!(
            "{flights} flights, {} with findings, {without} without; resident memory of the first \
             {window}: {first:.0} KiB, of the last {window}: {last:.0} KiB ({growth:+.1} %); \
             child processes left: {}",
            self.with_findings,
            children.len()
        );
        println!(
            "of the growth, {:+.0} KiB are pages of the program's files, used for the first time, and \
             {:+.0} KiB are its own memory",
            last_files - first_files,
            (last - last_files) - (first - first_files)
        );
        for (name, count) in &self.without_findings {
            println!("without findings: {name}, {count} times");
        }
        if growth > GROWTH || !children.is_empty() {
            let left = if children.is_empty() { "none".to_owned() } else { children.join(", ") };
            eprintln!(
                "windtunnel: memory has grown by {growth:.1} % (at most {GROWTH} are allowed), or \
                 processes are left: {left}"
            );
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}

/// The average of some numbers.
fn average(values: &[u64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number for a report")]
    let number = |value: u64| value as f64;
    number(values.iter().sum()) / number(values.len().max(1) as u64)
}

/// The resident memory of this process, and how much of it are pages of files, in KiB.
fn resident() -> (u64, u64) {
    const PAGE_KIB: u64 = 4;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>().unwrap_or(0));
    let mut next = || pages.next().unwrap_or(0) * PAGE_KIB;
    (next(), next())
}

/// The child processes of this process.
fn children() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let words = lists.flatten().collect::<Vec<_>>().join(" ");
    words.split_whitespace().map(str::to_owned).collect()
}
