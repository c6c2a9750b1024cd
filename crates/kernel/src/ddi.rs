//! The funnel: the only place that calls a display miniport driver.
//!
//! Rust drivers and drivers with a C table use the same code path. The row of a DDI (`table.rs`)
//! sets the IRQL, the permit and the legal results of the call. The caller lends the permit, and no
//! lock is held during the call. A driver crash is a result like any other.

pub mod callbacks;
pub(crate) mod interrupt_run;
pub mod miniport;
pub mod mmu;
pub mod operation;
pub(crate) mod permit;
pub mod render_args;
mod row;
pub mod segment;
mod table;
#[cfg(test)]
mod tests;

pub use row::{Legal, Line};
pub use table::{Miniport, NAMES, REQUIRED, REQUIRED_DISPLAY_ONLY, TABLE, UNCALLED};

use crate::adapter::power::SetPowerArgs;
use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{
    CollectReason, CreateContextArgs, DestroyAllocationArgs, DriverContext, DriverDevice,
    DriverProcess, DriverResource, DriverResult, EscapeArgs, Generation, HandleSlot,
    SubmitCommandVirtualArgs,
};
use crate::ddi::mmu::CreateProcessArgs;
use crate::ddi::operation::{BuildPagingBufferArgs, SubmitPagingArgs};
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::ddi::render_args::{BufferSizes, SubmitCommandArgs};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lock::Once;
use crate::memory::address::AddressSpace;
use crate::objects::handle_table::Handle;
use flight::{
    CallGuard, CallScope, Component, EventKind, Funnel, HardwareModel, Host, Kind, Level, Log,
    Passive, Pool, RuleId, Subject, WaitToken, internal_error,
};
use row::Ddi;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use table::row as ddi;

/// There is no display output, so every target is a target without a display.
const NO_TARGET: u32 = 0;

/// A driver, its hardware and its memory, as the kernel calls it.
pub(crate) struct Driver {
    pub(crate) miniport: Arc<dyn Miniport>,
    pub(crate) hardware: Arc<dyn HardwareModel>,
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) callbacks: Arc<KernelCallbacks>,
    /// Woken when the hardware may have work.
    pub(crate) work_available: WaitToken,
    pub(crate) generation: Generation,
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) adapter: Id<Adapter>,
    /// Set when the hardware is surprise-removed and the driver has been notified.
    pub(crate) surprise_removed: Once<()>,
}

/// The process of a call, and a function that logs the call's arguments inside the call.
#[derive(Clone, Copy)]
pub(crate) struct CallDetails<'a> {
    /// The process in which the driver's callbacks resolve handles.
    pub(crate) process: Option<Id<Process>>,
    /// Logs the arguments of the call.
    pub(crate) log_arguments: &'a dyn Fn(&Log),
}

/// Details of a call that has no arguments to log.
pub(crate) fn no_details(process: Option<Id<Process>>) -> CallDetails<'static> {
    CallDetails { process, log_arguments: &|_| () }
}

impl Driver {
    pub(crate) fn add_device(&self, at: &mut Passive, permit: &DdiPermit<'_>) -> DriverResult<()> {
        let callbacks = &self.callbacks;
        self.call(&ddi::DxgkDdiAddDevice, at, permit, no_details(None), |driver, at| {
            driver.add_device(at, callbacks)
        })
    }

    pub(crate) fn start_device(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
    ) -> DriverResult<()> {
        self.pool.adapter_started();
        self.call(&ddi::DxgkDdiStartDevice, at, permit, no_details(None), |driver, at| {
            driver.start_device(at)
        })
    }

    pub(crate) fn stop_device(&self, at: &mut Passive, permit: &DdiPermit<'_>) -> DriverResult<()> {
        self.call(&ddi::DxgkDdiStopDevice, at, permit, no_details(None), |driver, at| {
            let result = driver.stop_device(at);
            self.pool.adapter_stopped();
            result
        })
    }

    /// Does nothing if the driver has no entry point. Surprise-removed hardware has no power.
    pub(crate) fn set_power_state(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        args: SetPowerArgs,
    ) {
        if self.implements(ddi::DxgkDdiSetPowerState.name) && self.surprise_removed.get().is_none()
        {
            // The result is ignored: the power changes anyway.
            let _ = self.call(
                &ddi::DxgkDdiSetPowerState,
                at,
                permit,
                no_details(None),
                |driver, at| driver.set_power_state(at, args),
            );
        }
    }

    /// From now on, a driver that touches the hardware is reported.
    pub(crate) fn notify_surprise_removal(&self, at: &mut Passive, permit: &DdiPermit<'_>) {
        if self.implements(ddi::DxgkDdiNotifySurpriseRemoval.name) {
            // The result is ignored: the hardware is removed.
            let _ = self.call(
                &ddi::DxgkDdiNotifySurpriseRemoval,
                at,
                permit,
                no_details(None),
                |driver, at| driver.notify_surprise_removal(at),
            );
        }
        let _ = self.surprise_removed.set(()); // A second notification changes nothing.
    }

    /// Returns whether the driver stopped the adapter in this call.
    pub(crate) fn stop_device_and_release_post_display_ownership(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
    ) -> bool {
        self.implements(ddi::DxgkDdiStopDeviceAndReleasePostDisplayOwnership.name)
            && self
                .call(
                    &ddi::DxgkDdiStopDeviceAndReleasePostDisplayOwnership,
                    at,
                    permit,
                    no_details(None),
                    |driver, at| {
                        driver
                            .stop_device_and_release_post_display_ownership(at, NO_TARGET)
                            .inspect(|()| self.pool.adapter_stopped())
                    },
                )
                .is_ok()
    }

    /// Needs no permit: it can be called at any time.
    pub(crate) fn reset_device(&self, at: &mut Passive) {
        if self.implements(ddi::DxgkDdiResetDevice.name) {
            // The call has no result.
            let _ = self.call_without_permit(&ddi::DxgkDdiResetDevice, at, |driver, at| {
                driver.reset_device(at)
            });
        }
    }

    pub(crate) fn implements(&self, name: &str) -> bool {
        self.miniport.entry_points().contains(&name)
    }

    pub(crate) fn create_device(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        (process, name): (Option<Id<Process>>, Handle),
    ) -> DriverResult<DriverDevice> {
        let driver_handle: HandleSlot<'_, Device> = HandleSlot::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateDevice, at, permit, no_details(process), |driver, at| {
            driver.create_device(at, driver_handle)
        })
    }

    pub(crate) fn create_context(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        device: &DriverDevice,
        args: &CreateContextArgs,
    ) -> DriverResult<(DriverContext, u32)> {
        let driver_handle: HandleSlot<'_, Context> = HandleSlot::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateContext, at, permit, no_details(process), |driver, at| {
            driver.create_context(at, device, args, driver_handle)
        })
    }

    pub(crate) fn create_context_with_lists(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        device: &DriverDevice,
        args: &CreateContextArgs,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        let driver_handle: HandleSlot<'_, Context> = HandleSlot::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateContext, at, permit, no_details(process), |driver, at| {
            driver.create_context_with_lists(at, device, args, driver_handle)
        })
    }

    pub(crate) fn create_process(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        args: CreateProcessArgs,
    ) -> DriverResult<DriverProcess> {
        let driver_handle: HandleSlot<'_, AddressSpace> = HandleSlot::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateProcess, at, permit, no_details(process), |driver, at| {
            driver.create_process(at, args, driver_handle)
        })
    }

    pub(crate) fn destroy_allocations(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        log_arguments: &dyn Fn(&Log),
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        // The allocation belongs to the adapter, so the call has no process.
        let details = CallDetails { process: None, log_arguments };
        self.call(&ddi::DxgkDdiDestroyAllocation, at, permit, details, |driver, at| {
            driver.destroy_allocations(at, args)
        })
    }

    /// Runs at level two if the client granted access to the hardware; the permit must match.
    pub(crate) fn escape(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        process: Id<Process>,
        escape: EscapeArgs<'_>,
    ) -> DriverResult<()> {
        let hardware = escape.hardware;
        if hardware != (permit.class() == ThreadingLevel::Two) {
            internal_error(
                "invariant broken: an escape has access to the hardware at threading level two only",
            );
        }
        let log_arguments = |log: &Log| {
            let call = Kind::Call.subject(CallGuard::current().map_or(0, |call| call.number));
            log.emit(call, || EventKind::DdiEscapes { hardware });
        };
        let details = CallDetails { process: Some(process), log_arguments: &log_arguments };
        self.call(&ddi::DxgkDdiEscape, at, permit, details, |driver, at| {
            let result = driver.escape(at, escape);
            self.judge_hardware_access(hardware);
            result
        })
    }

    /// Entry rule: below level two, a driver does not touch its hardware in an escape.
    fn judge_hardware_access(&self, hardware: bool) {
        let touched = CallGuard::current().is_some_and(|call| call.touched);
        let broken = (touched && !hardware).then(|| {
            "the driver touched its hardware in an escape without HardwareAccess: it must fail \
             requests that need threading level two"
                .to_owned()
        });
        let (rule, argument) = (RuleId::DEV_LIFE_011, ddi::DxgkDdiEscape.name);
        self.log.judge(rule, Component::Driver, self.adapter.subject(), argument, broken);
    }

    pub(crate) fn submit_command_virtual(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        process: Id<Process>,
        packet: &SubmitCommandVirtualArgs<'_>,
    ) -> DriverResult<()> {
        self.call(
            &ddi::DxgkDdiSubmitCommandVirtual,
            at,
            permit,
            no_details(Some(process)),
            |driver, at| {
                self.with_submit_judged(ddi::DxgkDdiSubmitCommandVirtual.name, || {
                    driver.submit_command_virtual(at, packet)
                })
            },
        )
    }

    pub(crate) fn submit_command(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        process: Id<Process>,
        packet: &SubmitCommandArgs<'_>,
    ) -> DriverResult<()> {
        self.call(
            &ddi::DxgkDdiSubmitCommand,
            at,
            permit,
            no_details(Some(process)),
            |driver, at| {
                self.with_submit_judged(ddi::DxgkDdiSubmitCommand.name, || {
                    driver.submit_command(at, packet)
                })
            },
        )
    }

    /// Called between a reset and the restart. Also returns whether the hardware was touched.
    pub(crate) fn build_after_reset(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        details: CallDetails<'_>,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> (DriverResult<()>, bool) {
        let mut touched = false;
        let result =
            self.call(&ddi::DxgkDdiBuildPagingBuffer, at, permit, details, |driver, at| {
                let result = driver.build_paging_buffer(at, args);
                touched = CallGuard::current().is_some_and(|call| call.touched);
                result
            });
        (result, touched)
    }

    pub(crate) fn submit_paging(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        packet: &SubmitPagingArgs<'_>,
    ) -> DriverResult<()> {
        let log_arguments = |log: &Log| {
            let call = Kind::Call.subject(CallGuard::current().map_or(0, |call| call.number));
            log.emit(call, || EventKind::DdiPages { context: None });
        };
        let details = CallDetails { process: None, log_arguments: &log_arguments };
        self.call(&ddi::DxgkDdiSubmitCommand, at, permit, details, |driver, at| {
            self.with_submit_judged(ddi::DxgkDdiSubmitCommand.name, || {
                driver.submit_paging(at, packet)
            })
        })
    }

    /// Entry rule: work is submitted at dispatch level, where a driver does not wait and does not
    /// call passive-level functions. Those functions record the violation when they are called.
    fn with_submit_judged<T>(&self, name: &'static str, body: impl FnOnce() -> T) -> T {
        CallGuard::submit();
        let result = body();
        let misused = CallGuard::current().and_then(|call| call.misused);
        let broken = misused.map(|text| {
            format!(
                "the driver called {text} in {name}, which runs at dispatch, but it is for passive"
            )
        });
        self.log.judge(
            RuleId::KMD_SUBMIT_006,
            Component::Driver,
            self.adapter.subject(),
            name,
            broken,
        );
        result
    }

    /// Needs no permit: it may be called at any time.
    pub(crate) fn collect_dbg_info(
        &self,
        at: &mut Passive,
        reason: CollectReason,
        into: &mut [u8],
    ) -> DriverResult<usize> {
        self.call_without_permit(&ddi::DxgkDdiCollectDbgInfo, at, |driver, at| {
            driver.collect_dbg_info(at, reason, into)
        })
    }

    /// Needs no permit: an interrupt is not synchronized with other calls.
    pub(crate) fn interrupt_routine(&self, at: &mut Passive) -> DriverResult<bool> {
        self.call_without_permit(&ddi::DxgkDdiInterruptRoutine, at, |driver, at| {
            self.run_interrupt(|| driver.interrupt_routine(at))
        })
    }

    /// Needs no permit: a DPC is not synchronized with other calls.
    pub(crate) fn dpc_routine(&self, at: &mut Passive, kernel: &Kernel) -> DriverResult<()> {
        self.call_without_permit(&ddi::DxgkDdiDpcRoutine, at, |driver, at| {
            self.run_dpc(kernel, || driver.dpc_routine(at))
        })
    }

    /// Calls the driver at the row's IRQL, under a permit that serves the row.
    #[inline]
    fn call<L: Level, T>(
        &self,
        row: &Ddi<L>,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        details: CallDetails<'_>,
        body: impl FnOnce(&dyn Miniport, &mut L) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let class = row.class_under(permit, self.adapter);
        self.call_at(row, class, at, details, body)
    }

    /// Calls the driver without a permit. The row must have no threading level.
    #[inline]
    fn call_without_permit<L: Level, T>(
        &self,
        row: &Ddi<L>,
        at: &mut Passive,
        body: impl FnOnce(&dyn Miniport, &mut L) -> DriverResult<T>,
    ) -> DriverResult<T> {
        self.call_at(row, row.class_without_permit(), at, no_details(None), body)
    }

    #[inline]
    fn call_at<L: Level, T>(
        &self,
        row: &Ddi<L>,
        class: ThreadingLevel,
        at: &mut Passive,
        details: CallDetails<'_>,
        body: impl FnOnce(&dyn Miniport, &mut L) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let funnel = Funnel { host: &*self.host, log: &self.log, pool: Some(&*self.pool) };
        let scope = CallScope {
            name: row.name,
            process: details.process.map(Id::serial),
            scheduler: class == ThreadingLevel::OneScheduler,
            exclusive: class.is_exclusive(),
        };
        let before = |call| {
            if self.log.is_enabled() {
                self.log.emit(call, || EventKind::DdiCall {
                    name: row.name.into(),
                    level: L::IRQL,
                    threading_level: class.name().into(),
                    adapter: self.adapter.subject(),
                    process: details.process.map(Id::subject),
                });
                (details.log_arguments)(&self.log);
            }
            Ok::<(), Infallible>(())
        };
        let after = |call: Subject, result: &DriverResult<T>| {
            if self.surprise_removed.get().is_some() {
                self.judge_surprise_removed(row.name);
            }
            self.log.emit(call, || {
                let error = result.as_ref().err();
                EventKind::DdiReturn {
                    name: row.name.into(),
                    result: error.map_or("ok".into(), |why| why.name()),
                    legal: error.is_none_or(|why| row.legal.allows(*why)),
                }
            });
            if CallGuard::current().is_some_and(|call| call.marked) {
                self.end_call(call.number);
            }
        };
        let body = |at: &mut L| body(&*self.miniport, at);
        let Ok((result, ())) = funnel.call(at, scope, before, body, after);
        // Work that makes no progress counts, too: its timeout must be watched.
        if row.gives_work || !self.hardware.idle() {
            self.host.wake(&self.work_available);
        }
        result
    }

    /// Entry rule: a driver does not touch removed hardware.
    fn judge_surprise_removed(&self, name: &'static str) {
        let touched = CallGuard::current().is_some_and(|call| call.touched);
        let broken = touched.then(|| {
            format!(
                "{name} touched the hardware of {} after surprise removal, of which the driver \
                 was notified: only memory is left to free",
                self.adapter
            )
        });
        self.log.judge(
            RuleId::KMD_PNP_010,
            Component::Driver,
            self.adapter.subject(),
            name,
            broken,
        );
    }

    /// Handles the return of a call during which handle data was acquired.
    fn end_call(&self, number: u32) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.driver_call_returned(number);
        }
    }
}
