//! `KeBugCheck` and `KeBugCheckEx`: the driver stops the machine.
#![expect(non_snake_case, reason = "Windows's names")]

use crate::image;
use crate::import_table::import_rows;

import_rows! {
    KeBugCheck;
    KeBugCheckEx;
}

/// Stops the machine with a code.
pub(crate) extern "win64-unwind" fn KeBugCheck(code: u32) -> ! {
    image::bug_check(code.into(), [0; 4])
}

/// Stops the machine with a code and four parameters.
pub(crate) extern "win64-unwind" fn KeBugCheckEx(
    code: u32,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
) -> ! {
    image::bug_check(code.into(), [first, second, third, fourth].map(|number| number as u64))
}
