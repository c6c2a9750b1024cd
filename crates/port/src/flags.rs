//! Entry rules on `DXGK_ALLOCATIONINFO.FlagsWddm2`: which flags can be combined.

use abi::display::{DXGK_ALLOCATIONINFO, DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as FlagsWddm2};
use flight::{Component, RuleId};
use kernel::callbacks::KernelCallbacks;

/// The bits that are reserved at WDDM 2.0. Later versions define two of them.
const RESERVED: u32 =
    FlagsWddm2::RESERVED | FlagsWddm2::CreateInVpr | FlagsWddm2::MapApertureCpuVisible;

/// The source or the visibility of the memory: at most one of these.
const EXCLUSIVE_MEMORY_FLAGS: u32 = FlagsWddm2::Protected
    | FlagsWddm2::PermanentSysMem
    | FlagsWddm2::ExistingSysMem
    | FlagsWddm2::ExistingKernelSysMem;

/// The flags that a history buffer may have. WINDOWS: `Cached` is required where apertures are
/// coherent and rejected elsewhere; coherence is not queried yet, so both are accepted.
const HISTORY: u32 = FlagsWddm2::HistoryBuffer | FlagsWddm2::CpuVisible | FlagsWddm2::Cached;

/// The flags that a primary must not have.
const NOT_FOR_PRIMARIES: u32 = EXCLUSIVE_MEMORY_FLAGS | FlagsWddm2::Cached;

/// A rule on the flags of one allocation: returns what is wrong, if anything.
type FlagRule = (RuleId, fn(u32) -> Option<String>);

/// A rule on the flags of a primary, in addition to those for every allocation.
const PRIMARY_RULE: FlagRule = (RuleId::KMD_FLAGS_003, |flags| {
    let odd = flags & NOT_FOR_PRIMARIES;
    (odd != 0).then(|| {
        format!(
            "it is a primary: none of Cached, Protected, PermanentSysMem, ExistingSysMem and \
             ExistingKernelSysMem goes with that, and {odd:#010x} is set"
        )
    })
});

const RULES: &[FlagRule] = &[
    (RuleId::KMD_ALLOC_008, |flags| {
        let reserved = flags & RESERVED;
        (reserved != 0).then(|| format!("{reserved:#010x} is reserved"))
    }),
    (RuleId::KMD_FLAGS_001, |flags| {
        let seen = flags & (FlagsWddm2::PermanentSysMem | FlagsWddm2::Cached);
        (seen != 0 && flags & FlagsWddm2::CpuVisible == 0)
            .then(|| "PermanentSysMem and Cached each need CpuVisible".to_owned())
    }),
    (RuleId::KMD_FLAGS_002, |flags| {
        let kinds = (flags & EXCLUSIVE_MEMORY_FLAGS).count_ones();
        (kinds > 1).then(|| {
            format!(
                "{kinds} of Protected, PermanentSysMem, ExistingSysMem and ExistingKernelSysMem \
                 are set: they exclude one another"
            )
        })
    }),
    (RuleId::KMD_FLAGS_006, |flags| {
        let notified = flags & FlagsWddm2::ExplicitResidencyNotification != 0;
        (notified && flags & FlagsWddm2::AccessedPhysically == 0)
            .then(|| "ExplicitResidencyNotification needs AccessedPhysically".to_owned())
    }),
    (RuleId::KMD_FLAGS_007, |flags| {
        let misaligned = flags & FlagsWddm2::CpuVisible == 0 || flags & !HISTORY != 0;
        (flags & FlagsWddm2::HistoryBuffer != 0 && misaligned).then(|| {
            "HistoryBuffer needs CpuVisible, and allows no other flag but Cached".to_owned()
        })
    }),
];

/// Judges the flags that a driver set for the allocations of one call.
///
/// Each comes with whether it is a primary.
pub(crate) fn judge<'a>(
    services: &KernelCallbacks,
    infos: impl Iterator<Item = (&'a DXGK_ALLOCATIONINFO, bool)>,
) {
    for (at, (info, primary)) in infos.enumerate() {
        let flags = info.FlagsWddm2.Value;
        for (rule, broken) in RULES.iter().chain(primary.then_some(&PRIMARY_RULE)) {
            let broken = broken(flags)
                .map(|but| format!("allocation {at} has FlagsWddm2 {flags:#010x}, but {but}"));
            let place = "DxgkDdiCreateAllocation.FlagsWddm2";
            services.log().judge(*rule, Component::Driver, services.adapter(), place, broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(flags: u32) -> Vec<&'static str> {
        let says = |(rule, broken): &FlagRule| broken(flags).map(|_| rule.name());
        RULES.iter().filter_map(says).collect()
    }

    #[test]
    fn flags_that_go_together_are_quiet() {
        for flags in [
            0,
            FlagsWddm2::CpuVisible | FlagsWddm2::Cached,
            FlagsWddm2::CpuVisible | FlagsWddm2::PermanentSysMem,
            FlagsWddm2::ExistingSysMem,
            FlagsWddm2::AccessedPhysically | FlagsWddm2::ExplicitResidencyNotification,
            FlagsWddm2::HistoryBuffer | FlagsWddm2::CpuVisible,
            HISTORY,
        ] {
            assert!(broken(flags).is_empty(), "{flags:#x}: {:?}", broken(flags));
        }
    }

    #[test]
    fn a_primary_is_none_of_five() {
        let (_, broken) = PRIMARY_RULE;
        assert_eq!(broken(FlagsWddm2::CpuVisible | FlagsWddm2::AccessedPhysically), None);
        for flag in [
            FlagsWddm2::Cached,
            FlagsWddm2::Protected,
            FlagsWddm2::PermanentSysMem,
            FlagsWddm2::ExistingSysMem,
            FlagsWddm2::ExistingKernelSysMem,
        ] {
            assert!(broken(flag).is_some(), "{flag:#x}");
        }
    }

    #[test]
    fn flags_that_do_not_are_named() {
        assert_eq!(broken(1 << 11), ["KMD-ALLOC-008"]);
        assert_eq!(broken(FlagsWddm2::Cached), ["KMD-FLAGS-001"]);
        assert_eq!(broken(FlagsWddm2::Protected | FlagsWddm2::ExistingSysMem), ["KMD-FLAGS-002"]);
        assert_eq!(broken(FlagsWddm2::ExplicitResidencyNotification), ["KMD-FLAGS-006"]);
        assert_eq!(broken(FlagsWddm2::HistoryBuffer), ["KMD-FLAGS-007"]);
        let more = FlagsWddm2::HistoryBuffer | FlagsWddm2::CpuVisible | FlagsWddm2::Overlay;
        assert_eq!(broken(more), ["KMD-FLAGS-007"]);
    }
}
