//! What can go wrong with the files, and what helps.
use keyfold::sink::SinkError;
use keyfold::source::SourceError;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A failure of the files connector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The operating system refused. Tried again, but for a missing file or permission: put that right and start again.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// The input directory is not numbered as it must be: rename or add files.
    #[error("{dir} must hold the files 0.jsonl, 1.jsonl, ... without gaps: {reason}")]
    Numbering {
        /// The input directory.
        dir: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// The file is shorter than what was read before: restore the file, or start a new job.
    #[error("{path} has {length} bytes, position is {position}: the input was truncated or replaced")]
    Truncated {
        /// The input file.
        path: PathBuf,
        /// Where to read.
        position: i64,
        /// The file's length.
        length: u64,
    },
    /// The position is inside a line: restore the file, or start a new job.
    #[error(
        "{path}: position {position} of {length} bytes is not at the start of a line: the input was truncated or replaced"
    )]
    NotALineStart {
        /// The input file.
        path: PathBuf,
        /// Where to read.
        position: i64,
        /// The file's length.
        length: u64,
    },
    /// The path no longer names the file that is being read. A restart resumes at the position when the new file holds the old lines.
    #[error("{path} was replaced or removed while it was read, at position {position}")]
    Replaced {
        /// The input file.
        path: PathBuf,
        /// Where to read.
        position: i64,
    },
    /// A line is longer than the limit: raise `line_bytes_max` or mend the file.
    #[error("{path}: the line at offset {offset} is longer than line_bytes_max = {limit}")]
    LineTooLong {
        /// The input file.
        path: PathBuf,
        /// Start of the line.
        offset: i64,
        /// The limit.
        limit: usize,
    },
    /// The output directory holds another sink's outputs: give each sink a directory of its own.
    #[error(
        "{dir} holds the outputs of {owner}, not those of {sink}: sequences that are taken count as delivered, so outputs would be \
         lost; give each sink of each job a directory of its own, and a new one to a job that begins with a new checkpoint store"
    )]
    Owned {
        /// The output directory.
        dir: PathBuf,
        /// Who is named in it.
        owner: String,
        /// Who was refused.
        sink: String,
    },
    /// A position that cannot be one of this source.
    #[error("{topic} has no partition {partition} with offset {offset}")]
    NoSuchPosition {
        /// The position's topic.
        topic: String,
        /// The position's partition.
        partition: i32,
        /// The position's offset.
        offset: i64,
    },
    /// Another process delivers the same file at this moment. Tried again.
    #[error("{path} is being written by another process")]
    Busy {
        /// The staged file.
        path: PathBuf,
    },
}

impl FilesError {
    /// Whether the same call may succeed later without anybody's help.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            FilesError::Busy { .. } => true,
            FilesError::Io { source, .. } => !matches!(
                source.kind(),
                ErrorKind::PermissionDenied
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::InvalidFilename
                    | ErrorKind::InvalidInput
            ),
            _ => false,
        }
    }
}

impl From<FilesError> for SourceError {
    fn from(error: FilesError) -> Self {
        let missing = matches!(&error, FilesError::Io { source, .. } if source.kind() == ErrorKind::NotFound);
        if error.is_retriable() && !missing {
            SourceError::Retriable(error.to_string())
        } else {
            SourceError::Fatal(error.to_string())
        }
    }
}

/// A missing file is retriable here: the sink creates its directory again.
impl From<FilesError> for SinkError {
    fn from(error: FilesError) -> Self {
        if error.is_retriable() {
            SinkError::Retriable(error.to_string())
        } else {
            SinkError::Fatal(error.to_string())
        }
    }
}

/// Adds what was tried, on what, to an I/O error.
pub(crate) fn io_error(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> FilesError {
    let path = path.into();
    move |source| FilesError::Io { action, path, source }
}
