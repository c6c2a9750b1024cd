//! The symbols of a driver: functions and lines, from the PDB of an image or the DWARF of a shared
//! object.
//!
//! The files are foreign input. The `windtunnel` command reads them in a process with limits
//! ([`super::symbol_reader`]); a program that is not that command reads them in its own process,
//! and a panic of a reader is an error there.

use super::function_table::FunctionTable;
use super::parse::Image;
use super::{dwarf_places, symbol_reader};
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The symbols of a driver.
#[derive(Debug)]
pub struct Symbols {
    path: PathBuf,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The functions of a PDB.
    Pdb(FunctionTable),
    /// The debug information in a shared object: read when it is needed, each place once.
    Dwarf(Mutex<HashMap<u32, Option<Place>>>),
}

/// A place in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function.
    pub function: String,
    /// The file and the line.
    pub line: Option<(String, u32)>,
    /// The place that the function is inlined in, if it is.
    pub inlined_in: Option<Box<Place>>,
}

impl Place {
    /// A place in a function that is not inlined.
    pub fn new(function: String, line: Option<(String, u32)>) -> Self {
        Self { function, line, inlined_in: None }
    }

    /// The place, and the places that it is inlined in, the innermost first.
    pub fn with_outer(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |place| place.inlined_in.as_deref())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.function)?;
        match &self.line {
            Some((file, line)) => write!(f, " ({file}:{line})"),
            None => Ok(()),
        }
    }
}

/// Why there are no symbols, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolError(pub String);

impl Symbols {
    /// Finds the symbols of an image: the file that the image names, beside the image or where it
    /// was linked.
    pub fn find(image_path: &Path, image: &Image) -> Result<Self, SymbolError> {
        let Some(reference) = &image.pdb else {
            return Err(SymbolError("the image names no symbol file (link with /DEBUG)".into()));
        };
        let name = reference.path.rsplit(['/', '\\']).next().unwrap_or_default();
        let beside = image_path.with_file_name(name);
        let own_name = image_path.with_extension("pdb");
        let candidates = [beside, own_name, PathBuf::from(&reference.path)];
        let mut why = SymbolError(format!("{name} is not beside the image"));
        for path in candidates.iter().filter(|path| path.is_file()) {
            match Self::of_pdb(path, reference.guid) {
                Ok(symbols) => return Ok(symbols),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The symbols in a PDB, which has this signature.
    pub fn of_pdb(path: &Path, guid: [u8; 16]) -> Result<Self, SymbolError> {
        let functions = if symbol_reader::is_apart() {
            symbol_reader::functions(path, guid)
        } else {
            guarded(path, || FunctionTable::read(path, guid))
        };
        Ok(Self { path: path.to_owned(), source: Source::Pdb(functions?) })
    }

    /// The symbols of a shared object, which are in it. Fails if they cannot be read at `probe`, an
    /// address relative to its first one.
    pub fn of_shared_object(path: &Path, probe: u32) -> Result<Self, SymbolError> {
        let place = dwarf(path, &[probe])?.pop().flatten();
        let known = Mutex::new(HashMap::from([(probe, place)]));
        Ok(Self { path: path.to_owned(), source: Source::Dwarf(known) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The places of addresses, relative to the driver's first one.
    pub fn places(&self, rvas: &[u32]) -> Vec<Option<Place>> {
        match &self.source {
            Source::Pdb(functions) => rvas.iter().map(|rva| functions.place(*rva)).collect(),
            Source::Dwarf(known) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let new = rvas.iter().filter(|rva| !known.contains_key(rva));
                let new: Vec<u32> = new.copied().collect();
                if !new.is_empty() {
                    let places = places_in_shared_object(&self.path, &new);
                    known.extend(new.into_iter().zip(places));
                }
                rvas.iter().map(|rva| known.get(rva).cloned().flatten()).collect()
            }
        }
    }
}

/// The places of addresses in a shared object, relative to its first one. All are `None` if its
/// debug information cannot be read.
pub fn places_in_shared_object(path: &Path, rvas: &[u32]) -> Vec<Option<Place>> {
    dwarf(path, rvas).unwrap_or_else(|_| vec![None; rvas.len()])
}

fn dwarf(path: &Path, rvas: &[u32]) -> Result<Vec<Option<Place>>, SymbolError> {
    if symbol_reader::is_apart() {
        symbol_reader::places(path, rvas)
    } else {
        guarded(path, || dwarf_places::read(path, rvas))
    }
}

/// Runs a reader of a file. A panic of it is an error.
pub(super) fn guarded<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, SymbolError>,
) -> Result<T, SymbolError> {
    // What the reader has made of the file is dropped.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged(path)))
}

/// The error of a file whose reader ended.
pub(super) fn damaged(path: &Path) -> SymbolError {
    SymbolError(format!("{} cannot be read: it is damaged", path.display()))
}
