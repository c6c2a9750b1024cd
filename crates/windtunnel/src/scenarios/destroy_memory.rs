//! Destruction of allocations that are locked, offered, evicted, mapped or being transferred.

use crate::needs::PAGING;
use crate::private_data::{Command, anywhere, only_in};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_ok};
use abi::D3DKMT_HANDLE;
use flight::RuleId;
use kernel::Handle;
use kernel::segment::PlacementRequirements;
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{AllocationSelection, CreateAllocation, DestroyAllocation};

const PAGE: u64 = 4096;
const SIZE: u64 = 4 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    memory("destroy-after-unlock", "unlocks allocations, then destroys them", destroy_after_unlock),
    Scenario {
        breaks: &[RuleId::ALLOC_DESTROY_022],
        ..memory("destroy-locked", "destroys an allocation that the CPU has locked", destroy_locked)
    },
    memory(
        "destroy-offered",
        "destroys offered allocations, idle and behind queued work",
        destroy_offered,
    ),
    memory(
        "destroy-evicted",
        "destroys evicted allocations without any paging operation",
        destroy_evicted,
    ),
    memory(
        "destroy-in-aperture",
        "destroys allocations mapped into an aperture; the aperture is unmapped before the close",
        destroy_in_aperture,
    ),
    memory(
        "destroy-during-transfer",
        "destroys allocations during a paging transfer; the destruction waits for the transfer",
        destroy_during_transfer,
    ),
];

const fn memory(
    name: &'static str,
    about: &'static str,
    body: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks: &[], needs: PAGING, body: DisplayBody(body) }
}

/// An allocation of a few pages with these placement requirements.
fn create(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    requirements: &PlacementRequirements,
) -> Result<u32, ScenarioStopped> {
    let private = vec![test_client.private_data.placed(SIZE, PAGE, requirements)];
    Ok(test_client
        .create_with(testbed.at, &CreateAllocation::new(test_client.device, private))?
        .allocations[0])
}

/// Submits work on a resident allocation, if there is a context for it, and does not wait for it.
fn work(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    context: Option<D3DKMT_HANDLE>,
    on: u32,
) -> Result<(), ScenarioStopped> {
    let Some(context) = context else { return Ok(()) };
    let fill = Command::Fill { target: Handle(on), offset: 0, length: SIZE, value: 0xa5 };
    let packet = test_client.private_data.packet(&[fill])?;
    let submitted = test_client.client.submit(testbed.at, context, &packet);
    expect_ok("D3DKMTSubmitCommand", submitted)
}

/// How an allocation is destroyed: with `AssumeNotInUse`, with `SynchronousDestroy`.
const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn destroy(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    it: u32,
    (assume_not_in_use, synchronous): (bool, bool),
) -> Result<(), ScenarioStopped> {
    let (device, list) = (test_client.device, vec![it]);
    let destroy = DestroyAllocation {
        device,
        list,
        assume_not_in_use,
        synchronous,
        ..DestroyAllocation::default()
    };
    test_client.destroy_with(testbed.at, &destroy)
}

fn destroy_after_unlock(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let it = create(testbed, &test_client, &only_in(&[VISIBLE, APERTURE]))?;
    test_client.make_resident(testbed.at, &[it])?;
    let (client, device) = (&test_client.client, test_client.device);
    expect_ok("D3DKMTLock2", client.lock2(testbed.at, device, it, 0))?;
    expect_ok("D3DKMTUnlock2", client.unlock2(testbed.at, device, it))?;
    destroy(testbed, &test_client, it, (false, true))?;
    test_client.close(testbed.at, &[])
}

fn destroy_locked(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    for requirements in [only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE])] {
        let it = create(testbed, &test_client, &requirements)?;
        test_client.make_resident(testbed.at, &[it])?;
        for _ in 0..2 {
            expect_ok(
                "D3DKMTLock2",
                test_client.client.lock2(testbed.at, test_client.device, it, 0),
            )?;
        }
        work(testbed, &test_client, context, it)?;
        destroy(testbed, &test_client, it, (false, false))?;
        testbed.snapshot_live_objects("it waits for the work and is no longer locked");
        testbed.run_until_idle();
    }
    test_client.close(testbed.at, context.as_slice())
}

fn destroy_offered(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    for busy in [false, true] {
        let it = create(testbed, &test_client, &anywhere())?;
        test_client.make_resident(testbed.at, &[it])?;
        if busy {
            work(testbed, &test_client, context, it)?;
        }
        let names = AllocationSelection {
            device: test_client.device,
            list: &[it],
            ..AllocationSelection::default()
        };
        expect_ok("D3DKMTOfferAllocations", test_client.client.offer(testbed.at, names, 1))?;
        destroy(testbed, &test_client, it, (false, false))?;
        testbed.run_until_idle();
    }
    test_client.close(testbed.at, context.as_slice())
}

fn destroy_evicted(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    let it = create(testbed, &test_client, &anywhere())?;
    test_client.make_resident(testbed.at, &[it])?;
    work(testbed, &test_client, context, it)?;
    expect_ok("D3DKMTEvict", test_client.client.evict(testbed.at, test_client.device, &[it], 0))?;
    testbed.run_until_idle();
    testbed.snapshot_live_objects("it is in system memory");
    destroy(testbed, &test_client, it, (false, true))?;
    test_client.close(testbed.at, context.as_slice())
}

fn destroy_in_aperture(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    // Packets use an allocation that stays alive when the destroyed one must be idle.
    let other = create(testbed, &test_client, &only_in(&[APERTURE]))?;
    test_client.make_resident(testbed.at, &[other])?;
    for way in WAYS {
        let it = create(testbed, &test_client, &only_in(&[APERTURE]))?;
        test_client.make_resident(testbed.at, &[it])?;
        work(testbed, &test_client, context, if way.0 { other } else { it })?;
        destroy(testbed, &test_client, it, way)?;
        testbed.snapshot_live_objects("after the call");
        testbed.run_until_idle();
    }
    test_client.close(testbed.at, context.as_slice())
}

fn destroy_during_transfer(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let queue = test_client.paging_queue(testbed.at)?.queue;
    for way in WAYS {
        let [comes, goes] =
            [(); 2].map(|()| create(testbed, &test_client, &only_in(&[LOCAL, APERTURE])));
        let (comes, goes) = (comes?, goes?);
        test_client.make_resident(testbed.at, &[goes])?;
        let created = test_client.client.make_resident(testbed.at, queue, &[comes], 0);
        expect_ok("D3DKMTMakeResident", created)?;
        destroy(testbed, &test_client, comes, way)?;
        testbed.snapshot_live_objects("one was destroyed while being paged in");
        expect_ok(
            "D3DKMTEvict",
            test_client.client.evict(testbed.at, test_client.device, &[goes], 0),
        )?;
        destroy(testbed, &test_client, goes, way)?;
        testbed.snapshot_live_objects("one was destroyed while being paged out");
        testbed.run_until_idle();
    }
    test_client.close(testbed.at, &[])
}
