//! How drivers are put together with their hardware and their memory.
#![expect(unsafe_code, reason = "vouches for the tables of this crate")]

use crate::bad::memory::{self, Memory};
use crate::bad::page_tables::{self, PageTableFlawDriver};
use crate::bad::paging::{Crooked, Flaw};
use crate::bad::render;
use crate::bad::transfer_start::LeaksOnTransferStart;
use crate::board::Board;
use crate::context_allocation_updates::Changing;
use crate::faulty_driver::{Fault, FaultyDriver};
use crate::whole_engine_reset::WholeEngineReset;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use flight::{Log, Ram as _};
use kernel::DriverSetup;
use kernel::miniport::Miniport;
use nt::{Pool, Ram};
use port::{Hardware, TableDriver};
use softgpu::{MemoryPlan, MmuPlan, SoftGpu};
use std::sync::Arc;

/// How much memory the machine has for hardware and everybody else.
const MACHINE_MEMORY: u64 = 256 << 20;

/// How many bytes of registers a board has.
const REGISTERS: u64 = 64 << 10;

/// What the memory of hardware that translates holds at first: entries that look valid.
const INITIAL_BYTE: u32 = 0xdddd_dddd;

/// How long its configuration space is.
const CONFIG: usize = 256;

/// What its configuration space begins with: who made it, and what it is. Our choice.
pub(crate) const BOARD_ID: [u8; 4] = *b"WtBo";

/// A driver with a table, on a board of its own.
///
/// # Safety
///
/// The table is [`GOOD`](crate::GOOD), or one with other functions in some of its places: each
/// takes what the DDI of its slot says, knows its physical device for a [`Board`], and stays.
pub unsafe fn plug(
    table: &DRIVER_INITIALIZATION_DATA,
    log: &Arc<Log>,
) -> (DriverSetup, Arc<Board>) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_up_on(Board::new(), table, log) }
}

/// The same, on a board that is there.
///
/// # Safety
///
/// As of [`plug`].
unsafe fn set_up_on(
    board: Board,
    table: &DRIVER_INITIALIZATION_DATA,
    log: &Arc<Log>,
) -> (DriverSetup, Arc<Board>) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_up_with_hardware(board, table, hardware(), log) }
}

/// The same, with what the bus shows of it.
///
/// # Safety
///
/// As of [`plug`].
unsafe fn set_up_with_hardware(
    board: Board,
    table: &DRIVER_INITIALIZATION_DATA,
    hardware: Hardware,
    log: &Arc<Log>,
) -> (DriverSetup, Arc<Board>) {
    let (board, pool) = (Arc::new(board), Pool::new(log.clone()));
    let address = Arc::as_ptr(&board).expose_provenance();
    // SAFETY: The caller promises the same; the board is kept with the driver.
    let driver = unsafe { TableDriver::with_hardware(*table, address, pool.clone(), hardware) };
    let driver = driver.expect("a table like the good one is taken");
    let miniport = FaultyDriver::with_board(driver, board.clone());
    (DriverSetup { miniport, hardware: board.clone(), pool }, board)
}

/// What the bus shows of a board: registers, and a configuration space.
fn hardware() -> Hardware {
    let ram = Ram::new(REGISTERS).expect("the machine has memory");
    let run = ram.allocate(REGISTERS).expect("nobody else takes of it");
    let mut config = vec![0; CONFIG];
    config[..4].copy_from_slice(&BOARD_ID);
    Hardware { memory: Some((ram, run)), config, ram: None }
}

/// A driver with a table of ours.
pub(crate) fn table(table: &DRIVER_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    // SAFETY: The tables of this crate are the good one and changes of it.
    let (setup, _board) = unsafe { plug(table, log) };
    setup
}

/// A driver with a table of ours, on a board with memory.
pub(crate) fn table_memory(table: &DRIVER_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    let board = Board::with_memory(ram(), MemoryPlan::default()).expect("it has as much as that");
    // SAFETY: The tables of this crate are the good one and changes of it.
    let (setup, _board) = unsafe { set_up_on(board, table, log) };
    setup
}

/// A driver with a table of ours, on a board with memory and virtual addresses.
pub(crate) fn table_gpummu(table: &DRIVER_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    let (ram, plan) = (ram(), gpummu_plan(MmuPlan::default()));
    let board = Board::with_memory(ram.clone(), plan).expect("it has as much as that");
    board.gpu.fill_local(INITIAL_BYTE);
    let shown = Hardware { ram: Some(ram), ..hardware() };
    // SAFETY: The tables of this crate are the good one and changes of it.
    let (setup, _board) = unsafe { set_up_with_hardware(board, table, shown, log) };
    setup
}

/// The driver in safe Rust.
pub(crate) fn softgpu(log: &Arc<Log>) -> DriverSetup {
    let (miniport, machine) = SoftGpu::new();
    DriverSetup { miniport, hardware: machine, pool: Pool::new(log.clone()) }
}

/// The machine's memory.
fn ram() -> Arc<Ram> {
    Ram::new(MACHINE_MEMORY).expect("the machine has memory")
}

/// A driver around the one in safe Rust, whose hardware has memory of its own.
fn around(
    plan: MemoryPlan,
    log: &Arc<Log>,
    wrap: impl FnOnce(Arc<SoftGpu>, &Arc<Pool>) -> Arc<dyn Miniport>,
) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_memory(ram(), plan);
    let pool = Pool::new(log.clone());
    DriverSetup { miniport: wrap(inner, &pool), hardware: machine, pool }
}

/// The driver in safe Rust, whose hardware has memory of its own.
pub(crate) fn softgpu_memory(log: &Arc<Log>) -> DriverSetup {
    around(MemoryPlan::default(), log, |inner, _| inner)
}

/// Little memory, so that packets have to take turns.
fn small_memory() -> MemoryPlan {
    MemoryPlan { visible: 1 << 20, local: 64 << 12, aperture: 1 << 20, ..MemoryPlan::default() }
}

/// The driver in safe Rust as one of WDDM 1.x, or a driver around it.
pub(crate) fn listed(
    log: &Arc<Log>,
    wrap: impl FnOnce(Arc<SoftGpu>) -> Arc<dyn Miniport>,
) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_lists(ram(), small_memory());
    DriverSetup { miniport: wrap(inner), hardware: machine, pool: Pool::new(log.clone()) }
}

/// The driver in safe Rust as one of WDDM 1.x.
pub(crate) fn softgpu_allocation_lists(log: &Arc<Log>) -> DriverSetup {
    listed(log, |inner| inner)
}

/// The same, with a flaw in what it does with lists.
pub(crate) fn render_flaw(flaw: render::Flaw, log: &Arc<Log>) -> DriverSetup {
    listed(log, |inner| render::RenderFlawDriver::new(inner, flaw))
}

/// Small buffers, so that operations take several.
fn small_buffers() -> MemoryPlan {
    MemoryPlan { paging_buffer: 96, ..MemoryPlan::default() }
}

/// The same, with a flaw in its paging.
pub(crate) fn paging_flaw(flaw: Flaw, log: &Arc<Log>) -> DriverSetup {
    around(small_buffers(), log, |inner, _| Crooked::new(inner, flaw))
}

/// Not so much memory, since all of it is written to at first.
fn gpummu_plan(mmu: MmuPlan) -> MemoryPlan {
    MemoryPlan { visible: 8 << 20, local: 8 << 20, mmu: Some(mmu), ..MemoryPlan::default() }
}

/// A driver around the one in safe Rust, whose hardware translates addresses, and whose memory
/// holds anything at first.
fn wrap_gpummu(
    mmu: MmuPlan,
    log: &Arc<Log>,
    wrap: impl FnOnce(Arc<SoftGpu>) -> Arc<dyn Miniport>,
) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_memory(ram(), gpummu_plan(mmu));
    machine.fill_local(INITIAL_BYTE);
    DriverSetup { miniport: wrap(inner), hardware: machine, pool: Pool::new(log.clone()) }
}

/// The driver in safe Rust, whose hardware translates addresses.
pub(crate) fn softgpu_gpummu(mmu: MmuPlan, log: &Arc<Log>) -> DriverSetup {
    wrap_gpummu(mmu, log, |inner| inner)
}

/// The same, with a flaw in its page tables.
pub(crate) fn tables(mmu: MmuPlan, flaw: page_tables::Flaw, log: &Arc<Log>) -> DriverSetup {
    wrap_gpummu(mmu, log, |inner| PageTableFlawDriver::new(inner, flaw))
}

/// The same, with save areas that it changes for others.
pub(crate) fn changing(log: &Arc<Log>) -> DriverSetup {
    around(MemoryPlan::default(), log, |inner, _| Changing::around(inner))
}

/// The same, which resets engines with all they have.
pub(crate) fn blunt(log: &Arc<Log>) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_memory(ram(), MemoryPlan::default());
    let miniport = WholeEngineReset::around(inner, machine.clone());
    DriverSetup { miniport, hardware: machine, pool: Pool::new(log.clone()) }
}

/// The same, which takes a pool block with each start of a transfer.
pub(crate) fn leaks_on_transfer_start(log: &Arc<Log>) -> DriverSetup {
    around(small_buffers(), log, |inner, pool| LeaksOnTransferStart::new(inner, pool.clone()))
}

/// The same, with a fault.
pub(crate) fn faulty_memory(fault: memory::Fault, log: &Arc<Log>) -> DriverSetup {
    around(MemoryPlan::default(), log, |inner, _| Memory::new(inner, fault))
}

/// The driver in safe Rust, with a fault.
pub(crate) fn faulty(fault: Fault, log: &Arc<Log>) -> DriverSetup {
    let inner = softgpu(log);
    DriverSetup { miniport: FaultyDriver::bad(inner.miniport.clone(), fault), ..inner }
}
