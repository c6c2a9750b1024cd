//! The cost of mapping a page at a GPU virtual address and freeing it.
//!
//! The driver writes no page-table entries (`paging_driver.rs`), so the cost is that of the two
//! calls, the address search, the kernel's entries, and the paging work with its completion.

use crate::clock::{Span, timed};
use crate::memory::nanoseconds_each;
use crate::paging_driver::{AdapterConfig, PAGE};
use crate::row_kinds::Watch;
use crate::work::{WorkRow, rows};
use crate::work_fixture::WorkFixture;
use crate::{BenchSize, MeasureError, wanted};
use abi::D3DKMT_HANDLE;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS as Map, D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
};
use flight::{Passive, Ram as _};
use thunk::{Client, PagingQueue, PagingStatus};

/// The size of an allocation: the longest range.
const PAGES: u64 = 1024;
/// The adapter's memory: two allocations, and the page tables of all ranges and spaces.
const MEMORY: u64 = 1 << 30;

/// A kind of row.
struct Kind {
    what: &'static str,
    pages: u64,
    /// Whether the other live objects are address spaces of other processes, or ranges of this one.
    spaces: bool,
}

const KINDS: [Kind; 4] = [
    Kind { what: "a page mapped and freed alone, among ranges", pages: 1, spaces: false },
    Kind { what: "a page of 64 mapped and freed, among ranges", pages: 64, spaces: false },
    Kind { what: "a page of 1024 mapped and freed, among ranges", pages: PAGES, spaces: false },
    Kind { what: "a page mapped and freed alone, among spaces", pages: 1, spaces: true },
];

/// Measures the rows.
pub(crate) fn measure(
    extent: &BenchSize,
    text: &mut dyn FnMut(WorkRow),
) -> Result<(), MeasureError> {
    for kind in &KINDS {
        rows(extent, kind.what, None, |live| number(kind, live, extent), text)?;
    }
    Ok(())
}

/// Nanoseconds for each page.
fn number(kind: &Kind, live: usize, extent: &BenchSize) -> Result<f64, MeasureError> {
    let ram = nt::Ram::new(MEMORY + (16 << 20));
    let ram = ram.map_err(|reason| MeasureError(format!("memory for the machine: {reason}")))?;
    let cpu = ram.allocate(MEMORY).ok_or(MeasureError("memory that the CPU sees".to_owned()))?;
    let config = AdapterConfig { ram, bytes: MEMORY, pages: PAGES, tables: Some(cpu.start) };
    WorkFixture::fly(Watch::Off, Some(config), |fixture, at| {
        let mapper = Mapper::new(fixture, at)?;
        let others = mapper.create_background(at, kind.spaces, live)?;
        let pages = usize::try_from(kind.pages).unwrap_or(1);
        let count = extent.pairs.div_ceil(pages.min(16));
        let mut times = Vec::new();
        for turn in 0..=extent.turns.div_ceil(4) {
            let took = timed(|| (0..count).try_for_each(|_| mapper.map_and_free(at, kind.pages)))?;
            if turn > 0 {
                times.push(Span::duration(took)); // The first turn grows buffers.
            }
        }
        for background in &others {
            background.kill(at);
        }
        Ok(nanoseconds_each(times, count * pages))
    })
}

/// A client that maps resident allocations.
struct Mapper<'a> {
    fixture: &'a WorkFixture,
    queue: PagingQueue,
    /// The allocation that is mapped and freed, and the one that stays mapped.
    one: D3DKMT_HANDLE,
    background: D3DKMT_HANDLE,
}

impl<'a> Mapper<'a> {
    fn new(fixture: &'a WorkFixture, at: &mut Passive) -> Result<Self, MeasureError> {
        let made = fixture.client.create_paging_queue(at, fixture.device, 0);
        let queue = wanted("D3DKMTCreatePagingQueue", made)?;
        let (one, background) = (fixture.allocation(at)?, fixture.allocation(at)?);
        let it = Self { fixture, queue, one, background };
        let resident = fixture.client.make_resident(at, queue.queue, &[one, background], 0);
        it.wait(at, wanted("D3DKMTMakeResident", resident)?)?;
        Ok(it)
    }

    /// Creates `count` one-page ranges, or processes with an address space.
    fn create_background(
        &self,
        at: &mut Passive,
        spaces: bool,
        count: usize,
    ) -> Result<Vec<Client>, MeasureError> {
        let mut clients = Vec::new();
        for _ in 0..count {
            if spaces {
                clients.push(self.fixture.another_client(at)?);
                self.fixture.serve(at);
            } else {
                self.map(at, self.background, 1)?;
            }
        }
        Ok(clients)
    }

    fn map_and_free(&self, at: &mut Passive, pages: u64) -> Result<(), MeasureError> {
        let address = self.map(at, self.one, pages)?;
        let WorkFixture { client, adapter, .. } = self.fixture;
        let freed = client.free_address(at, *adapter, address, pages * PAGE);
        wanted("D3DKMTFreeGpuVirtualAddress", freed)?;
        self.fixture.serve(at);
        Ok(())
    }

    fn map(&self, at: &mut Passive, what: D3DKMT_HANDLE, pages: u64) -> Result<u64, MeasureError> {
        let request = Map {
            hPagingQueue: self.queue.queue,
            hAllocation: what,
            SizeInPages: pages,
            Protection: Protection { Value: Protection::Write },
            ..Map::ZERO
        };
        let mapped = self.fixture.client.map_address(at, &request);
        let (address, when) = wanted("D3DKMTMapGpuVirtualAddress", mapped)?;
        self.wait(at, when)?;
        Ok(address)
    }

    fn wait(&self, at: &mut Passive, when: PagingStatus) -> Result<(), MeasureError> {
        match when {
            PagingStatus::Resident => Ok(()),
            PagingStatus::Pending(value) => {
                self.fixture.serve(at);
                let WorkFixture { client, device, .. } = self.fixture;
                let waited = client.wait(at, *device, self.queue.fence, value);
                wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
            }
            PagingStatus::NoMemory(bytes) => {
                Err(MeasureError(format!("{bytes} bytes more of memory")))
            }
        }
    }
}
