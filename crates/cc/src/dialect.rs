//! What C++ sources mean to Microsoft's compiler and not to clang:
//!
//! - `const NAME = 1;` is an `int`, which clang refuses.
//! - An `operator new` of the kernel returns NULL when there is no memory, and no constructor runs
//!   then. clang runs it, unless the operator is `noexcept`: clang 14 has no `-fcheck-new`.
//!
//! Lines keep their numbers.

/// The text as clang has to read it, if that is another.
pub(crate) fn translated(text: &str) -> Option<String> {
    let whole = with_noexcept(&with_types(text));
    (whole != text).then_some(whole)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Constants without a type get one.
fn with_types(text: &str) -> String {
    let typed = |row: &str| {
        let rest = row.strip_prefix("const ")?.trim_start();
        let after = rest.trim_start_matches(is_word);
        let is_untyped = after.len() < rest.len() && after.trim_start().starts_with('=');
        is_untyped.then(|| format!("const int {rest}"))
    };
    text.split_inclusive('\n').map(|row| typed(row).unwrap_or_else(|| row.to_owned())).collect()
}

/// Declarations of `operator new` get `noexcept`. A call of it stays.
fn with_noexcept(text: &str) -> String {
    const NEW: &str = "operator new";
    let (mut whole, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(NEW) {
        let (before, after) = rest.split_at(at + NEW.len());
        whole.push_str(before);
        rest = after;
        let start = before[..at].trim_end();
        let is_declared = start.ends_with(|it: char| is_word(it) || it == '*')
            && start.rsplit(|it| !is_word(it)).next() != Some("return");
        if !is_declared {
            continue;
        }
        let Some(length) = parameters(rest) else { continue };
        let (list, next) = rest.split_at(length);
        whole.push_str(list);
        rest = next;
        let behind = next.trim_start();
        if !behind.starts_with("noexcept") && !behind.starts_with("throw") {
            whole.push_str(" noexcept");
        }
    }
    whole + rest
}

/// The length of a list of parameters, with what is before it: spaces, or the brackets of `new[]`.
fn parameters(text: &str) -> Option<usize> {
    let open = text.find('(')?;
    if !text[..open].trim().trim_start_matches('[').trim_start().trim_end_matches(']').is_empty() {
        return None;
    }
    let (mut depth, mut is_text) = (0_usize, false);
    for (at, character) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match character {
            '"' => is_text = !is_text,
            '(' if !is_text => depth += 1,
            ')' if !is_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => (),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_constant_without_a_type_gets_one() {
        let text = "const Level = 1;\nconst int Two = 2;\nconst\nFOO x = 1;\n  const y = 1;\n";
        let expected =
            "const int Level = 1;\nconst int Two = 2;\nconst\nFOO x = 1;\n  const y = 1;\n";
        assert_eq!(translated(text).as_deref(), Some(expected));
        assert_eq!(translated("const int a = 1;\n"), None);
    }

    #[test]
    fn only_a_declaration_of_operator_new_gets_noexcept() {
        for (text, expected) in [
            ("void *operator new(size_t a);", "void *operator new(size_t a) noexcept;"),
            (
                "PVOID operator new[]\n(\n  size_t a, _When_(x, f(\"no (\"))\n  int b\n)\n{",
                "PVOID operator new[]\n(\n  size_t a, _When_(x, f(\"no (\"))\n  int b\n) noexcept\n{",
            ),
        ] {
            assert_eq!(translated(text).as_deref(), Some(expected));
        }
        for text in [
            "void *operator new(size_t a) noexcept;",
            "x = ::operator new(4);",
            "return operator new(4);",
            "x = operator new (4);",
        ] {
            assert_eq!(translated(text), None, "{text}");
        }
    }
}
