//! Trace macros of the Windows preprocessor (WPP). It writes a file `NAME.tmh` for each source,
//! which defines the macros that a configuration in comments declares (`FUNC NAME(...)`). Here they
//! do nothing.

use std::collections::BTreeSet;

/// The macros that every such file defines.
const ALWAYS: &str = "\
/* Trace macros that do nothing: written by windtunnel cc. */
#ifndef WPP_INIT_TRACING
#define WPP_INIT_TRACING(...) ((void)0)
#define WPP_CLEANUP(...) ((void)0)
#define WPP_LEVEL_ENABLED(...) 0
#define WPP_LEVEL_FLAGS_ENABLED(...) 0
#endif
#ifndef DoTraceMessage
#define DoTraceMessage(...) ((void)0)
#endif
#ifndef TraceEvents
#define TraceEvents(...) ((void)0)
#endif
";

/// The files with trace macros that a text includes.
pub(crate) fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|row| {
        let name = row.trim().strip_prefix('#')?.trim().strip_prefix("include")?.trim();
        let name = name.trim_matches(['"', '<', '>']);
        name.to_ascii_lowercase().ends_with(".tmh").then_some(name)
    })
}

/// The macros that the configuration in a text's comments declares.
pub(crate) fn declared(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_open = false;
    for row in text.lines() {
        let row = row.trim().trim_start_matches(['/', '*']).trim();
        is_open = is_open && !row.starts_with("end_wpp") || row.starts_with("begin_wpp");
        if is_open && let Some(rest) = row.strip_prefix("FUNC ") {
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            let name = rest.trim().split(|it| !is_word(it)).next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    names
}

/// The text of a file with trace macros.
pub(crate) fn text(names: &BTreeSet<String>) -> String {
    let mut text = ALWAYS.to_owned();
    for name in names {
        text.extend(["#undef ", name, "\n#define ", name, "(...) ((void)0)\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_those_of_the_configuration() {
        let text = "// FUNC Outside(MSG);\n// begin_wpp config\n// FUNC TraceOne{LEVEL=X}(MSG, ...);\
                    \n// USEPREFIX (TraceOne, \"x\");\n//  FUNC TraceTwo(LEVEL, MSG);\n// end_wpp\n\
                    // FUNC After(MSG);\n";
        let names: Vec<String> = declared(text).into_iter().collect();
        assert_eq!(names, ["TraceOne", "TraceTwo"]);
        let includes: Vec<&str> = included("#include <a.h>\n  # include \"B.TMH\"\n").collect();
        assert_eq!(includes, ["B.TMH"]);
    }
}
