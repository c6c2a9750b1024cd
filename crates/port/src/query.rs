//! Queries of a driver about its adapter (`DxgkDdiQueryAdapterInfo`): capabilities first, then
//! memory.
//!
//! All broken rules are reported, and then the start fails once (D-46).
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::caps::{CapsClaims, RULES};
use crate::display::{Adapter, TableDriver};
use crate::display_only;
use crate::door::Door;
use crate::private_data::{PrivateData, pointer};
use crate::shown;
use crate::status::result_from_status;
use crate::version::DRIVER_CAPS;
use abi::display::{
    DXGK_DRIVERCAPS_MISCCAPS, DXGK_DRIVERCAPS_WDDM2_9, DXGK_QUERYADAPTERINFOTYPE,
    DXGKARG_QUERYADAPTERINFO, DXGKDDI_INTERFACE_VERSION_WDDM2_6, DXGKQAITYPE_DRIVERCAPS,
    DXGKQAITYPE_UMDRIVERPRIVATE,
};
use abi::{NTSTATUS, PVOID};
use flight::{Component, EventKind, RuleId};
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverKind, DriverResult, Features};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The maximum number of nodes in the topology.
const MAX_NODES: u32 = 64;

/// The argument that a driver writes its result to.
const OUTPUT: &str = "DxgkDdiQueryAdapterInfo.pOutputData";

impl TableDriver {
    pub(crate) fn query_features(&self) -> DriverResult<Features> {
        let adapter = self.adapter_with_log()?;
        let services = adapter.door.services();
        let mut caps = PrivateData::zeroed(self.version.length_of(&DRIVER_CAPS))?;
        result_from_status(self.call_query_adapter_info(
            &adapter,
            DXGKQAITYPE_DRIVERCAPS,
            (ptr::null_mut(), 0),
            &mut caps,
        )?)?;
        // SAFETY: Any bytes are valid capabilities.
        let caps = unsafe { caps.prefix(DXGK_DRIVERCAPS_WDDM2_9::ZERO) };
        let compute_only = self.version.number() >= DXGKDDI_INTERFACE_VERSION_WDDM2_6
            && caps.MiscCaps.has(DXGK_DRIVERCAPS_MISCCAPS::ComputeOnly);
        self.compute_only.store(compute_only, Ordering::SeqCst);
        let caps = caps.Base;
        let claims = CapsClaims { caps: &caps, table: &self.table };
        let mut sound = true;
        for (rule, broken) in RULES {
            let place = "DxgkDdiQueryAdapterInfo.DXGK_DRIVERCAPS";
            sound &= judge(services, *rule, place, broken(&claims));
        }
        if self.kind() == DriverKind::DisplayOnly {
            let place = "DxgkDdiQueryAdapterInfo.DXGK_DRIVERCAPS";
            let broken = display_only::caps_error(&caps);
            sound &= judge(services, RuleId::GATE_CAPS_002, place, broken);
            let (place, broken) =
                ("DxgkInitializeDisplayOnlyDriver", display_only::vsync_error(&self.table));
            sound &= judge(services, RuleId::GATE_TABLE_006, place, broken);
            // It renders nothing: it has no nodes, and the kernel manages no memory of it.
            return if sound { Ok(Features::default()) } else { Err(DriverError::Invalid) };
        }
        let nodes = caps.GpuEngineTopology.NbAsymetricProcessingNodes;
        if nodes > MAX_NODES {
            sound = false;
            let name = "DXGK_DRIVERCAPS.GpuEngineTopology beyond 64 nodes".into();
            services.log().emit(services.adapter(), || EventKind::EntryMissing { name });
        }
        let memory = self.query_memory(&adapter, &caps);
        let mmu = self.query_mmu(&adapter, &caps);
        if !sound {
            return Err(DriverError::Invalid);
        }
        let scheduling = crate::caps::scheduling(&caps);
        let features = Features { nodes, memory: memory?, mmu: mmu?, scheduling };
        if let (Some(memory), Some(met)) = (&features.memory, self.adapter_slot().as_mut()) {
            met.bases = memory.segments.iter().map(|info| info.base).collect();
            met.apertures = memory.apertures();
            let levels = features.mmu.iter().flat_map(|mmu_features| &mmu_features.levels);
            met.tables = levels.map(|table_level| table_level.bytes).collect();
        }
        Ok(features)
    }

    /// Makes one query, whose input has this address and size. The driver writes the result to
    /// `out`.
    pub(crate) fn call_query_adapter_info(
        &self,
        adapter: &Adapter,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        input: (PVOID, u32),
        out: &mut PrivateData,
    ) -> DriverResult<NTSTATUS> {
        let call = self.table.DxgkDdiQueryAdapterInfo.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = adapter;
        let size = out.size();
        let args = DXGKARG_QUERYADAPTERINFO {
            Type: kind,
            pInputData: input.0,
            InputDataSize: input.1,
            pOutputData: out.pointer(),
            OutputDataSize: size,
            ..DXGKARG_QUERYADAPTERINFO::ZERO
        };

        let status = self.run_driver(door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(*context), args) }
            })
        });

        let broken =
            out.written_outside().map(|text| format!("OutputDataSize is {size}, but {text}"));
        // The overrun is reported, and the flight continues: only the guard was overwritten.
        judge(door.services(), RuleId::KMD_CAPS_008, OUTPUT, broken);
        Ok(status)
    }

    /// Makes a query for user mode.
    ///
    /// WINDOWS: there are a proprietary input and a proprietary output (documented), and user mode
    /// has one buffer for both. Each is a copy of that one (our decision), so a driver reads the
    /// client's data in either.
    pub(crate) fn call_query_umd_private(&self, data: &mut [u8]) -> DriverResult<()> {
        let call = self.table.DxgkDdiQueryAdapterInfo.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let mut input = PrivateData::copy(data)?;
        let mut checks = QueryChecks { door: door.clone(), output: PrivateData::output(data)? };
        let args = DXGKARG_QUERYADAPTERINFO {
            Type: DXGKQAITYPE_UMDRIVERPRIVATE,
            pInputData: input.pointer(),
            InputDataSize: input.size(),
            pOutputData: checks.output.pointer(),
            OutputDataSize: checks.output.size(),
            ..DXGKARG_QUERYADAPTERINFO::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // both copies outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)?;
        data.copy_from_slice(&checks.output.bytes());
        Ok(())
    }
}

/// Entry rule, judged after a query for user mode: the driver validates the client's bytes, and
/// does not write beyond the buffer.
///
/// The cause of a crash is unknown, so a crash is attributed to unvalidated bytes.
struct QueryChecks {
    door: Arc<Door>,
    output: PrivateData,
}

impl Drop for QueryChecks {
    fn drop(&mut self) {
        let size = self.output.size();
        let broken = if std::thread::panicking() {
            Some(format!(
                "the driver crashed in a query from user mode with {size} bytes: a client can \
                 send any bytes, and the driver must check them"
            ))
        } else {
            let written = self.output.written_outside();
            written.map(|text| format!("OutputDataSize is {size}, but {text}"))
        };
        judge(self.door.services(), RuleId::KMD_CAPS_008, OUTPUT, broken);
    }
}

/// Judges an entry rule, and returns whether it holds.
pub(crate) fn judge(
    services: &KernelCallbacks,
    rule: RuleId,
    place: &'static str,
    broken: Option<String>,
) -> bool {
    let kept = broken.is_none();
    services.log().judge(rule, Component::Driver, services.adapter(), place, broken);
    kept
}
