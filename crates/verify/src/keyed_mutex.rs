//! Keyed mutexes: rules on acquiring and releasing them, their fence values, and abandoned
//! mutexes.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use crate::shadow::keyed_mutex::KeyedMutexState;
use flight::{Component, Event, EventKind, Hex, RuleId, Subject};

const CREATE: &str = "D3DKMTCreateKeyedMutex2";
const OPEN: &str = "D3DKMTOpenKeyedMutex2";
const ACQUIRE: &str = "D3DKMTAcquireKeyedMutex";
const RELEASE: &str = "D3DKMTReleaseKeyedMutex";
const DESTROY: &str = "D3DKMTDestroyKeyedMutex";

/// How an acquire ends without the mutex.
const TIMED_OUT: &str = "timed-out";
const ABANDONED: &str = "abandoned";

/// The rules on keyed mutexes.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["keyed-mutex.created"], RuleId::MUTEX_KEYED_002, two_handles),
    Rule::on(
        &["keyed-mutex.opened", "keyed-mutex.open-failed", "keyed-mutex.open-returned"],
        RuleId::MUTEX_KEYED_004,
        runtime_buffer_untouched,
    ),
    Rule::on(
        &["keyed-mutex.not-acquired", "keyed-mutex.acquire-returned"],
        RuleId::MUTEX_KEYED_005,
        timeout_output,
    ),
    Rule::on(&["keyed-mutex.acquired"], RuleId::MUTEX_KEYED_006, acquire_returns_last_fence),
    Rule::on(
        &[
            "keyed-mutex.acquired",
            "keyed-mutex.not-acquired",
            "keyed-mutex.released",
            "keyed-mutex.abandoned",
            "keyed-mutex.closed",
        ],
        RuleId::MUTEX_KEYED_007,
        one_owner,
    ),
];

fn two_handles(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::KeyedMutexCreated { handle, global, sharing, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let kept = handle.0 != 0 && (global.0 == 0) == (sharing == "nt");
    Verdict::holds_if(kept, Component::Kernel, CREATE, || {
        format!(
            "{} is made for {sharing} sharing with handles {handle} and {global}: its maker gets \
             one of its own, and a global one unless it is for NT handles",
            event.subject
        )
    })
}

fn runtime_buffer_untouched(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.keyed_mutex(event.subject) else { return Verdict::NotApplicable };
    let (subject, there) = (event.subject, it.runtime);
    match event.kind {
        EventKind::KeyedMutexOpened { capacity: room, .. } => {
            Verdict::holds_if(room == 0 || room >= there, Component::Kernel, OPEN, || {
                format!(
                    "{subject} has {there} bytes of the runtime's data, and is opened with a \
                     buffer of {room}"
                )
            })
        }
        EventKind::KeyedMutexOpenFailed { capacity: room, .. } => {
            Verdict::holds_if(room != 0 && room < there, Component::Kernel, OPEN, || {
                format!(
                    "{subject} has {there} bytes of the runtime's data, and a buffer of {room} is \
                     refused"
                )
            })
        }
        EventKind::KeyedMutexOpenReturned { capacity: room, size, copied } => {
            Verdict::holds_if(size == room && copied == 0, Component::Kernel, OPEN, || {
                format!(
                    "an opener of {subject} came with a buffer of {room} bytes, finds size {size} \
                     and {copied} bytes in it: an open changes neither"
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn timeout_output(event: &Event, shadows: &Shadows) -> Verdict {
    let subject = event.subject;
    match &event.kind {
        EventKind::KeyedMutexNotAcquired { key, result: how, .. } if how == TIMED_OUT => {
            let Some(it) = shadows.keyed_mutex(event.subject) else {
                return Verdict::NotApplicable;
            };
            let free = matches!(it.state, KeyedMutexState::Free { key: free, .. } if free == *key);
            Verdict::holds_if(!free, Component::Kernel, ACQUIRE, || {
                format!("a wait for key {key} of {subject} timed out, and it is free for that key")
            })
        }
        EventKind::KeyedMutexAcquireReturned { result: how, requested, key, fence }
            if how == TIMED_OUT =>
        {
            Verdict::holds_if(*fence == 0 && key == requested, Component::Kernel, ACQUIRE, || {
                format!(
                    "a wait for key {requested} of {subject} timed out, and its caller finds key {key} \
                     and fence value {fence}: the key stays, and the value is zero"
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn acquire_returns_last_fence(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::KeyedMutexAcquired { key, fence, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(KeyedMutexState::Free { key: free, fence: last }) =
        shadows.keyed_mutex(event.subject).map(|keyed_mutex| keyed_mutex.state)
    else {
        return Verdict::NotApplicable; // Another rule judges whose turn it was.
    };
    Verdict::holds_if((key, fence) == (free, last), Component::Kernel, RELEASE, || {
        format!(
            "{} was released to key {free} with fence value {last}, and is acquired with key {key} \
             and fence value {fence}",
            event.subject
        )
    })
}

fn one_owner(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(turn) = shadows.keyed_mutex(event.subject).map(|keyed_mutex| keyed_mutex.state) else {
        return Verdict::NotApplicable;
    };
    let subject = event.subject;
    let (kept, place, what): (bool, _, fn(Subject, &str) -> String) = match &event.kind {
        EventKind::KeyedMutexAcquired { .. } => {
            (matches!(turn, KeyedMutexState::Free { .. }), ACQUIRE, |it, now| {
                format!("{it} is acquired while it is {now}")
            })
        }
        EventKind::KeyedMutexNotAcquired { result: how, .. } => {
            let abandoned = turn == KeyedMutexState::Abandoned;
            ((how == ABANDONED) == abandoned, ACQUIRE, |it, now| {
                format!(
                    "{it} is {now}, and its waiter is told otherwise: of an abandoned one, \
                     and of no other, an acquire says so"
                )
            })
        }
        EventKind::KeyedMutexReleased { process, handle, .. } => {
            (turn == KeyedMutexState::Owned((*process).into(), *handle), RELEASE, |it, now| {
                format!("{it} is released through another handle while it is {now}")
            })
        }
        EventKind::KeyedMutexAbandoned { process, handle } => {
            (turn == KeyedMutexState::Owned((*process).into(), *handle), DESTROY, |it, now| {
                format!("{it} is abandoned through another handle while it is {now}")
            })
        }
        EventKind::KeyedMutexClosed { process, handle } => {
            (turn != KeyedMutexState::Owned((*process).into(), *handle), DESTROY, |it, now| {
                format!("{it} is {now}, whose end abandons it, and it is not abandoned")
            })
        }
        _ => return Verdict::NotApplicable,
    };
    Verdict::holds_if(kept, Component::Kernel, place, || what(subject, &describe_state(turn)))
}

/// The turn, as text.
fn describe_state(turn: KeyedMutexState) -> String {
    match turn {
        KeyedMutexState::Free { key, .. } => format!("free for key {key}"),
        KeyedMutexState::Owned(process, Hex(handle)) => {
            format!("owned through handle {handle:#010x} of {process}")
        }
        KeyedMutexState::Abandoned => ABANDONED.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    /// Two processes, and one keyed mutex that is abandoned.
    pub(crate) const KEYED: &str = "
    keyed-mutex:1 keyed-mutex.created process=process:1 handle=0x40000000 global=0x40000002 sharing=global key=0 runtime=6
    keyed-mutex:1 keyed-mutex.open-failed process=process:2 capacity=5
    keyed-mutex:1 keyed-mutex.open-returned capacity=5 size=5 copied=0
    keyed-mutex:1 keyed-mutex.opened process=process:2 handle=0x40000000 capacity=6
    keyed-mutex:1 keyed-mutex.open-returned capacity=6 size=6 copied=0
    keyed-mutex:1 keyed-mutex.acquired process=process:1 handle=0x40000000 key=0 fence=0
    keyed-mutex:1 keyed-mutex.not-acquired process=process:2 handle=0x40000000 key=0 result=timed-out
    keyed-mutex:1 keyed-mutex.acquire-returned result=timed-out requested=0 key=0 fence=0
    keyed-mutex:1 keyed-mutex.released process=process:1 handle=0x40000000 key=1 fence=9 runtime=6
    keyed-mutex:1 keyed-mutex.acquired process=process:2 handle=0x40000000 key=1 fence=9
    keyed-mutex:1 keyed-mutex.abandoned process=process:2 handle=0x40000000
    keyed-mutex:1 keyed-mutex.closed process=process:2 handle=0x40000000
    keyed-mutex:1 keyed-mutex.not-acquired process=process:1 handle=0x40000000 key=0 result=abandoned
    keyed-mutex:1 keyed-mutex.closed process=process:1 handle=0x40000000
    keyed-mutex:1 keyed-mutex.destroyed
";

    const CREATED: &str = "keyed-mutex:1 keyed-mutex.created process=process:1 handle=0x40000000 \
         global=0x40000002 sharing=global key=0 runtime=6\n";
    const TAKEN: &str = "keyed-mutex:1 keyed-mutex.acquired process=process:1 handle=0x40000000 key=0 \
         fence=0\n";

    fn after(rule: RuleId, before: &str, event: &str) -> usize {
        messages(rule, &format!("{CREATED}{before}keyed-mutex:1 {event}")).len()
    }

    #[test]
    fn a_global_handle_is_for_global_sharing() {
        let id = RuleId::MUTEX_KEYED_002;
        assert_eq!((messages(id, CREATED).len(), judge_count(id, CREATED)), (0, 1));
        let nt = CREATED.replace("sharing=global", "sharing=nt");
        assert!(
            messages(id, &nt)[0].contains("for nt sharing with handles 0x40000000 and 0x40000002")
        );
        assert!(messages(id, &nt.replace("global=0x40000002", "global=0x00000000")).is_empty());
        assert_eq!(
            messages(id, &CREATED.replace("handle=0x40000000", "handle=0x00000000")).len(),
            1
        );
    }

    #[test]
    fn a_buffer_is_big_enough_and_not_written() {
        let id = RuleId::MUTEX_KEYED_004;
        let opened = |room: u32| {
            let event =
                format!("keyed-mutex.opened process=process:1 handle=0x40000040 capacity={room}");
            after(id, "", &event)
        };
        assert_eq!([opened(0), opened(5), opened(6), opened(64)], [0, 1, 0, 0]);
        let refused = |room: u32| {
            after(id, "", &format!("keyed-mutex.open-failed process=process:1 capacity={room}"))
        };
        assert_eq!([refused(0), refused(5), refused(6)], [1, 0, 1]);
        let returned = |size: u32, copied: u32| {
            after(
                id,
                "",
                &format!("keyed-mutex.open-returned capacity=64 size={size} copied={copied}"),
            )
        };
        assert_eq!([returned(64, 0), returned(6, 0), returned(64, 6)], [0, 1, 1]);
    }

    #[test]
    fn a_time_out_is_for_a_key_that_is_not_there_and_says_zero() {
        let id = RuleId::MUTEX_KEYED_005;
        let missed = |key: u32| {
            let name = "process=process:1 handle=0x40000000";
            after(id, "", &format!("keyed-mutex.not-acquired {name} key={key} result=timed-out"))
        };
        assert_eq!([missed(0), missed(1)], [1, 0]);
        let returned = |key: u32, fence: u32| {
            after(
                id,
                "",
                &format!(
                    "keyed-mutex.acquire-returned result=timed-out requested=1 key={key} fence={fence}"
                ),
            )
        };
        assert_eq!([returned(1, 0), returned(0, 0), returned(1, 9)], [0, 1, 1]);
    }

    #[test]
    fn an_acquire_gets_what_the_release_said() {
        let id = RuleId::MUTEX_KEYED_006;
        let name = "process=process:1 handle=0x40000000";
        let released = format!(
            "{TAKEN}keyed-mutex:1 keyed-mutex.released {name} key=1 fence=1234 runtime=6\n"
        );
        let taken = |key: u32, fence: u32| {
            after(id, &released, &format!("keyed-mutex.acquired {name} key={key} fence={fence}"))
        };
        assert_eq!([taken(1, 1234), taken(0, 1234), taken(1, 0)], [0, 1, 1]);
    }

    #[test]
    fn it_is_owned_through_one_handle_and_abandoned_with_it() {
        let id = RuleId::MUTEX_KEYED_007;
        let (mine, other) =
            ("process=process:1 handle=0x40000000", "process=process:1 handle=0x40000040");
        let taken = |event: String| after(id, TAKEN, &event);
        assert_eq!(taken(format!("keyed-mutex.acquired {other} key=0 fence=0")), 1);
        assert_eq!(taken(format!("keyed-mutex.released {mine} key=1 fence=0 runtime=0")), 0);
        assert_eq!(taken(format!("keyed-mutex.released {other} key=1 fence=0 runtime=0")), 1);
        assert_eq!(taken(format!("keyed-mutex.closed {other}")), 0);
        assert_eq!(taken(format!("keyed-mutex.closed {mine}")), 1);
        assert_eq!(taken(format!("keyed-mutex.abandoned {other}")), 1);
        assert_eq!(taken(format!("keyed-mutex.not-acquired {other} key=0 result=timed-out")), 0);
        assert_eq!(taken(format!("keyed-mutex.not-acquired {other} key=0 result=abandoned")), 1);
        let removed = format!("{TAKEN}keyed-mutex:1 keyed-mutex.abandoned {mine}\n");
        let removed = |event: String| after(id, &removed, &event);
        assert_eq!(removed(format!("keyed-mutex.closed {mine}")), 0);
        assert_eq!(removed(format!("keyed-mutex.not-acquired {other} key=0 result=abandoned")), 0);
        assert_eq!(removed(format!("keyed-mutex.not-acquired {other} key=0 result=timed-out")), 1);
        assert_eq!(removed(format!("keyed-mutex.acquired {other} key=0 fence=0")), 1);
    }
}
