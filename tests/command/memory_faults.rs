//! Memory faults: the table of docs/memory-faults.md, and what guarded memory shows.

#![expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

use crate::images::driver;
use harness::command::{json, text};
use harness::pages::read;
use serde_json::Value;

/// When a fault was found, by the findings of a flight.
fn found(report: &Value, rule: &str) -> &'static str {
    let findings = report["scenarios"][0]["findings"].as_array().unwrap();
    let Some(first) = findings.first() else { return "not found" };
    assert_eq!(first["rule"], rule, "{report}");
    let message = first["message"].as_str().unwrap();
    if message.contains(", at PASSIVE_LEVEL in ") { "at the access" } else { "at the free" }
}

/// A row of the table of docs/memory-faults.md.
struct Row {
    fault: String,
    image: String,
    rust: String,
    /// When it is found if the block ends at an inaccessible page, and if it starts at one.
    found: [String; 2],
}

impl Row {
    fn rule(&self) -> &'static str {
        match &*self.fault {
            "write of a freed block" | "read of a freed block" => "WT-POOL-002",
            "second free" | "free with another tag" => "WT-POOL-001",
            _ => "WT-POOL-004",
        }
    }
}

fn rows() -> Vec<Row> {
    let page = read("docs/memory-faults.md");
    let row = |line: &str| {
        let cells: Vec<String> =
            line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
        let [_, fault, image, rust, ends, starts, _] = cells.try_into().ok()?;
        Some(Row { fault, image, rust, found: [ends, starts] })
    };
    page.lines().filter_map(row).filter(|row| row.rust.starts_with("kmd-")).collect()
}

#[test]
fn every_fault_of_the_page_is_found_when_the_page_says() {
    let rows = rows();
    assert_eq!(rows.len(), 20);
    let mut wrong = Vec::new();
    for row in &rows {
        let fly = |driver: &str, seed: &str| {
            let scenario = if row.image.starts_with("frees-with") {
                "submit-fill-and-copy"
            } else {
                "create-standalone"
            };
            json(&["check", driver, "--scenario", scenario, "--seed", seed]).1
        };
        let image = fly(&driver(&format!("bad/{}.sys", row.image)), "1");
        let expected = if row.found.iter().any(|found| found == "at the access") {
            "at the access"
        } else {
            "at the free"
        };
        let real = found(&image, row.rule());
        if real != expected {
            wrong.push(format!("{}: {real}, not {expected}", row.image));
        }
        let mut real = ["1", "2"].map(|seed| found(&fly(&row.rust, seed), row.rule()));
        let mut expected = [&*row.found[0], &*row.found[1]];
        real.sort_unstable();
        expected.sort_unstable();
        if real != expected {
            wrong.push(format!("{}: {real:?}, not {expected:?}", row.rust));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The sentences that name a block, a section or a handle.
#[test]
fn a_finding_names_what_was_accessed() {
    for (name, scenario, parts) in [
        (
            "writes-behind-dma-buffer",
            "submit-fill-and-copy",
            &["1 byte behind the end of a DMA buffer of 4096 bytes", "DxgkDdiBuildPagingBuffer"][..],
        ),
        (
            "keeps-private-data",
            "create-standalone",
            &["of private driver data of 16 bytes", "DxgkDdiCreateAllocation", "had returned"],
        ),
        (
            "keeps-arguments",
            "submit-fill-and-copy",
            &["of an argument structure of 72 bytes", "DxgkDdiCreateContext", "had returned"],
        ),
        (
            "dereferences-device-handle",
            "create-standalone",
            &["the system's handle of a device (hDevice of DxgkDdiCreateDevice)"],
        ),
        (
            "passes-device-handle-as-adapter",
            "create-standalone",
            &["is the system's handle of a device", "not the DeviceHandle of DXGKRNL_INTERFACE"],
        ),
        (
            "passes-own-device-as-adapter",
            "submit-fill-and-copy",
            &["the driver's own handle of device ", "not the DeviceHandle of DXGKRNL_INTERFACE"],
        ),
    ] {
        for extension in ["sys", "so"] {
            let file = driver(&format!("bad/{name}.{extension}"));
            let (code, report) = json(&["check", &file, "--scenario", scenario]);
            let message = report["scenarios"][0]["findings"][0]["message"].as_str().unwrap();
            assert_eq!(code, 1, "{report}");
            for part in parts {
                assert!(message.contains(part), "{name}.{extension}: {part}: {message}");
            }
        }
    }
    for (name, section) in [
        ("writes-constant", "section .rdata, which is read-only"),
        ("writes-code", "section .text, which is read-only"),
        ("calls-init", "section INIT, which is discarded after DriverEntry"),
    ] {
        let file = driver(&format!("bad/{name}.sys"));
        let (_, report) = json(&["check", &file, "--scenario", "create-standalone"]);
        let message = report["scenarios"][0]["findings"][0]["message"].as_str().unwrap();
        assert!(message.contains(section), "{name}: {message}");
    }
}

/// A handle of one kind where another is expected: the finding names both, also if the handle is
/// the driver's own or its object was destroyed.
#[test]
fn a_mix_up_of_handles_names_both_kinds() {
    for (name, scenario, rule, parts) in [
        (
            "kmd-passes-context-as-device",
            "submit-fill-and-copy",
            "CB-CTXALLOC-003",
            [
                "hDevice of DxgkCbCreateContextAllocation is the system's handle of a context",
                "a device",
            ],
        ),
        (
            "kmd-passes-adapter-as-context",
            "submit-fill-and-copy",
            "CB-CTXALLOC-003",
            [
                "hContext of DxgkCbCreateContextAllocation is the system's handle of an adapter",
                "a context",
            ],
        ),
        (
            "kmd-frees-device-as-context-allocation",
            "submit-fill-and-copy",
            "CB-CTXALLOC-009",
            [
                "hAllocation of DxgkCbDestroyContextAllocation is the system's handle of a device",
                "a context allocation",
            ],
        ),
        (
            "kmd-releases-adapter-handle",
            "create-standalone",
            "CB-HANDLE-005",
            [
                "ReleaseHandle of DxgkCbReleaseHandleData is the system's handle of an adapter",
                "DxgkCbAcquireHandleData",
            ],
        ),
        (
            "kmd-reserves-range-of-adapter",
            "create-standalone",
            "KMD-PROC-003",
            [
                "hDxgkProcess of DxgkCbReserveGpuVirtualAddressRange is the system's handle of an adapter",
                "a process",
            ],
        ),
        (
            "kmd-passes-wrong-context-handle",
            "submit-fill-and-copy",
            "CB-CTXALLOC-003",
            [
                "hContext of DxgkCbCreateContextAllocation is the driver's own handle of device ",
                "the system's handle of a context",
            ],
        ),
        (
            "kmd-passes-destroyed-context",
            "submit-fill-and-copy",
            "CB-CTXALLOC-003",
            [
                "hContext is the kernel's handle of context ",
                ", which was destroyed, not the kernel's handle of a context",
            ],
        ),
    ] {
        let (code, report) = json(&["check", name, "--scenario", scenario]);
        let finding = &report["scenarios"][0]["findings"][0];
        let message = finding["message"].as_str().unwrap_or_default();
        assert_eq!((code, &finding["rule"]), (1, &rule.into()), "{name}: {report}");
        for part in parts {
            assert!(message.contains(part), "{name}: {part}: {message}");
        }
    }
}

/// An output that a driver does not set is named; the driver that sets it stays clean.
#[test]
fn an_output_that_is_not_set_is_named() {
    let omits = |name: &str, scenario: &str, rule: &str, part: &str| {
        let (code, report) = json(&["check", name, "--scenario", scenario, "--deny", "warnings"]);
        let findings = report["scenarios"][0]["findings"].as_array().unwrap();
        assert_eq!((code, findings.len()), (1, 1), "{name}: {report}");
        let message = findings[0]["message"].as_str().unwrap();
        assert!(findings[0]["rule"] == *rule && message.contains(part), "{name}: {message}");
    };
    for (name, scenario, rule, part) in [
        ("omits-child-status", "pnp-start-and-stop", "WT-BUFFER-002", "not set HotPlug.Connected"),
        ("omits-current-fence", "tdr-hang", "WT-BUFFER-002", "not set CurrentFence"),
        ("omits-aborted-fence", "tdr-hang", "KMD-TDR-007", "without setting LastAbortedFenceId"),
    ] {
        for extension in ["sys", "so"] {
            omits(&driver(&format!("bad/{name}.{extension}")), scenario, rule, part);
        }
    }
    let set = "WT-BUFFER-002";
    omits("kmd-omits-adapter-context", "create-standalone", set, "not set MiniportDeviceContext");
    omits("kmd-omits-child-status", "pnp-start-and-stop", set, "not set HotPlug.Connected");
    omits("kmd-omits-current-fence", "tdr-hang", set, "not set CurrentFence");
    omits("kmd-omits-dependent-nodes", "tdr-hang", set, "not set DependentNodeOrdinalMask");
    let set = "KMD-STD-001";
    omits("kmd-describes-empty-primary", "create-primary", set, "not set Width, Height, Format");
}

/// A write that only the pattern shows names the place of the allocation, too.
#[test]
fn a_write_found_at_the_free_names_the_allocation() {
    for extension in ["sys", "so"] {
        let file = driver(&format!("bad/pool-write-behind-odd-size.{extension}"));
        let (code, report) = json(&["check", &file, "--scenario", "create-standalone"]);
        let message = report["scenarios"][0]["findings"][0]["message"].as_str().unwrap();
        assert_eq!(code, 1, "{report}");
        assert!(message.contains("allocated in FlawUsePool (flaws.h:"), "{message}");
        assert!(message.contains("found when it was freed in DxgkDdiStartDevice"), "{message}");
        assert_eq!(report["scenarios"][0]["unguarded_blocks"], 0, "{report}");
    }
}

/// The functions that allocated and freed a block are named with their callers: a driver's own
/// functions for pool would hide them. So are the events of a leak.
#[test]
fn a_finding_on_pool_names_the_functions_behind_a_wrapper() {
    const ALLOCATED: &str =
        "allocated in FlawAllocate (flaws.h:#), called by FlawTakeBlock (flaws.h:#)";
    const FREED: &str = "in FlawFree (flaws.h:#), called by FlawGiveBlock (flaws.h:#)";
    let again = "in FlawFree (flaws.h:#), called by FlawGiveBlockAgain (flaws.h:#)";
    for (name, parts) in [
        ("leaks-block-of-wrapper", [ALLOCATED, "is not freed"]),
        (
            "frees-block-of-wrapper-twice",
            [ALLOCATED, &format!("twice: first {FREED}; again {again}")],
        ),
        ("uses-freed-block-of-wrapper", [ALLOCATED, &format!("after it was freed {FREED}")]),
        ("writes-behind-block-of-wrapper", [ALLOCATED, "1 byte behind the end"]),
    ] {
        for extension in ["sys", "so"] {
            let file = driver(&format!("bad/{name}.{extension}"));
            for seed in ["1", "2"] {
                let check = ["check", &file, "--scenario", "create-standalone", "--seed", seed];
                let (code, report) = json(&check);
                let message = report["scenarios"][0]["findings"][0]["message"].as_str().unwrap();
                assert_eq!(code, 1, "{report}");
                for part in parts {
                    let message = without_lines(message);
                    assert!(message.contains(part), "{file}, seed {seed}: {part}: {message}");
                }
            }
            let (_, text) = text(&["check", &file, "--scenario", "create-standalone"]);
            assert!(!text.contains("code+0x"), "{text}");
            let event = "pool.allocated bytes=64 tag=Flaw caller=\"FlawAllocate (flaws.h:#), called by \
                         FlawTakeBlock (flaws.h:#), called by FlawMisuseBlock (flaws.h:#)";
            let is_of_crash = !text.contains("pool.");
            assert!(is_of_crash || without_lines(&text).contains(event), "{text}");
        }
    }
}

/// A function that is inlined does not hide its caller either.
#[test]
fn a_finding_on_pool_names_the_functions_around_inlined_ones() {
    for extension in ["sys", "so"] {
        let file = driver(&format!("bad/frees-adapter-twice.{extension}"));
        let (_, report) = json(&["check", &file, "--scenario", "create-standalone"]);
        let message = report["scenarios"][0]["findings"][0]["message"].as_str().unwrap();
        let (allocated, freed) = message.split_once(" twice: first in ").unwrap();
        assert!(allocated.contains("SgAddDevice (adapter.c:"), "{file}: {message}");
        for free in freed.split("; again in ") {
            assert!(free.contains("SgRemoveDevice (adapter.c:"), "{file}: {message}");
        }
    }
}

/// A text with `#` for each number of a line.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(".h:");
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        without += ".h:#";
        without += part.trim_start_matches(|next: char| next.is_ascii_digit());
    }
    without
}

/// A write behind a block that lives on is found when the call has returned, once.
#[test]
fn a_write_behind_a_live_block_is_found_when_the_call_has_returned() {
    let parts = [
        "wrote to the memory 4 bytes behind the end of pool block ",
        "allocated in FlawUsePool (flaws.h:#), called by SgStartDevice (adapter.c:",
        "found when DxgkDdiStartDevice had returned",
    ];
    for extension in ["sys", "so"] {
        let file = driver(&format!("bad/pool-write-behind-kept-block.{extension}"));
        for seed in ["1", "2"] {
            let check = ["check", &file, "--scenario", "create-standalone", "--seed", seed];
            let (code, report) = json(&check);
            let findings = report["scenarios"][0]["findings"].as_array().unwrap();
            let overruns = findings.iter().filter(|finding| finding["rule"] == "WT-POOL-004");
            let counts = overruns.map(|finding| {
                let message = without_lines(finding["message"].as_str().unwrap());
                for part in parts {
                    assert!(message.contains(part), "{file}, seed {seed}: {part}: {message}");
                }
                finding["count"].as_u64().unwrap()
            });
            assert_eq!((code, counts.sum()), (1, 2_u64), "{report}");
        }
    }
}

/// A read of the bytes between a block and its inaccessible page is found with `--guard exact`, which
/// does not accuse a driver that relies on the alignment of Windows.
#[test]
fn a_read_behind_an_odd_size_is_found_with_exact_guards() {
    for extension in ["sys", "so"] {
        for seed in ["1", "2"] {
            let check = |name: &str, guard: &str| {
                let file = driver(&format!("bad/{name}.{extension}"));
                let options = ["--scenario", "create-standalone", "--seed", seed, "--guard", guard];
                let (code, report) = json(&[&["check", &file][..], &options].concat());
                (code, report["scenarios"][0].clone())
            };
            let (code, flown) = check("pool-read-behind-odd-size", "full");
            assert_eq!((code, &flown["result"]), (0, &"clean".into()), "{flown}");
            let (code, flown) = check("pool-read-behind-odd-size", "exact");
            let message = flown["findings"][0]["message"].as_str().unwrap();
            let text = "read the memory 4 bytes behind the end of a pool block of 24 bytes";
            assert!(code == 1 && message.contains(text), "{message}");
            let (code, flown) = check("uses-aligned-pool-block", "full");
            assert_eq!((code, &flown["result"]), (0, &"clean".into()), "{flown}");
            let (_, flown) = check("uses-aligned-pool-block", "exact");
            assert_eq!(flown["findings"], serde_json::json!([]), "{flown}");
            let need = flown["needs"][0].as_str().unwrap();
            assert!(need.starts_with("pool that is aligned to 16 bytes, as on Windows"), "{need}");
        }
    }
}

/// A far access names the block that its pointer belongs to, and none if that is not known.
#[test]
fn a_far_access_names_a_block_by_its_pointer_only() {
    for (name, rule, text) in [
        (
            "pool-read-32768-behind",
            "WT-POOL-004",
            "read the memory 32768 bytes behind the end of a pool block of 64 bytes",
        ),
        (
            "reads-near-no-block",
            "WT-CRASH-001",
            "read from unallocated memory, far from every block, at PASSIVE_LEVEL in FlawReadWild",
        ),
    ] {
        for extension in ["sys", "so"] {
            let file = driver(&format!("bad/{name}.{extension}"));
            for seed in ["1", "2"] {
                let check = ["check", &file, "--scenario", "create-standalone", "--seed", seed];
                let finding = &json(&check).1["scenarios"][0]["findings"][0];
                let message = finding["message"].as_str().unwrap();
                assert_eq!(finding["rule"], rule, "{file}: {message}");
                assert!(message.contains(text), "{file}, seed {seed}: {message}");
            }
        }
    }
}

/// Built-in drivers without a fault stay clean with guarded memory.
#[test]
fn a_correct_driver_is_clean_with_guarded_memory() {
    for (name, guard) in
        [("table-memory", "full"), ("softgpu-gpummu", "full"), ("table-memory", "exact")]
    {
        let (code, report) = json(&["check", name, "--guard", guard, "--deny", "warnings"]);
        assert_eq!(code, 0, "{name}: {report}");
        assert!(report["scenarios"].as_array().unwrap().len() > 50, "{name}: {report}");
    }
}
