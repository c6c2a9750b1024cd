//! The symbols of a driver: functions and lines, from the PDB of an image or the DWARF of a shared
//! object.

use super::parse::{Image, PdbReference};
use addr2line::gimli::DW_LANG_Rust;
use addr2line::{FunctionName, Loader};
use pdb2::{FallibleIterator as _, PDB, SymbolData};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The symbols of a driver.
#[derive(Debug)]
pub struct Symbols {
    path: PathBuf,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The functions of a PDB, by address.
    Pdb(Vec<FunctionSymbol>),
    /// The debug information in a shared object: read when it is needed.
    Dwarf,
}

#[derive(Debug)]
struct FunctionSymbol {
    rva: u32,
    bytes: u32,
    name: String,
    /// The RVA, the file and the number of each line, by address.
    lines: Vec<(u32, String, u32)>,
}

/// A place in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function.
    pub function: String,
    /// The file and the line.
    pub line: Option<(String, u32)>,
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
            match Self::read(path, reference) {
                Ok(symbols) => return Ok(symbols),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(path: &Path, reference: &PdbReference) -> Result<Self, SymbolError> {
        let at = path.display();
        let error = |why: pdb2::Error| SymbolError(format!("{at} cannot be read: {why}"));
        let file = File::open(path).map_err(|why| error(why.into()))?;
        let mut pdb = PDB::open(file).map_err(error)?;
        let information = pdb.pdb_information().map_err(error)?;
        if information.guid.to_bytes_le() != reference.guid {
            return Err(SymbolError(format!("{at} belongs to another build of the image")));
        }
        let functions = read_functions(&mut pdb).map_err(error)?;
        Ok(Self { path: path.to_owned(), source: Source::Pdb(functions) })
    }

    /// The symbols of a shared object, which are in it.
    pub fn of_shared_object(path: &Path) -> Result<Self, SymbolError> {
        match Loader::new(path) {
            Ok(_) => Ok(Self { path: path.to_owned(), source: Source::Dwarf }),
            Err(why) => Err(SymbolError(why.to_string())),
        }
    }

    /// The place of an address, relative to the driver's first one.
    pub fn place(&self, rva: u32) -> Option<Place> {
        self.places(&[rva]).pop().flatten()
    }

    /// The places of addresses, relative to the driver's first one.
    pub fn places(&self, rvas: &[u32]) -> Vec<Option<Place>> {
        match &self.source {
            Source::Pdb(functions) => rvas.iter().map(|rva| place_in(functions, *rva)).collect(),
            Source::Dwarf => match Loader::new(&self.path) {
                Ok(loader) => rvas.iter().map(|rva| dwarf_place(&loader, (*rva).into())).collect(),
                Err(_) => vec![None; rvas.len()],
            },
        }
    }
}

/// The place of an address in debug information. `None` if it has neither a function nor a line.
fn dwarf_place(loader: &Loader, address: u64) -> Option<Place> {
    let symbol = loader.find_symbol(address);
    let symbol = symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
    // Inlined functions have a frame each, the innermost first. Those of Rust's libraries do not
    // count, and the names of others are shorter than that of the function around them.
    let mut frames = loader.find_frames(address).ok();
    while let Some(frame) = frames.as_mut().and_then(|frames| frames.next().ok().flatten()) {
        let location = frame.location.as_ref();
        let Some((file, line)) = location.and_then(|place| place.file.zip(place.line)) else {
            continue;
        };
        if file.contains("/rustc/") || file.contains("/rustlib/src/") {
            continue;
        }
        let is_rust = |function: &FunctionName<_>| function.language == Some(DW_LANG_Rust);
        let function = frame.function.as_ref().filter(|function| !is_rust(function));
        let name = function.and_then(|function| function.demangle().ok()).map(Cow::into_owned);
        let function = name.or(symbol).unwrap_or_else(|| "?".to_owned());
        let file = file.rsplit('/').next().unwrap_or(file).to_owned();
        return Some(Place { function, line: Some((file, line)) });
    }
    symbol.map(|function| Place { function, line: None })
}

/// The place of an address in the functions of a PDB.
fn place_in(functions: &[FunctionSymbol], rva: u32) -> Option<Place> {
    let after = functions.partition_point(|function| function.rva <= rva);
    let function = functions.get(after.checked_sub(1)?)?;
    if rva - function.rva >= function.bytes {
        return None;
    }
    let after = function.lines.partition_point(|line| line.0 <= rva);
    let line = after.checked_sub(1).map(|index| &function.lines[index]);
    let line = line.map(|(_, file, number)| (file.clone(), *number));
    Some(Place { function: function.name.clone(), line })
}

fn read_functions(pdb: &mut PDB<'_, File>) -> Result<Vec<FunctionSymbol>, pdb2::Error> {
    let map = pdb.address_map()?;
    let strings = pdb.string_table()?;
    let debug = pdb.debug_information()?;
    let mut modules = debug.modules()?;
    let mut functions = Vec::new();
    while let Some(module) = modules.next()? {
        let Some(info) = pdb.module_info(&module)? else { continue };
        let program = info.line_program()?;
        let mut symbols = info.symbols()?;
        while let Some(symbol) = symbols.next()? {
            let Ok(SymbolData::Procedure(procedure)) = symbol.parse() else { continue };
            let Some(rva) = procedure.offset.to_rva(&map) else { continue };
            let mut lines = Vec::new();
            let mut found = program.lines_for_symbol(procedure.offset);
            while let Some(line) = found.next()? {
                let Some(at) = line.offset.to_rva(&map) else { continue };
                let file = program.get_file_info(line.file_index)?;
                let path = strings.get(file.name)?.to_string().into_owned();
                let name = path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                lines.push((at.0, name, line.line_start));
            }
            lines.sort_by_key(|line| line.0);
            let name = procedure.name.to_string().into_owned();
            functions.push(FunctionSymbol { rva: rva.0, bytes: procedure.len, name, lines });
        }
    }
    functions.sort_by_key(|function| function.rva);
    Ok(functions)
}
