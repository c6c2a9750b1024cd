//! Seeds: the same seed gives the same flight, and every seed ends with no live objects.

use harness::{flown, good_scenarios, repeats};
use windtunnel::{Outcome, SCENARIOS};

#[test]
fn the_same_seed_is_the_same_flight_byte_for_byte() {
    for driver in ["softgpu", "table", "table-resource-handle-changes", "softgpu-memory"] {
        for scenario in
            SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.is_empty())
        {
            let one = flight::trace::text(&flown(driver, scenario.name, 7).events);
            let two = flight::trace::text(&flown(driver, scenario.name, 7).events);
            assert_eq!(one, two, "{driver}, {}", scenario.name);
        }
    }
}

#[test]
fn another_seed_is_another_order() {
    let text = |seed| flight::trace::text(&flown("softgpu", "process-two-threads", seed).events);
    assert!((2..20).any(|seed| text(seed) != text(1)));
}

fn many(driver: &str, scenario: &str, seeds: u64) {
    for seed in 0..seeds {
        let flown = flown(driver, scenario, seed);
        assert_eq!(flown.outcome, Outcome::Clean, "seed {seed}: {:?}", flown.findings);
        assert_eq!(flown.live.count(), 0, "seed {seed}:\n{}", flown.live);
    }
}

#[test]
fn good_drivers_fly_clean_through_every_good_scenario_in_many_orders() {
    // A hundred orders of each are about twenty thousand flights: that is for the long mode.
    let seeds = repeats(20, 100);
    for driver in ["softgpu", "table", "table-resource-handle-changes", "softgpu-memory"] {
        for scenario in good_scenarios(driver) {
            many(driver, scenario.name, seeds);
        }
    }
}

#[test]
fn two_threads_leave_nothing_alive_in_many_orders() {
    many("softgpu", "process-two-threads", repeats(500, 2000));
}

#[test]
fn two_processes_leave_nothing_alive_in_300_orders() {
    many("softgpu", "process-two-processes", 300);
}

#[test]
fn two_threads_of_a_table_driver_leave_nothing_alive_in_300_orders() {
    many("table", "process-two-threads", 300);
}

#[test]
fn destroys_behind_work_leave_nothing_alive_in_200_orders() {
    for scenario in [
        "destroy-member-in-flight",
        "destroy-device-in-use",
        "process-killed-in-use",
        "pnp-remove-in-use",
    ] {
        many("softgpu", scenario, 200);
    }
}
