//! Calls out of an image: loops over imports, compared with the same functions called from Rust.
#![expect(unsafe_code, reason = "runs code of an image")]

use crate::clock::{Span, timed};
use crate::images::{DriverFolder, fly, read};
use crate::memory::nanoseconds_each;
use crate::{BenchSize, MeasureError};
use abi::status::STATUS_SUCCESS;
use flight::Host;
use nt::image::{Channel, Module};
use nt::ke_time::KeQueryTimeIncrement;
use nt::{ExAllocatePool2, ExFreePoolWithTag, KeGetCurrentIrql, POOL_FLAG_NON_PAGED, processor};
use std::hint::black_box;
use std::sync::{Arc, OnceLock};

/// The size of a pool block, as in the driver.
const BLOCK_SIZE: usize = 64;

/// Its tag.
const BLOCK_TAG: u32 = u32::from_le_bytes(*b"Cost");

/// A loop of the driver `imports`, by its number, and the body of the same loop in Rust.
#[derive(Clone, Copy)]
pub(crate) struct ImportLoop {
    number: usize,
    direct: fn(),
}

/// The driver `imports`.
pub(crate) struct ImportLoops(&'static Module);

impl ImportLoops {
    /// A function that does nothing.
    pub(crate) const TIME: ImportLoop = ImportLoop {
        number: 1,
        direct: || {
            black_box(KeQueryTimeIncrement());
        },
    };

    /// A block of pool allocated and freed.
    pub(crate) const POOL: ImportLoop = ImportLoop {
        number: 2,
        direct: || {
            // SAFETY: The flags and the tag are valid.
            let block = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, BLOCK_SIZE, BLOCK_TAG) };
            // SAFETY: The block was allocated with this tag, and is not used any more.
            unsafe { ExFreePoolWithTag(black_box(block), BLOCK_TAG) };
        },
    };

    /// The IRQL, which an image reads from CR8 without a call.
    pub(crate) const IRQL: ImportLoop = ImportLoop {
        number: 3,
        direct: || {
            black_box(KeGetCurrentIrql());
        },
    };

    /// The loaded driver. Loads it the first time; privileged instructions are emulated from then
    /// on.
    pub(crate) fn loaded(folder: &DriverFolder) -> Result<&'static Self, MeasureError> {
        static LOADED: OnceLock<ImportLoops> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded);
        }
        let loaded = Self::load(folder)?;
        Ok(LOADED.get_or_init(|| loaded))
    }

    fn load(folder: &DriverFolder) -> Result<Self, MeasureError> {
        let path = folder.imports();
        let module = drivers::load_driver(&path, &read(&path)?)
            .map_err(|why| MeasureError(format!("{}, which {why}", path.display())))?;
        let channel = Channel::create();
        channel
            .map_err(|why| MeasureError(format!("memory for the record of a fault: {why}")))?
            .contain_faults();
        nt::image::finish(); // The exit of the benchmark is no finding.
        Ok(Self(module))
    }

    /// Nanoseconds of one iteration, in the image and directly.
    pub(crate) fn measure(
        &self,
        extent: &BenchSize,
        import: ImportLoop,
    ) -> Result<(f64, f64), MeasureError> {
        fly(|host, _at, log| {
            let host: Arc<dyn Host> = host.clone();
            let pool = nt::Pool::new(log.clone());
            let in_image = || {
                // SAFETY: The driver takes the number of a loop and a count.
                match unsafe { self.0.call_entry(import.number, extent.pairs) } {
                    STATUS_SUCCESS => Ok(()),
                    status => {
                        Err(MeasureError(format!("a loop that ends; it returned {status:#x}")))
                    }
                }
            };
            let direct = || {
                (0..extent.pairs).for_each(|_| (import.direct)());
                Ok(())
            };
            let turns = || {
                let (mut time, mut beside) = (Vec::new(), Vec::new());
                for _ in 0..extent.turns {
                    beside.push(timed(direct)?.duration());
                    time.push(timed(in_image).map(Span::duration)?);
                }
                Ok((nanoseconds_each(time, extent.pairs), nanoseconds_each(beside, extent.pairs)))
            };
            let (measured, _left) = processor::run_driver(&host, log, || pool.run_driver(turns));
            measured
        })
    }
}
