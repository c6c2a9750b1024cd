//! Random lives, with a driver that fails once, against a model that knows only names: what is
//! refused, who is alive, and that nobody is left. A failure shrinks to a few steps, as a file
//! that `windtunnel check --scenario` flies.

use flight::{Kind, Who};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use stories::{Fault, Faulty, Model, Wing, attempt, verified};
use windtunnel::steps::{Act, Home, Place, Step, Teller, What, read, write};

/// Numbers drawn from a seed (`SplitMix64`).
struct Dice(u64);

impl Dice {
    /// One of so many.
    fn of(&mut self, many: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((it ^ (it >> 31)) % many as u64).unwrap_or_default()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.of(many) == 0
    }
}

/// A life of up to thirty steps, over two processes with two devices each.
fn life(dice: &mut Dice) -> Vec<Step> {
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
        let pick = |dice: &mut Dice| {
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

fn destroy(dice: &mut Dice, what: What) -> Act {
    Act::Destroy { what, assume: dice.one_in(3), sync: dice.one_in(3) }
}

/// What a flight has seen.
#[derive(Default)]
struct Seen {
    /// How many calls the driver had.
    calls: u32,
    /// Steps with what came of them, and calls of the driver that failed.
    came: BTreeSet<String>,
}

/// A step without its names.
fn kind(step: &Step) -> String {
    let text = step.to_string();
    let plain = |it: &&str| !it.contains(|it: char| it.is_ascii_digit());
    text.split_whitespace().filter(plain).collect::<Vec<_>>().join(" ")
}

/// A life, and what goes wrong in it.
#[derive(Clone)]
struct Case {
    seed: u64,
    fault: Option<Fault>,
    steps: Vec<Step>,
    forgetful: bool,
}

impl Case {
    /// Flies it next to the model.
    fn fly(&self) -> Result<Seen, String> {
        let driver = Faulty::new(self.fault);
        let mut seen = Seen::default();
        let story = |wing: &Wing, at: &mut _| {
            let mut teller = Teller::new(&wing.kernel, &wing.host);
            let mut model = Model::default();
            model.forgetful = self.forgetful;
            for step in &self.steps {
                let told = teller.tell(at, step);
                let failed = driver.failed();
                seen.came.insert(format!("{} {told:?}", kind(step)));
                seen.came.extend(failed.map(str::to_owned));
                let expected = model.step(step, failed, told);
                wing.kernel.validate().map_err(|why| format!("after '{step}': {why}"))?;
                if model.deaf {
                    continue;
                }
                if told != expected {
                    return Err(format!("'{step}' was {told:?}, the model says {expected:?}"));
                }
                compare(wing, &model, step)?;
            }
            teller.end(at);
            Ok(())
        };
        let events = attempt(self.seed, |log| driver.plug(log), story)?;
        let verifier = verified(&events);
        let ours = verifier.findings().iter().find(|it| it.who == Who::Kernel);
        seen.calls = driver.calls();
        ours.map_or(Ok(seen), |it| Err(format!("{}: {}", it.rule.name(), it.message)))
    }

    /// The same without these steps, and without those that need what they give.
    fn without(&self, from: usize, count: usize) -> Self {
        let mut known: Vec<String> = Vec::new();
        let mut steps = self.steps.clone();
        steps.drain(from..(from + count).min(steps.len()));
        steps.retain(|it| {
            let told = it.uses().iter().all(|name| known.iter().any(|it| it == name));
            known.extend(it.gives().filter(|_| told).map(str::to_owned));
            told
        });
        Self { steps, ..self.clone() }
    }

    /// As few steps as fail still, and the driver well if it need not be ill.
    fn shrunk(mut self) -> Self {
        let well = Self { fault: None, ..self.clone() };
        if well.fly().is_err() {
            self = well;
        }
        loop {
            let before = self.steps.len();
            let mut count = before.div_ceil(2);
            while count > 0 {
                let mut from = 0;
                while from < self.steps.len() {
                    match self.fewer(from, count) {
                        Some(fewer) => self = fewer,
                        None => from += count,
                    }
                }
                count /= 2;
            }
            if self.steps.len() == before {
                return self;
            }
        }
    }

    /// The same without these steps, if it fails still. The driver's call that fails moves along.
    fn fewer(&self, from: usize, count: usize) -> Option<Self> {
        let fewer = self.without(from, count);
        let calls = self.fault.map_or(0, |it| it.call);
        let earlier = (0..calls).map(|it| Self {
            fault: self.fault.map(|fault| Fault { call: fault.call - it, ..fault }),
            ..fewer.clone()
        });
        let mut all = earlier.chain((calls == 0).then(|| fewer.clone()));
        all.find(|it| it.fly().is_err())
    }

    /// It as a file, with why it is one.
    fn text(&self) -> String {
        let mut text = String::new();
        let why = self.fly().err().unwrap_or_default();
        let _ = writeln!(text, "# {}", why.replace('\n', "\n# ")); // A string takes everything.
        let _ = writeln!(text, "# with --seed {}", self.seed);
        if let Some(Fault { call, panics }) = self.fault {
            let how = if panics { "panics in" } else { "refuses" };
            let _ = writeln!(text, "# and a driver that {how} its call {call}");
        }
        text + &write(&self.steps)
    }
}

/// Compares who is alive with who should be: to the last one once everything has settled.
fn compare(wing: &Wing, model: &Model, step: &Step) -> Result<(), String> {
    let census = wing.kernel.census();
    let count = |kind: Kind| census.live.iter().filter(|it| it.subject.kind == kind).count();
    let kinds = [Kind::View, Kind::ResourceView, Kind::Context, Kind::Device];
    for (kind, expected) in kinds.into_iter().zip(model.alive()) {
        let (there, later) = (count(kind), matches!(kind, Kind::View | Kind::ResourceView));
        // What was destroyed behind work ends with the work.
        let fits = there == expected || (there > expected && later && *step != Step::Settle);
        if !fits {
            let kind = kind.nr(0);
            return Err(format!("after '{step}': {there} of the kind of {kind}, not {expected}"));
        }
    }
    Ok(())
}

/// Flies cases on some threads; answers what came of their steps, or the first that fails, shrunk.
fn search(cases: u32, forgetful: bool) -> Result<BTreeSet<String>, Case> {
    let (next, all) = (AtomicU32::new(0), Mutex::new(BTreeSet::new()));
    let keep = |flown: Result<Seen, String>| {
        flown.map(|seen| {
            all.lock().expect("nobody panics while holding it").extend(seen.came);
            seen.calls
        })
    };
    let some = || {
        loop {
            let number = next.fetch_add(1, SeqCst);
            if number >= cases {
                return None;
            }
            let seed = u64::from(number);
            let mut dice = Dice(seed);
            let well = Case { seed, fault: None, steps: life(&mut dice), forgetful };
            let Ok(calls) = keep(well.fly()) else { return Some(well) };
            // Of some lives every call fails, each in a flight of its own; of most, one.
            let panics = dice.one_in(2);
            let mut faults: Vec<Fault> = (1..=calls).map(|call| Fault { call, panics }).collect();
            if !number.is_multiple_of(50) && !faults.is_empty() {
                faults = vec![faults.swap_remove(dice.of(faults.len()))];
            }
            for fault in faults {
                let ill = Case { fault: Some(fault), ..well.clone() };
                if keep(ill.fly()).is_err() {
                    return Some(ill);
                }
            }
        }
    };
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(some)).collect();
        threads
            .into_iter()
            .filter_map(|it| it.join().expect("a search that panics is a failed test"))
            .min_by_key(|it| it.seed)
    });
    match found {
        Some(case) => Err(case.shrunk()),
        None => Ok(all.into_inner().expect("nobody panicked while holding it")),
    }
}

#[test]
fn lives_go_as_the_model_says_whatever_fails() {
    let came = search(2000, false).unwrap_or_else(|case| panic!("{}", case.text()));
    // So the lives are not empty ones: everything was done, was refused, and failed.
    for step in ["create alone", "create resource", "create shared", "create into", "open", "fill"]
    {
        for told in ["Done", "Refused"] {
            assert!(came.contains(&format!("{step} {told}")), "{step} {told}: {came:?}");
        }
    }
    for what in ["resource", "list"] {
        for flags in ["", " assume", " sync", " assume sync"] {
            for told in ["Done", "Refused", "Skipped"] {
                let step = format!("destroy {what}{flags} {told}");
                assert!(came.contains(&step), "{step}: {came:?}");
            }
        }
    }
    for told in ["Done", "Refused", "Skipped"]
        .iter()
        .flat_map(|it| [format!("destroy context {it}"), format!("destroy device {it}")])
    {
        assert!(came.contains(&told), "{told}: {came:?}");
    }
    for failed in Faulty::CALLS {
        assert!(came.contains(*failed), "{failed}: {came:?}");
    }
}

#[test]
fn a_planted_fault_is_found_and_shrinks_to_a_file_of_few_steps() {
    let case = search(100, true).expect_err("a model that forgets");
    assert!(case.steps.len() <= 3, "{}", case.text());
    assert_eq!(case.fault, None, "{}", case.text());
    let text = case.text();
    assert_eq!(read(&text).as_ref(), Ok(&case.steps), "{text}");
    let honest = Case { forgetful: false, ..case };
    assert!(honest.fly().is_ok(), "{text}");
}
