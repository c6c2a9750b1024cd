//! The funnel: the DDI table in plain words, and the only calls of a driver.
//!
//! A driver in Rust and a driver with a table go through the same lines. The level of a call is
//! the type of its table line; the pass is borrowed (a client thread parked for it, a job came
//! back for it) and no lock is held; a crash is an answer like any other.

use crate::context::Context;
use crate::device::Device;
use crate::gate::{Class, Pass};
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::listed::{BufferSizes, ListedSubmission, Patching, Rendering};
use crate::lock::Once;
use crate::miniport::{
    Answer, Births, Blank, Born, Cancelled, CollectReason, ContextOrder, Doomed, DriverAllocation,
    DriverContext, DriverDevice, DriverProcess, DriverResource, DriverView, Escape, Features,
    Generation, Interrupt, Miniport, Opening, Refusal, Standard, Submission, Surface,
};
use crate::mmu::{ProcessOrder, Root, RootSize, WindowMap};
use crate::operation::{Building, PagingSubmission};
use crate::power::PowerOrder;
use crate::process::Process;
use crate::services::Services;
use crate::space::Space;
use crate::start::Adapter;
use crate::store::Id;
use flight::{
    DeviceLevel, Dispatch, Fence, Host, InCall, Irql, Kind, Level, Log, Machine, Passive, Pool,
    RuleId, Support, Ticket, What, Who,
};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::vec::Drain;

/// A line of the DDI table.
pub struct Ddi<L> {
    /// Its Windows name, which is its name in events and reports.
    pub name: &'static str,
    /// The exclusion it runs under.
    pub class: Class,
    /// What it may answer besides success.
    pub legal: Legal,
    level: PhantomData<fn() -> L>,
}

/// What a DDI may answer besides success.
#[derive(Clone, Copy, Debug)]
pub enum Legal {
    /// The list is open: any failure.
    Any,
    /// The list is closed. A handle that could not be looked up is legal besides.
    Only(&'static [Refusal]),
}

/// A line of the DDI table as data, for those who print it.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// The level it is called at.
    pub level: Irql,
    /// Its class.
    pub class: Class,
    /// What it may answer.
    pub legal: Legal,
    /// How much of it there is.
    pub state: Support,
}

macro_rules! table {
    ($($const:ident $name:ident $level:ident $class:ident $legal:expr $(, lacks $lacks:literal)?;)*) => {
        $(const $const: Ddi<$level> = Ddi {
            name: stringify!($name), class: Class::$class, legal: $legal, level: PhantomData,
        };)*
        /// Every DDI the kernel calls.
        pub const TABLE: &[Line] = &[$(Line {
            name: $const.name, level: <$level as Level>::IRQL, class: $const.class,
            legal: $const.legal, state: Support::lacking(concat!($($lacks)?)),
        }),*];
        /// Their names.
        pub const NAMES: &[&str] = &[$($const.name),*];
    };
}

/// There is no display output, so any target is one without a display.
const NO_TARGET: u32 = 0;

const DESCRIBES: Legal = Legal::Only(&[Refusal::Invalid, Refusal::NoMemory, Refusal::Mismatch]);

table! {
    ADD_DEVICE        DxgkDdiAddDevice        Passive Three Legal::Any;
    START_DEVICE      DxgkDdiStartDevice      Passive Three Legal::Any,
        lacks "no display output: sources and children have no effect";
    QUERY_ADAPTER     DxgkDdiQueryAdapterInfo Passive Three Legal::Any,
        lacks "driver caps, segments, page tables and questions of user mode only";
    STOP_DEVICE       DxgkDdiStopDevice       Passive Three Legal::Any;
    REMOVE_DEVICE     DxgkDdiRemoveDevice     Passive Three Legal::Any;
    UNLOAD            DxgkDdiUnload           Passive Three Legal::Any;
    SET_POWER         DxgkDdiSetPowerState    Passive Three Legal::Any,
        lacks "the adapter itself only, D0 and D3";
    PULLED_OUT        DxgkDdiNotifySurpriseRemoval Passive Three Legal::Only(&[]),
        lacks "live removals only";
    RELEASE           DxgkDdiStopDeviceAndReleasePostDisplayOwnership Passive Three Legal::Any,
        lacks "no display output: the target has no display";
    RESET_DEVICE      DxgkDdiResetDevice      DeviceLevel None Legal::Any;
    CREATE_DEVICE     DxgkDdiCreateDevice     Passive Zero  Legal::Only(&[Refusal::NoMemory]),
        lacks "no flags";
    DESTROY_DEVICE    DxgkDdiDestroyDevice    Passive Zero  Legal::Any;
    CREATE_CONTEXT    DxgkDdiCreateContext    Passive Zero
        Legal::Only(&[Refusal::NoMemory, Refusal::Mismatch]),
        lacks "no flags of the client's";
    DESTROY_CONTEXT   DxgkDdiDestroyContext   Passive Zero  Legal::Any;
    CREATE_PROCESS    DxgkDdiCreateProcess    Passive Zero  Legal::Any,
        lacks "no flags but the system's";
    DESTROY_PROCESS   DxgkDdiDestroyProcess   Passive Zero  Legal::Any;
    ROOT_SIZE         DxgkDdiGetRootPageTableSize Passive Zero Legal::Any;
    SET_ROOT          DxgkDdiSetRootPageTable Passive Zero  Legal::Any;
    MAP_WINDOW        DxgkDdiMapCpuHostAperture Passive Zero Legal::Any,
        lacks "tried when the adapter starts; nothing is seen through it";
    UNMAP_WINDOW      DxgkDdiUnmapCpuHostAperture Passive Zero Legal::Any,
        lacks "tried when the adapter starts; nothing is seen through it";
    STANDARD_DATA     DxgkDdiGetStandardAllocationDriverData Passive Zero Legal::Any,
        lacks "GDI surfaces only";
    CREATE_ALLOCATION DxgkDdiCreateAllocation Passive Zero  DESCRIBES;
    DESTROY_ALLOCATION DxgkDdiDestroyAllocation Passive Zero Legal::Any;
    DESCRIBE_ALLOCATION DxgkDdiDescribeAllocation Passive Zero Legal::Any,
        lacks "primaries only, and nothing reads the description";
    OPEN_ALLOCATION   DxgkDdiOpenAllocation   Passive Zero  DESCRIBES;
    CLOSE_ALLOCATION  DxgkDdiCloseAllocation  Passive Zero  Legal::Any;
    ESCAPE            DxgkDdiEscape           Passive Zero
        Legal::Only(&[
            Refusal::Invalid, Refusal::NoMemory, Refusal::Mismatch, Refusal::Privileged,
            Refusal::Illegal,
        ]),
        lacks "no process handle: hKmdProcessHandle is NULL";
    SUBMIT_COMMAND    DxgkDdiSubmitCommandVirtual Dispatch Scheduler
        Legal::Only(&[Refusal::Invalid]),
        lacks "no GPU addresses: commands travel as private driver data";
    RENDER            DxgkDdiRender           Passive Zero
        Legal::Only(&[
            Refusal::NoMemory, Refusal::NoRoom, Refusal::Privileged, Refusal::Illegal,
            Refusal::Invalid, Refusal::UserMemory, Refusal::Mismatch,
        ]);
    PATCH             DxgkDdiPatch            Passive Scheduler Legal::Only(&[]),
        lacks "no packet is cut in parts";
    BUILD_PAGING      DxgkDdiBuildPagingBuffer Passive Scheduler
        Legal::Only(&[Refusal::NoRoom, Refusal::Busy]),
        lacks "no page-table entries are copied";
    SUBMIT_PAGING     DxgkDdiSubmitCommand    Dispatch Scheduler Legal::Only(&[]),
        lacks "no presents and flips";
    PREEMPT           DxgkDdiPreemptCommand   Dispatch Scheduler Legal::Only(&[]),
        lacks "a node gives back all it has not begun";
    CURRENT_FENCE     DxgkDdiQueryCurrentFence Passive Scheduler Legal::Any;
    CANCEL            DxgkDdiCancelCommand    Passive Scheduler Legal::Only(&[]);
    ENGINE_STATUS     DxgkDdiQueryEngineStatus Passive Scheduler Legal::Only(&[]);
    DEPENDENT_NODES   DxgkDdiQueryDependentEngineGroup Passive Scheduler Legal::Only(&[]);
    RESET_ENGINE      DxgkDdiResetEngine      Passive Scheduler Legal::Any;
    RESET             DxgkDdiResetFromTimeout Passive Three Legal::Only(&[]);
    RESTART           DxgkDdiRestartFromTimeout Passive Three Legal::Only(&[]);
    COLLECT           DxgkDdiCollectDbgInfo   Passive None Legal::Any,
        lacks "asked before a reset only";
    INTERRUPT         DxgkDdiInterruptRoutine DeviceLevel None Legal::Any;
    DPC               DxgkDdiDpcRoutine       Dispatch None Legal::Any;
    CONTROL_INTERRUPT DxgkDdiControlInterrupt Passive Zero
        Legal::Only(&[Refusal::Unimplemented]),
        lacks "vsync only, and nothing is shown at one";
}

/// What no driver can be flown without, and all that one needs which takes no work.
pub const REQUIRED: &[&str] = &[
    ADD_DEVICE.name,
    START_DEVICE.name,
    STOP_DEVICE.name,
    REMOVE_DEVICE.name,
    QUERY_ADAPTER.name,
    CREATE_DEVICE.name,
    DESTROY_DEVICE.name,
    CREATE_ALLOCATION.name,
    DESTROY_ALLOCATION.name,
    OPEN_ALLOCATION.name,
    CLOSE_ALLOCATION.name,
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
    pub(crate) fn add_device(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        let services = &self.services;
        self.call(&ADD_DEVICE, at, bare(None), |it, at| it.add_device(at, services))
    }

    pub(crate) fn start_device(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        self.pool.begin();
        self.call(&START_DEVICE, at, bare(None), |it, at| it.start_device(at))
    }

    pub(crate) fn query_adapter(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<Features> {
        self.call(&QUERY_ADAPTER, at, bare(None), |it, at| it.query_adapter(at))
    }

    /// The level is another than at the start: a user-mode driver asks at any time.
    pub(crate) fn tell_user_mode(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        data: &mut [u8],
    ) -> Answer<()> {
        let ddi = Ddi { class: Class::Zero, ..QUERY_ADAPTER };
        self.call(&ddi, at, bare(Some(process)), |it, at| it.tell_user_mode(at, data))
    }

    pub(crate) fn stop_device(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        self.call(&STOP_DEVICE, at, bare(None), |it, at| {
            let answer = it.stop_device(at);
            self.pool.end();
            answer
        })
    }

    pub(crate) fn remove_device(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        self.call(&REMOVE_DEVICE, at, bare(None), |it, at| it.remove_device(at))
    }

    pub(crate) fn unload(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        self.call(&UNLOAD, at, bare(None), |it, at| it.unload(at))
    }

    /// There need not be anything to call: then nothing is to be done. Hardware that was pulled
    /// out meanwhile has no power.
    pub(crate) fn set_power(&self, at: &mut Passive, _pass: &Pass<'_>, order: PowerOrder) {
        if self.offers(SET_POWER.name) && self.pulled.get().is_none() {
            // What it answers changes nothing: the power goes and comes all the same.
            let _ = self.call(&SET_POWER, at, bare(None), |it, at| it.set_power(at, order));
        }
    }

    /// From here on whoever touches the hardware is named.
    pub(crate) fn pulled_out(&self, at: &mut Passive, _pass: &Pass<'_>) {
        if self.offers(PULLED_OUT.name) {
            // What it answers changes nothing: the hardware is gone.
            let _ = self.call(&PULLED_OUT, at, bare(None), |it, at| it.pulled_out(at));
        }
        let _ = self.pulled.set(()); // Once is enough.
    }

    /// Answers whether it has stopped so.
    pub(crate) fn stop_and_release(&self, at: &mut Passive, _pass: &Pass<'_>) -> bool {
        self.offers(RELEASE.name)
            && self
                .call(&RELEASE, at, bare(None), |it, at| {
                    it.stop_and_release(at, NO_TARGET).inspect(|()| self.pool.end())
                })
                .is_ok()
    }

    /// No pass: it can come at any time.
    pub(crate) fn reset_device(&self, at: &mut Passive) {
        if self.offers(RESET_DEVICE.name) {
            // It has no answer.
            let _ = self.call(&RESET_DEVICE, at, bare(None), |it, at| it.reset_device(at));
        }
    }

    pub(crate) fn offers(&self, name: &str) -> bool {
        self.miniport.offers().contains(&name)
    }

    pub(crate) fn create_device(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
    ) -> Answer<DriverDevice> {
        let word: Blank<'_, Device> = Blank::named(name);
        self.call(&CREATE_DEVICE, at, bare(process), |it, at| it.create_device(at, word))
    }

    pub(crate) fn destroy_device(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        device: DriverDevice,
    ) -> Answer<()> {
        self.call(&DESTROY_DEVICE, at, whom, |it, at| it.destroy_device(at, device))
    }

    pub(crate) fn create_context(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        device: &DriverDevice,
        order: &ContextOrder,
    ) -> Answer<(DriverContext, u32)> {
        let word: Blank<'_, Context> = Blank::named(name);
        self.call(&CREATE_CONTEXT, at, bare(process), |it, at| {
            it.create_context(at, device, order, word)
        })
    }

    pub(crate) fn create_listed_context(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        device: &DriverDevice,
        order: &ContextOrder,
    ) -> Answer<(DriverContext, BufferSizes)> {
        let word: Blank<'_, Context> = Blank::named(name);
        self.call(&CREATE_CONTEXT, at, bare(process), |it, at| {
            it.create_listed_context(at, device, order, word)
        })
    }

    pub(crate) fn create_process(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        (process, name): (Option<Id<Process>>, Handle),
        order: ProcessOrder,
    ) -> Answer<DriverProcess> {
        let word: Blank<'_, Space> = Blank::named(name);
        self.call(&CREATE_PROCESS, at, bare(process), |it, at| it.create_process(at, order, word))
    }

    pub(crate) fn destroy_process(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        process: DriverProcess,
    ) -> Answer<()> {
        self.call(&DESTROY_PROCESS, at, whom, |it, at| it.destroy_process(at, process))
    }

    pub(crate) fn root_size(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Option<Id<Process>>,
        entries: u32,
    ) -> Answer<RootSize> {
        self.call(&ROOT_SIZE, at, bare(process), |it, at| it.root_size(at, entries))
    }

    pub(crate) fn map_window(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        map: WindowMap<'_>,
    ) -> Answer<()> {
        self.call(&MAP_WINDOW, at, bare(None), |it, at| it.map_window(at, map))
    }

    pub(crate) fn unmap_window(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        segment: u32,
        window: &[u64],
    ) -> Answer<()> {
        self.call(&UNMAP_WINDOW, at, bare(None), |it, at| it.unmap_window(at, segment, window))
    }

    pub(crate) fn set_root(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Option<Id<Process>>,
        context: &DriverContext,
        root: Root,
    ) -> Answer<()> {
        self.call(&SET_ROOT, at, bare(process), |it, at| it.set_root(at, context, root))
    }

    pub(crate) fn destroy_context(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        context: DriverContext,
    ) -> Answer<()> {
        self.call(&DESTROY_CONTEXT, at, whom, |it, at| it.destroy_context(at, context))
    }

    pub(crate) fn standard_data(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        standard: &mut Standard,
    ) -> Answer<()> {
        self.call(&STANDARD_DATA, at, bare(Some(process)), |it, at| it.standard_data(at, standard))
    }

    pub(crate) fn create_allocations(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        births: Births<'_>,
    ) -> Answer<Born> {
        self.call(&CREATE_ALLOCATION, at, whom, |it, at| it.create_allocations(at, births))
    }

    pub(crate) fn destroy_allocations(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        carries: &dyn Fn(&Log),
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        // The allocation is the adapter's, so the call is for no process.
        let whom = For { process: None, carries };
        self.call(&DESTROY_ALLOCATION, at, whom, |it, at| it.destroy_allocations(at, doomed))
    }

    pub(crate) fn describe_allocation(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        allocation: &DriverAllocation,
    ) -> Answer<Surface> {
        self.call(&DESCRIBE_ALLOCATION, at, bare(Some(process)), |it, at| {
            it.describe_allocation(at, allocation)
        })
    }

    pub(crate) fn open_allocations(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        opening: Opening<'_>,
    ) -> Answer<Vec<DriverView>> {
        self.call(&OPEN_ALLOCATION, at, whom, |it, at| it.open_allocations(at, opening))
    }

    pub(crate) fn close_allocations(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.call(&CLOSE_ALLOCATION, at, whom, |it, at| it.close_allocations(at, device, views))
    }

    /// At level two if the client gave access to the hardware; the pass says so, too.
    pub(crate) fn escape(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        escape: Escape<'_>,
    ) -> Answer<()> {
        let hardware = escape.hardware;
        let ddi = Ddi { class: if hardware { Class::Two } else { Class::Zero }, ..ESCAPE };
        let carries = |log: &Log| {
            let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
            log.emit(call, What::DdiEscapes { hardware });
        };
        let whom = For { process: Some(process), carries: &carries };
        self.call(&ddi, at, whom, |it, at| {
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
        let (rule, place) = (RuleId::DEV_LIFE_011, "DxgkDdiEscape");
        self.log.judge(rule, Who::Driver, self.adapter.subject(), place, broken);
    }

    pub(crate) fn submit(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        packet: &Submission<'_>,
    ) -> Answer<()> {
        self.call(&SUBMIT_COMMAND, at, bare(Some(process)), |it, at| {
            self.judged_submit(SUBMIT_COMMAND.name, || it.submit(at, packet))
        })
    }

    pub(crate) fn render(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        rendering: &mut Rendering<'_>,
    ) -> Answer<()> {
        self.call(&RENDER, at, bare(Some(process)), |it, at| it.render(at, rendering))
    }

    /// For no process, where it is paging work.
    pub(crate) fn patch(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Option<Id<Process>>,
        patching: &mut Patching<'_>,
    ) -> Answer<()> {
        self.call(&PATCH, at, bare(process), |it, at| it.patch(at, patching))
    }

    pub(crate) fn submit_listed(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        process: Id<Process>,
        packet: &ListedSubmission<'_>,
    ) -> Answer<()> {
        self.call(&SUBMIT_PAGING, at, bare(Some(process)), |it, at| {
            self.judged_submit(SUBMIT_PAGING.name, || it.submit_listed(at, packet))
        })
    }

    pub(crate) fn build_paging(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        building: &mut Building<'_>,
    ) -> Answer<()> {
        self.call(&BUILD_PAGING, at, whom, |it, at| it.build_paging(at, building))
    }

    /// Between a reset and the restart. Answers whether the hardware was touched, too.
    pub(crate) fn build_dropped(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        whom: For<'_>,
        building: &mut Building<'_>,
    ) -> (Answer<()>, bool) {
        let mut touched = false;
        let answer = self.call(&BUILD_PAGING, at, whom, |it, at| {
            let answer = it.build_paging(at, building);
            touched = InCall::current().is_some_and(|it| it.touched);
            answer
        });
        (answer, touched)
    }

    pub(crate) fn submit_paging(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        packet: &PagingSubmission<'_>,
    ) -> Answer<()> {
        let carries = |log: &Log| {
            let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
            log.emit(call, What::DdiPages { context: None });
        };
        let whom = For { process: None, carries: &carries };
        self.call(&SUBMIT_PAGING, at, whom, |it, at| {
            self.judged_submit(SUBMIT_PAGING.name, || it.submit_paging(at, packet))
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

    pub(crate) fn preempt(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        node: u32,
        preemption: Fence,
    ) -> Answer<()> {
        self.call(&PREEMPT, at, bare(None), |it, at| it.preempt(at, node, preemption))
    }

    pub(crate) fn current_fence(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        node: u32,
    ) -> Answer<Fence> {
        self.call(&CURRENT_FENCE, at, bare(None), |it, at| it.current_fence(at, node))
    }

    pub(crate) fn cancel(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        packet: &Cancelled<'_>,
    ) -> Answer<()> {
        self.call(&CANCEL, at, bare(None), |it, at| it.cancel(at, packet))
    }

    pub(crate) fn engine_answers(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        node: u32,
    ) -> Answer<bool> {
        self.call(&ENGINE_STATUS, at, bare(None), |it, at| it.engine_answers(at, node))
    }

    pub(crate) fn dependent_nodes(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        node: u32,
    ) -> Answer<u64> {
        self.call(&DEPENDENT_NODES, at, bare(None), |it, at| it.dependent_nodes(at, node))
    }

    pub(crate) fn reset_engine(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        node: u32,
    ) -> Answer<Fence> {
        self.call(&RESET_ENGINE, at, bare(None), |it, at| it.reset_engine(at, node))
    }

    pub(crate) fn reset(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        self.call(&RESET, at, bare(None), |it, at| it.reset(at))
    }

    pub(crate) fn restart(&self, at: &mut Passive, _pass: &Pass<'_>) -> Answer<()> {
        self.call(&RESTART, at, bare(None), |it, at| it.restart(at))
    }

    /// No pass: it may come at any moment.
    pub(crate) fn collect(
        &self,
        at: &mut Passive,
        reason: CollectReason,
        into: &mut [u8],
    ) -> Answer<usize> {
        self.call(&COLLECT, at, bare(None), |it, at| it.collect(at, reason, into))
    }

    /// No pass: an interrupt asks nobody.
    pub(crate) fn interrupt(&self, at: &mut Passive) -> Answer<bool> {
        self.call(&INTERRUPT, at, bare(None), |it, at| self.run_interrupt(|| it.interrupt(at)))
    }

    /// No pass: a DPC asks nobody.
    pub(crate) fn dpc(&self, at: &mut Passive) -> Answer<()> {
        self.call(&DPC, at, bare(None), |it, at| self.run_dpc(|| it.dpc(at)))
    }

    pub(crate) fn control_interrupt(
        &self,
        at: &mut Passive,
        _pass: &Pass<'_>,
        of: Interrupt,
        on: bool,
    ) -> Answer<()> {
        self.call(&CONTROL_INTERRUPT, at, bare(None), |it, at| it.control_interrupt(at, of, on))
    }

    /// Calls the driver at the DDI's level.
    fn call<L: Level, T>(
        &self,
        ddi: &Ddi<L>,
        at: &mut Passive,
        whom: For<'_>,
        body: impl FnOnce(&dyn Miniport, &mut L) -> Answer<T>,
    ) -> Answer<T> {
        self.host.breathe(at);
        let number = self.log.next_call();
        let inside =
            InCall::enter(number, whom.process.map(Id::serial), ddi.class == Class::Scheduler);
        if ddi.class.is_exclusive() {
            InCall::exclude();
        }
        let subject = Kind::Call.nr(number);
        let (name, class) = (ddi.name.into(), ddi.class.name().into());
        let process = whom.process.map(Id::subject);
        let called =
            What::DdiCall { name, level: L::IRQL, class, adapter: self.adapter.subject(), process };
        self.log.emit(subject, called);
        (whom.carries)(&self.log);

        // Nothing of ours is half done while a driver runs, so a panic breaks only it.
        let guarded = |at: &mut L| catch_unwind(AssertUnwindSafe(|| body(&*self.miniport, at)));
        let answer = at.raised(&*self.host, guarded).unwrap_or(Err(Refusal::Crashed));
        if self.pulled.get().is_some() {
            self.judge_pulled(ddi.name);
        }

        let said = answer.as_ref().err().map_or("ok".into(), |why| why.name());
        let legal = answer.as_ref().err().is_none_or(|why| ddi.legal.allows(*why));
        self.log.emit(subject, What::DdiReturn { name: ddi.name.into(), answer: said, legal });
        self.pool.inspect();
        if InCall::current().is_some_and(|it| it.marked) {
            self.end(number);
        }
        drop(inside);
        // Work that does not move is given, too: somebody has to look at the time for it.
        let gives = [SUBMIT_COMMAND.name, SUBMIT_PAGING.name, PREEMPT.name].contains(&ddi.name);
        if gives || !self.machine.idle() {
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

impl Legal {
    /// Whether it may be refused so.
    pub fn allows(self, why: Refusal) -> bool {
        match self {
            Legal::Any => true,
            // WINDOWS: a failed look-up inside the call is answered with an invalid handle in
            // any DDI (documented at GetHandleData). A crash and an absent entry are judged
            // elsewhere.
            Legal::Only(list) => {
                list.contains(&why)
                    || matches!(why, Refusal::NoHandle | Refusal::Crashed | Refusal::Absent)
            }
        }
    }
}
