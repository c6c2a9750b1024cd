//! Small drivers with a table, flown by the real kernel.

mod fly;
mod memory;
