//! What every callback goes through: its door, whether the adapter is started, and its level.
#![expect(unsafe_code, reason = "a driver calls these, with pointers of its own")]

use crate::door::Door;
use crate::query::judge;
use abi::HANDLE;
use flight::{At, InCall, Irql, RuleId, What, pass_on};
use kernel::services::Services;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// All that an interrupt routine may call.
const FROM_INTERRUPT: [&str; 2] = ["DxgkCbQueueDpc", "DxgkCbNotifyInterrupt"];

/// Answers a callback: says that it was called, refuses it where the adapter is not started,
/// and catches a panic of ours. An internal error passes through: it ends the flight.
pub(crate) fn called<R: Copy>(
    door: impl FnOnce() -> Option<Arc<Door>>,
    name: &'static str,
    otherwise: R,
    body: impl FnOnce(&Services) -> R,
) -> R {
    with_door(door, name, otherwise, |door| body(door.services()))
}

/// As [`called`], for a callback that needs what the door itself keeps.
pub(crate) fn with_door<R: Copy>(
    door: impl FnOnce() -> Option<Arc<Door>>,
    name: &'static str,
    otherwise: R,
    body: impl FnOnce(&Door) -> R,
) -> R {
    let answer = || {
        let Some(door) = door() else { return otherwise };
        let services = door.services();
        services.log().emit(services.adapter(), What::Callback { name: name.into() });
        let said = || format!("{name} was called for an adapter that is not started");
        let broken = (!door.is_started()).then(said);
        if !judge(services, RuleId::CB_IRQL_002, name, broken) {
            return otherwise;
        }
        if services.host().irql() == Irql::Device && services.interrupting() {
            let broken = (!FROM_INTERRUPT.contains(&name))
                .then(|| format!("{name} was called from the interrupt routine"));
            if !judge(services, RuleId::KMD_ISR_001, name, broken) {
                return otherwise;
            }
        }
        body(&door)
    };
    catch_unwind(AssertUnwindSafe(answer)).map_err(pass_on).unwrap_or(otherwise)
}

/// Answers a callback that may not be called everywhere: `body` says which level it needs
/// where it did nothing, and `rule` judges that.
pub(crate) fn at_level<R: Copy>(
    door: impl FnOnce() -> Option<Arc<Door>>,
    name: &'static str,
    rule: RuleId,
    otherwise: R,
    body: impl FnOnce(&Services, At<'_>) -> Result<R, &'static str>,
) -> R {
    called(door, name, otherwise, |services| {
        let level = services.host().irql();
        let answer = At::here(&**services.host(), |at| body(services, at));
        let broken = answer.err().map(|needs| wrong(name, level, needs));
        // What gives work to the hardware has a rule of its own.
        if answer.err() != Some("passive") || !InCall::misuse(name) {
            judge(services, rule, name, broken);
        }
        answer.unwrap_or(otherwise)
    })
}

/// Judges that a callback was not called above a level, and answers whether it was not.
pub(crate) fn below(services: &Services, rule: RuleId, name: &'static str, ceiling: Irql) -> bool {
    let level = services.host().irql();
    let needs = if ceiling == Irql::Passive { "passive" } else { "passive or dispatch" };
    if level > ceiling && ceiling == Irql::Passive && InCall::misuse(name) {
        return false; // As above.
    }
    judge(services, rule, name, (level > ceiling).then(|| wrong(name, level, needs)))
}

fn wrong(name: &str, level: Irql, needs: &str) -> String {
    format!("{name} was called at {level}, but needs {needs}")
}

/// The door that `handle` means. One that means none is said where the driver is running.
pub(crate) fn of(handle: HANDLE, name: &'static str) -> Option<Arc<Door>> {
    of_by(handle, RuleId::CB_IRQL_002, name)
}

/// As [`of`], for a callback that has its own rule on the handle.
pub(crate) fn of_by(handle: HANDLE, rule: RuleId, name: &'static str) -> Option<Arc<Door>> {
    let door = Door::find(handle);
    if let (None, Some(running)) = (&door, Door::running()) {
        let broken =
            format!("DeviceHandle of {name} means no adapter: it is the one of DXGKRNL_INTERFACE");
        judge(running.services(), rule, name, Some(broken));
    }
    door
}

/// Copies what a driver points at.
///
/// # Safety
///
/// `from` points to a `T`, aligned or not, or is null.
pub(crate) unsafe fn read<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() {
        return None;
    }
    // SAFETY: It is not null, so the caller promises a `T` there.
    Some(unsafe { from.read_unaligned() })
}

/// Writes where a driver points.
///
/// # Safety
///
/// `to` points to a place for a `T`, aligned or not, or is null.
pub(crate) unsafe fn write<T: Copy>(to: *mut T, value: T) {
    if to.is_null() {
        return;
    }
    // SAFETY: It is not null, so the caller promises a place for a `T` there.
    unsafe { to.write_unaligned(value) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn what_a_driver_points_at_need_not_be_aligned() {
        let mut words = [0_u32; 3];
        let odd = words.as_mut_ptr().cast::<u8>().wrapping_add(1).cast_const();
        let odd: *mut [u32; 2] = ptr::with_exposed_provenance_mut(odd.expose_provenance());
        // SAFETY: The place has eight bytes, of the twelve.
        unsafe { write(odd, [1, 2]) };
        // SAFETY: As above.
        assert_eq!(unsafe { read(odd) }, Some([1, 2]));
    }
}
