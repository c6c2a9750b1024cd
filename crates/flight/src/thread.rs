//! Which virtual thread, and which driver call on it, the running code belongs to.
//!
//! Thread-local on purpose: an event takes both from here, so nobody has to pass them.

use crate::Component;
use crate::level::Irql;
use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static IRQL: Cell<Irql> = const { Cell::new(Irql::Passive) };
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
    static CALLER: Cell<Component> = const { Cell::new(Component::Client) };
}

/// A call of a driver, as the thread that is in it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// The process it is for.
    pub process: Option<u32>,
    /// Whether it is in the GPU scheduler's class.
    pub scheduler: bool,
    /// Whether no other thread is inside that uses the hardware (level two), or none at all
    /// (level three).
    pub exclusive: bool,
    /// Whether it left something that is to be looked at when it returns.
    pub marked: bool,
    /// Whether hardware was touched in it.
    pub touched: bool,
    /// Whether it gives work to the hardware, at dispatch level.
    pub submits: bool,
    /// In such a call: what was called in it first that is not for its level.
    pub misused: Option<&'static str>,
}

/// Who is to blame for what the clients' rules say, on this thread and now.
pub fn caller() -> Component {
    CALLER.with(Cell::get)
}

/// While it lives, this thread calls on behalf of somebody: what breaks a client's rule is laid
/// to that one.
#[derive(Debug)]
pub struct CallerGuard(Component);

impl CallerGuard {
    /// From now on it is this one.
    pub fn of(component: Component) -> Self {
        Self(CALLER.with(|it| it.replace(component)))
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        CALLER.with(|component| component.set(self.0));
    }
}

/// The number of the virtual thread that runs here, as its events have it.
pub fn current() -> u32 {
    THREAD.with(Cell::get)
}

pub(crate) fn set_current(number: u32) -> u32 {
    THREAD.with(|id| id.replace(number))
}

pub(crate) fn call() -> Option<u32> {
    CALL.with(Cell::get).map(|call| call.number)
}

/// The level of the virtual thread that runs here.
pub(crate) fn irql() -> Irql {
    IRQL.with(Cell::get)
}

pub(crate) fn set_irql(irql: Irql) -> Irql {
    IRQL.with(|it| it.replace(irql))
}

/// While it lives, this thread is inside a call of a driver.
#[derive(Debug)]
pub struct CallGuard(Option<Call>);

impl CallGuard {
    /// Enters call `number`, which is for a process or for none.
    pub fn enter(number: u32, process: Option<u32>, scheduler: bool) -> Self {
        let call = Call {
            number,
            process,
            scheduler,
            exclusive: false,
            marked: false,
            touched: false,
            submits: false,
            misused: None,
        };
        Self(CALL.with(|it| it.replace(Some(call))))
    }

    /// Says that the call this thread is in is of level two or three.
    pub fn exclude() {
        CALL.with(|it| it.set(it.get().map(|call| Call { exclusive: true, ..call })));
    }

    /// Says that the call this thread is in gives work to the hardware.
    pub fn submit() {
        CALL.with(|it| it.set(it.get().map(|call| Call { submits: true, ..call })));
    }

    /// Something was called that is not for this level: if this thread is in a call that gives
    /// work to the hardware, that remembers it. Answers whether it does.
    pub fn misuse(name: &'static str) -> bool {
        CALL.with(|it| {
            let Some(call) = it.get().filter(|call| call.submits) else { return false };
            let misused = call.misused.or(Some(name));
            it.set(Some(Call { misused, ..call }));
            true
        })
    }

    /// The call this thread is in.
    pub fn current() -> Option<Call> {
        CALL.with(Cell::get)
    }

    /// Hardware was touched: its registers say so to the call this thread is in.
    pub fn touch() {
        CALL.with(|it| it.set(it.get().map(|call| Call { touched: true, ..call })));
    }

    /// Marks the call this thread is in, for whoever looks when it returns.
    pub fn mark() {
        CALL.with(|it| it.set(it.get().map(|call| Call { marked: true, ..call })));
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        CALL.with(|call| call.set(self.0));
    }
}
