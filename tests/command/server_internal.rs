//! A server whose kernel breaks an invariant of its own: the server says so and ends.
//!
//! No client and no driver can break one, as far as is known. So the server of these tests has a
//! driver in Rust that ends its call as a broken invariant of the kernel would.

use crate::c_library::{build_c, command, output_text};
use flight::{Log, Passive, internal_error};
use kernel::DriverSetup;
use kernel::device::Device;
use kernel::miniport::{DriverDevice, DriverResult, HandleSlot, Miniport};
use kernel::operation::BuildPagingBufferArgs;
use server::{Report, driver};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the error is planted, in the process that serves.
const PLACE: &str = "WINDTUNNEL_TEST_PLACE";

/// The built-in driver. From the creation of a device on, a call of it does not return.
struct Planted {
    driver: Arc<dyn Miniport>,
    place: String,
    has_device: AtomicBool,
}

impl Planted {
    fn end_at(&self, place: &str) {
        if self.place == place {
            internal_error("a planted invariant");
        }
    }
}

impl Miniport for Planted {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        driver_handle: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        self.has_device.store(true, Ordering::Relaxed);
        self.end_at("call");
        self.driver.create_device(at, driver_handle)
    }

    /// The kernel's worker builds paging work.
    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        if self.has_device.load(Ordering::Relaxed) {
            self.end_at("worker");
        }
        self.driver.build_paging_buffer(at, args)
    }
}

fn plant(log: &Arc<Log>, place: &str) -> Result<DriverSetup, String> {
    let built_in = driver::built_in(log)?;
    let (driver, has_device) = (built_in.miniport, AtomicBool::new(false));
    let miniport = Arc::new(Planted { driver, place: place.to_owned(), has_device });
    Ok(DriverSetup { miniport, ..built_in })
}

/// The socket and the report of a server with an error at a place.
fn files(place: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    (folder.join(format!("{place}.planted.sock")), folder.join(format!("{place}.planted.report")))
}

#[test]
#[ignore = "serves until its process ends; the other test runs it in a child process"]
fn planted_server() {
    let place = std::env::var(PLACE).unwrap();
    let (socket, report) = files(&place);
    let report = Report::new(Some(report.into_os_string()));
    let ready = || eprintln!("serving");
    server::serve(&socket, Some(report), false, |_, log| plant(log, &place), ready).unwrap();
}

#[test]
fn an_internal_error_ends_the_server_with_its_report() {
    for place in ["call", "worker"] {
        let (socket, report) = files(place);
        // A server that does not end leaves no process.
        let mut serve = Command::new("timeout");
        serve.args(["-s", "KILL", "120"]).arg(std::env::current_exe().unwrap());
        serve.args(["--exact", "server_internal::planted_server", "--ignored", "--nocapture"]);
        serve.env(PLACE, place).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut serve = serve.spawn().unwrap();
        let mut errors = BufReader::new(serve.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert_eq!(line, "serving\n", "{place}");
        let start = |client: &str, what: &str| {
            let mut client = command(&build_c(client));
            client.arg(what).env("WINDTUNNEL_SOCKET", &socket).stdout(Stdio::piped());
            client.stderr(Stdio::null()).spawn().unwrap()
        };
        let mut other = start("tests/c/driver_fault.c", "watch");
        let mut watched = BufReader::new(other.stdout.take().unwrap());
        line.clear();
        watched.read_line(&mut line).unwrap();
        assert_eq!(line, "watching\n", "{place}");
        if place == "call" {
            let caller = start("tests/c/driver_fault.c", "").wait_with_output().unwrap();
            assert_eq!(output_text(&caller), "removed\n");
        } else {
            // Any of its calls may find the server gone.
            start("tests/c/waiting_work.c", "beside").wait().unwrap();
        }
        assert!(other.wait().unwrap().success(), "{place}");
        assert_eq!(serve.wait().unwrap().code(), Some(2), "{place}");
        assert!(!socket.exists(), "{place}");
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        let error = "broken invariant: a planted invariant";
        for expected in
            [error, "a bug of Windtunnel, not of its client; the server ends", "ddi.call"]
        {
            assert!(text.contains(expected), "{place}: {expected}\n{text}");
        }
        let report = fs::read_to_string(&report).unwrap();
        for expected in [error, "windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects left alive\n"]
        {
            assert!(report.contains(expected), "{place}: {expected}\n{report}");
        }
    }
}
