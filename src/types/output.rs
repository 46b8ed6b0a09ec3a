//! Outputs on their way from a lane to the publisher: framed bytes, so that they can be spilled to a file and kept in an outbox.
//!
//! Frame, big-endian: `sink u16 | flags u8 | timestamp i64 | partition i32 | key_len u32 | value_len u32 | headers_len u32 | key | value |
//! headers`. Flags: 1 = key present, 2 = value present. Partition -1 lets the sink's partitioner choose. Headers: `count u16`, then per
//! header `key_len u16 | key | value_len i32 (-1 null) | value`; absent when headers_len is 0.
use super::record::{Header, TimestampMs};

/// What a frame takes beside key, value and headers.
pub const FRAME_BYTES: usize = 2 + 1 + 8 + 4 + 4 + 4 + 4;
const HAS_KEY: u8 = 1;
const HAS_VALUE: u8 = 2;

/// One output, borrowed from its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRef<'a> {
    /// Index of the sink in the topology.
    pub sink: u16,
    /// Event timestamp.
    pub timestamp: TimestampMs,
    /// Explicit partition, or -1 for the sink's partitioner.
    pub partition: i32,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value, None for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Encoded headers, see [`decode_headers`].
    pub headers: &'a [u8],
}

impl OutputRef<'_> {
    /// What its frame takes.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        FRAME_BYTES + self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + self.headers.len()
    }
}

/// Most headers that an output can have.
pub const HEADERS_MAX: usize = u16::MAX as usize;
/// Longest key of a header in bytes.
pub const HEADER_KEY_MAX: usize = u16::MAX as usize;

/// Headers that have no encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadersTooLarge {
    /// Too many.
    #[error("{0} headers, at most {HEADERS_MAX} can be written")]
    Count(usize),
    /// A key that is too long.
    #[error("a header's key of {0} bytes, at most {HEADER_KEY_MAX} can be written")]
    Key(usize),
    /// A value that is too long.
    #[error("a header's value of {0} bytes, at most {max} can be written", max = i32::MAX)]
    Value(usize),
}

/// Encodes headers; empty for none.
///
/// # Errors
/// [`HeadersTooLarge`]: nothing is cut off.
pub fn encode_headers(headers: &[Header]) -> Result<Vec<u8>, HeadersTooLarge> {
    let mut out = Vec::new();
    if headers.is_empty() {
        return Ok(out);
    }
    let count = u16::try_from(headers.len()).map_err(|_| HeadersTooLarge::Count(headers.len()))?;
    out.extend_from_slice(&count.to_be_bytes());
    for h in headers {
        let key_len = u16::try_from(h.key.len()).map_err(|_| HeadersTooLarge::Key(h.key.len()))?;
        out.extend_from_slice(&key_len.to_be_bytes());
        out.extend_from_slice(h.key.as_bytes());
        match &h.value {
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(v) => {
                let value_len = i32::try_from(v.len()).map_err(|_| HeadersTooLarge::Value(v.len()))?;
                out.extend_from_slice(&value_len.to_be_bytes());
                out.extend_from_slice(v);
            }
        }
    }
    Ok(out)
}

/// Decodes what [`encode_headers`] wrote; None when it is damaged.
#[must_use]
pub fn decode_headers(bytes: &[u8]) -> Option<Vec<Header>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut cursor = Cursor { bytes };
    let count = u16::from_be_bytes(cursor.array()?);
    let mut out = Vec::with_capacity(usize::from(count).min(64));
    for _ in 0..count {
        let key_len = u16::from_be_bytes(cursor.array()?);
        let key = String::from_utf8(cursor.take(usize::from(key_len))?.to_vec()).ok()?;
        let value_len = i32::from_be_bytes(cursor.array()?);
        let value = if value_len < 0 {
            None
        } else {
            Some(cursor.take(value_len as usize)?.to_vec())
        };
        out.push(Header { key, value });
    }
    Some(out)
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(n)?;
        self.bytes = tail;
        Some(head)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

/// A run of framed outputs of one shard, in the order in which they were emitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputFrames {
    bytes: Vec<u8>,
    count: u64,
}

impl OutputFrames {
    /// Frames read back from a spill file or an outbox. [`OutputFrames::iter`] stops with an error at damage.
    #[must_use]
    pub fn from_parts(bytes: Vec<u8>, count: u64) -> Self {
        OutputFrames { bytes, count }
    }
    /// Appends one output.
    pub fn push(&mut self, out: &OutputRef<'_>) {
        let key = out.key.unwrap_or_default();
        let value = out.value.unwrap_or_default();
        let flags = u8::from(out.key.is_some()) * HAS_KEY + u8::from(out.value.is_some()) * HAS_VALUE;
        self.bytes.reserve(out.frame_bytes());
        // In one piece: each growth of the vector asks anew whether there is room.
        let mut head = [0; FRAME_BYTES];
        head[..2].copy_from_slice(&out.sink.to_be_bytes());
        head[2] = flags;
        head[3..11].copy_from_slice(&out.timestamp.to_be_bytes());
        head[11..15].copy_from_slice(&out.partition.to_be_bytes());
        for (at, len) in head[15..]
            .chunks_exact_mut(4)
            .zip([key.len(), value.len(), out.headers.len()])
        {
            at.copy_from_slice(&(len as u32).to_be_bytes());
        }
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(out.headers);
        self.count += 1;
    }
    /// Room for so many bytes more.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }
    /// Appends all of `other`.
    pub fn append(&mut self, other: &OutputFrames) {
        self.bytes.extend_from_slice(&other.bytes);
        self.count += other.count;
    }
    /// The outputs in order; an `Err` item (once, last) when the bytes are damaged.
    pub fn iter(&self) -> impl Iterator<Item = Result<OutputRef<'_>, DamagedFrame>> {
        FrameIter {
            cursor: Cursor { bytes: &self.bytes },
            failed: false,
        }
    }
    /// Number of outputs.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }
    /// No outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// The framed bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Empties it, keeping the allocation.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

/// Framed outputs that do not parse: a damaged spill file or outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("framed outputs are damaged")]
pub struct DamagedFrame;

struct FrameIter<'a> {
    cursor: Cursor<'a>,
    failed: bool,
}

impl<'a> FrameIter<'a> {
    fn parse(&mut self) -> Option<OutputRef<'a>> {
        let c = &mut self.cursor;
        let sink = u16::from_be_bytes(c.array()?);
        let [flags] = c.array()?;
        let timestamp = i64::from_be_bytes(c.array()?);
        let partition = i32::from_be_bytes(c.array()?);
        let key_len = u32::from_be_bytes(c.array()?) as usize;
        let value_len = u32::from_be_bytes(c.array()?) as usize;
        let headers_len = u32::from_be_bytes(c.array()?) as usize;
        let key = c.take(key_len)?;
        let value = c.take(value_len)?;
        let headers = c.take(headers_len)?;
        Some(OutputRef {
            sink,
            timestamp,
            partition,
            key: (flags & HAS_KEY != 0).then_some(key),
            value: (flags & HAS_VALUE != 0).then_some(value),
            headers,
        })
    }
}

impl<'a> Iterator for FrameIter<'a> {
    type Item = Result<OutputRef<'a>, DamagedFrame>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.cursor.bytes.is_empty() {
            return None;
        }
        let parsed = self.parse();
        self.failed = parsed.is_none();
        Some(parsed.ok_or(DamagedFrame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_are_told_apart_and_headers_come_back() {
        let headers = vec![
            Header {
                key: "a".into(),
                value: Some(vec![1, 2]),
            },
            Header {
                key: "a".into(),
                value: None,
            },
        ];
        let encoded = encode_headers(&headers).expect("small");
        let outs = [
            OutputRef {
                sink: 1,
                timestamp: -1,
                partition: -1,
                key: None,
                value: Some(b""),
                headers: b"",
            },
            OutputRef {
                sink: 2,
                timestamp: 7,
                partition: 3,
                key: Some(b"k"),
                value: None,
                headers: &encoded,
            },
        ];
        let mut frames = OutputFrames::default();
        outs.iter().for_each(|o| frames.push(o));
        let back: Vec<_> = frames.iter().collect::<Result<_, _>>().expect("whole");
        assert_eq!(back, outs);
        assert_eq!(decode_headers(back[1].headers).expect("headers"), headers);
    }

    /// A header's key of more than 65,535 bytes was cut inside a character: what was written did not decode, and the job stopped for ever.
    #[test]
    fn headers_that_have_no_encoding_are_an_error_and_the_longest_come_back() {
        let header = |key: String| Header { key, value: None };
        let longest = vec![header("x".repeat(HEADER_KEY_MAX)); 2];
        let encoded = encode_headers(&longest).expect("as long as it may be");
        assert_eq!(decode_headers(&encoded).expect("headers"), longest);
        let euros = header("\u{20ac}".repeat(HEADER_KEY_MAX / 3 + 1));
        assert_eq!(encode_headers(&[euros]), Err(HeadersTooLarge::Key(65_538)));
        let most = vec![header("h".to_owned()); HEADERS_MAX];
        let encoded = encode_headers(&most).expect("as many as there may be");
        assert_eq!(decode_headers(&encoded).expect("headers"), most);
        let many = vec![header("h".to_owned()); HEADERS_MAX + 1];
        assert_eq!(encode_headers(&many), Err(HeadersTooLarge::Count(HEADERS_MAX + 1)));
    }

    #[test]
    fn a_cut_frame_is_an_error_and_not_the_end() {
        let mut frames = OutputFrames::default();
        frames.push(&OutputRef {
            sink: 0,
            timestamp: 0,
            partition: -1,
            key: Some(b"key"),
            value: Some(b"v"),
            headers: b"",
        });
        let cut = OutputFrames::from_parts(frames.bytes()[..frames.bytes().len() - 1].to_vec(), 1);
        assert_eq!(cut.iter().collect::<Vec<_>>(), vec![Err(DamagedFrame)]);
    }
}
