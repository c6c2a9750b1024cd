//! Call sites: the client functions that called.

use cpp_demangle::{DemangleOptions, Symbol};
use std::backtrace::Backtrace;
use std::sync::Arc;

/// The maximum number of callers that are printed.
const FRAMES: usize = 4;

/// Functions below the client's own: the C library's start of a program or of a thread.
const STARTS: [&str; 6] =
    ["__libc_start_main", "__libc_start_call_main", "_start", "start_thread", "clone", "clone3"];

/// A call: its entry point and who called it.
#[derive(Debug)]
pub struct CallSite {
    /// The entry point.
    pub call: &'static str,
    caller: Caller,
    /// Where the call returns to: tells two places of a process apart. Zero if it is not known.
    return_address: usize,
}

/// What tells two call sites apart without their symbols: the return address, and the process if it
/// is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallSiteKey(usize, Option<Arc<str>>);

/// The caller.
#[derive(Debug)]
enum Caller {
    /// A function of this process. Symbols are resolved only when it is printed, because that is
    /// slow.
    Stack(Backtrace),
    /// Another process.
    Process(Arc<str>),
}

impl CallSite {
    /// The current call, which returns to this address.
    pub fn here(call: &'static str, return_address: usize) -> Self {
        Self { call, caller: Caller::Stack(Backtrace::force_capture()), return_address }
    }

    /// A call of another process.
    pub fn of_process(call: &'static str, process: &Arc<str>) -> Self {
        Self { call, caller: Caller::Process(process.clone()), return_address: 0 }
    }

    pub(crate) fn key(&self) -> CallSiteKey {
        let process = match &self.caller {
            Caller::Stack(_) => None,
            Caller::Process(process) => Some(process.clone()),
        };
        CallSiteKey(self.return_address, process)
    }

    /// The callers as text, the one that called the entry point first. Never empty.
    pub fn callers(&self) -> Vec<String> {
        match &self.caller {
            Caller::Stack(stack) => callers(&stack.to_string(), self.call),
            Caller::Process(process) => vec![process.to_string()],
        }
    }
}

/// The first frames outside of this library, of a stack in text: those below the exported
/// function. Frames are lines `number: name`, each with a line `at file:line:column` if known.
fn callers(stack: &str, call: &str) -> Vec<String> {
    let mut frames: Vec<(&str, Option<&str>)> = Vec::new();
    for line in stack.lines().map(str::trim) {
        match (name(line), frames.last_mut()) {
            (Some(function), _) => frames.push((function, None)),
            (None, Some((_, place))) => *place = line.strip_prefix("at "),
            (None, None) => (),
        }
    }
    let exported = |frame: &&(&str, Option<&str>)| frame.0.rsplit("::").next() == Some(call);
    // An inlined function has several frames of the same name.
    let below = frames.iter().skip_while(|frame| !exported(frame)).skip_while(exported);
    let own = below.take_while(|frame| frame.0 != "<unknown>" && !STARTS.contains(&frame.0));
    let callers: Vec<String> = own.take(FRAMES).map(|(name, place)| text(name, *place)).collect();
    if callers.is_empty() { vec!["a function without a name".to_owned()] } else { callers }
}

/// A frame as text. Names of C++ are as in the source.
fn text(name: &str, place: Option<&str>) -> String {
    let options = DemangleOptions::default();
    let mangled = Some(name).filter(|name| name.starts_with("_Z"));
    let demangled = mangled.and_then(|name| Symbol::new(name).ok()?.demangle(&options).ok());
    let name = demangled.unwrap_or_else(|| name.to_owned());
    match place {
        None => name,
        Some(place) => format!("{name} at {}", place.trim_start_matches("./")),
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
   4: _ZN6client6Device4openEj
   5: main
             at ./client.c:40:9
   6: __libc_start_call_main
   7: _start
";

    #[test]
    fn the_callers_are_below_the_exported_function() {
        assert_eq!(
            callers(STACK, "D3DKMTCreateDevice"),
            [
                "open_device at client.c:12:5",
                "client::Device::open(unsigned int)",
                "main at client.c:40:9"
            ]
        );
        let bare = "0: D3DKMTCreateDevice\n1: main\n2: _start";
        assert_eq!(callers(bare, "D3DKMTCreateDevice"), ["main"]);
    }

    #[test]
    fn at_most_four_callers_are_listed() {
        let deep = "0: D3DKMTCreateDevice\n1: a\n2: b\n3: c\n4: d\n5: e";
        assert_eq!(callers(deep, "D3DKMTCreateDevice"), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_stack_without_names_is_said_to_have_none() {
        let none = ["a function without a name"];
        assert_eq!(callers("0: <unknown>\n1: <unknown>", "D3DKMTCreateDevice"), none);
        assert_eq!(callers("", "D3DKMTCreateDevice"), none);
        assert_eq!(callers("0: D3DKMTCreateDevice", "D3DKMTCreateDevice"), none);
    }
}
