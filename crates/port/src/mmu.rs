//! GPU virtual addresses: the driver's description of its page tables, processes, root page tables,
//! and the CPU's window.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::private_data::{PrivateData, pointer};
use crate::shown::{self, ShownList};
use crate::status::result_from_status;
use crate::system_handle::HandleKind;
use abi::display::{
    DXGK_CREATEPROCESSFLAGS as ProcessFlags, DXGK_DRIVERCAPS, DXGK_GPUMMUCAPS,
    DXGK_GPUMMUCAPS_FLAGS as Flags, DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
    DXGK_PAGETABLEUPDATE_GPU_VIRTUAL, DXGK_QUERYGPUMMUCAPSIN, DXGK_QUERYPAGETABLELEVELDESCIN,
    DXGK_VIDMMCAPS_FLAGS as Memory, DXGKARG_CREATEPROCESS, DXGKARG_GETROOTPAGETABLESIZE,
    DXGKARG_MAPCPUHOSTAPERTURE, DXGKARG_SETROOTPAGETABLE, DXGKARG_UNMAPCPUHOSTAPERTURE,
    DXGKQAITYPE_GPUMMUCAPS, DXGKQAITYPE_PAGETABLELEVELDESC,
};
use abi::ukm::D3DGPU_PHYSICAL_ADDRESS;
use kernel::address::AddressSpace;
use kernel::miniport::{DriverContext, DriverError, DriverProcess, DriverResult, HandleSlot};
use kernel::mmu::{
    CreateProcessArgs, MapHostApertureArgs, MmuFeatures, Root, RootSize, TableLevel, UpdateMode,
};
use std::ptr;

/// The maximum number of levels that is plausible.
const MAX_LEVELS: u32 = 8;

impl TableDriver {
    /// How the adapter translates addresses, if the driver reports that it does.
    ///
    /// WINDOWS: type 13, then type 14 for each level (observed). A driver that reports it and fails
    /// both queries is flown without.
    pub(crate) fn query_mmu(
        &self,
        adapter: &Adapter,
        caps: &DXGK_DRIVERCAPS,
    ) -> DriverResult<Option<MmuFeatures>> {
        if !caps.MemoryManagementCaps.Flags.has(Memory::GpuMmuSupported) {
            return Ok(None);
        }
        let input = DXGK_QUERYGPUMMUCAPSIN { PhysicalAdapterIndex: 0 };
        let mut input = ShownList::new(vec![input]);
        let mut out = PrivateData::zeroed_for::<DXGK_GPUMMUCAPS>()?;
        let at = (input.pointer().cast(), 4);
        let status = self.call_query_adapter_info(adapter, DXGKQAITYPE_GPUMMUCAPS, at, &mut out)?;
        if result_from_status(status).is_err() {
            return Ok(None);
        }
        // SAFETY: Any bytes are valid capabilities.
        let caps = unsafe { out.prefix(DXGK_GPUMMUCAPS::ZERO) };
        if caps.PageTableLevelCount > MAX_LEVELS {
            return Err(DriverError::Invalid);
        }
        let mut levels = Vec::new();
        for level in 0..caps.PageTableLevelCount {
            let level = u16::try_from(level).map_err(|_| DriverError::Invalid)?;
            let input =
                DXGK_QUERYPAGETABLELEVELDESCIN { LevelIndex: level, PhysicalAdapterIndex: 0 };
            let mut input = ShownList::new(vec![input]);
            let mut out = PrivateData::zeroed_for::<DXGK_PAGE_TABLE_LEVEL_DESC>()?;
            let at = (input.pointer().cast(), 4);
            result_from_status(self.call_query_adapter_info(
                adapter,
                DXGKQAITYPE_PAGETABLELEVELDESC,
                at,
                &mut out,
            )?)?;
            // SAFETY: Any bytes are a valid description.
            let table = unsafe { out.prefix(DXGK_PAGE_TABLE_LEVEL_DESC::ZERO) };
            levels.push(TableLevel {
                index_bits: table.PageTableIndexBitCount,
                segment: table.PageTableSegmentId,
                system_segment: table.PagingProcessPageTableSegmentId,
                bytes: table.PageTableSizeInBytes,
                alignment: table.PageTableAlignmentInBytes,
            });
        }
        Ok(Some(MmuFeatures {
            address_bits: caps.VirtualAddressBitCount,
            levels,
            mode: match caps.PageTableUpdateMode {
                DXGK_PAGETABLEUPDATE_CPU_VIRTUAL => UpdateMode::Cpu,
                DXGK_PAGETABLEUPDATE_GPU_VIRTUAL => UpdateMode::Virtual,
                _ => UpdateMode::Physical,
            },
            read_only: caps.Flags.has(Flags::ReadOnlyMemorySupported),
            no_execute: caps.Flags.has(Flags::NoExecuteMemorySupported),
            zero: caps.Flags.has(Flags::ZeroInPteSupported),
            invalidates: caps.Flags.has(Flags::ExplicitPageTableInvalidation),
        }))
    }

    pub(crate) fn call_create_process(
        &self,
        process_args: CreateProcessArgs,
        slot: HandleSlot<'_, AddressSpace>,
    ) -> DriverResult<DriverProcess> {
        let call = self.table.DxgkDdiCreateProcess.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let system = if process_args.system { ProcessFlags::SystemProcess } else { 0 };
        let mut args = DXGKARG_CREATEPROCESS {
            hDxgkProcess: HandleKind::Process.handle(slot.kernel_handle()),
            Flags: ProcessFlags { Value: system },
            ..DXGKARG_CREATEPROCESS::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args`
                // outlives the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)?;
        Ok(slot.fill(args.hKmdProcess.expose_provenance()))
    }

    pub(crate) fn call_destroy_process(&self, process: &DriverProcess) -> DriverResult<()> {
        let call = self.table.DxgkDdiDestroyProcess.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let status = self.run_driver(&door, || {
            // SAFETY: By invariants 1 and 2 the function and `context` are valid; the handle is the
            // driver's own.
            unsafe { call(pointer(context), pointer(process.as_raw())) }
        });
        result_from_status(status)
    }

    pub(crate) fn call_get_root_page_table_size(&self, entries: u32) -> DriverResult<RootSize> {
        let call = self.table.DxgkDdiGetRootPageTableSize.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut args =
            DXGKARG_GETROOTPAGETABLESIZE { NumberOfPte: entries, PhysicalAdapterIndex: 0 };

        let bytes = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args`
                // outlives the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        Ok(RootSize { entries: args.NumberOfPte, bytes: bytes as u64 })
    }

    pub(crate) fn call_set_root_page_table(
        &self,
        of: &DriverContext,
        root: Root,
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiSetRootPageTable.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let args = DXGKARG_SETROOTPAGETABLE {
            hContext: pointer(of.as_raw()),
            Address: segment_address(root.segment, root.offset),
            NumEntries: root.entries,
        };

        self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args`
                // outlives the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            });
        });
        Ok(())
    }

    pub(crate) fn call_map_cpu_host_aperture(
        &self,
        map: &MapHostApertureArgs<'_>,
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiMapCpuHostAperture.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut window = page_numbers(map.window)?;
        let mut memory = map.memory.to_vec();
        let args = DXGKARG_MAPCPUHOSTAPERTURE {
            hAllocation: map.driver_handle.map_or(ptr::null_mut(), pointer),
            SegmentId: u16::try_from(map.segment).map_err(|_| DriverError::Invalid)?,
            PhysicalAdapterIndex: 0,
            NumberOfPages: window.len().min(memory.len()) as u64,
            pCpuHostAperturePages: window.as_mut_ptr(),
            pMemorySegmentPages: memory.as_mut_ptr(),
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)
    }

    pub(crate) fn call_unmap_cpu_host_aperture(
        &self,
        segment: u32,
        window: &[u64],
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiUnmapCpuHostAperture.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut window = page_numbers(window)?;
        let args = DXGKARG_UNMAPCPUHOSTAPERTURE {
            NumberOfPages: window.len() as u64,
            pCpuHostAperturePages: window.as_mut_ptr(),
            SegmentId: u16::try_from(segment).map_err(|_| DriverError::Invalid)?,
            PhysicalAdapterIndex: 0,
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: As above.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)
    }
}

/// A location in a segment, relative to the segment's base.
pub(crate) fn segment_address(segment: u32, offset: u64) -> D3DGPU_PHYSICAL_ADDRESS {
    D3DGPU_PHYSICAL_ADDRESS {
        SegmentId: segment,
        SegmentOffset: offset,
        ..D3DGPU_PHYSICAL_ADDRESS::ZERO
    }
}

/// The page numbers of a window, which have 32 bits on Windows.
fn page_numbers(window: &[u64]) -> DriverResult<Vec<u32>> {
    window.iter().map(|value| u32::try_from(*value).map_err(|_| DriverError::Invalid)).collect()
}
