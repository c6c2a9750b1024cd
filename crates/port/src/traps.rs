//! Named traps: what the slots of `DXGKRNL_INTERFACE` hold that nothing serves yet.
//!
//! A driver that calls one is told that it is not supported, and the log says which one it was:
//! so the next thing to build is known.

use crate::door::Door;
use crate::gate::{below, called};
use abi::NTSTATUS;
use abi::miniport::DXGKRNL_INTERFACE;
use abi::status::STATUS_NOT_SUPPORTED;
use flight::{Irql, RuleId, What};

/// How high the level may be at which each trap is called, where its page says so.
const CEILINGS: &[(Irql, &[&str])] = &[
    (
        Irql::Passive,
        &[
            "DxgkCbEvalAcpiMethod",
            "DxgkCbIsDevicePresent",
            "DxgkCbQueryServices",
            "DxgkCbQueryVidPnInterface",
            "DxgkCbQueryMonitorInterface",
            "DxgkCbAcquirePostDisplayOwnership",
            "DxgkCbSetPowerComponentActive",
        ],
    ),
    (
        Irql::Dispatch,
        &[
            "DxgkCbPowerRuntimeControlRequest",
            "DxgkCbSetPowerComponentLatency",
            "DxgkCbSetPowerComponentResidency",
            "DxgkCbCompleteFStateTransition",
            "DxgkCbHardwareContentProtectionTeardown",
        ],
    ),
];

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
    called(Door::running, name, STATUS_NOT_SUPPORTED, |services| {
        if let Some(ceiling) = ceiling(name) {
            below(services, RuleId::CB_IRQL_001, name, ceiling);
        }
        services.log().emit(services.adapter(), What::Absent { name: name.into() });
        STATUS_NOT_SUPPORTED
    })
}

fn ceiling(name: &str) -> Option<Irql> {
    CEILINGS.iter().find(|(_, names)| names.contains(&name)).map(|it| it.0)
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
        assert_eq!(absent::<{ slot("DxgkCbEvalAcpiMethod") }>(), STATUS_NOT_SUPPORTED);
    }

    #[test]
    fn what_has_a_ceiling_is_a_trap() {
        let absent = |name: &str| {
            let it = crate::CALLBACKS.iter().find(|it| it.name == name);
            it.is_some_and(|it| matches!(it.state, flight::Support::Absent(_)))
        };
        for name in CEILINGS.iter().flat_map(|it| it.1) {
            assert!(absent(name), "{name}");
        }
    }
}
