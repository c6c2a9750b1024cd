//! The overhead of the Direct3D runtime: the same calls by a user-mode driver through callbacks
//! and by a client, in turns.

use crate::clock::{Span, timed};
use crate::memory::nanoseconds_each;
use crate::metered_umd::{self, PRIVATE};
use crate::paging_driver::AdapterConfig;
use crate::row_kinds::Watch;
use crate::work_fixture::WorkFixture;
use crate::{BenchSize, MeasureError, wanted};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::Passive;
use runtime::{Device, Rect, Resource, ResourceDescription, Runtime, Surface};
use thunk::{AllocationSelection, CreateAllocation, DestroyAllocation};

/// The goal: nanoseconds that the runtime adds to a call.
const ADDED: f64 = 50.0;

/// A row of the table of user-mode drivers.
#[derive(Clone, Debug)]
pub struct UmdRow {
    /// What was measured.
    pub what: &'static str,
    /// The number of thunk calls.
    pub calls: u32,
    /// Nanoseconds, through the thunks alone.
    pub thunk: f64,
    /// Nanoseconds, through the runtime and a driver.
    pub runtime: f64,
    /// The goal: added nanoseconds per call.
    pub wanted: Option<f64>,
}

impl UmdRow {
    /// What the runtime adds to each call, in nanoseconds.
    pub fn added(&self) -> f64 {
        (self.runtime - self.thunk) / f64::from(self.calls)
    }

    /// Whether the goal is met; `None` without a goal.
    pub fn met(&self) -> Option<bool> {
        self.wanted.map(|value| self.added() <= value)
    }
}

/// The body of a row, repeated: through the thunks, or through the runtime.
struct Kind {
    what: &'static str,
    calls: u32,
    wanted: Option<f64>,
    /// On an adapter with memory.
    memory: bool,
    thunk: fn(&UmdFixture, &WorkFixture, &mut Passive, usize) -> Result<(), MeasureError>,
    runtime: fn(&UmdFixture, &WorkFixture, &mut Passive, usize) -> Result<(), MeasureError>,
}

const KINDS: [Kind; 3] = [
    Kind {
        what: "an allocation made and freed by a user-mode driver",
        calls: 2,
        wanted: Some(ADDED),
        memory: false,
        thunk: pairs,
        runtime: UmdFixture::pairs_by_runtime,
    },
    Kind {
        what: "residency asked for by a user-mode driver",
        calls: 1,
        wanted: Some(ADDED),
        memory: true,
        thunk: UmdFixture::asks,
        runtime: UmdFixture::queries_by_runtime,
    },
    Kind {
        what: "a resource made, filled, flushed and destroyed by an application",
        calls: 3,
        wanted: None,
        memory: false,
        thunk: UmdFixture::lifecycles_by_thunk,
        runtime: UmdFixture::lifecycles_by_runtime,
    },
];

/// Measures the table.
pub(crate) fn measure(
    extent: &BenchSize,
    said: &mut dyn FnMut(&UmdRow),
) -> Result<Vec<UmdRow>, MeasureError> {
    let mut rows = Vec::new();
    for kind in KINDS.iter().filter(|kind| extent.asks(kind.what)) {
        let fitted = if kind.memory { Some(fitted()?) } else { None };
        let (thunk, runtime) = WorkFixture::fly(Watch::Off, fitted, |fixture, at| {
            let umd_fixture = UmdFixture::open(fixture, at)?;
            let mut turn = |body: fn(&UmdFixture, &WorkFixture, &mut Passive, usize) -> _| {
                timed(|| body(&umd_fixture, fixture, at, extent.pairs)).map(Span::duration)
            };
            // Not measured: buffers grow.
            let _ = (turn(kind.thunk)?, turn(kind.runtime)?);
            let (mut thunk, mut runtime) = (Vec::new(), Vec::new());
            for _ in 0..extent.turns {
                thunk.push(turn(kind.thunk)?);
                runtime.push(turn(kind.runtime)?);
            }
            umd_fixture.close(at)?;
            Ok((nanoseconds_each(thunk, extent.pairs), nanoseconds_each(runtime, extent.pairs)))
        })?;
        let Kind { what, calls, wanted, .. } = *kind;
        let row = UmdRow { what, calls, thunk, runtime, wanted };
        said(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// Runs `count` pairs of a driver that calls back, for instruction counts.
pub(crate) fn counted(watch: Watch, count: usize) -> Result<(), MeasureError> {
    WorkFixture::fly(watch, None, |fixture, at| {
        let umd_fixture = UmdFixture::open(fixture, at)?;
        umd_fixture.pairs_by_runtime(fixture, at, count)?;
        // Submit before the destruction, so that the verifier finds nothing.
        umd_fixture.pairs_by_runtime(fixture, at, 0)?;
        done("pfnFlush", umd_fixture.device.flush(at))?;
        fixture.serve(at);
        umd_fixture.close(at)
    })
}

/// The smallest machine memory.
fn fitted() -> Result<AdapterConfig, MeasureError> {
    let ram = nt::Ram::new(16 << 20);
    let ram = ram.map_err(|why| MeasureError(format!("memory for the machine: {why}")))?;
    Ok(AdapterConfig { ram, bytes: 1 << 20, pages: 1, tables: None })
}

/// An application and a client, each with a device.
struct UmdFixture {
    device: Device,
    resource: Resource,
    context: D3DKMT_HANDLE,
    allocation: D3DKMT_HANDLE,
    adapter: runtime::Adapter,
}

const SMALL: Surface = Surface { width: 32, height: 32 };

impl UmdFixture {
    fn open(fixture: &WorkFixture, at: &mut Passive) -> Result<Self, MeasureError> {
        let runtime = Runtime::new(&fixture.kernel);
        let adapter = runtime.open(&fixture.client, fixture.adapter, &metered_umd::umd());
        let adapter =
            adapter.map_err(|error| MeasureError(format!("a driver: {}", error.reason)))?;
        let device = done("pfnCreateDevice", adapter.create_device(at))?;
        let resource = done("pfnCreateResource", device.create_resource(at, &texture()))?;
        let (context, allocation) = (fixture.context(at)?, fixture.allocation(at)?);
        Ok(Self { device, resource, context, allocation, adapter })
    }

    fn close(&self, at: &mut Passive) -> Result<(), MeasureError> {
        done("pfnDestroyResource", self.device.destroy_resource(at, self.resource))?;
        done("pfnDestroyDevice", self.device.destroy(at))?;
        done("pfnCloseAdapter", self.adapter.close())
    }

    fn pairs_by_runtime(
        &self,
        _station: &WorkFixture,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), MeasureError> {
        let (place, whole) = ((self.resource, 0), Rect::whole(SMALL));
        done("pfnColorFill", self.device.color_fill(at, place, whole, number(count)))
    }

    fn asks(
        &self,
        fixture: &WorkFixture,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), MeasureError> {
        for _ in 0..count {
            let names =
                AllocationSelection::of(fixture.device, std::slice::from_ref(&self.allocation));
            wanted("D3DKMTQueryAllocationResidency", fixture.client.residency(at, names))?;
        }
        Ok(())
    }

    fn queries_by_runtime(
        &self,
        _station: &WorkFixture,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), MeasureError> {
        done("pfnSetPriority", self.device.set_priority(at, self.resource, number(count)))
    }

    /// Creates a resource, uses it in a packet, destroys it, and waits for completion.
    fn lifecycles_by_thunk(
        &self,
        fixture: &WorkFixture,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), MeasureError> {
        for _ in 0..count {
            let request =
                CreateAllocation::new(fixture.device, vec![vec![0xa5; PRIVATE]]).with_resource();
            let made = wanted("D3DKMTCreateAllocation", fixture.client.create(at, &request))?;
            let packet = fixture.client.submit(at, self.context, &[0xa5; PRIVATE]);
            wanted("D3DKMTSubmitCommand", packet)?;
            let (device, resource) = (fixture.device, made.resource);
            let destroy = DestroyAllocation { device, resource, ..DestroyAllocation::default() };
            wanted("D3DKMTDestroyAllocation2", fixture.client.destroy(at, &destroy))?;
            fixture.serve(at);
        }
        Ok(())
    }

    fn lifecycles_by_runtime(
        &self,
        fixture: &WorkFixture,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), MeasureError> {
        let wanted = texture();
        for _ in 0..count {
            let made = done("pfnCreateResource", self.device.create_resource(at, &wanted))?;
            let filled = self.device.color_fill(at, (made, 0), Rect::whole(SMALL), 0);
            done("pfnColorFill", filled)?;
            done("pfnFlush", self.device.flush(at))?;
            done("pfnDestroyResource", self.device.destroy_resource(at, made))?;
            fixture.serve(at);
        }
        Ok(())
    }
}

fn pairs(
    _bench: &UmdFixture,
    fixture: &WorkFixture,
    at: &mut Passive,
    count: usize,
) -> Result<(), MeasureError> {
    let (client, device) = (&fixture.client, fixture.device);
    for _ in 0..count {
        let request = CreateAllocation::new(device, vec![vec![0xa5; PRIVATE]]);
        let made = wanted("D3DKMTCreateAllocation", client.create(at, &request))?;
        let destroy =
            DestroyAllocation { device, list: made.allocations, ..DestroyAllocation::default() };
        wanted("D3DKMTDestroyAllocation2", client.destroy(at, &destroy))?;
    }
    Ok(())
}

fn texture() -> ResourceDescription {
    ResourceDescription::texture(SMALL.width, SMALL.height)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the value of an application's successful call.
fn done<T>(call: &str, answer: Result<T, HRESULT>) -> Result<T, MeasureError> {
    answer.map_err(|result| MeasureError(format!("{call} to succeed; it returned {result:#x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_of_each_call() {
        let row = |wanted| UmdRow { what: "it", calls: 2, thunk: 1000.0, runtime: 1090.0, wanted };
        assert_eq!((row(Some(50.0)).added(), row(Some(50.0)).met()), (45.0, Some(true)));
        assert_eq!((row(Some(40.0)).met(), row(None).met()), (Some(false), None));
    }
}
