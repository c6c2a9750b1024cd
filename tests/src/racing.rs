//! A call on one thread while another thread ends an object that the call takes.
//!
//! Whichever thread is first, the call succeeds or fails with a status, the object ends once, and
//! no component but the client breaks a rule. The pairs come from a table with a row per entry
//! point.

pub mod calls;
pub mod objects;

use crate::{KernelTestbed, attempt, verified};
use calls::{RACING_CALLS, RacingCall};
use flight::{Component, Event, Passive};
use objects::{CallResult, Ending, RacingObjects};
use std::sync::mpsc;
use windtunnel::HostKind;

/// A call and the object that ends beside it.
#[derive(Clone, Copy)]
pub struct RacingPair {
    /// The call.
    pub call: &'static RacingCall,
    /// What ends.
    pub ending: Ending,
}

/// All pairs of the table.
pub fn racing_pairs() -> impl Iterator<Item = RacingPair> {
    RACING_CALLS.iter().flat_map(|call| {
        let endings = call.takes.iter().copied().chain([Ending::Process, Ending::Adapter]);
        endings.map(move |ending| RacingPair { call, ending })
    })
}

impl RacingPair {
    /// Its name in messages.
    pub fn name(self) -> String {
        format!("{} beside the end of {:?}", self.call.name, self.ending)
    }

    /// Flies the pair on threads. Returns the result of the call.
    ///
    /// # Errors
    /// What went wrong: an internal error, an object that was left alive, or a broken rule of
    /// another component than the client.
    pub fn fly(self) -> Result<CallResult, String> {
        self.fly_after(|_| ())
    }

    /// As above, after a change of the kernel.
    ///
    /// # Errors
    /// As above.
    pub fn fly_after(self, change: impl FnOnce(&KernelTestbed)) -> Result<CallResult, String> {
        let mut result = Ok(());
        let events = attempt(
            HostKind::Threaded,
            |log| self.call.on.set_up(log),
            |testbed, at| {
                let objects = RacingObjects::create(testbed, at, self.call.on)
                    .map_err(|status| format!("the objects: {status:#x}"))?;
                change(testbed);
                result = self.race(testbed, at, &objects)?;
                objects.client.kill(at);
                Ok(())
            },
        )?;
        judge(&events)?;
        Ok(result)
    }

    /// Makes the call and ends the object at the same time.
    fn race(
        self,
        testbed: &KernelTestbed,
        at: &mut Passive,
        objects: &RacingObjects,
    ) -> Result<CallResult, String> {
        let (sender, receiver) = mpsc::channel();
        let (caller, call) = (objects.clone(), self.call.call);
        let called = testbed.host.spawn("caller", move |at| {
            let _ = sender.send(call(&caller, at)); // The receiver lives until the thread has ended.
        });
        let _ = objects.end(testbed, at, self.ending); // The call may have ended it, too.
        testbed.host.park(at, &called, None);
        receiver.try_recv().map_err(|_| "the calling thread did not return".to_owned())
    }
}

/// Fails if a component other than the client broke a rule, or a thread waited for ever.
fn judge(events: &[Event]) -> Result<(), String> {
    let verifier = verified(events);
    let is_bad = |finding: &&verify::Finding| {
        finding.component != Component::Client || finding.rule == flight::RuleId::WT_STUCK_001
    };
    match verifier.findings().iter().find(is_bad) {
        Some(finding) => Err(format!("{:?}: {}", finding.rule, finding.message)),
        None => Ok(()),
    }
}
