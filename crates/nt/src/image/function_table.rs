//! The functions and lines of a PDB.
//!
//! A view of a damaged file never has more bytes than the file, so that a stream whose size is
//! damaged is refused before memory is allocated for it.

use super::symbols::{Place, SymbolError};
use pdb2::{FallibleIterator as _, PDB, Source, SourceSlice, SourceView, SymbolData};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;

/// The functions of a PDB, by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FunctionTable {
    functions: Vec<Function>,
    /// The names of the source files.
    files: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    rva: u32,
    bytes: u32,
    name: String,
    /// Its lines, by address.
    lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    rva: u32,
    number: u32,
    /// The index of the file.
    file: usize,
}

/// A PDB whose views are not larger than the file.
#[derive(Debug)]
struct BoundedFile {
    file: File,
    bytes: u64,
}

impl<'s> Source<'s> for BoundedFile {
    fn view(
        &mut self,
        slices: &[SourceSlice],
    ) -> Result<Box<dyn SourceView<'s> + Send + Sync>, io::Error> {
        let bytes = slices.iter().fold(0_u64, |sum, slice| sum.saturating_add(slice.size as u64));
        if bytes > self.bytes {
            let why = format!("it has a stream of {bytes} bytes, and {} itself", self.bytes);
            return Err(io::Error::other(why));
        }
        self.file.view(slices)
    }
}

impl FunctionTable {
    /// Reads a PDB. Fails if it is not that of the build with this signature.
    pub(super) fn read(path: &Path, guid: [u8; 16]) -> Result<Self, SymbolError> {
        let at = path.display();
        let error = |why: pdb2::Error| SymbolError(format!("{at} cannot be read: {why}"));
        let file = File::open(path).map_err(|why| error(why.into()))?;
        let bytes = file.metadata().map_err(|why| error(why.into()))?.len();
        let mut pdb = PDB::open(BoundedFile { file, bytes }).map_err(error)?;
        let information = pdb.pdb_information().map_err(error)?;
        if information.guid.to_bytes_le() != guid {
            return Err(SymbolError(format!("{at} belongs to another build of the image")));
        }
        read_functions(&mut pdb).map_err(error)
    }

    /// The place of an address.
    pub(super) fn place(&self, rva: u32) -> Option<Place> {
        let after = self.functions.partition_point(|function| function.rva <= rva);
        let function = self.functions.get(after.checked_sub(1)?)?;
        if rva - function.rva >= function.bytes {
            return None;
        }
        let after = function.lines.partition_point(|line| line.rva <= rva);
        let line = after.checked_sub(1).map(|index| function.lines[index]);
        let line = line.and_then(|line| Some((self.files.get(line.file)?.clone(), line.number)));
        Some(Place::new(function.name.clone(), line))
    }

    /// The table as lines of text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            _ = writeln!(text, "s {file}"); // To a String, as below.
        }
        for function in &self.functions {
            _ = writeln!(text, "f {:x} {:x} {}", function.rva, function.bytes, function.name);
            for line in &function.lines {
                _ = writeln!(text, "l {:x} {:x} {:x}", line.rva, line.number, line.file);
            }
        }
        text
    }

    /// Reads what [`Self::text`] has written. `None` if it is something else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let mut table = Self::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ')?;
            let mut words = rest.splitn(3, ' ');
            match kind {
                "s" => table.files.push(rest.to_owned()),
                "f" => {
                    let (rva, bytes) = (number(words.next()?)?, number(words.next()?)?);
                    let name = words.next()?.to_owned();
                    table.functions.push(Function { rva, bytes, name, lines: Vec::new() });
                }
                "l" => {
                    let (rva, line) = (number(words.next()?)?, number(words.next()?)?);
                    let file = number(words.next()?)? as usize;
                    let lines = &mut table.functions.last_mut()?.lines;
                    lines.push(Line { rva, number: line, file });
                }
                _ => return None,
            }
        }
        Some(table)
    }
}

/// A name of the file as text that can be printed.
pub(super) fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

fn read_functions(pdb: &mut PDB<'_, BoundedFile>) -> Result<FunctionTable, pdb2::Error> {
    let map = pdb.address_map()?;
    let strings = pdb.string_table()?;
    let debug = pdb.debug_information()?;
    let mut modules = debug.modules()?;
    let mut table = FunctionTable::default();
    let mut indices: HashMap<String, usize> = HashMap::new();
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
                let name = printable(path.rsplit(['/', '\\']).next().unwrap_or_default());
                let file = *indices.entry(name).or_insert_with_key(|name| {
                    table.files.push(name.clone());
                    table.files.len() - 1
                });
                lines.push(Line { rva: at.0, number: line.line_start, file });
            }
            lines.sort_by_key(|line| line.rva);
            let name = printable(&procedure.name.to_string());
            table.functions.push(Function { rva: rva.0, bytes: procedure.len, name, lines });
        }
    }
    table.functions.sort_by_key(|function| function.rva);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let line = |rva, number, file| Line { rva, number, file };
        let function =
            |rva, name: &str, lines| Function { rva, bytes: 16, name: name.into(), lines };
        let table = FunctionTable {
            functions: vec![
                function(0x1000, "first", vec![line(0x1000, 7, 0), line(0x1008, 12, 1)]),
                function(0x2000, "operator new[]", Vec::new()),
                function(0x3000, "", Vec::new()),
            ],
            files: vec!["a file.c".to_owned(), "b.h".to_owned()],
        };
        assert_eq!(FunctionTable::parse(&table.text()).as_ref(), Some(&table));
        let place = table.place(0x1009).unwrap();
        assert_eq!(place.to_string(), "first (b.h:12)");
        assert_eq!(table.place(0x1010), None);
        for damaged in ["l 0 0 0\n", "f 1000 10\n", "f 1000 zz name\n", "x y\n", "\n"] {
            assert_eq!(FunctionTable::parse(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_stream_that_is_larger_than_the_file_is_refused() {
        let file = File::open("/proc/self/exe").unwrap();
        let bytes = file.metadata().unwrap().len();
        let mut file = BoundedFile { file, bytes };
        let slice = |size| SourceSlice { offset: 0, size };
        assert_eq!(file.view(&[slice(16), slice(16)]).unwrap().as_slice().len(), 32);
        let large = usize::try_from(bytes).unwrap() - 8;
        let why = file.view(&[slice(large), slice(16)]).unwrap_err().to_string();
        assert!(why.starts_with(&format!("it has a stream of {} bytes", bytes + 8)), "{why}");
        assert!(file.view(&[slice(usize::MAX), slice(usize::MAX)]).is_err());
    }

    #[test]
    fn names_with_control_characters_are_one_line() {
        assert_eq!(printable("a\nb\x1b[2J"), "a\u{fffd}b\u{fffd}[2J");
    }
}
