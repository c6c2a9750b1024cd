//! The exported functions: one table, a line for each entry point.
#![expect(unsafe_code, reason = "takes the pointers of callers in C, under their C names")]

use crate::tunnel;
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_CLOSEADAPTER, D3DKMT_CREATEALLOCATION, D3DKMT_CREATECONTEXTVIRTUAL, D3DKMT_CREATEDEVICE,
    D3DKMT_DESTROYALLOCATION, D3DKMT_DESTROYALLOCATION2, D3DKMT_DESTROYCONTEXT,
    D3DKMT_DESTROYDEVICE, D3DKMT_ENUMADAPTERS2, D3DKMT_ESCAPE, D3DKMT_GETDEVICESTATE,
    D3DKMT_OPENADAPTERFROMLUID, D3DKMT_OPENRESOURCE, D3DKMT_QUERYRESOURCEINFO,
    D3DKMT_SUBMITCOMMAND,
};

macro_rules! exports {
    ($($name:ident($pointer:ty);)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, of the one global kernel.")]
            ///
            /// # Safety
            ///
            /// A pointer may be any number: what is not there is an invalid parameter. But what
            /// can be written where the answers go is written.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(args: $pointer) -> NTSTATUS {
                tunnel::call(stringify!($name), |session, at| {
                    // SAFETY: The session guards, and what it writes is the caller's to name.
                    unsafe { thunk::$name(session, at, args) }
                })
            }
        )+
    };
}

exports! {
    D3DKMTEnumAdapters2(*mut D3DKMT_ENUMADAPTERS2);
    D3DKMTOpenAdapterFromLuid(*mut D3DKMT_OPENADAPTERFROMLUID);
    D3DKMTCloseAdapter(*const D3DKMT_CLOSEADAPTER);
    D3DKMTCreateDevice(*mut D3DKMT_CREATEDEVICE);
    D3DKMTDestroyDevice(*const D3DKMT_DESTROYDEVICE);
    D3DKMTCreateContextVirtual(*mut D3DKMT_CREATECONTEXTVIRTUAL);
    D3DKMTDestroyContext(*const D3DKMT_DESTROYCONTEXT);
    D3DKMTSubmitCommand(*const D3DKMT_SUBMITCOMMAND);
    D3DKMTCreateAllocation(*mut D3DKMT_CREATEALLOCATION);
    D3DKMTCreateAllocation2(*mut D3DKMT_CREATEALLOCATION);
    D3DKMTDestroyAllocation(*const D3DKMT_DESTROYALLOCATION);
    D3DKMTDestroyAllocation2(*const D3DKMT_DESTROYALLOCATION2);
    D3DKMTQueryResourceInfo(*mut D3DKMT_QUERYRESOURCEINFO);
    D3DKMTOpenResource(*mut D3DKMT_OPENRESOURCE);
    D3DKMTOpenResource2(*mut D3DKMT_OPENRESOURCE);
    D3DKMTGetDeviceState(*mut D3DKMT_GETDEVICESTATE);
    D3DKMTEscape(*const D3DKMT_ESCAPE);
}
