//! Tests of the pool: driver errors and the events that report them.
#![expect(unsafe_code, reason = "acts as a driver that uses its memory")]

use super::*;
use flight::Pool as _;

const TAG: u32 = u32::from_le_bytes(*b"Wind");

fn pool() -> (Arc<Log>, Arc<Pool>) {
    let log = Arc::new(Log::new());
    (log.clone(), Pool::new(log))
}

/// The logged events, without their numbers.
fn log_text(log: &Log) -> Vec<String> {
    let line = |event: flight::Event| {
        let line = event.to_string();
        line.split_once(" - ").map_or(line.clone(), |(_, rest)| rest.to_owned())
    };
    log.take().into_iter().map(line).collect()
}

fn write(block: usize, offset: usize, byte: u8) {
    let at: *mut u8 = std::ptr::with_exposed_provenance_mut(block + offset);
    // SAFETY: The block is live or in the quarantine, so its memory is allocated.
    unsafe { at.write(byte) };
}

fn point(block: usize, offset: usize, word: usize) {
    for (at, byte) in word.to_ne_bytes().into_iter().enumerate() {
        write(block, offset + at, byte);
    }
}

#[test]
fn a_block_comes_and_goes() {
    let (log, pool) = pool();
    let block = pool.allocate_pool(24, TAG).unwrap();
    assert_eq!(block % 16, 0);
    pool.free(block, TAG);
    pool.inspect("DxgkDdiEscape");
    pool.close();
    assert_eq!(
        log_text(&log),
        ["driver-pointer:1 pool.allocated bytes=24 tag=Wind", "driver-pointer:1 pool.freed"]
    );
    assert_eq!(log.pointer_subject(block).number, 0, "the driver pointer was released");
}

#[test]
fn a_second_free_is_named() {
    let (log, pool) = pool();
    let block = pool.allocate_pool(24, TAG).unwrap();
    pool.free(block, TAG);
    pool.free(block, TAG);
    pool.free(block, TAG ^ 1);
    let twice = r#"driver-pointer:1 pool.bad-free why="it was freed before""#;
    assert_eq!(log_text(&log)[2..], [twice, twice]);
    pool.close();
    assert!(log_text(&log).is_empty());
}

#[test]
fn a_free_of_no_block_is_named() {
    let (log, pool) = pool();
    let block = pool.allocate_pool(24, TAG).unwrap();
    pool.free(block + 8, TAG);
    pool.free(0, TAG);
    let none = r#"driver-pointer:0 pool.bad-free why="no block starts there""#;
    assert_eq!(log_text(&log)[1..], [none, none]);
    pool.free(block, TAG);
    assert_eq!(log_text(&log), ["driver-pointer:1 pool.freed"], "it was not lost");
}

#[test]
fn a_wrong_tag_is_named_and_frees_all_the_same() {
    let (log, pool) = pool();
    let block = pool.allocate_pool(24, TAG).unwrap();
    pool.free(block, u32::from_le_bytes(*b"Rain"));
    let other = r#"driver-pointer:1 pool.bad-free why="it has another tag""#;
    assert_eq!(log_text(&log)[1..], [other, "driver-pointer:1 pool.freed"]);
    pool.close();
    assert!(log_text(&log).is_empty());
}

#[test]
fn a_write_after_the_free_is_named_once() {
    let (log, pool) = pool();
    let block = pool.allocate_pool(24, TAG).unwrap();
    pool.free(block, TAG);
    write(block, 13, 0xDD);
    pool.inspect("DxgkDdiEscape");
    assert_eq!(log_text(&log).len(), 2, "the pattern is what stood there");
    write(block, 13, 7);
    pool.inspect("DxgkDdiEscape");
    pool.inspect("DxgkDdiEscape");
    pool.close();
    assert_eq!(log_text(&log), ["driver-pointer:1 pool.corrupted offset=13"]);
}

#[test]
fn an_inspection_sees_the_newest_and_the_end_sees_all() {
    let (log, pool) = pool();
    let blocks: Vec<_> =
        (0..=INSPECTED_BLOCKS).map(|_| pool.allocate_pool(16, TAG).unwrap()).collect();
    for block in &blocks {
        pool.free(*block, TAG);
        write(*block, 0, 1);
    }
    log_text(&log);
    pool.inspect("DxgkDdiEscape");
    let seen = log_text(&log);
    assert_eq!(
        (seen.len(), &*seen[0]),
        (INSPECTED_BLOCKS, "driver-pointer:2 pool.corrupted offset=0")
    );
    pool.close();
    assert_eq!(log_text(&log), ["driver-pointer:1 pool.corrupted offset=0"]);
}

#[test]
fn what_is_left_is_named_in_the_order_it_was_taken() {
    let (log, pool) = pool();
    let sizes = [400, 16, 9000, 64, 16, 1 << 20, 5000];
    let blocks = sizes.map(|bytes| pool.allocate_pool(bytes, TAG).unwrap());
    pool.free(blocks[3], TAG);
    log_text(&log);
    pool.close();
    let left = [1, 2, 3, 5, 6, 7].map(|value| format!("driver-pointer:{value} pool.leaked"));
    assert_eq!(log_text(&log), left);
    pool.close();
    assert!(log_text(&log).is_empty(), "an end is said once");
}

#[test]
fn a_run_repeats() {
    let run = || {
        let (log, pool) = pool();
        let mut blocks: Vec<_> =
            (1..200).map(|index| pool.allocate_pool(index * 7 % 300 + 1, TAG)).collect();
        for at in (0..150).map(|index| index * 31 % blocks.len()).collect::<Vec<_>>() {
            let Some(block) = blocks[at].take() else { continue };
            pool.free(block, TAG);
            write(block, at % 8, 0);
        }
        pool.inspect("DxgkDdiEscape");
        pool.close();
        log_text(&log)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_quarantine_is_bounded_and_looks_before_it_lets_go() {
    let (log, pool) = pool();
    let first = pool.allocate_pool(16, TAG).unwrap();
    pool.free(first, TAG);
    write(first, 3, 0);
    for _ in 0..MAX_QUARANTINE_BLOCKS {
        let block = pool.allocate_pool(16, TAG).unwrap();
        pool.free(block, TAG);
    }
    assert_eq!(log_text(&log).last().unwrap(), "driver-pointer:1 pool.corrupted offset=3");
    assert_eq!(
        (pool.blocks().quarantine.len(), log.pointer_subject(first).number),
        (MAX_QUARANTINE_BLOCKS, 0)
    );

    let large = pool.allocate_pool(MAX_QUARANTINE_BYTES + 1, TAG).unwrap();
    pool.free(large, TAG);
    let blocks = pool.blocks();
    assert_eq!(
        (blocks.quarantine.len(), blocks.quarantine_bytes, blocks.by_address.len()),
        (0, 0, 0)
    );
}

#[test]
fn a_block_refers_to_live_blocks_only() {
    let (_, pool) = pool();
    let from = pool.allocate_pool(40, TAG).unwrap();
    let to = pool.allocate_pool(24, TAG).unwrap();
    assert!(!pool.refers_to(from, to));
    point(from, 32, to);
    assert!(pool.refers_to(from, to));
    assert!(!pool.refers_to(to, from), "not the other way");
    assert!(!pool.refers_to(from + 8, to), "a block is named by its start");
    point(from, 8, to + 8);
    assert!(!pool.refers_to(from, to + 8), "no block starts there");
    pool.free(to, TAG);
    assert!(!pool.refers_to(from, to), "it is not live");
    pool.close();
    assert!(!pool.refers_to(from, to));
}

#[test]
fn a_driver_inside_another_comes_back_out_also_by_a_panic() {
    let ((_, outer), (_, inner)) = (pool(), pool());
    let is = |pool: &Arc<Pool>| Pool::current("a test").is_some_and(|it| Arc::ptr_eq(&it, pool));
    outer.run_driver(|| {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            inner.run_driver(|| {
                assert!(is(&inner));
                std::panic::resume_unwind(Box::new(()));
            });
        }));
        assert!(panicked.is_err() && is(&outer));
    });
    assert!(Pool::current("a test").is_none());
}

#[test]
fn a_tag_is_printed_with_dots_for_what_is_not_a_letter() {
    assert_eq!(tag_text(u32::from_le_bytes(*b"a~ \x07")), "a~ .");
    assert_eq!(tag_text(u32::from_le_bytes([b'x', 0, 0xff, b'y'])), "x..y");
}

#[test]
fn what_is_taken_between_start_and_stop_is_missed() {
    let log = Arc::new(Log::new());
    let pool = Pool::new(log.clone());
    let before = pool.allocate_pool(8, TAG).unwrap();
    pool.adapter_stopped();
    pool.adapter_started();
    let (given_back, kept) =
        (pool.allocate_pool(8, TAG).unwrap(), pool.allocate_pool(8, TAG).unwrap());
    pool.free(given_back, TAG);
    pool.adapter_stopped();
    let word = log.pointer_subject(kept);
    pool.adapter_stopped();
    let held = EventKind::PoolHeldAfterStop {};
    let said = log.take().into_iter().filter(|event| event.kind == held);
    let said: Vec<_> = said.map(|event| event.subject).collect();
    assert_eq!(said, [word], "once, and not what was there before");
    pool.free(before, TAG);
    pool.free(kept, TAG);
}
