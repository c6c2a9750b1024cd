//! Bad clients of synchronisation objects: each breaks a rule, through the door, and is named.

use crate::scenario::{Scenario, WORK};
use crate::scenarios::bad::bad;
use crate::scenarios::sync::create_object;
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_error};
use abi::NTSTATUS;
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER};
use abi::ukm::{D3DDDI_FENCE, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags};
use flight::{Passive, RuleId};
use thunk::SyncObject;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "sync-nt-unshared",
        "NtSecuritySharing is asked for without Shared",
        &[RuleId::SYNC_CREATE_001],
        |it| create(it, SyncObject::Fence(0), Flags::NtSecuritySharing),
    ),
    bad(
        "sync-global-fence",
        "a monitored fence is to be shared by a global handle",
        &[RuleId::SYNC_CREATE_002],
        |it| create(it, SyncObject::Monitored(0), Flags::Shared),
    ),
    bad(
        "sync-silent-deaf",
        "a fence is for neither signals nor waits",
        &[RuleId::SYNC_CREATE_003],
        |it| create(it, SyncObject::Monitored(0), Flags::NoSignal | Flags::NoWait),
    ),
    bad(
        "sync-silent-mutex",
        "NoSignal is asked for, of a mutex",
        &[RuleId::SYNC_CREATE_003],
        |it| create(it, SyncObject::Mutex(false), Flags::NoSignal),
    ),
    bad(
        "sync-old-fence",
        "the first version of the call is to make a fence",
        &[RuleId::SYNC_CREATE_015],
        |it| {
            call(it, "D3DKMTCreateSynchronizationObject", STATUS_INVALID_PARAMETER, |bench, at| {
                let fence = SyncObject::Other(D3DDDI_FENCE);
                bench.client.create_sync_v1(at, bench.device, fence).map(|_| ())
            })
        },
    ),
    bad(
        "sync-unknown-kind",
        "an object is to be made of a type that does not exist",
        &[RuleId::SYNC_CREATE_016],
        |it| create(it, SyncObject::Other(9), 0),
    ),
    bad(
        "sync-no-event",
        "a notification is to be made without an event",
        &[RuleId::SYNC_CREATE_016],
        |it| {
            call(it, "D3DKMTCreateSynchronizationObject2", STATUS_INVALID_HANDLE, |bench, at| {
                let notice = SyncObject::Notification(0);
                bench.client.create_sync(at, bench.device, notice, 0).map(|_| ())
            })
        },
    ),
    bad(
        "sync-event-closed",
        "an event is closed before the notification through it",
        &[RuleId::SYNC_CREATE_016],
        sync_notification_closed_event,
    ),
    bad(
        "sync-too-many",
        "a wait is for more objects than there is room for",
        &[RuleId::SYNC_CREATE_011],
        |it| {
            call(
                it,
                "D3DKMTWaitForSynchronizationObjectFromCpu",
                STATUS_INVALID_PARAMETER,
                |bench, at| bench.client.wait_cpu(at, bench.device, &[(0, 0); 33], <_>::default()),
            )
        },
    ),
    Scenario {
        needs: WORK,
        ..bad(
            "sync-broadcast-owner",
            "a context signals, and is broadcast to as well",
            &[RuleId::SYNC_CREATE_011],
            sync_broadcast_to_own_context,
        )
    },
    bad(
        "sync-destroy-global",
        "a global handle is destroyed",
        &[RuleId::SYNC_CREATE_018],
        sync_destroy_global_handle,
    ),
    bad("sync-signal-mutex", "the CPU signals a mutex", &[RuleId::SYNC_FENCE_001], |it| {
        signal(it, SyncObject::Mutex(true), 1)
    }),
    bad(
        "sync-rewind",
        "the CPU takes a fence back, and does not say so",
        &[RuleId::SYNC_FENCE_002],
        |it| signal(it, SyncObject::Monitored(2), 1),
    ),
];

/// A call that is refused, and everything else in good order.
fn call(
    tunnel: &mut Testbed<'_>,
    name: &str,
    status: NTSTATUS,
    body: impl FnOnce(&TestClient, &mut Passive) -> Result<(), NTSTATUS>,
) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    expect_error(name, &body(&bench, tunnel.at), status)?;
    bench.close(tunnel.at, &[])
}

fn create(tunnel: &mut Testbed<'_>, object: SyncObject, flags: u32) -> Result<(), ScenarioStopped> {
    let name = "D3DKMTCreateSynchronizationObject2";
    call(tunnel, name, STATUS_INVALID_PARAMETER, |bench, at| {
        bench.client.create_sync(at, bench.device, object, flags).map(|_| ())
    })
}

fn signal(tunnel: &mut Testbed<'_>, object: SyncObject, value: u64) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = create_object(tunnel, &bench, object, 0)?.object;
    let signalled = bench.client.signal_cpu(tunnel.at, bench.device, &[(created, value)], 0);
    let name = "D3DKMTSignalSynchronizationObjectFromCpu";
    expect_error(name, &signalled, STATUS_INVALID_PARAMETER)?;
    end(tunnel, &bench, created)?;
    bench.close(tunnel.at, &[])
}

fn end(tunnel: &mut Testbed<'_>, bench: &TestClient, object: u32) -> Result<(), ScenarioStopped> {
    let destroyed = bench.client.destroy_sync(tunnel.at, object);
    crate::tunnel::expect_ok("D3DKMTDestroySynchronizationObject", destroyed)
}

fn sync_notification_closed_event(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let event = bench.client.create_event();
    let notice = create_object(tunnel, &bench, SyncObject::Notification(event), 0)?.object;
    crate::tunnel::expect_ok("CloseHandle", bench.client.close_event(event))?;
    end(tunnel, &bench, notice)?;
    bench.close(tunnel.at, &[])
}

fn sync_broadcast_to_own_context(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let fence = create_object(tunnel, &bench, SyncObject::Fence(0), 0)?.object;
    let both = (context, &[context][..]);
    let signalled = bench.client.signal_v2(tunnel.at, both, &[fence], 1);
    expect_error("D3DKMTSignalSynchronizationObject2", &signalled, STATUS_INVALID_PARAMETER)?;
    end(tunnel, &bench, fence)?;
    bench.close(tunnel.at, &[context])
}

fn sync_destroy_global_handle(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = create_object(tunnel, &bench, SyncObject::Mutex(false), Flags::Shared)?;
    let destroyed = bench.client.destroy_sync(tunnel.at, created.global);
    expect_error("D3DKMTDestroySynchronizationObject", &destroyed, STATUS_INVALID_PARAMETER)?;
    end(tunnel, &bench, created.object)?;
    bench.close(tunnel.at, &[])
}
