//! A fault that ends the client: its report is written first, then the signal has the effect that it
//! has without the library.
//!
//! `nt::image::report_faults` installs the handler and calls this module on a thread of its own, if a
//! report was requested or the driver is one of a file: a fault of that driver is described as a
//! server does it. A handler that the client has installed before the first call is called
//! afterwards; one that it installs later replaces ours.

use crate::global_kernel::GlobalKernel;
use crate::report;
use nt::image::{CrashKind, CrashRecord, MappedObjects, places_in_shared_object, walk_stack};
use server::fault_here::describe_in_client;
use server::standard_error;
use std::path::PathBuf;

/// The number of callers that are printed.
const FRAMES: usize = 4;

/// A fault of the client's process.
pub(crate) struct Fault {
    /// What ended the process, where, and who is to blame.
    pub(crate) sentence: String,
    /// The client's functions that led to it, the innermost first.
    pub(crate) callers: Vec<String>,
    /// Whether the thread was inside the library, whose locks it may hold.
    pub(crate) is_inside: bool,
}

/// Reports faults from now on.
pub(crate) fn watch() {
    nt::image::report_faults(write_report);
}

/// A thread of the client enters a call: an overflow of its stack can be handled from now on.
pub(crate) fn watch_thread() {
    nt::image::lend_signal_stack();
    nt::image::report_faults_again();
}

/// Writes the report. Runs on a thread of its own.
fn write_report(record: &CrashRecord) {
    if let Some(described) = describe_in_client(record) {
        let kernel = GlobalKernel::running();
        let report = kernel.and_then(|kernel| kernel.report.as_ref());
        if !report.is_some_and(|report| report.is_on_standard_error()) {
            standard_error::print(&described.text);
        }
        return kernel.map_or((), |kernel| report::write_at_driver_fault(kernel, &described.fault));
    }
    if let Some(kernel) = GlobalKernel::running() {
        report::write_at_fault(kernel, &Fault::of(record));
    }
}

impl Fault {
    fn of(record: &CrashRecord) -> Self {
        let objects = MappedObjects::of_this_process();
        let code = |address: u64| objects.find(address).map(|object| object.path.clone());
        let library = code(write_report as *const () as u64);
        let c_library = code(libc::abort as *const () as u64);
        let frames = walk_stack(record, &objects);
        let is_of_client = |address: &u64| {
            let object = code(*address);
            object.is_some() && object != library && object != c_library
        };
        let innermost = frames.iter().find(|address| code(**address) != c_library);
        let in_library = innermost.is_some_and(|address| code(*address) == library);
        let is_inside = frames.iter().any(|address| code(*address) == library);
        let of_client: Vec<u64> = frames.iter().copied().filter(is_of_client).collect();
        let mut callers: Vec<String> = Vec::new();
        for address in of_client {
            let name = name(&objects, address);
            if name == "_start" {
                break; // The start of a program is not the client's.
            }
            // A function that calls itself is listed once.
            if callers.last() != Some(&name) {
                callers.push(name);
            }
            if callers.len() == FRAMES {
                break;
            }
        }
        let place = callers.first().map_or("code without a name", String::as_str);
        let signal = signal_name(record.signal);
        let sentence = if in_library {
            let what = what("the process", record);
            format!(
                "{signal}: {what} inside a call of {place}: a fault of Windtunnel, or memory that \
                 the client has damaged"
            )
        } else {
            format!("{signal}: {} in {place}", what("the client", record))
        };
        let number = i32::try_from(record.signal).unwrap_or(0);
        let next = if nt::image::is_handled_by_program(number) {
            "; the client's own handler runs next"
        } else {
            ""
        };
        let callers = callers.into_iter().skip(1).collect();
        Self { sentence: format!("{sentence}{next}"), callers, is_inside }
    }
}

/// What happened.
fn what(who: &str, record: &CrashRecord) -> String {
    match record.kind() {
        CrashKind::Access => {
            let is_fetch = record.error & 0x10 != 0;
            let verb = match record.error {
                _ if is_fetch => "jumped to",
                error if error & 2 != 0 => "wrote to",
                _ => "read from",
            };
            // The system reports a non-canonical address as zero.
            let accessed = record.accessed_address().filter(|_| record.address == 0 && !is_fetch);
            let address = accessed.unwrap_or(record.address);
            if let Some(lock) = record.block.ended_lock_text(address) {
                return format!("{who} {verb} {lock}");
            }
            let note = if address < 0x1000 { " (NULL)" } else { "" };
            format!("{who} {verb} address {address:#x}{note}")
        }
        CrashKind::StackOverflow => format!("the stack of {who} overflowed"),
        CrashKind::Arithmetic => format!("{who} divided by zero"),
        CrashKind::Breakpoint => format!("{who} ran into a breakpoint"),
        CrashKind::Abort => format!("{who} aborted"),
        _ => format!("{who} executed an instruction that is not allowed"),
    }
}

fn signal_name(number: u64) -> String {
    let known = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
    ];
    let known = known.into_iter().find(|(signal, _)| i32::try_from(number) == Ok(*signal));
    known.map_or_else(|| format!("signal {number}"), |(_, name)| name.to_owned())
}

/// The function and the line of an address, else the file and the offset in it.
fn name(objects: &MappedObjects, address: u64) -> String {
    let Some(object) = objects.find(address) else { return format!("{address:#x}") };
    let offset = address - object.base;
    let rva = u32::try_from(offset).ok();
    let place = rva.and_then(|rva| places_in_shared_object(&object.path, &[rva]).pop().flatten());
    let file = || PathBuf::from(object.path.file_name().unwrap_or_default());
    place.map_or_else(|| format!("{}+{offset:#x}", file().display()), |place| place.to_string())
}
