//! What a page costs that is mapped at a GPU virtual address and freed again.
//!
//! The driver writes no entry (`pager.rs`): what is left is the two calls, the search for
//! addresses, the entries as the kernel makes them, the paging work and its way back.

use crate::clock::{Span, timed};
use crate::kinds::Watch;
use crate::memory::each;
use crate::pager::{Fitted, PAGE};
use crate::station::Station;
use crate::work::{WorkRow, rows};
use crate::{Extent, NotMeasured, wanted};
use abi::D3DKMT_HANDLE;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS as Map, D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
};
use flight::{Passive, Ram as _};
use thunk::{Client, Made, PagingQueue};

/// An allocation is as long as the longest range.
const PAGES: u64 = 1024;
/// Of the adapter: room for two allocations, and for the tables of all ranges and spaces.
const MEMORY: u64 = 1 << 30;

/// A kind of row.
struct Kind {
    what: &'static str,
    pages: u64,
    /// What lives besides: spaces of other processes, or else ranges of this one.
    spaces: bool,
}

const KINDS: [Kind; 4] = [
    Kind { what: "a page mapped and freed alone, among ranges", pages: 1, spaces: false },
    Kind { what: "a page of 64 mapped and freed, among ranges", pages: 64, spaces: false },
    Kind { what: "a page of 1024 mapped and freed, among ranges", pages: PAGES, spaces: false },
    Kind { what: "a page mapped and freed alone, among spaces", pages: 1, spaces: true },
];

/// Measures the rows.
pub(crate) fn measure(extent: &Extent, said: &mut dyn FnMut(WorkRow)) -> Result<(), NotMeasured> {
    for kind in &KINDS {
        rows(extent, kind.what, None, |live| number(kind, live, extent), said)?;
    }
    Ok(())
}

/// Nanoseconds for each page.
fn number(kind: &Kind, live: usize, extent: &Extent) -> Result<f64, NotMeasured> {
    let ram = nt::Ram::new(MEMORY + (16 << 20));
    let ram = ram.map_err(|why| NotMeasured(format!("memory for the machine: {why}")))?;
    let cpu = ram.take(MEMORY).ok_or(NotMeasured("memory that the CPU sees".to_owned()))?;
    let fitted = Fitted { ram, bytes: MEMORY, pages: PAGES, tables: Some(cpu.start) };
    Station::fly(Watch::Nobody, Some(fitted), |station, at| {
        let mapper = Mapper::new(station, at)?;
        let others = mapper.others(at, kind.spaces, live)?;
        let pages = usize::try_from(kind.pages).unwrap_or(1);
        let count = extent.pairs.div_ceil(pages.min(16));
        let mut times = Vec::new();
        for turn in 0..=extent.turns.div_ceil(4) {
            let took = timed(|| (0..count).try_for_each(|_| mapper.once(at, kind.pages)))?;
            if turn > 0 {
                times.push(Span::took(took)); // The first is not counted: buffers grow.
            }
        }
        for other in &others {
            other.kill(at);
        }
        Ok(each(times, count * pages))
    })
}

/// A client that maps what is resident.
struct Mapper<'a> {
    station: &'a Station,
    queue: PagingQueue,
    /// Who is mapped and freed, and who stays mapped.
    one: D3DKMT_HANDLE,
    other: D3DKMT_HANDLE,
}

impl<'a> Mapper<'a> {
    fn new(station: &'a Station, at: &mut Passive) -> Result<Self, NotMeasured> {
        let made = station.client.create_queue(at, station.device, 0);
        let queue = wanted("D3DKMTCreatePagingQueue", made)?;
        let (one, other) = (station.allocation(at)?, station.allocation(at)?);
        let it = Self { station, queue, one, other };
        let resident = station.client.make_resident(at, queue.queue, &[one, other], 0);
        it.wait(at, wanted("D3DKMTMakeResident", resident)?)?;
        Ok(it)
    }

    /// So many ranges of one page, or processes with an address space.
    fn others(
        &self,
        at: &mut Passive,
        spaces: bool,
        count: usize,
    ) -> Result<Vec<Client>, NotMeasured> {
        let mut clients = Vec::new();
        for _ in 0..count {
            if spaces {
                clients.push(self.station.another(at)?);
                self.station.serve(at);
            } else {
                self.map(at, self.other, 1)?;
            }
        }
        Ok(clients)
    }

    fn once(&self, at: &mut Passive, pages: u64) -> Result<(), NotMeasured> {
        let address = self.map(at, self.one, pages)?;
        let Station { client, adapter, .. } = self.station;
        let freed = client.free_address(at, *adapter, address, pages * PAGE);
        wanted("D3DKMTFreeGpuVirtualAddress", freed)?;
        self.station.serve(at);
        Ok(())
    }

    fn map(&self, at: &mut Passive, what: D3DKMT_HANDLE, pages: u64) -> Result<u64, NotMeasured> {
        let order = Map {
            hPagingQueue: self.queue.queue,
            hAllocation: what,
            SizeInPages: pages,
            Protection: Protection { Value: Protection::Write },
            ..Map::ZERO
        };
        let mapped = self.station.client.map_address(at, &order);
        let (address, when) = wanted("D3DKMTMapGpuVirtualAddress", mapped)?;
        self.wait(at, when)?;
        Ok(address)
    }

    fn wait(&self, at: &mut Passive, when: Made) -> Result<(), NotMeasured> {
        match when {
            Made::Resident => Ok(()),
            Made::Pending(value) => {
                self.station.serve(at);
                let Station { client, device, .. } = self.station;
                let waited = client.wait(at, *device, self.queue.fence, value);
                wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
            }
            Made::NoRoom(bytes) => Err(NotMeasured(format!("{bytes} bytes more of memory"))),
        }
    }
}
