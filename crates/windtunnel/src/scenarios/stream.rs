//! Clients of streaming minidrivers: frames flow, stop, and end in every way.

use crate::scenario::Story::Streamed;
use crate::scenario::{STREAM, Scenario};
use crate::studio::{Studio, wanted};
use crate::tunnel::Stopped;
use flight::{RuleId, Ticket};
use std::sync::Arc;
use stream::{Format, MemoryKind, Refused, State, WakeOrder, Wish};

/// What a story is told by.
type Tell = fn(&mut Studio<'_>) -> Result<(), Stopped>;

const fn scenario(name: &'static str, about: &'static str, story: Tell) -> Scenario {
    Scenario { name, about, breaks: &[], needs: STREAM, story: Streamed(story) }
}

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    scenario("stream-states", "every state forth and back, with frames while it runs", states),
    scenario("stream-restart", "frames flow, stop, and flow again", restart),
    scenario("stream-format-again", "frames flow, stop, and flow in another format", again),
    scenario("stream-close-early", "a pin is closed while its client has frames", close_early),
    scenario("stream-pulled", "the hardware is pulled out while frames flow", pulled),
    scenario("stream-pulled-at-work", "it is pulled out while a client waits for frames", at_work),
    scenario("stream-no-memory", "memory ends after every number of pieces", no_memory),
    scenario("stream-end", "a stream has three frames, the last of which says so", end),
    scenario("stream-two-pins", "two pins of a filter, one after the other", two_pins),
    scenario("stream-two-filters", "two filters of a device, side by side", two_filters),
    scenario("stream-removed", "the device is removed at every stage", removed),
    scenario("stream-device-restart", "the device is stopped and started again", device_restart),
    scenario("stream-cancelled", "frames are cancelled, and the queue is reset", cancelled),
    scenario("stream-format", "a format with larger samples is set before frames flow", format),
    scenario("stream-other-memory", "the client brings frames, half as large as asked", other),
    scenario("stream-sleep", "the device sleeps and wakes, in both orders", sleep),
    scenario("stream-video-memory", "frames are allocations in video memory", video_memory),
];

/// Every bad client of this file.
pub(crate) const BAD: &[Scenario] = &[Scenario {
    name: "stream-close-order",
    about: "a filter is closed before its pin",
    breaks: &[RuleId::KS_PIN_013],
    needs: STREAM,
    story: Streamed(close_order),
}];

fn states(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    for to in [State::Acquire, State::Pause, State::Run] {
        studio.go(graph.pin, to)?;
    }
    studio.film(graph.pin, 5)?;
    studio.look("the pin runs");
    for to in [State::Pause, State::Acquire, State::Stop] {
        studio.go(graph.pin, to)?;
    }
    studio.look("the pin has stopped");
    // What it asks of frames can be read, and nobody sets it.
    let framing = wanted("a pin that says what it needs", studio.stream.framing(graph.pin))?;
    if let Some(framing) = framing
        && studio.stream.set_framing(graph.pin, &framing).is_ok()
    {
        return Err(Stopped("a framing that only its driver sets".to_owned()));
    }
    studio.close(graph)?;
    studio.remove(device)
}

fn restart(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    for _ in 0..2 {
        studio.go(graph.pin, State::Run)?;
        studio.film(graph.pin, 4)?;
        studio.go(graph.pin, State::Stop)?;
    }
    studio.close(graph)?;
    studio.remove(device)
}

fn again(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 4)?;
    studio.go(graph.pin, State::Stop)?;
    // The same pictures, and an end, though not soon, where it can be said.
    let footage = &studio.footage;
    let format = footage.ending(99).unwrap_or_else(|| footage.format.clone());
    wanted("another format", studio.stream.set_format(studio.at, graph.pin, &format))?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 3)?;
    studio.close(graph)?;
    studio.remove(device)
}

fn close_early(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 2)?;
    let taken = wanted("a frame", studio.stream.take_frame(studio.at, graph.pin, None))?;
    studio.look("the client has a frame");
    studio.close(graph)?;
    let late = studio.stream.give_back(studio.at, taken.frame);
    if late != Err(Refused::NotThere(taken.frame.subject())) {
        return Err(Stopped("a frame that went with its pin".to_owned()));
    }
    studio.remove(device)
}

fn pulled(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 2)?;
    studio.pull(device)?;
    let late = studio.stream.take_frame(studio.at, graph.pin, None);
    match late {
        Err(Refused::NotThere(_) | Refused::Stopped) => Ok(()),
        _ => Err(Stopped("no frame of a device that is gone".to_owned())),
    }
}

fn at_work(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    let (stream, pin) = (studio.stream.clone(), graph.pin);
    let waits = studio.host.spawn("client", move |at| {
        // Until the pin is gone.
        while let Ok(taken) = stream.take_frame(at, pin, None) {
            let _ = stream.give_back(at, taken.frame);
        }
    });
    for _ in 0..40 {
        studio.host.breathe(studio.at);
    }
    studio.pull(device)?;
    studio.host.park(studio.at, &waits, None);
    studio.gone()
}

/// What is answered does not matter, what is left does.
fn no_memory(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let memory = studio.plugged.memory.clone();
    for pieces in 0..12 {
        memory.ration(Some(pieces));
        let Ok(device) = studio.add() else { continue };
        if let Ok(graph) = studio.open(device) {
            if studio.go(graph.pin, State::Run).is_ok() {
                studio.film(graph.pin, 2)?;
            }
            studio.close(graph)?;
        }
        studio.remove(device)?;
    }
    memory.ration(None);
    Ok(())
}

fn end(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let ending = studio.footage.ending(3);
    let ending = ending.ok_or_else(|| Stopped("a format that says where it ends".to_owned()))?;
    let graph = studio.open_as(device, &ending, &Wish::default())?;
    studio.go(graph.pin, State::Run)?;
    let frames = studio.film(graph.pin, 9)?;
    if frames != 3 {
        return Err(Stopped(format!("a stream of 3 frames; {frames} came before its end")));
    }
    studio.close(graph)?;
    studio.remove(device)
}

fn two_pins(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 2)?;
    let format = studio.footage.format.clone();
    let made = studio.stream.create_pin(studio.at, graph.filter, 0, &format);
    let other = wanted("a second pin", made)?;
    wanted("two pins", studio.stream.connect(studio.at, other, &Wish::default()))?;
    studio.go(other, State::Run)?;
    for _ in 0..3 {
        studio.film(graph.pin, 1)?;
        studio.film(other, 1)?;
    }
    studio.look("two pins run");
    wanted("a pin that is closed", studio.stream.close_pin(studio.at, other))?;
    studio.close(graph)?;
    studio.remove(device)
}

fn two_filters(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graphs = [studio.open(device)?, studio.open(device)?];
    for graph in &graphs {
        studio.go(graph.pin, State::Run)?;
    }
    for _ in 0..3 {
        for graph in &graphs {
            studio.film(graph.pin, 1)?;
        }
    }
    for graph in graphs {
        studio.close(graph)?;
    }
    studio.remove(device)
}

fn removed(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    for stage in 0..5 {
        let device = studio.add()?;
        let graph = if stage > 0 { Some(studio.open(device)?) } else { None };
        if let Some(graph) = graph.as_ref().filter(|_| stage > 1) {
            studio.go(graph.pin, State::ALL[stage - 1])?;
        }
        if let Some(graph) = graph.as_ref().filter(|_| stage == 4) {
            studio.film(graph.pin, 2)?;
        }
        studio.remove(device)?;
    }
    Ok(())
}

fn device_restart(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 2)?;
    wanted("a device that stops", studio.stream.stop_device(studio.at, device))?;
    if studio.stream.open_filter(studio.at, device, 0).is_ok() {
        return Err(Stopped("no filter of a device that is stopped".to_owned()));
    }
    wanted("a device that starts", studio.stream.start_device(studio.at, device))?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 2)?;
    studio.close(graph)?;
    studio.remove(device)
}

fn cancelled(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 2)?;
    let (stream, pin) = (studio.stream.clone(), graph.pin);
    // In the middle between two frames.
    pass(studio, studio.footage.interval / 2);
    wanted("frames that are cancelled", stream.cancel_frames(studio.at, pin))?;
    // Those that the hardware has come home when it is done with them.
    pass(studio, studio.footage.interval * 4);
    wanted("a queue that is filled again", stream.refill(studio.at, pin))?;
    studio.film(pin, 2)?;
    wanted("a queue that is reset", stream.reset(studio.at, pin))?;
    studio.film(pin, 2)?;
    studio.close(graph)?;
    studio.remove(device)
}

/// Lets so much time pass.
fn pass(studio: &mut Studio<'_>, time: u64) {
    let until = studio.host.now().saturating_add(time);
    studio.host.park(studio.at, &Ticket::new("a moment"), Some(until));
}

fn format(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let small = studio.footage.format.clone();
    let (stream, at) = (studio.stream.clone(), &mut *studio.at);
    let filter = wanted("a filter", stream.open_filter(at, device, 0))?;
    let pin = wanted("a pin", stream.create_pin(at, filter, 0, &small))?;
    let large = Format { sample: small.sample.saturating_mul(2), ..small };
    wanted("a larger format", stream.set_format(at, pin, &large))?;
    let framing = wanted("a pin that is connected", stream.connect(at, pin, &Wish::default()))?;
    if framing.bytes < large.sample {
        let bytes = framing.bytes;
        return Err(Stopped(format!("frames for a sample of {}; they have {bytes}", large.sample)));
    }
    studio.go(pin, State::Run)?;
    studio.film(pin, 2)?;
    wanted("a pin that is closed", stream.close_pin(studio.at, pin))?;
    wanted("a filter that is closed", stream.close_filter(studio.at, filter))?;
    studio.remove(device)
}

fn other(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    for wish in [
        Wish { user: true, short: true, ..Wish::default() },
        Wish { foreign: true, ..Wish::default() },
    ] {
        let device = studio.add()?;
        let graph = studio.open_as(device, &studio.footage.format.clone(), &wish)?;
        studio.go(graph.pin, State::Run)?;
        studio.film(graph.pin, 3)?;
        studio.close(graph)?;
        studio.remove(device)?;
    }
    Ok(())
}

fn sleep(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    studio.go(graph.pin, State::Run)?;
    for order in [WakeOrder::PowerFirst, WakeOrder::PinsFirst] {
        studio.film(graph.pin, 2)?;
        wanted("a device that sleeps", studio.stream.sleep(studio.at, device))?;
        let woken = studio.stream.wake_up(studio.at, device, order);
        wanted("a device that wakes", woken)?;
    }
    studio.film(graph.pin, 2)?;
    studio.close(graph)?;
    studio.remove(device)
}

fn video_memory(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let memory = studio.video_memory()?;
    let device = studio.add_with(Arc::clone(&memory) as Arc<dyn stream::FrameMemory>)?;
    let wish = Wish { kind: MemoryKind::Device, ..Wish::default() };
    let graph = studio.open_as(device, &studio.footage.format.clone(), &wish)?;
    studio.go(graph.pin, State::Run)?;
    studio.film(graph.pin, 4)?;
    if memory.frames() != graph.framing.frames as usize {
        return Err(Stopped(format!("every frame in video memory; {} are", memory.frames())));
    }
    studio.look("frames are in video memory");
    studio.go(graph.pin, State::Stop)?;
    studio.close(graph)?;
    if memory.frames() != 0 {
        return Err(Stopped("no frame in video memory without its allocator".to_owned()));
    }
    studio.remove(device)?;
    crate::tunnel::wanted("the client's end", memory.close(studio.at))
}

fn close_order(studio: &mut Studio<'_>) -> Result<(), Stopped> {
    let device = studio.add()?;
    let graph = studio.open(device)?;
    let early = studio.stream.close_filter(studio.at, graph.filter);
    if early != Err(Refused::PinsOpen(graph.filter.subject())) {
        return Err(Stopped("a filter with open pins to stay".to_owned()));
    }
    studio.close(graph)?;
    studio.remove(device)
}
