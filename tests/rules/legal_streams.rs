//! Legal but unusual streaming minidrivers: none has a finding, and every scenario flies to its
//! end. `cargo xtask test --long` adds seeds, pressure and the threaded host.

use drivers::stream::legal::LEGAL;
use drivers::stream::pattern;
use harness::repeats;
use windtunnel::{HostKind, Outcome, SCENARIOS, Scenario, StreamFlight};

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = SCENARIOS.iter().copied().flatten();
    let good = all.filter(|scenario| scenario.streams() && scenario.breaks.is_empty());
    // It needs a format with an end, which only the built-in sources are known to have.
    good.filter(|scenario| scenario.name != "ks-end-of-stream")
}

/// The hosts of a flight, few by default.
fn hosts() -> Vec<HostKind> {
    let mut hosts = vec![HostKind::deterministic(1)];
    for seed in 2..repeats(2, 6) {
        hosts.extend([HostKind::deterministic(seed), HostKind::under_pressure(seed)]);
        hosts.push(HostKind::Threaded);
    }
    hosts
}

#[test]
fn legal_minidrivers_have_no_finding() {
    assert!(LEGAL.len() >= 12);
    let mut wrong = Vec::new();
    for driver in LEGAL {
        let mut clean = 0;
        for scenario in scenarios() {
            for host in hosts() {
                let flight = StreamFlight::new((driver.make)(), pattern::format(0)).host(host);
                let flown = flight.fly_scenario(scenario);
                let ended_early = !flown.needs.is_empty() && !flown.events.is_empty();
                if !flown.findings.is_empty() || ended_early || flown.live.count() > 0 {
                    let name = format!("{} ({}), {}", driver.name, driver.unusual, scenario.name);
                    wrong.push(format!("{name}, {host:?}:\n{}", flown.report()));
                }
                clean += usize::from(flown.outcome == Outcome::Clean);
            }
        }
        assert!(clean >= 10, "{} flew {clean} scenarios only", driver.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
