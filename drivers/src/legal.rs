//! Drivers with legal but unusual behaviour. Tests fly them and expect no finding.
//!
//! Each function sets up one: a good driver with one thing changed, or on unusual hardware.

use crate::allocation_lists::ALLOCATION_LISTS;
use crate::board::Board;
use crate::free_list::REUSES_VIEWS;
use crate::memory::{MEMORY, WITH_BOARD_FLAGS};
use crate::setup;
use crate::table::{GOOD, MINIMAL};
use flight::{DeviceLevel, Dispatch, Log, Passive};
use kernel::DriverSetup;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, CreateContextArgs, DriverContext, DriverDevice,
    DriverError, DriverResource, DriverResult, EscapeArgs, Features, HandleSlot, Miniport,
    OpenAllocationArgs,
};
use kernel::render_args::RenderArgs;
use kernel::segment::{SegmentFlags, SegmentPreference, SegmentSet};
use softgpu::{APERTURE, LOCAL, MemoryPlan, MmuPlan, SoftGpu, VISIBLE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// What is unusual about a driver. A function pointer changes what the inner driver returned.
#[derive(Clone, Copy)]
struct Quirk {
    features: fn(&mut Features),
    allocation: fn(&mut AllocationInfo),
    /// The call that fails now and then, with its legal status.
    fails: Option<(Call, DriverError)>,
    /// The interrupt routine looks at its hardware this often.
    interrupts: u32,
    /// The DPC notifies the kernel this often.
    dpcs: u32,
}

const NONE: Quirk =
    Quirk { features: |_| (), allocation: |_| (), fails: None, interrupts: 1, dpcs: 1 };

/// A call that may fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    CreateDevice,
    CreateContext,
    CreateAllocation,
    OpenAllocation,
    Escape,
    QueryUmdPrivate,
    Render,
}

/// Every call of this number fails.
const EVERY: u32 = 5;

/// A good driver with one thing changed.
struct UnusualDriver {
    inner: Arc<dyn Miniport>,
    quirk: Quirk,
    calls: AtomicU32,
}

impl UnusualDriver {
    /// Fails if this is the call's turn.
    fn may_fail(&self, call: Call) -> DriverResult<()> {
        match self.quirk.fails {
            Some((failing, why)) if failing == call => {
                let turn = self.calls.fetch_add(1, SeqCst) + 1;
                if turn.is_multiple_of(EVERY) { Err(why) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

impl Miniport for UnusualDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        let mut features = self.inner.query_adapter_info(at)?;
        (self.quirk.features)(&mut features);
        Ok(features)
    }

    fn query_umd_private(&self, at: &mut Passive, data: &mut [u8]) -> DriverResult<()> {
        self.may_fail(Call::QueryUmdPrivate)?;
        self.inner.query_umd_private(at, data)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        self.may_fail(Call::CreateDevice)?;
        self.inner.create_device(at, slot)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.may_fail(Call::CreateContext)?;
        self.inner.create_context(at, device, args, slot)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.may_fail(Call::CreateAllocation)?;
        let resource = self.inner.create_allocations(at, args)?;
        args.allocations.iter_mut().for_each(|new| (self.quirk.allocation)(&mut new.info));
        Ok(resource)
    }

    fn open_allocations(
        &self,
        at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        self.may_fail(Call::OpenAllocation)?;
        self.inner.open_allocations(at, args)
    }

    fn escape(&self, at: &mut Passive, args: EscapeArgs<'_>) -> DriverResult<()> {
        self.may_fail(Call::Escape)?;
        self.inner.escape(at, args)
    }

    fn render(&self, at: &mut Passive, args: &mut RenderArgs<'_>) -> DriverResult<()> {
        self.may_fail(Call::Render)?;
        self.inner.render(at, args)
    }

    fn interrupt_routine(&self, at: &mut DeviceLevel) -> DriverResult<bool> {
        let mut ours = false;
        for _ in 0..self.quirk.interrupts {
            ours |= self.inner.interrupt_routine(at)?;
        }
        Ok(ours)
    }

    fn dpc_routine(&self, at: &mut Dispatch) -> DriverResult<()> {
        (0..self.quirk.dpcs).try_for_each(|_| self.inner.dpc_routine(at))
    }
}

/// Changes a driver.
fn with(base: DriverSetup, quirk: Quirk) -> DriverSetup {
    let inner = base.miniport.clone();
    let miniport = Arc::new(UnusualDriver { inner, quirk, calls: AtomicU32::new(0) });
    DriverSetup { miniport, ..base }
}

/// The built-in driver with memory, whose description of each allocation is changed.
fn with_allocation(allocation: fn(&mut AllocationInfo), log: &Arc<Log>) -> DriverSetup {
    with(setup::softgpu_memory(log), Quirk { allocation, ..NONE })
}

/// The built-in driver with memory, whose description of its segments is changed.
fn with_features(features: fn(&mut Features), log: &Arc<Log>) -> DriverSetup {
    with(setup::softgpu_memory(log), Quirk { features, ..NONE })
}

/// The flags of a segment of an adapter with memory.
fn segment_flags(features: &mut Features, segment: u32) -> Option<&mut SegmentFlags> {
    let segments = &mut features.memory.as_mut()?.segments;
    Some(&mut segments.get_mut(segment as usize - 1)?.flags)
}

macro_rules! unusual {
    ($($(#[$doc:meta])* $name:ident($log:ident) $make:expr;)*) => {
        $($(#[$doc])* pub fn $name($log: &Arc<Log>) -> DriverSetup { $make })*
    };
}

unusual! {
    /// Has only the entry points that every driver needs.
    minimal(log) setup::table(&MINIMAL, log);
    /// The interrupt routine looks at its hardware twice.
    looks_twice_in_isr(log) with(setup::softgpu_memory(log), Quirk { interrupts: 2, ..NONE });
    /// The interrupt routine of a table driver looks at its hardware three times.
    table_looks_thrice_in_isr(log)
        with(setup::table_memory(&MEMORY, log), Quirk { interrupts: 3, ..NONE });
    /// The DPC calls `DxgkCbNotifyDpc` twice.
    notifies_dpc_twice(log) with(setup::table(&GOOD, log), Quirk { dpcs: 2, ..NONE });
    /// `DxgkDdiCreateAllocation` has no memory now and then.
    create_no_memory(log) with(
        setup::softgpu_memory(log),
        Quirk { fails: Some((Call::CreateAllocation, DriverError::NoMemory)), ..NONE },
    );
    /// `DxgkDdiCreateAllocation` rejects private data as that of another version.
    create_mismatch(log) with(
        setup::table(&GOOD, log),
        Quirk { fails: Some((Call::CreateAllocation, DriverError::Mismatch)), ..NONE },
    );
    /// `DxgkDdiOpenAllocation` has no memory now and then.
    open_no_memory(log) with(
        setup::table_memory(&MEMORY, log),
        Quirk { fails: Some((Call::OpenAllocation, DriverError::NoMemory)), ..NONE },
    );
    /// `DxgkDdiCreateDevice` has no memory now and then.
    device_no_memory(log) with(
        setup::softgpu_memory(log),
        Quirk { fails: Some((Call::CreateDevice, DriverError::NoMemory)), ..NONE },
    );
    /// `DxgkDdiCreateContext` has no memory now and then.
    context_no_memory(log) with(
        setup::softgpu_memory(log),
        Quirk { fails: Some((Call::CreateContext, DriverError::NoMemory)), ..NONE },
    );
    /// `DxgkDdiEscape` rejects privileged requests.
    escape_privileged(log) with(
        setup::softgpu_memory(log),
        Quirk { fails: Some((Call::Escape, DriverError::Privileged)), ..NONE },
    );
    /// A query of the user-mode driver is not supported.
    umd_query_unsupported(log) with(
        setup::softgpu(log),
        Quirk { fails: Some((Call::QueryUmdPrivate, DriverError::Unsupported)), ..NONE },
    );
    /// `DxgkDdiRender` rejects an illegal instruction now and then.
    render_illegal(log) with(
        setup::softgpu_allocation_lists(log),
        Quirk { fails: Some((Call::Render, DriverError::Illegal)), ..NONE },
    );
    /// Keeps the structures of closed views on a free list.
    view_free_list(log) setup::table(&REUSES_VIEWS, log);
    /// Contexts with allocation lists whose DMA buffers are in no segment.
    no_dma_buffer_segment(log) setup::table_memory(&ALLOCATION_LISTS, log);

    /// Alignments of 64 KiB.
    aligns_to_64k(log) with_allocation(|info| info.alignment = 64 << 10, log);
    /// Alignments of 2 MiB.
    aligns_to_2m(log) with_allocation(|info| info.alignment = 2 << 20, log);
    /// An alignment of one byte: the kernel uses pages.
    aligns_to_a_byte(log) with_allocation(|info| info.alignment = 1, log);
    /// A `PitchAlignedSize` that is the size.
    same_pitch_size(log) with_allocation(|info| info.pitch_aligned_size = info.size, log);
    /// A `PitchAlignedSize` that is twice the size.
    double_pitch_size(log) with_allocation(|info| info.pitch_aligned_size = 2 * info.size, log);
    /// Allocations from the end of each preferred segment.
    prefers_top(log) with_allocation(|info| {
        for preference in info.requirements.preferred.iter_mut().flatten() {
            preference.from_top = true;
        }
    }, log);
    /// No preferred segment.
    prefers_nothing(log) with_allocation(|info| info.requirements.preferred = [None; 5], log);
    /// The same segment preferred five times.
    prefers_one_repeatedly(log) with_allocation(|info| {
        let first = info.requirements.segments.iter().next();
        let first = first.map(|segment| SegmentPreference { segment, from_top: false });
        info.requirements.preferred = [first; 5];
    }, log);
    /// Allocations that are evicted to the aperture.
    evicts_to_aperture(log)
        with_allocation(|info| info.requirements.evict = SegmentSet::of(&[APERTURE]), log);
    /// The lowest and the highest priority.
    lowest_priority(log) with_allocation(|info| info.requirements.priority = 1, log);
    /// The highest priority.
    highest_priority(log) with_allocation(|info| info.requirements.priority = u32::MAX, log);
    /// Allocations in the aperture only.
    aperture_only(log) with_allocation(|info| {
        info.requirements.segments = SegmentSet::of(&[APERTURE]);
        info.requirements.preferred = [None; 5];
    }, log);
    /// One instance of each allocation.
    one_instance(log) with_allocation(|info| info.requirements.instances = 1, log);

    /// An aperture whose commit limit is half its size.
    half_committed_aperture(log) with_features(|features| {
        if let Some(memory) = &mut features.memory {
            memory.segments[0].commit_limit /= 2;
        }
    }, log);
    /// An aperture whose commit limit is zero.
    uncommitted_aperture(log) with_features(|features| {
        if let Some(memory) = &mut features.memory {
            memory.segments[0].commit_limit = 0;
        }
    }, log);
    /// An aperture that is not coherent with the CPU's caches.
    incoherent_aperture(log) with_features(|features| {
        if let Some(flags) = segment_flags(features, APERTURE) {
            flags.coherent = false;
        }
    }, log);
    /// Memory whose content is preserved in standby and in hibernation.
    preserved_memory(log) with_features(|features| {
        for segment in [VISIBLE, LOCAL] {
            if let Some(flags) = segment_flags(features, segment) {
                (flags.preserved_in_standby, flags.preserved_in_hibernate) = (true, true);
            }
        }
    }, log);
    /// Memory in ascending banks.
    banked_memory(log) with_features(|features| {
        if let Some(memory) = &mut features.memory {
            let local = &mut memory.segments[LOCAL as usize - 1];
            let quarter = local.size / 4;
            local.flags.banked = true;
            local.banks = (1..4).map(|bank| bank * quarter).collect();
        }
    }, log);
    /// Memory that is carved out of system memory.
    memory_from_system(log) with_features(|features| {
        if let Some(flags) = segment_flags(features, LOCAL) {
            flags.from_system = true;
        }
    }, log);
    /// 64 KiB pages, with alignments to match.
    large_pages(log) with(setup::softgpu_memory(log), Quirk {
        features: |features| {
            if let Some(flags) = segment_flags(features, LOCAL) {
                flags.large_pages = true;
            }
        },
        allocation: |info| info.alignment = 64 << 10,
        ..NONE
    });
    /// Little memory: sixteen pages of each kind.
    small_segments(log) softgpu_with(
        MemoryPlan { visible: 16 << 12, local: 64 << 12, ..MemoryPlan::default() }, log);
    /// Paging buffers of one page.
    page_sized_paging_buffer(log)
        softgpu_with(MemoryPlan { paging_buffer: 4096, ..MemoryPlan::default() }, log);
    /// Paging work on node 0, which also executes packets.
    paging_on_node_zero(log)
        softgpu_with(MemoryPlan { paging_node: 0, ..MemoryPlan::default() }, log);
    /// Page tables of four levels.
    four_levels(log)
        setup::softgpu_gpummu(MmuPlan { levels: 4, root_bits: 1, ..MmuPlan::default() }, log);
    /// Page tables of two levels, in memory that the CPU sees.
    visible_page_tables(log)
        setup::softgpu_gpummu(MmuPlan { segment: VISIBLE, ..MmuPlan::TWO_LEVELS }, log);
}

/// The built-in driver on hardware with this memory.
fn softgpu_with(plan: MemoryPlan, log: &Arc<Log>) -> DriverSetup {
    let (miniport, machine) = SoftGpu::with_memory(setup::ram(), plan);
    DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
}

/// The table driver with memory that sets these `DXGK_ALLOCATIONINFOFLAGS_WDDM2_0` for each
/// allocation.
pub fn with_allocation_flags(flags: u32, log: &Arc<Log>) -> DriverSetup {
    let board = Board::with_memory(setup::ram(), MemoryPlan::default());
    let board = board.expect("the RAM is large enough").with_allocation_flags(flags);
    setup::table_on(board, &WITH_BOARD_FLAGS, log)
}
