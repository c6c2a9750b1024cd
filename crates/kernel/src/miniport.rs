//! What the kernel asks of a display miniport driver, in plain words.
//!
//! A driver in Rust answers in safe code; `port` answers for a driver with a table. Private
//! data is bytes, and the words a driver gives are [`Token`]s: lent for a call, or moved into
//! the call that ends what they stand for.

use crate::allocation::Allocation;
use crate::context::Context;
use crate::device::Device;
use crate::handle::Handle;
use crate::listed::{BufferSizes, ListedSubmission, Patching, Rendering};
use crate::mmu::{MmuFeatures, ProcessOrder, Root, RootSize, WindowMap};
use crate::operation::{Building, PagingSubmission};
use crate::power::PowerOrder;
use crate::resource::Resource;
use crate::segment::{MemoryFeatures, Wants};
use crate::services::Services;
use crate::space::Space;
use crate::view::View;
use flight::{DeviceLevel, Dispatch, Fence, Passive};
use std::marker::PhantomData;
use std::sync::Arc;
use std::vec::Drain;

/// A display miniport driver, with the adapter it drives.
///
/// What a driver does not answer itself, the driver it stands on answers; with none, the entry
/// is absent. So a variant of a driver says only what is different about it.
pub trait Miniport: Send + Sync {
    /// The driver it stands on, if it is a variant of one.
    fn stands_on(&self) -> Option<&dyn Miniport> {
        None
    }

    /// The driver model it was written for.
    fn generation(&self) -> Generation {
        match self.stands_on() {
            Some(it) => it.generation(),
            None => Generation::Two,
        }
    }

    /// The entries it offers, by their names in the DDI table: all, if it does not say.
    fn offers(&self) -> Vec<&'static str> {
        match self.stands_on() {
            Some(it) => it.offers(),
            None => crate::ddi::NAMES.to_vec(),
        }
    }

    /// Meets its adapter (`DxgkDdiAddDevice`). The services are good until `remove_device`.
    fn add_device(&self, at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.add_device(at, services)
    }

    /// Starts the adapter (`DxgkDdiStartDevice`). Nothing to do, if it does not say.
    fn start_device(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().map_or(Ok(()), |it| it.start_device(at))
    }

    /// Says what the adapter has (`DxgkDdiQueryAdapterInfo`).
    fn query_adapter(&self, at: &mut Passive) -> Answer<Features> {
        self.stands_on().ok_or(Refusal::Absent)?.query_adapter(at)
    }

    /// Tells its user-mode half what the hardware can do (`DxgkDdiQueryAdapterInfo`, type
    /// `DXGKQAITYPE_UMDRIVERPRIVATE`), in place of what that sent. Anybody may send any bytes.
    fn tell_user_mode(&self, at: &mut Passive, data: &mut [u8]) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.tell_user_mode(at, data)
    }

    /// Stops the adapter (`DxgkDdiStopDevice`). Nothing to do, if it does not say.
    fn stop_device(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().map_or(Ok(()), |it| it.stop_device(at))
    }

    /// Forgets the adapter (`DxgkDdiRemoveDevice`).
    fn remove_device(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.remove_device(at)
    }

    /// Leaves (`DxgkDdiUnload`). Nothing to do, if it does not say.
    fn unload(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().map_or(Ok(()), |it| it.unload(at))
    }

    /// Changes its power (`DxgkDdiSetPowerState`), which may not fail. Nothing to do, if it does
    /// not say.
    fn set_power(&self, at: &mut Passive, order: PowerOrder) -> Answer<()> {
        self.stands_on().map_or(Ok(()), |it| it.set_power(at, order))
    }

    /// Hears that its hardware was pulled out (`DxgkDdiNotifySurpriseRemoval`): it touches none
    /// any more. The calls that follow end what it has in memory. Nothing to do, if it does not
    /// say.
    fn pulled_out(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().map_or(Ok(()), |it| it.pulled_out(at))
    }

    /// Stops the adapter and hands on what a target shows
    /// (`DxgkDdiStopDeviceAndReleasePostDisplayOwnership`). Where the target has no display it
    /// answers [`Refusal::Unsupported`] and is told to stop, as it does if it does not say.
    fn stop_and_release(&self, at: &mut Passive, target: u32) -> Answer<()> {
        self.stands_on().map_or(Err(Refusal::Unsupported), |it| it.stop_and_release(at, target))
    }

    /// Resets the hardware, as the machine goes down (`DxgkDdiResetDevice`): at any level, so it
    /// calls nobody back. Nothing to do, if it does not say.
    fn reset_device(&self, at: &mut DeviceLevel) -> Answer<()> {
        self.stands_on().map_or(Ok(()), |it| it.reset_device(at))
    }

    /// Makes a device (`DxgkDdiCreateDevice`).
    fn create_device(&self, at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        self.stands_on().ok_or(Refusal::Absent)?.create_device(at, word)
    }

    /// Ends a device (`DxgkDdiDestroyDevice`).
    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.destroy_device(at, device)
    }

    /// Makes a context (`DxgkDdiCreateContext`), and says how many bytes of private data a packet
    /// of it has at most (`DmaBufferPrivateDataSize`).
    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, u32)> {
        self.stands_on().ok_or(Refusal::Absent)?.create_context(at, device, order, word)
    }

    /// Makes a context whose packets have lists (`DxgkDdiCreateContext`, without virtual
    /// addressing), and says how large its buffers are.
    fn create_listed_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, BufferSizes)> {
        self.stands_on().ok_or(Refusal::Absent)?.create_listed_context(at, device, order, word)
    }

    /// Ends a context (`DxgkDdiDestroyContext`).
    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.destroy_context(at, context)
    }

    /// Meets a process that uses the adapter (`DxgkDdiCreateProcess`).
    fn create_process(
        &self,
        at: &mut Passive,
        order: ProcessOrder,
        word: Blank<'_, Space>,
    ) -> Answer<DriverProcess> {
        self.stands_on().ok_or(Refusal::Absent)?.create_process(at, order, word)
    }

    /// Forgets a process (`DxgkDdiDestroyProcess`).
    fn destroy_process(&self, at: &mut Passive, process: DriverProcess) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.destroy_process(at, process)
    }

    /// Says how many bytes a root of at least so many entries has
    /// (`DxgkDdiGetRootPageTableSize`).
    fn root_size(&self, at: &mut Passive, entries: u32) -> Answer<RootSize> {
        self.stands_on().ok_or(Refusal::Absent)?.root_size(at, entries)
    }

    /// Has a context use another address space (`DxgkDdiSetRootPageTable`).
    fn set_root(&self, at: &mut Passive, context: &DriverContext, root: Root) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.set_root(at, context, root)
    }

    /// Shows the CPU pages that it does not see (`DxgkDdiMapCpuHostAperture`).
    fn map_window(&self, at: &mut Passive, map: WindowMap<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.map_window(at, map)
    }

    /// Takes pages of the window back (`DxgkDdiUnmapCpuHostAperture`).
    fn unmap_window(&self, at: &mut Passive, segment: u32, window: &[u64]) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.unmap_window(at, segment, window)
    }

    /// Gives the private data of a standard allocation
    /// (`DxgkDdiGetStandardAllocationDriverData`): asked once for sizes, once for bytes.
    fn standard_data(&self, at: &mut Passive, standard: &mut Standard) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.standard_data(at, standard)
    }

    /// Describes new allocations, of one resource or alone (`DxgkDdiCreateAllocation`).
    ///
    /// After a refusal none of them exists, and nothing is destroyed: the driver undoes
    /// what it did.
    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        self.stands_on().ok_or(Refusal::Absent)?.create_allocations(at, births)
    }

    /// Destroys allocations, and with the last of them their resource
    /// (`DxgkDdiDestroyAllocation`). Answers the resource's word if that changed.
    ///
    /// After a refusal they are gone all the same: nothing is left to retry with.
    fn destroy_allocations(
        &self,
        at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.stands_on().ok_or(Refusal::Absent)?.destroy_allocations(at, doomed)
    }

    /// Says what a primary looks like (`DxgkDdiDescribeAllocation`).
    fn describe_allocation(
        &self,
        at: &mut Passive,
        allocation: &DriverAllocation,
    ) -> Answer<Surface> {
        self.stands_on().ok_or(Refusal::Absent)?.describe_allocation(at, allocation)
    }

    /// Opens allocations for a device (`DxgkDdiOpenAllocation`): one word for each.
    fn open_allocations(&self, at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        self.stands_on().ok_or(Refusal::Absent)?.open_allocations(at, opening)
    }

    /// Closes views of a device, all members of a resource at once
    /// (`DxgkDdiCloseAllocation`).
    fn close_allocations(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.close_allocations(at, device, views)
    }

    /// Answers a client's private data (`DxgkDdiEscape`), in its place.
    fn escape(&self, at: &mut Passive, escape: Escape<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.escape(at, escape)
    }

    /// Takes a packet for the hardware (`DxgkDdiSubmitCommandVirtual`).
    fn submit(&self, at: &mut Dispatch, packet: &Submission<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.submit(at, packet)
    }

    /// Writes commands for the hardware in place of a client's (`DxgkDdiRender`).
    fn render(&self, at: &mut Passive, rendering: &mut Rendering<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.render(at, rendering)
    }

    /// Writes addresses into a packet's commands (`DxgkDdiPatch`), as often as it is asked.
    fn patch(&self, at: &mut Passive, patching: &mut Patching<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.patch(at, patching)
    }

    /// Takes a packet with lists for the hardware (`DxgkDdiSubmitCommand`).
    fn submit_listed(&self, at: &mut Dispatch, packet: &ListedSubmission<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.submit_listed(at, packet)
    }

    /// Writes the commands of a paging operation (`DxgkDdiBuildPagingBuffer`).
    ///
    /// May answer [`Refusal::NoRoom`] (the buffer is full), and for moves and discards
    /// [`Refusal::Busy`] (the allocation is in use); nothing else.
    fn build_paging(&self, at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.build_paging(at, building)
    }

    /// Takes paging commands for the hardware (`DxgkDdiSubmitCommand`).
    fn submit_paging(&self, at: &mut Dispatch, packet: &PagingSubmission<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.submit_paging(at, packet)
    }

    /// Takes back what a node has not begun (`DxgkDdiPreemptCommand`). It reports when that is
    /// done: at once if the node has nothing.
    fn preempt(&self, at: &mut Dispatch, node: u32, preemption: Fence) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.preempt(at, node, preemption)
    }

    /// Says what a node has done (`DxgkDdiQueryCurrentFence`). What it did not report, it
    /// reports first.
    fn current_fence(&self, at: &mut Passive, node: u32) -> Answer<Fence> {
        self.stands_on().ok_or(Refusal::Absent)?.current_fence(at, node)
    }

    /// Frees what a packet has that will never go to the hardware (`DxgkDdiCancelCommand`).
    fn cancel(&self, at: &mut Passive, packet: &Cancelled<'_>) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.cancel(at, packet)
    }

    /// Whether an engine answers (`DxgkDdiQueryEngineStatus`).
    fn engine_answers(&self, at: &mut Passive, node: u32) -> Answer<bool> {
        self.stands_on().ok_or(Refusal::Absent)?.engine_answers(at, node)
    }

    /// The nodes that a reset of this one hits, as bits (`DxgkDdiQueryDependentEngineGroup`).
    fn dependent_nodes(&self, at: &mut Passive, node: u32) -> Answer<u64> {
        self.stands_on().ok_or(Refusal::Absent)?.dependent_nodes(at, node)
    }

    /// Resets an engine (`DxgkDdiResetEngine`). Answers the last fence that is over because of
    /// it; nothing is left on the node then.
    fn reset_engine(&self, at: &mut Passive, node: u32) -> Answer<Fence> {
        self.stands_on().ok_or(Refusal::Absent)?.reset_engine(at, node)
    }

    /// Stops the GPU: when this returns it touches no memory any more
    /// (`DxgkDdiResetFromTimeout`).
    fn reset(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.reset(at)
    }

    /// Has the GPU work again (`DxgkDdiRestartFromTimeout`).
    fn restart(&self, at: &mut Passive) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.restart(at)
    }

    /// Writes down what may help to find out why (`DxgkDdiCollectDbgInfo`). Answers how many
    /// bytes it wrote.
    fn collect(&self, at: &mut Passive, reason: CollectReason, into: &mut [u8]) -> Answer<usize> {
        self.stands_on().ok_or(Refusal::Absent)?.collect(at, reason, into)
    }

    /// The hardware interrupted (`DxgkDdiInterruptRoutine`). Answers whether it was ours.
    fn interrupt(&self, at: &mut DeviceLevel) -> Answer<bool> {
        self.stands_on().ok_or(Refusal::Absent)?.interrupt(at)
    }

    /// The rest of the interrupt's work (`DxgkDdiDpcRoutine`).
    fn dpc(&self, at: &mut Dispatch) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.dpc(at)
    }

    /// Has the hardware interrupt for something, or not any more (`DxgkDdiControlInterrupt`).
    /// May answer [`Refusal::Unimplemented`], for all but vsync.
    fn control_interrupt(&self, at: &mut Passive, of: Interrupt, on: bool) -> Answer<()> {
        self.stands_on().ok_or(Refusal::Absent)?.control_interrupt(at, of, on)
    }
}

/// What a driver is told to interrupt for (`DXGK_INTERRUPT_TYPE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The start of a picture (`DXGK_INTERRUPT_CRTC_VSYNC`).
    Vsync,
    /// A packet done (`DXGK_INTERRUPT_DMA_COMPLETED`): this cannot be switched.
    Completed,
}

/// The driver model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// WDDM 1.x: packets name what they use; one thread of a process at a time.
    One,
    /// WDDM 2.x: addresses are virtual.
    Two,
}

/// What an adapter has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// How many nodes take packets, each with one engine.
    pub nodes: u32,
    /// Its memory. Without any, its driver keeps allocations wherever it likes.
    pub memory: Option<MemoryFeatures>,
    /// How its GPU translates addresses; without, addresses are physical.
    pub mmu: Option<MmuFeatures>,
    /// What its driver does besides taking packets.
    pub scheduling: SchedulingFeatures,
}

/// What a driver does besides taking packets (`DXGK_VIDSCHCAPS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SchedulingFeatures {
    /// It takes packets back when asked (`PreemptionAware`).
    pub preempts: bool,
    /// It frees what a packet has that never reached the hardware (`CancelCommandAware`).
    pub cancels: bool,
    /// It resets one engine and leaves the others alone (`SupportPerEngineTDR`).
    pub resets_engines: bool,
    /// Its GPU writes fences of 32 bits (`No64BitAtomics`).
    pub narrow: bool,
}

/// What a client asks of a new context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextOrder {
    /// Which node.
    pub node: u32,
    /// Which engine of the node, as a bit.
    pub engine: u32,
    /// It is the system's own: paging commands run in its address space (`SystemContext`).
    pub system: bool,
    /// The client's private data.
    pub private: Vec<u8>,
}

/// A standard allocation: described by the kernel, the private data by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standard {
    /// How many bytes the surface has.
    pub bytes: u64,
    /// `None`: only say how many bytes each private data will have, in these numbers.
    /// `Some`: fill them in.
    pub private: Option<StandardPrivate>,
    /// The size of the allocation's private data.
    pub allocation_size: u32,
    /// The size of the resource's private data.
    pub resource_size: u32,
}

/// The private data a driver gives a standard allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardPrivate {
    /// The allocation's.
    pub allocation: Vec<u8>,
    /// The resource's.
    pub resource: Vec<u8>,
}

/// What one call creates.
pub struct Births<'a> {
    /// The allocations, in the client's order.
    pub allocations: Vec<Birth<'a>>,
    /// The resource they belong to, if any.
    pub resource: Option<Home<'a>>,
    /// The resource's private data; the driver may edit it.
    pub private: &'a mut Vec<u8>,
}

/// One allocation to describe.
pub struct Birth<'a> {
    /// Its private data; the driver may edit it, not change its length.
    pub private: &'a mut Vec<u8>,
    /// Whether it is to be shown on a display. WINDOWS: a driver knows it from its private data
    /// only; the kernel knows it from the client.
    pub primary: bool,
    /// Where its word goes.
    pub word: Blank<'a, Allocation>,
}

/// The resource that new allocations belong to.
pub enum Home<'a> {
    /// A new one: its word goes here.
    New(Blank<'a, Resource>),
    /// One the driver knows: its word is lent, with a blank to change it.
    Known(&'a DriverResource, Blank<'a, Resource>),
}

/// What a driver described.
pub struct Born {
    /// Each allocation: its word and its shape.
    pub allocations: Vec<(DriverAllocation, Shape)>,
    /// The resource's word: of a new one, or where a known one's changed.
    pub resource: Option<DriverResource>,
}

/// What a driver says of an allocation (`DXGK_ALLOCATIONINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How many bytes it has.
    pub size: u64,
    /// How its memory is aligned; zero is a page.
    pub alignment: u64,
    /// How many bytes it has in a segment that aligns pitches; zero is "the same".
    pub pitch_aligned_size: u64,
    /// Where it should be, on an adapter with memory.
    pub wants: Wants,
}

/// What a primary looks like (`DXGKARG_DESCRIBEALLOCATION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// How many pixels a row has.
    pub width: u32,
    /// How many rows.
    pub height: u32,
    /// The format of a pixel: a number the kernel only passes on, zero if it is not known.
    pub format: i32,
}

/// What one call destroys: members of one resource, or an allocation on its own.
pub struct Doomed<'a> {
    /// The allocations. Their tokens move into the call.
    pub allocations: Drain<'a, DriverAllocation>,
    /// What becomes of their resource, if they have one.
    pub resource: Option<Fate<'a>>,
}

/// What becomes of a resource when members of it are destroyed.
pub enum Fate<'a> {
    /// It stays: its word is lent, with a blank to change it.
    Stays(&'a DriverResource, Blank<'a, Resource>),
    /// It goes with the last of them. There is no blank, so no word can come back.
    Goes(DriverResource),
}

/// What one call opens for a device.
pub struct Opening<'a> {
    /// The device.
    pub device: &'a DriverDevice,
    /// Each allocation, in order.
    pub views: Vec<ViewBirth<'a>>,
    /// Whether this is part of the create call.
    pub create: bool,
    /// The resource's private data.
    pub private: &'a [u8],
}

/// One view to open.
pub struct ViewBirth<'a> {
    /// The client's name for it, which the driver may use in callbacks at once.
    pub handle: Handle,
    /// The allocation's private data; edits count only in a create call.
    pub private: &'a mut Vec<u8>,
    /// Where its word goes.
    pub word: Blank<'a, View>,
}

/// A client's private data, for the driver to answer.
pub struct Escape<'a> {
    /// The device it is about, if it is about one.
    pub device: Option<&'a DriverDevice>,
    /// The context it is about, if it is about one.
    pub context: Option<&'a DriverContext>,
    /// Whether the driver has the adapter to itself, idle: it may touch its hardware
    /// (`HardwareAccess`).
    pub hardware: bool,
    /// The client's flags: a number the kernel only passes on.
    pub flags: u32,
    /// The data; the driver may edit it, not change its length.
    pub private: &'a mut Vec<u8>,
}

/// A packet on its way to the hardware.
#[derive(Clone, Copy)]
pub struct Submission<'a> {
    /// The context it belongs to.
    pub context: &'a DriverContext,
    /// The node it goes to.
    pub node: u32,
    /// Its number there.
    pub fence: Fence,
    /// Where the commands are, in the client's GPU addresses.
    pub commands: u64,
    /// How many bytes of them.
    pub length: u32,
    /// The client's private data.
    pub private: &'a [u8],
}

/// A packet that will never go to the hardware.
#[derive(Clone, Copy)]
pub struct Cancelled<'a> {
    /// The context it belongs to.
    pub context: &'a DriverContext,
    /// Where the commands are, in the client's GPU addresses.
    pub commands: u64,
    /// How many bytes of them.
    pub length: u32,
    /// The client's private data.
    pub private: &'a [u8],
}

/// Why a driver is asked for what it knows (`DXGKARG_COLLECTDBGINFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectReason {
    /// The GPU does not move, and will be reset.
    Recovers,
    /// It does not move, and the system stops.
    Fails,
    /// The system stops for another reason.
    Crash,
}

/// The driver's word for an allocation (`hAllocation`).
pub type DriverAllocation = Token<Allocation>;
/// The driver's word for a resource (`hResource`).
pub type DriverResource = Token<Resource>;
/// The driver's word for a device (`hDevice`).
pub type DriverDevice = Token<Device>;
/// The driver's word for a context (`hContext`).
pub type DriverContext = Token<Context>;
/// The driver's word for a view (`hDeviceSpecificAllocation`).
pub type DriverView = Token<View>;

/// The driver's word for a process (`hKmdProcess`).
pub type DriverProcess = Token<Space>;

/// What a driver calls a `T`. Only a [`Blank`] makes one.
///
/// Not `Clone`: to destroy is to move it, so to destroy twice does not compile. Not
/// `Debug`: pointers do not repeat, so events number a word at first sight.
#[must_use = "a dropped token leaks inside the driver"]
pub struct Token<T>(usize, PhantomData<fn() -> T>);

/// The right to give one word, in this call. Only the kernel makes one.
pub struct Blank<'a, T>(Handle, PhantomData<&'a ()>, PhantomData<fn() -> T>);

impl<T> Token<T> {
    /// The word, for the driver it came from.
    pub fn word(&self) -> usize {
        self.0
    }
}

impl<T> Blank<'_, T> {
    pub(crate) fn new() -> Self {
        Self::named(Handle(0))
    }

    pub(crate) fn named(kernel: Handle) -> Self {
        Self(kernel, PhantomData, PhantomData)
    }

    /// What the kernel calls it (`hDevice` and `hContext` on the way in): for callbacks. Zero
    /// where it has no such name.
    pub fn kernel_name(&self) -> usize {
        self.0.0 as usize
    }

    /// Gives the word.
    pub fn fill(self, word: usize) -> Token<T> {
        Token(word, PhantomData)
    }
}

/// What a driver answers.
pub type Answer<T> = Result<T, Refusal>;

/// Why a driver did not do as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has no entry for this.
    Absent,
    /// It was given something it cannot take.
    Invalid,
    /// It ran out of memory.
    NoMemory,
    /// It was given data of another version of itself.
    Mismatch,
    /// Something it needs is in use.
    Busy,
    /// The buffer is full: it goes on with the next one.
    NoRoom,
    /// A handle it looked up was not there.
    NoHandle,
    /// It does not do such things.
    Unsupported,
    /// It does not do that to this.
    Unimplemented,
    /// It does not do that for this client.
    Privileged,
    /// It was given a command it does not know.
    Illegal,
    /// The client's memory is not there, or not as it should be.
    UserMemory,
    /// It wants nothing to do with this adapter (`DxgkDdiAddDevice` without a context).
    Declined,
    /// It panicked.
    Crashed,
    /// A number that the kernel only passes on.
    Other(u32),
}

impl Refusal {
    /// Its name in events.
    pub fn name(self) -> flight::Text {
        match self {
            Refusal::Absent => "absent".into(),
            Refusal::Invalid => "invalid".into(),
            Refusal::NoMemory => "no-memory".into(),
            Refusal::Mismatch => "mismatch".into(),
            Refusal::Busy => "busy".into(),
            Refusal::NoRoom => "no-room".into(),
            Refusal::NoHandle => "no-handle".into(),
            Refusal::Unsupported => "unsupported".into(),
            Refusal::Unimplemented => "not-implemented".into(),
            Refusal::Privileged => "privileged".into(),
            Refusal::Illegal => "illegal".into(),
            Refusal::UserMemory => "user-memory".into(),
            Refusal::Declined => "declined".into(),
            Refusal::Crashed => "crashed".into(),
            Refusal::Other(number) => format!("{number:#010x}").into(),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Refusal::Absent => "the driver has no such entry point",
            Refusal::Invalid => "the driver found a parameter invalid",
            Refusal::NoMemory => "the driver ran out of memory",
            Refusal::Mismatch => "the driver was given data of another version of itself",
            Refusal::Busy => "the driver needs something that is in use",
            Refusal::NoRoom => "the driver's buffer is full",
            Refusal::NoHandle => "the driver looked up a handle that was not there",
            Refusal::Unsupported => "the driver does not support this",
            Refusal::Unimplemented => "the driver has not implemented this",
            Refusal::Privileged => "the driver does not do this for this client",
            Refusal::Illegal => "the driver was given an unknown command",
            Refusal::UserMemory => "the client's memory is not accessible",
            Refusal::Declined => "the driver does not support this adapter",
            Refusal::Crashed => "the driver crashed",
            Refusal::Other(status) => return write!(f, "the driver returned {status:#010x}"),
        };
        f.write_str(text)
    }
}

impl std::error::Error for Refusal {}
