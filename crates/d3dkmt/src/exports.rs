//! The exported functions, one for each row of `thunk`'s table of entry points.
#![expect(unsafe_code, reason = "takes the pointers of callers in C, under their C names")]

use crate::global_kernel;
use abi::NTSTATUS;

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
            pub unsafe extern "C" fn $name(args: *$mutability abi::$module::$args) -> NTSTATUS {
                global_kernel::call(stringify!($name), |session, at| {
                    // SAFETY: The session is guarded, and the caller gives up what `args` points
                    // to for the call's results.
                    unsafe { thunk::$name(session, at, args) }
                })
            }
        )+
    };
}

thunk::for_each_entry_point!(exports);
