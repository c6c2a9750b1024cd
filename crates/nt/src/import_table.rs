//! The table of all imports: what a kernel-mode driver imports by name from the system.
//!
//! Each function is in the file of its Windows prefix, with its row beside it. Every name that has
//! no row is a trap.

use flight::Support;

/// A row of the import table: a function or a variable that a driver imports by name.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Its Windows name.
    pub name: &'static str,
    /// How completely it is supported.
    pub support: Support,
    /// The address that a driver's import is bound to.
    pub address: *const (),
    /// Whether it is a variable.
    pub is_variable: bool,
}

/// The rows of one file: `Name [lacks "what is missing"];` for a function, and
/// `static Name = VARIABLE [lacks "what is missing"];` for a variable.
macro_rules! import_rows {
    ($($row:tt)*) => {
        pub(crate) const IMPORTS: &[$crate::Import] =
            $crate::import_table::import_list!([] $($row)*);
    };
}

/// Turns rows into an array, one after the other.
macro_rules! import_list {
    ([$($done:expr,)*]) => { &[$($done),*] };
    ([$($done:expr,)*] static $name:ident = $variable:ident $(lacks $lacks:literal)?; $($rest:tt)*) => {
        $crate::import_table::import_list!([$($done,)* $crate::Import {
            name: stringify!($name),
            support: flight::Support::from_missing(concat!($($lacks)?)),
            address: (&raw const $variable).cast(),
            is_variable: true,
        },] $($rest)*)
    };
    ([$($done:expr,)*] $name:ident $(lacks $lacks:literal)?; $($rest:tt)*) => {
        $crate::import_table::import_list!([$($done,)* $crate::Import {
            name: stringify!($name),
            support: flight::Support::from_missing(concat!($($lacks)?)),
            address: $name as *const (),
            is_variable: false,
        },] $($rest)*)
    };
}
pub(crate) use import_list;
pub(crate) use import_rows;

/// Variadic functions, each with the function that gets the address of its arguments.
///
/// The x64 convention passes the first four arguments in registers and reserves four slots for them
/// in front of the arguments on the stack: stored there, all arguments are in order in memory.
macro_rules! variadic {
    ($($(#[doc = $doc:literal])+ $name:ident -> $target:ident;)*) => {$(
        $(#[doc = $doc])+
        #[unsafe(naked)]
        pub unsafe extern "win64" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "mov [rsp + 8], rcx",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], r8",
                "mov [rsp + 32], r9",
                "lea rcx, [rsp + 8]",
                "sub rsp, 40",
                ".cfi_adjust_cfa_offset 40",
                "call {target}",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    )*};
}
pub(crate) use variadic;

/// The rows, by file.
const FILES: &[&[Import]] = &[
    crate::crt::IMPORTS,
    crate::crt_format::IMPORTS,
    crate::crt_memory::IMPORTS,
    crate::dbg::IMPORTS,
    crate::etw::IMPORTS,
    crate::ex::IMPORTS,
    crate::ex_list::IMPORTS,
    crate::ex_lookaside::IMPORTS,
    crate::ex_misc::IMPORTS,
    crate::ex_mutex::IMPORTS,
    crate::ex_resource::IMPORTS,
    crate::ex_spin_lock::IMPORTS,
    crate::image::exception::IMPORTS,
    crate::io::IMPORTS,
    crate::io_irp::IMPORTS,
    crate::io_property::IMPORTS,
    crate::io_remove_lock::IMPORTS,
    crate::kd::IMPORTS,
    crate::ke_bugcheck::IMPORTS,
    crate::ke_callback::IMPORTS,
    crate::ke_dpc::IMPORTS,
    crate::ke_event::IMPORTS,
    crate::ke_irql::IMPORTS,
    crate::ke_mutex::IMPORTS,
    crate::ke_spin_lock::IMPORTS,
    crate::ke_thread::IMPORTS,
    crate::ke_time::IMPORTS,
    crate::ke_timer::IMPORTS,
    crate::ke_wait::IMPORTS,
    crate::mm::IMPORTS,
    crate::mm_mdl::IMPORTS,
    crate::ob::IMPORTS,
    crate::po::IMPORTS,
    crate::ps::IMPORTS,
    crate::rtl::IMPORTS,
    crate::rtl_bitmap::IMPORTS,
    crate::rtl_registry::IMPORTS,
    crate::rtl_security::IMPORTS,
    crate::rtl_string::IMPORTS,
    crate::work_items::IMPORTS,
    crate::zw::IMPORTS,
    crate::zw_file::IMPORTS,
    crate::zw_key::IMPORTS,
];

/// Every function and variable that a driver can import, by file.
pub fn imports() -> impl Iterator<Item = &'static Import> {
    FILES.iter().copied().flatten()
}

/// The import with this name.
pub fn find_import(name: &str) -> Option<&'static Import> {
    imports().find(|import| import.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_import_has_one_row_and_an_address() {
        let names: BTreeSet<&str> = imports().map(|import| import.name).collect();
        assert_eq!(names.len(), imports().count(), "a name has two rows");
        assert!(imports().all(|import| !import.address.is_null()));
        for file in FILES {
            assert!(file.is_sorted_by(|a, b| a.name < b.name), "by name");
        }
    }

    #[test]
    fn an_import_is_found_by_its_name() {
        assert_eq!(find_import("KeSetEvent").map(|import| import.name), Some("KeSetEvent"));
        assert!(find_import("KeSetEven").is_none());
    }
}
