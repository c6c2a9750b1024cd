//! The repository's own rules: dependencies between crates, and facts that the pages state.
#![expect(clippy::unwrap_used, reason = "a page that is not there is a failed test")]

use harness::pages::{compare, read as page, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The block of ARCHITECTURE.md: lines `crate -> crate crate`.
fn written() -> Graph {
    let page = page("ARCHITECTURE.md");
    let block = page.split("```dependencies\n").nth(1).unwrap().split("```").next().unwrap();
    let line = |line: &str| {
        let (name, list) = line.split_once("->").unwrap_or((line, ""));
        let list =
            list.split_whitespace().filter(|text| !text.starts_with('(') && !text.ends_with(')'));
        let list = list.filter(|text| *text != "of");
        (name.trim().to_owned(), list.map(str::to_owned).collect())
    };
    block.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

/// The dependencies in the manifests. A crate has the name of its folder there.
fn real() -> Graph {
    let mut graph = Graph::new();
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in crates.chain([root().join("drivers")]) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let list = manifest.get("dependencies").and_then(toml::Value::as_table);
        let list = list.map(|list| list.keys().cloned().collect());
        graph.insert(name, list.unwrap_or_default());
    }
    let ours: BTreeSet<String> = graph.keys().cloned().collect();
    for list in graph.values_mut() {
        list.retain(|name| ours.contains(name));
    }
    graph
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    let (written, real) = (written(), real());
    for (name, list) in &real {
        assert_eq!(written.get(name), Some(list), "the line of '{name}' in ARCHITECTURE.md");
    }
    let extra: Vec<&String> = written.keys().filter(|text| !real.contains_key(*text)).collect();
    assert!(extra.is_empty(), "ARCHITECTURE.md has lines for no crate: {extra:?}");
}

/// A number in a page that a command also prints.
#[test]
fn the_readme_counts_rules_as_the_catalogue_does() {
    let (live, all) = (flight::RuleId::LIVE.len(), verify::catalogue().len());
    let sentence = format!("{live} of {all} rules are live");
    assert!(page("README.md").contains(&sentence), "README.md should say '{sentence}'");
}

/// The terms of a report's outcomes are in the glossary.
#[test]
fn the_glossary_is_sorted_and_has_the_terms_of_reports() {
    let page = page("docs/GLOSSARY.md");
    let terms: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("**")?.split_once("** — "))
        .flat_map(|(terms, _)| terms.split(", ").take(1))
        .map(str::to_owned)
        .collect();
    assert!(terms.is_sorted(), "{terms:?}");
    assert!((20..=30).contains(&terms.len()), "{} terms", terms.len());
    for term in ["driver handle", "finding", "fly", "live objects", "permit", "scenario"] {
        assert!(terms.iter().any(|known| known == term), "{term}");
    }
}

/// The rule families that are listed one by one.
const FAMILIES: &[&str] = &[
    "ALLOC-CREATE-",
    "ALLOC-DESTROY-",
    "KMD-ALLOC-",
    "KMD-CAPS-",
    "KMD-PAGING-",
    "KMD-SEG-",
    "ALLOC-LOCK-",
    "ALLOC-PRIO-",
    "CB-",
    "PAGQ-",
    "RESID-",
    "KMD-CTX-",
    "KMD-DESTROY-",
    "KMD-DEV-",
    "KMD-FLAGS-",
    "KMD-LEVEL-",
    "KMD-OPEN-",
    "KMD-PNP-001",
    "KMD-PNP-002",
    "KMD-PNP-003",
    "KMD-STD-",
    "KS-",
];

#[test]
fn a_rule_of_these_families_is_live_or_says_what_it_needs() {
    for rule in verify::catalogue() {
        let ours = FAMILIES.iter().any(|text| rule.id.starts_with(text));
        let live = flight::RuleId::find(&rule.id).is_some();
        assert!(!ours || live != rule.needs.is_some(), "{}: live or with needs", rule.id);
    }
}

/// The text of the Rust files of a folder and its subfolders.
fn sources(folder: &std::path::Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all += &fs::read_to_string(&path).unwrap();
        }
    }
    all
}

#[test]
fn a_rule_with_a_judge_at_an_entry_point_is_named_by_one() {
    // Scenarios name the rules that they break, and judge none.
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let crates = crates.filter(|path| !path.ends_with("windtunnel"));
    let all: String = crates.map(|path| sources(&path.join("src"))).collect();
    let words = all.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: BTreeSet<&str> = words.collect();
    for rule in verify::catalogue().iter().filter(|row| row.judge.as_deref() == Some("entry")) {
        let constant = rule.id.replace('-', "_");
        let message = format!("{} says judge = \"entry\", but no code names {constant}", rule.id);
        assert!(named.contains(constant.as_str()), "{message}");
    }
}

#[test]
fn the_page_of_rules_that_are_not_live_is_the_catalogues() {
    let mut now = "# Rules that are not live, and what they need\n\n\
        Generated from `crates/flight/rules.toml` by `cargo xtask docs`. A rule that is neither \
        here nor live has not been looked at yet.\n\n| rule | about | needs |\n|---|---|---|\n"
        .to_owned();
    let line = |entry: &verify::Entry| {
        let needs = entry.needs.as_ref()?;
        Some(format!("| {} | `{}` | {needs} |\n", entry.id, entry.function))
    };
    now.extend(verify::catalogue().iter().filter_map(line));
    let name = "docs/rules-not-live.md";
    compare(name, &now);
}

/// Sentences for people have no Debug text such as `Driver(Invalid)`.
#[test]
fn no_sentence_has_debug_text() {
    // What is printed here is an invariant of ours that does not hold.
    let invariants =
        ["kernel/src/state.rs", "kernel/src/sync/keyed_mutex.rs", "stream/src/stream_state.rs"];
    let crates = [
        "verify",
        "kernel",
        "umd",
        "stream",
        "d3dkmt",
        "windtunnel",
        "runtime",
        "port",
        "thunk",
        "nt",
    ];
    for name in crates {
        let folder = root().join("crates").join(name).join("src");
        for (path, text) in files(&folder) {
            if path.contains("tests") || path.contains("loom") || path.contains("flights") {
                continue;
            }
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (index, line) in code.lines().enumerate() {
                let debug = [":?}", ":#?}", ":x?}", ":#x?}"].iter().any(|mark| line.contains(mark));
                // A name of one word, or of a flag, is made from the variant's.
                let plain = ["to_lowercase", "{self:?}\").chars()", "assert", "//"];
                let allowed = plain.iter().any(|text| line.contains(text))
                    || invariants.iter().any(|file| path.ends_with(file));
                assert!(!debug || allowed, "{path}:{}: {}", index + 1, line.trim());
            }
        }
    }
}

/// The sources below a folder, with their paths.
fn files(folder: &std::path::Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push((path.to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
    all
}

#[test]
fn unsafe_is_only_where_the_architecture_says() {
    let may = ["thunk", "d3dkmt", "server", "port", "nt", "cost", "runtime", "umd"];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let lib = page(&format!("crates/{name}/src/lib.rs"));
        let forbids = lib.contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, !may.contains(&name.as_str()), "crates/{name}/src/lib.rs");
    }
}

/// Other crates get a slot as an argument, so a driver handle is created only on a kernel's
/// request.
#[test]
fn only_the_two_kernels_make_slots_for_driver_handles() {
    let may = ["crates/kernel", "crates/stream", "crates/flight/src/driver_handle.rs"];
    let makes = ["HandleSlot::new(", "HandleSlot::for_object("];
    let mut folders = vec![root().join("crates"), root().join("drivers")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|text| text != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(root()).unwrap();
            let found = makes.iter().any(|name| text.contains(name));
            seen += u32::from(found);
            assert!(!found || may.iter().any(|text| name.starts_with(text)), "{}", name.display());
        }
    }
    assert!(seen > 1, "the kernels make some");
}

/// A test that calls cargo waits as long as another cargo has the lock of the build folder.
/// `harness::built` has the paths of what is built before.
#[test]
fn no_test_calls_cargo() {
    // In two parts, so that this file does not contain them.
    let calls = [["Command::new(\"", "cargo"], ["\"CAR", "GO\""]].map(|parts| parts.concat());
    let mut seen = 0;
    for folder in ["tests", "crates", "drivers", "examples"] {
        for (path, text) in files(&root().join(folder)) {
            let call = calls.iter().find(|call| text.contains(*call));
            assert_eq!(call, None, "{path}");
            seen += 1;
        }
    }
    assert!(seen > 500, "{seen} files");
}

/// The page of environment variables has every one that a user or a test can set.
#[test]
fn every_environment_variable_is_on_its_page() {
    // Set by a program for its own children; and a macro of C.
    const INTERNAL: [&str; 8] = [
        "WINDTUNNEL_TEST_PLACE",
        "WINDTUNNEL_FLIGHT",
        "WINDTUNNEL_DAMAGED",
        "WINDTUNNEL_BENCH_ROLE",
        "WINDTUNNEL_TEST_PLANTED",
        "WINDTUNNEL_TEST_FLIES",
        "WINDTUNNEL_PLANTED",
        "WINDTUNNEL_CALL",
    ];
    let listed = page("docs/environment.md");
    let mut found = 0;
    for folder in ["crates", "tests", "xtask/src"] {
        for (path, text) in files(&root().join(folder)) {
            let quoted = text.split('"').filter(|word| {
                let name = word.strip_prefix("WINDTUNNEL_").unwrap_or_default();
                !name.is_empty() && name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_')
            });
            for variable in quoted.filter(|name| !INTERNAL.contains(name)) {
                assert!(listed.contains(&format!("`{variable}`")), "{path}: {variable}");
                found += 1;
            }
        }
    }
    assert!(found > 5, "{found} variables");
}
