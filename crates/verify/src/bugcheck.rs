//! Bug checks that breaches of rules lead to, by number.

use crate::catalogue::{Entry, catalogue};
use crate::statuses;

/// A bug check that graphics drivers can cause.
#[derive(Debug, PartialEq, Eq)]
pub struct BugCheck {
    /// Its number.
    pub code: u32,
    /// Its Windows name.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
}

/// The known bug checks, by number. Names are those of Windows.
pub const BUG_CHECKS: &[BugCheck] = &[
    BugCheck {
        code: 0x09,
        name: "IRQL_NOT_GREATER_OR_EQUAL",
        about: "KeRaiseIrql was called with a level below the current one",
    },
    BugCheck {
        code: 0x0A,
        name: "IRQL_NOT_LESS_OR_EQUAL",
        about: "memory was touched at a level where it may not be",
    },
    BugCheck {
        code: 0x19,
        name: "BAD_POOL_HEADER",
        about: "the header of a pool block is damaged, as by a write beyond a block",
    },
    BugCheck {
        code: 0x3B,
        name: "SYSTEM_SERVICE_EXCEPTION",
        about: "kernel code ran into an unhandled exception in a system call",
    },
    BugCheck {
        code: 0x50,
        name: "PAGE_FAULT_IN_NONPAGED_AREA",
        about: "kernel code touched memory that is not there",
    },
    BugCheck {
        code: 0x7E,
        name: "SYSTEM_THREAD_EXCEPTION_NOT_HANDLED",
        about: "a system thread ran into an unhandled exception",
    },
    BugCheck {
        code: 0x7F,
        name: "UNEXPECTED_KERNEL_MODE_TRAP",
        about: "the processor raised a trap that the kernel cannot handle, as for a kernel stack that is used up",
    },
    BugCheck {
        code: 0x96,
        name: "INVALID_WORK_QUEUE_ITEM",
        about: "a work item is not valid, as one that is queued already",
    },
    BugCheck {
        code: 0xB8,
        name: "ATTEMPTED_SWITCH_FROM_DPC",
        about: "a deferred procedure call waited",
    },
    BugCheck {
        code: 0xBE,
        name: "ATTEMPTED_WRITE_TO_READONLY_MEMORY",
        about: "a driver wrote to read-only memory, such as its code or a constant",
    },
    BugCheck {
        code: 0xC1,
        name: "SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION",
        about: "a driver wrote next to a block of special pool, found when the block was freed",
    },
    BugCheck {
        code: 0xC2,
        name: "BAD_POOL_CALLER",
        about: "a driver freed or took pool in a way that cannot be right, as a second free",
    },
    BugCheck {
        code: 0xC4,
        name: "DRIVER_VERIFIER_DETECTED_VIOLATION",
        about: "Driver Verifier found a violation, as pool left at unload",
    },
    BugCheck {
        code: 0xC5,
        name: "DRIVER_CORRUPTED_EXPOOL",
        about: "pool was damaged by a driver, and found so at a raised level",
    },
    BugCheck {
        code: 0xC8,
        name: "IRQL_UNEXPECTED_VALUE",
        about: "the level is not what it must be, as after a driver did not restore it",
    },
    BugCheck {
        code: 0xCB,
        name: "DRIVER_LEFT_LOCKED_PAGES_IN_PROCESS",
        about: "a driver did not unlock pages that it had locked",
    },
    BugCheck {
        code: 0xCE,
        name: "DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS",
        about: "a driver was unloaded while a timer, a DPC or a work item of it was pending",
    },
    BugCheck {
        code: 0xD1,
        name: "DRIVER_IRQL_NOT_LESS_OR_EQUAL",
        about: "a driver touched memory at a level where it may not",
    },
    BugCheck {
        code: 0xD5,
        name: "DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL",
        about: "a driver touched pool that it had freed",
    },
    BugCheck {
        code: 0xD6,
        name: "DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION",
        about: "a driver touched memory behind the end of a pool block",
    },
    BugCheck {
        code: 0xE3,
        name: "RESOURCE_NOT_OWNED",
        about: "a thread released a resource that it does not own",
    },
    BugCheck {
        code: 0x10E,
        name: "VIDEO_MEMORY_MANAGEMENT_INTERNAL",
        about: "the video memory manager met a driver it cannot go on with",
    },
    BugCheck {
        code: 0x113,
        name: "VIDEO_DXGKRNL_FATAL_ERROR",
        about: "the graphics kernel found something it cannot go on with",
    },
    BugCheck {
        code: 0x116,
        name: "VIDEO_TDR_FAILURE",
        about: "the GPU hung, and its driver could not be reset",
    },
    BugCheck {
        code: 0x117,
        name: "VIDEO_TDR_TIMEOUT_DETECTED",
        about: "the GPU did not answer in time and was reset: a report, not a stop",
    },
    BugCheck {
        code: 0x119,
        name: "VIDEO_SCHEDULER_INTERNAL_ERROR",
        about: "the GPU scheduler received an invalid result or fence",
    },
    BugCheck {
        code: 0x133,
        name: "DPC_WATCHDOG_VIOLATION",
        about: "code ran at a raised level for too long",
    },
];

/// A rule whose breach leads to a bug check.
#[derive(Debug)]
pub struct BugCheckCause {
    /// The rule.
    pub rule: &'static Entry,
    /// The first parameter, if known.
    pub parameter: Option<u32>,
    /// The condition, if the breach does not always lead there.
    pub condition: Option<String>,
}

/// The bug check of that number.
pub fn find(code: u32) -> Option<&'static BugCheck> {
    BUG_CHECKS.iter().find(|bug_check| bug_check.code == code)
}

/// Every rule that leads to a bug check, by parameter and in the catalogue's order.
pub fn causes(code: u32) -> Vec<BugCheckCause> {
    let mut ways: Vec<BugCheckCause> =
        catalogue().iter().flat_map(|entry| causes_of(entry, code)).collect();
    ways.sort_by_key(|bug_check_cause| bug_check_cause.parameter);
    ways
}

fn causes_of(rule: &'static Entry, code: u32) -> Vec<BugCheckCause> {
    if rule.id == "GATE-STATUS-002" {
        let stops = statuses::STATUS_BUG_CHECKS
            .iter()
            .filter(|status_bug_check| status_bug_check.code == code);
        let way = |it: &statuses::StatusBugCheck| BugCheckCause {
            rule,
            parameter: Some(it.parameter),
            condition: Some(format!("when {} returns what it may not", it.ddi)),
        };
        return stops.map(way).collect();
    }
    let hung = code == 0x117 && rule.on_breach.starts_with("TDR after timeout");
    let timed_out = hung.then_some(BugCheckCause { rule, parameter: None, condition: None });
    let stops = rule.on_breach.split("; ").filter_map(|part| {
        let (before, after) = part.split_once("bugcheck 0x")?;
        let (number, after) = hex(after);
        let parameter = after.trim_start().strip_prefix("(0x").and_then(|text| hex(text).0);
        let when = before.trim_end_matches(": ").trim();
        let when = (!when.is_empty()).then(|| when.to_owned());
        (number == Some(code)).then_some(BugCheckCause { rule, parameter, condition: when })
    });
    stops.chain(timed_out).collect()
}

/// A hexadecimal number at the front of a text, and the rest of it.
fn hex(text: &str) -> (Option<u32>, &str) {
    let end = text.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(text.len());
    (u32::from_str_radix(&text[..end], 16).ok(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes_found(code: u32) -> Vec<(&'static str, Option<u32>)> {
        causes(code)
            .iter()
            .map(|bug_check_cause| (bug_check_cause.rule.id.as_str(), bug_check_cause.parameter))
            .collect()
    }

    #[test]
    fn each_is_there_once_by_number() {
        assert!(BUG_CHECKS.is_sorted_by(|a, b| a.code < b.code));
        assert_eq!(
            find(0x119).map(|bug_check| bug_check.name),
            Some("VIDEO_SCHEDULER_INTERNAL_ERROR")
        );
        assert_eq!(find(0x118), None);
    }

    #[test]
    fn every_number_of_the_catalogue_is_known() {
        for part in
            catalogue().iter().flat_map(|entry| entry.on_breach.split("bugcheck 0x").skip(1))
        {
            let code = hex(part).0.unwrap();
            assert!(find(code).is_some() && !causes_found(code).is_empty(), "{code:#x}");
        }
    }

    #[test]
    fn rules_lead_there_with_their_parameters() {
        assert!(causes_found(0x119).contains(&("KMD-ISR-008", Some(1))));
        assert!(causes_found(0x119).contains(&("GATE-STATUS-002", Some(3))));
        assert_eq!(causes_found(0xC2), [("KS-BAG-003", None), ("WT-POOL-001", None)]);
        assert!(causes_found(0x10E).iter().any(|pair| pair.1 == Some(0xB)));
        assert!(!causes_found(0x117).is_empty());
        let out_of_order = causes(0x119)
            .into_iter()
            .find(|bug_check_cause| bug_check_cause.condition.as_deref() == Some("out of order"));
        assert_eq!(out_of_order.unwrap().parameter, Some(1));
    }
}
