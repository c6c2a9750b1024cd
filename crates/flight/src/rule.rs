//! The rules that are live: a dense number for each, and its id in the catalogue.
//!
//! A rule is live when something judges it: a door that has the argument (an entry rule), or
//! a function over events (a history rule, in `verify`). What a rule says is in the catalogue.

/// A live rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u16);

/// Who a finding blames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The application.
    Client,
    /// The kernel-mode driver.
    Driver,
    /// The user-mode driver.
    Umd,
    /// Us.
    Kernel,
}

impl Who {
    pub(crate) const ALL: [Who; 4] = [Who::Client, Who::Driver, Who::Umd, Who::Kernel];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Who::Client => "client",
            Who::Driver => "driver",
            Who::Umd => "umd",
            Who::Kernel => "kernel",
        }
    }
}

macro_rules! rules {
    ($($family:literal { $($const:ident $number:literal)* })*) => {
        rules!(@list [$($($const concat!($family, "-", $number);)*)*]);
    };
    (@list [$($const:ident $name:expr;)*]) => {
        #[expect(non_camel_case_types, reason = "only counts the rules")]
        enum Index { $($const),* }
        impl RuleId {
            $(
                #[doc = $name]
                pub const $const: RuleId = RuleId(Index::$const as u16);
            )*
            /// Every live rule.
            pub const LIVE: &[RuleId] = &[$(RuleId::$const),*];
        }
        const NAMES: &[&str] = &[$($name),*];
    };
}

rules! {
    "ALLOC-CREATE" {
        ALLOC_CREATE_001 "001" ALLOC_CREATE_002 "002" ALLOC_CREATE_003 "003"
        ALLOC_CREATE_004 "004" ALLOC_CREATE_005 "005" ALLOC_CREATE_006 "006"
        ALLOC_CREATE_007 "007" ALLOC_CREATE_008 "008" ALLOC_CREATE_009 "009"
        ALLOC_CREATE_010 "010" ALLOC_CREATE_011 "011" ALLOC_CREATE_012 "012"
        ALLOC_CREATE_013 "013" ALLOC_CREATE_016 "016" ALLOC_CREATE_018 "018"
        ALLOC_CREATE_019 "019" ALLOC_CREATE_020 "020" ALLOC_CREATE_021 "021"
        ALLOC_CREATE_022 "022" ALLOC_CREATE_023 "023"
    }
    "ALLOC-DESTROY" {
        ALLOC_DESTROY_001 "001" ALLOC_DESTROY_002 "002" ALLOC_DESTROY_003 "003"
        ALLOC_DESTROY_004 "004" ALLOC_DESTROY_005 "005" ALLOC_DESTROY_006 "006"
        ALLOC_DESTROY_007 "007" ALLOC_DESTROY_009 "009" ALLOC_DESTROY_010 "010"
        ALLOC_DESTROY_011 "011" ALLOC_DESTROY_012 "012" ALLOC_DESTROY_013 "013"
        ALLOC_DESTROY_015 "015" ALLOC_DESTROY_016 "016" ALLOC_DESTROY_017 "017"
        ALLOC_DESTROY_018 "018" ALLOC_DESTROY_019 "019" ALLOC_DESTROY_022 "022"
        ALLOC_DESTROY_024 "024" ALLOC_DESTROY_025 "025"
    }
    "ALLOC-LOCK" {
        ALLOC_LOCK_001 "001" ALLOC_LOCK_002 "002" ALLOC_LOCK_003 "003" ALLOC_LOCK_004 "004"
        ALLOC_LOCK_005 "005" ALLOC_LOCK_006 "006" ALLOC_LOCK_007 "007" ALLOC_LOCK_008 "008"
        ALLOC_LOCK_009 "009" ALLOC_LOCK_010 "010" ALLOC_LOCK_012 "012" ALLOC_LOCK_013 "013"
        ALLOC_LOCK_014 "014" ALLOC_LOCK_015 "015" ALLOC_LOCK_016 "016" ALLOC_LOCK_017 "017"
        ALLOC_LOCK_018 "018" ALLOC_LOCK_019 "019" ALLOC_LOCK_020 "020" ALLOC_LOCK_021 "021"
        ALLOC_LOCK_022 "022"
    }
    "ALLOC-PRIO" {
        ALLOC_PRIO_001 "001" ALLOC_PRIO_002 "002" ALLOC_PRIO_003 "003" ALLOC_PRIO_004 "004"
    }
    "ALLOC-SHARE" {
        ALLOC_SHARE_001 "001" ALLOC_SHARE_002 "002" ALLOC_SHARE_003 "003" ALLOC_SHARE_004 "004"
        ALLOC_SHARE_005 "005" ALLOC_SHARE_010 "010"
    }
    "CB-CTXALLOC" {
        CB_CTXALLOC_001 "001" CB_CTXALLOC_002 "002" CB_CTXALLOC_003 "003" CB_CTXALLOC_004 "004"
        CB_CTXALLOC_005 "005" CB_CTXALLOC_006 "006" CB_CTXALLOC_007 "007" CB_CTXALLOC_008 "008"
        CB_CTXALLOC_009 "009" CB_CTXALLOC_010 "010" CB_CTXALLOC_011 "011" CB_CTXALLOC_012 "012"
        CB_CTXALLOC_013 "013" CB_CTXALLOC_014 "014" CB_CTXALLOC_015 "015" CB_CTXALLOC_016 "016"
        CB_CTXALLOC_017 "017"
    }
    "CB-HANDLE" {
        CB_HANDLE_002 "002" CB_HANDLE_003 "003" CB_HANDLE_004 "004" CB_HANDLE_005 "005"
        CB_HANDLE_007 "007" CB_HANDLE_008 "008" CB_HANDLE_009 "009"
    }
    "CB-IRQL" {
        CB_IRQL_001 "001" CB_IRQL_002 "002"
    }
    "CB-MEM" {
        CB_MEM_001 "001" CB_MEM_002 "002" CB_MEM_003 "003" CB_MEM_004 "004" CB_MEM_007 "007"
        CB_MEM_010 "010"
    }
    "DEV-LIFE" {
        DEV_LIFE_001 "001" DEV_LIFE_002 "002" DEV_LIFE_003 "003" DEV_LIFE_004 "004"
        DEV_LIFE_006 "006" DEV_LIFE_007 "007" DEV_LIFE_008 "008" DEV_LIFE_009 "009"
        DEV_LIFE_010 "010" DEV_LIFE_011 "011" DEV_LIFE_012 "012" DEV_LIFE_013 "013"
        DEV_LIFE_014 "014"
    }
    "GATE-SEG" {
        GATE_SEG_001 "001"
    }
    "GATE-STATUS" {
        GATE_STATUS_002 "002"
    }
    "HANDLE-FORM" {
        HANDLE_FORM_001 "001" HANDLE_FORM_002 "002" HANDLE_FORM_003 "003" HANDLE_FORM_004 "004"
        HANDLE_FORM_005 "005"
    }
    "KMD-ALLOC" {
        KMD_ALLOC_001 "001" KMD_ALLOC_002 "002" KMD_ALLOC_003 "003" KMD_ALLOC_004 "004"
        KMD_ALLOC_005 "005" KMD_ALLOC_006 "006" KMD_ALLOC_008 "008" KMD_ALLOC_009 "009"
        KMD_ALLOC_010 "010" KMD_ALLOC_011 "011" KMD_ALLOC_012 "012"
    }
    "KMD-CAPS" {
        KMD_CAPS_001 "001" KMD_CAPS_002 "002" KMD_CAPS_003 "003" KMD_CAPS_004 "004"
        KMD_CAPS_005 "005" KMD_CAPS_008 "008"
    }
    "KMD-CTX" {
        KMD_CTX_001 "001" KMD_CTX_006 "006" KMD_CTX_007 "007"
    }
    "KMD-DESTROY" {
        KMD_DESTROY_001 "001" KMD_DESTROY_002 "002" KMD_DESTROY_003 "003" KMD_DESTROY_004 "004"
        KMD_DESTROY_005 "005" KMD_DESTROY_006 "006" KMD_DESTROY_007 "007" KMD_DESTROY_008 "008"
        KMD_DESTROY_009 "009" KMD_DESTROY_010 "010" KMD_DESTROY_011 "011" KMD_DESTROY_012 "012"
    }
    "KMD-DEV" {
        KMD_DEV_001 "001" KMD_DEV_002 "002" KMD_DEV_004 "004"
    }
    "KMD-FLAGS" {
        KMD_FLAGS_001 "001" KMD_FLAGS_002 "002" KMD_FLAGS_003 "003" KMD_FLAGS_006 "006"
        KMD_FLAGS_007 "007" KMD_FLAGS_012 "012"
    }
    "KMD-ISR" {
        KMD_ISR_001 "001" KMD_ISR_002 "002" KMD_ISR_003 "003" KMD_ISR_005 "005"
        KMD_ISR_006 "006" KMD_ISR_007 "007" KMD_ISR_008 "008" KMD_ISR_009 "009"
        KMD_ISR_010 "010" KMD_ISR_011 "011" KMD_ISR_012 "012" KMD_ISR_013 "013"
        KMD_ISR_014 "014"
    }
    "KMD-LEVEL" {
        KMD_LEVEL_001 "001" KMD_LEVEL_002 "002" KMD_LEVEL_003 "003" KMD_LEVEL_004 "004"
        KMD_LEVEL_006 "006" KMD_LEVEL_007 "007" KMD_LEVEL_008 "008"
    }
    "KMD-OPEN" {
        KMD_OPEN_001 "001" KMD_OPEN_002 "002" KMD_OPEN_003 "003" KMD_OPEN_004 "004"
        KMD_OPEN_006 "006" KMD_OPEN_007 "007" KMD_OPEN_008 "008" KMD_OPEN_009 "009"
    }
    "KMD-PAGING" {
        KMD_PAGING_001 "001" KMD_PAGING_002 "002" KMD_PAGING_003 "003" KMD_PAGING_005 "005"
        KMD_PAGING_006 "006" KMD_PAGING_007 "007" KMD_PAGING_008 "008" KMD_PAGING_010 "010"
        KMD_PAGING_011 "011" KMD_PAGING_012 "012" KMD_PAGING_013 "013" KMD_PAGING_014 "014"
        KMD_PAGING_017 "017" KMD_PAGING_018 "018" KMD_PAGING_025 "025" KMD_PAGING_029 "029"
        KMD_PAGING_031 "031"
    }
    "KMD-PNP" {
        KMD_PNP_001 "001" KMD_PNP_003 "003"
    }
    "KMD-PREEMPT" {
        KMD_PREEMPT_001 "001" KMD_PREEMPT_002 "002" KMD_PREEMPT_003 "003" KMD_PREEMPT_004 "004"
        KMD_PREEMPT_005 "005"
    }
    "KMD-SEG" {
        KMD_SEG_002 "002" KMD_SEG_003 "003" KMD_SEG_004 "004" KMD_SEG_005 "005"
        KMD_SEG_006 "006" KMD_SEG_007 "007" KMD_SEG_008 "008" KMD_SEG_009 "009"
        KMD_SEG_010 "010" KMD_SEG_011 "011" KMD_SEG_012 "012" KMD_SEG_013 "013"
        KMD_SEG_014 "014" KMD_SEG_015 "015"
    }
    "KMD-STD" {
        KMD_STD_001 "001" KMD_STD_002 "002" KMD_STD_003 "003" KMD_STD_004 "004"
    }
    "KMD-SUBMIT" {
        KMD_SUBMIT_005 "005" KMD_SUBMIT_006 "006" KMD_SUBMIT_008 "008" KMD_SUBMIT_010 "010"
        KMD_SUBMIT_013 "013" KMD_SUBMIT_015 "015"
    }
    "KMD-TDR" {
        KMD_TDR_001 "001" KMD_TDR_002 "002" KMD_TDR_003 "003" KMD_TDR_004 "004"
        KMD_TDR_005 "005" KMD_TDR_006 "006" KMD_TDR_007 "007" KMD_TDR_008 "008"
        KMD_TDR_009 "009" KMD_TDR_010 "010" KMD_TDR_011 "011" KMD_TDR_012 "012"
        KMD_TDR_013 "013" KMD_TDR_014 "014"
    }
    "MUTEX-KEYED" {
        MUTEX_KEYED_001 "001" MUTEX_KEYED_002 "002" MUTEX_KEYED_003 "003" MUTEX_KEYED_004 "004"
        MUTEX_KEYED_005 "005" MUTEX_KEYED_006 "006" MUTEX_KEYED_007 "007"
    }
    "PAGQ-LIFE" {
        PAGQ_LIFE_001 "001" PAGQ_LIFE_002 "002" PAGQ_LIFE_003 "003" PAGQ_LIFE_004 "004"
        PAGQ_LIFE_006 "006" PAGQ_LIFE_007 "007"
    }
    "RESID-BUDGET" {
        RESID_BUDGET_001 "001" RESID_BUDGET_002 "002"
    }
    "RESID-EVICT" {
        RESID_EVICT_001 "001" RESID_EVICT_002 "002" RESID_EVICT_003 "003" RESID_EVICT_004 "004"
        RESID_EVICT_005 "005"
    }
    "RESID-MAKE" {
        RESID_MAKE_001 "001" RESID_MAKE_002 "002" RESID_MAKE_003 "003" RESID_MAKE_004 "004"
        RESID_MAKE_005 "005" RESID_MAKE_006 "006" RESID_MAKE_007 "007"
    }
    "RESID-OFFER" {
        RESID_OFFER_001 "001" RESID_OFFER_002 "002" RESID_OFFER_004 "004" RESID_OFFER_005 "005"
        RESID_OFFER_008 "008" RESID_OFFER_009 "009" RESID_OFFER_010 "010"
    }
    "RESID-TRIM" {
        RESID_TRIM_001 "001" RESID_TRIM_002 "002" RESID_TRIM_004 "004"
    }
    "WT-BYTES" {
        WT_BYTES_001 "001"
    }
    "WT-CRASH" {
        WT_CRASH_001 "001"
    }
    "WT-GONE" {
        WT_GONE_001 "001"
    }
    "WT-LEFT" {
        WT_LEFT_001 "001"
    }
    "WT-LEVEL" {
        WT_LEVEL_001 "001"
    }
    "WT-POOL" {
        WT_POOL_001 "001" WT_POOL_002 "002" WT_POOL_003 "003"
    }
    "WT-STOP" {
        WT_STOP_001 "001"
    }
    "WT-STUCK" {
        WT_STUCK_001 "001"
    }
}

impl RuleId {
    /// Its id in the catalogue.
    pub fn name(self) -> &'static str {
        NAMES[self.index()]
    }

    /// Its number among the live ones.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The live rule of that id.
    pub fn find(name: &str) -> Option<RuleId> {
        RuleId::LIVE.iter().copied().find(|rule| rule.name() == name)
    }
}
