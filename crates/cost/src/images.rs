//! The cost of drivers from images: calls into an image and out of it, loading, and the time until
//! the first call.
//!
//! The images are the C drivers of this project. They are not part of the program: without them the
//! table is left out.

use crate::clock::{Span, timed};
use crate::fixture::log;
use crate::image_calls::ImportLoops;
use crate::memory::nanoseconds_each;
use crate::row_kinds::Watch;
use crate::{BenchSize, MeasureError, image_guards, image_start};
use flight::{DeterministicHost, HardwareModel, Host, InterruptLine, Log, Passive, Spawner};
use kernel::miniport::Miniport;
use kernel::{DriverSetup, Kernel};
use port::{Hardware, LoadContext, Registered};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

/// The goal: nanoseconds that hosting adds to a call of a table.
const ADDED: f64 = 60.0;

/// The goal: nanoseconds from the start of the command to the first DDI.
const FIRST_DDI: f64 = 50e6;

/// Calls are short, so that a turn has more of them.
const MORE: usize = 10;

const DDI: &str = "a DDI of an image called";
const IMPORT: &str = "an import called by an image";
const POOL_BLOCK: &str = "a pool block allocated and freed by an image";
const IRQL: &str = "the IRQL read by an image";
const LOAD: &str = "an image loaded";
const COMMAND: &str = "command to the first DDI of an image";
const GUARD_FULL: &str = "a check of an image, every pool block guarded";
const GUARD_SAMPLED: &str = "a check of an image, one pool block of eight guarded";

/// A row of the table of images.
#[derive(Clone, Debug)]
pub struct ImageRow {
    /// What was measured.
    pub what: &'static str,
    /// Nanoseconds.
    pub time: f64,
    /// Nanoseconds of the same without an image, or without guards, if there is such a thing.
    pub beside: Option<f64>,
    /// The goal in nanoseconds: for what is added, or without a comparison for the time.
    pub wanted: Option<f64>,
    /// The unit in which the row is printed.
    pub unit: TimeUnit,
}

impl ImageRow {
    /// What the image adds, in nanoseconds.
    pub fn added(&self) -> Option<f64> {
        self.beside.map(|beside| self.time - beside)
    }

    /// How many times as long as `beside` it takes.
    pub fn times(&self) -> Option<f64> {
        self.beside.map(|beside| self.time / beside)
    }

    /// Whether the goal is met; `None` without a goal.
    pub fn met(&self) -> Option<bool> {
        self.wanted.map(|wanted| self.added().unwrap_or(self.time) <= wanted)
    }
}

/// The unit in which a time is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
}

impl TimeUnit {
    /// A number of nanoseconds, in this unit.
    pub(crate) fn text(self, nanoseconds: f64) -> String {
        match self {
            Self::Nanoseconds => format!("{nanoseconds:.0} ns"),
            Self::Microseconds => format!("{:.0} us", nanoseconds / 1e3),
            Self::Milliseconds => format!("{:.0} ms", nanoseconds / 1e6),
        }
    }
}

/// The folder with the built C drivers.
pub(crate) struct DriverFolder(PathBuf);

impl DriverFolder {
    /// What is needed if there is none.
    pub(crate) const MISSING: &str =
        "the C drivers in target/drivers: build them with 'cargo xtask drivers'";

    /// Finds the folder `drivers` beside the folder of this program, or above it.
    pub(crate) fn find() -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        let folders = program.ancestors().map(|folder| Self(folder.join("drivers")));
        let is_complete = |folder: &Self| folder.compute().is_file() && folder.imports().is_file();
        folders.into_iter().find(is_complete)
    }

    /// The compute-only driver.
    pub(crate) fn compute(&self) -> PathBuf {
        self.0.join("compute.sys")
    }

    /// The driver that calls imports in loops.
    pub(crate) fn imports(&self) -> PathBuf {
        self.0.join("imports.sys")
    }
}

/// Whether a row of the table is selected.
pub(crate) fn is_selected(extent: &BenchSize) -> bool {
    let rows = [DDI, IMPORT, POOL_BLOCK, IRQL, LOAD, COMMAND, GUARD_FULL, GUARD_SAMPLED];
    rows.iter().any(|what| extent.asks(what))
}

/// Measures the table.
pub(crate) fn measure(
    extent: &BenchSize,
    folder: &DriverFolder,
    said: &mut dyn FnMut(&ImageRow),
) -> Result<Vec<ImageRow>, MeasureError> {
    let mut rows = Vec::new();
    let mut say = |row: ImageRow| {
        said(&row);
        rows.push(row);
    };
    let calls = BenchSize { pairs: extent.pairs * MORE, ..extent.clone() };
    let unit = TimeUnit::Nanoseconds;
    if extent.asks(DDI) {
        // Before an image is loaded: from then on, each call of a table is one of a host, too.
        let beside = Some(ddi_of_table(&calls)?);
        let time = ddi_of_image(&calls, folder)?;
        say(ImageRow { what: DDI, time, beside, wanted: Some(ADDED), unit });
    }
    if extent.asks(LOAD) {
        let time = image_start::load(extent, folder)?;
        let unit = TimeUnit::Microseconds;
        say(ImageRow { what: LOAD, time, beside: None, wanted: None, unit });
    }
    if extent.asks(COMMAND) {
        let time = image_start::command_to_first_ddi(extent, folder)?;
        let (wanted, unit) = (Some(FIRST_DDI), TimeUnit::Milliseconds);
        say(ImageRow { what: COMMAND, time, beside: None, wanted, unit });
    }
    if extent.asks(GUARD_FULL) || extent.asks(GUARD_SAMPLED) {
        let [full, sampled, off] = image_guards::checks(extent, folder)?;
        // The goal: guarding every block does not make a check take more than twice as long.
        for (what, time, wanted) in [(GUARD_FULL, full, Some(off)), (GUARD_SAMPLED, sampled, None)]
        {
            let (beside, unit) = (Some(off), TimeUnit::Milliseconds);
            say(ImageRow { what, time, beside, wanted, unit });
        }
    }
    // After the command, which would inherit the shared memory for faults in this process.
    for (what, import) in
        [(IMPORT, ImportLoops::TIME), (POOL_BLOCK, ImportLoops::POOL), (IRQL, ImportLoops::IRQL)]
    {
        if extent.asks(what) {
            let (time, beside) = ImportLoops::loaded(folder)?.measure(&calls, import)?;
            say(ImageRow { what, time, beside: Some(beside), wanted: None, unit });
        }
    }
    Ok(rows)
}

/// A call of the driver with a table in this program.
fn ddi_of_table(extent: &BenchSize) -> Result<f64, MeasureError> {
    let listed = drivers::find("table");
    let listed = listed.ok_or(MeasureError("a driver with a table".to_owned()))?;
    fly(|host, at, log| ddi(extent, (host, at, log), (listed.make)(log)))
}

/// A call of an image.
fn ddi_of_image(extent: &BenchSize, folder: &DriverFolder) -> Result<f64, MeasureError> {
    /// The memory of the machine.
    const MEMORY: u64 = 256 << 20;
    let path = folder.compute();
    let module = drivers::load_driver(&path, &read(&path)?)
        .map_err(|why| MeasureError(format!("{}, which {why}", path.display())))?;
    let ram = nt::Ram::new(MEMORY);
    let ram = ram.map_err(|why| MeasureError(format!("memory for the machine: {why}")))?;
    fly(|host, at, log| {
        let any_host: Arc<dyn Host> = host.clone();
        let pool = nt::Pool::new(log.clone());
        let context = LoadContext {
            host: &any_host,
            log,
            pool: &pool,
            hardware: Hardware { memory: None, config: vec![0; 256], ram: Some(ram.clone()) },
            service: "compute",
            files: None,
        };
        let registered = drivers::run_driver_entry(module, context);
        let miniport = match registered.map_err(|why| MeasureError(why.to_string()))? {
            Registered::Display(miniport) => miniport,
            Registered::Stream(_) => return Err(MeasureError("a display driver".to_owned())),
        };
        let setup = DriverSetup { miniport, hardware: Arc::new(NoDevice { ram }), pool };
        ddi(extent, (host, at, log), setup)
    })
}

/// Flies on the deterministic host, with checks off.
pub(crate) fn fly<T: Send>(
    body: impl FnOnce(&Arc<dyn Spawner>, &mut Passive, &Arc<Log>) -> Result<T, MeasureError> + Send,
) -> Result<T, MeasureError> {
    let log = log(Watch::Off);
    let flown = DeterministicHost::fly(0, &log, |host, at| {
        let host: Arc<dyn Spawner> = host.clone();
        body(&host, at, &log)
    });
    flown.map_err(|reason| MeasureError(format!("a flight to end: {reason:?}")))?
}

/// Calls `DxgkDdiQueryDependentEngineGroup` of a started driver: every driver of the table shifts a
/// bit, so that the time is that of the call.
fn ddi(
    extent: &BenchSize,
    (host, at, log): (&Arc<dyn Spawner>, &mut Passive, &Arc<Log>),
    setup: DriverSetup,
) -> Result<f64, MeasureError> {
    let driver = setup.miniport.clone();
    let kernel = Kernel::new(host.clone(), log.clone());
    let adapter = kernel
        .add_adapter(at, setup)
        .map_err(|reason| MeasureError(format!("a driver that starts: {}", reason.entry)))?;
    // A listed driver is a wrapper around its table.
    let miniport: &dyn Miniport = driver.delegate().unwrap_or(&*driver);
    let mut turns = Vec::new();
    for _ in 0..extent.turns {
        let turn = timed(|| {
            for _ in 0..extent.pairs {
                let group = miniport.query_dependent_engine_group(at, black_box(1));
                if group != Ok(1 << 1) {
                    return Err(MeasureError(format!("the group of node 1; it is {group:?}")));
                }
            }
            Ok(())
        });
        turns.push(turn.map(Span::duration)?);
    }
    kernel.remove_adapter(at, adapter);
    Ok(nanoseconds_each(turns, extent.pairs))
}

/// Reads a file.
pub(crate) fn read(path: &std::path::Path) -> Result<Vec<u8>, MeasureError> {
    std::fs::read(path).map_err(|why| MeasureError(format!("{}: {why}", path.display())))
}

/// A machine with memory, and no device behind the adapter.
struct NoDevice {
    ram: Arc<nt::Ram>,
}

impl HardwareModel for NoDevice {
    fn idle(&self) -> bool {
        true
    }

    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}

    fn ram(&self) -> Option<Arc<dyn flight::Ram>> {
        Some(self.ram.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_for_what_is_added_or_for_the_time() {
        let unit = TimeUnit::Nanoseconds;
        let row = |beside, wanted| ImageRow { what: "it", time: 150.0, beside, wanted, unit };
        assert_eq!(row(Some(100.0), Some(50.0)).met(), Some(true));
        assert_eq!((row(Some(100.0), None).times(), row(None, None).times()), (Some(1.5), None));
        assert_eq!(row(Some(99.0), Some(50.0)).met(), Some(false));
        assert_eq!(row(None, Some(149.0)).met(), Some(false));
        assert_eq!((row(None, None).met(), row(None, None).added()), (None, None));
    }

    #[test]
    fn a_time_is_printed_in_its_unit() {
        assert_eq!(TimeUnit::Nanoseconds.text(41.6), "42 ns");
        assert_eq!(TimeUnit::Microseconds.text(41_600.0), "42 us");
        assert_eq!(TimeUnit::Milliseconds.text(50e6), "50 ms");
    }
}
