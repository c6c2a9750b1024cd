//! What the Direct3D runtime adds to the thunks: the same calls, by a user-mode driver that calls
//! back and by a client, in turns.

use crate::clock::{Span, timed};
use crate::kinds::Watch;
use crate::memory::each;
use crate::meter::{self, PRIVATE};
use crate::pager::Fitted;
use crate::station::Station;
use crate::{Extent, NotMeasured, wanted};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::Passive;
use runtime::{Device, Rect, Resource, Runtime, Surface, Surfaces};
use thunk::{Create, Destroy, Names};

/// How many nanoseconds the runtime may add to a call.
const ADDED: f64 = 50.0;

/// A line of the table of user-mode drivers.
#[derive(Clone, Debug)]
pub struct ThroughRow {
    /// What was measured.
    pub what: &'static str,
    /// How many calls of the thunks that is.
    pub calls: u32,
    /// Nanoseconds, through the thunks alone.
    pub thunk: f64,
    /// Nanoseconds, through the runtime and a driver.
    pub runtime: f64,
    /// How many nanoseconds a call may take longer.
    pub wanted: Option<f64>,
}

impl ThroughRow {
    /// What the runtime adds to each call, in nanoseconds.
    pub fn added(&self) -> f64 {
        (self.runtime - self.thunk) / f64::from(self.calls)
    }

    /// Whether that is as it should be; `None` without a goal.
    pub fn met(&self) -> Option<bool> {
        self.wanted.map(|it| self.added() <= it)
    }
}

/// What a row does, so many times: through the thunks, or through the runtime.
struct Kind {
    what: &'static str,
    calls: u32,
    wanted: Option<f64>,
    /// On an adapter with memory.
    memory: bool,
    thunk: fn(&Bench, &Station, &mut Passive, usize) -> Result<(), NotMeasured>,
    runtime: fn(&Bench, &Station, &mut Passive, usize) -> Result<(), NotMeasured>,
}

const KINDS: [Kind; 3] = [
    Kind {
        what: "an allocation made and freed by a user-mode driver",
        calls: 2,
        wanted: Some(ADDED),
        memory: false,
        thunk: pairs,
        runtime: Bench::pairs_through,
    },
    Kind {
        what: "residency asked for by a user-mode driver",
        calls: 1,
        wanted: Some(ADDED),
        memory: true,
        thunk: Bench::asks,
        runtime: Bench::asks_through,
    },
    Kind {
        what: "a resource made, filled, flushed and destroyed by an application",
        calls: 3,
        wanted: None,
        memory: false,
        thunk: Bench::lives,
        runtime: Bench::lives_through,
    },
];

/// Measures the table.
pub(crate) fn measure(
    extent: &Extent,
    said: &mut dyn FnMut(&ThroughRow),
) -> Result<Vec<ThroughRow>, NotMeasured> {
    let mut rows = Vec::new();
    for kind in KINDS.iter().filter(|it| extent.asks(it.what)) {
        let fitted = if kind.memory { Some(fitted()?) } else { None };
        let (thunk, runtime) = Station::fly(Watch::Nobody, fitted, |station, at| {
            let bench = Bench::open(station, at)?;
            let mut turn = |body: fn(&Bench, &Station, &mut Passive, usize) -> _| {
                timed(|| body(&bench, station, at, extent.pairs)).map(Span::took)
            };
            // Not counted: buffers grow.
            let _ = (turn(kind.thunk)?, turn(kind.runtime)?);
            let (mut thunk, mut runtime) = (Vec::new(), Vec::new());
            for _ in 0..extent.turns {
                thunk.push(turn(kind.thunk)?);
                runtime.push(turn(kind.runtime)?);
            }
            bench.close(at)?;
            Ok((each(thunk, extent.pairs), each(runtime, extent.pairs)))
        })?;
        let Kind { what, calls, wanted, .. } = *kind;
        let row = ThroughRow { what, calls, thunk, runtime, wanted };
        said(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// As many pairs of a driver that calls back as asked for, to be counted.
pub(crate) fn counted(watch: Watch, count: usize) -> Result<(), NotMeasured> {
    Station::fly(watch, None, |station, at| {
        let bench = Bench::open(station, at)?;
        bench.pairs_through(station, at, count)?;
        // What is drawn with is submitted before it goes: a watched run is clean.
        bench.pairs_through(station, at, 0)?;
        done("pfnFlush", bench.device.flush(at))?;
        station.serve(at);
        bench.close(at)
    })
}

/// As little memory as there can be.
fn fitted() -> Result<Fitted, NotMeasured> {
    let ram = nt::Ram::new(16 << 20);
    let ram = ram.map_err(|why| NotMeasured(format!("memory for the machine: {why}")))?;
    Ok(Fitted { ram, bytes: 1 << 20, pages: 1, tables: None })
}

/// An application beside a client: both have a device.
struct Bench {
    device: Device,
    resource: Resource,
    context: D3DKMT_HANDLE,
    allocation: D3DKMT_HANDLE,
    adapter: runtime::Adapter,
}

const SMALL: Surface = Surface { width: 32, height: 32 };

impl Bench {
    fn open(station: &Station, at: &mut Passive) -> Result<Self, NotMeasured> {
        let runtime = Runtime::new(&station.kernel);
        let adapter = runtime.open(&station.client, station.adapter, &meter::umd());
        let adapter = adapter.map_err(|it| NotMeasured(format!("a driver: {}", it.why)))?;
        let device = done("pfnCreateDevice", adapter.create_device(at))?;
        let resource = done("pfnCreateResource", device.create_resource(at, &texture()))?;
        let (context, allocation) = (station.context(at)?, station.allocation(at)?);
        Ok(Self { device, resource, context, allocation, adapter })
    }

    fn close(&self, at: &mut Passive) -> Result<(), NotMeasured> {
        done("pfnDestroyResource", self.device.destroy_resource(at, self.resource))?;
        done("pfnDestroyDevice", self.device.destroy(at))?;
        done("pfnCloseAdapter", self.adapter.close())
    }

    fn pairs_through(
        &self,
        _station: &Station,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), NotMeasured> {
        let (place, whole) = ((self.resource, 0), Rect::of(SMALL));
        done("pfnColorFill", self.device.color_fill(at, place, whole, number(count)))
    }

    fn asks(&self, station: &Station, at: &mut Passive, count: usize) -> Result<(), NotMeasured> {
        for _ in 0..count {
            let names = Names::of(station.device, std::slice::from_ref(&self.allocation));
            wanted("D3DKMTQueryAllocationResidency", station.client.residency(at, names))?;
        }
        Ok(())
    }

    fn asks_through(
        &self,
        _station: &Station,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), NotMeasured> {
        done("pfnSetPriority", self.device.set_priority(at, self.resource, number(count)))
    }

    /// Made, used by a packet, destroyed, and everything done.
    fn lives(&self, station: &Station, at: &mut Passive, count: usize) -> Result<(), NotMeasured> {
        for _ in 0..count {
            let order = Create::on(station.device, vec![vec![0xa5; PRIVATE]]).with_resource();
            let made = wanted("D3DKMTCreateAllocation", station.client.create(at, &order))?;
            let packet = station.client.submit(at, self.context, &[0xa5; PRIVATE]);
            wanted("D3DKMTSubmitCommand", packet)?;
            let (device, resource) = (station.device, made.resource);
            let destroy = Destroy { device, resource, ..Destroy::default() };
            wanted("D3DKMTDestroyAllocation2", station.client.destroy(at, &destroy))?;
            station.serve(at);
        }
        Ok(())
    }

    fn lives_through(
        &self,
        station: &Station,
        at: &mut Passive,
        count: usize,
    ) -> Result<(), NotMeasured> {
        let wanted = texture();
        for _ in 0..count {
            let made = done("pfnCreateResource", self.device.create_resource(at, &wanted))?;
            let filled = self.device.color_fill(at, (made, 0), Rect::of(SMALL), 0);
            done("pfnColorFill", filled)?;
            done("pfnFlush", self.device.flush(at))?;
            done("pfnDestroyResource", self.device.destroy_resource(at, made))?;
            station.serve(at);
        }
        Ok(())
    }
}

fn pairs(
    _bench: &Bench,
    station: &Station,
    at: &mut Passive,
    count: usize,
) -> Result<(), NotMeasured> {
    let (client, device) = (&station.client, station.device);
    for _ in 0..count {
        let order = Create::on(device, vec![vec![0xa5; PRIVATE]]);
        let made = wanted("D3DKMTCreateAllocation", client.create(at, &order))?;
        let destroy = Destroy { device, list: made.allocations, ..Destroy::default() };
        wanted("D3DKMTDestroyAllocation2", client.destroy(at, &destroy))?;
    }
    Ok(())
}

fn texture() -> Surfaces {
    Surfaces::texture(SMALL.width, SMALL.height)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A call of an application that has to succeed.
fn done<T>(call: &str, answer: Result<T, HRESULT>) -> Result<T, NotMeasured> {
    answer.map_err(|result| NotMeasured(format!("{call} to succeed; it answered {result:#x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_of_each_call() {
        let row =
            |wanted| ThroughRow { what: "it", calls: 2, thunk: 1000.0, runtime: 1090.0, wanted };
        assert_eq!((row(Some(50.0)).added(), row(Some(50.0)).met()), (45.0, Some(true)));
        assert_eq!((row(Some(40.0)).met(), row(None).met()), (Some(false), None));
    }
}
