//! The user-mode driver in C, flown for real: through the runtime, on the built-in GPU.

use drivers::find;
use stories::c_umd::{FLAWS, load};
use windtunnel::{Flown, Outcome, SCENARIOS, Scenario, fly_with};

/// Kernel-mode drivers to which work goes each of the three ways.
const BELOW: [&str; 4] = ["softgpu", "softgpu-memory", "softgpu-virtual", "softgpu-listed"];

/// The scenarios for user-mode drivers.
fn scenarios(good: bool) -> impl Iterator<Item = &'static Scenario> {
    let all = SCENARIOS.iter().copied().flatten().filter(|it| it.needs == ["OpenAdapter"]);
    all.filter(move |it| it.breaks.is_empty() == good)
}

fn flown(flaw: Option<&str>, below: &str, scenario: &'static Scenario) -> Flown {
    let driver = find(below).unwrap_or_else(|| panic!("there is no driver {below}"));
    let flown = fly_with(driver.make, Some(load(flaw)), scenario, 1);
    flown.unwrap_or_else(|why| panic!("{flaw:?} {below} {}: {}", scenario.name, why.0))
}

#[test]
fn the_good_one_keeps_every_rule() {
    let mut wrong = String::new();
    for below in BELOW {
        for scenario in scenarios(true) {
            let flown = flown(None, below, scenario);
            if flown.outcome != Outcome::Clean {
                wrong += &format!(
                    "{below} {}: {:?}\n{:#?}\n",
                    scenario.name, flown.needs, flown.findings
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn flaws() {
    for flaw in FLAWS {
        for below in BELOW {
            for scenario in scenarios(true) {
                let flown = flown(Some(flaw), below, scenario);
                let mut rules: Vec<String> = flown
                    .findings
                    .iter()
                    .map(|it| format!("{:?}({:?})", it.rule, it.who))
                    .collect();
                rules.dedup();
                println!(
                    "{flaw} {below} {}: {:?} {:?} {:?}",
                    scenario.name, flown.outcome, rules, flown.needs
                );
            }
        }
    }
}
