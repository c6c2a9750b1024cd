//! The exported functions that return that they are not supported, one for each name of `thunk`'s
//! table of absent entry points.
#![expect(unsafe_code, reason = "exported under C names")]

use crate::cancellation::exported;
use crate::global_kernel;
use crate::remote::{RemoteArguments, RemoteCall};
use abi::{BOOLEAN, NTSTATUS};
use server::message::{OtherCall, entry_number};
use std::ffi::c_void;

macro_rules! absent_exports {
    ($($why:literal => [$($name:ident),+ $(,)?],)+) => {
        $($(
            exported! {
                #[doc = concat!("`", stringify!($name), "`: absent, because ", $why, ".")]
                ///
                /// # Safety
                ///
                /// None: the argument is not read.
                unsafe fn $name(args: *const c_void) -> NTSTATUS
            }
        )+)+

        exported! {
            /// Returns one if a device owns a display source exclusively: the only entry point without
            /// an argument and without a status.
            fn D3DKMTCheckExclusiveOwnership() -> BOOLEAN
        }

        /// The functions that do the work of the exported ones.
        #[expect(non_snake_case, reason = "Windows's names")]
        mod entered {
            use super::{
                BOOLEAN, NTSTATUS, OtherCall, RemoteArguments, RemoteCall, c_void, entry_number,
                global_kernel,
            };

            $($(
                pub(super) extern "C-unwind" fn $name(args: *const c_void) -> NTSTATUS {
                    let address = args.addr();
                    let remote = RemoteCall {
                        entry: const { entry_number(stringify!($name)) },
                        arguments: RemoteArguments::Structure { address, bytes: 0 },
                    };
                    global_kernel::call(stringify!($name), &remote, |session, at| {
                        // SAFETY: The function does not read its argument.
                        unsafe { thunk::$name(session, at, args) }
                    })
                }
            )+)+

            pub(super) extern "C-unwind" fn D3DKMTCheckExclusiveOwnership() -> BOOLEAN {
                let remote = RemoteCall {
                    entry: OtherCall::CheckExclusiveOwnership.number(),
                    arguments: RemoteArguments::Members(&[]),
                };
                let name = "D3DKMTCheckExclusiveOwnership";
                let answer = global_kernel::call(name, &remote, |session, _| {
                    NTSTATUS::from(thunk::is_any_source_exclusive(session))
                });
                BOOLEAN::from(answer == 1)
            }
        }
    };
}

thunk::for_each_absent_entry_point!(absent_exports);
