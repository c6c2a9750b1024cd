//! The kernel's rooms call downwards.
//!
//! A room is a folder of `crates/kernel/src`. A call of a function that only rooms define which
//! the caller may not call is an error. Functions are compared by name, and by type where the
//! receiver's name tells it (`self`, `kernel`, `state`, `Type::`). Files beside the folders are no
//! room: each room may call them (`progress.rs` is how a lower room reaches a higher one), and they
//! may call each room. Nothing is checked before every folder of the table exists.

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

const BELOW: &str = "crates/flight/src/";

/// The calls that go to a room which the caller's room may not call.
fn upward_calls(sources: &[Source], rooms: &[Row<'_>]) -> Vec<String> {
    let exists = |room: &str| sources.iter().any(|source| in_folder(&source.path, room));
    if !rooms.iter().all(|(room, _)| exists(room)) {
        return Vec::new();
    }
    let in_kernel = |source: &&Source| source.path.starts_with(FOLDER) && !is_test(&source.path);
    let kernel: Vec<(&Source, Option<&str>, String)> = sources
        .iter()
        .filter(in_kernel)
        .map(|source| (source, room_of(&source.path, rooms), code(&source.text)))
        .collect();
    let below: Vec<String> = sources
        .iter()
        .filter(|source| source.path.starts_with(BELOW))
        .map(|source| code(&source.text))
        .collect();
    let mut functions = Functions::default();
    for (_, room, code) in &kernel {
        functions.add(code, *room);
    }
    for code in &below {
        functions.add(code, None);
    }
    let mut errors = Vec::new();
    for (source, room, code) in &kernel {
        let Some(room) = *room else { continue };
        let may = rooms.iter().find(|(name, _)| *name == room).map_or(&[][..], |row| row.1);
        let allowed = |to: Option<&str>| to.is_none_or(|to| to == room || may.contains(&to));
        for (number, owner, line, before) in numbered(code) {
            for call in named(line, before).filter(|found| !found.is_definition()) {
                let homes = functions.homes(&call, owner, code);
                if homes.is_empty() || homes.iter().copied().any(allowed) {
                    continue;
                }
                let homes: Vec<&str> = homes.iter().copied().flatten().collect();
                let (path, name) = (&source.path, call.name);
                errors.push(format!(
                    "{path}:{number}: {room} calls '{name}', which only {} defines",
                    homes.join(", ")
                ));
            }
        }
    }
    errors
}

/// The rooms that define a function; a file beside the folders, or of `flight`, stands as `None`.
type Homes<'a> = BTreeSet<Option<&'a str>>;

/// The functions of the kernel and of `flight`.
#[derive(Default)]
struct Functions<'a> {
    /// By type and name.
    of_types: BTreeMap<(&'a str, &'a str), Homes<'a>>,
    /// Functions of any type, by name.
    of_any_type: BTreeMap<&'a str, Homes<'a>>,
    /// Functions of no type, by name.
    free: BTreeMap<&'a str, Homes<'a>>,
}

impl<'a> Functions<'a> {
    fn add(&mut self, code: &'a str, room: Option<&'a str>) {
        for (_, owner, line, before) in numbered(code) {
            for found in named(line, before).filter(Named::is_definition) {
                match owner {
                    Some(owner) => {
                        self.of_types.entry((owner, found.name)).or_default().insert(room);
                        self.of_any_type.entry(found.name).or_default().insert(room);
                    }
                    // A macro makes it, for the type that it is used in.
                    None if line.starts_with(' ') => {
                        self.of_any_type.entry(found.name).or_default().insert(room);
                    }
                    None => {
                        self.free.entry(found.name).or_default().insert(room);
                    }
                }
            }
        }
    }

    /// The rooms that a call may go to: none, if it goes to another crate or a closure. A call
    /// whose receiver's type is not known from its name may go to each function of that name.
    fn homes(&self, call: &Named<'_>, owner: Option<&str>, code: &str) -> Homes<'a> {
        let of_type = |owner: &str| self.of_types.get(&(owner, call.name)).cloned();
        let of_any = || self.of_any_type.get(call.name).cloned();
        let found = match call.receiver {
            Receiver::Value("self") => owner.and_then(of_type).or_else(of_any),
            Receiver::Value("state" | "world") => of_type("KernelState").or_else(of_any),
            Receiver::Value("kernel") => of_type("Kernel").or_else(of_any),
            // A method of the standard library says nothing about where a call goes.
            Receiver::Value(_) if STANDARD.contains(&call.name) => None,
            Receiver::Value(_) => of_any(),
            Receiver::Path("Self") => owner.and_then(of_type),
            Receiver::Path(path) if path.starts_with(char::is_uppercase) => of_type(path),
            Receiver::None if code.contains(&format!("let {} =", call.name)) => None,
            Receiver::Path(_) | Receiver::None => self.free.get(call.name).cloned(),
            Receiver::Definition => None,
        };
        found.unwrap_or_default()
    }
}

/// Methods of the standard library that types of the kernel have, too.
const STANDARD: &[&str] = &[
    "all", "collect", "clear", "contains", "extend", "first", "get", "get_mut", "insert",
    "is_empty", "iter", "len", "push", "range", "release", "remove", "replace", "reserve", "take",
    "values", "wake",
];

/// Whether a file holds tests only.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_loom.rs")
}

/// The lines of a file with their numbers, the type whose block each is in, and the line before.
fn numbered(code: &str) -> impl Iterator<Item = (usize, Option<&str>, &str, &str)> {
    let (mut owner, mut before) = (None, "");
    code.lines().enumerate().map(move |(index, line)| {
        if let Some(block) = block_owner(line) {
            owner = Some(block);
        } else if line.starts_with('}') {
            owner = None;
        }
        (index + 1, owner, line, std::mem::replace(&mut before, line))
    })
}

/// The type of an `impl` block, or the trait, that begins in a line.
fn block_owner(line: &str) -> Option<&str> {
    let words = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
    let named = if let Some(rest) = words.strip_prefix("trait ") {
        rest
    } else {
        let rest = words.strip_prefix("impl")?;
        let rest = rest.strip_prefix('<').map_or(rest, |generic| {
            let mut depth = 1;
            let end = generic.find(|character| {
                depth += i32::from(character == '<') - i32::from(character == '>');
                depth == 0
            });
            end.map_or("", |end| &generic[end + 1..])
        });
        rest.split_once(" for ").map_or(rest, |pair| pair.1).trim_start()
    };
    let end = named.find(|character| !in_identifier(character) && character != ':');
    named[..end.unwrap_or(named.len())].trim_end_matches(':').rsplit("::").next()
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

/// The code of a file without its comments, strings and tests, each line where it was.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
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

/// What a function is called on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiver<'a> {
    /// Nothing is called: it is defined (`fn name`).
    Definition,
    /// `name()`
    None,
    /// `value.name()`; the value's last identifier, which is empty if it is an expression.
    Value(&'a str),
    /// `Path::name`
    Path(&'a str),
}

/// A function's name where it is defined or called.
struct Named<'a> {
    name: &'a str,
    receiver: Receiver<'a>,
}

impl Named<'_> {
    fn is_definition(&self) -> bool {
        self.receiver == Receiver::Definition
    }
}

/// The functions that a line defines or calls (`name(`), or names (`Path::name`). A macro's name
/// is followed by `!`, so it is no call. A chain may begin in the line before.
fn named<'a>(line: &'a str, before: &'a str) -> impl Iterator<Item = Named<'a>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        loop {
            start += line[start..].find(in_identifier)?;
            let tail = &line[start..];
            let length = tail.find(|character| !in_identifier(character)).unwrap_or(tail.len());
            let (name, ahead, rest) = (&tail[..length], &line[..start], &tail[length..]);
            start += length;
            let is_name = name.starts_with(|first: char| first.is_lowercase() || first == '_');
            let receiver = if ahead.ends_with("fn ") {
                Receiver::Definition
            } else if let Some(value) = ahead.strip_suffix('.') {
                let value = if value.trim().is_empty() { before } else { value };
                Receiver::Value(last_identifier(value))
            } else if let Some(path) = ahead.strip_suffix("::") {
                Receiver::Path(last_identifier(path))
            } else {
                Receiver::None
            };
            let named_only =
                matches!(receiver, Receiver::Path(path) if path.starts_with(char::is_uppercase));
            let is_call = rest.starts_with('(') || rest.starts_with("::<") || named_only;
            if is_name && (is_call || receiver == Receiver::Definition) {
                return Some(Named { name, receiver });
            }
        }
    })
}

/// The identifier at the end of a piece of code; empty, if it ends with something else.
fn last_identifier(code: &str) -> &str {
    let start = code.trim_end_matches(in_identifier).len();
    &code[start..]
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
    fn a_method_is_looked_up_in_the_type_of_its_receiver() {
        let log = Source {
            path: format!("{BELOW}log.rs"),
            text: "impl Log {\n    pub fn advance(&self) {}\n}\n".to_owned(),
        };
        let lower = "impl Kernel {\n    fn place(&self) {\n        self.log.advance();\n        \
                     let advance = || 1;\n        advance();\n    }\n}\n";
        let mut sources = tree(&[UPPER, ("lower/extent.rs", lower)]);
        sources.push(log);
        assert_eq!(upward_calls(&sources, &TWO), [""; 0]);
        for call in ["self.advance()", "kernel.advance()", "Kernel::advance", "Self::advance(it)"] {
            let lower =
                format!("impl Kernel {{\n    fn place(&self) {{\n        {call};\n    }}\n}}\n");
            sources[1] = tree(&[("lower/extent.rs", &lower)]).remove(0);
            assert_eq!(upward_calls(&sources, &TWO).len(), 1, "{call}");
        }
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
