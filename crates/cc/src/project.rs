//! Projects of `MSBuild` (`.vcxproj`): the sources, defines, include folders and the language
//! standard of the configuration `Release|x64`.
//!
//! A condition is read by what it names: the configuration, or none. Properties that other files
//! set are not known; a folder that needs one is left out.

use crate::names;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The configuration that is built.
const CONFIGURATION: &str = "Release|x64";

/// What a project says of a driver.
#[derive(Debug, Default)]
pub struct Project {
    /// The name of the driver's file, without extension.
    pub name: String,
    /// C and C++ sources.
    pub sources: Vec<PathBuf>,
    /// `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Include folders.
    pub folders: Vec<PathBuf>,
    /// `c++17` and the like, if the project says one.
    pub standard: Option<String>,
    /// What is not built, with the reason.
    pub skipped: Vec<String>,
}

impl Project {
    /// Reads a project.
    pub fn read(path: &Path) -> Result<Self, String> {
        let path = fs::canonicalize(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let mut project = Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            ..Self::default()
        };
        let mut properties: BTreeMap<String, String> = [
            ("ProjectDir".to_owned(), format!("{}/", folder.display())),
            ("SolutionDir".to_owned(), format!("{}/", solution(&folder).display())),
            ("Platform".to_owned(), "x64".to_owned()),
            ("Configuration".to_owned(), "Release".to_owned()),
            ("MSBuildProjectName".to_owned(), project.name.clone()),
            ("ProjectName".to_owned(), project.name.clone()),
        ]
        .into();
        for element in elements(&text) {
            project.element(&element, &folder, &mut properties)?;
        }
        if project.sources.is_empty() {
            return Err(format!("{} names no C or C++ sources", path.display()));
        }
        if let Some(name) = properties.get("TargetName") {
            project.name.clone_from(name);
        }
        Ok(project)
    }

    fn element(
        &mut self,
        element: &Element,
        folder: &Path,
        properties: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let Some(name) = element.path.last() else { return Ok(()) };
        if let Some(file) = &element.include {
            match name.as_str() {
                "ClCompile" => {
                    let found = names::find(folder, &expand(file, properties));
                    let found = found.ok_or_else(|| format!("there is no source {file}"))?;
                    self.sources.push(found);
                }
                "ResourceCompile" => self.skipped.push(format!("{file}: a resource")),
                "MASM" => self.skipped.push(format!("{file}: an assembler source")),
                "MessageCompile" | "Midl" => {
                    self.skipped.push(format!("{file}: needs a generator of the kit"));
                }
                _ => (),
            }
        }
        let text = expand(&element.text, properties);
        if text.is_empty() {
            return Ok(());
        }
        let is_compiler = element.path.iter().any(|part| part == "ClCompile");
        match name.as_str() {
            "PreprocessorDefinitions" if is_compiler => {
                let defines = text.split(';').map(str::trim).filter(|it| !it.is_empty());
                self.defines.extend(defines.map(str::to_owned));
            }
            "AdditionalIncludeDirectories" if is_compiler => self.add_folders(folder, &text),
            "IncludePath" => self.add_folders(folder, &text),
            "AdditionalOptions" if is_compiler => {
                let standard = text.split_whitespace().find_map(|it| it.strip_prefix("/std:"));
                self.standard = standard.map(str::to_owned).or(self.standard.take());
            }
            "LanguageStandard" if is_compiler => {
                let number = text.strip_prefix("stdcpp").map(|number| format!("c++{number}"));
                self.standard = number.or(self.standard.take());
            }
            _ if element.path.iter().any(|part| part == "PropertyGroup") => {
                properties.insert(name.clone(), text);
            }
            _ => (),
        }
        Ok(())
    }

    /// Adds folders that exist.
    fn add_folders(&mut self, from: &Path, text: &str) {
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            if let Some(found) = names::find(from, part)
                && found.is_dir()
                && !self.folders.contains(&found)
            {
                self.folders.push(found);
            }
        }
    }
}

/// The nearest folder above with a solution, or the folder itself.
fn solution(folder: &Path) -> PathBuf {
    let has_solution = |folder: &&Path| {
        fs::read_dir(folder).is_ok_and(|mut entries| {
            entries.any(|entry| {
                entry.is_ok_and(|it| it.path().extension().is_some_and(|found| found == "sln"))
            })
        })
    };
    folder.ancestors().take(4).find(has_solution).unwrap_or(folder).to_owned()
}

/// Replaces properties by their values. What needs an unknown one is left out, as are inherited
/// lists (`%(...)`).
fn expand(text: &str, properties: &BTreeMap<String, String>) -> String {
    let part = |part: &str| {
        let mut whole = String::new();
        let mut rest = part;
        while let Some(at) = rest.find("$(") {
            let end = rest[at..].find(')')? + at;
            whole.push_str(&rest[..at]);
            whole.push_str(properties.get(&rest[at + 2..end])?);
            rest = &rest[end + 1..];
        }
        Some(whole + rest)
    };
    let parts = text.split(';').filter(|it| !it.trim().starts_with("%("));
    parts.filter_map(part).collect::<Vec<_>>().join(";").trim().to_owned()
}

/// An element that applies to the configuration.
struct Element {
    /// The names of the elements around it, and its own.
    path: Vec<String>,
    include: Option<String>,
    text: String,
}

/// The elements of a project, in order. An element of another configuration is not among them.
fn elements(text: &str) -> Vec<Element> {
    let mut found: Vec<Element> = Vec::new();
    // Each open element, whether it applies, and its place in `found`.
    let mut open: Vec<(String, bool, usize)> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, after) = rest.split_at(at);
        if let Some((_, true, index)) = open.last() {
            found[*index].text.push_str(&plain(before));
        }
        if let Some(comment) = after.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let Some((tag, next)) = after[1..].split_once('>') else { break };
        rest = next;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if tag.starts_with('/') {
            open.pop();
            continue;
        }
        let name = tag.split([' ', '\t', '\r', '\n', '/']).next().unwrap_or_default();
        let outer = open.last().is_none_or(|(_, applies, _)| *applies);
        let applies = outer && attribute(tag, "Condition").is_none_or(|text| is_ours(&text));
        if applies {
            let mut path: Vec<String> = open.iter().map(|(name, ..)| name.clone()).collect();
            path.push(name.to_owned());
            let include = attribute(tag, "Include");
            found.push(Element { path, include, text: String::new() });
        }
        if !tag.ends_with('/') {
            open.push((name.to_owned(), applies, found.len().saturating_sub(1)));
        }
    }
    found
}

/// Whether a condition holds for the configuration: it names it, or no configuration.
fn is_ours(condition: &str) -> bool {
    let names_one = condition.contains("$(Configuration)|$(Platform)");
    let is_default = condition.contains("== ''") || condition.contains("==''");
    if names_one { condition.contains(&format!("'{CONFIGURATION}'")) } else { !is_default }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(plain(rest.split_once('"')?.0))
}

/// Text without entities.
fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_the_values_of_its_configuration() {
        let text = "<Project><!-- <ClCompile Include=\"no.c\"/> --><ItemGroup>\
                    <ClCompile Include=\"A.c\" /><ResourceCompile Include=\"a.rc\"/></ItemGroup>\
                    <ItemDefinitionGroup Condition=\"'$(Configuration)|$(Platform)'=='Debug|x64'\">\
                    <ClCompile><PreprocessorDefinitions>DEBUGGED</PreprocessorDefinitions>\
                    </ClCompile></ItemDefinitionGroup><ItemDefinitionGroup Condition=\
                    \"'$(Configuration)|$(Platform)'=='Release|x64'\"><ClCompile>\
                    <PreprocessorDefinitions>%(PreprocessorDefinitions);ONE=1;TWO\
                    </PreprocessorDefinitions><AdditionalOptions>/std:c++17 /x</AdditionalOptions>\
                    </ClCompile></ItemDefinitionGroup></Project>";
        let folder =
            std::env::temp_dir().join(format!("windtunnel-project-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.C"), "").unwrap();
        fs::write(folder.join("drv.vcxproj"), text).unwrap();
        let project = Project::read(&folder.join("drv.vcxproj")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(project.name, "drv");
        assert_eq!(project.defines, ["ONE=1", "TWO"]);
        assert_eq!(project.standard.as_deref(), Some("c++17"));
        assert!(project.sources[0].ends_with("a.C"), "{:?}", project.sources);
        assert_eq!(project.skipped, ["a.rc: a resource"]);
    }
}
