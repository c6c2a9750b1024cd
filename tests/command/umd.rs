//! User-mode drivers on the command line. The page about them quotes the output:
//! `cargo xtask docs` rewrites it.

#[path = "../tutorial/umd.rs"]
mod maker;

use harness::c_umd::{build_c, c_umd};
use harness::command::{json, text, windtunnel};
use harness::pages::{blocks, compare, read, unnumbered};
use maker::TwoPassDriver;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use windtunnel::runtime::ResourceDescription;
use windtunnel::{Flight, umd_from_rust};

fn so(flaw: Option<&str>) -> String {
    c_umd(flaw).display().to_string()
}

#[test]
fn a_file_is_flown_through_what_needs_a_user_mode_driver() {
    let file = so(None);
    let (_, scenarios) = json(&["list", "scenarios"]);
    let needs = |value: &&Value| value["needs"] == Value::from(["OpenAdapter"].as_slice());
    let good = |value: &&Value| value["breaks"].as_array().unwrap().is_empty();
    let listed = scenarios.as_array().unwrap().iter().filter(needs).filter(good);
    let listed: Vec<&Value> = listed.map(|value| &value["name"]).collect();
    let (_, report) = json(&["check", "--umd", &file]);
    let flown: Vec<&Value> =
        report["scenarios"].as_array().unwrap().iter().map(|value| &value["name"]).collect();
    assert_eq!(flown, listed);
    for driver in ["softgpu-allocation-lists", "softgpu-gpummu"] {
        let some = ["--scenario", "umd-texture", "--scenario", "umd-shared-resource"];
        let (code, report) = json(&[&["check", driver, "--umd", &file], &some[..]].concat());
        assert_eq!((code, &report["umd"]), (0, &file.as_str().into()), "{report}");
        assert_eq!(report["scenarios"][1]["result"], "clean", "{driver}: {report}");
    }
    let (code, output) = text(&["check", "--umd", &file, "--scenario", "umd-texture"]);
    let first = format!("with the user-mode driver {file} on host deterministic, seed 1.\n");
    assert!(code == 0 && output.contains(&first), "{output}");
    assert!(output.contains(" live rules of user-mode drivers never evaluated, "), "{output}");
    let (_, output) = text(&["check", "--umd", &file, "--scenario", "umd-texture", "--verbose"]);
    assert!(output.contains("live rules of user-mode drivers never evaluated: "), "{output}");
    let (_, report) = json(&["check", "softgpu-allocation-lists", "--scenario", "umd-texture"]);
    assert_eq!(report["umd"], "built-in");
    assert!(json(&["check", "table", "--scenario", "create-standalone"]).1["umd"].is_null());
}

#[test]
fn other_scenarios_are_flown_on_request() {
    let (code, report) = json(&["check", "--umd", &so(None), "--scenario", "create-standalone"]);
    assert_eq!(
        (code, &report["scenarios"][0]["name"]),
        (0, &"create-standalone".into()),
        "{report}"
    );
}

#[test]
fn a_bad_user_mode_driver_is_reported() {
    let (code, report) = json(&["check", "--umd", &so(Some("frees-twice"))]);
    let flights = report["scenarios"].as_array().unwrap().iter();
    let mut found = flights.flat_map(|value| value["findings"].as_array().unwrap());
    let found = found.find(|value| value["rule"] == "UMD-DESTROY-010").unwrap();
    assert_eq!((code, &found["who"]), (1, &"umd".into()), "{report}");
}

#[test]
fn a_file_that_is_no_driver_is_an_error_with_advice() {
    let folder = PathBuf::from(so(None)).parent().unwrap().to_owned();
    let dll = folder.join("umd.dll");
    fs::write(&dll, b"MZ and so on").unwrap();
    let words = folder.join("words.so");
    fs::write(&words, b"these are words").unwrap();
    let other = build_c("tests/c/no_umd.c", "no_umd.so", &["-shared", "-fPIC"]);
    for (file, why) in [
        (folder.join("nothing.so"), "No such file"),
        (words, "cannot be flown as a user-mode driver: "),
        (dll, "is a Windows DLL, which cannot be loaded yet"),
        (other, "it exports no OpenAdapter"),
    ] {
        let file = file.display().to_string();
        let output = windtunnel(&["check", "--umd", &file]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.starts_with(&format!("windtunnel: {file} ")) && message.contains(why),
            "{message}"
        );
        assert!(
            message.ends_with("; docs/user-mode-drivers.md describes how to build one\n"),
            "{message}"
        );
        let (code, report) = json(&["check", "--umd", &file]);
        assert!(code == 2 && report["error"].as_str().unwrap().contains(why), "{report}");
    }
}

#[test]
fn lists_show_which_drivers_and_scenarios_have_a_user_mode_driver() {
    let (_, output) = text(&["list", "drivers"]);
    let has = |text: &&str| {
        text.starts_with("softgpu-allocation-lists ") && text.contains("user-mode driver]")
    };
    assert!(output.lines().any(|text| has(&text)), "{output}");
    let (before, bad) = output.split_once("\nBad user-mode drivers, ").unwrap();
    assert!(bad.contains("\numd-frees-twice ") && !before.contains("\numd-"), "{output}");
    let (_, drivers) = json(&["list", "drivers"]);
    let umd = |name: &str| {
        drivers.as_array().unwrap().iter().find(|value| value["name"] == name).unwrap()["umd"]
            .clone()
    };
    assert_eq!((umd("softgpu-gpummu"), umd("table")), (true.into(), false.into()));
    let (_, output) = text(&["list", "scenarios"]);
    let needs = |text: &&str| {
        text.starts_with("umd-texture ") && text.ends_with("[needs a user-mode driver]")
    };
    assert!(output.lines().any(|text| needs(&text)), "{output}");
    let (_, scenarios) = json(&["list", "scenarios"]);
    let mut all = scenarios.as_array().unwrap().iter();
    assert_eq!(
        all.find(|value| value["name"] == "umd-texture").unwrap()["needs"][0],
        "OpenAdapter"
    );
}

#[test]
fn support_and_explain_list_user_mode_functions() {
    let (_, report) = json(&["support"]);
    let row = |table: &str, name: &str| {
        let mut rows = report["support"][table].as_array().unwrap().iter();
        rows.find(|value| value["name"] == name).unwrap().clone()
    };
    assert_eq!(row("umd", "pfnDestroyResource")["state"], "done");
    assert_eq!(row("umd", "pfnDrawPrimitive")["missing"], "not called");
    let free = row("umd_callback", "pfnDeallocateCb");
    assert_eq!(
        (&free["through"], &free["state"]),
        (&"D3DKMTDestroyAllocation2".into(), &"done".into())
    );
    assert_eq!(row("umd_callback", "pfnPresentCb")["missing"], "a named trap");

    let (code, output) = json(&["explain", "pfnDeallocateCb"]);
    assert_eq!(
        (code, &output["kind"], &output["state"]),
        (0, &"entry point".into(), &"done".into())
    );
    let rules = output["rules"].as_array().unwrap();
    assert!(rules.iter().any(|value| value["id"] == "UMD-DESTROY-001"), "{output}");
    let (code, output) = text(&["explain", "UMD-DESTROY-001"]);
    assert!(code == 0 && output.contains("windtunnel check umd-frees-before-flush"), "{output}");
    let (code, output) = json(&["explain", "E_INVALIDARG"]);
    assert_eq!((code, &output["value"]), (0, &"0x80070057".into()), "{output}");
    assert!(
        output["source_statuses"].as_array().unwrap().contains(&"STATUS_INVALID_PARAMETER".into())
    );
    let (code, output) = json(&["explain", "pfnDealocateCb"]);
    let error = output["error"].as_str().unwrap();
    assert!(code == 2 && error.contains("there is no entry point 'pfnDealocateCb'"), "{error}");
}

#[test]
fn my_user_mode_driver_flies_clean() {
    let below = drivers::find("softgpu-allocation-lists").unwrap(); // Any miniport.
    let umd = umd_from_rust::<TwoPassDriver>(); // For a file: load_umd(path)
    let flown = Flight::with_setup(below.make).umd(umd).fly(|testbed| {
        let app = testbed.application()?; // A process with a device, through the driver.
        let chain = app.create_resource(testbed.at, &ResourceDescription::group(3, 32, 32))?;
        app.destroy_resource(testbed.at, chain)?;
        app.close(testbed.at)
    });
    flown.assert_clean();
}

#[test]
fn a_driver_that_only_creates_and_destroys_is_judged() {
    let driver = "softgpu-allocation-lists";
    let file = build_c("examples/c/minimal_umd.c", "minimal_umd.so", &["-shared", "-fPIC"]);
    let file = file.display().to_string();
    let (code, report) = json(&["check", driver, "--umd", &file]);
    assert_eq!((code, &report["result"]), (0, &"pass".into()), "{report}");
    let scenarios = report["scenarios"].as_array().unwrap();
    let clean = |value: &&Value| value["result"] == "clean";
    let clean: Vec<&Value> = scenarios.iter().filter(clean).map(|value| &value["name"]).collect();
    assert!(clean.contains(&&"umd-create-and-destroy".into()), "{clean:?}");
    let umd = umd_from_rust::<TwoPassDriver>();
    let below = drivers::find(driver).unwrap();
    let scenario = windtunnel::find_scenario("umd-create-and-destroy").unwrap();
    let flown = windtunnel::fly_with_umd(below.make, Some(umd), scenario, 1).unwrap();
    flown.assert_clean();
    // What the page lists is what the example fills.
    let (page, source) = (read("docs/user-mode-drivers.md"), read("examples/c/minimal_umd.c"));
    let table = page.split("## What a minimal driver needs").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let named = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 6, "{named:?}");
    for name in &named {
        assert!(source.contains(name), "{name} is not in the example");
    }
    let filled = source.lines().filter_map(|line| line.split_once("Funcs->")?.1.split(' ').next());
    for name in filled {
        assert!(named.contains(&name), "{name} is not in the page");
    }
}

#[test]
fn code_in_the_page_is_code_of_these_files() {
    let files = ["tests/command/umd.rs", "tests/tutorial/umd.rs"].map(read);
    let blocks = blocks(&read("docs/user-mode-drivers.md"), "rust");
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(files.iter().any(|text| text.contains(&block)), "no file has:\n{block}");
    }
}

/// The page quotes the first finding of the flawed driver, and its trace lines are lines of golden
/// traces, in order. A block names its trace.
#[test]
fn the_pages_quotes_are_real() {
    let page = read("docs/user-mode-drivers.md");
    let arguments = ["--scenario", "umd-destroy-in-flight", "softgpu-allocation-lists"];
    let (code, output) =
        text(&[&["check", "--umd", &so(Some("releases-before-flush"))], &arguments[..]].concat());
    assert_eq!(code, 1, "{output}");
    let block = blocks(&page, "text").first().cloned().unwrap();
    let finding = output.lines().skip_while(|text| !text.starts_with("  error: "));
    let found: String = finding.take(block.lines().count()).flat_map(|text| [text, "\n"]).collect();
    let mut now = page.replace(&block, &found);
    let mut quoted = 0;
    for name in ["umd-destroy-in-flight", "umd-deferred-destroy"] {
        let golden = read(&format!("tests/golden/{name}.trace"));
        let mut events = golden.lines();
        for block in blocks(&page, &format!("trace {name}")) {
            let mut real = String::new();
            for line in block.lines() {
                let same = |text: &&str| unnumbered(text) == unnumbered(line);
                let event = events.find(same);
                let event =
                    event.unwrap_or_else(|| panic!("not in {name}, or not in its order: {line}"));
                real.push_str(event);
                real.push('\n');
                quoted += 1;
            }
            now = now.replace(&block, &real);
        }
    }
    assert!(quoted > 15, "{quoted} lines");
    compare("docs/user-mode-drivers.md", &now);
}
