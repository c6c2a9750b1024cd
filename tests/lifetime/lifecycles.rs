//! Random steps, with a driver that fails once, against a model of handles: which calls fail, which
//! objects are alive, and that none is leaked. A failing case is reduced to a few steps, as a file
//! that `windtunnel check --scenario` flies.

use harness::{Case, Fault, Faulty, Rng, Seen, life};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use windtunnel::steps::read;

/// Flies cases on some threads. Returns the outcomes of their steps, or the first reduced failure.
fn search(cases: u32, forgetful: bool) -> Result<BTreeSet<String>, Case> {
    let (next, all) = (AtomicU32::new(0), Mutex::new(BTreeSet::new()));
    let keep = |flown: Result<Seen, String>| {
        flown.map(|seen| {
            all.lock().expect("no thread panics while holding it").extend(seen.outcomes);
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
            let mut rng = Rng::Seed(seed);
            let well = Case { seed, fault: None, steps: life(&mut rng), forgetful };
            let Ok(calls) = keep(well.fly()) else { return Some(well) };
            // For some sequences every call fails, each in its own flight; for most, one call.
            let panics = rng.one_in(2);
            let mut faults: Vec<Fault> = (1..=calls).map(|call| Fault { call, panics }).collect();
            if !number.is_multiple_of(50) && !faults.is_empty() {
                faults = vec![faults.swap_remove(rng.of(faults.len()))];
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
            .filter_map(|scoped_join_handle| {
                scoped_join_handle.join().expect("a search that panics is a failed test")
            })
            .min_by_key(|case| case.seed)
    });
    match found {
        Some(case) => Err(case.shrink()),
        None => Ok(all.into_inner().expect("no thread panicked while holding it")),
    }
}

#[test]
fn lifecycles_match_the_model_whatever_fails() {
    let outcomes = search(2000, false).unwrap_or_else(|case| panic!("{}", case.text()));
    // The sequences are not empty: every step succeeded, was rejected and failed.
    for step in ["create alone", "create resource", "create shared", "create into", "open", "fill"]
    {
        for outcome in ["Done", "Failed"] {
            assert!(
                outcomes.contains(&format!("{step} {outcome}")),
                "{step} {outcome}: {outcomes:?}"
            );
        }
    }
    for what in ["resource", "list"] {
        for flags in ["", " assume", " sync", " assume sync"] {
            for outcome in ["Done", "Failed", "Skipped"] {
                let step = format!("destroy {what}{flags} {outcome}");
                assert!(outcomes.contains(&step), "{step}: {outcomes:?}");
            }
        }
    }
    for outcome in ["Done", "Failed", "Skipped"]
        .iter()
        .flat_map(|text| [format!("destroy context {text}"), format!("destroy device {text}")])
    {
        assert!(outcomes.contains(&outcome), "{outcome}: {outcomes:?}");
    }
    for failed in Faulty::CALLS {
        assert!(outcomes.contains(*failed), "{failed}: {outcomes:?}");
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
