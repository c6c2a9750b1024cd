//! The IRQL functions under their Windows names.
//!
//! They act for the driver that is running on this thread. Without a running driver they do
//! nothing.
#![expect(non_snake_case, reason = "Windows's names")]

use crate::import_table::import_rows;
use crate::processor::{number, set_number};
use crate::waits::log_misuse;

import_rows! {
    KeGetCurrentIrql;
    KeLowerIrql lacks "not below the IRQL at which the driver was entered";
    KeRaiseIrqlToDpcLevel;
    KfLowerIrql lacks "not below the IRQL at which the driver was entered";
    KfRaiseIrql;
}

/// An interrupt request level (IRQL) as a Windows number.
pub type KIRQL = u8;

/// `PASSIVE_LEVEL`.
pub const PASSIVE_LEVEL: KIRQL = 0;
/// `APC_LEVEL`.
pub const APC_LEVEL: KIRQL = 1;
/// `DISPATCH_LEVEL`.
pub const DISPATCH_LEVEL: KIRQL = 2;
/// The IRQL of all device interrupts here. WINDOWS: every interrupt line has its own, from 3 up
/// (documented).
pub const DEVICE_LEVEL: KIRQL = 5;

/// Raises the IRQL. A new one that is lower is logged: WINDOWS: documented, bug check 0x9.
fn raise(import: &'static str, new: KIRQL) -> KIRQL {
    let before = set_number(import, new);
    if before > new {
        log_misuse(import, &format!("to IRQL {new} from the higher IRQL {before}"));
    }
    before
}

/// Lowers the IRQL. A new one that is higher is logged: WINDOWS: documented, bug check 0xA.
fn lower(import: &'static str, new: KIRQL) {
    let before = set_number(import, new);
    if before < new {
        log_misuse(import, &format!("to IRQL {new} from the lower IRQL {before}"));
    }
}

/// The driver's IRQL.
pub extern "win64-unwind" fn KeGetCurrentIrql() -> KIRQL {
    number("KeGetCurrentIrql")
}

/// Raises the IRQL; returns the previous one.
pub extern "win64-unwind" fn KfRaiseIrql(new: KIRQL) -> KIRQL {
    raise("KfRaiseIrql", new)
}

/// Raises the IRQL to `DISPATCH_LEVEL`; returns the previous one.
pub extern "win64-unwind" fn KeRaiseIrqlToDpcLevel() -> KIRQL {
    raise("KeRaiseIrqlToDpcLevel", DISPATCH_LEVEL)
}

/// Lowers the IRQL.
pub extern "win64-unwind" fn KeLowerIrql(new: KIRQL) {
    lower("KeLowerIrql", new);
}

/// Lowers the IRQL: another name of [`KeLowerIrql`].
pub extern "win64-unwind" fn KfLowerIrql(new: KIRQL) {
    lower("KfLowerIrql", new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::{irql_number, set_irql_number};
    use crate::testing::fly_driver;
    use flight::Irql;

    #[test]
    fn levels_have_windowss_numbers() {
        let left = fly_driver(|host| {
            assert_eq!((KeRaiseIrqlToDpcLevel(), KeGetCurrentIrql()), (0, 2));
            assert_eq!((KfRaiseIrql(DEVICE_LEVEL), KeGetCurrentIrql()), (2, 5));
            assert_eq!((KfRaiseIrql(12), KeGetCurrentIrql()), (5, 12));
            assert_eq!(host.irql(), Irql::Device);
            KeLowerIrql(APC_LEVEL);
            assert_eq!((KeGetCurrentIrql(), host.irql()), (1, Irql::Passive));
            assert_eq!((set_irql_number(2), irql_number()), (1, 2));
            KfLowerIrql(PASSIVE_LEVEL);
        });
        assert_eq!((left.level, left.locks), (Irql::Passive, 0));
    }

    #[test]
    fn a_raise_that_lowers_and_a_lowering_that_raises_are_logged() {
        crate::testing::fly_with(0, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                KfRaiseIrql(12);
                assert_eq!((KeRaiseIrqlToDpcLevel(), KeGetCurrentIrql()), (12, 2));
                KeLowerIrql(3);
                KeLowerIrql(0);
                KfRaiseIrql(0);
            });
            assert_eq!(crate::testing::misuses(log).len(), 2);
        });
    }
}
