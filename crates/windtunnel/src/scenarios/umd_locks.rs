//! Applications that lock surfaces while a user-mode driver draws.

use crate::application::{expect_error, expect_ok};
use crate::needs::UMD;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, Testbed};
use abi::hresult::{D3DDDIERR_WASSTILLDRAWING, E_INVALIDARG, E_OUTOFMEMORY};
use runtime::{LockRequest, ResourceDescription, Surface};

/// The surface size of these scenarios: one page.
const SMALL: Surface = Surface { width: 32, height: 32 };

macro_rules! scenarios {
    ($($name:literal $about:literal $story:ident;)*) => {
        &[$(Scenario { name: $name, about: $about, breaks: &[], needs: UMD, body: DisplayBody($story) }),*]
    };
}

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = scenarios! {
    "umd-lock-twice" "locks a surface twice and unlocks it once too often" umd_lock_twice;
    "umd-draw-while-locked" "keeps a surface locked while others are drawn and flushed" umd_draw_while_locked;
    "umd-lock-no-overwrite" "writes to a surface locked with NoOverwrite while the GPU draws with it" umd_lock_no_overwrite;
    "umd-lock-do-not-wait" "locks a surface with DoNotWait while the GPU may still draw with it" umd_lock_do_not_wait;
    "umd-lock-async" "renames a surface with LockAsync while the driver draws with the previous instance" umd_lock_async;
    "umd-shared-written-by-creator" "writes to a shared resource from its creator" umd_shared_written_by_creator;
    "umd-surface-too-large" "creates a surface that is larger than the memory" umd_surface_too_large;
};

fn small() -> ResourceDescription {
    ResourceDescription::texture(SMALL.width, SMALL.height)
}

fn umd_lock_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let it = (app.create_resource(testbed.at, &small())?, 0);
    app.fill(testbed.at, it, SMALL, 0x21)?;
    for _ in 0..2 {
        expect_ok("pfnLock", app.device.lock(testbed.at, it, LockRequest::default()))?;
    }
    for _ in 0..2 {
        expect_ok("pfnUnlock", app.device.unlock(testbed.at, it))?;
    }
    expect_error("pfnUnlock", &app.device.unlock(testbed.at, it), E_INVALIDARG)?;
    app.expect_value(testbed.at, it, 0x21)?;
    app.destroy_resource(testbed.at, it.0)?;
    app.close(testbed.at)
}

fn umd_draw_while_locked(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let (it, other) = (
        (app.create_resource(testbed.at, &small())?, 0),
        (app.create_resource(testbed.at, &small())?, 0),
    );
    let mapped = expect_ok("pfnLock", app.device.lock(testbed.at, it, LockRequest::default()))?;
    app.fill(testbed.at, other, SMALL, 0x22)?;
    app.flush(testbed.at)?;
    mapped.write(&vec![0x23; SMALL.bytes()]);
    expect_ok("pfnUnlock", app.device.unlock(testbed.at, it))?;
    app.copy(testbed.at, it, other, SMALL)?;
    app.expect_value(testbed.at, other, 0x23)?;
    // Destroys a locked surface.
    expect_ok("pfnLock", app.device.lock(testbed.at, other, LockRequest::default()))?;
    app.destroy_resource(testbed.at, other.0)?;
    app.destroy_resource(testbed.at, it.0)?;
    app.close(testbed.at)
}

fn umd_lock_no_overwrite(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let (it, other) = (
        (app.create_resource(testbed.at, &small())?, 0),
        (app.create_resource(testbed.at, &small())?, 0),
    );
    let request = LockRequest { no_overwrite: true, ..LockRequest::default() };
    app.write_surface(testbed.at, it, request, &vec![0x31; SMALL.bytes()])?;
    app.copy(testbed.at, it, other, SMALL)?;
    app.flush(testbed.at)?;
    // Writes the existing content: the data that the GPU reads does not change.
    app.write_surface(testbed.at, it, request, &vec![0x31; SMALL.bytes()])?;
    app.expect_value(testbed.at, other, 0x31)?;
    app.destroy_resource(testbed.at, it.0)?;
    app.destroy_resource(testbed.at, other.0)?;
    app.close(testbed.at)
}

fn umd_lock_do_not_wait(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let it = (app.create_resource(testbed.at, &small())?, 0);
    let request = LockRequest { do_not_wait: true, read_only: true, ..LockRequest::default() };
    for value in 0..3 {
        app.fill(testbed.at, it, SMALL, value)?;
        match app.device.lock(testbed.at, it, request) {
            Err(D3DDDIERR_WASSTILLDRAWING) => {}
            locked => {
                expect_ok("pfnLock", locked)?;
                expect_ok("pfnUnlock", app.device.unlock(testbed.at, it))?;
            }
        }
        app.expect_value(testbed.at, it, value)?;
    }
    app.destroy_resource(testbed.at, it.0)?;
    app.close(testbed.at)
}

fn umd_lock_async(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let it = (app.create_resource(testbed.at, &small())?, 0);
    let targets =
        app.create_resource(testbed.at, &ResourceDescription::group(2, SMALL.width, SMALL.height))?;
    app.fill(testbed.at, it, SMALL, 0x41)?;
    let mapped = expect_ok("pfnLockAsync", app.device.lock_async(testbed.at, it, true))?;
    mapped.write(&vec![0x42; SMALL.bytes()]);
    expect_ok("pfnUnlockAsync", app.device.unlock_async(testbed.at, it))?;
    // The content is unchanged until the allocation is renamed.
    app.copy(testbed.at, it, (targets, 0), SMALL)?;
    expect_ok("pfnRename", app.device.rename(testbed.at, it, &mapped))?;
    app.copy(testbed.at, it, (targets, 1), SMALL)?;
    app.expect_value(testbed.at, (targets, 0), 0x41)?;
    app.expect_value(testbed.at, (targets, 1), 0x42)?;
    let mapped = expect_ok("pfnLockAsync", app.device.lock_async(testbed.at, it, false))?;
    mapped.write(&vec![0x43; SMALL.bytes()]);
    expect_ok("pfnUnlockAsync", app.device.unlock_async(testbed.at, it))?;
    app.expect_value(testbed.at, it, 0x43)?;
    app.destroy_resource(testbed.at, it.0)?;
    app.destroy_resource(testbed.at, targets)?;
    app.close(testbed.at)
}

fn umd_shared_written_by_creator(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let it = (app.create_resource(testbed.at, &small().shared())?, 0);
    let discard = LockRequest { discard: true, ..LockRequest::default() };
    app.fill(testbed.at, it, SMALL, 0x51)?;
    app.write_surface(testbed.at, it, discard, &vec![0x52; SMALL.bytes()])?;
    app.expect_value(testbed.at, it, 0x52)?;
    app.destroy_resource(testbed.at, it.0)?;
    app.flush(testbed.at)?;
    app.close(testbed.at)
}

fn umd_surface_too_large(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let app = testbed.application()?;
    let created =
        app.device.create_resource(testbed.at, &ResourceDescription::texture(16384, 16385));
    expect_error("pfnCreateResource", &created, E_OUTOFMEMORY)?;
    let it = (app.create_resource(testbed.at, &small())?, 0);
    app.fill(testbed.at, it, SMALL, 0x61)?;
    app.expect_value(testbed.at, it, 0x61)?;
    app.destroy_resource(testbed.at, it.0)?;
    app.close(testbed.at)
}
