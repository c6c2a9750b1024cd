//! GPU virtual address updates that wait for a fence and signal it.

use crate::needs::{ADDRESSES, PAGE_TABLES};
use crate::private_data::DataUse;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::gpuva::{
    LARGE, PAGE, SIZE, cpu_invisible, create, fill, free_at, operation, reserve, work,
};
use crate::scenarios::sync::{destroy, monitored, signal_cpu, wait_cpu};
use crate::testbed::{ScenarioStopped, TestClient, Testbed, ThreadBody, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{
    D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve, D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation,
};
use thunk::CpuWait;

/// The number of waiting updates after which a caller blocks.
const MAX_QUEUED: u64 = 128;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "gpuva-update-fenced",
        about: "queues address updates that wait for a fence and signal it on completion",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_update_fenced),
    },
    Scenario {
        name: "gpuva-update-queue-full",
        about: "queues updates until the next caller has to wait",
        breaks: &[],
        needs: PAGE_TABLES,
        body: DisplayBody(gpuva_update_queue_full),
    },
    Scenario {
        name: "gpuva-update-destroyed-allocation",
        about: "destroys allocations while updates that map them still wait",
        breaks: &[],
        needs: PAGE_TABLES,
        body: DisplayBody(gpuva_update_destroyed_allocation),
    },
];

fn update(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    operations: &[Operation],
    fence: Option<(D3DKMT_HANDLE, u64)>,
) -> Result<(), ScenarioStopped> {
    let updated =
        test_client.client.update_address(testbed.at, test_client.device, operations, fence);
    expect_ok("D3DKMTUpdateGpuVirtualAddress", updated)
}

fn gpuva_update_fenced(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &[cpu_invisible(), cpu_invisible()])?;
    test_client.make_resident(testbed.at, &list)?;
    let base = reserve(testbed, &test_client, &Reserve { Size: 4 * LARGE, ..Reserve::ZERO })?;
    let [one, two] = [list[0], list[1]].map(u64::from);
    let fence = monitored(testbed, &test_client)?;
    let first = operation(MAP, &[base, SIZE, one, 0, SIZE]);
    let second = operation(MAP, &[base + PAGE, PAGE, two, 0, PAGE]);
    // The second update runs after the first, whichever was queued first.
    update(testbed, &test_client, &[second], Some((fence, 2)))?;
    update(testbed, &test_client, &[first], Some((fence, 1)))?;
    // An update that does not wait overtakes them.
    let now = operation(MAP, &[base + LARGE, SIZE, two, 0, SIZE]);
    update(testbed, &test_client, &[now], None)?;
    testbed.run_until_idle();
    testbed.snapshot_live_objects("two updates wait");
    signal_cpu(testbed, &test_client, &[(fence, 1)], 0)?;
    wait_cpu(testbed, &test_client, &[(fence, 3)], CpuWait::default())?;
    work(testbed, &test_client, context, &[fill(base, SIZE, 1), fill(base + LARGE, SIZE, 2)])?;
    // The fence value that it waits for is reached.
    update(testbed, &test_client, &[first], Some((fence, 3)))?;
    wait_cpu(testbed, &test_client, &[(fence, 4)], CpuWait::default())?;
    work(testbed, &test_client, context, &[fill(base, SIZE, 3)])?;
    destroy(testbed, &test_client, &[fence])?;
    let none = test_client.client.update_address(
        testbed.at,
        test_client.device,
        &[first],
        Some((fence, 9)),
    );
    expect_error("D3DKMTUpdateGpuVirtualAddress", &none, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_list(testbed.at, &list)?;
    free_at(testbed, &test_client, base, 4 * LARGE)?;
    test_client.close(testbed.at, &[context])
}

fn gpuva_update_queue_full(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let one = create(testbed, &test_client, &[cpu_invisible()])?[0];
    test_client.make_resident(testbed.at, &[one])?;
    let size = (MAX_QUEUED + 1) * PAGE;
    let size = size.next_multiple_of(LARGE);
    let base = reserve(testbed, &test_client, &Reserve { Size: size, ..Reserve::ZERO })?;
    let [early, late] = [monitored(testbed, &test_client)?, monitored(testbed, &test_client)?];
    let map = |place: u64| operation(MAP, &[base + place * PAGE, PAGE, u64::from(one), 0, PAGE]);
    for place in 0..MAX_QUEUED {
        update(testbed, &test_client, &[map(place)], Some((early, 1)))?;
    }
    let (waits, signals, last) = (test_client.clone(), test_client.clone(), map(MAX_QUEUED));
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
    testbed.run_threads(threads)?;
    signal_cpu(testbed, &test_client, &[(late, 1)], 0)?;
    wait_cpu(testbed, &test_client, &[(early, 2), (late, 2)], CpuWait::default())?;
    destroy(testbed, &test_client, &[early, late])?;
    test_client.destroy_list(testbed.at, &[one])?;
    free_at(testbed, &test_client, base, size)?;
    test_client.close(testbed.at, &[])
}

fn gpuva_update_destroyed_allocation(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let list = create(testbed, &test_client, &[cpu_invisible(), cpu_invisible()])?;
    test_client.make_resident(testbed.at, &list)?;
    let base = reserve(testbed, &test_client, &Reserve { Size: 2 * LARGE, ..Reserve::ZERO })?;
    let [one, two] = [list[0], list[1]].map(u64::from);
    let fence = monitored(testbed, &test_client)?;
    let gone = operation(MAP, &[base, PAGE, one, 0, PAGE]);
    let stays = operation(MAP, &[base + PAGE, PAGE, two, 0, PAGE]);
    update(testbed, &test_client, &[gone, stays], Some((fence, 1)))?;
    test_client.destroy_list(testbed.at, &list[..1])?;
    signal_cpu(testbed, &test_client, &[(fence, 1)], 0)?;
    wait_cpu(testbed, &test_client, &[(fence, 2)], CpuWait::default())?;
    // This update is never applied; its handle is destroyed before its device.
    update(testbed, &test_client, &[stays], Some((fence, 7)))?;
    destroy(testbed, &test_client, &[fence])?;
    test_client.destroy_list(testbed.at, &list[1..])?;
    free_at(testbed, &test_client, base, 2 * LARGE)?;
    test_client.close(testbed.at, &[])
}
