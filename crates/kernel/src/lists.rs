//! The buffers that clients write packets with lists into: commands, allocations, patch
//! locations. They are the kernel's, and clients see them.
//!
//! # Invariants
//!
//! 1. Each has a spare. With every call the two change places, and what the client gave back is
//!    poisoned: who goes on with it is seen.
//! 2. Behind the bytes a client was granted, up to the end of a page, there is poison, too.

use crate::context::Context;
use crate::device::Shown;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::listed::BufferSizes;
use crate::operation::PAGE;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::store::Id;
use crate::world::World;
use flight::{Ram, Run};

/// What a byte is that no client wrote.
const POISON: u8 = 0xdb;
/// A client that asks for more gets up to so many times what its driver wants.
const MOST: u32 = 2;

/// How many bytes an entry of the two lists has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySizes {
    /// Of the list of allocations.
    pub list: u32,
    /// Of the list of patch locations.
    pub patches: u32,
}

/// A buffer as its client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Where it is.
    pub address: usize,
    /// How many bytes it has, or entries.
    pub size: u32,
}

/// The buffers that a client writes its next packet into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// The commands.
    pub commands: Granted,
    /// The allocations they use.
    pub list: Granted,
    /// Where they name them.
    pub patches: Granted,
}

/// What a client asks of its next buffers: none is what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// How many bytes of commands.
    pub commands: Option<u32>,
    /// How many allocations.
    pub list: Option<u32>,
    /// How many patch locations.
    pub patches: Option<u32>,
}

/// What a client has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The commands.
    pub commands: Vec<u8>,
    /// The entries of the list of allocations.
    pub list: Vec<u8>,
    /// The entries of the list of patch locations.
    pub patches: Vec<u8>,
    /// What is wrong with the buffers it had before this call, or with its commands: it went on
    /// with a buffer that it had given back.
    pub stale: Option<String>,
    /// What it wrote behind what it was granted.
    pub beyond: Option<String>,
}

/// The buffers of a context.
pub(crate) struct Lists {
    pub(crate) sizes: BufferSizes,
    /// How many buffers its driver rendered into.
    pub(crate) renders: u32,
    shelves: [Shelf; 3],
}

/// A buffer and its spare.
struct Shelf {
    name: &'static str,
    /// How many bytes an entry has, and how many entries the driver wants.
    entry: u32,
    wanted: u32,
    now: Leaf,
    spare: Leaf,
}

/// Memory that the client sees.
struct Leaf {
    run: Run,
    view: usize,
    /// How many bytes of it the client was granted.
    bytes: u32,
}

impl Shelf {
    fn granted(&self) -> Granted {
        Granted { address: self.now.view, size: self.now.bytes / self.entry.max(1) }
    }
}

impl Leaf {
    fn new(ram: &dyn Ram, bytes: u32) -> Option<Self> {
        let run = ram.take(u64::from(bytes).max(1).next_multiple_of(PAGE))?;
        let Some(view) = ram.view(&[run]) else {
            ram.give_back(run);
            return None;
        };
        let leaf = Self { run, view, bytes };
        leaf.poison(ram);
        Some(leaf)
    }

    fn poison(&self, ram: &dyn Ram) {
        ram.fill(self.run, u32::from_ne_bytes([POISON; 4]));
    }

    fn end(self, ram: &dyn Ram) {
        ram.end_view(self.view);
        ram.give_back(self.run);
    }

    /// Where somebody wrote, from so many bytes on.
    fn written(&self, ram: &dyn Ram, from: u32) -> Option<u64> {
        let start = u64::from(from).min(self.run.bytes);
        let mut bytes = vec![0; usize::try_from(self.run.bytes - start).unwrap_or(0)];
        ram.read(self.run.start + start, &mut bytes);
        let at = bytes.iter().position(|it| *it != POISON)?;
        Some(start + at as u64)
    }

    fn read(&self, ram: &dyn Ram, bytes: u32) -> Vec<u8> {
        let mut found = vec![0; bytes.min(self.bytes) as usize];
        ram.read(self.run.start, &mut found);
        found
    }
}

impl Lists {
    /// Buffers as a driver wants them, or none if the machine has not so much memory.
    pub(crate) fn new(ram: &dyn Ram, sizes: BufferSizes, entries: EntrySizes) -> Option<Self> {
        let wants = [
            ("command buffer", 1, sizes.commands),
            ("allocation list", entries.list, sizes.list),
            ("patch location list", entries.patches, sizes.patches),
        ];
        let mut shelves = Vec::new();
        for (name, entry, wanted) in wants {
            let bytes = entry.saturating_mul(wanted);
            let leaves = Leaf::new(ram, bytes).map(|now| (now, Leaf::new(ram, bytes)));
            match leaves {
                Some((now, Some(spare))) => shelves.push(Shelf { name, entry, wanted, now, spare }),
                Some((now, None)) => now.end(ram),
                None => (),
            }
        }
        match <[Shelf; 3]>::try_from(shelves) {
            Ok(shelves) => Some(Self { sizes, renders: 0, shelves }),
            Err(some) => {
                for it in some {
                    it.end(ram);
                }
                None
            }
        }
    }

    pub(crate) fn granted(&self) -> Buffers {
        let [commands, list, patches] = &self.shelves;
        Buffers { commands: commands.granted(), list: list.granted(), patches: patches.granted() }
    }

    /// Reads what the client has written: so many bytes of commands, so many entries.
    fn capture(&self, ram: &dyn Ram, commands: u32, list: u32, patches: u32) -> Captured {
        let [first, second, third] = &self.shelves;
        let bytes = first.now.read(ram, commands);
        let untouched = !bytes.is_empty() && bytes.iter().all(|it| *it == POISON);
        let stale = self.shelves.iter().find_map(|it| {
            let at = it.spare.written(ram, 0)?;
            Some(format!("byte {at} of a {} that it had given back was written", it.name))
        });
        let nothing = || "its commands are the poison that the buffer came with".to_owned();
        let beyond = self.shelves.iter().find_map(|it| {
            let at = it.now.written(ram, it.now.bytes)?;
            let (name, bytes) = (it.name, it.now.bytes);
            Some(format!("byte {at} of a {name} of {bytes} bytes was written"))
        });
        Captured {
            commands: bytes,
            list: second.now.read(ram, list.saturating_mul(second.entry)),
            patches: third.now.read(ram, patches.saturating_mul(third.entry)),
            stale: stale.or_else(|| untouched.then(nothing)),
            beyond,
        }
    }

    /// The client gives its buffers back and gets the others, as large as it asked for if that
    /// is not too much.
    fn turn(&mut self, ram: &dyn Ram, resize: Resize) -> Buffers {
        let asked = [resize.commands, resize.list, resize.patches];
        for (shelf, asked) in self.shelves.iter_mut().zip(asked) {
            std::mem::swap(&mut shelf.now, &mut shelf.spare);
            shelf.spare.poison(ram);
            let before = shelf.spare.bytes;
            let bytes = asked.map_or(before, |it| {
                let most = shelf.wanted.saturating_mul(MOST);
                it.clamp(1, most.max(1)).saturating_mul(shelf.entry)
            });
            if u64::from(bytes) > shelf.now.run.bytes {
                let Some(larger) = Leaf::new(ram, bytes) else { continue };
                std::mem::replace(&mut shelf.now, larger).end(ram);
            }
            shelf.now.bytes = bytes;
            shelf.now.poison(ram);
        }
        self.granted()
    }
}

impl Shelf {
    fn end(self, ram: &dyn Ram) {
        self.now.end(ram);
        self.spare.end(ram);
    }
}

impl Kernel {
    /// The buffers that a client writes a context's next packet into.
    pub fn buffers(&self, process: ProcessId, context: Handle) -> Result<Buffers, Refused> {
        self.with_lists(process, context, |_, lists| lists.granted())
    }

    /// What it has written there: so many bytes of commands, so many entries of each list.
    pub fn capture(
        &self,
        process: ProcessId,
        context: Handle,
        (commands, list, patches): (u32, u32, u32),
    ) -> Result<Captured, Refused> {
        self.with_lists(process, context, |ram, it| it.capture(ram, commands, list, patches))
    }

    /// Takes the buffers back, and gives others.
    pub fn turn_buffers(
        &self,
        process: ProcessId,
        context: Handle,
        resize: Resize,
    ) -> Result<Buffers, Refused> {
        self.with_lists(process, context, |ram, lists| lists.turn(ram, resize))
    }

    fn with_lists<T>(
        &self,
        process: ProcessId,
        context: Handle,
        body: impl FnOnce(&dyn Ram, &mut Lists) -> T,
    ) -> Result<T, Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve::<Context>(process, Argument::Context, context)?;
        let device = world.contexts[number].device;
        if world.is_husk(device) {
            return Err(Refused::Removed(device.subject()));
        }
        let none = Refused::NoLists(number.subject());
        let ram = world.ram_of_context(number).ok_or(none.clone())?;
        let lists = world.contexts.get_mut(number).and_then(|it| it.lists.as_mut());
        Ok(body(&*ram, lists.ok_or(none)?))
    }
}

impl World {
    /// A context ends, and with it its buffers; a client that has its device still sees them.
    pub(crate) fn end_lists(&mut self, context: Id<Context>) {
        let ram = self.ram_of_context(context);
        let lists = self.contexts.get_mut(context).and_then(|it| it.lists.take());
        let device = self.contexts[context].device;
        if let (Some(ram), Some(lists)) = (ram, lists) {
            for leaf in lists.shelves.into_iter().flat_map(|it| [it.now, it.spare]) {
                let ram = ram.clone();
                self.hide(device, Shown { ram, run: leaf.run, view: leaf.view });
            }
        }
    }

    fn ram_of_context(&self, context: Id<Context>) -> Option<std::sync::Arc<dyn Ram>> {
        let device = self.devices.get(self.contexts.get(context)?.device)?;
        Some(self.memory(device.adapter)?.1.ram.clone())
    }
}
