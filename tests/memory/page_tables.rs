//! Page tables: the entries that a driver writes are compared with the requested entries, and a
//! wrong driver is reported.

use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS, D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
};
use flight::RuleId;
use harness::{flown, good_scenarios};
use thunk::Client;
use windtunnel::{HostKind, Scenario};

/// Each driver that writes page tables incorrectly, and a scenario that shows it.
const CASES: &[(&str, &str, RuleId)] = &[
    ("kmd-ignores-tlb-flush", "gpuva-evict-and-restore", RuleId::WT_TABLES_001),
    ("kmd-flushes-one-tlb-page", "gpuva-evict-and-restore", RuleId::WT_TABLES_001),
    ("kmd-ignores-full-tlb-flush", "gpuva-map-bounds", RuleId::KMD_PAGING_024),
    ("kmd-writes-page-address-entries", "gpuva-map-and-submit", RuleId::WT_TABLES_001),
    ("kmd-writes-one-entry-less", "gpuva-map-and-submit", RuleId::WT_TABLES_001),
    ("kmd-writes-one-entry-more", "gpuva-map-and-submit", RuleId::WT_TABLES_001),
    ("kmd-writes-parent-page-table", "gpuva-map-and-submit", RuleId::WT_TABLES_001),
    ("kmd-ignores-entry-repeat", "gpuva-map-and-submit", RuleId::KMD_PAGING_021),
    ("kmd-reads-repeated-entries", "gpuva-map-and-submit", RuleId::KMD_PAGING_021),
    ("kmd-defers-cpu-table-update", "gpuva-map-and-submit", RuleId::KMD_PAGING_020),
    ("kmd-counts-cpu-update-commands", "gpuva-map-and-submit", RuleId::KMD_PAGING_020),
    ("kmd-adds-offset-virtual-transfer", "residency-compaction", RuleId::KMD_PAGING_027),
    ("kmd-keeps-first-root-table", "gpuva-two-processes", RuleId::KMD_SUBMIT_014),
    ("kmd-assumes-full-root-table", "gpuva-map-and-submit", RuleId::KMD_PT_003),
    ("kmd-rounds-root-entries", "gpuva-map-and-submit", RuleId::KMD_PT_003),
    ("kmd-returns-unrounded-root-size", "gpuva-map-and-submit", RuleId::KMD_PT_002),
    ("kmd-returns-fewer-root-entries", "gpuva-map-and-submit", RuleId::KMD_PT_002),
    ("kmd-requires-host-aperture-allocation", "gpuva-map-and-submit", RuleId::KMD_PT_004),
    ("kmd-reserves-range-at-destroy", "gpuva-map-and-submit", RuleId::KMD_PROC_003),
    ("kmd-reserves-small-range", "gpuva-map-and-submit", RuleId::KMD_PROC_004),
    ("kmd-reserves-misaligned-range", "gpuva-map-and-submit", RuleId::KMD_PROC_004),
];

#[test]
fn a_driver_with_wrong_page_tables_is_found() {
    for (driver, scenario, rule) in CASES {
        let flown = flown(driver, scenario, 1);
        let found = flown.findings.iter().find(|finding| finding.rule == *rule);
        let found = found.unwrap_or_else(|| panic!("{driver}: {:?}", flown.findings));
        assert_eq!(found.component, flight::Component::Driver, "{driver}");
        let others: Vec<_> = flown
            .findings
            .iter()
            .filter(|finding| finding.component != flight::Component::Driver)
            .collect();
        assert!(others.is_empty(), "{driver}: {others:?}");
    }
}

const GOOD: [&str; 4] =
    ["softgpu-gpummu", "softgpu-gpummu-two-levels", "softgpu-gpummu-cpu-updates", "table-gpummu"];

/// The scenarios of virtual addresses.
fn at_addresses(driver: &str) -> impl Iterator<Item = &'static Scenario> {
    let root = "DxgkDdiSetRootPageTable";
    good_scenarios(driver).into_iter().filter(move |scenario| scenario.needs.has_entry(root))
}

fn clean(driver: &str, scenario: &str, on: HostKind) {
    let flown = flown(driver, scenario, on);
    let found = (&flown.findings, &flown.needs);
    assert!(found.0.is_empty() && found.1.is_empty(), "{driver}, {scenario}, {on:?}: {found:?}");
    assert_eq!(flown.live.count(), 0, "{driver}, {scenario}, {on:?}:\n{}", flown.live);
}

#[test]
fn good_drivers_keep_every_rule_in_many_orders() {
    for driver in GOOD {
        for scenario in at_addresses(driver) {
            (1..6).for_each(|seed| clean(driver, scenario.name, HostKind::from(seed)));
        }
    }
}

#[test]
fn good_drivers_keep_every_rule_when_memory_is_short() {
    for driver in GOOD {
        for scenario in at_addresses(driver) {
            (1..4).for_each(|seed| {
                clean(driver, scenario.name, HostKind::under_pressure(seed));
            });
        }
    }
}

#[test]
fn good_drivers_keep_every_rule_when_threads_run_side_by_side() {
    for driver in GOOD {
        for scenario in at_addresses(driver) {
            (0..3).for_each(|_| clean(driver, scenario.name, HostKind::Threaded));
        }
    }
}

#[test]
fn driver_reserved_addresses_are_mappable_only_if_declared() {
    let make = drivers::find("table-gpummu").unwrap().make;
    harness::run(1, make, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let queue = client.create_paging_queue(at, device, 0).unwrap().queue;
        // The driver keeps two leaf tables behind the first entry of the root, and shows one.
        let (hidden, leaf) = (1 << 30, 2 << 20);
        let zeroes = |base, size: u64| D3DDDI_MAPGPUVIRTUALADDRESS {
            hPagingQueue: queue,
            BaseAddress: base,
            SizeInPages: size / 4096,
            Protection: Protection { Value: Protection::Zero },
            ..D3DDDI_MAPGPUVIRTUALADDRESS::ZERO
        };
        let shown = hidden + 2 * leaf;
        for base in [hidden, hidden + leaf, shown - 4096] {
            let mapped = client.map_address(at, &zeroes(base, 8192));
            assert_eq!(mapped.err(), Some(STATUS_INVALID_PARAMETER), "{base:#x}");
            let freed = client.free_address(at, adapter, base, 4096);
            assert_eq!(freed, Err(STATUS_INVALID_PARAMETER), "{base:#x}");
        }
        for _ in 0..2 {
            assert_eq!(client.map_address(at, &zeroes(shown, leaf)).unwrap().0, shown);
            // The range stays the driver's and is given to no other caller.
            client.free_address(at, adapter, shown, leaf).unwrap();
            let all = zeroes(0, leaf);
            let low = D3DDDI_MAPGPUVIRTUALADDRESS { MinimumAddress: hidden, ..all };
            assert!(client.map_address(at, &low).unwrap().0 >= shown + leaf);
        }
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    });
}
