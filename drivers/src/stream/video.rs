//! Frames in video memory. Each frame is an allocation of the graphics kernel: a client creates it,
//! makes it resident and locks it when the frame is allocated, and destroys it when it is freed.
#![expect(unsafe_code, reason = "writes to locked video memory")]

use super::capture_state::lock;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{At, Host, Passive};
use kernel::Kernel;
use softgpu::VISIBLE;
use softgpu::format::{describe_in, only_in};
use std::collections::BTreeMap;
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, Mutex};
use stream::{FrameMemory, MemoryKind};
use thunk::{Client, CreateAllocation, DestroyAllocation, PagingQueue, PagingStatus};

const PAGE: u64 = 4096;

/// The first frame number, far from those of system memory.
const FIRST: usize = 0x10_0000_0000;

/// The distance of frame numbers.
const ADDRESS_STRIDE: usize = 0x10_0000;

/// Video memory of a kernel's first adapter, as a client of the kernel.
pub struct VideoMemory {
    host: Arc<dyn Host>,
    client: Client,
    adapter: D3DKMT_HANDLE,
    device: D3DKMT_HANDLE,
    queue: PagingQueue,
    system: Arc<dyn FrameMemory>,
    pieces: Mutex<Frames>,
}

#[derive(Default)]
struct Frames {
    created: usize,
    /// The number of frames that may still be allocated.
    left: Option<usize>,
    all: BTreeMap<usize, Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    allocation: D3DKMT_HANDLE,
    address: usize,
    bytes: u32,
}

impl VideoMemory {
    /// Creates a client of the kernel with a device on its first adapter. `system` has the memory
    /// that is not the device's.
    pub fn open(
        kernel: &Arc<Kernel>,
        at: &mut Passive,
        system: &Arc<dyn FrameMemory>,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let client = Client::new(kernel);
        let adapter = client.adapters(at)?.first().copied().unwrap_or_default();
        let device = client.create_device(at, adapter)?;
        let queue = client.create_paging_queue(at, device, 0)?;
        let (host, system) = (kernel.host().clone(), system.clone());
        let pieces = Mutex::default();
        Ok(Arc::new(Self { host, client, adapter, device, queue, system, pieces }))
    }

    /// Closes the client in order; no frame exists any more.
    pub fn close(&self, at: &mut Passive) -> Result<(), NTSTATUS> {
        self.client.destroy_paging_queue(at, self.queue.queue)?;
        self.client.destroy_device(at, self.device)?;
        self.client.close_adapter(at, self.adapter)?;
        self.client.end(at);
        Ok(())
    }

    /// Closes the client, whatever it has. A closed client stays closed.
    pub fn kill(&self, at: &mut Passive) {
        self.client.kill(at);
    }

    /// The number of frames in video memory.
    pub fn frames(&self) -> usize {
        lock(&self.pieces).all.len()
    }

    fn create(&self, at: &mut Passive, bytes: u32) -> Result<Piece, NTSTATUS> {
        let size = u64::from(bytes).next_multiple_of(PAGE);
        let private = describe_in(size, PAGE, &only_in(&[VISIBLE]));
        let created = self.client.create(at, &CreateAllocation::new(self.device, vec![private]))?;
        let allocation = created.allocations.first().copied().unwrap_or_default();
        match self.show(at, allocation) {
            Ok(address) => Ok(Piece { allocation, address, bytes }),
            Err(why) => {
                self.destroy(at, allocation)?;
                Err(why)
            }
        }
    }

    /// Makes an allocation resident and locks it. It stays locked, because frames are filled at
    /// `DISPATCH_LEVEL`.
    fn show(&self, at: &mut Passive, allocation: D3DKMT_HANDLE) -> Result<usize, NTSTATUS> {
        let created = self.client.make_resident(at, self.queue.queue, &[allocation], 0)?;
        match created {
            PagingStatus::Resident => (),
            PagingStatus::Pending(value) => {
                self.client.wait(at, self.device, self.queue.fence, value)?;
            }
            PagingStatus::NoMemory(_) => return Err(abi::status::STATUS_NO_MEMORY),
        }
        self.client.lock2(at, self.device, allocation, 0)
    }

    fn destroy(&self, at: &mut Passive, allocation: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let list = vec![allocation];
        self.client.destroy(
            at,
            &DestroyAllocation { device: self.device, list, ..DestroyAllocation::default() },
        )
    }

    /// Runs a function at passive level, if this thread is at passive level.
    fn at_passive<T>(&self, body: impl FnOnce(&mut Passive) -> Option<T>) -> Option<T> {
        At::at_current_irql(&*self.host, |at| match at {
            At::Passive(at) => body(at),
            At::Dispatch(_) | At::Device(_) => None,
        })
    }

    /// Returns the address of a part of a block, if the whole part lies inside the block.
    fn part(&self, driver_handle: usize, offset: u32, length: usize) -> Option<*mut u8> {
        let piece = lock(&self.pieces).all.get(&driver_handle).copied()?;
        let fits = (offset as usize).checked_add(length)? <= piece.bytes as usize;
        fits.then(|| with_exposed_provenance_mut::<u8>(piece.address).wrapping_add(offset as usize))
    }
}

impl FrameMemory for VideoMemory {
    fn allocate(&self, bytes: u32, alignment: u32, kind: MemoryKind) -> Option<usize> {
        if kind != MemoryKind::Device {
            return self.system.allocate(bytes, alignment, kind);
        }
        if let Some(left) = &mut lock(&self.pieces).left {
            *left = left.checked_sub(1)?;
        }
        let piece = self.at_passive(|at| self.create(at, bytes).ok())?;
        let mut pieces = lock(&self.pieces);
        let driver_handle = FIRST + pieces.created * ADDRESS_STRIDE;
        pieces.created += 1;
        pieces.all.insert(driver_handle, piece);
        Some(driver_handle)
    }

    fn free(&self, driver_handle: usize) -> bool {
        let Some(piece) = lock(&self.pieces).all.remove(&driver_handle) else {
            return self.system.free(driver_handle);
        };
        let ended = self.at_passive(|at| {
            self.client.unlock2(at, self.device, piece.allocation).ok()?;
            self.destroy(at, piece.allocation).ok()
        });
        ended.is_some()
    }

    fn read(&self, driver_handle: usize, offset: u32, into: &mut [u8]) -> bool {
        let Some(from) = self.part(driver_handle, offset, into.len()) else {
            return self.system.read(driver_handle, offset, into);
        };
        // SAFETY: The lock maps that many bytes until the block is freed; no reference points to
        // them, and concurrent writes may tear.
        unsafe { from.cast_const().copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        true
    }

    fn write(&self, driver_handle: usize, offset: u32, bytes: &[u8]) -> bool {
        let Some(to) = self.part(driver_handle, offset, bytes.len()) else {
            return self.system.write(driver_handle, offset, bytes);
        };
        // SAFETY: As above.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }

    fn extent(&self, driver_handle: usize) -> Option<(u32, MemoryKind)> {
        let piece = lock(&self.pieces).all.get(&driver_handle).copied();
        piece
            .map(|piece| (piece.bytes, MemoryKind::Device))
            .or_else(|| self.system.extent(driver_handle))
    }

    fn allocation_count(&self) -> usize {
        self.frames() + self.system.allocation_count()
    }

    fn limit_allocations(&self, pieces: Option<usize>) {
        lock(&self.pieces).left = pieces;
        self.system.limit_allocations(pieces);
    }

    fn close(&self) {
        self.system.close();
    }
}
