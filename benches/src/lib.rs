//! What the benchmarks share: how a job under measurement tells of itself, and what is made of it.
#![deny(missing_docs)]
mod histogram;
mod meter;
mod usage;

/// The log goes to standard error, warnings only unless `RUST_LOG` says otherwise.
pub fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

pub use histogram::quantile;
pub use meter::{At, Meter, Sample, Window};
pub use usage::{cpu_of, cpu_of_self, peak_rss_of, peak_rss_of_self};
