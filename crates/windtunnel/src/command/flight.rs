//! `windtunnel flight`: one flight with a driver from a file, as the child of `windtunnel check`.

use super::CommandError;
use super::check::{FileOptions, HostOptions, chosen_scenarios, find_driver};
use super::limits::LimitOptions;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use windtunnel::{ChildArguments, fly_as_child, set_flight_limits};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The kernel-mode driver; without it, the user-mode driver is only loaded
    driver: Option<String>,
    #[arg(long)]
    umd: Option<PathBuf>,
    #[arg(long)]
    scenario: Vec<String>,
    #[command(flatten)]
    threads: HostOptions,
    #[command(flatten)]
    options: FileOptions,
    #[command(flatten)]
    limits: LimitOptions,
    /// The descriptor of the shared memory
    #[arg(long)]
    channel: i32,
    /// The number of the parent process: the flight ends with it
    #[arg(long)]
    parent: Option<u32>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    set_flight_limits(arguments.limits.limits());
    let find = |name: &String| find_driver(name, &arguments.options);
    let driver = arguments.driver.as_ref().map(find).transpose()?;
    let umd = arguments.umd.clone();
    let flight = match driver {
        Some(driver) => {
            let scenarios = chosen_scenarios(&arguments.scenario, driver.streams(), umd.is_some())?;
            let first = scenarios.first().copied();
            let scenario = first.ok_or(CommandError("there is no scenario".to_owned()))?;
            Some((driver, scenario))
        }
        None => None,
    };
    let (host, options) = (arguments.threads.host_kind()?, arguments.options.flight_options());
    let (channel, parent) = (arguments.channel, arguments.parent);
    let child = ChildArguments { flight, umd, host, options, channel, parent };
    fly_as_child(&child).map_err(CommandError)?;
    Ok(ExitCode::SUCCESS)
}
