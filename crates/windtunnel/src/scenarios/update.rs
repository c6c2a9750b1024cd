//! Updates of addresses that wait for a fence, and signal it.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{ADDRESSES, Scenario};
use crate::scenarios::address::{
    LARGE, PAGE, SIZE, create, fill, free_at, cpu_invisible, operation, reserve, work,
};
use crate::scenarios::sync::{destroy, monitored, signal_cpu, wait_cpu};
use crate::tunnel::{TestClient, ScenarioStopped, ThreadBody, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{
    D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve, D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation,
};
use thunk::CpuWait;

/// How many updates wait, before a caller does.
const MAX_QUEUED: u64 = 128;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "update-behind",
        about: "updates of addresses wait for a fence, and signal it when they are done",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_update_fenced),
    },
    Scenario {
        name: "update-many",
        about: "so many updates wait that the next caller waits, too",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_update_queue_full),
    },
    Scenario {
        name: "update-ends",
        about: "updates wait for what never comes, and what they map is destroyed",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_update_destroyed_allocation),
    },
];

fn update(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    operations: &[Operation],
    fence: Option<(D3DKMT_HANDLE, u64)>,
) -> Result<(), ScenarioStopped> {
    let updated = bench.client.update_address(tunnel.at, bench.device, operations, fence);
    expect_ok("D3DKMTUpdateGpuVirtualAddress", updated)
}

fn gpuva_update_fenced(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &[cpu_invisible(), cpu_invisible()])?;
    bench.make_resident(tunnel.at, &list)?;
    let base = reserve(tunnel, &bench, &Reserve { Size: 4 * LARGE, ..Reserve::ZERO })?;
    let [one, two] = [list[0], list[1]].map(u64::from);
    let fence = monitored(tunnel, &bench)?;
    let first = operation(MAP, &[base, SIZE, one, 0, SIZE]);
    let second = operation(MAP, &[base + PAGE, PAGE, two, 0, PAGE]);
    // The second goes on when the first is done, whoever comes first.
    update(tunnel, &bench, &[second], Some((fence, 2)))?;
    update(tunnel, &bench, &[first], Some((fence, 1)))?;
    // One that does not wait overtakes them.
    let now = operation(MAP, &[base + LARGE, SIZE, two, 0, SIZE]);
    update(tunnel, &bench, &[now], None)?;
    tunnel.run_until_idle();
    tunnel.snapshot_live_objects("two updates wait");
    signal_cpu(tunnel, &bench, &[(fence, 1)], 0)?;
    wait_cpu(tunnel, &bench, &[(fence, 3)], CpuWait::default())?;
    work(tunnel, &bench, context, &[fill(base, SIZE, 1), fill(base + LARGE, SIZE, 2)])?;
    // What it waits for is there.
    update(tunnel, &bench, &[first], Some((fence, 3)))?;
    wait_cpu(tunnel, &bench, &[(fence, 4)], CpuWait::default())?;
    work(tunnel, &bench, context, &[fill(base, SIZE, 3)])?;
    destroy(tunnel, &bench, &[fence])?;
    let none = bench.client.update_address(tunnel.at, bench.device, &[first], Some((fence, 9)));
    expect_error("D3DKMTUpdateGpuVirtualAddress", &none, STATUS_INVALID_PARAMETER)?;
    bench.destroy_list(tunnel.at, &list)?;
    free_at(tunnel, &bench, base, 4 * LARGE)?;
    bench.close(tunnel.at, &[context])
}

fn gpuva_update_queue_full(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let one = create(tunnel, &bench, &[cpu_invisible()])?[0];
    bench.make_resident(tunnel.at, &[one])?;
    let size = (MAX_QUEUED + 1) * PAGE;
    let size = size.next_multiple_of(LARGE);
    let base = reserve(tunnel, &bench, &Reserve { Size: size, ..Reserve::ZERO })?;
    let [early, late] = [monitored(tunnel, &bench)?, monitored(tunnel, &bench)?];
    let map = |place: u64| operation(MAP, &[base + place * PAGE, PAGE, u64::from(one), 0, PAGE]);
    for place in 0..MAX_QUEUED {
        update(tunnel, &bench, &[map(place)], Some((early, 1)))?;
    }
    let (waits, signals, last) = (bench.clone(), bench.clone(), map(MAX_QUEUED));
    let threads: Vec<ThreadBody> = vec![
        Box::new(move |at| {
            let updated = waits.client.update_address(at, waits.device, &[last], Some((late, 1)));
            expect_ok("D3DKMTUpdateGpuVirtualAddress", updated)
        }),
        Box::new(move |at| {
            let signalled = signals.client.signal_cpu(at, signals.device, &[(early, 1)], 0);
            expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", signalled)
        }),
    ];
    tunnel.run_threads(threads)?;
    signal_cpu(tunnel, &bench, &[(late, 1)], 0)?;
    wait_cpu(tunnel, &bench, &[(early, 2), (late, 2)], CpuWait::default())?;
    destroy(tunnel, &bench, &[early, late])?;
    bench.destroy_list(tunnel.at, &[one])?;
    free_at(tunnel, &bench, base, size)?;
    bench.close(tunnel.at, &[])
}

fn gpuva_update_destroyed_allocation(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let list = create(tunnel, &bench, &[cpu_invisible(), cpu_invisible()])?;
    bench.make_resident(tunnel.at, &list)?;
    let base = reserve(tunnel, &bench, &Reserve { Size: 2 * LARGE, ..Reserve::ZERO })?;
    let [one, two] = [list[0], list[1]].map(u64::from);
    let fence = monitored(tunnel, &bench)?;
    let gone = operation(MAP, &[base, PAGE, one, 0, PAGE]);
    let stays = operation(MAP, &[base + PAGE, PAGE, two, 0, PAGE]);
    update(tunnel, &bench, &[gone, stays], Some((fence, 1)))?;
    bench.destroy_list(tunnel.at, &list[..1])?;
    signal_cpu(tunnel, &bench, &[(fence, 1)], 0)?;
    wait_cpu(tunnel, &bench, &[(fence, 2)], CpuWait::default())?;
    // This one is never applied, and its name goes before its device.
    update(tunnel, &bench, &[stays], Some((fence, 7)))?;
    destroy(tunnel, &bench, &[fence])?;
    bench.destroy_list(tunnel.at, &list[1..])?;
    free_at(tunnel, &bench, base, 2 * LARGE)?;
    bench.close(tunnel.at, &[])
}
