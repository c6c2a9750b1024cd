//! Interrupts of other hardware on a shared line, and vsync interrupts.

use crate::needs::{VSYNC, WORK};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, Testbed};
use kernel::miniport::{DriverError, Interrupt};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "interrupt-shared-line",
        about: "raises the shared interrupt line from another device before, between and after packets",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(interrupt_shared_line),
    },
    Scenario {
        name: "interrupt-vsync-control",
        about: "enables and disables vsync interrupts quickly and slowly while packets run",
        breaks: &[],
        needs: VSYNC,
        body: DisplayBody(interrupt_vsync_control),
    },
    Scenario {
        name: "interrupt-vsync-at-stop",
        about: "leaves vsync interrupts enabled when the adapter stops",
        breaks: &[],
        needs: VSYNC,
        body: DisplayBody(interrupt_vsync_at_stop),
    },
];

/// How often vsync interrupts are switched in a row.
///
/// WINDOWS: about nine times a second on an idle desktop (observed).
const SWITCHES: u32 = 9;

fn interrupt_shared_line(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.test_client()?;
    testbed.shared_line_interrupt();
    let context = client.create_context(testbed.at)?;
    for _ in 0..2 {
        client.submit(testbed.at, context, &[])?;
        testbed.shared_line_interrupt();
    }
    client.close(testbed.at, &[context])
}

fn interrupt_vsync_control(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.test_client()?;
    let context = client.create_context(testbed.at)?;
    let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
    for turn in 0..SWITCHES {
        client.submit(testbed.at, context, &[])?;
        switch_vsync(testbed, turn % 2 == 0)?;
    }
    // The driver fails other interrupt types; a rule judges the returned status.
    let _ = kernel.control_interrupt(testbed.at, adapter, Interrupt::Completed, true);
    for on in [false, true] {
        switch_vsync(testbed, on)?;
    }
    testbed.run_until_idle();
    kernel.judge_vsync(adapter);
    switch_vsync(testbed, false)?;
    client.close(testbed.at, &[context])
}

/// The driver turns vsync interrupts off when it stops: the hardware must not interrupt any more.
fn interrupt_vsync_at_stop(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.test_client()?;
    switch_vsync(testbed, true)?;
    testbed.run_until_idle();
    testbed.kernel.judge_vsync(testbed.adapter);
    client.close(testbed.at, &[])
}

fn switch_vsync(testbed: &mut Testbed<'_>, on: bool) -> Result<(), ScenarioStopped> {
    let result =
        testbed.kernel.control_interrupt(testbed.at, testbed.adapter, Interrupt::Vsync, on);
    let text = |reason: DriverError| {
        ScenarioStopped::failed(format!(
            "DxgkDdiControlInterrupt to succeed; it returned {}",
            reason.name()
        ))
    };
    result.map_err(text)
}
