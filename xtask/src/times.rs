//! Times of the steps of the test command.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// The finished steps, and the running one.
pub(crate) struct Times {
    ended: Vec<Step>,
    running: Option<(String, Instant, Option<Duration>)>,
}

/// The time of a step: wall clock, and processor time of its child processes, if known.
struct Step {
    name: String,
    clock: Duration,
    processor: Option<Duration>,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self { ended: Vec::new(), running: None }
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

    /// Ends the running step, and lists all steps with their sum.
    pub(crate) fn table(&mut self) -> String {
        self.end();
        let mut text = "   clock  processor  step\n".to_owned();
        let all = Step {
            name: "all steps".to_owned(),
            clock: self.ended.iter().map(|step| step.clock).sum(),
            processor: self.ended.iter().map(|step| step.processor).sum(),
        };
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
        let table = times.table();
        let names: Vec<&str> = table.lines().filter_map(|line| line.rsplit("  ").next()).collect();
        assert_eq!(names, ["step", "one", "two", "all steps"]);
    }
}
