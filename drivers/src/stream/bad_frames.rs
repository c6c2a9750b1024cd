//! Flaws with frames: their memory, the pointers to them, their allocator.

use super::capture::{Capture, fell};
use super::pattern::{BYTES, INTERVAL, picture};
use stream::{Answer, Entry, Header, MemoryKind, PinId, PointerId, Refusal};

/// Its first piece stays if the second cannot be had.
pub(crate) fn fails_untidily(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    let services = it.services()?;
    match entry {
        Entry::InitializeAllocator => {
            let make = || services.make_memory(8, 0, MemoryKind::Paged).ok_or(Refusal::NoMemory);
            let (one, other) = (make()?, make()?);
            it.inner().kept.extend([one, other]);
        }
        Entry::DeleteAllocator => {
            for word in std::mem::take(&mut it.inner().kept) {
                let _ = services.free_memory(word);
            }
        }
        _ => (),
    }
    Ok(())
}

pub(crate) fn waits_for_memory(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::Allocate { it.services()?.delay(10_000) } else { Ok(()) }
}

pub(crate) fn writes_freed(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    match entry {
        Entry::PinProcess => {
            if let Some(edge) = services.leading_edge(pin, true) {
                it.inner().kept = services.memory_of(edge).into_iter().collect();
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

pub(crate) fn leaks_context(_it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::DeleteAllocator { Err(Refusal::Busy) } else { Ok(()) }
}

pub(crate) fn frees_late(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    let services = it.services()?;
    match entry {
        Entry::Allocate => {
            let word = services.make_memory(8, 0, MemoryKind::Paged);
            it.inner().kept.extend(word);
        }
        Entry::PinClose => {
            for word in std::mem::take(&mut it.inner().kept) {
                let _ = services.free_memory(word);
            }
        }
        _ => (),
    }
    Ok(())
}

pub(crate) fn overruns(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let _ = services.write(edge, 0, &picture(0));
    }
    Ok(())
}

pub(crate) fn unlocked(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, false)
    {
        let _ = services.write(edge, 0, &[1]);
    }
    Ok(())
}

/// A clone of its own, whose frame can be cancelled.
fn keep_clone(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    let keeps = entry == Entry::PinProcess && it.inner().pointer.is_none();
    if keeps && let Some(edge) = services.leading_edge(pin, true) {
        let clone = services.clone_pointer(edge, false)?;
        services.unlock(clone, false)?;
        it.inner().pointer = Some(clone);
    }
    Ok(())
}

/// Lets go of its clone: when a frame is full, when the queue is reset, and when its pin stops.
fn let_go(it: &Capture, entry: Entry) -> Option<PointerId> {
    let ends = [Entry::PointerTimedOut, Entry::PinReset, Entry::PinSetDeviceState];
    if ends.contains(&entry) { it.inner().pointer.take() } else { None }
}

/// It has a clone whose frame may be gone, and writes to that all the same.
pub(crate) fn ignores_lock(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    keep_clone(it, entry, pin)?;
    if let Some(clone) = let_go(it, entry) {
        let services = it.services()?;
        if services.lock(clone).is_err() {
            let _ = services.write(clone, 0, &[1]);
        }
        let _ = services.delete_pointer(clone);
    }
    Ok(())
}

/// It has a clone, deletes that if its frame is still there, and else forgets it.
pub(crate) fn keeps_empty(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    keep_clone(it, entry, pin)?;
    if let Some(clone) = let_go(it, entry) {
        let services = it.services()?;
        if services.look(clone)?.frame.is_some() {
            let _ = services.delete_pointer(clone);
        }
    }
    Ok(())
}

pub(crate) fn deletes_edge(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let _ = services.delete_pointer(edge);
    }
    Ok(())
}

pub(crate) fn deletes_twice(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
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

pub(crate) fn keeps_cancelled(_it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PointerCancelled { Err(Refusal::Busy) } else { Ok(()) }
}

pub(crate) fn too_far(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        let _ = services.advance_offsets(edge, BYTES + 1, false);
    }
    Ok(())
}

pub(crate) fn asks_unlocked(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, false)
    {
        let _ = services.memory_of(edge);
    }
    Ok(())
}

pub(crate) fn no_trailing(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.trailing_edge(pin, false);
    }
    Ok(())
}

/// Long after it will have stopped.
pub(crate) fn forgets_timeout(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        services.schedule(edge, 10_000 * INTERVAL)?;
    }
    Ok(())
}

pub(crate) fn overstates(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        services.set_header(edge, Header { used: BYTES + 1, ..Header::default() })?;
        services.advance(edge).or_else(fell)?;
    }
    Ok(())
}

pub(crate) fn injects_late(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    if entry == Entry::PinProcess {
        let _ = it.services()?.inject_frames(pin);
    }
    Ok(())
}

pub(crate) fn injects_uninvited(it: &Capture, entry: Entry, pin: PinId) -> Answer<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess {
        let Some(word) = services.make_memory(BYTES, 7, MemoryKind::NonPaged) else {
            return Ok(());
        };
        let header = Header { used: BYTES, ..Header::default() };
        if services.submit_frame(pin, (word, BYTES), header, 1).is_err() {
            services.free_memory(word)?;
        }
    }
    Ok(())
}

pub(crate) fn waits_at_dispatch(it: &Capture, entry: Entry, _pin: PinId) -> Answer<()> {
    if entry == Entry::PointerTimedOut { it.services()?.delay(10_000) } else { Ok(()) }
}
