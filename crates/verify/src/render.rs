//! Packets: those with lists are started as they were patched, and what they use is in place;
//! private data goes one way.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, RuleId, What, Who};

const RENDER: &str = "D3DKMTRender";
const SUBMIT: &str = "DxgkDdiSubmitCommand";

/// The rules on packets.
pub(crate) static RULES: [Rule; 6] = [
    Rule { id: RuleId::KMD_CTX_004, on: &["packet.rendered"], check: large_enough },
    Rule { id: RuleId::KMD_SUBMIT_007, on: &["packet.started"], check: as_patched },
    Rule { id: RuleId::KMD_SUBMIT_009, on: &["packet.uses"], check: in_place },
    Rule { id: RuleId::SUBMIT_CMD_005, on: &["packet.private"], check: one_way },
    Rule { id: RuleId::SUBMIT_RENDER_007, on: &["packet.uses"], check: not_locked_away },
    Rule { id: RuleId::SUBMIT_RENDER_008, on: &["packet.rendered"], check: of_a_working_device },
];

fn large_enough(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::PacketRendered { room, .. } = event.what else { return Verdict::Aside };
    let Some(wants) = shadow.context().and_then(|it| it.buffer) else { return Verdict::Aside };
    Verdict::kept_if(room >= wants, Who::Kernel, "DxgkDdiRender.DmaSize", || {
        format!("{} gets a buffer of {room} bytes, but its driver wants {wants}", event.subject)
    })
}

fn one_way(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::PacketPrivate { bytes, given, left } = event.what else { return Verdict::Aside };
    let place = "D3DKMTSubmitCommand.pPrivateDriverData";
    Verdict::kept_if(given == left, Who::Kernel, place, || {
        format!(
            "the {bytes} bytes of private data of {} were {given} and are {left} after the call",
            event.subject
        )
    })
}

fn as_patched(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::PacketStarted { fence, start, end, .. } = event.what else { return Verdict::Aside };
    let patched = shadow.node().and_then(|it| it.patched);
    let Some(patched) = patched else { return Verdict::Aside };
    Verdict::kept_if(patched == (fence, start, end), Who::Kernel, SUBMIT, || {
        let (of, from, to) = patched;
        format!(
            "{} gets bytes {start} to {end} with fence {fence}, but bytes {from} to {to} were \
             patched with fence {of}",
            event.subject
        )
    })
}

fn in_place(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::PacketUses { node, fence, segment, address } = event.what else {
        return Verdict::Aside;
    };
    let Some(it) = shadow.memory() else { return Verdict::Aside };
    let placed = it.placed.filter(|_| it.is_there());
    let right = placed.is_some_and(|it| (it.segment, it.address) == (segment, address));
    Verdict::kept_if(right, Who::Kernel, SUBMIT, || {
        let of = event.subject;
        match placed {
            Some(it) => format!(
                "{node} gets packet {fence}, which uses {of} at {address:#x} in {segment}, but that \
                 is at {:#x} in {}",
                it.address, it.segment
            ),
            None => format!("{node} gets packet {fence}, which uses {of}, and that is not there"),
        }
    })
}

fn not_locked_away(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.memory().filter(|it| it.locks > 0) else { return Verdict::Aside };
    Verdict::kept_if(it.wanted.mappable, Who::Kernel, RENDER, || {
        format!("a packet uses {}, which is locked and can be in no aperture", event.subject)
    })
}

fn of_a_working_device(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let Some((context, device)) = shadow.context().zip(owner.device()) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(!device.lost, Who::Kernel, RENDER, || {
        format!("{} is given work, but {} can work no more", event.subject, context.device)
    })
}
