//! Small drivers with a table, flown by the real kernel.

mod display_only;
mod fly;
mod memory;
