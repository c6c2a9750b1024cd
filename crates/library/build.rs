//! How the library is linked.

fn main() {
    // Threads of ours run until the process ends, so the code stays when a client closes it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libwindtunnel_d3dkmt.so");
    println!("cargo::rerun-if-changed=build.rs");
}
