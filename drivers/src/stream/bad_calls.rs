//! Flaws in the calls of a device, a filter or a pin: mutexes, bags, answers.

use super::capture::Capture;
use stream::{Answer, BagOf, Entry, MemoryKind, Mutex, PinId, Refusal};

fn item(it: &Capture) -> Answer<usize> {
    it.services()?.make_memory(8, 0, MemoryKind::Paged).ok_or(Refusal::NoMemory)
}

pub(crate) fn bag_unlocked(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinCreate {
        let (services, item) = (it.services()?, item(it)?);
        if services.add_to_bag(BagOf::Device(services.device()), item, false).is_err() {
            services.free_memory(item)?;
        }
    }
    Ok(())
}

pub(crate) fn frees_bagged(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinCreate {
        let (services, item) = (it.services()?, item(it)?);
        services.add_to_bag(BagOf::Pin(pin), item, false)?;
        let _ = services.free_memory(item);
    }
    Ok(())
}

pub(crate) fn frees_shared(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinCreate {
        let (services, item) = (it.services()?, item(it)?);
        services.add_to_bag(BagOf::Pin(pin), item, false)?;
        services.add_to_bag(BagOf::Filter(it.filter()?), item, false)?;
        let _ = services.remove_from_bag(BagOf::Pin(pin), item, true);
    }
    Ok(())
}

pub(crate) fn edits_unlocked(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.edit_framing(pin, None);
    }
    Ok(())
}

pub(crate) fn forgets_bag(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DeviceStart {
        it.services()?.make_bag()?;
    }
    Ok(())
}

pub(crate) fn pending_start(_it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DeviceStart { Err(Refusal::Pending) } else { Ok(()) }
}

pub(crate) fn factory_unlocked(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DevicePostStart {
        let _ = it.services()?.create_factory(it.descriptor.filters[0].clone());
    }
    Ok(())
}

pub(crate) fn completes_twice(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::FilterCreate {
        let (services, filter) = (it.services()?, it.filter()?.subject());
        services.mark_pending(filter)?;
        services.complete_pending(filter, Ok(()), 0xf2)?;
        let _ = services.complete_pending(filter, Ok(()), 0xf2);
        return Err(Refusal::Pending);
    }
    Ok(())
}

pub(crate) fn leaks(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DeviceStart {
        item(it)?;
    }
    Ok(())
}

pub(crate) fn locks_twice(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinCreate {
        let _ = it.services()?.acquire(Mutex::Control(it.filter()?.subject()));
    }
    Ok(())
}

pub(crate) fn locks_backwards(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinCreate {
        let services = it.services()?;
        let _ = services.acquire(Mutex::Device(services.device().subject()));
    }
    Ok(())
}

pub(crate) fn controls(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.acquire(Mutex::Control(it.filter()?.subject()));
    }
    Ok(())
}

pub(crate) fn walks_unlocked(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DevicePostStart {
        let _ = it.services()?.filters();
    }
    Ok(())
}

pub(crate) fn keeps_mutex(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DevicePostStart {
        let services = it.services()?;
        services.acquire(Mutex::Device(services.device().subject()))?;
    }
    Ok(())
}

pub(crate) fn unmarked(_it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinCreate { Err(Refusal::Pending) } else { Ok(()) }
}

/// It has closed a pin, and is told that the filter goes.
pub(crate) fn uses_closed(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    match entry {
        Entry::PinClose => it.inner().closed_pin = Some(pin),
        Entry::FilterClose => {
            let closed = it.inner().closed_pin.take();
            if let Some(pin) = closed {
                let _ = it.services()?.attempt_processing(pin);
            }
        }
        _ => (),
    }
    Ok(())
}

pub(crate) fn pending_format(_it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinSetDataFormat { Err(Refusal::Pending) } else { Ok(()) }
}

pub(crate) fn pending_connect(_it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinConnect { Err(Refusal::Pending) } else { Ok(()) }
}

pub(crate) fn no_pin(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.attempt_processing(PinId::NULL);
    }
    Ok(())
}

pub(crate) fn gate(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinConnect {
        let _ = it.services()?.turn_gate_input(pin, false);
    }
    Ok(())
}

pub(crate) fn needs_power(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    let asleep = it.inner().asleep;
    if entry == Entry::PinSetDeviceState && asleep { Err(Refusal::NotReady) } else { Ok(()) }
}

pub(crate) fn programs_early(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinConnect {
        let _ = it.services()?.program_hardware(pin);
    }
    Ok(())
}
