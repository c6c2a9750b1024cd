//! `windtunnel cc`: builds a driver from sources.

use super::CommandError;
use cc::{Form, Kit, Project, Sources};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
#[command(after_help = "\
Examples:
  windtunnel cc DRIVER.vcxproj                        build an MSBuild project as DRIVER.sys
  windtunnel cc --target so -o my.so -- my.c          a shared object of one source
  windtunnel cc -o my.sys -DDBG=1 -I inc -- a.c b.cpp  an image with my.pdb

It needs clang, lld and llvm (docs/first-miniport.md).")]
pub(crate) struct Arguments {
    /// What to build: an image for Windows with a PDB, or a shared object
    #[arg(long, value_enum, value_name = "FORM", default_value = "sys")]
    target: Target,
    /// The driver's file [default: the name of the project or the first source, in this folder]
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A project (.vcxproj), whose configuration Release|x64 is built, or arguments
    /// of clang
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    for_clang: Vec<OsString>,
    /// C and C++ sources
    #[arg(last = true, value_name = "SOURCES")]
    sources: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// An image for Windows (.sys) and its symbols (.pdb)
    Sys,
    /// A shared object (.so)
    So,
}

/// The arguments for clang, without what is for this command: the parser leaves everything from
/// the first argument for clang on.
fn split(arguments: &Arguments) -> Arguments {
    let mut parts = Arguments {
        target: arguments.target,
        output: arguments.output.clone(),
        for_clang: Vec::new(),
        sources: arguments.sources.clone(),
    };
    let mut rest = arguments.for_clang.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            parts.sources.extend(rest.by_ref().map(PathBuf::from));
        } else if argument == "-o" {
            parts.output = rest.next().map(PathBuf::from);
        } else if argument == "--target" {
            let value = rest.next();
            parts.target =
                if value.is_some_and(|it| it == "so") { Target::So } else { Target::Sys };
        } else {
            parts.for_clang.push(argument.clone());
        }
    }
    parts
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let arguments = &split(arguments);
    let missing = cc::missing_packages();
    if !missing.is_empty() {
        let packages = missing.join(" ");
        return Err(CommandError(format!(
            "'windtunnel cc' needs {packages}: apt-get install {packages}"
        )));
    }
    let form = match arguments.target {
        Target::Sys => Form::Image,
        Target::So => Form::SharedObject,
    };
    let is_project = |path: &OsString| {
        Path::new(path).extension().is_some_and(|found| found.eq_ignore_ascii_case("vcxproj"))
    };
    let (projects, more): (Vec<OsString>, Vec<OsString>) =
        arguments.for_clang.iter().cloned().partition(is_project);
    let (mut sources, name) = match projects.as_slice() {
        [] if arguments.sources.is_empty() => {
            return Err(CommandError(
                "nothing to build: name a .vcxproj, or sources behind --".to_owned(),
            ));
        }
        [] => of_files(arguments),
        [path] => {
            let project = Project::read(Path::new(path)).map_err(CommandError)?;
            for skipped in &project.skipped {
                eprintln!("windtunnel: not built: {skipped}");
            }
            (Sources::of(&project), project.name)
        }
        _ => return Err(CommandError("one project at a time".to_owned())),
    };
    sources.arguments.extend(more);
    if !projects.is_empty() {
        sources.files.extend(arguments.sources.iter().cloned());
    }
    let out = arguments.output.clone();
    let out = out.unwrap_or_else(|| PathBuf::from(format!("{name}.{}", form.extension())));
    let command = std::env::current_exe().map_err(|why| CommandError(why.to_string()))?;
    let kit = Kit::find(&command).map_err(CommandError)?;
    match cc::build(&kit, &sources, &out, form) {
        Ok(built) => {
            eprint(&built.warnings);
            println!("{}", built.driver.display());
            Ok(ExitCode::SUCCESS)
        }
        Err(messages) => {
            eprint(&messages);
            Err(CommandError(format!("{} was not built", out.display())))
        }
    }
}

/// Sources without a project. Their folders are searched for macros of the trace preprocessor.
fn of_files(arguments: &Arguments) -> (Sources, String) {
    let folder = |file: &PathBuf| file.parent().map(Path::to_owned);
    let name = arguments.sources.first().and_then(|file| file.file_stem());
    let name = name.unwrap_or_default().to_string_lossy().into_owned();
    let sources = Sources {
        files: arguments.sources.clone(),
        arguments: Vec::new(),
        folders: Vec::new(),
        standard: None,
        scanned: arguments.sources.iter().filter_map(folder).collect(),
    };
    (sources, name)
}

/// Prints messages of the compiler.
fn eprint(text: &str) {
    if !text.is_empty() {
        eprintln!("{}", text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_and_the_sources_may_follow_arguments_for_clang() {
        let words = ["-DDBG=1", "-I", "inc", "--target", "so", "-o", "my.so", "--", "a.c", "b.cpp"];
        let arguments = Arguments {
            target: Target::Sys,
            output: None,
            for_clang: words.map(OsString::from).into(),
            sources: Vec::new(),
        };
        let parts = split(&arguments);
        assert_eq!(parts.for_clang, ["-DDBG=1", "-I", "inc"].map(OsString::from));
        assert_eq!(parts.output, Some(PathBuf::from("my.so")));
        assert!(matches!(parts.target, Target::So));
        assert_eq!(parts.sources, ["a.c", "b.cpp"].map(PathBuf::from));
    }
}
