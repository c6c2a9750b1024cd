//! Address ranges of a process that its driver reserves for itself.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{DriverError, DriverResult};
use crate::ddi::mmu::ReserveAddressArgs;
use crate::kernel::Kernel;
use crate::memory::address::AddressSpace;
use crate::memory::address::ranges::{AddressBounds, Backing, RangeState};
use crate::memory::address::subject;
use crate::state::KernelState;
use flight::{Component, EventKind, Passive, RuleId};

const ARGUMENT: &str = "DxgkCbReserveGpuVirtualAddressRange";

impl Kernel {
    /// Reserves addresses of a process for its driver (`DxgkCbReserveGpuVirtualAddressRange`).
    ///
    /// WINDOWS: the failures are not documented; an invalid argument is an invalid parameter (our
    /// decision).
    pub(crate) fn reserve_range(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        args: &ReserveAddressArgs,
    ) -> DriverResult<u64> {
        let state = &mut *self.state.lock();
        let found = state.find_driver_process(adapter, args.process);
        let broken = found.as_ref().err().cloned();
        self.log.judge(
            RuleId::KMD_PROC_003,
            Component::Driver,
            adapter.subject(),
            ARGUMENT,
            broken,
        );
        let number = found.map_err(|_| DriverError::Invalid)?;
        let broken = state.misaligned_range(adapter, args);
        let error = broken.is_some();
        self.log.judge(
            RuleId::KMD_PROC_004,
            Component::Driver,
            adapter.subject(),
            ARGUMENT,
            broken,
        );
        if error {
            return Err(DriverError::Invalid);
        }
        let minimum = state.first_for_driver(adapter, number);
        let it = &mut state.memory.spaces[number];
        let start = if args.base == 0 {
            let bounds = AddressBounds { minimum, maximum: 0, alignment: args.alignment };
            it.addresses.find(args.bytes, bounds).ok_or(DriverError::NoMemory)?
        } else {
            // All memory is mapped in the system's space, from its start.
            let own = it.process.is_none() && args.base < minimum;
            let span = args.base..args.base.saturating_add(args.bytes);
            if own || it.addresses.state_of(&span) != RangeState::Free {
                return Err(DriverError::Invalid);
            }
            args.base
        };
        it.addresses.reserve_for_driver(start..start + args.bytes, args.client_visible);
        Ok(start)
    }

    /// Logs the ranges that a driver has reserved in a new space.
    pub(crate) fn log_driver_ranges(&self, state: &KernelState, number: Id<AddressSpace>) {
        let it = &state.memory.spaces[number];
        for (span, range) in it.addresses.all() {
            let shown = range.backing == Backing::Reserved;
            let (start, end) = (span.start, span.end);
            self.log.emit(subject(number), || EventKind::RangeDriverReserved {
                start,
                end,
                client_visible: shown,
            });
        }
    }
}

impl KernelState {
    /// The space of the process whose create call is running.
    fn find_driver_process(
        &self,
        adapter: Id<Adapter>,
        name: usize,
    ) -> Result<Id<AddressSpace>, String> {
        let Some(number) = self.find_by_kernel_handle::<AddressSpace>(name) else {
            return Err(format!(
                "addresses are reserved for process {}, but no DxgkDdiCreateProcess call of the \
                 driver of {adapter} is running for it",
                self.describe_kernel_handle(name)
            ));
        };
        let it = &self.memory.spaces[number];
        let whose =
            it.process.map_or("the system".to_owned(), |process| process.subject().to_string());
        if it.adapter != adapter {
            return Err(format!("addresses of {whose} are reserved on another adapter"));
        }
        if !it.creating_process {
            return Err(format!(
                "addresses of {whose} are reserved outside of its DxgkDdiCreateProcess call"
            ));
        }
        Ok(number)
    }

    /// What is wrong with the size, alignment or base of a request.
    fn misaligned_range(&self, adapter: Id<Adapter>, args: &ReserveAddressArgs) -> Option<String> {
        let leaf = self.mmu(adapter)?.geometry.leaf_span();
        let ReserveAddressArgs { bytes, alignment, base, .. } = *args;
        // WINDOWS: with a base, a zero alignment means none (our reading).
        let aligns = alignment != 0 || base == 0;
        if bytes == 0 || !bytes.is_multiple_of(leaf) {
            Some(format!("SizeInBytes is {bytes:#x}, which is no multiple of {leaf:#x}"))
        } else if !base.is_multiple_of(leaf) {
            Some(format!("BaseAddress is {base:#x}, which is no multiple of {leaf:#x}"))
        } else if aligns && (!alignment.is_multiple_of(leaf) || !alignment.is_power_of_two()) {
            Some(format!(
                "Alignment is {alignment:#x}, which is no power of two that is a multiple of \
                 {leaf:#x}"
            ))
        } else {
            None
        }
        .map(|text| format!("{text}, the range of one leaf page table"))
    }

    /// The first address that a driver may reserve in a space.
    ///
    /// WINDOWS: driver ranges begin with the second entry of the root (documented).
    fn first_for_driver(&self, adapter: Id<Adapter>, space: Id<AddressSpace>) -> u64 {
        // A driver may call this for an adapter without an MMU.
        let Some(memory) = self.adapter_memory(adapter) else { return 0 };
        let Some(mmu) = memory.mmu.as_ref() else { return 0 };
        let below = mmu.geometry.top().saturating_sub(1);
        let second = mmu.geometry.span(below, 1).start;
        if self.memory.spaces.get(space).is_none_or(|address_space| address_space.process.is_some())
        {
            return second;
        }
        let ends = mmu.linear.iter().zip(&memory.segments);
        let ends = ends.filter_map(|(start, it)| Some((*start)?.saturating_add(it.info.size)));
        second.max(ends.max().unwrap_or(0))
    }
}

impl KernelCallbacks {
    /// Reserves addresses of a process for the driver, while `DxgkDdiCreateProcess` runs for that
    /// process (`DxgkCbReserveGpuVirtualAddressRange`). Returns the first address.
    pub fn reserve_range(&self, at: &mut Passive, args: &ReserveAddressArgs) -> DriverResult<u64> {
        let kernel = self.kernel.upgrade().ok_or(DriverError::Invalid)?;
        kernel.reserve_range(at, self.adapter, args)
    }
}
