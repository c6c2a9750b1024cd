//! Applications that draw through a user-mode driver.

use crate::application::refused;
use crate::scenario::Story::Told;
use crate::scenario::{Scenario, UMD};
use crate::tunnel::{Stopped, Tunnel};
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_INVALIDARG};
use flight::RuleId;
use runtime::{LockOrder, Rect, Surface, Surfaces};

/// A surface of these stories: a page.
const SMALL: Surface = Surface { width: 32, height: 32 };

macro_rules! scenarios {
    ($($name:literal $about:literal [$($rule:ident)?] $story:ident;)*) => {
        &[$(Scenario {
            name: $name,
            about: $about,
            breaks: &[$(RuleId::$rule)?],
            needs: UMD,
            story: Told($story),
        }),*]
    };
}

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = scenarios! {
    "surface" "a texture is filled, copied, looked at and dropped" [] texture;
    "surface-in-flight" "a texture is dropped while the GPU draws it" [] in_flight;
    "surface-deferred" "textures that are used are dropped, and released later" [] deferred;
    "surface-group" "a group of surfaces is drawn, and dropped as one" [] group;
    "surface-shared" "a resource is opened by another process; each drops its own" [] shared;
    "surface-discarded" "a texture is written again and again while it is drawn with" [] discarded;
    "surface-in-system-memory" "a surface of the application's is copied to a texture" [] system;
    "surface-lost" "an adapter is stopped and started while an application draws" [] lost;
    "surface-left" "a device goes with resources that the application has not dropped" [] left;
};

/// Every bad one.
pub(crate) const BAD: &[Scenario] = scenarios! {
    "drops-twice" "drops a resource for a second time" [UMD_DESTROY_004] drops_twice;
    "closes-with-devices" "closes an adapter that has devices" [UMD_ADAPTER_001] closes_early;
};

/// Made, filled, copied, looked at, dropped.
fn texture(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let one = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    let two = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    app.fill(tunnel.at, (one, 0), SMALL, 0x5a)?;
    app.copy(tunnel.at, (one, 0), (two, 0), SMALL)?;
    app.expect(tunnel.at, (two, 0), 0x5a)?;
    app.drop(tunnel.at, one)?;
    app.drop(tunnel.at, two)?;
    app.flush(tunnel.at)?;
    app.close(tunnel.at)
}

/// The commands that use it go out before it is released, and it is gone after they are done.
fn in_flight(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let one = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    let two = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    app.fill(tunnel.at, (one, 0), SMALL, 0x17)?;
    app.copy(tunnel.at, (one, 0), (two, 0), SMALL)?;
    app.drop(tunnel.at, one)?;
    app.expect(tunnel.at, (two, 0), 0x17)?;
    app.drop(tunnel.at, two)?;
    app.close(tunnel.at)
}

/// Several are dropped while others are drawn; a flush, and the end of the device, release them.
fn deferred(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    for turn in 0..4_u8 {
        let one = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
        let two = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
        app.fill(tunnel.at, (one, 0), SMALL, turn)?;
        app.flush(tunnel.at)?;
        app.copy(tunnel.at, (one, 0), (two, 0), SMALL)?;
        app.drop(tunnel.at, one)?;
        app.drop(tunnel.at, two)?;
    }
    tunnel.look("dropped");
    app.flush(tunnel.at)?;
    app.close(tunnel.at)
}

/// Made at once, and dropped at once.
fn group(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let chain = app.make(tunnel.at, &Surfaces::group(3, SMALL.width, SMALL.height))?;
    for index in 0..3_u8 {
        app.fill(tunnel.at, (chain, u32::from(index)), SMALL, 0x30 + index)?;
    }
    app.copy(tunnel.at, (chain, 0), (chain, 2), SMALL)?;
    app.flush(tunnel.at)?;
    app.expect(tunnel.at, (chain, 1), 0x31)?;
    app.expect(tunnel.at, (chain, 2), 0x30)?;
    let beyond = app.device.color_fill(tunnel.at, (chain, 3), Rect::of(SMALL), 0);
    refused("pfnColorFill", &beyond, E_INVALIDARG)?;
    app.fill(tunnel.at, (chain, 1), SMALL, 0x77)?;
    app.drop(tunnel.at, chain)?;
    app.flush(tunnel.at)?;
    app.close(tunnel.at)
}

/// Drawn by one, looked at by another; the maker drops it first.
fn shared(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener) = (tunnel.application()?, tunnel.application()?);
    let made = maker.make(tunnel.at, &Surfaces::group(2, SMALL.width, SMALL.height).shared())?;
    maker.fill(tunnel.at, (made, 1), SMALL, 0x66)?;
    maker.flush(tunnel.at)?;
    maker.expect(tunnel.at, (made, 1), 0x66)?;
    let global = crate::application::wanted("a shared resource", maker.device.share(made))?;
    let opened = opener.device.open_resource(tunnel.at, global);
    let opened = crate::application::wanted("pfnOpenResource", opened)?;
    // Only the maker may lock it: another looks at a copy.
    let own = opener.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    opener.copy(tunnel.at, (opened, 1), (own, 0), SMALL)?;
    opener.expect(tunnel.at, (own, 0), 0x66)?;
    maker.drop(tunnel.at, made)?;
    maker.flush(tunnel.at)?;
    opener.fill(tunnel.at, (opened, 0), SMALL, 0x11)?;
    opener.copy(tunnel.at, (opened, 0), (own, 0), SMALL)?;
    opener.expect(tunnel.at, (own, 0), 0x11)?;
    opener.drop(tunnel.at, opened)?;
    opener.drop(tunnel.at, own)?;
    opener.flush(tunnel.at)?;
    maker.close(tunnel.at)?;
    opener.close(tunnel.at)
}

/// What was drawn with one content stays, whatever is written later.
fn discarded(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let source = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    let targets = app.make(tunnel.at, &Surfaces::group(4, SMALL.width, SMALL.height))?;
    let discard = LockOrder { discard: true, ..LockOrder::default() };
    for index in 0..4_u8 {
        let bytes = vec![0x40 + index; SMALL.bytes()];
        app.write(tunnel.at, (source, 0), discard, &bytes)?;
        app.copy(tunnel.at, (source, 0), (targets, u32::from(index)), SMALL)?;
    }
    for index in 0..4_u8 {
        app.expect(tunnel.at, (targets, u32::from(index)), 0x40 + index)?;
    }
    app.drop(tunnel.at, source)?;
    app.drop(tunnel.at, targets)?;
    app.close(tunnel.at)
}

/// The application's memory is the source.
fn system(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let wanted = Surfaces::texture(SMALL.width, SMALL.height);
    let (source, target) =
        (app.make(tunnel.at, &wanted.clone().in_system_memory())?, app.make(tunnel.at, &wanted)?);
    let bytes = vec![0x29; SMALL.bytes()];
    app.write(tunnel.at, (source, 0), LockOrder::default(), &bytes)?;
    app.copy(tunnel.at, (source, 0), (target, 0), SMALL)?;
    app.expect(tunnel.at, (target, 0), 0x29)?;
    app.drop(tunnel.at, source)?;
    app.drop(tunnel.at, target)?;
    app.close(tunnel.at)
}

/// The driver hands on that the device is removed; another device works.
fn lost(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let one = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    app.fill(tunnel.at, (one, 0), SMALL, 0x21)?;
    tunnel.restart()?;
    refused("pfnFlush", &app.device.flush(tunnel.at), D3DDDIERR_DEVICEREMOVED)?;
    // Whatever it answers: it is gone with its device.
    let _ = app.device.destroy_resource(tunnel.at, one);
    let _ = app.device.destroy(tunnel.at);
    let other = app.another(tunnel.at)?;
    let two = other.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    other.fill(tunnel.at, (two, 0), SMALL, 0x22)?;
    other.expect(tunnel.at, (two, 0), 0x22)?;
    other.drop(tunnel.at, two)?;
    other.close(tunnel.at)
}

/// The runtime drops what is left, the driver releases it.
fn left(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let one = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    app.fill(tunnel.at, (one, 0), SMALL, 1)?;
    app.make(tunnel.at, &Surfaces::group(2, SMALL.width, SMALL.height))?;
    app.close(tunnel.at)
}

fn drops_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let one = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    app.drop(tunnel.at, one)?;
    let again = app.device.destroy_resource(tunnel.at, one);
    refused("pfnDestroyResource", &again, E_INVALIDARG)?;
    app.close(tunnel.at)
}

fn closes_early(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    refused("pfnCloseAdapter", &app.adapter.close(), E_INVALIDARG)?;
    app.close(tunnel.at)
}
