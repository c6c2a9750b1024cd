//! Packets: rules on patching, on the residency of what a packet uses, and on private data.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

const RENDER: &str = "D3DKMTRender";
const SUBMIT: &str = "DxgkDdiSubmitCommand";

/// The rules on packets.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["packet.rendered"], RuleId::KMD_CTX_004, large_enough),
    Rule::on(&["packet.started"], RuleId::KMD_SUBMIT_007, as_patched),
    Rule::on(&["packet.uses"], RuleId::KMD_SUBMIT_009, in_place),
    Rule::on(&["packet.private"], RuleId::SUBMIT_CMD_005, one_way),
    Rule::on(&["packet.uses"], RuleId::SUBMIT_RENDER_007, not_locked_away),
    Rule::on(&["packet.rendered"], RuleId::SUBMIT_RENDER_008, of_a_working_device),
];

fn large_enough(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PacketRendered { room, .. } = event.what else { return Verdict::Aside };
    let Some(wants) = shadows.context(event.subject).and_then(|it| it.buffer) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(room >= wants, Who::Kernel, "DxgkDdiRender.DmaSize", || {
        format!("{} gets a buffer of {room} bytes, but its driver wants {wants}", event.subject)
    })
}

fn one_way(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::PacketPrivate { bytes, given, left } = event.what else { return Verdict::Aside };
    let place = "D3DKMTSubmitCommand.pPrivateDriverData";
    Verdict::kept_if(given == left, Who::Kernel, place, || {
        format!(
            "the {bytes} bytes of private data of {} were {given} and are {left} after the call",
            event.subject
        )
    })
}

fn as_patched(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PacketStarted { fence, start, end, .. } = event.what else { return Verdict::Aside };
    let patched = shadows.node(event.subject).and_then(|it| it.patched);
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

fn in_place(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PacketUses { node, fence, segment, address } = event.what else {
        return Verdict::Aside;
    };
    let Some(it) = shadows.memory(event.subject) else { return Verdict::Aside };
    let placed = it.placed.filter(|_| it.is_there());
    let right = placed.is_some_and(|it| (it.segment, it.address) == (segment.into(), address));
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

fn not_locked_away(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.memory(event.subject).filter(|it| it.locks > 0) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(it.wanted.mappable, Who::Kernel, RENDER, || {
        format!("a packet uses {}, which is locked and can be in no aperture", event.subject)
    })
}

fn of_a_working_device(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(context) = shadows.context(event.subject) else { return Verdict::Aside };
    let Some(device) = shadows.device(context.device) else { return Verdict::Aside };
    Verdict::kept_if(!device.lost, Who::Kernel, RENDER, || {
        format!("{} is given work, but {} can work no more", event.subject, context.device)
    })
}
