//! Golden traces: the events of a scenario. `cargo xtask bless` rewrites them.
#![expect(clippy::unwrap_used, reason = "a missing golden file is a failed test")]

use harness::flown;
use std::fs;
use std::path::PathBuf;

fn check(scenario: &str) {
    check_on("softgpu", scenario);
}

/// As above, with a driver of an adapter with memory.
fn check_memory(scenario: &str) {
    check_on("softgpu-memory", scenario);
}

fn check_on(driver: &str, scenario: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{scenario}.trace"));
    let now = flown(driver, scenario, 1).events;
    if std::env::var_os("WINDTUNNEL_BLESS").is_some() {
        fs::write(&path, flight::trace::text(&now)).unwrap();
        return;
    }
    let golden = flight::trace::read(&fs::read_to_string(&path).unwrap()).unwrap();
    if let Some(difference) = flight::trace::compare(&golden, &now) {
        panic!("{scenario}: {difference}\n'cargo xtask bless' rewrites it, if that is right");
    }
}

#[test]
fn a_deferred_destroy_behind_work() {
    check("destroy-deferred");
}

#[test]
fn a_destroy_that_assumes_not_in_use() {
    check("destroy-assume-not-in-use");
}

#[test]
fn a_synchronous_destroy_behind_work() {
    check("destroy-synchronous");
}

#[test]
fn a_destroy_with_both_flags() {
    check("destroy-assume-and-synchronous");
}

#[test]
fn a_destroy_behind_work_on_two_nodes() {
    check("destroy-two-nodes");
}

#[test]
fn a_resource_that_waits_for_its_member() {
    check("destroy-member-in-flight");
}

/// A context allocation is created inside `DxgkDdiCreateContext`, used, and freed while a packet of
/// its context is in flight; its memory is released only after the context switch.
#[test]
fn a_context_allocation_freed_while_its_context_runs() {
    check_on("softgpu-context-allocation-updates", "create-context-allocation-in-use");
}

#[test]
fn a_locked_allocation_is_destroyed() {
    check_memory("destroy-locked");
}

#[test]
fn an_offered_allocation_is_destroyed() {
    check_memory("destroy-offered");
}

#[test]
fn an_evicted_allocation_is_destroyed() {
    check_memory("destroy-evicted");
}

#[test]
fn a_mapped_allocation_is_destroyed() {
    check_memory("destroy-in-aperture");
}

#[test]
fn an_allocation_in_transfer_is_destroyed() {
    check_memory("destroy-during-transfer");
}

/// The allocator is initialised once, its frames flow through all states, and it is deleted once,
/// after its last frame was freed.
#[test]
fn a_capture_source_walks_all_states() {
    check_on("capture", "ks-state-transitions");
}

/// As above, in both kernels: each frame is an allocation, which is destroyed when it is freed.
#[test]
fn a_capture_source_fills_video_memory() {
    check_on("capture", "ks-video-memory");
}

/// An application fills, copies, locks and destroys a texture. Its user-mode driver submits the
/// commands and releases the texture, and the kernel destroys it after the GPU's work.
#[test]
fn a_surface_is_destroyed() {
    check_on("softgpu-allocation-lists", "umd-texture");
}

#[test]
fn a_surface_is_destroyed_while_it_is_drawn() {
    check_on("softgpu-allocation-lists", "umd-destroy-in-flight");
}

/// On this driver packets have no allocation lists: the user-mode driver itself defers the release.
#[test]
fn surfaces_that_are_released_later() {
    check_on("softgpu-memory", "umd-deferred-destroy");
}

#[test]
fn a_group_of_surfaces_is_destroyed_as_one() {
    check_on("softgpu-allocation-lists", "umd-surface-group");
}

#[test]
fn a_shared_surface_is_destroyed_by_each_opener() {
    check_on("softgpu-allocation-lists", "umd-shared-resource");
}
