//! A check with several flights at a time: its output, exit status and files are those of a check
//! with one.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use crate::images::drivers_folder;
use harness::command::windtunnel;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a command leaves: its status, both outputs, and the files in a folder.
#[derive(Debug, PartialEq, Eq)]
struct Everything {
    status: Option<i32>,
    output: String,
    errors: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// Checks a driver with this number of flights at a time, and with traces.
fn check(jobs: &str, arguments: &[&str]) -> Everything {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("windtunnel-{}-jobs-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let path = folder.to_str().unwrap();
    let common = ["check", "--verbose", "--jobs", jobs, "--trace", path];
    let output = windtunnel(&[&common[..], arguments].concat());
    let status = output.status.code();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(path, "TRACES");
    let files = files(&folder);
    fs::remove_dir_all(&folder).unwrap();
    let (output, errors) = (text(output.stdout), text(output.stderr));
    Everything { status, output, errors, files }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

fn driver(name: &str) -> String {
    drivers_folder().join(name).into_os_string().into_string().unwrap()
}

#[test]
fn a_check_is_the_same_with_any_number_of_flights_at_a_time() {
    let (image, crash) = (driver("compute.sys"), driver("bad/null-write-in-ddi.sys"));
    let (exit, entry) =
        (driver("bad/exit-in-ddi.so"), driver("bad/null-write-in-driver-entry.sys"));
    let few = ["create-standalone", "destroy-v1", "destroy-deferred"];
    let few = few.map(|name| format!("--scenario={name}"));
    let [a, b, c] = few.each_ref().map(String::as_str);
    let checks: &[&[&str]] = &[
        &[],
        &["--seeds", "3", "--scenario", "destroy-deferred", "--scenario", "create-standalone"],
        &["kmd-leaks-device", "--json"],
        &["kmd-crashes-in-destroy"],
        &["capture"],
        &[&image, a, b, c],
        &[&crash, a, b, c],
        &[&exit, a, b, c],
        &[&entry, "--json"],
    ];
    for arguments in checks {
        let one = check("1", arguments);
        assert!(!one.output.is_empty(), "{arguments:?}: {}", one.errors);
        assert!(check("3", arguments) == one, "{arguments:?} differs with --jobs 3");
    }
}

#[test]
fn the_comparison_notices_two_scenarios_in_the_other_order() {
    let [first, second] = ["create-standalone", "destroy-deferred"];
    let check = |a, b| check("2", &["--scenario", a, "--scenario", b]);
    assert!(check(first, second) == check(first, second));
    assert!(check(first, second) != check(second, first));
}

#[test]
fn a_number_of_flights_is_at_least_one() {
    let output = windtunnel(&["check", "--jobs", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--jobs"));
}
