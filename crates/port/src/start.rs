//! The life of an adapter in its driver: met, started, stopped, forgotten; and its interrupts.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::device_memory::end_mappings;
use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::interface::interface;
use crate::private::pointer;
use crate::status::answer;
use abi::display::{DXGK_INTERRUPT_CRTC_VSYNC, DXGK_INTERRUPT_DMA_COMPLETED};
use abi::miniport::DXGK_START_INFO;
use abi::{GUID, LUID};
use flight::What;
use kernel::miniport::{Answer, Interrupt, Refusal};
use kernel::services::Services;
use std::ptr;
use std::sync::Arc;

/// How deep we say a node's queue is. Our choice: two, so that one waits while one runs.
const DMA_QUEUE: u32 = 2;

/// The name of our adapters; the last bytes are the adapter's number.
const ADAPTER: GUID = GUID {
    Data1: 0x5749_4e44,
    Data2: 0x5455,
    Data3: 0x4e4e,
    Data4: [0x45, 0x4c, 0, 0, 0, 0, 0, 0],
};

/// The two halves of the adapter's id.
fn luid(number: u64) -> LUID {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    LUID { LowPart: number as u32, HighPart: (number >> 32) as i32 }
}

impl TableDriver {
    pub(crate) fn add(&self, services: &Arc<Services>) -> Answer<()> {
        let call = self.table.DxgkDdiAddDevice.ok_or(Refusal::Absent)?;
        let door = Door::open(services.clone(), self.physical_device, &self.hardware);
        let mut context = ptr::null_mut();

        let status = self.inside(&door, || {
            // SAFETY: By invariant 1 the function is there; `context` outlives the call, also
            // one that unwinds.
            unsafe { call(pointer(self.physical_device), &raw mut context) }
        });

        answer(status)?;
        // WINDOWS: success without a context declines the device (documented): nothing else is
        // asked of the driver about it.
        if context.is_null() {
            return Err(Refusal::Declined);
        }
        let context = context.expose_provenance();
        door.give_context(context);
        services.give_word(context);
        *self.met() = Some(Adapter { door, context, bases: Arc::default() });
        Ok(())
    }

    pub(crate) fn start(&self) -> Answer<()> {
        let call = self.table.DxgkDdiStartDevice.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let services = door.services();
        let number = services.adapter().number;
        let mut guid = ADAPTER;
        guid.Data4[4..].copy_from_slice(&number.to_be_bytes());
        let mut info = DXGK_START_INFO {
            RequiredDmaQueueEntry: DMA_QUEUE,
            AdapterGuid: guid,
            AdapterLuid: luid(services.luid()),
        };
        let mut interface =
            interface(door.handle(), self.table.Version).ok_or(Refusal::Unsupported)?;
        let (mut sources, mut children) = (0, 0);

        door.set_started(true);
        let status = self.inside(&door, || {
            let (info, interface) = (&raw mut info, &raw mut interface);
            let (sources, children) = (&raw mut sources, &raw mut children);
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; the
            // other places outlive the call, also one that unwinds.
            unsafe { call(pointer(context), info, interface, sources, children) }
        });

        answer(status).inspect_err(|_| door.set_started(false))?;
        if (sources, children) != (0, 0) {
            services.log().emit(services.adapter(), What::Absent { name: "display output".into() });
        }
        Ok(())
    }

    pub(crate) fn stop(&self) -> Answer<()> {
        let call = self.table.DxgkDdiStopDevice.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        // SAFETY: By invariants 1 and 2 the function is there and knows `context`.
        let status = self.inside(&door, || unsafe { call(pointer(context)) });
        door.set_started(false);
        end_mappings(&door);
        answer(status)
    }

    pub(crate) fn remove(&self) -> Answer<()> {
        let call = self.table.DxgkDdiRemoveDevice.ok_or(Refusal::Absent)?;
        // Whatever the driver answers, it was told, and is told nothing else of this adapter.
        let Adapter { door, context, .. } = self.met().take().ok_or(Refusal::Invalid)?;
        // SAFETY: By invariants 1 and 2 the function is there and knows `context`.
        let status = self.inside(&door, || unsafe { call(pointer(context)) });
        door.services().end_word(context);
        *self.left() = Some(door);
        answer(status)
    }

    /// There need not be anything to do.
    pub(crate) fn leave(&self) {
        let Some(call) = self.table.DxgkDdiUnload else { return };
        // A callback from here on comes too late, and is said.
        let door = self.left().take();
        // SAFETY: By invariant 1 the function is there.
        let body = || unsafe { call() };
        match door {
            Some(door) => self.inside(&door, body),
            None => self.inside_pool(body),
        }
    }

    pub(crate) fn ask_interrupt(&self) -> Answer<bool> {
        let call = self.table.DxgkDdiInterruptRoutine.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        // SAFETY: By invariants 1 and 2 the function is there and knows `context`.
        let ours = self.inside(&door, || unsafe { call(pointer(context), 0) });
        Ok(ours != 0)
    }

    pub(crate) fn run_dpc(&self) -> Answer<()> {
        let call = self.table.DxgkDdiDpcRoutine.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        // SAFETY: By invariants 1 and 2 the function is there and knows `context`.
        self.inside(&door, || unsafe { call(pointer(context)) });
        Ok(())
    }

    pub(crate) fn switch_interrupt(&self, of: Interrupt, on: bool) -> Answer<()> {
        let call = self.table.DxgkDdiControlInterrupt.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let kind = match of {
            Interrupt::Vsync => DXGK_INTERRUPT_CRTC_VSYNC,
            Interrupt::Completed => DXGK_INTERRUPT_DMA_COMPLETED,
        };
        // SAFETY: By invariants 1 and 2 the function is there and knows `context`.
        answer(self.inside(&door, || unsafe { call(pointer(context), kind, on.into()) }))
    }
}
