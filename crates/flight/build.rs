//! Generates the constants of `RuleId` from the catalogue.
//!
//! The catalogue is TOML, but only two keys of a row matter here, and each stands on a line of its
//! own, so a scan over the lines is enough. The tests of `verify` parse the whole file.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// A row of the catalogue: its id, and whether a judge is named.
struct Row {
    id: String,
    judge: Option<String>,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=rules.toml");
    let text = fs::read_to_string("rules.toml").expect("the catalogue is beside Cargo.toml");
    let mut rows = rows(&text);
    // The number of a rule is its place in the sorted list, so that a new row may stand anywhere.
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    let out = env::var_os("OUT_DIR").expect("cargo names the folder for generated files");
    fs::write(Path::new(&out).join("rules.rs"), generate(&rows)).expect("the folder is writable");
}

fn rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines() {
        if let Some(id) = value(line, "id") {
            assert!(rows.iter().all(|row| row.id != id), "rules.toml: {id} has two rows");
            rows.push(Row { id, judge: None });
        } else if let Some(judge) = value(line, "judge") {
            let row = rows.last_mut().expect("rules.toml: the id of a row is its first line");
            let known = ["entry", "history"].contains(&judge.as_str());
            assert!(
                known,
                "rules.toml: {}: a judge is 'entry' or 'history', not '{judge}'",
                row.id
            );
            row.judge = Some(judge);
        }
    }
    rows
}

/// The text of `key = "text"`.
fn value(line: &str, key: &str) -> Option<String> {
    let text = line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?;
    Some(text.to_owned())
}

fn generate(rows: &[Row]) -> String {
    let (live, waiting): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.judge.is_some());
    let mut constants = String::new();
    let (mut list, mut names, mut history) = (String::new(), String::new(), String::new());
    for (number, row) in live.into_iter().enumerate() {
        let (id, name) = (&row.id, constant(&row.id));
        let _ = writeln!(constants, "/// {id}\npub const {name}: RuleId = RuleId({number});");
        let _ = writeln!(list, "RuleId::{name},");
        let _ = writeln!(names, "{id:?},");
        if row.judge.as_deref() == Some("history") {
            let _ = writeln!(history, "RuleId::{name},");
        }
    }
    for row in waiting {
        let name = constant(&row.id);
        let doc = format!("/// {}: no judge is named in `rules.toml`.", row.id);
        let _ = writeln!(constants, "{doc}\npub const {name}: NotLive = NotLive;");
    }
    format!(
        "impl RuleId {{\n\
         {constants}\n\
         /// Every live rule, in the order of the ids.\n\
         pub const LIVE: &[RuleId] = &[{list}];\n\
         /// The live rules that functions over events judge (`judge = \"history\"`).\n\
         pub const HISTORY: &[RuleId] = &[{history}];\n\
         }}\n\
         const NAMES: &[&str] = &[{names}];\n"
    )
}

/// `ALLOC-CREATE-001` as the name of a constant.
fn constant(id: &str) -> String {
    id.replace('-', "_")
}
