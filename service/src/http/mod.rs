//! Health and metrics over HTTP, on a thread of its own.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | all metrics, in Prometheus's text format |
//! | `/health/live` | 200 as long as the process answers |
//! | `/health/ready` | 200 when the run does what it is there for, else 503; a JSON body says what it is doing |
//!
//! Everything is bounded: one request a connection, the size of its head, the time that a connection lasts, and how many there are. Beyond
//! that the oldest makes room, so that those who send nothing keep nobody out.
mod routes;
mod serve;

pub use serve::{HttpError, Server};

#[cfg(test)]
mod tests;
