//! The typed builder: a job's operators and how they are connected. Every id is given by the user, mandatory, unique and stable.
//!
//! ```
//! # use keyfold::topology::Job;
//! # use keyfold::types::codec::{LongBe, Utf8};
//! # fn build(source: Box<dyn keyfold::source::Source>, totals: keyfold::sink::LogTarget) {
//! let job = Job::new("word-count");
//! job.source("lines", source, |r| Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned()))
//!     .flat_map("words", |line, out| line.split_whitespace().for_each(|w| out(w.to_owned())))
//!     .key_by("word", Utf8, |w| w.clone())
//!     .count("counts")
//!     .to("totals", totals, LongBe);
//! # }
//! ```
mod bad_records;
mod builder;
mod keyed_stream;
mod nearest;
mod sources;
mod stream;
#[cfg(test)]
mod tests;

pub use bad_records::{BadRecords, DeadLetters};
pub use builder::{BuiltSegment, BuiltSink, BuiltSource, OpenSource, Segment, Topology, TopologyError};
pub use keyed_stream::KeyedStream;
pub use sources::SourceOptions;
pub use stream::{Job, Stream, Target};
