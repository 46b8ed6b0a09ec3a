//! Source positions: where to go on reading.

/// Where to go on in one partition: the next offset to consume (last processed + 1, or an end-of-partition offset seen after it).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next offset.
    pub offset: i64,
    /// Leader epoch of the last record or end of partition seen; -1 when unknown.
    pub leader_epoch: i32,
}

/// What a source's topic is right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// The topic.
    pub topic: String,
    /// The broker's topic id (16 bytes), all zero when the connector has none.
    pub id: [u8; 16],
    /// Number of partitions.
    pub partitions: u32,
}
