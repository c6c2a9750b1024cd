//! Keyed mutexes: processes take turns with what they share.

use crate::scenario::Scenario;
use crate::scenario::Story::Told;
use crate::scenarios::bad::bad;
use crate::tunnel::{Bench, Stopped, Tunnel, pages, refused, wanted};
use abi::kmt::{
    D3DKMT_CREATEALLOCATIONFLAGS as Flags, D3DKMT_CREATEKEYEDMUTEX2_FLAGS as KeyedFlags,
};
use abi::status::{
    STATUS_ABANDONED, STATUS_INVALID_PARAMETER, STATUS_TIMEOUT, STATUS_UNSUCCESSFUL,
};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Crew, Passive, RuleId};
use std::sync::Arc;
use thunk::{Client, Create, KeyedMutex};

/// Good scenarios of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "keyed",
        about: "two processes take turns with a resource: each releases it to the other's key",
        breaks: &[],
        needs: &[],
        story: Told(to_and_fro),
    },
    Scenario {
        name: "keyed-data",
        about: "a keyed mutex has data of the runtime's, and keys that do not come in time",
        breaks: &[],
        needs: &[],
        story: Told(data),
    },
    Scenario {
        name: "keyed-abandoned",
        about: "the owner of a keyed mutex goes without a release, while others wait",
        breaks: &[],
        needs: &[],
        story: Told(abandoned),
    },
];

/// Bad clients.
pub(crate) const BAD: &[Scenario] = &[
    bad(
        "keyed-made-up",
        "a keyed mutex is acquired through a handle that is none",
        &[RuleId::MUTEX_KEYED_001],
        |tunnel| {
            let (client, made) = one(tunnel)?;
            let acquired = client.acquire_keyed(tunnel.at, made.handle + 0x40, 0, None);
            refused(ACQUIRE, &acquired, BAD_ARGUMENT)?;
            wanted(DESTROY, client.destroy_keyed(tunnel.at, made.handle))?;
            end(&client, tunnel.at)
        },
    ),
    bad(
        "keyed-open-local",
        "a keyed mutex is opened by its maker's handle",
        &[RuleId::MUTEX_KEYED_001],
        |tunnel| {
            let (client, made) = one(tunnel)?;
            let opened = client.open_keyed(tunnel.at, made.handle);
            refused("D3DKMTOpenKeyedMutex", &opened, BAD_ARGUMENT)?;
            wanted(DESTROY, client.destroy_keyed(tunnel.at, made.handle))?;
            end(&client, tunnel.at)
        },
    ),
    bad(
        "keyed-destroy-twice",
        "a handle of a keyed mutex is destroyed twice",
        &[RuleId::MUTEX_KEYED_003],
        |tunnel| {
            let (client, made) = one(tunnel)?;
            wanted(DESTROY, client.destroy_keyed(tunnel.at, made.handle))?;
            let again = client.destroy_keyed(tunnel.at, made.handle);
            refused(DESTROY, &again, BAD_ARGUMENT)?;
            end(&client, tunnel.at)
        },
    ),
    bad(
        "keyed-for-ever",
        "a key is waited for without end that nobody will release",
        &[RuleId::WT_STUCK_001],
        |tunnel| {
            let (client, made) = one(tunnel)?;
            let acquired = client.acquire_keyed(tunnel.at, made.handle, 77, None);
            refused(ACQUIRE, &acquired, STATUS_UNSUCCESSFUL)?;
            wanted(DESTROY, client.destroy_keyed(tunnel.at, made.handle))?;
            end(&client, tunnel.at)
        },
    ),
    bad(
        "keyed-destroy-global",
        "the global handle of a keyed mutex is destroyed",
        &[RuleId::MUTEX_KEYED_003],
        |tunnel| {
            let (client, made) = one(tunnel)?;
            let destroyed = client.destroy_keyed(tunnel.at, made.global);
            refused(DESTROY, &destroyed, BAD_ARGUMENT)?;
            wanted(DESTROY, client.destroy_keyed(tunnel.at, made.handle))?;
            end(&client, tunnel.at)
        },
    ),
];

const CREATE: &str = "D3DKMTCreateKeyedMutex";
const OPEN: &str = "D3DKMTOpenKeyedMutex2";
const ACQUIRE: &str = "D3DKMTAcquireKeyedMutex";
const RELEASE: &str = "D3DKMTReleaseKeyedMutex";
const DESTROY: &str = "D3DKMTDestroyKeyedMutex";

const BAD_ARGUMENT: NTSTATUS = STATUS_INVALID_PARAMETER;

/// A millisecond, as relative time-outs have it.
const MILLISECOND: i64 = -10_000;

/// How often each has its turn.
const ROUNDS: u64 = 3;

/// A process with a keyed mutex.
fn one(tunnel: &mut Tunnel<'_>) -> Result<(Client, KeyedMutex), Stopped> {
    let client = tunnel.client();
    let made = wanted(CREATE, client.create_keyed(tunnel.at, 0))?;
    Ok((client, made))
}

#[expect(clippy::unnecessary_wraps, reason = "the last step of a story")]
fn end(client: &Client, at: &mut Passive) -> Result<(), Stopped> {
    client.end(at);
    Ok(())
}

fn to_and_fro(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener) = (tunnel.bench()?, tunnel.bench()?);
    let create = Create::on(maker.device, pages(1)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let made = maker.make(tunnel.at, &Create { flags, ..create })?;
    let opened = opener.client.open_resource(tunnel.at, opener.device, made.global);
    let opened = wanted("D3DKMTOpenResource", opened)?;
    let mutex = wanted(CREATE, maker.client.create_keyed(tunnel.at, 0))?;
    let second = wanted(OPEN, opener.client.open_keyed(tunnel.at, mutex.global))?;
    tunnel.look("two processes have names of it");
    let (one, two) = (maker.clone(), opener.clone());
    tunnel.side_by_side(vec![
        Box::new(move |at| turns(&one, at, mutex.handle, 0)),
        Box::new(move |at| turns(&two, at, second, 1)),
    ])?;
    // Its maker goes first: the order is free.
    wanted(DESTROY, maker.client.destroy_keyed(tunnel.at, mutex.handle))?;
    wanted(DESTROY, opener.client.destroy_keyed(tunnel.at, second))?;
    let late = opener.client.create_keyed(tunnel.at, 7);
    let late = wanted(CREATE, late)?;
    wanted(DESTROY, opener.client.destroy_keyed(tunnel.at, late.handle))?;
    maker.destroy_resource(tunnel.at, made.resource)?;
    opener.destroy_resource(tunnel.at, opened.resource)?;
    maker.close(tunnel.at, &[])?;
    opener.close(tunnel.at, &[])
}

/// Some turns of one of two: its key is `key`, the other's the other one.
fn turns(bench: &Bench, at: &mut Passive, mutex: D3DKMT_HANDLE, key: u64) -> Result<(), Stopped> {
    for round in 0..ROUNDS {
        let fence = wanted(ACQUIRE, bench.client.acquire_keyed(at, mutex, key, None))?;
        let due = round * 2 + key;
        if fence != due {
            return Err(Stopped(format!(
                "fence value {due} of the other's release; it is {fence}"
            )));
        }
        wanted(RELEASE, bench.client.release_keyed(at, mutex, 1 - key, due + 1))?;
    }
    Ok(())
}

fn data(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener) = (tunnel.client(), tunnel.client());
    let at = &mut *tunnel.at;
    let mutex = wanted(CREATE, maker.create_keyed2(at, 5, b"sample", 0))?;
    let mut room = [0xee_u8; 64];
    let second = wanted(OPEN, opener.open_keyed2(at, mutex.global, &mut room[..6]))?;
    let third = wanted(OPEN, opener.open_keyed2(at, mutex.global, &mut []))?;
    refused(OPEN, &opener.open_keyed2(at, mutex.global, &mut room[..5]), BAD_ARGUMENT)?;
    if room != [0xee; 64] {
        return Err(Stopped("an open that writes nothing".into()));
    }
    refused(ACQUIRE, &maker.acquire_keyed(at, mutex.handle, 4, Some(MILLISECOND)), STATUS_TIMEOUT)?;
    wanted(ACQUIRE, maker.acquire_keyed2(at, mutex.handle, 5, Some(0), &mut room))?;
    refused(ACQUIRE, &opener.acquire_keyed(at, second, 5, Some(MILLISECOND)), STATUS_TIMEOUT)?;
    refused(RELEASE, &opener.release_keyed(at, second, 6, 0), BAD_ARGUMENT)?;
    wanted(RELEASE, maker.release_keyed2(at, mutex.handle, 6, 1234, b"other sample"))?;
    let fence = opener.acquire_keyed2(at, third, 6, None, &mut room);
    if (wanted(ACQUIRE, fence)?, &room[..12]) != (1234, b"other sample") {
        return Err(Stopped("fence value 1234 and the data of the release".into()));
    }
    wanted(RELEASE, opener.release_keyed2(at, third, 5, 0, &[]))?;
    let nt = maker.create_keyed2(at, 0, &[], KeyedFlags::NtSecuritySharing);
    let nt = wanted("D3DKMTCreateKeyedMutex2", nt)?;
    for handle in [mutex.handle, nt.handle] {
        wanted(DESTROY, maker.destroy_keyed(at, handle))?;
    }
    for handle in [second, third] {
        wanted(DESTROY, opener.destroy_keyed(at, handle))?;
    }
    end(&maker, at)?;
    end(&opener, at)
}

fn abandoned(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (owner, waiter) = (tunnel.client(), tunnel.client());
    let mutex = wanted(CREATE, owner.create_keyed(tunnel.at, 0))?;
    let second = wanted(OPEN, waiter.open_keyed(tunnel.at, mutex.global))?;
    wanted(ACQUIRE, owner.acquire_keyed(tunnel.at, mutex.handle, 0, None))?;
    let (host, goes) = (tunnel.host.clone(), owner.clone());
    tunnel.side_by_side(vec![
        Box::new(waits(&waiter, second, 0)),
        Box::new(waits(&waiter, second, 1)),
        Box::new(move |at| {
            let host: Arc<dyn Crew> = host;
            host.quiet(at); // They wait.
            wanted(DESTROY, goes.destroy_keyed(at, mutex.handle))
        }),
    ])?;
    // For good: who comes later is told so, too.
    waits(&waiter, second, 0)(tunnel.at)?;
    // A process that is killed abandons what it owns.
    let third = wanted(CREATE, owner.create_keyed(tunnel.at, 9))?;
    let fourth = wanted(OPEN, waiter.open_keyed(tunnel.at, third.global))?;
    wanted(ACQUIRE, owner.acquire_keyed(tunnel.at, third.handle, 9, None))?;
    owner.kill(tunnel.at);
    waits(&waiter, fourth, 9)(tunnel.at)?;
    for handle in [second, fourth] {
        wanted(DESTROY, waiter.destroy_keyed(tunnel.at, handle))?;
    }
    end(&waiter, tunnel.at)
}

/// Waits for what is abandoned meanwhile.
fn waits(
    client: &Client,
    mutex: D3DKMT_HANDLE,
    key: u64,
) -> impl FnOnce(&mut Passive) -> Result<(), Stopped> + Send + 'static {
    let client = client.clone();
    move |at| {
        let acquired = client.acquire_keyed(at, mutex, key, None);
        refused(ACQUIRE, &acquired, STATUS_ABANDONED)
    }
}
