//! The results of a run as JSON.

use crate::{
    BenchReport, BenchSize, CheckUsage, Goal, ImageRow, MemoryRow, Row, ServerRow, StreamRow,
    UmdRow, WorkRow, goals,
};
use serde_json::{Value, json};

/// The version of the schema.
const SCHEMA: u32 = 1;

/// The results of a run of this size, as JSON.
pub fn bench_json(extent: &BenchSize, report: &BenchReport) -> String {
    let value = json!({
        "schema": SCHEMA,
        "windtunnel": env!("CARGO_PKG_VERSION"),
        "bench": {
            "pairs": extent.pairs,
            "turns": extent.turns,
            "debug": cfg!(debug_assertions),
            "rows": report.rows.iter().map(row).collect::<Vec<Value>>(),
            "memory": report.memory.iter().map(memory).collect::<Vec<Value>>(),
            "work": report.work.iter().map(work).collect::<Vec<Value>>(),
            "umd": report.through.iter().map(through).collect::<Vec<Value>>(),
            "streams": report.streams.iter().map(stream).collect::<Vec<Value>>(),
            "server": report.server.iter().map(server).collect::<Vec<Value>>(),
            "check": report.check.as_ref().map(check),
            "images": report.images.iter().map(image).collect::<Vec<Value>>(),
            "images_left_out": report.images_left_out,
            "goals": goals(report).iter().map(goal).collect::<Vec<Value>>(),
        },
    });
    format!("{value:#}")
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

fn server(it: &ServerRow) -> Value {
    json!({"what": it.what, "server": it.server, "library": it.library, "times": it.times()})
}

fn check(it: &CheckUsage) -> Value {
    json!({
        "what": it.what(),
        "processor_ns": u64::try_from(it.processor.as_nanos()).unwrap_or(u64::MAX),
        "page_faults": it.page_faults,
        "waits": it.waits,
    })
}

fn goal(it: &Goal) -> Value {
    let number = |(with, number): &(String, f64)| json!({ "with": with, "measured": number, "met": it.met_by(*number) });
    json!({
        "what": it.what,
        "wanted": it.wanted,
        "at_least": it.least,
        "measured": it.numbers.iter().map(number).collect::<Vec<Value>>(),
        "met": it.met(),
    })
}
