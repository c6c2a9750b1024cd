//! Symbol files are read in a process of their own, with limits: their readers panic, recurse
//! without a limit and allocate what a damaged file says.
//!
//! The process is this program again, which has a command for it (`windtunnel symbols`). It limits
//! itself, reads, and writes what it found to standard output as lines; the last one is [`END`].
//! A process that ends before that line is an error about the file.

use super::function_table::FunctionTable;
use super::symbols::{Place, SymbolError, damaged, guarded};
use super::{dwarf_places, limits};
use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory that reading a symbol file may take, beyond the size of the file.
const MEMORY: u64 = 1 << 30;

/// The processor time that it may take, in seconds.
const SECONDS: u32 = 30;

/// The longest answer.
const ANSWER: u64 = 64 << 20;

/// The last line of an answer.
const END: &str = "end\n";

/// The first word of an answer that says why there is none.
const ERROR: &str = "error ";

/// How many addresses are in one question.
const QUESTION: usize = 1000;

/// Whether this program has the command.
static IS_APART: AtomicBool = AtomicBool::new(false);

/// This program has the command `symbols`: symbol files are read in a process of their own.
pub fn read_symbols_apart() {
    IS_APART.store(true, Ordering::Relaxed);
}

/// Whether symbol files are read in a process of their own.
pub(super) fn is_apart() -> bool {
    IS_APART.load(Ordering::Relaxed)
}

/// What the process of a reader reads.
#[derive(Clone, Debug)]
pub enum SymbolQuestion {
    /// The functions and lines of a PDB with this signature, in hexadecimal digits.
    Pdb(String),
    /// The places of these addresses in a shared object.
    Dwarf(Vec<u32>),
}

/// Answers a question, in the process that a parent has started for it. Returns the answer.
pub fn answer_symbol_question(path: &Path, question: &SymbolQuestion) -> String {
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    limits::limit_symbol_reader(MEMORY.saturating_add(bytes), SECONDS);
    let found = guarded(path, || match question {
        SymbolQuestion::Pdb(guid) => {
            let guid = parse_guid(guid).ok_or_else(|| SymbolError("no signature".into()))?;
            FunctionTable::read(path, guid).map(|table| table.text())
        }
        SymbolQuestion::Dwarf(rvas) => {
            dwarf_places::read(path, rvas).map(|places| places_text(&places))
        }
    });
    let text = match found {
        Ok(text) => text,
        // Its text has what a file says: one line, whatever that is.
        Err(SymbolError(why)) => format!("{ERROR}{}\n", super::function_table::printable(&why)),
    };
    text + END
}

/// The functions and lines of a PDB.
pub(super) fn functions(path: &Path, guid: [u8; 16]) -> Result<FunctionTable, SymbolError> {
    let digits = guid.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let text = ask(path, &["pdb", &digits])?;
    FunctionTable::parse(&text).ok_or_else(|| damaged(path))
}

/// The places of addresses in a shared object.
pub(super) fn places(path: &Path, rvas: &[u32]) -> Result<Vec<Option<Place>>, SymbolError> {
    let mut places = Vec::new();
    for rvas in rvas.chunks(QUESTION) {
        let words: Vec<String> = rvas.iter().map(|rva| format!("{rva:x}")).collect();
        let words = ["dwarf"].into_iter().chain(words.iter().map(String::as_str));
        let text = ask(path, &words.collect::<Vec<&str>>())?;
        let answered = parse_places(&text).filter(|answered| answered.len() == rvas.len());
        places.extend(answered.ok_or_else(|| damaged(path))?);
    }
    Ok(places)
}

/// Starts a reader and takes its answer, without the last line.
fn ask(path: &Path, words: &[&str]) -> Result<String, SymbolError> {
    let error = |why: &str| SymbolError(format!("{} cannot be read: {why}", path.display()));
    // This program, also if its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg("symbols").arg("--").arg(path).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|why| error(&why.to_string()))?;
    let answer = take_answer(&mut child);
    // A reader whose answer was not taken to its end cannot write the rest.
    let status = child.wait().map_err(|why| error(&why.to_string()))?;
    let text = answer.map_err(|why| error(&why.to_string()))?;
    if text.len() as u64 > ANSWER {
        return Err(error("it has more symbols than fit into the limit"));
    }
    let text = String::from_utf8(text).map_err(|_| damaged(path))?;
    let Some(text) = text.strip_suffix(END) else { return Err(error(&reason_of(status))) };
    match text.strip_prefix(ERROR) {
        Some(why) => Err(SymbolError(why.trim_end().to_owned())),
        None => Ok(text.to_owned()),
    }
}

fn take_answer(child: &mut Child) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER + 1).read_to_end(&mut answer)?;
    }
    Ok(answer)
}

/// Why a reader gave no answer.
fn reason_of(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGXCPU | libc::SIGALRM | libc::SIGKILL), _) => {
            format!("reading it takes more than {SECONDS} s")
        }
        // By the program's allocator.
        (None, Some(2)) => format!("reading it takes more than {} MiB of memory", MEMORY >> 20),
        // By Rust's library: its stack has overflowed, or there was no memory for a large block.
        (Some(libc::SIGABRT), _) => {
            format!("it is damaged, or reading it takes more than {} MiB of memory", MEMORY >> 20)
        }
        _ => "it is damaged".to_owned(),
    }
}

fn parse_guid(digits: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

fn places_text(places: &[Option<Place>]) -> String {
    let mut text = String::new();
    for place in places {
        let Some(place) = place else {
            text.push_str("-\n");
            continue;
        };
        for (number, Place { function, line, .. }) in place.with_outer().enumerate() {
            // To a String, as below.
            _ = writeln!(text, "{} {function}", if number == 0 { "f" } else { "i" });
            if let Some((file, line)) = line {
                _ = writeln!(text, "l {line} {file}");
            }
        }
    }
    text
}

fn parse_places(text: &str) -> Option<Vec<Option<Place>>> {
    let mut places: Vec<Option<Place>> = Vec::new();
    for line in text.lines() {
        let last = places.last_mut().and_then(Option::as_mut).map(outermost);
        match line.split_once(' ') {
            Some(("f", function)) => places.push(Some(Place::new(function.to_owned(), None))),
            Some(("i", function)) => {
                last?.inlined_in = Some(Box::new(Place::new(function.to_owned(), None)));
            }
            Some(("l", rest)) => {
                let (number, file) = rest.split_once(' ')?;
                last?.line = Some((file.to_owned(), number.parse().ok()?));
            }
            None if line == "-" => places.push(None),
            _ => return None,
        }
    }
    Some(places)
}

/// The outermost of the places that a place is inlined in.
fn outermost(place: &mut Place) -> &mut Place {
    match place.inlined_in {
        Some(ref mut outer) => outermost(outer),
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_were_written() {
        let place = |function: &str, line| Some(Place::new(function.to_owned(), line));
        let outer = place("g", Some(("a.c".to_owned(), 3)));
        let inlined = Place { inlined_in: outer.map(Box::new), ..place("h", None).unwrap() };
        let places = [
            Some(Place { inlined_in: Some(Box::new(inlined)), ..place("i", None).unwrap() }),
            place("operator new(unsigned long)", Some(("my file.c".to_owned(), 12))),
            None,
            place("f", None),
        ];
        assert_eq!(parse_places(&places_text(&places)).as_deref(), Some(&places[..]));
        for damaged in ["l 1 file.c\n", "-\nl 1 file.c\n", "f a\nl x file.c\n", "i a\n", "+\n"] {
            assert_eq!(parse_places(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_signature_is_read_as_it_was_written() {
        let guid: [u8; 16] = std::array::from_fn(|index| 0xf0 + u8::try_from(index).unwrap());
        let digits = guid.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        assert_eq!(parse_guid(&digits), Some(guid));
    }

    #[test]
    fn a_reader_without_an_answer_has_a_reason() {
        let of_signal = |signal| reason_of(ExitStatus::from_raw(signal));
        assert_eq!(of_signal(libc::SIGXCPU), "reading it takes more than 30 s");
        assert_eq!(of_signal(libc::SIGSEGV), "it is damaged");
        let of_code = |code: i32| reason_of(ExitStatus::from_raw(code << 8));
        assert_eq!(of_code(2), "reading it takes more than 1024 MiB of memory");
        assert_eq!(of_code(101), "it is damaged");
    }
}
