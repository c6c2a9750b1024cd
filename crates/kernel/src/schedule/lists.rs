//! Buffers for packets with lists: commands, allocations and patch locations. The kernel owns the
//! buffers and maps them into the client.
//!
//! # Invariants
//!
//! 1. Each buffer has a spare. Every call swaps the two and poisons the buffer that the client
//!    returned, so that later writes to it are detected.
//! 2. The bytes from the end of the granted size to the end of the page are poisoned as well.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::operation::PAGE;
use crate::ddi::render_args::BufferSizes;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::UserMapping;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::{Ram, Run};

/// The value of a byte that the client has not written.
const POISON: u8 = 0xdb;
/// Maximum size of a buffer, as a multiple of the size that the driver requires.
const MAX_SIZE_FACTOR: u32 = 2;

/// Sizes in bytes of a list's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySizes {
    /// An entry of the allocation list.
    pub list: u32,
    /// An entry of the patch location list.
    pub patches: u32,
}

/// A buffer in the client's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserBuffer {
    /// Its address.
    pub address: usize,
    /// Its size, in bytes or entries.
    pub size: u32,
}

/// The buffers for a client's next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderBuffers {
    /// The command buffer.
    pub commands: UserBuffer,
    /// The allocation list.
    pub list: UserBuffer,
    /// The patch location list.
    pub patches: UserBuffer,
}

/// New sizes of a client's buffers. `None` keeps the current size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferResize {
    /// Size of the command buffer in bytes.
    pub commands: Option<u32>,
    /// Entries of the allocation list.
    pub list: Option<u32>,
    /// Entries of the patch location list.
    pub patches: Option<u32>,
}

/// The contents that a client has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedBuffers {
    /// The commands.
    pub commands: Vec<u8>,
    /// The entries of the allocation list.
    pub list: Vec<u8>,
    /// The entries of the patch location list.
    pub patches: Vec<u8>,
    /// Describes a write to a buffer that the client had already returned, or commands that are
    /// only poison.
    pub stale: Option<String>,
    /// Describes a write beyond the granted size.
    pub overrun: Option<String>,
}

/// The buffers of a context.
pub(crate) struct RenderLists {
    pub(crate) sizes: BufferSizes,
    /// Number of buffers that the driver rendered into.
    pub(crate) renders: u32,
    buffer_pairs: [BufferPair; 3],
}

/// A buffer and its spare.
struct BufferPair {
    name: &'static str,
    /// Size in bytes of an entry, and the number of entries that the driver requires.
    entry: u32,
    required: u32,
    current: MappedBuffer,
    spare: MappedBuffer,
}

/// Memory mapped into the client.
struct MappedBuffer {
    run: Run,
    view: usize,
    /// Size in bytes granted to the client.
    bytes: u32,
}

impl BufferPair {
    fn user_buffer(&self) -> UserBuffer {
        UserBuffer { address: self.current.view, size: self.current.bytes / self.entry.max(1) }
    }
}

impl MappedBuffer {
    fn new(ram: &dyn Ram, bytes: u32) -> Option<Self> {
        let run = ram.allocate(u64::from(bytes).max(1).next_multiple_of(PAGE))?;
        let Some(view) = ram.map(&[run]) else {
            ram.free(run);
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
        ram.unmap(self.view);
        ram.free(self.run);
    }

    /// Returns the offset of the first byte at or after `from` that is not poison.
    fn first_overwritten(&self, ram: &dyn Ram, from: u32) -> Option<u64> {
        let start = u64::from(from).min(self.run.bytes);
        let mut bytes = vec![0; usize::try_from(self.run.bytes - start).unwrap_or(0)];
        ram.read(self.run.start + start, &mut bytes);
        let at = bytes.iter().position(|byte| *byte != POISON)?;
        Some(start + at as u64)
    }

    fn read(&self, ram: &dyn Ram, bytes: u32) -> Vec<u8> {
        let mut found = vec![0; bytes.min(self.bytes) as usize];
        ram.read(self.run.start, &mut found);
        found
    }
}

impl RenderLists {
    /// Allocates buffers of the sizes that a driver requires. Returns `None` if the machine has not
    /// enough memory.
    pub(crate) fn new(ram: &dyn Ram, sizes: BufferSizes, entries: EntrySizes) -> Option<Self> {
        let requirements = [
            ("command buffer", 1, sizes.commands),
            ("allocation list", entries.list, sizes.allocation_list),
            ("patch location list", entries.patches, sizes.patches),
        ];
        let mut buffer_pairs = Vec::new();
        for (name, entry, required) in requirements {
            let bytes = entry.saturating_mul(required);
            let pair =
                MappedBuffer::new(ram, bytes).map(|now| (now, MappedBuffer::new(ram, bytes)));
            match pair {
                Some((now, Some(spare))) => {
                    buffer_pairs.push(BufferPair { name, entry, required, current: now, spare });
                }
                Some((now, None)) => now.end(ram),
                None => (),
            }
        }
        match <[BufferPair; 3]>::try_from(buffer_pairs) {
            Ok(buffer_pairs) => Some(Self { sizes, renders: 0, buffer_pairs }),
            Err(some) => {
                for it in some {
                    it.end(ram);
                }
                None
            }
        }
    }

    pub(crate) fn user_buffers(&self) -> RenderBuffers {
        let [commands, list, patches] = &self.buffer_pairs;
        RenderBuffers {
            commands: commands.user_buffer(),
            list: list.user_buffer(),
            patches: patches.user_buffer(),
        }
    }

    /// Reads what the client has written: bytes of commands, and entries of each list.
    fn capture(&self, ram: &dyn Ram, commands: u32, list: u32, patches: u32) -> CapturedBuffers {
        let [first, second, third] = &self.buffer_pairs;
        let bytes = first.current.read(ram, commands);
        let untouched = !bytes.is_empty() && bytes.iter().all(|byte| *byte == POISON);
        let stale = self.buffer_pairs.iter().find_map(|buffer_pair| {
            let at = buffer_pair.spare.first_overwritten(ram, 0)?;
            Some(format!(
                "byte {at} of a {} was written after the client had returned it",
                buffer_pair.name
            ))
        });
        let nothing = || "its commands are the poison that the buffer was filled with".to_owned();
        let beyond = self.buffer_pairs.iter().find_map(|buffer_pair| {
            let at = buffer_pair.current.first_overwritten(ram, buffer_pair.current.bytes)?;
            let (name, bytes) = (buffer_pair.name, buffer_pair.current.bytes);
            Some(format!("byte {at} of a {name} of {bytes} bytes was written"))
        });
        CapturedBuffers {
            commands: bytes,
            list: second.current.read(ram, list.saturating_mul(second.entry)),
            patches: third.current.read(ram, patches.saturating_mul(third.entry)),
            stale: stale.or_else(|| untouched.then(nothing)),
            overrun: beyond,
        }
    }

    /// Takes the client's buffers back and hands out the spares, in the requested sizes up to the
    /// maximum.
    fn swap(&mut self, ram: &dyn Ram, resize: BufferResize) -> RenderBuffers {
        let requested = [resize.commands, resize.list, resize.patches];
        for (buffers, requested) in self.buffer_pairs.iter_mut().zip(requested) {
            std::mem::swap(&mut buffers.current, &mut buffers.spare);
            buffers.spare.poison(ram);
            let before = buffers.spare.bytes;
            let bytes = requested.map_or(before, |number| {
                let limit = buffers.required.saturating_mul(MAX_SIZE_FACTOR);
                number.clamp(1, limit.max(1)).saturating_mul(buffers.entry)
            });
            if u64::from(bytes) > buffers.current.run.bytes {
                // Without memory for a larger buffer, the client keeps the present one.
                let Some(larger) = MappedBuffer::new(ram, bytes) else { continue };
                std::mem::replace(&mut buffers.current, larger).end(ram);
            }
            buffers.current.bytes = bytes;
            buffers.current.poison(ram);
        }
        self.user_buffers()
    }
}

impl BufferPair {
    fn end(self, ram: &dyn Ram) {
        self.current.end(ram);
        self.spare.end(ram);
    }
}

impl Kernel {
    /// Returns the buffers for a context's next packet. Fails if the handle is of no context with
    /// lists.
    pub fn render_buffers(
        &self,
        process: ProcessId,
        context: Handle,
    ) -> Result<RenderBuffers, KernelError> {
        self.with_lists(process, context, |_, lists| lists.user_buffers())
    }

    /// Reads what the client has written: bytes of commands, and entries of each list.
    pub fn capture_buffers(
        &self,
        process: ProcessId,
        context: Handle,
        (commands, list, patches): (u32, u32, u32),
    ) -> Result<CapturedBuffers, KernelError> {
        self.with_lists(process, context, |ram, lists| lists.capture(ram, commands, list, patches))
    }

    /// Takes the client's buffers back and returns the spares.
    pub fn swap_buffers(
        &self,
        process: ProcessId,
        context: Handle,
        resize: BufferResize,
    ) -> Result<RenderBuffers, KernelError> {
        self.with_lists(process, context, |ram, lists| lists.swap(ram, resize))
    }

    fn with_lists<T>(
        &self,
        process: ProcessId,
        context: Handle,
        body: impl FnOnce(&dyn Ram, &mut RenderLists) -> T,
    ) -> Result<T, KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        let device = state.contexts[number].device;
        if state.is_zombie(device) {
            return Err(KernelError::Removed(device.subject()));
        }
        let none = KernelError::NoLists(number.subject());
        let ram = state.ram_of_context(number).ok_or(none.clone())?;
        let lists = state.contexts[number].lists.as_mut();
        Ok(body(&*ram, lists.ok_or(none)?))
    }
}

impl KernelState {
    /// Ends the buffers of a context. A client whose device handle is still open keeps its
    /// mappings.
    pub(crate) fn end_lists(&mut self, context: Id<Context>) {
        let ram = self.ram_of_context(context);
        // Another thread may have destroyed it meanwhile.
        let Some(it) = self.contexts.get_mut(context) else { return };
        let (lists, device) = (it.lists.take(), it.device);
        if let (Some(ram), Some(lists)) = (ram, lists) {
            for leaf in lists
                .buffer_pairs
                .into_iter()
                .flat_map(|buffer_pair| [buffer_pair.current, buffer_pair.spare])
            {
                let ram = ram.clone();
                self.unmap_from_user(device, UserMapping { ram, run: leaf.run, view: leaf.view });
            }
        }
    }

    fn ram_of_context(&self, context: Id<Context>) -> Option<std::sync::Arc<dyn Ram>> {
        let device = self.devices.get(self.contexts.get(context)?.device)?;
        Some(self.adapter_memory(device.adapter)?.ram.clone())
    }
}
