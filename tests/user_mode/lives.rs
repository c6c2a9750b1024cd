//! A hundred thousand resources through a user-mode driver: two threads create, share, draw, lock
//! and destroy them in an order drawn from a seed, and a model in plain Rust knows every byte.
//!
//! Every compared byte is right, no rule is broken, and at the end nothing is leaked: neither in
//! the kernel, nor in the machine's memory, nor in the runtime's ledger, nor in the driver.
#![forbid(unsafe_code)]

mod artist;
mod story;
mod thing;

use story::{Gpu, Story, Whose};
use windtunnel::HostKind;

const GPUS: [Gpu; 3] = [Gpu::Listed, Gpu::Virtual, Gpu::Memory];
const BOTH: [Whose; 2] = [Whose::TwoDevices, Whose::TwoProcesses];

#[test]
fn every_byte_is_right_in_orders_drawn_from_seeds() {
    for gpu in GPUS {
        for whose in BOTH {
            for seed in 0..4 {
                Story { on: HostKind::deterministic(seed), gpu, whose, lives: 50, seed }.tell();
            }
        }
    }
}

#[test]
fn every_byte_is_right_under_pressure() {
    for gpu in GPUS {
        for whose in BOTH {
            for seed in 10..12 {
                Story { on: HostKind::under_pressure(seed), gpu, whose, lives: 50, seed }.tell();
            }
        }
    }
}

/// On real threads, over all drivers and configurations.
#[test]
fn a_hundred_thousand_resources_live_and_go() {
    let lives = 100_000_usize.div_ceil(GPUS.len() * BOTH.len() * 2);
    for gpu in GPUS {
        for whose in BOTH {
            Story { on: HostKind::Threaded, gpu, whose, lives, seed: 30 }.tell();
        }
    }
}
