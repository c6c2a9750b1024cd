//! What tests run and do not build: the command, the programs that measure, and the C drivers.
//!
//! `cargo xtask drivers` builds them; `cargo xtask test` does so first. No test calls cargo, which
//! would wait as long as another cargo has the lock of the build folder.
//!
//! # Invariants
//!
//! 1. A test runs no program that is older than its sources: the test fails and names the source.
#![expect(clippy::expect_used, reason = "a folder that cannot be read is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

/// The file that `cargo xtask drivers` writes to the target folder, with the time of its start.
const STAMP: &str = "built-for-tests";

/// The profile of the programs.
const PROFILE: &str = "debug";

/// The programs.
const PROGRAMS: [&str; 3] = ["windtunnel", "bench", "churn"];

/// The sources of the C drivers, from the root.
const DRIVER_SOURCES: [&str; 2] = ["drivers/c", "crates/abi/include/km"];

/// The target folder; else the sentence that says what to do.
static TARGET: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let this = std::env::current_exe().expect("a test program has a path");
    let target = find_target(&this)?;
    let sources = sources(&target);
    check_sources(&target.join(STAMP), &sources)?;
    Ok(target)
});

/// A program, by its name.
pub fn program(name: &str) -> PathBuf {
    target().join(PROFILE).join(name)
}

/// The folder of the C drivers.
pub fn drivers_folder() -> PathBuf {
    target().join("drivers")
}

fn target() -> &'static Path {
    TARGET.as_deref().unwrap_or_else(|reason| panic!("{reason}"))
}

/// The target folder above a test program, in which everything is built.
fn find_target(test: &Path) -> Result<PathBuf, String> {
    let target = test.ancestors().find(|folder| folder.join(STAMP).is_file());
    let is_complete = |target: &Path| {
        let programs = target.join(PROFILE);
        PROGRAMS.iter().all(|name| programs.join(name).is_file()) && target.join("drivers").is_dir()
    };
    target.filter(|target| is_complete(target)).map(Path::to_owned).ok_or_else(|| {
        let test = test.display();
        format!("the command and the C drivers for {test} are missing: run 'cargo xtask drivers'")
    })
}

/// The sources of the programs, which cargo lists beside each, and of the C drivers.
fn sources(target: &Path) -> BTreeSet<PathBuf> {
    let mut sources = BTreeSet::new();
    for name in PROGRAMS {
        let list = target.join(PROFILE).join(name).with_extension("d");
        let text = fs::read_to_string(&list).expect("cargo lists the sources beside a program");
        sources.extend(listed(&text).filter(|source| !source.starts_with(target)));
    }
    for folder in DRIVER_SOURCES {
        add_files(&crate::pages::root().join(folder), &mut sources);
    }
    sources
}

/// The files behind the colon of a dependency list. A space in a path has a backslash.
fn listed(text: &str) -> impl Iterator<Item = PathBuf> {
    const SPACE: &str = "\0";
    let files = text.split_once(": ").map_or("", |(_, files)| files).replace("\\ ", SPACE);
    let files: Vec<PathBuf> =
        files.split_whitespace().map(|file| file.replace(SPACE, " ").into()).collect();
    files.into_iter()
}

/// Adds all files below a folder.
fn add_files(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of the sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            add_files(&path, files);
        } else {
            files.insert(path);
        }
    }
}

/// Fails if a source is newer than the stamp, or missing.
fn check_sources(stamp: &Path, sources: &BTreeSet<PathBuf>) -> Result<(), String> {
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified());
    let built = changed(stamp).unwrap_or(SystemTime::UNIX_EPOCH);
    let newer = |source: &&PathBuf| changed(source).map_or(true, |changed| changed > built);
    let found = sources.iter().find(newer).map(|source| {
        let source = source.display();
        format!("{source} changed after the programs were built: run 'cargo xtask drivers'")
    });
    found.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A new folder.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("built-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&folder); // There may be none.
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_builds_it() {
        let target = folder("missing");
        let test = target.join("debug/deps/command-1");
        let why = find_target(&test).unwrap_err();
        assert!(why.contains("command-1 are missing: run 'cargo xtask drivers'"), "{why}");
        fs::write(target.join(STAMP), "").unwrap();
        assert!(find_target(&test).is_err(), "nothing but the stamp");
        for folder in ["drivers", "debug"] {
            fs::create_dir(target.join(folder)).unwrap();
        }
        for name in PROGRAMS {
            fs::write(target.join(PROFILE).join(name), "").unwrap();
        }
        assert_eq!(find_target(&test).as_deref(), Ok(&*target));
        fs::remove_dir_all(target).unwrap();
    }

    #[test]
    fn a_source_that_changed_or_is_gone_is_named() {
        let folder = folder("changed");
        let (stamp, old, new) =
            (folder.join("stamp"), folder.join("old.rs"), folder.join("new.rs"));
        for (file, second) in [(&old, 1), (&stamp, 2), (&new, 3)] {
            let file = fs::File::create(file).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        }
        let check = |source: &Path| check_sources(&stamp, &[source.to_owned()].into());
        assert_eq!(check(&old), Ok(()));
        for source in [&new, &folder.join("gone.rs")] {
            let why = check(source).unwrap_err();
            let name = source.display();
            assert!(why.starts_with(&format!("{name} changed after the programs were")), "{why}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_dependency_list_has_paths_with_spaces() {
        let paths: Vec<PathBuf> = listed("/t/my\\ x: /a/my\\ file.rs /b/c.rs\n").collect();
        assert_eq!(paths, ["/a/my file.rs", "/b/c.rs"].map(PathBuf::from));
    }
}
