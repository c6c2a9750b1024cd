//! Facts of documented interfaces that `abi` does not state, and the C forms of structures whose
//! bits and unions `abi` reads as numbers: `crates/abi/facts/layouts.txt`.

use super::emit::line;
use super::km::POINTERS;
use super::read::Definition;
use crate::root;

/// A fact: the definition of a name.
pub(super) struct Fact {
    pub(super) name: String,
    /// The header that the documentation names.
    pub(super) header: String,
    kind: String,
    /// What follows the header in the first line.
    rest: String,
    lines: Vec<String>,
}

/// All facts.
pub(super) struct Facts {
    constants: Vec<(String, String)>,
    /// Names of pointers that are not the name of the structure with a `P`.
    pointers: Vec<(String, String)>,
    pub(super) facts: Vec<Fact>,
}

/// The versions of the interface by name, oldest first, as the facts name them.
const FIRST_VERSION: &str = "VISTA";
const LAST_VERSION: &str = "WDDM3_1";

impl Facts {
    /// Reads the file.
    pub(super) fn read() -> Result<Self, String> {
        let path = root().join("crates/abi/facts/layouts.txt");
        let text = std::fs::read_to_string(&path)
            .map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut all = Self { constants: Vec::new(), pointers: Vec::new(), facts: Vec::new() };
        for row in text.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
            if row.starts_with(' ') {
                if let Some(fact) = all.facts.last_mut() {
                    fact.lines.push(row.to_owned());
                }
                continue;
            }
            let words: Vec<&str> = row.splitn(4, ' ').collect();
            let word = |at: usize| words.get(at).copied().unwrap_or_default().to_owned();
            match words[0] {
                "constant" => all.constants.push((word(1), word(2))),
                "pointer" => {
                    let stars = "*".repeat(word(3).parse().unwrap_or(1));
                    all.pointers.push((word(1), format!("{} {stars}{}", word(2), word(1))));
                }
                _ => all.facts.push(Fact {
                    name: word(1),
                    header: word(2),
                    kind: word(0),
                    rest: word(3),
                    lines: Vec::new(),
                }),
            }
        }
        all
    }

    /// The constants, as C writes them.
    pub(super) fn constants(&self) -> Vec<Definition> {
        let constant = |(name, value): &(String, String)| {
            let value = if value.starts_with('-') { value.clone() } else { format!("{value}u") };
            Definition::Constant { name: name.clone(), value }
        };
        self.constants.iter().map(constant).collect()
    }

    /// The definitions of the facts, each with its header.
    pub(super) fn definitions(&self) -> Vec<(String, Definition)> {
        let mut all: Vec<(String, Definition)> = self
            .facts
            .iter()
            .map(|fact| {
                let definition = Definition::Fact {
                    name: fact.name.clone(),
                    text: fact.text(),
                    words: fact.enumerators(),
                    is_struct: fact.is_struct(),
                };
                (fact.header.clone(), definition)
            })
            .collect();
        for (name, declared) in &self.pointers {
            let of = declared.split(' ').next().unwrap_or_default().trim_start_matches('_');
            if let Some(fact) = self.facts.iter().find(|fact| fact.name == of) {
                let text = format!("typedef {};\n", declared.trim_start_matches('_'));
                let (name, words) = (name.clone(), Vec::new());
                let pointer = Definition::Fact { name, text, words, is_struct: false };
                all.push((fact.header.clone(), pointer));
            }
        }
        all
    }
}

impl Fact {
    fn is_struct(&self) -> bool {
        matches!(self.kind.as_str(), "struct" | "union")
            || self.kind == "opaque" && !self.is_function_name()
    }

    fn is_function_name(&self) -> bool {
        self.name.starts_with("DXGKDDI") || self.is_pointer()
    }

    /// Whether the name is that of a pointer to a function.
    fn is_pointer(&self) -> bool {
        let start = |start: &&str| *start != "DXGK_" && self.name.starts_with(*start);
        POINTERS.iter().any(|it| start(it))
    }

    /// The names of an enumeration's values.
    fn enumerators(&self) -> Vec<String> {
        let name = |row: &String| row.trim().split(" =").next().unwrap_or_default().to_owned();
        if self.kind == "enum" { self.lines.iter().map(name).collect() } else { Vec::new() }
    }

    /// The definition of a name whose facts are not known: its use as a value is an error of the
    /// compiler that says what is missing.
    fn opaque(&self) -> String {
        let (name, reason) = (&self.name, self.rest.replace(' ', "_"));
        if self.is_function_name() {
            let mut text = format!("/* No page states {}. */\n", self.rest);
            let tag = format!("windtunnel_lacks_{reason}_of_{name}");
            line(&mut text, format_args!("typedef struct {tag} *P{name};"));
            if self.is_pointer() {
                line(&mut text, format_args!("typedef P{name} {name};"));
            }
            return text;
        }
        format!("typedef struct windtunnel_lacks_{reason}_of_{name} {name}, *P{name};\n")
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let name = &self.name;
        match self.kind.as_str() {
            "opaque" => text.push_str(&self.opaque()),
            "enum" => self.enumeration(&mut text),
            "callback" | "function" => {
                let row = self.lines.first().map_or("", |row| row.trim());
                let (returned, parameters) = row.split_once('(').unwrap_or((row, "void)"));
                let returned = returned.trim();
                if self.kind == "function" {
                    line(&mut text, format_args!("typedef {returned} NTAPI {name}({parameters};"));
                    line(&mut text, format_args!("typedef {name} *P{name};"));
                } else {
                    line(
                        &mut text,
                        format_args!("typedef {returned} (NTAPI *{name})({parameters};"),
                    );
                }
            }
            "typedef" => {
                let row = self.lines.first().map_or("", |row| row.trim());
                line(&mut text, format_args!("typedef {row};\nWINDTUNNEL_POINTERS({name});"));
            }
            _ => self.structure(&mut text),
        }
        text
    }

    fn enumeration(&self, text: &mut String) {
        let name = &self.name;
        line(text, format_args!("\ntypedef enum _{name} {{"));
        let (unknown, known): (Vec<&String>, Vec<&String>) =
            self.lines.iter().partition(|row| row.ends_with("= ?"));
        for row in &known {
            line(text, format_args!("    {},", row.trim()));
        }
        if known.is_empty() {
            line(text, format_args!("    {name}_WITHOUT_VALUES = 0,"));
        }
        line(text, format_args!("}} {name};\nWINDTUNNEL_POINTERS({name});"));
        for row in unknown {
            let value = row.trim().trim_end_matches(" = ?");
            line(text, format_args!("#define {value} windtunnel_lacks_the_value_of_{value}"));
        }
    }

    fn structure(&self, text: &mut String) {
        let (name, kind) = (&self.name, &self.kind);
        let pack = self.rest.strip_prefix("pack");
        if let Some(bytes) = pack {
            line(text, format_args!("\n#pragma pack(push, {bytes})"));
        }
        line(text, format_args!("\n{kind} _{name} {{"));
        let rows = self.lines.iter().filter(|row| row.starts_with("    "));
        let mut writer = Writer { text, groups: vec![Group::default()] };
        for row in rows {
            writer.row(row);
        }
        let offsets = writer.groups.remove(0).offsets;
        line(text, format_args!("}};"));
        if pack.is_some() {
            line(text, format_args!("#pragma pack(pop)"));
        }
        self.asserts(text, &offsets);
    }

    /// The sizes of the structure by interface version. The layout of the last is checked when the
    /// headers are used for it: a structure can have another that grows.
    fn asserts(&self, text: &mut String, offsets: &[(String, String)]) {
        let name = &self.name;
        for row in &self.lines {
            let Some(row) = row.trim().strip_prefix("sizeof ") else { continue };
            let (size, versions) = row.split_once(' ').unwrap_or((row, ""));
            let sized = format!("sizeof({name}) == {size}");
            let Some((from, to)) = versions.split_once("..") else {
                line(text, format_args!("WINDTUNNEL_LAYOUT({sized});"));
                continue;
            };
            if to == LAST_VERSION {
                line(text, format_args!("WINDTUNNEL_LAYOUT({sized});"));
                continue;
            }
            let version = |of: &str| format!("DXGKDDI_INTERFACE_VERSION_{of}");
            let mut condition = format!("DXGKDDI_INTERFACE_VERSION <= {}", version(to));
            if from != FIRST_VERSION {
                condition =
                    format!("DXGKDDI_INTERFACE_VERSION >= {} && {condition}", version(from));
            }
            line(text, format_args!("#if {condition}\nWINDTUNNEL_ASSERT({sized});\n#endif"));
        }
        for (member, offset) in offsets {
            line(text, format_args!("WINDTUNNEL_LAYOUT(offsetof({name}, {member}) == {offset});"));
        }
    }
}

/// A structure or union within a structure.
#[derive(Default)]
struct Group {
    /// Paths from the group, with offsets from the outermost structure.
    offsets: Vec<(String, String)>,
    is_guarded: bool,
}

/// Writes the members of a structure.
struct Writer<'text> {
    text: &'text mut String,
    groups: Vec<Group>,
}

impl Writer<'_> {
    fn row(&mut self, row: &str) {
        let (declaration, marks) = match row.rsplit_once(';') {
            Some((declaration, marks)) => (format!("{declaration};"), marks.to_owned()),
            None => row
                .split_once('{')
                .map(|(kind, marks)| (format!("{kind}{{"), marks.to_owned()))
                .unwrap_or_default(),
        };
        let marks: Vec<&str> = marks.split_whitespace().collect();
        let guard: Vec<String> = marks.iter().filter_map(|mark| condition(mark)).collect();
        let offset = marks.iter().find(|mark| mark.starts_with(|it: char| it.is_ascii_digit()));
        let is_guarded = !guard.is_empty();
        if is_guarded {
            line(self.text, format_args!("#if {}", guard.join(" && ")));
        }
        line(self.text, format_args!("{declaration}"));
        let declared = declaration.trim();
        if declared.ends_with('{') {
            self.groups.push(Group { offsets: Vec::new(), is_guarded });
            return;
        }
        let mut ends_guard = is_guarded;
        let name = declared_name(declared);
        if declared.starts_with('}')
            && let Some(group) = self.groups.pop()
        {
            ends_guard = group.is_guarded;
            let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
            if let Some(outer) = self.groups.last_mut() {
                let path = |(path, offset): (String, String)| (format!("{prefix}{path}"), offset);
                outer.offsets.extend(group.offsets.into_iter().map(path));
            }
        }
        if ends_guard {
            line(self.text, format_args!("#endif"));
        }
        if let Some(offset) = offset
            && let Some(group) = self.groups.last_mut()
        {
            group.offsets.push((name, (*offset).to_owned()));
        }
    }
}

/// The name that a member declares: a word before an array's length, or a function's.
fn declared_name(declaration: &str) -> String {
    let end = declaration.find("[").unwrap_or(declaration.len());
    let text = declaration[..end].trim_end_matches(';');
    if let Some((_, function)) = text.split_once("(NTAPI *") {
        return function.split(')').next().unwrap_or_default().to_owned();
    }
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    text.trim_end().rsplit(|it| !is_word(it)).next().unwrap_or_default().to_owned()
}

/// The condition of a mark `>=WDDM2_0` or `<WDDM2_0`.
fn condition(mark: &str) -> Option<String> {
    let (operator, version) = match mark.strip_prefix(">=") {
        Some(version) => (">=", version),
        None => ("<", mark.strip_prefix('<')?),
    };
    Some(format!("DXGKDDI_INTERFACE_VERSION {operator} DXGKDDI_INTERFACE_VERSION_{version}"))
}
