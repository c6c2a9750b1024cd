//! Threads side by side: whatever the machine does, a good driver flies clean and leaves nothing.

use flight::RuleId;
use stories::flown;
use windtunnel::{On, Outcome, SCENARIOS};

/// Flies every good scenario so many times; answers how often a rule was judged.
fn many(driver: &str, runs: usize, rule: RuleId) -> u64 {
    let good = || SCENARIOS.iter().copied().flatten().filter(|it| it.breaks.is_empty());
    let mut judged = 0;
    for run in 0..runs {
        for scenario in good() {
            let flown = flown(driver, scenario.name, On::Free);
            let said = || format!("{driver}, {}, run {run}", scenario.name);
            assert_eq!(flown.outcome, Outcome::Clean, "{}: {:?}", said(), flown.findings);
            assert!(flown.findings.is_empty(), "{}: {:?}", said(), flown.findings);
            assert_eq!(flown.live.count(), 0, "{}:\n{}", said(), flown.live);
            judged += flown.tally.of(rule);
        }
    }
    judged
}

#[test]
fn the_built_in_driver_flies_clean_100_times() {
    assert!(many("softgpu", 100, RuleId::KMD_LEVEL_003) > 0);
}

#[test]
fn a_table_driver_flies_clean_100_times() {
    assert!(many("table", 100, RuleId::KMD_LEVEL_004) > 0);
}

#[test]
fn a_driver_that_moves_resources_flies_clean_50_times() {
    assert!(many("table-moves-resource", 50, RuleId::KMD_ALLOC_010) > 0);
}
