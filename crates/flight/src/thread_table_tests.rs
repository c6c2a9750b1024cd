use crate::{DeterministicHost, Log, Passive, Role, Spawner, ThreadedHost};
use crate::{WaitResult, WaitToken};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One millisecond in units of 100 ns.
const MS: u64 = 10_000;

/// Flies on several seeds of the deterministic host and on the threaded host.
fn fly(body: impl Fn(&Arc<dyn Spawner>, &mut Passive)) {
    let log = Arc::new(Log::silent());
    for seed in 0..4 {
        let flown = DeterministicHost::fly(seed, &log, |host, at| {
            let host: Arc<dyn Spawner> = host.clone();
            body(&host, at);
        });
        assert_eq!(flown, Ok(()));
    }
    let flown = ThreadedHost::fly(&log, |host, at| {
        let host: Arc<dyn Spawner> = host.clone();
        body(&host, at);
    });
    assert_eq!(flown, Ok(()));
}

/// Starts a driver's thread that sleeps for `period` again and again, and counts.
fn start_polling(host: &Arc<dyn Spawner>, role: Role, period: u64) -> Arc<AtomicU32> {
    let turns: Arc<AtomicU32> = Arc::default();
    let (counted, polling) = (turns.clone(), host.clone());
    let body = move |at: &mut Passive| {
        let token = WaitToken::new("time");
        while polling.park(at, &token, Some(polling.now() + period)) == WaitResult::TimedOut {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    assert!(host.clone().start("polling", role, Box::new(body)).is_ok());
    turns
}

#[test]
fn a_wait_for_idle_lets_a_driver_poll_for_a_while() {
    for role in [Role::Driver, Role::DriverWorker] {
        fly(|host, at| {
            let turns = start_polling(host, role, MS);
            host.run_until_idle(at);
            assert_eq!((turns.load(Ordering::Relaxed), host.now()), (50, 50 * MS));
            host.run_until_idle(at);
            assert_eq!((turns.load(Ordering::Relaxed), host.now()), (100, 100 * MS));
        });
    }
}

#[test]
fn a_wait_for_idle_ends_however_short_the_period_is() {
    fly(|host, at| {
        let turns = start_polling(host, Role::Driver, 0);
        host.run_until_idle(at);
        assert_eq!((turns.load(Ordering::Relaxed), host.now()), (1_000, 0));
    });
}

#[test]
fn time_stands_still_during_a_wait_for_idle_without_a_drivers_near_deadline() {
    fly(|host, at| {
        let turns = start_polling(host, Role::Driver, 51 * MS);
        let waiting = host.clone();
        let end = host.spawn("client", move |at| {
            let result = waiting.park(at, &WaitToken::new("time"), Some(MS));
            assert_eq!((result, waiting.now()), (WaitResult::TimedOut, MS));
        });
        host.run_until_idle(at);
        assert_eq!(host.now(), 0, "neither deadline has passed");
        assert_eq!(host.park(at, &end, None), WaitResult::Woken);
        assert_eq!(turns.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn deadlines_pass_in_order() {
    fly(|host, at| {
        let turns = start_polling(host, Role::Driver, MS);
        let result = host.park(at, &WaitToken::new("time"), Some(1_000 * MS + 1));
        assert_eq!((result, host.now()), (WaitResult::TimedOut, 1_000 * MS + 1));
        assert_eq!(turns.load(Ordering::Relaxed), 1_000);
    });
}

#[test]
fn a_driver_that_polls_too_often_oversleeps() {
    fly(|host, at| {
        let turns = start_polling(host, Role::Driver, 1);
        let result = host.park(at, &WaitToken::new("time"), Some(1_000_000));
        assert_eq!((result, host.now()), (WaitResult::TimedOut, 1_000_000));
        assert_eq!(turns.load(Ordering::Relaxed), super::PATIENCE_TURNS);
    });
}

#[test]
fn a_client_is_stuck_although_a_driver_polls() {
    fly(|host, at| {
        start_polling(host, Role::DriverWorker, 100 * MS);
        for turn in 1..=2 {
            let result = host.park(at, &WaitToken::new("a fence"), None);
            assert!(matches!(result, WaitResult::Stuck(_)), "{result:?}");
            assert_eq!(host.now(), turn * super::PATIENCE);
        }
    });
}

#[test]
fn a_driver_that_waits_is_not_stuck_and_does_not_keep_the_run_alive() {
    let results: Arc<std::sync::Mutex<Vec<WaitResult>>> = Arc::default();
    fly(|host, at| {
        let (waiting, results) = (host.clone(), results.clone());
        host.spawn_driver_thread("waiting", move |at| {
            let result = waiting.park(at, &WaitToken::new("a stop event"), None);
            results.lock().unwrap().push(result);
        })
        .unwrap();
        let polling = start_polling(host, Role::Driver, MS);
        assert_eq!(host.driver_threads(), ["waiting", "polling"]);
        let result = host.park(at, &WaitToken::new("a fence"), Some(2 * MS));
        assert_eq!(result, WaitResult::TimedOut);
        assert!((1..=2).contains(&polling.load(Ordering::Relaxed)));
    });
    let results = results.lock().unwrap();
    assert_eq!(*results, vec![WaitResult::HostEnded; 5], "each ended with its run");
}
