//! What was at an address that a packet touched in vain.

use crate::context::Context;
use crate::kernel::Kernel;
use crate::memory::queue::Queue;
use crate::space::Space;
use crate::space::addresses::Held;
use crate::space::subject;
use crate::store::Id;
use crate::world::World;
use flight::{RuleId, What, Who};
use std::ops::Range as Span;

/// Addresses that were freed lately.
#[derive(Debug)]
pub(crate) struct Freed {
    pub(crate) span: Span<u64>,
    /// The contexts that had work then, and how many packets they had ever been given.
    pub(crate) during: Vec<(Id<Context>, u64)>,
}

/// Addresses that can be used when a queue's fence has a value.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) span: Span<u64>,
    pub(crate) queue: Id<Queue>,
    pub(crate) value: u64,
    /// By a reservation, not a map.
    pub(crate) reserved: bool,
}

/// What a packet did wrong at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) address: u64,
    space: Id<Space>,
    which: Which,
    why: String,
    /// The driver's word for what is mapped there, if that is not resident.
    pub(crate) word: Option<usize>,
}

/// The rule it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// Nothing is mapped there, or not yet.
    Unmapped,
    /// It is not reserved yet.
    Unreserved,
    /// It was freed while the packet was under way.
    Freed,
    /// What is mapped there is not resident: those rules say more.
    Away,
}

impl Kernel {
    /// Entry rules: a packet is done, or faulted at an address. Its addresses were there.
    pub(crate) fn judge_address(&self, world: &World, context: Id<Context>, fault: Option<&Fault>) {
        let adapter = world.devices[world.contexts[context].device].adapter;
        if world.mmu(adapter).is_none() {
            return;
        }
        if let Some(it) = fault {
            let (space, address, why) = (subject(it.space), it.address, it.why.clone().into());
            self.log.emit(context.subject(), What::AddressFaulted { space, address, why });
        }
        let said = |which: Which| {
            let it = fault.filter(|it| it.which == which)?;
            Some(format!("a packet of {context} touched address {:#x}, {}", it.address, it.why))
        };
        let place = "D3DKMTSubmitCommand";
        let rules = [
            (RuleId::GPUVA_MAP_007, Which::Unmapped),
            (RuleId::GPUVA_RESERVE_004, Which::Unreserved),
            (RuleId::GPUVA_FREE_002, Which::Freed),
        ];
        for (rule, which) in rules {
            self.log.judge(rule, world.maker_of(context), context.subject(), place, said(which));
        }
    }
}

impl World {
    /// Who is to blame for the work of a context.
    pub(crate) fn maker_of(&self, context: Id<Context>) -> Who {
        self.contexts[context].by
    }

    /// What is at an address for a packet of a context that faulted there: looked up when the
    /// driver says so, for paging work goes on.
    pub(crate) fn find_fault(&self, context: Id<Context>, address: u64) -> Option<Fault> {
        let it = &self.contexts[context];
        let device = &self.devices[it.device];
        let space = self.space_of(device.owner(), device.adapter)?;
        let packet = it.line.done + 1;
        let (which, why, word) = self.say_address(space, context, packet, address);
        Some(Fault { address, space, which, why, word })
    }

    fn say_address(
        &self,
        number: Id<Space>,
        context: Id<Context>,
        packet: u64,
        address: u64,
    ) -> (Which, String, Option<usize>) {
        let unmapped = |why: &str| (Which::Unmapped, why.to_owned(), None);
        let Some(space) = self.spaces.get(number) else { return unmapped("of no process") };
        let late = |it: &&Coming| {
            let done = self.queues.get(it.queue).map_or(u64::MAX, |it| it.done);
            it.span.contains(&address) && done < it.value
        };
        let coming = space.coming.iter().rev().find(late);
        let Some((span, taken)) = space.addresses.at(address) else {
            let freed = space.freed.iter().rev().find(|it| it.span.contains(&address));
            let Some(freed) = freed else {
                return unmapped("at which nothing was ever mapped");
            };
            let (start, end) = (freed.span.start, freed.span.end);
            let was = |it: &(Id<Context>, u64)| it.0 == context && packet <= it.1;
            return if freed.during.iter().any(was) {
                let why = format!("of {start:#x} to {end:#x}, which was freed while it was queued");
                (Which::Freed, why, None)
            } else {
                (Which::Unmapped, format!("of {start:#x} to {end:#x}, which was freed"), None)
            };
        };
        if let Some(it) = coming {
            let (queue, value) = (it.queue.subject(), it.value);
            let (which, what) = if it.reserved {
                (Which::Unreserved, "reserved")
            } else {
                (Which::Unmapped, "mapped")
            };
            let why = format!("which is not {what} before {queue} signals {value}");
            return (which, why, None);
        }
        let (start, end) = (span.start, span.end);
        match taken.held {
            Held::Reserved | Held::Driver | Held::NoAccess | Held::Zero => {
                let why = format!(
                    "of {start:#x} to {end:#x}, which is {}: nothing is mapped there",
                    taken.held.name()
                );
                (Which::Unmapped, why, None)
            }
            Held::Mapped { view, access, .. } => {
                let extent = self.extent_of(view).and_then(|it| self.extents.get(it));
                let of = extent.map_or(view.subject(), |it| it.owner.subject());
                let there = extent.is_some_and(|it| it.segment().is_some() && it.pending == 0);
                let what = format!("of {start:#x} to {end:#x}, where {of} is mapped");
                if there && !access.write {
                    (Which::Away, format!("{what} to be read only"), None)
                } else {
                    let word = extent.filter(|_| !there).map(|it| it.word);
                    (Which::Away, format!("{what}, which is not resident"), word)
                }
            }
        }
    }

    /// The contexts of a space's process that have work, and how many packets they had.
    pub(crate) fn working_contexts(&self, space: Id<Space>) -> Vec<(Id<Context>, u64)> {
        let Some(it) = self.spaces.get(space) else { return Vec::new() };
        let works = |number: Id<Context>| {
            let it = self.contexts.get(number).filter(|it| it.line.queued > it.line.done)?;
            Some((number, it.line.queued))
        };
        let all = it.process.into_iter().flat_map(|process| self.devices_on(process, it.adapter));
        let mut all: Vec<(Id<Context>, u64)> = all
            .filter_map(|device| self.devices.get(device))
            .flat_map(|it| it.contexts.iter().copied().filter_map(works))
            .collect();
        all.sort_unstable();
        all
    }
}
