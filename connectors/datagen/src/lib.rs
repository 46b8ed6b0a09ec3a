//! A generator as a source: seeded, deterministic, replayable. The record at (partition, offset) is a pure function of (seed, partition,
//! offset), so that a reader resumes anywhere without replaying what came before. A generator has no sink.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod config;
pub mod error;
pub mod generator;
pub mod source;
mod write;

pub use config::{CustomShape, DatagenConfig, Shape};
pub use error::DatagenError;
pub use generator::{BASE_TIMESTAMP, SplitMix64};
pub use source::DatagenSource;
pub use write::write_files;
