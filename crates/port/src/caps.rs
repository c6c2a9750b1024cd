//! Entry rules on `DXGK_DRIVERCAPS`: which capabilities and entry points require each other.

use abi::display::{
    DXGK_DRIVERCAPS, DXGK_VIDMMCAPS_FLAGS as Memory, DXGK_VIDSCHCAPS as Scheduling,
};
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use flight::RuleId;
use kernel::miniport::SchedulingFeatures;

/// A rule on a driver's capabilities: returns what is wrong, if anything.
type CapsRule = (RuleId, fn(&CapsClaims<'_>) -> Option<String>);

/// A driver's capabilities and its entry points.
pub(crate) struct CapsClaims<'a> {
    pub(crate) caps: &'a DXGK_DRIVERCAPS,
    pub(crate) table: &'a DRIVER_INITIALIZATION_DATA,
}

/// The rules, in the order of their numbers. Capabilities of later versions lie behind the end of
/// the structure, or in bits that are reserved at 2.0.
pub(crate) const RULES: &[CapsRule] = &[
    (RuleId::KMD_CAPS_001, |caps_claims| {
        caps_claims.requires(Scheduling::PreemptionAware, "PreemptionAware", ENGINES)
    }),
    (RuleId::KMD_CAPS_002, |caps_claims| {
        let both = &[("PreemptionAware", Scheduling::PreemptionAware), ENGINES[0]];
        caps_claims.requires(Scheduling::NoDmaPatching, "NoDmaPatching", both)
    }),
    (RuleId::KMD_CAPS_003, |caps_claims| {
        caps_claims.requires(Scheduling::CancelCommandAware, "CancelCommandAware", ENGINES)
    }),
    (RuleId::KMD_CAPS_004, engine_reset_error),
    (RuleId::KMD_CAPS_005, address_kind_error),
];

/// The scheduling features that a driver reports.
pub(crate) fn scheduling(caps: &DXGK_DRIVERCAPS) -> SchedulingFeatures {
    SchedulingFeatures {
        preempts: caps.SchedulingCaps.has(Scheduling::PreemptionAware),
        cancellation: caps.SchedulingCaps.has(Scheduling::CancelCommandAware),
        engine_reset: caps.SupportPerEngineTDR != 0,
        fences_32_bit: caps.SchedulingCaps.has(Scheduling::No64BitAtomics),
    }
}

const ENGINES: &[(&str, u32)] = &[("MultiEngineAware", Scheduling::MultiEngineAware)];

impl CapsClaims<'_> {
    /// A capability in `SchedulingCaps` that requires others.
    fn requires(&self, claim: u32, name: &str, others: &[(&str, u32)]) -> Option<String> {
        let caps = self.caps.SchedulingCaps;
        let missing = others.iter().filter(|pair| caps.has(claim) && !caps.has(pair.1));
        let missing: Vec<&str> = missing.map(|pair| pair.0).collect();
        let text = || format!("SchedulingCaps has {name} without {}", missing.join(" and "));
        (!missing.is_empty()).then(text)
    }
}

fn engine_reset_error(it: &CapsClaims<'_>) -> Option<String> {
    let entries = [
        ("DxgkDdiResetEngine", it.table.DxgkDdiResetEngine.is_some()),
        ("DxgkDdiQueryEngineStatus", it.table.DxgkDdiQueryEngineStatus.is_some()),
        ("DxgkDdiQueryDependentEngineGroup", it.table.DxgkDdiQueryDependentEngineGroup.is_some()),
    ];
    let missing: Vec<&str> = entries.iter().filter(|pair| !pair.1).map(|pair| pair.0).collect();
    (it.caps.SupportPerEngineTDR != 0 && !missing.is_empty())
        .then(|| format!("SupportPerEngineTDR is claimed without {}", missing.join(", ")))
}

fn address_kind_error(it: &CapsClaims<'_>) -> Option<String> {
    let caps = it.caps.MemoryManagementCaps.Flags;
    let kinds = Memory::GpuMmuSupported | Memory::IoMmuSupported;
    let misaligned = match caps.Value & kinds {
        0 => return None,
        both if both == kinds => "has both GpuMmuSupported and IoMmuSupported",
        _ if !caps.has(Memory::VirtualAddressingSupported) => {
            "has GpuMmuSupported or IoMmuSupported without VirtualAddressingSupported"
        }
        _ => return None,
    };
    Some(format!("MemoryManagementCaps {:#010x} {misaligned}", caps.Value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(change_mutex: impl FnOnce(&mut DXGK_DRIVERCAPS)) -> Vec<&'static str> {
        let mut caps = DXGK_DRIVERCAPS::ZERO;
        change_mutex(&mut caps);
        let claims = CapsClaims { caps: &caps, table: &DRIVER_INITIALIZATION_DATA::ZERO };
        let says = |(rule, broken): &CapsRule| broken(&claims).map(|_| rule.name());
        RULES.iter().filter_map(says).collect()
    }

    fn scheduling(value: u32) -> Vec<&'static str> {
        broken(|raw| raw.SchedulingCaps.Value = value)
    }

    fn memory(value: u32) -> Vec<&'static str> {
        broken(|raw| raw.MemoryManagementCaps.Flags.Value = value)
    }

    #[test]
    fn claims_that_go_together_are_quiet() {
        assert!(broken(|_| ()).is_empty());
        let all = Scheduling::MultiEngineAware
            | Scheduling::PreemptionAware
            | Scheduling::NoDmaPatching
            | Scheduling::CancelCommandAware;
        assert!(scheduling(all).is_empty());
        assert!(memory(Memory::VirtualAddressingSupported | Memory::IoMmuSupported).is_empty());
    }

    #[test]
    fn claims_that_do_not_are_named() {
        assert_eq!(scheduling(Scheduling::PreemptionAware), ["KMD-CAPS-001"]);
        assert_eq!(scheduling(Scheduling::NoDmaPatching), ["KMD-CAPS-002"]);
        let one = Scheduling::NoDmaPatching | Scheduling::MultiEngineAware;
        assert_eq!(scheduling(one), ["KMD-CAPS-002"]);
        assert_eq!(scheduling(Scheduling::CancelCommandAware), ["KMD-CAPS-003"]);
        assert_eq!(broken(|raw| raw.SupportPerEngineTDR = 1), ["KMD-CAPS-004"]);
        assert_eq!(memory(Memory::GpuMmuSupported), ["KMD-CAPS-005"]);
        let both = Memory::GpuMmuSupported | Memory::IoMmuSupported;
        assert_eq!(memory(both | Memory::VirtualAddressingSupported), ["KMD-CAPS-005"]);
    }
}
