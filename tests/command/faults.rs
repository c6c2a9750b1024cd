//! Deliberate faults of drivers, flown and counted: `cargo xtask faults` runs this module and shows
//! its table.
//!
//! Each fault is flown alone. It is *contained* if the command ends by itself, with exit status 1;
//! *named* if the first finding has the declared rule and words; it has a *place* if the finding
//! names a function of the driver with its line, and a *block* if it names the pool block; the report
//! is *kept* if it is complete; the flight ends *in time* if it does not take much longer than its
//! deadline.
#![expect(unsafe_code, reason = "a driver in Rust that writes through a NULL pointer")]
#![expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

use crate::contain::FAULTY;
use crate::images::{bad_drivers, driver, on_two_threads};
use harness::command::windtunnel_command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use windtunnel::softgpu::SoftGpu;
use windtunnel::{Flight, prelude::*};

/// The deadline of each flight, as an argument of the command. On a busy machine, a flight that is
/// not endless needs more than a second.
const DEADLINE: &str = "5";

/// The longest time of a flight: what takes longer hangs. The machine can be busy.
const IN_TIME: Duration = Duration::from_mins(5);

/// The fewest faults of the chore.
const FEWEST: usize = 60;

/// The kind of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Image,
    SharedObject,
    UserMode,
    Table,
    Rust,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::SharedObject => "shared object",
            Self::UserMode => "user-mode driver",
            Self::Table => "table in Rust",
            Self::Rust => "safe Rust, in its program",
        }
    }
}

/// A fault, and what the report must say about it.
struct Fault {
    kind: Kind,
    class: String,
    name: String,
    /// The command that flies it.
    command: Command,
    rule: String,
    /// Words of the finding.
    words: String,
    /// The function in which the finding is, if it is known.
    place: Option<&'static str>,
    /// Whether the finding names a function of the driver with its line.
    has_line: bool,
    /// Whether the finding names a pool block.
    has_block: bool,
    /// The outermost function of the stack, if it is known.
    outermost: Option<&'static str>,
}

/// What a flight showed.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the table")]
struct Outcome {
    contained: bool,
    named: bool,
    place: bool,
    block: bool,
    kept: bool,
    in_time: bool,
}

impl Fault {
    fn of_driver(kind: Kind, class: &str, name: &str, rule: &str) -> Self {
        Self {
            kind,
            class: class.to_owned(),
            name: name.to_owned(),
            command: windtunnel_command(),
            rule: rule.to_owned(),
            words: String::new(),
            place: None,
            has_line: false,
            has_block: false,
            outermost: None,
        }
    }

    /// Whether the flight showed what the fault declares.
    fn is_met(&self, outcome: Outcome) -> bool {
        let Outcome { contained, named, place, block, kept, in_time } = outcome;
        contained
            && named
            && kept
            && in_time
            && (place || !self.has_line)
            && (block || !self.has_block)
    }

    /// Judges the report of the command.
    fn judge(&self, output: &Output) -> (Outcome, String) {
        let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return (Outcome::default(), format!("no report, {}: {text}", output.status));
        };
        let findings = &report["scenarios"][0]["findings"];
        let first = &findings[0];
        let message = first["message"].as_str().unwrap_or_default();
        let stack = first["stack"].as_array().map_or(&[][..], Vec::as_slice);
        let is_there = |expected: Option<&str>, found: &Value| {
            expected.is_none_or(|expected| found.as_str() == Some(expected))
        };
        let last = stack.last().map_or(&Value::Null, |frame| &frame["function"]);
        let outcome = Outcome {
            contained: output.status.code() == Some(1),
            named: first["rule"] == *self.rule
                && message.contains(&self.words)
                && is_there(self.place, &first["where"])
                && is_there(self.outermost, last)
                // The fault of a user-mode driver is its only finding.
                && (self.kind != Kind::UserMode
                    || (findings[1].is_null() && first["who"] == "umd")),
            // A function of the driver with its file and line.
            place: [".c:", ".h:", ".rs:"].iter().any(|file| message.contains(file)),
            block: message.contains("pool block"),
            kept: report["result"] == "fail" && report["repeat"].is_string(),
            in_time: true,
        };
        (outcome, format!("{} {} with {}: {message}", first["rule"], first["where"], output.status))
    }
}

/// The class of a bad C driver, in the table.
fn class_of(name: &str, rule: &str) -> String {
    if name.starts_with("endless-") {
        return "endless loop".to_owned();
    }
    if rule == "WT-CRASH-001" {
        let fault = name.split("-in-").next().unwrap_or(name);
        return fault.replace('-', " ");
    }
    match rule.rsplit_once('-').map_or(rule, |(family, _)| family) {
        "WT-POOL" => "pool memory",
        "WT-LEVEL" | "KMD-LEVEL" => "IRQL",
        "WT-MISUSE" => "misused import",
        "WT-BUFFER" => "memory of a call",
        "WT-STACK" => "kernel stack",
        "WT-PAGED" => "pageable memory",
        "WT-LOCK" => "locks",
        "WT-REGISTER" => "control registers",
        "WT-TIME" => "time at a raised IRQL",
        "WT-ASSERT" => "assertion",
        "KMD-PNP" | "KMD-DEV" | "KMD-DESTROY" | "CB-HANDLE" | "WT-LEAK" => "left behind",
        _ => "wrong answer",
    }
    .to_owned()
}

/// The rules whose findings name the code of a driver from a file.
const ENDS: [&str; 7] = [
    "WT-CRASH-001",
    "WT-STUCK-001",
    "WT-STACK-001",
    "WT-PAGED-001",
    "WT-TIME-003",
    "WT-LOCK-",
    "WT-LEVEL-001",
];

/// The bad C drivers, as images and as shared objects.
fn c_drivers() -> Vec<Fault> {
    let mut faults = Vec::new();
    for row in bad_drivers().into_iter().filter(|row| !row.rule.is_empty()) {
        for extension in row.extensions() {
            let kind = if *extension == "sys" { Kind::Image } else { Kind::SharedObject };
            let class = class_of(&row.name, &row.rule);
            let mut fault = Fault::of_driver(kind, &class, &row.name, &row.rule);
            let path = driver(&format!("bad/{}.{extension}", row.name));
            fault.command.args(["check", &path, "--scenario", &row.scenario, "--json"]);
            fault.command.args(["--deadline", DEADLINE, "--deny", "warnings"]);
            fault.has_block = row.name.starts_with("pool-");
            // A killed process leaves no registers, and padding is looked at when a block is freed.
            let is_at_access = fault.has_block && !row.name.ends_with("-odd-size");
            let crashes = ENDS.iter().any(|rule| row.rule.starts_with(rule));
            fault.has_line = (crashes && row.name != "kill-in-ddi") || is_at_access;
            faults.push(fault);
        }
    }
    faults
}

/// A fault of the user-mode driver in C whose environment chooses it.
fn user_mode(fault: &str, place: &'static str, words: &str) -> Fault {
    let class = fault.split('@').next().unwrap_or(fault).replace('-', " ");
    let mut flown = Fault::of_driver(Kind::UserMode, &class, fault, "WT-CRASH-001");
    flown.command.args(["check", "softgpu-allocation-lists", "--umd", &FAULTY, "--json"]);
    flown.command.args(["--scenario", "umd-create-and-destroy", "--deadline", DEADLINE]);
    flown.command.env("FAULT", fault);
    words.clone_into(&mut flown.words);
    flown.place = Some(place);
    flown.has_line = words.contains("faulty_umd.c:");
    flown
}

fn user_mode_drivers() -> Vec<Fault> {
    let places = [
        ("open_adapter", "OpenAdapter", "OpenAdapter"),
        ("create_device", "pfnCreateDevice", "faulty_create_device"),
        ("create_resource", "pfnCreateResource", "faulty_create_resource"),
        ("destroy_device", "pfnDestroyDevice", "faulty_destroy_device"),
    ];
    let kinds = [
        ("null", "wrote to address 0x0 (NULL) in write_null (faulty_umd.c:"),
        ("abort", "aborted the process in fault (faulty_umd.c:"),
        ("loop", "did not return within the deadline; it was in fault (faulty_umd.c:"),
        ("exit", "ended the process with exit status 0 in fault (faulty_umd.c:"),
        ("overflow", "the user-mode driver's stack overflowed in overflow (faulty_umd.c:"),
    ];
    let mut faults = Vec::new();
    for (place, name, function) in places {
        for (kind, sentence) in kinds {
            let mut fault = user_mode(&format!("{kind}@{place}"), name, sentence);
            // The stack of an overflow has more frames than are shown.
            fault.outermost = Some(if kind == "overflow" { "overflow" } else { function });
            faults.push(fault);
        }
    }
    let exit = "the user-mode driver ended the process with exit status 0";
    let create = "pfnCreateResource";
    for (fault, place, sentence) in [
        ("quick-exit@create_resource", create, exit),
        ("call-null@create_resource", create, "executed address 0x0 (NULL) in code at"),
        ("wait@create_resource", create, "it was in libc.so.6, called by fault (faulty_umd.c:"),
        (
            "thread@create_resource",
            "a routine that the runtime did not call",
            "in write_null (faulty_umd.c:",
        ),
        ("null@load", "its initialization", "in write_null (faulty_umd.c:"),
        ("loop@load", "its initialization", "within the deadline"),
        ("exit@unload", "its termination", exit),
        ("loop@unload", "its termination", "within the deadline"),
        ("kill@create_resource", create, "was ended by signal 9"),
        (
            "thread-exit@create_resource",
            create,
            "ended a thread that calls it by pthread_exit in fault (faulty_umd.c:",
        ),
        (
            "thread-cancel@create_resource",
            create,
            "ended a thread that calls it by pthread_cancel in fault (faulty_umd.c:",
        ),
        (
            "stop@create_resource",
            create,
            "stopped the process in libc.so.6, called by fault (faulty_umd.c:",
        ),
        (
            "blocked-loop@create_resource",
            create,
            "did not return within the deadline; it was in fault (faulty_umd.c:",
        ),
        (
            "fork@create_resource",
            create,
            "wrote to address 0x0 (NULL) in write_null (faulty_umd.c:",
        ),
    ] {
        faults.push(user_mode(fault, place, sentence));
    }
    faults
}

/// The built-in drivers with a function table that misuse memory, the IRQL or time.
fn table_drivers() -> Vec<Fault> {
    let simple = "create-standalone";
    [
        ("kmd-crashes-in-destroy", "panic", "WT-CRASH-001", simple),
        ("kmd-requeues-dpc-forever", "endless loop", "WT-CRASH-001", "submit-fill-and-copy"),
        ("kmd-frees-pool-twice", "pool memory", "WT-POOL-001", simple),
        ("kmd-writes-freed-device", "pool memory", "WT-POOL-002", simple),
        ("kmd-writes-behind-device", "pool memory", "WT-POOL-004", simple),
        ("kmd-writes-before-device", "pool memory", "WT-POOL-004", simple),
        ("kmd-leaks-remove-device-memory", "pool memory", "WT-POOL-003", simple),
        ("kmd-leaks-unload-memory", "pool memory", "WT-POOL-003", simple),
        ("kmd-waits-in-dpc", "IRQL", "WT-LEVEL-001", "submit-fill-and-copy"),
        ("kmd-returns-at-dispatch-level", "IRQL", "KMD-LEVEL-008", simple),
        ("kmd-returns-with-spin-lock", "IRQL", "KMD-LEVEL-008", simple),
        ("kmd-releases-free-spin-lock", "misused import", "WT-MISUSE-001", simple),
        ("kmd-leaks-destroyed-allocation", "left behind", "KMD-DESTROY-002", simple),
    ]
    .into_iter()
    .map(|(name, class, rule, scenario)| {
        let mut fault = Fault::of_driver(Kind::Table, class, name, rule);
        fault.command.args(["check", name, "--scenario", scenario, "--json"]);
        fault.command.args(["--deny", "warnings"]);
        fault
    })
    .collect()
}

/// A driver in Rust with a fault, when it creates an allocation.
struct FaultyDriver {
    gpu: Arc<SoftGpu>,
    fault: String,
}

impl Miniport for FaultyDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.gpu)
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        _args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        match &*self.fault {
            // SAFETY: It is not safe: the process ends here.
            "null" => unsafe { ptr::null_mut::<u32>().write_volatile(1) },
            "overflow" => _ = overflow(1),
            "abort" => std::process::abort(),
            _ => std::process::exit(0),
        }
        Err(DriverError::NoMemory)
    }
}

/// Calls itself without end.
fn overflow(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == 0 { 0 } else { overflow(depth + 1) + frame[1] }
}

/// The variable that makes this test fly a driver in Rust, in its own process.
const FLIES: &str = "WINDTUNNEL_TEST_FLIES";

/// Checks a driver in Rust that flies in the process of a test: the sentence is on standard error,
/// and the signal ends the process.
fn judge_rust(fault: &str, signal: i32, words: &str) -> (Outcome, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "faults::every_deliberate_fault_is_contained_and_named";
    command.args(["--exact", test, "--nocapture"]).env(FLIES, fault);
    let began = Instant::now();
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let outcome = Outcome {
        contained: output.status.signal() == Some(signal),
        named: errors.contains(&format!("windtunnel: the driver{words}"))
            && errors.contains("\n    where    driver, in DxgkDdiCreateAllocation\n")
            && (fault == "overflow" || errors.contains("FaultyDriver")),
        place: errors.contains("(faults.rs:"),
        block: false,
        kept: errors.contains("\n    stack    "),
        in_time: began.elapsed() < IN_TIME,
    };
    (outcome, errors)
}

fn fly_in_this_process(fault: String) {
    let (gpu, hardware) = SoftGpu::new();
    let flown = Flight::new(Arc::new(FaultyDriver { gpu, fault }), hardware).fly(|testbed| {
        let client = testbed.test_client()?;
        client.create(testbed.at, 1).map(drop)
    });
    flown.assert_clean();
}

/// The counts of a row of the table.
#[derive(Default)]
struct Row {
    faults: usize,
    counts: [usize; 6],
}

impl Row {
    fn add(&mut self, outcome: Outcome) {
        let Outcome { contained, named, place, block, kept, in_time } = outcome;
        self.faults += 1;
        for (count, is_met) in
            self.counts.iter_mut().zip([contained, named, place, block, kept, in_time])
        {
            *count += usize::from(is_met);
        }
    }
}

fn table(rows: &BTreeMap<(Kind, String), Row>) -> String {
    let mut text = format!(
        "{:<26} {:<31} {:>6} {:>9} {:>6} {:>6} {:>6} {:>6} {:>7}\n",
        "driver", "fault", "flown", "contained", "named", "line", "block", "kept", "in time"
    );
    let mut line = |kind: &str, class: &str, row: &Row| {
        let [contained, named, place, block, kept, in_time] = row.counts;
        let faults = row.faults;
        _ = writeln!(
            text,
            "{kind:<26} {class:<31} {faults:>6} {contained:>9} {named:>6} {place:>6} {block:>6} \
             {kept:>6} {in_time:>7}"
        );
    };
    let mut all = Row::default();
    for ((kind, class), row) in rows {
        line(kind.name(), class, row);
        all.faults += row.faults;
        for (sum, count) in all.counts.iter_mut().zip(row.counts) {
            *sum += count;
        }
    }
    line("all", "", &all);
    text
}

#[test]
fn every_deliberate_fault_is_contained_and_named() {
    if let Ok(fault) = std::env::var(FLIES) {
        return fly_in_this_process(fault);
    }
    let faults = [c_drivers(), user_mode_drivers(), table_drivers()];
    let faults: Vec<Mutex<Fault>> = faults.into_iter().flatten().map(Mutex::new).collect();
    let rows: Mutex<BTreeMap<(Kind, String), Row>> = Mutex::default();
    let wrong = Mutex::new(Vec::new());
    let count =
        |kind: Kind, class: &str, name: &str, outcome: Outcome, is_met: bool, text: &str| {
            rows.lock().unwrap().entry((kind, class.to_owned())).or_default().add(outcome);
            if !is_met {
                wrong.lock().unwrap().push(format!("{} {name}: {text}", kind.name()));
            }
        };
    on_two_threads(&faults, |fault| {
        let mut fault = fault.lock().unwrap();
        let began = Instant::now();
        let output = fault.command.output().unwrap();
        let (mut outcome, text) = fault.judge(&output);
        outcome.in_time = began.elapsed() < IN_TIME;
        count(fault.kind, &fault.class, &fault.name, outcome, fault.is_met(outcome), &text);
    });
    for (fault, signal, words) in [
        ("null", 11, " wrote to address 0x0 (NULL)"),
        // The language's own handler is passed the signal, and aborts.
        ("overflow", 6, "'s stack overflowed in "),
        ("abort", 6, " aborted the process in "),
        ("exit", 6, " ended the process with exit status 0 in "),
    ] {
        let (outcome, text) = judge_rust(fault, signal, words);
        let Outcome { contained, named, place, kept, in_time, .. } = outcome;
        let is_met = contained && named && place && kept && in_time;
        count(Kind::Rust, fault, fault, outcome, is_met, &text);
    }
    let rows = rows.into_inner().unwrap();
    println!("{}", table(&rows));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} faults are not as declared: {wrong:#?}", wrong.len());
    let flown: usize = rows.values().map(|row| row.faults).sum();
    assert!(flown >= FEWEST, "{flown} faults");
    for kind in [Kind::Image, Kind::SharedObject, Kind::UserMode, Kind::Table, Kind::Rust] {
        assert!(rows.keys().any(|(flown, _)| *flown == kind), "no {}", kind.name());
    }
}
