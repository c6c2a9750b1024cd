//! The signals that ask the command to stop (Ctrl-C, `kill`): the command finishes its report, and
//! the process of a flight never outlives it.
#![expect(unsafe_code, reason = "handles signals")]

use libc::c_int;
use std::io;
use std::process::{Command, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signals.
const SIGNALS: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// The first signal that came; zero before.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

/// The descriptor of the process of a flight; -1 if there is none.
static FLIGHT: AtomicI32 = AtomicI32::new(-1);

/// A signal asked this process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGINT`, as by Ctrl-C.
    Interrupt,
    /// `SIGTERM`, as by `kill`.
    Terminate,
}

impl StopSignal {
    /// The first signal that asked this process to stop, after [`StopSignal::catch`].
    pub fn received() -> Option<Self> {
        match STOPPED_BY.load(Ordering::SeqCst) {
            0 => None,
            libc::SIGINT => Some(Self::Interrupt),
            _ => Some(Self::Terminate),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The exit status of a process that was stopped: 128 and the number of the signal.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    /// Notes the signals from now on; the process of a flight is ended at once. The second signal
    /// of a kind has its ordinary effect. A signal that is ignored stays so (`nohup`).
    pub fn catch() {
        for signal in SIGNALS {
            // SAFETY: Zero is a valid value of every field.
            let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: `before` has room for the action.
            unsafe { libc::sigaction(signal, ptr::null(), &raw mut before) };
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            set_action(signal, on_stop as *const () as usize);
        }
    }

    /// As the process of a flight: its parent decides when it ends, and it ends with its parent.
    pub fn leave_to_parent() {
        for signal in SIGNALS {
            set_action(signal, libc::SIG_IGN);
        }
        // SAFETY: The call has no memory argument.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
}

fn set_action(signal: c_int, handler: usize) {
    // SAFETY: Zero is a valid value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: The action is complete, and its handler has the type without SA_SIGINFO.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

extern "C" fn on_stop(signal: c_int) {
    _ = STOPPED_BY.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    end_flight();
}

/// Ends the process of a flight, if there is one. A signal handler may call this.
fn end_flight() {
    let flight = FLIGHT.load(Ordering::SeqCst);
    if flight >= 0 {
        let (send, kill, info) = (libc::SYS_pidfd_send_signal, libc::SIGKILL, ptr::null::<()>());
        // SAFETY: Sends a signal. A descriptor that is no process is an error without an effect.
        unsafe { libc::syscall(send, flight, kill, info, 0) };
    }
}

/// Runs the process of a flight, and waits for its end, which a signal to this process brings, too.
pub fn run_flight(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    // SAFETY: Opens a descriptor of a process that was not waited for.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let descriptor = c_int::try_from(opened).unwrap_or(-1);
    FLIGHT.store(descriptor, Ordering::SeqCst);
    if StopSignal::received().is_some() {
        end_flight(); // The signal came in between.
    }
    let status = child.wait();
    FLIGHT.store(-1, Ordering::SeqCst);
    if descriptor >= 0 {
        // SAFETY: The descriptor was opened above, and nothing else has it.
        unsafe { libc::close(descriptor) };
    }
    status
}
