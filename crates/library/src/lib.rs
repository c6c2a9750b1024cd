//! `libwindtunnel_d3dkmt.so`: the functions of `d3dkmt`, with the allocator that keeps memory for
//! them. A program has one allocator, and those of this project that link `d3dkmt` have others, so
//! the allocator is chosen here.
#![forbid(unsafe_code)]

pub use d3dkmt::*;

#[global_allocator]
static ALLOCATOR: ReserveAllocator = ReserveAllocator;
