//! Calls on one thread while another thread ends an object that the calls take, on real threads.
//! `tests/race.rs` flies the same pairs in orders that are drawn.

use abi::status::STATUS_INVALID_PARAMETER;
use flight::{Component, Event, Log, Passive, RuleId, Spawner, WaitToken};
use harness::racing::calls::{RACING_CALLS, WITHOUT_OBJECTS};
use harness::racing::objects::{DriverKind, RacingObjects, description};
use harness::racing::racing_pairs;
use harness::{repeats, run, verified};
use kernel::context::Context;
use kernel::miniport::{
    CreateAllocationArgs, CreateContextArgs, DestroyAllocationArgs, DriverContext, DriverDevice,
    DriverResource, DriverResult, EscapeArgs, HandleSlot, Miniport,
};
use kernel::{DriverSetup, Kernel};
use softgpu::SoftGpu;
use softgpu::format::{Escape, escape};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use thunk::{Client, CreateAllocation, DestroyAllocation, EscapeCall};
use verify::Finding;
use windtunnel::{HostKind, TestClient};

#[test]
fn every_entry_point_has_a_row_or_takes_no_object_that_another_thread_may_end() {
    let named = |name: &'static str| name.split(' ').next().unwrap_or_default();
    let rows: BTreeSet<&str> = RACING_CALLS.iter().map(|call| named(call.name)).collect();
    let others: BTreeSet<&str> = WITHOUT_OBJECTS.iter().copied().collect();
    assert_eq!(rows.intersection(&others).collect::<Vec<_>>(), Vec::<&&str>::new());
    let all: BTreeSet<&str> = thunk::ENTRIES.iter().map(|entry| entry.name).collect();
    let listed: BTreeSet<&str> = rows.union(&others).copied().collect();
    assert_eq!(listed, all, "a row in tests/src/racing/calls.rs per entry point");
}

#[test]
fn every_call_beside_the_end_of_its_object_succeeds_or_fails_on_threads() {
    for _ in 0..repeats(2, 50) {
        for pair in racing_pairs() {
            if let Err(why) = pair.fly() {
                panic!("{}: {why}", pair.name());
            }
        }
    }
}

#[test]
fn a_lock_beside_the_destruction_of_its_allocation_succeeds_or_fails_as_for_an_ended_handle() {
    let mut statuses = BTreeSet::new();
    let events = run(
        HostKind::Threaded,
        |log| DriverKind::Packets.set_up(log),
        |testbed, at| {
            let objects = RacingObjects::create(testbed, at, DriverKind::Packets).expect("objects");
            let (client, device) = (objects.client.clone(), objects.device);
            // The allocation that exists now; the last one is zero.
            let current = Arc::new(AtomicU32::new(objects.allocation));
            let (locker, lockable) = (objects.clone(), current.clone());
            let (sender, receiver) = std::sync::mpsc::channel();
            let locks = testbed.host.spawn("locks", move |at| {
                let mut seen = BTreeSet::new();
                loop {
                    let allocation = lockable.load(SeqCst);
                    if allocation == 0 {
                        break;
                    }
                    seen.extend(locker.client.lock2(at, locker.device, allocation, 0).err());
                }
                let _ = sender.send(seen); // The receiver lives until the thread has ended.
            });
            for _ in 0..repeats(1500, 50_000) {
                let create = CreateAllocation::new(device, vec![description()]);
                let next = client.create(at, &create).expect("an allocation").allocations[0];
                // Work moves it where the CPU does not see it, and the lock moves it back.
                client.make_resident(at, objects.queue(), &[next], 0).expect("room");
                let last = current.swap(next, SeqCst);
                let request = DestroyAllocation { list: vec![last], ..objects.destroy_request() };
                client.destroy(at, &request).expect("it exists");
            }
            current.store(0, SeqCst);
            testbed.host.park(at, &locks, None);
            statuses = receiver.try_recv().expect("the thread has ended");
            client.kill(at);
        },
    );
    for finding in verified(&events).findings() {
        assert_eq!(finding.component, Component::Client, "{}", finding.message);
    }
    // WINDOWS: an ended handle is an invalid parameter (observed).
    assert!(statuses.iter().all(|status| *status == STATUS_INVALID_PARAMETER), "{statuses:x?}");
}

/// The built-in driver, which waits for ever in one call.
struct StuckDriver {
    driver: Arc<SoftGpu>,
    host: Arc<dyn Spawner>,
    stuck_in: &'static str,
}

impl StuckDriver {
    fn wait(&self, at: &mut Passive, name: &str) {
        if self.stuck_in == name {
            self.host.park(at, &WaitToken::new("what never comes"), None);
        }
    }
}

impl Miniport for StuckDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.wait(at, "DxgkDdiCreateContext");
        self.driver.create_context(at, device, args, slot)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> DriverResult<()> {
        self.wait(at, "DxgkDdiDestroyContext");
        self.driver.destroy_context(at, context)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.wait(at, "DxgkDdiCreateAllocation");
        self.driver.create_allocations(at, args)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.wait(at, "DxgkDdiDestroyAllocation");
        self.driver.destroy_allocations(at, args)
    }

    fn escape(&self, at: &mut Passive, args: EscapeArgs<'_>) -> DriverResult<()> {
        self.wait(at, "DxgkDdiEscape");
        self.driver.escape(at, args)
    }
}

/// Makes calls on a device until one fails.
fn use_device(test_client: &TestClient, at: &mut Passive) -> Option<()> {
    let context = test_client.create_context(at).ok()?;
    let list = test_client.create(at, 1).ok()?.allocations;
    let escape = EscapeCall {
        adapter: test_client.adapter,
        device: test_client.device,
        context,
        private: escape(Escape::Mirror(1)),
        ..EscapeCall::default()
    };
    test_client.client.escape(at, &escape).ok()?;
    test_client.destroy_list(at, &list).ok()?;
    test_client.client.destroy_context(at, context).ok()
}

/// Flies a driver that waits for ever in a call, while the device of the call is destroyed, its
/// process ends, and its adapter is removed. Returns the events.
fn fly_stuck(stuck_in: &'static str) -> Vec<Event> {
    let log = Arc::new(Log::new());
    let flown = HostKind::deterministic(1).fly(&log, |host, at| {
        let (driver, hardware) = SoftGpu::new();
        let miniport = Arc::new(StuckDriver { driver, host: host.clone(), stuck_in });
        let setup = DriverSetup { miniport, hardware, pool: nt::Pool::new(log.clone()) };
        let kernel = Kernel::new(host.clone(), log.clone());
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter = kernel.add_adapter(at, setup).expect("a driver");
        let test_client = TestClient::open(Client::new(&kernel), at).expect("a device");
        let caller = test_client.clone();
        let called = host.spawn("caller", move |at| {
            let _ = use_device(&caller, at); // Its device ends during a call.
        });
        for _ in 0..40 {
            host.yield_point(at);
        }
        let _ = test_client.client.destroy_device(at, test_client.device);
        test_client.client.kill(at);
        kernel.remove_adapter(at, adapter);
        host.park(at, &called, None);
        kernel.validate().expect("the invariants hold");
    });
    flown.unwrap_or_else(|reason| panic!("{stuck_in}: {}", reason.0));
    log.take()
}

#[test]
fn a_device_that_ends_while_its_driver_is_stuck_in_a_call_is_a_finding() {
    for stuck_in in [
        "DxgkDdiCreateContext",
        "DxgkDdiDestroyContext",
        "DxgkDdiCreateAllocation",
        "DxgkDdiDestroyAllocation",
        "DxgkDdiEscape",
    ] {
        let verifier = verified(&fly_stuck(stuck_in));
        let is_stuck = |finding: &&Finding| finding.rule == RuleId::WT_STUCK_001;
        let stuck = verifier.findings().iter().find(is_stuck).expect("a finding");
        assert_eq!(stuck.component, Component::Driver, "{stuck_in}: {}", stuck.message);
    }
}
