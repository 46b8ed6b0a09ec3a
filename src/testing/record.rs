//! Records as tests write and read them.
use crate::types::{Header, Headers, TimestampMs};

/// A record of a topic in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRecord {
    /// The key, None for null.
    pub key: Option<Vec<u8>>,
    /// The value, None for a tombstone.
    pub value: Option<Vec<u8>>,
    /// The timestamp, -1 for none.
    pub timestamp: TimestampMs,
    /// The headers.
    pub headers: Vec<Header>,
    /// The partition it lies in; -1 before it lies anywhere.
    pub partition: i32,
    /// Its offset; -1 before it lies anywhere.
    pub offset: i64,
}

impl TestRecord {
    /// A record with timestamp 0 and without headers.
    #[must_use]
    pub fn new(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> TestRecord {
        TestRecord {
            key: Some(key.as_ref().to_vec()),
            value: Some(value.as_ref().to_vec()),
            timestamp: 0,
            headers: Vec::new(),
            partition: -1,
            offset: -1,
        }
    }
    /// The same with another timestamp.
    #[must_use]
    pub fn at(self, timestamp: TimestampMs) -> TestRecord {
        TestRecord { timestamp, ..self }
    }
    /// The same with another header at the end.
    #[must_use]
    pub fn with_header(mut self, key: &str, value: impl AsRef<[u8]>) -> TestRecord {
        self.headers.push(Header {
            key: key.to_owned(),
            value: Some(value.as_ref().to_vec()),
        });
        self
    }
    /// The same without a key.
    #[must_use]
    pub fn without_key(self) -> TestRecord {
        TestRecord { key: None, ..self }
    }
    /// The same as a tombstone.
    #[must_use]
    pub fn tombstone(self) -> TestRecord {
        TestRecord { value: None, ..self }
    }
    /// The key as text, damaged characters replaced; empty for null.
    #[must_use]
    pub fn key_text(&self) -> String {
        String::from_utf8_lossy(self.key.as_deref().unwrap_or_default()).into_owned()
    }
    /// The value as text, damaged characters replaced; empty for a tombstone.
    #[must_use]
    pub fn value_text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
    /// The first header of this name as text.
    #[must_use]
    pub fn header(&self, key: &str) -> Option<String> {
        let header = self.headers.iter().find(|h| h.key == key)?;
        Some(String::from_utf8_lossy(header.value.as_deref().unwrap_or_default()).into_owned())
    }
}

impl Headers for TestRecord {
    fn to_vec(&self) -> Vec<Header> {
        self.headers.clone()
    }
}
