//! Flaws in calls of a device, a filter or a pin: mutexes, object bags, results.

use super::capture::Capture;
use stream::{BagOwner, DriverError, DriverResult, Entry, KsMutex, MemoryKind, PinId};

fn item(it: &Capture) -> DriverResult<usize> {
    it.services()?.allocate_memory(8, 0, MemoryKind::Paged).ok_or(DriverError::NoMemory)
}

pub(crate) fn uses_bag_without_mutex(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinCreate {
        let (services, item) = (it.services()?, item(it)?);
        if services.add_to_bag(BagOwner::Device(services.device()), item, false).is_err() {
            services.free_memory(item)?;
        }
    }
    Ok(())
}

pub(crate) fn frees_bagged_item(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinCreate {
        let (services, item) = (it.services()?, item(it)?);
        services.add_to_bag(BagOwner::Pin(pin), item, false)?;
        let _ = services.free_memory(item);
    }
    Ok(())
}

pub(crate) fn frees_item_in_other_bag(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinCreate {
        let (services, item) = (it.services()?, item(it)?);
        services.add_to_bag(BagOwner::Pin(pin), item, false)?;
        services.add_to_bag(BagOwner::Filter(it.filter()?), item, false)?;
        let _ = services.remove_from_bag(BagOwner::Pin(pin), item, true);
    }
    Ok(())
}

pub(crate) fn edits_descriptor_while_processing(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.edit_framing(pin, None);
    }
    Ok(())
}

pub(crate) fn leaks_bag(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::DeviceStart {
        it.services()?.create_bag()?;
    }
    Ok(())
}

pub(crate) fn returns_pending_from_start(
    _it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::DeviceStart { Err(DriverError::Pending) } else { Ok(()) }
}

pub(crate) fn creates_factory_without_mutex(
    it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::DevicePostStart {
        let _ = it.services()?.create_factory(it.descriptor.filters[0].clone());
    }
    Ok(())
}

pub(crate) fn completes_create_twice(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::FilterCreate {
        let (services, filter) = (it.services()?, it.filter()?.subject());
        services.mark_pending(filter)?;
        services.complete_pending(filter, Ok(()), 0xf2)?;
        let _ = services.complete_pending(filter, Ok(()), 0xf2);
        return Err(DriverError::Pending);
    }
    Ok(())
}

pub(crate) fn leaks_device_memory(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::DeviceStart {
        item(it)?;
    }
    Ok(())
}

pub(crate) fn acquires_mutex_twice(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinCreate {
        let _ = it.services()?.acquire(KsMutex::Control(it.filter()?.subject()));
    }
    Ok(())
}

/// As a public sample does to be compatible with DirectX 8.0.
pub(crate) fn acquires_device_mutex_twice(
    it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::DeviceStart {
        let services = it.services()?;
        let mutex = KsMutex::Device(services.device().subject());
        services.acquire(mutex)?;
        services.release(mutex)?;
    }
    Ok(())
}

pub(crate) fn inverts_mutex_order(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinCreate {
        let services = it.services()?;
        let _ = services.acquire(KsMutex::Device(services.device().subject()));
    }
    Ok(())
}

pub(crate) fn acquires_control_while_processing(
    it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.acquire(KsMutex::Control(it.filter()?.subject()));
    }
    Ok(())
}

pub(crate) fn walks_filters_without_mutex(
    it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::DevicePostStart {
        let _ = it.services()?.filters();
    }
    Ok(())
}

pub(crate) fn returns_with_mutex(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::DevicePostStart {
        let services = it.services()?;
        services.acquire(KsMutex::Device(services.device().subject()))?;
    }
    Ok(())
}

pub(crate) fn never_completes_pending_create(
    _it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinCreate { Err(DriverError::Pending) } else { Ok(()) }
}

/// The driver has closed a pin, and its filter is being closed.
pub(crate) fn uses_closed_pin(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
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

pub(crate) fn returns_pending_from_format(
    _it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinSetDataFormat { Err(DriverError::Pending) } else { Ok(()) }
}

pub(crate) fn returns_pending_from_connect(
    _it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinConnect { Err(DriverError::Pending) } else { Ok(()) }
}

pub(crate) fn attempts_null_pin(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.attempt_processing(PinId::NULL);
    }
    Ok(())
}

pub(crate) fn underflows_gate(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinConnect {
        let _ = it.services()?.set_gate_input(pin, false);
    }
    Ok(())
}

pub(crate) fn requires_power_before_run(
    it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    let asleep = it.inner().asleep;
    if entry == Entry::PinSetDeviceState && asleep { Err(DriverError::NotReady) } else { Ok(()) }
}

pub(crate) fn programs_hardware_on_connect(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinConnect {
        let _ = it.services()?.program_hardware(pin);
    }
    Ok(())
}
