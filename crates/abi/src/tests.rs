//! Layouts, unions and numbers, compared with a second source.

mod tables;
mod unions;
mod windows_sys;
mod windows_sys_ks;
