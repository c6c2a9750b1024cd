//! Applications that look at surfaces and write to them while a user-mode driver draws.

use crate::application::{refused, wanted};
use crate::scenario::Story::Told;
use crate::scenario::{Scenario, UMD};
use crate::tunnel::{Stopped, Tunnel};
use abi::hresult::{D3DDDIERR_WASSTILLDRAWING, E_INVALIDARG, E_OUTOFMEMORY};
use runtime::{LockOrder, Surface, Surfaces};

/// A surface of these stories: a page.
const SMALL: Surface = Surface { width: 32, height: 32 };

macro_rules! scenarios {
    ($($name:literal $about:literal $story:ident;)*) => {
        &[$(Scenario { name: $name, about: $about, breaks: &[], needs: UMD, story: Told($story) }),*]
    };
}

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = scenarios! {
    "surface-locked-twice" "a surface is locked twice, and unlocked once too often" twice;
    "surface-kept-locked" "a surface stays locked while others are drawn and flushed" kept;
    "surface-no-overwrite" "a surface is written to while the GPU draws with it" no_overwrite;
    "surface-do-not-wait" "a surface is locked that the GPU may still draw" do_not_wait;
    "surface-async" "a surface is renamed, while the driver draws with what it was" beside;
    "surface-shared-written" "a shared resource is written by who has made it" shared_written;
    "surface-too-large" "a surface is refused that no memory holds" too_large;
};

fn small() -> Surfaces {
    Surfaces::texture(SMALL.width, SMALL.height)
}

fn twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let it = (app.make(tunnel.at, &small())?, 0);
    app.fill(tunnel.at, it, SMALL, 0x21)?;
    for _ in 0..2 {
        wanted("pfnLock", app.device.lock(tunnel.at, it, LockOrder::default()))?;
    }
    for _ in 0..2 {
        wanted("pfnUnlock", app.device.unlock(tunnel.at, it))?;
    }
    refused("pfnUnlock", &app.device.unlock(tunnel.at, it), E_INVALIDARG)?;
    app.expect(tunnel.at, it, 0x21)?;
    app.drop(tunnel.at, it.0)?;
    app.close(tunnel.at)
}

fn kept(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let (it, other) = ((app.make(tunnel.at, &small())?, 0), (app.make(tunnel.at, &small())?, 0));
    let mapped = wanted("pfnLock", app.device.lock(tunnel.at, it, LockOrder::default()))?;
    app.fill(tunnel.at, other, SMALL, 0x22)?;
    app.flush(tunnel.at)?;
    mapped.write(&vec![0x23; SMALL.bytes()]);
    wanted("pfnUnlock", app.device.unlock(tunnel.at, it))?;
    app.copy(tunnel.at, it, other, SMALL)?;
    app.expect(tunnel.at, other, 0x23)?;
    // One that is dropped while it is locked.
    wanted("pfnLock", app.device.lock(tunnel.at, other, LockOrder::default()))?;
    app.drop(tunnel.at, other.0)?;
    app.drop(tunnel.at, it.0)?;
    app.close(tunnel.at)
}

fn no_overwrite(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let (it, other) = ((app.make(tunnel.at, &small())?, 0), (app.make(tunnel.at, &small())?, 0));
    let order = LockOrder { no_overwrite: true, ..LockOrder::default() };
    app.write(tunnel.at, it, order, &vec![0x31; SMALL.bytes()])?;
    app.copy(tunnel.at, it, other, SMALL)?;
    app.flush(tunnel.at)?;
    // What is written is what was there: nothing is overwritten that the GPU reads.
    app.write(tunnel.at, it, order, &vec![0x31; SMALL.bytes()])?;
    app.expect(tunnel.at, other, 0x31)?;
    app.drop(tunnel.at, it.0)?;
    app.drop(tunnel.at, other.0)?;
    app.close(tunnel.at)
}

fn do_not_wait(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let it = (app.make(tunnel.at, &small())?, 0);
    let order = LockOrder { do_not_wait: true, read_only: true, ..LockOrder::default() };
    for value in 0..3 {
        app.fill(tunnel.at, it, SMALL, value)?;
        match app.device.lock(tunnel.at, it, order) {
            Err(D3DDDIERR_WASSTILLDRAWING) => {}
            locked => {
                wanted("pfnLock", locked)?;
                wanted("pfnUnlock", app.device.unlock(tunnel.at, it))?;
            }
        }
        app.expect(tunnel.at, it, value)?;
    }
    app.drop(tunnel.at, it.0)?;
    app.close(tunnel.at)
}

fn beside(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let it = (app.make(tunnel.at, &small())?, 0);
    let targets = app.make(tunnel.at, &Surfaces::group(2, SMALL.width, SMALL.height))?;
    app.fill(tunnel.at, it, SMALL, 0x41)?;
    let mapped = wanted("pfnLockAsync", app.device.lock_async(tunnel.at, it, true))?;
    mapped.write(&vec![0x42; SMALL.bytes()]);
    wanted("pfnUnlockAsync", app.device.unlock_async(tunnel.at, it))?;
    // Until it is renamed it is what it was.
    app.copy(tunnel.at, it, (targets, 0), SMALL)?;
    wanted("pfnRename", app.device.rename(tunnel.at, it, &mapped))?;
    app.copy(tunnel.at, it, (targets, 1), SMALL)?;
    app.expect(tunnel.at, (targets, 0), 0x41)?;
    app.expect(tunnel.at, (targets, 1), 0x42)?;
    let mapped = wanted("pfnLockAsync", app.device.lock_async(tunnel.at, it, false))?;
    mapped.write(&vec![0x43; SMALL.bytes()]);
    wanted("pfnUnlockAsync", app.device.unlock_async(tunnel.at, it))?;
    app.expect(tunnel.at, it, 0x43)?;
    app.drop(tunnel.at, it.0)?;
    app.drop(tunnel.at, targets)?;
    app.close(tunnel.at)
}

fn shared_written(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let it = (app.make(tunnel.at, &small().shared())?, 0);
    let discard = LockOrder { discard: true, ..LockOrder::default() };
    app.fill(tunnel.at, it, SMALL, 0x51)?;
    app.write(tunnel.at, it, discard, &vec![0x52; SMALL.bytes()])?;
    app.expect(tunnel.at, it, 0x52)?;
    app.drop(tunnel.at, it.0)?;
    app.flush(tunnel.at)?;
    app.close(tunnel.at)
}

fn too_large(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let made = app.device.create_resource(tunnel.at, &Surfaces::texture(16384, 16385));
    refused("pfnCreateResource", &made, E_OUTOFMEMORY)?;
    let it = (app.make(tunnel.at, &small())?, 0);
    app.fill(tunnel.at, it, SMALL, 0x61)?;
    app.expect(tunnel.at, it, 0x61)?;
    app.drop(tunnel.at, it.0)?;
    app.close(tunnel.at)
}
