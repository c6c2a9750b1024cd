//! What an operation says: to the driver that writes commands for it, and to whoever looks at bytes.

use crate::kernel::Kernel;
use crate::memory::Paging;
use crate::memory::place::segment_number;
use crate::memory::{Move, Step, number};
use crate::operation::{End, Operation, PAGE, Pages, Transfer};
use crate::space::step::TableFacts;
use crate::store::Id;
use crate::world::World;
use flight::{Machine, Movement, Moving, Ram, Run, Subject};
use std::sync::Arc;

/// What the operation of a step says, taken out of the world.
pub(crate) struct Facts {
    pub(crate) ram: Arc<dyn Ram>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) room: u32,
    pub(crate) owner: Subject,
    pub(crate) segment: Subject,
    pub(crate) word: usize,
    /// The same, if the driver may hear it.
    pub(crate) named: Option<usize>,
    pub(crate) bytes: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) address: u64,
    /// Where the segment begins.
    pub(crate) base: u64,
    pub(crate) coherent: bool,
    pub(crate) linear: bool,
    pub(crate) dummy: u64,
    pub(crate) cpu: Option<usize>,
    pub(crate) locked: bool,
    /// Where the segment is in the system's space, on an adapter that translates.
    pub(crate) system: Option<u64>,
    /// What is said of a page table, if it is about one.
    pub(crate) table: Option<TableFacts>,
}

impl Facts {
    pub(crate) fn operation<'a>(&'a self, step: &'a Step) -> Operation<'a> {
        let (word, address, bytes) = (self.word, self.address, self.bytes);
        let segment = segment_number(step);
        let pages = Pages { runs: &self.runs, first: 0, count: bytes / PAGE };
        let place = End::Segment { number: segment, address };
        let transfer = |from, to| {
            Operation::Transfer(Transfer {
                word: Some(word),
                offset: 0,
                bytes,
                from,
                to,
                start: true,
                end: true,
                idle: step.idle,
                special: false,
            })
        };
        if let Some(it) = self.table.as_ref().and_then(|it| it.operation(&step.what)) {
            return it;
        }
        match &step.what {
            Move::Fill => match self.system {
                Some(start) => Operation::VirtualFill {
                    word: Some(word),
                    offset: 0,
                    address: start + step.at.offset,
                    bytes,
                    pattern: 0,
                },
                None => Operation::Fill { word, segment, address, bytes, pattern: 0 },
            },
            Move::In => transfer(End::System(pages), place),
            Move::Out => transfer(place, End::System(pages)),
            Move::Shift { from, part: Some((offset, bytes)) } => {
                let start = self.system.unwrap_or(0);
                Operation::VirtualTransfer {
                    word: Some(word),
                    offset: *offset,
                    from: start + from + offset,
                    to: start + step.at.offset + offset,
                    bytes: *bytes,
                }
            }
            Move::Shift { from, part: None } => {
                let address = address - step.at.offset + from;
                transfer(End::Segment { number: segment, address }, place)
            }
            Move::Discard { .. } => Operation::Discard { word, segment, address, idle: step.idle },
            Move::Map => Operation::MapAperture {
                word: self.named,
                segment,
                page: step.at.offset / PAGE,
                pages,
                coherent: self.coherent,
            },
            Move::Unmap => Operation::UnmapAperture {
                word: self.named,
                segment,
                page: step.at.offset / PAGE,
                pages: bytes / PAGE,
                dummy: self.dummy,
            },
            Move::Init => Operation::InitContext { word, place, cpu: self.cpu, bytes },
            Move::Update(private) => Operation::UpdateContext { word, place, bytes, private },
            Move::Come => Operation::Notify { word, segment, address, resident: true },
            // Without facts of a table there is none, and nobody is asked.
            Move::Go | Move::Table(_) | Move::Flush { .. } => {
                Operation::Notify { word, segment, address, resident: false }
            }
        }
    }
}

impl Move {
    /// Whether the allocation comes by it, or stays, and does not leave.
    pub(crate) fn comes(&self) -> bool {
        !matches!(self, Move::Out | Move::Discard { .. } | Move::Unmap | Move::Go)
    }

    /// Whether it moves or changes the allocation's bytes.
    pub(crate) fn moves(&self) -> bool {
        let shift = matches!(self, Move::Shift { .. });
        shift || matches!(self, Move::Fill | Move::In | Move::Out | Move::Init | Move::Update(_))
    }

    /// The name of its operation in events.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Move::Fill => "fill",
            Move::In | Move::Out | Move::Shift { .. } => "transfer",
            Move::Discard { .. } => "discard",
            Move::Map => "map-aperture",
            Move::Unmap => "unmap-aperture",
            Move::Init => "init-context",
            Move::Update(_) => "update-context",
            Move::Come | Move::Go => "notify-residency",
            Move::Table(_) => "update-page-table",
            Move::Flush { .. } => "flush-tlb",
        }
    }
}

impl World {
    /// What the operation of a step on an extent says.
    pub(crate) fn facts(&self, step: &Step) -> Option<Facts> {
        let (extent, at) = (step.extent, step.at);
        let it = self.extents.get(extent)?;
        let table = self.table_facts(step);
        if step.what.space().is_some() && table.is_none() {
            return None; // The space is gone, and with it what was to be written.
        }
        // What a driver has freed it does not hear of any more; only an aperture has to be told.
        let freed = self.is_freed(it.owner);
        let adapter = self.adapters.get(it.adapter)?;
        let memory = adapter.memory.as_ref()?;
        let segment = memory.segments.get(at.segment)?;
        let flags = it.wants.flags;
        let cpu = segment.shape.flags.aperture && flags.cpu_visible && flags.protected;
        Some(Facts {
            ram: memory.ram.clone(),
            machine: adapter.driver.machine.clone(),
            room: memory.paging.buffer,
            owner: it.owner.subject(),
            segment: segment.subject,
            word: it.word,
            named: (!freed).then_some(it.word),
            bytes: it.bytes,
            runs: it.backing.clone(),
            address: segment.shape.base + at.offset,
            base: segment.shape.base,
            coherent: segment.shape.flags.coherent && it.wants.flags.cached,
            linear: flags.cpu_visible && !flags.swizzled,
            dummy: memory.dummy.map_or(0, |it| it.start),
            cpu: it.lock.as_ref().map(|it| it.address).filter(|_| cpu),
            locked: it.lock.is_some(),
            system: self.system_address(it.adapter, (number(at.segment), 0)),
            table,
        })
    }
}

impl Kernel {
    /// Tells whoever looks at bytes what an operation does to them.
    pub(crate) fn witness(&self, paging: Id<Paging>, what: &Move, facts: &Facts, begins: bool) {
        if let Some(table) = &facts.table {
            return self.witness_table(Some(paging), what, table, begins);
        }
        let Some(witness) = self.witness.get() else { return };
        if facts.locked && *what != Move::Unmap {
            return witness.forget(facts.owner); // The CPU may write to it meanwhile.
        }
        let movement = match what {
            Move::Fill => Movement::Filled,
            Move::In => Movement::Comes,
            Move::Out => Movement::Leaves,
            Move::Discard { .. } => Movement::Thrown,
            Move::Map => Movement::Mapped,
            Move::Unmap => Movement::Unmapped,
            Move::Shift { .. } => Movement::Shifted,
            Move::Init | Move::Update(_) => return witness.forget(facts.owner),
            Move::Come | Move::Go | Move::Table(_) | Move::Flush { .. } => return,
        };
        let (from, part) = match what {
            Move::Shift { from, part } => (Some(facts.base + from), part.map(|it| it.0)),
            _ => (None, None),
        };
        let moving = Moving {
            from,
            part,
            paging: paging.subject(),
            of: facts.owner,
            movement,
            address: facts.address,
            runs: &facts.runs,
            bytes: facts.bytes,
            linear: facts.linear,
            unwritten: *what == Move::Discard { unwritten: true },
            dummy: facts.dummy,
            machine: &*facts.machine,
            ram: &*facts.ram,
        };
        if begins {
            witness.begins(&moving);
        } else {
            witness.ends(&moving);
        }
    }
}
