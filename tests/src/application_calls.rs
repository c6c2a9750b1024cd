//! The calls of an application on a device, for scenarios of failures.

use abi::HRESULT;
use flight::Passive;
use runtime::{Device, LockRequest, Rect, Resource, ResourceDescription};

/// Formats a result.
pub fn text(answer: HRESULT) -> String {
    abi::hresult::name(answer).map_or_else(|| format!("{:#x}", answer.cast_unsigned()), Into::into)
}

/// A call of the application that reaches one function of the driver.
pub type Call = fn(&Device, &mut Passive, Resource) -> Result<(), HRESULT>;

/// The whole of a surface in these scenarios.
pub const WHOLE: Rect = Rect { left: 0, top: 0, right: 8, bottom: 8 };

/// Every function of a device except the first, with the application call that reaches it.
pub const CALLS: &[(&str, Call)] = &[
    ("pfnCreateResource", |it, at, _| {
        it.create_resource(at, &ResourceDescription::texture(8, 8)).map(drop)
    }),
    ("pfnCreateResource2", |it, at, _| {
        it.create_resource(
            at,
            &ResourceDescription { flags2: 1, ..ResourceDescription::texture(8, 8) },
        )
        .map(drop)
    }),
    ("pfnDestroyResource", |it, at, one| it.destroy_resource(at, one)),
    ("pfnLock", |it, at, one| it.lock(at, (one, 0), LockRequest::default()).map(drop)),
    ("pfnUnlock", |it, at, one| it.unlock(at, (one, 0))),
    ("pfnLockAsync", |it, at, one| it.lock_async(at, (one, 0), true).map(drop)),
    ("pfnUnlockAsync", |it, at, one| it.unlock_async(at, (one, 0))),
    ("pfnBlt", |it, at, one| it.blt(at, (one, 0, WHOLE), (one, 0, WHOLE))),
    ("pfnColorFill", |it, at, one| it.color_fill(at, (one, 0), WHOLE, 0)),
    ("pfnFlush", |it, at, _| it.flush(at)),
    ("pfnSetPriority", |it, at, one| it.set_priority(at, one, 0x7800_0000)),
    ("pfnQueryResourceResidency", |it, at, one| it.residency(at, &[one]).map(drop)),
    ("pfnDestroyDevice", |it, at, _| it.destroy(at)),
];
