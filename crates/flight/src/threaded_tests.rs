use super::*;
use crate::Irql;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;

fn silent() -> Arc<Log> {
    Arc::new(Log::silent())
}

fn fly<R>(main: impl FnOnce(&Arc<ThreadedHost>, &mut Passive) -> R) -> R {
    ThreadedHost::fly(&silent(), main).unwrap()
}

#[test]
fn threads_really_run_side_by_side() {
    fly(|host, at| {
        // Each thread waits for the other one here, so both must run concurrently.
        let both = Arc::new(Barrier::new(2));
        let meet = |both: Arc<Barrier>| {
            move |_: &mut Passive| {
                both.wait();
            }
        };
        let ends = [host.spawn("a", meet(both.clone())), host.spawn("b", meet(both))];
        for end in &ends {
            assert_eq!(host.park(at, end, None), WaitResult::Woken);
        }
    });
}

#[test]
fn a_wake_before_the_park_is_not_lost_and_is_used_once() {
    fly(|host, at| {
        let token = WaitToken::new("it");
        host.wake(&token);
        host.wake(&token);
        assert_eq!(host.park(at, &token, None), WaitResult::Woken);
        assert_eq!(host.park(at, &token, Some(5)), WaitResult::TimedOut);
    });
}

#[test]
fn no_wake_is_lost_among_a_thousand() {
    fly(|host, at| {
        let (ping, pong) = (WaitToken::new("ping"), WaitToken::new("pong"));
        let (host2, ping2, pong2) = (host.clone(), ping.clone(), pong.clone());
        let ended = host.spawn("other", move |at| {
            for _ in 0..1000 {
                assert_eq!(host2.park(at, &ping2, None), WaitResult::Woken);
                host2.wake(&pong2);
            }
        });
        for _ in 0..1000 {
            host.wake(&ping);
            assert_eq!(host.park(at, &pong, None), WaitResult::Woken);
        }
        assert_eq!(host.park(at, &ended, None), WaitResult::Woken);
    });
}

#[test]
fn a_wait_that_nothing_can_end_is_stuck_and_says_why() {
    fly(|host, at| {
        host.spawn_worker("system", WaitToken::new("work"), |_| false);
        host.run_until_idle(at);
        let woken = host.park(at, &WaitToken::new("a fence"), None);
        let graph = "main waits for a fence; system waits for work";
        assert_eq!(woken, WaitResult::Stuck(graph.into()));
    });
}

#[test]
fn a_waiter_for_a_stuck_thread_is_not_the_stuck_one() {
    fly(|host, at| {
        let host2 = host.clone();
        let ended = host.spawn("client", move |at| {
            let woken = host2.park(at, &WaitToken::new("a fence"), None);
            assert!(matches!(woken, WaitResult::Stuck(_)), "{woken:?}");
        });
        assert_eq!(host.park(at, &ended, None), WaitResult::Woken);
    });
}

#[test]
fn the_earliest_deadline_passes_first() {
    fly(|host, at| {
        let (said, heard) = channel();
        for (name, deadline) in [("late", 9), ("early", 4)] {
            let (host2, said) = (host.clone(), said.clone());
            host.spawn(name, move |at| {
                let woken = host2.park(at, &WaitToken::new("nothing"), Some(deadline));
                said.send((name, woken)).unwrap();
            });
        }
        host.run_until_idle(at);
        let _ = host.park(at, &WaitToken::new("all"), Some(10));
        let order: Vec<_> = heard.try_iter().collect();
        assert_eq!(order, [("early", WaitResult::TimedOut), ("late", WaitResult::TimedOut)]);
    });
}

#[test]
fn idle_is_when_no_thread_has_work_left() {
    fly(|host, at| {
        let (work_available, count) = (WaitToken::new("work"), Arc::new(AtomicU32::new(100)));
        let left = count.clone();
        let one = move |_: &mut Passive| {
            left.fetch_update(SeqCst, SeqCst, |number| number.checked_sub(1)).is_ok()
        };
        host.spawn_worker("system", work_available.clone(), one);
        host.run_until_idle(at);
        assert_eq!(count.load(SeqCst), 0);
        count.store(7, SeqCst);
        host.wake(&work_available);
        host.run_until_idle(at);
        assert_eq!(count.load(SeqCst), 0);
    });
}

#[test]
fn a_panic_is_reported() {
    let flown = ThreadedHost::fly(&silent(), |host, at| {
        let ended = host.spawn("bad", |_| panic!("oh"));
        host.park(at, &ended, None)
    });
    assert_eq!(flown, Err(HostError("bad: oh".into())));
    let flown = ThreadedHost::fly(&silent(), |_, _| panic!("no"));
    assert_eq!(flown, Err::<(), _>(HostError("main: no".into())));
}

#[test]
fn each_thread_has_its_own_level() {
    fly(|host, at| {
        let (host2, seen) = (host.clone(), Arc::new(Mutex::new(None)));
        let seen2 = seen.clone();
        at.raised(|_: &mut crate::Dispatch| {
            assert_eq!(host.irql(), Irql::Dispatch);
            host.spawn("other", move |_| *seen2.lock().unwrap() = Some(host2.irql()));
        });
        host.run_until_idle(at);
        assert_eq!((*seen.lock().unwrap(), host.irql()), (Some(Irql::Passive), Irql::Passive));
    });
}

/// A host with a worker that serves each order; destroyed when `body` returns.
fn serviced(body: impl FnOnce(&Arc<ThreadedHost>, &WaitToken, &WaitToken)) {
    let (host, work_available, done) =
        (ThreadedHost::new(&silent()), WaitToken::new("orders"), WaitToken::new("service"));
    let orders = Arc::new(AtomicU32::new(0));
    let (host2, done2) = (host.clone(), done.clone());
    host.spawn_worker("server", work_available.clone(), move |_| {
        // The first turn comes before any order.
        if orders.fetch_add(1, SeqCst) > 0 {
            host2.wake(&done2);
        }
        false
    });
    host.adopt("settles", |at| host.run_until_idle(at));
    body(&host, &work_available, &done);
    host.end().unwrap();
    assert!(host.state().table.threads.iter().all(|thread| !thread.is_ready()));
    assert_eq!(Arc::strong_count(&host), 1, "its threads have ended");
}

#[test]
fn a_thread_from_outside_is_adopted_and_keeps_its_number() {
    serviced(|host, work_available, done| {
        let number = || thread::current();
        let mine = host.adopt("c", |_| number());
        assert_eq!(host.adopt("c", |_| number()), mine, "the same thread");
        assert_eq!(host.adopt("c", |_| host.adopt("again", |_| number())), mine, "nested");
        let woken = host.adopt("c", |at| {
            host.wake(work_available);
            host.adopt("again", |at| host.park(at, done, None));
            host.wake(work_available);
            host.park(at, done, None)
        });
        assert_eq!(woken, WaitResult::Woken);
    });
}

#[test]
fn a_thread_that_has_ended_leaves_its_number_to_the_next() {
    serviced(|host, _, _| {
        let adopt = || {
            std::thread::scope(|scope| {
                // Joined, so that the thread has cleared its thread-local table.
                scope.spawn(|| host.adopt("c", |_| thread::current())).join().unwrap()
            })
        };
        let first = adopt();
        assert_eq!([adopt(), adopt()], [first, first]);
    });
}

#[test]
fn a_thread_that_left_does_not_count_as_running() {
    serviced(|host, _, _| {
        std::thread::scope(|scope| {
            // Joined, so that the thread has cleared its thread-local table.
            scope.spawn(|| host.adopt("away", |_| ())).join().unwrap();
        });
        let woken = host.adopt("stuck", |at| host.park(at, &WaitToken::new("a fence"), None));
        assert!(matches!(woken, WaitResult::Stuck(_)), "{woken:?}");
    });
}

#[test]
fn a_thread_that_leaves_while_another_begins_to_wait_is_not_missed() {
    const ROUNDS: usize = 3000;
    let (host, round) = (ThreadedHost::new(&silent()), Barrier::new(2));
    std::thread::scope(|scope| {
        // It leaves once in each round: a wait that misses it never ends.
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                round.wait();
                host.adopt("leaves", |_| ());
            }
        });
        host.adopt("waits", |at| {
            for _ in 0..ROUNDS {
                round.wait();
                let (token, now) = (WaitToken::new("nothing"), host.now());
                assert_eq!(host.park(at, &token, Some(now + 1)), WaitResult::TimedOut);
            }
        });
    });
    host.end().unwrap();
}

#[test]
fn a_body_that_panics_leaves_the_host_in_order() {
    serviced(|host, work_available, done| {
        let panicked = catch_unwind(AssertUnwindSafe(|| host.adopt("c", |_| panic!("oh"))));
        assert!(panicked.is_err());
        host.wake(work_available);
        assert_eq!(host.adopt("c", |at| host.park(at, done, None)), WaitResult::Woken);
    });
}

#[test]
fn an_end_from_inside_comes_when_the_last_one_leaves() {
    let host = ThreadedHost::new(&silent());
    host.spawn_worker("server", WaitToken::new("orders"), |_| false);
    host.adopt("c", |_| host.end()).unwrap();
    host.end().unwrap();
    assert_eq!(Arc::strong_count(&host), 1);
}

/// Waits on a thread that is not the host's, and returns how the wait ended.
fn waits(
    host: &Arc<ThreadedHost>,
    token: &WaitToken,
    deadline: Option<u64>,
) -> JoinHandle<WaitResult> {
    let (host, token) = (host.clone(), token.clone());
    std::thread::spawn(move || host.adopt("waits", |at| host.park(at, &token, deadline)))
}

#[test]
fn a_wait_for_a_client_that_is_away_is_not_stuck() {
    let host = ThreadedHost::new(&silent());
    let token = WaitToken::for_clients("a key");
    host.adopt("other", |_| ()); // It was inside, and has left.
    let waiting = waits(&host, &token, None);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!waiting.is_finished());
    host.wake(&token);
    assert_eq!(waiting.join().unwrap(), WaitResult::Woken);
    assert_eq!(host.now(), 0, "nothing was due");
    host.end().unwrap();
}

#[test]
fn a_deadline_takes_its_time_while_a_client_is_away_and_none_when_none_is() {
    let host = ThreadedHost::new(&silent());
    host.adopt("other", |_| ());
    let began = Instant::now();
    let hour = 36_000_000_000;
    let waited = waits(&host, &WaitToken::for_clients("a key"), Some(500_000)).join().unwrap();
    assert_eq!(waited, WaitResult::TimedOut);
    assert!(host.now() >= 500_000);
    assert!(began.elapsed() >= Duration::from_millis(50));
    let (host2, alone) = (host.clone(), WaitToken::for_clients("a key"));
    let alone = host.adopt("other", |at| host2.park(at, &alone, Some(hour)));
    assert_eq!((alone, host.now()), (WaitResult::TimedOut, hour));
    host.end().unwrap();
}

#[test]
fn a_wait_for_clients_is_stuck_when_the_last_client_has_ended() {
    let host = ThreadedHost::new(&silent());
    let (said, heard) = channel();
    let (host2, ended) = (host.clone(), channel::<()>());
    let (end, until) = ended;
    let other = std::thread::spawn(move || {
        host2.adopt("other", |_| ());
        said.send(()).unwrap();
        let _ = until.recv(); // No message is sent: the channel is closed.
    });
    heard.recv().unwrap();
    let waiting = waits(&host, &WaitToken::for_clients("a key"), None);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished());
    drop(end);
    other.join().unwrap();
    assert!(matches!(waiting.join().unwrap(), WaitResult::Stuck(_)));
    host.end().unwrap();
}

#[test]
fn time_passes_equally_for_all_waiting_threads() {
    let host = ThreadedHost::new(&silent());
    host.adopt("other", |_| ());
    let hour = 36_000_000_000;
    let long = WaitToken::for_clients("a key");
    let first = waits(&host, &long, Some(hour));
    std::thread::sleep(Duration::from_millis(60));
    let began = Instant::now();
    let came = host.now();
    let deadline = came + 1_000_000;
    let second = waits(&host, &WaitToken::for_clients("another"), Some(deadline));
    std::thread::sleep(Duration::from_millis(20));
    host.wake(&long);
    assert_eq!(first.join().unwrap(), WaitResult::Woken);
    let passed = host.now() - came;
    assert!(passed <= ticks(began.elapsed()), "the first one's time is not the second's");
    assert_eq!(second.join().unwrap(), WaitResult::TimedOut);
    assert!(began.elapsed() >= Duration::from_millis(100));
    host.end().unwrap();
}
