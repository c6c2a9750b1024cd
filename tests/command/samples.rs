//! The sample outputs of README.md and of the pages are the real ones, and the commands that the
//! pages name exist. `cargo xtask docs` rewrites the samples.
//!
//! A block `console` is a command after `$ ` and its whole output. A block `trace` with a driver
//! and a scenario has lines of the trace of that flight, in order. Blocks of other languages are
//! compared by the tests of their pages.
#![expect(clippy::unwrap_used, reason = "output that cannot be read is a failed test")]

use harness::command::text;
use harness::flown;
use harness::pages::{compare, read, root, unnumbered};
use std::fs;
use windtunnel::{Driver, find_scenario};

/// A code block of a page: its language, and its lines.
struct Block {
    language: String,
    text: String,
}

/// README.md and every page of docs.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for file in fs::read_dir(root().join("docs")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(format!("docs/{}", path.file_name().unwrap().display()));
        }
    }
    pages.sort();
    pages
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new() });
            }
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => (),
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// The ways to write the command in a page.
const COMMANDS: [&str; 3] =
    ["windtunnel ", "cargo run --release -- ", "target/release/windtunnel "];

/// The arguments of a command line of a page, without its comment; `None` for another program.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    let rest = COMMANDS.iter().find_map(|command| line.strip_prefix(command))?;
    Some(rest.split_whitespace().collect())
}

/// The output as a page shows it: without times, which differ from run to run.
fn without_times(output: &str) -> String {
    let lines = output.lines().map(|line| match line.split_once(" in ") {
        Some((before, time)) if time.ends_with(" s") || time.ends_with(" ms") => before,
        _ => line,
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn the_consoles_of_the_pages_are_real() {
    let mut consoles = 0;
    for name in pages() {
        let page = read(&name);
        let shown = blocks(&page).into_iter().filter(|block| block.language == "console");
        let shown: Vec<Block> = shown.collect();
        if shown.is_empty() {
            continue; // Another test may rewrite the page.
        }
        let mut now = page.clone();
        for block in shown {
            let (first, _) = block.text.split_once('\n').unwrap();
            let command = first.strip_prefix("$ ").unwrap_or_else(|| panic!("{name}: {first}"));
            let arguments =
                arguments(command).unwrap_or_else(|| panic!("{name}: not ours: {command}"));
            let (_, output) = text(&arguments);
            let real = format!("{first}\n{}", without_times(&output));
            now = now.replace(
                &format!("```console\n{}```", block.text),
                &format!("```console\n{real}```"),
            );
            consoles += 1;
        }
        compare(&name, &now);
    }
    assert!(consoles >= 3, "{consoles} consoles");
}

#[test]
fn the_traces_of_the_pages_are_real() {
    let mut quoted = 0;
    for name in pages() {
        let page = read(&name);
        let mut now = page.clone();
        let shown = blocks(&page).into_iter();
        let shown: Vec<Block> =
            shown.filter(|block| block.language.split(' ').count() == 3).collect();
        if shown.is_empty() {
            continue; // Another test may rewrite the page.
        }
        for block in shown {
            let words: Vec<&str> = block.language.split(' ').collect();
            let ["trace", driver, scenario] = words[..] else { panic!("{name}: {words:?}") };
            let events: Vec<String> =
                flown(driver, scenario, 1).events.iter().map(ToString::to_string).collect();
            let mut events = events.iter();
            let mut real = String::new();
            for line in block.text.lines() {
                let event = events.find(|event| unnumbered(event) == unnumbered(line));
                real.push_str(event.unwrap_or_else(|| panic!("{name}: not in the trace: {line}")));
                real.push('\n');
                quoted += 1;
            }
            now = now.replace(&block.text, &real);
        }
        compare(&name, &now);
    }
    assert!(quoted > 10, "{quoted} lines");
}

/// Every block has a language that some test compares, or is a list of commands or a drawing.
#[test]
fn no_block_shows_output_that_nothing_compares() {
    // `sh` is run by `server::the_commands_of_the_page_run`, and in docs/fly-your-driver.md by `tools`.
    // `c` is compiled by `cc`.
    const COMPARED: [&str; 9] =
        ["rust", "toml", "text", "trace", "console", "dependencies", "report", "sh", "c"];
    const PROGRAMS: [&str; 7] = [
        "cargo ",
        "gcc ",
        "clang ",
        "export ",
        "WINDTUNNEL_",
        "windtunnel ",
        "target/release/windtunnel ",
    ];
    for name in pages() {
        for Block { language, text } in blocks(&read(&name)) {
            let first = language.split(' ').next().unwrap_or_default();
            let drawing = text.contains('►') || text.contains('─');
            let commands =
                text.lines().all(|line| PROGRAMS.iter().any(|program| line.starts_with(program)));
            let known =
                if first.is_empty() { drawing || commands } else { COMPARED.contains(&first) };
            assert!(known, "{name}: a block '{language}' that nothing compares:\n{text}");
        }
    }
}

#[test]
fn the_drivers_and_scenarios_in_commands_exist() {
    let mut checks = 0;
    for name in pages() {
        for block in blocks(&read(&name)) {
            for line in block.text.lines().map(|line| line.trim_start_matches("$ ")) {
                let Some(arguments) = arguments(line) else { continue };
                let [command, words @ ..] = &arguments[..] else { continue };
                if *command != "check" {
                    continue;
                }
                let mut words = words.iter();
                while let Some(word) = words.next() {
                    match *word {
                        "--scenario" => {
                            let scenario = words.next().unwrap();
                            assert!(find_scenario(scenario).is_some(), "{name}: {line}");
                        }
                        "--trace" | "--frames" | "--seed" | "--seeds" | "--host" | "--deny"
                        | "--umd" | "--allow" | "--write-baseline" | "--jobs" => {
                            words.next();
                        }
                        flag if flag.starts_with("--") => (),
                        // The reader's.
                        "DRIVER.sys" | "./DRIVER.so" | "first.sys" | "first.so" | "leaks.sys" => (),
                        driver => {
                            let built = driver.strip_prefix("target/drivers/");
                            let known =
                                Driver::find(driver).is_some() || built.is_some_and(is_built);
                            assert!(known, "{name}: {line}");
                        }
                    }
                }
                checks += 1;
            }
        }
    }
    assert!(checks > 20, "{checks} commands");
}

/// Whether `cargo xtask drivers` builds a file.
fn is_built(file: &str) -> bool {
    let Some(name) = file.strip_suffix(".sys").or(file.strip_suffix(".so")) else { return false };
    match name.strip_prefix("bad/") {
        Some(bad) => read("drivers/c/flaws.toml").contains(&format!("name = \"{bad}\"")),
        None => root().join("drivers/c").join(name).is_dir(),
    }
}

/// The files that the pages quote as a driver of the reader name no crate but `windtunnel`.
#[test]
fn the_drivers_of_the_pages_need_no_other_crate() {
    let manifest = read("Cargo.toml");
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let rows = section.split("\n[").next().unwrap().lines();
    let names = rows.filter_map(|row| Some(row.split_once(" = ")?.0.replace('-', "_")));
    let others: Vec<String> = names.filter(|name| name != "windtunnel").collect();
    assert!(others.iter().any(|name| name == "stream"), "{others:?}");
    for file in ["miniport", "broken", "minidriver", "umd"] {
        let text = read(&format!("tests/tutorial/{file}.rs"));
        for line in text.lines().filter(|line| !line.starts_with("use windtunnel::")) {
            let code = line.split("//").next().unwrap_or_default();
            let word = |character: char| character.is_alphanumeric() || "_:".contains(character);
            for path in code.split(|character: char| !word(character)) {
                let first = path.split_once("::").map(|(first, _)| first.to_owned());
                let foreign = first.is_some_and(|first| others.contains(&first));
                assert!(!foreign, "tests/tutorial/{file}.rs: {line}");
            }
        }
    }
    for page in ["docs/tutorial.md", "docs/avstream.md"] {
        let shown = blocks(&read(page)).into_iter().find(|block| block.language == "toml");
        let shown = shown.unwrap_or_else(|| panic!("{page} shows its Cargo.toml lines")).text;
        let dependencies = shown.split("[dependencies]\n").nth(1).unwrap();
        let line = "windtunnel = { path = \"../windtunnel/crates/windtunnel\" }\n";
        assert_eq!(dependencies, line, "{page}");
    }
}
