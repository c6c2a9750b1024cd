//! `cargo xtask measure`: counts what should become fewer.

use crate::sources::{Source, has_extension, in_identifier, read, words};
use std::fmt::Write;

pub(crate) const HELP: &str = "\
cargo xtask measure counts lines, test programs, methods of the kernel's types, silent exits,
                    and words that LANGUAGE.md retires, and prints a table; with --json it
                    prints an object";

/// Pronouns for people, which must not stand for threads and drivers.
const PRONOUNS: [&str; 5] = ["who", "whoever", "nobody", "somebody", "whom"];

/// Folders where `word` means a driver handle.
const DRIVER_HANDLES: [&str; 4] = ["crates/kernel/", "crates/port/", "crates/softgpu/", "drivers/"];

/// One number: its key in JSON, what it counts, and the count.
struct Row {
    key: &'static str,
    what: &'static str,
    count: usize,
}

pub(crate) fn run() -> Result<(), String> {
    let rows = measure(&read(&["rs", "md", "toml"])?);
    let as_json = std::env::args().any(|argument| argument == "--json");
    print!("{}", if as_json { json(&rows) } else { table(&rows) });
    Ok(())
}

fn measure(sources: &[Source]) -> Vec<Row> {
    let sum = |chosen: &dyn Fn(&str) -> bool, count: &dyn Fn(&str) -> usize| -> usize {
        sources.iter().filter(|source| chosen(&source.path)).map(|source| count(&source.text)).sum()
    };
    let rust = |path: &str| has_extension(path, "rs");
    let prose = |path: &str| rust(path) || has_extension(path, "md");
    let kernel = |path: &str| rust(path) && path.starts_with("crates/kernel/");
    let kernels = |path: &str| kernel(path) || rust(path) && path.starts_with("crates/stream/");
    let handles =
        |path: &str| rust(path) && DRIVER_HANDLES.iter().any(|folder| path.starts_with(folder));
    let row = |key, what, count| Row { key, what, count };
    vec![
        row("rust_lines", "lines of Rust", sum(&rust, &|text| text.lines().count())),
        row("test_programs", "integration-test programs", programs(sources).len()),
        row(
            "kernel_methods",
            "methods of Kernel",
            sum(&kernel, &|text| methods(text, &["Kernel"])),
        ),
        row(
            "state_methods",
            "methods of KernelState",
            sum(&kernel, &|text| methods(text, &["KernelState"])),
        ),
        row(
            "silent_exits",
            "else { return } and else { continue } in kernel and stream",
            sum(&kernels, &silent_exits),
        ),
        row("pronouns", "who, whoever, nobody, somebody, whom", sum(&prose, &pronouns)),
        row(
            "driver_words",
            "word, words in kernel, port, softgpu and drivers",
            sum(&handles, &|text| {
                words(text).filter(|word| matches!(*word, "word" | "words")).count()
            }),
        ),
        row("it_closures", "closures over |it|", sum(&rust, &it_closures)),
    ]
}

/// The integration-test programs that `cargo test` builds, by the path of their main file. A
/// `[[test]]` with `required-features` is a separate build and does not count.
pub(crate) fn programs(sources: &[Source]) -> Vec<String> {
    let manifests = sources.iter().filter(|source| {
        source.path.ends_with("Cargo.toml")
            && source.text.contains("[package]")
            && !source.path.starts_with("fuzz/")
    });
    let mut found = Vec::new();
    for manifest in manifests {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let sections = manifest.text.split("\n[").filter(|section| section.starts_with("[test]]"));
        let listed =
            sections.filter(|section| !section.contains("required-features")).filter_map(path_of);
        found.extend(listed.map(|path| format!("{folder}{path}")));
        if manifest.text.contains("autotests = false") {
            continue;
        }
        let tests = format!("{folder}tests/");
        let is_program = |path: &str| match path.strip_prefix(&tests).map(|rest| rest.split('/')) {
            Some(mut rest) => match (rest.next(), rest.next(), rest.next()) {
                (Some(file), None, None) => has_extension(file, "rs"),
                (Some(_), Some("main.rs"), None) => true,
                _ => false,
            },
            None => false,
        };
        let paths = sources.iter().map(|source| &source.path).filter(|path| is_program(path));
        found.extend(paths.cloned());
    }
    found
}

/// The `path` of a section of a manifest.
fn path_of(section: &str) -> Option<&str> {
    section.lines().find_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'))
}

/// The functions in `impl TYPE {` blocks, of a file in the form that rustfmt gives it.
fn methods(text: &str, types: &[&str]) -> usize {
    let mut inside = false;
    let mut count = 0;
    for line in text.lines() {
        if let Some(block) = line.strip_prefix("impl ") {
            inside = block.strip_suffix(" {").is_some_and(|name| types.contains(&name));
        } else if line == "}" {
            inside = false;
        } else if inside && is_method(line) {
            count += 1;
        }
    }
    count
}

/// Whether a line begins a function of an `impl` block: it is indented once.
fn is_method(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with([' ', '/'])) else {
        return false;
    };
    line.split(' ')
        .find(|token| !token.starts_with("pub") && !["const", "async", "unsafe"].contains(token))
        == Some("fn")
}

fn silent_exits(text: &str) -> usize {
    let exits = |rest: &&str| {
        let rest = rest.trim_start();
        ["return", "continue"].iter().any(|exit| {
            rest.strip_prefix(exit).is_some_and(|after| !after.starts_with(in_identifier))
        })
    };
    text.split("else {").skip(1).filter(exits).count()
}

fn pronouns(text: &str) -> usize {
    words(text)
        .filter(|word| PRONOUNS.iter().any(|pronoun| pronoun.eq_ignore_ascii_case(word)))
        .count()
}

/// How often `|it`, `|&it` and `|mut it` begin the arguments of a closure.
fn it_closures(text: &str) -> usize {
    let begins = |rest: &&str| {
        let rest = rest.strip_prefix('&').unwrap_or(rest);
        let rest = rest.strip_prefix("mut ").unwrap_or(rest);
        rest.strip_prefix("it").is_some_and(|after| !after.starts_with(in_identifier))
    };
    text.split('|').skip(1).filter(begins).count()
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { what, count, .. } in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{count:>8}  {what}");
    }
    text
}

fn json(rows: &[Row]) -> String {
    let pairs: Vec<String> =
        rows.iter().map(|Row { key, count, .. }| format!("  \"{key}\": {count}")).collect();
    format!("{{\n{}\n}}\n", pairs.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn methods_of_the_named_types_are_counted_and_their_bodies_are_not() {
        let text = "impl Kernel {\n    pub(crate) const fn one() {\n        fn inner() {}\n    }\n\n    \
                    /// A fn in prose.\n    fn two(&self) {}\n}\n\nimpl Other {\n    fn three() {}\n}\n\n\
                    impl Drop for Kernel {\n    fn drop(&mut self) {}\n}\n";
        assert_eq!(methods(text, &["Kernel"]), 2);
        assert_eq!(methods(text, &["KernelState"]), 0);
    }

    #[test]
    fn exits_are_counted_on_one_line_and_on_three() {
        let text = "let Some(a) = b else { return };\nlet c = d else {\n    continue;\n};\n\
                    let e = if f { g } else { returned };\nlet h = i else { return None };\n";
        assert_eq!(silent_exits(text), 3);
    }

    #[test]
    fn words_are_whole_and_in_any_case() {
        assert_eq!(pronouns("Who asks? Nobody, of the whole whoever_is."), 2);
        assert_eq!(it_closures("|it| |&it| |mut it| |it: u8| |item| a || it"), 4);
    }

    #[test]
    fn a_program_is_listed_or_found_unless_it_has_a_build_of_its_own() {
        let listed = "[package]\nautotests = false\n\n[[test]]\nname = \"a\"\npath = \"a/main.rs\"\n\n\
                      [[test]]\nname = \"b\"\npath = \"b.rs\"\nrequired-features = [\"b\"]\n";
        let sources = [
            source("Cargo.toml", "[workspace]\n"),
            source("tests/Cargo.toml", listed),
            source("tests/tests/ignored.rs", ""),
            source("crates/one/Cargo.toml", "[package]\n"),
            source("crates/one/tests/c.rs", ""),
            source("crates/one/tests/d/main.rs", ""),
            source("crates/one/tests/d/part.rs", ""),
        ];
        let expected = ["tests/a/main.rs", "crates/one/tests/c.rs", "crates/one/tests/d/main.rs"];
        assert_eq!(programs(&sources), expected);
    }

    /// Each program links the whole workspace, so there are few.
    #[test]
    fn there_are_at_most_six_integration_test_programs_and_all_are_in_tests() {
        let programs = programs(&read(&["rs", "toml"]).unwrap());
        assert!(programs.len() <= 6, "{programs:?}");
        assert!(programs.iter().all(|path| path.starts_with("tests/")), "{programs:?}");
    }
}
