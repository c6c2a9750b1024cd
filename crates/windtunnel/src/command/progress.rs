//! A progress line for long runs, printed only to a terminal.

use std::io::Write;

/// The progress line appears from this many flights on.
const LONG: u64 = 40;

/// The progress of a run.
pub(crate) struct Progress<W> {
    to: Option<W>,
    total: u64,
    done: u64,
    shown: bool,
}

impl<W: Write> Progress<W> {
    /// Shows the progress of `total` flights on `to`, if `terminal` and the flights are many.
    pub(crate) fn new(total: u64, to: W, terminal: bool) -> Self {
        let to = (terminal && total > LONG).then_some(to);
        Self { to, total, done: 0, shown: false }
    }

    /// Counts a finished flight of the scenario `what`.
    pub(crate) fn step(&mut self, what: &str) {
        let before = percent(self.done, self.total);
        self.done += 1;
        let now = percent(self.done, self.total);
        let Some(to) = &mut self.to else { return };
        if now == before && self.shown {
            return;
        }
        self.shown = true;
        // A progress line that cannot be written is no reason to stop.
        let _ = write!(to, "\r\x1b[K{now:>3}% {} of {} flights, {what}", self.done, self.total);
        let _ = to.flush();
    }

    /// Prints what a driver printed, to standard error and in place of the line.
    pub(crate) fn print(&mut self, text: &[u8]) {
        if !text.is_empty() {
            self.clear();
            // A closed standard error is no reason to stop.
            let _ = std::io::stderr().write_all(text);
        }
    }

    /// Clears the line, so that other output can be printed.
    pub(crate) fn clear(&mut self) {
        if let (Some(to), true) = (&mut self.to, self.shown) {
            let _ = write!(to, "\r\x1b[K");
            let _ = to.flush();
            self.shown = false;
        }
    }
}

fn percent(done: u64, total: u64) -> u64 {
    done.saturating_mul(100).checked_div(total).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(total: u64, terminal: bool) -> String {
        let mut text = Vec::new();
        let mut progress = Progress::new(total, &mut text, terminal);
        for _ in 0..total {
            progress.step("create-resource");
        }
        progress.clear();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn only_long_work_on_a_terminal_is_shown() {
        assert_eq!(output(500, false), "");
        assert_eq!(output(40, true), "");
        let output = output(500, true);
        assert!(output.contains("100% 500 of 500 flights, create-resource"), "{output}");
        assert!(output.ends_with("\r\x1b[K"), "it leaves nothing behind");
        assert!(output.matches('%').count() <= 101, "once for each percent");
    }
}
