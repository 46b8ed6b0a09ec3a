//! Settings of the source and of the sink.
use serde::Deserialize;
use std::path::PathBuf;

/// Default of `line_bytes_max`: 1 MiB, as much as Kafka takes for a record by default. Lower would refuse what a topic accepts; a file
/// without newlines costs at most this much memory per partition before it is refused.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// What a line is.
///
/// In both formats the bytes of the value are the JSON text as it stands in the line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "format", rename_all = "snake_case", deny_unknown_fields)]
pub enum Lines {
    /// The whole line is the value; the key is null. The line is not checked here: decoding refuses what it cannot read, under the
    /// bad-record policy.
    Value {
        /// Member of the line's object that holds the timestamp in milliseconds. The timestamp is -1 without this setting, and for a line
        /// where the member is missing or no integer.
        #[serde(default)]
        timestamp_field: Option<String>,
    },
    /// `{"key": <string or null>, "value": <JSON or null>, "timestamp": <ms>, "headers": {"name": <string or null>}}`; all but `value`
    /// may be left out, a null value is a tombstone, other members are not allowed.
    ///
    /// A line that is no such object is not lost: it is handed out as a record with a null key, timestamp -1 and the raw line as value,
    /// so that decoding refuses it under the bad-record policy.
    Envelope,
}

impl Default for Lines {
    fn default() -> Self {
        Lines::Value { timestamp_field: None }
    }
}

/// Settings of [`crate::FilesSource`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSourceConfig {
    /// The directory of the input files.
    pub dir: PathBuf,
    /// The name that positions carry; default is the directory's name.
    #[serde(default)]
    pub topic: Option<String>,
    /// What a line is.
    #[serde(default)]
    pub lines: Lines,
    /// The longest line, without its newline; a longer one stops the job.
    #[serde(default = "line_bytes_max")]
    pub line_bytes_max: usize,
}

fn line_bytes_max() -> usize {
    LINE_BYTES_MAX
}

impl FilesSourceConfig {
    /// The defaults for a directory.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        FilesSourceConfig {
            dir: dir.into(),
            topic: None,
            lines: Lines::default(),
            line_bytes_max: LINE_BYTES_MAX,
        }
    }

    /// The topic: as set, else the directory's name.
    #[must_use]
    pub fn topic_name(&self) -> String {
        if let Some(topic) = &self.topic {
            return topic.clone();
        }
        let resolved = || self.dir.canonicalize().ok();
        let name = self.dir.file_name().map(|n| n.to_string_lossy().into_owned());
        name.or_else(|| resolved()?.file_name().map(|n| n.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "files".into())
    }
}

/// Settings of [`crate::FilesSink`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSinkConfig {
    /// The directory of the output files; created when it does not exist.
    pub dir: PathBuf,
}
