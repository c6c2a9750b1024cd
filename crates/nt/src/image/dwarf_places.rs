//! Functions and lines of the debug information in a shared object.

use super::function_table::printable;
use super::symbols::{Place, SymbolError};
use addr2line::gimli::DW_LANG_Rust;
use addr2line::{FunctionName, Loader};
use std::borrow::Cow;
use std::path::Path;

/// The places of addresses, relative to the object's first one. Fails if the file is not an object.
pub(super) fn read(path: &Path, rvas: &[u32]) -> Result<Vec<Option<Place>>, SymbolError> {
    let loader = Loader::new(path)
        .map_err(|why| SymbolError(format!("{} cannot be read: {why}", path.display())))?;
    Ok(rvas.iter().map(|rva| place(&loader, (*rva).into())).collect())
}

/// How many functions that are inlined in one another a place has at most.
const MAX_INLINED: usize = 8;

/// The place of an address in debug information. `None` if it has neither a function nor a line.
fn place(loader: &Loader, address: u64) -> Option<Place> {
    let symbol = loader.find_symbol(address);
    let symbol = symbol.map(|name| addr2line::demangle_auto(name.into(), None));
    let symbol = symbol.map(|name| printable(&name));
    // Inlined functions have a frame each, the innermost first. Those of Rust's libraries do not
    // count, and the names of others are shorter than that of the function around them.
    let mut frames = loader.find_frames(address).ok();
    let mut places = Vec::new();
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
        let is_last = function.is_none() || places.len() + 1 == MAX_INLINED;
        let name = function.and_then(|function| function.demangle().ok()).map(Cow::into_owned);
        let function = name.map(|name| printable(&name)).or(symbol.clone());
        let function = function.unwrap_or_else(|| "?".to_owned());
        let file = printable(file.rsplit('/').next().unwrap_or(file));
        places.push(Place::new(function, Some((file, line))));
        if is_last {
            break;
        }
    }
    let inlined = places
        .into_iter()
        .rev()
        .reduce(|outer, inner| Place { inlined_in: Some(Box::new(outer)), ..inner });
    inlined.or_else(|| symbol.map(|function| Place::new(function, None)))
}
