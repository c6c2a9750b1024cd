//! The long mode of the test command: fuzzers for minutes, sanitizers over the C library, and
//! thousands of flights of random bad drivers.
//!
//! The first two need unstable compiler flags; `RUSTC_BOOTSTRAP` lets the pinned toolchain accept them, so
//! no other toolchain is needed.

use crate::{cargo, drivers, root, run, target};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// How long each fuzzer runs, in seconds.
const SECONDS: u32 = 120;

/// The targets that must find nothing.
const TARGETS: [&str; 5] = ["thunk", "lives", "texts", "images", "symbols"];

/// The target triple, which the sanitizer flag requires.
const MACHINE: &str = "x86_64-unknown-linux-gnu";

/// Runs each fuzzer from the stored corpus, then one that must find a planted bug.
pub(crate) fn fuzz() -> Result<(), String> {
    install_fuzzer()?;
    for name in TARGETS {
        println!("-- {name}, for {SECONDS} s");
        let found = |reason| format!("{reason}\nThe findings are in target/fuzz/{name}.");
        run(&mut fuzzer(name, SECONDS)?).map_err(found)?;
    }
    println!("-- planted: a door without checks");
    let told = output(&mut fuzzer("planted", SECONDS)?)?;
    expect(&told, "a planted bug of the door", "deadly signal")
}

/// A fuzzer. New inputs and failing inputs go into the target folder.
fn fuzzer(name: &str, seconds: u32) -> Result<Command, String> {
    let work = target().join("fuzz").join(name);
    let corpus = work.join("corpus");
    std::fs::create_dir_all(&corpus).map_err(|reason| format!("{}: {reason}", corpus.display()))?;
    // No sanitizer: its shadow memory occupies addresses that the hostile caller expects unmapped.
    let mut fuzz = cargo(&["fuzz", "run", "--sanitizer", "none", "--target-dir"]);
    fuzz.arg(target().join("fuzz/build")).arg(name).arg(corpus);
    let kept = root().join("fuzz/corpus").join(name);
    fuzz.args(Some(kept).filter(|path| path.exists()));
    fuzz.arg("--").arg(format!("-max_total_time={seconds}")).arg("-verbosity=0");
    fuzz.arg(format!("-artifact_prefix={}/", work.display()));
    let length = match name {
        "images" => 4096,
        "symbols" => 100_000, // The smallest PDB that a linker writes has 80 KB.
        _ => 400,
    };
    fuzz.args(["-len_control=0", &format!("-max_len={length}"), "-print_final_stats=1"]);
    fuzz.env("RUSTC_BOOTSTRAP", "1");
    Ok(fuzz)
}

fn install_fuzzer() -> Result<(), String> {
    let there = cargo(&["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|exit_status| exit_status.success()) {
        return Ok(());
    }
    println!("cargo fuzz is missing: installing cargo-fuzz with cargo");
    run(&mut cargo(&["install", "cargo-fuzz", "--locked"]))
}

/// Runs the tests of the C library, and its clients, with `AddressSanitizer` and
/// `LeakSanitizer`; then clients with a bug, which must be found.
pub(crate) fn sanitize() -> Result<(), String> {
    let built = target().join("sanitized");
    for tests in [
        &["--package", "windtunnel-d3dkmt", "--lib"][..],
        &["--package", "windtunnel-tests", "--test", "command", "--", "c_library::"],
    ] {
        let mut command = cargo(&["test", "--target", MACHINE]);
        command.arg("--target-dir").arg(&built).args(tests);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        run(command.env("CFLAGS", "-fsanitize=address"))?;
    }
    let library = built.join(MACHINE).join("debug/deps");
    let client = build_planted(&built, &library)?;
    for (bug, found) in [
        ("overflow", "AddressSanitizer: heap-buffer-overflow"),
        ("leak", "LeakSanitizer: detected memory leaks"),
    ] {
        let mut planted = Command::new(&client);
        let told = output(planted.arg(bug).env("LD_LIBRARY_PATH", &library))?;
        expect(&told, &format!("a planted {bug}"), found)?;
    }
    run(Command::new(client).env("LD_LIBRARY_PATH", library))
}

fn build_planted(built: &Path, library: &Path) -> Result<PathBuf, String> {
    let client = built.join("planted");
    let mut gcc = Command::new("gcc");
    gcc.current_dir(root()).args(["-g", "-fsanitize=address", "-Icrates/d3dkmt/include"]);
    gcc.arg("tests/c/planted.c").arg("-o").arg(&client).arg("-L").arg(library);
    run(gcc.arg("-lwindtunnel_d3dkmt"))?;
    Ok(client)
}

fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|reason| format!("{command:?} did not start: {reason}"))
}

/// Checks that a planted bug was found with this message.
fn expect(told: &Output, what: &str, words: &str) -> Result<(), String> {
    let text = String::from_utf8_lossy(&told.stderr);
    if told.status.success() || !text.contains(words) {
        return Err(format!("{what} was not found: {}\n{text}", told.status));
    }
    println!("{what} was found: {words}");
    Ok(())
}

/// The hostile calls of a long run.
pub(crate) const CALLS: u64 = 50_000_000;

/// Makes hostile calls of the C library, in a process and through a server.
pub(crate) fn hostile(calls: u64) -> Result<(), String> {
    let mut tests = cargo(&["test", "--workspace", "--test", "command", "--"]);
    tests.args(["hostile_calls::", "--nocapture", "--test-threads", "1"]);
    run(tests.env("WINDTUNNEL_HOSTILE_CALLS", calls.to_string()))
}

/// The damaged files of the long tests.
pub(crate) const DAMAGED_FILES: u64 = 10_000;

/// Reads damaged files: drivers, their symbols, steps and allow files.
pub(crate) fn damage(files: u64) -> Result<(), String> {
    let mut tests = cargo(&["test", "--workspace", "--test", "command", "--"]);
    tests.args(["--exact", "damaged::damaged_files_are_read_or_refused", "--nocapture"]);
    run(tests.env("WINDTUNNEL_DAMAGED_FILES", files.to_string()))
}

/// The flights of the long tests.
pub(crate) const FLIGHTS: u64 = 10_000;

/// The faults of the user-mode driver in C that are flown at random.
const USER_MODE_FAULTS: [&str; 6] = [
    "null@create_resource",
    "abort@create_device",
    "overflow@open_adapter",
    "exit@destroy_device",
    "kill@create_resource",
    "fork@create_resource",
];

/// How often a flight is in the list that ends at once; one that meets its deadline is there once.
const OFTEN: usize = 20;

/// Flies random bad drivers of all kinds, with random seeds, from one process: its memory must not
/// grow, and no child process may be left.
pub(crate) fn soak(flights: u64) -> Result<(), String> {
    drivers::run()?;
    run(&mut cargo(&["build", "--release"]))?;
    let list = soak_list()?;
    let mut command = Command::new(target().join("release/windtunnel"));
    command.current_dir(root()).arg("soak").arg("--list").arg(list).args(["--deadline", "1"]);
    // What drivers print is not of interest.
    run(command.args(["--flights", &flights.to_string()]).stderr(Stdio::null()))
}

/// Writes the list of flights to draw from.
fn soak_list() -> Result<PathBuf, String> {
    let folder = target().join("drivers");
    let mut lines = Vec::new();
    for (name, rule, scenario, forms) in drivers::flawed()? {
        let meets_deadline = ["endless", "stop-in"].iter().any(|word| name.starts_with(word));
        for form in forms.iter().filter(|_| !rule.is_empty()) {
            let file = format!("{name}.{}", form.extension());
            let line = format!("{}/bad/{file} {scenario}", folder.display());
            lines.extend(std::iter::repeat_n(line, if meets_deadline { 1 } else { OFTEN }));
        }
    }
    for (number, fault) in USER_MODE_FAULTS.iter().enumerate() {
        let driver = folder.join(format!("faulty-umd-{number}.so"));
        let mut gcc = Command::new("gcc");
        gcc.current_dir(root()).args(["-g", "-shared", "-fPIC", "-pthread"]);
        gcc.args(["-Icrates/d3dkmt/include", "-Icrates/runtime/include"]);
        gcc.arg(format!("-DCHOSEN_FAULT=\"{fault}\"")).arg("tests/c/faulty_umd.c");
        run(gcc.arg("-o").arg(&driver))?;
        let flight = "softgpu-allocation-lists umd-create-and-destroy";
        lines.extend(vec![format!("{flight} {}", driver.display()); OFTEN]);
    }
    // The built-in drivers and clients: one that breaks each rule.
    let examples = root().join("crates/windtunnel/examples.toml");
    let text = std::fs::read_to_string(&examples).map_err(|why| why.to_string())?;
    let broken = text.lines().filter(|line| line.starts_with("broken") && !line.contains("change"));
    for line in broken {
        let value = |key: &str| line.split(&format!("{key} = \"")).nth(1)?.split('"').next();
        if let (Some(driver), Some(scenario)) = (value("driver"), value("scenario")) {
            lines.extend(vec![format!("{driver} {scenario}"); OFTEN / 5]);
        }
    }
    let path = target().join("soak.txt");
    std::fs::write(&path, lines.join("\n")).map_err(|why| why.to_string())?;
    Ok(path)
}
