//! Several client threads at once.

use crate::needs::WORK;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed};
use flight::Passive;
use thunk::DestroyAllocation;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "process-two-threads",
        about: "creates, submits and destroys from two threads of one device in any order",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(process_two_threads),
    },
    Scenario {
        name: "process-two-processes",
        about: "runs two processes side by side, each with a device",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(process_two_processes),
    },
];

/// Creates, submits and destroys with varying flags.
fn life(test_client: &TestClient, at: &mut Passive, turn: usize) -> Result<(), ScenarioStopped> {
    let context = test_client.create_context(at)?;
    for round in 0..2 {
        let created = test_client.create_resource(at, 2)?;
        test_client.fill(at, context, created.allocations[0])?;
        let alone = test_client.create(at, 1)?;
        if (round + turn).is_multiple_of(2) {
            test_client.destroy_list(at, &created.allocations[..1])?;
        }
        test_client.fill(at, context, alone.allocations[0])?;
        let destroy = DestroyAllocation {
            device: test_client.device,
            resource: created.resource,
            synchronous: turn == 0,
            ..DestroyAllocation::default()
        };
        test_client.destroy_with(at, &destroy)?;
        test_client.destroy_list(at, &alone.allocations)?;
    }
    crate::testbed::expect_ok(
        "D3DKMTDestroyContext",
        test_client.client.destroy_context(at, context),
    )
}

fn process_two_threads(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (one, two) = (test_client.clone(), test_client.clone());
    testbed.run_threads(vec![
        Box::new(move |at| life(&one, at, 0)),
        Box::new(move |at| life(&two, at, 1)),
    ])?;
    test_client.close(testbed.at, &[])
}

fn process_two_processes(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, two, data) = (testbed.client(), testbed.client(), testbed.private_data);
    let body = |client, turn| {
        move |at: &mut Passive| {
            let test_client = TestClient::open_with(client, at, data)?;
            life(&test_client, at, turn)?;
            test_client.close(at, &[])
        }
    };
    testbed.run_threads(vec![Box::new(body(one, 0)), Box::new(body(two, 1))])
}
