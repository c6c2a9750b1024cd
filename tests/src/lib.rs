//! What the integration tests share: flights by name, and kernels without a scenario.
#![deny(unsafe_code)] // Those who play applications are not safe.

pub mod asked;
pub mod c_umd;
mod careful;
mod case;
pub mod command;
mod effort;
mod faulty;
mod hostile;
mod keeper;
mod life;
pub mod memory;
mod model;
pub mod pages;
mod pausable;
mod picture;
pub mod raw;
pub mod sight;
pub mod sync;
mod texts;
mod variant;
mod watch;

pub use careful::Careful;
pub use case::{Case, Seen};
pub use effort::repeats;
pub use faulty::{Fault, Faulty};
pub use hostile::{call_as_told, call_unguarded};
pub use keeper::{Keeper, When};
pub use life::{Dice, life};
pub use model::Model;
pub use pausable::PausableGpu;
pub use picture::Picture;
pub use texts::read_as_told;
pub use variant::Variant;
pub use watch::{Watch, Watched};

use flight::{Crew, Event, Log, Passive};
use kernel::{AdapterId, Kernel, Plugged};
use std::sync::Arc;
use verify::Verifier;
use windtunnel::{Driver, Flown, On, SCENARIOS, Scenario, find_scenario, fly_driver};

/// Flies a driver through a scenario, both by name.
pub fn flown(driver: &str, scenario: &str, on: impl Into<On>) -> Flown {
    let driver = Driver::find(driver).unwrap_or_else(|| panic!("there is no driver {driver}"));
    let story = find_scenario(scenario).unwrap_or_else(|| panic!("no scenario {scenario}"));
    fly_driver(driver, story, on).unwrap_or_else(|why| panic!("{scenario}: {}", why.0))
}

/// The good scenarios that a driver offers everything for.
pub fn good_scenarios(driver: &str) -> Vec<&'static Scenario> {
    let listed = drivers::find(driver).unwrap_or_else(|| panic!("there is no driver {driver}"));
    let offered = (listed.make)(&Arc::new(Log::silent())).miniport.offers();
    let good = SCENARIOS.iter().copied().flatten().filter(|it| it.breaks.is_empty());
    good.filter(|it| it.needs.iter().all(|it| offered.contains(it))).collect()
}

/// A kernel with a driver in it, for stories that are not scenarios.
pub struct Wing {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Its one adapter.
    pub adapter: AdapterId,
    /// Who runs it.
    pub host: Arc<dyn Crew>,
}

/// Runs a story on a started driver; afterwards the adapter is removed, nothing may be alive,
/// and the events are answered.
pub fn run(
    on: impl Into<On>,
    make: impl FnOnce(&Arc<Log>) -> Plugged,
    story: impl FnOnce(&Wing, &mut Passive),
) -> Vec<Event> {
    let story = |wing: &Wing, at: &mut Passive| {
        story(wing, at);
        Ok(())
    };
    attempt(on, make, story).unwrap_or_else(|why| panic!("{why}"))
}

/// The same, but what is wrong is an answer.
pub fn attempt(
    on: impl Into<On>,
    make: impl FnOnce(&Arc<Log>) -> Plugged,
    story: impl FnOnce(&Wing, &mut Passive) -> Result<(), String>,
) -> Result<Vec<Event>, String> {
    let log = Arc::new(Log::new());
    let plugged = make(&log);
    let on = on.into();
    let flown = on.fly(&log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        if let On::Pressed(seed) = on {
            kernel.press(seed);
        }
        let (worker, bell) = (kernel.clone(), kernel.bell());
        host.serve("system", bell, move |at| worker.work(at));
        let adapter = kernel.add_adapter(at, plugged).map_err(|why| format!("{why:?}"))?;
        kernel.attend(host, adapter);
        let wing = Wing { kernel, adapter, host: host.clone() };
        story(&wing, at)?;
        wing.kernel.validate()?;
        wing.kernel.remove_adapter(at, adapter);
        wing.host.quiet(at);
        let left = wing.kernel.census();
        if left.count() == 0 { Ok(()) } else { Err(format!("left alive:\n{left}")) }
    });
    flown.map_err(|why| why.0)??;
    let events = log.take();
    all_gone(&events)?;
    Ok(events)
}

/// A census lists what its owners still know. This is what the events say: whatever came, went.
fn all_gone(events: &[Event]) -> Result<(), String> {
    const LIVES: [(&str, &str); 9] = [
        ("device.created", "device.destroyed"),
        ("context.created", "context.destroyed"),
        ("resource.created", "resource.gone"),
        ("resource-view.opened", "resource-view.closed"),
        ("allocation.created", "allocation.gone"),
        ("view.opened", "view.closed"),
        ("context-allocation.created", "context-allocation.gone"),
        ("keyed.created", "keyed.gone"),
        ("instance.made", "instance.gone"),
    ];
    let count = |name: &str| events.iter().filter(|it| it.what.name() == name).count();
    match LIVES.iter().find(|(came, went)| count(came) != count(went)) {
        None => Ok(()),
        Some((came, went)) => Err(format!("{} {came}, {} {went}", count(came), count(went))),
    }
}

/// The built-in driver.
pub fn softgpu(log: &Arc<Log>) -> Plugged {
    let (miniport, machine) = softgpu::SoftGpu::new();
    Plugged { miniport, machine, pool: nt::Pool::new(log.clone()) }
}

/// What the verifier says of events.
pub fn verified(events: &[Event]) -> Verifier {
    let mut verifier = Verifier::new();
    for event in events {
        verifier.observe(event);
    }
    verifier
}
