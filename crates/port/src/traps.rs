//! Named traps: the slots of `DXGKRNL_INTERFACE` that are not implemented.
//!
//! A driver that calls a trap gets "not supported", and the log names the callback, so that the
//! next callback to implement is known.

use crate::callback_entry::{AnyLevel, CallbackLevel, CallbackRow};
use crate::door::Door;
use abi::NTSTATUS;
use abi::miniport::DXGKRNL_INTERFACE;
use abi::status::STATUS_NOT_SUPPORTED;
use flight::{EventKind, RuleId};
use nt::DeviceRequest;
use std::marker::PhantomData;

/// The index of a slot. An unknown name does not compile, because all uses are constant.
pub(crate) const fn slot_index(name: &str) -> usize {
    let mut at = 0;
    while at < DXGKRNL_INTERFACE::SLOTS.len() {
        if same(DXGKRNL_INTERFACE::SLOTS[at], name) {
            return at;
        }
        at += 1;
    }
    panic!("unknown slot")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The trap in slot `SLOT`. It ignores its arguments: not every callback begins with a handle, and
/// the caller cleans the stack. So its door is the one whose driver runs on this thread.
pub(crate) extern "win64-unwind" fn missing_callback<const SLOT: usize, L: CallbackLevel>()
-> NTSTATUS {
    let name = DXGKRNL_INTERFACE::SLOTS[SLOT];
    let rule = Some(RuleId::CB_IRQL_001).filter(|_| L::NEEDS != AnyLevel::NEEDS);
    let row = CallbackRow::<L> { name, rule, from_interrupt: false, level: PhantomData };
    row.enter(Door::running, STATUS_NOT_SUPPORTED, |door| {
        let services = door.services();
        row.callback_at_level(services, (), |_| ()); // The level is judged all the same.
        DeviceRequest::Callback(name).record();
        services.log().emit(services.adapter(), || EventKind::EntryMissing { name: name.into() });
        STATUS_NOT_SUPPORTED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_found_by_its_whole_name() {
        for (at, name) in DXGKRNL_INTERFACE::SLOTS.iter().enumerate() {
            assert_eq!(slot_index(name), at);
        }
    }

    #[test]
    fn outside_a_driver_it_only_refuses() {
        assert_eq!(
            missing_callback::<{ slot_index("DxgkCbEvalAcpiMethod") }, AnyLevel>(),
            STATUS_NOT_SUPPORTED
        );
    }
}
