//! Bad clients of an adapter with memory: each breaks a rule, through the door, and is named.

use crate::scenario::Scenario;
use crate::scenarios::bad::bad;
use crate::tunnel::{Bench, Stopped, Tunnel, refused, wanted};
use abi::NTSTATUS;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use abi::ukm::{D3DDDI_MAKERESIDENT_FLAGS as MakeFlags, D3DDDICB_LOCKFLAGS as LockFlags};
use flight::{Passive, RuleId};
use kernel::segment::Wants;
use softgpu::format::{self, Command, anywhere, describe_in, only_in};
use softgpu::{APERTURE, LOCAL};
use thunk::{Create, Names};

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
        lock_alternate_twice,
    ),
    bad(
        "lock-aperture-late",
        "what is locked is locked again, through an aperture",
        &[RuleId::ALLOC_LOCK_008],
        lock_aperture_late,
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
    bad("unlock-twice", "a lock is ended twice", &[RuleId::ALLOC_LOCK_017], unlock_twice),
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
                let names = Names { device: bench.device, resources: &[one], list: &[one] };
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
                let names = Names { device: bench.device, resources: &[one], list: &[one] };
                bench.client.residency(at, names).map(|_| ())
            })
        },
    ),
    bad(
        "resident-elsewhere",
        "an allocation is made resident through the queue of another device",
        &[RuleId::RESID_MAKE_001],
        resident_elsewhere,
    ),
    bad(
        "must-and-may",
        "a request must succeed, though its client has more to evict",
        &[RuleId::RESID_MAKE_006],
        |it| {
            bad_call(it, "D3DKMTMakeResident", |bench, at, one| {
                let queue = bench.client.create_queue(at, bench.device, 0)?.queue;
                let flags = MakeFlags::MustSucceed;
                bench.client.make_resident(at, queue, &[one], flags).map(|_| ())
            })
        },
    ),
    bad(
        "never-resident",
        "the GPU uses what was never made resident",
        &[RuleId::RESID_MAKE_005],
        |it| use_away(it, false),
    ),
    bad("used-evicted", "the GPU uses what was evicted", &[RuleId::RESID_EVICT_002], |it| {
        use_away(it, true)
    }),
    bad("evict-twice", "an allocation is evicted twice", &[RuleId::RESID_EVICT_001], evict_twice),
    bad(
        "evict-written",
        "what the GPU has written to is evicted as if it had not",
        &[RuleId::RESID_EVICT_004],
        evict_written,
    ),
    bad("offer-nothing", "an offer names nothing", &[RuleId::RESID_OFFER_001], |it| {
        bad_call(it, "D3DKMTOfferAllocations", |bench, at, _| {
            bench.client.offer(at, Names::of(bench.device, &[]), 1)
        })
    }),
    bad("offer-priority", "an offer has no priority", &[RuleId::RESID_OFFER_002], |it| {
        bad_call(it, "D3DKMTOfferAllocations", |bench, at, one| {
            bench.client.offer(at, Names::of(bench.device, &[one]), 0)
        })
    }),
    bad(
        "reclaim-unoffered",
        "what is not offered is taken back",
        &[RuleId::RESID_OFFER_008],
        |it| {
            bad_call(it, "D3DKMTReclaimAllocations", |bench, at, one| {
                bench.client.reclaim(at, Names::of(bench.device, &[one])).map(|_| ())
            })
        },
    ),
    bad(
        "trim-left",
        "a device ends, and its trim callback is registered",
        &[RuleId::RESID_TRIM_001],
        trim_left,
    ),
    bad(
        "dead-fence",
        "a wait is for the fence of a queue that is gone",
        &[RuleId::PAGQ_LIFE_004],
        dead_fence,
    ),
];

/// A client with a device of an adapter that has memory.
fn bench(tunnel: &mut Tunnel<'_>) -> Result<Bench, Stopped> {
    let bench = tunnel.bench()?;
    if bench.has_memory() {
        return Ok(bench);
    }
    bench.close(tunnel.at, &[])?;
    Err(Stopped("an adapter with memory".to_owned()))
}

/// An allocation of a page, described so.
fn one(bench: &Bench, at: &mut Passive, wants: &Wants) -> Result<u32, Stopped> {
    let made = bench.make(at, &Create::on(bench.device, vec![describe_in(4096, 0, wants)]))?;
    Ok(made.allocations[0])
}

fn close(tunnel: &mut Tunnel<'_>, bench: &Bench, allocation: u32) -> Result<(), Stopped> {
    bench.destroy_list(tunnel.at, &[allocation])?;
    bench.close(tunnel.at, &[])
}

/// A call about an allocation that is refused.
fn bad_call(
    tunnel: &mut Tunnel<'_>,
    name: &str,
    call: fn(&Bench, &mut Passive, u32) -> Result<(), NTSTATUS>,
) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    refused(name, &call(&bench, tunnel.at, one), STATUS_INVALID_PARAMETER)?;
    close(tunnel, &bench, one)
}

/// A lock that is refused.
fn lock(tunnel: &mut Tunnel<'_>, wants: &Wants, flags: u32, pages: &[u32]) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, wants)?;
    let answer = bench.client.lock(tunnel.at, bench.device, one, flags, pages);
    refused("D3DKMTLock", &answer, STATUS_INVALID_PARAMETER)?;
    close(tunnel, &bench, one)
}

fn lock_offered(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, names) = (&bench.client, Names::of(bench.device, std::slice::from_ref(&one)));
    wanted("D3DKMTOfferAllocations", client.offer(tunnel.at, names, 1))?;
    let answer = client.lock2(tunnel.at, bench.device, one, 0);
    refused("D3DKMTLock2", &answer, STATUS_INVALID_PARAMETER)?;
    wanted("D3DKMTReclaimAllocations", client.reclaim(tunnel.at, names))?;
    wanted("D3DKMTLock2", client.lock2(tunnel.at, bench.device, one, 0))?;
    wanted("D3DKMTUnlock2", client.unlock2(tunnel.at, bench.device, one))?;
    close(tunnel, &bench, one)
}

fn lock_alternate_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, device) = (&bench.client, bench.device);
    let flags = ENTIRE | LockFlags::AcquireAperture | LockFlags::UseAlternateVA;
    wanted("D3DKMTLock", client.lock(tunnel.at, device, one, flags, &[]))?;
    let again = client.lock(tunnel.at, device, one, ENTIRE | LockFlags::AcquireAperture, &[]);
    refused("D3DKMTLock", &again, STATUS_INVALID_PARAMETER)?;
    wanted("D3DKMTUnlock", client.unlock(tunnel.at, device, &[one]))?;
    wanted("D3DKMTLock2", client.lock2(tunnel.at, device, one, 0))?;
    wanted("D3DKMTUnlock2", client.unlock2(tunnel.at, device, one))?;
    close(tunnel, &bench, one)
}

fn lock_aperture_late(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, device) = (&bench.client, bench.device);
    wanted("D3DKMTLock", client.lock(tunnel.at, device, one, ENTIRE, &[]))?;
    let flags = ENTIRE | LockFlags::AcquireAperture;
    let answer = client.lock(tunnel.at, device, one, flags, &[]);
    refused("D3DKMTLock", &answer, STATUS_INVALID_PARAMETER)?;
    wanted("D3DKMTUnlock", client.unlock(tunnel.at, device, &[one]))?;
    close(tunnel, &bench, one)
}

fn unlock_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, device) = (&bench.client, bench.device);
    wanted("D3DKMTLock2", client.lock2(tunnel.at, device, one, 0))?;
    let answer = client.unlock(tunnel.at, device, &[one, one]);
    refused("D3DKMTUnlock", &answer, STATUS_INVALID_PARAMETER)?;
    // A call that is refused ends no lock.
    wanted("D3DKMTUnlock2", client.unlock2(tunnel.at, device, one))?;
    close(tunnel, &bench, one)
}

fn resident_elsewhere(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let (client, other) = (&bench.client, bench.device(tunnel.at)?);
    let queue = wanted("D3DKMTCreatePagingQueue", client.create_queue(tunnel.at, other, 0))?;
    let answer = client.make_resident(tunnel.at, queue.queue, &[one], 0);
    refused("D3DKMTMakeResident", &answer, STATUS_INVALID_PARAMETER)?;
    wanted("D3DKMTDestroyDevice", client.destroy_device(tunnel.at, other))?;
    close(tunnel, &bench, one)
}

fn evict_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    bench.resident(tunnel.at, &[one])?;
    let (client, device) = (&bench.client, bench.device);
    wanted("D3DKMTEvict", client.evict(tunnel.at, device, &[one], 0))?;
    let answer = client.evict(tunnel.at, device, &[one], 0);
    refused("D3DKMTEvict", &answer, STATUS_INVALID_PARAMETER)?;
    close(tunnel, &bench, one)
}

/// The GPU writes to what is then evicted with `NotWrittenTo`, after it has been away once.
fn evict_written(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    let one = one(&bench, tunnel.at, &wants)?;
    let context = bench.context(tunnel.at)?;
    for (value, flags) in [(1, 0), (2, EvictFlags::NotWrittenTo)] {
        bench.resident(tunnel.at, &[one])?;
        let target = kernel::Handle(one);
        let fill = Command::Fill { target, offset: 0, length: 4096, value };
        let given = bench.client.submit(tunnel.at, context, &format::encode(&[fill]));
        wanted("D3DKMTSubmitCommand", given)?;
        wanted("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[one], flags))?;
        tunnel.settle();
    }
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

/// The GPU uses what is not resident: never made so, or evicted.
fn use_away(tunnel: &mut Tunnel<'_>, evicted: bool) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let one = one(&bench, tunnel.at, &anywhere())?;
    let context = bench.context(tunnel.at)?;
    if evicted {
        bench.resident(tunnel.at, &[one])?;
        wanted("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[one], 0))?;
        tunnel.settle();
    }
    let target = kernel::Handle(one);
    let fill = Command::Fill { target, offset: 0, length: 4096, value: 1 };
    let given = bench.client.submit(tunnel.at, context, &format::encode(&[fill]));
    wanted("D3DKMTSubmitCommand", given)?;
    tunnel.settle();
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

fn trim_left(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let registered = bench.client.register_trim(tunnel.at, bench.device, |_| ());
    wanted("D3DKMTRegisterTrimNotification", registered)?;
    bench.close(tunnel.at, &[])
}

fn dead_fence(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = bench(tunnel)?;
    let (client, device) = (&bench.client, bench.device);
    let queue = wanted("D3DKMTCreatePagingQueue", client.create_queue(tunnel.at, device, 0))?;
    wanted("D3DKMTDestroyPagingQueue", client.destroy_queue(tunnel.at, queue.queue))?;
    let answer = client.wait(tunnel.at, device, queue.fence, 1);
    refused("D3DKMTWaitForSynchronizationObjectFromCpu", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}
