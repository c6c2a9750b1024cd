//! What a driver is asked about its adapter (`DxgkDdiQueryAdapterInfo`): what it can do, then
//! what memory it has.
//!
//! All that is crooked is said, and then the start is refused once (D-46).
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::caps::{Claims, RULES};
use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::private::{Private, pointer};
use crate::status::answer;
use abi::display::{
    DXGK_DRIVERCAPS, DXGK_QUERYADAPTERINFOTYPE, DXGKARG_QUERYADAPTERINFO, DXGKQAITYPE_DRIVERCAPS,
    DXGKQAITYPE_UMDRIVERPRIVATE,
};
use abi::{NTSTATUS, PVOID};
use flight::{RuleId, What, Who};
use kernel::miniport::{Answer, Features, Refusal};
use kernel::services::Services;
use std::ptr;
use std::sync::Arc;

/// How many nodes the topology has room for.
const MOST_NODES: u32 = 64;

/// Where a driver answers.
const OUTPUT: &str = "DxgkDdiQueryAdapterInfo.pOutputData";

/// What a byte of the guard is.
const MARK: u8 = 0xfd;

/// A structure that a driver fills in, and a guard behind it.
#[repr(C)]
pub(crate) struct Guarded<T> {
    pub(crate) value: T,
    guard: [u8; 64],
}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, guard: [MARK; 64] }
    }

    /// How far behind the structure the driver has written, if it has.
    fn overrun(&self) -> Option<usize> {
        self.guard.iter().rposition(|it| *it != MARK).map(|last| last + 1)
    }
}

impl TableDriver {
    pub(crate) fn query(&self) -> Answer<Features> {
        let adapter = self.told()?;
        let services = adapter.door.services();
        let mut caps = Guarded::new(DXGK_DRIVERCAPS::ZERO);
        answer(self.ask(&adapter, DXGKQAITYPE_DRIVERCAPS, ptr::null_mut(), 0, &mut caps)?)?;
        let caps = caps.value;
        let claims = Claims { caps: &caps, table: &self.table };
        let mut sound = true;
        for (rule, broken) in RULES {
            let place = "DxgkDdiQueryAdapterInfo.DXGK_DRIVERCAPS";
            sound &= judge(services, *rule, place, broken(&claims));
        }
        let nodes = caps.GpuEngineTopology.NbAsymetricProcessingNodes;
        if nodes > MOST_NODES {
            sound = false;
            let name = "DXGK_DRIVERCAPS.GpuEngineTopology beyond 64 nodes".into();
            services.log().emit(services.adapter(), What::Absent { name });
        }
        let memory = self.memory(&adapter, &caps);
        let mmu = self.translation(&adapter, &caps);
        if !sound {
            return Err(Refusal::Invalid);
        }
        let scheduling = crate::caps::scheduling(&caps);
        let features = Features { nodes, memory: memory?, mmu: mmu?, scheduling };
        if let (Some(memory), Some(met)) = (&features.memory, self.met().as_mut()) {
            met.bases = memory.segments.iter().map(|it| it.base).collect();
            let levels = features.mmu.iter().flat_map(|it| &it.levels);
            met.tables = levels.map(|it| it.bytes).collect();
        }
        Ok(features)
    }

    /// One question. What the driver answers is in `out`, or nowhere.
    pub(crate) fn ask<T>(
        &self,
        adapter: &Adapter,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        input: PVOID,
        input_size: u32,
        out: &mut Guarded<T>,
    ) -> Answer<NTSTATUS> {
        let call = self.table.DxgkDdiQueryAdapterInfo.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = adapter;
        let size = size_of::<T>();
        let args = DXGKARG_QUERYADAPTERINFO {
            Type: kind,
            pInputData: input,
            InputDataSize: input_size,
            pOutputData: ptr::from_mut(out).cast(),
            OutputDataSize: u32::try_from(size).map_err(|_| Refusal::Invalid)?,
        };

        let status = self.inside(door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // and all it points to outlive the call, also one that unwinds.
            unsafe { call(pointer(*context), &raw const args) }
        });

        let broken = out.overrun().map(|bytes| {
            format!("OutputDataSize is {size}, but up to {bytes} bytes behind it were written")
        });
        // It is said, and the flight goes on: nothing of ours lies there.
        judge(door.services(), RuleId::KMD_CAPS_008, OUTPUT, broken);
        Ok(status)
    }

    /// A question of user mode.
    ///
    /// WINDOWS: there are a proprietary input and a proprietary output (documented), and user
    /// mode has one buffer for both. Each is a copy of that one (our decision), so whichever of
    /// them a driver reads, it reads what was sent.
    pub(crate) fn ask_privately(&self, data: &mut [u8]) -> Answer<()> {
        let call = self.table.DxgkDdiQueryAdapterInfo.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.told()?;
        let mut input = Private::copy(data)?;
        let mut checks = Checks { door: door.clone(), output: Private::copy(data)? };
        let args = DXGKARG_QUERYADAPTERINFO {
            Type: DXGKQAITYPE_UMDRIVERPRIVATE,
            pInputData: input.pointer(),
            InputDataSize: input.size(),
            pOutputData: checks.output.pointer(),
            OutputDataSize: checks.output.size(),
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // and both copies outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw const args) }
        });

        answer(status)?;
        data.copy_from_slice(&checks.output.bytes());
        Ok(())
    }
}

/// Entry rule, judged when a question of user mode is over: its bytes are checked, and the
/// answer ends where its buffer does.
///
/// What a driver crashed of cannot be seen, so a crash is taken for bytes that it believed.
struct Checks {
    door: Arc<Door>,
    output: Private,
}

impl Drop for Checks {
    fn drop(&mut self) {
        let size = self.output.size();
        let broken = if std::thread::panicking() {
            Some(format!(
                "the driver crashed in a question of user mode with {size} bytes: anybody can \
                 send any, and they are to be checked"
            ))
        } else {
            self.output.overrun().map(|bytes| {
                format!("OutputDataSize is {size}, but up to {bytes} bytes behind it were written")
            })
        };
        judge(self.door.services(), RuleId::KMD_CAPS_008, OUTPUT, broken);
    }
}

/// Judges an entry rule, and answers whether it was kept.
pub(crate) fn judge(
    services: &Services,
    rule: RuleId,
    place: &'static str,
    broken: Option<String>,
) -> bool {
    let kept = broken.is_none();
    services.log().judge(rule, Who::Driver, services.adapter(), place, broken);
    kept
}
