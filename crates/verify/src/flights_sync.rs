//! A good flight of synchronisation objects, as a script.

/// Two processes share a semaphore; contexts and the CPU wait for fences; the GPU is reset.
pub(crate) const SYNC: &str = "
    process:5 process.opened
    process:6 process.opened
    device:5 device.created process=process:5 adapter=adapter:5
    context:5 context.created device=device:5 node=node:5
    context:6 context.created device=device:5 node=node:5
    sync:1 sync.created device=device:5 kind=semaphore value=0 sharing=global no_signal=false no_wait=false no_tdr_signal=false
    process:5 handle.shared handle=0x40000002 of=sync:1
    process:5 handle.published handle=0x40000400 of=sync:1
    sync:1 sync.handles-returned handle=0x40000400 global=0x40000002
    sync:1 sync.opened process=process:6 global=0x40000002
    process:6 handle.published handle=0x40000400 of=sync:1
    sync:2 sync.created device=device:5 kind=monitored value=0 sharing=nt no_signal=false no_wait=true no_tdr_signal=false
    process:5 handle.published handle=0x40000440 of=sync:2
    sync:2 sync.handles-returned handle=0x40000440 global=0x00000000
    sync:2 sync.requested device=device:5 operation=signal result=taken handle=0x40000440
    sync:2 sync.requested device=device:5 operation=wait result=denied handle=0x40000440
    gpu-wait:1 gpu-wait.started waiter=context:5 waiter_kind=context any=false count=1
    gpu-wait:1 gpu-wait.object of=sync:1 value=0
    sync:1 sync.signalled by=context value=1 shown=-
    sync:1 sync.acquired by=gpu-wait:1 remaining=0
    gpu-wait:1 gpu-wait.satisfied
    context:5 packet.queued packet=1
    context:5 packet.submitted packet=1 node=node:5 fence=1
    node:5 fence.reported fence=1
    node:5 fence.passed fence=1
    context:5 packet.done packet=1 node=node:5 fence=1
    process:5 enter call=D3DKMTWaitForSynchronizationObjectFromCpu
    gpu-wait:2 gpu-wait.started waiter=event:1 waiter_kind=event any=false count=2
    gpu-wait:2 gpu-wait.object of=sync:2 value=1
    gpu-wait:2 gpu-wait.object of=sync:2 value=2
    process:5 leave call=D3DKMTWaitForSynchronizationObjectFromCpu status=0x00000000
    t2 process:5 enter call=D3DKMTWaitForSynchronizationObjectFromCpu
    t2 gpu-wait:3 gpu-wait.started waiter=process:5 waiter_kind=thread any=true count=2
    t2 gpu-wait:3 gpu-wait.object of=sync:2 value=1
    t2 gpu-wait:3 gpu-wait.object of=sync:2 value=9
    sync:2 sync.signalled by=cpu value=1 shown=1
    gpu-wait:3 gpu-wait.satisfied
    t2 process:5 leave call=D3DKMTWaitForSynchronizationObjectFromCpu status=0x00000000
    sync:2 sync.reached broadcast=1 context=context:5 remaining=1
    sync:2 sync.reached broadcast=1 context=context:6 remaining=0
    sync:2 sync.signalled by=broadcast value=2 shown=2
    event:1 event.set by=gpu-wait:2
    gpu-wait:2 gpu-wait.satisfied
    gpu-wait:4 gpu-wait.started waiter=event:1 waiter_kind=event any=false count=1
    gpu-wait:4 gpu-wait.object of=sync:2 value=50
    gpu-wait:4 gpu-wait.released of=sync:2
    event:1 event.set by=gpu-wait:4
    gpu-wait:4 gpu-wait.satisfied
    sync:2 sync.signalled by=reset value=18446744073709551615 shown=18446744073709551615
    device:5 fences.reset
    process:6 handle.closed handle=0x40000400 of=sync:1
    sync:1 sync.closed process=process:6 handles=1
    process:6 process.ended
    process:5 handle.closed handle=0x40000400 of=sync:1
    sync:1 sync.closed process=process:5 handles=0
    sync:1 sync.destroyed
    process:5 handle.closed handle=0x40000440 of=sync:2
    sync:2 sync.closed process=process:5 handles=0
    sync:2 sync.destroyed
    context:5 context.destroyed
    context:6 context.destroyed
    device:5 device.destroyed
    process:5 process.ended
";

mod tests {
    use super::SYNC;
    use crate::script::{fly, messages};
    use flight::RuleId;

    /// The findings of a rule when a part of the script is replaced.
    fn changed(rule: RuleId, from: &str, to: &str) -> Vec<String> {
        assert!(SYNC.contains(from), "{from}");
        messages(rule, &SYNC.replacen(from, to, 1))
    }

    #[test]
    fn a_good_flight_is_quiet_and_forgotten() {
        let verifier = fly(SYNC);
        assert_eq!(verifier.findings(), []);
        // Whatever node and adapter it is about.
        assert!(fly(&SYNC.repeat(20)).shadow_count() <= verifier.shadow_count());
    }

    #[test]
    fn a_wait_ends_when_its_objects_have_their_values() {
        let taken = "    sync:1 sync.acquired by=gpu-wait:1 remaining=0\n";
        let wait = "gpu-wait 1 of context 5 is over, which needs sync 1 to have 0";
        assert_eq!(changed(RuleId::SYNC_CREATE_009, taken, ""), [wait]);
        let low = "sync.signalled by=broadcast value=1 shown=1";
        let high = "sync.signalled by=broadcast value=2 shown=2";
        let wait = "gpu-wait 2 of event 1 is over, which needs sync 2 to have 2";
        assert_eq!(changed(RuleId::SYNC_CREATE_009, high, low), [wait]);
        let passed = "    gpu-wait:1 gpu-wait.satisfied\n";
        let behind = "packet 1 of context 5 was submitted, behind gpu-wait 1 that is not satisfied";
        assert_eq!(changed(RuleId::SYNC_CREATE_012, passed, ""), [behind]);
        let left = "sync 1 is destroyed at value 0, and gpu-wait 1 for 0 was not released";
        assert_eq!(changed(RuleId::SYNC_CREATE_008, passed, ""), [left]);
    }

    #[test]
    fn a_packet_that_a_node_gave_back_is_before_the_wait() {
        let queued = "    context:5 packet.queued packet=1\n";
        let done = "    context:5 packet.done packet=1 node=node:5 fence=1\n";
        let again = "
    gpu-wait:7 gpu-wait.started waiter=context:5 waiter_kind=context any=false count=1
    gpu-wait:7 gpu-wait.object of=sync:2 value=7
    context:5 packet.returned packet=1 node=node:5 fence=1
    context:5 packet.submitted packet=1 node=node:5 fence=2
    gpu-wait:7 gpu-wait.cancelled\n";
        assert!(SYNC.contains(queued));
        let again = [again, done].concat();
        assert!(changed(RuleId::SYNC_CREATE_012, done, &again).is_empty());
    }

    #[test]
    fn a_thread_stays_until_its_wait_is_over() {
        let passed = "    gpu-wait:3 gpu-wait.satisfied\n";
        let message = changed(RuleId::SYNC_CREATE_010, passed, "");
        assert_eq!(message, ["process 5 goes on before its wait without an event is over"]);
        let set = "    event:1 event.set by=gpu-wait:2\n";
        let message = changed(RuleId::SYNC_CREATE_010, set, "");
        assert_eq!(message, ["gpu-wait 2 is over, and its event 1 is not set"]);
    }

    #[test]
    fn names_and_rights_are_as_they_were_given() {
        let (nt, global) = ("sharing=nt no_signal", "sharing=global no_signal");
        assert_eq!(changed(RuleId::SYNC_CREATE_017, nt, global).len(), 1);
        let (deaf, hears) = ("no_wait=true", "no_wait=false");
        let message = changed(RuleId::SYNC_CREATE_004, deaf, hears);
        assert_eq!(
            message,
            ["device 5 has sync 2 by 0x40000440 with the right to wait, which is denied"]
        );
        let closed = "    process:6 handle.closed handle=0x40000400 of=sync:1\n";
        let message = changed(RuleId::SYNC_CREATE_020, closed, "");
        assert_eq!(message, ["process 6 has ended, and 1 of its handles hold objects"]);
    }
}
