//! Combines drivers with their hardware and memory.
#![expect(unsafe_code, reason = "vouches for the tables of this crate")]

use crate::bad::memory::{self, Memory};
use crate::bad::page_tables::{self, PageTableFlawDriver};
use crate::bad::paging::{Flaw, PagingFlawDriver};
use crate::bad::render;
use crate::bad::transfer_start::LeaksOnTransferStart;
use crate::board::Board;
use crate::context_allocation_updates::Changing;
use crate::faulty_driver::{Fault, FaultyDriver};
use crate::whole_engine_reset::WholeEngineReset;
use abi::miniport::{DRIVER_INITIALIZATION_DATA, KMDDOD_INITIALIZATION_DATA};
use flight::{Log, Ram as _};
use kernel::DriverSetup;
use kernel::miniport::Miniport;
use nt::{Pool, Ram};
use port::{Hardware, TableDriver};
use softgpu::{MemoryPlan, MmuPlan, SoftGpu};
use std::sync::Arc;

/// The memory of the machine.
const MACHINE_MEMORY: u64 = 256 << 20;

/// The size of a board's registers.
const REGISTERS: u64 = 64 << 10;

/// The initial contents of memory on hardware that translates: entries that look valid.
const INITIAL_BYTE: u32 = 0xdddd_dddd;

/// The length of the configuration space.
const CONFIG: usize = 256;

/// The beginning of the configuration space: vendor and device. Our choice.
pub(crate) const BOARD_ID: [u8; 4] = *b"WtBo";

/// Sets up a driver with a table, on its own board.
///
/// # Safety
///
/// The table is [`GOOD`](crate::GOOD), or the same with some functions replaced. Each function
/// follows the DDI of its slot, expects a [`Board`] as its physical device, and stays loaded.
pub unsafe fn set_up(
    table: &DRIVER_INITIALIZATION_DATA,
    log: &Arc<Log>,
) -> (DriverSetup, Arc<Board>) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_up_on(Board::new(), table, log) }
}

/// As above, on an existing board.
///
/// # Safety
///
/// As for [`set_up`].
unsafe fn set_up_on(
    board: Board,
    table: &DRIVER_INITIALIZATION_DATA,
    log: &Arc<Log>,
) -> (DriverSetup, Arc<Board>) {
    // SAFETY: The caller upholds this function's contract.
    unsafe { set_up_with_hardware(board, table, hardware(), log) }
}

/// As above, with the resources that the bus reports.
///
/// # Safety
///
/// As for [`set_up`].
unsafe fn set_up_with_hardware(
    board: Board,
    table: &DRIVER_INITIALIZATION_DATA,
    hardware: Hardware,
    log: &Arc<Log>,
) -> (DriverSetup, Arc<Board>) {
    let (board, pool) = (Arc::new(board), Pool::new(log.clone()));
    let address = Arc::as_ptr(&board).expose_provenance();
    // SAFETY: The caller upholds the contract; the board is kept with the driver.
    let driver = unsafe { TableDriver::with_hardware(*table, address, pool.clone(), hardware) };
    let driver = driver.expect("a table like the good driver's is accepted");
    let miniport = FaultyDriver::with_board(driver, board.clone());
    (DriverSetup { miniport, hardware: board.clone(), pool }, board)
}

/// The resources that the bus reports for a board: registers and a configuration space.
fn hardware() -> Hardware {
    let ram = machine_memory(REGISTERS);
    let run = ram.allocate(REGISTERS).expect("no other code allocates from it");
    let mut config = vec![0; CONFIG];
    config[..4].copy_from_slice(&BOARD_ID);
    Hardware { memory: Some((ram, run)), config, ram: None }
}

/// Sets up a table of this crate.
pub(crate) fn table(table: &DRIVER_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    // SAFETY: The tables of this crate are the good table and variants of it.
    let (setup, _board) = unsafe { set_up(table, log) };
    setup
}

/// Sets up a table of this crate, on a board with memory.
pub(crate) fn table_memory(table: &DRIVER_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    let board = Board::with_memory(ram(), MemoryPlan::default()).expect("the RAM is large enough");
    table_on(board, table, log)
}

/// Sets up a table of this crate, on this board.
pub(crate) fn table_on(
    board: Board,
    table: &DRIVER_INITIALIZATION_DATA,
    log: &Arc<Log>,
) -> DriverSetup {
    // SAFETY: The tables of this crate are the good table and variants of it.
    let (setup, _board) = unsafe { set_up_on(board, table, log) };
    setup
}

/// Sets up a table of this crate, on a board with memory and virtual addresses.
pub(crate) fn table_gpummu(table: &DRIVER_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    let (ram, plan) = (ram(), gpummu_plan(MmuPlan::default()));
    let board = Board::with_memory(ram.clone(), plan).expect("the RAM is large enough");
    board.gpu.fill_local(INITIAL_BYTE);
    let shown = Hardware { ram: Some(ram), ..hardware() };
    // SAFETY: The tables of this crate are the good table and variants of it.
    let (setup, _board) = unsafe { set_up_with_hardware(board, table, shown, log) };
    setup
}

/// Sets up a display-only table of this crate.
pub(crate) fn display_only(table: &KMDDOD_INITIALIZATION_DATA, log: &Arc<Log>) -> DriverSetup {
    let (board, pool) = (Arc::new(Board::new()), Pool::new(log.clone()));
    let address = Arc::as_ptr(&board).expose_provenance();
    let shown = Hardware { ram: Some(ram()), ..hardware() };
    // SAFETY: Each function of the table follows the DDI of its slot and expects a board, which is
    // kept with the driver.
    let driver = unsafe { TableDriver::display_only(table, address, pool.clone(), shown) };
    let driver = driver.expect("the display-only table has what such a driver has");
    let miniport = FaultyDriver::with_board(driver, board.clone());
    DriverSetup { miniport, hardware: board, pool }
}

/// Sets up the driver in safe Rust.
pub(crate) fn softgpu(log: &Arc<Log>) -> DriverSetup {
    let (miniport, machine) = SoftGpu::new();
    DriverSetup { miniport, hardware: machine, pool: Pool::new(log.clone()) }
}

/// The machine's memory.
pub(crate) fn ram() -> Arc<Ram> {
    machine_memory(MACHINE_MEMORY)
}

/// Memory of this many bytes. Ends the flight if the process may not have it.
fn machine_memory(bytes: u64) -> Arc<Ram> {
    Ram::new(bytes).unwrap_or_else(|why| {
        flight::no_resources(format_args!("{bytes} bytes of memory cannot be reserved: {why}"))
    })
}

/// Sets up a driver around the driver in safe Rust, on hardware with memory.
fn around(
    plan: MemoryPlan,
    log: &Arc<Log>,
    wrap: impl FnOnce(Arc<SoftGpu>, &Arc<Pool>) -> Arc<dyn Miniport>,
) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_memory(ram(), plan);
    let pool = Pool::new(log.clone());
    DriverSetup { miniport: wrap(inner, &pool), hardware: machine, pool }
}

/// Sets up the driver in safe Rust, on hardware with memory.
pub(crate) fn softgpu_memory(log: &Arc<Log>) -> DriverSetup {
    around(MemoryPlan::default(), log, |inner, _| inner)
}

/// Little memory, so that packets have to take turns.
fn small_memory() -> MemoryPlan {
    MemoryPlan { visible: 1 << 20, local: 64 << 12, aperture: 1 << 20, ..MemoryPlan::default() }
}

/// Sets up the driver in safe Rust as a WDDM 1.x driver, or a driver around it.
pub(crate) fn listed(
    log: &Arc<Log>,
    wrap: impl FnOnce(Arc<SoftGpu>) -> Arc<dyn Miniport>,
) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_lists(ram(), small_memory());
    DriverSetup { miniport: wrap(inner), hardware: machine, pool: Pool::new(log.clone()) }
}

/// Sets up the driver in safe Rust as a WDDM 1.x driver.
pub(crate) fn softgpu_allocation_lists(log: &Arc<Log>) -> DriverSetup {
    listed(log, |inner| inner)
}

/// As above, with a flaw in its use of allocation lists.
pub(crate) fn render_flaw(flaw: render::Flaw, log: &Arc<Log>) -> DriverSetup {
    listed(log, |inner| render::RenderFlawDriver::new(inner, flaw))
}

/// Small buffers, so that operations need several.
fn small_buffers() -> MemoryPlan {
    MemoryPlan { paging_buffer: 96, ..MemoryPlan::default() }
}

/// As above, with a flaw in its paging.
pub(crate) fn paging_flaw(flaw: Flaw, log: &Arc<Log>) -> DriverSetup {
    around(small_buffers(), log, |inner, _| PagingFlawDriver::new(inner, flaw))
}

/// Less memory than the default, so that it is full sooner.
fn gpummu_plan(mmu: MmuPlan) -> MemoryPlan {
    MemoryPlan { visible: 8 << 20, local: 8 << 20, mmu: Some(mmu), ..MemoryPlan::default() }
}

/// Sets up a driver around the driver in safe Rust, on hardware that translates addresses. The
/// memory has arbitrary initial contents.
fn wrap_gpummu(
    mmu: MmuPlan,
    log: &Arc<Log>,
    wrap: impl FnOnce(Arc<SoftGpu>) -> Arc<dyn Miniport>,
) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_memory(ram(), gpummu_plan(mmu));
    machine.fill_local(INITIAL_BYTE);
    DriverSetup { miniport: wrap(inner), hardware: machine, pool: Pool::new(log.clone()) }
}

/// Sets up the driver in safe Rust, on hardware that translates addresses.
pub(crate) fn softgpu_gpummu(mmu: MmuPlan, log: &Arc<Log>) -> DriverSetup {
    wrap_gpummu(mmu, log, |inner| inner)
}

/// As above, with a flaw in its page tables.
pub(crate) fn tables(mmu: MmuPlan, flaw: page_tables::Flaw, log: &Arc<Log>) -> DriverSetup {
    wrap_gpummu(mmu, log, |inner| PageTableFlawDriver::new(inner, flaw))
}

/// As above, with a fault in its description of page tables.
pub(crate) fn faulty_gpummu(fault: memory::Fault, log: &Arc<Log>) -> DriverSetup {
    wrap_gpummu(MmuPlan::default(), log, |inner| Memory::new(inner, fault))
}

/// As above, with save areas that it replaces.
pub(crate) fn changing(log: &Arc<Log>) -> DriverSetup {
    around(MemoryPlan::default(), log, |inner, _| Changing::around(inner))
}

/// As above, with engine resets that abort all packets of the engine.
pub(crate) fn whole_engine_reset(log: &Arc<Log>) -> DriverSetup {
    let (inner, machine) = SoftGpu::with_memory(ram(), MemoryPlan::default());
    let miniport = WholeEngineReset::around(inner, machine.clone());
    DriverSetup { miniport, hardware: machine, pool: Pool::new(log.clone()) }
}

/// As above, with a pool block allocated at each start of a transfer.
pub(crate) fn leaks_on_transfer_start(log: &Arc<Log>) -> DriverSetup {
    around(small_buffers(), log, |inner, pool| LeaksOnTransferStart::new(inner, pool.clone()))
}

/// As above, with a fault.
pub(crate) fn faulty_memory(fault: memory::Fault, log: &Arc<Log>) -> DriverSetup {
    around(MemoryPlan::default(), log, |inner, _| Memory::new(inner, fault))
}

/// Sets up the driver in safe Rust with a fault.
pub(crate) fn faulty(fault: Fault, log: &Arc<Log>) -> DriverSetup {
    let inner = softgpu(log);
    DriverSetup { miniport: FaultyDriver::bad(inner.miniport.clone(), fault), ..inner }
}
