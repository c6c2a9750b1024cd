//! Times of the steps of the test command, and of its tests.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// The finished steps, and the running one.
pub(crate) struct Times {
    ended: Vec<Step>,
    running: Option<(String, Instant, Option<Duration>)>,
    tests: Vec<(Duration, String)>,
}

/// The number of tests that are listed.
const SLOWEST: usize = 10;

/// The time of a step: wall clock, and processor time of its child processes, if known.
struct Step {
    name: String,
    clock: Duration,
    processor: Option<Duration>,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self { ended: Vec::new(), running: None, tests: Vec::new() }
    }

    /// Ends the running step, begins another one, and prints both.
    pub(crate) fn begin(&mut self, name: &str) {
        self.end();
        println!("\n== {name}");
        self.running = Some((name.to_owned(), Instant::now(), processor_time()));
    }

    fn end(&mut self) {
        let Some((name, began, before)) = self.running.take() else { return };
        let processor =
            processor_time().zip(before).map(|(now, before)| now.saturating_sub(before));
        let step = Step { name, clock: began.elapsed(), processor };
        println!("   {}", step.line());
        self.ended.push(step);
    }

    /// Notes the time of a test: a line like `test module::name ... ok <1.234s>`.
    pub(crate) fn add_test(&mut self, line: &str) {
        self.tests.extend(test_time(line));
    }

    /// Lists the slowest tests. A test that waits for another one, or for a processor, is slow, too.
    pub(crate) fn slowest_tests(&mut self) -> String {
        self.tests.sort_by_key(|test| std::cmp::Reverse(test.0));
        let mut text = format!("the {SLOWEST} slowest tests\n");
        for (time, name) in self.tests.iter().take(SLOWEST) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>8}  {name}", seconds(*time));
        }
        text
    }

    /// Ends the running step, and lists all steps with their sum, the slowest first.
    pub(crate) fn table(&mut self) -> String {
        self.end();
        let mut text = "   clock  processor  step\n".to_owned();
        let all = Step {
            name: "all steps".to_owned(),
            clock: self.ended.iter().map(|step| step.clock).sum(),
            processor: self.ended.iter().map(|step| step.processor).sum(),
        };
        self.ended.sort_by_key(|step| std::cmp::Reverse(step.clock));
        for step in self.ended.iter().chain([&all]) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", step.line());
        }
        text
    }
}

impl Step {
    fn line(&self) -> String {
        let processor = self.processor.map_or("?".to_owned(), seconds);
        format!("{:>8}  {processor:>9}  {}", seconds(self.clock), self.name)
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The time and the name in a line like `test module::name ... ok <1.234s>`.
fn test_time(line: &str) -> Option<(Duration, String)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let time = rest.rsplit_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    Some((Duration::try_from_secs_f64(time).ok()?, name.to_owned()))
}

/// The processor time of all finished descendants, as Linux counts it.
fn processor_time() -> Option<Duration> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Reads `cutime` and `cstime`, in hundredths of a second: the 16th and the 17th field, of which
/// the second is a name in parentheses that may have spaces in it.
fn parse(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (next()? + next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 250 150 20 0";
        assert_eq!(parse(stat), Some(Duration::from_secs(4)));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    fn each_step_has_a_line_and_so_has_the_sum() {
        let mut times = Times::new();
        times.begin("one");
        times.begin("two");
        std::thread::sleep(Duration::from_millis(20));
        let table = times.table();
        let names: Vec<&str> = table.lines().filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(names, ["step", "two", "one", "all steps"]);
    }

    #[test]
    fn the_slowest_tests_come_first() {
        let mut times = Times::new();
        for line in [
            "test fast ... ok <0.001s>",
            "test a::slow ... ok <12.340s>",
            "test ignored ... ignored",
            "test result: ok. 3 passed; 0 failed; finished in 1.00s",
        ] {
            times.add_test(line);
        }
        let text = "the 10 slowest tests\n  12.3 s  a::slow\n   0.0 s  fast\n";
        assert_eq!(times.slowest_tests(), text);
    }
}
