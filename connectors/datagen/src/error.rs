//! What can go wrong with a generator. Nothing of it passes by itself.
use keyfold::source::SourceError;
use std::io;
use std::path::PathBuf;

/// A failure of the generator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatagenError {
    /// A setting has no meaning: mend it.
    #[error("generator {name}: {setting} must be {must}")]
    Setting {
        /// The generator.
        name: String,
        /// The setting.
        setting: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// A position lies outside the partitions or beyond their end: partitions or records were reduced below what the job has read.
    #[error(
        "{topic} has no partition {partition} with offset {offset}; set partitions and records_per_partition as they were"
    )]
    NoSuchPosition {
        /// The position's topic.
        topic: String,
        /// The position's partition.
        partition: i32,
        /// The position's offset.
        offset: i64,
    },
    /// A value that a custom shape made has a line break: it cannot be written as one line.
    #[error("the value at partition {partition} offset {offset} has a line break and cannot be a line of a file")]
    NotALine {
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
    /// A file could not be written: put the cause right and write again.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
}

impl From<DatagenError> for SourceError {
    fn from(error: DatagenError) -> Self {
        SourceError::Fatal(error.to_string())
    }
}
