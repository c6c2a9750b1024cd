//! Private queries of a user-mode driver to its miniport.

use crate::needs::Needs;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, Testbed, expect_ok};
use flight::Component;
use thunk::Client;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[Scenario {
    name: "umd-query-driver-private",
    about: "queries the miniport with UMDRIVERPRIVATE requests, valid and malformed",
    breaks: &[],
    needs: Needs::NONE,
    body: DisplayBody(umd_query_driver_private),
}];

/// Buffer sizes: larger than any response, and too small.
const MAX_OUTPUT: usize = 256;
const SIZES: [usize; 6] = [0, 1, 4, 12, 31, 64];

/// The request data: meaningless bytes.
const BYTES: [u8; 3] = [0, 1, 0xff];

fn umd_query_driver_private(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let user_mode =
        Client::from_session(test_client.client.session().for_component(Component::Umd));
    let (at, adapter) = (&mut *testbed.at, test_client.adapter);
    // The response format is private to the driver; a driver without one fails the query.
    let mut first = vec![0; MAX_OUTPUT];
    if user_mode.query_private(at, adapter, &mut first).is_ok() {
        let mut again = vec![0; MAX_OUTPUT];
        expect_ok("D3DKMTQueryAdapterInfo", user_mode.query_private(at, adapter, &mut again))?;
    }
    for byte in BYTES {
        for size in SIZES {
            let mut sent = vec![byte; size];
            let answer = user_mode.query_private(at, adapter, &mut sent);
            if answer.is_err() && sent != vec![byte; size] {
                return Err(ScenarioStopped::failed(
                    "what was sent to be as it was after a refusal",
                ));
            }
        }
    }
    test_client.close(testbed.at, &[])
}
