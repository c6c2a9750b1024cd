//! The virtual thread of the running code, and the driver call it is in: parts of its
//! [`ExecutionContext`](crate::ExecutionContext).

use crate::Component;
use crate::execution_context::with;
use crate::level::Irql;

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
    with(|context| context.component)
}

/// While it lives, this thread calls on behalf of somebody: what breaks a client's rule is laid
/// to that one.
#[derive(Debug)]
pub struct CallerGuard(Component);

impl CallerGuard {
    /// From now on it is this one.
    pub fn of(component: Component) -> Self {
        Self(with(|context| std::mem::replace(&mut context.component, component)))
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        with(|context| context.component = self.0);
    }
}

/// The number of the virtual thread that runs here, as its events have it.
pub fn current() -> u32 {
    with(|context| context.thread)
}

pub(crate) fn set_current(number: u32) -> u32 {
    with(|context| std::mem::replace(&mut context.thread, number))
}

pub(crate) fn call() -> Option<u32> {
    with(|context| context.call.map(|call| call.number))
}

/// The level of the virtual thread that runs here.
pub(crate) fn irql() -> Irql {
    with(|context| context.irql)
}

pub(crate) fn set_irql(irql: Irql) -> Irql {
    with(|context| std::mem::replace(&mut context.irql, irql))
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
        Self(with(|context| context.call.replace(call)))
    }

    /// Says that the call this thread is in is of level two or three.
    pub fn exclude() {
        change_call(|call| call.exclusive = true);
    }

    /// Says that the call this thread is in gives work to the hardware.
    pub fn submit() {
        change_call(|call| call.submits = true);
    }

    /// Something was called that is not for this level: if this thread is in a call that gives
    /// work to the hardware, that remembers it. Answers whether it does.
    pub fn misuse(name: &'static str) -> bool {
        with(|context| {
            let Some(call) = context.call.as_mut().filter(|call| call.submits) else {
                return false;
            };
            call.misused.get_or_insert(name);
            true
        })
    }

    /// The call this thread is in.
    pub fn current() -> Option<Call> {
        with(|context| context.call)
    }

    /// Hardware was touched: its registers say so to the call this thread is in.
    pub fn touch() {
        change_call(|call| call.touched = true);
    }

    /// Marks the call this thread is in, for whoever looks when it returns.
    pub fn mark() {
        change_call(|call| call.marked = true);
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        with(|context| context.call = self.0);
    }
}

/// Changes the call this thread is in, if it is in one.
fn change_call(change: impl FnOnce(&mut Call)) {
    with(|context| {
        if let Some(call) = &mut context.call {
            change(call);
        }
    });
}
