//! The registry of a flight: keys and values in memory.
//!
//! Names are compared without regard to case, and keep the case of their creation. A key is listed
//! with its subkeys in the order of their names, and with its values in the order in which they
//! were set.

use std::collections::BTreeMap;

/// A value of the registry: its type (`REG_SZ`, …) and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryValue {
    /// The type.
    pub kind: u32,
    /// The bytes.
    pub data: Vec<u8>,
}

impl RegistryValue {
    /// `REG_SZ`.
    pub const SZ: u32 = 1;
    /// `REG_EXPAND_SZ`.
    pub const EXPAND_SZ: u32 = 2;
    /// `REG_BINARY`.
    pub const BINARY: u32 = 3;
    /// `REG_DWORD`.
    pub const DWORD: u32 = 4;
    /// `REG_MULTI_SZ`.
    pub const MULTI_SZ: u32 = 7;
    /// `REG_QWORD`.
    pub const QWORD: u32 = 11;

    /// A text (`REG_SZ`).
    pub fn text(text: &str) -> Self {
        Self { kind: Self::SZ, data: wide_bytes(text) }
    }

    /// A list of texts (`REG_MULTI_SZ`).
    pub fn texts<T: AsRef<str>>(texts: &[T]) -> Self {
        let mut data: Vec<u8> = texts.iter().flat_map(|text| wide_bytes(text.as_ref())).collect();
        data.extend([0, 0]);
        Self { kind: Self::MULTI_SZ, data }
    }

    /// A number of 32 bits (`REG_DWORD`).
    pub fn number(number: u32) -> Self {
        Self { kind: Self::DWORD, data: number.to_le_bytes().into() }
    }
}

/// UTF-16 with a NUL at the end.
pub(crate) fn wide_bytes(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// A key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    /// Its own name, without its path.
    pub(crate) name: String,
    /// Its values, in the order in which they were set.
    pub(crate) values: Vec<(String, RegistryValue)>,
}

impl Key {
    /// The position of a value.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let wanted = folded(name);
        self.values.iter().position(|(own, _)| folded(own) == wanted)
    }
}

/// Keys by their path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    /// By the path without regard to case, without a `\` at its end.
    keys: BTreeMap<String, Key>,
}

/// A name without regard to case.
fn folded(name: &str) -> String {
    name.to_uppercase()
}

/// The path by which a key is found.
fn key_path(path: &str) -> String {
    folded(path.trim_end_matches('\\'))
}

impl Registry {
    /// Creates a key and all keys above it. Has no effect on keys that exist.
    pub(crate) fn create_all(&mut self, path: &str) {
        let path = path.trim_end_matches('\\');
        for (end, _) in path.match_indices('\\').skip(1).chain([(path.len(), "")]) {
            self.insert(&path[..end]);
        }
    }

    /// Creates a key. Returns whether it is new; `None` if the key above it does not exist.
    pub(crate) fn create(&mut self, path: &str) -> Option<bool> {
        let (above, _) = path.trim_end_matches('\\').rsplit_once('\\')?;
        self.keys.contains_key(&folded(above)).then(|| self.insert(path))
    }

    fn insert(&mut self, path: &str) -> bool {
        let path = path.trim_end_matches('\\');
        let name = path.rsplit('\\').next().unwrap_or_default().to_owned();
        let new = !self.keys.contains_key(&folded(path));
        self.keys.entry(folded(path)).or_insert(Key { name, values: Vec::new() });
        new
    }

    /// The key at a path.
    pub(crate) fn key(&self, path: &str) -> Option<&Key> {
        self.keys.get(&key_path(path))
    }

    /// The key at a path, to change its values.
    pub(crate) fn key_mut(&mut self, path: &str) -> Option<&mut Key> {
        self.keys.get_mut(&key_path(path))
    }

    /// The keys below a key, by name.
    pub(crate) fn subkeys(&self, path: &str) -> Vec<&Key> {
        let above = key_path(path) + "\\";
        let below = self.keys.range(above.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&above));
        below.filter(|(path, _)| !path[above.len()..].contains('\\')).map(|(_, key)| key).collect()
    }

    /// Removes a key that has no keys below it. Returns whether it did.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        self.subkeys(path).is_empty() && self.keys.remove(&key_path(path)).is_some()
    }

    /// Sets a value of a key. Returns whether the key exists.
    pub(crate) fn set(&mut self, path: &str, name: &str, value: RegistryValue) -> bool {
        let Some(key) = self.key_mut(path) else { return false };
        match key.position(name) {
            Some(position) => key.values[position].1 = value,
            None => key.values.push((name.to_owned(), value)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_without_regard_to_case() {
        let mut registry = Registry::default();
        registry.create_all(r"\Registry\Machine\Software\Wind");
        assert_eq!(registry.key(r"\REGISTRY\machine\SOFTWARE").unwrap().name, "Software");
        assert!(registry.key(r"\Registry\Machine\Soft").is_none());
        assert!(registry.set(
            r"\Registry\Machine\Software\wind\",
            "Speed",
            RegistryValue::number(1)
        ));
        assert!(registry.set(
            r"\Registry\Machine\Software\Wind",
            "SPEED",
            RegistryValue::number(2)
        ));
        let key = registry.key(r"\Registry\Machine\Software\Wind").unwrap();
        assert_eq!(key.values, [("Speed".to_owned(), RegistryValue::number(2))]);
    }

    #[test]
    fn subkeys_are_listed_by_name_and_only_one_level_deep() {
        let mut registry = Registry::default();
        registry.create_all(r"\Registry\A\Z\Deep");
        registry.create_all(r"\Registry\A\B");
        registry.create_all(r"\Registry\AB");
        let names: Vec<_> = registry.subkeys(r"\Registry\a").iter().map(|key| &*key.name).collect();
        assert_eq!(names, ["B", "Z"]);
        assert_eq!(registry.create(r"\Registry\A\B\C\D"), None, "there is no C");
        assert_eq!(registry.create(r"\Registry\A\B\C"), Some(true));
        assert_eq!(registry.create(r"\Registry\A\B\c"), Some(false));
        assert!(!registry.remove(r"\Registry\A\B") && registry.remove(r"\Registry\A\B\C"));
        assert!(registry.remove(r"\Registry\A\B"));
    }

    #[test]
    fn a_list_of_texts_ends_with_an_empty_one() {
        assert_eq!(RegistryValue::texts(&["a", "b"]).data, [97, 0, 0, 0, 98, 0, 0, 0, 0, 0]);
        assert_eq!(RegistryValue::text("a").data, [97, 0, 0, 0]);
    }
}
