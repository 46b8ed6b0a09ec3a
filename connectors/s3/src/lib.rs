//! A checkpoint store in a bucket of S3, or of a service that speaks its protocol, over the crate `object_store`.
//!
//! What it needs of the service: reads that see every write that was acknowledged (S3 has had it since December 2020), and conditional
//! writes (`If-None-Match: *`, S3 since August 2024), with which an object is created once. A service that ignores the
//! condition is refused when the store is opened: a fenced instance could overwrite what its successor wrote.
#![deny(missing_docs)]
mod config;
mod error;
mod store;

pub use config::{ConfigError, S3Config};
pub use store::S3Store;
