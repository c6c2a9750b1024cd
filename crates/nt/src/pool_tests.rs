//! What a driver can do wrong with pool, and how it is named.
#![expect(unsafe_code, reason = "plays a driver that uses its memory")]

use super::*;
use flight::Pool as _;

const TAG: u32 = u32::from_le_bytes(*b"Wind");

fn pool() -> (Arc<Log>, Arc<Pool>) {
    let log = Arc::new(Log::new());
    (log.clone(), Pool::new(log))
}

/// What was said, without the numbers of events.
fn said(log: &Log) -> Vec<String> {
    let line = |it: flight::Event| {
        let line = it.to_string();
        line.split_once(" - ").map_or(line.clone(), |(_, rest)| rest.to_owned())
    };
    log.take().into_iter().map(line).collect()
}

fn write(block: usize, offset: usize, byte: u8) {
    let at: *mut u8 = std::ptr::with_exposed_provenance_mut(block + offset);
    // SAFETY: The block is known to the pool, so its memory is there, live or resting.
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
    let block = pool.take(24, TAG).unwrap();
    assert_eq!(block % 16, 0);
    pool.free(block, TAG);
    pool.inspect();
    pool.close();
    assert_eq!(said(&log), ["word:1 pool.taken bytes=24 tag=Wind", "word:1 pool.freed"]);
    assert_eq!(log.word(block).number, 0, "the word was released");
}

#[test]
fn a_second_free_is_named() {
    let (log, pool) = pool();
    let block = pool.take(24, TAG).unwrap();
    pool.free(block, TAG);
    pool.free(block, TAG);
    pool.free(block, TAG ^ 1);
    let twice = r#"word:1 pool.misfreed why="it was freed before""#;
    assert_eq!(said(&log)[2..], [twice, twice]);
    pool.close();
    assert!(said(&log).is_empty());
}

#[test]
fn a_free_of_no_block_is_named() {
    let (log, pool) = pool();
    let block = pool.take(24, TAG).unwrap();
    pool.free(block + 8, TAG);
    pool.free(0, TAG);
    let none = r#"word:0 pool.misfreed why="no block starts there""#;
    assert_eq!(said(&log)[1..], [none, none]);
    pool.free(block, TAG);
    assert_eq!(said(&log), ["word:1 pool.freed"], "it was not lost");
}

#[test]
fn a_wrong_tag_is_named_and_frees_all_the_same() {
    let (log, pool) = pool();
    let block = pool.take(24, TAG).unwrap();
    pool.free(block, u32::from_le_bytes(*b"Rain"));
    let other = r#"word:1 pool.misfreed why="it has another tag""#;
    assert_eq!(said(&log)[1..], [other, "word:1 pool.freed"]);
    pool.close();
    assert!(said(&log).is_empty());
}

#[test]
fn a_write_after_the_free_is_named_once() {
    let (log, pool) = pool();
    let block = pool.take(24, TAG).unwrap();
    pool.free(block, TAG);
    write(block, 13, 0xDD);
    pool.inspect();
    assert_eq!(said(&log).len(), 2, "the pattern is what stood there");
    write(block, 13, 7);
    pool.inspect();
    pool.inspect();
    pool.close();
    assert_eq!(said(&log), ["word:1 pool.damaged offset=13"]);
}

#[test]
fn an_inspection_sees_the_newest_and_the_end_sees_all() {
    let (log, pool) = pool();
    let blocks: Vec<_> = (0..=INSPECTED).map(|_| pool.take(16, TAG).unwrap()).collect();
    for block in &blocks {
        pool.free(*block, TAG);
        write(*block, 0, 1);
    }
    said(&log);
    pool.inspect();
    let seen = said(&log);
    assert_eq!((seen.len(), &*seen[0]), (INSPECTED, "word:2 pool.damaged offset=0"));
    pool.close();
    assert_eq!(said(&log), ["word:1 pool.damaged offset=0"]);
}

#[test]
fn what_is_left_is_named_in_the_order_it_was_taken() {
    let (log, pool) = pool();
    let sizes = [400, 16, 9000, 64, 16, 1 << 20, 5000];
    let blocks = sizes.map(|bytes| pool.take(bytes, TAG).unwrap());
    pool.free(blocks[3], TAG);
    said(&log);
    pool.close();
    let left = [1, 2, 3, 5, 6, 7].map(|it| format!("word:{it} pool.left"));
    assert_eq!(said(&log), left);
    pool.close();
    assert!(said(&log).is_empty(), "an end is said once");
}

#[test]
fn a_run_repeats() {
    let run = || {
        let (log, pool) = pool();
        let mut blocks: Vec<_> = (1..200).map(|it| pool.take(it * 7 % 300 + 1, TAG)).collect();
        for at in (0..150).map(|it| it * 31 % blocks.len()).collect::<Vec<_>>() {
            let Some(block) = blocks[at].take() else { continue };
            pool.free(block, TAG);
            write(block, at % 8, 0);
        }
        pool.inspect();
        pool.close();
        said(&log)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_quarantine_is_bounded_and_looks_before_it_lets_go() {
    let (log, pool) = pool();
    let first = pool.take(16, TAG).unwrap();
    pool.free(first, TAG);
    write(first, 3, 0);
    for _ in 0..MOST_RESTING {
        let block = pool.take(16, TAG).unwrap();
        pool.free(block, TAG);
    }
    assert_eq!(said(&log).last().unwrap(), "word:1 pool.damaged offset=3");
    assert_eq!((pool.blocks().resting.len(), log.word(first).number), (MOST_RESTING, 0));

    let large = pool.take(MOST_RESTING_BYTES + 1, TAG).unwrap();
    pool.free(large, TAG);
    let blocks = pool.blocks();
    assert_eq!((blocks.resting.len(), blocks.resting_bytes, blocks.known.len()), (0, 0, 0));
}

#[test]
fn a_block_refers_to_live_blocks_only() {
    let (_, pool) = pool();
    let from = pool.take(40, TAG).unwrap();
    let to = pool.take(24, TAG).unwrap();
    assert!(!pool.refers(from, to));
    point(from, 32, to);
    assert!(pool.refers(from, to));
    assert!(!pool.refers(to, from), "not the other way");
    assert!(!pool.refers(from + 8, to), "a block is named by its start");
    point(from, 8, to + 8);
    assert!(!pool.refers(from, to + 8), "no block starts there");
    pool.free(to, TAG);
    assert!(!pool.refers(from, to), "it is not live");
    pool.close();
    assert!(!pool.refers(from, to));
}

#[test]
fn a_driver_inside_another_comes_back_out_also_by_a_panic() {
    let ((_, outer), (_, inner)) = (pool(), pool());
    let is = |pool: &Arc<Pool>| Pool::current().is_some_and(|it| Arc::ptr_eq(&it, pool));
    outer.inside(|| {
        let panicked = std::panic::catch_unwind(|| {
            inner.inside(|| {
                assert!(is(&inner));
                std::panic::resume_unwind(Box::new(()));
            });
        });
        assert!(panicked.is_err() && is(&outer));
    });
    assert!(Pool::current().is_none());
}

#[test]
fn a_tag_is_printed_with_dots_for_what_is_not_a_letter() {
    assert_eq!(letters(u32::from_le_bytes(*b"a~ \x07")), "a~ .");
    assert_eq!(letters(u32::from_le_bytes([b'x', 0, 0xff, b'y'])), "x..y");
}

#[test]
fn what_is_taken_between_start_and_stop_is_missed() {
    let log = Arc::new(Log::new());
    let pool = Pool::new(log.clone());
    let before = pool.take(8, TAG).unwrap();
    pool.end();
    pool.begin();
    let (given_back, kept) = (pool.take(8, TAG).unwrap(), pool.take(8, TAG).unwrap());
    pool.free(given_back, TAG);
    pool.end();
    let word = log.word(kept);
    pool.end();
    let said = log.take().into_iter().filter(|it| it.what == What::PoolKept {});
    let said: Vec<_> = said.map(|it| it.subject).collect();
    assert_eq!(said, [word], "once, and not what was there before");
    pool.free(before, TAG);
    pool.free(kept, TAG);
}
