//! Fail points, an in-memory log with transactions, a manual clock and a driver for topologies: the engine's own tests and its users'
//! run on these.
pub mod faults;

pub use faults::Faults;
