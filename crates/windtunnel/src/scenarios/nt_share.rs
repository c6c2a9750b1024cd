//! Objects that processes share by NT handles.

use crate::needs::Needs;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::bad::bad;
use crate::scenarios::sync::create_object;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::kmt::{
    D3DKMT_CREATEALLOCATIONFLAGS as Flags, D3DKMT_CREATEKEYEDMUTEX2_FLAGS as KeyedFlags,
    GENERIC_ALL, STANDARD_RIGHTS_READ,
};
use abi::status::{
    STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH,
};
use abi::ukm::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as SyncFlags;
use abi::{D3DKMT_HANDLE, HANDLE};
use flight::RuleId;
use std::ptr;
use thunk::{CreateAllocation, CreatedAllocation, OpenedBundle, SyncObject};

const SHARE: &str = "D3DKMTShareObjects";
const OPEN: &str = "D3DKMTOpenResourceFromNtHandle";
const OPEN_NAME: &str = "D3DKMTOpenNtHandleFromName";
const OPEN_SYNC: &str = "D3DKMTOpenSyncObjectFromNtHandle2";
const DESTROY_MUTEX: &str = "D3DKMTDestroyKeyedMutex";
const DESTROY_SYNC: &str = "D3DKMTDestroySynchronizationObject";
const CLOSE: &str = "CloseHandle";

/// The good scenarios of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "share-nt-handle-outlives-creator",
        about: "passes the NT handle of a bundle from process to process; the last handle keeps the objects alive",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(outlives_creator),
    },
    Scenario {
        name: "share-nt-handle-name",
        about: "opens a fence and a resource by name in another process, until the last NT handle is closed",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(by_name),
    },
    Scenario {
        name: "share-nt-handle-adapter-stops",
        about: "stops the adapter while only an NT handle keeps a resource alive",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(adapter_stops),
    },
];

/// The scenarios of clients that break a rule.
pub(crate) const BAD: &[Scenario] = &[
    bad(
        "share-nt-handle-of-global-share",
        "shares a resource that was created for a global handle by an NT handle",
        &[RuleId::ALLOC_SHARE_006],
        |testbed| {
            refused(testbed, |testbed, test_client| {
                let created = resource(testbed, test_client, Flags::CreateShared)?;
                Ok(vec![created.resource])
            })
        },
    ),
    bad(
        "share-nt-handle-two-resources",
        "shares two resources by one NT handle",
        &[RuleId::ALLOC_SHARE_007],
        |testbed| {
            refused(testbed, |testbed, test_client| {
                let created = resource(testbed, test_client, NT)?;
                Ok(vec![created.resource; 2])
            })
        },
    ),
    bad(
        "share-nt-handle-of-destroyed-fence",
        "shares a fence whose local handle was destroyed by an NT handle",
        &[RuleId::NTSHARE_LIFE_003],
        |testbed| {
            refused(testbed, |testbed, test_client| {
                let fence = fence(testbed, test_client)?;
                expect_ok(DESTROY_SYNC, test_client.client.destroy_sync(testbed.at, fence))?;
                Ok(vec![fence])
            })
        },
    ),
    bad(
        "share-nt-handle-name-no-access",
        "opens an NT handle by its name with access 0",
        &[RuleId::NTSHARE_NAME_003],
        name_no_access,
    ),
    bad(
        "share-nt-handle-mutex-no-buffer",
        "opens an NT handle with a size and no buffer for the keyed mutex's data",
        &[RuleId::ALLOC_SHARE_009],
        mutex_no_buffer,
    ),
];

/// Shared by NT handles.
const NT: u32 = Flags::CreateShared | Flags::NtSecuritySharing;

fn resource(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    flags: u32,
) -> Result<CreatedAllocation, ScenarioStopped> {
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(2))
        .with_resource();
    let (flags, runtime) = (create.flags | flags, b"of the runtime".to_vec());
    test_client.create_with(testbed.at, &CreateAllocation { flags, runtime, ..create })
}

fn fence(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
    let flags = SyncFlags::Shared | SyncFlags::NtSecuritySharing;
    Ok(create_object(testbed, test_client, SyncObject::Monitored(0), flags)?.object)
}

fn open(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    handle: HANDLE,
) -> Result<OpenedBundle, ScenarioStopped> {
    let opened = test_client.client.open_nt_resource(testbed.at, test_client.device, handle);
    let opened = expect_ok(OPEN, opened)?;
    let there = (opened.resource.allocations.len(), &*opened.resource.runtime);
    if there != (2, &b"of the runtime"[..]) {
        return Err(ScenarioStopped::failed("two allocations and the runtime's data"));
    }
    Ok(opened)
}

fn outlives_creator(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, keeper, opener) =
        (testbed.test_client()?, testbed.test_client()?, testbed.test_client()?);
    let created = resource(testbed, &maker, NT)?;
    let mutex =
        maker.client.create_keyed_mutex2(testbed.at, 3, b"mutex", KeyedFlags::NtSecuritySharing);
    let mutex = expect_ok("D3DKMTCreateKeyedMutex2", mutex)?;
    let fence = fence(testbed, &maker)?;
    let bundle = [created.resource, mutex.handle, fence];
    let handle = maker.client.share_objects(testbed.at, &bundle, "Bundle", GENERIC_ALL);
    let handle = expect_ok(SHARE, handle)?;
    let passed =
        maker.client.session().duplicate_nt_handle(testbed.at, handle, keeper.client.session());
    let passed = expect_ok("DuplicateHandle", passed)?;
    let first = open(testbed, &keeper, passed)?;
    maker.client.kill(testbed.at);
    // The objects live on, with and without a device that has them open.
    keeper.destroy_resource(testbed.at, first.resource.resource)?;
    expect_ok(DESTROY_MUTEX, keeper.client.destroy_keyed_mutex(testbed.at, first.keyed_mutex))?;
    expect_ok(DESTROY_SYNC, keeper.client.destroy_sync(testbed.at, first.sync))?;
    testbed.snapshot_live_objects("only an NT handle keeps the objects alive");
    let last =
        keeper.client.session().duplicate_nt_handle(testbed.at, passed, opener.client.session());
    let last = expect_ok("DuplicateHandle", last)?;
    let mismatch = opener.client.open_nt_keyed_mutex(testbed.at, last);
    expect_error("D3DKMTOpenKeyedMutexFromNtHandle", &mismatch, STATUS_OBJECT_TYPE_MISMATCH)?;
    let second = open(testbed, &opener, last)?;
    // A handle that was opened for reading: its driver is told.
    let reading =
        opener.client.open_nt_handle_from_name(testbed.at, "bundle", STANDARD_RIGHTS_READ);
    let reading = expect_ok(OPEN_NAME, reading)?;
    let third = open(testbed, &opener, reading)?;
    keeper.client.kill(testbed.at);
    expect_ok(CLOSE, opener.client.session().close_nt_handle(testbed.at, reading))?;
    expect_ok(CLOSE, opener.client.session().close_nt_handle(testbed.at, last))?;
    let closed = opener.client.open_nt_sync(testbed.at, last);
    expect_error("D3DKMTOpenSyncObjectFromNtHandle", &closed, STATUS_INVALID_HANDLE)?;
    let fence = opener.client.acquire_keyed_mutex(testbed.at, second.keyed_mutex, 3, Some(0));
    expect_ok("D3DKMTAcquireKeyedMutex", fence)?;
    for opened in [second, third] {
        opener.destroy_resource(testbed.at, opened.resource.resource)?;
        expect_ok(
            DESTROY_MUTEX,
            opener.client.destroy_keyed_mutex(testbed.at, opened.keyed_mutex),
        )?;
        expect_ok(DESTROY_SYNC, opener.client.destroy_sync(testbed.at, opened.sync))?;
    }
    opener.close(testbed.at, &[])
}

fn by_name(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let (created, fence) = (resource(testbed, &maker, NT)?, fence(testbed, &maker)?);
    let share = |testbed: &mut Testbed<'_>, object: D3DKMT_HANDLE, name: &str| {
        expect_ok(SHARE, maker.client.share_objects(testbed.at, &[object], name, GENERIC_ALL))
    };
    let of_fence = share(testbed, fence, "Fence")?;
    let of_resource = share(testbed, created.resource, "Resource")?;
    maker.destroy_resource(testbed.at, created.resource)?;
    let named = opener.client.open_sync_nt_handle_from_name(testbed.at, "FENCE", GENERIC_ALL);
    let named = expect_ok("D3DKMTOpenSyncObjectNtHandleFromName", named)?;
    let no_device = opener.client.open_nt_sync2(testbed.at, 0, ptr::null_mut(), 0);
    expect_error(OPEN_SYNC, &no_device, STATUS_INVALID_PARAMETER)?;
    let no_handle = opener.client.open_nt_sync2(testbed.at, opener.device, ptr::null_mut(), 0);
    expect_error(OPEN_SYNC, &no_handle, STATUS_INVALID_HANDLE)?;
    let flags = SyncFlags::NoSignal;
    let opened = opener.client.open_nt_sync2(testbed.at, opener.device, named, flags);
    let (waits, _) = expect_ok(OPEN_SYNC, opened)?;
    let opened = opener.client.open_nt_sync(testbed.at, named);
    let signals = expect_ok("D3DKMTOpenSyncObjectFromNtHandle", opened)?;
    let denied = opener.client.signal_cpu(testbed.at, opener.device, &[(waits, 1)], 0);
    expect_error("D3DKMTSignalSynchronizationObjectFromCpu", &denied, STATUS_ACCESS_DENIED)?;
    let signalled = opener.client.signal_cpu(testbed.at, opener.device, &[(signals, 1)], 0);
    expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", signalled)?;
    let luid = opener.client.open_nt_handle_from_name(testbed.at, "resource", GENERIC_ALL);
    let luid = expect_ok(OPEN_NAME, luid)?;
    expect_ok(
        "D3DKMTGetSharedResourceAdapterLuid",
        opener.client.shared_resource_luid(testbed.at, 0, luid),
    )?;
    let session = opener.client.session();
    expect_ok(CLOSE, session.close_nt_handle(testbed.at, luid))?;
    expect_ok(CLOSE, session.close_nt_handle(testbed.at, named))?;
    for handle in [of_fence, of_resource] {
        expect_ok(CLOSE, maker.client.session().close_nt_handle(testbed.at, handle))?;
    }
    for name in ["Fence", "Resource"] {
        let named = opener.client.open_nt_handle_from_name(testbed.at, name, GENERIC_ALL);
        expect_error(OPEN_NAME, &named, STATUS_OBJECT_NAME_NOT_FOUND)?;
    }
    // The opened fence lives on, and can be shared again under the name.
    let again = opener.client.share_objects(testbed.at, &[signals], "Fence", GENERIC_ALL);
    let again = expect_ok(SHARE, again)?;
    expect_ok(CLOSE, opener.client.session().close_nt_handle(testbed.at, again))?;
    expect_ok(DESTROY_SYNC, maker.client.destroy_sync(testbed.at, fence))?;
    expect_ok(DESTROY_SYNC, opener.client.destroy_sync(testbed.at, signals))?;
    maker.close(testbed.at, &[])?;
    opener.close(testbed.at, &[])
}

fn adapter_stops(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = resource(testbed, &test_client, NT)?;
    let shared = test_client.client.share_objects(testbed.at, &[created.resource], "", GENERIC_ALL);
    let handle = expect_ok(SHARE, shared)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    testbed.restart()?;
    let again = testbed.test_client()?;
    let passed = test_client.client.session().duplicate_nt_handle(
        testbed.at,
        handle,
        again.client.session(),
    );
    let passed = expect_ok("DuplicateHandle", passed)?;
    let opened = again.client.open_nt_resource(testbed.at, again.device, passed);
    if opened.as_ref().err() != Some(&STATUS_DEVICE_REMOVED) {
        return Err(ScenarioStopped::failed("the resource to be gone with its adapter"));
    }
    expect_ok(CLOSE, again.client.session().close_nt_handle(testbed.at, passed))?;
    expect_ok(CLOSE, test_client.client.session().close_nt_handle(testbed.at, handle))?;
    again.close(testbed.at, &[])?;
    test_client.close(testbed.at, &[])
}

/// Shares objects, which fails.
fn refused(
    testbed: &mut Testbed<'_>,
    objects: impl FnOnce(&mut Testbed<'_>, &TestClient) -> Result<Vec<D3DKMT_HANDLE>, ScenarioStopped>,
) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let objects = objects(testbed, &test_client)?;
    let shared = test_client.client.share_objects(testbed.at, &objects, "", GENERIC_ALL);
    expect_error(SHARE, &shared, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn name_no_access(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = resource(testbed, &test_client, NT)?;
    let shared =
        test_client.client.share_objects(testbed.at, &[created.resource], "Name", GENERIC_ALL);
    let handle = expect_ok(SHARE, shared)?;
    let named = test_client.client.open_nt_handle_from_name(testbed.at, "Name", 0);
    expect_error(OPEN_NAME, &named, STATUS_ACCESS_DENIED)?;
    expect_ok(CLOSE, test_client.client.session().close_nt_handle(testbed.at, handle))?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn mutex_no_buffer(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = resource(testbed, &test_client, NT)?;
    let shared = test_client.client.share_objects(testbed.at, &[created.resource], "", GENERIC_ALL);
    let handle = expect_ok(SHARE, shared)?;
    let device = test_client.device;
    let opened =
        test_client.client.open_nt_resource_without_buffers(testbed.at, device, handle, 2, 4);
    expect_error(OPEN, &opened, STATUS_INVALID_PARAMETER)?;
    expect_ok(CLOSE, test_client.client.session().close_nt_handle(testbed.at, handle))?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}
