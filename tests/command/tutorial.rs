//! The tutorial: its miniport flies clean, its broken versions are found, and the pages quote both.

#[path = "../tutorial/broken.rs"]
mod broken;
/// The tutorial's miniport.
#[path = "../tutorial/miniport.rs"]
mod miniport;

use broken::{
    FailsDestroy, FreesDeviceTwice, LeaksDestroyedAllocations, LeaksViews, ReturnsZeroSize,
};
use harness::pages::{blocks, compare, read};
use miniport::MinimalDriver;
use std::sync::Arc;
use windtunnel::prelude::*;
use windtunnel::{HostKind, SCENARIOS};

#[test]
fn my_miniport_flies_clean() {
    let driver = Arc::new(MinimalDriver::default());
    let flown = Flight::new(driver, Arc::new(NoHardware)).fly(|testbed| {
        let test_client = testbed.test_client()?; // a client with a device
        let made = test_client.create_resource(testbed.at, 2)?;
        test_client.destroy_resource(testbed.at, made.resource)?;
        test_client.close(testbed.at, &[])
    });
    flown.assert_clean();
}

#[test]
fn my_miniport_flies_clean_through_every_scenario_it_supports() {
    let mut clean = 0;
    for scenario in
        SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.is_empty())
    {
        let setup = set_up(Arc::new(MinimalDriver::default()), Arc::new(NoHardware));
        let flown = fly_setup(setup, scenario, 1).unwrap();
        assert!(flown.findings.is_empty(), "{}", flown.report());
        clean += usize::from(flown.outcome == Outcome::Clean);
    }
    assert!(clean > 5, "{clean} scenarios were flown to their end");
}

fn fly(driver: impl Miniport + 'static, on: HostKind) -> FlightResult {
    Flight::new(Arc::new(driver), Arc::new(NoHardware)).host(on).fly(|testbed| {
        let test_client = testbed.test_client()?;
        let made = test_client.create_resource(testbed.at, 2)?;
        test_client.destroy_resource(testbed.at, made.resource)?;
        test_client.close(testbed.at, &[])
    })
}

#[test]
fn my_broken_miniports_are_found() {
    for on in [HostKind::deterministic(1), HostKind::deterministic(2), HostKind::Threaded] {
        fly(ReturnsZeroSize::default(), on).assert_finding("KMD-ALLOC-002");
        fly(LeaksDestroyedAllocations::default(), on).assert_finding("KMD-DESTROY-002");
        fly(FailsDestroy::default(), on).assert_finding("KMD-DESTROY-009");
        fly(LeaksViews::default(), on).assert_finding("KMD-PNP-005");
        fly(FreesDeviceTwice::default(), on).assert_finding("WT-POOL-001");
    }
}

#[test]
#[should_panic(expected = "is not freed")]
fn a_failed_assertion_shows_the_report() {
    fly(LeaksDestroyedAllocations::default(), HostKind::deterministic(1)).assert_clean();
}

#[test]
#[should_panic(expected = "KMD-DESTROY-2 is not the name of a live rule")]
fn an_unknown_rule_id_cannot_be_asserted() {
    fly(LeaksDestroyedAllocations::default(), HostKind::deterministic(1))
        .assert_finding("KMD-DESTROY-2");
}

#[test]
fn the_miniport_has_at_most_eighty_lines() {
    assert!(read("docs/tutorial.md").contains("in eighty lines"));
    let lines = read("tests/tutorial/miniport.rs").lines().count();
    assert!(lines <= 80, "{lines} lines");
}

#[test]
fn pages_quote_these_files() {
    let files = ["command/tutorial.rs", "tutorial/miniport.rs", "tutorial/broken.rs"]
        .map(|name| read(&format!("tests/{name}")));
    for (page, count) in [("README.md", 1), ("docs/tutorial.md", 10)] {
        let blocks = blocks(&read(page), "rust");
        assert_eq!(blocks.len(), count, "blocks of Rust in {page}");
        for block in blocks {
            assert!(
                files.iter().any(|text| text.contains(&block)),
                "{page} quotes a block that no file has:\n{block}"
            );
        }
    }
}

#[test]
fn the_tutorial_quotes_the_reports() {
    let on = HostKind::deterministic(1);
    let reports = [
        fly(ReturnsZeroSize::default(), on).report(),
        fly(LeaksDestroyedAllocations::default(), on).report(),
        fly(FailsDestroy::default(), on).report(),
        fly(LeaksViews::default(), on).report(),
        fly(FreesDeviceTwice::default(), on).report(),
    ];
    let name = "docs/tutorial.md";
    let page = read(name);
    let blocks = blocks(&page, "text");
    assert_eq!(blocks.len(), reports.len());
    let mut now = page.clone();
    for (block, report) in blocks.iter().zip(&reports) {
        // As much of the first finding as the page quotes.
        let finding = report.lines().skip_while(|text| !text.starts_with("  "));
        let quoted: String =
            finding.take(block.lines().count()).flat_map(|text| [text, "\n"]).collect();
        now = now.replace(block, &quoted);
    }
    compare(name, &now);
}
