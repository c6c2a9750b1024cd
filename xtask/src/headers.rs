//! Generates the C headers from `abi` and `thunk`: one for the library, one for user-mode drivers,
//! which includes the other, and those of kernel-mode drivers.
//!
//! `abi` uses a few macros (`flags!`, `values!`, `layout!`, `table!`, `statuses!`, `results!`), so
//! its source is read as text. A member that stands for a union says so in its doc comment,
//! "A union with `name`: see", followed by a link to a method of the struct that returns the other
//! member's type.

mod emit;
mod facts;
mod km;
mod read;

use crate::root;
use std::path::PathBuf;

/// Rewrites the headers that change: what is built from the others stays up to date.
pub(crate) fn run() -> Result<(), String> {
    for (path, text) in generate()? {
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        std::fs::create_dir_all(path.parent().unwrap_or(&path))
            .map_err(|reason| format!("{}: {reason}", path.display()))?;
        std::fs::write(&path, text).map_err(|reason| format!("{}: {reason}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Each header with its path.
fn generate() -> Result<Vec<(PathBuf, String)>, String> {
    let all = |names: &[&str]| names.iter().map(|text| source(text)).collect::<Result<Vec<_>, _>>();
    let (types, statuses, results) = (source("types")?, source("status")?, source("hresult")?);
    let entries = read::entries()?;
    let files = all(&[
        "ukm",
        "ukm/memory",
        "ukm/sync",
        "kmt",
        "kmt/memory",
        "kmt/sync",
        "kmt/keyed",
        "kmt/nt_share",
        "kmt/adapter",
        "kmt/adapter_info",
        "kmt/device",
        "kmt/vidpn",
        "kmt/statistics",
    ])?;
    let library = emit::library(&types, &files, &statuses, &entries);
    let names = ["umd", "umd/resource", "umd/adapter", "umd/lock", "umd/callback", "umd/sync"];
    let mut files = all(&names)?;
    files.push(source("umd/tables")?);
    let driver = emit::driver(&types, &files, &results, &library);
    let path = |of: &str, name: &str| root().join(of).join("include/windtunnel").join(name);
    let mut all = vec![
        (path("crates/d3dkmt", "d3dkmt.h"), library),
        (path("crates/runtime", "d3dumddi.h"), driver),
    ];
    all.extend(km::generate()?);
    Ok(all)
}

/// The definitions of a file of `abi`.
fn source(name: &str) -> Result<read::File, String> {
    read::file(&root().join(format!("crates/abi/src/{name}.rs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_what_the_definitions_say() {
        for (path, text) in generate().unwrap() {
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(there == text, "'cargo xtask headers' rewrites {}", path.display());
        }
    }
}
