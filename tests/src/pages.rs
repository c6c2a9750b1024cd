//! The documentation pages, and what they quote.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// The text of a file, by its path from the root.
pub fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// The code blocks of a page in one language.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("\n```{language}\n");
    let rest = page.split(&begin).skip(1);
    rest.filter_map(|text| Some(text.split_once("```")?.0.to_owned())).collect()
}

/// An event of a trace without its number, because earlier events change the number.
pub fn unnumbered(line: &str) -> &str {
    line.split_once(' ').map_or(line, |(_, event)| event)
}

/// Compares a page with its expected text, or rewrites it (`cargo xtask docs`).
pub fn compare(name: &str, now: &str) {
    if std::env::var_os("WINDTUNNEL_BLESS").is_some() {
        let path = root().join(name);
        std::fs::write(&path, now).unwrap_or_else(|why| panic!("{name}: {why}"));
        return;
    }
    let page = read(name);
    let lines = page.lines().zip(now.lines()).enumerate();
    let stale =
        lines.filter(|(_, (page, now))| page != now).map(|(index, lines)| (index + 1, lines));
    let stale: Option<(usize, (&str, &str))> = stale.take(1).next();
    assert!(page == now, "{name} is stale, {stale:?}; 'cargo xtask docs' rewrites it");
}
