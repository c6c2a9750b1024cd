//! Flies the fuzzers' corpus (`fuzz/corpus`) without a fuzzer: it breaks nothing, and it finds a
//! planted bug.

use harness::{
    Case, call_from_bytes, call_unguarded, read_as_driver_file, read_as_symbol_file,
    read_as_trace_and_steps,
};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(folder).expect("the corpus");
    let mut files: Vec<PathBuf> = files.map(|result| result.expect("a file").path()).collect();
    files.sort();
    files
}

fn bytes(file: &Path) -> Vec<u8> {
    fs::read(file).expect("its bytes")
}

#[test]
fn hostile_calls_break_nothing() {
    let files = corpus("thunk");
    let good: usize = files.iter().map(|path| call_from_bytes(&bytes(path))).sum();
    assert!(files.len() >= 30, "{} in the corpus", files.len());
    assert!(good >= 100, "honest calls succeed: {good}");
}

#[test]
fn lifecycles_match_the_model() {
    let files = corpus("lives");
    for file in &files {
        let case = Case::decode(&bytes(file));
        assert!(case.fly().is_ok(), "{}:\n{}", file.display(), case.shrink().text());
    }
    assert!(files.len() >= 30, "{} in the corpus", files.len());
}

#[test]
fn texts_are_parsed_or_rejected() {
    let files = corpus("texts");
    let read = files.iter().filter(|path| read_as_trace_and_steps(&bytes(path))).count();
    assert!(read >= 10 && files.len() - read >= 10, "{read} of {}", files.len());
}

#[test]
fn driver_files_are_read_or_refused() {
    let files = corpus("images");
    let read = files.iter().filter(|path| read_as_driver_file(&bytes(path))).count();
    assert!(read >= 2 && files.len() > read, "{read} of {}", files.len());
}

#[test]
fn symbol_files_are_read_or_refused() {
    let files = corpus("symbols");
    let read = files.iter().filter(|path| read_as_symbol_file(&bytes(path))).count();
    assert!(read >= 2 && files.len() > read, "{read} of {}", files.len());
}

/// In a child process: the file to fly through the unguarded session.
const PLANTED: &str = "WINDTUNNEL_PLANTED";

#[test]
fn a_planted_unguarded_entry_point_is_found() {
    if let Some(file) = std::env::var_os(PLANTED) {
        call_unguarded(&bytes(Path::new(&file)));
        return;
    }
    let dies = |file: &PathBuf| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child
            .args(["--exact", "corpus::a_planted_unguarded_entry_point_is_found"])
            .env(PLANTED, file);
        let ended = child.stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.expect("a child").signal() == Some(libc::SIGSEGV)
    };
    assert!(corpus("thunk").iter().any(dies), "no call of the corpus is hostile");
}

#[test]
fn a_planted_model_error_is_found() {
    let wrong = |file: &PathBuf| Case { forgetful: true, ..Case::decode(&bytes(file)) }.fly();
    assert!(corpus("lives").iter().any(|path| wrong(path).is_err()), "no life of the corpus ends");
}
