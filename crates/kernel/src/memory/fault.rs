//! Failed accesses of packets: what a packet accessed, and which component is at fault.
//!
//! The kernel judges by what it knows itself: which allocations were in place, and which addresses
//! were mapped, when it submitted the packet. What was there is reached by the packet of a correct
//! driver, so a fault is the driver's. A client is at fault if an allocation that its packet may
//! have used was not there. Where the kernel's facts do not decide, it judges no rule.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::address::fault::{AddressFault, AddressFaultCause};
use crate::memory::{Extent, NOT_IN_PLACE, Owner, PagingBatch};
use crate::objects::view::View;
use crate::schedule::report::InFlightPacket;
use crate::state::KernelState;
use flight::{Component, Fence, RuleId, Subject};

const SUBMIT: &str = "D3DKMTSubmitCommand";
const BUILD_PAGING: &str = "DxgkDdiBuildPagingBuffer";

/// A driver's report of a failed access of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultTarget {
    /// Its driver handle of the allocation, if known.
    DriverHandle(Option<usize>),
    /// The address, virtual if the adapter translates addresses.
    Address(u64),
}

impl FaultTarget {
    fn address(self) -> Option<u64> {
        match self {
            Self::Address(address) => Some(address),
            Self::DriverHandle(_) => None,
        }
    }

    /// The end of the clause "a packet faulted".
    fn describe(self) -> String {
        self.address().map_or(String::new(), |address| format!(" at address {address:#x}"))
    }
}

/// The failed access of a packet, with what the kernel knew when the driver reported it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultedAccess {
    /// What the address contained, if the adapter translates addresses.
    address: Option<AddressFault>,
    /// The rule that it breaks, if the kernel knows.
    breach: Option<FaultBreach>,
}

/// The rule that a failed access breaks.
#[derive(Clone, Debug)]
struct FaultBreach {
    rule: RuleId,
    place: &'static str,
    message: String,
}

/// A submitted packet of a client.
#[derive(Clone, Copy)]
struct FaultedPacket {
    context: Id<Context>,
    device: Id<Device>,
    /// Its number among the submitted packets.
    sent: u64,
    target: FaultTarget,
}

impl Extent {
    /// Whether it was in place when a packet was submitted, and is still there, or leaves only when
    /// the packet is over.
    pub(crate) fn is_in_place_for(&self, sent: u64) -> bool {
        let stays = self.segment().is_some() && self.pending == 0;
        self.settled < sent && (stays || sent <= self.left)
    }
}

impl Kernel {
    /// Entry rules: judges a completed or faulted packet. What it accessed must have been there.
    pub(crate) fn judge_fault(
        &self,
        state: &KernelState,
        context: Id<Context>,
        fault: Option<&FaultedAccess>,
    ) {
        self.judge_address(state, context, fault.and_then(|fault| fault.address.as_ref()));
        let breach = fault.and_then(|fault| fault.breach.as_ref());
        let client = state.component_of(context);
        let rules = [
            (RuleId::RESID_MAKE_005, client, SUBMIT),
            (RuleId::RESID_EVICT_002, client, SUBMIT),
            (RuleId::RESID_OFFER_005, client, SUBMIT),
            (RuleId::WT_FAULT_001, Component::Driver, BUILD_PAGING),
        ];
        for (rule, component, place) in rules {
            let broken = breach.filter(|breach| breach.rule == rule);
            let place = broken.map_or(place, |breach| breach.place);
            let message = broken.map(|breach| breach.message.clone());
            self.log.judge(rule, component, context.subject(), place, message);
        }
        // This rule is judged after each mapping of an aperture; here only a breach is known.
        if let Some(it) = breach.filter(|breach| breach.rule == RuleId::KMD_PAGING_012) {
            let (about, message) = (context.subject(), it.message.clone());
            self.log.judge(it.rule, Component::Driver, about, it.place, Some(message));
        }
    }

    /// Entry rule: paging commands do not fault. The kernel names only memory that is in place.
    pub(crate) fn judge_paging_fault(
        &self,
        node: Subject,
        fence: Fence,
        batch: &PagingBatch,
        target: FaultTarget,
    ) {
        let message = format!(
            "the GPU faulted{} in the paging commands with fence {fence} of {node}, which \
             DxgkDdiBuildPagingBuffer wrote for {}",
            target.describe(),
            batch.paging.subject()
        );
        let rule = RuleId::WT_FAULT_001;
        self.log.judge(rule, Component::Driver, node, BUILD_PAGING, Some(message));
    }
}

impl KernelState {
    /// Resolves a driver's report of a packet's failed access, in the current state: paging work
    /// continues before the packet is completed.
    pub(crate) fn find_faulted_access(
        &self,
        adapter: Id<Adapter>,
        (node, fence): (usize, Fence),
        packet: &InFlightPacket,
        target: FaultTarget,
    ) -> FaultedAccess {
        let Some((context, device)) = packet.of else { return FaultedAccess::default() };
        let packet = FaultedPacket { context, device, sent: packet.sent, target };
        if self.contexts[context].lists.is_some() {
            let breach = self.list_fault(adapter, (node, fence), packet);
            return FaultedAccess { address: None, breach };
        }
        if let (Some(address), Some(_)) = (target.address(), self.mmu(adapter)) {
            let address = self.find_fault(context, address, packet.sent);
            let breach = address.as_ref().and_then(|fault| match fault.cause {
                AddressFaultCause::Reachable => Some(driver_fault(packet, &fault.why)),
                AddressFaultCause::NotResident => self.extent_fault(packet, fault.extent?),
                _ => None,
            });
            return FaultedAccess { address, breach };
        }
        let on_adapter = |pair: &(Id<Extent>, &Extent)| pair.1.adapter == adapter;
        let mut extents = self.memory.extents.iter().filter(on_adapter);
        let known = match target {
            FaultTarget::DriverHandle(None) => None,
            FaultTarget::DriverHandle(Some(driver_handle)) => {
                extents.find(|(_, extent)| extent.driver_handle == driver_handle)
            }
            FaultTarget::Address(address) => extents.find(|(number, extent)| {
                self.contains(extent, address) && self.view_on(device, *number).is_some()
            }),
        };
        let breach = match known {
            Some((extent, _)) => self.extent_fault(packet, extent),
            None => self.unknown_fault(packet),
        };
        FaultedAccess { address: None, breach }
    }

    /// Judges a packet with lists: the kernel makes the allocations of its list resident, and tells
    /// the driver where they are.
    fn list_fault(
        &self,
        adapter: Id<Adapter>,
        submission: (usize, Fence),
        packet: FaultedPacket,
    ) -> Option<FaultBreach> {
        let (patched, extents) = self.list_of_submission(adapter, submission)?;
        let extents: Vec<&Extent> =
            extents.iter().filter_map(|extent| self.memory.extents.get(*extent)).collect();
        if !extents.iter().all(|extent| extent.is_in_place_for(packet.sent)) {
            return None;
        }
        let address = packet.target.address();
        let at = address.and_then(|address| extents.iter().find(|it| self.contains(it, address)));
        if let Some(extent) = at.filter(|extent| self.is_in_aperture(extent)) {
            return Some(self.aperture_fault(packet, extent));
        }
        let ddi = if patched { "DxgkDdiPatch" } else { "DxgkDdiRender" };
        let first = extents.first().map_or(String::new(), |extent| self.describe_place(extent));
        let why = format!(
            "but the allocations of its list were where the kernel told {ddi}, the first at {first}"
        );
        Some(FaultBreach { place: ddi, ..driver_fault(packet, &why) })
    }

    /// Judges the failed access of an allocation.
    fn extent_fault(&self, packet: FaultedPacket, number: Id<Extent>) -> Option<FaultBreach> {
        let extent = self.memory.extents.get(number)?;
        let address = packet.target.address();
        let rule = if extent.offer.is_some() {
            (RuleId::RESID_OFFER_005, ", which is offered and was not reclaimed")
        } else if extent.is_in_place_for(packet.sent) {
            if address.is_some_and(|it| self.contains(extent, it)) && self.is_in_aperture(extent) {
                return Some(self.aperture_fault(packet, extent));
            }
            let why = format!(
                "but the allocation was at {} before the packet was submitted",
                self.describe_place(extent)
            );
            return Some(driver_fault(packet, &why));
        } else if extent.settled == NOT_IN_PLACE
            || matches!(extent.owner, Owner::ContextAllocation(_))
        {
            // Its paging work was abandoned, or its residency is not a client's matter.
            return None;
        } else {
            match self.view_on(packet.device, number).map(|view| (view.resident, view.was_resident))
            {
                Some((0, true)) => (RuleId::RESID_EVICT_002, ", which was evicted"),
                Some((1.., _)) => {
                    (RuleId::RESID_MAKE_005, " before the fence of its MakeResident was reached")
                }
                _ => (RuleId::RESID_MAKE_005, ", which its device never made resident"),
            }
        };
        let ((rule, why), owner) = (rule, extent.owner.subject());
        let message = format!("a packet of {} accessed {owner}{why}", packet.context.subject());
        Some(FaultBreach { rule, place: SUBMIT, message })
    }

    /// Judges a failed access if the driver did not say what was accessed. A client is at fault if
    /// no allocation of its device was in place, a driver if all were. Otherwise it is not known
    /// which one the packet has used.
    fn unknown_fault(&self, packet: FaultedPacket) -> Option<FaultBreach> {
        let device = packet.device;
        // The packet may have used an allocation that its client had destroyed.
        if self.devices[device].has_closed_views {
            return None;
        }
        let views = self.views.iter().map(|pair| pair.1).filter(|view| view.device == device);
        let extents = views.filter_map(|view| self.allocations.get(view.allocation)?.extent);
        let is_missing = |number: &Id<Extent>| {
            let extent = self.memory.extents.get(*number);
            extent.is_some_and(|extent| !extent.is_in_place_for(packet.sent))
        };
        let (missing, in_place): (Vec<_>, Vec<_>) = extents.partition(is_missing);
        match (missing.first(), in_place.first()) {
            (Some(missing), None) => return self.extent_fault(packet, *missing),
            (Some(_), Some(_)) => return None,
            (None, _) => (),
        }
        let why = format!(
            "but every allocation of {} was in place before the packet was submitted",
            device.subject()
        );
        Some(driver_fault(packet, &why))
    }

    /// A fault in an aperture where the kernel had the driver map pages.
    fn aperture_fault(&self, packet: FaultedPacket, extent: &Extent) -> FaultBreach {
        let message = format!(
            "a packet of {} faulted{}, but DXGK_OPERATION_MAP_APERTURE_SEGMENT had mapped pages at \
             {} before the packet was submitted",
            packet.context.subject(),
            packet.target.describe(),
            self.describe_place(extent)
        );
        FaultBreach { rule: RuleId::KMD_PAGING_012, place: BUILD_PAGING, message }
    }

    /// The view of an extent's allocation that a device has.
    fn view_on(&self, device: Id<Device>, extent: Id<Extent>) -> Option<&View> {
        let of = |view: &View| self.allocations.get(view.allocation)?.extent;
        let mut views = self.views.iter().map(|pair| pair.1).filter(|view| view.device == device);
        views.find(|view| of(view) == Some(extent))
    }

    /// Whether an extent contains a GPU address.
    fn contains(&self, extent: &Extent, address: u64) -> bool {
        let start = self.adapter_memory(extent.adapter).and_then(|memory| memory.address(extent));
        start.is_some_and(|start| address.wrapping_sub(start) < extent.bytes)
    }

    fn is_in_aperture(&self, extent: &Extent) -> bool {
        let segment = self.adapter_memory(extent.adapter).zip(extent.segment());
        segment
            .and_then(|(memory, segment)| memory.segments.get(segment))
            .is_some_and(|segment| segment.info.flags.aperture)
    }

    /// The owner of an extent, and where it is.
    fn describe_place(&self, extent: &Extent) -> String {
        let owner = extent.owner.subject();
        let start = self.adapter_memory(extent.adapter).and_then(|memory| memory.address(extent));
        match start.zip(extent.segment()) {
            Some((start, segment)) => {
                let end = start.saturating_add(extent.bytes);
                format!("{start:#x} to {end:#x} of segment {} ({owner})", segment + 1)
            }
            None => format!("no address ({owner})"),
        }
    }
}

/// A fault of a packet although everything that it can use was there.
fn driver_fault(packet: FaultedPacket, why: &str) -> FaultBreach {
    let (context, at) = (packet.context.subject(), packet.target.describe());
    let message = format!("a packet of {context} faulted{at}, {why}");
    FaultBreach { rule: RuleId::WT_FAULT_001, place: BUILD_PAGING, message }
}
