//! Applications that draw through a user-mode driver.

use crate::application::{Application, refused, wanted};
use crate::scenario::Story::Told;
use crate::scenario::{Scenario, UMD};
use crate::tunnel::{Stopped, Tunnel};
use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DERR_NOTAVAILABLE, D3DERR_OUTOFVIDEOMEMORY, E_FAIL, E_INVALIDARG,
    E_OUTOFMEMORY,
};
use abi::umd::{D3DDDI_RESOURCEFLAGS, D3DDDI_RESOURCEFLAGS2};
use flight::{Passive, RuleId};
use runtime::{LockOrder, Rect, Surface, Surfaces};

/// `D3DDDI_ALLOCATIONPRIORITY_HIGH`.
const HIGH: u32 = 0xa000_0000;

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
    "surface-worth" "resources get priorities, and are asked after" [] worth;
    "surface-shown" "surfaces that may be on a display are drawn to" [] shown;
    "surface-buffers" "buffers for vertices and indices are written, and dropped" [] buffers;
    "surface-alike" "resources that are alike are made, by two processes too" [] alike;
    "surface-devices" "a process has several adapters, and those several devices" [] devices;
    "surface-threads" "two threads draw, each with a device of its own" [] threads;
    "surface-refused" "the kernel refuses what a driver asks for; the application hears of it" []
        refusals;
    "surface-removed" "the device is removed under a driver" [] removed;
};

/// Every bad one.
pub(crate) const BAD: &[Scenario] = scenarios! {
    "drops-twice" "drops a resource for a second time" [UMD_DESTROY_004] drops_twice;
    "closes-with-devices" "closes an adapter that has devices" [UMD_ADAPTER_001] closes_early;
    "two-threads-one-device" "uses a device that was made for one thread on two" [UMD_THREAD_001]
        two_at_once;
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
    let global = wanted("a shared resource", maker.device.share(made))?;
    let own = opener.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    opener.fill(tunnel.at, (own, 0), SMALL, 0x22)?;
    let opened = opener.device.open_resource(tunnel.at, global);
    let opened = wanted("pfnOpenResource", opened)?;
    // Only the maker may lock it: another looks at a copy.
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
    let texture = Surfaces::texture(SMALL.width, SMALL.height);
    let source = app.make(tunnel.at, &texture.clone().in_system_memory())?;
    let target = app.make(tunnel.at, &texture)?;
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

/// Priorities are hints, and where something is can be asked.
fn worth(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let one = app.make(tunnel.at, &Surfaces::group(2, SMALL.width, SMALL.height))?;
    let two = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    wanted("pfnSetPriority", app.device.set_priority(tunnel.at, one, HIGH))?;
    app.fill(tunnel.at, (one, 1), SMALL, 0x12)?;
    app.copy(tunnel.at, (one, 1), (two, 0), SMALL)?;
    app.expect(tunnel.at, (two, 0), 0x12)?;
    let asked = app.device.residency(tunnel.at, &[one, two]);
    wanted("pfnQueryResourceResidency", asked)?;
    app.drop(tunnel.at, one)?;
    app.drop(tunnel.at, two)?;
    app.close(tunnel.at)
}

/// Each packet says which of them it writes.
fn shown(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let mut wanted = Surfaces::group(2, SMALL.width, SMALL.height);
    wanted.flags2 = D3DDDI_RESOURCEFLAGS2::IsDisplayable;
    let chain = app.make(tunnel.at, &wanted)?;
    let other = app.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
    for turn in 0..4_u8 {
        let back = u32::from(turn) % 2;
        app.fill(tunnel.at, (other, 0), SMALL, 0x60 + turn)?;
        app.copy(tunnel.at, (other, 0), (chain, back), SMALL)?;
        app.flush(tunnel.at)?;
    }
    app.expect(tunnel.at, (chain, 0), 0x62)?;
    app.expect(tunnel.at, (chain, 1), 0x63)?;
    app.drop(tunnel.at, chain)?;
    app.drop(tunnel.at, other)?;
    app.close(tunnel.at)
}

/// A buffer is a surface of one line.
fn buffers(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    for kind in [D3DDDI_RESOURCEFLAGS::VertexBuffer, D3DDDI_RESOURCEFLAGS::IndexBuffer] {
        let line = Surface { width: SMALL.width * SMALL.height, height: 1 };
        let mut wanted = Surfaces::texture(line.width, line.height);
        wanted.flags = kind;
        let buffer = app.make(tunnel.at, &wanted)?;
        let copy = app.make(tunnel.at, &wanted)?;
        let bytes = vec![0x3c; line.bytes()];
        app.write(tunnel.at, (buffer, 0), LockOrder::default(), &bytes)?;
        app.copy(tunnel.at, (buffer, 0), (copy, 0), line)?;
        app.expect(tunnel.at, (copy, 0), 0x3c)?;
        app.drop(tunnel.at, buffer)?;
        app.drop(tunnel.at, copy)?;
    }
    app.close(tunnel.at)
}

/// What means nothing changes nothing; and another process makes the same of the same.
fn alike(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (one, two) = (tunnel.application()?, tunnel.application()?);
    let mut wanted = Surfaces::group(2, SMALL.width, SMALL.height);
    let mut made = Vec::new();
    // Twice the same first: who does not say the same of that is not compared.
    for noise in [0, 0, 0x0101_0101, u32::MAX] {
        wanted.noise = noise;
        made.push(one.make(tunnel.at, &wanted)?);
    }
    wanted.noise = 0;
    let shared = wanted.shared();
    made.push(one.make(tunnel.at, &shared)?);
    made.push(one.make(tunnel.at, &shared)?);
    let other = two.make(tunnel.at, &shared)?;
    for it in made {
        one.fill(tunnel.at, (it, 1), SMALL, 0x0f)?;
        one.expect(tunnel.at, (it, 1), 0x0f)?;
        one.drop(tunnel.at, it)?;
    }
    two.drop(tunnel.at, other)?;
    two.flush(tunnel.at)?;
    one.close(tunnel.at)?;
    two.close(tunnel.at)
}

/// As many as there is memory for.
fn devices(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let beside = app.beside(tunnel)?;
    let mut all = vec![app.clone(), beside.clone()];
    for _ in 0..6 {
        all.push(app.another(tunnel.at)?);
        all.push(beside.another(tunnel.at)?);
    }
    for it in &all {
        let one = it.make(tunnel.at, &Surfaces::texture(SMALL.width, SMALL.height))?;
        it.fill(tunnel.at, (one, 0), SMALL, 0x71)?;
        it.expect(tunnel.at, (one, 0), 0x71)?;
        it.drop(tunnel.at, one)?;
    }
    for it in all.split_off(2) {
        it.end_device(tunnel.at)?;
    }
    beside.close_beside(tunnel.at)?;
    app.close(tunnel.at)
}

/// Each makes, draws and drops, and looks at what it drew.
fn threads(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let other = app.another(tunnel.at)?;
    let story = |app: Application, value: u8| {
        move |at: &mut Passive| {
            for turn in 0..6_u8 {
                let one = app.make(at, &Surfaces::texture(SMALL.width, SMALL.height))?;
                let two = app.make(at, &Surfaces::group(2, SMALL.width, SMALL.height))?;
                app.fill(at, (one, 0), SMALL, value + turn)?;
                app.copy(at, (one, 0), (two, 1), SMALL)?;
                app.drop(at, one)?;
                app.expect(at, (two, 1), value + turn)?;
                app.drop(at, two)?;
                app.flush(at)?;
            }
            Ok(())
        }
    };
    tunnel.side_by_side(vec![
        Box::new(story(app.clone(), 0x10)),
        Box::new(story(other.clone(), 0x80)),
    ])?;
    other.end_device(tunnel.at)?;
    app.close(tunnel.at)
}

/// What the kernel answers is what the application is answered, where it has to know.
fn refusals(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let texture = Surfaces::texture(SMALL.width, SMALL.height);
    let mut buffer = texture.clone();
    buffer.flags = D3DDDI_RESOURCEFLAGS::VertexBuffer;
    let at = &mut *tunnel.at;
    for (wanted, said, answer) in [
        (&texture, D3DERR_OUTOFVIDEOMEMORY, D3DERR_OUTOFVIDEOMEMORY),
        (&buffer, E_OUTOFMEMORY, E_OUTOFMEMORY),
        (&buffer, E_FAIL, D3DERR_NOTAVAILABLE),
    ] {
        app.device.refuse_next("pfnAllocateCb", said);
        let made = app.device.create_resource(at, wanted);
        app.device.stop_refusing();
        refused("pfnCreateResource", &made, answer)?;
    }
    // The application's own memory needs none.
    app.device.refuse_next("pfnAllocateCb", E_OUTOFMEMORY);
    let system = app.make(at, &texture.clone().in_system_memory())?;
    app.device.stop_refusing();
    let (source, target) = (app.make(at, &texture)?, app.make(at, &texture)?);
    app.fill(at, (source, 0), SMALL, 0x45)?;
    app.copy(at, (source, 0), (target, 0), SMALL)?;
    // Other memory that only makes it faster: the driver finds another way.
    for callback in ["pfnLockCb", "pfnAllocateCb"] {
        let discard = LockOrder { discard: true, ..LockOrder::default() };
        app.device.refuse_next(callback, E_OUTOFMEMORY);
        let locked = app.device.lock(at, (source, 0), discard);
        app.device.stop_refusing();
        // A driver that renames nothing hands it on.
        let locked = match locked {
            Err(E_OUTOFMEMORY) => app.device.lock(at, (source, 0), discard),
            locked => locked,
        };
        wanted("pfnLock", locked)?.write(&vec![0x46; SMALL.bytes()]);
        wanted("pfnUnlock", app.device.unlock(at, (source, 0)))?;
    }
    app.expect(at, (target, 0), 0x45)?;
    app.expect(at, (source, 0), 0x46)?;
    app.write(at, (system, 0), LockOrder::default(), &vec![0x47; SMALL.bytes()])?;
    app.copy(at, (system, 0), (target, 0), SMALL)?;
    app.expect(at, (target, 0), 0x47)?;
    for it in [system, source, target] {
        app.drop(at, it)?;
    }
    app.close(at)
}

/// A driver that hears of it says so, whatever it was asked.
fn removed(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    const REMOVED: i32 = D3DDDIERR_DEVICEREMOVED;
    let app = tunnel.application()?;
    let texture = Surfaces::texture(SMALL.width, SMALL.height);
    let at = &mut *tunnel.at;
    let one = app.make(at, &texture)?;
    for callback in ["pfnRenderCb", "pfnSubmitCommandCb"] {
        // Nothing is under way when it happens: nothing is after it.
        app.fill(at, (one, 0), SMALL, 0x31)?;
        app.expect(at, (one, 0), 0x31)?;
        app.fill(at, (one, 0), SMALL, 0x32)?;
        app.device.refuse_next(callback, REMOVED);
        let flushed = app.device.flush(at);
        if app.device.stop_refusing() {
            refused("pfnFlush", &flushed, REMOVED)?;
            break;
        }
        wanted("pfnFlush", flushed)?;
    }
    app.device.refuse_next("pfnAllocateCb", REMOVED);
    refused("pfnCreateResource", &app.device.create_resource(at, &texture), REMOVED)?;
    for callback in ["pfnLockCb", "pfnLock2Cb"] {
        app.device.refuse_next(callback, REMOVED);
        let locked = app.device.lock(at, (one, 0), LockOrder::default());
        if app.device.stop_refusing() {
            refused("pfnLock", &locked, REMOVED)?;
        } else {
            wanted("pfnLock", locked)?;
            wanted("pfnUnlock", app.device.unlock(at, (one, 0)))?;
        }
    }
    app.drop(at, one)?;
    app.close(at)
}

/// Sooner or later one comes while the other is in the driver.
fn two_at_once(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let app = tunnel.application()?;
    let story = |app: Application| {
        move |at: &mut Passive| {
            for _ in 0..6 {
                let one = app.make(at, &Surfaces::texture(SMALL.width, SMALL.height))?;
                app.drop(at, one)?;
            }
            Ok(())
        }
    };
    tunnel.side_by_side(vec![Box::new(story(app.clone())), Box::new(story(app.clone()))])?;
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
