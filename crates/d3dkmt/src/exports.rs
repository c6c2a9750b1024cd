//! The exported functions, one for each row of `thunk`'s table of entry points.
//!
//! `D3DKMTShareObjects` takes its arguments one by one, as on Windows; all others take a pointer.
#![expect(unsafe_code, reason = "takes the pointers of callers in C, under their C names")]

use crate::global_kernel;
use abi::NTSTATUS;
use std::arch::naked_asm;

macro_rules! exports {
    ($(
        $name:ident(* $mutability:tt $module:ident :: $args:ident) => $file:ident :: $function:ident {
            $($row:tt)*
        }
    )+) => {
        $(export! { $name(args: *$mutability abi::$module::$args) })+

        /// The same functions, with the address at which the caller's frames begin. Call sites are
        /// found by their names.
        mod entered {
            use super::{NTSTATUS, global_kernel};

            $(enter! { $name(args: *$mutability abi::$module::$args) })+
        }
    };
}

/// The exported function. Its last instruction passes the stack pointer behind the return address,
/// which is where the caller's frames begin.
macro_rules! export {
    (D3DKMTShareObjects($args:ident: $pointer:ty)) => {
        export! {
            D3DKMTShareObjects(
                count: u32,
                objects: *const abi::D3DKMT_HANDLE,
                attributes: *mut abi::OBJECT_ATTRIBUTES,
                access: u32,
                handle: *mut abi::HANDLE,
            ) with "lea r9, [rsp + 8]"
        }
    };
    ($name:ident($args:ident: $pointer:ty)) => {
        export! { $name($args: $pointer,) with "lea rsi, [rsp + 8]" }
    };
    ($name:ident($($argument:ident: $type:ty,)+) with $instruction:literal) => {
        #[doc = concat!("`", stringify!($name), "`, of the one global kernel.")]
        ///
        /// # Safety
        ///
        /// A pointer may be any number: an invalid one is an invalid parameter. But mapped memory
        /// where the call returns data is overwritten.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),+) -> NTSTATUS {
            naked_asm!(
                ".cfi_startproc",
                $instruction,
                "jmp {entered}",
                ".cfi_endproc",
                entered = sym entered::$name,
            )
        }
    };
}

/// The function that the exported one jumps to.
macro_rules! enter {
    (D3DKMTShareObjects($args:ident: $pointer:ty)) => {
        #[expect(non_snake_case, reason = "Windows's name")]
        pub(super) unsafe extern "C-unwind" fn D3DKMTShareObjects(
            count: u32,
            objects: *const abi::D3DKMT_HANDLE,
            attributes: *mut abi::OBJECT_ATTRIBUTES,
            access: u32,
            handle: *mut abi::HANDLE,
            caller_frames: usize,
        ) -> NTSTATUS {
            thunk::claims::set_caller_frames(caller_frames);
            let arguments = abi::kmt::D3DKMT_SHAREOBJECTS {
                ObjectCount: count,
                ObjectHandleArray: objects,
                pObjectAttributes: attributes,
                DesiredAccess: access,
                pSharedNtHandle: handle,
            };
            global_kernel::call("D3DKMTShareObjects", |session, at| {
                // SAFETY: The session is guarded, and the caller gives up what `handle` points to
                // for the call's result.
                unsafe { thunk::share_objects_by_value(session, at, arguments) }
            })
        }
    };
    ($name:ident($args:ident: $pointer:ty)) => {
        pub(super) unsafe extern "C-unwind" fn $name(
            $args: $pointer,
            caller_frames: usize,
        ) -> NTSTATUS {
            thunk::claims::set_caller_frames(caller_frames);
            global_kernel::call(stringify!($name), |session, at| {
                // SAFETY: The session is guarded, and the caller gives up what `args` points to
                // for the call's results.
                unsafe { thunk::$name(session, at, $args) }
            })
        }
    };
}

thunk::for_each_entry_point!(exports);
