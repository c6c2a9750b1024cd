//! Checks that retired names are not used.
//!
//! `docs/retired-words.txt` lists them, each with its replacement. Every `*.rs` and `*.md` file is
//! checked except those in [`EXEMPT`].

use crate::root;
use crate::sources::{Source, in_identifier, read};

const LIST: &str = "docs/retired-words.txt";

/// Files that may have retired names: the first describes earlier versions, the second counts
/// pronouns.
const EXEMPT: [&str; 2] = ["CHANGELOG.md", "xtask/src/measure.rs"];

/// The line below which names are listed but not checked.
const PENDING: &str = "# pending";

/// A name or phrase, and its replacement.
struct Retired<'a> {
    name: &'a str,
    instead: &'a str,
}

/// The entries above the line `# pending`, and those below it.
type Entries<'a> = (Vec<Retired<'a>>, Vec<Retired<'a>>);

/// Reads lines `NAME -> WHAT IS WRITTEN INSTEAD`; other lines that begin with `#` are comments.
fn parse(list: &str) -> Result<Entries<'_>, String> {
    let (mut enforced, mut pending) = (Vec::new(), Vec::new());
    let mut is_pending = false;
    for (index, line) in list.lines().enumerate() {
        is_pending |= line.trim_end() == PENDING;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line
            .split_once(" -> ")
            .map(|(name, instead)| Retired { name: name.trim(), instead: instead.trim() });
        let entry = entry.filter(|entry| !entry.name.is_empty() && !entry.instead.is_empty());
        let entry = entry.ok_or_else(|| format!("{LIST}:{}: no 'NAME -> INSTEAD'", index + 1))?;
        if is_pending { &mut pending } else { &mut enforced }.push(entry);
    }
    Ok((enforced, pending))
}

/// A sentence for each line of a file and each retired name in it.
fn find(source: &Source, retired: &[Retired<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for Retired { name, instead } in retired.iter().filter(|entry| has(line, entry.name)) {
            let place = format!("{}:{}", source.path, index + 1);
            found.push(format!("{place}: '{name}' is retired, write '{instead}'"));
        }
    }
    found
}

/// Whether a line has a name as a whole: no letter, digit or underscore touches it.
fn has(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + name.len()..]);
        !before.ends_with(in_identifier) && !after.starts_with(in_identifier)
    })
}

fn list() -> String {
    std::fs::read_to_string(root().join(LIST)).unwrap()
}

#[test]
fn no_retired_name_is_in_the_repository() {
    let list = list();
    let (enforced, _) = parse(&list).unwrap();
    let sources = read(&["rs", "md"]).unwrap();
    for path in EXEMPT {
        assert!(sources.iter().any(|source| source.path == path), "{path} does not exist");
    }
    let sources = sources.iter().filter(|source| !EXEMPT.contains(&source.path.as_str()));
    let found: Vec<String> = sources.flat_map(|source| find(source, &enforced)).collect();
    assert!(found.is_empty(), "{} retired names:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_name_is_listed_once() {
    let list = list();
    let (enforced, pending) = parse(&list).unwrap();
    let mut names: Vec<&str> = enforced.iter().chain(&pending).map(|entry| entry.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(!names.is_empty());
}

#[test]
fn a_planted_name_is_found_with_its_line_and_a_pending_one_is_not() {
    let list =
        "# A comment.\nZork -> Plain\nzork phrase -> plain phrase\n\n# pending\nFrob -> Other\n";
    let (enforced, pending) = parse(list).unwrap();
    assert_eq!((enforced.len(), pending.len()), (2, 1));
    let text =
        "struct Zorks;\n/// A Zork.\nlet un_Zork = Frob;\na zork phrase, Zork::new()\n".to_owned();
    let found = find(&Source { path: "src/lib.rs".to_owned(), text }, &enforced);
    let expected = [
        "src/lib.rs:2: 'Zork' is retired, write 'Plain'",
        "src/lib.rs:4: 'Zork' is retired, write 'Plain'",
        "src/lib.rs:4: 'zork phrase' is retired, write 'plain phrase'",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_entry_without_a_replacement_is_an_error() {
    for list in ["Zork\n", "Zork -> \n", "# pending\nZork ->\n"] {
        assert!(parse(list).is_err(), "{list}");
    }
}
