//! Builds kernel-mode drivers from sources with clang and lld, as images for Windows (`.sys` with a
//! `.pdb`) and as shared objects: the flags, the import libraries, and what is linked into a driver.
//!
//! `windtunnel cc` builds an author's sources with it ([`build`]), `cargo xtask drivers` the C
//! drivers of this project.
//!
//! It builds no resources and no assembler sources, and signs nothing.
#![forbid(unsafe_code)]

mod build;
mod dialect;
mod libraries;
mod names;
mod project;
mod trace_macros;

pub use build::{Built, Sources, build};
pub use libraries::{Library, import_libraries};
pub use project::Project;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The two forms of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An image for Windows.
    Image,
    /// A shared object.
    SharedObject,
}

impl Form {
    /// The extension of its file.
    pub fn extension(self) -> &'static str {
        match self {
            Form::Image => "sys",
            Form::SharedObject => "so",
        }
    }
}

/// The programs that are needed, with the Debian package of each.
pub const TOOLS: &[(&str, &str)] =
    &[("clang", "clang"), ("lld-link", "lld"), ("llvm-dlltool", "llvm")];

/// The packages of the tools that do not start.
pub fn missing_packages() -> Vec<&'static str> {
    let there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    TOOLS.iter().filter(|(tool, _)| !there(tool)).map(|(_, package)| *package).collect()
}

/// Where the headers are, and the sources that are linked into drivers.
#[derive(Clone, Debug)]
pub struct Kit {
    /// The folder of `wdm.h`.
    pub headers: PathBuf,
    /// The folder of `displib/displib.c` and `crt`.
    pub runtime: PathBuf,
}

impl Kit {
    /// The kit below the folder that `cargo xtask install` writes, or else in the sources of this
    /// project.
    pub fn find(command: &Path) -> Result<Self, String> {
        let installed = command.parent().and_then(Path::parent).map(|prefix| Self {
            headers: prefix.join("include/windtunnel/km"),
            runtime: prefix.join("share/windtunnel/runtime"),
        });
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = std::fs::canonicalize(root).ok().map(|root| Self {
            headers: root.join("crates/abi/include/km"),
            runtime: root.join("drivers/c"),
        });
        let is_there = |kit: &Self| kit.headers.join("wdm.h").is_file();
        installed.into_iter().chain(sources).find(is_there).ok_or_else(|| {
            format!(
                "the headers of drivers are not beside {}: 'cargo xtask install --prefix DIR' \
                 installs them",
                command.display()
            )
        })
    }
}

/// The flags of every file of an image, in C and in C++.
pub const IMAGE_FLAGS: &[&str] = &[
    "--target=x86_64-pc-windows-msvc",
    "-fms-extensions",
    "-g",
    "-gcodeview",
    "-fasynchronous-unwind-tables",
    "-fstack-protector-strong",
    "-fms-compatibility-version=19.29",
];

/// Compiler flags that make a driver part of the kernel: no header of the host, and no vector
/// registers, which are not saved there.
pub const KERNEL_FLAGS: &[&str] =
    &["-ffreestanding", "-nostdlibinc", "-fno-omit-frame-pointer", "-mno-implicit-float"];

/// The linker's command for an image. `libraries` is the folder of the import libraries.
pub fn link_image(out: &Path, objects: &[PathBuf], libraries: &[PathBuf]) -> Command {
    let mut link = Command::new("lld-link");
    link.args(["/driver", "/subsystem:native", "/entry:GsDriverEntry", "/nodefaultlib"]);
    link.args(["/dynamicbase", "/debug", "/section:INIT,ERD"]);
    link.arg(format!("/out:{}", out.display()));
    link.arg(format!("/pdb:{}", out.with_extension("pdb").display()));
    link.args(objects).args(libraries);
    link
}

/// The linker's command for a shared object: its undefined symbols are its imports, which the host
/// resolves.
pub fn link_shared_object(out: &Path, objects: &[PathBuf]) -> Command {
    let mut link = Command::new("clang");
    link.args(["-shared", "-nostdlib", "-fuse-ld=lld", "-Wl,--build-id"]);
    let name = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    link.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(out).args(objects);
    link
}

/// Runs a command without a word, unless it fails.
pub fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output();
    let output =
        output.map_err(|reason| format!("{}: {reason}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout))
}
