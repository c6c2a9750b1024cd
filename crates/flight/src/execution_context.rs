//! The execution context of the running code: its virtual thread, IRQL, driver call, the component
//! it acts for, and what other crates attach (the adapter, the pool, the host of the driver).
//!
//! The context is thread-local because events take these facts from it, and a driver passes none
//! of them. Code enters a context through guards ([`CallGuard`],
//! [`CallerGuard`], [`ExecutionContext::attach`], [`ExecutionContext::enter`]) and finds it with
//! [`ExecutionContext::current`] and [`ExecutionContext::attached`].
//!
//! # Invariants
//!
//! 1. Guards drop in the reverse order of their creation, also when a driver unwinds. The last
//!    attachment of a type is the valid one.
//! 2. No other code runs while the attachments are borrowed; one is dropped after that.
//!
//! [`CallGuard`]: crate::CallGuard
//! [`CallerGuard`]: crate::CallerGuard

use crate::sync::thread_local;
use crate::thread::Call;
use crate::{Component, Irql};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static FACTS: FactCells = const { FactCells::outside() };
    static ATTACHMENTS: RefCell<Vec<AttachmentSlot>> = const { RefCell::new(Vec::new()) };
}

/// The functions that were called without a context, each once.
static CALLS_WITHOUT_CONTEXT: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The execution context of a thread.
#[derive(Clone)]
pub struct ExecutionContext {
    facts: Facts,
    attachments: Vec<AttachmentSlot>,
}

/// The facts of a context that every driver call and every event reads or changes.
#[derive(Clone, Copy)]
struct Facts {
    thread: u32,
    irql: Irql,
    component: Component,
    call: Option<Call>,
}

impl Facts {
    /// Outside any flight.
    const OUTSIDE: Self =
        Self { thread: 0, irql: Irql::Passive, component: Component::Client, call: None };
}

/// The facts of a thread, each in a cell of its own. They are plain values without a destructor, so
/// reading or changing one costs a load or a store.
pub(crate) struct FactCells {
    pub(crate) thread: Cell<u32>,
    pub(crate) irql: Cell<Irql>,
    pub(crate) component: Cell<Component>,
    /// Whether the thread is in a driver call.
    in_call: Cell<bool>,
    /// That call. Its value means nothing outside one, so leaving a call need not change it.
    call: Cell<Call>,
    /// The last number of the thread for a call that is not logged.
    pub(crate) unlogged_calls: Cell<u32>,
}

impl FactCells {
    /// Outside any flight.
    const fn outside() -> Self {
        let Facts { thread, irql, component, call } = Facts::OUTSIDE;
        Self {
            thread: Cell::new(thread),
            irql: Cell::new(irql),
            component: Cell::new(component),
            in_call: Cell::new(call.is_some()),
            call: Cell::new(match call {
                Some(call) => call,
                None => Call::UNUSED,
            }),
            unlogged_calls: Cell::new(0),
        }
    }

    /// Whether the thread is in a driver call.
    #[inline]
    pub(crate) fn is_in_call(&self) -> bool {
        self.in_call.get()
    }

    /// The driver call that the thread is in.
    #[inline]
    pub(crate) fn call(&self) -> Option<Call> {
        if self.in_call.get() { Some(self.call.get()) } else { None }
    }

    /// Puts the thread into a driver call, or out of any.
    #[inline]
    pub(crate) fn set_call(&self, call: Option<Call>) {
        self.in_call.set(call.is_some());
        if let Some(call) = call {
            self.call.set(call);
        }
    }
}

/// The type of an attachment, and its value.
type AttachmentSlot = (TypeId, Arc<dyn Attachment>);

/// A value that another crate attaches to a context: one slot for each type.
pub trait Attachment: Any + Send + Sync {
    /// The attachment of a thread that the driver starts through an import. `None` if the thread
    /// does not inherit it.
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>>;
}

impl ExecutionContext {
    /// The context of the running code.
    pub fn current() -> Self {
        Self { facts: facts(), attachments: with_attachments(|list| list.clone()) }
    }

    /// The number of the virtual thread.
    pub fn thread(&self) -> u32 {
        self.facts.thread
    }

    /// The IRQL.
    pub fn irql(&self) -> Irql {
        self.facts.irql
    }

    /// The driver call that the code is in.
    pub fn call(&self) -> Option<Call> {
        self.facts.call
    }

    /// The component that the code acts for.
    pub fn component(&self) -> Component {
        self.facts.component
    }

    /// The attachment of this type in the context of the running code.
    pub fn attached<T: Attachment>() -> Option<Arc<T>> {
        let key = TypeId::of::<T>();
        let found = with_attachments(|list| {
            let mut newest_first = list.iter().rev();
            newest_first.find(|(slot, _)| *slot == key).map(|(_, value)| value.clone())
        });
        let value: Arc<dyn Any + Send + Sync> = found?;
        value.downcast().ok()
    }

    /// Attaches `value` to the context of the running code, until the guard drops.
    pub fn attach<T: Attachment>(value: Arc<T>) -> AttachmentGuard<T> {
        with_attachments(|list| list.push((TypeId::of::<T>(), value)));
        AttachmentGuard(PhantomData)
    }

    /// The context for a thread that the running code starts. The thread starts at
    /// `PASSIVE_LEVEL`, outside any driver call, and gets its number from its host.
    pub fn capture() -> Self {
        let context = Self::current();
        // Only the last attachment of a type is valid. With the others, the context of a routine that
        // starts itself again would grow with each turn.
        let mut attachments: Vec<AttachmentSlot> = Vec::new();
        for (slot, value) in context.attachments.into_iter().rev() {
            if attachments.iter().all(|(known, _)| *known != slot) {
                attachments.extend(value.for_new_thread().map(|value| (slot, value)));
            }
        }
        attachments.reverse();
        let facts = Facts { component: context.facts.component, ..Facts::OUTSIDE };
        Self { facts, attachments }
    }

    /// Makes the captured context the context of this thread, until the guard drops. The thread
    /// keeps its number and IRQL.
    #[must_use = "the context ends with the guard"]
    pub fn enter(self) -> ExecutionContextGuard {
        ExecutionContextGuard(Some(self.replace()))
    }

    /// Makes this the context of the thread, which keeps its number and IRQL. Returns the one
    /// before.
    fn replace(self) -> Self {
        let before = facts();
        with_facts(|cells| {
            cells.component.set(self.facts.component);
            cells.set_call(self.facts.call);
        });
        let attachments = with_attachments(|list| std::mem::replace(list, self.attachments));
        Self { facts: before, attachments }
    }

    /// Reports that `function` was called without a context, once for each function.
    pub fn report_missing(function: &'static str) {
        let mut calls = CALLS_WITHOUT_CONTEXT.lock().unwrap_or_else(PoisonError::into_inner);
        if !calls.contains(&function) {
            calls.push(function);
            // A closed standard error is no reason to stop.
            let text =
                format!("windtunnel: {function} was called on a thread that runs no driver\n");
            _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        }
    }

    /// The functions that were called without a context, in the order of their first call in this
    /// process.
    pub fn calls_without_context() -> Vec<&'static str> {
        CALLS_WITHOUT_CONTEXT.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for ExecutionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutionContext")
            .field("thread", &self.facts.thread)
            .field("irql", &self.facts.irql)
            .field("call", &self.facts.call)
            .field("component", &self.facts.component)
            .field("attachments", &self.attachments.len())
            .finish()
    }
}

/// Lends the facts of this thread. `None` on a thread that is ending: it is outside any flight, and no
/// event reads them.
#[inline]
pub(crate) fn with_facts<R>(body: impl FnOnce(&FactCells) -> R) -> Option<R> {
    FACTS.try_with(body).ok()
}

/// The facts of this thread.
fn facts() -> Facts {
    let all = |cells: &FactCells| Facts {
        thread: cells.thread.get(),
        irql: cells.irql.get(),
        component: cells.component.get(),
        call: cells.call(),
    };
    with_facts(all).unwrap_or(Facts::OUTSIDE)
}

/// Lends the attachments of this thread. A thread that is ending has none.
fn with_attachments<R>(body: impl FnOnce(&mut Vec<AttachmentSlot>) -> R) -> R {
    let mut body = Some(body);
    let mut run = |list: &mut Vec<AttachmentSlot>| body.take().map(|body| body(list));
    let result = ATTACHMENTS.try_with(|list| run(&mut list.borrow_mut())).ok().flatten();
    let result = result.or_else(|| run(&mut Vec::new()));
    crate::invariant(result, "the body runs once: on the thread's attachments or on an empty list")
}

/// Keeps a value attached to the context of this thread, until the guard drops.
#[derive(Debug)]
#[must_use = "the value is attached while the guard lives"]
pub struct AttachmentGuard<T: Attachment>(PhantomData<*const T>);

impl<T: Attachment> Drop for AttachmentGuard<T> {
    fn drop(&mut self) {
        let detached = with_attachments(|list| {
            let key = TypeId::of::<T>();
            let index = list.iter().rposition(|(slot, _)| *slot == key);
            index.map(|index| list.remove(index))
        });
        drop(detached); // Outside the borrow: it may log.
    }
}

/// Keeps this thread under a captured context, until the guard drops.
#[derive(Debug)]
pub struct ExecutionContextGuard(Option<ExecutionContext>);

impl Drop for ExecutionContextGuard {
    fn drop(&mut self) {
        let Some(before) = self.0.take() else { return };
        drop(before.replace()); // Outside the borrow: it may log.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallGuard, CallScope, CallerGuard};

    #[derive(Debug, PartialEq)]
    struct Inherited(u8);
    struct OfThisThread;

    impl Attachment for Inherited {
        fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
            Some(self)
        }
    }

    impl Attachment for OfThisThread {
        fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
            None
        }
    }

    fn attached() -> Option<u8> {
        ExecutionContext::attached::<Inherited>().map(|value| value.0)
    }

    #[test]
    fn the_innermost_attachment_counts_and_ends_with_its_guard() {
        let outer = ExecutionContext::attach(Arc::new(Inherited(1)));
        let unwinds = || {
            let _inner = ExecutionContext::attach(Arc::new(Inherited(2)));
            assert_eq!(attached(), Some(2));
            std::panic::resume_unwind(Box::new("a driver's"));
        };
        assert!(std::panic::catch_unwind(unwinds).is_err());
        assert_eq!(attached(), Some(1));
        drop(outer);
        assert_eq!(attached(), None);
    }

    #[test]
    fn a_context_that_is_captured_inside_itself_does_not_grow() {
        let _first = ExecutionContext::attach(Arc::new(Inherited(1)));
        let mut context = ExecutionContext::capture();
        for turn in 2..10 {
            let _entered = context.enter();
            let _again = ExecutionContext::attach(Arc::new(Inherited(turn)));
            context = ExecutionContext::capture();
            assert_eq!((context.attachments.len(), attached()), (1, Some(turn)));
        }
    }

    #[test]
    fn a_new_thread_inherits_what_is_not_of_this_thread() {
        let _kept = ExecutionContext::attach(Arc::new(Inherited(7)));
        let _left = ExecutionContext::attach(Arc::new(OfThisThread));
        let _caller = CallerGuard::of(Component::Umd);
        let _call = CallGuard::enter(9, &CallScope::default());
        assert_eq!(ExecutionContext::current().call().map(|call| call.number), Some(9));
        let captured = ExecutionContext::capture();
        let thread = std::thread::spawn(move || {
            assert_eq!(attached(), None, "nothing is inherited before the context is entered");
            let entered = captured.enter();
            let current = ExecutionContext::current();
            assert_eq!((current.component(), current.call()), (Component::Umd, None));
            assert!(ExecutionContext::attached::<OfThisThread>().is_none());
            assert_eq!(attached(), Some(7));
            drop(entered);
            attached()
        });
        assert_eq!(thread.join().unwrap(), None);
    }

    #[test]
    fn a_call_without_a_context_is_listed_once() {
        ExecutionContext::report_missing("PlantedFunction");
        ExecutionContext::report_missing("PlantedFunction");
        let names = ExecutionContext::calls_without_context();
        assert_eq!(names.iter().filter(|name| **name == "PlantedFunction").count(), 1);
    }
}
