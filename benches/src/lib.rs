//! What the benchmarks share: how a job under measurement tells of itself, and what is made of it.
#![deny(missing_docs)]
mod histogram;
mod meter;
mod usage;

pub use histogram::quantile;
pub use meter::{At, Meter, Sample, Window};
pub use usage::{cpu_of, cpu_of_self, peak_rss_of, peak_rss_of_self};
