//! Keyed mutexes: processes take turns with a shared resource.

use crate::needs::Needs;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::bad::bad;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::kmt::{
    D3DKMT_CREATEALLOCATIONFLAGS as Flags, D3DKMT_CREATEKEYEDMUTEX2_FLAGS as KeyedFlags,
};
use abi::status::{
    STATUS_ABANDONED, STATUS_INVALID_PARAMETER, STATUS_TIMEOUT, STATUS_UNSUCCESSFUL,
};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Passive, RuleId, Spawner};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, KeyedMutex};

/// Good scenarios of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "keyed-mutex-alternate",
        about: "alternates a keyed mutex between two processes by releasing it to the key of the other",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(keyed_mutex_alternate),
    },
    Scenario {
        name: "keyed-mutex-private-data",
        about: "uses the private runtime data of a keyed mutex and acquires keys that time out",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(keyed_mutex_private_data),
    },
    Scenario {
        name: "keyed-mutex-abandoned",
        about: "ends the owner of a keyed mutex without a release while others wait",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(keyed_mutex_abandoned),
    },
];

/// Bad clients.
pub(crate) const BAD: &[Scenario] = &[
    bad(
        "keyed-mutex-acquire-invalid-handle",
        "acquires a keyed mutex through an invalid handle",
        &[RuleId::MUTEX_KEYED_001],
        |testbed| {
            let (client, created) = one(testbed)?;
            let acquired = client.acquire_keyed_mutex(testbed.at, created.handle + 0x40, 0, None);
            expect_error(ACQUIRE, &acquired, BAD_ARGUMENT)?;
            expect_ok(DESTROY, client.destroy_keyed_mutex(testbed.at, created.handle))?;
            end(&client, testbed.at)
        },
    ),
    bad(
        "keyed-mutex-open-local-handle",
        "opens a keyed mutex by the creator's local handle",
        &[RuleId::MUTEX_KEYED_001],
        |testbed| {
            let (client, created) = one(testbed)?;
            let opened = client.open_keyed_mutex(testbed.at, created.handle);
            expect_error("D3DKMTOpenKeyedMutex", &opened, BAD_ARGUMENT)?;
            expect_ok(DESTROY, client.destroy_keyed_mutex(testbed.at, created.handle))?;
            end(&client, testbed.at)
        },
    ),
    bad(
        "keyed-mutex-destroy-twice",
        "destroys a keyed mutex handle twice",
        &[RuleId::MUTEX_KEYED_003],
        |testbed| {
            let (client, created) = one(testbed)?;
            expect_ok(DESTROY, client.destroy_keyed_mutex(testbed.at, created.handle))?;
            let again = client.destroy_keyed_mutex(testbed.at, created.handle);
            expect_error(DESTROY, &again, BAD_ARGUMENT)?;
            end(&client, testbed.at)
        },
    ),
    bad(
        "keyed-mutex-wait-unreleased-key",
        "waits without a timeout for a key that is never released",
        &[RuleId::WT_STUCK_001],
        |testbed| {
            let (client, created) = one(testbed)?;
            let acquired = client.acquire_keyed_mutex(testbed.at, created.handle, 77, None);
            expect_error(ACQUIRE, &acquired, STATUS_UNSUCCESSFUL)?;
            expect_ok(DESTROY, client.destroy_keyed_mutex(testbed.at, created.handle))?;
            end(&client, testbed.at)
        },
    ),
    bad(
        "keyed-mutex-destroy-global-handle",
        "destroys a keyed mutex by its global handle",
        &[RuleId::MUTEX_KEYED_003],
        |testbed| {
            let (client, created) = one(testbed)?;
            let destroyed = client.destroy_keyed_mutex(testbed.at, created.global);
            expect_error(DESTROY, &destroyed, BAD_ARGUMENT)?;
            expect_ok(DESTROY, client.destroy_keyed_mutex(testbed.at, created.handle))?;
            end(&client, testbed.at)
        },
    ),
];

const CREATE: &str = "D3DKMTCreateKeyedMutex";
const OPEN: &str = "D3DKMTOpenKeyedMutex2";
const ACQUIRE: &str = "D3DKMTAcquireKeyedMutex";
const RELEASE: &str = "D3DKMTReleaseKeyedMutex";
const DESTROY: &str = "D3DKMTDestroyKeyedMutex";

const BAD_ARGUMENT: NTSTATUS = STATUS_INVALID_PARAMETER;

/// One millisecond as a relative timeout.
const MILLISECOND: i64 = -10_000;

/// The number of turns of each process.
const ROUNDS: u64 = 3;

/// A process with a keyed mutex.
fn one(testbed: &mut Testbed<'_>) -> Result<(Client, KeyedMutex), ScenarioStopped> {
    let client = testbed.client();
    let created = expect_ok(CREATE, client.create_keyed_mutex(testbed.at, 0))?;
    Ok((client, created))
}

#[expect(clippy::unnecessary_wraps, reason = "the last step of a scenario")]
fn end(client: &Client, at: &mut Passive) -> Result<(), ScenarioStopped> {
    client.end(at);
    Ok(())
}

fn keyed_mutex_alternate(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let create = CreateAllocation::new(maker.device, maker.private_data.pages(1)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let created = maker.create_with(testbed.at, &CreateAllocation { flags, ..create })?;
    let opened = opener.client.open_resource(testbed.at, opener.device, created.global);
    let opened = expect_ok("D3DKMTOpenResource", opened)?;
    let mutex = expect_ok(CREATE, maker.client.create_keyed_mutex(testbed.at, 0))?;
    let second = expect_ok(OPEN, opener.client.open_keyed_mutex(testbed.at, mutex.global))?;
    testbed.snapshot_live_objects("two processes have handles to it");
    let (one, two) = (maker.clone(), opener.clone());
    testbed.run_threads(vec![
        Box::new(move |at| turns(&one, at, mutex.handle, 0)),
        Box::new(move |at| turns(&two, at, second, 1)),
    ])?;
    // The creator closes first; any order is legal.
    expect_ok(DESTROY, maker.client.destroy_keyed_mutex(testbed.at, mutex.handle))?;
    expect_ok(DESTROY, opener.client.destroy_keyed_mutex(testbed.at, second))?;
    let late = opener.client.create_keyed_mutex(testbed.at, 7);
    let late = expect_ok(CREATE, late)?;
    expect_ok(DESTROY, opener.client.destroy_keyed_mutex(testbed.at, late.handle))?;
    maker.destroy_resource(testbed.at, created.resource)?;
    opener.destroy_resource(testbed.at, opened.resource)?;
    maker.close(testbed.at, &[])?;
    opener.close(testbed.at, &[])
}

/// The turns of one of two processes: it acquires `key` and releases to the other key.
fn turns(
    test_client: &TestClient,
    at: &mut Passive,
    mutex: D3DKMT_HANDLE,
    key: u64,
) -> Result<(), ScenarioStopped> {
    for round in 0..ROUNDS {
        let fence =
            expect_ok(ACQUIRE, test_client.client.acquire_keyed_mutex(at, mutex, key, None))?;
        let due = round * 2 + key;
        if fence != due {
            return Err(ScenarioStopped::failed(format!(
                "fence value {due} from the other process's release; it is {fence}"
            )));
        }
        expect_ok(RELEASE, test_client.client.release_keyed_mutex(at, mutex, 1 - key, due + 1))?;
    }
    Ok(())
}

fn keyed_mutex_private_data(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.client(), testbed.client());
    let at = &mut *testbed.at;
    let mutex = expect_ok(CREATE, maker.create_keyed_mutex2(at, 5, b"sample", 0))?;
    let mut room = [0xee_u8; 64];
    let second = expect_ok(OPEN, opener.open_keyed_mutex2(at, mutex.global, &mut room[..6]))?;
    let third = expect_ok(OPEN, opener.open_keyed_mutex2(at, mutex.global, &mut []))?;
    expect_error(OPEN, &opener.open_keyed_mutex2(at, mutex.global, &mut room[..5]), BAD_ARGUMENT)?;
    if room != [0xee; 64] {
        return Err(ScenarioStopped::failed("a failed open that writes nothing"));
    }
    expect_error(
        ACQUIRE,
        &maker.acquire_keyed_mutex(at, mutex.handle, 4, Some(MILLISECOND)),
        STATUS_TIMEOUT,
    )?;
    expect_ok(ACQUIRE, maker.acquire_keyed_mutex2(at, mutex.handle, 5, Some(0), &mut room))?;
    expect_error(
        ACQUIRE,
        &opener.acquire_keyed_mutex(at, second, 5, Some(MILLISECOND)),
        STATUS_TIMEOUT,
    )?;
    expect_error(RELEASE, &opener.release_keyed_mutex(at, second, 6, 0), BAD_ARGUMENT)?;
    expect_ok(RELEASE, maker.release_keyed_mutex2(at, mutex.handle, 6, 1234, b"other sample"))?;
    let fence = opener.acquire_keyed_mutex2(at, third, 6, None, &mut room);
    if (expect_ok(ACQUIRE, fence)?, &room[..12]) != (1234, b"other sample") {
        return Err(ScenarioStopped::failed("fence value 1234 and the data of the release"));
    }
    expect_ok(RELEASE, opener.release_keyed_mutex2(at, third, 5, 0, &[]))?;
    let nt = maker.create_keyed_mutex2(at, 0, &[], KeyedFlags::NtSecuritySharing);
    let nt = expect_ok("D3DKMTCreateKeyedMutex2", nt)?;
    for handle in [mutex.handle, nt.handle] {
        expect_ok(DESTROY, maker.destroy_keyed_mutex(at, handle))?;
    }
    for handle in [second, third] {
        expect_ok(DESTROY, opener.destroy_keyed_mutex(at, handle))?;
    }
    end(&maker, at)?;
    end(&opener, at)
}

fn keyed_mutex_abandoned(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (owner, waiter) = (testbed.client(), testbed.client());
    let mutex = expect_ok(CREATE, owner.create_keyed_mutex(testbed.at, 0))?;
    let second = expect_ok(OPEN, waiter.open_keyed_mutex(testbed.at, mutex.global))?;
    expect_ok(ACQUIRE, owner.acquire_keyed_mutex(testbed.at, mutex.handle, 0, None))?;
    let (host, goes) = (testbed.host.clone(), owner.clone());
    testbed.run_threads(vec![
        Box::new(waits(&waiter, second, 0)),
        Box::new(waits(&waiter, second, 1)),
        Box::new(move |at| {
            let host: Arc<dyn Spawner> = host;
            host.run_until_idle(at); // They wait.
            expect_ok(DESTROY, goes.destroy_keyed_mutex(at, mutex.handle))
        }),
    ])?;
    // Permanently: later callers get the same status.
    waits(&waiter, second, 0)(testbed.at)?;
    // A killed process abandons the mutex that it owns.
    let third = expect_ok(CREATE, owner.create_keyed_mutex(testbed.at, 9))?;
    let fourth = expect_ok(OPEN, waiter.open_keyed_mutex(testbed.at, third.global))?;
    expect_ok(ACQUIRE, owner.acquire_keyed_mutex(testbed.at, third.handle, 9, None))?;
    owner.kill(testbed.at);
    waits(&waiter, fourth, 9)(testbed.at)?;
    for handle in [second, fourth] {
        expect_ok(DESTROY, waiter.destroy_keyed_mutex(testbed.at, handle))?;
    }
    end(&waiter, testbed.at)
}

/// Waits for a mutex that is abandoned during the wait.
fn waits(
    client: &Client,
    mutex: D3DKMT_HANDLE,
    key: u64,
) -> impl FnOnce(&mut Passive) -> Result<(), ScenarioStopped> + Send + 'static {
    let client = client.clone();
    move |at| {
        let acquired = client.acquire_keyed_mutex(at, mutex, key, None);
        expect_error(ACQUIRE, &acquired, STATUS_ABANDONED)
    }
}
