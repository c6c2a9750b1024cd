//! The amount of work of long tests.

/// The repetitions of a long test: `default_size` in each test run, `long` with
/// `cargo xtask test --long`, which sets `WINDTUNNEL_LONG`.
pub fn repeats(default_size: u64, long: u64) -> u64 {
    if std::env::var_os("WINDTUNNEL_LONG").is_some() { long } else { default_size }
}
