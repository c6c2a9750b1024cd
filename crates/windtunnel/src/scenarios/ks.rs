//! Clients of streaming minidrivers: frames start, stop and end in every way.

use crate::needs::STREAM;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::StreamBody;
use crate::stream_testbed::{StreamTestbed, expect_ok};
use crate::testbed::ScenarioStopped;
use flight::{RuleId, WaitToken};
use std::sync::Arc;
use stream::{FramingRequest, MemoryKind, PinState, PowerUpOrder, StreamError};

/// The body of a scenario.
type StreamFn = fn(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>;

const fn scenario(name: &'static str, about: &'static str, body: StreamFn) -> Scenario {
    Scenario { name, about, breaks: &[], needs: STREAM, body: StreamBody(body) }
}

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    scenario(
        "ks-state-transitions",
        "goes through every pin state up and down, with frames in the run state",
        ks_state_transitions,
    ),
    scenario("ks-restart", "streams frames, stops, and streams again", ks_restart),
    scenario(
        "ks-format-change",
        "streams frames, stops, and streams in another format",
        ks_format_change,
    ),
    scenario(
        "ks-close-with-frames",
        "closes a pin while its client still holds frames",
        ks_close_with_frames,
    ),
    scenario(
        "ks-surprise-removal",
        "removes the hardware by surprise while frames are streamed",
        ks_surprise_removal,
    ),
    scenario(
        "ks-surprise-removal-during-wait",
        "removes the hardware by surprise while a client waits for frames",
        ks_surprise_removal_during_wait,
    ),
    scenario(
        "ks-allocation-failure",
        "fails every memory allocation of the minidriver in turn",
        ks_allocation_failure,
    ),
    scenario(
        "ks-end-of-stream",
        "streams three frames, the last with the end-of-stream flag",
        ks_end_of_stream,
    ),
    scenario("ks-two-pins", "streams from two pins of one filter in turn", ks_two_pins),
    scenario("ks-two-filters", "streams from two filters of a device side by side", ks_two_filters),
    scenario(
        "ks-remove-at-every-stage",
        "removes the device at every stage",
        ks_remove_at_every_stage,
    ),
    scenario("ks-device-restart", "stops and starts the device", ks_device_restart),
    scenario("ks-cancel-and-reset", "cancels frames and resets the queue", ks_cancel_and_reset),
    scenario(
        "ks-set-larger-format",
        "sets a format with larger samples before frames are streamed",
        ks_set_larger_format,
    ),
    scenario(
        "ks-client-frames",
        "streams into frames of the client, half as large as requested",
        ks_client_frames,
    ),
    scenario(
        "ks-power-transition",
        "powers the device down and up, in both orders of pin and device",
        ks_power_transition,
    ),
    scenario(
        "ks-video-memory",
        "streams into frames that are allocations in video memory",
        ks_video_memory,
    ),
];

/// Every bad client of this file.
pub(crate) const BAD: &[Scenario] = &[Scenario {
    name: "ks-close-filter-before-pin",
    about: "closes a filter before its pin",
    breaks: &[RuleId::KS_PIN_013],
    needs: STREAM,
    body: StreamBody(ks_close_filter_before_pin),
}];

fn ks_state_transitions(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    for to in [PinState::Acquire, PinState::Pause, PinState::Run] {
        testbed.set_state(graph.pin, to)?;
    }
    testbed.receive_frames(graph.pin, 5)?;
    testbed.snapshot_live_objects("the pin runs");
    for to in [PinState::Pause, PinState::Acquire, PinState::Stop] {
        testbed.set_state(graph.pin, to)?;
    }
    testbed.snapshot_live_objects("the pin has stopped");
    // The framing can be read, and a client cannot set it.
    let framing = expect_ok("a pin that says what it needs", testbed.stream.framing(graph.pin))?;
    if let Some(framing) = framing
        && testbed.stream.set_framing(graph.pin, &framing).is_ok()
    {
        return Err(ScenarioStopped::missing("a framing that only its driver sets"));
    }
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_restart(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    for _ in 0..2 {
        testbed.set_state(graph.pin, PinState::Run)?;
        testbed.receive_frames(graph.pin, 4)?;
        testbed.set_state(graph.pin, PinState::Stop)?;
    }
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_format_change(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 4)?;
    testbed.set_state(graph.pin, PinState::Stop)?;
    // The same frames with a distant end of stream, if the format carries one.
    let video = &testbed.expected_video;
    let format = video.with_frame_count(99).unwrap_or_else(|| video.format.clone());
    expect_ok("another format", testbed.stream.set_format(testbed.at, graph.pin, &format))?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 3)?;
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_close_with_frames(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 2)?;
    let taken = expect_ok("a frame", testbed.stream.take_frame(testbed.at, graph.pin, None))?;
    testbed.snapshot_live_objects("the client has a frame");
    testbed.close(graph)?;
    let late = testbed.stream.return_frame(testbed.at, taken.frame);
    if late != Err(StreamError::NotFound(taken.frame.subject())) {
        return Err(ScenarioStopped::failed("a frame that was destroyed with its pin"));
    }
    testbed.remove_device(device)
}

fn ks_surprise_removal(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 2)?;
    testbed.surprise_remove(device)?;
    let late = testbed.stream.take_frame(testbed.at, graph.pin, None);
    match late {
        Err(StreamError::NotFound(_) | StreamError::Stopped) => Ok(()),
        _ => Err(ScenarioStopped::failed("no frame from a removed device")),
    }
}

fn ks_surprise_removal_during_wait(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    let (stream, pin) = (testbed.stream.clone(), graph.pin);
    let waits = testbed.host.spawn("client", move |at| {
        // Until the pin is closed.
        while let Ok(taken) = stream.take_frame(at, pin, None) {
            let _ = stream.return_frame(at, taken.frame);
        }
    });
    for _ in 0..40 {
        testbed.host.yield_point(testbed.at);
    }
    testbed.surprise_remove(device)?;
    testbed.host.park(testbed.at, &waits, None);
    testbed.check_removed()
}

/// Runs a stream with failing allocations. Statuses are ignored; leaks are checked.
fn ks_allocation_failure(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let memory = testbed.setup.memory.clone();
    for pieces in 0..12 {
        memory.limit_allocations(Some(pieces));
        let Ok(device) = testbed.add_device() else { continue };
        if let Ok(graph) = testbed.open(device) {
            if testbed.set_state(graph.pin, PinState::Run).is_ok() {
                testbed.receive_frames(graph.pin, 2)?;
            }
            testbed.close(graph)?;
        }
        testbed.remove_device(device)?;
    }
    memory.limit_allocations(None);
    Ok(())
}

fn ks_end_of_stream(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let ending = testbed.expected_video.with_frame_count(3);
    let ending =
        ending.ok_or_else(|| ScenarioStopped::missing("a format with an end of stream"))?;
    let graph = testbed.open_with(device, &ending, &FramingRequest::default())?;
    testbed.set_state(graph.pin, PinState::Run)?;
    let frames = testbed.receive_frames(graph.pin, 9)?;
    if frames != 3 {
        return Err(ScenarioStopped::failed(format!(
            "a stream of 3 frames; {frames} came before its end"
        )));
    }
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_two_pins(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 2)?;
    let format = testbed.expected_video.format.clone();
    let created = testbed.stream.create_pin(testbed.at, graph.filter, 0, &format);
    let other = expect_ok("a second pin", created)?;
    expect_ok("two pins", testbed.stream.connect(testbed.at, other, &FramingRequest::default()))?;
    testbed.set_state(other, PinState::Run)?;
    for _ in 0..3 {
        testbed.receive_frames(graph.pin, 1)?;
        testbed.receive_frames(other, 1)?;
    }
    testbed.snapshot_live_objects("two pins run");
    expect_ok("a pin that is closed", testbed.stream.close_pin(testbed.at, other))?;
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_two_filters(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graphs = [testbed.open(device)?, testbed.open(device)?];
    for graph in &graphs {
        testbed.set_state(graph.pin, PinState::Run)?;
    }
    for _ in 0..3 {
        for graph in &graphs {
            testbed.receive_frames(graph.pin, 1)?;
        }
    }
    for graph in graphs {
        testbed.close(graph)?;
    }
    testbed.remove_device(device)
}

fn ks_remove_at_every_stage(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    for stage in 0..5 {
        let device = testbed.add_device()?;
        let graph = if stage > 0 { Some(testbed.open(device)?) } else { None };
        if let Some(graph) = graph.as_ref().filter(|_| stage > 1) {
            testbed.set_state(graph.pin, PinState::ALL[stage - 1])?;
        }
        if let Some(graph) = graph.as_ref().filter(|_| stage == 4) {
            testbed.receive_frames(graph.pin, 2)?;
        }
        testbed.remove_device(device)?;
    }
    Ok(())
}

fn ks_device_restart(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 2)?;
    expect_ok("a device that stops", testbed.stream.stop_device(testbed.at, device))?;
    if testbed.stream.open_filter(testbed.at, device, 0).is_ok() {
        return Err(ScenarioStopped::failed("no filter of a stopped device"));
    }
    expect_ok("a device that starts", testbed.stream.start_device(testbed.at, device))?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 2)?;
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_cancel_and_reset(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 2)?;
    let (stream, pin) = (testbed.stream.clone(), graph.pin);
    // Halfway between two frames.
    pass(testbed, testbed.expected_video.interval / 2);
    expect_ok("frames that are cancelled", stream.cancel_frames(testbed.at, pin))?;
    // The hardware returns its frames when it has completed them.
    pass(testbed, testbed.expected_video.interval * 4);
    expect_ok("a queue that is filled again", stream.requeue_cancelled_frames(testbed.at, pin))?;
    testbed.receive_frames(pin, 2)?;
    expect_ok("a queue that is reset", stream.reset(testbed.at, pin))?;
    testbed.receive_frames(pin, 2)?;
    testbed.close(graph)?;
    testbed.remove_device(device)
}

/// Lets this much time pass.
fn pass(testbed: &mut StreamTestbed<'_>, time: u64) {
    let until = testbed.host.now().saturating_add(time);
    testbed.host.park(testbed.at, &WaitToken::new("a moment"), Some(until));
}

fn ks_set_larger_format(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let small = testbed.expected_video.format.clone();
    let (stream, at) = (testbed.stream.clone(), &mut *testbed.at);
    let filter = expect_ok("a filter", stream.open_filter(at, device, 0))?;
    let pin = expect_ok("a pin", stream.create_pin(at, filter, 0, &small))?;
    let large = small
        .with_twice_the_lines()
        .ok_or_else(|| ScenarioStopped::missing("a video format whose lines can be doubled"))?;
    expect_ok("a larger format", stream.set_format(at, pin, &large))?;
    let framing =
        expect_ok("a pin that is connected", stream.connect(at, pin, &FramingRequest::default()))?;
    if framing.bytes < large.sample_size {
        let bytes = framing.bytes;
        return Err(ScenarioStopped::failed(format!(
            "frames for a sample of {}; they have {bytes}",
            large.sample_size
        )));
    }
    testbed.set_state(pin, PinState::Run)?;
    testbed.receive_frames(pin, 2)?;
    expect_ok("a pin that is closed", stream.close_pin(testbed.at, pin))?;
    expect_ok("a filter that is closed", stream.close_filter(testbed.at, filter))?;
    testbed.remove_device(device)
}

fn ks_client_frames(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    for request in [
        FramingRequest { user_mode: true, half_size: true, ..FramingRequest::default() },
        FramingRequest { client_frames: true, ..FramingRequest::default() },
    ] {
        let device = testbed.add_device()?;
        let graph = testbed.open_with(device, &testbed.expected_video.format.clone(), &request)?;
        testbed.set_state(graph.pin, PinState::Run)?;
        testbed.receive_frames(graph.pin, 3)?;
        testbed.close(graph)?;
        testbed.remove_device(device)?;
    }
    Ok(())
}

fn ks_power_transition(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    for order in [PowerUpOrder::PowerFirst, PowerUpOrder::PinsFirst] {
        testbed.receive_frames(graph.pin, 2)?;
        expect_ok("a device that sleeps", testbed.stream.power_down(testbed.at, device))?;
        let woken = testbed.stream.power_up(testbed.at, device, order);
        expect_ok("a device that wakes", woken)?;
    }
    testbed.receive_frames(graph.pin, 2)?;
    testbed.close(graph)?;
    testbed.remove_device(device)
}

fn ks_video_memory(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let memory = testbed.video_memory()?;
    let device =
        testbed.add_device_with_memory(Arc::clone(&memory) as Arc<dyn stream::FrameMemory>)?;
    let request = FramingRequest { kind: MemoryKind::Device, ..FramingRequest::default() };
    let graph = testbed.open_with(device, &testbed.expected_video.format.clone(), &request)?;
    testbed.set_state(graph.pin, PinState::Run)?;
    testbed.receive_frames(graph.pin, 4)?;
    if memory.frames() != graph.framing.frames as usize {
        return Err(ScenarioStopped::failed(format!(
            "every frame in video memory; {} are",
            memory.frames()
        )));
    }
    testbed.snapshot_live_objects("frames are in video memory");
    testbed.set_state(graph.pin, PinState::Stop)?;
    testbed.close(graph)?;
    if memory.frames() != 0 {
        return Err(ScenarioStopped::failed("no frame in video memory without its allocator"));
    }
    testbed.remove_device(device)?;
    crate::testbed::expect_ok("the client's end", memory.close(testbed.at))
}

fn ks_close_filter_before_pin(testbed: &mut StreamTestbed<'_>) -> Result<(), ScenarioStopped> {
    let device = testbed.add_device()?;
    let graph = testbed.open(device)?;
    let early = testbed.stream.close_filter(testbed.at, graph.filter);
    if early != Err(StreamError::PinsOpen(graph.filter.subject())) {
        return Err(ScenarioStopped::failed("a filter with open pins to stay"));
    }
    testbed.close(graph)?;
    testbed.remove_device(device)
}
