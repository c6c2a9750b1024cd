//! The funnel requires the permit that the row declares.

use super::*;
use crate::ddi::miniport::DriverError;
use flight::{DeterministicHost, InternalError, InterruptLine, Slab};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A driver that implements nothing but a reset.
struct ResetOnly;

impl Miniport for ResetOnly {
    fn reset_from_timeout(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }
}

struct NoHardware;

impl HardwareModel for NoHardware {
    fn idle(&self) -> bool {
        true
    }
    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}
}

struct NoMemory;

impl Pool for NoMemory {
    fn allocate_pool(&self, _bytes: usize, _tag: u32) -> Option<usize> {
        None
    }
    fn free(&self, _block: usize, _tag: u32) {}
    fn refers_to(&self, _block: usize, _word: usize) -> bool {
        false
    }
    fn inspect(&self, _call: &'static str) {}
    fn close(&self) {}
}

/// The id that the `number`th adapter has.
fn adapter(number: u32) -> Id<Adapter> {
    let mut adapters = Slab::default();
    (0..number).map(|_| adapters.reserve()).last().unwrap()
}

fn driver(kernel: &Arc<Kernel>, adapter: Id<Adapter>) -> Driver {
    let (host, log) = (kernel.host.clone(), kernel.log.clone());
    let pool: Arc<dyn Pool> = Arc::new(NoMemory);
    let services = Arc::new(KernelCallbacks {
        kernel: Arc::downgrade(kernel),
        adapter,
        host: host.clone(),
        log: log.clone(),
        pool: pool.clone(),
    });
    Driver {
        miniport: Arc::new(ResetOnly),
        hardware: Arc::new(NoHardware),
        pool,
        callbacks: services,
        work_available: WaitToken::new("work"),
        generation: Generation::Two,
        kernel: Arc::downgrade(kernel),
        host,
        log,
        adapter,
        surprise_removed: Once::new(),
    }
}

/// Calls the driver of adapter 1 under a permit, and returns the invariant that broke.
fn call<T>(
    (number, held): (u32, ThreadingLevel),
    body: impl FnOnce(&Driver, &mut Passive, &DdiPermit<'_>) -> T,
) -> Result<T, String> {
    let log = Arc::new(Log::new());
    let flown = DeterministicHost::fly(1, &log.clone(), |host, at| {
        let kernel = Kernel::new(host.clone(), log);
        let permit =
            kernel.acquire_permit(at, held.keys(adapter(number), Generation::Two, None)).unwrap();
        let driver = driver(&kernel, adapter(1));
        let result = catch_unwind(AssertUnwindSafe(|| body(&driver, at, &permit)));
        result.map_err(|panic| panic.downcast::<InternalError>().unwrap().invariant().to_owned())
    });
    flown.unwrap()
}

#[test]
fn the_permit_of_the_row_is_taken() {
    assert_eq!(call((1, ThreadingLevel::Three), Driver::reset_from_timeout), Ok(Ok(())));
    let missing = call((1, ThreadingLevel::OneScheduler), |driver, at, permit| {
        driver.query_engine_status(at, permit, 0)
    });
    assert_eq!(missing, Ok(Err(DriverError::NoEntryPoint)));
    let serves = call((1, ThreadingLevel::Three), |driver, at, permit| {
        driver.get_root_page_table_size(at, permit, None, 1)
    });
    assert!(matches!(serves, Ok(Err(DriverError::NoEntryPoint))), "level three serves level zero");
}

#[test]
fn a_permit_of_another_threading_level_is_an_internal_error() {
    let said = call((1, ThreadingLevel::Zero), Driver::reset_from_timeout).unwrap_err();
    let want = "invariant broken: DxgkDdiResetFromTimeout is called under a permit of threading \
                level three; the permit held has level zero";
    assert_eq!(said, want);
    let of_scheduler =
        call((1, ThreadingLevel::Zero), |driver, at, permit| driver.reset_engine(at, permit, 0));
    assert!(
        of_scheduler.unwrap_err().starts_with("invariant broken: DxgkDdiResetEngine is called")
    );
    let zero = call((1, ThreadingLevel::OneScheduler), |driver, at, permit| {
        driver.get_standard_allocation_driver_data(
            at,
            permit,
            None,
            &mut miniport::StandardAllocationArgs {
                bytes: 1,
                private: None,
                allocation_size: 0,
                resource_size: 0,
            },
        )
    });
    assert!(zero.is_err(), "the scheduler's permit does not serve level zero");
    let two = call((1, ThreadingLevel::Two), Driver::restart_from_timeout);
    assert!(two.is_err(), "level two does not serve level three");
}

#[test]
fn a_permit_for_another_adapter_is_an_internal_error() {
    let said = call((2, ThreadingLevel::Three), Driver::reset_from_timeout).unwrap_err();
    assert!(said.starts_with("invariant broken: DxgkDdiResetFromTimeout of "), "{said}");
}

#[test]
fn the_permit_says_which_of_two_threading_levels_it_is() {
    let level = |held| {
        call((1, held), |driver, _, permit| ddi::DxgkDdiEscape.class_under(permit, driver.adapter))
    };
    assert_eq!(level(ThreadingLevel::Two), Ok(ThreadingLevel::Two));
    assert_eq!(level(ThreadingLevel::Zero), Ok(ThreadingLevel::Zero));
    assert!(level(ThreadingLevel::OneScheduler).is_err());
}

#[test]
fn only_a_row_without_a_threading_level_needs_no_permit() {
    let planted = catch_unwind(|| ddi::DxgkDdiResetFromTimeout.class_without_permit());
    assert!(planted.unwrap_err().is::<InternalError>());
    assert_eq!(ddi::DxgkDdiDpcRoutine.class_without_permit(), ThreadingLevel::None);
}
