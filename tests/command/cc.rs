//! `windtunnel cc`: the commands of docs/first-miniport.md, `MSBuild` projects, and what fails.
#![expect(clippy::unwrap_used, reason = "a driver that is not built is a failed test")]

use crate::images::without_offsets;
use harness::command::windtunnel_command;
use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cc-{name}"));
    _ = fs::remove_dir_all(&folder); // There may be none.
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the command in a folder. Returns the exit status and what it wrote.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = windtunnel_command().args(arguments).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
    (output.status.code().unwrap(), text)
}

fn page() -> String {
    fs::read_to_string(harness::pages::root().join("docs/first-miniport.md")).unwrap()
}

/// The driver of the page.
fn source() -> String {
    let page = page();
    let (_, rest) = page.split_once("```c first.c\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn every_command_of_the_first_miniport_runs_and_both_forms_fly_alike() {
    let folder = folder("first");
    let source = source();
    fs::write(folder.join("first.c"), &source).unwrap();
    let leaking = source.replace("ExFreePoolWithTag(context, TAG);", "(void)context;");
    assert_ne!(leaking, source);
    fs::write(folder.join("leaks.c"), leaking).unwrap();
    let page = page();
    let commands: Vec<&str> =
        page.lines().filter_map(|row| row.strip_prefix("windtunnel ")).collect();
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        let (status, text) = run(&folder, &arguments);
        let expected = i32::from(command == "check leaks.sys");
        assert_eq!(status, expected, "{command}: {text}");
        if expected == 1 {
            assert!(text.contains("bytes, tag Frst, allocated in AddDevice (leaks.c:"), "{text}");
            assert!(text.contains("KMD-PNP-003"), "{text}");
        } else if command.starts_with("check") {
            assert!(text.contains("PASS: 0 errors"), "{command}: {text}");
        }
    }
    assert!(folder.join("first.pdb").is_file());
    let list = fs::read_to_string(folder.join("compile_commands.json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert!(list[0]["file"].as_str().unwrap().ends_with("leaks.c"), "{list}");
    let trace = |driver: &str| {
        let name = driver.replace('.', "-");
        let (status, text) = run(&folder, &["check", driver, "--trace", &name]);
        assert_eq!(status, 0, "{text}");
        let path = folder.join(&name).join("pnp-start-and-stop.trace");
        let mut trace = fs::read_to_string(path).unwrap();
        without_offsets(&mut trace);
        trace
    };
    let (image, shared_object) = (trace("first.sys"), trace("first.so"));
    assert!(image.lines().count() > 50, "{image}");
    assert_eq!(image, shared_object);
}

#[test]
fn a_project_is_built_with_its_defines_folders_trace_macros_and_names_in_any_case() {
    let folder = folder("project");
    fs::create_dir_all(folder.join("Inc")).unwrap();
    let header = "// begin_wpp config\n// FUNC TraceThis{LEVEL=X}(MSG, ...);\n// end_wpp\n\
                  const Unnamed = 7;\nextern \"C\" DRIVER_INITIALIZE DriverEntry;\n";
    fs::write(folder.join("Inc/Driver.h"), header).unwrap();
    let source = "#include <ntddk.h>\n#include \"DRIVER.H\"\n#include \"main.tmh\"\n\
                  struct Base { virtual ULONG Get() = 0; };\n\
                  struct Derived : Base { ULONG Get() override { return FROM_PROJECT; } };\n\
                  static Derived Only;\n\
                  NTSTATUS DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING path)\n{\n\
                  TraceThis(\"%d\", 1);\n Base *volatile base = &Only;\n\
                  UNREFERENCED_PARAMETER(driver);\n UNREFERENCED_PARAMETER(path);\n\
                  return base->Get() == Unnamed ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;\n}\n";
    fs::write(folder.join("main.cpp"), source).unwrap();
    let project = "<Project><ItemGroup><ClCompile Include=\"MAIN.cpp\" />\
                   <ResourceCompile Include=\"main.rc\" /></ItemGroup><ItemDefinitionGroup \
                   Condition=\"'$(Configuration)|$(Platform)'=='Release|x64'\"><ClCompile>\
                   <PreprocessorDefinitions>FROM_PROJECT=7;%(PreprocessorDefinitions)\
                   </PreprocessorDefinitions><AdditionalIncludeDirectories>.\\inc;$(DDK_INC_PATH)\
                   </AdditionalIncludeDirectories></ClCompile></ItemDefinitionGroup></Project>";
    fs::write(folder.join("sample.vcxproj"), project).unwrap();
    for (target, driver) in [("sys", "sample.sys"), ("so", "sample.so")] {
        let (status, text) = run(&folder, &["cc", "--target", target, "sample.vcxproj"]);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("not built: main.rc: a resource"), "{text}");
        assert!(folder.join(driver).is_file(), "{text}");
    }
}

#[test]
fn what_is_not_built_is_said_and_the_exit_status_is_2() {
    let folder = folder("wrong");
    let (status, text) = run(&folder, &["cc"]);
    assert_eq!(status, 2);
    assert!(text.contains("nothing to build: name a .vcxproj, or sources behind --"), "{text}");
    fs::write(folder.join("wrong.c"), "#include <wdm.h>\nint x = missing;\n").unwrap();
    let (status, text) = run(&folder, &["cc", "--", "wrong.c"]);
    assert_eq!(status, 2);
    assert!(text.contains("wrong.c:2:9: error: use of undeclared identifier"), "{text}");
    assert!(text.contains("wrong.sys was not built"), "{text}");
    fs::write(folder.join("entry.c"), "int nothing;\n").unwrap();
    let (status, text) = run(&folder, &["cc", "--", "entry.c"]);
    assert_eq!(status, 2);
    assert!(text.contains("undefined symbol: DriverEntry"), "{text}");
    let (status, text) = run(&folder, &["cc", "none.vcxproj"]);
    assert_eq!(status, 2);
    assert!(text.contains("none.vcxproj: No such file or directory"), "{text}");
}
