//! Rules on streaming that bind our own class driver, each broken by one event.

use super::Change::{Early, Late, Missing, Set};
use super::{Case, case};
use flight::RuleId;

const STATES: &str = "capture ks-state-transitions";
const CANCELLED: &str = "capture ks-cancel-and-reset";
const BAGS: &str = "capture-full-api ks-state-transitions";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::KS_ALLOC_001,
        STATES,
        "an allocator that was not chosen is called",
        Set("allocator.chosen", "by", "client"),
    ),
    case(
        RuleId::KS_ALLOC_002,
        STATES,
        "an allocator is initialised a second time",
        Set("ks.call name=AVStrMiniAllocate", "name", "AVStrMiniInitializeAllocator"),
    ),
    case(
        RuleId::KS_ALLOC_005,
        STATES,
        "a frame is allocated with another context than the allocator's",
        Set("allocator.used entry=AVStrMiniAllocate", "driver_handle", "driver-pointer:99"),
    ),
    case(
        RuleId::KS_ALLOC_009,
        STATES,
        "there is one frame more than negotiated",
        Set("allocator.ready", "frames", "2"),
    ),
    case(
        RuleId::KS_ALLOC_010,
        STATES,
        "a frame that was not allocated is freed",
        Set("frame.freeing", "pointer", "driver-pointer:99"),
    ),
    case(
        RuleId::KS_ALLOC_012,
        STATES,
        "an allocator is deleted before its last frame is freed",
        Late("frame.freed", "allocator.used entry=AVStrMiniDeleteAllocator"),
    ),
    case(
        RuleId::KS_ALLOC_013,
        STATES,
        "a frame is freed after its allocator was deleted",
        Late("allocator.used entry=AVStrMiniAllocatorFreeFrame", "allocator.deleted"),
    ),
    case(RuleId::KS_ALLOC_016, STATES, "an allocator is not deleted", Missing("allocator.deleted")),
    case(
        RuleId::KS_ALLOC_018,
        STATES,
        "a driver's allocator serves user mode",
        Set("allocator.chosen", "user", "true"),
    ),
    case(
        RuleId::KS_ALLOC_026,
        STATES,
        "a frame of one pin goes to another",
        Set("frame.created", "pin", "pin:9"),
    ),
    case(
        RuleId::KS_BAG_002,
        BAGS,
        "a pin is closed and an item stays in its object bag",
        Missing("pin:1 ks.unbagged"),
    ),
    case(
        RuleId::KS_DEV_002,
        STATES,
        "a filter of a device that was not started is opened",
        Missing("ks.started"),
    ),
    case(
        RuleId::KS_DEV_005,
        STATES,
        "a filter is closed before its pin",
        Early("filter.closed", "pin.closed"),
    ),
    case(
        RuleId::KS_FRAMING_006,
        STATES,
        "a client sets a pin's framing requirements",
        Set("pin.framing set=true", "succeeded", "true"),
    ),
    case(
        RuleId::KS_PIN_001,
        STATES,
        "a pin is created without the control mutex",
        Set("ks.call name=AVStrMiniPinCreate", "locks", "none"),
    ),
    case(
        RuleId::KS_PIN_003,
        STATES,
        "a pin is removed before its driver has closed it",
        Early("pin.closed", "ks.return name=AVStrMiniPinClose"),
    ),
    case(
        RuleId::KS_PIN_005,
        STATES,
        "a format is set without the control mutex",
        Set("ks.call name=AVStrMiniPinSetDataFormat", "locks", "none"),
    ),
    case(
        RuleId::KS_PIN_009,
        STATES,
        "there is one pin more than possible",
        Set("pin.created", "possible", "0"),
    ),
    case(
        RuleId::KS_PROC_003,
        STATES,
        "a pin is processed at DISPATCH_LEVEL without the flag for it",
        Set("ks.call name=AVStrMiniPinProcess", "level", "dispatch"),
    ),
    case(
        RuleId::KS_PTR_006,
        STATES,
        "a frame is completed before its last clone is deleted",
        Late("stream-pointer:2 pointer.deleted", "frame.done"),
    ),
    case(
        RuleId::KS_PTR_011,
        CANCELLED,
        "a frame is cancelled while a pointer to it is locked",
        Early("frame:3 frame.cancelled", "stream-pointer:4 pointer.deleted"),
    ),
    case(
        RuleId::KS_STATE_001,
        STATES,
        "a pin changes from stop to run directly",
        Set("pin.state-requested from=stop to=acquire", "to", "run"),
    ),
    case(
        RuleId::KS_STATE_003,
        STATES,
        "a pin begins in another state than stop",
        Set("pin.state-requested from=stop to=acquire", "from", "acquire"),
    ),
    case(
        RuleId::KS_STATE_004,
        STATES,
        "a driver is called for a state before its client sets it",
        Late("pin.state-requested from=stop to=acquire", "ks.call name=AVStrMiniPinSetDeviceState"),
    ),
];
