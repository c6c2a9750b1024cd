//! Flaws with frames: their memory, stream pointers and allocator.

use super::capture::{Capture, ignore_not_ready};
use super::pattern::{BYTES, INTERVAL, picture};
use stream::{DriverError, DriverResult, Entry, Header, MemoryKind, PinId, PointerId};

/// Keeps the first block if the second cannot be allocated.
pub(crate) fn leaks_failed_allocator(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    match entry {
        Entry::InitializeAllocator => {
            let make =
                || services.allocate_memory(8, 0, MemoryKind::Paged).ok_or(DriverError::NoMemory);
            let (one, other) = (make()?, make()?);
            it.inner().kept.extend([one, other]);
        }
        Entry::DeleteAllocator => {
            for block in std::mem::take(&mut it.inner().kept) {
                let _ = services.free_memory(block);
            }
        }
        _ => (),
    }
    Ok(())
}

pub(crate) fn waits_in_allocate_frame(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::Allocate { it.services()?.delay(10_000) } else { Ok(()) }
}

pub(crate) fn writes_freed_frame(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    match entry {
        Entry::PinProcess => {
            if let Some(edge) = services.leading_edge(pin, true) {
                it.inner().kept = services.pointer_memory(edge).into_iter().collect();
            }
        }
        Entry::DeleteAllocator => {
            let frame = it.inner().kept.pop();
            if let Some(frame) = frame {
                let _ = services.write_memory(frame, 0, &[1]);
            }
        }
        _ => (),
    }
    Ok(())
}

pub(crate) fn leaks_allocator_context(
    _it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::DeleteAllocator { Err(DriverError::Busy) } else { Ok(()) }
}

pub(crate) fn frees_frames_late(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    match entry {
        Entry::Allocate => {
            let block = services.allocate_memory(8, 0, MemoryKind::Paged);
            it.inner().kept.extend(block);
        }
        Entry::PinClose => {
            for block in std::mem::take(&mut it.inner().kept) {
                let _ = services.free_memory(block);
            }
        }
        _ => (),
    }
    Ok(())
}

pub(crate) fn overruns_client_frame(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let _ = services.write(edge, 0, &picture(0));
    }
    Ok(())
}

pub(crate) fn writes_unlocked_pointer(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, false)
    {
        let _ = services.write(edge, 0, &[1]);
    }
    Ok(())
}

/// A separate clone whose frame can be cancelled.
fn create_own_clone(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    let keeps = entry == Entry::PinProcess && it.inner().pointer.is_none();
    if keeps && let Some(edge) = services.leading_edge(pin, true) {
        let clone = services.clone_pointer(edge, false)?;
        services.unlock(clone, false)?;
        it.inner().pointer = Some(clone);
    }
    Ok(())
}

/// Deletes its clone when a frame is full, when the queue is reset, and when its pin stops.
fn delete_own_clone(it: &Capture, entry: Entry) -> Option<PointerId> {
    let ends = [Entry::PointerTimedOut, Entry::PinReset, Entry::PinSetDeviceState];
    if ends.contains(&entry) { it.inner().pointer.take() } else { None }
}

/// Writes through a clone whose frame may have been cancelled.
pub(crate) fn ignores_failed_lock(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    create_own_clone(it, entry, pin)?;
    if let Some(clone) = delete_own_clone(it, entry) {
        let services = it.services()?;
        if services.lock(clone).is_err() {
            let _ = services.write(clone, 0, &[1]);
        }
        let _ = services.delete_pointer(clone);
    }
    Ok(())
}

/// Deletes its clone if the frame still exists, and otherwise forgets the clone.
pub(crate) fn keeps_cancelled_frame_clone(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    create_own_clone(it, entry, pin)?;
    if let Some(clone) = delete_own_clone(it, entry) {
        let services = it.services()?;
        if services.pointer_view(clone)?.frame.is_some() {
            let _ = services.delete_pointer(clone);
        }
    }
    Ok(())
}

pub(crate) fn deletes_edge(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let _ = services.delete_pointer(edge);
    }
    Ok(())
}

pub(crate) fn deletes_twice(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let clone = services.clone_pointer(edge, false)?;
        services.delete_pointer(clone)?;
        let _ = services.delete_pointer(clone);
    }
    Ok(())
}

pub(crate) fn keeps_clone_after_cancel(
    _it: &Capture,
    entry: Entry,
    _pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PointerCancelled { Err(DriverError::Busy) } else { Ok(()) }
}

pub(crate) fn advances_past_frame(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let _ = services.advance_offsets(edge, BYTES + 1, false);
    }
    Ok(())
}

pub(crate) fn queries_unlocked_pointer_memory(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, false)
    {
        let _ = services.pointer_memory(edge);
    }
    Ok(())
}

pub(crate) fn requests_missing_trailing_edge(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.trailing_edge(pin, false);
    }
    Ok(())
}

/// A time long after the pin has stopped.
pub(crate) fn leaves_edge_timeout(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        services.schedule_timeout(edge, 10_000 * INTERVAL)?;
    }
    Ok(())
}

pub(crate) fn overstates(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        services.set_header(edge, Header { data_used: BYTES + 1, ..Header::default() })?;
        services.advance(edge).or_else(ignore_not_ready)?;
    }
    Ok(())
}

pub(crate) fn registers_injection_while_running(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.inject_frames(pin);
    }
    Ok(())
}

pub(crate) fn injects_without_registration(
    it: &Capture,
    entry: Entry,
    pin: PinId,
) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess {
        let Some(memory) = services.allocate_memory(BYTES, 7, MemoryKind::NonPaged) else {
            return Ok(());
        };
        let header = Header { data_used: BYTES, ..Header::default() };
        if services.submit_frame(pin, (memory, BYTES), header, 1).is_err() {
            services.free_memory(memory)?;
        }
    }
    Ok(())
}

pub(crate) fn waits_at_dispatch(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::PointerTimedOut { it.services()?.delay(10_000) } else { Ok(()) }
}

#[expect(clippy::unnecessary_wraps, reason = "a hook")]
pub(crate) fn delivers_wrong_picture(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::DeviceStart {
        it.inner().delivers_wrong_picture = true;
    }
    Ok(())
}
