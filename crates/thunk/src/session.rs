//! A session: which process calls which kernel, and the events at the start and end of a call.

use crate::claims::{DirectAccess, PointerTrust, RemoteAccess, ShownAccess};
use crate::event_handles::EventHandles;
use crate::nt_handles::NtHandles;
use crate::process_handle::ProcessHandles;
use crate::refusal;
use abi::NTSTATUS;
use abi::status::{STATUS_NO_MEMORY, STATUS_SUCCESS};
use flight::{CallerGuard, Component, EventKind, Hex, Log, RuleId};
use kernel::{Kernel, ProcessId};
use std::sync::Arc;

/// A process's connection to a kernel.
#[derive(Clone)]
pub struct Session {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) process: ProcessId,
    trust: PointerTrust,
    /// Finds other processes by handle, if the session's owner can.
    process_handles: Option<Arc<dyn ProcessHandles>>,
    /// The component that is blamed for rules that its calls break.
    component: Component,
    /// The NT handles of the process; `None` if they are numbers of the kernel.
    pub(crate) nt_handles: Option<Arc<dyn NtHandles>>,
    /// The events of the process; `None` if they are numbers of the kernel.
    event_handles: Option<Arc<dyn EventHandles>>,
}

impl Session {
    /// A new process of the kernel. Its pointers are trusted: its callers keep the safety
    /// contracts of the entry points.
    pub fn open(kernel: &Arc<Kernel>) -> Self {
        let (kernel, process) = (kernel.clone(), kernel.open_process());
        let (trust, component) = (PointerTrust::Trusted, Component::Client);
        Self {
            kernel,
            process,
            trust,
            process_handles: None,
            component,
            nt_handles: None,
            event_handles: None,
        }
    }

    /// A new process of the kernel. Its pointers are checked: they may be any number. Memory that
    /// cannot be read or written is an invalid parameter. Each piece of memory costs a system
    /// call.
    pub fn guarded(kernel: &Arc<Kernel>) -> Self {
        Self { trust: PointerTrust::guarded(), ..Self::open(kernel) }
    }

    /// As [`Session::guarded`]; these functions access memory, and the system call is made only where
    /// they cannot.
    pub fn guarded_by(kernel: &Arc<Kernel>, direct: DirectAccess) -> Self {
        Self { trust: PointerTrust::guarded_by(Some(direct)), ..Self::open(kernel) }
    }

    /// A new process of the kernel, which is another process of the machine: these functions access
    /// its memory, and its pointers may be any number.
    pub fn remote(kernel: &Arc<Kernel>, access: &'static RemoteAccess) -> Self {
        Self { trust: PointerTrust::Remote(access), ..Self::open(kernel) }
    }

    /// The address at which the caller finds memory that the kernel shows to it.
    pub(crate) fn show(&self, address: usize, access: ShownAccess) -> Result<usize, NTSTATUS> {
        let shown = self.trust.show(address, access);
        let why = "the memory cannot be mapped in the client's process";
        shown.ok_or_else(|| refusal::refused(STATUS_NO_MEMORY, why))
    }

    /// Whether the caller is another process of the machine, whose functions cannot be called.
    pub(crate) fn is_remote(&self) -> bool {
        self.trust.is_remote()
    }

    /// How the caller's memory is accessed.
    pub(crate) fn pointers(&self) -> PointerTrust {
        self.trust
    }

    /// The same session, whose calls may name other processes by these handles.
    #[must_use]
    pub fn with_process_handles(self, handles: Arc<dyn ProcessHandles>) -> Self {
        Self { process_handles: Some(handles), ..self }
    }

    pub(crate) fn process_handles(&self) -> Option<&Arc<dyn ProcessHandles>> {
        self.process_handles.as_ref()
    }

    /// The same process, whose NT handles get their numbers elsewhere.
    #[must_use]
    pub fn with_nt_handles(self, nt_handles: Arc<dyn NtHandles>) -> Self {
        Self { nt_handles: Some(nt_handles), ..self }
    }

    /// The same process, whose events are elsewhere.
    #[must_use]
    pub fn with_event_handles(self, event_handles: Arc<dyn EventHandles>) -> Self {
        Self { event_handles: Some(event_handles), ..self }
    }

    pub(crate) fn event_handles(&self) -> Option<&Arc<dyn EventHandles>> {
        self.event_handles.as_ref()
    }

    /// The same process, for calls that another component in it makes, such as a user-mode
    /// driver. That component is blamed for rules that these calls break.
    #[must_use]
    pub fn for_component(&self, component: Component) -> Self {
        Self { component, ..self.clone() }
    }

    /// The same process, for calls whose pointers are checked as in [`Session::guarded`].
    #[must_use]
    pub fn guarded_copy(&self) -> Self {
        Self { trust: PointerTrust::guarded(), ..self.clone() }
    }

    /// Runs the body of a call that is not an entry point, but whose pointers are trusted or
    /// checked as those of this session ([`crate::claims`]).
    pub fn with_trust<R>(&self, body: impl FnOnce() -> R) -> R {
        self.trust.during(body)
    }

    /// The component that is blamed for rules that its calls break.
    pub fn component(&self) -> Component {
        self.component
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

    /// Runs the body of an entry point, with an event before and after it. Returns its status.
    pub(crate) fn call(
        &self,
        name: &'static str,
        body: impl FnOnce() -> Result<(), NTSTATUS>,
    ) -> NTSTATUS {
        let _behalf = CallerGuard::of(self.component);
        self.log().emit(self.process.subject(), || EventKind::Enter { call: name.into() });
        let status = self.trust.during(body).err().unwrap_or(STATUS_SUCCESS);
        self.log().emit(self.process.subject(), || EventKind::Leave {
            call: name.into(),
            status: Hex(status.cast_unsigned()),
        });
        status
    }

    /// Whether its callers keep the safety contracts of the entry points.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trust.is_trusted()
    }

    /// Judges a rule that binds the caller.
    pub(crate) fn judge(&self, rule: RuleId, argument: &'static str, broken: Option<String>) {
        if broken.is_some() {
            refusal::reported();
            if self.trust.is_caller_gone() {
                return;
            }
        }
        self.log().judge(rule, self.component, self.process.subject(), argument, broken);
    }

    /// Emits that the caller used something that has no effect here yet.
    pub(crate) fn missing_entry(&self, name: &'static str) {
        refusal::reported();
        self.log().emit(self.process.subject(), || EventKind::EntryMissing { name: name.into() });
    }
}
