//! Bad clients of an adapter with memory: each breaks a rule, through the door, and is named.

use crate::scenario::Scenario;
use crate::scenarios::bad::bad;
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::NTSTATUS;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use abi::ukm::{D3DDDI_MAKERESIDENT_FLAGS as MakeFlags, D3DDDICB_LOCKFLAGS as LockFlags};
use flight::{Passive, RuleId};
use kernel::segment::PlacementRequirements;
use softgpu::format::{self, Command, anywhere, describe_in, only_in};
use softgpu::{APERTURE, LOCAL};
use thunk::{CreateAllocation, AllocationSelection};

/// What `D3DKMTLock` shows as a whole.
const ENTIRE: u32 = LockFlags::LockEntire;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "lock-read-write",
        "a lock is to read only, and to write only",
        &[RuleId::ALLOC_LOCK_001],
        |it| lock(it, &anywhere(), ENTIRE | LockFlags::ReadOnly | LockFlags::WriteOnly, &[]),
    ),
    bad(
        "lock-aperture-unsynced",
        "a lock wants an aperture, and ignores the GPU",
        &[RuleId::ALLOC_LOCK_002],
        |it| {
            lock(it, &anywhere(), ENTIRE | LockFlags::IgnoreSync | LockFlags::AcquireAperture, &[])
        },
    ),
    bad(
        "lock-alternate",
        "a lock wants another address, and no aperture",
        &[RuleId::ALLOC_LOCK_003],
        |it| lock(it, &anywhere(), ENTIRE | LockFlags::UseAlternateVA, &[]),
    ),
    bad("lock-offered", "what is offered is locked", &[RuleId::ALLOC_LOCK_004], lock_offered),
    bad(
        "lock-alternate-twice",
        "what is locked at another address is locked again",
        &[RuleId::ALLOC_LOCK_007],
        lock_alternate_va_twice,
    ),
    bad(
        "lock-aperture-late",
        "what is locked is locked again, through an aperture",
        &[RuleId::ALLOC_LOCK_008],
        lock_aperture_while_locked,
    ),
    bad(
        "lock-aperture-twice",
        "what is in apertures only is locked through one",
        &[RuleId::ALLOC_LOCK_009],
        |it| lock(it, &only_in(&[APERTURE]), ENTIRE | LockFlags::AcquireAperture, &[]),
    ),
    bad(
        "lock-unsynced",
        "what can be in no aperture is locked while the GPU may write to it",
        &[RuleId::ALLOC_LOCK_010],
        |it| {
            let mut wants = only_in(&[LOCAL]);
            wants.flags.cpu_visible = false;
            lock(it, &wants, ENTIRE | LockFlags::IgnoreSync, &[])
        },
    ),
    bad("lock-pages", "a lock is of the whole, and of pages", &[RuleId::ALLOC_LOCK_016], |it| {
        lock(it, &anywhere(), ENTIRE, &[0])
    }),
    bad("unlock-twice", "a lock is ended twice", &[RuleId::ALLOC_LOCK_017], lock_unlock_twice),
    bad("lock2-flags", "a lock sets flags that mean nothing", &[RuleId::ALLOC_LOCK_018], |it| {
        bad_call(it, "D3DKMTLock2", |bench, at, one| {
            bench.client.lock2(at, bench.device, one, 1).map(|_| ())
        })
    }),
    bad(
        "priority-of-both",
        "a priority is for a resource, and for a list",
        &[RuleId::ALLOC_PRIO_001],
        |it| {
            bad_call(it, "D3DKMTSetAllocationPriority", |bench, at, one| {
                let names = AllocationSelection { device: bench.device, resources: &[one], list: &[one] };
                bench.client.set_priorities(at, names, &[1])
            })
        },
    ),
    bad(
        "residency-of-both",
        "the residency is asked for, of a resource and of a list",
        &[RuleId::ALLOC_PRIO_004],
        |it| {
            bad_call(it, "D3DKMTQueryAllocationResidency", |bench, at, one| {
                let names = AllocationSelection { device: bench.device, resources: &[one], list: &[one] };
                bench.client.residency(at, names).map(|_| ())
            })
        },
    ),
    bad(
        "resident-elsewhere",
        "an allocation is made resident through the queue of another device",
        &[RuleId::RESID_MAKE_001],
        residency_wrong_paging_queue,
    ),
    bad(
        "must-and-may",
        "a request must succeed, though its client has more to evict",
        &[RuleId::RESID_MAKE_006],
        |it| {
            bad_call(it, "D3DKMTMakeResident", |bench, at, one| {
                let queue = bench.client.create_paging_queue(at, bench.device, 0)?.queue;
                let flags = MakeFlags::MustSucceed;
                bench.client.make_resident(at, queue, &[one], flags).map(|_| ())
            })
        },
    ),
    bad(
        "never-resident",
        "the GPU uses what was never made resident",
        &[RuleId::RESID_MAKE_005],
        |it| use_not_resident(it, false),
    ),
    bad("used-evicted", "the GPU uses what was evicted", &[RuleId::RESID_EVICT_002], |it| {
        use_not_resident(it, true)
    }),
    bad("evict-twice", "an allocation is evicted twice", &[RuleId::RESID_EVICT_001], residency_evict_twice),
    bad(
        "evict-written",
        "what the GPU has written to is evicted as if it had not",
        &[RuleId::RESID_EVICT_004],
        residency_evict_written_as_unwritten,
    ),
    bad("offer-nothing", "an offer names nothing", &[RuleId::RESID_OFFER_001], |it| {
        bad_call(it, "D3DKMTOfferAllocations", |bench, at, _| {
            bench.client.offer(at, AllocationSelection::of(bench.device, &[]), 1)
        })
    }),
    bad("offer-priority", "an offer has no priority", &[RuleId::RESID_OFFER_002], |it| {
        bad_call(it, "D3DKMTOfferAllocations", |bench, at, one| {
            bench.client.offer(at, AllocationSelection::of(bench.device, &[one]), 0)
        })
    }),
    bad(
        "reclaim-unoffered",
        "what is not offered is taken back",
        &[RuleId::RESID_OFFER_008],
        |it| {
            bad_call(it, "D3DKMTReclaimAllocations", |bench, at, one| {
                bench.client.reclaim(at, AllocationSelection::of(bench.device, &[one])).map(|_| ())
            })
        },
    ),
    bad(
        "trim-left",
        "a device ends, and its trim callback is registered",
        &[RuleId::RESID_TRIM_001],
        residency_leaks_trim_callback,
    ),
    bad(
        "dead-fence",
        "a wait is for the fence of a queue that is gone",
        &[RuleId::PAGQ_LIFE_004],
        residency_wait_destroyed_paging_fence,
    ),
];

/// A client with a device of an adapter that has memory.
fn open_client(tunnel: &mut Testbed<'_>) -> Result<TestClient, ScenarioStopped> {
    let bench = tunnel.test_client()?;
    if bench.has_memory() {
        return Ok(bench);
    }
    bench.close(tunnel.at, &[])?;
    Err(ScenarioStopped("an adapter with memory".to_owned()))
}

/// An allocation of a page, described so.
fn one(bench: &TestClient, at: &mut Passive, wants: &PlacementRequirements) -> Result<u32, ScenarioStopped> {
    let created = bench.create_with(at, &CreateAllocation::new(bench.device, vec![describe_in(4096, 0, wants)]))?;
    Ok(created.allocations[0])
}

fn close(tunnel: &mut Testbed<'_>, bench: &TestClient, allocation: u32) -> Result<(), ScenarioStopped> {
    bench.destroy_list(tunnel.at, &[allocation])?;
    bench.close(tunnel.at, &[])
}

/// A call about an allocation that is refused.
fn bad_call(
    tunnel: &mut Testbed<'_>,
    name: &str,
    call: fn(&TestClient, &mut Passive, u32) -> Result<(), NTSTATUS>,
) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    expect_error(name, &call(&bench, tunnel.at, one), STATUS_INVALID_PARAMETER)?;
    close(tunnel, &bench, one)
}

/// A lock that is refused.
fn lock(tunnel: &mut Testbed<'_>, wants: &PlacementRequirements, flags: u32, pages: &[u32]) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, wants)?;
    let answer = bench.client.lock(tunnel.at, bench.device, one, flags, pages);
    expect_error("D3DKMTLock", &answer, STATUS_INVALID_PARAMETER)?;
    close(tunnel, &bench, one)
}

fn lock_offered(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, names) = (&bench.client, AllocationSelection::of(bench.device, std::slice::from_ref(&one)));
    expect_ok("D3DKMTOfferAllocations", client.offer(tunnel.at, names, 1))?;
    let answer = client.lock2(tunnel.at, bench.device, one, 0);
    expect_error("D3DKMTLock2", &answer, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTReclaimAllocations", client.reclaim(tunnel.at, names))?;
    expect_ok("D3DKMTLock2", client.lock2(tunnel.at, bench.device, one, 0))?;
    expect_ok("D3DKMTUnlock2", client.unlock2(tunnel.at, bench.device, one))?;
    close(tunnel, &bench, one)
}

fn lock_alternate_va_twice(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, device) = (&bench.client, bench.device);
    let flags = ENTIRE | LockFlags::AcquireAperture | LockFlags::UseAlternateVA;
    expect_ok("D3DKMTLock", client.lock(tunnel.at, device, one, flags, &[]))?;
    let again = client.lock(tunnel.at, device, one, ENTIRE | LockFlags::AcquireAperture, &[]);
    expect_error("D3DKMTLock", &again, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTUnlock", client.unlock(tunnel.at, device, &[one]))?;
    expect_ok("D3DKMTLock2", client.lock2(tunnel.at, device, one, 0))?;
    expect_ok("D3DKMTUnlock2", client.unlock2(tunnel.at, device, one))?;
    close(tunnel, &bench, one)
}

fn lock_aperture_while_locked(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, device) = (&bench.client, bench.device);
    expect_ok("D3DKMTLock", client.lock(tunnel.at, device, one, ENTIRE, &[]))?;
    let flags = ENTIRE | LockFlags::AcquireAperture;
    let answer = client.lock(tunnel.at, device, one, flags, &[]);
    expect_error("D3DKMTLock", &answer, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTUnlock", client.unlock(tunnel.at, device, &[one]))?;
    close(tunnel, &bench, one)
}

fn lock_unlock_twice(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, device) = (&bench.client, bench.device);
    expect_ok("D3DKMTLock2", client.lock2(tunnel.at, device, one, 0))?;
    let answer = client.unlock(tunnel.at, device, &[one, one]);
    expect_error("D3DKMTUnlock", &answer, STATUS_INVALID_PARAMETER)?;
    // A call that is refused ends no lock.
    expect_ok("D3DKMTUnlock2", client.unlock2(tunnel.at, device, one))?;
    close(tunnel, &bench, one)
}

fn residency_wrong_paging_queue(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, other) = (&bench.client, bench.create_device(tunnel.at)?);
    let queue = expect_ok("D3DKMTCreatePagingQueue", client.create_paging_queue(tunnel.at, other, 0))?;
    let answer = client.make_resident(tunnel.at, queue.queue, &[one], 0);
    expect_error("D3DKMTMakeResident", &answer, STATUS_INVALID_PARAMETER)?;
    expect_ok("D3DKMTDestroyDevice", client.destroy_device(tunnel.at, other))?;
    close(tunnel, &bench, one)
}

fn residency_evict_twice(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    bench.make_resident(tunnel.at, &[one])?;
    let (client, device) = (&bench.client, bench.device);
    expect_ok("D3DKMTEvict", client.evict(tunnel.at, device, &[one], 0))?;
    let answer = client.evict(tunnel.at, device, &[one], 0);
    expect_error("D3DKMTEvict", &answer, STATUS_INVALID_PARAMETER)?;
    close(tunnel, &bench, one)
}

/// The GPU writes to what is then evicted with `NotWrittenTo`, after it has been away once.
fn residency_evict_written_as_unwritten(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let one = one(&bench, tunnel.at, &wants)?;
    let context = bench.create_context(tunnel.at)?;
    for (value, flags) in [(1, 0), (2, EvictFlags::NotWrittenTo)] {
        bench.make_resident(tunnel.at, &[one])?;
        let target = kernel::Handle(one);
        let fill = Command::Fill { target, offset: 0, length: 4096, value };
        let given = bench.client.submit(tunnel.at, context, &format::encode(&[fill]));
        expect_ok("D3DKMTSubmitCommand", given)?;
        expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[one], flags))?;
        tunnel.run_until_idle();
    }
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

/// The GPU uses what is not resident: never made so, or evicted.
fn use_not_resident(tunnel: &mut Testbed<'_>, destroy_evicted: bool) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let context = bench.create_context(tunnel.at)?;
    if destroy_evicted {
        bench.make_resident(tunnel.at, &[one])?;
        expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[one], 0))?;
        tunnel.run_until_idle();
    }
    let target = kernel::Handle(one);
    let fill = Command::Fill { target, offset: 0, length: 4096, value: 1 };
    let given = bench.client.submit(tunnel.at, context, &format::encode(&[fill]));
    expect_ok("D3DKMTSubmitCommand", given)?;
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

fn residency_leaks_trim_callback(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let registered = bench.client.register_trim(tunnel.at, bench.device, |_| ());
    expect_ok("D3DKMTRegisterTrimNotification", registered)?;
    bench.close(tunnel.at, &[])
}

fn residency_wait_destroyed_paging_fence(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = open_client(tunnel)?;
    let (client, device) = (&bench.client, bench.device);
    let queue = expect_ok("D3DKMTCreatePagingQueue", client.create_paging_queue(tunnel.at, device, 0))?;
    expect_ok("D3DKMTDestroyPagingQueue", client.destroy_paging_queue(tunnel.at, queue.queue))?;
    let answer = client.wait(tunnel.at, device, queue.fence, 1);
    expect_error("D3DKMTWaitForSynchronizationObjectFromCpu", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}
