//! Escapes: a client's private data, as a driver with a table sees it.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::private::{Private, pointer};
use crate::status::answer;
use abi::display::DXGKARG_ESCAPE;
use abi::ukm::D3DDDI_ESCAPEFLAGS;
use flight::{RuleId, Who};
use kernel::miniport::{Answer, DriverContext, DriverDevice, Escape, Refusal};
use std::sync::Arc;

impl TableDriver {
    pub(crate) fn answer_escape(&self, escape: &mut Escape<'_>) -> Answer<()> {
        let call = self.table.DxgkDdiEscape.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.told()?;
        let mut private = Private::copy(escape.private)?;
        let args = DXGKARG_ESCAPE {
            hDevice: pointer(escape.device.map_or(0, DriverDevice::word)),
            Flags: D3DDDI_ESCAPEFLAGS { Value: escape.flags },
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            hContext: pointer(escape.context.map_or(0, DriverContext::word)),
            // WINDOWS: `hKmdProcessHandle` can be NULL (documented), and always is here: no
            // process was made known to the driver. It lies behind what a driver built for 2.0
            // reads, so passing it takes nothing from one.
            ..DXGKARG_ESCAPE::ZERO
        };

        let checks = Checks(door.clone());
        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // and `private` outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw const args) }
        });
        drop(checks);

        answer(status)?;
        *escape.private = private.bytes();
        Ok(())
    }
}

/// Entry rule, judged when the call is over: a driver lives with `hKmdProcessHandle` NULL.
///
/// What it crashed of cannot be seen, so a crash in an escape that came without a process is
/// taken for that one. A fault that is no unwinding ends the run before it can be said.
struct Checks(Arc<Door>);

impl Drop for Checks {
    fn drop(&mut self) {
        let broken = std::thread::panicking().then(|| {
            "the driver crashed in an escape whose hKmdProcessHandle is NULL: that can be, and is \
             to be checked"
                .to_owned()
        });
        let (services, rule) = (self.0.services(), RuleId::DEV_LIFE_012);
        let place = "DxgkDdiEscape.hKmdProcessHandle";
        services.log().judge(rule, Who::Driver, services.adapter(), place, broken);
    }
}
