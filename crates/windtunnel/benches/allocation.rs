//! `cargo bench`: what `windtunnel bench` prints. `cargo bench -- --full` adds a million others.
#![forbid(unsafe_code)]

use cost::{Extent, NotMeasured};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cost::Counting = cost::Counting;

fn main() -> ExitCode {
    let asked = |flag: &str| std::env::args().any(|it| it == flag);
    let extent = match (asked("--quick"), asked("--full")) {
        (true, _) => Extent::quick(),
        (_, true) => Extent::full(),
        _ => Extent::usual(),
    };
    match cost::bench(&extent, &mut |text| print!("{text}")) {
        Ok(_) => ExitCode::SUCCESS,
        Err(NotMeasured(why)) => {
            eprintln!("it needs {why}");
            ExitCode::FAILURE
        }
    }
}
