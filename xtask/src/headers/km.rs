//! The kernel-mode headers, under the names that driver authors include.
//!
//! `d3dkmddi.h`, `dispmprt.h` and `ks.h` are generated from `abi`. `wdm.h` and `ntddk.h` are
//! templates beside this file: `@types NAMES@` inserts structures of `abi`, `@statuses@` its
//! statuses. C has unions where `abi` has one member: [`UNIONS`] names the others.

use super::emit::{declare, flags, line};
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

/// Members of C unions that `abi` reads with methods: the struct and the member that `abi`
/// declares, and the declarations of the other members.
const UNIONS: &[(&str, &str, &str)] = &[
    ("DXGK_ALLOCATIONINFO", "FlagsWddm2", "DXGK_ALLOCATIONINFOFLAGS Flags;"),
    (
        "DXGK_ALLOCATIONLIST",
        "Value",
        "struct { UINT WriteOperation : 1; UINT SegmentId : 5; UINT Reserved : 26; };",
    ),
    ("DXGK_ALLOCATIONLIST", "PhysicalAddress", "D3DGPU_VIRTUAL_ADDRESS VirtualAddress;"),
    ("D3DDDI_PATCHLOCATIONLIST", "Value", "struct { UINT SlotId : 24; UINT Reserved : 8; };"),
    (
        "DXGK_SEGMENTPREFERENCE",
        "Value",
        "struct { UINT SegmentId0 : 5; UINT Direction0 : 1; UINT SegmentId1 : 5; \
         UINT Direction1 : 1; UINT SegmentId2 : 5; UINT Direction2 : 1; UINT SegmentId3 : 5; \
         UINT Direction3 : 1; UINT SegmentId4 : 5; UINT Direction4 : 1; UINT Reserved : 2; };",
    ),
    ("DXGKARG_SUBMITCOMMAND", "hContext", "HANDLE hDevice;"),
    ("DXGKARG_PATCH", "hContext", "HANDLE hDevice;"),
    ("PagingInitContextResourceDestination", "pMdl", "LARGE_INTEGER SegmentAddress;"),
    (
        "DXGK_PTE",
        "Flags",
        "struct { ULONGLONG Valid : 1; ULONGLONG Zero : 1; ULONGLONG CacheCoherent : 1; \
         ULONGLONG ReadOnly : 1; ULONGLONG NoExecute : 1; ULONGLONG Segment : 5; \
         ULONGLONG LargePage : 1; ULONGLONG PhysicalAdapterIndex : 6; \
         ULONGLONG PageTablePageSize : 2; ULONGLONG Reserved : 45; };",
    ),
    ("DXGK_PTE", "PageAddress", "ULONGLONG PageTableAddress;"),
    (
        "DXGK_PAGETABLEUPDATEADDRESS",
        "GpuPhysical",
        "PVOID CpuVirtual; D3DGPU_VIRTUAL_ADDRESS GpuVirtual;",
    ),
    (
        "DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        "Data",
        "struct DmaCompleted DmaCompleted; struct DmaPreempted DmaPreempted; \
         struct DmaFaulted DmaFaulted; struct DmaPageFaulted DmaPageFaulted;",
    ),
    (
        "DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA",
        "pCreateData",
        "D3DKMDT_SHAREDPRIMARYSURFACEDATA *pCreateSharedPrimarySurfaceData; \
         D3DKMDT_SHADOWSURFACEDATA *pCreateShadowSurfaceData; \
         D3DKMDT_STAGINGSURFACEDATA *pCreateStagingSurfaceData; \
         D3DKMDT_GDISURFACEDATA *pCreateGdiSurfaceData;",
    ),
];

/// Members that a structure has since an interface version: the struct, the first of these
/// members, and the version. Only structures are listed whose length a driver checks.
const SINCE: &[(&str, &str, &str)] = &[
    ("DXGK_DRIVERCAPS", "MaxOverlayPlanes", "WDDM1_3"),
    ("DXGK_DRIVERCAPS", "InternalGpuVirtualAddressRangeStart", "WDDM2_0"),
    ("DXGK_DRIVERCAPS", "MiscCaps", "WDDM2_4"),
    ("DXGK_DRIVERCAPS", "HwQueuedFlipCaps", "WDDM2_9"),
];

/// Structures that `abi` declares as a shorter one with more members behind it: in C they are one.
const LONGER: &[(&str, &str)] = &[("DXGK_DRIVERCAPS", "DXGK_DRIVERCAPS_WDDM2_9")];

/// Members that `abi` has as padding: the struct, the member behind them, and their declarations.
const PADDING: &[(&str, &str, &str)] = &[(
    "DXGK_DRIVERCAPS",
    "MiscCaps",
    "BOOLEAN SupportMultiPlaneOverlayImmediateFlip; \
     BOOLEAN CursorScaledWithMultiPlaneOverlayPlane0; BOOLEAN HybridAcpiChainingRequired; \
     UINT MaxQueuedMultiPlaneOverlayFlipVSync;",
)];

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

/// Each header with its path.
pub(super) fn generate() -> Result<Vec<(PathBuf, String)>, String> {
    let (types, statuses) = (source("types")?, source("status")?);
    let display = Definitions::of(folders(&["ukm", "display"])?, &[&types]);
    let miniport = Definitions::of(folders(&["miniport"])?, &[&types]);
    let ks = Definitions::of(folders(&["ks"])?, &[&types]);
    let basic = vec![types, source("miniport")?, source("miniport/device")?];
    let basic = Definitions::of(basic, &[]);
    let wdm = template(WDM, &basic, &Definitions::of(vec![statuses], &[]));
    let path = |name: &str| root().join("crates/abi/include/km").join(name);
    let functions: BTreeSet<String> =
        [&display, &miniport, &ks].iter().flat_map(|definitions| definitions.functions()).collect();
    let title = |what: &str| format!("{what}, with the layouts of 64-bit Windows.");
    let in_wdm: BTreeSet<&str> = wdm
        .lines()
        .filter_map(|row| row.strip_prefix("typedef enum _")?.split(' ').next())
        .collect();
    Ok(vec![
        (
            path("d3dkmddi.h"),
            display.header(
                "D3DKMDDI",
                &title("The interface of display miniport drivers"),
                "wdm.h",
                "",
                (&functions, &in_wdm),
            ),
        ),
        (
            path("dispmprt.h"),
            miniport.header(
                "DISPMPRT",
                &title("Initialization of display miniport drivers, and their tables"),
                "d3dkmddi.h",
                DISPLAY_FUNCTIONS,
                (&functions, &in_wdm),
            ),
        ),
        (
            path("ks.h"),
            ks.header(
                "KS",
                &title("The interface of AVStream minidrivers"),
                "wdm.h",
                KS_FUNCTIONS,
                (&functions, &in_wdm),
            ),
        ),
        (path("ntddk.h"), NTDDK.to_owned()),
        (path("wdm.h"), wdm),
    ])
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
    /// The definitions of files, without those that `others` also define.
    fn of(files: Vec<File>, others: &[&File]) -> Self {
        let mut all =
            Self { items: Vec::new(), layouts: BTreeMap::new(), lengths: BTreeMap::new() };
        let there: BTreeSet<String> = others
            .iter()
            .flat_map(|file| &file.items)
            .map(|definition| definition.name().to_owned())
            .collect();
        for file in files {
            all.items.extend(file.items.into_iter().filter(|it| !there.contains(it.name())));
            all.layouts.extend(file.layouts);
            all.lengths.extend(file.lengths);
        }
        for (name, longer) in LONGER {
            all.merge(name, longer);
        }
        all
    }

    /// Appends the members of the longer structure, which begins with the shorter one.
    fn merge(&mut self, name: &str, longer: &str) {
        let Some(at) = self.items.iter().position(|it| it.name() == longer) else { return };
        let Definition::Struct { members: more, .. } = self.items.remove(at) else { return };
        for it in &mut self.items {
            if let Definition::Struct { name: found, members, .. } = it
                && found == name
            {
                members.extend(more.iter().skip(1).cloned());
            }
        }
        if let (Some(more), Some(layout)) =
            (self.layouts.remove(longer), self.layouts.get_mut(name))
        {
            layout.size = more.size;
            layout.offsets.extend(more.offsets.into_iter().skip(1));
        }
    }

    /// The names of function types. In `abi` they are pointers, in C only those named `PFN...`.
    fn functions(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for it in &self.items {
            if let Definition::Alias { name, of } = it {
                let is_function = matches!(**of, Type::FnPtr(_))
                    || word(of).is_some_and(|target| names.contains(&target));
                if is_function && !name.starts_with("PFN") {
                    names.insert(name.clone());
                }
            }
        }
        names
    }

    fn find(&self, name: &str) -> Option<&Definition> {
        self.items.iter().find(|it| it.name() == name)
    }

    /// A header: forward declarations, then definitions in an order that C accepts.
    fn header(
        &self,
        guard: &str,
        title: &str,
        include: &str,
        end: &str,
        (functions, skipped): (&BTreeSet<String>, &BTreeSet<&str>),
    ) -> String {
        let mut text = format!(
            "/*\n * {title}\n *\n * Generated by 'cargo xtask headers' from crates/abi: change \
             that. C11 or C++17, clang.\n */\n#ifndef WINDTUNNEL_{guard}_H\n#define \
             WINDTUNNEL_{guard}_H\n\n#include <{include}>\n\n#ifdef __cplusplus\nextern \"C\" \
             {{\n#endif\n\n#pragma GCC diagnostic push\n/* Anonymous unions and structs, as on \
             Windows. */\n#pragma GCC diagnostic ignored \"-Wpedantic\"\n\n"
        );
        if guard == "D3DKMDDI" {
            text.push_str(
                "/* The interface version of a driver; its table and DXGK_DRIVERCAPS depend on \
                 it. */\n#ifndef DXGKDDI_INTERFACE_VERSION\n#define DXGKDDI_INTERFACE_VERSION \
                 DXGKDDI_INTERFACE_VERSION_WDDM3_1\n#endif\n\n",
            );
        }
        text.push_str(&self.declared(|_| true));
        let mut written: BTreeSet<String> = skipped.iter().map(|name| (*name).to_owned()).collect();
        let is_constant = |it: &&Definition| matches!(it, Definition::Constant { .. });
        for it in self.items.iter().filter(is_constant).chain(&self.items) {
            self.write(&mut text, it, functions, &mut written);
        }
        text.push_str(end);
        text.push_str("\n#pragma GCC diagnostic pop\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
        text
    }

    /// Structs can be pointed to before they are defined.
    fn declared(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        for it in self.items.iter().filter(|it| wanted(it.name())) {
            if let Definition::Struct { name, .. }
            | Definition::Table { name, .. }
            | Definition::Flags { name, .. } = it
            {
                line(&mut text, format_args!("typedef struct _{name} {name}, *P{name};"));
                if name.starts_with("DXGKARG_") {
                    line(&mut text, format_args!("typedef {name} *IN_P{name}, *OUT_P{name};"));
                    line(&mut text, format_args!("typedef {name} *INOUT_P{name};"));
                    line(&mut text, format_args!("typedef const {name} *IN_CONST_P{name};"));
                }
            }
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
        let own = localize(&self.definition(it.name(), functions), functions);
        let words: Vec<&str> =
            own.split(|character: char| !character.is_alphanumeric() && character != '_').collect();
        for word in words {
            let word =
                word.strip_prefix('P').filter(|name| functions.contains(*name)).unwrap_or(word);
            let Some(used) = self.find(word) else { continue };
            let pointed = own.contains(&format!("{word} *")) && !own.contains(&format!("{word} m"));
            let is_struct = matches!(used, Definition::Struct { .. } | Definition::Table { .. });
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
            Definition::Guid { value, .. } => line(
                &mut text,
                format_args!("static const GUID {name} __attribute__((unused)) = {value};"),
            ),
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
            Definition::Table { slots, .. } => self.table(&mut text, name, slots),
            Definition::Struct { members, packing, .. } => {
                self.structure(&mut text, name, members, packing);
            }
            Definition::Union { .. } => (), // Written where it is a member.
        }
        if let Some(layout) = self.layouts.get(name)
            && !matches!(it, Definition::Table { .. })
        {
            let grows = SINCE.iter().any(|row| row.0 == name);
            if !grows {
                line(
                    &mut text,
                    format_args!("WINDTUNNEL_ASSERT(sizeof({name}) == {});", layout.size),
                );
            }
            let mut open = false;
            for (member, offset) in &layout.offsets {
                open = since(&mut text, name, member, open);
                let union =
                    members(it).iter().any(|of| &of.name == member && self.is_union(&of.of));
                if !union {
                    line(
                        &mut text,
                        format_args!("WINDTUNNEL_ASSERT(offsetof({name}, {member}) == {offset});"),
                    );
                }
            }
            if open {
                line(
                    &mut text,
                    format_args!("WINDTUNNEL_ASSERT(sizeof({name}) == {});\n#endif", layout.size),
                );
            }
        }
        text
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
        let mut open = false;
        for it in members {
            open = since(text, name, &it.name, open);
            if let Some(row) = PADDING.iter().find(|row| row.0 == name && row.1 == it.name) {
                line(text, format_args!("    {}", row.2));
            }
            self.member(text, name, it);
        }
        if open {
            line(text, format_args!("#endif"));
        }
        let align = packing.strip_prefix("align").map(|bytes| bytes.trim_matches(['(', ')', ' ']));
        let align =
            align.map(|bytes| format!(" __attribute__((aligned({bytes})))")).unwrap_or_default();
        line(text, format_args!("}}{align};"));
        if pack.is_some() {
            line(text, format_args!("#pragma pack(pop)"));
        }
    }

    fn member(&self, text: &mut String, owner: &str, it: &Member) {
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
        let more = UNIONS.iter().filter(|row| row.0 == owner && row.1 == it.name);
        let more: Vec<&str> = more.map(|row| row.2).collect();
        if it.others.is_empty() && more.is_empty() {
            line(text, format_args!("    {};", declared(&it.of, &it.name)));
            return;
        }
        line(text, format_args!("    union {{"));
        line(text, format_args!("        {};", declared(&it.of, &it.name)));
        for (name, of) in &it.others {
            line(text, format_args!("        {};", declared(of, name)));
        }
        for others in more {
            line(text, format_args!("        {}", others.replace("struct Dma", "Dma")));
        }
        line(text, format_args!("    }};"));
    }

    /// A table that grows with the interface version.
    fn table(&self, text: &mut String, name: &str, slots: &[(String, String)]) {
        let lengths = self.lengths.get(name).map(Vec::as_slice).unwrap_or_default();
        line(text, format_args!("\nstruct _{name} {{"));
        let mut at = 0;
        let mut version = 0;
        for (slot, of) in slots {
            let size = if of == "u32" { 4 } else { 8 };
            let from: u32 = at;
            let from = from.next_multiple_of(size);
            while version < lengths.len() && from + size > lengths[version].1 {
                if version > 0 {
                    line(text, format_args!("#endif"));
                }
                version += 1;
                if let Some((next, _)) = lengths.get(version) {
                    line(text, format_args!("#if DXGKDDI_INTERFACE_VERSION >= {next}"));
                }
            }
            line(text, format_args!("    {of} {slot};"));
            at = from + size;
        }
        // Versions whose members are not declared in `abi`.
        let mut open = version > 0;
        for (next, length) in &lengths[version.min(lengths.len())..] {
            if at < *length {
                if open {
                    line(text, format_args!("#endif\n#if DXGKDDI_INTERFACE_VERSION >= {next}"));
                }
                open = true;
                line(text, format_args!("    PVOID Undeclared{at:03x}[{}];", (length - at) / 8));
                at = *length;
            }
        }
        if open {
            line(text, format_args!("#endif"));
        }
        line(text, format_args!("}};"));
        for (at, (version, length)) in lengths.iter().enumerate() {
            let start = if at == 0 { "#if" } else { "#elif" };
            line(
                text,
                format_args!(
                    "{start} DXGKDDI_INTERFACE_VERSION == {version}\n\
                     WINDTUNNEL_ASSERT(sizeof({name}) == {length:#x});"
                ),
            );
        }
        line(text, format_args!("#endif"));
    }
}

/// Begins the members of a later interface version. Returns whether such a part is open.
fn since(text: &mut String, name: &str, member: &str, open: bool) -> bool {
    let Some((.., version)) = SINCE.iter().find(|row| row.0 == name && row.1 == member) else {
        return open;
    };
    if open {
        line(text, format_args!("#endif"));
    }
    let since = format!("DXGKDDI_INTERFACE_VERSION_{version}");
    line(text, format_args!("#if DXGKDDI_INTERFACE_VERSION >= {since}"));
    true
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
    const ELF: &[&str] = &["-fshort-wchar"];

    /// Compiles a text as C or C++ and returns the compiler's messages.
    fn messages(text: &str, target: &[&str], language: &str, more: &[&str]) -> String {
        let standard = if language == "c" { "-std=c11" } else { "-std=c++17" };
        let mut clang = Command::new("clang");
        clang.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language, standard]);
        clang.args(target).args(more).arg("-I").arg(root().join("crates/abi/include/km"));
        clang.arg("-").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = clang.spawn().expect("'cargo xtask drivers' names the packages");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn each_header_compiles_alone_for_windows_and_elf_as_c_and_cpp() {
        for header in ["wdm", "ntddk", "d3dkmddi", "dispmprt", "ks"] {
            for target in [WINDOWS, ELF] {
                for language in ["c", "c++"] {
                    let text = format!("#include <{header}.h>\n");
                    let told = messages(&text, target, language, &[]);
                    assert_eq!(told, "", "{header}.h for {target:?} as {language}");
                }
            }
        }
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
            assert_eq!(messages(&text, ELF, "c", &[&define]), "", "{version}");
        }
    }
}
