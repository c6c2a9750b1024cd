//! A driver fails once, at each of its calls in turn, and everything is destroyed nevertheless.
//!
//! It panics or fails, before it did anything or after it did everything. Only the driver may be
//! blamed for that: the kernel continues correctly.

use drivers::Listed;
use flight::{Component, DeviceLevel, Dispatch, Log, Passive};
use harness::good_scenarios;
use kernel::DriverSetup;
use kernel::callbacks::KernelCallbacks;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CreateAllocationArgs, CreateContextArgs, DestroyAllocationArgs, Drain, DriverContext,
    DriverDevice, DriverError, DriverResource, DriverResult, DriverView, Features, Generation,
    HandleSlot, Miniport, OpenAllocationArgs, StandardAllocationArgs, SubmitCommandVirtualArgs,
};
use kernel::power::SetPowerArgs;
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use windtunnel::{Scenario, fly};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    PanicsBefore,
    PanicsAfter,
    RefusesBefore,
    RefusesAfter,
}

const FAULTS: [Fault; 4] =
    [Fault::PanicsBefore, Fault::PanicsAfter, Fault::RefusesBefore, Fault::RefusesAfter];

/// No scenario has more calls; a scenario that does not end is detected.
const MOST_CALLS: u64 = 2000;

/// A good driver whose `nth` call fails.
struct Faulty {
    good: Arc<dyn Miniport>,
    fault: Fault,
    nth: u64,
    calls: Arc<AtomicU64>,
}

impl Faulty {
    fn call<T>(&self, body: impl FnOnce(&dyn Miniport) -> DriverResult<T>) -> DriverResult<T> {
        let fault = (self.calls.fetch_add(1, SeqCst) + 1 == self.nth).then_some(self.fault);
        let answer = match fault {
            Some(Fault::PanicsBefore) => unwind(),
            Some(Fault::RefusesBefore) => return Err(DriverError::NoMemory),
            _ => body(&*self.good),
        };
        match fault {
            Some(Fault::PanicsAfter) => unwind(),
            Some(Fault::RefusesAfter) => Err(DriverError::NoMemory),
            _ => answer,
        }
    }
}

/// A panic that prints nothing, because there are thousands.
fn unwind() -> ! {
    resume_unwind(Box::new("on purpose"))
}

/// The calls of a driver, each of which may fail.
macro_rules! calls {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Miniport for Faulty {
            fn generation(&self) -> Generation {
                self.good.generation()
            }
            fn entry_points(&self) -> Vec<&'static str> {
                self.good.entry_points()
            }
            $(fn $name(&self, $($arg: $type),*) -> DriverResult<$answer> {
                self.call(|good| good.$name($($arg),*))
            })*
        }
    };
}

calls! {
    add_device(at: &mut Passive, services: &Arc<KernelCallbacks>) -> ();
    start_device(at: &mut Passive) -> ();
    query_adapter_info(at: &mut Passive) -> Features;
    stop_device(at: &mut Passive) -> ();
    remove_device(at: &mut Passive) -> ();
    unload(at: &mut Passive) -> ();
    set_power_state(at: &mut Passive, args: SetPowerArgs) -> ();
    notify_surprise_removal(at: &mut Passive) -> ();
    stop_device_and_release_post_display_ownership(at: &mut Passive, target: u32) -> ();
    reset_device(at: &mut DeviceLevel) -> ();
    create_device(at: &mut Passive, slot: HandleSlot<'_, Device>) -> DriverDevice;
    destroy_device(at: &mut Passive, device: DriverDevice) -> ();
    create_context(
        at: &mut Passive, device: &DriverDevice, args: &CreateContextArgs, slot: HandleSlot<'_, Context>
    ) -> (DriverContext, u32);
    destroy_context(at: &mut Passive, context: DriverContext) -> ();
    get_standard_allocation_driver_data(at: &mut Passive, standard: &mut StandardAllocationArgs) -> ();
    create_allocations(at: &mut Passive, births: &mut CreateAllocationArgs<'_>) -> Option<DriverResource>;
    destroy_allocations(at: &mut Passive, doomed: DestroyAllocationArgs<'_>) -> Option<DriverResource>;
    open_allocations(at: &mut Passive, opening: &mut OpenAllocationArgs<'_>) -> ();
    close_allocations(
        at: &mut Passive, device: &DriverDevice, views: Drain<'_, DriverView>
    ) -> ();
    submit_command_virtual(at: &mut Dispatch, packet: &SubmitCommandVirtualArgs<'_>) -> ();
    interrupt_routine(at: &mut DeviceLevel) -> bool;
    dpc_routine(at: &mut Dispatch) -> ();
}

thread_local! {
    /// The configuration of the next driver on this thread: `Listed::make` has no argument for it.
    static NEXT: Cell<(&'static str, Fault, u64)> =
        const { Cell::new(("softgpu", Fault::PanicsBefore, 0)) };
    /// The calls of the last driver.
    static CALLS: RefCell<Arc<AtomicU64>> = RefCell::default();
}

fn make(log: &Arc<Log>) -> DriverSetup {
    let (name, fault, nth) = NEXT.get();
    let good = (drivers::find(name).expect("a good driver").make)(log);
    let calls = Arc::new(AtomicU64::new(0));
    CALLS.replace(calls.clone());
    let miniport = Arc::new(Faulty { good: good.miniport, fault, nth, calls });
    DriverSetup { miniport, ..good }
}

/// Flies the driver with a failure at its `nth` call. Returns whether there was such a call.
fn fly_with(driver: &'static str, scenario: &'static Scenario, fault: Fault, nth: u64) -> bool {
    let which = format!("{driver} {fault:?} at call {nth} of '{}'", scenario.name);
    NEXT.set((driver, fault, nth));
    let listed = Listed { name: "faulty", about: "fails once", breaks: &[], make, umd: None };
    // One seed is enough: up to the failure a flight repeats, so no call is omitted.
    let flown = fly(&listed, scenario, 1).unwrap_or_else(|why| panic!("{which}: {}", why.0));
    assert_eq!(flown.live.count(), 0, "{which}: {}", flown.live);
    for finding in &flown.findings {
        assert_eq!(finding.component, Component::Driver, "{which}: {}", finding.message);
    }
    CALLS.with_borrow(|atomic_u64| atomic_u64.load(SeqCst)) >= nth
}

/// Every call of every good scenario fails. Each call fails in two of the four ways, and in the
/// next scenario in the other two.
fn fails_everywhere(driver: &'static str) {
    for (place, scenario) in good_scenarios(driver).into_iter().enumerate() {
        for (way, fault) in FAULTS.into_iter().enumerate() {
            let calls = (1..=MOST_CALLS).filter(|nth| (place + way) as u64 % 2 == nth % 2);
            let flown = calls.take_while(|nth| fly_with(driver, scenario, fault, *nth)).count();
            assert!(flown > 0, "{} has calls", scenario.name);
            assert!((flown as u64) < MOST_CALLS / 2, "{} ends", scenario.name);
        }
    }
}

#[test]
fn the_built_in_driver_fails_at_any_call_and_everything_ends() {
    fails_everywhere("softgpu");
}

#[test]
fn a_driver_with_a_table_fails_at_any_call_and_everything_ends() {
    fails_everywhere("table");
}
