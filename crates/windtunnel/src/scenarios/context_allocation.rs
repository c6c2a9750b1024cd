//! Context switches: what engines save to the context allocation.

use crate::needs::WORK;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, Testbed};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "create-context-allocation-in-use",
        about: "creates an allocation behind a packet, when the driver may update a context allocation in use",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(create_context_allocation_in_use),
    },
    Scenario {
        name: "tdr-context-switching",
        about: "alternates contexts of two devices on both nodes",
        breaks: &[],
        needs: WORK.nodes(2),
        body: DisplayBody(tdr_context_switching),
    },
];

fn create_context_allocation_in_use(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let one = test_client.create(testbed.at, 1)?.allocations;
    let context = test_client.create_context(testbed.at)?;
    for target in &one {
        test_client.fill(testbed.at, context, *target)?;
    }
    test_client.create(testbed.at, 1)?;
    testbed.run_until_idle();
    for target in &one {
        test_client.fill(testbed.at, context, *target)?;
    }
    testbed.run_until_idle();
    test_client.close(testbed.at, &[context])
}

fn tdr_context_switching(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let mut other = test_client.clone();
    other.device = test_client.create_device(testbed.at)?;
    let mut contexts = Vec::new();
    for test_client in [&test_client, &other] {
        for node in [0, 1, 0] {
            let target = test_client.create(testbed.at, 1)?.allocations;
            contexts.push((test_client, test_client.create_context_on(testbed.at, node)?, target));
        }
    }
    for round in 0..4 {
        for (test_client, context, targets) in &contexts {
            for target in targets {
                test_client.fill(testbed.at, *context, *target)?;
            }
        }
        if round % 2 == 0 {
            testbed.run_until_idle();
        }
    }
    // The second device is destroyed with live objects and packets in flight.
    let gone = test_client.client.destroy_device(testbed.at, other.device);
    crate::testbed::expect_ok("D3DKMTDestroyDevice", gone)?;
    test_client.close(testbed.at, &[])
}
