//! `windtunnel flight`: one flight of a driver from a file, as the child of `windtunnel check`.

use super::CommandError;
use super::check::{FileOptions, HostOptions, chosen_scenarios, find_driver};
use clap::Args;
use std::process::ExitCode;
use windtunnel::{ChildArguments, Driver, fly_as_child};

#[derive(Args)]
pub(crate) struct Arguments {
    driver: String,
    #[arg(long)]
    scenario: String,
    #[command(flatten)]
    threads: HostOptions,
    #[command(flatten)]
    options: FileOptions,
    /// The descriptor of the shared memory
    #[arg(long)]
    channel: i32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let Driver::File(file) = find_driver(&arguments.driver, &arguments.options)? else {
        return Err(CommandError(format!("{} is not a file", arguments.driver)));
    };
    let named = std::slice::from_ref(&arguments.scenario);
    let scenarios = chosen_scenarios(named, file.streams(), false)?;
    let Some(scenario) = scenarios.first() else {
        return Err(CommandError("there is no scenario".to_owned()));
    };
    let host = arguments.threads.host_kind()?;
    let child = ChildArguments { file, scenario, host, channel: arguments.channel };
    fly_as_child(&child).map_err(CommandError)?;
    Ok(ExitCode::SUCCESS)
}
