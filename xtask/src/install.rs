//! Installs the command and the C library.

use crate::{cargo, root, run as done, target};
use std::fs;
use std::path::{Path, PathBuf};

const COMMAND: &str = "windtunnel";
const LIBRARY: &str = "libwindtunnel_d3dkmt.so";
const HEADERS: [(&str, &str); 3] =
    [("d3dkmt", "d3dkmt.h"), ("runtime", "d3dumddi.h"), ("d3dkmt", "softgpu.h")];

/// The folders of files that are copied whole: from the sources, and below the prefix. The headers
/// of kernel-mode drivers have the names that their authors include; `windtunnel cc` links the
/// others into drivers.
const FOLDERS: [(&str, &str); 3] = [
    ("crates/abi/include/km", "include/windtunnel/km"),
    ("drivers/c/displib", "share/windtunnel/runtime/displib"),
    ("drivers/c/crt", "share/windtunnel/runtime/crt"),
];

/// `--prefix DIR`: installs the command, the library, its headers and a pkg-config file.
pub(crate) fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let prefix = match arguments.as_slice() {
        [flag, prefix] if flag == "--prefix" => PathBuf::from(prefix),
        _ => return Err("cargo xtask install --prefix DIR".to_owned()),
    };
    into(&prefix)
}

/// Builds the command and the library, and installs everything below `prefix`.
pub(crate) fn into(prefix: &Path) -> Result<(), String> {
    // `--lib` as in the other release builds: without it cargo builds every dependency again,
    // in the form for programs only.
    let packages = ["--package", "windtunnel", "--package", "windtunnel-library"];
    done(cargo(&["build", "--release", "--lib", "--bin", COMMAND]).args(packages))?;
    let built = target().join("release");
    let folder = |name: &str| {
        let path = prefix.join(name);
        fs::create_dir_all(&path).map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok::<_, String>(path)
    };
    copy(&built.join(COMMAND), &folder("bin")?.join(COMMAND))?;
    copy(&built.join(LIBRARY), &folder("lib")?.join(LIBRARY))?;
    let include = folder("include/windtunnel")?;
    let source = root().join("crates/d3dkmt");
    for (of, header) in HEADERS {
        let from = root().join("crates").join(of).join("include/windtunnel");
        copy(&from.join(header), &include.join(header))?;
    }
    for (from, to) in FOLDERS {
        let (from, to) = (root().join(from), folder(to)?);
        let entries = fs::read_dir(&from).map_err(|why| format!("{}: {why}", from.display()))?;
        for entry in entries.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    let template = source.join("windtunnel-d3dkmt.pc.in");
    let text = fs::read_to_string(&template)
        .map_err(|reason| format!("{}: {reason}", template.display()))?;
    let whole =
        fs::canonicalize(prefix).map_err(|reason| format!("{}: {reason}", prefix.display()))?;
    let text = text
        .replace("@prefix@", &whole.display().to_string())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    let to = folder("lib/pkgconfig")?.join("windtunnel-d3dkmt.pc");
    fs::write(&to, text).map_err(|reason| format!("{}: {reason}", to.display()))?;
    println!("wrote {}", to.display());
    Ok(())
}

/// Copies a file. One that is there is removed before, because a running program cannot be written.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let _ = fs::remove_file(to); // There may be none.
    fs::copy(from, to)
        .map_err(|reason| format!("{} to {}: {reason}", from.display(), to.display()))?;
    println!("wrote {}", to.display());
    Ok(())
}
