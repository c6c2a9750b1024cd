//! Waits that only a client can end: the client is blamed, no other component, and a device that
//! ends does not wait for its client.

use flight::{Component, RuleId};
use harness::flown;
use windtunnel::HostKind;

const DRIVERS: [&str; 4] = ["softgpu", "softgpu-memory", "table", "table-gpummu"];

#[test]
fn a_wait_that_only_a_client_can_end_is_the_clients() {
    for (scenario, rule) in [
        ("sync-wait-never-signaled", RuleId::WT_STUCK_001),
        ("sync-contexts-wait-for-each-other", RuleId::WT_STUCK_001),
        ("destroy-synchronous-behind-wait", RuleId::WT_STUCK_001),
        ("sync-destroy-waiting-context", RuleId::WT_STUCK_001),
        ("keyed-mutex-wait-unreleased-key", RuleId::WT_STUCK_001),
        ("sync-destroy-fence-under-context-wait", RuleId::WT_SYNC_001),
    ] {
        for driver in DRIVERS {
            for seed in 0..4 {
                let flown = flown(driver, scenario, seed);
                let blamed: Vec<_> = flown
                    .findings
                    .iter()
                    .map(|finding| (finding.rule, finding.component))
                    .collect();
                let right = [(rule, Component::Client)];
                assert_eq!(
                    blamed, right,
                    "{driver}, {scenario}, seed {seed}: {:?}",
                    flown.findings
                );
                assert_eq!(flown.live.count(), 0, "{driver}, {scenario}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_client_may_end_and_destroy_objects_while_it_waits() {
    for scenario in [
        "process-killed-while-waiting",
        "sync-destroy-waiting-device",
        "sync-destroy-fence-under-cpu-wait",
        "sync-destroy-fence-before-signal",
        "sync-no-signal-no-wait",
    ] {
        for driver in DRIVERS {
            let hosts = (0..4)
                .flat_map(|seed| [HostKind::deterministic(seed), HostKind::under_pressure(seed)]);
            for on in hosts.chain([HostKind::Threaded]) {
                let flown = flown(driver, scenario, on);
                assert!(flown.needs.is_empty(), "{driver}, {scenario}, {on:?}: {:?}", flown.needs);
                assert_eq!(flown.findings, [], "{driver}, {scenario}, {on:?}");
                assert_eq!(flown.live.count(), 0, "{driver}, {scenario}, {on:?}");
            }
        }
    }
}
