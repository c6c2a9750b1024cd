//! `windtunnel bench`.

use super::{CommandError, json};
use cost::{
    BenchSize, Goal, ImageRow, MeasureError, MemoryRow, Row, StreamRow, UmdRow, WorkRow, goals,
};
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Smoke test: few allocations, one turn
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also measure with a million live allocations: takes minutes and gigabytes of memory
    #[arg(long)]
    full: bool,
    /// Only the rows whose name contains this text, for example 'C library'
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let extent = match (arguments.quick, arguments.full) {
        (true, _) => BenchSize::quick(),
        (_, true) => BenchSize::full(),
        _ => BenchSize::default_size(),
    };
    let extent = BenchSize { only: arguments.only.clone(), ..extent };
    let mut say = |text: &str| {
        if !arguments.json {
            print!("{text}");
        }
    };
    let measured = cost::bench(&extent, &mut say);
    let measured =
        measured.map_err(|MeasureError(reason)| CommandError(format!("needs {reason}")))?;
    if arguments.json {
        let mut report = json::header();
        report["bench"] = json!({
            "pairs": extent.pairs,
            "turns": extent.turns,
            "debug": cfg!(debug_assertions),
            "rows": measured.rows.iter().map(row).collect::<Vec<Value>>(),
            "memory": measured.memory.iter().map(memory).collect::<Vec<Value>>(),
            "work": measured.work.iter().map(work).collect::<Vec<Value>>(),
            "umd": measured.through.iter().map(through).collect::<Vec<Value>>(),
            "streams": measured.streams.iter().map(stream).collect::<Vec<Value>>(),
            "images": measured.images.iter().map(image).collect::<Vec<Value>>(),
            "images_left_out": measured.images_left_out,
            "goals": goals(&measured.rows).iter().map(goal).collect::<Vec<Value>>(),
        });
        json::print(&report);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(it: &Row) -> Value {
    json!({
        "what": it.what,
        "live": it.live,
        "dies": it.dies,
        "threads": it.threads,
        "pair_ns": it.pair,
        "bare_ns": it.bare,
        "composite_ns": it.composite,
        "bytes": it.bytes,
    })
}

fn memory(it: &MemoryRow) -> Value {
    let beside = it.beside.iter().map(|(name, number)| ((*name).to_owned(), json!(number)));
    json!({
        "what": it.what,
        "live": it.live,
        "which": it.which,
        "number": it.number,
        "unit": it.unit,
        "beside": beside.collect::<serde_json::Map<String, Value>>(),
        "times_the_best": it.times(),
        "wanted": it.wanted,
        "at_least": it.least(),
        "met": it.met(),
        "bytes": it.bytes,
    })
}

fn work(it: &WorkRow) -> Value {
    json!({
        "what": it.what,
        "live": it.live,
        "ns": it.number,
        "wanted_ns": it.wanted,
        "times_the_fewest": it.times(),
        "met": it.met(),
    })
}

fn through(it: &UmdRow) -> Value {
    json!({
        "what": it.what,
        "calls": it.calls,
        "thunk_ns": it.thunk,
        "runtime_ns": it.runtime,
        "added_ns": it.added(),
        "wanted_ns": it.wanted,
        "met": it.met(),
    })
}

fn stream(it: &StreamRow) -> Value {
    json!({
        "what": it.what,
        "bytes": it.bytes,
        "frame_ns": it.number,
        "bare_ns": it.bare,
        "times": it.times(),
        "wanted": it.wanted,
        "met": it.met(),
    })
}

fn image(it: &ImageRow) -> Value {
    json!({
        "what": it.what,
        "ns": it.time,
        "beside_ns": it.beside,
        "added_ns": it.added(),
        "wanted_ns": it.wanted,
        "met": it.met(),
    })
}

fn goal(it: &Goal) -> Value {
    let cell = |(live, dies, number): &(usize, &str, f64)| json!({ "live": live, "dies": dies, "measured": number, "met": it.met_by(*number) });
    json!({
        "what": it.what,
        "wanted": it.wanted,
        "at_least": it.least,
        "measured": it.cells.iter().map(cell).collect::<Vec<Value>>(),
        "met": it.met(),
    })
}
