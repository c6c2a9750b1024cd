//! In work.
fn main() {}
