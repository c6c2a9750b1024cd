//! What is judged about context allocations: how a driver asks for them, names them, forgets
//! them, and has engines use them.

use super::Saved;
use crate::context::Context;
use crate::device::Device;
use crate::handle::HasHandle;
use crate::handle::ObjectId;
use crate::handle::{BadHandle, Handle};
use crate::kernel::Kernel;
use crate::miniport::{Answer, Refusal};
use crate::operation::ContextMemoryOrder;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{RuleId, Subject, Who};

const CREATE: &str = "DxgkCbCreateContextAllocation";

impl Kernel {
    /// Whose it is to be: the driver names a device and a context as the kernel does.
    pub(super) fn judge_owner(
        &self,
        world: &World,
        adapter: Id<Adapter>,
        order: &ContextMemoryOrder,
    ) -> Answer<(Id<Device>, Option<Id<Context>>)> {
        let crooked = if order.shared && order.context != 0 {
            Some("it is to be shared across contexts, and hContext is not NULL".to_owned())
        } else if !order.shared && order.context == 0 {
            Some("hContext is NULL, and it is not to be shared across contexts".to_owned())
        } else {
            None
        };
        let refused = crooked.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_002, Who::Driver, adapter.subject(), CREATE, crooked);
        let device: Option<Id<Device>> = world.named_by_kernel(order.device);
        let device =
            device.filter(|it| world.devices.get(*it).is_some_and(|it| it.adapter == adapter));
        let context: Option<Id<Context>> = world.named_by_kernel(order.context);
        let context = context.filter(|it| world.contexts.get(*it).map(|it| it.device) == device);
        let lost = if device.is_none() {
            let given = world.shown(order.device);
            Some(format!("hDevice is {given}, no name the kernel gave for a device of {adapter}"))
        } else if order.context != 0 && context.is_none() {
            let given = world.shown(order.context);
            Some(format!("hContext is {given}, no name the kernel gave for a context of hDevice"))
        } else {
            None
        };
        let unknown = lost.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_003, Who::Driver, adapter.subject(), CREATE, lost);
        match device {
            Some(device) if !refused && !unknown => Ok((device, context)),
            _ => Err(Refusal::Invalid),
        }
    }

    /// Whether what it is to be is possible.
    pub(super) fn judge_order(
        &self,
        world: &World,
        adapter: Id<Adapter>,
        order: &ContextMemoryOrder,
    ) -> Answer<()> {
        let Some((_, memory)) = world.memory(adapter) else { return Err(Refusal::Invalid) };
        let wants = &order.wants;
        let aperture = |number: u32| Some(memory.numbered(number)?.shape.flags.aperture);
        let crooked = order.alignment != 0 && !order.alignment.is_power_of_two();
        let broken = if order.size == 0 {
            Some("it has no size".to_owned())
        } else if crooked {
            Some(format!("its alignment {:#x} is no power of two", order.alignment))
        } else if wants.segments.is_empty()
            || wants.segments.iter().any(|it| aperture(it).is_none())
        {
            Some(format!("its segments {:#x} are none, or not all there", wants.segments.0))
        } else if let Some(it) =
            wants.preferred.iter().flatten().find(|it| !wants.segments.has(it.segment))
        {
            Some(format!("segment {} is preferred, but not among its segments", it.segment))
        } else {
            let wrong = wants.evict.iter().find(|it| aperture(*it) != Some(true));
            wrong.map(|it| format!("segment {it} is listed for eviction, but is no aperture"))
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_004, Who::Driver, adapter.subject(), CREATE, broken);
        let seen = wants.flags.cpu_visible && wants.flags.protected;
        let elsewhere = wants.segments.iter().any(|it| aperture(it) == Some(false));
        let broken = (seen && elsewhere).then(|| {
            "it is to have an address of the CPU's (CpuVisible and Protected), and may be in \
             memory that is no aperture"
                .to_owned()
        });
        self.log.judge(RuleId::CB_CTXALLOC_005, Who::Driver, adapter.subject(), CREATE, broken);
        if refused { Err(Refusal::Invalid) } else { Ok(()) }
    }

    /// What a driver names: it must be live, and of this adapter.
    pub(super) fn judge_name(
        &self,
        world: &World,
        adapter: Id<Adapter>,
        name: usize,
        place: &'static str,
    ) -> Answer<Id<Saved>> {
        let found = u32::try_from(name).ok().map(|it| world.kernel_names.find(Handle(it)));
        let broken = match found {
            Some(Ok(ObjectId::Saved(it))) => {
                let home = world.saved[it].adapter;
                (home != adapter)
                    .then(|| format!("{it} belongs to {}, not to {adapter}", home.subject()))
            }
            Some(Ok(it)) => {
                let it = it.subject();
                Some(format!("{name:#x} names {it}, which is no context allocation"))
            }
            Some(Err(BadHandle::Closed(of))) => {
                let of = of.map_or("a context allocation".to_owned(), |it| it.to_string());
                Some(format!("{of} was freed before: its name {name:#x} is stale"))
            }
            _ => Some(format!("it is {}, no name the kernel gave", world.shown(name))),
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_009, Who::Driver, adapter.subject(), place, broken);
        match found {
            Some(Ok(ObjectId::Saved(it))) if !refused => Ok(it),
            _ => Err(Refusal::Invalid),
        }
    }

    /// An engine saved a context: where it did, an allocation for that context has to be.
    pub(crate) fn judge_save(&self, adapter: Id<Adapter>, node: u32, address: u64) {
        let world = self.world.hold();
        let Some((extents, memory)) = world.memory(adapter) else { return };
        let nodes = world.adapters.get(adapter).map(|it| it.nodes.as_slice());
        let Some(on) = nodes.and_then(|it| it.get(node as usize)) else { return };
        let whose = |it: &Saved| {
            let mine = |context, device| it.context.map_or(it.device == device, |it| it == context);
            on.may_save(mine)
                || on
                    .queue
                    .iter()
                    .filter_map(|it| it.of)
                    .any(|(context, device)| mine(context, device))
        };
        let there = |it: &Saved| {
            let extent = extents.get(it.extent)?;
            let start = memory.address(extent)?;
            Some((start..start + extent.bytes).contains(&address))
        };
        let mut all = world.saved.iter().filter(|(_, it)| it.adapter == adapter);
        let found = all.any(|(_, it)| there(it) == Some(true) && whose(it));
        let broken = (!found).then(|| {
            format!(
                "{} saved a context at {address:#x}, where no context allocation of it is: it was \
                 freed, or never there",
                on.subject()
            )
        });
        let place = "DxgkDdiSubmitCommandVirtual";
        self.log.judge(RuleId::CB_CTXALLOC_014, Who::Driver, adapter.subject(), place, broken);
    }

    pub(super) fn judge_left(&self, owner: Subject, place: &'static str, left: &[Id<Saved>]) {
        let what = match left {
            [] => None,
            [one] => Some(format!("{} that its driver made for it is", one.subject())),
            _ => Some(format!("{} context allocations of its driver's are", left.len())),
        };
        let broken = what.map(|it| format!("{owner} is gone, and {it} not freed"));
        self.log.judge(RuleId::CB_CTXALLOC_013, Who::Driver, owner, place, broken);
    }
}

impl World {
    /// What the kernel's name for something of a kind stands for.
    pub(crate) fn named_by_kernel<T: HasHandle>(&self, name: usize) -> Option<Id<T>> {
        let found = self.kernel_names.find_for_driver(Handle(u32::try_from(name).ok()?))?;
        T::named_by(found)
    }

    /// What a driver named something by, for people: an address says nothing.
    pub(crate) fn shown(&self, name: usize) -> String {
        let device = |it: &Device| it.word.as_ref().map(|it| it.word()) == Some(name);
        let context = |it: &Context| it.word.as_ref().map(|it| it.word()) == Some(name);
        let saved = self.saved.iter().find(|(_, it)| it.word == name).map(|it| it.0.subject());
        let own = saved
            .or_else(|| self.devices.iter().find(|it| device(it.1)).map(|it| it.0.subject()))
            .or_else(|| self.contexts.iter().find(|it| context(it.1)).map(|it| it.0.subject()));
        match (own, u32::try_from(name)) {
            (Some(own), _) => format!("the driver's own handle of {own}"),
            (None, Ok(name)) => format!("{name:#x}"),
            (None, Err(_)) => "an address".to_owned(),
        }
    }
}
