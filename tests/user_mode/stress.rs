//! A hundred thousand resources through a user-mode driver: two threads create, share, draw, lock
//! and destroy them in an order drawn from a seed, and a model in plain Rust knows every byte.
//!
//! Every compared byte is right, no rule is broken, and at the end nothing is leaked: neither in
//! the kernel, nor in the machine's memory, nor in the runtime's ledger, nor in the driver.
#![forbid(unsafe_code)]

mod application;
mod flight;
mod resource;

use flight::{Gpu, StressFlight, Topology};
use windtunnel::HostKind;

const GPUS: [Gpu; 3] = [Gpu::Listed, Gpu::Virtual, Gpu::Memory];
const TOPOLOGIES: [Topology; 2] = [Topology::TwoDevices, Topology::TwoProcesses];

#[test]
fn every_byte_is_right_in_orders_drawn_from_seeds() {
    for gpu in GPUS {
        for topology in TOPOLOGIES {
            for seed in 0..4 {
                StressFlight {
                    on: HostKind::deterministic(seed),
                    gpu,
                    topology,
                    resource_count: 50,
                    seed,
                }
                .fly();
            }
        }
    }
}

#[test]
fn every_byte_is_right_under_pressure() {
    for gpu in GPUS {
        for topology in TOPOLOGIES {
            for seed in 10..12 {
                StressFlight {
                    on: HostKind::under_pressure(seed),
                    gpu,
                    topology,
                    resource_count: 50,
                    seed,
                }
                .fly();
            }
        }
    }
}

/// On real threads, over all drivers and configurations.
#[test]
fn a_hundred_thousand_resources_are_created_and_destroyed() {
    let resource_count = 100_000_usize.div_ceil(GPUS.len() * TOPOLOGIES.len() * 2);
    for gpu in GPUS {
        for topology in TOPOLOGIES {
            StressFlight { on: HostKind::Threaded, gpu, topology, resource_count, seed: 30 }.fly();
        }
    }
}
