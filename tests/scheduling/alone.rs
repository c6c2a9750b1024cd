//! Waits that only their own client can end. Each test has a kernel of its own on a deterministic
//! host: a missing wake-up is a wait that is stuck, and no other test's work ends it.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::status::STATUS_INVALID_PARAMETER as INVALID;
use flight::{Event, EventKind, Passive};
use harness::{run, softgpu, verified};
use thunk::{Client, CpuWait, SyncObject};

/// A client with a device.
struct Fixture {
    client: Client,
    device: u32,
}

impl Fixture {
    fn fence(&self, at: &mut Passive, value: u64) -> u32 {
        let kind = SyncObject::Monitored(value);
        self.client.create_sync(at, self.device, kind, 0).unwrap().object
    }

    fn context(&self, at: &mut Passive) -> u32 {
        self.client.create_context(at, self.device, 0).unwrap()
    }

    fn is_set_by(&self, at: &mut Passive, list: &[(u32, u64)], any: bool) -> bool {
        let event = self.client.create_event();
        self.client.wait_cpu(at, self.device, list, CpuWait { any, event }).unwrap();
        self.client.event_is_set(event).unwrap()
    }
}

/// Flies a client in ten orders. There are no findings. Returns the events of the last flight.
fn fly(body: impl Fn(&Fixture, &mut Passive)) -> Vec<Event> {
    let mut last = Vec::new();
    for seed in 1..=10 {
        let events = run(seed, softgpu, |testbed, at| {
            let client = Client::new(&testbed.kernel);
            let adapter = client.adapters(at).unwrap()[0];
            let device = client.create_device(at, adapter).unwrap();
            let fixture = Fixture { client, device };
            body(&fixture, at);
            fixture.client.destroy_device(at, device).unwrap();
            fixture.client.close_adapter(at, adapter).unwrap();
            fixture.client.end(at);
        });
        let verifier = verified(&events);
        assert!(verifier.findings().is_empty(), "seed {seed}: {:?}", verifier.findings());
        last = events;
    }
    last
}

#[test]
fn a_wait_for_any_fence_ends_at_once_if_one_is_reached() {
    fly(|fixture, at| {
        let (reached, missing) = (fixture.fence(at, 5), fixture.fence(at, 0));
        for list in [[(reached, 5), (missing, 1)], [(missing, 1), (reached, 4)]] {
            let blocking = CpuWait { any: true, ..CpuWait::default() };
            let ended = fixture.client.wait_cpu(at, fixture.device, &list, blocking);
            assert_eq!(ended, Ok(()), "no thread signals again");
            assert!(fixture.is_set_by(at, &list, true));
            assert!(!fixture.is_set_by(at, &list, false), "the other has not its value");
        }
        for object in [reached, missing] {
            fixture.client.destroy_sync(at, object).unwrap();
        }
    });
}

/// One call signals every fence of its list, from the CPU and from a context; an empty list is
/// rejected.
#[test]
fn a_call_signals_every_fence_of_its_list() {
    let events = fly(|fixture, at| {
        let context = fixture.context(at);
        let (one, other) = (fixture.fence(at, 0), fixture.fence(at, 0));
        let (client, device) = (&fixture.client, fixture.device);
        client.signal_cpu(at, device, &[(one, 1), (other, 2)], 0).unwrap();
        assert!(fixture.is_set_by(at, &[(one, 1), (other, 2)], false));
        client.signal_gpu(at, context, &[(one, 3), (other, 4)]).unwrap();
        let list = [(one, 3), (other, 4)];
        assert_eq!(client.wait_cpu(at, device, &list, CpuWait::default()), Ok(()));
        assert!(!fixture.is_set_by(at, &[(one, 4)], false));
        assert!(!fixture.is_set_by(at, &[(other, 5)], false));
        assert_eq!(client.signal_cpu(at, device, &[], 0), Err(INVALID));
        assert_eq!(client.signal_gpu(at, context, &[]), Err(INVALID));
        client.destroy_context(at, context).unwrap();
        for object in [one, other] {
            client.destroy_sync(at, object).unwrap();
        }
    });
    let counts = events.iter().filter_map(|event| match event.kind {
        EventKind::GpuWaitStarted { count, .. } => Some(count),
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<u32>>(), [2, 2, 1, 1], "the events count the fences");
}

/// A fence has 64 bits, also when it is created with a value.
#[test]
fn a_fence_is_created_with_64_bits() {
    let value = 5 << 32 | 7;
    fly(|fixture, at| {
        let fence = fixture.fence(at, value);
        assert!(fixture.is_set_by(at, &[(fence, value)], false));
        assert!(!fixture.is_set_by(at, &[(fence, value + 1)], false));
        fixture.client.destroy_sync(at, fence).unwrap();
    });
}

#[test]
fn a_wait_for_all_fences_ends_at_once_if_all_are_reached() {
    fly(|fixture, at| {
        let (one, other) = (fixture.fence(at, 5), fixture.fence(at, 7));
        let list = [(one, 5), (other, 7)];
        let ended = fixture.client.wait_cpu(at, fixture.device, &list, CpuWait::default());
        assert_eq!(ended, Ok(()));
        assert!(fixture.is_set_by(at, &list, false));
        assert!(!fixture.is_set_by(at, &[(one, 5), (other, 8)], false));
        for object in [one, other] {
            fixture.client.destroy_sync(at, object).unwrap();
        }
    });
}

/// The agreed order of two contexts and the CPU, with nothing else to wake them.
#[test]
fn contexts_wait_for_the_cpu_and_for_one_another() {
    fly(|fixture, at| {
        let (first, second) = (fixture.context(at), fixture.context(at));
        let [start, between, end] = [(); 3].map(|()| fixture.fence(at, 0));
        let client = &fixture.client;
        client.wait_gpu(at, second, &[(between, 1)]).unwrap();
        client.signal_gpu(at, second, &[(end, 1)]).unwrap();
        client.wait_gpu(at, first, &[(start, 1)]).unwrap();
        client.signal_gpu(at, first, &[(between, 1)]).unwrap();
        assert!(!fixture.is_set_by(at, &[(end, 1)], false), "the CPU has not started it");
        client.signal_cpu(at, fixture.device, &[(start, 1)], 0).unwrap();
        let ended = client.wait_cpu(at, fixture.device, &[(end, 1)], CpuWait::default());
        assert_eq!(ended, Ok(()));
        for context in [first, second] {
            client.destroy_context(at, context).unwrap();
        }
        for object in [start, between, end] {
            client.destroy_sync(at, object).unwrap();
        }
    });
}

/// Signals of the GPU end a thread's wait, an event and a wait of another context.
#[test]
fn a_signal_of_the_gpu_wakes_every_kind_of_waiter() {
    fly(|fixture, at| {
        let (signals, waits) = (fixture.context(at), fixture.context(at));
        let (fence, after) = (fixture.fence(at, 0), fixture.fence(at, 0));
        let client = &fixture.client;
        let event = client.create_event();
        let (device, list) = (fixture.device, [(fence, 1)]);
        client.wait_cpu(at, device, &list, CpuWait { any: false, event }).unwrap();
        client.wait_gpu(at, waits, &list).unwrap();
        client.signal_gpu(at, waits, &[(after, 1)]).unwrap();
        client.signal_gpu(at, signals, &list).unwrap();
        assert_eq!(client.wait_cpu(at, device, &list, CpuWait::default()), Ok(()));
        assert_eq!(client.event_is_set(event), Ok(true));
        assert_eq!(client.wait_cpu(at, device, &[(after, 1)], CpuWait::default()), Ok(()));
        for context in [signals, waits] {
            client.destroy_context(at, context).unwrap();
        }
        for object in [fence, after] {
            client.destroy_sync(at, object).unwrap();
        }
    });
}
