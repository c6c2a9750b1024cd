//! Keyed mutexes: rules on acquiring and releasing them, their fence values, and abandoned
//! mutexes.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use crate::shadow::keyed::Turn;
use flight::{Event, Hex, RuleId, Subject, What, Who};

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
    Rule::on(&["keyed.created"], RuleId::MUTEX_KEYED_002, two_handles),
    Rule::on(
        &["keyed.opened", "keyed.unopened", "keyed.told"],
        RuleId::MUTEX_KEYED_004,
        data_stays,
    ),
    Rule::on(&["keyed.missed", "keyed.answered"], RuleId::MUTEX_KEYED_005, times_out),
    Rule::on(&["keyed.acquired"], RuleId::MUTEX_KEYED_006, last_fence),
    Rule::on(
        &["keyed.acquired", "keyed.missed", "keyed.released", "keyed.abandoned", "keyed.closed"],
        RuleId::MUTEX_KEYED_007,
        one_owner,
    ),
];

fn two_handles(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::KeyedCreated { handle, global, sharing, .. } = &event.what else {
        return Verdict::Aside;
    };
    let kept = handle.0 != 0 && (global.0 == 0) == (sharing == "nt");
    Verdict::kept_if(kept, Who::Kernel, CREATE, || {
        format!(
            "{} is made for {sharing} sharing with handles {handle} and {global}: its maker gets \
             one of its own, and a global one unless it is for NT handles",
            event.subject
        )
    })
}

fn data_stays(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.keyed(event.subject) else { return Verdict::Aside };
    let (subject, there) = (event.subject, it.runtime);
    match event.what {
        What::KeyedOpened { room, .. } => {
            Verdict::kept_if(room == 0 || room >= there, Who::Kernel, OPEN, || {
                format!(
                    "{subject} has {there} bytes of the runtime's data, and is opened with a \
                     buffer of {room}"
                )
            })
        }
        What::KeyedUnopened { room, .. } => {
            Verdict::kept_if(room != 0 && room < there, Who::Kernel, OPEN, || {
                format!(
                    "{subject} has {there} bytes of the runtime's data, and a buffer of {room} is \
                     refused"
                )
            })
        }
        What::KeyedTold { room, size, copied } => {
            Verdict::kept_if(size == room && copied == 0, Who::Kernel, OPEN, || {
                format!(
                    "an opener of {subject} came with a buffer of {room} bytes, finds size {size} \
                     and {copied} bytes in it: an open changes neither"
                )
            })
        }
        _ => Verdict::Aside,
    }
}

fn times_out(event: &Event, shadows: &Shadows) -> Verdict {
    let subject = event.subject;
    match &event.what {
        What::KeyedMissed { key, how, .. } if how == TIMED_OUT => {
            let Some(it) = shadows.keyed(event.subject) else { return Verdict::Aside };
            let free = matches!(it.turn, Turn::Free { key: free, .. } if free == *key);
            Verdict::kept_if(!free, Who::Kernel, ACQUIRE, || {
                format!("a wait for key {key} of {subject} timed out, and it is free for that key")
            })
        }
        What::KeyedAnswered { how, asked, key, fence } if how == TIMED_OUT => {
            Verdict::kept_if(*fence == 0 && key == asked, Who::Kernel, ACQUIRE, || {
                format!(
                    "a wait for key {asked} of {subject} timed out, and its caller finds key {key} \
                     and fence value {fence}: the key stays, and the value is zero"
                )
            })
        }
        _ => Verdict::Aside,
    }
}

fn last_fence(event: &Event, shadows: &Shadows) -> Verdict {
    let What::KeyedAcquired { key, fence, .. } = event.what else { return Verdict::Aside };
    let Some(Turn::Free { key: free, fence: last }) =
        shadows.keyed(event.subject).map(|it| it.turn)
    else {
        return Verdict::Aside; // Whose turn it was is another rule's.
    };
    Verdict::kept_if((key, fence) == (free, last), Who::Kernel, RELEASE, || {
        format!(
            "{} was released to key {free} with fence value {last}, and is acquired with key {key} \
             and fence value {fence}",
            event.subject
        )
    })
}

fn one_owner(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(turn) = shadows.keyed(event.subject).map(|it| it.turn) else { return Verdict::Aside };
    let subject = event.subject;
    let (kept, place, what): (bool, _, fn(Subject, &str) -> String) = match &event.what {
        What::KeyedAcquired { .. } => (matches!(turn, Turn::Free { .. }), ACQUIRE, |it, now| {
            format!("{it} is acquired while it is {now}")
        }),
        What::KeyedMissed { how, .. } => {
            let abandoned = turn == Turn::Abandoned;
            ((how == ABANDONED) == abandoned, ACQUIRE, |it, now| {
                format!(
                    "{it} is {now}, and who waits for it is told otherwise: of an abandoned one, \
                     and of no other, an acquire says so"
                )
            })
        }
        What::KeyedReleased { process, handle, .. } => {
            (turn == Turn::Owned((*process).into(), *handle), RELEASE, |it, now| {
                format!("{it} is released through another handle while it is {now}")
            })
        }
        What::KeyedAbandoned { process, handle } => {
            (turn == Turn::Owned((*process).into(), *handle), DESTROY, |it, now| {
                format!("{it} is abandoned through another handle while it is {now}")
            })
        }
        What::KeyedClosed { process, handle } => {
            (turn != Turn::Owned((*process).into(), *handle), DESTROY, |it, now| {
                format!("{it} is {now}, whose end abandons it, and it is not abandoned")
            })
        }
        _ => return Verdict::Aside,
    };
    Verdict::kept_if(kept, Who::Kernel, place, || what(subject, &said(turn)))
}

/// Whose turn it is, in words.
fn said(turn: Turn) -> String {
    match turn {
        Turn::Free { key, .. } => format!("free for key {key}"),
        Turn::Owned(process, Hex(handle)) => {
            format!("owned through handle {handle:#010x} of {process}")
        }
        Turn::Abandoned => ABANDONED.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    /// Two processes, and one keyed mutex that is abandoned.
    pub(crate) const KEYED: &str = "
    keyed-mutex:1 keyed.created process=process:1 handle=0x40000000 global=0x40000002 sharing=global key=0 runtime=6
    keyed-mutex:1 keyed.unopened process=process:2 room=5
    keyed-mutex:1 keyed.told room=5 size=5 copied=0
    keyed-mutex:1 keyed.opened process=process:2 handle=0x40000000 room=6
    keyed-mutex:1 keyed.told room=6 size=6 copied=0
    keyed-mutex:1 keyed.acquired process=process:1 handle=0x40000000 key=0 fence=0
    keyed-mutex:1 keyed.missed process=process:2 handle=0x40000000 key=0 how=timed-out
    keyed-mutex:1 keyed.answered how=timed-out asked=0 key=0 fence=0
    keyed-mutex:1 keyed.released process=process:1 handle=0x40000000 key=1 fence=9 runtime=6
    keyed-mutex:1 keyed.acquired process=process:2 handle=0x40000000 key=1 fence=9
    keyed-mutex:1 keyed.abandoned process=process:2 handle=0x40000000
    keyed-mutex:1 keyed.closed process=process:2 handle=0x40000000
    keyed-mutex:1 keyed.missed process=process:1 handle=0x40000000 key=0 how=abandoned
    keyed-mutex:1 keyed.closed process=process:1 handle=0x40000000
    keyed-mutex:1 keyed.gone
";

    const MADE: &str = "keyed-mutex:1 keyed.created process=process:1 handle=0x40000000 \
         global=0x40000002 sharing=global key=0 runtime=6\n";
    const TAKEN: &str = "keyed-mutex:1 keyed.acquired process=process:1 handle=0x40000000 key=0 \
         fence=0\n";

    fn after(rule: RuleId, before: &str, event: &str) -> usize {
        said(rule, &format!("{MADE}{before}keyed-mutex:1 {event}")).len()
    }

    #[test]
    fn a_global_handle_is_for_global_sharing() {
        let id = RuleId::MUTEX_KEYED_002;
        assert_eq!((said(id, MADE).len(), judged(id, MADE)), (0, 1));
        let nt = MADE.replace("sharing=global", "sharing=nt");
        assert!(said(id, &nt)[0].contains("for nt sharing with handles 0x40000000 and 0x40000002"));
        assert!(said(id, &nt.replace("global=0x40000002", "global=0x00000000")).is_empty());
        assert_eq!(said(id, &MADE.replace("handle=0x40000000", "handle=0x00000000")).len(), 1);
    }

    #[test]
    fn a_buffer_is_big_enough_and_not_written() {
        let id = RuleId::MUTEX_KEYED_004;
        let opened = |room: u32| {
            let event = format!("keyed.opened process=process:1 handle=0x40000040 room={room}");
            after(id, "", &event)
        };
        assert_eq!([opened(0), opened(5), opened(6), opened(64)], [0, 1, 0, 0]);
        let refused =
            |room: u32| after(id, "", &format!("keyed.unopened process=process:1 room={room}"));
        assert_eq!([refused(0), refused(5), refused(6)], [1, 0, 1]);
        let told = |size: u32, copied: u32| {
            after(id, "", &format!("keyed.told room=64 size={size} copied={copied}"))
        };
        assert_eq!([told(64, 0), told(6, 0), told(64, 6)], [0, 1, 1]);
    }

    #[test]
    fn a_time_out_is_for_a_key_that_is_not_there_and_says_zero() {
        let id = RuleId::MUTEX_KEYED_005;
        let missed = |key: u32| {
            let name = "process=process:1 handle=0x40000000";
            after(id, "", &format!("keyed.missed {name} key={key} how=timed-out"))
        };
        assert_eq!([missed(0), missed(1)], [1, 0]);
        let told = |key: u32, fence: u32| {
            after(id, "", &format!("keyed.answered how=timed-out asked=1 key={key} fence={fence}"))
        };
        assert_eq!([told(1, 0), told(0, 0), told(1, 9)], [0, 1, 1]);
    }

    #[test]
    fn an_acquire_gets_what_the_release_said() {
        let id = RuleId::MUTEX_KEYED_006;
        let name = "process=process:1 handle=0x40000000";
        let released =
            format!("{TAKEN}keyed-mutex:1 keyed.released {name} key=1 fence=1234 runtime=6\n");
        let taken = |key: u32, fence: u32| {
            after(id, &released, &format!("keyed.acquired {name} key={key} fence={fence}"))
        };
        assert_eq!([taken(1, 1234), taken(0, 1234), taken(1, 0)], [0, 1, 1]);
    }

    #[test]
    fn it_is_owned_through_one_handle_and_abandoned_with_it() {
        let id = RuleId::MUTEX_KEYED_007;
        let (mine, other) =
            ("process=process:1 handle=0x40000000", "process=process:1 handle=0x40000040");
        let taken = |event: String| after(id, TAKEN, &event);
        assert_eq!(taken(format!("keyed.acquired {other} key=0 fence=0")), 1);
        assert_eq!(taken(format!("keyed.released {mine} key=1 fence=0 runtime=0")), 0);
        assert_eq!(taken(format!("keyed.released {other} key=1 fence=0 runtime=0")), 1);
        assert_eq!(taken(format!("keyed.closed {other}")), 0);
        assert_eq!(taken(format!("keyed.closed {mine}")), 1);
        assert_eq!(taken(format!("keyed.abandoned {other}")), 1);
        assert_eq!(taken(format!("keyed.missed {other} key=0 how=timed-out")), 0);
        assert_eq!(taken(format!("keyed.missed {other} key=0 how=abandoned")), 1);
        let gone = format!("{TAKEN}keyed-mutex:1 keyed.abandoned {mine}\n");
        let gone = |event: String| after(id, &gone, &event);
        assert_eq!(gone(format!("keyed.closed {mine}")), 0);
        assert_eq!(gone(format!("keyed.missed {other} key=0 how=abandoned")), 0);
        assert_eq!(gone(format!("keyed.missed {other} key=0 how=timed-out")), 1);
        assert_eq!(gone(format!("keyed.acquired {other} key=0 fence=0")), 1);
    }
}
