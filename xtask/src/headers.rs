//! The C header of the library, made from the definitions of `abi` and `thunk`.
//!
//! `abi` is written with a few macros of its own, so its source is read as text: what a macro
//! says (`flags!`, `values!`, `layout!`, `statuses!`) is what the header says. A member that
//! stands for a union says so in its doc comment, "A union with `name`: see", and then links a
//! method of the struct, which has the other member's type.

mod emit;
mod read;

use crate::root;
use std::path::PathBuf;

/// Rewrites the header.
pub(crate) fn run() -> Result<(), String> {
    let (path, text) = (path(), generate()?);
    std::fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

fn path() -> PathBuf {
    root().join("crates/d3dkmt/include/windtunnel/d3dkmt.h")
}

fn generate() -> Result<String, String> {
    let source = |name: &str| read::file(&root().join(format!("crates/abi/src/{name}.rs")));
    let (types, shared) = (source("types")?, source("ukm")?);
    let (shared_memory, memory) = (source("ukm/memory")?, source("kmt/memory")?);
    let (calls, keyed, statuses) = (source("kmt")?, source("kmt/keyed")?, source("status")?);
    let entries = read::entries(&root().join("crates/thunk/src"))?;
    Ok(emit::header(&types, &[shared, shared_memory, calls, memory, keyed], &statuses, &entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_what_the_definitions_say() {
        let there = std::fs::read_to_string(path()).unwrap_or_default();
        let same = generate().unwrap() == there;
        assert!(same, "'cargo xtask headers' rewrites {}", path().display());
    }
}
