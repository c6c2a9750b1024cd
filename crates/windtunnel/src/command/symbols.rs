//! `windtunnel symbols`: reads a symbol file in a process with limits, as the child of a command
//! that needs functions and lines.

use super::CommandError;
use clap::{Args, ValueEnum};
use nt::image::{SymbolQuestion, answer_symbol_question};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The file
    path: PathBuf,
    /// Its format
    format: SymbolFormat,
    /// The signature of a PDB, or addresses in a shared object, in hexadecimal digits
    words: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum SymbolFormat {
    Pdb,
    Dwarf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let question = match arguments.format {
        SymbolFormat::Pdb => SymbolQuestion::Pdb(arguments.words.concat()),
        SymbolFormat::Dwarf => {
            let number = |word: &String| u32::from_str_radix(word, 16);
            let numbers: Result<Vec<u32>, _> = arguments.words.iter().map(number).collect();
            SymbolQuestion::Dwarf(numbers.map_err(|why| CommandError(why.to_string()))?)
        }
    };
    print!("{}", answer_symbol_question(&arguments.path, &question));
    Ok(ExitCode::SUCCESS)
}
