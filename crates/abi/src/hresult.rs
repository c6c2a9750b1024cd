//! User-mode results, with the names of `winerror.h` and Direct3D 9.
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::HRESULT;

macro_rules! results {
    ($($name:ident = $value:literal,)+) => {
        $(pub const $name: HRESULT = u32::cast_signed($value);)+

        /// Every result of this module with its name.
        pub const NAMES: &[(HRESULT, &str)] = &[$(($name, stringify!($name))),+];
    };
}

/// The name of a result, if it is one of [`NAMES`].
pub fn name(result: HRESULT) -> Option<&'static str> {
    NAMES.iter().find(|(code, _)| *code == result).map(|(_, name)| *name)
}

/// Whether a result is a success.
pub const fn succeeded(result: HRESULT) -> bool {
    result >= 0
}

results! {
    S_OK = 0x0000_0000,
    S_FALSE = 0x0000_0001,
    S_RESIDENT_IN_SHARED_MEMORY = 0x0876_0876,
    S_NOT_RESIDENT = 0x0876_0875,
    E_PENDING = 0x8000_000A,
    E_NOTIMPL = 0x8000_4001,
    E_FAIL = 0x8000_4005,
    E_OUTOFMEMORY = 0x8007_000E,
    E_INVALIDARG = 0x8007_0057,
    D3DERR_OUTOFVIDEOMEMORY = 0x8876_017C,
    D3DDDIERR_WASSTILLDRAWING = 0x8876_021C,
    D3DERR_NOTAVAILABLE = 0x8876_086A,
    D3DDDIERR_DEVICEREMOVED = 0x8876_0870,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_one_name() {
        for (code, text) in NAMES {
            assert_eq!(name(*code), Some(*text));
        }
        assert_eq!((name(-1), succeeded(S_FALSE), succeeded(E_FAIL)), (None, true, false));
    }
}
