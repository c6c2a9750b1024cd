//! The virtual thread of the running code, and the driver call it is in: parts of its
//! [`ExecutionContext`](crate::ExecutionContext).

use crate::execution_context::{FactCells, with_facts};
use crate::level::Irql;
use crate::{CallScope, Component};
use std::sync::atomic::{AtomicU32, Ordering};

/// The driver call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Call {
    /// The number of the call.
    pub number: u32,
    /// The process that the call serves.
    pub process: Option<u32>,
    /// Whether the DDI belongs to the GPU scheduler's class of threading level one.
    pub scheduler: bool,
    /// Whether the driver is called exclusively: no other thread that uses the hardware is in the
    /// driver (threading level two), or no other thread at all (level three).
    pub exclusive: bool,
    /// Whether the funnel must inspect something when the call returns.
    pub marked: bool,
    /// Whether the call accessed hardware.
    pub touched: bool,
    /// Whether the call acknowledged an interrupt of the hardware.
    pub acknowledged: bool,
    /// Whether the call submits work to the hardware at `DISPATCH_LEVEL`.
    pub submits: bool,
    /// In a submitting call: the first function the driver called at an IRQL too high for it.
    pub misused: Option<&'static str>,
    /// In a call of an interrupt routine or DPC: the number of its adapter, and what it has done.
    pub interrupt: Option<(u32, InterruptRun)>,
}

/// One run of an interrupt routine or a DPC, and what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptRun {
    /// The interrupt routine.
    Isr {
        /// It has reported something.
        reported: bool,
        /// It has reported a vsync.
        vsync: bool,
        /// It has queued the DPC.
        queued: bool,
    },
    /// The DPC.
    Dpc {
        /// It follows a report.
        follows: bool,
        /// It has called `DxgkCbNotifyDpc`.
        notified: bool,
    },
}

impl InterruptRun {
    /// An interrupt routine that has done nothing.
    pub const ISR: Self = Self::Isr { reported: false, vsync: false, queued: false };
}

impl Call {
    /// The value of a thread that was never in a call.
    pub(crate) const UNUSED: Self = Self {
        number: 0,
        process: None,
        scheduler: false,
        exclusive: false,
        marked: false,
        touched: false,
        acknowledged: false,
        submits: false,
        misused: None,
        interrupt: None,
    };
}

/// The component that a broken client rule is attributed to on this thread.
pub fn caller() -> Component {
    with_facts(|facts| facts.component.get()).unwrap_or(Component::Client)
}

/// Attributes broken client rules on this thread to a component, until the guard drops.
#[derive(Debug)]
pub struct CallerGuard(Component);

impl CallerGuard {
    /// Sets the component.
    pub fn of(component: Component) -> Self {
        let before = with_facts(|facts| facts.component.replace(component));
        Self(before.unwrap_or(Component::Client))
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        with_facts(|facts| facts.component.set(self.0));
    }
}

/// The number of the current virtual thread, as its events print it.
pub fn current() -> u32 {
    with_facts(|facts| facts.thread.get()).unwrap_or(0)
}

pub(crate) fn set_current(number: u32) -> u32 {
    with_facts(|facts| facts.thread.replace(number)).unwrap_or(0)
}

/// The number of the current virtual thread, and that of the driver call it is in.
#[inline]
pub(crate) fn current_with_call() -> (u32, Option<u32>) {
    let both = with_facts(|facts| (facts.thread.get(), facts.call().map(|call| call.number)));
    both.unwrap_or((0, None))
}

/// The IRQL of the current virtual thread.
pub(crate) fn irql() -> Irql {
    with_facts(|facts| facts.irql.get()).unwrap_or(Irql::Passive)
}

#[inline]
pub(crate) fn set_irql(irql: Irql) -> Irql {
    with_facts(|facts| facts.irql.replace(irql)).unwrap_or(Irql::Passive)
}

/// The place of a finding about the state in which a driver returns; the verifier replaces it by the
/// name of the DDI.
pub const DDI_RETURN: &str = "return from a DDI";

/// The numbers of calls that a thread takes at a time.
const CALL_BLOCK: u32 = 1024;

/// The first number of the next block.
static CALL_BLOCKS: AtomicU32 = AtomicU32::new(0);

/// A number for a driver call that is not logged, unique in the process. Most calls take it without
/// an atomic operation.
#[inline]
pub(crate) fn next_unlogged_call() -> u32 {
    let take_block = || CALL_BLOCKS.fetch_add(CALL_BLOCK, Ordering::Relaxed);
    let next = |facts: &FactCells| {
        let last = facts.unlogged_calls.get();
        let last = if last.is_multiple_of(CALL_BLOCK) { take_block() } else { last };
        facts.unlogged_calls.set(last.wrapping_add(1));
        last
    };
    with_facts(next).unwrap_or_else(take_block).wrapping_add(1)
}

/// Marks this thread as inside a driver call, until the guard drops.
#[derive(Debug)]
pub struct CallGuard {
    /// The call around this one: there is nearly never one.
    outer: Option<Box<Call>>,
}

impl CallGuard {
    /// Enters call `number`.
    #[inline]
    pub fn enter(number: u32, scope: &CallScope) -> Self {
        let CallScope { process, scheduler, exclusive, .. } = *scope;
        let call = Call { number, process, scheduler, exclusive, ..Call::UNUSED };
        let enter = |facts: &FactCells| {
            let outer = facts.is_in_call().then(|| outer_call(facts));
            facts.set_call(Some(call));
            outer
        };
        Self { outer: with_facts(enter).flatten().flatten() }
    }

    /// Marks the current call as one that submits work to the hardware.
    #[inline]
    pub fn submit() {
        change_call(|call| call.submits = true);
    }

    /// Records that the driver called a function at an IRQL too high for it, if the current call
    /// submits work to the hardware. Returns whether it does.
    pub fn misuse(name: &'static str) -> bool {
        change_call(|call| {
            if call.submits {
                call.misused.get_or_insert(name);
            }
            call.submits
        })
        .unwrap_or(false)
    }

    /// Marks the current call as a run of an interrupt routine or DPC of an adapter.
    #[inline]
    pub fn begin_interrupt(adapter: u32, run: InterruptRun) {
        change_call(|call| call.interrupt = Some((adapter, run)));
    }

    /// Lends the run of the current call, if that is one of this adapter. The run is part of the
    /// thread's context, so no lock is taken for it.
    #[inline]
    pub fn with_interrupt<R>(adapter: u32, body: impl FnOnce(&mut InterruptRun) -> R) -> Option<R> {
        change_call(|call| {
            let (of, run) = call.interrupt.as_mut()?;
            (*of == adapter).then(|| body(run))
        })
        .flatten()
    }

    /// The driver call that this thread is in.
    #[inline]
    pub fn current() -> Option<Call> {
        with_facts(FactCells::call).flatten()
    }

    /// Records that the current call accessed hardware. Called by the registers.
    pub fn touch() {
        change_call(|call| call.touched = true);
    }

    /// Records that the current call acknowledged an interrupt. Called by the registers.
    pub fn acknowledge() {
        change_call(|call| call.acknowledged = true);
    }

    /// Marks the current call for inspection when it returns.
    pub fn mark() {
        change_call(|call| call.marked = true);
    }
}

impl Drop for CallGuard {
    #[inline]
    fn drop(&mut self) {
        with_facts(|facts| facts.set_call(self.outer.take().map(|outer| *outer)));
    }
}

/// The current call, to be restored when the next one returns.
#[cold]
fn outer_call(facts: &FactCells) -> Option<Box<Call>> {
    facts.call().map(Box::new)
}

/// Changes the current call, if there is one.
#[inline]
fn change_call<R>(body: impl FnOnce(&mut Call) -> R) -> Option<R> {
    with_facts(|facts| {
        let mut call = facts.call()?;
        let result = body(&mut call);
        facts.set_call(Some(call));
        Some(result)
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn calls_that_are_not_logged_have_different_numbers_on_all_threads() {
        const CALLS: usize = 3 * CALL_BLOCK as usize;
        let take = || (0..CALLS).map(|_| next_unlogged_call()).collect::<Vec<u32>>();
        let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(take)).collect();
        let mut numbers = take();
        for thread in threads {
            numbers.extend(thread.join().unwrap());
        }
        let different: BTreeSet<u32> = numbers.iter().copied().collect();
        assert_eq!((numbers.len(), different.len()), (4 * CALLS, 4 * CALLS));
    }
}
