//! Names of files as Windows compares them: without regard to case, and with either slash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The file that a path of a Windows source means, if there is one.
pub(crate) fn find(from: &Path, path: &str) -> Option<PathBuf> {
    let path = path.replace('\\', "/");
    let mut found = if path.starts_with('/') { PathBuf::from("/") } else { from.to_owned() };
    for part in Path::new(&path).components() {
        match part {
            Component::ParentDir => found = found.parent().map(Path::to_path_buf)?,
            Component::Normal(name) => {
                let exact = found.join(name);
                found = if exact.exists() { exact } else { other_case(&found, name.to_str()?)? };
            }
            _ => (),
        }
    }
    found.exists().then_some(found)
}

fn other_case(folder: &Path, name: &str) -> Option<PathBuf> {
    let same =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().eq_ignore_ascii_case(name);
    fs::read_dir(folder).ok()?.flatten().find(same).map(|entry| entry.path())
}

/// The text of a file system overlay of clang, in which the files of some folders have names in any
/// case, and some files the contents of others.
pub(crate) fn overlay(
    folders: &BTreeSet<PathBuf>,
    contents: &BTreeMap<PathBuf, PathBuf>,
) -> String {
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    let mut roots = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let files = entries.flatten().filter(|entry| entry.path().is_file()).map(|entry| {
            let name = entry.file_name();
            format!(
                "{{\"name\": {}, \"type\": \"file\", \"external-contents\": {}}}",
                quoted(Path::new(&name)),
                quoted(contents.get(&entry.path()).unwrap_or(&entry.path()))
            )
        });
        let mut files: Vec<String> = files.collect();
        files.sort();
        roots.push(format!(
            "{{\"name\": {}, \"type\": \"directory\", \"contents\": [\n{}]}}",
            quoted(folder),
            files.join(",\n")
        ));
    }
    format!(
        "{{\"version\": 0, \"case-sensitive\": \"false\", \"use-external-names\": \"false\", \
         \"roots\": [\n{}]}}\n",
        roots.join(",\n")
    )
}
