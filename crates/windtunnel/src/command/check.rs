//! `windtunnel check`.

use super::frames::FrameWriter;
use super::limits::LimitOptions;
use super::progress::Progress;
use super::repeat::Repeat;
use super::text::{Ending, Style};
use super::{CommandError, Deny, is_driver_file, json, text, unknown_name};
use clap::{Args, ValueEnum};
use nt::image::StopSignal;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use windtunnel::{
    AllowFileError, AllowList, CheckPlan, CheckStep, Colour, Driver, DriverFile, FlightOptions,
    FlightResult, Guard, HostKind, NativeUmd, PrivateData, SCENARIOS, Scenario, baseline, check,
    default_scenarios, find_family, find_scenario, set_flight_limits,
    steps::{self, StepError},
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The driver to fly: a file (DRIVER.sys, ./DRIVER.so), or a built-in name, see 'windtunnel list drivers'
    #[arg(default_value = "softgpu-gpummu")]
    pub(super) driver: String,
    /// Fly this user-mode driver on top of DRIVER, in place of the built-in one: a native shared
    /// object that exports `OpenAdapter`. Flies the scenarios that need a
    /// user-mode driver, unless --scenario names others: see docs/user-mode-drivers.md
    #[arg(long, value_name = "FILE.so")]
    pub(super) umd: Option<PathBuf>,
    /// Fly only this scenario, or this family of scenarios (repeatable). Bad clients are flown only
    /// when named here. A file, or a name that ends in .steps, is read as steps, one per line: see
    /// docs/steps.md
    #[arg(long = "scenario", value_name = "NAME|FAMILY|FILE")]
    pub(super) scenarios: Vec<String>,
    #[command(flatten)]
    threads: HostOptions,
    /// Fly each scenario N times, with consecutive seeds starting at --seed, and merge the results
    /// into one report
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seeds: u64,
    /// Make N flights at a time; the output is the same with any number. Flights that share
    /// variables (--in-process, bad built-in drivers) and those of --host threads are made one at a
    /// time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// List the findings that this TOML file allows separately and do not count them: [[allow]]
    /// entries with rule, where and reason, optionally driver or scenario
    #[arg(long, value_name = "FILE")]
    pub(super) allow: Option<PathBuf>,
    /// Write an allow file that covers every finding
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
    /// Also fail on warnings
    #[arg(long)]
    pub(super) deny: Option<Deny>,
    /// Fail if fewer than N scenarios are flown to their end, for a driver that has everything they
    /// need
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) require_flown: usize,
    /// Write the events of each scenario to DIR/SCENARIO.trace, those of further seeds to
    /// DIR/SCENARIO.SEED.trace
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Write the frames of a streaming minidriver to DIR/SCENARIO-NUMBER.png, those of further
    /// seeds to DIR/SCENARIO.SEED-NUMBER.png
    #[arg(long, value_name = "DIR")]
    frames: Option<PathBuf>,
    /// Print live objects and what keeps each alive, at the moments each scenario selects
    #[arg(long)]
    live: bool,
    /// List every scenario as it ends, and everything that was not judged
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    pub(super) options: FileOptions,
    #[command(flatten)]
    pub(super) limits: LimitOptions,
    /// Print JSON: docs/report.schema.json describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the threads of a flight run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HostArgument {
    /// One thread at a time, in an order drawn from the seed: traces repeat byte for byte
    Deterministic,
    /// In parallel, as the machine schedules them: traces do not repeat
    Threads,
}

/// Parses the value of `--host`. A name of an earlier version fails with the new name.
fn host_argument(text: &str) -> Result<HostArgument, String> {
    match text {
        "stepped" => Err("'stepped' is now called 'deterministic'".to_owned()),
        "free" => Err("'free' is now called 'threads'".to_owned()),
        _ => HostArgument::from_str(text, false)
            .map_err(|_| "expected 'deterministic' or 'threads'".to_owned()),
    }
}

/// Parses the value of `--private-data`.
fn private_data_argument(text: &str) -> Result<PrivateData, String> {
    let all = [PrivateData::BuiltIn, PrivateData::None];
    let named = all.into_iter().find(|data| data.name() == text);
    named.ok_or_else(|| "expected 'builtin' or 'none'".to_owned())
}

impl Arguments {
    /// How the text report is printed.
    fn style(&self) -> Style {
        let colour = colour(io::stdout().is_terminal(), |name| std::env::var_os(name));
        Style { colour, verbose: self.verbose, live: self.live }
    }

    fn host_kind(&self) -> Result<HostKind, CommandError> {
        self.threads.host_kind()
    }

    /// The number of flights at a time.
    fn jobs(&self) -> usize {
        match self.jobs {
            Some(jobs) => usize::from(jobs),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// How the threads of a flight run.
#[derive(Args)]
pub(crate) struct HostOptions {
    /// How the threads of the flight run: 'deterministic' (one at a time, in an order drawn from
    /// the seed, which repeats) or 'threads' (side by side, as the OS schedules them)
    #[arg(long, value_name = "HOST", default_value = "deterministic", value_parser = host_argument)]
    host: HostArgument,
    /// The seed that determines the order of threads and hardware [default: 1]; only with
    /// --host deterministic
    #[arg(long)]
    seed: Option<u64>,
    /// Fly under pressure: little memory, small paging buffers, scattered pages, and nodes that
    /// complete work late and out of order, all drawn from the seed; only with --host deterministic
    #[arg(long)]
    pressure: bool,
}

impl HostOptions {
    pub(super) fn host_kind(&self) -> Result<HostKind, CommandError> {
        match (self.host, self.seed) {
            (HostArgument::Deterministic, seed) if self.pressure => {
                Ok(HostKind::under_pressure(seed.unwrap_or(1)))
            }
            (HostArgument::Deterministic, seed) => Ok(HostKind::deterministic(seed.unwrap_or(1))),
            (HostArgument::Threads, None) if self.pressure => Err(CommandError(
                "--pressure has no meaning with --host threads: pressure is drawn from a \
                 seed; leave one of the two out"
                    .to_owned(),
            )),
            (HostArgument::Threads, None) => Ok(HostKind::Threaded),
            (HostArgument::Threads, Some(seed)) => Err(CommandError(format!(
                "--seed {seed} has no meaning with --host threads: its threads run as the machine \
                 schedules them; leave one of the two out"
            ))),
        }
    }
}

/// The driver with a name, or in a file.
pub(super) fn find_driver(name: &str, options: &FileOptions) -> Result<Driver, CommandError> {
    if let Some(driver) = Driver::find(name) {
        return Ok(driver);
    }
    if !is_driver_file(name) {
        return Err(unknown_name("driver", name, Driver::all().map(Driver::name)));
    }
    DriverFile::open(Path::new(name), options.flight_options())
        .map(Driver::File)
        .map_err(CommandError)
}

/// How a driver from a file is flown.
#[derive(Args)]
pub(crate) struct FileOptions {
    /// Fly a driver from a file in this process, for a debugger, instead of a process per flight
    #[arg(long)]
    pub(super) in_process: bool,
    /// The longest time that a driver from a file may run without returning or waiting; 0 for any
    /// time
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(super) deadline: u64,
    /// The folder in which a driver from a file finds the files that it opens
    #[arg(long, value_name = "DIR")]
    pub(super) files: Option<PathBuf>,
    /// How much memory lies between inaccessible pages, the driver's pool and what calls pass to it:
    /// then an access outside of a block, or to a freed one, is found where it happens [default: full
    /// for a driver from a file; a built-in display driver is guarded only if this option is given,
    /// and then each flight has a process of its own]
    #[arg(long, value_enum)]
    pub(super) guard: Option<GuardOption>,
    /// The private data of allocations and packets for a driver from a file: in the format of the
    /// built-in GPU, or none [default: what the file says, see docs/fly-your-driver.md]
    #[arg(long, value_name = "builtin|none", value_parser = private_data_argument)]
    pub(super) private_data: Option<PrivateData>,
}

/// How much memory is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardOption {
    /// Every block
    Full,
    /// As full, and a pool block ends at its inaccessible page, to 8 bytes: less alignment than on
    /// Windows, see docs/memory-faults.md
    Exact,
    /// One block of eight
    Sampled,
    /// No block
    Off,
}

impl GuardOption {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Exact => "exact",
            Self::Sampled => "sampled",
            Self::Off => "off",
        }
    }
}

impl FileOptions {
    pub(super) fn flight_options(&self) -> FlightOptions {
        let deadline = (self.deadline > 0).then(|| Duration::from_secs(self.deadline));
        let guard = match self.guard {
            Some(GuardOption::Full) | None => Guard::Full,
            Some(GuardOption::Exact) => Guard::Exact,
            Some(GuardOption::Sampled) => Guard::Sampled,
            Some(GuardOption::Off) => Guard::Off,
        };
        let (in_process, files) = (self.in_process, self.files.clone());
        let private_data = self.private_data;
        FlightOptions { in_process, deadline, files, guard, private_data }
    }

    /// How a built-in driver is flown in processes of its own; `None` if it is not.
    fn own_process(&self, driver: Driver) -> Option<FlightOptions> {
        let guards = !matches!(self.guard, None | Some(GuardOption::Off));
        (guards || driver.needs_guard()).then(|| self.flight_options())
    }
}

/// Colour on a terminal that can show it, unless `NO_COLOR` is set (<https://no-color.org>).
fn colour(terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> Colour {
    let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = variable("TERM").is_some_and(|value| value == "dumb");
    if terminal && !no_color && !dumb { Colour::On } else { Colour::Off }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    set_flight_limits(arguments.limits.limits());
    let driver = find_driver(&arguments.driver, &arguments.options)?;
    let scenarios =
        chosen_scenarios(&arguments.scenarios, driver.streams(), arguments.umd.is_some())?;
    let mut frames = FrameWriter::new(arguments.frames.as_deref());
    let open = |path| NativeUmd::open(path, arguments.options.flight_options());
    let umd = arguments.umd.as_deref().map(open).transpose().map_err(CommandError)?;
    let allow = arguments.allow.as_deref().map(read_allow).transpose()?;
    let (on, seeds) = (arguments.host_kind()?, arguments.seeds);
    refuse_unwritable(arguments)?;
    let repeat = Repeat::new(arguments, &scenarios, on);
    let style = arguments.style();
    let mut header_due = !arguments.json;
    let mut print_header = |umd: Option<&NativeUmd>| {
        if std::mem::take(&mut header_due) {
            text::print_header(driver, umd, on, seeds);
        }
    };
    // The header of a file waits for its first flight, which may show that it has no driver.
    if !matches!(driver, Driver::File(_)) {
        print_header(umd.as_ref());
    }
    let plan = CheckPlan {
        driver,
        umd,
        scenarios: &scenarios,
        host: on,
        seeds,
        allow: allow.as_ref(),
        own_process: arguments.options.own_process(driver),
        jobs: arguments.jobs(),
        require_flown: arguments.require_flown,
    };
    let total = plan.flight_count();
    StopSignal::catch();
    let mut progress = Progress::new(total, io::stderr(), io::stderr().is_terminal());
    let mut failed = None;
    let check_report = check(&plan, |step| match step {
        CheckStep::FlightDone(flown) => {
            print_header(plan.umd.as_ref());
            progress.print(&flown.printed);
            progress.step(flown.scenario);
            // After one failure the files are incomplete: the flights go on, for their findings.
            if failed.is_none() {
                let trace = arguments.trace.as_ref();
                let written = trace.map_or(Ok(()), |directory| write_trace(directory, flown, on));
                failed = written.and_then(|()| frames.write_flight(flown, on)).err();
            }
        }
        CheckStep::ScenarioDone(scenario_report) => {
            progress.clear();
            if !arguments.json {
                text::print_scenario(scenario_report, style);
            }
        }
    });
    if let Driver::File(file) = driver
        && file.registers_nothing()
        && check_report.scenarios.is_empty()
    {
        return Err(CommandError(format!(
            "{} is no driver that can be flown: its DriverEntry registers neither a display driver \
             (DxgkInitialize) nor a streaming minidriver (KsInitializeDriver)",
            file.path().display()
        )));
    }
    print_header(plan.umd.as_ref());
    if failed.is_none() {
        failed = frames.write_sheet().err();
    }
    if let Some(path) = &arguments.write_baseline {
        let written = fs::write(path, baseline(&check_report));
        failed = failed.or(written.err().map(|why| write_error(path, &why)));
    }
    let allow = arguments.allow.as_deref().zip(allow.as_ref());
    // A file that could not be written does not hide the findings, but is the last word.
    let unwritten = failed.as_ref().map(|why| &*why.0);
    let ending = Ending { deny_warnings: arguments.deny == Some(Deny::Warnings), unwritten };
    if arguments.json {
        json::report(&check_report, driver, allow, &repeat, (arguments.live, ending));
    } else {
        if unwritten.is_none() {
            frames.print_summary();
        }
        if let Driver::File(file) = driver {
            text::print_registration(file);
        }
        text::print(&check_report, allow, &repeat, ending, style);
    }
    if let Some(why) = unwritten {
        eprintln!("windtunnel: {why}");
    }
    if let Some(error) = check_report.internal_error.as_ref().filter(|it| it.is_no_resources()) {
        eprintln!("windtunnel: {}", error.0);
    }
    if let Some(signal) = check_report.stopped_by {
        eprintln!("windtunnel: {}", text::stopped_by(signal, &check_report, total));
    }
    Ok(ExitCode::from(ending.exit_code(&check_report)))
}

/// Refuses output paths that cannot be written, before anything is flown.
fn refuse_unwritable(arguments: &Arguments) -> Result<(), CommandError> {
    for directory in [&arguments.trace, &arguments.frames].into_iter().flatten() {
        let probe = directory.join(format!(".windtunnel-{}", std::process::id()));
        let written = fs::create_dir_all(directory)
            .and_then(|()| fs::write(&probe, ""))
            .and_then(|()| fs::remove_file(&probe));
        written.map_err(|why| write_error(directory, &why))?;
    }
    if let Some(path) = &arguments.write_baseline {
        // The file may be the allow file of this run: its text stays until the new one is known.
        let exists = path.exists();
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|why| write_error(path, &why))?;
        if !exists {
            fs::remove_file(path).map_err(|why| write_error(path, &why))?;
        }
    }
    Ok(())
}

/// Reads an allow file. Errors name file and line.
fn read_allow(path: &Path) -> Result<AllowList, CommandError> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|why| {
        CommandError(format!(
            "{at} cannot be read: {why}; expected a TOML file of [[allow]] entries"
        ))
    })?;
    AllowList::read(&text)
        .map_err(|AllowFileError { line, reason: why }| CommandError(format!("{at}:{line}: {why}")))
}

pub(super) fn write_error(path: &Path, why: &io::Error) -> CommandError {
    CommandError(format!("{} cannot be written: {why}", path.display()))
}

/// The scenarios named on the command line. Without any: every good scenario for this kind of
/// driver, or, with `umd`, every good scenario that needs a user-mode driver.
pub(super) fn chosen_scenarios(
    names: &[String],
    streams: bool,
    umd: bool,
) -> Result<Vec<&'static Scenario>, CommandError> {
    if names.is_empty() {
        return Ok(default_scenarios(streams, umd));
    }
    names.iter().map(|name| scenarios_of(name)).collect::<Result<Vec<_>, _>>().map(|it| it.concat())
}

/// The scenario with a name, of a file of steps, or those of a family.
fn scenarios_of(name: &str) -> Result<Vec<&'static Scenario>, CommandError> {
    if let Some(scenario) = find_scenario(name) {
        return Ok(vec![scenario]);
    }
    if is_steps(Path::new(name)) {
        return read_steps(Path::new(name)).map(|scenario| vec![scenario]);
    }
    let family = find_family(name);
    if family.is_empty() {
        let all = SCENARIOS.iter().copied().flatten().map(|scenario| scenario.name);
        return Err(unknown_name("scenario", name, all));
    }
    Ok(family)
}

fn is_steps(path: &Path) -> bool {
    path.extension().is_some_and(|text| text == "steps") || path.is_file()
}

/// Reads a scenario of steps. Errors name file and line.
fn read_steps(path: &Path) -> Result<&'static Scenario, CommandError> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|why| {
        CommandError(format!("{at} cannot be read: {why}; expected a file of steps, one per line"))
    })?;
    let steps = steps::read(&text)
        .map_err(|StepError { line, reason: why }| CommandError(format!("{at}:{line}: {why}")))?;
    Ok(Scenario::of_steps_file(path, steps))
}

fn write_trace(directory: &Path, flown: &FlightResult, on: HostKind) -> Result<(), CommandError> {
    let path = directory.join(match flown.seed {
        Some(seed) if on.seed() != Some(seed) => format!("{}.{seed}.trace", flown.scenario),
        _ => format!("{}.trace", flown.scenario),
    });
    write_whole(&path, |path| fs::write(path, flight::trace::text(&flown.events)))
}

/// Writes a file, and creates its directory if needed. A file that cannot be written to its end, as
/// on a full disk, is removed.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), CommandError> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| write(path)).map_err(|why| {
        // A device, or what a link refers to, is not this check's own file.
        if fs::symlink_metadata(path).is_ok_and(|it| it.is_file()) {
            _ = fs::remove_file(path); // The error that is reported is the first.
        }
        write_error(path, &why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_to_its_end_is_removed() {
        let folder = std::env::temp_dir().join(format!("windtunnel-{}-whole", std::process::id()));
        let file = folder.join("a.trace");
        let full = |path: &Path| {
            fs::write(path, "the beginning")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        let CommandError(why) = write_whole(&file, full).err().unwrap();
        assert_eq!(why, format!("{} cannot be written: no storage space", file.display()));
        assert!(!file.exists());
        assert!(write_whole(&file, |path| fs::write(path, "all")).is_ok());
        assert_eq!(fs::read(&file).unwrap(), b"all");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn colour_is_for_terminals_without_no_color() {
        let with = |set: &'static str, value: &'static str| {
            colour(true, move |name| (name == set).then(|| value.into()))
        };
        assert_eq!(with("", ""), Colour::On);
        assert_eq!(with("NO_COLOR", ""), Colour::On);
        assert_eq!(with("NO_COLOR", "1"), Colour::Off);
        assert_eq!(with("TERM", "dumb"), Colour::Off);
        assert_eq!(with("TERM", "xterm"), Colour::On);
        assert_eq!(colour(false, |_| None), Colour::Off);
    }
}
