//! A kernel for clients: its start with a driver, its report, and the server that several processes
//! call.
//!
//! `d3dkmt` starts such a kernel in a client's process, or is the client of a server.

pub mod call_site;
pub mod channel;
mod conversation;
pub mod crash_place;
pub mod crash_report;
pub mod descriptor_socket;
pub mod driver;
pub mod driver_file;
mod driver_kind;
mod entrance;
pub mod event_descriptors;
mod event_signal;
pub mod fault_here;
mod forced_end;
pub mod hosted_kernel;
pub mod internal;
pub mod message;
mod missed_block;
pub mod nt_descriptors;
pub mod process_descriptor;
mod refused_calls;
mod remote_handles;
pub mod report;
pub mod server;
mod server_client;
pub mod signals;
pub mod standard_error;

pub use call_site::CallSite;
pub use driver_file::OpenedFile;
pub use event_descriptors::EventDescriptors;
pub use forced_end::DriverFault;
pub use hosted_kernel::HostedKernel;
pub use nt_descriptors::NtDescriptors;
pub use report::{FaultText, Leaks, Report, WrittenReport};
pub use server::{ServerEnd, connect, default_socket, serve};
