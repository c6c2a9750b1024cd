//! The kernel-mode headers, under the names that driver authors include.
//!
//! Those of display drivers and `ks.h` are generated from `abi` and from the facts beside it
//! ([`Facts`]); a structure of both is written as the fact says and checked against `abi`. `wdm.h`
//! and `ntddk.h` are templates beside this file: `@types NAMES@` inserts structures of `abi`,
//! `@statuses@` its statuses. The other headers are written by hand.

use super::emit::{declare, flags, line};
use super::facts::Facts;
use super::read::{Definition, File, Member, word};
use super::source;
use crate::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use syn::Type;

const WDM: &str = include_str!("km/wdm.h.in");
const NTDDK: &str = include_str!("km/ntddk.h.in");
const KS_FUNCTIONS: &str = include_str!("km/ks_functions.h.in");
const DISPLAY_FUNCTIONS: &str = include_str!("km/dispmprt_functions.h.in");

/// Structures of `abi` that C has as part of another, or in a form of its own.
const NOT_OF_C: [&str; 3] =
    ["DXGK_DRIVERCAPS_WDDM2_9", "IKsReferenceClock", "IKsReferenceClockVtbl"];

/// How the names of types begin that are pointers to functions: the documentation has members of
/// these types. `DXGKDDI_...` is a function otherwise, and `PDXGKDDI_...` the pointer.
pub(super) const POINTERS: [&str; 9] = [
    "PFN",
    "DXGKCB_",
    "DXGKDDI_VIDPN",
    "DXGKDDI_MONITOR",
    "DXGKDDI_I2C_",
    "DXGKDDI_MIRACAST_",
    "DXGKDDI_OPM_",
    "DXGKDDI_PROTECTED_CALLBACK",
    "DXGK_",
];

/// The words of the user-mode emitter, and those of kernel-mode headers.
const WORDS: &[(&str, &str)] = &[
    ("uint8_t", "UCHAR"),
    ("uint16_t", "USHORT"),
    ("int16_t", "SHORT"),
    ("i16", "SHORT"),
    ("u32", "UINT"),
    ("uint32_t", "ULONG"),
    ("uint64_t", "ULONGLONG"),
    ("int32_t", "LONG"),
    ("int64_t", "LONGLONG"),
    ("size_t", "SIZE_T"),
    ("WINDTUNNEL_CALL", "NTAPI"),
    ("UNTYPED_FN", "PVOID"),
];

/// The headers of display drivers. Each includes the one before.
const GRAPHICS: [(&str, &str); 5] = [
    ("d3dukmdt", "Types that user-mode and kernel-mode display drivers share"),
    ("d3dkmdt", "Types of kernel-mode display drivers and of the D3DKMT entry points"),
    ("d3dkmthk", "The structures of the D3DKMT entry points"),
    ("d3dkmddi", "The interface of display miniport drivers"),
    ("dispmprt", "Initialization of display miniport drivers, and their tables"),
];

/// The interface version, and what depends on it.
const INTERFACE_VERSION: &str = "\
/* The interface version of a driver: the layouts depend on it. */
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM3_1
#endif
#if DXGKDDI_INTERFACE_VERSION < DXGKDDI_INTERFACE_VERSION_WDDM3_1
#undef WINDTUNNEL_LAYOUT
#define WINDTUNNEL_LAYOUT(that) WINDTUNNEL_ASSERT(1)
#endif

";

/// The headers, written by hand, that those of display drivers include besides `wdm.h`.
const PARTS_OF_WDM: [&str; 6] =
    ["wdm_executive", "wdm_io", "wdm_rtl", "windef", "acpiioct", "video"];

/// Each header with its path.
pub(super) fn generate() -> Result<Vec<(PathBuf, String)>, String> {
    let (types, statuses) = (source("types")?, source("status")?);
    let facts = Facts::read()?;
    let basic =
        Definitions::of(vec![source("types")?, source("miniport")?, source("miniport/device")?]);
    let wdm = template(WDM, &basic, &Definitions::of(vec![statuses]));
    let mut in_wdm = defined(&wdm);
    for part in PARTS_OF_WDM {
        let path = root().join("crates/abi/include/km").join(format!("{part}.h"));
        let text = std::fs::read_to_string(&path)
            .map_err(|reason| format!("{}: {reason}", path.display()))?;
        in_wdm.extend(defined(&text));
    }
    let mut graphics = Definitions::of(folders(&["ukm", "display"])?);
    let miniport = Definitions::of(folders(&["miniport"])?);
    let dispmprt: BTreeSet<String> = miniport.items.iter().map(|it| it.name().to_owned()).collect();
    graphics.extend(miniport);
    let mut ks = Definitions::of(folders(&["ks"])?);
    for all in [&mut graphics, &mut ks] {
        all.items.retain(|it| !in_wdm.contains(it.name()) && !names(&types).contains(it.name()));
    }
    let mut homes: BTreeMap<String, String> =
        dispmprt.into_iter().map(|name| (name, "dispmprt".to_owned())).collect();
    for it in facts.constants() {
        graphics.add(it);
    }
    for (header, it) in facts.definitions() {
        if header == "ks" {
            ks.add(it);
        } else {
            homes.insert(it.name().to_owned(), header);
            graphics.add(it);
        }
    }
    let home = |it: &Definition| match it {
        Definition::Constant { .. } => "d3dukmdt",
        _ => homes.get(it.name()).map_or("d3dkmddi", String::as_str),
    };
    let path = |name: &str| root().join("crates/abi/include/km").join(format!("{name}.h"));
    let mut written = in_wdm.clone();
    let mut headers = Vec::new();
    let mut include = "video";
    for (name, what) in GRAPHICS {
        let end = if name == "dispmprt" { DISPLAY_FUNCTIONS } else { "" };
        let text = graphics.header(name, what, include, end, &mut written, |it| home(it) == name);
        headers.push((path(name), text));
        include = name;
    }
    let what = "The interface of AVStream minidrivers";
    let mut written = in_wdm;
    let text = ks.header("ks", what, "windef", KS_FUNCTIONS, &mut written, |_| true);
    headers.extend([(path("ks"), text), (path("ntddk"), NTDDK.to_owned()), (path("wdm"), wdm)]);
    let mut names: Vec<&str> = GRAPHICS.iter().map(|(name, _)| *name).collect();
    names.push("ks");
    headers.push((root().join("docs/header-names.md"), facts.page(&names)));
    Ok(headers)
}

/// The names that a file of `abi` defines.
fn names(file: &File) -> BTreeSet<&str> {
    file.items.iter().map(Definition::name).collect()
}

/// The structures, enumerations and constants that a header defines.
fn defined(header: &str) -> BTreeSet<String> {
    let name = |row: &str| {
        let rest = ["typedef enum _", "typedef struct _", "typedef union _", "struct _"]
            .iter()
            .find_map(|start| row.strip_prefix(start)?.strip_suffix(" {"))
            .or_else(|| row.strip_prefix("#define ")?.split([' ', '(']).next())?;
        Some(rest.to_owned())
    };
    header.lines().filter_map(name).collect()
}

/// The modules of `abi` with these names, and the modules in them.
fn folders(names: &[&str]) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for name in names {
        let folder = root().join("crates/abi/src").join(name);
        let entries = std::fs::read_dir(&folder)
            .map_err(|reason| format!("{}: {reason}", folder.display()))?;
        let stem = |entry: std::fs::DirEntry| Some(entry.path().file_stem()?.to_str()?.to_owned());
        let mut inner: Vec<String> = entries.flatten().filter_map(stem).collect();
        inner.sort();
        files.push(source(name)?);
        for module in inner {
            files.push(source(&format!("{name}/{module}"))?);
        }
    }
    Ok(files)
}

/// Replaces the directives of a template.
fn template(text: &str, basic: &Definitions, statuses: &Definitions) -> String {
    let none = BTreeSet::new();
    let mut whole = String::new();
    for row in text.lines() {
        if row == "@statuses@" {
            for it in &statuses.items {
                if let Definition::Status { name, value } = it {
                    line(&mut whole, format_args!("#define {name} {value}"));
                }
            }
        } else if let Some(names) = row.strip_prefix("@types ") {
            for name in names.trim_end_matches('@').split(' ') {
                whole.push_str(&basic.declared(|other| other == name));
                whole.push_str(&localize(&basic.definition(name, &none), &none));
            }
        } else {
            line(&mut whole, format_args!("{row}"));
        }
    }
    whole
}

/// The definitions of one header.
struct Definitions {
    items: Vec<Definition>,
    layouts: BTreeMap<String, super::read::Layout>,
    lengths: BTreeMap<String, Vec<(String, u32)>>,
}

impl Definitions {
    fn of(files: Vec<File>) -> Self {
        let mut all =
            Self { items: Vec::new(), layouts: BTreeMap::new(), lengths: BTreeMap::new() };
        for mut file in files {
            file.items.retain(|it| !NOT_OF_C.contains(&it.name()));
            all.items.extend(file.items);
            all.layouts.extend(file.layouts);
            all.lengths.extend(file.lengths);
        }
        all
    }

    fn extend(&mut self, other: Self) {
        self.items.extend(other.items);
        self.layouts.extend(other.layouts);
        self.lengths.extend(other.lengths);
    }

    /// Adds a fact, in place of the definition of the same name. A constant of `abi` stays.
    fn add(&mut self, fact: Definition) {
        match self.items.iter_mut().find(|it| it.name() == fact.name()) {
            Some(Definition::Constant { .. }) => (),
            Some(there) => *there = fact,
            None => self.items.push(fact),
        }
    }

    /// The names of function types. In `abi` they are pointers, in C only some are ([`POINTERS`]).
    fn functions(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for it in &self.items {
            if let Definition::Alias { name, of } = it {
                let is_function = matches!(**of, Type::FnPtr(_))
                    || word(of).is_some_and(|target| names.contains(&target));
                if is_function && !POINTERS.iter().any(|start| name.starts_with(start)) {
                    names.insert(name.clone());
                }
            }
        }
        names
    }

    fn find(&self, name: &str) -> Option<&Definition> {
        let defines = |it: &&Definition| match it {
            Definition::Fact { words, .. } => {
                it.name() == name || words.iter().any(|word| word == name)
            }
            _ => it.name() == name,
        };
        self.items.iter().find(defines)
    }

    /// A header: forward declarations, then the definitions that it is `for_this`, in an order that
    /// C accepts.
    fn header(
        &self,
        name: &str,
        what: &str,
        include: &str,
        end: &str,
        written: &mut BTreeSet<String>,
        for_this: impl Fn(&Definition) -> bool,
    ) -> String {
        let guard = name.to_uppercase();
        let mut text = format!(
            "/*\n * {what}, with the layouts of 64-bit Windows.\n *\n * Generated by 'cargo xtask \
             headers' from crates/abi: change that. C11 or C++17, clang.\n */\n#ifndef \
             WINDTUNNEL_{guard}_H\n#define WINDTUNNEL_{guard}_H\n\n#include <{include}.h>\n\n#ifdef \
             __cplusplus\nextern \"C\" {{\n#endif\n\nWINDTUNNEL_LAYOUTS_BEGIN\n\n"
        );
        let functions = self.functions();
        let constants = |it: &&Definition| matches!(it, Definition::Constant { .. });
        let here = self.items.iter().filter(|it| for_this(it));
        for it in here.clone().filter(constants) {
            self.write(&mut text, it, &functions, written);
        }
        if name == GRAPHICS[0].0 {
            text.push_str(INTERFACE_VERSION);
        }
        if name == "ks" || name == GRAPHICS[0].0 {
            text.push_str(&self.declared(|_| true));
        }
        for it in here {
            self.write(&mut text, it, &functions, written);
        }
        text.push_str(end);
        text.push_str("\nWINDTUNNEL_LAYOUTS_END\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
        text
    }

    /// Structs can be pointed to before they are defined.
    fn declared(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        for it in self.items.iter().filter(|it| wanted(it.name())) {
            let name = it.name();
            match it {
                Definition::Struct { .. } | Definition::Table { .. } | Definition::Flags { .. } => {
                    line(&mut text, format_args!("typedef struct _{name} {name};"));
                }
                Definition::Fact { is_struct: true, text: fact, .. } => {
                    let kind = if fact.contains(&format!("union _{name} {{")) {
                        "union"
                    } else {
                        "struct"
                    };
                    let opaque = fact.starts_with("typedef struct ");
                    if opaque {
                        text.push_str(fact);
                    } else {
                        line(&mut text, format_args!("typedef {kind} _{name} {name};"));
                    }
                }
                _ => continue,
            }
            line(&mut text, format_args!("WINDTUNNEL_POINTERS({name});"));
        }
        text
    }

    /// Writes a definition after those it is made of.
    fn write(
        &self,
        text: &mut String,
        it: &Definition,
        functions: &BTreeSet<String>,
        written: &mut BTreeSet<String>,
    ) {
        if !written.insert(it.name().to_owned()) {
            return;
        }
        let own = match it {
            Definition::Fact { text, .. } if text.starts_with("typedef struct ") => return,
            _ => localize(&self.definition(it.name(), functions), functions),
        };
        let words: Vec<&str> =
            own.split(|character: char| !character.is_alphanumeric() && character != '_').collect();
        for word in words {
            let word =
                word.strip_prefix('P').filter(|name| functions.contains(*name)).unwrap_or(word);
            let pointer = || word.strip_prefix('P').and_then(|name| self.find(name));
            let Some(used) = self.find(word).or_else(pointer) else { continue };
            let pointed = own.contains(&format!("{word} *")) && !own.contains(&format!("{word} m"));
            let is_struct = matches!(
                used,
                Definition::Struct { .. }
                    | Definition::Table { .. }
                    | Definition::Fact { is_struct: true, .. }
            );
            if word != it.name() && !(is_struct && pointed && only_pointed(&own, word)) {
                self.write(text, used, functions, written);
            }
        }
        text.push_str(&own);
    }

    /// A definition with the checks of its layout, in the words of the user-mode emitter.
    fn definition(&self, name: &str, functions: &BTreeSet<String>) -> String {
        let mut text = String::new();
        let Some(it) = self.find(name) else { return text };
        match it {
            Definition::Alias { of, .. } => alias(&mut text, name, of, functions),
            Definition::Constant { value, .. } | Definition::Status { value, .. } => {
                line(&mut text, format_args!("#define {name} {value}"));
            }
            Definition::Guid { value, .. } => {
                line(
                    &mut text,
                    format_args!("static const GUID {name} __attribute__((unused)) = {value};"),
                );
                // In braces that an author writes.
                let flat = value.trim_matches(['{', '}', ' ']).replace("{ ", "").replace(" }", "");
                line(&mut text, format_args!("#define STATIC_{name} {flat}"));
            }
            Definition::Values { values, .. } => {
                line(&mut text, format_args!("\ntypedef enum _{name} {{"));
                for (value, number) in values {
                    line(&mut text, format_args!("    {value} = {number},"));
                }
                line(
                    &mut text,
                    format_args!("}} {name};\nWINDTUNNEL_ASSERT(sizeof({name}) == 4);"),
                );
            }
            Definition::Flags { bits, numbers, .. } => flags(&mut text, name, bits, *numbers),
            Definition::Struct { members, packing, .. } => {
                self.structure(&mut text, name, members, packing);
            }
            // A union is written where it is a member; a table is a fact, because it grows.
            Definition::Union { .. } | Definition::Table { .. } => (),
            Definition::Fact { text: fact, .. } => text.push_str(fact),
        }
        self.asserts(&mut text, it);
        text
    }

    /// The layout that `abi` states. A fact has other members where `abi` reads numbers, and asserts
    /// the sizes of a structure that grows.
    fn asserts(&self, text: &mut String, it: &Definition) {
        let name = it.name();
        if let Definition::Table { .. } = it {
            return;
        }
        for (version, length) in self.lengths.get(name).into_iter().flatten() {
            let define = "DXGKDDI_INTERFACE_VERSION";
            line(text, format_args!("#if {define} == {version}"));
            line(text, format_args!("WINDTUNNEL_ASSERT(sizeof({name}) == {length:#x});\n#endif"));
        }
        let Some(layout) = self.layouts.get(name) else { return };
        let fact = if let Definition::Fact { text, .. } = it { text.as_str() } else { "" };
        if fact.contains("#if") {
            return;
        }
        line(text, format_args!("WINDTUNNEL_LAYOUT(sizeof({name}) == {});", layout.size));
        for (member, offset) in &layout.offsets {
            let is_union = members(it).iter().any(|of| &of.name == member && self.is_union(&of.of));
            let is_declared = fact.is_empty()
                || fact.lines().any(|row| {
                    row.strip_prefix("    ")
                        .is_some_and(|row| row.ends_with(&format!(" {member};")))
                });
            let is_asserted = fact.contains(&format!("offsetof({name}, {member})"));
            if !is_union && is_declared && !is_asserted {
                line(
                    text,
                    format_args!("WINDTUNNEL_LAYOUT(offsetof({name}, {member}) == {offset});"),
                );
            }
        }
    }

    fn is_union(&self, of: &Type) -> bool {
        word(of)
            .and_then(|name| self.find(&name).cloned())
            .is_some_and(|it| matches!(it, Definition::Union { .. }))
    }

    fn structure(&self, text: &mut String, name: &str, members: &[Member], packing: &str) {
        let pack = packing.strip_prefix("packed");
        if let Some(bytes) = pack {
            let bytes = bytes.trim_matches(['(', ')', ' ']);
            line(text, format_args!("#pragma pack(push, {bytes})"));
        }
        line(text, format_args!("\nstruct _{name} {{"));
        for it in members {
            self.member(text, it);
        }
        let align = packing.strip_prefix("align").map(|bytes| bytes.trim_matches(['(', ')', ' ']));
        let align =
            align.map(|bytes| format!(" __attribute__((aligned({bytes})))")).unwrap_or_default();
        line(text, format_args!("}}{align};"));
        if pack.is_some() {
            line(text, format_args!("#pragma pack(pop)"));
        }
    }

    fn member(&self, text: &mut String, it: &Member) {
        let declared = |of: &Type, name: &str| declare(of, name, false).unwrap_or_default();
        if let Some(Definition::Union { members, .. }) =
            word(&it.of).and_then(|name| self.find(&name))
        {
            line(text, format_args!("    union {{"));
            for other in members {
                line(text, format_args!("        {};", declared(&other.of, &other.name)));
            }
            line(text, format_args!("    }};"));
            return;
        }
        if it.others.is_empty() {
            line(text, format_args!("    {};", declared(&it.of, &it.name)));
            return;
        }
        line(text, format_args!("    union {{"));
        line(text, format_args!("        {};", declared(&it.of, &it.name)));
        for (name, of) in &it.others {
            line(text, format_args!("        {};", declared(of, name)));
        }
        line(text, format_args!("    }};"));
    }
}

fn members(it: &Definition) -> &[Member] {
    match it {
        Definition::Struct { members, .. } => members,
        _ => &[],
    }
}

/// Whether every use of a struct in the text is a pointer to it.
fn only_pointed(text: &str, name: &str) -> bool {
    text.match_indices(name).all(|(at, _)| {
        let rest = &text[at + name.len()..];
        let begins = text[..at].chars().next_back();
        let longer = |character: char| character.is_alphanumeric() || character == '_';
        begins.is_some_and(longer)
            || rest.starts_with(longer)
            || rest.starts_with(" *")
            || rest.starts_with('*')
    })
}

/// A type's other name. A function type of `abi` is a pointer: in C it is the function, and its
/// name with a `P` is the pointer.
fn alias(text: &mut String, name: &str, of: &Type, functions: &BTreeSet<String>) {
    if !functions.contains(name) {
        if let Some(declared) = declare(of, name, false) {
            line(text, format_args!("typedef {declared};"));
        }
        return;
    }
    if let Some(declared) = declare(of, "@", false) {
        let pointer = format!("P{name}");
        if let Some((returned, arguments)) = declared.split_once("(WINDTUNNEL_CALL *@)") {
            line(text, format_args!("typedef {returned}NTAPI @{name}{arguments};"));
        } else {
            let of = word(of).unwrap_or_default();
            line(text, format_args!("typedef @{of} @{name};"));
        }
        line(text, format_args!("typedef @{name} *{pointer};"));
    }
}

/// Replaces whole words: the basic types, and function types by pointers to functions. A word
/// after `@` stays.
fn localize(text: &str, functions: &BTreeSet<String>) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let keep = whole.ends_with('@');
        if keep {
            whole.pop();
            whole.push_str(word);
        } else if let Some((_, to)) = WORDS.iter().find(|(from, _)| *from == word) {
            whole.push_str(to);
        } else if functions.contains(word) {
            whole.push('P');
            whole.push_str(word);
        } else {
            whole.push_str(word);
        }
        let other = after.chars().next().map_or(0, char::len_utf8);
        whole.push_str(&after[..other]);
        rest = &after[other..];
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    const WINDOWS: &[&str] = &["--target=x86_64-pc-windows-msvc", "-fms-extensions"];
    const SHARED: &[&str] =
        &["--target=x86_64-pc-windows-gnu-elf", "-fms-extensions", "-DWINDTUNNEL_SHARED_OBJECT"];
    const ELF: &[&str] = &["-fshort-wchar"];

    /// Compiles a text and returns the compiler's messages.
    fn messages(text: &str, target: &[&str], standard: &str, more: &[&str]) -> String {
        let language = if standard.contains("++") { "c++" } else { "c" };
        let mut clang = Command::new("clang");
        clang.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language, standard]);
        clang.args(["-ffreestanding", "-nostdlibinc"]).args(target).args(more);
        clang.arg("-I").arg(root().join("crates/abi/include/km"));
        clang.arg("-").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = clang.spawn().expect("'cargo xtask drivers' names the packages");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn each_header_compiles_alone_and_twice_for_each_target_and_standard() {
        let folder = root().join("crates/abi/include/km");
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut headers: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        // Parts of wdm.h, which includes them behind its own definitions.
        headers.retain(|name| !name.starts_with("wdm_"));
        assert!(headers.len() > 30, "{headers:?}");
        for header in headers {
            for target in [WINDOWS, SHARED, ELF] {
                for standard in ["-std=c11", "-std=c17", "-std=c++17", "-std=c++20"] {
                    let text = format!("#include <{header}>\n#include <{header}>\n");
                    let told = messages(&text, target, standard, &[]);
                    assert_eq!(told, "", "{header} for {target:?} with {standard}");
                }
            }
        }
    }

    #[test]
    fn a_fact_that_no_page_states_is_named_by_the_compiler() {
        let text = "#include <dispmprt.h>\nint size = sizeof(DXGK_POWER_P_STATE);\n";
        let told = messages(text, WINDOWS, "-std=c11", &[]);
        let expected = "windtunnel_lacks_the_layout_of_DXGK_POWER_P_STATE";
        assert!(told.contains(expected), "{told}");
        let text = "#include <dispmprt.h>\nDXGK_POWER_P_STATE *pointer;\n";
        assert_eq!(messages(text, WINDOWS, "-std=c11", &[]), "");
    }

    #[test]
    fn the_layouts_of_every_interface_version_are_asserted() {
        for version in ["VISTA", "WIN7", "WIN8", "WDDM1_3", "WDDM2_0", "WDDM2_4", "WDDM2_9"] {
            let define = format!("-DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_{version}");
            for target in [WINDOWS, ELF] {
                let text = "#include <dispmprt.h>\n";
                assert_eq!(messages(text, target, "-std=c11", &[&define]), "", "{version}");
            }
        }
        // An assertion can fail.
        let text = "#include <dispmprt.h>\nWINDTUNNEL_LAYOUT(sizeof(DXGK_DRIVERCAPS) == 1);\n";
        assert!(messages(text, ELF, "-std=c11", &[]).contains("DXGK_DRIVERCAPS"));
    }

    #[test]
    fn structures_have_the_length_of_the_interface_version() {
        for (version, table, interface, caps) in [
            ("WIN8", 0x298, 0x100, 0x220),
            ("WDDM1_3", 0x2c8, 0x108, 0x228),
            ("WDDM2_0", 0x340, 0x138, 0x240),
            ("WDDM2_6", 0x4c8, 0x1e0, 0x248),
            ("WDDM3_1", 0x560, 0x240, 0x250),
        ] {
            let text = format!(
                "#include <dispmprt.h>\n\
                 C_ASSERT(sizeof(DRIVER_INITIALIZATION_DATA) == {table});\n\
                 C_ASSERT(sizeof(DXGKRNL_INTERFACE) == {interface});\n\
                 C_ASSERT(sizeof(DXGK_DRIVERCAPS) == {caps});\n"
            );
            let define = format!("-DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_{version}");
            assert_eq!(messages(&text, ELF, "-std=c11", &[&define]), "", "{version}");
        }
    }
}
