//! The process of a flight, as its parent sees it: started, watched, ended.
//!
//! The child's own watchdog ends driver code that runs for too long. The parent looks from outside,
//! for a child that cannot do that: it is stopped, its signals are blocked, or its watchdog is dead.
//! The sign of life is a number in the shared memory, which the child's watchdog counts up.
//!
//! Processes that a driver starts end with the flight: those of the child's process group, and those
//! that left it (`setsid`), which this process adopts when their parents end. A variable of their
//! environment says of which flight they are.
#![expect(unsafe_code, reason = "waits for a process")]

use super::channel::{Channel, Number};
use super::crash::CrashKind;
use super::stop_signals::StopSignal;
use super::{limits, remote_threads};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time between two looks at a child.
const LOOK: Duration = Duration::from_millis(100);

/// How long a child may be silent beyond its deadline.
const GRACE: Duration = Duration::from_secs(1);

/// How long a child may take until its watchdog runs. No driver code runs before.
const START: Duration = Duration::from_mins(1);

/// The variable of the environment that says of which flight a process is.
const FLIGHT: &str = "WINDTUNNEL_FLIGHT";

/// The children of this process that are flights. Their status is not taken by [`end_adopted`].
static FLIGHTS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn flights() -> MutexGuard<'static, BTreeSet<u32>> {
    FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the process of a flight ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself.
    Ended(ExitStatus),
    /// The parent ended it, because it gave no sign of life.
    Silent(ExitStatus),
    /// The parent ended it, because it was stopped by a signal and did not go on.
    Stopped(ExitStatus),
}

impl ProcessEnd {
    /// The status of the process.
    pub fn status(self) -> ExitStatus {
        match self {
            Self::Ended(status) | Self::Silent(status) | Self::Stopped(status) => status,
        }
    }

    /// Whether the process ended by itself, with exit status 0.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Ended(status) if status.success())
    }
}

/// The running process of a flight. Dropping it ends the process.
#[derive(Debug)]
pub struct FlightProcess {
    child: Child,
    /// What [`FLIGHT`] is in the environment of the child and of what it starts.
    number: String,
    is_reaped: bool,
}

impl FlightProcess {
    /// Starts a child in a process group of its own: a signal for the parent's group, such as that
    /// of Ctrl-C, is not one for the flight.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        limits::adopt_orphans();
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let number = format!("{}.{number}", std::process::id());
        let mut flights = flights();
        let child = command.env(FLIGHT, &number).process_group(0).spawn()?;
        flights.insert(child.id());
        Ok(Self { child, number, is_reaped: false })
    }

    /// Waits for the end of the child, which a [`StopSignal`] brings, too, and ends what the child
    /// has left behind. With a deadline, a
    /// child that gives no sign of life for longer is ended; before that, the facts of the thread
    /// that runs driver code go to the record of `channel`.
    pub fn wait(mut self, channel: &Channel, deadline: Option<Duration>) -> io::Result<ProcessEnd> {
        let descriptor = limits::process_descriptor(self.id());
        let (mut beat, mut silent) = (0, Duration::ZERO);
        let mut kind = None;
        while !self.look(descriptor.as_ref())? {
            if StopSignal::received().is_some() {
                self.child.kill()?;
            }
            if kind.is_some() {
                remote_threads::reap_ended(self.id());
            }
            let (before, now) = (beat, channel.number(Number::Heartbeat));
            beat = now;
            // Time in which this process does not run is not the child's.
            silent = if before == now { silent + LOOK } else { Duration::ZERO };
            let Some(deadline) = deadline.filter(|_| kind.is_none()) else { continue };
            if silent <= if now == 0 { START } else { deadline + GRACE } {
                continue;
            }
            match ProcessState::of(self.id()) {
                // A debugger has it.
                ProcessState::Traced => silent = Duration::ZERO,
                ProcessState::Stopped => kind = Some(CrashKind::Stopped),
                ProcessState::Other => kind = Some(CrashKind::Deadline),
            }
            if let Some(kind) = kind {
                remote_threads::record(self.id(), kind, channel);
                self.child.kill()?;
            }
        }
        let status = self.reap()?;
        Ok(match kind {
            None => ProcessEnd::Ended(status),
            Some(CrashKind::Stopped) => ProcessEnd::Stopped(status),
            Some(_) => ProcessEnd::Silent(status),
        })
    }

    fn id(&self) -> libc::pid_t {
        self.child.id().cast_signed()
    }

    /// Waits for some time. Returns whether the child has ended; it is not reaped.
    fn look(&self, descriptor: Option<&OwnedFd>) -> io::Result<bool> {
        let milliseconds = libc::c_int::try_from(LOOK.as_millis()).unwrap_or(0);
        if let Some(descriptor) = descriptor {
            let fd = descriptor.as_raw_fd();
            let mut waits = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: The structure is this function's own.
            unsafe { libc::poll(&raw mut waits, 1, milliseconds) };
        } else {
            std::thread::sleep(LOOK);
        }
        // SAFETY: Zero is a valid value of every field.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: The call fills in the structure.
        let failed = unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut info, how) } != 0;
        if failed {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The call has filled in the field, or left it zero if no child has ended.
        Ok(unsafe { info.si_pid() } != 0)
    }

    /// Ends what is left of the flight, and takes the status of the child.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        limits::kill_group(self.id());
        self.is_reaped = true;
        let status = self.child.wait();
        flights().remove(&self.child.id());
        end_adopted(&self.number);
        status
    }
}

/// Ends the adopted processes of a flight that has ended, and takes the status of those that have
/// ended. What these started is adopted then, so this looks again, for a while.
fn end_adopted(flight: &str) {
    const LOOKS: u32 = 1000;
    let variable = format!("{FLIGHT}={flight}");
    let is_of_flight = |process: &u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    for _ in 0..LOOKS {
        let flights = flights();
        let adopted = limits::children().into_iter().filter(|child| !flights.contains(child));
        let alive = adopted.filter(|child| !limits::has_ended(*child));
        let left: Vec<u32> = alive.filter(is_of_flight).collect();
        for process in &left {
            limits::kill_child(*process);
        }
        drop(flights);
        if left.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for FlightProcess {
    fn drop(&mut self) {
        if !self.is_reaped {
            // The process may have ended; then it is only reaped.
            _ = self.child.kill();
            _ = self.reap();
        }
    }
}

/// What a silent process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessState {
    Traced,
    Stopped,
    Other,
}

impl ProcessState {
    fn of(process: libc::pid_t) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_default().trim().to_owned()
        };
        match (value("TracerPid:").as_str(), value("State:").chars().next()) {
            ("0" | "", Some('T')) => Self::Stopped,
            ("0" | "", _) => Self::Other,
            _ => Self::Traced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::time::Instant;

    const DEADLINE: Option<Duration> = Some(Duration::from_millis(200));

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_that_ends_is_reaped_with_its_status() {
        let channel = Channel::create().unwrap();
        let process = FlightProcess::start(&mut shell("exit 7")).unwrap();
        let end = process.wait(&channel, DEADLINE).unwrap();
        assert!(matches!(end, ProcessEnd::Ended(_)), "{end:?}");
        assert_eq!(end.status().code(), Some(7));
    }

    #[test]
    fn a_silent_process_and_a_stopped_one_are_ended() {
        for (script, stops) in [("sleep 100", false), ("kill -STOP $$", true)] {
            let channel = Channel::create().unwrap();
            channel.set_number(Number::Heartbeat, 1);
            let began = Instant::now();
            let process = FlightProcess::start(&mut shell(script)).unwrap();
            let end = process.wait(&channel, DEADLINE).unwrap();
            assert_eq!(matches!(end, ProcessEnd::Stopped(_)), stops, "{script}: {end:?}");
            assert_eq!(matches!(end, ProcessEnd::Silent(_)), !stops, "{script}: {end:?}");
            assert_eq!(end.status().signal(), Some(libc::SIGKILL), "{script}");
            assert!(began.elapsed() < Duration::from_mins(1), "{script}");
        }
    }

    /// The variable that makes the next test the silent process of its own.
    const IS_SILENT: &str = "WINDTUNNEL_TEST_FLIES";

    /// None of its threads runs driver code, so the registers of all are read.
    #[test]
    fn a_silent_process_with_several_threads_is_ended() {
        if std::env::var_os(IS_SILENT).is_some() {
            std::thread::spawn(|| std::thread::sleep(Duration::from_mins(10)));
            return std::thread::sleep(Duration::from_mins(10));
        }
        let channel = Channel::create().unwrap();
        channel.set_number(Number::Heartbeat, 1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = "image::flight_process::tests::a_silent_process_with_several_threads_is_ended";
        command.args(["--exact", test]).env(IS_SILENT, "1").stdout(std::process::Stdio::null());
        let process = FlightProcess::start(&mut command).unwrap();
        // Its threads begin to run.
        let end = process.wait(&channel, Some(Duration::from_secs(1))).unwrap();
        assert!(matches!(end, ProcessEnd::Silent(_)), "{end:?}");
        assert_eq!(end.status().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_sign_of_life_keeps_a_process_alive() {
        let channel = Channel::create().unwrap();
        channel.set_number(Number::Heartbeat, 1);
        let process = FlightProcess::start(&mut shell("sleep 2")).unwrap();
        std::thread::scope(|scope| {
            let beats = scope.spawn(|| {
                for beat in 2..42 {
                    channel.set_number(Number::Heartbeat, beat);
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let end = process.wait(&channel, DEADLINE).unwrap();
            assert!(matches!(end, ProcessEnd::Ended(_)), "{end:?}");
            beats.join().unwrap();
        });
    }

    /// Whether a process runs some seconds after its flight ended.
    fn is_left(script: &str) -> bool {
        let channel = Channel::create().unwrap();
        let mut command = shell(script);
        let process = FlightProcess::start(command.stdout(std::process::Stdio::piped()));
        let mut process = process.unwrap();
        let mut output = process.child.stdout.take().unwrap();
        process.wait(&channel, None).unwrap();
        let mut number = String::new();
        // It ends when no process has the other end of the pipe.
        io::Read::read_to_string(&mut output, &mut number).unwrap();
        // A process closes its files a moment before it has ended.
        let is_alive = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", number.trim()));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        (0..1000).all(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_alive()
        })
    }

    #[test]
    fn what_a_process_leaves_behind_is_ended_with_it() {
        for script in [
            "sleep 1000 & echo $!",
            "setsid sleep 1000 & echo $!",
            // A process of a session of its own whose parent has ended, and its child.
            "setsid sh -c 'echo $$ > /dev/stdout; sleep 1000 > /dev/null; true' & sleep 0.1",
            "setsid sh -c 'sleep 1000 & echo $!; sleep 1000; true' & sleep 0.1",
        ] {
            assert!(!is_left(script), "{script}");
        }
    }

    #[test]
    fn other_children_of_the_process_are_not_ended() {
        let channel = Channel::create().unwrap();
        let running = FlightProcess::start(&mut shell("sleep 1000")).unwrap();
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = FlightProcess::start(&mut shell("setsid sleep 1000 &")).unwrap();
        process.wait(&channel, None).unwrap();
        assert!(!limits::has_ended(running.child.id()), "another flight");
        assert!(other.try_wait().unwrap().is_none(), "a child that is no flight");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
