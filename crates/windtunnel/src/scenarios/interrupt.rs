//! Interrupts that are another's, and vsyncs.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{Scenario, VSYNC, WORK};
use crate::tunnel::{ScenarioStopped, Testbed};
use kernel::miniport::{Interrupt, DriverError};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "foreign-interrupt",
        about: "the interrupt line raised by other hardware, before, between and behind packets",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(interrupt_shared_line),
    },
    Scenario {
        name: "vsync",
        about: "vsync interrupts switched on and off, fast and at leisure, beside packets",
        breaks: &[],
        needs: VSYNC,
        body: DisplayBody(interrupt_vsync_control),
    },
];

/// How often vsyncs are switched in a row.
///
/// WINDOWS: about nine times a second on an idle desktop (observed).
const SWITCHES: u32 = 9;

fn interrupt_shared_line(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    tunnel.shared_line_interrupt();
    let context = bench.create_context(tunnel.at)?;
    for _ in 0..2 {
        bench.submit(tunnel.at, context, &[])?;
        tunnel.shared_line_interrupt();
    }
    bench.close(tunnel.at, &[context])
}

fn interrupt_vsync_control(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    let switch = |tunnel: &mut Testbed<'_>, on| {
        let answer = kernel.control_interrupt(tunnel.at, adapter, Interrupt::Vsync, on);
        let said = |why: DriverError| {
            ScenarioStopped(format!("DxgkDdiControlInterrupt to succeed; it answered {}", why.name()))
        };
        answer.map_err(said)
    };
    for turn in 0..SWITCHES {
        bench.submit(tunnel.at, context, &[])?;
        switch(tunnel, turn % 2 == 0)?;
    }
    // What else is to be switched, a driver refuses; what it answers is judged.
    let _ = kernel.control_interrupt(tunnel.at, adapter, Interrupt::Completed, true);
    for on in [false, true] {
        switch(tunnel, on)?;
    }
    tunnel.run_until_idle();
    kernel.judge_vsync(adapter);
    switch(tunnel, false)?;
    bench.close(tunnel.at, &[context])
}
