//! What calls cost through a server (`windtunnel serve`), beside the same calls of the C library in
//! one process.
//!
//! Each measurement is a process of its own, because a process calls either a server or a kernel of
//! its own: the program starts itself again with a role ([`run_client_role`]).
#![expect(unsafe_code, reason = "calls functions as C does")]

use crate::c_library::{CLibraryClient, done};
use crate::image_start::program;
use crate::ring::Ring;
use crate::{BenchSize, MeasureError};
use abi::kmt::{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2, D3DKMT_DESTROYSYNCHRONIZATIONOBJECT,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2, D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU, D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
};
use abi::{D3DKMT_HANDLE, HANDLE, OBJECT_ATTRIBUTES, UNICODE_STRING};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::ptr;
use std::time::Instant;

/// The environment variable that has the role of a process.
const ROLE: &str = "WINDTUNNEL_BENCH_ROLE";

/// The live allocations beside a pair.
const LIVE: usize = 1000;

pub(crate) const PAIR: &str = "a pair through a server";
const SHARE: &str = "an NT handle shared, opened and closed through a server";
const FENCE: &str = "a fence signalled in one process and waited for in another, and back";

/// A row of calls through a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerRow {
    /// The name.
    pub what: &'static str,
    /// Nanoseconds through a server.
    pub server: f64,
    /// Nanoseconds of the C library in one process, if that can do it.
    pub library: Option<f64>,
}

impl ServerRow {
    /// How much more than the C library.
    pub fn times(&self) -> Option<f64> {
        self.library.map(|library| self.server / library)
    }
}

/// Measures the selected rows.
pub(crate) fn measure(
    extent: &BenchSize,
    push_row: &mut dyn FnMut(&ServerRow),
) -> Result<Vec<ServerRow>, MeasureError> {
    let mut rows = Vec::new();
    for what in [PAIR, SHARE, FENCE].into_iter().filter(|what| extent.asks(what)) {
        let server = ServerProcess::start()?;
        let role = |role: &str, socket: Option<&Path>| {
            Client::start(&format!("{role} {} {}", extent.pairs, extent.turns), socket)
        };
        let row = if what == FENCE {
            // The first one has created and named the fence.
            let first = role("first", Some(&server.socket))?.wait_for_line()?.0;
            let second = role("second", Some(&server.socket))?;
            let nanoseconds = first.number()?;
            second.number()?;
            ServerRow { what, server: nanoseconds, library: None }
        } else {
            let name = if what == PAIR { "pair" } else { "share" };
            let through = role(name, Some(&server.socket))?.number()?;
            let library = role(name, None)?.number()?;
            ServerRow { what, server: through, library: Some(library) }
        };
        server.stop()?;
        push_row(&row);
        rows.push(row);
    }
    Ok(rows)
}

fn needs(what: &str, why: &dyn std::fmt::Display) -> MeasureError {
    MeasureError(format!("{what}: {why}"))
}

/// A server without checks.
struct ServerProcess {
    process: Child,
    socket: PathBuf,
}

impl ServerProcess {
    fn start() -> Result<Self, MeasureError> {
        let socket = std::env::temp_dir().join(format!("windtunnel-bench-{}", std::process::id()));
        let mut command = Command::new(program()?);
        command.args(["serve", "--unchecked", "--socket"]).arg(&socket).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|why| needs("a server", &why))?;
        let mut line = String::new();
        let errors = process.stderr.take().ok_or(MeasureError("a server".to_owned()))?;
        BufReader::new(errors).read_line(&mut line).map_err(|why| needs("a server", &why))?;
        if line.starts_with("serving at ") {
            Ok(Self { process, socket })
        } else {
            Err(needs("a server", &line))
        }
    }

    fn stop(mut self) -> Result<(), MeasureError> {
        let process = libc::pid_t::try_from(self.process.id()).unwrap_or(0);
        // SAFETY: The process is a child that is not waited for yet.
        unsafe { libc::kill(process, libc::SIGTERM) };
        let ended = self.process.wait().map_err(|why| needs("a server that ends", &why))?;
        if ended.success() { Ok(()) } else { Err(needs("a server that ends well", &ended)) }
    }
}

/// This program with a role.
struct Client {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(role: &str, socket: Option<&Path>) -> Result<Self, MeasureError> {
        let this = std::env::current_exe().map_err(|why| needs("this program", &why))?;
        let mut command = Command::new(this);
        command.env(ROLE, role).env_remove("WINDTUNNEL_SOCKET").env_remove("WINDTUNNEL_REPORT");
        command.stdout(Stdio::piped());
        if let Some(socket) = socket {
            command.env("WINDTUNNEL_SOCKET", socket);
        }
        let mut process = command.spawn().map_err(|why| needs("a client", &why))?;
        let output = process.stdout.take().ok_or(MeasureError("a client".to_owned()))?;
        Ok(Self { process, output: BufReader::new(output) })
    }

    /// Waits for a line of its output.
    fn wait_for_line(mut self) -> Result<(Self, String), MeasureError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|why| needs("a client", &why))?;
        Ok((self, line))
    }

    /// The number that it prints at its end.
    fn number(self) -> Result<f64, MeasureError> {
        let (mut client, line) = self.wait_for_line()?;
        let ended = client.process.wait().map_err(|why| needs("a client that ends", &why))?;
        if !ended.success() {
            return Err(needs("a client that ends well", &ended));
        }
        line.trim().parse().map_err(|why| needs("a number of a client", &why))
    }
}

/// Runs the role of this process, if it has one, and prints the nanoseconds of a call.
///
/// # Errors
///
/// What it needs.
pub fn run_client_role() -> Result<bool, MeasureError> {
    let Ok(role) = std::env::var(ROLE) else { return Ok(false) };
    let words: Vec<&str> = role.split(' ').collect();
    let [role, pairs, turns] = words[..] else { return Err(MeasureError("a role".to_owned())) };
    let number = |text: &str| text.parse::<usize>().map_err(|why| needs("a number", &why));
    let (count, turns) = (number(pairs)?, number(turns)?);
    let mut client = CLibraryClient::open()?;
    let nanoseconds = match role {
        "pair" => {
            let mut ring = Ring::with_room(LIVE);
            ring.fill(&mut client, &mut ())?;
            median(turns, count, |count| ring.pairs(&mut client, &mut (), false, count))?
        }
        "share" => {
            let fence = Fence::create(&client)?;
            let share = |count| (0..count).try_for_each(|_| fence.share_and_open(&client, None));
            median(turns, count, share)?
        }
        "first" => {
            let fence = Fence::create(&client)?;
            let handle = fence.share(Some(&FenceName::new()))?;
            println!("named");
            // The first wait is for the start of the other process.
            fence.wait(&client, 1)?;
            let mut value = 1;
            let turn = |count| {
                (0..count).try_for_each(|_| {
                    value += 2;
                    fence.signal(&client, value - 1)?;
                    fence.wait(&client, value)
                })
            };
            let nanoseconds = median(turns, count, turn)?;
            fence.signal(&client, u64::MAX)?;
            drop(handle);
            nanoseconds
        }
        _ => {
            let fence = Fence::open_by_name(&client)?;
            fence.signal(&client, 1)?;
            let mut value = 1;
            for _ in 0..turns * count {
                value += 2;
                fence.wait(&client, value - 1)?;
                fence.signal(&client, value)?;
            }
            fence.wait(&client, u64::MAX)?;
            0.0
        }
    };
    client.close()?;
    println!("{nanoseconds}");
    std::io::stdout().flush().map_err(|why| needs("standard output", &why))?;
    Ok(true)
}

/// The median of the turns, in nanoseconds of one of `count`.
fn median(
    turns: usize,
    count: usize,
    mut body: impl FnMut(usize) -> Result<(), MeasureError>,
) -> Result<f64, MeasureError> {
    let mut all = Vec::new();
    for _ in 0..turns {
        let started = Instant::now();
        body(count)?;
        let count = u32::try_from(count).map_err(|why| needs("fewer calls", &why))?;
        all.push(started.elapsed().as_secs_f64() * 1e9 / f64::from(count));
    }
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().ok_or(MeasureError("a turn".to_owned()))
}

/// A name in the characters of Windows.
struct FenceName {
    units: Vec<u16>,
}

impl FenceName {
    fn new() -> Self {
        Self { units: "windtunnel bench".encode_utf16().collect() }
    }

    /// Runs `body` with the name as attributes.
    fn with<R>(&self, body: impl FnOnce(*mut OBJECT_ATTRIBUTES) -> R) -> R {
        let bytes = u16::try_from(2 * self.units.len()).unwrap_or(0);
        let mut text = UNICODE_STRING {
            Length: bytes,
            MaximumLength: bytes,
            Buffer: self.units.as_ptr().cast_mut(),
        };
        let mut attributes = OBJECT_ATTRIBUTES {
            Length: u32::try_from(size_of::<OBJECT_ATTRIBUTES>()).unwrap_or(0),
            ObjectName: &raw mut text,
            ..OBJECT_ATTRIBUTES::ZERO
        };
        body(&raw mut attributes)
    }
}

/// A monitored fence that can be shared.
struct Fence(D3DKMT_HANDLE);

impl Fence {
    fn create(client: &CLibraryClient) -> Result<Self, MeasureError> {
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::ZERO;
        args.hDevice = client.device();
        args.Info.Type = abi::ukm::D3DDDI_MONITORED_FENCE;
        // Shared and NtSecuritySharing.
        args.Info.Flags.Value = 3;
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTCreateSynchronizationObject2(&raw mut args) };
        done("D3DKMTCreateSynchronizationObject2", status)?;
        Ok(Self(args.hSyncObject))
    }

    /// Shares it by an NT handle, which is closed with the result.
    fn share(&self, name: Option<&FenceName>) -> Result<OwnedFd, MeasureError> {
        let mut handle: HANDLE = ptr::null_mut();
        let (object, access) = (&raw const self.0, 0x1000_0000);
        let mut share = |attributes| {
            // SAFETY: The handle, the object and the name outlive the call.
            unsafe { d3dkmt::D3DKMTShareObjects(1, object, attributes, access, &raw mut handle) }
        };
        let status = match name {
            Some(name) => name.with(share),
            None => share(ptr::null_mut()),
        };
        done("D3DKMTShareObjects", status)?;
        let number = i32::try_from(handle.addr()).map_err(|why| needs("a descriptor", &why))?;
        // SAFETY: The descriptor was just returned, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    fn share_and_open(
        &self,
        client: &CLibraryClient,
        name: Option<&FenceName>,
    ) -> Result<(), MeasureError> {
        let handle = self.share(name)?;
        let opened = Self::open(client, &handle)?;
        drop(handle);
        let args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: opened.0 };
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTDestroySynchronizationObject(&raw const args) };
        done("D3DKMTDestroySynchronizationObject", status)
    }

    fn open(client: &CLibraryClient, handle: &OwnedFd) -> Result<Self, MeasureError> {
        use std::os::fd::AsRawFd as _;
        let mut args = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2::ZERO;
        args.hDevice = client.device();
        let number = usize::try_from(handle.as_raw_fd()).unwrap_or(0);
        args.hNtHandle = ptr::without_provenance_mut(number);
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTOpenSyncObjectFromNtHandle2(&raw mut args) };
        done("D3DKMTOpenSyncObjectFromNtHandle2", status)?;
        Ok(Self(args.hSyncObject))
    }

    fn open_by_name(client: &CLibraryClient) -> Result<Self, MeasureError> {
        let mut args = D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME::ZERO;
        args.dwDesiredAccess = 0x1000_0000;
        let status = FenceName::new().with(|attributes| {
            args.pObjAttrib = attributes;
            // SAFETY: The arguments and the name outlive the call.
            unsafe { d3dkmt::D3DKMTOpenSyncObjectNtHandleFromName(&raw mut args) }
        });
        done("D3DKMTOpenSyncObjectNtHandleFromName", status)?;
        let number = i32::try_from(args.hNtHandle.addr());
        let number = number.map_err(|why| needs("a descriptor", &why))?;
        // SAFETY: The descriptor was just returned, and nothing else owns it.
        Self::open(client, &unsafe { OwnedFd::from_raw_fd(number) })
    }

    fn signal(&self, client: &CLibraryClient, value: u64) -> Result<(), MeasureError> {
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: client.device(),
            ObjectCount: 1,
            ObjectHandleArray: &raw const self.0,
            FenceValueArray: &raw const value,
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::ZERO
        };
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTSignalSynchronizationObjectFromCpu(&raw const args) };
        done("D3DKMTSignalSynchronizationObjectFromCpu", status)
    }

    fn wait(&self, client: &CLibraryClient, value: u64) -> Result<(), MeasureError> {
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: client.device(),
            ObjectCount: 1,
            ObjectHandleArray: &raw const self.0,
            FenceValueArray: &raw const value,
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::ZERO
        };
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTWaitForSynchronizationObjectFromCpu(&raw const args) };
        done("D3DKMTWaitForSynchronizationObjectFromCpu", status)
    }
}
