//! Object bags, under their Windows names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{read, write};
use crate::ks::door::Door;
use crate::ks::export_entry::{MaxIrql, bag, device, export};
use crate::ks::status::status_from_result;
use abi::ks::{KSDEVICE, KSOBJECT_BAG, PFNKSFREE};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, NTSTATUS, PVOID};
use flight::Pool as _;
use std::ptr;
use std::sync::Arc;
use stream::{BagOwner, DriverError, DriverResult};

/// The services judge the level and the mutex of a bag with a specific rule.
const MAX_IRQL: MaxIrql = MaxIrql::Unjudged;
/// The maximum number of bytes that is plausible.
const MAX_EDITED: u32 = 1 << 20;

/// Adds an item to a bag. It is freed with the bag, by a routine or as pool memory.
///
/// # Safety
///
/// The routine accepts the item.
pub unsafe extern "win64-unwind" fn KsAddItemToObjectBag(
    of: KSOBJECT_BAG,
    item: PVOID,
    free: Option<PFNKSFREE>,
) -> NTSTATUS {
    const NAME: &str = "KsAddItemToObjectBag";
    let found = bag(of, NAME);
    export(NAME, MAX_IRQL, found, STATUS_INVALID_PARAMETER, |door, bag| {
        let item = item.expose_provenance();
        if item == 0 {
            return STATUS_INVALID_PARAMETER;
        }
        let added = door.services().add_to_bag(bag, item, free.is_some());
        if let (Ok(()), Some(free)) = (added, free) {
            door.inner().routines.insert(item, free);
        }
        status_from_result(added)
    })
}

/// Removes an item from a bag, and frees it on request. Returns how many bags contained it.
///
/// # Safety
///
/// No requirements: the item is looked up, and not dereferenced.
pub unsafe extern "win64-unwind" fn KsRemoveItemFromObjectBag(
    of: KSOBJECT_BAG,
    item: PVOID,
    free: BOOLEAN,
) -> u32 {
    const NAME: &str = "KsRemoveItemFromObjectBag";
    let found = bag(of, NAME);
    export(NAME, MAX_IRQL, found, 0, |door, bag| {
        let bags = door.services().bags_containing(item.addr());
        let there = bags.contains(&bag);
        // An item in other bags is removed all the same; the service judges it.
        let answer = door.services().remove_from_bag(bag, item.addr(), free != 0);
        let removed = there && matches!(answer, Ok(()) | Err(DriverError::Busy));
        if removed { u32::try_from(bags.len()).unwrap_or(u32::MAX) } else { 0 }
    })
}

/// Makes the edited item the driver's own: a copy in a bag, if it is not there yet.
///
/// # Safety
///
/// `place` points to a pointer, and that to `old` bytes.
pub unsafe extern "win64-unwind" fn _KsEdit(
    of: KSOBJECT_BAG,
    place: *mut PVOID,
    new: u32,
    old: u32,
    tag: u32,
) -> NTSTATUS {
    let found = bag(of, "_KsEdit");
    // SAFETY: The caller guarantees the same.
    let item = unsafe { read(place.cast_const()) };
    let edited = export("_KsEdit", MAX_IRQL, found, Err(DriverError::Invalid), |door, bag| {
        let item =
            item.filter(|c_void| !c_void.is_null() || old == 0).ok_or(DriverError::Invalid)?;
        let mine = door.services().bags_containing(item.addr()).contains(&bag);
        if mine && new <= old {
            return Ok(None);
        }
        let copy = allocate_bagged(door, bag, new.max(old), tag)?;
        let (from, to) = (item.cast::<u8>(), copy.cast::<u8>());
        for at in 0..old as usize {
            // SAFETY: The caller guarantees that many bytes.
            let byte = unsafe { read(from.wrapping_add(at).cast_const()) };
            // SAFETY: The block is new, and has at least that many bytes.
            unsafe { write(to.wrapping_add(at), byte.unwrap_or(0)) };
        }
        if mine {
            // The service judges the call.
            let _ = door.services().remove_from_bag(bag, item.addr(), true);
        }
        Ok(Some(copy))
    });
    if let Ok(Some(copy)) = edited {
        // SAFETY: The caller guarantees that `place` is valid for the write of a pointer.
        unsafe { write(place, copy) };
    }
    status_from_result(edited.map(|_| ()))
}

/// Allocates a block of the driver's pool and adds it to a bag.
fn allocate_bagged(door: &Arc<Door>, bag: BagOwner, bytes: u32, tag: u32) -> DriverResult<PVOID> {
    let tag = if tag == 0 { u32::from_le_bytes(*b"KsEd") } else { tag };
    let bytes = Some(bytes)
        .filter(|number| *number > 0 && *number <= MAX_EDITED)
        .ok_or(DriverError::NoMemory)?;
    let block = door.pool().allocate_pool(bytes as usize, tag).ok_or(DriverError::NoMemory)?;
    let services = door.services();
    services.add_memory(block);
    if let Err(why) = services.add_to_bag(bag, block, false) {
        // The block is ours, and in no bag.
        let _ = services.remove_memory(block);
        door.pool().free(block, tag);
        return Err(why);
    }
    Ok(ptr::with_exposed_provenance_mut(block))
}

/// Allocates a bag, which the driver frees.
///
/// # Safety
///
/// `made` is NULL or valid for the write of a bag.
pub unsafe extern "win64-unwind" fn KsAllocateObjectBag(
    of: *mut KSDEVICE,
    made: *mut KSOBJECT_BAG,
) -> NTSTATUS {
    const NAME: &str = "KsAllocateObjectBag";
    let found = device(of, NAME).filter(|_| !made.is_null());
    let bag = export(NAME, MaxIrql::Passive, found, Err(DriverError::Invalid), |door, ()| {
        let bag = door.services().create_bag()?;
        Ok(door.bag(&mut door.inner(), bag))
    });
    if let Ok(bag) = bag {
        // SAFETY: The caller guarantees the same.
        unsafe { write(made, bag) };
    }
    status_from_result(bag.map(|_| ()))
}

/// Frees a bag that the driver allocated, with all items in it.
///
/// # Safety
///
/// No requirements: the bag is looked up.
pub unsafe extern "win64-unwind" fn KsFreeObjectBag(of: KSOBJECT_BAG) {
    const NAME: &str = "KsFreeObjectBag";
    let found = bag(of, NAME);
    export(NAME, MaxIrql::Passive, found, (), |door, bag| {
        // A bag of an object belongs to the class driver, and stays.
        if door.services().free_bag(bag).is_ok() {
            Door::remove_bag(&mut door.inner(), bag);
        }
    });
}

/// Adds all items of one bag to another one.
///
/// # Safety
///
/// No requirements: the bags are looked up.
pub unsafe extern "win64-unwind" fn KsCopyObjectBagItems(
    to: KSOBJECT_BAG,
    from: KSOBJECT_BAG,
) -> NTSTATUS {
    const NAME: &str = "KsCopyObjectBagItems";
    let source = bag(from, NAME).map(|pair| pair.1);
    let found = bag(to, NAME).and_then(|(door, to)| Some((door, (to, source?))));
    export(NAME, MAX_IRQL, found, STATUS_INVALID_PARAMETER, |door, (to, from)| {
        for (item, routine) in door.services().items_of(from) {
            if let Err(why) = door.services().add_to_bag(to, item, routine) {
                return status_from_result(Err(why));
            }
        }
        STATUS_SUCCESS
    })
}
