//! Plug and Play: adds, starts, stops and removes an adapter; and dispatches its interrupts.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::device_memory::end_mappings;
use crate::display::{Adapter, TableDriver};
use crate::dma_buffers::DmaBuffers;
use crate::door::Door;
use crate::fill::{Fill, judge_outputs};
use crate::interface::interface;
use crate::private_data::pointer;
use crate::query::judge;
use crate::shown;
use crate::status::result_from_status;
use abi::display::{
    DXGK_INTERRUPT_CRTC_VSYNC, DXGK_INTERRUPT_DISPLAYONLY_VSYNC, DXGK_INTERRUPT_DMA_COMPLETED,
};
use abi::miniport::{
    DISPLAY_ADAPTER_HW_ID, DXGK_DISPLAY_INFORMATION, DXGK_START_INFO, DxgkRemovalPnPNotify,
    PowerActionHibernate, PowerActionNone, PowerActionSleep, PowerDeviceD0, PowerDeviceD3,
};
use abi::{GUID, LUID};
use flight::{EventKind, Passive, RuleId};
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverKind, DriverResult, Interrupt};
use kernel::power::{PowerAction, PowerState, PowerTarget, SetPowerArgs};
use kernel::segment::SegmentSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The reported depth of a node's queue. Our choice: two, so that one packet waits while one runs.
const DMA_QUEUE: u32 = 2;

/// The GUID of our adapters; the last bytes are the adapter's number.
const ADAPTER: GUID = GUID {
    Data1: 0x5749_4e44,
    Data2: 0x5455,
    Data3: 0x4e4e,
    Data4: [0x45, 0x4c, 0, 0, 0, 0, 0, 0],
};

/// Entry rule: `DxgkDdiStartDevice` sets the number of sources and of children.
fn judge_counts(services: &KernelCallbacks, fill: Fill, sources: u32, children: u32) {
    let unset: Vec<&str> =
        [("NumberOfVideoPresentSources", sources), ("NumberOfChildren", children)]
            .into_iter()
            .filter_map(|(name, count)| fill.is_in(&count).then_some(name))
            .collect();
    let broken = (!unset.is_empty()).then(|| {
        let unset = unset.join(" and ");
        format!("DxgkDdiStartDevice succeeded, but has not set {unset}: zero is a count, too")
    });
    judge(services, RuleId::KMD_PNP_004, "DxgkDdiStartDevice", broken);
}

/// The adapter's LUID.
fn luid(number: u64) -> LUID {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
    LUID { LowPart: number as u32, HighPart: (number >> 32) as i32 }
}

impl TableDriver {
    pub(crate) fn call_add_device(&self, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        let call = self.table.DxgkDdiAddDevice.ok_or(DriverError::NoEntryPoint)?;
        let ram = self.hardware.ram.clone().filter(|_| self.from_memory.load(Ordering::SeqCst));
        let (version, device, buffers) = (self.version, self.physical_device, DmaBuffers::new(ram));
        let door = Door::open(version, services.clone(), device, &self.hardware, buffers);
        let fill = door.next_fill();
        let mut context = fill.value();

        let (status, got) = self.count_things(|| {
            self.run_driver(&door, || {
                shown::in_out(&mut context, |context| {
                    // SAFETY: By invariant 1 the function is valid; `context` outlives the call, even
                    // if it unwinds.
                    unsafe { call(pointer(self.physical_device), context) }
                })
            })
        });
        door.acquired().add = got;

        result_from_status(status)?;
        let unset = if fill.is_in(&context) { &["MiniportDeviceContext"][..] } else { &[] };
        if !judge_outputs(&door, "DxgkDdiAddDevice", unset) {
            return Err(DriverError::Declined);
        }
        // WINDOWS: success without a context declines the device (documented): the driver is not
        // called for it again.
        if context.is_null() {
            return Err(DriverError::Declined);
        }
        let context = context.expose_provenance();
        door.set_context(context);
        services.set_driver_handle(context);
        *self.adapter_slot() = Some(Adapter {
            door,
            context,
            bases: Arc::default(),
            apertures: SegmentSet::default(),
            tables: Arc::default(),
        });
        Ok(())
    }

    pub(crate) fn call_start_device(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiStartDevice.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let services = door.services();
        let number = services.adapter().number;
        let mut guid = ADAPTER;
        guid.Data4[4..].copy_from_slice(&number.to_be_bytes());
        let mut info = DXGK_START_INFO {
            RequiredDmaQueueEntry: DMA_QUEUE,
            AdapterGuid: guid,
            AdapterLuid: luid(services.luid()),
        };
        let mut interface = interface(door.handle(), self.version);
        let fill = door.next_fill();
        let (mut sources, mut children) = (fill.value(), fill.value());

        door.set_started(true);
        let body = || {
            shown::in_out(&mut info, |info| {
                shown::in_out(&mut interface, |interface| {
                    shown::in_out(&mut sources, |sources| {
                        shown::in_out(&mut children, |children| {
                            // SAFETY: By invariants 1 and 2 the function and `context` are valid;
                            // the other arguments outlive the call, even if it unwinds.
                            unsafe { call(pointer(context), info, interface, sources, children) }
                        })
                    })
                })
            })
        };
        let (status, got) = self.count_things(|| self.run_driver(&door, body));
        door.acquired().start = Some(got);

        result_from_status(status).inspect_err(|_| door.set_started(false))?;
        judge_counts(services, fill, sources, children);
        let counted = |number: u32| number != 0 && !fill.is_in(&number);
        self.children.store(if counted(children) { children } else { 0 }, Ordering::SeqCst);
        if self.kind() == DriverKind::DisplayOnly {
            return Ok(());
        }
        let missing = counted(sources) && self.table.DxgkDdiControlInterrupt.is_none();
        let broken = missing.then(|| {
            format!(
                "NumberOfVideoPresentSources is {sources}, and the driver has no \
                 DxgkDdiControlInterrupt"
            )
        });
        judge(services, RuleId::WT_ENTRY_001, "DxgkInitialize", broken);
        if counted(sources) || counted(children) {
            services.log().emit(services.adapter(), || EventKind::EntryMissing {
                name: "display output".into(),
            });
        }
        Ok(())
    }

    pub(crate) fn call_stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        let call = self.table.DxgkDdiStopDevice.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        let status = self.run_driver(&door, || unsafe { call(pointer(context)) });
        door.set_started(false);
        end_mappings(&door, "DxgkDdiStopDevice");
        self.judge_stop(at, &door, "DxgkDdiStopDevice");
        result_from_status(status)
    }

    pub(crate) fn call_stop_and_release_post_display(
        &self,
        at: &mut Passive,
        target: u32,
    ) -> DriverResult<()> {
        const NAME: &str = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership";
        let call = self.table.DxgkDdiStopDeviceAndReleasePostDisplayOwnership;
        let call = call.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let mut display = DXGK_DISPLAY_INFORMATION::ZERO;
        let status = self.run_driver(&door, || {
            shown::in_out(&mut display, |display| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `display`
                // outlives the call, even if it unwinds.
                unsafe { call(pointer(context), target, display) }
            })
        });
        result_from_status(status)?;
        door.set_started(false);
        end_mappings(&door, NAME);
        self.judge_stop(at, &door, NAME);
        Ok(())
    }

    pub(crate) fn call_set_power_state(&self, power_args: SetPowerArgs) -> DriverResult<()> {
        let call = self.table.DxgkDdiSetPowerState.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let of = match power_args.of {
            PowerTarget::Adapter => DISPLAY_ADAPTER_HW_ID,
            PowerTarget::Child(it) => it,
        };
        let state = match power_args.state {
            PowerState::D0 => PowerDeviceD0,
            PowerState::D3 => PowerDeviceD3,
        };
        let action = match power_args.action {
            PowerAction::None => PowerActionNone,
            PowerAction::Sleep => PowerActionSleep,
            PowerAction::Hibernate => PowerActionHibernate,
        };
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        let status =
            self.run_driver(&door, || unsafe { call(pointer(context), of, state, action) });
        result_from_status(status)
    }

    pub(crate) fn call_notify_surprise_removal(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiNotifySurpriseRemoval.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        door.hardware().surprise_remove();
        let live = DxgkRemovalPnPNotify;
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        let status = self.run_driver(&door, || unsafe { call(pointer(context), live) });
        result_from_status(status)
    }

    pub(crate) fn call_reset_device(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiResetDevice.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        self.run_driver(&door, || unsafe { call(pointer(context)) });
        Ok(())
    }

    pub(crate) fn call_remove_device(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiRemoveDevice.ok_or(DriverError::NoEntryPoint)?;
        // Whatever the driver returns, it is not called for this adapter again.
        let adapter = self.adapter_slot().take().ok_or(DriverError::Invalid)?;
        adapter.log_handle();
        let Adapter { door, context, .. } = adapter;
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        let status = self.run_driver(&door, || unsafe { call(pointer(context)) });
        self.judge_removal(&door);
        door.services().end_driver_handle(context);
        *self.removed_door() = Some(door);
        result_from_status(status)
    }

    /// Calls `DxgkDdiUnload`, if the driver has it.
    pub(crate) fn call_unload(&self) {
        let Some(call) = self.table.DxgkDdiUnload else { return };
        // A later callback is too late, and is reported.
        let door = self.removed_door().take();
        // SAFETY: By invariant 1 the function is valid.
        let body = || unsafe { call() };
        match door {
            Some(door) => self.run_driver(&door, body),
            None => self.run_in_pool(body),
        }
    }

    pub(crate) fn call_interrupt_routine(&self) -> DriverResult<bool> {
        let call = self.table.DxgkDdiInterruptRoutine.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        let routine = || self.run_driver(&door, || unsafe { call(pointer(context), 0) });
        let ours = door.with_interrupt_held(routine);
        Ok(ours != 0)
    }

    pub(crate) fn call_dpc_routine(&self) -> DriverResult<()> {
        let call = self.table.DxgkDdiDpcRoutine.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        let ((), left) = self.run_to_exit(&door, || unsafe { call(pointer(context)) });
        nt::judge_dpc(door.services().log(), "DxgkDdiDpcRoutine", &left);
        Ok(())
    }

    pub(crate) fn call_control_interrupt(&self, of: Interrupt, on: bool) -> DriverResult<()> {
        let call = self.table.DxgkDdiControlInterrupt.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let kind = match of {
            // WINDOWS: a type of its own (observed), although the page names the other one only.
            Interrupt::Vsync if self.kind() == DriverKind::DisplayOnly => {
                DXGK_INTERRUPT_DISPLAYONLY_VSYNC
            }
            Interrupt::Vsync => DXGK_INTERRUPT_CRTC_VSYNC,
            Interrupt::Completed => DXGK_INTERRUPT_DMA_COMPLETED,
        };
        // SAFETY: By invariants 1 and 2 the function and `context` are valid.
        result_from_status(
            self.run_driver(&door, || unsafe { call(pointer(context), kind, on.into()) }),
        )
    }
}
