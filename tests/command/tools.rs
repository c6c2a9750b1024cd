//! Tools around a driver that is a shared object: gdb and `AddressSanitizer`, as
//! docs/fly-your-driver.md describes them.
#![expect(clippy::unwrap_used, reason = "a tool that does not run is a failed test")]

use crate::c_library::output_text;
use crate::images::drivers_folder;
use harness::command::windtunnel_command;
use harness::pages::{blocks, read, root};
use std::path::Path;
use std::process::{Command, Output};

/// The lines of the page with this text in them.
fn recipe(text: &str) -> Vec<String> {
    let blocks = blocks(&read("docs/fly-your-driver.md"), "sh");
    let block = blocks.iter().find(|block| block.contains(text));
    block.unwrap_or_else(|| panic!("no recipe with {text}")).lines().map(str::to_owned).collect()
}

/// Runs a line of the page, with the command and the drivers of this build.
fn run(line: &str) -> Output {
    let program = windtunnel_command();
    let folder = Path::new(program.get_program()).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(folder.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let line = line.replace("./target/drivers", "target/drivers");
    let line = line.replace("target/drivers", drivers_folder().to_str().unwrap());
    // A tool that hangs is a failed test.
    let mut bash = Command::new("timeout");
    bash.args(["--signal", "KILL", "300", "bash", "-c", &line]).current_dir(root());
    bash.env("PATH", path.unwrap()).stdin(std::process::Stdio::piped()).output().unwrap()
}

/// gdb opens each library of its process by name: none may be a descriptor of gdb's own.
#[test]
fn gdb_stops_in_a_shared_object_and_shows_function_and_line() {
    let [line] = &recipe("gdb -batch")[..] else { panic!("one line") };
    let output = run(line);
    let text = output_text(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    let frame = text.lines().find(|line| line.starts_with("#0 ")).unwrap_or_default();
    assert!(frame.contains("SgDestroyAllocation") && frame.contains("allocation.c:"), "{text}");
    let callers = text.lines().filter(|line| line.starts_with("#1 ") || line.starts_with("#2 "));
    assert_eq!(callers.count(), 2, "{text}");
}

/// Builds a driver as the page does, with another planted bug, and flies it as the page does.
fn fly_with_sanitizer(name: &str, flaw: &str) -> (Output, String) {
    const OF_PAGE: &str =
        "-DFLAW_FAULT=6 -DFLAW_POOL_SIZE=60 -DFLAW_POOL_OFFSET=60 -DFLAW_POOL_READ";
    let [build, fly] = &recipe("-fsanitize=address")[..] else { panic!("two lines") };
    assert!(build.contains(OF_PAGE), "{build}");
    let build = build.replace(OF_PAGE, flaw).replace("asan-compute", name);
    let built = run(&build);
    assert!(built.status.success(), "{}", output_text(&built));
    let output = run(&fly.replace("asan-compute", name));
    let text = output_text(&output);
    (output, text)
}

#[test]
fn a_correct_driver_with_the_sanitizer_passes() {
    let (output, text) = fly_with_sanitizer("asan-correct", "-UFLAW_IN_DDI");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("\nPASS: 0 errors, 0 warnings, 0 notes; "), "{text}");
}

/// The byte is in the page of the block, so that only the sanitizer finds the read.
#[test]
fn the_sanitizer_reports_a_read_behind_a_pool_block() {
    let flaw = "-DFLAW_FAULT=6 -DFLAW_POOL_SIZE=60 -DFLAW_POOL_OFFSET=60 -DFLAW_POOL_READ";
    let (output, text) = fly_with_sanitizer("asan-pool", flaw);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ERROR: AddressSanitizer: use-after-poison"), "{text}");
    let finding = "error: the driver has an error that AddressSanitizer reports: use-after-poison \
                   at PASSIVE_LEVEL in FlawTouchPool (flaws.h:";
    assert!(text.contains(finding), "{text}");
    assert!(text.contains("where    driver, in DxgkDdiStartDevice"), "{text}");
    assert!(text.contains("rule     WT-CRASH-001"), "{text}");
}

/// With a frame of one byte, the function reads the second one.
#[test]
fn the_sanitizer_reports_a_read_behind_a_local_variable() {
    let (output, text) = fly_with_sanitizer("asan-stack", "-DFLAW_FAULT=7 -DFLAW_FRAME=1");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ERROR: AddressSanitizer: stack-buffer-overflow"), "{text}");
    let finding = "AddressSanitizer reports: stack-buffer-overflow at PASSIVE_LEVEL in \
                   FlawLargeFrame (flaws.h:";
    assert!(text.contains(finding), "{text}");
}

#[test]
fn a_driver_without_the_runtime_of_its_sanitizer_is_not_blamed() {
    let (_, _) = fly_with_sanitizer("asan-alone", "-UFLAW_IN_DDI");
    let output =
        run("windtunnel check ./target/drivers/asan-alone.so --scenario create-standalone");
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("is built with AddressSanitizer, whose runtime must be loaded"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}
