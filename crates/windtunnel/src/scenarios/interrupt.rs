//! Interrupts that are another's, and vsyncs.

use crate::scenario::Story::Told;
use crate::scenario::{Scenario, VSYNC, WORK};
use crate::tunnel::{Stopped, Tunnel};
use kernel::miniport::{Interrupt, Refusal};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "foreign-interrupt",
        about: "the interrupt line raised by other hardware, before, between and behind packets",
        breaks: &[],
        needs: WORK,
        story: Told(foreign_interrupt),
    },
    Scenario {
        name: "vsync",
        about: "vsync interrupts switched on and off, fast and at leisure, beside packets",
        breaks: &[],
        needs: VSYNC,
        story: Told(vsync),
    },
];

/// How often vsyncs are switched in a row.
///
/// WINDOWS: about nine times a second on an idle desktop (observed).
const SWITCHES: u32 = 9;

fn foreign_interrupt(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    tunnel.interrupt_of_another();
    let context = bench.context(tunnel.at)?;
    for _ in 0..2 {
        bench.submit(tunnel.at, context, &[])?;
        tunnel.interrupt_of_another();
    }
    bench.close(tunnel.at, &[context])
}

fn vsync(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    let switch = |tunnel: &mut Tunnel<'_>, on| {
        let answer = kernel.control_interrupt(tunnel.at, adapter, Interrupt::Vsync, on);
        let said = |why: Refusal| {
            Stopped(format!("DxgkDdiControlInterrupt to succeed; it answered {}", why.name()))
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
    tunnel.settle();
    kernel.judge_vsync(adapter);
    switch(tunnel, false)?;
    bench.close(tunnel.at, &[context])
}
