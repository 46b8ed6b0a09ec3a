//! Where records come from: a connector's [`Source`] opens one [`SourceReader`] per source lane.
pub mod membership;

pub use membership::{GroupEvent, Membership, MembershipError};

use crate::types::{Position, RecordRef, TopicInfo};
use std::time::Duration;

/// What went wrong in a source, by what helps.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// May pass by itself; the lane goes on polling with back-off.
    #[error("{0}")]
    Retriable(String),
    /// Going on would lose or double records, or cannot work: stops the job with exit code 13.
    #[error("{0}")]
    Fatal(String),
}

/// What a source knows beside its records: for metrics, and nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceFigures {
    /// Where partitions end, as of a look that may be some seconds old; those that are not known are left out.
    pub ends: Vec<PartitionEnd>,
    /// Bytes that are read ahead, and how many may be; None when nobody knows.
    pub prefetch: Option<Prefetch>,
}

/// Where a partition ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionEnd {
    /// The partition.
    pub partition: i32,
    /// The last stable offset: what lies before it can be read.
    pub stable: Option<i64>,
    /// The end of the log.
    pub end: Option<i64>,
}

/// What a source reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prefetch {
    /// The bound, in bytes.
    pub limit_bytes: u64,
    /// What lies in its queues now; None when nobody knows.
    pub used_bytes: Option<u64>,
}

/// A replayable, partitioned source, as the control thread sees it.
pub trait Source: Send {
    /// Connector and topic for messages: `kafka topic orders`.
    fn describe(&self) -> String;
    /// The name that positions carry. Unique among the sources of a job.
    fn topic(&self) -> String;
    /// The topic as it is now. Called at start.
    ///
    /// # Errors
    /// When the topic does not exist or cannot be read.
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError>;
    /// Where a new job starts to read, by explicit offset, for every partition. Called for genesis only.
    ///
    /// # Errors
    /// When the offsets cannot be found out.
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError>;
    /// Opens one reader per item of `lanes`; each reads the given partitions from the given offsets (possibly none).
    ///
    /// # Errors
    /// When the partitions cannot be opened at these offsets.
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError>;
    /// Serves the client's events (errors, statistics). Called by the control thread at least every 100 ms while the job runs.
    ///
    /// # Errors
    /// As for polling.
    fn serve(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
    /// What is known by now; never waits. Called by the control thread about every second while the job runs.
    fn figures(&mut self) -> SourceFigures {
        SourceFigures::default()
    }
    /// Ordered shutdown, after every reader was dropped.
    fn close(&mut self);
}

/// Reads the partitions of one lane. Lives on the lane's thread.
pub trait SourceReader: Send {
    /// Hands what has arrived to `out`, in order per partition; waits up to `max_wait` when there is nothing. Returns after a bounded
    /// number of records (some thousand), so that barriers are not kept waiting.
    ///
    /// # Errors
    /// [`SourceError`]; an error that `out` returned ends the call and is reported by the lane itself.
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError>;
}

/// Whether the reader should hand out more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Return from poll at once without handing out anything more. What was fetched and not handed out is not lost: it is handed out first
    /// by the next call.
    Stop,
}

/// Takes what a reader hands out.
pub trait RecordSink {
    /// A record.
    fn record(&mut self, record: &RecordRef<'_>) -> Flow;
    /// The reader has seen the end of a partition: every offset below `offset` has been handed out or holds no record for us.
    fn end_of_partition(&mut self, topic: &str, partition: i32, offset: i64, leader_epoch: i32);
}
