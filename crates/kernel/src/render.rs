//! Packets with lists: rendered by the driver; put in place, patched and sent in `sent` (WDDM 1.x).
//!
//! # Invariants
//!
//! 1. A packet's allocations are held where they are from when it is first in its line until it
//!    is over: all of them, or none.
//! 2. Its buffer is given back when no hardware can read it any more.

mod sent;

use crate::context::Context;
use crate::ddi::Driver;
use crate::device::Device;
use crate::device::{Inside, Loss};
use crate::dispatch::Load;
use crate::gate::Class;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::listed::{Listing, PatchLocation, Rendering, UserMemory};
use crate::memory::Extent;
use crate::miniport::{Generation, Refusal, Token};
use crate::operation::PAGE;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{Fence, Passive, Ram, RuleId, Run, Subject, What, Who};
use std::sync::Arc;

/// A driver that needs more buffers than this for one call does not get on.
const MOST_PASSES: u32 = 1000;

const RENDER: &str = "DxgkDdiRender";
const PATCH: &str = "DxgkDdiPatch";

/// What a client has a context do (`D3DKMTRender`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderOrder {
    /// The context.
    pub context: Handle,
    /// The client's commands.
    pub commands: Vec<u8>,
    /// What they use: each view, and whether they write to it.
    pub list: Vec<(Handle, bool)>,
    /// Where they name it.
    pub patches: Vec<PatchLocation>,
    /// They are not to be done (`NullRendering`).
    pub null: bool,
}

/// A packet with lists: what it uses, and where its commands name it.
pub(crate) struct Listed {
    adapter: Id<Adapter>,
    context: Id<Context>,
    /// Its buffer in the machine's memory, how much of it is the driver's, and how much is
    /// written.
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    uses: Vec<Use>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// What it uses is held.
    held: bool,
    /// The node that has it, its number there, and whether it was patched for that.
    sent: Option<(usize, Fence, bool)>,
}

/// A packet on its way to the hardware, with where what it uses is.
struct Going {
    driver: Arc<Driver>,
    ram: Arc<dyn Ram>,
    node: Subject,
    fence: Fence,
    list: Vec<Listing>,
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// It is not patched: what its driver was told is still so.
    skips: bool,
}

/// An allocation that a packet uses.
#[derive(Clone, Debug)]
struct Use {
    view: Id<View>,
    word: usize,
    extent: Id<Extent>,
    write: bool,
    bytes: u64,
    /// Where it was when its driver wrote the commands: the segment, and the address.
    told: Option<(u32, u64)>,
}

impl Kernel {
    /// Has a driver write the hardware's commands for a client's, and gives them to its context.
    /// Answers how many packets that are.
    pub fn render(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &RenderOrder,
    ) -> Result<u32, Refused> {
        self.in_context(at, process, order.context, |at, context, inside| {
            self.look_again(inside)?;
            let uses = self.uses(process, inside.device, order)?;
            let named = once(&uses);
            let queued = self.make_packets(at, process, context, inside, order, &uses);
            self.count_named(&mut self.world.hold(), &named, false);
            let count = queued?;
            self.send(at, process.0, context, inside)?;
            Ok(count)
        })
    }

    /// Has the driver write packets, and puts them into their context's line.
    fn make_packets(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Id<Context>,
        inside: &Inside<'_>,
        order: &RenderOrder,
        uses: &[Use],
    ) -> Result<u32, Refused> {
        if inside.driver.generation == Generation::Two {
            self.judge_resident(context, inside, uses)?;
        }
        let packets = self.translate(at, process, context, inside, order, uses)?;
        let count = u32::try_from(packets.len()).unwrap_or(u32::MAX);
        self.world.hold().keep_listed(uses.iter().map(|it| (it.view, it.extent)));
        let mut refused = Ok(());
        for packet in packets {
            let number = {
                let world = &mut *self.world.hold();
                self.count_named(world, &packet.extents(), true);
                world.listed.insert(packet)
            };
            refused =
                refused.and_then(|()| self.queue_packet(context, inside, Load::Listed(number)));
            if refused.is_err() {
                self.end_listed(&mut self.world.hold(), number);
            }
        }
        refused.map(|()| count)
    }

    /// Whether the kernel brings what packets list, for a device's driver: from WDDM 2 on its
    /// client has it resident before.
    pub fn brings_listed(&self, process: ProcessId, device: Handle) -> bool {
        let world = self.world.hold();
        let number = world.resolve::<Device>(process, Argument::Device, device);
        number.is_ok_and(|it| world.brings_listed(it))
    }

    /// What a client's list names: counted as named, until its call is over.
    fn uses(
        &self,
        process: ProcessId,
        device: Id<Device>,
        order: &RenderOrder,
    ) -> Result<Vec<Use>, Refused> {
        let mut guard = self.world.hold();
        let world = &mut *guard;
        let views = world.listed_instances(process, device, order)?;
        let mut uses = Vec::with_capacity(views.len());
        for ((view, extent), (_, write)) in views.into_iter().zip(&order.list) {
            let subject = view.subject();
            let it = world.extents.get(extent).ok_or(Refused::NoVideoMemory)?;
            let memory = world.memory(it.adapter).ok_or(Refused::NoVideoMemory)?.1;
            if it.offer.is_some() {
                return Err(Refused::Offered(subject));
            }
            // WINDOWS: what is locked is mapped into an aperture; with none to go to, the packet
            // is refused (documented).
            if it.lock.is_some() && !memory.maps(it) {
                return Err(Refused::LockedAway(subject));
            }
            let word = world.views.get(view).and_then(|it| it.word.as_ref());
            let word = word.map_or(0, Token::word);
            let bytes = it.bytes;
            uses.push(Use { view, word, extent, write: *write, bytes, told: None });
        }
        self.count_named(world, &once(&uses), true);
        Ok(uses)
    }

    /// From WDDM 2 on a client has what it lists resident: nobody brings it.
    fn judge_resident(
        &self,
        context: Id<Context>,
        inside: &Inside<'_>,
        uses: &[Use],
    ) -> Result<(), Refused> {
        let missing = {
            let world = self.world.hold();
            let there = |it: &&Use| {
                let listed = world.views.get(it.view).is_some_and(|it| it.resident > 0);
                listed && world.place_now(it.extent).is_some()
            };
            uses.iter().find(|it| !there(it)).map(|it| it.view.subject())
        };
        let about = context.subject();
        let broken =
            missing.map(|it| format!("a packet of {about} lists {it}: it is not resident"));
        let refused = broken.is_some();
        let (rule, place) = (RuleId::RESID_MAKE_011, "D3DKMTRender.AllocationCount");
        self.log.judge(rule, Who::Client, about, place, broken);
        if refused {
            // WINDOWS: it is refused, and its device is in error (documented).
            self.lose_device(inside.device, Loss::PageFault);
            return Err(Refused::Removed(inside.subject()));
        }
        Ok(())
    }

    /// Has the driver write the hardware's commands, into as many buffers as it needs.
    fn translate(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Id<Context>,
        inside: &Inside<'_>,
        order: &RenderOrder,
        uses: &[Use],
    ) -> Result<Vec<Listed>, Refused> {
        let (mut packets, mut multipass, mut pass) = (Vec::new(), 0, 0);
        let refused = loop {
            pass += 1;
            let mut packet = match self.new_packet(context, inside, order, uses) {
                Ok(it) => it,
                Err(why) => break Err(why),
            };
            let (room, before) = (packet.size, multipass);
            let answer = self.render_pass(at, process, inside, order, &mut packet, &mut multipass);
            let full = matches!(answer, Err(Refused::Driver(Refusal::NoRoom)));
            let stays = full && multipass == before;
            let stuck = stays || pass > MOST_PASSES;
            self.judge_pass(context, full, stuck, packet.written > 0);
            let said = match &answer {
                Ok(()) => "ok".into(),
                Err(Refused::Driver(why)) => why.name(),
                Err(_) => "refused".into(),
            };
            let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
            let rendered = What::PacketRendered {
                pass,
                commands: small(order.commands.len()),
                room,
                bytes: packet.written,
                uses: small(packet.uses.len()),
                patches: small(packet.patches.len()),
                answer: said,
            };
            self.log.emit(context.subject(), rendered);
            // What a driver wrote before it found no room is a packet as well.
            if answer.is_ok() || (full && packet.written > 0) {
                packets.push(packet);
            } else {
                self.world.hold().give_back_buffer(packet.adapter, packet.run);
            }
            match answer {
                Ok(()) => break Ok(()),
                Err(_) if full && !stuck && pass <= MOST_PASSES => (),
                Err(why) => break Err(why),
            }
        };
        match refused {
            Ok(()) => Ok(packets),
            Err(why) => {
                let world = &mut *self.world.hold();
                for it in packets {
                    world.give_back_buffer(it.adapter, it.run);
                }
                Err(why)
            }
        }
    }

    /// A buffer for a packet, and where what it uses is now.
    fn new_packet(
        &self,
        context: Id<Context>,
        inside: &Inside<'_>,
        order: &RenderOrder,
        uses: &[Use],
    ) -> Result<Listed, Refused> {
        let world = &mut *self.world.hold();
        world.works(inside.device)?;
        let lists = world.contexts.get_mut(context).and_then(|it| it.lists.as_mut());
        let lists = lists.ok_or(Refused::NoLists(context.subject()))?;
        lists.renders = lists.renders.wrapping_add(1);
        let sizes = lists.sizes;
        // A driver that guarantees so has as much room as its client.
        let length = u32::try_from(order.commands.len()).unwrap_or(u32::MAX);
        let size = if sizes.guaranteed { sizes.commands.max(length) } else { sizes.commands };
        let memory = world.memory(inside.adapter).ok_or(Refused::NoVideoMemory)?.1;
        let bytes = u64::from(size).max(1).next_multiple_of(PAGE);
        let run = memory.ram.take(bytes).ok_or(Refused::NoRoom { trim: bytes })?;
        let uses = uses.iter().map(|it| Use { told: world.place_now(it.extent), ..it.clone() });
        Ok(Listed {
            adapter: inside.adapter,
            context,
            run,
            size,
            written: 0,
            private: vec![0; sizes.private as usize],
            uses: uses.collect(),
            patches: Vec::new(),
            null: order.null,
            held: false,
            sent: None,
        })
    }

    /// One call of `DxgkDdiRender`.
    fn render_pass(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &Inside<'_>,
        order: &RenderOrder,
        packet: &mut Listed,
        multipass: &mut u32,
    ) -> Result<(), Refused> {
        let (driver, room) = (&inside.driver, packet.size);
        let keys = Class::Zero.keys(inside.adapter, driver.generation, process.0);
        let pass = self.enter(at, keys)?;
        self.look_again(inside)?;
        let (word, ram, most) = {
            let world = self.world.hold();
            let gone = Refused::Removed(inside.subject());
            let it = world.contexts.get(packet.context).ok_or(gone.clone())?;
            let most = it.lists.as_ref().map_or(0, |it| it.sizes.patches);
            let word = it.word.clone().ok_or(gone)?;
            let ram = world.memory(inside.adapter).ok_or(Refused::NoVideoMemory)?.1.ram.clone();
            (word, ram, most)
        };
        let list: Vec<Listing> = packet.uses.iter().map(Use::told).collect();
        let commands = UserMemory::commands(order.commands.clone());
        let named = UserMemory::locations(order.patches.clone());
        let mut answer = Err(Refusal::NoMemory);
        let rest = Run { start: packet.run.start, bytes: u64::from(room) };
        let mut private = std::mem::take(&mut packet.private);
        let mut wrote = (0, Vec::new());
        ram.lend(rest, &mut |buffer| {
            let mut rendering = Rendering {
                context: &word,
                commands: &commands,
                list: &list,
                named: &named,
                buffer,
                address: packet.run.start,
                private: &mut private,
                written: 0,
                patches: Vec::new(),
                most_patches: most,
                multipass,
            };
            answer = driver.render(at, &pass, process.0, &mut rendering);
            wrote = (rendering.written, std::mem::take(&mut rendering.patches));
        });
        drop(word);
        packet.private = private;
        let about = packet.context.subject();
        self.judge_fetches(about, &commands, &named);
        let (written, patches) = wrote;
        if answer.is_ok() || answer == Err(Refusal::NoRoom) {
            self.judge_written(about, (written, room), (patches.len(), most));
            self.judge_patches(about, &patches, written.min(room), list.len());
        }
        (packet.written, packet.patches) = (written.min(room), patches);
        packet.patches.retain(|it| (it.allocation as usize) < list.len());
        Ok(answer?)
    }
}

/// Rules on what a driver answers.
impl Kernel {
    fn judge_fetches(
        &self,
        about: Subject,
        commands: &UserMemory<u8>,
        named: &UserMemory<PatchLocation>,
    ) {
        let twice = commands.again().map(|at| format!("byte {at} of the client's commands"));
        let twice = twice.or_else(|| {
            named.again().map(|at| format!("entry {at} of the client's patch locations"))
        });
        let broken = twice
            .map(|what| format!("the driver read {what} twice: a client can change it in between"));
        self.log.judge(
            RuleId::KMD_RENDER_001,
            Who::Driver,
            about,
            "DxgkDdiRender.pCommand",
            broken,
        );
    }

    fn judge_written(
        &self,
        about: Subject,
        (written, room): (u32, u32),
        (patches, most): (usize, u32),
    ) {
        let broken = if written > room {
            Some(format!("the driver says it wrote {written} bytes of commands, into {room}"))
        } else if patches > most as usize {
            Some(format!("the driver says it wrote {patches} patch locations, into {most}"))
        } else {
            None
        };
        let place = "DxgkDdiRender.pDmaBuffer";
        self.log.judge(RuleId::KMD_RENDER_003, Who::Driver, about, place, broken);
    }

    /// WINDOWS: the page says "strictly increasing" and speaks of elements that share a split
    /// offset; it is read as not decreasing (our decision). Slots are not judged: nobody knows
    /// how many a driver has.
    fn judge_patches(&self, about: Subject, patches: &[PatchLocation], written: u32, list: usize) {
        let falls = patches.windows(2).position(|it| it[1].split < it[0].split);
        let outside = |it: &PatchLocation| {
            it.split > written || it.place >= written || it.allocation as usize >= list
        };
        let broken = if let Some(at) = falls {
            Some(format!(
                "SplitOffset is {} in entry {at} and {} in the next: it does not fall",
                patches[at].split,
                patches[at + 1].split
            ))
        } else {
            patches.iter().position(outside).map(|at| {
                let it = patches[at];
                format!(
                    "entry {at} is for allocation {} of {list}, at byte {}, split at {}, but {written} \
                     bytes were written",
                    it.allocation, it.place, it.split
                )
            })
        };
        let place = "DxgkDdiRender.pPatchLocationListOut";
        self.log.judge(RuleId::KMD_RENDER_009, Who::Driver, about, place, broken);
    }

    /// A driver whose buffer is full goes on with the next, unless it said that it never is.
    fn judge_pass(&self, context: Id<Context>, full: bool, stuck: bool, wrote: bool) {
        let lists = |it: &Context| it.lists.as_ref().map(|it| it.sizes.guaranteed);
        let guaranteed = self.world.hold().contexts.get(context).and_then(lists);
        let about = context.subject();
        let nowhere = || "the driver got nowhere with an empty buffer of the size it wants";
        let broken = (stuck && !wrote).then(|| nowhere().to_owned());
        self.log.judge(RuleId::KMD_CTX_005, Who::Driver, about, RENDER, broken);
        let keeps =
            || "the driver asked for another buffer, and keeps no progress in MultipassOffset";
        let broken = (stuck && wrote).then(|| keeps().to_owned());
        self.log.judge(RuleId::KMD_RENDER_006, Who::Driver, about, RENDER, broken);
        if guaranteed == Some(true) {
            let broken = full.then(|| {
                "the driver asked for another buffer, though it guarantees that one is enough"
                    .to_owned()
            });
            self.log.judge(RuleId::KMD_RENDER_007, Who::Driver, about, RENDER, broken);
        }
    }
}

impl World {
    /// Whether what packets of a device list is brought: so it was before WDDM 2.
    pub(crate) fn brings_listed(&self, device: Id<Device>) -> bool {
        let on = self.devices.get(device).and_then(|it| self.adapters.get(it.adapter));
        on.is_some_and(|it| it.driver.generation == Generation::One)
    }
}

impl Listed {
    /// What it uses, each once.
    fn extents(&self) -> Vec<Id<Extent>> {
        once(&self.uses)
    }
}

/// The extents that are used, each once.
fn once(uses: &[Use]) -> Vec<Id<Extent>> {
    let mut extents: Vec<Id<Extent>> = uses.iter().map(|it| it.extent).collect();
    extents.sort_unstable();
    extents.dedup();
    extents
}

impl Use {
    /// As its driver was told when it wrote the commands.
    fn told(&self) -> Listing {
        let (segment, address) = self.told.unwrap_or_default();
        Listing { view: self.word, write: self.write, segment, address }
    }
}

impl Listing {
    /// The same, at another address.
    fn elsewhere(&self) -> Self {
        Self { address: self.address.wrapping_add(PAGE), ..*self }
    }
}
