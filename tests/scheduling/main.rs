//! Scheduling and synchronisation: packets, fences, keyed mutexes, timeouts, real threads.

mod free;
mod interrupts;
mod keyed_mutex;
mod render;
mod sync_lives;
mod sync_objects;
mod tdr;
