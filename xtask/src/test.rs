//! The test command: all checks in one run.

use crate::times::Times;
use crate::{
    build_for_tests, build_release, cargo, churn, count as instructions, drivers, install, judged,
    long, measure, mutants, root, run as done, sources, tally, target,
};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The step that flies deliberate faults.
const FAULTS: &str = "deliberate faults of drivers";

/// The module of the test program `command` that flies them.
const FAULTS_MODULE: &str = "faults::";

/// Runs a test program with a variable that lets it report the time of each test. The variable is
/// not set for cargo: some packages would build in another way.
const TIMED_RUNNER: &str = r#"target."cfg(all())".runner = ["env", "RUSTC_BOOTSTRAP=1"]"#;

/// Flies deliberate faults of drivers, and prints the table of what was contained and named.
pub(crate) fn faults() -> Result<(), String> {
    let mut tests = cargo(&["test", "--workspace", "--test", "command", "--"]);
    done(tests.args([FAULTS_MODULE, "--nocapture"]))
}

/// Tests that passed and failed.
#[derive(Default)]
struct Total {
    passed: u64,
    failed: u64,
}

pub(crate) fn run() -> Result<(), String> {
    let mut times = Times::new();
    let total = run_steps(&mut times);
    println!("\n{}\n{}", times.slowest_tests(), times.table());
    println!("All {} tests passed.", total?.passed);
    Ok(())
}

fn run_steps(times: &mut Times) -> Result<Total, String> {
    let long = std::env::args().any(|argument| argument == "--long");
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        install(tool, component)?;
    }
    for program in ["gcc", "g++", "pkg-config", "gdb"] {
        install_program(program)?;
    }
    times.begin("formatting");
    done(&mut cargo(&["fmt", "--all", "--check"]))?;
    times.begin("the C drivers and the programs that tests run");
    build_for_tests(drivers::install_and_run)?;
    install_sanitizer()?;
    times.begin("lints");
    done(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    times.begin("documentation");
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    done(doc.env("RUSTDOCFLAGS", "--deny warnings"))?;
    let mut total = Total::default();
    run_tests(&mut total, times, long)?;
    times.begin("races, in orders drawn by shuttle");
    run_races(&mut total, times)?;
    times.begin("handle table, in every order, by loom");
    run_names(&mut total, times)?;
    if long {
        times.begin("fuzzers, for minutes");
        long::fuzz()?;
        times.begin("the C library and its clients, with sanitizers");
        long::sanitize()?;
        times.begin("thousands of flights of random bad drivers");
        long::soak(long::FLIGHTS)?;
        times.begin("a million live allocations, on eight threads");
        churn::run(&[])?;
        times.begin("twenty mutants, by turns");
        mutants::run_turn_of_the_day()?;
    }
    times.begin("the release build");
    build_release(&["pairs"])?;
    times.begin("instructions, counted by callgrind");
    instructions::check()?;
    times.begin("the command of the README, and how often it judges each rule");
    judged::check()?;
    times.begin("the C library of the README");
    run_installed()?;
    Ok(total)
}

/// Installs the command and the C library, runs the command, then builds and runs the example with
/// the library.
fn run_installed() -> Result<(), String> {
    let prefix = target().join("installed");
    install::into(&prefix)?;
    done(Command::new(prefix.join("bin/windtunnel")).arg("--version"))?;
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "windtunnel-d3dkmt"]);
    asked.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let told = asked.output().map_err(|reason| format!("pkg-config did not start: {reason}"))?;
    let flags = String::from_utf8_lossy(&told.stdout).into_owned();
    let example = prefix.join("allocations");
    let mut gcc = Command::new("gcc");
    gcc.current_dir(root()).args(["-Wall", "-Wextra", "-Werror", "-g", "-rdynamic"]);
    gcc.arg("examples/c/allocations.c").arg("-o").arg(&example).args(flags.split_whitespace());
    done(&mut gcc)?;
    done(Command::new(example).env("LD_LIBRARY_PATH", prefix.join("lib")).stdout(Stdio::null()))
}

/// Runs and counts every test, and checks which rules were evaluated. Each program is a step, so
/// that the table of times names it; all steps select the whole workspace, so that nothing is
/// built twice.
fn run_tests(total: &mut Total, times: &mut Times, long: bool) -> Result<(), String> {
    let counts = target().join("tally.txt");
    // Folder and file may not exist yet.
    let _ = std::fs::create_dir_all(target());
    let _ = std::fs::remove_file(&counts);
    times.begin("building the tests");
    done(&mut cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let programs = measure::programs(&sources::read(&["rs", "toml"])?);
    let names = programs.iter().filter_map(|path| path.strip_suffix("/main.rs"));
    let mut steps = vec![("unit tests".to_owned(), vec!["--lib", "--bins", "--examples"])];
    for name in names.filter_map(|path| path.rsplit('/').next()) {
        steps.push((format!("tests: {name}"), vec!["--test", name]));
    }
    steps.push((FAULTS.to_owned(), vec!["--test", "command"]));
    steps.push(("examples in the documentation".to_owned(), vec!["--doc"]));
    let mut failed = Vec::new();
    for (step, chosen) in steps {
        times.begin(&step);
        let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
        tests.args(&chosen).env("WINDTUNNEL_TALLY", &counts).stdout(Stdio::piped());
        // Examples in the documentation have no times.
        if !chosen.contains(&"--doc") {
            tests.args(["--config", TIMED_RUNNER, "--", "-Zunstable-options", "--report-time"]);
        }
        // The deliberate faults are a step of their own, which shows their table.
        if step == FAULTS {
            tests.args([FAULTS_MODULE, "--nocapture"]);
        } else if chosen.contains(&"command") {
            tests.args(["--skip", FAULTS_MODULE]);
        }
        if long {
            tests.env("WINDTUNNEL_LONG", "1");
        }
        failed.extend(
            count(&mut tests, total, times).err().map(|reason| format!("{step}: {reason}")),
        );
    }
    if !failed.is_empty() {
        return Err(failed.join("\n"));
    }
    tally::check(&counts)
}

/// Runs the race tests in a separate build with shuttle's locks and threads.
fn run_races(total: &mut Total, times: &mut Times) -> Result<(), String> {
    let mut tests = cargo(&["test", "--package", "windtunnel-tests", "--test", "race"]);
    tests.args(["--features", "race"]);
    tests.arg("--target-dir").arg(target().join("shuttle")).env("RUSTFLAGS", "--cfg shuttle");
    count(tests.stdout(Stdio::piped()), total, times)
}

/// Runs the handle table tests under loom, in a separate build.
fn run_names(total: &mut Total, times: &mut Times) -> Result<(), String> {
    let mut tests = cargo(&["test", "--package", "windtunnel-kernel", "--lib"]);
    tests.arg("--target-dir").arg(target().join("loom")).env("RUSTFLAGS", "--cfg loom");
    count(tests.arg("handle_table_loom").stdout(Stdio::piped()), total, times)
}

/// Runs and counts tests.
fn count(tests: &mut Command, total: &mut Total, times: &mut Times) -> Result<(), String> {
    let Total { passed, failed } = *total;
    let mut child =
        tests.spawn().map_err(|reason| format!("cargo test did not start: {reason}"))?;
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    for line in lines.map_while(Result::ok) {
        println!("{line}");
        total.add(&line);
        times.add_test(&line);
    }
    let status = child.wait().map_err(|reason| format!("cargo test did not end: {reason}"))?;
    if !status.success() || total.failed > failed {
        return Err(format!("{} tests failed", total.failed - failed));
    }
    if total.passed == passed {
        return Err(format!("{tests:?} ran no test"));
    }
    Ok(())
}

impl Total {
    /// Counts a line like `test result: ok. 10 passed; 0 failed; …`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> =
            result.split([' ', ';', '.']).filter(|text| !text.is_empty()).collect();
        let before = |name| {
            let place = words.iter().position(|text| *text == name)?;
            words.get(place.checked_sub(1)?)?.parse::<u64>().ok()
        };
        self.passed += before("passed").unwrap_or(0);
        self.failed += before("failed").unwrap_or(0);
    }
}

/// Installs a component of the toolchain if it is missing, and prints that first.
fn install(tool: &str, component: &str) -> Result<(), String> {
    let there = cargo(&[tool, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|exit_status| exit_status.success()) {
        return Ok(());
    }
    println!("cargo {tool} is missing: installing {component} with rustup");
    done(Command::new("rustup").args(["component", "add", component]))
}

/// Installs the C and C++ tools if they are missing, and prints that first.
fn install_program(name: &str) -> Result<(), String> {
    let there =
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|exit_status| exit_status.success()) {
        return Ok(());
    }
    println!("{name} is missing: installing it with apt-get");
    done(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", name]))
}

/// Installs clang's runtime of `AddressSanitizer` if it is missing, and prints that first.
fn install_sanitizer() -> Result<(), String> {
    let answer = |argument: &str| {
        let output = Command::new("clang").arg(argument).output();
        let output = output.map_err(|reason| format!("clang did not start: {reason}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // The name alone if there is no such file.
    let runtime = answer("-print-file-name=libclang_rt.asan-x86_64.so")?;
    if Path::new(&runtime).exists() {
        return Ok(());
    }
    let version = answer("-dumpversion")?;
    let package = format!("libclang-rt-{}-dev", version.split('.').next().unwrap_or_default());
    println!("{package} is missing: installing it with apt-get");
    done(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", &package]))
}
