//! Random sequences: two clients act at random, and all invariants hold.

use crate::tests::source::*;
use crate::*;
use flight::{Event, Kind, Passive, RuleId};
use std::sync::Arc;

/// Numbers from a seed (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(bound)).unwrap()
    }
}

/// An id that mostly exists.
fn pick(stream: &Stream, dice: &mut Rng, kind: Kind) -> u32 {
    let live_objects = stream.live_objects();
    let there = live_objects
        .objects
        .iter()
        .map(|live_object| live_object.subject)
        .filter(|subject| subject.kind == kind);
    let there: Vec<u32> = there.map(|subject| subject.number).collect();
    let count = u32::try_from(there.len()).unwrap();
    if count == 0 || dice.below(16) == 0 {
        return dice.below(8);
    }
    there[dice.below(count) as usize]
}

/// One action of a client. Its result does not matter: it may come too late.
fn act(stream: &Stream, at: &mut Passive, dice: &mut Rng, device: DeviceId) {
    let filter = pick(stream, dice, Kind::Filter);
    let filter = stream.find_filter(filter).unwrap_or(FilterId::NULL);
    let pin = pick(stream, dice, Kind::Pin);
    let pin = stream.find_pin(pin).unwrap_or(PinId::NULL);
    let wish = FramingRequest {
        frames: dice.below(4),
        user_mode: dice.below(4) == 0,
        half_size: dice.below(2) == 0,
        ..FramingRequest::default()
    };
    let state = PinState::ALL[dice.below(8).min(3) as usize];
    match dice.below(20) {
        0 | 1 => drop(stream.open_filter(at, device, 0)),
        2 | 3 => drop(stream.create_pin(at, filter, 0, &format())),
        4 | 5 => drop(stream.connect(at, pin, &wish)),
        6..=9 => drop(stream.set_state(at, pin, state)),
        10..=12 => {
            let until = stream.host().now() + 3 * INTERVAL;
            if let Ok(taken) = stream.take_frame(at, pin, Some(until))
                && dice.below(4) > 0
            {
                let _ = stream.return_frame(at, taken.frame);
            }
        }
        13 => drop(stream.cancel_frames(at, pin)),
        14 => drop(stream.requeue_cancelled_frames(at, pin)),
        15 => drop(stream.reset(at, pin)),
        16 => drop(stream.disconnect(at, pin)),
        17 => drop(stream.close_pin(at, pin)),
        18 => match dice.below(3) {
            0 => drop(stream.close_filter(at, filter)),
            1 => drop(stream.power_down(at, device)),
            _ => drop(stream.power_up(at, device, PowerUpOrder::PinsFirst)),
        },
        _ => {
            if dice.below(4) == 0 && stream.stop_device(at, device).is_ok() {
                let _ = stream.start_device(at, device);
            }
        }
    }
    stream.validate().unwrap();
}

/// Two clients at once, then everything ends.
fn lives(run: &Run, at: &mut Passive, seed: u64) {
    let mut source = Source::new(!seed.is_multiple_of(3));
    source.descriptor.filters[0].pins[0].instances_possible = 2;
    let device = run.add_shared(at, Arc::new(source)).unwrap();
    let stream = run.stream.clone();
    let other = run.host.spawn("another client", move |at| {
        let mut dice = Rng(seed * 2 + 1);
        for _ in 0..100 {
            act(&stream, at, &mut dice, device);
        }
    });
    let mut dice = Rng(seed * 2);
    for _ in 0..100 {
        act(&run.stream, at, &mut dice, device);
    }
    run.host.park(at, &other, None);
    run.stream.surprise_remove_device(at, device).unwrap();
    run.assert_empty();
}

/// Checks that all rules hold, except for filters that were closed before their pins. Returns how
/// many frames were completed.
fn judged(seed: u64, events: &[Event]) -> usize {
    check_order(events);
    let broken = broken(events);
    assert!(broken.iter().all(|rule_id| *rule_id == RuleId::KS_PIN_013), "seed {seed}: {broken:?}");
    events.iter().filter(|event| event.kind.name() == "frame.done").count()
}

#[test]
fn whatever_clients_do_everything_stays_in_order() {
    let fly_one = |seed| judged(seed, &fly(seed, |run, at| lives(run, at, seed)).0);
    let frames: usize = (0..300).map(fly_one).sum();
    assert!(frames > 1000, "{frames} frames");
}

#[test]
fn whatever_clients_do_side_by_side_everything_stays_in_order() {
    for seed in 0..100 {
        judged(seed, &fly_free(|run, at| lives(run, at, seed)).0);
    }
}
