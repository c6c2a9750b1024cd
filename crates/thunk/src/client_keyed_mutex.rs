//! A client in safe Rust: keyed mutexes.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::Client;
use crate::table;
use abi::kmt::{
    D3DKMT_ACQUIREKEYEDMUTEX, D3DKMT_ACQUIREKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX,
    D3DKMT_CREATEKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX2_FLAGS, D3DKMT_DESTROYKEYEDMUTEX,
    D3DKMT_OPENKEYEDMUTEX, D3DKMT_OPENKEYEDMUTEX2, D3DKMT_RELEASEKEYEDMUTEX,
    D3DKMT_RELEASEKEYEDMUTEX2,
};
use abi::status::STATUS_SUCCESS;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;
use std::ptr;

/// A new keyed mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedMutex {
    /// The creator's handle.
    pub handle: D3DKMT_HANDLE,
    /// Its global handle, zero if it has none.
    pub global: D3DKMT_HANDLE,
}

impl Client {
    /// `D3DKMTCreateKeyedMutex`, initially released to a key.
    pub fn create_keyed_mutex(&self, at: &mut Passive, key: u64) -> Result<KeyedMutex, NTSTATUS> {
        let mut args =
            D3DKMT_CREATEKEYEDMUTEX { InitialValue: key, ..D3DKMT_CREATEKEYEDMUTEX::ZERO };
        // SAFETY: `args` outlives the call.
        check_acquired(unsafe { table::D3DKMTCreateKeyedMutex(&self.session, at, &raw mut args) })?;
        Ok(KeyedMutex { handle: args.hKeyedMutex, global: args.hSharedHandle })
    }

    /// `D3DKMTCreateKeyedMutex2`, with the runtime's data and flags.
    pub fn create_keyed_mutex2(
        &self,
        at: &mut Passive,
        key: u64,
        runtime: &[u8],
        flags: u32,
    ) -> Result<KeyedMutex, NTSTATUS> {
        let mut args = D3DKMT_CREATEKEYEDMUTEX2 {
            InitialValue: key,
            pPrivateRuntimeData: runtime.as_ptr().cast(),
            PrivateRuntimeDataSize: size(runtime),
            Flags: D3DKMT_CREATEKEYEDMUTEX2_FLAGS { Value: flags },
            ..D3DKMT_CREATEKEYEDMUTEX2::ZERO
        };
        // SAFETY: `args` and the data outlive the call.
        check_acquired(unsafe {
            table::D3DKMTCreateKeyedMutex2(&self.session, at, &raw mut args)
        })?;
        Ok(KeyedMutex { handle: args.hKeyedMutex, global: args.hSharedHandle })
    }

    /// `D3DKMTOpenKeyedMutex`. Returns the handle.
    pub fn open_keyed_mutex(
        &self,
        at: &mut Passive,
        global: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_OPENKEYEDMUTEX { hSharedHandle: global, hKeyedMutex: 0 };
        // SAFETY: `args` outlives the call.
        check_acquired(unsafe { table::D3DKMTOpenKeyedMutex(&self.session, at, &raw mut args) })?;
        Ok(args.hKeyedMutex)
    }

    /// `D3DKMTOpenKeyedMutex2`, with a buffer for the runtime's data. Returns the handle.
    pub fn open_keyed_mutex2(
        &self,
        at: &mut Passive,
        global: D3DKMT_HANDLE,
        buffer: &mut [u8],
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_OPENKEYEDMUTEX2 {
            hSharedHandle: global,
            PrivateRuntimeDataSize: size(buffer),
            pPrivateRuntimeData: pointer(buffer),
            ..D3DKMT_OPENKEYEDMUTEX2::ZERO
        };
        // SAFETY: `args` and the buffer outlive the call.
        check_acquired(unsafe { table::D3DKMTOpenKeyedMutex2(&self.session, at, &raw mut args) })?;
        Ok(args.hKeyedMutex)
    }

    /// `D3DKMTDestroyKeyedMutex`.
    pub fn destroy_keyed_mutex(
        &self,
        at: &mut Passive,
        handle: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYKEYEDMUTEX { hKeyedMutex: handle };
        // SAFETY: `args` outlives the call.
        check_acquired(unsafe {
            table::D3DKMTDestroyKeyedMutex(&self.session, at, &raw const args)
        })
    }

    /// `D3DKMTAcquireKeyedMutex`, with an NT timeout. Returns the fence value. A timeout and
    /// an abandoned mutex are errors here.
    pub fn acquire_keyed_mutex(
        &self,
        at: &mut Passive,
        handle: D3DKMT_HANDLE,
        key: u64,
        timeout: Option<i64>,
    ) -> Result<u64, NTSTATUS> {
        let mut args = D3DKMT_ACQUIREKEYEDMUTEX {
            hKeyedMutex: handle,
            Key: key,
            pTimeout: timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
            FenceValue: 0,
        };
        // SAFETY: `args` and the timeout outlive the call.
        check_acquired(unsafe {
            table::D3DKMTAcquireKeyedMutex(&self.session, at, &raw mut args)
        })?;
        Ok(args.FenceValue)
    }

    /// `D3DKMTAcquireKeyedMutex2`, with a buffer for the runtime's data.
    pub fn acquire_keyed_mutex2(
        &self,
        at: &mut Passive,
        handle: D3DKMT_HANDLE,
        key: u64,
        timeout: Option<i64>,
        buffer: &mut [u8],
    ) -> Result<u64, NTSTATUS> {
        let mut args = D3DKMT_ACQUIREKEYEDMUTEX2 {
            hKeyedMutex: handle,
            Key: key,
            pTimeout: timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
            FenceValue: 0,
            PrivateRuntimeDataSize: size(buffer),
            pPrivateRuntimeData: pointer(buffer),
        };
        // SAFETY: `args`, the timeout and the buffer outlive the call.
        check_acquired(unsafe {
            table::D3DKMTAcquireKeyedMutex2(&self.session, at, &raw mut args)
        })?;
        Ok(args.FenceValue)
    }

    /// `D3DKMTReleaseKeyedMutex`, to the next key, with a fence value for its next owner.
    pub fn release_keyed_mutex(
        &self,
        at: &mut Passive,
        handle: D3DKMT_HANDLE,
        key: u64,
        fence: u64,
    ) -> Result<(), NTSTATUS> {
        let mut args =
            D3DKMT_RELEASEKEYEDMUTEX { hKeyedMutex: handle, Key: key, FenceValue: fence };
        // SAFETY: `args` outlives the call.
        check_acquired(unsafe { table::D3DKMTReleaseKeyedMutex(&self.session, at, &raw mut args) })
    }

    /// `D3DKMTReleaseKeyedMutex2`, with new runtime data.
    pub fn release_keyed_mutex2(
        &self,
        at: &mut Passive,
        handle: D3DKMT_HANDLE,
        key: u64,
        fence: u64,
        runtime: &[u8],
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_RELEASEKEYEDMUTEX2 {
            hKeyedMutex: handle,
            Key: key,
            FenceValue: fence,
            pPrivateRuntimeData: runtime.as_ptr().cast(),
            PrivateRuntimeDataSize: size(runtime),
        };
        // SAFETY: `args` and the data outlive the call.
        check_acquired(unsafe { table::D3DKMTReleaseKeyedMutex2(&self.session, at, &raw mut args) })
    }
}

/// Treats informational statuses as errors too: the caller does not own the mutex.
fn check_acquired(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

fn size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// A buffer, or NULL for none.
fn pointer(buffer: &mut [u8]) -> *mut std::ffi::c_void {
    if buffer.is_empty() { ptr::null_mut() } else { buffer.as_mut_ptr().cast() }
}
