//! The cause of a finding: its message without the numbers that name objects.
//!
//! Two findings are one if rule, component, place and cause agree. The same mistake with another
//! object is the same cause: `allocation 3` and `allocation 7` differ in a number that names an
//! object, and `0x…` is an address or a handle. All other words and values are the cause: freeing
//! with a wrong tag and freeing an unknown address are two, and so are a size of 0 and one of 7.

/// Words after which a number names something, besides the names of [`flight::Kind`].
const NAMED: [&str; 14] = [
    "packet",
    "packets",
    "fence",
    "fences",
    "block",
    "blocks",
    "handle",
    "update",
    "operation",
    "event",
    "thread",
    "entry",
    "offset",
    "byte",
];

/// The message with each number that names an object replaced by `#`.
pub fn cause(message: &str) -> String {
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
                let digits = number.bytes().all(|byte| byte.is_ascii_digit());
                let names = digits && names_objects(before) || is_hex(number) && !returns(before);
                cause.extend([front, if names { "#" } else { number }, rest]);
            }
            None => cause.push_str(word),
        }
        before = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
    }
    cause
}

/// Whether a number after this word is the number of an object.
fn names_objects(word: &str) -> bool {
    NAMED.contains(&word) || flight::Kind::find(word).is_some()
}

/// Whether a number after this word is a status.
fn returns(word: &str) -> bool {
    ["returned", "returns", "status", "result", "with"].contains(&word)
}

fn is_hex(number: &str) -> bool {
    number.strip_prefix("0x").is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_addresses_have_no_number() {
        assert_eq!(cause("allocation 3 of device 1 is lost"), "allocation # of device # is lost");
        assert_eq!(cause("page-table 12, at 0x1000, is free"), "page-table #, at #, is free");
        assert_eq!(cause("frees 0x1234 with tag Wtdr"), "frees # with tag Wtdr");
    }

    #[test]
    fn other_values_stay() {
        for message in [
            "gave a Size of zero (32 bytes, tag Wt3r)",
            "DxgkDdiX2 returned 0xC0000001",
            "requires 2 lists, not 3",
            "",
        ] {
            assert_eq!(cause(message), message);
        }
    }
}
