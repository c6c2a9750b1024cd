//! A flight of an adapter with memory: its context allocations, and an allocation that is made
//! resident, offered, discarded, locked, moved and evicted, without a breach.

pub(crate) const MEMORY: &str = "
    segment:1 segment.found adapter=adapter:3 number=1 base=4096 size=8192 aperture=true target=false
    segment:2 segment.found adapter=adapter:3 number=2 base=65536 size=8192 aperture=false target=true
    segment:3 segment.found adapter=adapter:3 number=3 base=131072 size=8192 aperture=false target=true
    adapter:3 adapter.started nodes=1 generation=2
    process:3 budget.queried adapter=adapter:3 local=true budget=4096 usage=0 reserved=0 reservable=2048
    node:3 node.started adapter=adapter:3 ordinal=0
    context-allocation:1 context-allocation.created adapter=adapter:3 device=device:3 context=- bytes=4096 driver_handle=driver-pointer:50
    device:3 device.created process=process:3 adapter=adapter:3
    context-allocation:2 context-allocation.created adapter=adapter:3 device=device:3 context=context:3 bytes=4096 driver_handle=driver-pointer:51
    context:3 context.created device=device:3 node=node:3
    process:3 handle.reserved handle=0x40000000
    process:3 handle.reserved handle=0x40000040
    paging-queue:1 paging-queue.created device=device:3 priority=0
    process:3 handle.published handle=0x40000000 of=paging-queue:1
    process:3 handle.published handle=0x40000040 of=paging-queue-fence:1
    context-allocation:1 context-allocation.updating data=0x00000007
    context-allocation:1 memory.placed segment=segment:2 address=65536 bytes=4096
    paging:1 paging.planned adapter=adapter:3 steps=2 waits=0
    call:30 ddi.return name=DxgkDdiBuildPagingBuffer result=ok legal=true
    adapter:3 paging.private buffer=4096 bytes=1 before=0x050c5d1f after=0x00000001
    adapter:3 paging.private buffer=4096 bytes=1 before=0x00000001 after=0x00000001
    paging:1 paging.built operation=init-context of=context-allocation:1 driver_handle=driver-pointer:50 segment=segment:2 address=65536 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    paging:1 paging.built operation=update-context of=context-allocation:1 driver_handle=driver-pointer:50 segment=segment:2 address=65536 size=4096 private=0x00000007 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    node:3 paging.submitted paging=paging:1 fence=1 bytes=16 switch=false
    call:30 ddi.call name=DxgkDdiSubmitCommand level=dispatch threading_level=scheduler adapter=adapter:3 process=-
    call:30 ddi.return name=DxgkDdiSubmitCommand result=ok legal=true
    node:3 fence.reported fence=1
    node:3 fence.passed fence=1
    paging:1 paging.done operation=init-context of=context-allocation:1 segment=segment:2 page_in=true
    paging:1 paging.done operation=update-context of=context-allocation:1 segment=segment:2 page_in=true
    paging:1 paging.ended lost=false
    context-allocation:1 context-allocation.updated
    context-allocation:2 memory.placed segment=segment:2 address=69632 bytes=4096
    paging:2 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:2 paging.built operation=init-context of=context-allocation:2 driver_handle=driver-pointer:51 segment=segment:2 address=69632 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    paging:2 paging.done operation=init-context of=context-allocation:2 segment=segment:2 page_in=true
    paging:2 paging.ended lost=false
    allocation:5 allocation.created adapter=adapter:3 device=device:3 resource=- size=4096 pitch_size=0 alignment=0 client_data=0x00000001 driver_data=0x00000001
    allocation:5 memory.requirements cpu_visible=true cached=false pinned=false notified=false mappable=true
    view:5 view.opened allocation=allocation:5 device=device:3 resource=- handle_set=true
    allocation:5 memory.placed segment=segment:3 address=131072 bytes=4096
    view:5 residency.counted device=device:3 queue=paging-queue:1 count=1 only_if_necessary=false not_written=false
    paging:3 paging.planned adapter=adapter:3 steps=1 waits=0
    paging-queue:1 paging-queue.assigned paging=paging:3 value=1
    paging-queue:1 residency.requested queue=paging-queue:1 views=1 must_succeed=false result=pending value=1 trim=0
    paging:3 paging.built operation=fill of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    paging:3 paging.done operation=fill of=allocation:5 segment=segment:3 page_in=true
    paging:3 paging.ended lost=false
    paging-queue:1 paging-queue.signalled value=1
    context:3 packet.queued packet=1
    context:3 packet.submitted packet=1 node=node:3 fence=2
    view:5 offer.started priority=1 waits=1
    node:3 fence.reported fence=2
    node:3 fence.passed fence=2
    node:3 node.switched to=context:3
    context:3 packet.done packet=1 node=node:3 fence=2
    view:5 offer.ready
    allocation:5 memory.evicted segment=segment:3 discard=true why=\"it was offered\"
    paging:4 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:4 paging.built operation=discard of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=false idle=true bytes=8 pass=1 result=ok complete=true
    paging:4 paging.done operation=discard of=allocation:5 segment=segment:3 page_in=false
    paging:4 paging.ended lost=false
    view:5 offer.ended discarded=true queue=paging-queue:1 value=0
    view:5 residency.counted device=device:3 queue=- count=0 only_if_necessary=false not_written=false
    view:5 lock.requested do_not_wait=true do_not_evict=false
    view:5 lock.acquired count=1 location=system do_not_wait=true
    view:5 lock.ended count=0 dropped=false
    allocation:5 memory.placed segment=segment:3 address=131072 bytes=4096
    view:5 residency.counted device=device:3 queue=paging-queue:1 count=1 only_if_necessary=false not_written=false
    paging:5 paging.planned adapter=adapter:3 steps=1 waits=0
    paging-queue:1 paging-queue.assigned paging=paging:5 value=2
    paging-queue:1 residency.requested queue=paging-queue:1 views=1 must_succeed=false result=pending value=2 trim=0
    paging:5 paging.built operation=transfer of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=busy complete=false
    call:31 ddi.call name=DxgkDdiBuildPagingBuffer level=passive threading_level=scheduler adapter=adapter:3 process=-
    call:31 ddi.return name=DxgkDdiBuildPagingBuffer result=ok legal=true
    paging:5 paging.built operation=transfer of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=true idle=true bytes=8 pass=2 result=ok complete=true
    paging:5 paging.done operation=transfer of=allocation:5 segment=segment:3 page_in=true
    paging:5 paging.ended lost=false
    paging-queue:1 paging-queue.signalled value=2
    view:5 lock.requested do_not_wait=false do_not_evict=false
    allocation:5 memory.evicted segment=segment:3 discard=false why=\"the CPU locks it\"
    paging:6 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:6 paging.built operation=transfer of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=false idle=true bytes=8 pass=1 result=ok complete=true
    paging:6 paging.done operation=transfer of=allocation:5 segment=segment:3 page_in=false
    paging:6 paging.ended lost=false
    view:5 lock.acquired count=1 location=system do_not_wait=false
    view:5 lock.ended count=0 dropped=false
    allocation:5 memory.placed segment=segment:3 address=131072 bytes=4096
    paging:7 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:7 paging.built operation=transfer of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    paging:7 paging.done operation=transfer of=allocation:5 segment=segment:3 page_in=true
    paging:7 paging.ended lost=false
    view:5 residency.counted device=device:3 queue=- count=0 only_if_necessary=false not_written=true
    allocation:5 memory.evicted segment=segment:3 discard=true why=\"its client evicted it\"
    paging:8 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:8 paging.built operation=discard of=allocation:5 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=false idle=true bytes=8 pass=1 result=ok complete=true
    paging:8 paging.done operation=discard of=allocation:5 segment=segment:3 page_in=false
    paging:8 paging.ended lost=false
    allocation:5 memory.placed segment=segment:1 address=4096 bytes=4096
    view:5 residency.counted device=device:3 queue=paging-queue:1 count=1 only_if_necessary=false not_written=false
    paging:9 paging.planned adapter=adapter:3 steps=1 waits=0
    paging-queue:1 paging-queue.assigned paging=paging:9 value=3
    view:5 residency.queried of=resource-view:9 result=away
    view:5 offer.ended discarded=false queue=paging-queue:1 value=3
    view:5 lock.requested do_not_wait=false do_not_evict=false
    view:5 lock.acquired count=1 location=aperture do_not_wait=false
    view:5 lock.ended count=0 dropped=false
    paging:9 paging.built operation=map-aperture of=allocation:5 driver_handle=driver-pointer:52 segment=segment:1 address=4096 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    paging:9 paging.done operation=map-aperture of=allocation:5 segment=segment:1 page_in=true
    paging:9 paging.ended lost=false
    paging-queue:1 paging-queue.signalled value=3
    view:5 lock.requested do_not_wait=false do_not_evict=false
    view:5 lock.acquired count=1 location=aperture do_not_wait=false
    context:3 context.lists commands=1024 list=16 patches=32
    context:3 packet.rendered pass=1 commands=8 capacity=1024 bytes=8 uses=1 patches=1 result=ok
    allocation:5 packet.uses node=node:3 fence=3 segment=segment:1 address=4096
    allocation:5 allocation.limited limit=2
    instance:1 instance.created of=allocation:5 view=view:5 driver_handle=driver-pointer:52 count=2
    instance:1 memory.requirements cpu_visible=true cached=false pinned=false notified=false mappable=true
    instance:1 lock.requested do_not_wait=false do_not_evict=false
    view:5 lock.renamed to=instance:1 turn=2
    instance:1 lock.acquired count=1 location=system do_not_wait=false
    instance:1 lock.ended count=1 dropped=false
    instance:1 memory.placed segment=segment:3 address=131072 bytes=4096
    paging:20 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:20 paging.built operation=transfer of=instance:1 driver_handle=driver-pointer:52 segment=segment:3 address=131072 size=4096 private=0x00000000 page_in=true idle=false bytes=8 pass=1 result=ok complete=true
    paging:20 paging.done operation=transfer of=instance:1 segment=segment:3 page_in=true
    paging:20 paging.ended lost=false
    instance:1 memory.freed
    instance:1 instance.destroyed
    node:3 packet.patched fence=3 start=0 end=8
    node:3 packet.started fence=3 start=0 end=8 null=false
    view:5 lock.ended count=0 dropped=false
    process:3 budget.queried adapter=adapter:3 local=true budget=8192 usage=0 reserved=0 reservable=4096
    process:3 trim.required adapter=adapter:3 by=notification usage=0 budget=8192 shared_usage=4096 shared_budget=0 missing=0 bytes=4096
    device:3 trim.notified flags=to-budget bytes=4096
    view:5 residency.counted device=device:3 queue=- count=0 only_if_necessary=false not_written=false
    device:3 trim.returned bytes=4096
    allocation:5 memory.evicted segment=segment:1 discard=false why=\"its client evicted it\"
    paging:10 paging.planned adapter=adapter:3 steps=1 waits=0
    paging:10 paging.built operation=unmap-aperture of=allocation:5 driver_handle=driver-pointer:52 segment=segment:1 address=4096 size=4096 private=0x00000000 page_in=false idle=true bytes=8 pass=1 result=ok complete=true
    paging:10 paging.done operation=unmap-aperture of=allocation:5 segment=segment:1 page_in=false
    paging:10 paging.ended lost=false
    allocation:5 memory.freed
    process:3 handle.closed handle=0x40000000 of=paging-queue:1
    process:3 handle.closed handle=0x40000040 of=paging-queue-fence:1
    paging-queue:1 paging-queue.destroyed
    device:4 device.created process=process:3 adapter=adapter:3
    paging-queue:2 paging-queue.created device=device:4 priority=0
    paging-queue:2 residency.requested queue=paging-queue:2 views=1 must_succeed=true result=no-memory value=0 trim=8
    device:4 device.lost why=memory
    paging-queue:2 paging-queue.destroyed
    device:4 device.destroyed
    context-allocation:2 context-allocation.freed owner_ended=false
    node:3 node.switched to=-
    context-allocation:2 memory.freed
    context-allocation:2 context-allocation.destroyed
";

mod tests {
    use super::MEMORY;
    use crate::script::{fly, messages};
    use flight::{Component, RuleId};

    /// The findings of a rule on the flight with one line changed.
    fn changed(rule: RuleId, from: &str, to: &str) -> Vec<String> {
        assert!(MEMORY.contains(from), "{from}");
        messages(rule, &MEMORY.replacen(from, to, 1))
    }

    #[test]
    fn it_is_quiet() {
        assert_eq!(fly(MEMORY).findings(), []);
    }

    #[test]
    fn a_driver_answers_what_it_may() {
        let ok = "DxgkDdiBuildPagingBuffer result=ok legal=true";
        let odd = "DxgkDdiBuildPagingBuffer result=invalid legal=false";
        let script = MEMORY.replacen(ok, odd, 1);
        let verifier = fly(&script);
        let [finding] = verifier.findings() else { panic!("{:#?}", verifier.findings()) };
        assert_eq!((finding.rule, finding.component), (RuleId::KMD_PAGING_001, Component::Driver));
        assert_eq!(finding.windows, "stops with bug check 0x10E (0xB)");
        let busy = "idle=true bytes=8 pass=2 result=busy";
        let ready = "idle=true bytes=8 pass=2 result=ok";
        assert_eq!(changed(RuleId::KMD_PAGING_005, ready, busy).len(), 1);
    }

    #[test]
    fn what_is_there_is_not_filled_and_not_given_its_first_bytes_again() {
        let comes = "paging:7 paging.done operation=transfer";
        let again = "paging:7 paging.done operation=fill of=allocation:5 segment=segment:3 \
                     page_in=true\n    paging:7 paging.done operation=fill";
        assert_eq!(changed(RuleId::KMD_PAGING_011, comes, again).len(), 1);
        let first = "paging:2 paging.done operation=init-context";
        let twice = "paging:2 paging.done operation=init-context of=context-allocation:2 \
                     segment=segment:2 page_in=true\n    paging:2 paging.done operation=init-context";
        let message = changed(RuleId::KMD_PAGING_018, first, twice);
        assert!(message[0].ends_with("and loses what was saved in it"), "{message:?}");
    }

    #[test]
    fn what_was_not_mapped_is_not_unmapped() {
        let out = "paging:6 paging.done operation=transfer";
        let unmap = "paging:6 paging.done operation=unmap-aperture";
        let message = changed(RuleId::KMD_PAGING_014, out, unmap);
        assert_eq!(message, ["allocation 5 is taken out of segment 3, but was not mapped"]);
    }

    #[test]
    fn a_driver_is_told_only_of_what_it_asked_for() {
        let out = "paging:6 paging.done operation=transfer";
        let notification = "paging:6 paging.done operation=notify-residency";
        assert_eq!(changed(RuleId::KMD_PAGING_025, out, notification).len(), 1);
        let (not, asked) = ("notified=false mappable", "notified=true mappable");
        let message = changed(RuleId::KMD_PAGING_025, not, asked);
        assert!(
            message[0].ends_with("its driver was not notified that it is evicted"),
            "{message:?}"
        );
    }

    #[test]
    fn what_a_running_context_saves_into_stays() {
        let ready = "    view:5 offer.ready\n";
        let leaves = "    context-allocation:2 memory.evicted segment=segment:2 discard=false \
                      why=room\n";
        let message = changed(RuleId::CB_CTXALLOC_006, ready, leaves);
        assert_eq!(
            message,
            ["context-allocation 2 leaves (room), and context 3, which saves into it, is running"]
        );
    }

    #[test]
    fn a_busy_allocation_waits_for_what_was_under_way() {
        let again = "idle=false bytes=8 pass=1 result=busy complete=false\n";
        let given = "    node:3 paging.submitted paging=paging:5 fence=3 bytes=0 switch=false\n";
        let before = "    paging:5 paging.planned adapter=adapter:3 steps=1 waits=0\n";
        let script = MEMORY.replacen(before, &[given, before].concat(), 1);
        let said_of = |text: &str| messages(RuleId::KMD_PAGING_006, text);
        let waits = "allocation 5 was busy, and is paged while 1 nodes have work from then to do";
        assert_eq!(said_of(&script), [waits]);
        let passed = [again, "    node:3 fence.passed fence=3\n"].concat();
        assert!(said_of(&script.replacen(again, &passed, 1)).is_empty());
    }

    #[test]
    fn what_a_device_lists_stays_unless_it_is_offered() {
        let ready = "    view:5 offer.ready\n";
        assert_eq!(changed(RuleId::RESID_MAKE_002, ready, "").len(), 1);
        assert_eq!(changed(RuleId::RESID_OFFER_004, ready, "").len(), 1);
    }
}
