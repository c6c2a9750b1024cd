//! The exported functions, one for each row of `thunk`'s table of entry points.
//!
//! `D3DKMTShareObjects` takes its arguments one by one, as on Windows; all others take a pointer.
#![expect(unsafe_code, reason = "takes the pointers of callers in C, under their C names")]

use crate::cancellation::exported;
use crate::global_kernel;
use crate::remote::{RemoteArguments, RemoteCall};
use abi::NTSTATUS;
use server::message::entry_number;
use std::mem::offset_of;

macro_rules! exports {
    ($(
        $name:ident(* $mutability:tt $module:ident :: $args:ident) => $file:ident :: $function:ident {
            $($row:tt)*
        }
    )+) => {
        $(export! { $name(args: *$mutability abi::$module::$args) })+

        /// The functions that do the work of the exported ones.
        mod entered {
            use super::{
                NTSTATUS, RemoteArguments, RemoteCall, entry_number, global_kernel,
                share_objects_bytes, size_of_pointed,
            };

            $(enter! { $name(args: *$mutability abi::$module::$args) })+
        }
    };
}

/// The exported function.
macro_rules! export {
    (D3DKMTShareObjects($args:ident: $pointer:ty)) => {
        export! {
            D3DKMTShareObjects(
                count: u32,
                objects: *const abi::D3DKMT_HANDLE,
                attributes: *mut abi::OBJECT_ATTRIBUTES,
                access: u32,
                handle: *mut abi::HANDLE,
            )
        }
    };
    ($name:ident($args:ident: $pointer:ty)) => {
        export! { $name($args: $pointer,) }
    };
    ($name:ident($($argument:ident: $type:ty,)+)) => {
        exported! {
            #[doc = concat!("`", stringify!($name), "`, of the one global kernel.")]
            ///
            /// # Safety
            ///
            /// A pointer may be any number: an invalid one is an invalid parameter. But mapped memory
            /// where the call returns data is overwritten.
            unsafe fn $name($($argument: $type),+) -> NTSTATUS
        }
    };
}

/// The function that the exported one calls.
macro_rules! enter {
    (D3DKMTShareObjects($args:ident: $pointer:ty)) => {
        #[expect(non_snake_case, reason = "Windows's name")]
        pub(super) extern "C-unwind" fn D3DKMTShareObjects(
            count: u32,
            objects: *const abi::D3DKMT_HANDLE,
            attributes: *mut abi::OBJECT_ATTRIBUTES,
            access: u32,
            handle: *mut abi::HANDLE,
        ) -> NTSTATUS {
            let arguments = abi::kmt::D3DKMT_SHAREOBJECTS {
                ObjectCount: count,
                ObjectHandleArray: objects,
                pObjectAttributes: attributes,
                DesiredAccess: access,
                pSharedNtHandle: handle,
            };
            let members = share_objects_bytes(&arguments);
            let remote = RemoteCall {
                entry: const { entry_number("D3DKMTShareObjects") },
                arguments: RemoteArguments::Members(&members),
            };
            global_kernel::call("D3DKMTShareObjects", &remote, |session, at| {
                // SAFETY: The session is guarded, and the caller gives up what `handle` points to
                // for the call's result.
                unsafe { thunk::share_objects_by_value(session, at, arguments) }
            })
        }
    };
    ($name:ident($args:ident: $pointer:ty)) => {
        pub(super) extern "C-unwind" fn $name($args: $pointer) -> NTSTATUS {
            let (address, bytes) = ($args.expose_provenance(), size_of_pointed($args));
            let remote = RemoteCall {
                entry: const { entry_number(stringify!($name)) },
                arguments: RemoteArguments::Structure { address, bytes },
            };
            global_kernel::call(stringify!($name), &remote, |session, at| {
                // SAFETY: The session is guarded, and the caller gives up what `args` points to
                // for the call's results.
                unsafe { thunk::$name(session, at, $args) }
            })
        }
    };
}

/// The size of what a pointer points to.
const fn size_of_pointed<T>(_: *const T) -> usize {
    size_of::<T>()
}

/// The structure of `D3DKMTShareObjects` as bytes, with zeros between its members.
fn share_objects_bytes(it: &abi::kmt::D3DKMT_SHAREOBJECTS) -> Vec<u8> {
    use abi::kmt::D3DKMT_SHAREOBJECTS as Structure;
    let mut bytes = vec![0; size_of::<Structure>()];
    let mut put = |offset: usize, member: &[u8]| {
        bytes[offset..offset + member.len()].copy_from_slice(member);
    };
    put(offset_of!(Structure, ObjectCount), &it.ObjectCount.to_ne_bytes());
    let objects = it.ObjectHandleArray.expose_provenance();
    put(offset_of!(Structure, ObjectHandleArray), &objects.to_ne_bytes());
    let attributes = it.pObjectAttributes.expose_provenance();
    put(offset_of!(Structure, pObjectAttributes), &attributes.to_ne_bytes());
    put(offset_of!(Structure, DesiredAccess), &it.DesiredAccess.to_ne_bytes());
    let handle = it.pSharedNtHandle.expose_provenance();
    put(offset_of!(Structure, pSharedNtHandle), &handle.to_ne_bytes());
    bytes
}

thunk::for_each_entry_point!(exports);
