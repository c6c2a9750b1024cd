//! Page tables as a driver describes them, and what it is asked to write into them.
//!
//! A table of level zero holds entries of pages; a table of a level above holds entries of
//! tables of the level below. The highest level is the root.

/// How a GPU translates addresses (`DXGK_GPUMMUCAPS`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct MmuFeatures {
    /// How many bits an address has (`VirtualAddressBitCount`).
    pub address_bits: u32,
    /// Its levels, the one with the entries of pages first (`DXGK_PAGE_TABLE_LEVEL_DESC`).
    pub levels: Vec<TableLevel>,
    /// How the tables of clients are written (`PageTableUpdateMode`).
    pub mode: UpdateMode,
    /// Entries can be read-only.
    pub read_only: bool,
    /// Entries can forbid to execute.
    pub no_execute: bool,
    /// Entries can say that reads are zero and writes are lost (`ZeroInPteSupported`).
    pub zero: bool,
    /// Tables are made invalid again before they go (`ExplicitPageTableInvalidation`).
    pub invalidates: bool,
}

/// One level of page tables (`DXGK_PAGE_TABLE_LEVEL_DESC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLevel {
    /// How many bits of an address find an entry in a table.
    pub index_bits: u32,
    /// The segment of such tables.
    pub segment: u32,
    /// The segment of such tables of the system's own address space.
    pub system_segment: u32,
    /// How many bytes a table has.
    pub bytes: u32,
    /// How a table is aligned.
    pub alignment: u32,
}

/// How page tables are written (`DXGK_PAGETABLEUPDATEMODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateMode {
    /// By the CPU, before the call returns.
    Cpu,
    /// By commands, at GPU virtual addresses of the system's address space.
    Virtual,
    /// By commands, at physical addresses.
    #[default]
    Physical,
}

/// An entry of a page table (`DXGK_PTE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PageTableEntry {
    /// Something is behind it. An entry that is not valid, with all else zero, is a fault.
    pub valid: bool,
    /// Reads are zero, writes are lost.
    pub zero: bool,
    /// The memory is cached: the GPU must snoop.
    pub coherent: bool,
    /// Not to be written.
    pub read_only: bool,
    /// Not to be executed.
    pub no_execute: bool,
    /// The segment of the page or table; zero is the machine's memory.
    pub segment: u32,
    /// Its number of 4096 bytes from the segment's base on (from zero of the machine's memory).
    ///
    /// WINDOWS: observed by two driver projects: addresses in entries are page numbers.
    pub page: u64,
}

/// Where a table is, for whoever writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAddress {
    /// In the machine's memory, as the CPU sees it ([`UpdateMode::Cpu`]).
    Cpu(u64),
    /// At an address of the system's address space ([`UpdateMode::Virtual`]).
    Virtual(u64),
    /// In a segment ([`UpdateMode::Physical`]): its number, and an address that counts its base.
    Physical(u32, u64),
}

/// Entries to write (`DXGK_OPERATION_UPDATE_PAGE_TABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUpdate<'a> {
    /// The driver's word for the process whose table it is.
    pub process: usize,
    /// Its level: zero holds entries of pages.
    pub level: u32,
    /// The table.
    pub table: TableAddress,
    /// The first entry to write.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// What to write: one for each, or a single one for all (`repeat`).
    pub entries: &'a [PageTableEntry],
    /// The single entry given goes everywhere.
    pub repeat: bool,
    /// The table has never been written to (`InitialUpdate`).
    pub initial: bool,
    /// What is behind the entries is about to go (`NotifyEviction`).
    pub evicts: bool,
    /// The first address that the entries translate.
    pub address: u64,
    /// The driver's word for the allocation behind the entries, if there is one.
    pub driver_handle: Option<usize>,
    /// Where in that allocation the first entry's page is.
    pub offset: u64,
    /// The client's own bits for the entries (`DriverProtection`).
    pub protection: u64,
}

/// Entries to copy from table to table (`DXGK_BUILDPAGINGBUFFER_COPY_RANGE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryCopy {
    /// The table they are in, in the system's address space, and the first of them.
    pub from: (u64, u32),
    /// The table they go to, and the first of them there.
    pub to: (u64, u32),
    /// How many.
    pub count: u32,
}

/// The root of an address space (`DXGKARG_SETROOTPAGETABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The segment it is in.
    pub segment: u32,
    /// Where, counted from the segment's base.
    pub offset: u64,
    /// How many entries it has: an address behind the last one faults.
    pub entries: u32,
}

/// The size of a root (`DXGKARG_GETROOTPAGETABLESIZE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSize {
    /// How many entries it will have.
    pub entries: u32,
    /// How many bytes that takes.
    pub bytes: u64,
}

/// A process meets an adapter (`DXGKARG_CREATEPROCESS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateProcessArgs {
    /// It is the system's own: paging is done in its address space.
    pub system: bool,
}

/// Addresses that a driver wants for itself (`DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveAddressArgs {
    /// The kernel's name of the process, as it was told.
    pub process: usize,
    /// How many bytes: so many times what a leaf table translates.
    pub bytes: u64,
    /// What the first is a multiple of: a power of two, and a multiple of the same.
    pub alignment: u64,
    /// The first; zero is anywhere.
    pub base: u64,
    /// Clients may have allocations mapped there (`AllowUserModeMapping`).
    pub client_visible: bool,
}

/// Pages that the CPU is to see through a window (`DXGKARG_MAPCPUHOSTAPERTURE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapHostApertureArgs<'a> {
    /// The segment they are in.
    pub segment: u32,
    /// The driver's word for the allocation; none for page tables.
    pub driver_handle: Option<usize>,
    /// The pages of the segment, in order.
    pub memory: &'a [u64],
    /// The pages of the window, one for each.
    pub window: &'a [u64],
}
