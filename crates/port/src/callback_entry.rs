//! Common entry of every callback: finds the door, checks that the adapter is started, checks the
//! IRQL.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

use crate::door::Door;
use crate::private_data::prefix;
use crate::query::judge;
use crate::version::Growth;
use abi::HANDLE;
use flight::{
    At, CallGuard, Component, DeviceLevel, Dispatch, EventKind, ExecutionContext, Irql, Passive,
    RuleId, RunningCall, resume_internal_error,
};
use kernel::callbacks::KernelCallbacks;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A row of the callback table, as the callback uses it.
pub(crate) struct CallbackRow<L> {
    /// The Windows name of the callback.
    pub(crate) name: &'static str,
    /// The rule that a call at another level breaks.
    pub(crate) rule: Option<RuleId>,
    /// Whether the interrupt routine may call it.
    pub(crate) from_interrupt: bool,
    pub(crate) level: PhantomData<fn() -> L>,
}

/// The level that a callback requires.
pub(crate) trait CallbackLevel {
    /// The name of the level in findings.
    const NEEDS: &'static str;
    /// The proof of this level.
    type Proof<'a>;
    /// The proof, if the caller is at this level.
    fn proof(at: At<'_>) -> Option<Self::Proof<'_>>;
}

/// Any level.
pub(crate) enum AnyLevel {}

/// Passive or dispatch level.
pub(crate) enum BelowDevice {}

/// The proof of passive or dispatch level.
pub(crate) enum Below<'a> {
    Passive(&'a mut Passive),
    Dispatch(&'a mut Dispatch),
}

impl CallbackLevel for Passive {
    const NEEDS: &'static str = "passive";
    type Proof<'a> = &'a mut Passive;
    fn proof(at: At<'_>) -> Option<&mut Passive> {
        if let At::Passive(at) = at { Some(at) } else { None }
    }
}

impl CallbackLevel for Dispatch {
    const NEEDS: &'static str = "dispatch";
    type Proof<'a> = &'a mut Dispatch;
    fn proof(at: At<'_>) -> Option<&mut Dispatch> {
        if let At::Dispatch(at) = at { Some(at) } else { None }
    }
}

impl CallbackLevel for DeviceLevel {
    const NEEDS: &'static str = "device";
    type Proof<'a> = &'a mut DeviceLevel;
    fn proof(at: At<'_>) -> Option<&mut DeviceLevel> {
        if let At::Device(at) = at { Some(at) } else { None }
    }
}

impl CallbackLevel for BelowDevice {
    const NEEDS: &'static str = "passive or dispatch";
    type Proof<'a> = Below<'a>;
    fn proof(at: At<'_>) -> Option<Below<'_>> {
        match at {
            At::Passive(at) => Some(Below::Passive(at)),
            At::Dispatch(at) => Some(Below::Dispatch(at)),
            At::Device(_) => None,
        }
    }
}

impl CallbackLevel for AnyLevel {
    const NEEDS: &'static str = "any level";
    type Proof<'a> = At<'a>;
    fn proof(at: At<'_>) -> Option<At<'_>> {
        Some(at)
    }
}

impl<L: CallbackLevel> CallbackRow<L> {
    /// Runs the callback: logs the call, returns `otherwise` if the adapter is not started or the
    /// level is not the row's, and catches a panic of our code. An internal error propagates and
    /// ends the flight.
    pub(crate) fn answer<R: Copy>(
        &self,
        door: impl FnOnce() -> Option<Arc<Door>>,
        otherwise: R,
        body: impl FnOnce(&Door, L::Proof<'_>) -> R,
    ) -> R {
        self.enter(door, otherwise, |door| {
            self.callback_at_level(door.services(), otherwise, |at| body(door, at))
        })
    }

    /// As [`CallbackRow::answer`], at any level.
    pub(crate) fn enter<R: Copy>(
        &self,
        door: impl FnOnce() -> Option<Arc<Door>>,
        otherwise: R,
        body: impl FnOnce(&Door) -> R,
    ) -> R {
        let answer = || {
            let Some(door) = door() else {
                if Door::running().is_none() {
                    ExecutionContext::report_missing(self.name);
                }
                return otherwise;
            };
            let (services, name) = (door.services(), self.name);
            services.log().emit(services.adapter(), || EventKind::Callback { name: name.into() });
            services.log().note_call(Component::Driver, || RunningCall::describe(name));
            let text = || format!("{name} was called for an adapter that is not started");
            let broken = (!door.is_started()).then(text);
            if !judge(services, RuleId::CB_IRQL_002, name, broken) {
                return otherwise;
            }
            if services.host().irql() == Irql::Device && services.is_in_interrupt() {
                let broken = (!self.from_interrupt)
                    .then(|| format!("{name} was called from the interrupt routine"));
                if !judge(services, RuleId::KMD_ISR_001, name, broken) {
                    return otherwise;
                }
            }
            body(&door)
        };
        catch_unwind(AssertUnwindSafe(answer)).map_err(resume_internal_error).unwrap_or(otherwise)
    }

    /// Passes the proof of the row's level to `body`. At another level the row's rule is broken.
    pub(crate) fn callback_at_level<R>(
        &self,
        services: &KernelCallbacks,
        otherwise: R,
        body: impl FnOnce(L::Proof<'_>) -> R,
    ) -> R {
        let level = services.host().irql();
        At::at_current_irql(&**services.host(), |at| {
            let proof = L::proof(at);
            // Callbacks that submit work to the hardware have a specific rule.
            let other_rule =
                proof.is_none() && L::NEEDS == Passive::NEEDS && CallGuard::misuse(self.name);
            if let Some(rule) = self.rule.filter(|_| !other_rule) {
                let broken = proof.is_none().then(|| {
                    format!("{} was called at {level}, but needs {}", self.name, L::NEEDS)
                });
                judge(services, rule, self.name, broken);
            }
            proof.map_or(otherwise, body)
        })
    }
}

/// The door of `handle`. An unknown handle is logged for the driver that runs on this thread.
pub(crate) fn door_from_handle(handle: HANDLE, name: &'static str) -> Option<Arc<Door>> {
    door_from_handle_with_rule(handle, RuleId::CB_IRQL_002, name)
}

/// As [`door_from_handle`], for a callback with a specific rule on the handle.
pub(crate) fn door_from_handle_with_rule(
    handle: HANDLE,
    rule: RuleId,
    name: &'static str,
) -> Option<Arc<Door>> {
    let door = Door::find(handle);
    if let (None, Some(running)) = (&door, Door::running()) {
        let passed = running.describe(handle);
        let broken = format!(
            "DeviceHandle of {name} is {passed}, not the DeviceHandle of DXGKRNL_INTERFACE"
        );
        judge(running.services(), rule, name, Some(broken));
    }
    door
}

/// Copies a structure of the driver. Returns `None` for null.
///
/// # Safety
///
/// `from` is null or points to a `T`, aligned or not.
pub(crate) unsafe fn read<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() {
        return None;
    }
    // SAFETY: The pointer is not null, so the caller guarantees a `T`.
    Some(unsafe { from.read_unaligned() })
}

/// As [`read`], for a structure whose length depends on the version of the driver that runs on this
/// thread. Members behind that length are those of `zero`.
///
/// # Safety
///
/// `from` is null or valid for reads of the version's length. Any bytes are a valid `T`.
pub(crate) unsafe fn read_versioned<T: Copy>(
    from: *const T,
    growth: &Growth,
    zero: T,
) -> Option<T> {
    if from.is_null() {
        return None;
    }
    let version = Door::running().map(|door| door.version());
    let length = version.map_or(growth.shortest(), |version| version.length_of(growth)) as usize;
    // SAFETY: The pointer is not null, so the caller guarantees that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) };
    // SAFETY: The caller guarantees the same.
    Some(unsafe { prefix(bytes, zero) })
}

/// Writes to a structure of the driver. Null is ignored.
///
/// # Safety
///
/// `to` is null or valid for the write of a `T`, aligned or not.
pub(crate) unsafe fn write<T: Copy>(to: *mut T, value: T) {
    if to.is_null() {
        return;
    }
    // SAFETY: The pointer is not null, so the caller guarantees room for a `T`.
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
        // SAFETY: Eight of the twelve bytes are in range.
        unsafe { write(odd, [1, 2]) };
        // SAFETY: As above.
        assert_eq!(unsafe { read(odd) }, Some([1, 2]));
    }
}
