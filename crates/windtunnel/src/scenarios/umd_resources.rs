//! Applications that draw through a user-mode driver.

use crate::application::{Application, expect_error, expect_ok};
use crate::needs::UMD;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, Testbed};
use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DERR_NOTAVAILABLE, D3DERR_OUTOFVIDEOMEMORY, E_FAIL, E_INVALIDARG,
    E_OUTOFMEMORY,
};
use abi::umd::{D3DDDI_RESOURCEFLAGS, D3DDDI_RESOURCEFLAGS2};
use flight::{Passive, RuleId};
use runtime::{LockRequest, Rect, ResourceDescription, Surface};

/// `D3DDDI_ALLOCATIONPRIORITY_HIGH`.
const HIGH: u32 = 0xa000_0000;

/// The surface size of these scenarios: one page.
const SMALL: Surface = Surface { width: 32, height: 32 };

macro_rules! scenarios {
    ($($name:literal $about:literal [$($rule:ident)?] $story:ident;)*) => {
        &[$(Scenario {
            name: $name,
            about: $about,
            breaks: &[$(RuleId::$rule)?],
            needs: UMD,
            body: DisplayBody($story),
        }),*]
    };
}

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = scenarios! {
    "umd-texture" "fills, copies, reads and destroys a texture" [] umd_texture;
    "umd-create-and-destroy" "creates and destroys textures and groups of surfaces, and draws nothing" []
        umd_create_and_destroy;
    "umd-destroy-in-flight" "destroys a texture while the GPU draws with it" [] umd_destroy_in_flight;
    "umd-deferred-destroy" "destroys textures in use, whose allocations the driver frees later" [] umd_deferred_destroy;
    "umd-surface-group" "draws with the surfaces of one resource and destroys the resource" [] umd_surface_group;
    "umd-shared-resource" "opens a shared resource in another process; each process destroys its own" [] umd_shared_resource;
    "umd-lock-discard" "locks a texture with Discard repeatedly while the GPU draws with it" [] umd_lock_discard;
    "umd-system-memory-surface" "copies a surface in the application's system memory to a texture" [] umd_system_memory_surface;
    "umd-adapter-restart" "stops and starts the adapter while an application draws" [] umd_adapter_restart;
    "umd-device-leaks-resources" "destroys a device with resources that the application has not destroyed" [] umd_device_leaks_resources;
    "umd-priority-residency" "sets priorities of resources and queries their residency" [] umd_priority_residency;
    "umd-primary-surfaces" "draws to surfaces that may be on a display" [] umd_primary_surfaces;
    "umd-vertex-index-buffers" "writes and destroys vertex and index buffers" [] umd_vertex_index_buffers;
    "umd-identical-resources" "creates identical resources in one and in two processes" [] umd_identical_resources;
    "umd-multiple-devices" "opens several adapters in one process, each with several devices" [] umd_multiple_devices;
    "umd-device-per-thread" "draws from two threads, each with its own device" [] umd_device_per_thread;
    "umd-kernel-error" "fails requests of the driver in the kernel; the application gets the error" []
        umd_kernel_error;
    "umd-device-removed" "removes the device while the driver uses it" [] umd_device_removed;
};

/// Every bad scenario of this file.
pub(crate) const BAD: &[Scenario] = scenarios! {
    "umd-app-destroys-twice" "destroys a resource twice" [UMD_DESTROY_004] umd_app_destroys_twice;
    "umd-app-closes-adapter-early" "closes an adapter that still has devices" [UMD_ADAPTER_001] umd_app_closes_adapter_early;
    "umd-app-shares-device-threads" "uses a single-threaded device from two threads" [UMD_THREAD_001]
        umd_app_shares_device_threads;
};

/// Creates, fills, copies, reads and destroys surfaces.
fn umd_texture(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let one =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    let two =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    app.fill(testbed.at, (one, 0), SMALL, 0x5a)?;
    app.copy(testbed.at, (one, 0), (two, 0), SMALL)?;
    app.expect_value(testbed.at, (two, 0), 0x5a)?;
    app.destroy_resource(testbed.at, one)?;
    app.destroy_resource(testbed.at, two)?;
    app.flush(testbed.at)?;
    app.close(testbed.at)
}

/// Creates and destroys surfaces, alone and in groups, in and out of order, on two devices. A
/// driver that implements nothing else is judged here.
fn umd_create_and_destroy(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let texture = ResourceDescription::texture(SMALL.width, SMALL.height);
    let one = app.create_resource(testbed.at, &texture)?;
    let group = ResourceDescription::group(3, SMALL.width, SMALL.height);
    let chain = app.create_resource(testbed.at, &group)?;
    let two = app.create_resource(testbed.at, &texture)?;
    app.destroy_resource(testbed.at, one)?;
    let three = app.create_resource(testbed.at, &texture)?;
    app.flush(testbed.at)?;
    for resource in [chain, three, two] {
        app.destroy_resource(testbed.at, resource)?;
    }
    let other = app.another_device(testbed.at)?;
    let four = other.create_resource(testbed.at, &texture)?;
    other.destroy_resource(testbed.at, four)?;
    other.destroy_device(testbed.at)?;
    app.close(testbed.at)
}

/// The driver submits the commands that use a surface before it releases the surface.
fn umd_destroy_in_flight(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let one =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    let two =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    app.fill(testbed.at, (one, 0), SMALL, 0x17)?;
    app.copy(testbed.at, (one, 0), (two, 0), SMALL)?;
    app.destroy_resource(testbed.at, one)?;
    app.expect_value(testbed.at, (two, 0), 0x17)?;
    app.destroy_resource(testbed.at, two)?;
    app.close(testbed.at)
}

/// Destroys surfaces while others are drawn; a flush and the device's destruction release them.
fn umd_deferred_destroy(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    for turn in 0..4_u8 {
        let one = app.create_resource(
            testbed.at,
            &ResourceDescription::texture(SMALL.width, SMALL.height),
        )?;
        let two = app.create_resource(
            testbed.at,
            &ResourceDescription::texture(SMALL.width, SMALL.height),
        )?;
        app.fill(testbed.at, (one, 0), SMALL, turn)?;
        app.flush(testbed.at)?;
        app.copy(testbed.at, (one, 0), (two, 0), SMALL)?;
        app.destroy_resource(testbed.at, one)?;
        app.destroy_resource(testbed.at, two)?;
    }
    testbed.snapshot_live_objects("surfaces are destroyed");
    app.flush(testbed.at)?;
    app.close(testbed.at)
}

/// Creates and destroys a group of surfaces in one call each.
fn umd_surface_group(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let chain =
        app.create_resource(testbed.at, &ResourceDescription::group(3, SMALL.width, SMALL.height))?;
    for index in 0..3_u8 {
        app.fill(testbed.at, (chain, u32::from(index)), SMALL, 0x30 + index)?;
    }
    app.copy(testbed.at, (chain, 0), (chain, 2), SMALL)?;
    app.flush(testbed.at)?;
    app.expect_value(testbed.at, (chain, 1), 0x31)?;
    app.expect_value(testbed.at, (chain, 2), 0x30)?;
    let beyond = app.device.color_fill(testbed.at, (chain, 3), Rect::whole(SMALL), 0);
    expect_error("pfnColorFill", &beyond, E_INVALIDARG)?;
    app.fill(testbed.at, (chain, 1), SMALL, 0x77)?;
    app.destroy_resource(testbed.at, chain)?;
    app.flush(testbed.at)?;
    app.close(testbed.at)
}

/// One process draws, another reads; the creator destroys first.
fn umd_shared_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.application()?, testbed.application()?);
    let created = maker.create_resource(
        testbed.at,
        &ResourceDescription::group(2, SMALL.width, SMALL.height).shared(),
    )?;
    maker.fill(testbed.at, (created, 1), SMALL, 0x66)?;
    maker.flush(testbed.at)?;
    maker.expect_value(testbed.at, (created, 1), 0x66)?;
    let global = expect_ok("a shared resource", maker.device.share(created))?;
    let own = opener
        .create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    opener.fill(testbed.at, (own, 0), SMALL, 0x22)?;
    let opened = opener.device.open_resource(testbed.at, global);
    let opened = expect_ok("pfnOpenResource", opened)?;
    // Only the creator may lock the surface; the other process reads a copy.
    opener.copy(testbed.at, (opened, 1), (own, 0), SMALL)?;
    opener.expect_value(testbed.at, (own, 0), 0x66)?;
    maker.destroy_resource(testbed.at, created)?;
    maker.flush(testbed.at)?;
    opener.fill(testbed.at, (opened, 0), SMALL, 0x11)?;
    opener.copy(testbed.at, (opened, 0), (own, 0), SMALL)?;
    opener.expect_value(testbed.at, (own, 0), 0x11)?;
    opener.destroy_resource(testbed.at, opened)?;
    opener.destroy_resource(testbed.at, own)?;
    opener.flush(testbed.at)?;
    maker.close(testbed.at)?;
    opener.close(testbed.at)
}

/// Packets use the content at submission, whatever is written later.
fn umd_lock_discard(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let source =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    let targets =
        app.create_resource(testbed.at, &ResourceDescription::group(4, SMALL.width, SMALL.height))?;
    let discard = LockRequest { discard: true, ..LockRequest::default() };
    for index in 0..4_u8 {
        let bytes = vec![0x40 + index; SMALL.bytes()];
        app.write_surface(testbed.at, (source, 0), discard, &bytes)?;
        app.copy(testbed.at, (source, 0), (targets, u32::from(index)), SMALL)?;
    }
    for index in 0..4_u8 {
        app.expect_value(testbed.at, (targets, u32::from(index)), 0x40 + index)?;
    }
    app.destroy_resource(testbed.at, source)?;
    app.destroy_resource(testbed.at, targets)?;
    app.close(testbed.at)
}

/// Copies from a surface in the application's memory.
fn umd_system_memory_surface(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let texture = ResourceDescription::texture(SMALL.width, SMALL.height);
    let source = app.create_resource(testbed.at, &texture.clone().in_system_memory())?;
    let target = app.create_resource(testbed.at, &texture)?;
    let bytes = vec![0x29; SMALL.bytes()];
    app.write_surface(testbed.at, (source, 0), LockRequest::default(), &bytes)?;
    app.copy(testbed.at, (source, 0), (target, 0), SMALL)?;
    app.expect_value(testbed.at, (target, 0), 0x29)?;
    app.destroy_resource(testbed.at, source)?;
    app.destroy_resource(testbed.at, target)?;
    app.close(testbed.at)
}

/// The driver reports that the device is removed; another device works.
fn umd_adapter_restart(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let one =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    app.fill(testbed.at, (one, 0), SMALL, 0x21)?;
    testbed.restart()?;
    expect_error("pfnFlush", &app.device.flush(testbed.at), D3DDDIERR_DEVICEREMOVED)?;
    // The result is ignored: the resource is destroyed with its device.
    let _ = app.device.destroy_resource(testbed.at, one);
    let _ = app.device.destroy(testbed.at);
    let other = app.another_device(testbed.at)?;
    let two = other
        .create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    other.fill(testbed.at, (two, 0), SMALL, 0x22)?;
    other.expect_value(testbed.at, (two, 0), 0x22)?;
    other.destroy_resource(testbed.at, two)?;
    other.close(testbed.at)
}

/// The runtime destroys remaining resources, and the driver releases them.
fn umd_device_leaks_resources(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let one =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    app.fill(testbed.at, (one, 0), SMALL, 1)?;
    app.create_resource(testbed.at, &ResourceDescription::group(2, SMALL.width, SMALL.height))?;
    app.close(testbed.at)
}

/// Sets priorities and queries residency.
fn umd_priority_residency(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let one =
        app.create_resource(testbed.at, &ResourceDescription::group(2, SMALL.width, SMALL.height))?;
    let two =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    expect_ok("pfnSetPriority", app.device.set_priority(testbed.at, one, HIGH))?;
    app.fill(testbed.at, (one, 1), SMALL, 0x12)?;
    app.copy(testbed.at, (one, 1), (two, 0), SMALL)?;
    app.expect_value(testbed.at, (two, 0), 0x12)?;
    let request = app.device.residency(testbed.at, &[one, two]);
    expect_ok("pfnQueryResourceResidency", request)?;
    app.destroy_resource(testbed.at, one)?;
    app.destroy_resource(testbed.at, two)?;
    app.close(testbed.at)
}

/// Each packet lists the primaries that it writes.
fn umd_primary_surfaces(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let mut wanted = ResourceDescription::group(2, SMALL.width, SMALL.height);
    wanted.flags2 = D3DDDI_RESOURCEFLAGS2::IsDisplayable;
    let chain = app.create_resource(testbed.at, &wanted)?;
    let other =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    for turn in 0..4_u8 {
        let back = u32::from(turn) % 2;
        app.fill(testbed.at, (other, 0), SMALL, 0x60 + turn)?;
        app.copy(testbed.at, (other, 0), (chain, back), SMALL)?;
        app.flush(testbed.at)?;
    }
    app.expect_value(testbed.at, (chain, 0), 0x62)?;
    app.expect_value(testbed.at, (chain, 1), 0x63)?;
    app.destroy_resource(testbed.at, chain)?;
    app.destroy_resource(testbed.at, other)?;
    app.close(testbed.at)
}

/// Vertex and index buffers are surfaces of one line.
fn umd_vertex_index_buffers(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    for kind in [D3DDDI_RESOURCEFLAGS::VertexBuffer, D3DDDI_RESOURCEFLAGS::IndexBuffer] {
        let line = Surface { width: SMALL.width * SMALL.height, height: 1 };
        let mut wanted = ResourceDescription::texture(line.width, line.height);
        wanted.flags = kind;
        let buffer = app.create_resource(testbed.at, &wanted)?;
        let copy = app.create_resource(testbed.at, &wanted)?;
        let bytes = vec![0x3c; line.bytes()];
        app.write_surface(testbed.at, (buffer, 0), LockRequest::default(), &bytes)?;
        app.copy(testbed.at, (buffer, 0), (copy, 0), line)?;
        app.expect_value(testbed.at, (copy, 0), 0x3c)?;
        app.destroy_resource(testbed.at, buffer)?;
        app.destroy_resource(testbed.at, copy)?;
    }
    app.close(testbed.at)
}

/// Meaningless fields do not change the result; another process gets the same allocations.
fn umd_identical_resources(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, two) = (testbed.application()?, testbed.application()?);
    let mut wanted = ResourceDescription::group(2, SMALL.width, SMALL.height);
    let mut created = Vec::new();
    // The first two are identical: a driver that differs there already is not compared.
    for noise in [0, 0, 0x0101_0101, u32::MAX] {
        wanted.reserved_values = noise;
        created.push(one.create_resource(testbed.at, &wanted)?);
    }
    wanted.reserved_values = 0;
    let shared = wanted.shared();
    created.push(one.create_resource(testbed.at, &shared)?);
    created.push(one.create_resource(testbed.at, &shared)?);
    let other = two.create_resource(testbed.at, &shared)?;
    for it in created {
        one.fill(testbed.at, (it, 1), SMALL, 0x0f)?;
        one.expect_value(testbed.at, (it, 1), 0x0f)?;
        one.destroy_resource(testbed.at, it)?;
    }
    two.destroy_resource(testbed.at, other)?;
    two.flush(testbed.at)?;
    one.close(testbed.at)?;
    two.close(testbed.at)
}

/// Opens two adapter objects with seven devices each, and draws with every device.
fn umd_multiple_devices(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let beside = app.another_adapter(testbed)?;
    let mut all = vec![app.clone(), beside.clone()];
    for _ in 0..6 {
        all.push(app.another_device(testbed.at)?);
        all.push(beside.another_device(testbed.at)?);
    }
    for it in &all {
        let one = it.create_resource(
            testbed.at,
            &ResourceDescription::texture(SMALL.width, SMALL.height),
        )?;
        it.fill(testbed.at, (one, 0), SMALL, 0x71)?;
        it.expect_value(testbed.at, (one, 0), 0x71)?;
        it.destroy_resource(testbed.at, one)?;
    }
    for it in all.split_off(2) {
        it.destroy_device(testbed.at)?;
    }
    beside.close_adapter(testbed.at)?;
    app.close(testbed.at)
}

/// Each thread creates, draws, reads and destroys on its own device.
fn umd_device_per_thread(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let other = app.another_device(testbed.at)?;
    let body = |app: Application, value: u8| {
        move |at: &mut Passive| {
            for turn in 0..6_u8 {
                let one = app.create_resource(
                    at,
                    &ResourceDescription::texture(SMALL.width, SMALL.height),
                )?;
                let two = app.create_resource(
                    at,
                    &ResourceDescription::group(2, SMALL.width, SMALL.height),
                )?;
                app.fill(at, (one, 0), SMALL, value + turn)?;
                app.copy(at, (one, 0), (two, 1), SMALL)?;
                app.destroy_resource(at, one)?;
                app.expect_value(at, (two, 1), value + turn)?;
                app.destroy_resource(at, two)?;
                app.flush(at)?;
            }
            Ok(())
        }
    };
    testbed.run_threads(vec![
        Box::new(body(app.clone(), 0x10)),
        Box::new(body(other.clone(), 0x80)),
    ])?;
    other.destroy_device(testbed.at)?;
    app.close(testbed.at)
}

/// The application gets the kernel's error where the driver cannot recover.
fn umd_kernel_error(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let texture = ResourceDescription::texture(SMALL.width, SMALL.height);
    let mut buffer = texture.clone();
    buffer.flags = D3DDDI_RESOURCEFLAGS::VertexBuffer;
    let at = &mut *testbed.at;
    for (wanted, text, answer) in [
        (&texture, D3DERR_OUTOFVIDEOMEMORY, D3DERR_OUTOFVIDEOMEMORY),
        (&buffer, E_OUTOFMEMORY, E_OUTOFMEMORY),
        (&buffer, E_FAIL, D3DERR_NOTAVAILABLE),
    ] {
        app.device.fail_next("pfnAllocateCb", text);
        let created = app.device.create_resource(at, wanted);
        app.device.cancel_failure();
        expect_error("pfnCreateResource", &created, answer)?;
    }
    // A surface in application memory needs no allocation.
    app.device.fail_next("pfnAllocateCb", E_OUTOFMEMORY);
    let system = app.create_resource(at, &texture.clone().in_system_memory())?;
    app.device.cancel_failure();
    let (source, target) = (app.create_resource(at, &texture)?, app.create_resource(at, &texture)?);
    app.fill(at, (source, 0), SMALL, 0x45)?;
    app.copy(at, (source, 0), (target, 0), SMALL)?;
    // Optional memory that only improves speed: the driver falls back.
    for callback in ["pfnLockCb", "pfnAllocateCb"] {
        let discard = LockRequest { discard: true, ..LockRequest::default() };
        app.device.fail_next(callback, E_OUTOFMEMORY);
        let locked = app.device.lock(at, (source, 0), discard);
        app.device.cancel_failure();
        // A driver without renaming passes the error on.
        let locked = match locked {
            Err(E_OUTOFMEMORY) => app.device.lock(at, (source, 0), discard),
            locked => locked,
        };
        expect_ok("pfnLock", locked)?.write(&vec![0x46; SMALL.bytes()]);
        expect_ok("pfnUnlock", app.device.unlock(at, (source, 0)))?;
    }
    app.expect_value(at, (target, 0), 0x45)?;
    app.expect_value(at, (source, 0), 0x46)?;
    app.write_surface(at, (system, 0), LockRequest::default(), &vec![0x47; SMALL.bytes()])?;
    app.copy(at, (system, 0), (target, 0), SMALL)?;
    app.expect_value(at, (target, 0), 0x47)?;
    for it in [system, source, target] {
        app.destroy_resource(at, it)?;
    }
    app.close(at)
}

/// A driver that gets `D3DDDIERR_DEVICEREMOVED` returns it from every call.
fn umd_device_removed(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    const REMOVED: i32 = D3DDDIERR_DEVICEREMOVED;
    let app = testbed.application()?;
    let texture = ResourceDescription::texture(SMALL.width, SMALL.height);
    let at = &mut *testbed.at;
    let one = app.create_resource(at, &texture)?;
    for callback in ["pfnRenderCb", "pfnSubmitCommandCb"] {
        // No call is in progress at the removal, so no call follows it.
        app.fill(at, (one, 0), SMALL, 0x31)?;
        app.expect_value(at, (one, 0), 0x31)?;
        app.fill(at, (one, 0), SMALL, 0x32)?;
        app.device.fail_next(callback, REMOVED);
        let flushed = app.device.flush(at);
        if app.device.cancel_failure() {
            expect_error("pfnFlush", &flushed, REMOVED)?;
            break;
        }
        expect_ok("pfnFlush", flushed)?;
    }
    app.device.fail_next("pfnAllocateCb", REMOVED);
    expect_error("pfnCreateResource", &app.device.create_resource(at, &texture), REMOVED)?;
    for callback in ["pfnLockCb", "pfnLock2Cb"] {
        app.device.fail_next(callback, REMOVED);
        let locked = app.device.lock(at, (one, 0), LockRequest::default());
        if app.device.cancel_failure() {
            expect_error("pfnLock", &locked, REMOVED)?;
        } else {
            expect_ok("pfnLock", locked)?;
            expect_ok("pfnUnlock", app.device.unlock(at, (one, 0)))?;
        }
    }
    app.destroy_resource(at, one)?;
    app.close(at)
}

/// Two threads of one device: eventually one enters while the other is in the driver.
fn umd_app_shares_device_threads(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let body = |app: Application| {
        move |at: &mut Passive| {
            for _ in 0..6 {
                let one = app.create_resource(
                    at,
                    &ResourceDescription::texture(SMALL.width, SMALL.height),
                )?;
                app.destroy_resource(at, one)?;
            }
            Ok(())
        }
    };
    testbed.run_threads(vec![Box::new(body(app.clone())), Box::new(body(app.clone()))])?;
    app.close(testbed.at)
}

fn umd_app_destroys_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let one =
        app.create_resource(testbed.at, &ResourceDescription::texture(SMALL.width, SMALL.height))?;
    app.destroy_resource(testbed.at, one)?;
    let again = app.device.destroy_resource(testbed.at, one);
    expect_error("pfnDestroyResource", &again, E_INVALIDARG)?;
    app.close(testbed.at)
}

fn umd_app_closes_adapter_early(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    expect_error("pfnCloseAdapter", &app.adapter.close(), E_INVALIDARG)?;
    app.close(testbed.at)
}
