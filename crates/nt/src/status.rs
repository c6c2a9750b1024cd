//! The status codes that the exported functions return.

use abi::NTSTATUS;
pub(crate) use abi::status::*;

macro_rules! statuses {
    ($($name:ident = $value:literal;)+) => {
        $(pub(crate) const $name: NTSTATUS = u32::cast_signed($value);)+
    };
}

statuses! {
    STATUS_BUFFER_OVERFLOW = 0x8000_0005;
    STATUS_INVALID_PARAMETER_2 = 0xC000_00F0;
}
