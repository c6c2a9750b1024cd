//! The command, its reports, the documentation pages, the C library and its clients.

mod adapter_info;
mod adapters;
mod allow;
mod c_library;
mod contain;
mod cost;
mod entries;
mod environment;
mod faults;
mod golden;
mod house;
mod images;
mod jobs;
mod lost_verdicts;
mod memory_faults;
mod report;
mod run;
mod samples;
mod steps;
mod streams;
mod support;
mod surface;
mod tutorial;
mod umd;
mod windows_rows;
