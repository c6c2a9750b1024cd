//! Tests of system memory, also with hostile callers.
#![expect(unsafe_code, reason = "accesses mapped views")]

use super::*;
use flight::Ram as _;
use std::ptr;

const SIZE: u64 = 64 * PAGE;

fn ram() -> Arc<Ram> {
    Ram::new(SIZE).unwrap()
}

fn bytes(ram: &Ram, start: u64, length: usize) -> Option<Vec<u8>> {
    let mut into = vec![0xee; length];
    ram.read(start, &mut into).then_some(into)
}

/// A byte at an address of a view.
fn visible_bytes(address: usize) -> u8 {
    let address: *const u8 = ptr::with_exposed_provenance(address);
    // SAFETY: The tests only read mapped bytes of a view.
    unsafe { address.read_volatile() }
}

fn poke(address: usize, value: u8) {
    let address: *mut u8 = ptr::with_exposed_provenance_mut(address);
    // SAFETY: As above.
    unsafe { address.write_volatile(value) };
}

#[test]
fn addresses_repeat_and_none_is_small() {
    let starts = || {
        let ram = ram();
        let one = ram.allocate(1).unwrap();
        let two = ram.allocate(3 * PAGE - 1).unwrap();
        ram.free(one);
        let all = [one, two, ram.allocate(PAGE).unwrap(), ram.allocate(PAGE).unwrap()];
        all.map(|run| (run.start - BASE, run.bytes))
    };
    assert_eq!(starts(), [(0, PAGE), (PAGE, 3 * PAGE), (0, PAGE), (4 * PAGE, PAGE)]);
    assert_eq!(starts(), starts());
}

#[test]
fn bytes_are_read_as_they_were_written() {
    let ram = ram();
    let run = ram.allocate(2 * PAGE).unwrap();
    assert!(ram.write(run.start + PAGE - 2, &[1, 2, 3, 4]));
    assert_eq!(bytes(&ram, run.start + PAGE - 3, 6), Some(vec![0, 1, 2, 3, 4, 0]));
    assert!(ram.copy(run.start + PAGE - 2, run.start + PAGE - 1, 4), "overlapping");
    assert_eq!(bytes(&ram, run.start + PAGE - 2, 5), Some(vec![1, 1, 2, 3, 4]));
    assert!(ram.fill(Run { start: run.start + 1, bytes: 11 }, 0x0403_0201));
    let filled = [0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 0];
    assert_eq!(bytes(&ram, run.start, 13), Some(filled.to_vec()));
    assert!(ram.fill(run, 0xabab_abab));
    let all = bytes(&ram, run.start, 2 * 4096).unwrap();
    assert!(all.iter().all(|byte| *byte == 0xab));
}

#[test]
fn what_is_not_taken_is_not_there() {
    let ram = ram();
    let (one, gap) = (ram.allocate(PAGE).unwrap(), ram.allocate(PAGE).unwrap());
    let last = ram.allocate(PAGE).unwrap();
    ram.free(gap);
    let outside =
        [0, 8, gap.start, one.start + PAGE - 1, BASE - 1, BASE + SIZE - 1, BASE + SIZE, u64::MAX];
    for start in outside {
        assert_eq!(bytes(&ram, start, 2), None, "{start:#x}");
        assert!(!ram.write(start, &[1, 2]), "{start:#x}");
        assert!(!ram.fill(Run { start, bytes: 2 }, 7), "{start:#x}");
        assert!(!ram.copy(start, last.start, 2) && !ram.copy(last.start, start, 2), "{start:#x}");
        assert!(!ram.with_slice(Run { start, bytes: 2 }, &mut |_| panic!("lent")), "{start:#x}");
    }
    assert!(ram.map(&[gap]).is_none() && ram.map(&[one, gap]).is_none());
    assert_eq!(bytes(&ram, one.start + PAGE - 1, 1), Some(vec![0]), "and nothing was written");
    assert!(
        ram.allocate(SIZE).is_none()
            && ram.allocate(0).is_none()
            && ram.allocate(u64::MAX).is_none()
    );
}

#[test]
fn what_was_given_back_is_zero_when_taken_again() {
    let ram = ram();
    for pages in [1, 15, 16, 64] {
        let run = ram.allocate(pages * PAGE).unwrap();
        assert!(ram.fill(run, 0x1234_5678));
        ram.free(Run { bytes: run.bytes - 1, ..run });
        assert!(ram.write(run.start, &[1]), "not as it was taken: it stays");
        ram.free(run);
        ram.free(run);
        assert!(!ram.write(run.start, &[1]));
        let again = ram.allocate(pages * PAGE).unwrap();
        assert_eq!(again, run);
        let length = usize::try_from(run.bytes).unwrap();
        assert!(bytes(&ram, run.start, length).unwrap().iter().all(|byte| *byte == 0), "{pages}");
        ram.free(again);
    }
    assert!(ram.allocate(SIZE).is_some(), "all of it came back as one");
}

#[test]
fn a_view_shows_the_same_bytes_in_its_own_order() {
    let ram = ram();
    let (a, b) = (ram.allocate(PAGE).unwrap(), ram.allocate(2 * PAGE).unwrap());
    assert!(ram.write(a.start + 5, b"a") && ram.write(b.start + PAGE, b"b"));
    let view = ram.map(&[b, a]).unwrap();
    assert_eq!((visible_bytes(view + 4096), visible_bytes(view + 2 * 4096 + 5)), (b'b', b'a'));
    poke(view + 2 * 4096 + 6, b'c');
    assert_eq!(bytes(&ram, a.start + 5, 2), Some(b"ac".to_vec()));

    let c = ram.allocate(3 * PAGE).unwrap();
    assert!(ram.write(c.start + PAGE, b"d"));
    assert!(ram.remap(view, &[]), "nothing is shown");
    assert!(ram.remap(view, &[c]));
    assert_eq!(visible_bytes(view + 4096), b'd', "other bytes at the same address");
    assert!(!ram.remap(view, &[a]), "of another size");
    assert_eq!(visible_bytes(view + 4096), b'd');
    ram.free(a);
    assert!(!ram.remap(view, &[b, a]), "not there any more");
    assert_eq!(visible_bytes(view + 4096), b'd', "it survives what is not its own");
    ram.unmap(view);
    assert!(!ram.remap(view, &[c]));
    assert!(ram.map(&[]).is_none() && ram.map(&[Run { bytes: 8, ..b }]).is_none());
}

#[test]
fn through_a_view_only_what_it_shows_now_is_touched() {
    let ram = ram();
    let (a, b) = (ram.allocate(PAGE).unwrap(), ram.allocate(PAGE).unwrap());
    let (view, other) = (ram.map(&[a]).unwrap(), ram.map(&[b]).unwrap());
    let mut one = [0; 2];
    assert!(ram.write_mapped(view + 4094, b"ab") && ram.read_mapped(view + 4094, &mut one));
    assert_eq!((one, bytes(&ram, a.start + 4094, 2)), (*b"ab", Some(b"ab".to_vec())));
    assert!(!ram.write_mapped(view + 4095, b"ab"), "past its end");
    assert!(!ram.read_mapped(view - 1, &mut one), "before its start");
    assert!(!ram.read_mapped(usize::MAX, &mut one) && !ram.read_mapped(0, &mut one));
    assert!(ram.remap(view, &[]));
    assert!(!ram.read_mapped(view, &mut one), "it shows nothing");
    assert!(ram.remap(view, &[a]) && ram.read_mapped(view, &mut one));
    assert!(!ram.remap(view, &[a, b]) && ram.read_mapped(view, &mut one), "it is as it was");
    ram.unmap(view);
    assert!(!ram.write_mapped(view, b"x") && ram.write_mapped(other, b"x"));
    ram.unmap(other);
}

#[test]
fn lent_bytes_are_not_accessible() {
    let ram = ram();
    let run = ram.allocate(PAGE).unwrap();
    let half = Run { bytes: 2048, ..run };
    let mut calls = 0;
    let lent = ram.with_slice(half, &mut |bytes| {
        calls += 1;
        bytes[..3].copy_from_slice(b"abc");
        assert!(!ram.write(run.start, b"x"));
        assert!(!ram.copy(run.start + 2048, run.start + 2047, 1));
        assert!(
            !ram.with_slice(Run { start: run.start + 2047, bytes: 2 }, &mut |_| panic!("twice"))
        );
        assert!(ram.write(run.start + 2048, b"x"), "beside it");
        assert!(
            ram.with_slice(Run { start: run.start + 2048, bytes: 2 }, &mut |bytes| bytes[0] += 1)
        );
        ram.free(run);
    });
    assert!(lent && calls == 1);
    assert_eq!(bytes(&ram, run.start, 3), Some(b"abc".to_vec()), "a loan is not given back");
    assert_eq!(bytes(&ram, run.start + 2048, 1), Some(b"y".to_vec()));
    ram.free(run);
    assert_eq!(bytes(&ram, run.start, 3), None);
}

#[test]
fn memory_comes_back_when_it_ends() {
    let ram = Ram::new(8 << 30).unwrap();
    let run = ram.allocate(PAGE).unwrap();
    let view = ram.map(&[run]).unwrap();
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    let column = |line: &str, at: usize| line.split_whitespace().nth(at).unwrap().to_owned();
    let before = maps();
    let seen = before.lines().find(|text| text.starts_with(&format!("{view:x}-"))).unwrap();
    let inode = column(seen, 4);
    let mapped = |maps: &str| maps.lines().filter(|text| column(text, 4) == inode).count();
    assert_eq!(mapped(&before), 2, "the memory and the view");
    drop(ram);
    assert_eq!(mapped(&maps()), 0);
}

#[test]
fn threads_that_take_and_give_see_zeroes_and_their_own_bytes() {
    let ram = ram();
    thread::scope(|scope| {
        for number in 1..=4_u8 {
            let ram = &ram;
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let run = ram.allocate((1 + round % 5) * PAGE).unwrap();
                    assert_eq!(bytes(ram, run.start + run.bytes - 1, 1), Some(vec![0]));
                    assert!(ram.fill(run, u32::from_le_bytes([number; 4])));
                    assert!(ram.with_slice(run, &mut |bytes| assert_eq!(bytes[0], number)));
                    let mut last = [0];
                    assert!(ram.read(run.start + run.bytes - 1, &mut last));
                    assert_eq!(last, [number]);
                    ram.free(run);
                }
            });
        }
    });
    assert!(ram.allocate(SIZE).is_some());
}

#[test]
fn a_deferred_fill_is_seen_by_every_kind_of_access() {
    const LARGE: u64 = 16 * PAGE;
    const PATTERN: u32 = 0x0403_0201;
    let filled = || {
        let ram = ram();
        let run = ram.allocate(LARGE).unwrap();
        assert!(ram.write(run.start, &[9; 3 * 4096]));
        assert!(ram.fill(run, PATTERN) && ram.late_fill.waits(run.start - BASE, LARGE), "deferred");
        (ram, run)
    };
    let (ram, run) = filled();
    let read = bytes(&ram, run.start + PAGE - 1, 3).unwrap();
    assert_eq!(read, [4, 1, 2], "over the boundary of two pages");
    assert!(ram.write(run.start + 5 * PAGE + 1, &[7]));
    let read = bytes(&ram, run.start + 5 * PAGE, 3).unwrap();
    assert_eq!(read, [1, 7, 3], "a write leaves the rest of the page filled");
    assert!(ram.copy(run.start + 7 * PAGE + 1, run.start + 9 * PAGE, 2));
    assert_eq!(bytes(&ram, run.start + 9 * PAGE, 4).unwrap(), [2, 3, 3, 4]);
    assert!(ram.with_slice(run, &mut |bytes| assert_eq!(bytes[15 * 4096 + 2], 3)));

    let (ram, run) = filled();
    let view = ram.map(&[run]).unwrap();
    assert_eq!(visible_bytes(view + 12 * 4096 + 3), 4);
    poke(view + 12 * 4096 + 3, 8);
    assert_eq!(bytes(&ram, run.start + 12 * PAGE + 3, 1).unwrap(), [8], "not filled again");
    assert!(ram.fill(run, 0x0505_0505));
    assert_eq!(visible_bytes(view + 12 * 4096 + 3), 5, "a view sees the fill at once");

    let (ram, run) = filled();
    assert!(ram.fill(run, 0x0606_0606), "another pattern");
    assert_eq!(bytes(&ram, run.start + PAGE, 1).unwrap(), [6]);
    let (ram, run) = filled();
    ram.free(run);
    let again = ram.allocate(LARGE).unwrap();
    assert_eq!((again, bytes(&ram, again.start + PAGE, 2)), (run, Some(vec![0, 0])));
}

/// Memory of a client, in a vector.
#[derive(Debug)]
struct ClientBytes(Mutex<Vec<u8>>);

impl ExistingMemory for ClientBytes {
    fn bytes(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let start = usize::try_from(offset).unwrap();
        into.copy_from_slice(&self.0.lock().unwrap()[start..start + into.len()]);
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset).unwrap();
        self.0.lock().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn failed_access(&self) -> Option<flight::FailedAccess> {
        None
    }
}

#[test]
fn memory_of_a_client_is_accessed_at_its_own_addresses() {
    let ram = ram();
    let client = Arc::new(ClientBytes(Mutex::new(vec![3; 2 * 4096])));
    let run = ram.attach(client.clone(), 2 * PAGE).unwrap();
    let own = ram.allocate(2 * PAGE).unwrap();
    assert!(run.start >= BASE + SIZE && run.bytes == 2 * PAGE);

    assert!(ram.write(run.start + PAGE - 1, &[1, 2]));
    assert!(ram.copy(run.start, own.start, 2 * PAGE));
    assert_eq!(bytes(&ram, own.start + PAGE - 2, 4), Some(vec![3, 1, 2, 3]));
    assert!(ram.copy(run.start + PAGE - 1, run.start + PAGE, 2), "overlapping");
    assert_eq!(bytes(&ram, run.start + PAGE - 1, 3), Some(vec![1, 1, 2]));
    assert!(ram.fill(Run { start: run.start + 1, bytes: 4098 }, 0x0403_0201));
    assert_eq!(client.0.lock().unwrap()[4094..4100], [2, 3, 4, 1, 2, 3]);
    assert!(ram.with_slice(run, &mut |bytes| bytes[8191] = 9));
    assert_eq!(client.0.lock().unwrap()[8190..], [3, 9]);

    assert!(!ram.write(run.start + 2 * PAGE - 1, &[0, 0]), "past the end");
    assert!(!ram.copy(run.start, own.start + 1, 2 * PAGE), "past the end of the other");
    assert_eq!(ram.map(&[run]), None, "a client's pages are mapped only there");
    assert_eq!(ram.attach(client.clone(), 3 * PAGE), None, "more than there is");
}

#[test]
fn attached_memory_is_gone_when_it_is_freed_and_its_addresses_are_free() {
    let ram = ram();
    let client = Arc::new(ClientBytes(Mutex::new(vec![0; 4096])));
    let [one, two, three] = [(); 3].map(|()| ram.attach(client.clone(), PAGE).unwrap());
    assert!(one.start + PAGE < two.start && two.start + PAGE < three.start, "with gaps");
    ram.free(Run { bytes: 2 * PAGE, ..two });
    assert!(ram.write(two.start, &[1]), "it was not freed as a whole");
    ram.free(two);
    assert!(!ram.write(two.start, &[1]) && bytes(&ram, two.start, 1).is_none());
    assert_eq!(ram.attach(client.clone(), PAGE), Some(two));
    for run in [one, two, three] {
        ram.free(run);
    }
    assert_eq!(Arc::strong_count(&client), 1);
}
