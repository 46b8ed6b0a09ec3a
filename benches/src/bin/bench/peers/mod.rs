//! Kafka Streams and Flink on the same input, in the same run, with Keyfold beside them: programs of our own (`benches/peers/`) that do the
//! same, watched from outside.
//!
//! Their time, CPU time and memory are those of their process alone, as for Keyfold; what they have done is what a reader with
//! `read_committed` may see. Every output is read afterwards: a row is of a program that has counted each record once.
mod check;
mod latency;
mod program;
mod restart;
mod settings;
mod throughput;
mod watch;

pub use latency::latency;
pub use restart::restart;
pub use throughput::throughput;
