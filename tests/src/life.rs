//! Lives: a few dozen steps over two processes with two devices each, drawn from a seed or told
//! by bytes.

use windtunnel::steps::{Act, Home, Place, Step, What};

/// Where numbers come from.
pub enum Dice<'a> {
    /// Drawn from a seed (`SplitMix64`).
    Seed(u64),
    /// Told by bytes; nought when they are used up.
    Bytes(&'a [u8]),
}

impl Dice<'_> {
    /// One of so many.
    pub fn of(&mut self, many: usize) -> usize {
        match self {
            Dice::Seed(state) => {
                usize::try_from(flight::draw(state, many as u64)).unwrap_or_default()
            }
            Dice::Bytes(bytes) => {
                let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
                *bytes = rest;
                usize::from(*first) % many
            }
        }
    }

    /// Whether it is the first of so many.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.of(many) == 0
    }
}

/// A life of up to thirty steps, over two processes with two devices each.
pub fn life(dice: &mut Dice<'_>) -> Vec<Step> {
    let (mut steps, mut given) = (Vec::new(), Vec::<(Place, String)>::new());
    let length = 3 + dice.of(28);
    while steps.len() < length {
        let mut place = Place { process: 1, device: 1 };
        (place.process, place.device) =
            (1 + u32::from(dice.one_in(3)), 1 + u32::from(dice.one_in(3)));
        // Mostly something of that device, and recent: what is stale or another's is refused.
        let near: Vec<&String> =
            given.iter().rev().filter(|it| it.0 == place).map(|it| &it.1).take(4).collect();
        let all: Vec<&String> = given.iter().map(|it| &it.1).collect();
        let pick = |dice: &mut Dice<'_>| {
            let from = if near.is_empty() || dice.one_in(4) { &all } else { &near };
            (!from.is_empty()).then(|| from[dice.of(from.len())].clone())
        };
        let name = format!("n{}", given.len() + 1);
        let count = 1 + dice.of(3);
        let step = match dice.of(40) {
            0..4 => Some(Act::Create { home: Home::Alone, name, count }),
            4..8 => Some(Act::Create { home: Home::Resource, name, count }),
            8..11 => Some(Act::Create { home: Home::Shared, name, count }),
            11..14 => pick(dice).map(|home| Act::Create { home: Home::Into(home), name, count }),
            14..19 => {
                let shared = (!all.is_empty()).then(|| all[dice.of(all.len())].clone());
                shared.map(|shared| Act::Open { shared, name })
            }
            19..24 => pick(dice).map(|it| destroy(dice, What::Resource(it))),
            24..28 => {
                let more = dice.of(3);
                let names: Vec<String> = (0..=more).filter_map(|_| pick(dice)).collect();
                (!names.is_empty()).then(|| destroy(dice, What::List(names)))
            }
            28..34 => pick(dice).map(Act::Fill),
            34..36 => Some(Act::DestroyContext),
            36 => Some(Act::DestroyDevice),
            37 if dice.one_in(2) => {
                steps.push(Step::Kill(place.process));
                None
            }
            _ => {
                steps.push(Step::Settle);
                None
            }
        };
        let Some(act) = step else { continue };
        let step = Step::On(place, act);
        given.extend(step.gives().map(|name| (place, name.to_owned())));
        steps.push(step);
    }
    steps
}

fn destroy(dice: &mut Dice<'_>, what: What) -> Act {
    Act::Destroy { what, assume: dice.one_in(3), sync: dice.one_in(3) }
}
