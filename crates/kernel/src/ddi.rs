//! The funnel: the only calls of a display miniport driver.
//!
//! A driver in Rust and a driver with a table go through the same lines. The row of the DDI
//! ([`table`]) says at which level, under which permit and with which answers it is called. The
//! permit is borrowed from the caller and no lock is held; a crash is an answer like any other.

mod row;
mod table;
#[cfg(test)]
mod tests;

pub use row::{Legal, Line};
pub use table::{Miniport, NAMES, REQUIRED, TABLE, UNCALLED};

use crate::context::Context;
use crate::device::Device;
use crate::gate::{Class, Pass};
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::listed::{BufferSizes, ListedSubmission};
use crate::lock::Once;
use crate::miniport::{
    Answer, Blank, CollectReason, ContextOrder, Doomed, DriverContext, DriverDevice, DriverProcess,
    DriverResource, Escape, Generation, Submission,
};
use crate::mmu::ProcessOrder;
use crate::operation::{Building, PagingSubmission};
use crate::power::PowerOrder;
use crate::process::Process;
use crate::services::Services;
use crate::space::Space;
use crate::start::Adapter;
use crate::store::Id;
use flight::{
    CallScope, Funnel, Host, InCall, Kind, Level, Log, Machine, Passive, Pool, RuleId, Subject,
    Ticket, What, Who, internal_error,
};
use row::Ddi;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use table::row as ddi;

/// There is no display output, so any target is one without a display.
const NO_TARGET: u32 = 0;

/// The DDIs that give work to the hardware.
const GIVES_WORK: [&str; 3] = [
    ddi::DxgkDdiSubmitCommandVirtual.name,
    ddi::DxgkDdiSubmitCommand.name,
    ddi::DxgkDdiPreemptCommand.name,
];

/// A driver, its hardware and its memory, as the kernel calls it.
pub(crate) struct Driver {
    pub(crate) miniport: Arc<dyn Miniport>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) services: Arc<Services>,
    /// Rung when the hardware may have something to do.
    pub(crate) bell: Ticket,
    pub(crate) generation: Generation,
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) adapter: Id<Adapter>,
    /// Its hardware was pulled out, and it was told.
    pub(crate) pulled: Once<()>,
}

/// Whom a call is for, and what it says of what it carries, inside the call.
#[derive(Clone, Copy)]
pub(crate) struct For<'a> {
    /// The process in which the driver's callbacks resolve handles.
    pub(crate) process: Option<Id<Process>>,
    /// Says what the call carries.
    pub(crate) carries: &'a dyn Fn(&Log),
}

/// A call that carries nothing worth saying.
pub(crate) fn bare(process: Option<Id<Process>>) -> For<'static> {
    For { process, carries: &|_| () }
}

impl Driver {
    pub(crate) fn add_device(&self, at: &mut Passive, permit: &Pass<'_>) -> Answer<()> {
        let services = &self.services;
        self.call(&ddi::DxgkDdiAddDevice, at, permit, bare(None), |it, at| {
            it.add_device(at, services)
        })
    }

    pub(crate) fn start_device(&self, at: &mut Passive, permit: &Pass<'_>) -> Answer<()> {
        self.pool.begin();
        self.call(&ddi::DxgkDdiStartDevice, at, permit, bare(None), |it, at| it.start_device(at))
    }

    pub(crate) fn stop_device(&self, at: &mut Passive, permit: &Pass<'_>) -> Answer<()> {
        self.call(&ddi::DxgkDdiStopDevice, at, permit, bare(None), |it, at| {
            let answer = it.stop_device(at);
            self.pool.end();
            answer
        })
    }

    /// There need not be anything to call: then nothing is to be done. Hardware that was pulled
    /// out meanwhile has no power.
    pub(crate) fn set_power(&self, at: &mut Passive, permit: &Pass<'_>, order: PowerOrder) {
        if self.offers(ddi::DxgkDdiSetPowerState.name) && self.pulled.get().is_none() {
            // What it answers changes nothing: the power goes and comes all the same.
            let _ = self.call(&ddi::DxgkDdiSetPowerState, at, permit, bare(None), |it, at| {
                it.set_power(at, order)
            });
        }
    }

    /// From here on whoever touches the hardware is named.
    pub(crate) fn pulled_out(&self, at: &mut Passive, permit: &Pass<'_>) {
        if self.offers(ddi::DxgkDdiNotifySurpriseRemoval.name) {
            // What it answers changes nothing: the hardware is gone.
            let _ =
                self.call(&ddi::DxgkDdiNotifySurpriseRemoval, at, permit, bare(None), |it, at| {
                    it.pulled_out(at)
                });
        }
        let _ = self.pulled.set(()); // Once is enough.
    }

    /// Answers whether it has stopped so.
    pub(crate) fn stop_and_release(&self, at: &mut Passive, permit: &Pass<'_>) -> bool {
        self.offers(ddi::DxgkDdiStopDeviceAndReleasePostDisplayOwnership.name)
            && self
                .call(
                    &ddi::DxgkDdiStopDeviceAndReleasePostDisplayOwnership,
                    at,
                    permit,
                    bare(None),
                    |it, at| it.stop_and_release(at, NO_TARGET).inspect(|()| self.pool.end()),
                )
                .is_ok()
    }

    /// No pass: it can come at any time.
    pub(crate) fn reset_device(&self, at: &mut Passive) {
        if self.offers(ddi::DxgkDdiResetDevice.name) {
            // It has no answer.
            let _ = self
                .call_without_permit(&ddi::DxgkDdiResetDevice, at, |it, at| it.reset_device(at));
        }
    }

    pub(crate) fn offers(&self, name: &str) -> bool {
        self.miniport.offers().contains(&name)
    }

    pub(crate) fn create_device(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
    ) -> Answer<DriverDevice> {
        let word: Blank<'_, Device> = Blank::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateDevice, at, permit, bare(process), |it, at| {
            it.create_device(at, word)
        })
    }

    pub(crate) fn create_context(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        device: &DriverDevice,
        order: &ContextOrder,
    ) -> Answer<(DriverContext, u32)> {
        let word: Blank<'_, Context> = Blank::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateContext, at, permit, bare(process), |it, at| {
            it.create_context(at, device, order, word)
        })
    }

    pub(crate) fn create_listed_context(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        device: &DriverDevice,
        order: &ContextOrder,
    ) -> Answer<(DriverContext, BufferSizes)> {
        let word: Blank<'_, Context> = Blank::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateContext, at, permit, bare(process), |it, at| {
            it.create_listed_context(at, device, order, word)
        })
    }

    pub(crate) fn create_process(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        order: ProcessOrder,
    ) -> Answer<DriverProcess> {
        let word: Blank<'_, Space> = Blank::for_object(name.0);
        self.call(&ddi::DxgkDdiCreateProcess, at, permit, bare(process), |it, at| {
            it.create_process(at, order, word)
        })
    }

    pub(crate) fn destroy_allocations(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        carries: &dyn Fn(&Log),
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        // The allocation is the adapter's, so the call is for no process.
        let whom = For { process: None, carries };
        self.call(&ddi::DxgkDdiDestroyAllocation, at, permit, whom, |it, at| {
            it.destroy_allocations(at, doomed)
        })
    }

    /// At level two if the client gave access to the hardware; the pass says so, too.
    pub(crate) fn escape(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        process: Id<Process>,
        escape: Escape<'_>,
    ) -> Answer<()> {
        let hardware = escape.hardware;
        if hardware != (permit.class() == Class::Two) {
            internal_error("an escape has access to the hardware at threading level two only");
        }
        let carries = |log: &Log| {
            let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
            log.emit(call, What::DdiEscapes { hardware });
        };
        let whom = For { process: Some(process), carries: &carries };
        self.call(&ddi::DxgkDdiEscape, at, permit, whom, |it, at| {
            let answer = it.escape(at, escape);
            self.judge_touched(hardware);
            answer
        })
    }

    /// Entry rule: without level two a driver leaves its hardware alone in an escape.
    fn judge_touched(&self, hardware: bool) {
        let touched = InCall::current().is_some_and(|it| it.touched);
        let broken = (touched && !hardware).then(|| {
            "the driver touched its hardware in an escape without HardwareAccess: it refuses what \
             needs level two"
                .to_owned()
        });
        let (rule, place) = (RuleId::DEV_LIFE_011, ddi::DxgkDdiEscape.name);
        self.log.judge(rule, Who::Driver, self.adapter.subject(), place, broken);
    }

    pub(crate) fn submit(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        process: Id<Process>,
        packet: &Submission<'_>,
    ) -> Answer<()> {
        self.call(&ddi::DxgkDdiSubmitCommandVirtual, at, permit, bare(Some(process)), |it, at| {
            self.judged_submit(ddi::DxgkDdiSubmitCommandVirtual.name, || it.submit(at, packet))
        })
    }

    pub(crate) fn submit_listed(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        process: Id<Process>,
        packet: &ListedSubmission<'_>,
    ) -> Answer<()> {
        self.call(&ddi::DxgkDdiSubmitCommand, at, permit, bare(Some(process)), |it, at| {
            self.judged_submit(ddi::DxgkDdiSubmitCommand.name, || it.submit_listed(at, packet))
        })
    }

    /// Between a reset and the restart. Answers whether the hardware was touched, too.
    pub(crate) fn build_dropped(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        whom: For<'_>,
        building: &mut Building<'_>,
    ) -> (Answer<()>, bool) {
        let mut touched = false;
        let answer = self.call(&ddi::DxgkDdiBuildPagingBuffer, at, permit, whom, |it, at| {
            let answer = it.build_paging(at, building);
            touched = InCall::current().is_some_and(|it| it.touched);
            answer
        });
        (answer, touched)
    }

    pub(crate) fn submit_paging(
        &self,
        at: &mut Passive,
        permit: &Pass<'_>,
        packet: &PagingSubmission<'_>,
    ) -> Answer<()> {
        let carries = |log: &Log| {
            let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
            log.emit(call, What::DdiPages { context: None });
        };
        let whom = For { process: None, carries: &carries };
        self.call(&ddi::DxgkDdiSubmitCommand, at, permit, whom, |it, at| {
            self.judged_submit(ddi::DxgkDdiSubmitCommand.name, || it.submit_paging(at, packet))
        })
    }

    /// Entry rule: work is given at dispatch level, where a driver does not wait and does not call
    /// what is for passive level. What it calls says so where it is called.
    fn judged_submit<T>(&self, name: &'static str, body: impl FnOnce() -> T) -> T {
        InCall::submit();
        let answer = body();
        let misused = InCall::current().and_then(|it| it.misused);
        let broken = misused.map(|it| {
            format!(
                "the driver called {it} in {name}, which runs at dispatch, but it is for passive"
            )
        });
        self.log.judge(RuleId::KMD_SUBMIT_006, Who::Driver, self.adapter.subject(), name, broken);
        answer
    }

    /// No pass: it may come at any moment.
    pub(crate) fn collect(
        &self,
        at: &mut Passive,
        reason: CollectReason,
        into: &mut [u8],
    ) -> Answer<usize> {
        self.call_without_permit(&ddi::DxgkDdiCollectDbgInfo, at, |it, at| {
            it.collect(at, reason, into)
        })
    }

    /// No pass: an interrupt asks nobody.
    pub(crate) fn interrupt(&self, at: &mut Passive) -> Answer<bool> {
        self.call_without_permit(&ddi::DxgkDdiInterruptRoutine, at, |it, at| {
            self.run_interrupt(|| it.interrupt(at))
        })
    }

    /// No pass: a DPC asks nobody.
    pub(crate) fn dpc(&self, at: &mut Passive) -> Answer<()> {
        self.call_without_permit(&ddi::DxgkDdiDpcRoutine, at, |it, at| self.run_dpc(|| it.dpc(at)))
    }

    /// Calls the driver at the level of the row, under a permit that serves the row.
    fn call<L: Level, T>(
        &self,
        row: &Ddi<L>,
        at: &mut Passive,
        permit: &Pass<'_>,
        details: For<'_>,
        body: impl FnOnce(&dyn Miniport, &mut L) -> Answer<T>,
    ) -> Answer<T> {
        let class = row.class_under(permit, self.adapter);
        self.call_at(row, class, at, details, body)
    }

    /// Calls the driver where no permit is needed: the row has no threading level.
    fn call_without_permit<L: Level, T>(
        &self,
        row: &Ddi<L>,
        at: &mut Passive,
        body: impl FnOnce(&dyn Miniport, &mut L) -> Answer<T>,
    ) -> Answer<T> {
        self.call_at(row, row.class_without_permit(), at, bare(None), body)
    }

    fn call_at<L: Level, T>(
        &self,
        row: &Ddi<L>,
        class: Class,
        at: &mut Passive,
        details: For<'_>,
        body: impl FnOnce(&dyn Miniport, &mut L) -> Answer<T>,
    ) -> Answer<T> {
        let funnel = Funnel { host: &*self.host, log: &self.log, pool: Some(&*self.pool) };
        let scope = CallScope {
            process: details.process.map(Id::serial),
            scheduler: class == Class::Scheduler,
            exclusive: class.is_exclusive(),
        };
        let before = |call| {
            let (name, class) = (row.name.into(), class.name().into());
            let process = details.process.map(Id::subject);
            let adapter = self.adapter.subject();
            let level = L::IRQL;
            self.log.emit(call, What::DdiCall { name, level, class, adapter, process });
            (details.carries)(&self.log);
            Ok::<(), Infallible>(())
        };
        let after = |call: Subject, answer: &Answer<T>| {
            if self.pulled.get().is_some() {
                self.judge_pulled(row.name);
            }
            let error = answer.as_ref().err();
            let said = error.map_or("ok".into(), |why| why.name());
            let legal = error.is_none_or(|why| row.legal.allows(*why));
            self.log.emit(call, What::DdiReturn { name: row.name.into(), answer: said, legal });
            if InCall::current().is_some_and(|it| it.marked) {
                self.end(call.number);
            }
        };
        let body = |at: &mut L| body(&*self.miniport, at);
        let Ok((answer, ())) = funnel.call(at, scope, before, body, after);
        // Work that does not move is given, too: the clock has to be watched for it.
        if GIVES_WORK.contains(&row.name) || !self.machine.idle() {
            self.host.ring(&self.bell);
        }
        answer
    }

    /// Entry rule: hardware that is not there is left alone.
    fn judge_pulled(&self, name: &'static str) {
        let touched = InCall::current().is_some_and(|it| it.touched);
        let broken = touched.then(|| {
            format!(
                "{name} touched the hardware of {}, but that was pulled out, and the driver was \
                 told so: only what is in memory is left to end",
                self.adapter
            )
        });
        self.log.judge(RuleId::KMD_PNP_010, Who::Driver, self.adapter.subject(), name, broken);
    }

    /// A call in which something was acquired has returned.
    fn end(&self, number: u32) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.world.hold().calls.remove(&number);
        }
    }
}
