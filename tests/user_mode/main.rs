//! User-mode drivers in Rust and in C, and capture through the streaming kernel.

mod built_in;
mod c_driver;
mod c_driver_flights;
mod capture;
mod hostile_application;
mod hostile_driver;
mod legal;
mod memory;
mod stress;
mod surfaces;
