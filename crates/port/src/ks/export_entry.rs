//! Common entry of every `Ks*` function: finds the object, logs the call, checks the IRQL.

use crate::ks::door::Door;
use crate::ks::object::{Object, find};
use flight::{
    CallGuard, Component, EventKind, ExecutionContext, Irql, Kind, RuleId, RunningCall,
    resume_internal_error,
};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use stream::{BagOwner, FilterId, ObjectId, PinId, PointerId};

/// The highest IRQL at which a function may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaxIrql {
    /// Passive level.
    Passive,
    /// Dispatch level.
    Dispatch,
    /// Undocumented, any level, or judged by a specific rule.
    Unjudged,
}

/// Runs a function: logs the call, fails if the IRQL is too high, and catches a panic of our code.
pub(crate) fn export<T, R>(
    name: &'static str,
    max_irql: MaxIrql,
    found: Option<(Arc<Door>, T)>,
    otherwise: R,
    body: impl FnOnce(&Arc<Door>, T) -> R,
) -> R {
    let Some((door, it)) = found else { return otherwise };
    // The effects before a panic of our code stand; the result is that of a failure.
    let answer = || {
        let services = door.services();
        services
            .log()
            .emit(services.device().subject(), || EventKind::Callback { name: name.into() });
        services.log().note_call(Component::Driver, || RunningCall::describe(name));
        judge_irql(&door, name, max_irql).then(|| body(&door, it))
    };
    match catch_unwind(AssertUnwindSafe(answer)) {
        Ok(answer) => answer.unwrap_or(otherwise),
        Err(panic) => {
            drop(resume_internal_error(panic));
            otherwise
        }
    }
}

/// Entry rule: an import is called at a documented IRQL.
fn judge_irql(door: &Door, name: &'static str, max_irql: MaxIrql) -> bool {
    let most = match max_irql {
        MaxIrql::Passive => Irql::Passive,
        MaxIrql::Dispatch => Irql::Dispatch,
        MaxIrql::Unjudged => return true,
    };
    let at = door.services().host().irql();
    let broken = (at > most).then(|| {
        let needs = if most == Irql::Passive { "passive" } else { "passive or dispatch" };
        format!("{name} was called at {at} level, but needs {needs}")
    });
    let kept = broken.is_none();
    let call = Kind::Call.subject(CallGuard::current().map_or(0, |call| call.number));
    door.services().log().judge(RuleId::WT_LEVEL_001, Component::Driver, call, name, broken);
    kept
}

/// Reports an unknown pointer, or one to another type of object, for the driver on this thread.
fn judge_bad_pointer(name: &'static str, rule: RuleId, wanted: &str, is: Option<Object>) {
    let Some(running) = Door::running() else { return ExecutionContext::report_missing(name) };
    let is = match is {
        None => "is an unknown pointer",
        Some(Object::Device | Object::Functional) => "is a device",
        Some(Object::Factory(_)) => "is a filter factory",
        Some(Object::Filter(_)) => "is a filter",
        Some(Object::Pin(_)) => "is a pin",
        Some(Object::Pointer(_)) => "is a stream pointer",
        Some(Object::Bag(_)) => "is a bag",
        Some(Object::Irp(_)) => "is a request",
        Some(Object::Clock(_)) => "is a clock",
    };
    let broken = format!("the argument of {name} must be {wanted}, but {is}");
    let device = running.services().device().subject();
    running.services().log().judge(rule, Component::Driver, device, name, Some(broken));
}

macro_rules! lookups {
    ($($(#[$doc:meta])+ $name:ident $type:ty = $wanted:literal $rule:ident: $($pattern:pat => $value:expr),+;)*) => {$(
        $(#[$doc])+
        pub(crate) fn $name<T>(pointer: *mut T, name: &'static str) -> Option<(Arc<Door>, $type)> {
            let found = find(pointer.cast::<c_void>().addr());
            match found {
                $(Some((door, $pattern)) => Some((door, $value)),)+
                other => {
                    judge_bad_pointer(name, RuleId::$rule, $wanted, other.map(|it| it.1));
                    None
                }
            }
        }
    )*};
}

lookups! {
    /// The device of a pointer.
    device () = "a device" KS_DEV_004: Object::Device => ();
    /// The device of a device object.
    device_object () = "a device object" KS_DEV_004: Object::Functional => ();
    /// The factory of a pointer.
    factory u32 = "a filter factory" KS_DEV_004: Object::Factory(it) => it;
    /// The filter of a pointer.
    filter FilterId = "a filter" KS_DEV_004: Object::Filter(it) => it;
    /// The pin of a pointer.
    pin PinId = "a pin" KS_PIN_004: Object::Pin(it) => it;
    /// The pin of a pointer, for processing.
    pin_to_process PinId = "a pin" KS_PROC_004: Object::Pin(it) => it;
    /// The stream pointer of a pointer.
    pointer PointerId = "a stream pointer" KS_PTR_004: Object::Pointer(it) => it;
    /// The bag of a handle.
    bag BagOwner = "a bag" KS_BAG_001: Object::Bag(it) => it;
    /// The device, factory, filter or pin of a pointer.
    any Object = "a device, a filter factory, a filter or a pin" KS_DEV_004:
        it @ (Object::Device | Object::Factory(_) | Object::Filter(_) | Object::Pin(_)) => it;
    /// The filter or pin of a pointer.
    controlled Object = "a filter or a pin" KS_DEV_004:
        it @ (Object::Filter(_) | Object::Pin(_)) => it;
    /// The request that a driver completes.
    request Option<ObjectId> = "a request" KS_PIN_002: Object::Irp(it) => it;
}
