//! What is judged about context allocations: how a driver asks for them, names them, forgets
//! them, and has engines use them.

use super::ContextAllocation;
use crate::context::Context;
use crate::device::Device;
use crate::handle::HasHandle;
use crate::handle::ObjectId;
use crate::handle::{HandleError, Handle};
use crate::kernel::Kernel;
use crate::miniport::{DriverResult, DriverError};
use crate::operation::CreateContextAllocationArgs;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::KernelState;
use flight::{RuleId, Subject, Component};

const CREATE: &str = "DxgkCbCreateContextAllocation";

impl Kernel {
    /// Whose it is to be: the driver names a device and a context as the kernel does.
    pub(super) fn judge_context_allocation_owner(
        &self,
        world: &KernelState,
        adapter: Id<Adapter>,
        order: &CreateContextAllocationArgs,
    ) -> DriverResult<(Id<Device>, Option<Id<Context>>)> {
        let crooked = if order.shared && order.context != 0 {
            Some("it is to be shared across contexts, and hContext is not NULL".to_owned())
        } else if !order.shared && order.context == 0 {
            Some("hContext is NULL, and it is not to be shared across contexts".to_owned())
        } else {
            None
        };
        let refused = crooked.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_002, Component::Driver, adapter.subject(), CREATE, crooked);
        let device: Option<Id<Device>> = world.find_by_kernel_handle(order.device);
        let device =
            device.filter(|it| world.devices.get(*it).is_some_and(|it| it.adapter == adapter));
        let context: Option<Id<Context>> = world.find_by_kernel_handle(order.context);
        let context = context.filter(|it| world.contexts.get(*it).map(|it| it.device) == device);
        let lost = if device.is_none() {
            let given = world.describe_kernel_handle(order.device);
            Some(format!("hDevice is {given}, no name the kernel gave for a device of {adapter}"))
        } else if order.context != 0 && context.is_none() {
            let given = world.describe_kernel_handle(order.context);
            Some(format!("hContext is {given}, no name the kernel gave for a context of hDevice"))
        } else {
            None
        };
        let unknown = lost.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_003, Component::Driver, adapter.subject(), CREATE, lost);
        match device {
            Some(device) if !refused && !unknown => Ok((device, context)),
            _ => Err(DriverError::Invalid),
        }
    }

    /// Whether what it is to be is possible.
    pub(super) fn judge_context_allocation_args(
        &self,
        world: &KernelState,
        adapter: Id<Adapter>,
        order: &CreateContextAllocationArgs,
    ) -> DriverResult<()> {
        let Some((_, memory)) = world.memory(adapter) else { return Err(DriverError::Invalid) };
        let wants = &order.requirements;
        let aperture = |number: u32| Some(memory.segment_numbered(number)?.info.flags.aperture);
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
        self.log.judge(RuleId::CB_CTXALLOC_004, Component::Driver, adapter.subject(), CREATE, broken);
        let seen = wants.flags.cpu_visible && wants.flags.protected;
        let elsewhere = wants.segments.iter().any(|it| aperture(it) == Some(false));
        let broken = (seen && elsewhere).then(|| {
            "it is to have an address of the CPU's (CpuVisible and Protected), and may be in \
             memory that is no aperture"
                .to_owned()
        });
        self.log.judge(RuleId::CB_CTXALLOC_005, Component::Driver, adapter.subject(), CREATE, broken);
        if refused { Err(DriverError::Invalid) } else { Ok(()) }
    }

    /// What a driver names: it must be live, and of this adapter.
    pub(super) fn judge_kernel_handle(
        &self,
        world: &KernelState,
        adapter: Id<Adapter>,
        name: usize,
        place: &'static str,
    ) -> DriverResult<Id<ContextAllocation>> {
        let found = u32::try_from(name).ok().map(|it| world.kernel_handles.lookup(Handle(it)));
        let broken = match found {
            Some(Ok(ObjectId::ContextAllocation(it))) => {
                let home = world.context_allocations[it].adapter;
                (home != adapter)
                    .then(|| format!("{it} belongs to {}, not to {adapter}", home.subject()))
            }
            Some(Ok(it)) => {
                let it = it.subject();
                Some(format!("{name:#x} names {it}, which is no context allocation"))
            }
            Some(Err(HandleError::Closed(of))) => {
                let of = of.map_or("a context allocation".to_owned(), |it| it.to_string());
                Some(format!("{of} was freed before: its name {name:#x} is stale"))
            }
            _ => Some(format!("it is {}, no name the kernel gave", world.describe_kernel_handle(name))),
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_009, Component::Driver, adapter.subject(), place, broken);
        match found {
            Some(Ok(ObjectId::ContextAllocation(it))) if !refused => Ok(it),
            _ => Err(DriverError::Invalid),
        }
    }

    /// An engine saved a context: where it did, an allocation for that context has to be.
    pub(crate) fn judge_context_save(&self, adapter: Id<Adapter>, node: u32, address: u64) {
        let world = self.state.lock();
        let Some((extents, memory)) = world.memory(adapter) else { return };
        let nodes = world.adapters.get(adapter).map(|it| it.nodes.as_slice());
        let Some(on) = nodes.and_then(|it| it.get(node as usize)) else { return };
        let whose = |it: &ContextAllocation| {
            let mine = |context, device| it.context.map_or(it.device == device, |it| it == context);
            on.may_save(mine)
                || on
                    .queue
                    .iter()
                    .filter_map(|it| it.of)
                    .any(|(context, device)| mine(context, device))
        };
        let there = |it: &ContextAllocation| {
            let extent = extents.get(it.extent)?;
            let start = memory.address(extent)?;
            Some((start..start + extent.bytes).contains(&address))
        };
        let mut all = world.context_allocations.iter().filter(|(_, it)| it.adapter == adapter);
        let found = all.any(|(_, it)| there(it) == Some(true) && whose(it));
        let broken = (!found).then(|| {
            format!(
                "{} saved a context at {address:#x}, where no context allocation of it is: it was \
                 freed, or never there",
                on.subject()
            )
        });
        let place = "DxgkDdiSubmitCommandVirtual";
        self.log.judge(RuleId::CB_CTXALLOC_014, Component::Driver, adapter.subject(), place, broken);
    }

    pub(super) fn judge_leaked_context_allocations(&self, owner: Subject, place: &'static str, remaining: &[Id<ContextAllocation>]) {
        let what = match remaining {
            [] => None,
            [one] => Some(format!("{} that its driver made for it is", one.subject())),
            _ => Some(format!("{} context allocations of its driver's are", remaining.len())),
        };
        let broken = what.map(|it| format!("{owner} is gone, and {it} not freed"));
        self.log.judge(RuleId::CB_CTXALLOC_013, Component::Driver, owner, place, broken);
    }
}

impl KernelState {
    /// What the kernel's name for something of a kind stands for.
    pub(crate) fn find_by_kernel_handle<T: HasHandle>(&self, name: usize) -> Option<Id<T>> {
        let found = self.kernel_handles.lookup_for_driver(Handle(u32::try_from(name).ok()?))?;
        T::named_by(found)
    }

    /// What a driver named something by, for people: an address says nothing.
    pub(crate) fn describe_kernel_handle(&self, name: usize) -> String {
        let device = |it: &Device| it.driver_handle.as_ref().map(|it| it.word()) == Some(name);
        let context = |it: &Context| it.driver_handle.as_ref().map(|it| it.word()) == Some(name);
        let saved = self.context_allocations.iter().find(|(_, it)| it.driver_handle == name).map(|it| it.0.subject());
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
