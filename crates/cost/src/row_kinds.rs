//! The kinds of rows.

/// The observer of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// None: the log keeps no events.
    Off,
    /// Every live rule.
    Verifier,
    /// Events become the lines of a trace.
    Trace,
}

/// The driver of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// A driver in Rust that does nothing: `noop_driver.rs`.
    Idle,
    /// A driver with a function table and a pool.
    Table,
    /// The driver of the C library.
    BuiltIn,
}

/// The API that the client uses, and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Deterministic,
    /// As deterministic, with a second process that opens each allocation by its global handle.
    Shared,
    Threaded,
    C,
}

/// A kind of row.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) what: &'static str,
    pub(crate) way: Way,
    pub(crate) driver: Driver,
    pub(crate) watch: Watch,
    pub(crate) threads: usize,
}

pub(crate) const OFF: &str = "trait driver, checks off";
pub(crate) const VERIFIER: &str = "trait driver, verifier on";
pub(crate) const TRACE: &str = "trait driver, trace on";
pub(crate) const SHARED: &str = "trait driver, shared with a second process, checks off";
pub(crate) const THREADS: &str = "trait driver, threads, checks off";
pub(crate) const THREADS_TWO: &str = "trait driver, threads, two threads, checks off";
pub(crate) const THREADS_TWO_VERIFIER: &str = "trait driver, threads, two threads, verifier on";
pub(crate) const THREADS_TWO_TRACE: &str = "trait driver, threads, two threads, trace on";
pub(crate) const TABLE: &str = "table driver, checks off";
pub(crate) const RUST: &str = "built-in driver, through Rust";
pub(crate) const C: &str = "built-in driver, through the C library";
pub(crate) const RUST_TWO: &str = "built-in driver, through Rust, two threads";
pub(crate) const C_TWO: &str = "built-in driver, through the C library, two threads";

pub(crate) const KINDS: &[Kind] = &[
    kind(OFF, Way::Deterministic, Driver::Idle, Watch::Off, 1),
    kind(VERIFIER, Way::Deterministic, Driver::Idle, Watch::Verifier, 1),
    kind(TRACE, Way::Deterministic, Driver::Idle, Watch::Trace, 1),
    kind(SHARED, Way::Shared, Driver::Idle, Watch::Off, 1),
    kind(TABLE, Way::Deterministic, Driver::Table, Watch::Off, 1),
    kind(THREADS, Way::Threaded, Driver::Idle, Watch::Off, 1),
    kind(THREADS_TWO, Way::Threaded, Driver::Idle, Watch::Off, 2),
    kind(THREADS_TWO_VERIFIER, Way::Threaded, Driver::Idle, Watch::Verifier, 2),
    kind(THREADS_TWO_TRACE, Way::Threaded, Driver::Idle, Watch::Trace, 2),
    kind(RUST, Way::Threaded, Driver::BuiltIn, Watch::Off, 1),
    kind(C, Way::C, Driver::BuiltIn, Watch::Off, 1),
    kind(RUST_TWO, Way::Threaded, Driver::BuiltIn, Watch::Off, 2),
    kind(C_TWO, Way::C, Driver::BuiltIn, Watch::Off, 2),
];

const fn kind(what: &'static str, way: Way, driver: Driver, watch: Watch, threads: usize) -> Kind {
    Kind { what, way, driver, watch, threads }
}
