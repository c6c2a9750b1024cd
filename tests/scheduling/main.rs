//! Scheduling and synchronisation: packets, fences, keyed mutexes, timeouts, real threads.

mod alone;
mod context_mix;
mod fruitless_resets;
mod interrupts;
mod keyed_mutex;
mod render;
mod stuck;
mod sync_objects;
mod sync_random;
mod tdr;
mod threads;
