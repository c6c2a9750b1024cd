//! Questions of user mode, which a driver answers its other half.

use crate::scenario::Scenario;
use crate::scenario::Story::Told;
use crate::tunnel::{Stopped, Tunnel, wanted};
use flight::Who;
use thunk::Client;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[Scenario {
    name: "asks-driver",
    about: "a user-mode driver asks its miniport what the hardware can do, also in nonsense",
    breaks: &[],
    needs: &[],
    story: Told(asks_driver),
}];

/// More than any answer has, and sizes that are too small for one.
const ROOM: usize = 256;
const SIZES: [usize; 6] = [0, 1, 4, 12, 31, 64];

/// What is sent: nothing worth reading.
const BYTES: [u8; 3] = [0, 1, 0xff];

fn asks_driver(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let user_mode = Client::of(bench.client.session().on_behalf_of(Who::Umd));
    let (at, adapter) = (&mut *tunnel.at, bench.adapter);
    // What a driver answers is between it and its other half, and one that has none refuses.
    let mut first = vec![0; ROOM];
    if user_mode.query_private(at, adapter, &mut first).is_ok() {
        let mut again = vec![0; ROOM];
        wanted("D3DKMTQueryAdapterInfo", user_mode.query_private(at, adapter, &mut again))?;
    }
    for byte in BYTES {
        for size in SIZES {
            let mut sent = vec![byte; size];
            let answer = user_mode.query_private(at, adapter, &mut sent);
            if answer.is_err() && sent != vec![byte; size] {
                return Err(Stopped("what was sent to be as it was after a refusal".to_owned()));
            }
        }
    }
    bench.close(tunnel.at, &[])
}
