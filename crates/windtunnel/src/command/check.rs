//! `windtunnel check`.

use super::{Deny, Unknown, json, text, unknown};
use clap::{Args, ValueEnum};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windtunnel::{Checked, Flown, On, SCENARIOS, Scenario, check, find_scenario};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The driver to fly: a built-in name, see 'windtunnel list drivers'
    #[arg(default_value = "softgpu")]
    driver: String,
    /// Fly only this scenario (may be given several times); bad clients are flown only so
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// Who runs the flight
    #[arg(long, value_name = "HOST", default_value = "stepped")]
    host: Host,
    /// The seed that the order of threads and hardware is drawn from [default: 1]; only with
    /// --host stepped
    #[arg(long)]
    seed: Option<u64>,
    /// Let warnings count as wrong, too
    #[arg(long)]
    deny: Option<Deny>,
    /// Write the events of each scenario to DIR/SCENARIO.trace
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Show who was alive, and why, at the moments each scenario takes a look
    #[arg(long)]
    live: bool,
    /// For machines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who runs a flight.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Host {
    /// One thread at a time, in an order drawn from the seed: repeats byte for byte
    Stepped,
    /// Threads side by side, as the machine runs them: does not repeat
    Free,
}

impl Arguments {
    fn on(&self) -> Result<On, Unknown> {
        match (self.host, self.seed) {
            (Host::Stepped, seed) => Ok(On::Stepped(seed.unwrap_or(1))),
            (Host::Free, None) => Ok(On::Free),
            (Host::Free, Some(seed)) => Err(Unknown(format!(
                "--seed {seed} has no meaning with --host free: its threads run as the machine \
                 runs them; leave one of the two out"
            ))),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Unknown> {
    let driver = drivers::find(&arguments.driver).ok_or_else(|| {
        unknown("driver", &arguments.driver, drivers::ALL.iter().map(|it| it.name))
    })?;
    let scenarios = chosen(&arguments.scenarios)?;
    let on = arguments.on()?;
    if !arguments.json {
        text::begin(driver, on);
    }
    let mut failed = None;
    let checked = check(driver, &scenarios, on, |flown| {
        if !arguments.json {
            text::flight(flown, arguments.live);
        }
        if let Some(directory) = &arguments.trace
            && let Err(why) = keep_trace(directory, flown)
        {
            failed.get_or_insert(why);
        }
    });
    let checked = checked.map_err(|flight::CouldNotRun(why)| {
        Unknown(format!("could not run, which is a fault of windtunnel itself: {why}"))
    })?;
    if let Some(why) = failed {
        return Err(why);
    }
    if arguments.json {
        json::report(&checked, arguments.live);
    } else {
        text::end(&checked);
    }
    Ok(ExitCode::from(exit_code(&checked, arguments)))
}

fn exit_code(checked: &Checked, arguments: &Arguments) -> u8 {
    checked.exit_code(arguments.deny == Some(Deny::Warnings))
}

/// The scenarios asked for; without any, every good one.
fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, Unknown> {
    let all = || SCENARIOS.iter().copied().flatten();
    if names.is_empty() {
        return Ok(all().filter(|it| it.breaks.is_empty()).collect());
    }
    let find = |name: &String| {
        find_scenario(name).ok_or_else(|| unknown("scenario", name, all().map(|it| it.name)))
    };
    names.iter().map(find).collect()
}

fn keep_trace(directory: &Path, flown: &Flown) -> Result<(), Unknown> {
    let path = directory.join(format!("{}.trace", flown.scenario));
    let written =
        fs::create_dir_all(directory).and_then(|()| fs::write(&path, trace::text(&flown.events)));
    written.map_err(|why| Unknown(format!("{} cannot be written: {why}", path.display())))
}
