//! The exported functions, one for each row of `thunk`'s table of entry points.
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
        $(
            #[doc = concat!("`", stringify!($name), "`, of the one global kernel.")]
            ///
            /// # Safety
            ///
            /// A pointer may be any number: an invalid one is an invalid parameter. But mapped
            /// memory where the call returns data is overwritten.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C-unwind" fn $name(
                args: *$mutability abi::$module::$args,
            ) -> NTSTATUS {
                // The stack pointer behind the return address is where the caller's frames begin.
                naked_asm!(
                    ".cfi_startproc",
                    "lea rsi, [rsp + 8]",
                    "jmp {entered}",
                    ".cfi_endproc",
                    entered = sym entered::$name,
                )
            }
        )+

        /// The same functions, with the address at which the caller's frames begin. Call sites are
        /// found by their names.
        mod entered {
            use super::{NTSTATUS, global_kernel};

            $(
                pub(super) unsafe extern "C-unwind" fn $name(
                    args: *$mutability abi::$module::$args,
                    caller_frames: usize,
                ) -> NTSTATUS {
                    thunk::claims::set_caller_frames(caller_frames);
                    global_kernel::call(stringify!($name), |session, at| {
                        // SAFETY: The session is guarded, and the caller gives up what `args`
                        // points to for the call's results.
                        unsafe { thunk::$name(session, at, args) }
                    })
                }
            )+
        }
    };
}

thunk::for_each_entry_point!(exports);
