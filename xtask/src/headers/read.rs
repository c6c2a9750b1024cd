//! Reads the definitions.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use syn::{Expr, Fields, ImplItem, Item, ItemStruct, Lit, Meta, ReturnType, Type};

/// The definitions of a file.
#[derive(Default)]
pub(super) struct File {
    pub(super) items: Vec<Definition>,
    /// Sizes and offsets, by struct.
    pub(super) layouts: BTreeMap<String, Layout>,
    /// The length of each table by interface version: names of constants with lengths.
    pub(super) lengths: BTreeMap<String, Vec<(String, u32)>>,
}

/// A definition of a name.
#[derive(Clone)]
pub(super) enum Definition {
    Alias {
        name: String,
        of: Box<Type>,
    },
    /// A number, as it is written in C.
    Constant {
        name: String,
        value: String,
    },
    Struct {
        name: String,
        members: Vec<Member>,
        /// `packed(4)`, `align(8)`, or nothing.
        packing: String,
    },
    Union {
        name: String,
        members: Vec<Member>,
    },
    /// A GUID, as C initializes it.
    Guid {
        name: String,
        value: String,
    },
    /// A table of functions: the type of each slot.
    Table {
        name: String,
        slots: Vec<(String, String)>,
    },
    /// A set of flags in numbers of 32 bits, each with its bit.
    Flags {
        name: String,
        bits: Vec<(String, u32)>,
        numbers: u32,
    },
    Values {
        name: String,
        values: Vec<(String, String)>,
    },
    Status {
        name: String,
        value: String,
    },
    /// A definition that is written as C already.
    Fact {
        name: String,
        text: String,
        /// Other names that it defines.
        words: Vec<String>,
        /// Whether it can be pointed to before it is defined.
        is_struct: bool,
    },
}

/// A member of a struct, with the other members of its union.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) of: Type,
    pub(super) others: Vec<(String, Type)>,
}

/// The size of a struct, and the offset of each member.
pub(super) struct Layout {
    pub(super) size: String,
    pub(super) offsets: Vec<(String, String)>,
}

/// An entry point and the pointer it takes.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) pointer: Type,
    /// Its parameters in C, if they are not the pointer.
    pub(super) parameters: &'static str,
}

impl Definition {
    pub(super) fn name(&self) -> &str {
        match self {
            Definition::Alias { name, .. }
            | Definition::Constant { name, .. }
            | Definition::Struct { name, .. }
            | Definition::Union { name, .. }
            | Definition::Guid { name, .. }
            | Definition::Table { name, .. }
            | Definition::Flags { name, .. }
            | Definition::Values { name, .. }
            | Definition::Status { name, .. }
            | Definition::Fact { name, .. } => name,
        }
    }
}

/// Reads the definitions of a file.
pub(super) fn file(path: &Path) -> Result<File, String> {
    let items = parse(path)?;
    let methods = methods(&items);
    let mut file = File::default();
    for item in items {
        match item {
            Item::Type(it) => {
                file.items.push(Definition::Alias { name: it.ident.to_string(), of: it.ty });
            }
            Item::Const(it) => file.items.extend(constant(&it)),
            Item::Struct(it) => file.items.push(structure(it, &methods)?),
            Item::Union(it) => file.items.push(union(it)),
            Item::Impl(it) => file.lengths.extend(lengths(&it)),
            Item::Macro(it) => {
                let name = it.mac.path.get_ident().map(ToString::to_string).unwrap_or_default();
                file.called(&name, it.mac.tokens);
            }
            _ => (),
        }
    }
    Ok(file)
}

/// A constant: an integer, a shifted integer, or a GUID. Others are not for C.
fn constant(it: &syn::ItemConst) -> Option<Definition> {
    let name = it.ident.to_string();
    let integer = |expression: &Expr| match expression {
        Expr::Lit(value) => match &value.lit {
            Lit::Int(value) => Some(number(&value.to_string())),
            _ => None,
        },
        _ => None,
    };
    let value = match &*it.expr {
        Expr::Binary(shift) if matches!(shift.op, syn::BinOp::Shl(_)) => {
            format!("({} << {})", integer(&shift.left)?, integer(&shift.right)?)
        }
        Expr::Call(call) => {
            let Expr::Lit(value) = call.args.first()? else { return None };
            let Lit::Int(value) = &value.lit else { return None };
            let value: u128 = value.base10_parse().ok()?;
            return Some(Definition::Guid { name, value: guid(value) });
        }
        Expr::Path(_) if word(&it.ty)? == "GUID" => {
            return Some(Definition::Guid { name, value: guid(0) });
        }
        other => integer(other)?,
    };
    Some(Definition::Constant { name, value })
}

/// The initializer of a GUID in C.
fn guid(value: u128) -> String {
    let hex = format!("{value:032x}");
    let last: Vec<String> =
        (16..32).step_by(2).map(|at| format!("0x{}", &hex[at..at + 2])).collect();
    let last = last.join(", ");
    format!("{{ 0x{}, 0x{}, 0x{}, {{ {last} }} }}", &hex[..8], &hex[8..12], &hex[12..16])
}

fn union(it: syn::ItemUnion) -> Definition {
    let member = |field: syn::Field| Member {
        name: field.ident.map(|ident| ident.to_string()).unwrap_or_default(),
        of: field.ty,
        others: Vec::new(),
    };
    let members = it.fields.named.into_iter().map(member).collect();
    Definition::Union { name: it.ident.to_string(), members }
}

/// `LENGTHS` of a table: the name of each interface version, and the length.
fn lengths(it: &syn::ItemImpl) -> Option<(String, Vec<(String, u32)>)> {
    let owner = word(&it.self_ty)?;
    let list = it.items.iter().find_map(|item| match item {
        ImplItem::Const(it) if it.ident == "LENGTHS" => Some(&it.expr),
        _ => None,
    })?;
    let Expr::Reference(list) = list else { return None };
    let Expr::Array(list) = &*list.expr else { return None };
    let row = |row: &Expr| {
        let Expr::Tuple(row) = row else { return None };
        let (Expr::Path(version), Expr::Lit(length)) = (&row.elems[0], &row.elems[1]) else {
            return None;
        };
        let Lit::Int(length) = &length.lit else { return None };
        Some((version.path.segments.last()?.ident.to_string(), length.base10_parse().ok()?))
    };
    Some((owner, list.elems.iter().filter_map(row).collect()))
}

/// The entry points, in the order of their support table.
pub(super) fn entries() -> Result<Vec<Entry>, String> {
    let entry = |row: &thunk::EntryRow| {
        let pointer =
            syn::parse_str(row.pointer).map_err(|reason| format!("{}: {reason}", row.name))?;
        Ok(Entry { name: row.name.to_owned(), pointer, parameters: row.parameters })
    };
    thunk::ENTRIES.iter().chain(thunk::ABSENT_ENTRIES).map(entry).collect()
}

fn parse(path: &Path) -> Result<Vec<Item>, String> {
    let text =
        fs::read_to_string(path).map_err(|reason| format!("{}: {reason}", path.display()))?;
    let file = syn::parse_file(&text).map_err(|reason| format!("{}: {reason}", path.display()))?;
    Ok(file.items)
}

/// What each method of a type returns: `Type::method`.
fn methods(items: &[Item]) -> BTreeMap<String, Type> {
    let mut methods = BTreeMap::new();
    for item in items {
        let Item::Impl(it) = item else { continue };
        let Some(owner) = word(&it.self_ty) else { continue };
        for item in &it.items {
            if let ImplItem::Fn(it) = item
                && let ReturnType::Type(_, of) = &it.sig.output
            {
                methods.insert(format!("{owner}::{}", it.sig.ident), (**of).clone());
            }
        }
    }
    methods
}

fn structure(it: ItemStruct, methods: &BTreeMap<String, Type>) -> Result<Definition, String> {
    let name = it.ident.to_string();
    let packing = it.attrs.iter().filter(|attribute| attribute.path().is_ident("repr"));
    let packing: String = packing
        .filter_map(|attribute| attribute.meta.require_list().ok())
        .filter_map(|list| list.tokens.to_string().split_once(", ").map(|pair| pair.1.to_owned()))
        .collect();
    let Fields::Named(fields) = it.fields else { return Err(format!("{name} has no names")) };
    let mut members: Vec<Member> = Vec::new();
    for field in fields.named {
        let member = field.ident.map(|ident| ident.to_string()).unwrap_or_default();
        let docs: String = field.attrs.iter().filter_map(doc).collect();
        let mut others = Vec::new();
        for (other, method) in unions(&docs) {
            let of = methods.get(&format!("{name}::{method}"));
            let of =
                of.ok_or(format!("{name}.{member} refers to {method}, which does not exist"))?;
            others.push((other, of.clone()));
        }
        // The upper half of a pointer whose lower half is in the member before.
        if let Some(other) = upper_half(&docs)
            && let Some(lower) = members.last_mut()
        {
            lower.others.push((other, syn::parse_quote!(PVOID)));
            continue;
        }
        members.push(Member { name: member, of: field.ty, others });
    }
    Ok(Definition::Struct { name, members, packing })
}

fn doc(attribute: &syn::Attribute) -> Option<String> {
    let Meta::NameValue(it) = &attribute.meta else { return None };
    match &it.value {
        Expr::Lit(value) if it.path.is_ident("doc") => match &value.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// "A union with `name`: see", then a link to a method.
fn unions(docs: &str) -> Vec<(String, String)> {
    let docs = docs.split_whitespace().collect::<Vec<_>>().join(" ");
    let other = |text: &str| {
        let (name, rest) = text.split_once('`')?;
        let (method, _) = rest.strip_prefix(": see [`Self::")?.split_once('`')?;
        Some((name.to_owned(), method.to_owned()))
    };
    docs.split("union with `").skip(1).filter_map(other).collect()
}

/// "in a union with the pointer `name`, whose upper half this is".
fn upper_half(docs: &str) -> Option<String> {
    let (name, rest) = docs.split_once("union with the pointer `")?.1.split_once('`')?;
    rest.contains("upper half").then(|| name.to_owned())
}

impl File {
    /// A macro of `abi`: its name, then a list in braces.
    fn called(&mut self, name: &str, tokens: TokenStream) {
        let words = flat(tokens);
        let subject = words.first().cloned().unwrap_or_default();
        match name {
            "layout" => {
                let size = words.get(2).cloned().unwrap_or_default();
                let offsets = pairs(&words[3..], ":");
                self.layouts.insert(subject, Layout { size, offsets });
            }
            "flags" | "flags64" => {
                let bit = |(flag, bit): (String, String)| (flag, bit.parse().unwrap_or(0));
                let bits = pairs(&words[1..], ":").into_iter().map(bit).collect();
                let numbers = if name == "flags64" { 2 } else { 1 };
                let offsets = vec![("Value".into(), "0".into())];
                let size = (numbers * 4).to_string();
                self.layouts.insert(subject.clone(), Layout { size, offsets });
                self.items.push(Definition::Flags { name: subject, bits, numbers });
            }
            "values" => {
                let values = pairs(&words[1..], "=");
                self.items.push(Definition::Values { name: subject, values });
            }
            "table" => {
                // The size also determines the offsets: every slot is one pointer.
                let size = words.get(2).cloned().unwrap_or_default();
                self.layouts.insert(subject.clone(), Layout { size, offsets: Vec::new() });
                let slots = pairs(&words[3..], ":");
                self.items.push(Definition::Table { name: subject, slots });
            }
            "statuses" => self.answers("NTSTATUS", &words),
            "results" => self.answers("HRESULT", &words),
            _ => (),
        }
    }

    fn answers(&mut self, of: &str, words: &[String]) {
        for (name, value) in pairs(words, "=") {
            let value = format!("(({of})0x{}u)", value.trim_start_matches("0x"));
            self.items.push(Definition::Status { name, value });
        }
    }
}

/// The tokens of a macro, without its braces.
fn flat(tokens: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    for driver_handle in tokens {
        match driver_handle {
            TokenTree::Group(it) => words.extend(flat(it.stream())),
            TokenTree::Literal(it) => {
                let minus = words.pop_if(|text| text == "-").unwrap_or_default();
                words.push(minus + &it.to_string().replace('_', ""));
            }
            other => words.push(other.to_string()),
        }
    }
    words
}

/// The pairs `name: value` or `name = value` of a list.
fn pairs(words: &[String], between: &str) -> Vec<(String, String)> {
    let pair =
        |texts: &[String]| (texts[1] == between).then(|| (texts[0].clone(), texts[2].clone()));
    words.windows(3).filter_map(pair).collect()
}

/// A number of Rust, in C.
fn number(text: &str) -> String {
    format!("{}u", text.replace('_', ""))
}

/// The last segment of a type's path.
pub(super) fn word(of: &Type) -> Option<String> {
    let Type::Path(it) = of else { return None };
    it.path.segments.last().map(|path_segment| path_segment.ident.to_string())
}
