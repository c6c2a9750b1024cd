//! `windtunnel bench`.

use super::{Unknown, json};
use serde_json::{Value, json};
use std::process::ExitCode;
use windtunnel::{Extent, Measured, Stopped, bench};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only see that it runs: few allocations, one turn
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also while a million others live
    #[arg(long)]
    full: bool,
    /// For machines
    #[arg(long)]
    pub(super) json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Unknown> {
    let extent = match (arguments.quick, arguments.full) {
        (true, _) => Extent::quick(),
        (_, true) => Extent::full(),
        _ => Extent::usual(),
    };
    if !arguments.json {
        println!("One stand-alone allocation created and opened, one closed and destroyed, while");
        println!(
            "others live: nanoseconds a pair, median of {} turns of {}.",
            extent.turns, extent.pairs
        );
        println!(
            "floor: an Arc of 256 bytes in and out of a table under one lock, in turns with it."
        );
        if cfg!(debug_assertions) {
            println!("This is a debug build: its times mean nothing.");
        }
        println!();
        println!("| what | live | dies | ns a pair | floor | ratio | goal |");
        println!("|---|---:|---|---:|---:|---:|---:|");
    }
    let said = |it: &Measured| {
        if !arguments.json {
            print(it);
        }
    };
    let rows = bench(&extent, said).map_err(|Stopped(why)| Unknown(format!("it needs {why}")))?;
    if arguments.json {
        let mut report = json::head();
        report["bench"] = json!({
            "pairs": extent.pairs,
            "turns": extent.turns,
            "debug": cfg!(debug_assertions),
            "rows": rows.iter().map(row).collect::<Vec<Value>>(),
        });
        json::print(&report);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(it: &Measured) {
    let goal = match (it.goal, it.met()) {
        (Some(goal), Some(true)) => format!("<= {goal}, met"),
        (Some(goal), _) => format!("<= {goal}, missed"),
        (None, _) => "-".to_owned(),
    };
    let (with, ratio) = it.ratio;
    let Measured { what, live, dies, pair, floor, .. } = it;
    println!("| {what} | {live} | {dies} | {pair:.0} | {floor:.0} | {ratio:.1}x {with} | {goal} |");
}

fn row(it: &Measured) -> Value {
    json!({
        "what": it.what,
        "live": it.live,
        "dies": it.dies,
        "threads": it.threads,
        "pair_ns": it.pair,
        "floor_ns": it.floor,
        "ratio": it.ratio.1,
        "ratio_to": it.ratio.0,
        "goal": it.goal,
        "met": it.met(),
    })
}
