//! Whole flights: every history rule judges in a good one, and no shadow is left.

use crate::flights_address::ADDRESSES;
use crate::flights_memory::MEMORY;
use crate::flights_stream::STREAM;
use crate::flights_sync::SYNC;
use crate::keyed_mutex::tests::KEYED;
use crate::nt_share::tests::NT_SHARED;
use crate::rule::ALL;
use crate::script::fly;
use crate::sources::tests::SOURCES;
use crate::{Severity, find};
use flight::{Component, RuleId};

/// A WDDM 1.x driver, from start to stop, without a breach.
const GOOD: &str = "
    call:1 ddi.call name=DxgkDdiStartDevice level=passive threading_level=three adapter=adapter:1 process=-
    c1 driver-pointer:1 pool.allocated bytes=128 tag=Wtun
    call:1 ddi.return name=DxgkDdiStartDevice result=ok legal=true
    adapter:1 adapter.started nodes=1 generation=1
    node:0 node.started adapter=adapter:1 ordinal=0
    process:1 process.opened
    process:1 enter call=D3DKMTCreateDevice
    process:1 handle.reserved handle=0x40000000
    call:2 ddi.call name=DxgkDdiCreateDevice level=passive threading_level=zero adapter=adapter:1 process=process:1
    call:2 ddi.return name=DxgkDdiCreateDevice result=ok legal=true
    device:1 device.created process=process:1 adapter=adapter:1
    process:1 handle.published handle=0x40000000 of=device:1
    process:1 leave call=D3DKMTCreateDevice status=0x00000000
    context:1 context.created device=device:1 node=node:0
    process:1 enter call=D3DKMTCreateAllocation2
    process:1 handle.reserved handle=0x40000040
    process:1 handle.reserved handle=0x40000080
    call:3 ddi.call name=DxgkDdiCreateAllocation level=passive threading_level=zero adapter=adapter:1 process=process:1
    c3 driver-pointer:2 pool.allocated bytes=64 tag=Wtun
    c3 driver-pointer:2 pool.freed
    call:3 ddi.return name=DxgkDdiCreateAllocation result=no-memory legal=true
    process:1 handle.cancelled handle=0x40000080
    process:1 handle.cancelled handle=0x40000040
    process:1 leave call=D3DKMTCreateAllocation2 status=0xc0000017
    process:1 enter call=D3DKMTCreateAllocation2
    process:1 handle.reserved handle=0x40000040
    process:1 handle.reserved handle=0x40000080
    call:4 ddi.call name=DxgkDdiCreateAllocation level=passive threading_level=zero adapter=adapter:1 process=process:1
    c4 driver-pointer:2 pool.allocated bytes=64 tag=Wtun
    c4 driver-pointer:3 pool.allocated bytes=32 tag=Wtun
    call:4 ddi.return name=DxgkDdiCreateAllocation result=ok legal=true
    resource:1 resource.created adapter=adapter:1 device=device:1 sharing=global
    driver-pointer:3 driver-handle.set of=resource:1
    allocation:1 allocation.created adapter=adapter:1 device=device:1 resource=resource:1 size=4096 pitch_size=0 alignment=0 client_data=0x00000001 driver_data=0x00000001
    driver-pointer:2 driver-handle.set of=allocation:1
    resource-view:1 resource-view.opened resource=resource:1 device=device:1
    call:5 ddi.call name=DxgkDdiOpenAllocation level=passive threading_level=zero adapter=adapter:1 process=process:1
    c5 allocation:1 handle-data.acquired driver_handle=driver-pointer:2 reference=1
    c5 allocation:1 handle-data.released reference=1
    c5 driver-pointer:4 pool.allocated bytes=16 tag=Wtun
    c5 view:1 ddi.opens device=device:1 resource=resource:1 create=false batch=1
    call:5 ddi.return name=DxgkDdiOpenAllocation result=ok legal=true
    view:1 view.opened allocation=allocation:1 device=device:1 resource=resource:1 handle_set=true
    driver-pointer:4 driver-handle.set of=view:1
    resource:1 share.recorded runtime=4 total=16
    process:1 handle.shared handle=0x40000002 of=resource:1
    process:1 handle.published handle=0x40000040 of=resource-view:1
    process:1 handle.published handle=0x40000080 of=view:1
    process:1 leave call=D3DKMTCreateAllocation2 status=0x00000000
    resource:1 share.queried runtime=4 total=16 copied=0
    resource:1 share.opened written=16 copied=20
    device:1 device.state-queried state=active
    process:1 packet.private bytes=4 before=0x00000001 after=0x00000001
    context:1 packet.queued packet=1
    context:1 packet.submitted packet=1 node=node:0 fence=1
    call:6 ddi.call name=DxgkDdiSubmitCommandVirtual level=dispatch threading_level=scheduler adapter=adapter:1 process=-
    call:6 ddi.return name=DxgkDdiSubmitCommandVirtual result=ok legal=true
    process:1 enter call=D3DKMTDestroyAllocation2
    retirement:1 retire.requested device=device:1 views=1 assume_not_in_use=false synchronous=true
    process:1 handle.closed handle=0x40000080 of=view:1
    process:1 handle.closed handle=0x40000040 of=resource-view:1
    view:1 view.retiring by=device:1 retirement=retirement:1
    resource-view:1 resource-view.retiring by=device:1 retirement=retirement:1
    retirement:1 retire.waits context=context:1 packet=1
    retirement:1 wait.parked why=\"retirement 1\"
    t2 node:0 fence.reported fence=1
    t2 adapter:1 dpc.queued inserted=true
    t2 node:0 fence.passed fence=1
    t2 context:1 packet.done packet=1 node=node:0 fence=1
    t2 view:1 view.idle
    t2 retirement:1 retire.idle
    t2 allocation:1 allocation.decommitted
    t2 call:7 ddi.call name=DxgkDdiCloseAllocation level=passive threading_level=zero adapter=adapter:1 process=-
    t2 c7 view:1 ddi.closes device=device:1 batch=1
    t2 c7 driver-pointer:4 pool.freed
    t2 call:7 ddi.return name=DxgkDdiCloseAllocation result=ok legal=true
    t2 driver-pointer:4 driver-handle.ended of=view:1 only_object=false
    t2 view:1 view.closed
    t2 resource-view:1 resource-view.closed
    t2 call:8 ddi.call name=DxgkDdiDestroyAllocation level=passive threading_level=zero adapter=adapter:1 process=-
    t2 c8 allocation:1 ddi.destroys adapter=adapter:1
    t2 c8 resource:1 ddi.resource driver_handle=driver-pointer:3 destroy=true no_allocations=false
    t2 c8 driver-pointer:2 pool.freed
    t2 c8 driver-pointer:3 pool.freed
    t2 call:8 ddi.return name=DxgkDdiDestroyAllocation result=ok legal=true
    t2 driver-pointer:2 driver-handle.ended of=allocation:1 only_object=false
    t2 driver-pointer:3 driver-handle.ended of=resource:1 only_object=false
    t2 allocation:1 allocation.destroyed
    t2 resource:1 resource.destroyed
    t2 retirement:1 retire.done
    retirement:1 wait.ended result=woken
    retirement:1 retire.returned done=true
    process:1 leave call=D3DKMTDestroyAllocation2 status=0x00000000
    process:1 handle.reserved handle=0x400000c0
    context:1 context.destroyed
    device:1 device.destroyed
    process:1 handle.closed handle=0x40000000 of=device:1
    process:1 process.ended
    adapter:1 adapter.stopped
    call:9 ddi.call name=DxgkDdiStopDevice level=passive threading_level=three adapter=adapter:1 process=-
    c9 driver-pointer:1 pool.freed
    call:9 ddi.return name=DxgkDdiStopDevice result=ok legal=true
";

/// An empty resource that is destroyed on its own.
const ALONE: &str = "
    driver-pointer:5 pool.allocated bytes=32 tag=Wtun
    driver-pointer:5 driver-handle.set of=resource:2
    resource:2 resource.created adapter=adapter:1 device=device:1 sharing=none
    c9 resource:2 ddi.resource driver_handle=driver-pointer:5 destroy=true no_allocations=true
    c9 driver-pointer:5 pool.freed
    driver-pointer:5 driver-handle.ended of=resource:2 only_object=true
    resource:2 resource.destroyed
";

/// A WDDM 2 driver: its adapter, a device and a context, how it finds its data and handles an
/// escape; and a client that calls the first version of destroy.
const SECOND: &str = "
    call:20 ddi.call name=DxgkDdiAddDevice level=passive threading_level=three adapter=adapter:2 process=-
    c20 driver-pointer:6 pool.allocated bytes=128 tag=Wtun
    c20 driver-pointer:6 driver-handle.set of=adapter:2
    call:20 ddi.return name=DxgkDdiAddDevice result=ok legal=true
    adapter:2 adapter.started nodes=1 generation=2
    driver-pointer:7 pool.allocated bytes=64 tag=Wtun
    device:2 device.created process=process:2 adapter=adapter:2
    driver-pointer:7 driver-handle.set of=device:2
    call:21 ddi.call name=DxgkDdiCreateContext level=passive threading_level=zero adapter=adapter:2 process=-
    c21 driver-pointer:8 pool.allocated bytes=64 tag=Wtun
    call:21 ddi.return name=DxgkDdiCreateContext result=ok legal=true
    context:2 context.created device=device:2 node=node:0
    driver-pointer:8 driver-handle.set of=context:2
    call:22 ddi.call name=DxgkDdiOpenAllocation level=passive threading_level=zero adapter=adapter:2 process=-
    c22 adapter:2 callback name=DxgkCbAcquireHandleData
    call:22 ddi.return name=DxgkDdiOpenAllocation result=ok legal=true
    process:2 enter call=D3DKMTEscape
    process:2 escape.requested hardware=true resolved=true
    call:23 ddi.call name=DxgkDdiEscape level=passive threading_level=two adapter=adapter:2 process=process:2
    c23 call:23 ddi.escapes hardware=true
    call:23 ddi.return name=DxgkDdiEscape result=ok legal=true
    process:2 leave call=D3DKMTEscape status=0x00000000
    process:2 enter call=D3DKMTEscape
    process:2 escape.requested hardware=false resolved=false
    process:2 leave call=D3DKMTEscape status=0xc000000d
    process:2 enter call=D3DKMTDestroyAllocation
    resource:3 resource.created adapter=adapter:2 device=device:2 sharing=none
    resource-view:3 resource-view.opened resource=resource:3 device=device:2
    retirement:2 retire.requested device=device:2 views=0 assume_not_in_use=false synchronous=false
    resource-view:3 resource-view.retiring by=device:2 retirement=retirement:2
    resource-view:3 resource-view.closed
    resource:3 resource.destroyed
    retirement:2 retire.done
    process:2 leave call=D3DKMTDestroyAllocation status=0x00000000
    context:2 ddi.ends
    driver-pointer:8 pool.freed
    context:2 context.destroyed
    driver-pointer:8 driver-handle.ended of=context:2 only_object=false
    driver-pointer:7 pool.freed
    device:2 device.destroyed
    driver-pointer:7 driver-handle.ended of=device:2 only_object=false
    driver-pointer:6 pool.freed
    driver-pointer:6 driver-handle.ended of=adapter:2 only_object=false
    adapter:2 adapter.stopped
    process:2 process.ended
";

/// An adapter that sleeps, wakes, is reset and is removed.
const POWER: &str = "
    call:30 ddi.call name=DxgkDdiAddDevice level=passive threading_level=three adapter=adapter:8 process=-
    c30 driver-pointer:9 driver-handle.set of=adapter:8
    call:30 ddi.return name=DxgkDdiAddDevice result=ok legal=true
    adapter:8 adapter.started nodes=1 generation=2
    call:31 ddi.call name=DxgkDdiSetPowerState level=passive threading_level=three adapter=adapter:8 process=-
    c31 adapter:8 ddi.adapter driver_handle=driver-pointer:9
    call:31 ddi.return name=DxgkDdiSetPowerState result=ok legal=true
    adapter:8 adapter.powered state=d3
    call:32 ddi.call name=DxgkDdiNotifySurpriseRemoval level=passive threading_level=three adapter=adapter:8 process=-
    call:32 ddi.return name=DxgkDdiNotifySurpriseRemoval result=ok legal=true
    adapter:8 adapter.surprise-removed
    call:33 ddi.call name=DxgkDdiResetDevice level=device threading_level=none adapter=adapter:8 process=-
    call:33 ddi.return name=DxgkDdiResetDevice result=ok legal=true
    call:34 ddi.call name=DxgkDdiStopDeviceAndReleasePostDisplayOwnership level=passive threading_level=three adapter=adapter:8 process=-
    call:34 ddi.return name=DxgkDdiStopDeviceAndReleasePostDisplayOwnership result=unsupported legal=true
    call:35 ddi.call name=DxgkDdiStopDevice level=passive threading_level=three adapter=adapter:8 process=-
    call:35 ddi.return name=DxgkDdiStopDevice result=ok legal=true
    driver-pointer:9 driver-handle.ended of=adapter:8 only_object=false
    adapter:8 adapter.stopped
";

/// An adapter whose node gives paging commands back, and whose engine cannot be reset.
const RECOVERY: &str = "
    call:80 ddi.call name=DxgkDdiAddDevice level=passive threading_level=three adapter=adapter:9 process=-
    call:80 ddi.return name=DxgkDdiAddDevice result=ok legal=true
    adapter:9 adapter.started nodes=1 generation=2
    node:8 node.started adapter=adapter:9 ordinal=0
    device:8 device.created process=process:8 adapter=adapter:9
    node:8 paging.submitted paging=paging:8 fence=1 bytes=24 switch=false
    call:81 ddi.call name=DxgkDdiSubmitCommand level=dispatch threading_level=scheduler adapter=adapter:9 process=-
    c81 call:81 ddi.pages context=-
    call:81 ddi.return name=DxgkDdiSubmitCommand result=ok legal=true
    call:82 ddi.call name=DxgkDdiPreemptCommand level=dispatch threading_level=scheduler adapter=adapter:9 process=-
    call:82 ddi.return name=DxgkDdiPreemptCommand result=ok legal=true
    node:8 node.preempted preemption=1 last=0
    node:8 paging.submitted paging=paging:8 fence=1 bytes=24 switch=false
    call:83 ddi.call name=DxgkDdiCancelCommand level=passive threading_level=scheduler adapter=adapter:9 process=-
    call:83 ddi.return name=DxgkDdiCancelCommand result=ok legal=true
    node:8 node.reset done=0 aborted=1 submitted=1
    device:8 device.paging-lost of=allocation:8 paging=paging:8
    device:8 device.lost why=\"its work does not end\"
    device:8 device.state-queried state=\"its work does not end\"
    adapter:9 adapter.reset now=0 count=1
    call:84 ddi.call name=DxgkDdiResetFromTimeout level=passive threading_level=three adapter=adapter:9 process=-
    call:84 ddi.return name=DxgkDdiResetFromTimeout result=ok legal=true
    adapter:9 paging.dropped operation=transfer of=allocation:8 bytes=0
    adapter:9 adapter.restarted
    device:8 device.destroyed
    adapter:9 adapter.stopped
";

/// Good flights, one behind the other, in which every history rule judges.
pub(crate) fn good_flights() -> String {
    [
        GOOD, ALONE, SECOND, MEMORY, KEYED, NT_SHARED, SOURCES, POWER, SYNC, ADDRESSES, RECOVERY,
        STREAM,
    ]
    .concat()
}

#[test]
fn a_good_flight_is_quiet_and_judged_by_every_history_rule() {
    let flight = good_flights();
    let verifier = fly(&flight);
    assert_eq!(verifier.findings(), []);
    for rule in ALL.iter().copied().flatten() {
        assert_ne!(
            verifier.rule_counts().count_of(rule.id),
            0,
            "{} judged nothing",
            rule.id.name()
        );
    }
    assert_eq!(verifier.called().len(), 39);
    let lines = flight.lines().filter(|text| !text.trim().is_empty());
    assert_eq!(verifier.events(), u64::try_from(lines.count()).unwrap());
}

#[test]
fn what_ended_is_forgotten() {
    let verifier = fly(GOOD);
    // Freed blocks are kept, and so are their driver handles, until the numbers are reused.
    assert_eq!(verifier.shadow_count(), 4, "{verifier:#?}");
    assert_eq!(fly(&GOOD.repeat(50)).shadow_count(), 4);
    assert_eq!(fly(STREAM).shadow_count(), 0);
}

#[test]
fn a_finding_says_everything() {
    let early = GOOD.replace(
        "    t2 c7 driver-pointer:4 pool.freed\n",
        "    t2 c7 driver-pointer:4 pool.freed\n    t2 c7 driver-pointer:2 pool.freed\n",
    );
    let verifier = fly(&early);
    let [close, destroy] = verifier.findings() else { panic!("{:#?}", verifier.findings()) };
    assert_eq!(close.rule, RuleId::KMD_OPEN_007);
    assert_eq!((close.component, close.severity), (Component::Driver, Severity::Warning));
    assert_eq!(close.basis, "inferred");
    let windows = "use of the freed block, with special pool: bug check 0xD5";
    assert!(close.windows.ends_with(windows), "{}", close.windows);
    assert_eq!(close.argument, "DxgkDdiCloseAllocation");
    assert_eq!(destroy.rule, RuleId::KMD_DESTROY_003);
    assert_eq!(destroy.argument, "DxgkDdiDestroyAllocation, pAllocationList");
    assert!(destroy.message.ends_with("was freed before, in DxgkDdiCloseAllocation"));
    assert!(destroy.events.is_sorted() && destroy.events.len() > 3, "{:?}", destroy.events);
}

#[test]
fn repeats_are_counted_on_the_first() {
    let verifier = fly(&"node:0 fence.reported fence=1\n".repeat(3));
    let [finding] = verifier.findings() else { panic!("{:#?}", verifier.findings()) };
    assert_eq!((finding.count, &*finding.events), (3, &[1][..]));
    assert_eq!(finding.windows, "stops with bug check 0x119 (0x1)");
    assert_eq!(verifier.rule_counts().count_of(RuleId::KMD_ISR_008), 3);
}

#[test]
fn what_a_door_judged_is_a_finding_and_not_counted_here() {
    let line = "device:1 rule.broken rule=ALLOC-CREATE-001 component=client argument=D3DKMTCreateAllocation message=no";
    let verifier = fly(line);
    let [finding] = verifier.findings() else { panic!("{:#?}", verifier.findings()) };
    assert_eq!((finding.rule, finding.component), (RuleId::ALLOC_CREATE_001, Component::Client));
    assert_eq!(finding.source, find("ALLOC-CREATE-001").unwrap().source);
    assert_eq!(verifier.rule_counts().count_of(RuleId::ALLOC_CREATE_001), 0);
}

#[test]
fn a_wrong_answer_of_submit_stops_windows_and_others_are_not_known() {
    let result = |name| format!("call:1 ddi.return name={name} result=busy legal=false\n");
    let both = result("DxgkDdiSubmitCommandVirtual") + &result("DxgkDdiCloseAllocation");
    let verifier = fly(&both);
    let windows: Vec<_> =
        verifier.findings().iter().map(|finding| finding.windows.as_str()).collect();
    assert_eq!(windows, ["stops with bug check 0x119 (0x2)", "not known"]);
}

#[test]
fn absent_entries_are_counted() {
    let verifier = fly("run:0 entry.missing name=D3DKMTLock\nrun:0 entry.missing name=D3DKMTLock");
    assert_eq!(verifier.missing().get("D3DKMTLock"), Some(&2));
}

#[test]
fn a_trace_with_holes_or_in_a_wrong_order_is_judged_and_never_a_panic() {
    let whole = [GOOD, MEMORY].concat();
    let lines: Vec<&str> = whole.trim().lines().filter(|text| !text.trim().is_empty()).collect();
    let mut found = 0;
    for read_gpu in 0..lines.len() - 1 {
        let mut holed = lines.clone();
        holed.remove(read_gpu);
        found += fly(&holed.join("\n")).findings().len();
        let mut swapped = lines.clone();
        swapped.swap(read_gpu, read_gpu + 1);
        found += fly(&swapped.join("\n")).findings().len();
    }
    assert!(found > 30, "only {found} findings");
}
