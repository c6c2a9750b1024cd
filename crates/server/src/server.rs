//! The server: a kernel that several processes call.
#![expect(unsafe_code, reason = "calls the operating system")]

use crate::descriptor_socket::DescriptorSocket;
use crate::entrance::{Entrance, NewClient};
use crate::hosted_kernel::HostedKernel;
use crate::nt_descriptors::NtDescriptors;
use crate::report::{Report, WrittenReport};
use crate::server_client::{self, SharedServer};
use crate::{forced_end, internal, signals};
use flight::{LiveObject, Log, ThreadedHost};
use kernel::{DriverSetup, ProcessExit};
use std::fs::{self, Permissions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thunk::Session;

/// The server of this process, for the observer of windows.
static SERVER: Mutex<Weak<SharedServer>> = Mutex::new(Weak::new());

/// The signals that end a server.
const STOP_SIGNALS: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGINT];

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// No errors, and nothing left alive.
    Clean,
    /// Errors, or objects left alive by a client that exited.
    Bad,
}

/// Where the server's socket is, if nothing else is said: `$XDG_RUNTIME_DIR/windtunnel.sock`.
pub fn default_socket() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?;
    Some(Path::new(&folder).join("windtunnel.sock"))
}

/// Serves clients until SIGTERM or SIGINT. `ready` is called when they can connect. A fault of the
/// driver ends the process, as an internal error does (`forced_end.rs`). A driver that `maps_pages` accesses memory at
/// addresses of this process, as one from a file does.
///
/// # Errors
///
/// Why it cannot, in one line.
pub fn serve(
    path: &Path,
    report: Option<Report>,
    maps_pages: bool,
    set_up: impl FnOnce(&Arc<ThreadedHost>, &Arc<Log>) -> Result<DriverSetup, String>,
    ready: impl FnOnce(),
) -> Result<ServerEnd, String> {
    let listener = listen(path)?;
    let removed = RemovedAtEnd(path);
    let report = report.map(Arc::new);
    signals::with_sent_signals_blocked(|| {
        let stop = stop_signals().map_err(|error| format!("cannot wait for signals: {error}"))?;
        let start = || {
            HostedKernel::start(report.clone(), |host, log| {
                forced_end::watch(report, log.clone(), path);
                set_up(host, log).map(Some)
            })
        };
        let hosted = internal::caught(start).unwrap_or_else(|panic| resume_unwind(panic))?;
        hosted.host.expect_clients();
        let nt = Arc::new(NtDescriptors::default());
        let live = hosted.kernel.live_objects().objects;
        let own_objects = live.into_iter().map(|object| object.subject).collect();
        let collector = Session::open(&hosted.kernel).with_nt_handles(nt.clone());
        let server = Arc::new(SharedServer {
            hosted,
            nt,
            collector,
            own_objects,
            maps_pages,
            clients: Mutex::default(),
            left: Mutex::default(),
        });
        *SERVER.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&server);
        nt::observe_windows(hide_window);
        ready();
        let clients = accept_until(&server, &listener, &stop);
        drop(removed);
        for (thread, socket) in clients {
            if let Some(socket) = socket.upgrade() {
                server_client::disconnect(&*socket);
            }
            _ = thread.join();
        }
        let end = finish(&server);
        ignore_stop_signals();
        Ok(end)
    })
}

/// Ignores another signal to stop, which would change the exit status now that the report is written.
fn ignore_stop_signals() {
    for signal in STOP_SIGNALS {
        // SAFETY: The action is one of the system's.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Removes the socket when it is dropped.
struct RemovedAtEnd<'a>(&'a Path);

impl Drop for RemovedAtEnd<'_> {
    fn drop(&mut self) {
        // Someone else may have removed it.
        _ = fs::remove_file(self.0);
    }
}

/// The server of this process.
pub(crate) fn running() -> Option<Arc<SharedServer>> {
    SERVER.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
}

/// A window of the system memory shows its bytes no more.
fn hide_window(start: usize) {
    let Some(server) = running() else { return };
    let clients = server.clients();
    clients.iter().for_each(|client| client.hide(start));
}

/// Listens at a path. A socket that no one serves any more is replaced.
fn listen(path: &Path) -> Result<OwnedFd, String> {
    let fail = |what: &str, error: io::Error| format!("{}: {what}: {error}", path.display());
    let socket = || new_socket().map_err(|error| fail("no socket", error));
    let (address, size) = address_of(path)?;
    let address: *const libc::sockaddr = (&raw const address).cast();
    let probe = socket()?;
    // SAFETY: The address has that size.
    let connected = unsafe { libc::connect(probe.as_raw_fd(), address, size) } == 0;
    if connected {
        return Err(format!("{} is in use by another server", path.display()));
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = io::Error::last_os_error().raw_os_error() == Some(libc::ECONNREFUSED);
    if is_socket && refused {
        fs::remove_file(path).map_err(|error| fail("cannot be replaced", error))?;
    }
    let listener = socket()?;
    // SAFETY: As above.
    if unsafe { libc::bind(listener.as_raw_fd(), address, size) } != 0 {
        return Err(fail("cannot be created", io::Error::last_os_error()));
    }
    // Before anyone can connect.
    let mode = Permissions::from_mode(0o600);
    fs::set_permissions(path, mode).map_err(|error| fail("cannot be protected", error))?;
    // SAFETY: The descriptor is open.
    if unsafe { libc::listen(listener.as_raw_fd(), 64) } != 0 {
        return Err(fail("cannot be listened at", io::Error::last_os_error()));
    }
    Ok(listener)
}

fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: The function has no requirements.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor was just created, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// A path as an address.
fn address_of(path: &Path) -> Result<(libc::sockaddr_un, libc::socklen_t), String> {
    // SAFETY: Zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    let bytes = path.as_os_str().as_bytes();
    let family = libc::sa_family_t::try_from(libc::AF_UNIX);
    address.sun_family = family.map_err(|_| "no sockets".to_owned())?;
    if bytes.len() >= address.sun_path.len() || bytes.is_empty() {
        let longest = address.sun_path.len() - 1;
        return Err(format!(
            "{}: the path of a socket has 1 to {longest} bytes, this one has {}",
            path.display(),
            bytes.len()
        ));
    }
    for (to, byte) in address.sun_path.iter_mut().zip(bytes) {
        *to = byte.cast_signed();
    }
    let size = libc::socklen_t::try_from(size_of::<libc::sockaddr_un>());
    Ok((address, size.map_err(|_| "no sockets".to_owned())?))
}

/// Connects to a server.
///
/// # Errors
///
/// Why it cannot, in one line.
pub fn connect(path: &Path) -> Result<DescriptorSocket, String> {
    let socket = new_socket().map_err(|error| error.to_string())?;
    let (address, size) = address_of(path)?;
    // SAFETY: The address has that size.
    let failed =
        unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) } != 0;
    if failed {
        return Err(format!("{}: {}", path.display(), io::Error::last_os_error()));
    }
    Ok(socket.into())
}

/// A descriptor that can be read when the server is to stop. These signals are blocked.
fn stop_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `set` has room for a signal set, which the call fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in STOP_SIGNALS {
        // SAFETY: The set was filled above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: As above.
    let descriptor = unsafe { libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor was just created, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Takes the signal, which would have its usual effect otherwise.
fn take_signal(stop: &OwnedFd) {
    let mut signal = MaybeUninit::<libc::signalfd_siginfo>::uninit();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: The structure has that size.
    unsafe { libc::read(stop.as_raw_fd(), signal.as_mut_ptr().cast(), size) };
}

/// A client's thread, and its socket, which the thread closes when it ends.
type ServedClient = (JoinHandle<()>, Weak<DescriptorSocket>);

/// Lets clients in until a signal asks for the end.
fn accept_until(
    server: &Arc<SharedServer>,
    listener: &OwnedFd,
    stop: &OwnedFd,
) -> Vec<ServedClient> {
    let mut clients: Vec<ServedClient> = Vec::new();
    let mut entrance = Entrance::new(listener);
    loop {
        let wait = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let closed = server.nt.closed_signal().unwrap_or(-1);
        // A negative number is not waited for.
        // The first NT handle creates what tells of closed ones, so that is looked for again.
        let patience = entrance.patience().unwrap_or(if closed < 0 { 1000 } else { -1 });
        let mut waits = [wait(entrance.number()), wait(stop.as_raw_fd()), wait(closed)];
        // SAFETY: The array is this function's own.
        unsafe { libc::poll(waits.as_mut_ptr(), 3, patience) };
        if waits[1].revents != 0 {
            take_signal(stop);
            return clients;
        }
        if waits[2].revents != 0 {
            // A broken invariant ends the server.
            _ = internal::caught(|| {
                let host = &server.hosted.host;
                host.adopt("close", |at| server.collector.collect_closed_nt_handles(at));
            });
        }
        clients.retain(|client| !client.0.is_finished());
        if let Some(client) = entrance.accept(waits[0].revents != 0) {
            clients.extend(serve_client(server, client));
        }
    }
}

/// Serves an accepted client on a thread of its own.
fn serve_client(server: &Arc<SharedServer>, client: NewClient) -> Option<ServedClient> {
    let NewClient { socket, process } = client;
    let socket = Arc::new(DescriptorSocket::from(socket));
    let (server, of_thread) = (server.clone(), socket.clone());
    let serve = move || {
        // A broken invariant ends the server.
        _ = internal::caught(|| server_client::serve(&server, &of_thread, process));
    };
    match thread::Builder::new().name("windtunnel-client".to_owned()).spawn(serve) {
        Ok(thread) => Some((thread, Arc::downgrade(&socket))),
        Err(error) => {
            server_client::refuse(&socket, &error.to_string());
            None
        }
    }
}

/// Ends what is left, removes the driver, and writes the report.
fn finish(server: &SharedServer) -> ServerEnd {
    let HostedKernel { host, kernel, adapter, report } = &server.hosted;
    let end = || {
        host.adopt("exit", |at| {
            for handle in server.nt.take_all() {
                kernel.close_nt_handle(at, handle);
            }
            kernel.end_process(at, server.collector.process(), ProcessExit::Killed);
        });
    };
    // A broken invariant ends the server here, too.
    _ = internal::caught(end);
    // Not under the lock: a fault of the driver reads what is left.
    for object in objects_of_clients(server) {
        let mut left = server.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.add_object(&format!("{}, of a process that has ended", object.subject));
    }
    host.expect_no_clients();
    // What the driver has not released when it is unloaded is in the report, as that of a flight.
    _ = internal::caught(|| {
        host.adopt("exit", |at| adapter.iter().for_each(|it| kernel.remove_adapter(at, *it)));
    });
    let left = server.left.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(report) = report else {
        return if left.is_empty() { ServerEnd::Clean } else { ServerEnd::Bad };
    };
    report.observe(kernel.log());
    match report.write(&left) {
        WrittenReport::Clean if left.is_empty() => ServerEnd::Clean,
        _ => ServerEnd::Bad,
    }
}

/// The objects that are left of clients that have ended. The last work of the kernel's threads may
/// take a moment.
fn objects_of_clients(server: &SharedServer) -> Vec<LiveObject> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let started = Instant::now();
    loop {
        let mut live = server.hosted.kernel.live_objects().objects;
        live.retain(|object| !server.own_objects.contains(&object.subject));
        if live.is_empty() || started.elapsed() > PATIENCE {
            return live;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
