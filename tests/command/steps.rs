//! Scenarios as text: parsed, flown, and their errors reported.

use harness::command::{json, windtunnel};
use std::path::{Path, PathBuf};
use windtunnel::steps::{read, write};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("steps/shared-lives.steps")
}

#[test]
fn the_example_is_flown_clean_by_every_good_driver() {
    let path = example();
    for driver in ["softgpu", "table"] {
        let path = path.to_str().unwrap();
        let (code, report) = json(&["check", driver, "--scenario", path, "--seeds", "20"]);
        let flown = &report["scenarios"][0];
        assert_eq!((code, flown["result"].as_str()), (0, Some("clean")), "{driver}: {report}");
        assert_eq!(flown["name"], "shared-lives");
    }
}

#[test]
fn steps_are_written_as_they_are_read() {
    let text = std::fs::read_to_string(example()).unwrap();
    let plain = |text: &str| text.split('#').next().unwrap_or_default().trim().to_owned() + "\n";
    let plain_text: String = text.lines().map(plain).filter(|text| text.len() > 1).collect();
    assert_eq!(write(&read(&text).unwrap()), plain_text);
}

#[test]
fn a_bad_line_is_reported_with_its_number_and_the_expected_syntax() {
    for (text, line, expected) in [
        ("p1 d1 create alone a1 2\np1 d1 creat alone a2 2", 2, "expected 'pN dN create alone"),
        ("p1 d1 create alone a1 0", 1, "a step creates 1 to 1000 allocations; found 0"),
        ("p1 d1 create into r a1 1001", 1, "a step creates 1 to 1000 allocations; found 1001"),
        ("p4294967296 kill", 1, "the number of a process is at most 4294967295; found 4294967296"),
        ("p1 d99999999999 fill a", 1, "the number of a device is at most 4294967295; found 9999"),
        ("p1 d1 create alone 1a 1", 1, "expected 'pN dN create alone"),
        (
            "\n# nothing\np1 d1 fill r1",
            3,
            "expected a name that an earlier line defines; found 'r1'",
        ),
        ("p1 d1 create alone a 1\np1 d1 create alone a 1", 2, "expected a new name; 'a' is"),
        ("p1 d1 create alone sync 1", 1, "expected 'pN dN create alone"),
        ("# nothing at all\n", 1, "found no step at all"),
        ("", 1, "found no step at all"),
    ] {
        let bad = read(text).unwrap_err();
        assert_eq!(bad.line, line, "{text:?}: {}", bad.reason);
        assert!(bad.reason.contains(expected), "{text:?}: {}", bad.reason);
    }
}

#[test]
fn the_command_reports_file_and_line_and_exits_with_two() {
    let path = std::env::temp_dir().join(format!("windtunnel-{}.steps", std::process::id()));
    std::fs::write(&path, "settle\np1 d1 destroy everything\n").unwrap();
    let name = path.to_str().unwrap();
    let output = windtunnel(&["check", "--scenario", name]);
    std::fs::remove_file(&path).unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(&format!("{name}:2: expected 'pN dN create")), "{message}");
    let output = windtunnel(&["check", "--scenario", name]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("cannot be read"), "{message}");
}
