//! A fault of the server's driver, or an internal error: the report is written, and the server ends.
//!
//! The driver's frames can never run to their end, and what they hold stays held; after an internal
//! error the kernel's state cannot be relied on. So nothing is asked of the kernel any more; the
//! clients' calls end as with any server that is gone.
#![expect(unsafe_code, reason = "ends the process")]

use crate::report::{Leaks, Report};
use flight::{Event, InternalError, Log};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A fault of the driver.
#[derive(Debug)]
pub struct DriverFault {
    /// The broken rule, without its number; `None` if the driver is not to blame.
    pub finding: Option<Event>,
    /// What ended the server.
    pub ended_by: String,
    /// The driver's functions that led to it, the innermost first.
    pub callers: Vec<String>,
}

/// The server of this process.
struct Served {
    report: Option<Arc<Report>>,
    log: Arc<Log>,
    socket: PathBuf,
}

static SERVED: Mutex<Option<Served>> = Mutex::new(None);

/// From now on a fault of the driver, or an internal error, ends this server.
pub(crate) fn watch(report: Option<Arc<Report>>, log: Arc<Log>, socket: &Path) {
    let served = Served { report, log, socket: socket.to_owned() };
    *SERVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(served);
}

/// Whether a fault is to be printed, because no report on standard error has it.
pub(crate) fn prints_driver_fault() -> bool {
    let served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let report = served.as_ref().and_then(|served| served.report.as_ref());
    !report.is_some_and(|report| report.is_on_standard_error())
}

/// Writes the report and ends the process, with the status of a server with errors; with that of one
/// that cannot run if the driver is not to blame. Returns if the process is no server.
pub(crate) fn end_at_driver_fault(fault: &DriverFault) {
    let served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(served) = &*served else { return };
    if let Some(report) = &served.report {
        report.write_at_driver_fault(&served.log, fault, &left());
    }
    end(served, if fault.finding.is_some() { 1 } else { 2 });
}

/// Whether this process is a server.
pub(crate) fn is_server() -> bool {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Writes the report and ends the process after an internal error, with the status of a server that
/// cannot run. Returns if the process is no server. A second thread waits here for the end.
pub(crate) fn end_at_internal_error(error: &InternalError) {
    let served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(served) = &*served else { return };
    if let Some(report) = &served.report {
        report.write_at_internal_error(error, &left());
    }
    end(served, 2);
}

fn end(served: &Served, status: i32) -> ! {
    // Someone else may have removed it.
    _ = std::fs::remove_file(&served.socket);
    // SAFETY: Ends the process without running anything of it.
    unsafe { libc::_exit(status) };
}

/// What clients have left alive at their exit, if that can be read now.
fn left() -> Leaks {
    let Some(server) = crate::server::running() else { return Leaks::default() };
    let left = server.left.try_lock().map(|mut left| std::mem::take(&mut *left));
    left.unwrap_or_default()
}
