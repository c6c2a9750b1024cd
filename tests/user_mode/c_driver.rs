//! The user-mode driver in C, driven by a runtime in C that only prints the callbacks.

use harness::c_umd::{FLAWS, build_c, c_umd_with, output_text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The capabilities of an adapter: lists, nothing, memory, addresses and memory.
const ADAPTERS: [&str; 4] = ["1", "0", "4", "6"];

fn runtime() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        with_flags(|texts| build_c("tests/c/fake_runtime.c", "fake_runtime", texts))
    })
}

fn driver(flaw: Option<&str>) -> PathBuf {
    let name = format!("faked-{}.so", flaw.unwrap_or("none"));
    with_flags(|texts| c_umd_with(flaw, &name, texts))
}

/// For example with a sanitizer.
fn with_flags<T>(build: impl FnOnce(&[&str]) -> T) -> T {
    let flags = std::env::var("CFLAGS").unwrap_or_default();
    build(&flags.split_whitespace().collect::<Vec<_>>())
}

/// Runs a test of the C runtime with a driver. Returns its output.
fn run_test(driver: &Path, adapter: &str, test: &str) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.arg("60").arg(runtime()).arg(driver).arg(adapter).arg(test);
    // Leaks of a flawed driver are counted by the test itself.
    let output = command.env("ASAN_OPTIONS", "detect_leaks=0").output();
    let output = output.unwrap_or_else(|why| panic!("timeout: {why}"));
    (output.status.success(), output_text(&output))
}

#[test]
fn the_batch_is_submitted_before_its_resources_are_released() {
    let driver = driver(None);
    for adapter in ADAPTERS {
        let expected = "allocate 2\nlock\nunlock\nDestroyResource\nrender\nanswers 0x00000000\n\
            Flush\ndeallocate resource\nDestroyDevice\nno context\n0 allocations left\n\
            CloseAdapter\n";
        assert_eq!(run_test(&driver, adapter, "life"), (true, expected.to_owned()), "{adapter}");
    }
}

#[test]
fn drawing_locks_and_errors_are_right_on_each_adapter() {
    let driver = driver(None);
    for adapter in ADAPTERS {
        for test in ["draws", "locks", "errors"] {
            let (right, text) = run_test(&driver, adapter, test);
            let right = right && text.contains("\n0 allocations left\n");
            assert!(right, "{test} on {adapter}:\n{text}");
        }
    }
}

#[test]
fn a_discarded_surface_that_has_no_other_instance_is_tried_again_after_the_batch() {
    let (right, text) = run_test(&driver(None), "1", "locks");
    assert!(right && text.contains("lock discard\nrender\nlock discard for good\n"), "{text}");
    assert!(
        text.ends_with(
            "lock\nunlock\nunlock\nunlock\ndeallocate resource\nDestroyDevice\nno context\n0 allocations left\n\
         CloseAdapter\n"
        ),
        "{text}"
    );
}

#[test]
fn each_flaw_does_what_its_name_says() {
    let shows = |flaw: &str| match flaw {
        "releases-before-flush" => "DestroyResource\ndeallocate resource\nanswers 0x00000000\n",
        "frees-the-list-only" => "Flush\ndeallocate list of 2\nDestroyDevice\n",
        "frees-twice" => "Flush\ndeallocate resource\ndeallocate resource, which is gone\n",
        "frees-locked" => "Flush\ndeallocate resource, locked\n",
        "frees-one-of-group" => "Flush\ndeallocate list of 1\nDestroyDevice\nno context\n1 alloc",
        "frees-one-by-one" => "Flush\ndeallocate list of 1\ndeallocate list of 1\nDestroyDevice\n",
        "defers-forever" => "Flush\nDestroyDevice\nno context\n2 allocations left\n",
        "frees-and-fails" => "render\ndeallocate resource\nanswers 0x8007000e\n",
        "fails-oddly" => "DestroyResource\nanswers 0x80004001\nFlush\nrender\nDestroyDevice\n",
        "calls-after-device" => "CloseAdapter\ndeallocate\n",
        "wrong-thread" => "DestroyResource\nrender, elsewhere\n",
        "resource-and-list" => "Flush\ndeallocate resource and list of 2\n",
        another_client => panic!("no symptom is listed for {another_client}"),
    };
    for flaw in FLAWS {
        let driver = driver(Some(flaw));
        for adapter in ADAPTERS {
            let (ended, text) = run_test(&driver, adapter, "life");
            // Commands that use freed memory stop this GPU.
            let right = ended != (flaw == "releases-before-flush");
            assert!(right && text.contains(shows(flaw)), "{flaw} on {adapter}:\n{text}");
        }
    }
}
