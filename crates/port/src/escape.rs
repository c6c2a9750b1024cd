//! Escapes: passes a client's private data to a driver with a table.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::private_data::{PrivateData, pointer};
use crate::shown::{self, judge_private_data};
use crate::status::result_from_status;
use abi::display::DXGKARG_ESCAPE;
use abi::ukm::D3DDDI_ESCAPEFLAGS;
use flight::{Component, RuleId};
use kernel::miniport::{DriverContext, DriverDevice, DriverError, DriverResult, EscapeArgs};
use std::sync::Arc;

impl TableDriver {
    pub(crate) fn call_escape(&self, escape: &mut EscapeArgs<'_>) -> DriverResult<()> {
        let call = self.table.DxgkDdiEscape.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let mut private = PrivateData::copy(escape.private)?;
        let args = DXGKARG_ESCAPE {
            hDevice: pointer(escape.device.map_or(0, DriverDevice::as_raw)),
            Flags: D3DDDI_ESCAPEFLAGS { Value: escape.flags },
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            hContext: pointer(escape.context.map_or(0, DriverContext::as_raw)),
            // WINDOWS: `hKmdProcessHandle` can be NULL (documented), and always is here: no process
            // was created in the driver. The member lies behind what a driver built for 2.0 reads,
            // so passing it is harmless.
            ..DXGKARG_ESCAPE::ZERO
        };

        let checks = EscapeChecks(door.clone());
        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // `private` outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });
        drop(checks);

        judge_private_data(&door, &private);
        result_from_status(status)?;
        *escape.private = private.bytes();
        Ok(())
    }
}

/// Entry rule, judged after the call: a driver accepts a NULL `hKmdProcessHandle`.
///
/// The cause of a crash is unknown, so a crash in an escape without a process is attributed to this
/// rule. A fault that does not unwind ends the run before it can be reported.
struct EscapeChecks(Arc<Door>);

impl Drop for EscapeChecks {
    fn drop(&mut self) {
        let broken = std::thread::panicking().then(|| {
            "the driver crashed in an escape whose hKmdProcessHandle is NULL: that is valid, and \
             must be checked"
                .to_owned()
        });
        let (services, rule) = (self.0.services(), RuleId::DEV_LIFE_012);
        let place = "DxgkDdiEscape.hKmdProcessHandle";
        services.log().judge(rule, Component::Driver, services.adapter(), place, broken);
    }
}
