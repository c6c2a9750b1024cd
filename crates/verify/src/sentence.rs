//! Text for people: counts with their nouns, statuses with their names.
//!
//! Judges print counts and statuses as numbers. Reports pass every message through [`sentence`],
//! after findings are compared by their cause, so that one packet and two packets are one cause.

/// A count with its noun, in the singular or plural.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// What follows a noun without belonging to it.
const AFTER_NOUN: [char; 8] = [' ', '\n', ',', ';', ':', '.', ')', '\''];

/// A sentence for people: with the names of statuses, and with the noun and the verb after `1` in the
/// singular (judges print counts, and one is the rare case).
pub fn sentence(message: &str) -> String {
    const NOUNS: [(&str, &str); 34] = [
        ("allocations", "allocation"),
        ("bags", "bag"),
        ("bits", "bit"),
        ("blocks", "block"),
        ("buffers", "buffer"),
        ("bytes", "byte"),
        ("clocks", "clock"),
        ("clones", "clone"),
        ("contexts", "context"),
        ("devices", "device"),
        ("elements", "element"),
        ("entries", "entry"),
        ("frames", "frame"),
        ("handles", "handle"),
        ("instances", "instance"),
        ("items", "item"),
        ("levels", "level"),
        ("mappings", "mapping"),
        ("members", "member"),
        ("nodes", "node"),
        ("objects", "object"),
        ("operations", "operation"),
        ("packets", "packet"),
        ("pages", "page"),
        ("pieces", "piece"),
        ("pins", "pin"),
        ("processes", "process"),
        ("queues", "queue"),
        ("segments", "segment"),
        ("sources", "source"),
        ("steps", "step"),
        ("threads", "thread"),
        ("times", "time"),
        ("views", "view"),
    ];
    // What may stand between a count and its noun.
    const ADJECTIVES: [&str; 8] =
        ["NT", "display", "live", "local", "more", "paging", "pool", "synchronization"];
    // Verbs that come directly after the noun.
    const VERBS: [(&str, &str); 5] = [
        ("have", "has"),
        ("keep", "keeps"),
        ("need", "needs"),
        ("point", "points"),
        ("wait", "waits"),
    ];
    let mut shown_message = String::new();
    let (mut noun, mut verb, mut is_after_noun) = (false, false, false);
    let message = name_statuses(message).replace("there are 1 ", "there is 1 ");
    for piece in message.split_inclusive([' ', '\n']) {
        let word = piece.trim_end_matches(AFTER_NOUN);
        let after = &piece[word.len()..];
        let singular = NOUNS.iter().find(|(plural, _)| *plural == word).filter(|_| noun);
        let own_verb = VERBS.iter().find(|(plural, _)| *plural == word).filter(|_| is_after_noun);
        let shown = match (singular.or(own_verb), word) {
            (Some((_, singular)), _) => singular,
            (None, "are") if verb => "is",
            (None, "were") if verb => "was",
            _ => word,
        };
        // The verb of the noun is the next one in its clause.
        let clause_ends = shown != word || after.contains([',', ';', ':', '.', '\n']);
        verb = singular.is_some() || verb && !clause_ends;
        is_after_noun = singular.is_some();
        noun = after == " " && (word == "1" || noun && ADJECTIVES.contains(&word));
        shown_message.extend([shown, after]);
    }
    shown_message
}

/// The text with each status as its name: the numbers after `status=`, `result=` and `returned `.
pub fn name_statuses(text: &str) -> String {
    let mut named = text.to_owned();
    for before in ["status=0x", "result=0x", "returned 0x", "returns 0x", "with 0x"] {
        let mut from = 0;
        while let Some(found) = named[from..].find(before) {
            let start = from + found + before.len() - 2;
            from = start + 2;
            let Some(digits) = named.get(from..from + 8) else { continue };
            let whole = !named[from + 8..].starts_with(|next: char| next.is_ascii_alphanumeric());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| whole);
            if let Some(name) = code.and_then(|code| abi::status::name(code.cast_signed())) {
                named.replace_range(start..from + 8, name);
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_names() {
        assert_eq!(name_statuses("a status=0x00000103 b"), "a status=STATUS_PENDING b");
        assert_eq!(
            name_statuses("it returned 0xC000000D."),
            "it returned STATUS_INVALID_PARAMETER."
        );
        for text in
            ["handle=0x00000103", "returned 0xC000000D0", "status=0xC00", "status=0xCFFFFFFE"]
        {
            assert_eq!(name_statuses(text), text);
        }
    }

    #[test]
    fn one_thing_is_singular() {
        for (message, shown) in [
            ("1 pieces of its memory are left", "1 piece of its memory is left"),
            ("2 pieces of its memory are left", "2 pieces of its memory are left"),
            ("up to 1 bytes behind it were written", "up to 1 byte behind it was written"),
            (
                "takes 1 more pool blocks for it, and 2 are",
                "takes 1 more pool block for it, and 2 are",
            ),
            ("allocation 1 uses 64 bytes", "allocation 1 uses 64 bytes"),
            ("view 1, and 3 views are", "view 1, and 3 views are"),
            ("node 4, but there are 1 nodes", "node 4, but there is 1 node"),
            (
                "was locked 1 times more (with 1 NT handles)",
                "was locked 1 time more (with 1 NT handle)",
            ),
            (
                "handle 0x1, 1 packets in flight\n  view 1: of 1 views\n",
                "handle 0x1, 1 packet in flight\n  view 1: of 1 view\n",
            ),
            ("instance 1 uses 11 bytes, 1 are", "instance 1 uses 11 bytes, 1 are"),
            ("1 NT objects keep it alive", "1 NT object keeps it alive"),
            ("while 1 nodes have work", "while 1 node has work"),
        ] {
            assert_eq!(sentence(message), shown);
        }
    }

    #[test]
    fn a_count_has_the_right_noun() {
        assert_eq!(
            [0, 1, 2].map(|count| plural(count, "error")),
            ["0 errors", "1 error", "2 errors"]
        );
    }
}
