//! Call sites: the client function that called.

use std::backtrace::Backtrace;

/// A call: its entry point and its stack. Symbols are resolved only when
/// the caller is printed, because that is slow.
pub(crate) struct CallSite {
    pub(crate) call: &'static str,
    stack: Backtrace,
}

impl CallSite {
    /// The current call.
    pub(crate) fn here(call: &'static str) -> Self {
        Self { call, stack: Backtrace::force_capture() }
    }

    /// The caller, as text.
    pub(crate) fn caller(&self) -> String {
        caller(&self.stack.to_string(), self.call)
    }
}

/// The first frame outside of this library, of a stack in text: the one below the exported
/// function. Frames are lines `number: name`, each with a line `at file:line:column` if known.
fn caller(stack: &str, call: &str) -> String {
    let mut lines = stack.lines().map(str::trim).peekable();
    let exported =
        |line: &str| name(line).is_some_and(|path| path.rsplit("::").next() == Some(call));
    let found = lines.by_ref().any(exported);
    // An inlined function has several frames of the same name.
    while lines.peek().is_some_and(|line| name(line).is_none() || exported(line)) {
        lines.next();
    }
    let function = lines.next().and_then(name).filter(|function| found && *function != "<unknown>");
    let place = lines.peek().and_then(|line| line.strip_prefix("at "));
    match (function, place) {
        (None, _) => "a function without a name".to_owned(),
        (Some(function), None) => function.to_owned(),
        (Some(function), Some(place)) => {
            format!("{function} at {}", place.trim_start_matches("./"))
        }
    }
}

/// The name in a line of a frame.
fn name(line: &str) -> Option<&str> {
    let (number, name) = line.split_once(": ")?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "   0: windtunnel_d3dkmt::site::Site::here
             at ./src/site.rs:18:30
   1: windtunnel_d3dkmt::tunnel::call
   2: windtunnel_d3dkmt::exports::D3DKMTCreateDevice
             at ./src/exports.rs:28:17
   3: open_device
             at ./client.c:12:5
   4: main
             at ./client.c:40:9
";

    #[test]
    fn the_caller_is_below_the_exported_function() {
        assert_eq!(caller(STACK, "D3DKMTCreateDevice"), "open_device at client.c:12:5");
        let bare = "0: D3DKMTCreateDevice\n1: main\n2: start";
        assert_eq!(caller(bare, "D3DKMTCreateDevice"), "main");
    }

    #[test]
    fn a_stack_without_names_is_said_to_have_none() {
        let none = "a function without a name";
        assert_eq!(caller("0: <unknown>\n1: <unknown>", "D3DKMTCreateDevice"), none);
        assert_eq!(caller("", "D3DKMTCreateDevice"), none);
        assert_eq!(caller("0: D3DKMTCreateDevice", "D3DKMTCreateDevice"), none);
    }
}
