//! Checks that the kernel's rooms call downwards only.
//!
//! A room is a folder of `crates/kernel/src`. Functions are compared by name: a call is an error if
//! only rooms that the caller must not call define the name. Files beside the folders are not
//! rooms: each room may call them (`progress.rs` is how a lower room reaches a higher one), and
//! they may call each room. Nothing is checked before every folder of the table exists.

use crate::sources::{Source, in_identifier, read};
use std::collections::{BTreeMap, BTreeSet};

/// A room, and the rooms it may call besides itself.
type Row<'a> = (&'a str, &'a [&'a str]);

const ROOMS: [Row<'static>; 8] = [
    ("adapter", &["lifetime", "schedule", "memory", "sync", "ddi", "objects", "base"]),
    ("lifetime", &["schedule", "memory", "sync", "ddi", "objects", "base"]),
    ("schedule", &["memory", "sync", "ddi", "objects", "base"]),
    ("memory", &["sync", "ddi", "objects", "base"]),
    ("sync", &["ddi", "objects", "base"]),
    ("ddi", &["objects", "base"]),
    ("objects", &["base"]),
    ("base", &[]),
];

const FOLDER: &str = "crates/kernel/src/";

/// Methods of the standard library: the target of a call with this name is unknown.
const COMMON: &[&str] = &[
    "all",
    "and_then",
    "any",
    "as_mut",
    "as_ref",
    "as_slice",
    "chain",
    "clear",
    "clone",
    "cmp",
    "collect",
    "contains",
    "contains_key",
    "copied",
    "count",
    "default",
    "deref",
    "drain",
    "drop",
    "entry",
    "eq",
    "expect",
    "extend",
    "filter",
    "find",
    "first",
    "flush",
    "fmt",
    "from",
    "get",
    "get_mut",
    "hash",
    "index",
    "index_mut",
    "insert",
    "into",
    "into_iter",
    "is_empty",
    "is_none",
    "is_some",
    "iter",
    "iter_mut",
    "join",
    "keys",
    "last",
    "len",
    "load",
    "lock",
    "map",
    "max",
    "min",
    "name",
    "new",
    "next",
    "of",
    "or_insert",
    "pop",
    "position",
    "push",
    "range",
    "read",
    "remove",
    "replace",
    "retain",
    "rev",
    "set",
    "sort",
    "split",
    "split_off",
    "start",
    "store",
    "sum",
    "swap",
    "swap_remove",
    "take",
    "then",
    "unwrap",
    "unwrap_or",
    "values",
    "values_mut",
    "wake",
    "with",
    "write",
    "zip",
];

/// The calls that go to a room which the caller's room may not call.
fn upward_calls(sources: &[Source], rooms: &[Row<'_>]) -> Vec<String> {
    let exists = |room: &str| sources.iter().any(|source| in_folder(&source.path, room));
    if !rooms.iter().all(|(room, _)| exists(room)) {
        return Vec::new();
    }
    let sources: Vec<(&Source, Option<&str>, String)> = sources
        .iter()
        .filter(|source| source.path.starts_with(FOLDER))
        .map(|source| (source, room_of(&source.path, rooms), code(&source.text)))
        .collect();
    // The rooms that define a name; a file beside the folders stands as `None`.
    let mut defined: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for (_, room, code) in &sources {
        for (name, _) in named(code).filter(|(_, use_)| *use_ == Use::Definition) {
            defined.entry(name).or_default().insert(*room);
        }
    }
    let mut errors = Vec::new();
    for (source, room, code) in &sources {
        let Some(room) = *room else { continue };
        let may = rooms.iter().find(|(name, _)| *name == room).map_or(&[][..], |row| row.1);
        let allowed = |to: Option<&str>| to.is_none_or(|to| to == room || may.contains(&to));
        for (index, line) in code.lines().enumerate() {
            for (name, use_) in named(line) {
                let Some(homes) = defined.get(name).filter(|_| use_ == Use::Call) else { continue };
                if COMMON.contains(&name) || homes.iter().copied().any(allowed) {
                    continue;
                }
                let homes: Vec<&str> = homes.iter().copied().flatten().collect();
                let (path, number) = (&source.path, index + 1);
                errors.push(format!(
                    "{path}:{number}: {room} calls '{name}', which only {} defines",
                    homes.join(", ")
                ));
            }
        }
    }
    errors
}

/// Whether a file is in the folder of a room.
fn in_folder(path: &str, room: &str) -> bool {
    path.strip_prefix(FOLDER)
        .and_then(|rest| rest.strip_prefix(room))
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The room of a file: its folder, or the file beside the folder that has its name.
fn room_of<'a>(path: &str, rooms: &[Row<'a>]) -> Option<&'a str> {
    let root = |room: &str| path == format!("{FOLDER}{room}.rs");
    rooms.iter().map(|row| row.0).find(|room| in_folder(path, room) || root(room))
}

/// The code of a file without comments, strings and tests. Line numbers stay the same.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_string = false;
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if in_string => drop(characters.next()),
                '"' => in_string = !in_string,
                '/' if !in_string && characters.peek() == Some(&'/') => break,
                _ if in_string => {}
                _ => code.push(character),
            }
        }
        code.push('\n');
    }
    code
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Definition,
    Call,
}

/// The names of functions in a piece of code, where they are defined (`fn name`) or called
/// (`name(`). A macro's name is followed by `!`, so it is not a call.
fn named(code: &str) -> impl Iterator<Item = (&str, Use)> {
    let mut rest = code;
    let mut after_fn = false;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(in_identifier)?;
            let tail = &rest[start..];
            let end = tail.find(|character| !in_identifier(character)).unwrap_or(tail.len());
            let name = &tail[..end];
            rest = &tail[end..];
            let is_definition = std::mem::replace(&mut after_fn, name == "fn");
            let is_name = name.starts_with(|first: char| first.is_lowercase() || first == '_');
            if is_definition {
                return Some((name, Use::Definition));
            }
            if is_name && name != "fn" && rest.starts_with('(') {
                return Some((name, Use::Call));
            }
        }
    })
}

#[test]
fn rooms_of_the_kernel_call_downwards() {
    let errors = upward_calls(&read(&["rs"]).unwrap(), &ROOMS);
    assert!(errors.is_empty(), "{} upward calls:\n{}", errors.len(), errors.join("\n"));
}

#[test]
fn a_room_may_call_what_is_below_it() {
    for (index, (room, may)) in ROOMS.iter().enumerate() {
        let below: Vec<&str> = ROOMS[index + 1..].iter().map(|row| row.0).collect();
        assert_eq!(*may, below, "{room}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Row<'static>; 2] = [("upper", &["lower"]), ("lower", &[])];

    fn tree(files: &[(&str, &str)]) -> Vec<Source> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("{FOLDER}{path}"),
            text: (*text).to_owned(),
        };
        files.iter().map(source).collect()
    }

    const UPPER: (&str, &str) = (
        "upper/plan.rs",
        "impl Kernel {\n    fn advance(&self) {\n        self.place();\n    }\n}\n",
    );

    #[test]
    fn a_planted_upward_call_is_found_with_its_line() {
        let lower = "fn place(&self) {\n    // advance() in prose\n    self.advance();\n}\n";
        let found = upward_calls(&tree(&[UPPER, ("lower/extent.rs", lower)]), &TWO);
        let expected =
            "crates/kernel/src/lower/extent.rs:3: lower calls 'advance', which only upper defines";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_call_down_sideways_or_through_progress_is_none() {
        let lower = "fn place() {\n    helper();\n    passed();\n    log(\"advance()\");\n}\nfn helper() {}\n";
        let progress = ("progress.rs", "pub fn passed() {\n    advance();\n}\n");
        let found = upward_calls(&tree(&[UPPER, ("lower/extent.rs", lower), progress]), &TWO);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_name_that_a_lower_room_defines_too_is_no_upward_call() {
        let lower = "fn advance() {}\nfn place() {\n    advance();\n}\n";
        assert_eq!(upward_calls(&tree(&[UPPER, ("lower/extent.rs", lower)]), &TWO), [""; 0]);
    }

    #[test]
    fn calls_in_tests_do_not_count() {
        let lower = "fn place() {}\n\n#[cfg(test)]\nmod tests {\n    fn one() {\n        advance();\n    }\n}\n";
        assert_eq!(upward_calls(&tree(&[UPPER, ("lower/extent.rs", lower)]), &TWO), [""; 0]);
    }

    #[test]
    fn a_tree_without_all_folders_is_not_checked() {
        let lower = "fn place() {\n    advance();\n}\n";
        assert_eq!(upward_calls(&tree(&[UPPER, ("lower.rs", lower)]), &TWO), [""; 0]);
    }
}
