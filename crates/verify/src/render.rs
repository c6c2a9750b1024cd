//! Packets: rules on patching, on the residency of what a packet uses, and on private data.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const RENDER: &str = "D3DKMTRender";
const SUBMIT: &str = "DxgkDdiSubmitCommand";

/// The rules on packets.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["packet.rendered"], RuleId::KMD_CTX_004, buffer_large_enough),
    Rule::on(&["packet.started"], RuleId::KMD_SUBMIT_007, submitted_as_patched),
    Rule::on(&["packet.uses"], RuleId::KMD_SUBMIT_009, resources_resident),
    Rule::on(&["packet.private"], RuleId::SUBMIT_CMD_005, private_data_not_returned),
    Rule::on(&["packet.uses"], RuleId::SUBMIT_RENDER_007, not_locked_outside_aperture),
    Rule::on(&["packet.rendered"], RuleId::SUBMIT_RENDER_008, device_not_lost),
];

fn buffer_large_enough(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PacketRendered { capacity: room, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(wants) = shadows.context(event.subject).and_then(|context| context.buffer) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(room >= wants, Component::Kernel, "DxgkDdiRender.DmaSize", || {
        format!("{} gets a buffer of {room} bytes, but its driver wants {wants}", event.subject)
    })
}

fn private_data_not_returned(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::PacketPrivate { bytes, before: given, after: left } = event.kind else {
        return Verdict::NotApplicable;
    };
    let place = "D3DKMTSubmitCommand.pPrivateDriverData";
    Verdict::holds_if(given == left, Component::Kernel, place, || {
        format!(
            "the {bytes} bytes of private data of {} were {given} and are {left} after the call",
            event.subject
        )
    })
}

fn submitted_as_patched(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PacketStarted { fence, start, end, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let patched = shadows.node(event.subject).and_then(|node| node.patched);
    let Some(patched) = patched else { return Verdict::NotApplicable };
    Verdict::holds_if(patched == (fence, start, end), Component::Kernel, SUBMIT, || {
        let (of, from, to) = patched;
        format!(
            "{} gets bytes {start} to {end} with fence {fence}, but bytes {from} to {to} were \
             patched with fence {of}",
            event.subject
        )
    })
}

fn resources_resident(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PacketUses { node, fence, segment, address } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.memory(event.subject) else { return Verdict::NotApplicable };
    let placed = it.location.filter(|_| it.is_resident());
    let right = placed.is_some_and(|segment_address| {
        (segment_address.segment, segment_address.address) == (segment.into(), address)
    });
    Verdict::holds_if(right, Component::Kernel, SUBMIT, || {
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

fn not_locked_outside_aperture(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.memory(event.subject).filter(|memory| memory.locks > 0) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.requirements.mappable, Component::Kernel, RENDER, || {
        format!("a packet uses {}, which is locked and can be in no aperture", event.subject)
    })
}

fn device_not_lost(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(context) = shadows.context(event.subject) else { return Verdict::NotApplicable };
    let Some(device) = shadows.device(context.device) else { return Verdict::NotApplicable };
    // A device that is lost while its client is in the call still has a packet of that call.
    let call = device.process.and_then(|process| shadows.process(process)?.call(event.thread));
    let inside = call.is_some_and(|call| call.entered < device.lost_at);
    Verdict::holds_if(!device.lost || inside, Component::Kernel, RENDER, || {
        format!("{} is given work, but {} can work no more", event.subject, context.device)
    })
}
