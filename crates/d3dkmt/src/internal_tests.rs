//! Internal errors that are planted: every call fails after them.
#![expect(unsafe_code, reason = "calls the exported functions")]

use crate::global_kernel::GlobalKernel;
use crate::{D3DKMTEnumAdapters2, global_kernel, windtunnel_event_create};
use abi::kmt::D3DKMT_ENUMADAPTERS2;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};
use flight::Spawner;
use server::internal::{Workers, first};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Where the child process plants the error.
const PLANTED: &str = "WINDTUNNEL_TEST_PLANTED";

fn enumerate() -> abi::NTSTATUS {
    let mut args = D3DKMT_ENUMADAPTERS2::ZERO;
    // SAFETY: `args` outlives the call and has no array.
    unsafe { D3DKMTEnumAdapters2(&raw mut args) }
}

#[test]
#[ignore = "breaks the kernel of its process; the other tests run it in a child process"]
fn planted() {
    assert_eq!(enumerate(), STATUS_SUCCESS);
    // SAFETY: NULL is an invalid parameter, and breaks no rule.
    assert_eq!(unsafe { D3DKMTEnumAdapters2(std::ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
    if std::env::var(PLANTED).unwrap() == "worker" {
        let host = GlobalKernel::running().unwrap().host.clone();
        let workers: Arc<dyn Spawner> = Arc::new(Workers(host));
        workers.spawn("planted", |_| flight::internal_error("a planted invariant"));
        let started = Instant::now();
        while first().is_none() && started.elapsed() < Duration::from_mins(1) {
            thread::sleep(Duration::from_millis(1));
        }
    } else {
        let status = global_kernel::call_here("planted", |session, _| {
            session.create_event();
            flight::internal_error("a planted invariant")
        });
        assert_eq!(status, STATUS_UNSUCCESSFUL);
    }
    assert_eq!(first().unwrap().invariant(), "a planted invariant");
    assert_eq!(enumerate(), STATUS_UNSUCCESSFUL);
    assert!(windtunnel_event_create().is_null());
}

/// Standard error and the report of a process in which the error is planted.
fn plant(place: &str) -> (String, String) {
    let name = format!("windtunnel-planted-{place}-{}", std::process::id());
    let report = std::env::temp_dir().join(name);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "internal_tests::planted", "--ignored", "--nocapture"])
        .env(PLANTED, place)
        .env("WINDTUNNEL_REPORT", &report)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{}{errors}", text(&output.stdout));
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
    let written = std::fs::read_to_string(&report).unwrap();
    std::fs::remove_file(&report).unwrap();
    (errors, written)
}

/// Checks the output for an error on either thread.
fn is_ours(errors: &str, report: &str) {
    assert!(errors.contains("broken invariant: a planted invariant"), "{errors}");
    assert!(errors.contains("a bug of Windtunnel, not of its client"), "{errors}");
    assert!(report.contains("broken invariant: a planted invariant"), "{report}");
    assert!(report.contains("0 errors, 0 warnings, 0 notes"), "{report}");
    assert!(!report.contains("left alive:"), "{report}");
}

#[test]
fn an_internal_error_in_a_call_is_reported_and_refuses_every_further_call() {
    let (errors, report) = plant("call");
    is_ours(&errors, &report);
}

#[test]
fn an_internal_error_of_a_worker_is_reported_and_refuses_every_further_call() {
    let (errors, report) = plant("worker");
    is_ours(&errors, &report);
}
