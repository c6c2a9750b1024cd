//! A driver's page-table description, and the arguments of page-table operations.
//!
//! The entries of a level-zero table point to pages; the entries of a table of a higher level point
//! to tables of the level below. The highest level is the root.

/// The GPU's address translation (`DXGK_GPUMMUCAPS`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct MmuFeatures {
    /// Number of bits of an address (`VirtualAddressBitCount`).
    pub address_bits: u32,
    /// The page-table levels, leaf level first (`DXGK_PAGE_TABLE_LEVEL_DESC`).
    pub levels: Vec<TableLevel>,
    /// How the page tables of clients are updated (`PageTableUpdateMode`).
    pub mode: UpdateMode,
    /// Entries can be read-only.
    pub read_only: bool,
    /// Entries can be marked no-execute.
    pub no_execute: bool,
    /// Entries can be marked zero: reads return zero and writes are lost (`ZeroInPteSupported`).
    pub zero: bool,
    /// Tables are invalidated before they are destroyed (`ExplicitPageTableInvalidation`).
    pub invalidates: bool,
}

/// One level of page tables (`DXGK_PAGE_TABLE_LEVEL_DESC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLevel {
    /// Number of address bits that index a table.
    pub index_bits: u32,
    /// The segment of the tables.
    pub segment: u32,
    /// The segment of the tables of the system's address space.
    pub system_segment: u32,
    /// Size of a table in bytes.
    pub bytes: u32,
    /// Alignment of a table.
    pub alignment: u32,
}

/// How page tables are updated (`DXGK_PAGETABLEUPDATEMODE`).
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
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct PageTableEntry {
    /// The entry is valid. An invalid entry with all other fields zero causes a fault.
    pub valid: bool,
    /// Reads return zero, writes are lost.
    pub zero: bool,
    /// The memory is cached: the GPU must snoop.
    pub coherent: bool,
    /// Writes are forbidden.
    pub read_only: bool,
    /// Execution is forbidden.
    pub no_execute: bool,
    /// The segment of the page or table; zero is system memory.
    pub segment: u32,
    /// The number of the 4096-byte page, counted from the segment's base (from address zero in
    /// system memory).
    ///
    /// WINDOWS: observed by two driver projects: addresses in entries are page numbers.
    pub page: u64,
}

/// The address of a table, for the writer of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAddress {
    /// In system memory, as a CPU address ([`UpdateMode::Cpu`]).
    Cpu(u64),
    /// At an address of the system's address space ([`UpdateMode::Virtual`]).
    Virtual(u64),
    /// In a segment ([`UpdateMode::Physical`]): its number, and an address that includes its base.
    Physical(u32, u64),
}

/// Entries to write (`DXGK_OPERATION_UPDATE_PAGE_TABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUpdate<'a> {
    /// The driver handle of the process that owns the table.
    pub process: usize,
    /// The level: zero is the leaf level.
    pub level: u32,
    /// The table.
    pub table: TableAddress,
    /// The first entry to write.
    pub first: u32,
    /// Number of entries.
    pub count: u32,
    /// The entries to write: one each, or a single one for all (`repeat`).
    pub entries: &'a [PageTableEntry],
    /// The single entry is written to all positions.
    pub repeat: bool,
    /// The table has never been written (`InitialUpdate`).
    pub initial: bool,
    /// The memory behind the entries is about to be evicted (`NotifyEviction`).
    pub evicts: bool,
    /// The first address that the entries translate.
    pub address: u64,
    /// The driver handle of the allocation behind the entries, if there is one.
    pub driver_handle: Option<usize>,
    /// Offset of the first entry's page in that allocation.
    pub offset: u64,
    /// The client's driver-defined bits for the entries (`DriverProtection`).
    pub protection: u64,
}

/// Entries to copy from table to table (`DXGK_BUILDPAGINGBUFFER_COPY_RANGE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryCopy {
    /// The source table, in the system's address space, and the first entry.
    pub from: (u64, u32),
    /// The destination table and the first entry there.
    pub to: (u64, u32),
    /// Number of entries.
    pub count: u32,
}

/// The root of an address space (`DXGKARG_SETROOTPAGETABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The segment it is in.
    pub segment: u32,
    /// Offset from the segment's base.
    pub offset: u64,
    /// Number of entries. An address past the last entry faults.
    pub entries: u32,
}

/// The size of a root (`DXGKARG_GETROOTPAGETABLESIZE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSize {
    /// Number of entries.
    pub entries: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// A process starts to use an adapter (`DXGKARG_CREATEPROCESS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateProcessArgs {
    /// It is the system process: paging uses its address space.
    pub system: bool,
}

/// A driver's request for addresses of a process (`DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveAddressArgs {
    /// The kernel's handle of the process, as the driver received it.
    pub process: usize,
    /// Size in bytes: a multiple of the range that a leaf table translates.
    pub bytes: u64,
    /// Alignment: a power of two, and a multiple of the range that a leaf table translates.
    pub alignment: u64,
    /// The first address; zero means any.
    pub base: u64,
    /// Clients may map allocations there (`AllowUserModeMapping`).
    pub client_visible: bool,
}

/// Pages that the CPU accesses through a CPU host aperture (`DXGKARG_MAPCPUHOSTAPERTURE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapHostApertureArgs<'a> {
    /// The segment they are in.
    pub segment: u32,
    /// The driver handle of the allocation; `None` for page tables.
    pub driver_handle: Option<usize>,
    /// The pages of the segment, in order.
    pub memory: &'a [u64],
    /// The pages of the aperture, one for each.
    pub window: &'a [u64],
}
