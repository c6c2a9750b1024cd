//! The user-mode driver in C, flown for real: through the runtime, on the built-in GPU.

use flight::{Component, RuleId};
use harness::c_umd::{FLAWS, load};
use runtime::Umd;
use windtunnel::{FlightResult, Outcome, SCENARIOS, Scenario, find_scenario, fly_with_umd};

/// Kernel-mode drivers with each of the three ways to submit.
const BELOW: [&str; 4] =
    ["softgpu-allocation-lists", "softgpu-gpummu", "softgpu-memory", "table-memory"];

fn flown(umd: &Umd, below: &str, scenario: &'static Scenario, seed: u64) -> FlightResult {
    let driver = drivers::find(below).unwrap_or_else(|| panic!("there is no driver {below}"));
    let flown = fly_with_umd(driver.make, Some(umd.clone()), scenario, seed);
    flown.unwrap_or_else(|why| panic!("{below} {}: {}", scenario.name, why.0))
}

#[test]
fn the_good_c_driver_keeps_every_rule() {
    let umd = load(None);
    let all = SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.needs_umd());
    let good: Vec<_> = all.filter(|scenario| scenario.breaks.is_empty()).collect();
    assert!(good.len() > 5, "these are all: {}", good.len());
    for scenario in good {
        for (below, seed) in BELOW.into_iter().zip(1..) {
            let flown = flown(&umd, below, scenario, seed);
            let (name, findings) = (scenario.name, &flown.findings);
            // Only if the kernel renames does it lock during its other work.
            let beside = |text: &String| text.contains("pfnLockAsync");
            if below != "softgpu-allocation-lists" && flown.needs.iter().any(beside) {
                continue;
            }
            let clean = flown.outcome == Outcome::Clean && flown.live.count() == 0;
            assert!(clean, "{name} on {below}: {:?}\n{findings:#?}", flown.needs);
        }
    }
}

/// The rule that a driver with that flaw breaks.
fn breaks(flaw: &str) -> RuleId {
    match flaw {
        "releases-before-flush" => RuleId::UMD_DESTROY_001,
        "frees-the-list-only" => RuleId::UMD_DESTROY_006,
        "frees-twice" => RuleId::UMD_DESTROY_010,
        "frees-locked" => RuleId::UMD_DESTROY_011,
        "frees-one-of-group" => RuleId::UMD_DESTROY_005,
        "frees-one-by-one" => RuleId::UMD_DESTROY_007,
        "defers-forever" => RuleId::UMD_DESTROY_002,
        "frees-and-fails" => RuleId::UMD_DESTROY_024,
        "fails-oddly" => RuleId::UMD_ERR_004,
        "calls-after-device" => RuleId::UMD_DESTROY_013,
        "wrong-thread" => RuleId::UMD_SUBMIT_004,
        "resource-and-list" => RuleId::UMD_DESTROY_023,
        other => panic!("no rule is listed for {other}"),
    }
}

#[test]
fn each_flaw_breaks_its_rule_and_blames_only_the_driver() {
    let scenario = find_scenario("umd-surface-group").unwrap_or_else(|| panic!("no such scenario"));
    for flaw in FLAWS {
        let umd = load(Some(flaw));
        for (below, seed) in BELOW.into_iter().zip(1..) {
            let flown = flown(&umd, below, scenario, seed);
            let (found, rule) = (&flown.findings, breaks(flaw));
            let named = found.iter().any(|finding| finding.rule == rule);
            assert!(named, "{flaw} on {below}: no {} in {found:#?}", rule.name());
            let other = found.iter().find(|finding| finding.component != Component::Umd);
            assert!(other.is_none(), "{flaw} on {below}: {other:#?}");
        }
    }
}
