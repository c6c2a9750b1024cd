//! The cause of a finding: its message without the numbers.
//!
//! Two findings are one if rule, component, place and cause agree. The words of a message say what
//! was wrong; its numbers say with which object, at which address and by how much. The same mistake
//! with allocation 3 and allocation 7, or with 50 bytes and 18 bytes, is one cause. Freeing with a
//! wrong tag and freeing an unknown address differ in words: two causes. Some numbers are words:
//! statuses and flags (eight digits that begin with `0x00`, as `0x00000800 is reserved`), and a zero
//! that is not the number of an object (a size of 0 is another mistake than one that is too large).

/// Where the description of a wait ends and the graph of all waits begins, which depends on the
/// scenario.
const GRAPH: &str = " is left to run: ";

/// The message with each number replaced by `#`, except those that say what was wrong.
pub fn cause(message: &str) -> String {
    let message = message.split(GRAPH).next().unwrap_or(message);
    let mut cause = String::with_capacity(message.len());
    let mut before = "";
    for word in message.split_inclusive(' ') {
        let start = word.find(|character: char| character.is_ascii_digit());
        let opens = |text: &str| text.chars().all(|character| !character.is_alphanumeric());
        match start.filter(|start| opens(&word[..*start])) {
            Some(start) => {
                let (front, number) = word.split_at(start);
                let end = number.find(|character: char| !character.is_ascii_alphanumeric());
                let (number, rest) = number.split_at(end.unwrap_or(number.len()));
                let shown = if is_cause(number, before) { number } else { "#" };
                cause.extend([front, shown, rest]);
            }
            None => cause.push_str(word),
        }
        before = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
    }
    cause
}

/// Whether a word that begins with a digit, after another word, says what was wrong.
fn is_cause(number: &str, before: &str) -> bool {
    match number.strip_prefix("0x") {
        Some(digits) => {
            let flags = digits.len() == 8 && digits.starts_with("00");
            flags || ["returned", "returns", "status", "result"].contains(&before)
        }
        None if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            number == "0" && !names_objects(before)
        }
        None => true,
    }
}

/// Whether a number after this word is the number of an object.
fn names_objects(word: &str) -> bool {
    let others = [
        "block",
        "byte",
        "entries",
        "entry",
        "fence",
        "handle",
        "level",
        "offset",
        "operation",
        "packet",
        "page",
    ];
    others.contains(&word) || flight::Kind::find(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_mistake_with_other_numbers_is_one_cause() {
        assert_eq!(cause("allocation 3 of node 0 is lost"), "allocation # of node # is lost");
        assert_eq!(cause("page-table 12, at 0x1000, is free"), "page-table #, at #, is free");
        assert_eq!(cause("frees 0x1234 with tag Wtdr"), "frees # with tag Wtdr");
        assert_eq!(cause("wrote 50 bytes, not 18"), "wrote # bytes, not #");
        let waits = |graph: &str| {
            format!("the wait for sync 1 cannot end: nothing is left to run: {graph}")
        };
        assert_eq!(cause(&waits("main waits")), cause(&waits("system waits")));
    }

    #[test]
    fn words_zeros_and_statuses_stay() {
        for message in [
            "a Size of 0, tag Wt3r",
            "DxgkDdiX2 returned 0xC0000001",
            "0x00000800 is reserved",
            "uses 3D",
            "",
        ] {
            assert_eq!(cause(message), message);
        }
        assert_ne!(cause("a Size of 0"), cause("a Size of 7"));
        let freed = |what: &str| cause(&format!("freed pool block 1, but {what}"));
        assert_ne!(freed("it was freed before"), freed("its tag is Wtdr"));
    }
}
