//! A million allocations alive, created and destroyed by eight threads through the C library, for a
//! minute with checks off and for a minute with the verifier on.

use crate::{build_release, root, run as done, target};
use std::process::Command;

/// The end of a report without anything to report.
const NOTHING: &str = "windtunnel: 0 errors, 0 warnings, 0 notes, 0 objects left alive";

/// Runs both, with these arguments of the program `churn`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    build_release(&["churn"])?;
    let program = || {
        let mut churn = Command::new(target().join("release/churn"));
        churn.current_dir(root()).args(arguments).env_remove("WINDTUNNEL_FAIL");
        churn
    };
    println!("-- checks off");
    done(program().env_remove("WINDTUNNEL_REPORT"))?;
    println!("-- verifier on");
    let report = target().join("churn-report.txt");
    let _ = std::fs::remove_file(&report); // There may be none.
    done(program().env("WINDTUNNEL_REPORT", &report))?;
    let text = std::fs::read_to_string(&report)
        .map_err(|reason| format!("{}: {reason}", report.display()))?;
    let last = text.lines().last().unwrap_or_default();
    println!("{last}");
    if last == NOTHING {
        return Ok(());
    }
    Err(format!("the report is not empty:\n{text}"))
}
