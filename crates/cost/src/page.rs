//! The tables as Markdown.

use crate::goals::FLAT;
use crate::{
    BenchReport, BenchSize, CheckUsage, Goal, ImageRow, MemoryRow, Row, ServerRow, StreamRow,
    UmdRow, WorkRow, goals,
};

/// Introduction and header of the table of pairs.
pub(crate) fn head(extent: &BenchSize) -> String {
    let BenchSize { pairs, turns, .. } = extent;
    let debug = if cfg!(debug_assertions) {
        "This is a debug build: its times mean nothing.\n"
    } else {
        ""
    };
    format!(
        "One standalone allocation created and opened, one closed and destroyed, with others\n\
         live: nanoseconds a pair, median of {turns} turns of {pairs} (with threads longer, fewer).\n\
         bare: an Arc of 256 bytes in and out of a table under one lock; composite: and a page of\n\
         a segment. Both in turns with the row. bytes: of each that lives.\n{debug}\n\
         | what | live | dies | ns a pair | bare | composite | times bare | bytes |\n\
         |---|---:|---|---:|---:|---:|---:|---:|\n"
    )
}

/// A row of the table of pairs.
pub(crate) fn line(it: &Row) -> String {
    let Row { what, live, dies, pair, bare, composite, .. } = it;
    let bytes = it.bytes.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let times = pair / bare;
    format!(
        "| {what} | {live} | {dies} | {pair:.0} | {bare:.0} | {composite:.0} | {times:.1} | {bytes} |\n"
    )
}

/// The header of the table of memory.
pub(crate) const MEMORY_HEAD: &str = "\
| video memory | live | which | number | beside | times the best | wanted | met | bytes |
|---|---:|---|---:|---|---:|---:|---|---:|
";

/// A row of memory.
pub(crate) fn memory_line(it: &MemoryRow) -> String {
    let MemoryRow { what, live, which, unit, .. } = it;
    let digits = usize::from(it.least());
    let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
    let others: Vec<String> = it
        .beside
        .iter()
        .map(|(name, background)| format!("{name} {background:.digits$}"))
        .collect();
    let beside = or_none((!others.is_empty()).then(|| others.join(", ")));
    let times = or_none(it.times().map(|value| format!("{value:.2}")));
    let sign = if it.least() { ">=" } else { "<=" };
    let wanted = or_none(it.wanted.map(|value| format!("{sign} {value}")));
    let met = it.met().map_or("-", |met| if met { "yes" } else { "no" });
    let bytes = or_none(it.bytes.map(|value| format!("{value:.0}")));
    let number = it.number;
    format!(
        "| {what} | {live} | {which} | {number:.digits$} {unit} | {beside} | {times} | {wanted} | {met} | {bytes} |\n"
    )
}

/// The header of the table of scheduling and addresses.
pub(crate) const WORK_HEAD: &str = "\
| scheduling and addresses | live | ns | wanted | times the fewest live | wanted | met |
|---|---:|---:|---:|---:|---:|---|
";

/// A row of scheduling and addresses.
pub(crate) fn work_line(it: &WorkRow) -> String {
    let WorkRow { what, live, number, .. } = it;
    let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
    let wanted = or_none(it.wanted.map(|value| format!("<= {value}")));
    let times = or_none(it.times().map(|value| format!("{value:.2}")));
    let flat = or_none(it.times().map(|_| format!("<= {FLAT}")));
    let met = it.met().map_or("-", |met| if met { "yes" } else { "no" });
    format!("| {what} | {live} | {number:.0} | {wanted} | {times} | {flat} | {met} |\n")
}

/// The header of the table of user-mode drivers.
pub(crate) const THROUGH_HEAD: &str = "\
| user-mode drivers | calls | ns, thunks | ns, runtime | added a call | wanted | met |
|---|---:|---:|---:|---:|---:|---|
";

/// A row of user-mode drivers.
pub(crate) fn through_line(it: &UmdRow) -> String {
    let UmdRow { what, calls, thunk, runtime, .. } = it;
    let wanted = it.wanted.map_or("-".to_owned(), |value| format!("<= {value}"));
    let met = it.met().map_or("-", |met| if met { "yes" } else { "no" });
    let added = it.added();
    format!("| {what} | {calls} | {thunk:.0} | {runtime:.0} | {added:.0} | {wanted} | {met} |\n")
}

/// The header of the table of streams.
pub(crate) const STREAM_HEAD: &str = "\
| streams | bytes | ns a frame | bare queue | times | wanted | met |
|---|---:|---:|---:|---:|---:|---|
";

/// A row of streams.
pub(crate) fn stream_line(it: &StreamRow) -> String {
    let StreamRow { what, bytes, number, bare, .. } = it;
    let wanted = it.wanted.map_or("-".to_owned(), |value| format!("<= {value}"));
    let met = it.met().map_or("-", |met| if met { "yes" } else { "no" });
    let times = it.times();
    format!("| {what} | {bytes} | {number:.0} | {bare:.0} | {times:.1} | {wanted} | {met} |\n")
}

/// The header of the table of images.
pub(crate) const IMAGE_HEAD: &str = "\
| images | time | beside | added | times | wanted | met |
|---|---:|---:|---:|---:|---:|---|
";

/// A row of images.
pub(crate) fn image_line(it: &ImageRow) -> String {
    let or_none = |number: Option<f64>| number.map_or("-".to_owned(), |value| it.unit.text(value));
    let (what, time) = (it.what, it.unit.text(it.time));
    let (beside, added) = (or_none(it.beside), or_none(it.added()));
    let wanted = it.wanted.map_or("-".to_owned(), |value| format!("<= {}", it.unit.text(value)));
    let times = it.times().map_or("-".to_owned(), |times| format!("{times:.2}"));
    let met = it.met().map_or("-", |met| if met { "yes" } else { "no" });
    format!("| {what} | {time} | {beside} | {added} | {times} | {wanted} | {met} |\n")
}

/// The header of the row of the command.
pub(crate) const CHECK_HEAD: &str = "\
| the command | processor | page faults | waits |
|---|---:|---:|---:|
";

/// The header of the table of a server.
pub(crate) const SERVER_HEAD: &str = "\
| several processes | ns | C library | times |
|---|---:|---:|---:|
";

/// A row of a server.
pub(crate) fn server_line(it: &ServerRow) -> String {
    let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
    let library = or_none(it.library.map(|number| format!("{number:.0}")));
    let times = or_none(it.times().map(|number| format!("{number:.1}")));
    format!("| {} | {:.0} | {library} | {times} |\n", it.what, it.server)
}

/// The row of the command.
pub(crate) fn check_line(it: &CheckUsage) -> String {
    let (processor, what) = (it.processor.as_millis(), it.what());
    format!("| {what} | {processor} ms | {} | {} |\n", it.page_faults, it.waits)
}

/// The goals that have a number: one row each. Empty if none has.
pub(crate) fn table_of_goals(report: &BenchReport) -> String {
    let goals = goals(report);
    let lines: Vec<String> = goals.iter().filter_map(goal).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n| goal | wanted | measured | met |\n|---|---:|---:|---|\n{}", lines.concat())
}

fn goal(it: &Goal) -> Option<String> {
    let sign = if it.least { ">=" } else { "<=" };
    let digits = if it.wanted < 100.0 { 2 } else { 0 };
    let number = |(with, number): &(String, f64)| {
        let with = if with.is_empty() { String::new() } else { format!(" ({with})") };
        format!("{number:.digits$}{with}")
    };
    let numbers: Vec<String> = it.numbers.iter().map(number).collect();
    let met = if it.met()? { "yes" } else { "no" };
    Some(format!("| {} | {sign} {} | {} | {met} |\n", it.what, it.wanted, numbers.join(", ")))
}
