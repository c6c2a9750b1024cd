//! The user-mode drivers on a runtime that only records their callbacks.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fake;

use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DDDIERR_WASSTILLDRAWING, D3DERR_NOTAVAILABLE, E_INVALIDARG,
    E_NOTIMPL, E_OUTOFMEMORY,
};
use abi::umd::{
    D3DDDI_LOCKASYNCFLAGS as Async, D3DDDI_LOCKFLAGS as LockArgs, D3DDDI_RESOURCEFLAGS as Flags,
};
use drivers::UmdFlaw as Flaw;
use fake::FlightResult;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

const LISTS: u8 = 5;
const ADDRESSES: u8 = 14;
const NAMED: u8 = 0;
const MEMORY: u8 = 12;

fn open(flaw: Flaw, flags: u8) -> FlightResult {
    let flown = FlightResult::open(flaw, flags).unwrap();
    flown.notes();
    flown
}

#[test]
fn with_lists_a_resource_is_made_filled_and_released_as_one() {
    let mut flown = FlightResult::open(Flaw::None, LISTS).unwrap();
    let it = flown.create(&[16, 8], 0).unwrap();
    flown.fill((it, 1), 8, 0x1122_3344).unwrap();
    assert_eq!(flown.notes(), ["context", "allocate 1001: 2"]);
    flown.destroy(it).unwrap();
    assert_eq!(flown.notes(), ["render fill 2+0 256 44 uses [2]", "free 1001 []"]);
    assert_eq!(flown.destroy(it), Err(E_INVALIDARG));
    assert_eq!(flown.close(), ["end context"]);
}

#[test]
fn with_addresses_a_new_resource_is_mapped_and_made_resident() {
    let mut flown = FlightResult::open(Flaw::None, ADDRESSES).unwrap();
    assert_eq!(flown.notes(), ["context virtual", "queue", "fence"]);
    let it = flown.create(&[64, 8], Flags::Primary).unwrap();
    let made = ["allocate 1001: 2", "map 1 4", "map 2 1", "resident [1, 2]", "wait 91 7"];
    assert_eq!(flown.notes(), made);
    flown.fill((it, 0), 2, 0xab).unwrap();
    flown.flush().unwrap();
    let drawn = ["submit fill @10000 8 ab, fill @10100 8 ab shows [1]", "signal 1"];
    assert_eq!(flown.notes(), drawn);
    flown.destroy(it).unwrap();
    assert_eq!(flown.notes(), ["free 1001 [] idle"]);
    assert_eq!(flown.close(), ["end fence", "end context", "end queue"]);
}

#[test]
fn without_memory_nothing_is_made_resident() {
    for (flags, made) in [
        (NAMED, vec!["allocate 1001: 1"]),
        (MEMORY, vec!["allocate 1001: 1", "resident [1]", "wait 91 7"]),
    ] {
        let mut flown = open(Flaw::None, flags);
        let it = flown.create(&[8], 0).unwrap();
        assert_eq!(flown.notes(), made);
        let other = flown.create(&[8], 0).unwrap();
        flown.notes();
        flown.blt(it, other, 8).unwrap();
        flown.flush().unwrap();
        assert_eq!(flown.notes(), ["submit copy 1 2 256", "signal 1"]);
        flown.close();
    }
}

#[test]
fn with_lists_of_wddm_2_the_driver_waits_and_renames() {
    let mut flown = FlightResult::open(Flaw::None, LISTS | 8).unwrap();
    assert_eq!(flown.notes(), ["context", "queue", "fence"]);
    flown.fake.slow.store(true, SeqCst);
    let it = flown.create(&[8], 0).unwrap();
    flown.fill((it, 0), 8, 1).unwrap();
    flown.notes();
    flown.lock(it, LockArgs::Discard).unwrap();
    assert_eq!(flown.notes(), ["allocate 0: 1", "resident [2]", "wait 91 7", "lock2 2"]);
    flown.unlock(it).unwrap();
    flown.fill((it, 0), 8, 2).unwrap();
    flown.flush().unwrap();
    let drawn = "render fill 1+0 256 1, fill 2+0 256 2 uses [1, 2]";
    assert_eq!(flown.notes(), ["unlock2 2", drawn, "signal 1"]);
    flown.close();
}

#[test]
fn buffers_that_are_full_are_submitted_and_new_ones_used() {
    let mut flown = open(Flaw::None, LISTS);
    let it = flown.create(&[16], 0).unwrap();
    flown.notes();
    flown.fill((it, 0), 9, 1).unwrap();
    flown.flush().unwrap();
    let notes = flown.notes();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        notes.iter().all(|text| text.starts_with("render fill 1+") && text.ends_with("uses [1]"))
    );
    // A failure changes the buffers, too.
    flown.refuse(Some(("render", E_OUTOFMEMORY)));
    flown.fill((it, 0), 1, 2).unwrap();
    assert_eq!(flown.flush(), Err(E_OUTOFMEMORY));
    flown.refuse(None);
    flown.fill((it, 0), 1, 3).unwrap();
    flown.flush().unwrap();
    let notes = flown.notes();
    assert_eq!(notes[1], "render fill 1+0 4 3 uses [1]");
    flown.close();
}

#[test]
fn a_resource_in_use_is_released_at_the_next_flush() {
    let mut flown = open(Flaw::None, ADDRESSES);
    flown.fake.slow.store(true, SeqCst);
    let [used, shared] =
        [0, Flags::SharedResource].map(|number| flown.create(&[8], number).unwrap());
    for it in [used, shared] {
        flown.fill((it, 0), 8, 1).unwrap();
    }
    flown.notes();
    flown.destroy(used).unwrap();
    assert_eq!(flown.notes().len(), 2, "a packet and its signal");
    flown.destroy(shared).unwrap();
    assert_eq!(flown.notes(), ["free 1002 []"]);
    flown.flush().unwrap();
    assert_eq!(flown.notes(), ["free 1001 []"]);
    let last = flown.create(&[8], 0).unwrap();
    flown.fill((last, 0), 8, 1).unwrap();
    flown.destroy(last).unwrap();
    flown.notes();
    assert_eq!(flown.close()[0], "free 1003 []");
}

#[test]
fn a_lock_waits_or_returns_was_still_drawing() {
    let mut flown = open(Flaw::None, ADDRESSES);
    flown.fake.slow.store(true, SeqCst);
    let it = flown.create(&[8], 0).unwrap();
    flown.fill((it, 0), 8, 1).unwrap();
    flown.notes();
    assert_eq!(flown.lock(it, LockArgs::DoNotWait), Err(D3DDDIERR_WASSTILLDRAWING));
    assert_eq!(flown.notes().len(), 2, "what is waited for is submitted");
    assert!(flown.lock(it, LockArgs::NoOverwrite).is_ok());
    flown.unlock(it).unwrap();
    assert_eq!(flown.notes(), ["lock2 1", "unlock2 1"]);
    let at = flown.lock(it, 0).unwrap();
    assert_eq!(flown.notes(), ["wait f 1", "lock2 1"]);
    assert_eq!(flown.lock(it, LockArgs::DoNotWait), Ok(at), "a second lock does not fail");
    flown.unlock(it).unwrap();
    assert_eq!(flown.notes(), [""; 0]);
    flown.unlock(it).unwrap();
    assert_eq!(flown.notes(), ["unlock2 1"]);
    assert_eq!(flown.unlock(it), Err(E_INVALIDARG));
    flown.close();
}

#[test]
fn a_discard_in_use_switches_to_another_instance() {
    let mut flown = open(Flaw::None, ADDRESSES);
    flown.fake.slow.store(true, SeqCst);
    let it = flown.create(&[8], 0).unwrap();
    flown.fill((it, 0), 8, 1).unwrap();
    flown.notes();
    let discard = |flown: &FlightResult| {
        flown.lock(it, LockArgs::Discard).unwrap();
        flown.unlock(it).unwrap();
        flown.notes()
    };
    let first = discard(&flown);
    assert_eq!(first[0], "allocate 0: 1");
    assert_eq!(first[first.len() - 2..], ["lock2 2", "unlock2 2"]);
    flown.fill((it, 0), 8, 2).unwrap();
    flown.flush().unwrap();
    assert_eq!(flown.notes()[0], "submit fill @10000 256 1, fill @20000 256 2");
    assert_eq!(discard(&flown)[0], "allocate 0: 1");
    flown.fill((it, 0), 8, 3).unwrap();
    flown.flush().unwrap();
    flown.idle();
    flown.notes();
    assert_eq!(discard(&flown), ["lock2 3", "unlock2 3"], "the memory is not in use");
    flown.fill((it, 0), 8, 4).unwrap();
    flown.notes();
    assert_eq!(discard(&flown), ["lock2 1", "unlock2 1"], "the first comes back");
    // Memory that only improves speed may be refused.
    flown.fill((it, 0), 8, 5).unwrap();
    flown.flush().unwrap();
    flown.notes();
    flown.destroy(it).unwrap();
    flown.idle();
    flown.flush().unwrap();
    assert_eq!(flown.notes(), ["free 0 [2, 3] idle", "free 1001 [] idle"]);
    flown.close();
}

#[test]
fn a_discard_without_memory_waits_but_a_removed_device_fails() {
    for (code, waits) in [(E_OUTOFMEMORY, true), (D3DDDIERR_DEVICEREMOVED, false)] {
        let mut flown = open(Flaw::None, ADDRESSES);
        flown.fake.slow.store(true, SeqCst);
        let it = flown.create(&[8], 0).unwrap();
        flown.fill((it, 0), 8, 1).unwrap();
        flown.refuse(Some(("allocate", code)));
        assert_eq!(flown.lock(it, LockArgs::Discard).is_ok(), waits);
        flown.close();
    }
}

#[test]
fn with_lists_the_runtime_renames() {
    let mut flown = open(Flaw::None, LISTS);
    let it = flown.create(&[8], 0).unwrap();
    flown.fill((it, 0), 8, 1).unwrap();
    flown.notes();
    flown.lock(it, LockArgs::Discard).unwrap();
    flown.unlock(it).unwrap();
    assert_eq!(flown.notes(), ["lock 1 80", "unlock [2]"]);
    flown.fill((it, 0), 8, 2).unwrap();
    flown.flush().unwrap();
    assert_eq!(flown.notes(), ["render fill 1+0 256 1, fill 2+0 256 2 uses [1, 2]"]);
    flown.fill((it, 0), 8, 3).unwrap();
    flown.refuse(Some(("lock", E_OUTOFMEMORY)));
    assert_eq!(flown.lock(it, LockArgs::Discard), Err(E_OUTOFMEMORY));
    let tried = ["lock 2 80", "render fill 2+0 256 3 uses [2]", "lock 2 180"];
    assert_eq!(flown.notes(), tried);
    flown.refuse(None);
    flown.lock(it, LockArgs::NoOverwrite).unwrap();
    assert_eq!(flown.notes(), ["lock 2 c"]);
    flown.destroy(it).unwrap();
    assert_eq!(flown.notes(), ["unlock [2]", "free 1001 []"]);
    flown.close();
}

#[test]
fn an_asynchronous_lock_counts_from_the_rename_on() {
    for flags in [LISTS, ADDRESSES] {
        let mut flown = open(Flaw::None, flags);
        flown.fake.slow.store(true, SeqCst);
        let it = flown.create(&[8], 0).unwrap();
        flown.fill((it, 0), 8, 1).unwrap();
        let cookie = flown.lock_async(it, Async::Discard).unwrap();
        flown.unlock_async(it).unwrap();
        flown.fill((it, 0), 8, 2).unwrap();
        assert!(
            flown
                .notes()
                .iter()
                .all(|text| !text.starts_with("render") && !text.starts_with("submit"))
        );
        flown.rename(it, cookie).unwrap();
        flown.fill((it, 0), 8, 3).unwrap();
        flown.flush().unwrap();
        let expected = if flags == LISTS {
            "render fill 1+0 256 1, fill 1+0 256 2, fill 2+0 256 3 uses [1, 2]"
        } else {
            "submit fill @10000 256 1, fill @10000 256 2, fill @20000 256 3"
        };
        assert_eq!(flown.notes()[0], expected);
        assert_eq!(flown.rename(it, cookie), Err(E_INVALIDARG));
        assert_eq!(flown.unlock_async(it), Err(E_INVALIDARG));
        flown.close();
    }
}

#[test]
fn system_memory_resources_are_cpu_memory() {
    let mut flown = open(Flaw::None, ADDRESSES);
    let (mut first, mut second) = (vec![0_u8; 256], vec![0_u8; 256]);
    let one = flown.create_in(8, &mut first);
    let other = flown.create_in(8, &mut second);
    let gpu = flown.create(&[8], 0).unwrap();
    // The first two handles were for the GPU's mapping of it.
    flown.notes();
    flown.fill((one, 0), 4, 0x7f).unwrap();
    flown.blt(one, other, 2).unwrap();
    assert_eq!(flown.notes(), [""; 0]);
    flown.blt(one, gpu, 8).unwrap();
    assert_eq!(flown.notes(), ["lock2 3", "unlock2 3"]);
    let at = flown.lock(other, 0).unwrap();
    assert_eq!(at, second.as_ptr().addr());
    flown.unlock(other).unwrap();
    assert_eq!(flown.unlock(other), Err(E_INVALIDARG));
    flown.blt(gpu, other, 8).unwrap();
    flown.destroy(one).unwrap();
    flown.close();
    assert_eq!(first[..20], [[0x7f; 16].as_slice(), &[0; 4]].concat());
    assert_eq!(first, second);
}

#[test]
fn a_callback_error_is_returned_unchanged() {
    const MARK: i32 = u32::cast_signed(0x8123_4567);
    for name in ["allocate", "map", "resident", "wait"] {
        let mut flown = open(Flaw::None, ADDRESSES);
        flown.refuse(Some((name, MARK)));
        assert_eq!(flown.create(&[8], 0), Err(MARK), "{name}");
        let freed = flown.notes().iter().filter(|text| text.starts_with("free")).count();
        assert_eq!(freed, usize::from(name != "allocate"), "{name}");
        assert_eq!(flown.create(&[8], Flags::VertexBuffer), Err(D3DERR_NOTAVAILABLE), "{name}");
        flown.close();
    }
    let mut flown = open(Flaw::None, ADDRESSES);
    let it = flown.create(&[8], 0).unwrap();
    flown.refuse(Some(("free", MARK)));
    assert_eq!(flown.destroy(it), Err(MARK));
    flown.refuse(None);
    assert_eq!(flown.destroy(it), Ok(()), "it was there still");
    flown.close();
    let ends: [(&str, &[&str]); 3] = [
        ("context", &["context virtual"]),
        ("queue", &["context virtual", "queue", "end context"]),
        ("fence", &["context virtual", "queue", "fence", "end context", "end queue"]),
    ];
    for (name, expected) in ends {
        let (answer, notes) = FlightResult::open_refused(Flaw::None, ADDRESSES, (name, MARK));
        assert_eq!(answer, MARK, "{name}");
        assert_eq!(notes, expected, "{name}");
    }
}

#[test]
fn invalid_handles_and_indices_are_rejected() {
    let mut flown = open(Flaw::None, LISTS);
    let it = flown.create(&[8], 0).unwrap();
    assert_eq!(flown.create(&[], 0), Err(E_INVALIDARG));
    for wrong in [ptr::null_mut(), ptr::without_provenance_mut(0x1001)] {
        assert_eq!(flown.fill((wrong, 0), 1, 0), Err(E_INVALIDARG));
        assert_eq!(flown.destroy(wrong), Err(E_INVALIDARG));
        assert_eq!(flown.lock(wrong, 0), Err(E_INVALIDARG));
    }
    assert_eq!(flown.fill((it, 1), 1, 0), Err(E_INVALIDARG));
    assert_eq!(flown.fill((it, 0), 9, 0), Err(E_INVALIDARG));
    flown.close();
}

/// The callbacks of a bad driver when a resource with two surfaces is drawn and destroyed.
fn ends(flaw: Flaw, flags: u8) -> Vec<String> {
    let mut flown = open(flaw, flags);
    let it = flown.create(&[8, 8], 0).unwrap();
    flown.fill((it, 0), 8, 1).unwrap();
    flown.notes();
    let answer = flown.destroy(it);
    let mut notes = flown.notes();
    if let Err(code) = answer {
        notes.push(format!("answers {code:x}"));
    }
    flown.close();
    notes
}

#[test]
fn flaws_show_where_a_resource_ends() {
    let render = "render fill 1+0 256 1 uses [1]";
    let check = |flaw: Flaw, expected: &[&str]| {
        assert_eq!(ends(flaw, LISTS), expected, "{flaw:?}");
    };
    check(Flaw::FreesBeforeFlush, &["free 1001 []", render]);
    check(Flaw::FreesListLeaksResource, &[render, "free 0 [1, 2]"]);
    check(Flaw::FreesTwice, &[render, "free 1001 []"]);
    check(Flaw::FreesLocked, &[render, "lock 1 0", "free 1001 []"]);
    check(Flaw::FreesOneAllocationOnly, &[render, "free 0 [1]"]);
    check(Flaw::FreesAllocationsIndividually, &[render, "free 0 [1]", "free 0 [2]"]);
    check(Flaw::NeverFreesDeferred, &[render]);
    check(Flaw::FailsAfterFree, &[render, "free 1001 []", &format!("answers {E_OUTOFMEMORY:x}")]);
    check(Flaw::ReturnsIllegalDestroyError, &[&format!("answers {E_NOTIMPL:x}")]);
    check(Flaw::FreesResourceWithList, &[render, "free 1001 [1, 2]"]);
    check(Flaw::SubmitsOnOwnThread, &[render, "free 1001 []"]);
}

#[test]
fn a_flawed_driver_calls_back_after_destroying_its_device() {
    let flown = open(Flaw::CallsBackAfterDestroy, LISTS);
    let notes = flown.close();
    assert_eq!(notes[notes.len() - 2..], ["free 0 []", "render  uses []"]);
}

#[test]
fn every_driver_opens_draws_and_closes() {
    for flaw in Flaw::ALL {
        for flags in [NAMED, MEMORY, ADDRESSES, LISTS] {
            let mut flown = open(*flaw, flags);
            let list = [0, 1].map(|_| flown.create(&[8, 4], 0).unwrap());
            for it in list {
                let _ = flown.fill((it, 0), 8, 1);
                if flown.lock(it, LockArgs::Discard).is_ok() {
                    let _ = flown.lock(it, 0);
                    let _ = flown.unlock(it);
                    let _ = flown.unlock(it);
                }
            }
            let _ = flown.blt(list[0], list[1], 4);
            let _ = flown.flush();
            for it in list {
                let _ = flown.destroy(it);
            }
            flown.close();
        }
    }
}
