//! A session: which process is calling which kernel, and what a call says when it comes and goes.

use crate::claims::Belief;
use abi::NTSTATUS;
use abi::status::STATUS_SUCCESS;
use flight::{Hex, Log, OnBehalf, RuleId, What, Who};
use kernel::{Kernel, ProcessId};
use std::sync::Arc;

/// A process's connection to a kernel.
#[derive(Clone)]
pub struct Session {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) process: ProcessId,
    belief: Belief,
    /// Who breaks what its calls break.
    who: Who,
}

impl Session {
    /// A new process of the kernel, whose pointers are believed: its callers promise what the
    /// entry points ask for.
    pub fn open(kernel: &Arc<Kernel>) -> Self {
        let (kernel, process) = (kernel.clone(), kernel.open_process());
        Self { kernel, process, belief: Belief::Trusts, who: Who::Client }
    }

    /// A new process of the kernel, whose pointers are doubted: they may be any number. What
    /// cannot be read or written is an invalid parameter, at the price of a call of the
    /// operating system for each piece of memory.
    pub fn guarded(kernel: &Arc<Kernel>) -> Self {
        Self { belief: Belief::guarding(), ..Self::open(kernel) }
    }

    /// The same process, for calls that somebody else in it makes: a user-mode driver. What
    /// breaks a rule of this door in them is laid to that one.
    #[must_use]
    pub fn on_behalf_of(&self, who: Who) -> Self {
        Self { who, ..self.clone() }
    }

    /// The same process, for calls whose pointers are doubted as those of
    /// [`Session::guarded`] are.
    #[must_use]
    pub fn doubting(&self) -> Self {
        Self { belief: Belief::guarding(), ..self.clone() }
    }

    /// Runs the body of a call that is not of this door, but whose pointers are believed or
    /// doubted as those of this session are ([`crate::claims`]).
    pub fn believing<R>(&self, body: impl FnOnce() -> R) -> R {
        self.belief.during(body)
    }

    /// Who breaks what its calls break.
    pub fn who(&self) -> Who {
        self.who
    }

    /// The process.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The kernel.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    pub(crate) fn log(&self) -> &Log {
        self.kernel.log()
    }

    /// A call comes and goes: said at both ends.
    pub(crate) fn call(
        &self,
        name: &'static str,
        body: impl FnOnce() -> Result<(), NTSTATUS>,
    ) -> NTSTATUS {
        let _behalf = OnBehalf::of(self.who);
        self.log().emit(self.process.subject(), What::Enter { call: name.into() });
        let status = self.belief.during(body).err().unwrap_or(STATUS_SUCCESS);
        let left = What::Leave { call: name.into(), status: Hex(status.cast_unsigned()) };
        self.log().emit(self.process.subject(), left);
        status
    }

    /// Whether its caller promises what the entry points ask for.
    pub(crate) fn trusts(&self) -> bool {
        self.belief == Belief::Trusts
    }

    /// Judges a rule that binds the caller.
    pub(crate) fn judge(&self, rule: RuleId, place: &'static str, broken: Option<String>) {
        self.log().judge(rule, self.who, self.process.subject(), place, broken);
    }

    /// Says that the caller used something that has no effect here yet.
    pub(crate) fn absent(&self, name: &'static str) {
        self.log().emit(self.process.subject(), What::Absent { name: name.into() });
    }
}
