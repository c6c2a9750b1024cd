//! Named traps: what the slots of `DXGKRNL_INTERFACE` hold that nothing serves yet.
//!
//! A driver that calls one is told that it is not supported, and the log says which one it was:
//! so the next thing to build is known.

use crate::callbacks::called;
use crate::door::Door;
use abi::NTSTATUS;
use abi::miniport::DXGKRNL_INTERFACE;
use abi::status::{STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use flight::What;

/// Slots that answer a handle and no status: nothing is zero there.
const ANSWER_NOTHING: [&str; 2] = ["DxgkCbGetHandleParent", "DxgkCbEnumHandleChildren"];

/// The number of a slot. A name that is not there does not compile, for all uses are constant.
pub(crate) const fn slot(name: &str) -> usize {
    let mut at = 0;
    while at < DXGKRNL_INTERFACE::SLOTS.len() {
        if same(DXGKRNL_INTERFACE::SLOTS[at], name) {
            return at;
        }
        at += 1;
    }
    panic!("no such slot")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// What slot `SLOT` holds. Its arguments are not looked at: not every one begins with a
/// handle, and the caller cleans the stack. So its door is the one whose driver is running.
pub(crate) extern "win64-unwind" fn absent<const SLOT: usize>() -> NTSTATUS {
    let name = DXGKRNL_INTERFACE::SLOTS[SLOT];
    let otherwise = otherwise(name);
    called(Door::running, name, otherwise, |services| {
        services.log().emit(services.adapter(), What::Absent { name: name.into() });
        otherwise
    })
}

fn otherwise(name: &str) -> NTSTATUS {
    if ANSWER_NOTHING.contains(&name) { STATUS_SUCCESS } else { STATUS_NOT_SUPPORTED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_found_by_its_whole_name() {
        for (at, name) in DXGKRNL_INTERFACE::SLOTS.iter().enumerate() {
            assert_eq!(slot(name), at);
        }
    }

    #[test]
    fn outside_a_driver_it_only_refuses() {
        assert_eq!(absent::<{ slot("DxgkCbMapMemory") }>(), STATUS_NOT_SUPPORTED);
        assert_eq!(absent::<{ slot("DxgkCbGetHandleParent") }>(), 0, "a handle");
    }

    #[test]
    fn what_answers_nothing_is_a_slot() {
        assert!(ANSWER_NOTHING.iter().all(|it| DXGKRNL_INTERFACE::SLOTS.contains(it)));
    }
}
