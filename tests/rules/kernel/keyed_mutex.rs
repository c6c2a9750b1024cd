//! Rules on keyed mutexes that bind our own kernel, each broken by one event.

use super::Change::{Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::MUTEX_KEYED_002,
        "keyed-mutex-private-data",
        "a mutex for NT handles has a global handle",
        Set("keyed-mutex.created sharing=nt", "global", "0x40000042"),
    ),
    case(
        RuleId::MUTEX_KEYED_004,
        "keyed-mutex-private-data",
        "an open copies the runtime's data",
        Set("keyed-mutex.open-returned capacity=6", "copied", "6"),
    ),
    case(
        RuleId::MUTEX_KEYED_005,
        "keyed-mutex-private-data",
        "a wait that timed out leaves a fence value",
        Set("keyed-mutex.acquire-returned result=timed-out", "fence", "1234"),
    ),
    case(
        RuleId::MUTEX_KEYED_006,
        "keyed-mutex-private-data",
        "an acquire gets another fence value than the release set",
        Set("keyed-mutex.acquired fence=1234", "fence", "0"),
    ),
    case(
        RuleId::MUTEX_KEYED_007,
        "keyed-mutex-abandoned",
        "the handle of the owner ends, and the mutex is not abandoned",
        Missing("keyed-mutex.abandoned"),
    ),
];
