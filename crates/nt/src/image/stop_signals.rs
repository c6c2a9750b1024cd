//! The signals that ask the command to stop (Ctrl-C, `kill`): the command finishes its report, and
//! the process of a flight never outlives it.
#![expect(unsafe_code, reason = "handles signals")]

use libc::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signals.
const SIGNALS: [c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// The first signal that came; zero before.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

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

    /// Notes the signals from now on; the process of a flight is ended when one comes. The second
    /// signal of a kind has its ordinary effect. A signal that is ignored stays so (`nohup`).
    pub fn catch() {
        for signal in SIGNALS {
            // SAFETY: Zero is a valid value of every field.
            let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: `before` has room for the action.
            unsafe { libc::sigaction(signal, ptr::null(), &raw mut before) };
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = before;
            action.sa_sigaction = on_stop as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            // SAFETY: The action is complete, and its handler has the type without SA_SIGINFO.
            unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
        }
    }
}

extern "C" fn on_stop(signal: c_int) {
    _ = STOPPED_BY.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}
