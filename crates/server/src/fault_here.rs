//! Faults of drivers that fly in this process, or that a server in it has.

use crate::crash_place::{Places, name_code};
use crate::crash_report::{DRIVER_ENTRY, OUTSIDE_OF_CALLS, event_of, judge_record};
use crate::driver_file::OpenedFile;
use crate::forced_end::{self, DriverFault};
use flight::Component;
use nt::image::{CrashRecord, Module};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The driver file of this process, the addresses of its image and of its absent imports, and the
/// file of the user-mode driver.
static FILE: OnceLock<&'static OpenedFile> = OnceLock::new();
static IMAGE: Mutex<[Range<u64>; 2]> = Mutex::new([0..0, 0..0]);
static UMD: OnceLock<PathBuf> = OnceLock::new();
static ENTERED: AtomicBool = AtomicBool::new(false);

/// A fault in the reports of this process is one of this file.
pub fn set_file(file: &'static OpenedFile) {
    _ = FILE.set(file); // A check flies one file.
}

/// A fault in code of this file is one of a user-mode driver.
pub fn set_umd(path: &Path) {
    _ = std::fs::canonicalize(path).map(|path| UMD.set(path));
}

/// A text with each offset in the code of the driver file as function and line.
pub(crate) fn name_code_here(text: String) -> String {
    match FILE.get() {
        Some(file) => name_code(file, &text),
        None => text,
    }
}

/// The file is loaded.
pub fn set_image(loaded: &Module) {
    let addresses = |range: Range<usize>| range.start as u64..range.end as u64;
    let ranges = [addresses(loaded.range()), addresses(loaded.trap_range())];
    *IMAGE.lock().unwrap_or_else(PoisonError::into_inner) = ranges;
}

/// `DriverEntry` of the server's driver has returned.
pub(crate) fn set_entered() {
    ENTERED.store(true, Ordering::Relaxed);
}

/// Reports faults of drivers that fly in this process: the sentence of the finding and the call stack
/// go to standard error, then the signal is passed on, to a debugger or to the action that was there
/// before. Every flight calls this first. A server writes its report instead, and ends.
pub fn report_faults_here() {
    // What is loaded before the first flight is not a driver.
    crate::crash_place::remember_own_objects();
    nt::image::report_faults(report);
}

/// Reports a fault in this process.
fn report(record: &CrashRecord) {
    let places = Places::here(FILE.get().copied(), ranges(), UMD.get().cloned());
    let Some(DescribedFault { text, fault }) = describe(record, &places) else { return };
    if forced_end::prints_driver_fault() {
        _ = std::io::stderr().write_all(text.as_bytes()); // The process ends in any case.
    }
    forced_end::end_at_driver_fault(&fault);
}

/// A fault of a driver.
#[derive(Debug)]
pub struct DescribedFault {
    /// The sentence of the finding and the call stack.
    pub text: String,
    /// The fault for a report.
    pub fault: DriverFault,
}

/// Describes a fault in a client's process. `None` if it is not the fault of a driver from a file.
pub fn describe_in_client(record: &CrashRecord) -> Option<DescribedFault> {
    describe(record, &Places::of_client(FILE.get().copied()?, ranges()))
}

/// The addresses of the file's image and of its absent imports.
fn ranges() -> (Range<u64>, Range<u64>) {
    let [image, traps] = IMAGE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (image, traps)
}

/// Describes a fault. `None` if it is not that of a driver.
fn describe(record: &CrashRecord, places: &Places<'_>) -> Option<DescribedFault> {
    if let Some(name) = places.absent_import(record) {
        let text =
            format!("windtunnel: the driver needs import {name}, which is not implemented\n");
        let ended_by = format!("import {name}, which is not implemented");
        let fault = DriverFault { finding: None, ended_by, callers: Vec::new() };
        return Some(DescribedFault { text, fault });
    }
    let stack = places.stack(record);
    let (component, call) = match record.running() {
        Some((component, name)) => (component, Some(name)),
        None if stack.is_empty() => return None,
        None if places.is_in_umd(record) => (Component::Umd, None),
        None => (Component::Driver, None),
    };
    let (rule, message) = judge_record(component, record, places, &stack, &[]);
    let place = call.as_ref().map_or(String::new(), |name| format!(", in {name}"));
    let mut text = format!("windtunnel: {message}\n    where    {}{place}\n", component.name());
    for frame in &stack {
        _ = writeln!(text, "    stack    {frame}"); // To a String.
    }
    let argument = call.unwrap_or_else(|| outside_of_calls().to_owned());
    let ended_by = format!("a fault of the driver, in {argument}");
    let callers = stack.iter().skip(1).map(ToString::to_string).collect();
    let finding = Some(event_of(record, rule, component, (argument, message)));
    Some(DescribedFault { text, fault: DriverFault { finding, ended_by, callers } })
}

/// The name of code of the server's driver that no call leads to.
fn outside_of_calls() -> &'static str {
    if ENTERED.load(Ordering::Relaxed) { OUTSIDE_OF_CALLS } else { DRIVER_ENTRY }
}
