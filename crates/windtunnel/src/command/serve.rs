//! `windtunnel serve`: a kernel that D3DKMT clients in other processes call.

use super::CommandError;
use clap::Args;
use server::{Report, ServerEnd, driver};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where clients connect; they set `WINDTUNNEL_SOCKET` to the same path
    /// [default: `$XDG_RUNTIME_DIR/windtunnel.sock`]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The driver of the adapter: a name of `windtunnel list drivers`, or a driver from a file
    /// (.sys, .so) [default: the built-in one]
    #[arg(long, value_name = "DRIVER")]
    driver: Option<OsString>,
    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Judge no rules and write no report: calls are faster
    #[arg(long, conflicts_with = "report")]
    unchecked: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let default = || {
        server::default_socket().ok_or_else(|| {
            CommandError(
                "XDG_RUNTIME_DIR is not set: say where the socket is to be with --socket PATH"
                    .to_owned(),
            )
        })
    };
    let socket = arguments.socket.clone().map_or_else(default, Ok)?;
    if let Some(path) = &arguments.report {
        // Before clients rely on it.
        std::fs::write(path, "")
            .map_err(|why| CommandError(format!("{} cannot be written: {why}", path.display())))?;
    }
    let to = arguments.report.clone().map_or_else(|| "1".into(), PathBuf::into_os_string);
    let report = (!arguments.unchecked).then(|| Report::new(Some(to)));
    let ready = || {
        eprintln!(
            "serving at {}: start clients with WINDTUNNEL_SOCKET={}; Ctrl-C ends",
            socket.display(),
            socket.display()
        );
    };
    let file = arguments.driver.as_deref().filter(|name| driver::is_file(name));
    let file = file.map(|path| driver::open(Path::new(path))).transpose().map_err(CommandError)?;
    let maps_pages = file.is_some();
    let set_up = |host: &_, log: &_| match (file, &arguments.driver) {
        (Some(file), _) => file.set_up(host, log),
        (None, None) => driver::built_in(log),
        (None, Some(name)) => driver::named(name, log).map_err(|why| format!("--driver is {why}")),
    };
    match server::serve(&socket, report, maps_pages, set_up, ready).map_err(CommandError)? {
        ServerEnd::Clean => Ok(ExitCode::SUCCESS),
        ServerEnd::Bad => Ok(ExitCode::from(1)),
    }
}
