//! Pins, as their driver sees them: `KSPIN`, filled before a call and compared afterwards.
//!
//! Two threads may be in the driver for one pin, so the comparison is with the last fill and not
//! with the state at the beginning of the call.
#![expect(unsafe_code, reason = "reads descriptors that a driver has edited")]

use crate::callback_entry::read;
use crate::ks::descriptor::{PinTable, format_bytes, framing};
use crate::ks::door::{Door, context_pointer};
use crate::ks::driver_memory::DriverMemory;
use crate::ks::object::{self, Object};
use abi::ks::{
    KS_FRAMING_ITEM, KSALLOCATOR_FRAMING_EX, KSFILTER, KSGATE, KSINTERFACESETID_Standard,
    KSMEDIUMSETID_Standard, KSPIN, KSPIN_DATAFLOW_IN, KSPIN_DATAFLOW_OUT, KSPIN_DESCRIPTOR_EX,
    KSPIN_INTERFACE, KSPIN_MEDIUM, KSPRIORITY, KSPRIORITY_NORMAL, KSRESET_END, KSSTATE,
    PFNKSPINFRAMERETURN,
};
use flight::{Component, RuleId};
use std::mem::offset_of;
use std::ptr;
use std::sync::Arc;
use stream::{BagOwner, Flow, Format, FramingForm, PinFlag, PinId, PinState, PinView};

/// A pin.
pub(crate) struct ShownPin {
    /// Its `KSPIN`.
    pub(crate) memory: DriverMemory,
    /// A copy of the last fill, which the driver does not see.
    snapshot: DriverMemory,
    format: DriverMemory,
    format_bytes: Vec<u8>,
    /// Its previous formats: a driver may read the last one.
    old_formats: Vec<DriverMemory>,
    pub(crate) table: Arc<PinTable>,
    /// The framing in its descriptor.
    framing: Option<FramingForm>,
    pub(crate) frame_return: Option<PFNKSPINFRAMERETURN>,
    /// Its gate, if the driver has requested it, and how many of its inputs are known to be off.
    pub(crate) gate: Option<(DriverMemory, i32)>,
}

macro_rules! members {
    ($($name:ident $size:literal)*) => {
        [$((stringify!($name), offset_of!(KSPIN, $name), $size)),*]
    };
}

/// Members that the driver must not change: name, offset, size. `Context` is the driver's, and
/// `Descriptor` can be edited.
const MEMBERS: [(&str, usize, usize); 13] = members! {
    Bag 8 Id 4 Communication 4 ConnectionIsExternal 1 ConnectionInterface 24 ConnectionMedium 24
    ConnectionPriority 8 ConnectionFormat 8 AttributeList 8 DataFlow 4 DeviceState 4 ResetState 4
    ClientState 4
};
const DESCRIPTOR: usize = offset_of!(KSPIN, Descriptor);
const HEADER_SIZE: (&str, usize, usize) =
    ("StreamHeaderSize", offset_of!(KSPIN, StreamHeaderSize), 4);

fn ksstate(state: PinState) -> KSSTATE {
    state as KSSTATE
}

/// A copy of a descriptor that is truncated.
struct TruncatedDescriptor;

/// What a call may change in a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedChanges {
    /// The pin is being created: the driver may set the size of headers.
    Create,
    /// The control mutex is held: the descriptor may be edited.
    ControlMutex,
    /// Nothing.
    Nothing,
}

impl ShownPin {
    fn is_unchanged(&self, (_, offset, size): (&str, usize, usize)) -> bool {
        (offset..offset + size).all(|at| self.memory.read::<u8>(at) == self.snapshot.read::<u8>(at))
    }

    fn copy_member(&self, (_, offset, size): (&str, usize, usize), back: bool) {
        let (from, to) =
            if back { (&self.snapshot, &self.memory) } else { (&self.memory, &self.snapshot) };
        for at in offset..offset + size {
            to.write(at, from.read::<u8>(at).unwrap_or(0));
        }
    }

    fn write_member<T: crate::ks::driver_memory::PlainData>(&self, offset: usize, value: T) {
        self.memory.write(offset, value);
        self.snapshot.write(offset, value);
    }

    /// The size of a header of its frames in bytes.
    pub(crate) fn header_size(&self) -> u32 {
        let bytes = (0..4).map(|at| self.snapshot.read::<u8>(HEADER_SIZE.1 + at).unwrap_or(0));
        u32::from_le_bytes(bytes.collect::<Vec<_>>().try_into().unwrap_or_default())
    }

    /// The driver's context of the pin.
    pub(crate) fn context(&self) -> usize {
        self.memory.read(offset_of!(KSPIN, Context)).unwrap_or(0)
    }

    pub(crate) fn is_output(&self) -> bool {
        self.table.descriptor.flow == Flow::Out
    }

    /// Whether its pointers count in mappings.
    pub(crate) fn uses_mappings(&self) -> bool {
        self.table.descriptor.has_flag(PinFlag::GenerateMappings)
    }

    fn set_states(&self, client: PinState, device: PinState) {
        for (offset, state) in
            [(offset_of!(KSPIN, ClientState), client), (offset_of!(KSPIN, DeviceState), device)]
        {
            for (at, byte) in ksstate(state).to_le_bytes().iter().enumerate() {
                self.write_member(offset + at, *byte);
            }
        }
    }

    fn set_format(&mut self, format: &Format) {
        let now = format_bytes(format);
        if now == self.format_bytes {
            return;
        }
        let old = std::mem::replace(&mut self.format, DriverMemory::from_bytes(&now));
        self.old_formats.push(old);
        self.format_bytes = now;
        self.write_member(offset_of!(KSPIN, ConnectionFormat), self.format.address());
    }
}

impl Door {
    /// A pin, as the driver sees it, if the driver knows it or is about to.
    pub(crate) fn pin(&self, pin: PinId) -> Option<*mut KSPIN> {
        if let Some(it) = self.inner().pins.get(&pin) {
            return Some(it.memory.pointer());
        }
        self.fill_pin(&self.services().pin_view(pin)?)
    }

    /// Fills a pin with its current state for a call of its driver.
    pub(crate) fn fill_pin(&self, view: &PinView) -> Option<*mut KSPIN> {
        self.filter(view.filter)?;
        let mut inner = self.inner();
        let inner = &mut *inner;
        if let Some(it) = inner.pins.get_mut(&view.pin) {
            it.set_format(&view.format);
            it.set_states(view.client_state, view.device_state);
            return Some(it.memory.pointer());
        }
        let bag = self.bag(inner, BagOwner::Pin(view.pin));
        let of = inner.filters.get(&view.filter)?;
        let table = of.pins.get(view.factory as usize)?.clone();
        let now = format_bytes(&view.format);
        let format = DriverMemory::from_bytes(&now);
        let standard = |set| KSPIN_INTERFACE { Set: set, Id: 0, Flags: 0 };
        let out = table.descriptor.flow == Flow::Out;
        let medium: KSPIN_MEDIUM = standard(KSMEDIUMSETID_Standard);
        let it = KSPIN {
            Descriptor: ptr::with_exposed_provenance(table.address),
            Bag: bag,
            // WINDOWS: a child begins with the context of its parent (documented).
            Context: context_pointer(&of.memory, offset_of!(KSFILTER, Context)),
            Id: view.factory,
            Communication: table.communication,
            ConnectionInterface: standard(KSINTERFACESETID_Standard),
            ConnectionMedium: medium,
            ConnectionPriority: KSPRIORITY {
                PriorityClass: KSPRIORITY_NORMAL,
                PrioritySubClass: 1,
            },
            ConnectionFormat: format.pointer(),
            DataFlow: if out { KSPIN_DATAFLOW_OUT } else { KSPIN_DATAFLOW_IN },
            ResetState: KSRESET_END,
            DeviceState: ksstate(view.device_state),
            ClientState: ksstate(view.client_state),
            ..KSPIN::ZERO
        };
        let (place, shown) = (DriverMemory::from_value(it), DriverMemory::from_value(it));
        object::insert(place.address(), self.weak(), Object::Pin(view.pin));
        let pointer = place.pointer();
        let framing = table.descriptor.framing.clone();
        let pin = ShownPin {
            memory: place,
            snapshot: shown,
            format,
            format_bytes: now,
            old_formats: Vec::new(),
            table,
            framing,
            frame_return: None,
            gate: None,
        };
        inner.pins.insert(view.pin, pin);
        Some(pointer)
    }

    /// Records the new state of a pin after a state change.
    pub(crate) fn set_pin_state(&self, pin: PinId, client: PinState, device: PinState) {
        let mut inner = self.inner();
        if let Some(it) = inner.pins.get_mut(&pin) {
            it.set_states(client, device);
        }
    }

    /// Entry rules: a driver does not change the members of its pins that it does not own. They are
    /// restored.
    pub(crate) fn compare_pins(
        &self,
        about: Option<PinId>,
        under: AllowedChanges,
        place: &'static str,
    ) {
        let judged: Vec<(PinId, Option<String>)> = {
            let inner = self.inner();
            let all = inner.pins.iter();
            all.map(|(pin, it)| (*pin, it.compare(*pin, about == Some(*pin), under))).collect()
        };
        let log = self.services().log();
        for (pin, broken) in judged {
            log.judge(RuleId::KS_PIN_007, Component::Driver, pin.subject(), place, broken);
        }
        self.compare_gates();
        if let Some(pin) = about.filter(|_| under != AllowedChanges::Nothing) {
            self.compare_descriptor(pin);
        }
    }

    /// Compares the descriptor of a pin, which may have been edited, and its framing.
    fn compare_descriptor(&self, pin: PinId) {
        let services = self.services();
        let Some((now, before, framing_then, own)) = self.inner().pins.get(&pin).map(|shown_pin| {
            let now: usize = shown_pin.memory.read(DESCRIPTOR).unwrap_or(0);
            let before: usize = shown_pin.snapshot.read(DESCRIPTOR).unwrap_or(0);
            (now, before, shown_pin.framing.clone(), shown_pin.table.address)
        }) else {
            return;
        };
        let bagged = |index: usize| services.bags_containing(index).contains(&BagOwner::Pin(pin));
        let mut broken = None;
        let mut at = now;
        if now != before && now != own && !bagged(now) {
            broken = Some(format!(
                "the descriptor of {} was replaced by one that KsEdit did not make",
                pin.subject()
            ));
            at = before;
        }
        let mut framing_now = framing_then.clone();
        match self.edited_framing(at) {
            Ok(it) => framing_now = it,
            Err(TruncatedDescriptor) if broken.is_none() => {
                broken = Some(format!(
                    "a copy of the descriptor of {} is shorter than its contents",
                    pin.subject()
                ));
                at = own;
            }
            Err(TruncatedDescriptor) => at = own,
        }
        let changed = framing_now != framing_then;
        if changed && at == own && broken.is_none() {
            broken = Some(format!(
                "the framing of {} was changed in the descriptor of all its pins: KsEdit makes a \
                 copy for one",
                pin.subject()
            ));
        }
        let edits = changed && broken.is_none();
        {
            let mut inner = self.inner();
            let Some(it) = inner.pins.get_mut(&pin) else { return };
            it.write_member(DESCRIPTOR, at);
            it.framing.clone_from(&framing_now);
        }
        if now != before || changed {
            let log = services.log();
            log.judge(RuleId::KS_BAG_005, Component::Driver, pin.subject(), "_KsEdit", broken);
        }
        if edits {
            // The service judges the change.
            let _ = services.edit_framing(pin, framing_now);
        }
    }

    /// The framing in a descriptor; an error if the descriptor or its framing is truncated.
    fn edited_framing(&self, at: usize) -> Result<Option<FramingForm>, TruncatedDescriptor> {
        // Memory outside the driver's pool is the driver's image, which is trusted.
        let has = |at: usize, bytes: usize| {
            self.pool().extent(at).is_none_or(|(there, _)| there >= bytes)
        };
        let whole =
            |at: usize, bytes: usize| has(at, bytes).then_some(()).ok_or(TruncatedDescriptor);
        whole(at, size_of::<KSPIN_DESCRIPTOR_EX>())?;
        let from: *const KSPIN_DESCRIPTOR_EX = ptr::with_exposed_provenance(at);
        // SAFETY: It is the driver's descriptor, which its creator vouches for, or a block in the
        // pin's bag with that many bytes.
        let Some(descriptor) = (unsafe { read(from) }) else { return Ok(None) };
        let from = descriptor.AllocatorFraming;
        let head = offset_of!(KSALLOCATOR_FRAMING_EX, FramingItem);
        whole(from.addr(), size_of::<KSALLOCATOR_FRAMING_EX>())?;
        // SAFETY: It is NULL, the driver's framing, which its creator vouches for, or a block with
        // that many bytes.
        let items = unsafe { read(from) }.map_or(0, |raw| raw.CountItems as usize);
        let all = items.saturating_mul(size_of::<KS_FRAMING_ITEM>()).saturating_add(head);
        whole(from.addr(), all)?;
        // SAFETY: As above, with all its items.
        Ok(unsafe { framing(from) }.ok().flatten())
    }

    /// Gates are changed in place: notifies the class driver of the changes.
    pub(crate) fn compare_gates(&self) {
        let changed: Vec<(PinId, i32, i32)> = {
            let mut inner = self.inner();
            let mut changed = Vec::new();
            for (pin, it) in &mut inner.pins {
                let Some((gate, off)) = &mut it.gate else { continue };
                let now = gate.read::<KSGATE>(0).map_or(0, |raw| 1_i32.saturating_sub(raw.Count));
                if now != *off {
                    changed.push((*pin, *off, now));
                    *off = now.max(0);
                    // A valid gate is not written: the driver may be using it on another thread.
                    if now < 0 {
                        gate.write(0, KSGATE { Count: 1, ..KSGATE::ZERO });
                    }
                }
            }
            changed
        };
        for (pin, before, now) in changed {
            // A higher count means inputs that were added off or turned off; a lower one, inputs
            // that were turned on. The service judges invalid counts.
            for _ in before..now.min(before.saturating_add(64)) {
                let _ = self.services().add_gate_input(pin, false);
            }
            for _ in now.max(before.saturating_sub(64))..before {
                let _ = self.services().set_gate_input(pin, true);
            }
        }
    }
}

impl ShownPin {
    fn compare(&self, pin: PinId, about: bool, under: AllowedChanges) -> Option<String> {
        if about && under == AllowedChanges::Create {
            self.copy_member(HEADER_SIZE, false);
        }
        let members = MEMBERS.iter().copied().chain([HEADER_SIZE]);
        let changed = members.filter(|entry| !self.is_unchanged(*entry)).map(|entry| {
            self.copy_member(entry, true);
            entry.0
        });
        let mut changed: Vec<&str> = changed.collect();
        let mut format = self.format_bytes.iter().enumerate();
        if format.any(|(at, byte)| self.format.read(at) != Some(*byte)) {
            changed.push("*ConnectionFormat");
            for (at, byte) in self.format_bytes.iter().enumerate() {
                self.format.write(at, *byte);
            }
        }
        (!changed.is_empty()).then(|| {
            format!(
                "the driver changed {} of the KSPIN of {}: only Context is its own",
                changed.join(", "),
                pin.subject()
            )
        })
    }
}
