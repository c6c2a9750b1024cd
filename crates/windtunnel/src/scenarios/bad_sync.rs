//! Bad clients of synchronization objects: each breaks a rule of an entry point and is reported.

use crate::needs::WORK;
use crate::scenario::Scenario;
use crate::scenarios::bad::bad;
use crate::scenarios::sync::create_object;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error};
use abi::NTSTATUS;
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER};
use abi::ukm::{D3DDDI_FENCE, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags};
use flight::{Passive, RuleId};
use thunk::SyncObject;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "sync-nt-sharing-unshared",
        "sets NtSecuritySharing without Shared",
        &[RuleId::SYNC_CREATE_001],
        |testbed| create(testbed, SyncObject::Fence(0), Flags::NtSecuritySharing),
    ),
    bad(
        "sync-monitored-fence-global-handle",
        "shares a monitored fence by a global handle",
        &[RuleId::SYNC_CREATE_002],
        |testbed| create(testbed, SyncObject::Monitored(0), Flags::Shared),
    ),
    bad(
        "sync-fence-conflicting-flags",
        "sets NoSignal and NoWait for a fence",
        &[RuleId::SYNC_CREATE_003],
        |testbed| create(testbed, SyncObject::Monitored(0), Flags::NoSignal | Flags::NoWait),
    ),
    bad(
        "sync-mutex-no-signal",
        "sets NoSignal for a mutex",
        &[RuleId::SYNC_CREATE_003],
        |testbed| create(testbed, SyncObject::Mutex(false), Flags::NoSignal),
    ),
    bad(
        "sync-create-v1-fence",
        "creates a fence with D3DKMTCreateSynchronizationObject",
        &[RuleId::SYNC_CREATE_015],
        |testbed| {
            call(
                testbed,
                "D3DKMTCreateSynchronizationObject",
                STATUS_INVALID_PARAMETER,
                |test_client, at| {
                    let fence = SyncObject::Other(D3DDDI_FENCE);
                    test_client.client.create_sync_v1(at, test_client.device, fence).map(|_| ())
                },
            )
        },
    ),
    bad(
        "sync-create-unknown-type",
        "creates a synchronization object of an unknown type",
        &[RuleId::SYNC_CREATE_016],
        |testbed| create(testbed, SyncObject::Other(9), 0),
    ),
    bad(
        "sync-notification-without-event",
        "creates a CPU notification without an event",
        &[RuleId::SYNC_CREATE_016],
        |testbed| {
            call(
                testbed,
                "D3DKMTCreateSynchronizationObject2",
                STATUS_INVALID_HANDLE,
                |test_client, at| {
                    let notice = SyncObject::Notification(0);
                    test_client.client.create_sync(at, test_client.device, notice, 0).map(|_| ())
                },
            )
        },
    ),
    bad(
        "sync-notification-closed-event",
        "closes an event before the CPU notification that uses it",
        &[RuleId::SYNC_CREATE_016],
        sync_notification_closed_event,
    ),
    bad(
        "sync-wait-too-many-objects",
        "waits for more objects than a call can have",
        &[RuleId::SYNC_CREATE_011],
        |testbed| {
            call(
                testbed,
                "D3DKMTWaitForSynchronizationObjectFromCpu",
                STATUS_INVALID_PARAMETER,
                |test_client, at| {
                    test_client.client.wait_cpu(
                        at,
                        test_client.device,
                        &[(0, 0); 33],
                        <_>::default(),
                    )
                },
            )
        },
    ),
    Scenario {
        needs: WORK,
        ..bad(
            "sync-broadcast-to-own-context",
            "signals from a context that is also in the broadcast list",
            &[RuleId::SYNC_CREATE_011],
            sync_broadcast_to_own_context,
        )
    },
    bad(
        "sync-destroy-global-handle",
        "destroys a synchronization object by its global handle",
        &[RuleId::SYNC_CREATE_018],
        sync_destroy_global_handle,
    ),
    bad(
        "sync-cpu-signals-mutex",
        "signals a mutex from the CPU",
        &[RuleId::SYNC_FENCE_001],
        |testbed| signal(testbed, SyncObject::Mutex(true), 1),
    ),
    bad(
        "sync-fence-rewind",
        "signals a smaller fence value from the CPU without AllowFenceRewind",
        &[RuleId::SYNC_FENCE_002],
        |testbed| signal(testbed, SyncObject::Monitored(2), 1),
    ),
];

/// A failing call of an otherwise good client.
fn call(
    testbed: &mut Testbed<'_>,
    name: &str,
    status: NTSTATUS,
    body: impl FnOnce(&TestClient, &mut Passive) -> Result<(), NTSTATUS>,
) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    expect_error(name, &body(&test_client, testbed.at), status)?;
    test_client.close(testbed.at, &[])
}

fn create(
    testbed: &mut Testbed<'_>,
    object: SyncObject,
    flags: u32,
) -> Result<(), ScenarioStopped> {
    let name = "D3DKMTCreateSynchronizationObject2";
    call(testbed, name, STATUS_INVALID_PARAMETER, |test_client, at| {
        test_client.client.create_sync(at, test_client.device, object, flags).map(|_| ())
    })
}

fn signal(
    testbed: &mut Testbed<'_>,
    object: SyncObject,
    value: u64,
) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = create_object(testbed, &test_client, object, 0)?.object;
    let signalled =
        test_client.client.signal_cpu(testbed.at, test_client.device, &[(created, value)], 0);
    let name = "D3DKMTSignalSynchronizationObjectFromCpu";
    expect_error(name, &signalled, STATUS_INVALID_PARAMETER)?;
    end(testbed, &test_client, created)?;
    test_client.close(testbed.at, &[])
}

fn end(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    object: u32,
) -> Result<(), ScenarioStopped> {
    let destroyed = test_client.client.destroy_sync(testbed.at, object);
    crate::testbed::expect_ok("D3DKMTDestroySynchronizationObject", destroyed)
}

fn sync_notification_closed_event(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let event = test_client.client.create_event();
    let notice = create_object(testbed, &test_client, SyncObject::Notification(event), 0)?.object;
    crate::testbed::expect_ok("CloseHandle", test_client.client.close_event(event))?;
    end(testbed, &test_client, notice)?;
    test_client.close(testbed.at, &[])
}

fn sync_broadcast_to_own_context(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let fence = create_object(testbed, &test_client, SyncObject::Fence(0), 0)?.object;
    let both = (context, &[context][..]);
    let signalled = test_client.client.signal_v2(testbed.at, both, &[fence], 1);
    expect_error("D3DKMTSignalSynchronizationObject2", &signalled, STATUS_INVALID_PARAMETER)?;
    end(testbed, &test_client, fence)?;
    test_client.close(testbed.at, &[context])
}

fn sync_destroy_global_handle(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = create_object(testbed, &test_client, SyncObject::Mutex(false), Flags::Shared)?;
    let destroyed = test_client.client.destroy_sync(testbed.at, created.global);
    expect_error("D3DKMTDestroySynchronizationObject", &destroyed, STATUS_INVALID_PARAMETER)?;
    end(testbed, &test_client, created.object)?;
    test_client.close(testbed.at, &[])
}
