//! Random sequences of up to thirty steps over two processes with two devices each, drawn from a
//! seed or from bytes.

use windtunnel::steps::{Action, DestroyTarget, DeviceLocation, OwnerKind, Step};

/// The source of numbers.
pub enum Rng<'a> {
    /// Drawn from a seed (`SplitMix64`).
    Seed(u64),
    /// From bytes; zero when they are used up.
    Bytes(&'a [u8]),
}

impl Rng<'_> {
    /// A number below `count`.
    pub fn of(&mut self, many: usize) -> usize {
        match self {
            Rng::Seed(state) => {
                usize::try_from(flight::next_random(state, many as u64)).unwrap_or_default()
            }
            Rng::Bytes(bytes) => {
                let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
                *bytes = rest;
                usize::from(*first) % many
            }
        }
    }

    /// Whether the number below `count` is zero.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.of(many) == 0
    }
}

/// A sequence of up to thirty steps over two processes with two devices each.
pub fn life(rng: &mut Rng<'_>) -> Vec<Step> {
    let (mut steps, mut given) = (Vec::new(), Vec::<(DeviceLocation, String)>::new());
    let length = 3 + rng.of(28);
    while steps.len() < length {
        let mut place = DeviceLocation { process: 1, device: 1 };
        (place.process, place.device) =
            (1 + u32::from(rng.one_in(3)), 1 + u32::from(rng.one_in(3)));
        // Mostly a recent object of that device; a stale or foreign object makes the step fail.
        let near: Vec<&String> =
            given.iter().rev().filter(|pair| pair.0 == place).map(|pair| &pair.1).take(4).collect();
        let all: Vec<&String> = given.iter().map(|pair| &pair.1).collect();
        let pick = |rng: &mut Rng<'_>| {
            let from = if near.is_empty() || rng.one_in(4) { &all } else { &near };
            (!from.is_empty()).then(|| from[rng.of(from.len())].clone())
        };
        let name = format!("n{}", given.len() + 1);
        let count = 1 + rng.of(3);
        let step = match rng.of(40) {
            0..4 => Some(Action::Create { home: OwnerKind::Standalone, name, count }),
            4..8 => Some(Action::Create { home: OwnerKind::Resource, name, count }),
            8..11 => Some(Action::Create { home: OwnerKind::Shared, name, count }),
            11..14 => {
                pick(rng).map(|home| Action::Create { home: OwnerKind::Into(home), name, count })
            }
            14..19 => {
                let shared = (!all.is_empty()).then(|| all[rng.of(all.len())].clone());
                shared.map(|shared| Action::Open { shared, name })
            }
            19..24 => pick(rng).map(|text| destroy(rng, DestroyTarget::Resource(text))),
            24..28 => {
                let more = rng.of(3);
                let names: Vec<String> = (0..=more).filter_map(|_| pick(rng)).collect();
                (!names.is_empty()).then(|| destroy(rng, DestroyTarget::List(names)))
            }
            28..34 => pick(rng).map(Action::Fill),
            34..36 => Some(Action::DestroyContext),
            36 => Some(Action::DestroyDevice),
            37 if rng.one_in(2) => {
                steps.push(Step::Kill(place.process));
                None
            }
            _ => {
                steps.push(Step::RunUntilIdle);
                None
            }
        };
        let Some(act) = step else { continue };
        let step = Step::OnDevice(place, act);
        given.extend(step.defined_name().map(|name| (place, name.to_owned())));
        steps.push(step);
    }
    steps
}

fn destroy(rng: &mut Rng<'_>, what: DestroyTarget) -> Action {
    Action::Destroy { what, assume: rng.one_in(3), sync: rng.one_in(3) }
}
