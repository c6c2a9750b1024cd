//! The text files of the repository.

use crate::root;
use std::path::Path;

/// A file: its path from the root of the repository, with `/`, and its text.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads every file with one of these extensions, sorted by path. Skips build folders, the fuzz
/// corpus, and folders whose name begins with a dot.
pub(crate) fn read(extensions: &[&str]) -> Result<Vec<Source>, String> {
    let mut found = Vec::new();
    walk(&root(), "", extensions, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(
    folder: &Path,
    prefix: &str,
    extensions: &[&str],
    found: &mut Vec<Source>,
) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (path, place) = (format!("{prefix}{name}"), entry.path());
        if entry.file_type().map_err(failed)?.is_dir() {
            if name.starts_with('.') || name == "target" || path == "fuzz/corpus" {
                continue;
            }
            walk(&place, &format!("{path}/"), extensions, found)?;
        } else if extensions.iter().any(|ending| has_extension(&name, ending)) {
            let text = std::fs::read_to_string(&place)
                .map_err(|why| format!("{}: {why}", place.display()))?;
            found.push(Source { path, text });
        }
    }
    Ok(())
}

/// Whether a path has this extension.
pub(crate) fn has_extension(name: &str, extension: &str) -> bool {
    name.strip_suffix(extension).is_some_and(|stem| stem.ends_with('.'))
}

/// Whether a character can be part of an identifier.
pub(crate) fn in_identifier(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The identifiers, words and numbers of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character| !in_identifier(character)).filter(|word| !word.is_empty())
}
