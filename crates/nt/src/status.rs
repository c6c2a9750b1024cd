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
    STATUS_INVALID_PARAMETER_4 = 0xC000_00F2;
    STATUS_INVALID_PARAMETER_5 = 0xC000_00F3;
    STATUS_INVALID_PARAMETER_6 = 0xC000_00F4;
}
