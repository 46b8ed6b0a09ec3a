//! A directory of JSON-lines files as a partitioned log ([`FilesSource`]), and output files delivered exactly once ([`FilesSink`]).
//!
//! **Input.** `<dir>/<partition>.jsonl`, partitions numbered from 0 without gaps, one record a line. A record's offset is
//! the byte offset of its newline, so that the position after it, offset + 1 as with every source, is where the next line starts, and
//! resuming is a seek. Only a line that ends in `\n` is a record; files may be appended to while they are read, and nothing else: a file that became shorter, was replaced or removed stops the job.
//!
//! **Output.** `<dir>/<shard>-<sequence>.jsonl`, one file per section of a shard that emitted something.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod config;
pub mod error;
mod line;
mod partition;
pub mod sink;
pub mod source;

pub use config::{FilesSinkConfig, FilesSourceConfig, Lines};
pub use error::FilesError;
pub use sink::FilesSink;
pub use source::FilesSource;
