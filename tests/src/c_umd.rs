//! The user-mode driver in C, good or with a flaw, built as a shared object.
#![expect(unsafe_code, reason = "loads a driver that it has built")]

use runtime::Umd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// The flaws of the driver in C; `examples/c/umd/flaws.h` describes them.
pub const FLAWS: [&str; 12] = [
    "releases-before-flush",
    "frees-the-list-only",
    "frees-twice",
    "frees-locked",
    "frees-one-of-group",
    "frees-one-by-one",
    "defers-forever",
    "frees-and-fails",
    "fails-oddly",
    "calls-after-device",
    "wrong-thread",
    "resource-and-list",
];

/// Builds the driver without warnings. Without a flaw it is the good driver.
pub fn c_umd(flaw: Option<&str>) -> PathBuf {
    let name = flaw.unwrap_or("none");
    c_umd_with(flaw, &format!("umd-{name}.so"), &[])
}

/// Builds the driver and loads it.
pub fn load(flaw: Option<&str>) -> Umd {
    // SAFETY: The file was just built: it exports `OpenAdapter` and has no initialisers.
    unsafe { Umd::load(&c_umd(flaw)) }.unwrap_or_else(|why| panic!("{why}"))
}

/// As above, with compiler flags and another name.
pub fn c_umd_with(flaw: Option<&str>, name: &str, flags: &[&str]) -> PathBuf {
    assert!(flaw.is_none_or(|text| FLAWS.contains(&text)), "there is no flaw {flaw:?}");
    let flaw = flaw.unwrap_or("none").replace('-', "_").to_uppercase();
    let flaw = format!("-DFLAW={flaw}");
    build_c("examples/c/umd.c", name, &[&["-shared", "-fPIC", &flaw], flags].concat())
}

/// Builds a source of this repository without warnings. Returns the file's path.
pub fn build_c(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let folder = folder.unwrap_or_else(std::env::temp_dir).join("c-umd");
    std::fs::create_dir_all(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    // Another test may build the same file, and must not load a partial file.
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let built = folder.join(format!("{name}.{}.{number}", std::process::id()));
    let mut command = Command::new("gcc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"]);
    for of in ["crates/d3dkmt", "crates/runtime"] {
        command.arg("-I").arg(root.join(of).join("include"));
    }
    command.args(flags);
    command.arg(root.join(source)).arg("-o").arg(&built).arg("-ldl");
    let output = command.output().unwrap_or_else(|why| panic!("gcc: {why}"));
    assert!(output.status.success(), "{source}:\n{}", output_text(&output));
    let place = folder.join(name);
    std::fs::rename(&built, &place).unwrap_or_else(|why| panic!("{}: {why}", place.display()));
    place
}

/// The output of a program.
pub fn output_text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
