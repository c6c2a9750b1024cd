//! The state of the kernel debugger (`Kd`): there is none.
#![expect(non_snake_case, reason = "Windows's names")]

use crate::import_table::import_rows;
use abi::BOOLEAN;

import_rows! {
    static KdDebuggerEnabled = KD_DEBUGGER_ENABLED;
    static KdDebuggerNotPresent = KD_DEBUGGER_NOT_PRESENT;
    KdRefreshDebuggerNotPresent;
}

static KD_DEBUGGER_ENABLED: BOOLEAN = 0;
static KD_DEBUGGER_NOT_PRESENT: BOOLEAN = 1;

/// Updates `KdDebuggerNotPresent`. Returns TRUE: no debugger is present.
pub extern "win64-unwind" fn KdRefreshDebuggerNotPresent() -> BOOLEAN {
    KD_DEBUGGER_NOT_PRESENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_import;

    #[test]
    fn a_driver_reads_the_variables_through_its_imports() {
        let address = |name| find_import(name).map(|import| import.address);
        assert_eq!(address("KdDebuggerEnabled"), Some((&raw const KD_DEBUGGER_ENABLED).cast()));
        let absent = address("KdDebuggerNotPresent");
        assert_eq!(absent, Some((&raw const KD_DEBUGGER_NOT_PRESENT).cast()));
        assert_eq!((KD_DEBUGGER_ENABLED, KdRefreshDebuggerNotPresent()), (0, 1));
    }
}
