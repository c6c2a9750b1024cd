//! An engine reset that ends no packet: the packet that hangs is queued again and hangs again.
#![forbid(unsafe_code)]

use abi::kmt::D3DKMT_DEVICEEXECUTION_ACTIVE;
use flight::{Event, EventKind, Fence, Log, Passive, WaitToken};
use harness::run;
use kernel::DriverSetup;
use kernel::miniport::{DriverResult, Miniport};
use softgpu::SoftGpu;
use softgpu::format::Command;
use std::sync::Arc;
use thunk::Client;
use windtunnel::TestClient;

/// A second, in the host's time.
const SECOND: u64 = 10_000_000;

/// The built-in driver, except that its engine resets abort nothing.
struct AbortsNothing(Arc<SoftGpu>);

impl Miniport for AbortsNothing {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.0)
    }

    fn reset_engine(&self, at: &mut Passive, node: u32) -> DriverResult<Option<Fence>> {
        let completed = self.0.query_current_fence(at, node)?;
        self.0.reset_engine(at, node)?;
        Ok(Some(completed))
    }
}

fn called(events: &[Event], ddi: &str) -> usize {
    let called =
        |event: &&Event| matches!(&event.kind, EventKind::DdiCall { name, .. } if name == ddi);
    events.iter().filter(called).count()
}

/// Two resets that end nothing are followed by a reset of the adapter, which ends the packet.
#[test]
fn resets_that_end_nothing_lead_to_a_reset_of_the_adapter() {
    for seed in 1..=5 {
        let make = |log: &Arc<Log>| {
            let (driver, machine) = SoftGpu::new();
            DriverSetup {
                miniport: Arc::new(AbortsNothing(driver)),
                hardware: machine,
                pool: nt::Pool::new(log.clone()),
            }
        };
        let events = run(seed, make, |testbed, at| {
            let hangs = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
            let context = hangs.create_context(at).unwrap();
            hangs.submit(at, context, &[Command::Hang]).unwrap();
            let deadline = testbed.host.now() + 30 * SECOND;
            testbed.host.park(at, &WaitToken::new("some time"), Some(deadline));
            testbed.host.run_until_idle(at);
            let state = hangs.client.device_state(at, hangs.device).unwrap();
            assert_ne!(state, D3DKMT_DEVICEEXECUTION_ACTIVE);
            hangs.close(at, &[context]).unwrap();
        });
        assert_eq!(called(&events, "DxgkDdiResetEngine"), 2, "seed {seed}");
        assert_eq!(called(&events, "DxgkDdiResetFromTimeout"), 1, "seed {seed}");
    }
}
