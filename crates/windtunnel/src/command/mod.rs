//! The command line.

/// Like the standard macro, but exits quietly when the pipe is closed (`windtunnel check | head`),
/// and with a message when the output cannot be written.
macro_rules! println {
    () => { crate::command::write_output(format_args!("\n")) };
    ($($text:tt)*) => { crate::command::write_output(format_args!("{}\n", format_args!($($text)*))) };
}

/// Like the standard macro, but a standard error that is closed or full is no reason to stop.
macro_rules! eprintln {
    ($($text:tt)*) => { crate::command::write_error_line(format_args!($($text)*)) };
}

/// Like `println`, without a new line.
macro_rules! print {
    ($($text:tt)*) => { crate::command::write_output(format_args!($($text)*)) };
}

mod cc;
mod check;
mod explain;
mod flight;
mod frames;
mod json;
mod limits;
mod list;
mod progress;
mod repeat;
mod serve;
mod soak;
mod support;
mod symbols;
mod text;

use clap::{Parser, Subcommand, ValueEnum};
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  windtunnel check                          fly the built-in driver through every good scenario
  windtunnel check DRIVER.sys               fly a driver from its image (docs/fly-your-driver.md)
  windtunnel check kmd-leaks-destroyed-allocation         fly a bad driver and read what it did
  windtunnel check --scenario destroy-synchronous --trace traces
  windtunnel check --scenario my.steps      fly your own steps, one per line (docs/steps.md)
  windtunnel check --host threads           parallel threads instead of one at a time
  windtunnel check --seeds 100              a hundred seeds in one report
  windtunnel check --verbose                list every scenario, and what was not judged
  windtunnel check --umd my-umd.so          fly a user-mode driver (docs/user-mode-drivers.md)
  windtunnel check DRIVER --write-baseline known.toml, then --allow known.toml
  windtunnel check capture --frames DIR     fly a streaming minidriver and save its frames
  windtunnel explain KMD-DESTROY-002        what a rule requires, what breaks it, what keeps it
  windtunnel explain 0xC000000D             which calls return a status, which rules name it
  windtunnel explain pfnDeallocateCb        what an entry point does, which rules apply to it
  windtunnel explain 0x119/2                which rules lead to a bug check
  windtunnel list drivers                   drivers, good and bad
  windtunnel cc DRIVER.vcxproj              build a driver from its sources (docs/first-miniport.md)
  windtunnel support                        what is implemented and what is missing
  windtunnel serve                          a kernel for D3DKMT clients (docs/run-your-client.md)

Exit status: 0 no errors, 1 errors or objects left alive (--deny warnings: also warnings), 2 could
not run or no scenario was flown, 130 or 143 stopped by SIGINT (Ctrl-C) or SIGTERM
(docs/reports.md).";

/// A wind tunnel for Windows display drivers: flies a miniport through its life under a
/// user-mode WDDM graphics kernel, and reports what went wrong, which component is at fault,
/// which rule it broke, and what Windows would have done.
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fly a driver through scenarios and report every broken rule
    Check(check::Arguments),
    /// Build a driver from C and C++ sources or a project (.vcxproj), with clang and lld
    Cc(cc::Arguments),
    /// List drivers, scenarios or rules
    List {
        /// What to list
        what: list::ListKind,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the support tables: entry points, DDIs, callbacks, imports, and the functions and
    /// callbacks of user-mode drivers
    Support {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Serve a kernel to D3DKMT clients in other processes, until SIGTERM or Ctrl-C; then write
    /// the report
    Serve(serve::Arguments),
    /// Fly one flight of a driver from a file, for a parent process
    #[command(hide = true)]
    Flight(flight::Arguments),
    /// Read a symbol file, for a parent process
    #[command(hide = true)]
    Symbols(symbols::Arguments),
    /// Fly random bad drivers from one process, for the long tests
    #[command(hide = true)]
    Soak(soak::Arguments),
    /// Explain a rule, an entry point, a status, a result, a bug check, a driver or a scenario:
    /// what it means, which calls return it, which rules lead to it, which command shows it
    Explain {
        /// A rule (KMD-DESTROY-002) or a family of rules (KMD-DESTROY), an entry point, DDI or
        /// callback (pfnDeallocateCb), a status or result by number or name
        /// (0xC000000D, 0x80070057), a bug check (0x119, 0x119/2, 'bugcheck 0x119 (0x2)'),
        /// 'code 43', a driver, a scenario, a decision (D-53) or a failure (F-028)
        #[arg(required = true, num_args = 1.., allow_negative_numbers = true)]
        what: Vec<String>,
        /// List everything, not only a screenful
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Findings that fail the check besides errors.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Deny {
    /// Warnings count too
    Warnings,
}

/// Why the command could not run: an unknown name, with the nearest known ones, or a failure.
struct CommandError(String);

pub(crate) fn run() -> ExitCode {
    let command = parse_arguments().command;
    nt::image::read_symbols_apart();
    if matches!(command, Command::Check(_) | Command::Soak(_)) {
        nt::image::return_large_blocks();
    }
    let (json, answer) = match command {
        Command::Check(arguments) => (arguments.json, check::run(&arguments)),
        Command::Cc(arguments) => (false, cc::run(&arguments)),
        Command::List { what, json } => (json, Ok(list::run(what, json))),
        Command::Support { json } => (json, Ok(support::run(json))),
        Command::Serve(arguments) => (false, serve::run(&arguments)),
        Command::Flight(arguments) => (false, flight::run(&arguments)),
        Command::Symbols(arguments) => (false, symbols::run(&arguments)),
        Command::Soak(arguments) => (false, soak::run(&arguments)),
        Command::Explain { what, all, json } => (json, explain::run(&what.join(" "), all, json)),
    };
    let code = answer.unwrap_or_else(|CommandError(why)| {
        if json {
            json::error(&why);
        } else {
            eprintln!("windtunnel: {why}");
        }
        ExitCode::from(2)
    });
    // Lines are written at once; this is for what is not a line.
    if let Err(why) = io::stdout().flush() {
        end_without_output(&why);
    }
    code
}

/// Writes to standard output. Exits on a closed pipe or a full disk.
fn write_output(text: std::fmt::Arguments<'_>) {
    if let Err(why) = io::stdout().write_fmt(text) {
        end_without_output(&why);
    }
}

/// Ends the program because standard output cannot be written.
fn end_without_output(why: &io::Error) -> ! {
    if why.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(141); // 128 + SIGPIPE.
    }
    eprintln!("windtunnel: standard output cannot be written: {why}");
    std::process::exit(2);
}

/// Writes a line to standard error. If that fails, no one can be told.
fn write_error_line(text: std::fmt::Arguments<'_>) {
    _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The arguments of the command line. Prints help and errors as `Parser::parse` does.
fn parse_arguments() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|answer| {
        if let Err(why) = answer.print().and_then(|()| io::stdout().flush())
            && !answer.use_stderr()
        {
            end_without_output(&why);
        }
        std::process::exit(answer.exit_code());
    })
}

/// The error for an unknown name, with the nearest known ones.
fn unknown_name<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> CommandError {
    let distance =
        |text: &str| strsim::damerau_levenshtein(&text.to_lowercase(), &name.to_lowercase());
    let mut near: Vec<&str> = known.collect();
    near.sort_by_key(|text| (!text.contains(name), distance(text)));
    near.truncate(4);
    CommandError(format!(
        "there is no {kind} '{name}'; the nearest are: {}. See 'windtunnel list {kind}s'",
        near.join(", ")
    ))
}

/// Whether the name of a driver is the path of a file.
fn is_driver_file(name: &str) -> bool {
    let extension = Path::new(name).extension().map(OsStr::to_ascii_lowercase);
    let is_image = extension.is_some_and(|text| text == "so" || text == "sys" || text == "dll");
    is_image || name.contains(['/', '\\'])
}
