//! The rules about context allocations: how a driver creates, names, frees and uses them.

use super::ContextAllocation;
use crate::adapter::start::Adapter;
use crate::base::id_list::{Id, Slab};
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{DriverError, DriverResult};
use crate::ddi::operation::CreateContextAllocationArgs;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::address::{self, AddressSpace};
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::HasHandle;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, HandleError};
use crate::objects::resource::Resource;
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{Component, DriverHandle, RuleId, Subject};

const CREATE: &str = "DxgkCbCreateContextAllocation";

impl Kernel {
    /// Judges the owner: the driver must pass the kernel's handles of a device and a context.
    pub(super) fn judge_context_allocation_owner(
        &self,
        state: &KernelState,
        adapter: Id<Adapter>,
        args: &CreateContextAllocationArgs,
    ) -> DriverResult<(Id<Device>, Option<Id<Context>>)> {
        let misaligned = if args.shared && args.context != 0 {
            Some("it is shared across contexts, but hContext is not NULL".to_owned())
        } else if !args.shared && args.context == 0 {
            Some("hContext is NULL, but it is not shared across contexts".to_owned())
        } else {
            None
        };
        let error = misaligned.is_some();
        self.log.judge(
            RuleId::CB_CTXALLOC_002,
            Component::Driver,
            adapter.subject(),
            CREATE,
            misaligned,
        );
        let device: Option<Id<Device>> = state.find_by_kernel_handle(args.device);
        let device = device
            .filter(|it| state.devices.get(*it).is_some_and(|device| device.adapter == adapter));
        let context: Option<Id<Context>> = state.find_by_kernel_handle(args.context);
        let context =
            context.filter(|it| state.contexts.get(*it).map(|context| context.device) == device);
        let lost = if device.is_none() {
            let given = state.describe_kernel_handle(args.device);
            Some(format!("hDevice is {given}, not the kernel's handle of a device of {adapter}"))
        } else if args.context != 0 && context.is_none() {
            let given = state.describe_kernel_handle(args.context);
            Some(format!("hContext is {given}, not the kernel's handle of a context of hDevice"))
        } else {
            None
        };
        let unknown = lost.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_003, Component::Driver, adapter.subject(), CREATE, lost);
        match device {
            Some(device) if !error && !unknown => Ok((device, context)),
            _ => Err(DriverError::Invalid),
        }
    }

    /// Judges the size, alignment and placement.
    pub(super) fn judge_context_allocation_args(
        &self,
        state: &KernelState,
        adapter: Id<Adapter>,
        args: &CreateContextAllocationArgs,
    ) -> DriverResult<()> {
        let Some(memory) = state.adapter_memory(adapter) else { return Err(DriverError::Invalid) };
        let requirements = &args.requirements;
        let aperture = |number: u32| Some(memory.segment_numbered(number)?.info.flags.aperture);
        let misaligned = args.alignment != 0 && !args.alignment.is_power_of_two();
        let broken = if args.size == 0 {
            Some("Size is 0".to_owned())
        } else if misaligned {
            Some(format!("Alignment {:#x} is not a power of two", args.alignment))
        } else if requirements.segments.is_empty()
            || requirements.segments.iter().any(|number| aperture(number).is_none())
        {
            Some(format!(
                "its segment set {:#x} is empty, or has segments that do not exist",
                requirements.segments.0
            ))
        } else if let Some(it) = requirements
            .preferred
            .iter()
            .flatten()
            .find(|segment_preference| !requirements.segments.has(segment_preference.segment))
        {
            Some(format!("segment {} is preferred, but not among its segments", it.segment))
        } else {
            let wrong = requirements.evict.iter().find(|number| aperture(*number) != Some(true));
            wrong.map(|number| {
                format!("segment {number} is listed for eviction, but is no aperture")
            })
        };
        let error = broken.is_some();
        self.log.judge(
            RuleId::CB_CTXALLOC_004,
            Component::Driver,
            adapter.subject(),
            CREATE,
            broken,
        );
        let seen = requirements.flags.cpu_visible && requirements.flags.protected;
        let elsewhere = requirements.segments.iter().any(|number| aperture(number) == Some(false));
        let broken = (seen && elsewhere).then(|| {
            "it needs a CPU address (CpuVisible and Protected), but may be in memory that is no \
             aperture"
                .to_owned()
        });
        self.log.judge(
            RuleId::CB_CTXALLOC_005,
            Component::Driver,
            adapter.subject(),
            CREATE,
            broken,
        );
        if error { Err(DriverError::Invalid) } else { Ok(()) }
    }

    /// Judges a handle that a driver passes: it must be live and of this adapter.
    pub(super) fn judge_kernel_handle(
        &self,
        state: &KernelState,
        adapter: Id<Adapter>,
        name: usize,
        argument: &'static str,
    ) -> DriverResult<Id<ContextAllocation>> {
        let found =
            u32::try_from(name).ok().map(|number| state.kernel_handles.lookup(Handle(number)));
        let broken = match found {
            Some(Ok(ObjectId::ContextAllocation(it))) => {
                let resource = state.memory.context_allocations[it].adapter;
                (resource != adapter)
                    .then(|| format!("{it} belongs to {}, not to {adapter}", resource.subject()))
            }
            Some(Ok(it)) => {
                let it = it.subject();
                Some(format!("{name:#x} is the handle of {it}, which is no context allocation"))
            }
            Some(Err(HandleError::Closed(of))) => {
                let of =
                    of.map_or("a context allocation".to_owned(), |subject| subject.to_string());
                Some(format!("{of} was already freed: its handle {name:#x} is stale"))
            }
            _ => Some(format!(
                "it is {}, not a handle of the kernel",
                state.describe_kernel_handle(name)
            )),
        };
        let error = broken.is_some();
        self.log.judge(
            RuleId::CB_CTXALLOC_009,
            Component::Driver,
            adapter.subject(),
            argument,
            broken,
        );
        match found {
            Some(Ok(ObjectId::ContextAllocation(it))) if !error => Ok(it),
            _ => Err(DriverError::Invalid),
        }
    }

    /// Judges an engine's save of a context: the target must be a context allocation of that
    /// context.
    pub(crate) fn judge_context_save(&self, adapter: Id<Adapter>, node: u32, address: u64) {
        let state = self.state.lock();
        // The hardware may save a context after its adapter has stopped.
        let Some(memory) = state.adapter_memory(adapter) else { return };
        let nodes = state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
        // A stopped adapter has no nodes.
        let Some(on) = nodes.and_then(|nodes| nodes.get(node as usize)) else { return };
        let whose = |context_allocation: &ContextAllocation| {
            let mine = |context, device| {
                context_allocation
                    .context
                    .map_or(context_allocation.device == device, |it| it == context)
            };
            on.may_save(mine)
                || on
                    .queue
                    .iter()
                    .filter_map(|in_flight_packet| in_flight_packet.of)
                    .any(|(context, device)| mine(context, device))
        };
        let there = |context_allocation: &ContextAllocation| {
            let extent = state.memory.extents.get(context_allocation.extent)?;
            let start = memory.address(extent)?;
            Some((start..start + extent.bytes).contains(&address))
        };
        let mut all =
            state.memory.context_allocations.iter().filter(|(_, it)| it.adapter == adapter);
        let found = all.any(|(_, it)| there(it) == Some(true) && whose(it));
        let broken = (!found).then(|| {
            format!(
                "{} saved a context at {address:#x}, where it has no context allocation: it was \
                 freed, or never created",
                on.subject()
            )
        });
        let argument = "DxgkDdiSubmitCommandVirtual";
        self.log.judge(
            RuleId::CB_CTXALLOC_014,
            Component::Driver,
            adapter.subject(),
            argument,
            broken,
        );
    }

    pub(super) fn judge_leaked_context_allocations(
        &self,
        owner: Subject,
        argument: &'static str,
        remaining: &[Id<ContextAllocation>],
    ) {
        let what = match remaining {
            [] => None,
            [one] => Some(format!("its context allocation {} is", one.subject())),
            _ => Some(format!("{} of its context allocations are", remaining.len())),
        };
        let broken = what.map(|text| format!("{owner} is destroyed, but {text} not freed"));
        self.log.judge(RuleId::CB_CTXALLOC_013, Component::Driver, owner, argument, broken);
    }
}

impl KernelState {
    /// Resolves a kernel handle to an object of the expected type.
    pub(crate) fn find_by_kernel_handle<T: HasHandle>(&self, name: usize) -> Option<Id<T>> {
        let found = self.kernel_handles.lookup_for_driver(Handle(u32::try_from(name).ok()?))?;
        T::named_by(found)
    }

    /// Describes what a driver passed as a handle, for reports: an address alone explains nothing.
    pub(crate) fn describe_kernel_handle(&self, name: usize) -> String {
        let handle = u32::try_from(name).map(Handle);
        let found = handle.map(|handle| self.kernel_handles.lookup(handle));
        match (found, handle) {
            (Ok(Ok(object)), _) => format!("the kernel's handle of {}", object.subject()),
            (Ok(Err(HandleError::Closed(Some(of)))), _) => {
                format!("the kernel's handle of {of}, which was destroyed")
            }
            (_, handle) => self.describe_other_handle(name).unwrap_or_else(|| match handle {
                Ok(handle) => format!("{:#x}", handle.0),
                Err(_) => "an address".to_owned(),
            }),
        }
    }

    /// Describes a handle of the driver's own, or of the client that the current call is for.
    fn describe_other_handle(&self, name: usize) -> Option<String> {
        if let Some(own) = self.find_driver_handle(name).filter(|_| name != 0) {
            return Some(format!("the driver's own handle of {own}"));
        }
        let object = self.find_object(Handle(u32::try_from(name).ok()?))?;
        Some(format!("the client's handle of {}", object.subject()))
    }

    /// The object of a driver handle.
    fn find_driver_handle(&self, name: usize) -> Option<Subject> {
        let device = |it: &Device| it.driver_handle.as_ref().map(|handle| handle.as_raw());
        let context = |it: &Context| it.driver_handle.as_ref().map(|handle| handle.as_raw());
        let allocation = |it: &Allocation| it.driver_handle.as_ref().map(DriverHandle::as_raw);
        let view = |it: &View| it.driver_handle.as_ref().map(DriverHandle::as_raw);
        let resource = |it: &Resource| it.driver_handle.as_ref().map(DriverHandle::as_raw);
        let process = |it: &AddressSpace| it.driver_handle.as_ref().map(|handle| handle.as_raw());
        let area = |it: &ContextAllocation| Some(it.driver_handle);
        let areas = &self.memory.context_allocations;
        let spaces = &self.memory.spaces;
        find(areas, area, name)
            .map(Id::subject)
            .or_else(|| Some(find(&self.devices, device, name)?.subject()))
            .or_else(|| Some(find(&self.contexts, context, name)?.subject()))
            .or_else(|| Some(find(&self.allocations, allocation, name)?.subject()))
            .or_else(|| Some(find(&self.views, view, name)?.subject()))
            .or_else(|| Some(find(&self.resources, resource, name)?.subject()))
            .or_else(|| Some(address::subject(find(spaces, process, name)?)))
    }
}

/// The object with this driver handle.
fn find<T>(
    all: &Slab<T>,
    driver_handle: impl Fn(&T) -> Option<usize>,
    name: usize,
) -> Option<Id<T>> {
    all.iter().find(|pair| driver_handle(pair.1) == Some(name)).map(|pair| pair.0)
}

impl KernelCallbacks {
    /// What a value is that a driver passed instead of a handle of the kernel: a handle of its own
    /// or of a client. `None` if it is neither.
    pub fn describe_handle(&self, value: usize) -> Option<String> {
        self.kernel.upgrade()?.state.lock().describe_other_handle(value)
    }
}
