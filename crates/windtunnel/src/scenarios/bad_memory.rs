//! Bad clients of an adapter with memory: each breaks a rule of an entry point and is reported.

use crate::private_data::{Command, DataUse, anywhere, only_in};
use crate::scenario::Scenario;
use crate::scenarios::bad::bad;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::NTSTATUS;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use abi::ukm::{D3DDDI_MAKERESIDENT_FLAGS as MakeFlags, D3DDDICB_LOCKFLAGS as LockFlags};
use flight::{Passive, RuleId};
use kernel::segment::PlacementRequirements;
use softgpu::{APERTURE, LOCAL};
use thunk::{AllocationSelection, CreateAllocation};

/// The flags of `D3DKMTLock` for a whole allocation.
const ENTIRE: u32 = LockFlags::LockEntire;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "lock-conflicting-access-flags",
        "locks with ReadOnly and WriteOnly",
        &[RuleId::ALLOC_LOCK_001],
        |testbed| {
            lock(testbed, &anywhere(), ENTIRE | LockFlags::ReadOnly | LockFlags::WriteOnly, &[])
        },
    ),
    bad(
        "lock-aperture-ignore-sync",
        "locks with AcquireAperture and IgnoreSync",
        &[RuleId::ALLOC_LOCK_002],
        |testbed| {
            lock(
                testbed,
                &anywhere(),
                ENTIRE | LockFlags::IgnoreSync | LockFlags::AcquireAperture,
                &[],
            )
        },
    ),
    bad(
        "lock-alternate-va-without-aperture",
        "locks with UseAlternateVA without AcquireAperture",
        &[RuleId::ALLOC_LOCK_003],
        |testbed| lock(testbed, &anywhere(), ENTIRE | LockFlags::UseAlternateVA, &[]),
    ),
    bad("lock-offered", "locks an offered allocation", &[RuleId::ALLOC_LOCK_004], lock_offered),
    bad(
        "lock-alternate-va-twice",
        "locks an allocation that is already locked at an alternate address",
        &[RuleId::ALLOC_LOCK_007],
        lock_alternate_va_twice,
    ),
    bad(
        "lock-aperture-while-locked",
        "locks a locked allocation again with AcquireAperture",
        &[RuleId::ALLOC_LOCK_008],
        lock_aperture_while_locked,
    ),
    bad(
        "lock-aperture-only-allocation",
        "locks with AcquireAperture an allocation that is placed in apertures only",
        &[RuleId::ALLOC_LOCK_009],
        |testbed| lock(testbed, &only_in(&[APERTURE]), ENTIRE | LockFlags::AcquireAperture, &[]),
    )
    .with_private_data(DataUse::Placement),
    bad(
        "lock-ignore-sync-without-aperture",
        "locks with IgnoreSync an allocation that fits no aperture while the GPU may write to it",
        &[RuleId::ALLOC_LOCK_010],
        |testbed| {
            let mut wants = only_in(&[LOCAL]);
            wants.flags.cpu_visible = false;
            lock(testbed, &wants, ENTIRE | LockFlags::IgnoreSync, &[])
        },
    )
    .with_private_data(DataUse::Placement),
    bad(
        "lock-entire-and-pages",
        "locks with LockEntire and a page list",
        &[RuleId::ALLOC_LOCK_016],
        |testbed| lock(testbed, &anywhere(), ENTIRE, &[0]),
    ),
    bad(
        "lock-unlock-twice",
        "unlocks an allocation twice",
        &[RuleId::ALLOC_LOCK_017],
        lock_unlock_twice,
    ),
    bad(
        "lock-v2-reserved-flags",
        "sets reserved flags in D3DKMTLock2",
        &[RuleId::ALLOC_LOCK_018],
        |testbed| {
            bad_call(testbed, "D3DKMTLock2", |test_client, at, one| {
                test_client.client.lock2(at, test_client.device, one, 1).map(|_| ())
            })
        },
    ),
    bad(
        "residency-priority-resource-and-list",
        "sets a priority of a resource and of an allocation list in one call",
        &[RuleId::ALLOC_PRIO_001],
        |testbed| {
            bad_call(testbed, "D3DKMTSetAllocationPriority", |test_client, at, one| {
                let names = AllocationSelection {
                    device: test_client.device,
                    resources: &[one],
                    list: &[one],
                };
                test_client.client.set_priorities(at, names, &[1])
            })
        },
    ),
    bad(
        "residency-query-resource-and-list",
        "queries the residency of a resource and of an allocation list in one call",
        &[RuleId::ALLOC_PRIO_004],
        |testbed| {
            bad_call(testbed, "D3DKMTQueryAllocationResidency", |test_client, at, one| {
                let names = AllocationSelection {
                    device: test_client.device,
                    resources: &[one],
                    list: &[one],
                };
                test_client.client.residency(at, names).map(|_| ())
            })
        },
    ),
    bad(
        "residency-wrong-paging-queue",
        "makes an allocation resident through the paging queue of another device",
        &[RuleId::RESID_MAKE_001],
        residency_wrong_paging_queue,
    ),
    bad(
        "residency-conflicting-flags",
        "sets MustSucceed without CantTrimFurther",
        &[RuleId::RESID_MAKE_006],
        |testbed| {
            bad_call(testbed, "D3DKMTMakeResident", |test_client, at, one| {
                let queue =
                    test_client.client.create_paging_queue(at, test_client.device, 0)?.queue;
                let flags = MakeFlags::MustSucceed;
                test_client.client.make_resident(at, queue, &[one], flags).map(|_| ())
            })
        },
    ),
    bad(
        "residency-use-never-resident",
        "submits work that uses an allocation that was never made resident",
        &[RuleId::RESID_MAKE_005],
        |testbed| use_not_resident(testbed, false),
    )
    .with_private_data(DataUse::Commands),
    bad(
        "residency-use-evicted",
        "submits work that uses an evicted allocation",
        &[RuleId::RESID_EVICT_002],
        |testbed| use_not_resident(testbed, true),
    )
    .with_private_data(DataUse::Commands),
    bad(
        "residency-evict-twice",
        "evicts an allocation twice",
        &[RuleId::RESID_EVICT_001],
        residency_evict_twice,
    ),
    bad(
        "residency-evict-written-as-unwritten",
        "evicts with NotWrittenTo an allocation that the GPU has written",
        &[RuleId::RESID_EVICT_004],
        residency_evict_written_as_unwritten,
    ),
    bad(
        "residency-offer-nothing",
        "offers without a resource or allocation list",
        &[RuleId::RESID_OFFER_001],
        |testbed| {
            bad_call(testbed, "D3DKMTOfferAllocations", |test_client, at, _| {
                test_client.client.offer(at, AllocationSelection::of(test_client.device, &[]), 1)
            })
        },
    ),
    bad(
        "residency-offer-without-priority",
        "offers without a priority",
        &[RuleId::RESID_OFFER_002],
        |testbed| {
            bad_call(testbed, "D3DKMTOfferAllocations", |test_client, at, one| {
                test_client.client.offer(at, AllocationSelection::of(test_client.device, &[one]), 0)
            })
        },
    ),
    bad(
        "residency-reclaim-not-offered",
        "reclaims an allocation that is not offered",
        &[RuleId::RESID_OFFER_008],
        |testbed| {
            bad_call(testbed, "D3DKMTReclaimAllocations", |test_client, at, one| {
                test_client
                    .client
                    .reclaim(at, AllocationSelection::of(test_client.device, &[one]))
                    .map(|_| ())
            })
        },
    ),
    bad(
        "residency-leaks-trim-callback",
        "destroys a device whose trim callback is still registered",
        &[RuleId::RESID_TRIM_001],
        residency_leaks_trim_callback,
    ),
    bad(
        "residency-wait-destroyed-paging-fence",
        "waits for the fence of a destroyed paging queue",
        &[RuleId::PAGQ_LIFE_004],
        residency_wait_destroyed_paging_fence,
    ),
];

/// A client with a device on an adapter with memory.
fn open_client(testbed: &mut Testbed<'_>) -> Result<TestClient, ScenarioStopped> {
    let test_client = testbed.test_client()?;
    if test_client.has_memory() {
        return Ok(test_client);
    }
    test_client.close(testbed.at, &[])?;
    Err(ScenarioStopped::missing("an adapter with memory"))
}

/// A one-page allocation with this description.
fn one(
    test_client: &TestClient,
    at: &mut Passive,
    wants: &PlacementRequirements,
) -> Result<u32, ScenarioStopped> {
    let created = test_client.create_with(
        at,
        &CreateAllocation::new(
            test_client.device,
            vec![test_client.private_data.placed(4096, 0, wants)],
        ),
    )?;
    Ok(created.allocations[0])
}

fn close(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    allocation: u32,
) -> Result<(), ScenarioStopped> {
    test_client.destroy_list(testbed.at, &[allocation])?;
    test_client.close(testbed.at, &[])
}

/// A call on an allocation that fails.
fn bad_call(
    testbed: &mut Testbed<'_>,
    name: &str,
    call: fn(&TestClient, &mut Passive, u32) -> Result<(), NTSTATUS>,
) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    expect_error(name, &call(&test_client, testbed.at, one), STATUS_INVALID_PARAMETER)?;
    close(testbed, &test_client, one)
}

/// A lock that fails.
fn lock(
    testbed: &mut Testbed<'_>,
    wants: &PlacementRequirements,
    flags: u32,
    pages: &[u32],
) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, wants)?;
    let answer = test_client.client.lock(testbed.at, test_client.device, one, flags, pages);
    expect_error("D3DKMTLock", &answer, STATUS_INVALID_PARAMETER)?;
    close(testbed, &test_client, one)
}

fn lock_offered(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    let (client, names) = (
        &test_client.client,
        AllocationSelection::of(test_client.device, std::slice::from_ref(&one)),
    );
    expect_ok("D3DKMTOfferAllocations", client.offer(testbed.at, names, 1))?;
    let answer = client.lock2(testbed.at, test_client.device, one, 0);
    expect_error("D3DKMTLock2", &answer, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTReclaimAllocations", client.reclaim(testbed.at, names))?;
    expect_ok("D3DKMTLock2", client.lock2(testbed.at, test_client.device, one, 0))?;
    expect_ok("D3DKMTUnlock2", client.unlock2(testbed.at, test_client.device, one))?;
    close(testbed, &test_client, one)
}

fn lock_alternate_va_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    let (client, device) = (&test_client.client, test_client.device);
    let flags = ENTIRE | LockFlags::AcquireAperture | LockFlags::UseAlternateVA;
    expect_ok("D3DKMTLock", client.lock(testbed.at, device, one, flags, &[]))?;
    let again = client.lock(testbed.at, device, one, ENTIRE | LockFlags::AcquireAperture, &[]);
    expect_error("D3DKMTLock", &again, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTUnlock", client.unlock(testbed.at, device, &[one]))?;
    expect_ok("D3DKMTLock2", client.lock2(testbed.at, device, one, 0))?;
    expect_ok("D3DKMTUnlock2", client.unlock2(testbed.at, device, one))?;
    close(testbed, &test_client, one)
}

fn lock_aperture_while_locked(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    let (client, device) = (&test_client.client, test_client.device);
    expect_ok("D3DKMTLock", client.lock(testbed.at, device, one, ENTIRE, &[]))?;
    let flags = ENTIRE | LockFlags::AcquireAperture;
    let answer = client.lock(testbed.at, device, one, flags, &[]);
    expect_error("D3DKMTLock", &answer, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTUnlock", client.unlock(testbed.at, device, &[one]))?;
    close(testbed, &test_client, one)
}

fn lock_unlock_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    let (client, device) = (&test_client.client, test_client.device);
    expect_ok("D3DKMTLock2", client.lock2(testbed.at, device, one, 0))?;
    let answer = client.unlock(testbed.at, device, &[one, one]);
    expect_error("D3DKMTUnlock", &answer, STATUS_INVALID_PARAMETER)?;
    // A failed call does not unlock.
    expect_ok("D3DKMTUnlock2", client.unlock2(testbed.at, device, one))?;
    close(testbed, &test_client, one)
}

fn residency_wrong_paging_queue(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    let (client, other) = (&test_client.client, test_client.create_device(testbed.at)?);
    let queue =
        expect_ok("D3DKMTCreatePagingQueue", client.create_paging_queue(testbed.at, other, 0))?;
    let answer = client.make_resident(testbed.at, queue.queue, &[one], 0);
    expect_error("D3DKMTMakeResident", &answer, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTDestroyDevice", client.destroy_device(testbed.at, other))?;
    close(testbed, &test_client, one)
}

fn residency_evict_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    test_client.make_resident(testbed.at, &[one])?;
    let (client, device) = (&test_client.client, test_client.device);
    expect_ok("D3DKMTEvict", client.evict(testbed.at, device, &[one], 0))?;
    let answer = client.evict(testbed.at, device, &[one], 0);
    expect_error("D3DKMTEvict", &answer, STATUS_INVALID_PARAMETER)?;
    close(testbed, &test_client, one)
}

/// Evicts with `NotWrittenTo` an allocation that the GPU has written since it was last evicted.
fn residency_evict_written_as_unwritten(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let one = one(&test_client, testbed.at, &wants)?;
    let context = test_client.create_context(testbed.at)?;
    for (value, flags) in [(1, 0), (2, EvictFlags::NotWrittenTo)] {
        test_client.make_resident(testbed.at, &[one])?;
        let target = kernel::Handle(one);
        let fill = Command::Fill { target, offset: 0, length: 4096, value };
        let packet = test_client.private_data.packet(&[fill])?;
        let given = test_client.client.submit(testbed.at, context, &packet);
        expect_ok("D3DKMTSubmitCommand", given)?;
        expect_ok(
            "D3DKMTEvict",
            test_client.client.evict(testbed.at, test_client.device, &[one], flags),
        )?;
        testbed.run_until_idle();
    }
    test_client.destroy_list(testbed.at, &[one])?;
    test_client.close(testbed.at, &[context])
}

/// The GPU uses an allocation that was never made resident, or was evicted.
fn use_not_resident(
    testbed: &mut Testbed<'_>,
    destroy_evicted: bool,
) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let one = one(&test_client, testbed.at, &anywhere())?;
    let context = test_client.create_context(testbed.at)?;
    if destroy_evicted {
        test_client.make_resident(testbed.at, &[one])?;
        expect_ok(
            "D3DKMTEvict",
            test_client.client.evict(testbed.at, test_client.device, &[one], 0),
        )?;
        testbed.run_until_idle();
    }
    let target = kernel::Handle(one);
    let fill = Command::Fill { target, offset: 0, length: 4096, value: 1 };
    let packet = test_client.private_data.packet(&[fill])?;
    let given = test_client.client.submit(testbed.at, context, &packet);
    expect_ok("D3DKMTSubmitCommand", given)?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &[one])?;
    test_client.close(testbed.at, &[context])
}

fn residency_leaks_trim_callback(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let registered = test_client.client.register_trim(testbed.at, test_client.device, |_| ());
    expect_ok("D3DKMTRegisterTrimNotification", registered)?;
    test_client.close(testbed.at, &[])
}

fn residency_wait_destroyed_paging_fence(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = open_client(testbed)?;
    let (client, device) = (&test_client.client, test_client.device);
    let queue =
        expect_ok("D3DKMTCreatePagingQueue", client.create_paging_queue(testbed.at, device, 0))?;
    expect_ok("D3DKMTDestroyPagingQueue", client.destroy_paging_queue(testbed.at, queue.queue))?;
    let answer = client.wait(testbed.at, device, queue.fence, 1);
    expect_error("D3DKMTWaitForSynchronizationObjectFromCpu", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}
