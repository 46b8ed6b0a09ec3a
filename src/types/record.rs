//! A record as a source hands it out: borrowed, with its provenance.

/// Milliseconds since the Unix epoch. Kafka's -1 means "none".
pub type TimestampMs = i64;

/// One header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The header's key; keys may repeat.
    pub key: String,
    /// The value; Kafka allows null.
    pub value: Option<Vec<u8>>,
}

/// A record's headers, read on demand.
pub trait Headers {
    /// Copies all headers in order. Empty when there are none, at no cost.
    fn to_vec(&self) -> Vec<Header>;
}

/// No headers.
#[derive(Debug, Clone, Copy)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn to_vec(&self) -> Vec<Header> {
        Vec::new()
    }
}

/// Where a record came from: source (index in the topology), partition, offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Index of the source operator in the topology.
    pub source: u16,
    /// Partition of the source's topic.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
}

/// A record that a source hands to its lane. Borrows the client's buffer.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    /// The topic (or its counterpart in another connector).
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The leader epoch, -1 when unknown.
    pub leader_epoch: i32,
    /// The record's timestamp.
    pub timestamp: TimestampMs,
    /// The key, None for null.
    pub key: Option<&'a [u8]>,
    /// The value, None for a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a dyn Headers,
}

/// A record's key and value as they lie on the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original<'a> {
    /// The key, None for null.
    pub key: Option<&'a [u8]>,
    /// The value, None for a tombstone.
    pub value: Option<&'a [u8]>,
}

/// An [`Original`] that travels with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedOriginal {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl Original<'_> {
    /// Length of key and value.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }
    /// A copy.
    #[must_use]
    pub fn to_owned(&self) -> OwnedOriginal {
        OwnedOriginal {
            key: self.key.map(<[u8]>::to_vec),
            value: self.value.map(<[u8]>::to_vec),
        }
    }
}

impl OwnedOriginal {
    /// Borrows it.
    #[must_use]
    pub fn borrow(&self) -> Original<'_> {
        Original {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
        }
    }
}
