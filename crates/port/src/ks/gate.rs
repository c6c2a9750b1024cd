//! What every `Ks*` function goes through: its object, that it was called, and its level.

use crate::ks::door::Door;
use crate::ks::object::{Object, find};
use flight::{InCall, Irql, Kind, RuleId, What, Who, pass_on};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use stream::{BagOf, FilterId, ObjectId, PinId, PointerId};

/// How high the level may be where a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ceiling {
    /// Only there.
    Passive,
    /// So high.
    Dispatch,
    /// Nothing is documented, any level will do, or a rule of its own judges it.
    Unjudged,
}

/// Answers a function: says that it was called, refuses it where the level is too high, and
/// catches a panic of ours.
pub(crate) fn called<T, R>(
    name: &'static str,
    ceiling: Ceiling,
    found: Option<(Arc<Door>, T)>,
    otherwise: R,
    body: impl FnOnce(&Arc<Door>, T) -> R,
) -> R {
    let Some((door, it)) = found else { return otherwise };
    // What the body did before a panic of ours stands; the answer is the one of a refusal.
    let answer = || {
        let services = door.services();
        services.log().emit(services.device().subject(), What::Callback { name: name.into() });
        is_low_enough(&door, name, ceiling).then(|| body(&door, it))
    };
    match catch_unwind(AssertUnwindSafe(answer)) {
        Ok(answer) => answer.unwrap_or(otherwise),
        Err(panic) => {
            drop(pass_on(panic));
            otherwise
        }
    }
}

/// Entry rule: an import is called where its page allows it.
fn is_low_enough(door: &Door, name: &'static str, ceiling: Ceiling) -> bool {
    let most = match ceiling {
        Ceiling::Passive => Irql::Passive,
        Ceiling::Dispatch => Irql::Dispatch,
        Ceiling::Unjudged => return true,
    };
    let at = door.services().host().irql();
    let broken = (at > most).then(|| {
        let needs = if most == Irql::Passive { "passive" } else { "passive or dispatch" };
        format!("{name} was called at {at} level, but needs {needs}")
    });
    let kept = broken.is_none();
    let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
    door.services().log().judge(RuleId::WT_LEVEL_001, Who::Driver, call, name, broken);
    kept
}

/// A pointer that means nothing, or something else: where a driver is running, that is named.
fn wrong(name: &'static str, rule: RuleId, wanted: &str, is: Option<Object>) {
    let Some(running) = Door::running() else { return };
    let is = match is {
        None => "means nothing",
        Some(Object::Device | Object::Functional) => "is a device",
        Some(Object::Factory(_)) => "is a filter factory",
        Some(Object::Filter(_)) => "is a filter",
        Some(Object::Pin(_)) => "is a pin",
        Some(Object::Pointer(_)) => "is a stream pointer",
        Some(Object::Bag(_)) => "is a bag",
        Some(Object::Irp(_)) => "is a request",
        Some(Object::Clock(_)) => "is a clock",
    };
    let broken = format!("{name} was called with what should be {wanted}, and {is}");
    let device = running.services().device().subject();
    running.services().log().judge(rule, Who::Driver, device, name, Some(broken));
}

macro_rules! lookups {
    ($($(#[$doc:meta])+ $name:ident $type:ty = $wanted:literal $rule:ident: $($pattern:pat => $value:expr),+;)*) => {$(
        $(#[$doc])+
        pub(crate) fn $name<T>(pointer: *mut T, name: &'static str) -> Option<(Arc<Door>, $type)> {
            let found = find(pointer.cast::<c_void>().addr());
            match found {
                $(Some((door, $pattern)) => Some((door, $value)),)+
                other => {
                    wrong(name, RuleId::$rule, $wanted, other.map(|it| it.1));
                    None
                }
            }
        }
    )*};
}

lookups! {
    /// The device that a driver means.
    device () = "a device" KS_DEV_004: Object::Device => ();
    /// The same, by its device object.
    device_object () = "a device object" KS_DEV_004: Object::Functional => ();
    /// The factory that a driver means.
    factory u32 = "a filter factory" KS_DEV_004: Object::Factory(it) => it;
    /// The filter that a driver means.
    filter FilterId = "a filter" KS_DEV_004: Object::Filter(it) => it;
    /// The pin that a driver means.
    pin PinId = "a pin" KS_PIN_004: Object::Pin(it) => it;
    /// The pin that a driver wants processed.
    pin_to_process PinId = "a pin" KS_PROC_004: Object::Pin(it) => it;
    /// The stream pointer that a driver means.
    pointer PointerId = "a stream pointer" KS_PTR_004: Object::Pointer(it) => it;
    /// The bag that a driver means.
    bag BagOf = "a bag" KS_BAG_001: Object::Bag(it) => it;
    /// The device, factory, filter or pin that a driver means.
    any Object = "a device, a filter factory, a filter or a pin" KS_DEV_004:
        it @ (Object::Device | Object::Factory(_) | Object::Filter(_) | Object::Pin(_)) => it;
    /// The filter or pin that a driver means.
    controlled Object = "a filter or a pin" KS_DEV_004:
        it @ (Object::Filter(_) | Object::Pin(_)) => it;
    /// The request that a driver completes.
    request Option<ObjectId> = "a request" KS_PIN_002: Object::Irp(it) => it;
}
