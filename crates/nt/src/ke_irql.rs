//! The IRQL functions under their Windows names.
//!
//! They act for the driver that is running on this thread. Without a running driver they do
//! nothing.
#![expect(non_snake_case, reason = "Windows's names")]

use crate::import_table::import_rows;
use crate::processor::{number, set_number};

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

/// The driver's IRQL.
pub extern "win64-unwind" fn KeGetCurrentIrql() -> KIRQL {
    number("KeGetCurrentIrql")
}

/// Raises the IRQL; returns the previous one.
pub extern "win64-unwind" fn KfRaiseIrql(new: KIRQL) -> KIRQL {
    set_number("KfRaiseIrql", new)
}

/// Raises the IRQL to `DISPATCH_LEVEL`; returns the previous one.
pub extern "win64-unwind" fn KeRaiseIrqlToDpcLevel() -> KIRQL {
    set_number("KeRaiseIrqlToDpcLevel", DISPATCH_LEVEL)
}

/// Lowers the IRQL.
pub extern "win64-unwind" fn KeLowerIrql(new: KIRQL) {
    set_number("KeLowerIrql", new);
}

/// Lowers the IRQL: another name of [`KeLowerIrql`].
pub extern "win64-unwind" fn KfLowerIrql(new: KIRQL) {
    set_number("KfLowerIrql", new);
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
}
